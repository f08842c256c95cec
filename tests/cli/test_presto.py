# SPDX-License-Identifier: Apache-2.0
"""bench/presto, the experiments of a study, at the smallest size: that they
run and what they write; and the comparison that bench/tune.py makes, on
answers that are made up. Speed is no matter here."""
import copy
import json
import subprocess
import sys

import pytest

from conftest import PATIENCE, ROOT

SMALL = ("--quick", "--samples", "8", "--seconds", "0.02", "--rounds", "1",
         "--pipelines", "cv")


def presto(mill, *args, code=0):
    r = subprocess.run([str(mill.root / "bench" / "presto"), "--build",
                        str(mill.build), *map(str, args)], text=True,
                       capture_output=True, timeout=2 * PATIENCE)
    assert r.returncode == code, (r.stdout, r.stderr)
    return r


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("presto")
    return ("--work", root / "work", "--results", root / "results"), root


def read(folders, name):
    return json.loads((folders[1] / "results" / f"{name}.json").read_text())


def test_strategies_of_a_pipeline_are_compared(mill, folders):
    r = presto(mill, "table1", "fig6", *SMALL, *folders[0])
    assert "## table1" in r.stdout and "| resized" in r.stdout
    [table] = read(folders, "fig6")["tables"]
    got = {x["strategy"]: x for x in table["data"]}
    assert list(got) == ["unprocessed", "concatenated", "decoded", "resized",
                         "pixel-centered"]
    for x in got.values():
        assert x["samples_per_s"]["median"] > 0
    # u8 to f32 is stored as such, not left to be done on load
    wide = got["pixel-centered"]["bytes"] / got["resized"]["bytes"]
    assert 3.5 < wide < 4.1


def test_data_is_made_once(mill, folders):
    presto(mill, "table2", *SMALL, *folders[0])
    first = (folders[1] / "work" / "cv-8" / "complete").stat().st_mtime_ns
    r = presto(mill, "table2", "table3", *SMALL, *folders[0])
    assert "making the data of cv" not in r.stderr
    assert (folders[1] / "work" / "cv-8" / "complete").stat().st_mtime_ns \
        == first
    assert len(read(folders, "table3")["tables"][0]["rows"]) == 8


def test_wrong_words_are_refused_with_those_there_are(mill):
    assert "fig14" in presto(mill, "fig99", code=2).stderr
    assert "cv2-jpg" in presto(mill, "table1", "--pipelines", "video",
                               code=2).stderr
    assert "must be above 0" in presto(mill, "table1", "--samples", "0",
                                       code=2).stderr


# ---- the comparison of two tunings ----

@pytest.fixture
def tune():
    sys.path.insert(0, str(ROOT / "bench"))
    try:
        import tune
    finally:
        sys.path.pop(0)
    return tune


def answers(rates, measured, best):
    """What tune and tune --exhaustive might say: a strategy for each rate."""
    made = [{"id": i, "split": i - 1, "after": f"step{i}", "codec": "none",
             "shuffle": False, "threads": 2, "order": "block", "shards": 1,
             "cache": "none", "offline_s": 2.0 * i, "warm_per_s": r,
             "allowed": True} for i, r in enumerate(rates)]
    quick = {"best": best, "seconds": 10.0, "strategies": made}
    full = {"threads": 2, "samples": 1000, "seconds": 300.0,
            "objective": {"kind": "epochs", "epochs": 30},
            "strategies": copy.deepcopy(made)}
    for s, m in zip(full["strategies"], measured):
        s["measured"] = {"per_s": m, "low": m * 0.98, "high": m * 1.02}
    return quick, full


def test_a_pick_is_judged_by_the_measured_total_time(tune):
    got = tune.compare(*answers([100, 1000, 1010], [100, 990, 1000], 1))
    assert got["near"] and got["overlap"]
    # 2 s + 30 epochs of 1000/990 s, against 4 s + 30 epochs of 1 s
    assert got["behind"] == 0 and got["best"] == "after step1, block"
    far = tune.compare(*answers([100, 1000, 1010], [100, 990, 1000], 0))
    assert not far["near"] and far["behind"] > 8


def test_what_is_not_allowed_is_not_the_best(tune):
    quick, full = answers([100, 1000], [100, 1000], 0)
    full["strategies"][1]["allowed"] = False
    assert tune.compare(quick, full)["near"]


def test_predictions_count_as_close_within_15_percent(tune):
    got = tune.compare(*answers([100, 1149, 1151, 851],
                                [100, 1000, 1000, 1000], 1))
    assert got["close"] == 3 and got["strategies"] == 4
    quick, full = answers([100, 1000], [100, 1000], 0)
    quick["strategies"][0]["predicted_per_s"] = 300     # then measured
    assert tune.compare(quick, full)["close"] == 1
    quick, full = answers([100, 1000], [100, 1000], 0)
    quick["strategies"].pop()       # not predicted at all
    got = tune.compare(quick, full)
    assert got["close"] == 1 and got["strategies"] == 2


def test_strategies_that_were_not_measured_do_not_count(tune):
    quick, full = answers([100, 500, 1000], [100, 500, 1000], 1)
    del full["strategies"][2]["measured"]
    assert tune.compare(quick, full)["strategies"] == 2
    del full["strategies"][1]["measured"]
    with pytest.raises(Exception, match="was not measured: after step1"):
        tune.compare(quick, full)
