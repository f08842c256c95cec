# SPDX-License-Identifier: Apache-2.0
"""`trace` of a pipeline: what it records, what it says, and what it does when
it is killed, when the disk is full, or when the file is no trace."""
import json
import os
import signal
import subprocess
import time

import pytest

PIPELINE = "synthetic shape=64 dtype=u8 count=400 | normalize center | batch 32"


def traced(mill, tmp_path, pipeline, *args, name="t.mrt"):
    """(the summary, the file)"""
    to = tmp_path / name
    return mill.json("trace", pipeline, "-o", to, *args), to


def test_each_call_of_each_step_is_there(mill, tmp_path):
    s, _ = traced(mill, tmp_path, PIPELINE, "--epochs", 3)
    assert s["samples"] == 1200 and s["batches"] == 39 and s["whole"]
    assert {x["name"]: x["time"]["count"] for x in s["steps"]} == {
        "read": 1200, "normalize": 1200}
    assert s["steps"][1]["bytes_out"] == 1200 * 64 * 4
    assert s["wait"]["count"] == s["prepare"]["count"] == 39
    assert s["lost"] == s["failed_samples"] == 0
    assert s["meta"]["pipeline"] == PIPELINE


def test_known_cost_is_found_again(mill, tmp_path):
    # Spinning for 500 us: never less, and rarely interrupted for as long.
    s, _ = traced(mill, tmp_path, "synthetic shape=8 count=400 cost=500us | "
                  "batch 20", "--threads", 1)
    read = s["steps"][0]
    assert read["name"] == "read"
    assert 0.49 <= read["time"]["p50_ms"] <= 1, read


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_budget_closes(mill, tmp_path, threads):
    s, _ = traced(mill, tmp_path, "synthetic shape=8 count=800 cost=200us | "
                  "batch 20", "--threads", threads)
    assert s["workers"] == threads
    assert sum(s["budget"].values()) == pytest.approx(
        threads * s["seconds"], rel=0.01)
    assert all(v >= 0 for v in s["budget"].values())


def identity(mill, file):
    """The spans that do not depend on timing, sorted: by the Chrome export
    these tests would trust us with both; so from the bytes themselves."""
    data, out, at = file.read_bytes(), [], 64
    while at < len(data):
        assert data[at:at + 4] == b"CHNK"
        kind, size = data[at + 4:at + 8], int.from_bytes(
            data[at + 12:at + 16], "little")
        at += 24
        for i in range(at, at + size, 32) if kind == b"SPAN" else ():
            span = data[i:i + 32]
            if span[22] & 0x3f in (1, 2, 3, 7, 8, 9):
                out.append(span[16:28])
        at += size
    return sorted(out)


def test_two_runs_leave_the_same_spans(mill, tmp_path):
    a, b = (traced(mill, tmp_path, PIPELINE, "--epochs", 2, "--threads", n,
                   name=f"{n}.mrt")[1] for n in (1, 3))
    assert identity(mill, a) == identity(mill, b)


def test_the_summary_is_a_text_too(mill, tmp_path):
    _, file = traced(mill, tmp_path, PIPELINE)
    text = mill("trace", file, "--summary").stdout
    for word in ("normalize", "p99", "head-of-line blocking", "budget",
                 "slowest samples", "together", "100.0%"):
        assert word in text, (word, text)


def test_slow_samples_are_named(mill, tmp_path, npy_file=None):
    folder = tmp_path / "d" / "c"
    folder.mkdir(parents=True)
    for i in range(30):
        (folder / f"s{i:02d}.bin").write_bytes(b"x" * (100 + i))
    s, _ = traced(mill, tmp_path, f"files '{tmp_path / 'd'}' | batch 10")
    assert len(s["slowest"]) == 10
    assert all(x["key"].startswith("c/s") for x in s["slowest"])
    took = [x["ms"] for x in s["slowest"]]
    assert took == sorted(took, reverse=True)


def test_bad_samples_are_marked(mill, tmp_path):
    folder = tmp_path / "d" / "c"
    folder.mkdir(parents=True)
    for i in range(20):
        (folder / f"s{i:02d}.jpg").write_bytes(b"no picture")
    s, _ = traced(mill, tmp_path, f"files '{tmp_path / 'd'}' | decode_image | "
                  "resize 8x8 | batch 10", "--on-error", "skip")
    assert s["failed_samples"] == s["samples"] == 20


def test_a_killed_run_leaves_what_was_until_then(mill, tmp_path):
    file = tmp_path / "k.mrt"
    p = subprocess.Popen(
        [str(mill.bin), "trace", "synthetic shape=8 count=1000 cost=50us | "
         "batch 10", "--epochs", "1000000", "-o", str(file)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 30
        while not file.exists() or file.stat().st_size < 200_000:
            assert time.monotonic() < deadline and p.poll() is None
            time.sleep(0.02)
    finally:
        p.send_signal(signal.SIGKILL)
        p.wait()
    s = mill.json("trace", file)
    assert not s["whole"] and s["samples"] > 1000
    assert "CUT OFF" in mill("trace", file).stdout


def test_ctrl_c_ends_the_trace_well(mill, tmp_path):
    file = tmp_path / "c.mrt"
    p = subprocess.Popen(
        [str(mill.bin), "trace", "--json", "synthetic shape=8 count=1000 "
         "cost=50us | batch 10", "--epochs", "1000000", "-o", str(file)],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 30
    while not file.exists() or file.stat().st_size < 100_000:
        assert time.monotonic() < deadline and p.poll() is None
        time.sleep(0.02)
    p.send_signal(signal.SIGINT)
    out, _ = p.communicate(timeout=30)
    assert p.returncode == 0 and json.loads(out)["whole"]


def test_a_full_disk_ends_the_trace_not_the_run(mill, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk],
            stderr=subprocess.DEVNULL).returncode:
        pytest.skip("cannot mount a small tmpfs here")
    try:
        r = mill("run", "synthetic shape=8 count=40000 | batch 10", "--json",
                 "--trace", disk / "t.mrt", code=1)
        assert json.loads(r.stdout)["samples"] == 40000
        assert "the trace ends here" in r.stderr and "t.mrt" in r.stderr
        s = mill.json("trace", disk / "t.mrt")
        assert not s["whole"] and s["spans"] > 100
        # `trace` says what there is, and that nobody was too slow
        r = mill.fails("trace", "synthetic shape=8 count=40000 | batch 10",
                       "-o", disk / "t.mrt", code=1,
                       says=("No space left", "could not be written"))
        assert "CUT OFF" in r.stdout and "LOST" not in r.stderr + r.stdout
    finally:
        subprocess.run(["umount", disk], check=True)


@pytest.mark.parametrize("content, says", [
    (b"", "not a trace"), (b"MRTRACE1", "not a trace"),
    (b"x" * 100, "not a trace")])
def test_what_is_no_trace_is_refused(mill, tmp_path, content, says):
    file = tmp_path / "x.mrt"
    file.write_bytes(content)
    mill.fails("trace", file, code=1, says=(says, "x.mrt"))


def test_a_trace_that_cannot_be_made_is_said_at_once(mill, tmp_path):
    mill.fails("trace", PIPELINE, "-o", tmp_path / "no" / "t.mrt", code=1,
               says="no/t.mrt")


def test_ranks_are_merged_onto_one_clock(mill, tmp_path):
    """Both ran at the same time, so that neither holds up the other."""
    pipeline = "synthetic shape=8 count=600 cost=500us | batch 10"
    runs = [subprocess.Popen(
        [str(mill.bin), "trace", pipeline, "--threads", "1", "--rank",
         f"{r}/2", "-o", str(tmp_path / "t.mrt")], stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL) for r in range(2)]
    assert [p.wait(timeout=60) for p in runs] == [0, 0]
    files = [tmp_path / f"t.rank{r}.mrt" for r in range(2)]
    each = [mill.json("trace", f) for f in files]
    assert [s["rank"] for s in each] == [0, 1]
    both = mill.json("trace", *files, "-o", tmp_path / "both.mrt")
    assert both["samples"] == 600 and both["batches"] == 60
    assert both["workers"] == 2 and both["whole"]
    assert (both["rank"], both["ranks"]) == (0, 1)
    assert both["spans"] == sum(s["spans"] for s in each)
    assert both["out_of_order"] == 0 and both["head_of_line_seconds"] == 0
    # side by side, not one after the other
    assert both["seconds"] < 0.9 * sum(s["seconds"] for s in each)
    mill.fails("trace", *files, code=2, says="-o")
    mill.fails("trace", files[0], tmp_path / "no.mrt", "-o", tmp_path / "x.mrt",
               code=1, says="no.mrt")


def test_merged_traces_become_what_the_name_says(mill, tmp_path):
    for r in range(2):
        mill("trace", PIPELINE, "--rank", f"{r}/2", "-o", tmp_path / "t.mrt")
    files = [tmp_path / f"t.rank{r}.mrt" for r in range(2)]
    mill("trace", *files, "-o", tmp_path / "m.json")
    assert json.loads((tmp_path / "m.json").read_text())["traceEvents"]
    assert not (tmp_path / "m.json.mrt").exists()
    before = files[0].read_bytes()
    mill.fails("trace", *files, "-o", files[0], code=2,
               says="t.rank0.mrt is one of the traces")
    assert files[0].read_bytes() == before
    (tmp_path / "link.mrt").symlink_to(files[0])
    mill.fails("trace", *files, tmp_path / "link.mrt", "-o",
               tmp_path / "x.mrt", code=2, says="the same trace")
    mill.fails("trace", *files, "-o", tmp_path / "x.foo", code=2, says=".mrt")
    assert not list(tmp_path.glob("x.*"))


def test_a_name_that_a_trace_cannot_become_is_said_before_the_run(
        mill, tmp_path):
    never = "synthetic shape=8 count=1000 cost=1ms | batch 10"
    mill.fails("trace", never, "--epochs", 1000, "-o", tmp_path / "t.foo",
               code=2, says=("t.foo", ".html; .mrt"))
    mill.fails("trace", "-o", tmp_path / "t.foo", "--", "touch",
               tmp_path / "ran", code=2, says=("t.foo", ".html; .mrt"))
    assert os.listdir(tmp_path) == []


def test_where_a_trace_cannot_be_is_said_with_the_reason(mill):
    r = mill.fails("trace", "-o", "/sys/t.mrt", "--", "true", code=1,
                   says="/sys/t.mrt")
    assert "No such file" not in r.stderr


COMMAND = ["--", "true"]


@pytest.mark.parametrize("words, options", [
    (["trace", *COMMAND], ["threads=2", "storage=hdd", "cold", "epochs=2",
                           "seconds=1", "rank=0/2", "trace=x.mrt"]),
    (["trace", "FILE"], ["threads=2", "cold", "sample=9"]),
    (["trace", PIPELINE], ["trace=x.mrt"]),
    (["diagnose", *COMMAND], ["accelerator=9", "cache=1G", "storage=hdd",
                              "job-only", "step-time=1ms", "threads=2"]),
    (["diagnose", PIPELINE], ["keep-running", "which-loader=2", "epochs=2",
                              "trace=x.mrt", "cold"]),
    (["diagnose", "--from=x.json"], ["threads=2", "seconds=3"]),
    (["prepare", PIPELINE, "--out=x"], ["epochs=2", "samples=9"]),
    (["convert", PIPELINE, "--out=x"], ["order=block"]),
    (["run", PIPELINE], ["sample=9", "events=cycles"]),
])
def test_an_option_that_means_nothing_is_refused(mill, tmp_path, words,
                                                 options):
    if "FILE" in words:
        mill("trace", PIPELINE, "-o", tmp_path / "t.mrt")
        words = ["trace", tmp_path / "t.mrt"]
    before = os.listdir(tmp_path)
    for o in options:
        mill.fails(words[0], f"--{o}", *words[1:], code=2, cwd=tmp_path,
                   says=(f"--{o.partition('=')[0]} means nothing to "
                         f"`{words[0]}", "leave it out"))
    assert os.listdir(tmp_path) == before


@pytest.mark.parametrize("ending", ["json", "html", "csv", "folded"])
def test_a_trace_becomes_what_its_name_says(mill, tmp_path, ending):
    to = tmp_path / f"t.{ending}"
    mill("trace", PIPELINE, "-o", to)
    least = 10 if ending == "folded" else 100   # few samples, few lines
    assert to.stat().st_size > least
    assert os.listdir(tmp_path) == [to.name]
    if ending == "json":
        assert json.loads(to.read_text())["traceEvents"]
    mill("trace", PIPELINE, "-o", tmp_path / "u.mrt", "--sample", 0)
    mill("trace", tmp_path / "u.mrt", "-o", tmp_path / f"u.{ending}")
    assert (tmp_path / f"u.{ending}").stat().st_size > least
    mill.fails("trace", tmp_path / "u.mrt", "-o", tmp_path / "u.xyz", code=2,
               says=".json, .folded, .csv or .html; .mrt")
    # both the summary and the file
    s = mill.json("trace", tmp_path / "u.mrt", "-o", tmp_path / f"v.{ending}")
    assert s["samples"] == 400
    assert (tmp_path / f"v.{ending}").stat().st_size > least
