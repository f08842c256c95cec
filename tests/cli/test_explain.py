# SPDX-License-Identifier: Apache-2.0
"""`explain`: the plan of a pipeline, as text and as JSON."""
import re

import pytest


def shapes(plan):
    """[{field: "dtype[shape]"}] after each step."""
    return [{f["name"]: f"{f['dtype']}{f['shape']}" for f in s["fields"]}
            for s in plan["steps"]]


def test_types_and_shapes_after_each_step(mill):
    plan = mill.json("explain", "synthetic shape=8,6,3 count=50 | "
                     "normalize imagenet | cast f16 | select data | batch 4")
    assert shapes(plan) == [
        {"data": "u8[8, 6, 3]", "label": "i64[]"},
        {"data": "f32[3, 8, 6]", "label": "i64[]"},
        {"data": "f16[3, 8, 6]", "label": "i64[]"},
        {"data": "f16[3, 8, 6]"},
        {"data": "f16[3, 8, 6]"}]
    assert [s["name"] for s in plan["steps"]] == \
        ["synthetic", "normalize", "cast", "select", "batch"]


def test_frames_are_joined_and_each_step_has_its_time(mill):
    p = ("synthetic shape=16000 dtype=i16 count=40 | select data | "
         "stft rate=16000 | mel rate=16000 | log | batch 4")
    plan = mill.json("explain", p)
    assert [s.get("joined") for s in plan["steps"]] == [
        None, None, [2, 4], [2, 4], [2, 4], None]
    assert shapes(plan)[2:5] == [{"data": "f32[99, 513]"},
                                 {"data": "f32[99, 80]"},
                                 {"data": "f32[99, 80]"}]
    assert "steps 3 to 5 are one pass" in mill("explain", p).stdout
    steps = {s["name"]: s for s in mill.json("run", p)["steps"]}
    assert steps["stft"]["bytes_out"] == steps["mel"]["bytes_in"]
    assert steps["mel"]["bytes_in"] == 40 * 99 * 513 * 4
    assert steps["log"]["bytes_out"] == 40 * 99 * 80 * 4
    for name in ("stft", "mel", "log"):
        assert steps[name]["calls"] == 40 and steps[name]["mean_us"] > 0
    assert steps["stft"]["mean_us"] > steps["mel"]["mean_us"]


def test_counts_of_samples_and_batches(mill):
    p = "synthetic shape=2 count=50 | batch 8"
    plan = mill.json("explain", p, "--threads", 3, "--memory", "32M")
    assert plan["samples"] == plan["epoch_samples"] == 50
    assert plan["epoch_batches"] == 7 and plan["threads"] == 3
    assert plan["memory"] == 32 << 20 and plan["pipeline"] == p
    assert plan["batch_bytes"] == 8 * (2 + 8) and plan["ring"] >= 1
    dropped = mill.json("explain", p + " drop_last=yes")
    assert (dropped["epoch_samples"], dropped["epoch_batches"]) == (48, 6)


def test_dimensions_that_differ_are_minus_one_in_json(mill, ragged):
    plan = mill.json("explain", f"files {ragged} | cast f32 | batch 4")
    assert shapes(plan)[:2] == [{"data": "u8[-1]", "label": "i64[]"},
                                {"data": "f32[-1]", "label": "i64[]"}]


def test_text_tells_dense_ragged_and_padded_batches(mill, ragged):
    dense = mill("explain", "synthetic shape=3,2 count=9 | batch 4").stdout
    assert re.search(r"^ 2  batch .*\n +-> data u8\[4 3 2\], label i64\[4\];",
                     dense, re.M)
    assert "9 samples; per epoch 9 in 3 batches" in dense
    plain = mill("explain", f"files {ragged} | batch 4").stdout
    assert re.search(r"batch .*\n +-> data u8\[\?\] with offsets, "
                     r"label i64\[4\];", plain)
    padded = mill("explain", f"files {ragged} | batch 4 pad=0").stdout
    assert re.search(r"batch .*\n +-> data u8\[4 \?\], label i64\[4\];",
                     padded)
    assert "then padded" in padded and "then padded" not in plain


def test_text_says_what_is_random_and_what_it_writes_where(mill):
    out = mill("explain", "synthetic shape=4 count=9 | speckle | invert | "
               "batch 4", "--plugin", mill.plugin).stdout
    lines = [line for line in out.splitlines() if "->" in line]
    assert ["random" in line for line in lines] == [False, True, False, False]
    assert "straight into the batch" in lines[2]
    assert "in the worker's cache" in lines[0]
    plan = mill.json("explain", "synthetic shape=4 count=9 | speckle | "
                     "batch 4", "--plugin", mill.plugin)
    assert [s["random"] for s in plan["steps"]] == [False, True, False]


def test_text_of_each_step_is_a_pipeline_again(mill, tmp_path):
    p = "synthetic shape=4,4,3 count=30 | normalize mean=0.5 std=0.25 | " \
        "batch 8"
    plan = mill.json("explain", p)
    again = " | ".join(s["text"] for s in plan["steps"])
    assert mill.digest(again) == mill.digest(p)


def test_text_of_a_path_with_blanks_is_a_pipeline_again(mill, tmp_path):
    d = tmp_path / "it's a b"
    d.mkdir()
    (d / "x").write_bytes(b"abc")
    p = f'files "{d}" | batch 1'
    again = " | ".join(s["text"] for s in mill.json("explain", p)["steps"])
    assert mill.digest(again) == mill.digest(p)


def test_budget_that_holds_few_batches_is_told(mill):
    out = mill("explain", "synthetic shape=100,100 count=99 | batch 16",
               "--memory", "1M", "--threads", 2).stdout
    assert "the memory budget holds" in out


def test_explain_reads_no_samples(mill, tmp_path):
    (tmp_path / "gone").symlink_to("nowhere")
    mill("explain", f"files {tmp_path} | batch 1")
    mill("run", f"files {tmp_path} | batch 1", code=1)


@pytest.mark.parametrize("name", ["jpeg", "html"])
def test_real_data_is_planned_and_read(mill, name):
    d = mill.data / name
    if not d.is_dir():
        pytest.skip(f"no real data at {d}")
    plan = mill.json("explain", f"files {d} | batch 32")
    files = [p for p in d.rglob("*") if p.is_file()
             and p.parent != d and not p.name.startswith(".")]
    assert plan["samples"] == len(files)
    r = mill.json("run", f"files {d} | batch 32", "--samples", 64)
    assert r["samples"] == 64 and r["bad_samples"] == 0


def test_real_data_gives_the_same_digest_however_it_is_read(mill):
    d = mill.data / "jpeg"
    if not d.is_dir():
        pytest.skip(f"no real data at {d}")
    p = f"files {d} | batch 16"
    got = {mill.digest(p, "--samples", 96, "--threads", t, "--fetch", f,
                       "--memory", m)
           for t, f, m in ((1, "direct", "1G"), (4, "ahead", "64M"),
                           (2, "auto", "16M"))}
    assert len(got) == 1
