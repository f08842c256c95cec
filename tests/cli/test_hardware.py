# SPDX-License-Identifier: Apache-2.0
"""Counters and samples per step, on a pipeline whose steps cost what is
known: tests/tools/work.c. tests/tools/fakepmu.c stands in for other machines'
counters and rules."""
import json
import os
import resource
import shutil
import struct
import subprocess
import tempfile

import numpy as np
import pytest

from conftest import BUILD, PATIENCE, checked, sanitizers

WORK = BUILD / "tests" / "work.so"
FAKE = BUILD / "tests" / "fakepmu.so"
TOOL = BUILD / "tests" / "hardware_tool"
PAGE = resource.getpagesize()

slow = pytest.mark.skipif(sanitizers() != "none",
                          reason="a sanitizer's time is not the step's")
preloads = pytest.mark.skipif(
    sanitizers() != "none", reason="a sanitizer must be loaded first")


def shown(path, how="json"):
    r = subprocess.run([str(TOOL), how, str(path)], text=True,
                       capture_output=True, timeout=PATIENCE)
    checked(r)
    assert r.returncode == 0, r.stderr
    return json.loads(r.stdout) if how == "json" else r.stdout


@pytest.fixture
def record(mill, tmp_path):
    """Runs a pipeline with a trace; returns its path."""
    def run(pipeline, *args, work=WORK, **kw):
        path = tmp_path / "t.mrt"
        mill("run", pipeline, "--plugins", work, "--epochs", 1, "--trace",
             path, *args, **kw)
        return path
    return run


def counters(path):
    """{step: {event: (calls, count)}}"""
    return {s["step"]: {k: (v["calls"], v["count"])
                        for k, v in s["events"].items()}
            for s in shown(path)["counters"]}


def perf_works():
    text = shown_events("task-clock")
    return text.get("via") is None


def shown_events(name):
    with tempfile.NamedTemporaryFile(suffix=".mrt") as f:
        subprocess.run([str(BUILD / "millrace"), "run",
                        "synthetic shape=4 count=4 | batch 4", "--epochs", "1",
                        "--events", name, "--trace", f.name], check=True,
                       capture_output=True, timeout=PATIENCE)
        return shown(f.name)["events"][0]


needs_perf = pytest.mark.skipif(not perf_works(),
                                reason="perf_event_open is not allowed here")


def fake(how):
    return {"LD_PRELOAD": str(FAKE), "FAKE_PERF": how}


# ---- counters ----

def stolen():
    """Ticks that the host of a virtual machine kept for itself."""
    with open("/proc/stat") as f:
        return int(f.readline().split()[8])


def found_within(limit, error):
    """Of some tries, in one of which the host of a virtual machine took
    nothing: such time counts for perf and not for the clock that the steps
    burn by."""
    found = []
    for _ in range(12):
        before, e = stolen(), error()
        if e < limit:
            return
        if stolen() == before:
            found.append(e)
    if len(found) < 3:
        pytest.skip("the host took time in most of 12 tries")
    assert min(found) < limit


@slow
def test_cpu_time_of_a_step_is_found_within_2_percent(record):
    def error():
        c = counters(record("synthetic shape=64 count=60 | burn us=10000 | "
                            "hide us=5000 | batch 10", "--threads", 2))
        assert c["burn"]["task-clock"][0] > 50
        return max(abs(c[step]["task-clock"][1] / c[step]["task-clock"][0] /
                       (us * 1000) - 1)
                   for step, us in (("burn", 10000), ("hide", 5000)))
    found_within(0.02, error)


def sums(path):
    """Each CNTR of the trace's threads: {thread: [{(step, event): (calls,
    count, squares)}]}, by the numbers that they have in the file."""
    data, at, found = path.read_bytes(), 64, {}
    while at < len(data):
        kind, thread, size = struct.unpack_from("<4sII", data, at + 4)
        at += 24
        if kind == b"CNTR":
            found.setdefault(thread, []).append({
                (data[o], data[o + 1]): struct.unpack_from("<QQ16xd", data,
                                                           o + 8)
                for o in range(at, at + size, 56)})
        at += size
    return found


@slow
def test_page_faults_are_exact(record):
    """To the page, call by call, once the code has run: a step's first call
    also faults its own code in. So between the sums after a second and those
    at the end. (The last step of all writes to batches, which may be new.)"""
    path = record("synthetic shape=64 count=1000 | touch bytes=2M | "
                  "burn us=2000 | batch 10", "--threads", 1)
    got = shown(path)
    event = [e["name"] for e in got["events"]].index("minor-faults")
    steps = [s["step"] for s in got["counters"]]
    (told,) = (t for t in sums(path).values() if len(t) > 1)
    (c0, f0, s0), (c1, f1, s1) = (
        t[steps.index("touch"), event] for t in (told[0], told[-1]))
    pages = (2 << 20) // PAGE
    assert c1 - c0 > 200
    assert f1 - f0 == (c1 - c0) * pages
    assert s1 - s0 == (c1 - c0) * pages ** 2     # each call had as many
    assert 0 <= f0 - c0 * pages < 100


@slow
def test_counted_calls_tell_how_sure_their_mean_is(record):
    """Of cheap samples few are counted, by chance: the mean has an interval.
    Of dear ones all are, and it is exact. The share on a CPU is of the calls
    that were counted, and as near to 1 as reading is free."""
    path = record("synthetic shape=64 count=100000 | burn us=10 | batch 100",
                  "--threads", 1)
    s = next(s for s in shown(path)["counters"] if s["step"] == "burn")
    clock = s["events"]["task-clock"]
    assert clock["calls"] < s["calls"] / 2
    assert 0 < clock["half_interval"] < clock["per_call"]
    assert s["cpu_share"] == clock["count"] / clock["wall_ns"] or \
        s["cpu_share"] == pytest.approx(clock["count"] / clock["wall_ns"],
                                        rel=1e-3)
    text = shown(path, "text")
    assert "half of a mean's 95 % interval" in text and "+-" in text
    path = record("synthetic shape=64 count=30 | burn us=5000 | batch 10",
                  "--threads", 1)
    s = next(s for s in shown(path)["counters"] if s["step"] == "burn")
    clock = s["events"]["task-clock"]
    if clock["calls"] == s["calls"]:
        assert clock["half_interval"] == 0
    assert clock["wall_ns"] >= 0.95 * clock["calls"] * 5e6


@slow
def test_samples_of_steps_that_take_turns_are_told_apart(mill, tmp_path):
    """A decoder, a scaler and a finisher in one pass: what each of them runs
    is its own."""
    from PIL import Image
    rng = np.random.default_rng(3)
    for i in range(24):
        Image.fromarray(rng.integers(0, 256, (400, 400, 3), np.uint8)).save(
            tmp_path / f"{i}.jpg", quality=90)
    path = tmp_path / "t.mrt"
    mill("trace", f"files {tmp_path} | decode_image | resize 300x300 | "
         "normalize imagenet | batch 8", "--epochs", 8, "-o", path,
         "--sample", 2000, "--threads", 1)
    got = shown(path)
    if not got["sampling"]["samples"]:
        pytest.skip("no samples: " + got["sampling"].get("reason", "?"))
    place = {p["place"]: p["samples"] for p in got["places"]}
    joined = place.get("decode_image+resize+normalize", 0)
    assert place["decode_image"] > 100
    assert joined < 0.05 * place["decode_image"]
    at = {}
    for f in got["functions"]:
        at.setdefault(f["function"], {})[f["place"]] = f["samples"]
    for part, step in (("mr_resample_", "resize"), ("idct", "decode_image")):
        seen = [p for name, p in at.items() if part in name]
        mine = sum(p.get(step, 0) for p in seen)
        assert mine > 0.9 * sum(sum(p.values()) for p in seen) > 0, (part, at)


def test_calls_are_all_counted_when_samples_take_long(record):
    path = record("synthetic shape=64 count=40 | burn us=3000 | batch 8")
    got = shown(path)
    by = {s["step"]: s for s in got["counters"]}
    assert by["burn"]["calls"] == 40
    assert 28 <= by["burn"]["events"]["task-clock"]["calls"] <= 40


def test_of_cheap_samples_only_some_are_counted(record):
    path = record("synthetic shape=64 count=200000 | batch 100",
                  "--threads", 1)
    read = next(s for s in shown(path)["counters"] if s["step"] == "read")
    # spans may be lost on a machine that is busy
    assert read["calls"] <= 200000
    assert read["calls"] == 200000 or "total" not in read["events"][
        "task-clock"]
    assert 10 < read["events"]["task-clock"]["calls"] < 20000


@slow
@needs_perf
def test_what_a_thread_counts_adds_up(record):
    """Steps and what lies outside of them are all that there was."""
    def error():
        path = record("synthetic shape=64 count=50 | burn us=4000 | batch 10",
                      "--threads", 1)
        total = sum(e["task-clock"][1] for e in counters(path).values())
        return abs(total / (50 * 4e6) - 1)
    found_within(0.2, error)


def test_events_may_be_chosen(record):
    path = record("synthetic shape=64 count=9 | burn us=900 | batch 4",
                  "--events", "page-faults,task-clock")
    assert [e["name"] for e in shown(path)["events"]] == [
        "page-faults", "task-clock"]
    path = record("synthetic shape=64 count=9 | burn us=900 | batch 4",
                  "--events", "none")
    assert shown(path) == {}


def test_unknown_event_is_named(mill, tmp_path):
    mill.fails("run", "synthetic | batch 4", "--trace", tmp_path / "x.mrt",
               "--events", "cycels", code=2,
               says=["'cycels'", "did you mean 'cycles'"])
    assert not (tmp_path / "x.mrt").exists()


def test_missing_events_have_reason_and_remedy(record):
    path = record("synthetic shape=64 count=9 | batch 4", "--events",
                  "r1234567890abcdef")
    event = shown(path)["events"][0]
    if event["source"] == "unavailable":
        assert event["reason"] and event["remedy"]
        assert "unavailable: r1234567890abcdef" in shown(path, "text")


def test_run_delay_is_of_whole_threads(record):
    path = record("synthetic shape=64 count=30 | burn us=2000 | batch 10",
                  "--threads", 2)
    c = counters(path)
    if not os.path.exists("/proc/self/schedstat"):
        pytest.skip("the kernel has no schedstat")
    assert c["outside"]["run-delay"][0] == 2
    assert "run delay" in shown(path, "text")


# ---- other machines ----

@preloads
@pytest.mark.parametrize("number, says", [
    (1, "refused"), (13, "kernel.perf_event_paranoid is"),
    (38, "no perf events"), (24, "too many open files")])
def test_without_perf_everything_else_works(mill, record, number, says):
    pipeline = "synthetic shape=64 count=40 | burn us=2000 | batch 8"
    path = record(pipeline, "--sample", 500, env=fake(str(number)))
    got = shown(path)
    by = {e["name"]: e for e in got["events"]}
    assert by["cycles"]["source"] == "unavailable"
    assert says in by["cycles"]["reason"] and by["cycles"]["remedy"]
    # the CPU time comes another way
    assert by["task-clock"]["via"] == "getrusage"
    calls, ns = counters(path)["burn"]["task-clock"]
    assert 28 <= calls <= 40 and ns >= calls * 2e6
    assert got["sampling"]["source"] == "unavailable"
    assert got["sampling"]["samples"] == 0 and got["functions"] == []
    text = shown(path, "text")
    assert f"unavailable: cycles, instructions" in text
    assert f"functions: no samples: " in text and says in text


@preloads
@needs_perf
def test_groups_take_turns_when_counters_are_few(record):
    """cycles and instructions in a group, cache-references and -misses in
    another, branches in a third."""
    path = record("synthetic shape=64 count=120 | burn us=4000 | "
                  "touch bytes=256K | batch 8", "--threads", 1,
                  env=fake("pmu"))
    got = shown(path)
    by = {e["name"]: e for e in got["events"]}
    assert by["cycles"]["source"] == "hw-counted"
    assert by["branch-misses"]["source"] == "unavailable"
    at = counters(path)
    n = {e: at["burn"][e][0] for e in at["burn"]}
    # software events in each group, the others by turns of a batch
    assert 84 <= n["task-clock"] <= 120
    assert n["cycles"] == n["instructions"]
    assert n["cache-misses"] == n["cache-references"]
    assert n["cycles"] + n["cache-misses"] + n["branches"] == n["task-clock"]
    assert all(25 <= n[e] <= 48 for e in ("cycles", "cache-misses", "branches"))
    # what was counted in a part stands for all of it
    step = next(s for s in got["counters"] if s["step"] == "touch")
    assert step["events"]["cache-misses"]["per_call"] == pytest.approx(
        (256 << 10) / PAGE, rel=0.02)
    assert step["events"]["cache-misses"]["total"] == pytest.approx(
        120 * (256 << 10) / PAGE, rel=0.02)
    burn = next(s for s in got["counters"] if s["step"] == "burn")
    assert 0.9 < burn["ipc"] < 1.1
    for v in burn["events"].values():
        assert v["enabled_ns"] >= v["running_ns"] > 0


@preloads
@needs_perf
def test_cycles_are_sampled_where_there_are_some(record):
    path = record("synthetic shape=64 count=60 | burn us=3000 | batch 8",
                  "--sample", 1000, env=fake("pmu"))
    s = shown(path)["sampling"]
    assert s["event"] == "cycles" and s["source"] == "hw-sampled"
    assert s["samples"] > 50


# ---- samples ----

@slow
@needs_perf
def test_samples_find_the_shares_of_steps_and_functions(record):
    path = record("synthetic shape=64 count=400 | burn us=3000 | "
                  "hide us=1000 | batch 20", "--sample", 1000,
                  "--threads", 2)
    got = shown(path)
    assert got["sampling"]["samples"] > 800 and not got["sampling"]["lost"]
    share = {p["place"]: p["share"] for p in got["places"]}
    both = share["burn"] + share["hide"]
    assert both > 0.95
    assert share["burn"] / both == pytest.approx(0.75, abs=0.08)
    for f in got["functions"]:
        assert 0 <= f["low"] <= f["share"] <= f["high"] <= 1
    names = {(f["place"], f["function"].split(".")[0])
             for f in got["functions"]}
    assert ("burn", "work_spin") in names
    assert ("hide", "hidden_spin") in names
    assert ("hide", "work_spin") not in names
    folded = shown(path, "folded").splitlines()
    assert any(x.startswith("burn;") and ";work_spin " in x or
               x.startswith("burn;work_spin ") for x in folded)
    assert sum(int(x.rsplit(" ", 1)[1]) for x in folded) == \
        got["sampling"]["samples"]


@slow
@needs_perf
def test_stripped_library_keeps_the_names_it_exports(record, tmp_path):
    if not shutil.which("strip"):
        pytest.skip("no strip")
    bare = tmp_path / "work.so"
    subprocess.run(["strip", "-o", str(bare), str(WORK)], check=True)
    path = record("synthetic shape=64 count=100 | burn us=3000 | "
                  "hide us=3000 | batch 20", "--sample", 1000, work=bare)
    names = {(f["place"], f["function"]) for f in shown(path)["functions"]}
    assert ("burn", "work_spin") in names
    assert ("hide", "[unknown in work.so]") in names


@slow
@needs_perf
def test_file_that_changed_since_is_not_asked(record, tmp_path):
    copy = tmp_path / "copy.so"
    shutil.copyfile(WORK, copy)
    path = record("synthetic shape=64 count=60 | burn us=3000 | batch 20",
                  "--sample", 1000, work=copy)
    copy.unlink()
    shutil.copyfile(WORK, copy)
    names = {f["function"] for f in shown(path)["functions"]}
    assert "[copy.so, changed since]" in names and "work_spin" not in names


@needs_perf
def test_trace_that_was_cut_off_is_used_as_far_as_it_goes(record, tmp_path):
    path = record("synthetic shape=64 count=60 | burn us=2000 | batch 20",
                  "--sample", 1000)
    data = path.read_bytes()
    cut = tmp_path / "cut.mrt"
    for share in (0.9, 0.5, 0.1):
        cut.write_bytes(data[:int(len(data) * share)])
        shown(cut), shown(cut, "text"), shown(cut, "folded")


def test_records_of_counters_are_as_the_format_says(record):
    path = record("synthetic shape=64 count=40 | burn us=1000 | batch 8",
                  "--threads", 1, "--events", "task-clock")
    data, at, last = path.read_bytes(), 64, {}
    while at < len(data):
        kind = data[at + 4:at + 8]
        thread, size = struct.unpack_from("<II", data, at + 8)
        body = data[at + 24:at + 24 + size]
        at += 24 + size
        if kind == b"CNTR":
            assert size % 56 == 0
            for o in range(0, size, 56):
                step, event = body[o], body[o + 1]
                assert body[o + 2:o + 8] == bytes(6)
                last[thread, step, event] = struct.unpack_from("<4QdQ", body,
                                                               o + 8)
    assert {k[1] for k in last} == {0, 1, 255}
    # how many calls are counted depends on what a reading costs just then
    assert all(1 <= v[0] <= 40 for k, v in last.items() if k[1] != 255)
    for (_, step, _), (calls, count, _, _, squares, wall) in last.items():
        if step == 1:
            # no sum of squares is less than that of equal ones
            assert squares >= 0.999 * count ** 2 / calls
            assert wall >= 0.9 * calls * 1e6
