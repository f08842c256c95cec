# SPDX-License-Identifier: Apache-2.0
"""What `run` prints, as text and as JSON."""
import json
import re

import numpy as np
import pytest

KEYS = """samples batches bytes_read bytes_out seconds samples_per_s mb_per_s
threads first_batch_ms epochs bad_samples peak_rss_mb digest steps budget
verdict""".split()
STEP = """name calls total_ms mean_us p50_us p99_us bytes_in bytes_out
share""".split()
BUDGET = "steps fetch wait_in wait_out engine unattributed".split()


@pytest.fixture
def report(mill, pictures):
    def run(*args):
        r = mill("run", f"npy {pictures}/[0-9].npy labels={pictures}/labels."
                 "npy | normalize imagenet | cast f16 | batch 16", "--json",
                 *args)
        assert r.stderr == ""
        return r.stdout
    return run


def test_json_is_one_object_and_nothing_else(report):
    text = report("--digest")
    got, end = json.JSONDecoder().raw_decode(text)
    assert isinstance(got, dict) and text[end:] == "\n"


def test_json_has_all_keys_of_the_contract(report):
    got = json.loads(report("--digest"))
    assert not set(KEYS) - set(got)
    assert all(not set(STEP) - set(s) for s in got["steps"])
    assert set(BUDGET) == set(got["budget"])
    assert got["verdict"]["bottleneck"] in ("cpu", "storage", "consumer",
                                            "memory")
    assert got["verdict"]["evidence"] and got["verdict"]["advice"]


def test_json_counts_samples_batches_and_bytes(report):
    got = json.loads(report("--epochs", 3, "--threads", 2))
    assert (got["samples"], got["batches"], got["epochs"]) == (300, 21, 3)
    assert got["bytes_read"] == 300 * 192
    assert got["bytes_out"] == 300 * (192 * 2 + 8)
    assert got["threads"] == 2 and got["bad_samples"] == 0
    assert got["bad"] == []
    assert got["seconds"] > 0 and got["first_batch_ms"] > 0
    assert got["peak_rss_mb"] > 1
    assert got["samples_per_s"] == pytest.approx(300 / got["seconds"], 1e-3)
    assert got["mb_per_s"] == pytest.approx(
        got["bytes_out"] / 1e6 / got["seconds"], 1e-3)


def test_each_step_is_called_once_per_sample(report):
    got = json.loads(report("--epochs", 2, "--threads", 3))
    assert [s["name"] for s in got["steps"]] == ["read", "normalize", "cast"]
    assert [s["calls"] for s in got["steps"]] == [200] * 3
    assert [s["bytes_in"] for s in got["steps"]] == \
        [200 * 192, 200 * 192, 200 * 768]
    assert [s["bytes_out"] for s in got["steps"]] == \
        [200 * 192, 200 * 768, 200 * 384]
    assert all(s["p50_us"] <= s["p99_us"] for s in got["steps"])


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_budget_adds_up_to_threads_times_seconds(mill, threads):
    # Long enough that starting the threads is not all there is.
    got = mill.json("run", "synthetic shape=32,32,3 count=300 cost=1ms | "
                    "normalize imagenet | batch 16", "--threads", threads)
    whole = got["threads"] * got["seconds"]
    assert sum(got["budget"].values()) == pytest.approx(whole, rel=0.01)
    assert all(v >= 0 for v in got["budget"].values())
    assert got["threads"] == threads


def test_budget_of_a_run_that_is_cut_off_adds_up(mill):
    got = mill.json("run", "synthetic shape=8 count=1000 cost=20ms | "
                    "batch 32", "--threads", 1, "--seconds", 1)
    assert got["batches"] <= 1 and got["seconds"] > 0.9
    assert sum(got["budget"].values()) == pytest.approx(got["seconds"],
                                                        rel=0.01)


def test_budget_of_reading_ahead_adds_up(mill, ragged):
    got = mill.json("run", f"files {ragged} | batch 16", "--epochs", 50,
                    "--fetch", "ahead", "--threads", 2)
    assert sum(got["budget"].values()) == pytest.approx(
        2 * got["seconds"], rel=0.01)


def test_what_is_slow_to_unpack_is_to_be_stored_otherwise(mill, tmp_path):
    for i in range(40):
        (tmp_path / f"{i}.txt").write_text(
            "".join(f"{i * k % 997} sheep, " for k in range(40000)))
    mill("prepare", f"files {tmp_path}", "--out", f"{tmp_path}-set",
         "--codec", "gzip")
    got = json.loads(mill("run", f"records {tmp_path}-set | batch 4",
                          "--epochs", "3", "--json").stdout)
    assert got["verdict"]["bottleneck"] == "cpu"
    assert "faster codec" in got["verdict"]["advice"]
    # what is not packed is not
    got = json.loads(mill("run", f"files {tmp_path} ext=txt | batch 4",
                          "--json").stdout)
    assert "codec" not in got["verdict"]["advice"]


def test_digest_is_empty_unless_asked_for(report):
    assert json.loads(report())["digest"] == ""
    assert re.fullmatch("[0-9a-f]{16}",
                        json.loads(report("--digest"))["digest"])


def test_text_names_rate_steps_budget_and_bottleneck(mill, pictures):
    r = mill("run", f"npy {pictures}/0.npy | normalize imagenet | batch 10",
             "--digest", "--threads", 2)
    assert r.stderr == ""
    assert re.match(r"30 samples in 3 batches, [\d.]+ s: ", r.stdout)
    assert "(stopped)" not in r.stdout
    for word in ("read", "normalize", *BUDGET, "bottleneck:"):
        assert re.search(rf"^\s*{word}", r.stdout, re.M), word
    assert re.search(r"^digest [0-9a-f]{16}$", r.stdout, re.M)
    assert "bad samples" not in r.stdout


def test_text_and_json_have_the_same_digest(mill, pictures):
    p = f"npy {pictures}/0.npy | batch 10"
    text = mill("run", p, "--digest").stdout
    assert f"digest {mill.digest(p)}\n" in text


def test_progress_is_shown_when_asked_for_and_wiped_in_the_end(mill):
    r = mill("run", "synthetic shape=4 count=100 | batch 10",
             env={"MILLRACE_PROGRESS": "1"})
    assert r.stderr.startswith("\rrun  10 of 100  10 %")
    assert r.stderr.endswith("\r\x1b[K")


def test_samples_limit_counts_over_epochs(mill):
    got = mill.json("run", "synthetic shape=4 count=10 | batch 4",
                    "--samples", 25)
    # 4 + 4 + 2 twice, then 4 and the whole batch that has the 25th
    assert got["samples"] == 28 and got["epochs"] == 2
    assert got["batches"] == 8


def test_smaller_of_epochs_and_samples_ends_the_run(mill):
    p = "synthetic shape=4 count=10 | batch 4"
    assert mill.json("run", p, "--samples", 25, "--epochs", 1)[
        "samples"] == 10
    assert mill.json("run", p, "--samples", 5, "--epochs", 9)["samples"] == 8


def test_huge_numbers_of_epochs_work(mill):
    got = mill.json("run", "synthetic shape=4 count=100 | batch 4",
                    "--epochs", 10**18, "--seconds", "200ms")
    assert got["stopped"] and got["samples"] > 0


def test_json_is_valid_for_names_that_are_not_utf8(mill, tmp_path):
    (tmp_path / "good").write_bytes(b"x")
    (tmp_path / "bad\udcff\x01\"\\").symlink_to("nowhere")
    r = mill.json("run", f"files {tmp_path} | batch 1", "--on-error", "skip")
    assert r["samples"] == 1 and r["bad"][0]["key"].startswith("bad")


# ---- values of the batches, by the example program ----

def fields(lines):
    return [line.split() for line in lines if line.startswith("  ")]


def test_dense_batches_have_shapes_types_and_values(mill, tmp_path):
    a = np.arange(5 * 2 * 3, dtype=np.float32).reshape(5, 2, 3)
    np.save(tmp_path / "a.npy", a)
    got = fields(mill.loader(f"npy {tmp_path}/a.npy | batch 3", "--order",
                             "sequential"))
    assert got == [["data", "f32[3,2,3]", "sum", f"{a[:3].sum():.17g}"],
                   ["data", "f32[2,2,3]", "sum", f"{a[3:].sum():.17g}"]]


def test_ragged_batches_join_samples_end_to_end(mill, tmp_path):
    for i in range(4):
        (tmp_path / f"{i}").write_bytes(bytes([i + 1]) * (i + 1))
    got = fields(mill.loader(f"files {tmp_path} | batch 4"))
    assert got[0] == ["data", "u8[10]", "sum", "30", "ragged"]
    assert got[1] == ["label", "i64[4]", "sum", "0"]


def test_padded_batches_are_as_wide_as_their_largest_sample(mill, tmp_path):
    for i in range(4):
        (tmp_path / f"{i}").write_bytes(bytes([i + 1]) * (i + 1))
    got = fields(mill.loader(f"files {tmp_path} | batch 2 pad=100",
                             "--order", "sequential"))
    assert got[0] == ["data", "u8[2,2]", "sum", "105", "padded"]
    assert got[2] == ["data", "u8[2,4]", "sum", "125", "padded"]


def test_select_keeps_fields_in_the_order_given(mill):
    got = fields(mill.loader("synthetic shape=2 count=4 | select label,data"
                             " | batch 4"))
    assert [f[0] for f in got] == ["label", "data"]
    got = fields(mill.loader("synthetic shape=2 count=4 | select label"
                             " | batch 4"))
    assert got == [["label", "i64[4]", "sum", "6"]]


def test_example_program_prints_statistics(mill):
    last = mill.loader("synthetic shape=2 count=10 | batch 4")[-1]
    assert last.startswith("10 samples in 3 batches, ")
    assert "bottleneck: " in last


def test_example_program_fails_with_the_librarys_message(mill):
    assert "did you mean 'batch'" in mill.loader("synthetic | bach 3", code=1)
    assert "usage: loader" in mill.loader(code=2)
