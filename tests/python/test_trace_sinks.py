# SPDX-License-Identifier: Apache-2.0
"""What a trace becomes: events for Chrome, collapsed stacks, CSV, a page."""
import collections
import csv
import json
import os
import random
import re
import struct

import pytest
from traces import (BATCH, COLLATE, CONSUME, FETCH, NEXT, SAMPLE, START, STEP,
                    WAIT_OUT, WORK, check_chrome, chunk, done, export,
                    read_chrome, record, span, thread, trace)

KINDS = [".json", ".folded", ".csv", ".html"]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Of files, so that samples have names, in two threads and epochs."""
    d = tmp_path_factory.mktemp("trace")
    (d / "set").mkdir()
    for i in range(300):
        (d / "set" / f"é {i:03}.bin").write_bytes(bytes(i + 1))
    return record(d / "t.mrt", f"files '{d}/set' | cast f32 | batch 16 pad=0",
                  "--threads", "2", "--epochs", "3")


def made(tmp_path, *chunks, **header):
    path = tmp_path / "made.mrt"
    path.write_bytes(trace(*chunks, **header))
    return path


def exported(path, kind):
    to = path.with_suffix(kind)
    assert export(path, to) == (0, "")
    return to


def page_data(html):
    text = html.read_text()
    return json.loads(re.search(r"^const D = (.*);$", text, re.M).group(1))


# ---- events for Chrome ----

def test_recorded_events_keep_the_formats_rules(recorded):
    events, other = read_chrome(exported(recorded, ".json"))
    lanes = check_chrome(events)
    assert 2 <= len(lanes) <= 3  # one worker may have done it all
    count = collections.Counter(
        e["name"] for lane in lanes.values() for e in lane)
    assert count["sample"] == count["read"] == count["cast"] == 900
    assert count["next"] == count["consume"] == count["collate"] == 57
    flows = [e for e in events if e["ph"] == "s"]
    assert len(flows) == 57
    assert other["spans_lost"] == 0 and "cut_off" not in other
    assert "cast f32" in other["pipeline"]


def test_steps_are_in_samples_and_samples_in_work(recorded):
    lanes = check_chrome(read_chrome(exported(recorded, ".json"))[0])
    for slices in lanes.values():
        around = []
        for e in slices:
            while around and around[-1]["ts"] + around[-1]["dur"] <= e["ts"]:
                around.pop()
            inside = around[-1]["name"] if around else None
            if e["name"] in ("read", "cast") and e["dur"]:
                assert inside == "sample"
            elif e["name"] == "sample" and e["dur"]:
                assert inside == "work"
            around.append(e)


def test_hardly_anything_is_cut_off(recorded):
    events, _ = read_chrome(exported(recorded, ".json"))
    off = sum("cut_off_us" in e.get("args", {}) for e in events)
    assert off < len(events) / 100


def test_slow_samples_have_their_names(recorded):
    events, _ = read_chrome(exported(recorded, ".json"))
    keys = {e["args"]["key"] for e in events if "key" in e.get("args", {})}
    assert 0 < len(keys) <= 64
    assert all(re.fullmatch(r"é \d{3}.bin", k) for k in keys)


def keys(path):
    """{(number, ns): its name or None} of the slowest, by both sinks."""
    events, _ = read_chrome(exported(path, ".json"))
    found = {(e["args"]["sample"], e["dur"]): e["args"].get("key")
             for e in events if e["ph"] == "X" and e["name"] == "sample"}
    slow = page_data(exported(path, ".html"))["slow"]
    assert found == {(s["sample"], s["ns"]): s["key"] or None for s in slow}
    return found


def test_samples_of_a_thread_are_named_by_the_time_that_they_took(tmp_path):
    """Those of a script: of two data sets, the numbers are the same."""
    def key(sample, ns, name):
        return struct.pack("<QQ", sample | len(name) << 48, ns) + name

    path = made(tmp_path, thread(1, "worker 0", "worker", 80, 80),
                thread(2, "worker 1", "worker", 81, 81),
                chunk(b"SPAN", b"".join(
                    span(SAMPLE, 2000 + 100 * i, ns, 0, number)
                    for i, (number, ns) in enumerate(
                        [(7, 50), (7, 60), (8, 70), (7, 80)])), 1),
                chunk(b"KEYS", key(7, 50, b"a/7.jpg") + key(7, 80, b"b/7.jpg"),
                      1),
                chunk(b"KEYS", key(8, 70, b"a/8.jpg"), 2), done())
    assert keys(path) == {(7, 50): "a/7.jpg", (7, 60): None, (8, 70): None,
                          (7, 80): "b/7.jpg"}


def test_queue_depth_goes_up_and_down_and_ends_at_none(recorded):
    events, _ = read_chrome(exported(recorded, ".json"))
    depth = [e for e in events if e["name"] == "batches ready"]
    assert [e["ts"] for e in depth] == sorted(e["ts"] for e in depth)
    assert depth[-1]["args"]["value"] == 0
    assert max(e["args"]["value"] for e in depth) > 0


def test_times_have_nanoseconds_and_begin_with_the_run(tmp_path):
    path = made(tmp_path, thread(1, "w", "worker", 77, 78),
                chunk(b"SPAN", span(STEP, 1234567, 89), 1), done())
    events, _ = read_chrome(exported(path, ".json"))
    x = [e for e in events if e["ph"] == "X"]
    assert [(e["ts"], e["dur"]) for e in x] == [(1233567, 89)]


def test_ranks_and_processes_are_named(tmp_path):
    path = made(tmp_path, thread(1, "main", "consumer", 77, 77),
                thread(2, "worker 0", "worker", 80, 80),
                chunk(b"SPAN", span(NEXT, 2000, 5, batch=0), 1),
                chunk(b"SPAN", span(SAMPLE, 2000, 5, batch=0), 2), done(),
                rank=3, ranks=8)
    events, other = read_chrome(exported(path, ".json"))
    names = {e["pid"]: e["args"]["name"] for e in events
             if e["name"] == "process_name"}
    assert names == {77: "rank 3 of 8: millrace",
                     80: "rank 3 of 8: worker 0"}
    assert (other["rank"], other["ranks"]) == (3, 8)


def test_merged_ranks_are_named_by_their_threads(tmp_path):
    """The trace is of no rank. Of a script, each thread is a process."""
    def of(rank, pid, name):
        return chunk(b"THRD", json.dumps(dict(
            rank=rank, name=name, pid=pid, tid=pid)).encode(), pid)

    spans = [chunk(b"SPAN", span(NEXT, 2000, 5), pid) for pid in (77, 78, 90)]
    threads = of(0, 77, "main"), of(0, 78, "worker 0"), of(1, 90, "main")
    for foreign, names in (False, ["rank 0: millrace"] * 2
                           + ["rank 1: millrace"]), \
                          (True, ["rank 0 main", "rank 0 worker 0",
                                  "rank 1 main"]):
        meta = json.dumps({"foreign": foreign}).encode()
        path = made(tmp_path, chunk(b"META", meta), *threads, *spans, done())
        events, other = read_chrome(exported(path, ".json"))
        assert names == [e["args"]["name"] for e in events
                         if e["name"] == "process_name"]
        assert other["ranks"] == 1


def test_a_number_of_a_thread_that_ended_may_come_again(tmp_path):
    path = made(tmp_path, thread(1, "worker 0", "worker", 80, 80),
                thread(2, "worker 0 again", "worker", 80, 80),
                chunk(b"SPAN", span(SAMPLE, 2000, 500), 1),
                chunk(b"SPAN", span(SAMPLE, 2100, 500), 2), done())
    lanes = check_chrome(read_chrome(exported(path, ".json"))[0])
    assert len(lanes) == 2


def test_samples_made_while_the_consumer_asks_are_inside_next(tmp_path):
    path = made(tmp_path, thread(1, "main", "consumer", 77, 77),
                chunk(b"SPAN", span(START, 1000, 50)
                      + span(STEP, 1100, 40, 1, 5, 0)
                      + span(SAMPLE, 1090, 60, 0, 5, 0)
                      + span(BATCH, 1090, 80, batch=0)
                      + span(NEXT, 1080, 100, batch=0)
                      + span(CONSUME, 1180, 100, batch=0), 1), done())
    lanes = check_chrome(read_chrome(exported(path, ".json"))[0])
    assert [e["name"] for e in lanes[77, 77]] == [
        "start", "next", "batch", "sample", "unnamed step", "consume"]


def test_arrows_lead_from_where_a_batch_became_ready(tmp_path):
    """Its last part, of a script; the end of its last span in ours."""
    path = made(tmp_path, thread(1, "main", "consumer", 77, 77),
                thread(2, "worker 0", "worker", 80, 80),
                thread(3, "worker", "worker", 81, 81),
                chunk(b"SPAN", span(SAMPLE, 1110, 40, 0, 5, 0)
                      + span(COLLATE, 1150, 30, batch=0)
                      + span(BATCH, 1100, 90, batch=0), 2),
                chunk(b"SPAN", span(SAMPLE, 1110, 60, 0, 5, 1)
                      + span(BATCH, 1020, 160, batch=1)
                      + span(WORK, 1100, 100), 3),
                chunk(b"SPAN", b"".join(
                    span(NEXT, 1200 + 20 * i, 10, batch=i)
                    + span(CONSUME, 1210 + 20 * i, 10, batch=i)
                    for i in range(2)), 1), done())
    events, _ = read_chrome(exported(path, ".json"))
    check_chrome(events)
    assert {(e["ph"], e["id"]): (e["tid"], e["ts"]) for e in events
            if e["ph"] in "sf"} == {
        ("s", 0): (80, 190), ("f", 0): (77, 210),
        ("s", 1): (81, 180), ("f", 1): (77, 230)}


def test_what_sticks_out_is_cut_off_and_told(tmp_path):
    path = made(tmp_path, thread(1, "w", "worker", 77, 78),
                chunk(b"SPAN", span(STEP, 5000, 4000, 0, 1, 0)
                      + span(STEP, 8000, 5000, 1, 1, 0)
                      + span(SAMPLE, 5000, 6000, 0, 1, 0)
                      + span(WORK, 4900, 7000), 1), done())
    lanes = check_chrome(read_chrome(exported(path, ".json"))[0])
    steps = [e for e in lanes[77, 78] if e["cat"] == "step"]
    assert [(e["ts"], e["dur"]) for e in steps] == [(4000, 3000),
                                                    (7000, 3000)]
    assert [e["args"]["cut_off_us"] for e in steps] == [1000, 2000]


def test_a_step_belongs_to_its_sample_however_far_clocks_are_off(tmp_path):
    path = made(tmp_path, thread(1, "w", "worker", 77, 78),
                chunk(b"SPAN", span(STEP, 4000, 100, 1, 1, 0)
                      + span(SAMPLE, 5000, 600, 0, 1, 0)
                      + span(WORK, 3000, 7000), 1), done())
    lanes = check_chrome(read_chrome(exported(path, ".json"))[0])
    assert [(e["name"], e["ts"]) for e in lanes[77, 78]] == [
        ("work", 2000), ("sample", 4000), ("unnamed step", 4000)]


def test_requests_that_overlap_are_apart_from_the_lanes(tmp_path):
    path = made(tmp_path, thread(1, "fetch", "fetch", 77, 78),
                chunk(b"SPAN", span(FETCH, 2000, 900) + span(FETCH, 2100, 900)
                      + span(FETCH, 2200, 900), 1), done())
    events, _ = read_chrome(exported(path, ".json"))
    assert check_chrome(events) == {}
    assert sum(e["ph"] == "b" for e in events) == 3


@pytest.mark.parametrize("seed", range(20))
def test_spans_at_random_nest_all_the_same(tmp_path, seed):
    r = random.Random(seed)
    spans = [b"", b"", b""]
    for _ in range(3000):
        spans[r.randrange(3)] += span(
            r.randrange(64), r.randrange(1, 5000), r.choice([0, 1, 7, 300]),
            r.randrange(5), r.randrange(20), r.randrange(300))
    path = made(tmp_path, *[chunk(b"SPAN", s, i + 1)
                            for i, s in enumerate(spans)], done(), start=5)
    check_chrome(read_chrome(exported(path, ".json"))[0])


# ---- collapsed stacks ----

def stacks(path):
    lines = path.read_text().splitlines()
    return {k: int(v) for k, v in (line.rsplit(" ", 1) for line in lines)}


def test_stacks_add_up_to_the_spans(tmp_path):
    path = made(tmp_path, thread(1, "w1", "worker", 77, 78),
                thread(2, "w2", "worker", 77, 79),
                chunk(b"NAME", b"\x00read"), chunk(b"NAME", b"\x01a;b\n"),
                chunk(b"SPAN", span(STEP, 10**6, 10**6, 0, 1, 0)
                      + span(STEP, 2 * 10**6, 3 * 10**6, 1, 1, 0)
                      + span(SAMPLE, 10**6, 5 * 10**6, 0, 1, 0)
                      + span(WAIT_OUT, 7 * 10**6, 10**6)
                      + span(WORK, 10**6, 9 * 10**6), 1),
                chunk(b"SPAN", span(WORK, 10**6, 2 * 10**6), 2), done())
    assert stacks(exported(path, ".folded")) == {
        "worker;work;engine": 5000, "worker;work;wait_out": 1000,
        "worker;work;sample;engine": 1000, "worker;work;sample;read": 1000,
        "worker;work;sample;a_b_": 3000}


def test_recorded_stacks_are_the_threads_time(recorded):
    events, _ = read_chrome(exported(recorded, ".json"))
    top = sum(e["dur"] for e in events if e.get("cat") in
              ("work", "next", "consume") and e["ph"] == "X")
    total = sum(stacks(exported(recorded, ".folded")).values())
    assert abs(total - top / 1000) < 0.01 * total + 20


# ---- CSV ----

def rows(path):
    with open(path, newline="", encoding="utf-8") as f:
        return list(csv.DictReader(f))


def test_rows_are_named_as_lotus_names_them(recorded):
    found = rows(exported(recorded, ".csv"))
    assert list(found[0])[:3] == ["name", "start", "duration"]
    names = {r["name"] for r in found}
    for n in range(57):
        assert {f"SBatchPreprocessed_{n}", f"SBatchWait_{n}",
                f"SBatchConsumed_{n}"} <= names
    assert {"Loader", "cast", "Collation"} <= names
    assert all(int(r["start"]) > 10**18 for r in found)  # since 1970
    assert {r["role"] for r in found} == {"worker", "consumer"}


def test_names_with_commas_stay_one_field(tmp_path):
    path = made(tmp_path, chunk(b"NAME", b'\x01a,"b"\n'),
                chunk(b"SPAN", span(STEP, 1500, 7, 1), 1), done())
    (row,) = rows(exported(path, ".csv"))
    assert row["name"] == 'a,"b"\n' and row["duration"] == "7"
    assert row["start"] == str(10**18 + 500) and row["batch"] == ""


# ---- the page ----

def test_page_has_the_figures(recorded):
    d = page_data(exported(recorded, ".html"))
    by_name = {t["name"]: t for t in d["tallies"]}
    assert by_name["cast"]["n"] == 900 and by_name["next"]["n"] == 57
    t = by_name["read"]
    assert t["p50"] <= t["p90"] <= t["p99"] <= t["most"] * 1.07
    assert sum(t["hist"][1::2]) == 900
    assert len(d["worst"]) == 12 and len(d["slow"]) == 12
    assert all(s["key"].startswith("é ") for s in d["slow"])
    roles = [lane["role"] for lane in d["lanes"]]
    assert roles[0] == "consumer" and set(roles[1:]) == {"worker"}
    assert d["done"] and not d["cut"] and d["lost"] == 0


def test_page_asks_for_nothing_and_stays_small(tmp_path):
    spans = b"".join(span(STEP, 1000 + 10 * i, 9, i % 9, i, i // 16)
                     for i in range(16000))
    path = made(tmp_path, *[chunk(b"SPAN", spans, 1 + k % 80)
                            for k in range(160)], done())
    html = exported(path, ".html")
    assert html.stat().st_size < 3 << 20
    text = html.read_text()
    assert not re.search(r"(src|href)\s*=\s*[\"'](?!data:)", text)
    assert "@import" not in text and "fetch(" not in text
    d = page_data(html)
    assert len(d["lanes"]) == 64 and d["all_lanes"] == 80
    assert all(len(w["s"]) <= 7 * 4000 for w in d["windows"])


def test_names_cannot_end_the_script(tmp_path):
    bad = "</script><script>alert(1)</script><!--"
    path = made(tmp_path, thread(1, bad, bad, 1, 1),
                chunk(b"META", json.dumps({"pipeline": bad}).encode()),
                chunk(b"NAME", b"\x01" + bad.encode()),
                chunk(b"SPAN", span(STEP, 2000, 5, 1), 1), done())
    html = exported(path, ".html")
    assert html.read_text().count("</script>") == 1
    assert page_data(html)["meta"]["pipeline"] == bad


# ---- bad input ----

@pytest.mark.parametrize("data", [b"", b"x", b"MRTRACE1", b"PK\3\4" * 30])
def test_not_a_trace(tmp_path, data):
    path = tmp_path / "x.mrt"
    path.write_bytes(data)
    code, text = export(path, tmp_path / "x.json")
    assert code == -6 and "not a trace" in text and str(path) in text
    assert os.listdir(tmp_path) == ["x.mrt"]


def test_unknown_endings_are_refused(recorded, tmp_path):
    code, text = export(recorded, tmp_path / "x.pdf")
    assert code == -2 and ".json, .folded, .csv or .html" in text


def test_no_file_and_no_place(recorded, tmp_path):
    code, text = export(tmp_path / "none.mrt", tmp_path / "x.json")
    assert code == -5 and "none.mrt" in text
    code, text = export(recorded, tmp_path / "none" / "x.json")
    assert code == -5 and "cannot create" in text


def test_a_full_disk_leaves_nothing_behind(recorded, tmp_path):
    os.symlink("/dev/full", tmp_path / "x.json")
    code, text = export(recorded, tmp_path / "x.json")
    assert code == -5 and "No space left" in text


@pytest.mark.parametrize("kind", KINDS)
def test_a_trace_without_spans_becomes_something(tmp_path, kind):
    path = made(tmp_path, done())
    to = exported(path, kind)
    if kind == ".json":
        assert check_chrome(read_chrome(to)[0]) == {}
    if kind == ".html":
        assert page_data(to)["lanes"] == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_cut_trace_is_exported_up_to_there(recorded, tmp_path, kind):
    whole = recorded.read_bytes()
    path = tmp_path / "cut.mrt"
    path.write_bytes(whole[:-30])
    code, text = export(path, path.with_suffix(kind))
    assert code == 0
    assert "cut off" in text and f"of {len(whole) - 30}" in text
    if kind == ".json":
        events, other = read_chrome(path.with_suffix(kind))
        check_chrome(events)
        assert "cut off" in other["cut_off"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_trace_that_ends_with_a_whole_chunk_may_be_cut_off(tmp_path, kind):
    path = made(tmp_path, chunk(b"SPAN", span(STEP, 2000, 5, 1), 1))
    code, text = export(path, path.with_suffix(kind))
    assert code == 0 and text.startswith(str(path))
    assert "was not ended" in text
    if kind == ".json":
        assert "not ended" in read_chrome(path.with_suffix(kind))[1]["cut_off"]
    if kind == ".html":
        d = page_data(path.with_suffix(kind))
        assert not d["done"] and not d["cut"]   # which the page tells apart


def test_flipped_bits_end_the_trace_where_they_are(tmp_path):
    good = chunk(b"SPAN", span(STEP, 2000, 5, 1), 1)
    bad = bytearray(chunk(b"SPAN", span(STEP, 3000, 5, 2), 1))
    bad[40] ^= 4
    path = made(tmp_path, good, bytes(bad), good)
    code, text = export(path, tmp_path / "x.csv")
    assert code == 0 and "checksum" in text
    assert f"at byte {64 + len(good)}" in text
    assert len(rows(tmp_path / "x.csv")) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_numbers(tmp_path, kind):
    spans = b"".join(span(k, start, ns, 255, 2**48 - 2, b)
                     for k in range(64) for start in (0, 1, 2**63, 2**64 - 1)
                     for ns in (0, 2**63, 2**64 - 1)
                     for b in (0, 2**32 - 2))
    path = made(tmp_path, chunk(b"SPAN", spans, 1),
                chunk(b"SPAN", spans, 65536), chunk(b"THRD", b"{", 1),
                chunk(b"THRD", b'{"pid": 1e99, "tid": -5, "name": []}', 2),
                chunk(b"THRD", b"[" * 5000, 3), chunk(b"META", b"null"),
                chunk(b"NAME", b""), chunk(b"KEYS", b"\xff" * 11),
                chunk(b"DROP", b"\xff" * 8, 1), chunk(b"WHAT", b"x"), done())
    code, text = export(path, path.with_suffix(kind))
    assert (code, text) == (0, "")
    if kind == ".json":
        check_chrome(read_chrome(path.with_suffix(kind))[0])
    if kind == ".html":
        page_data(path.with_suffix(kind))


def test_threads_beyond_all_numbers_are_left_out_and_told(tmp_path):
    path = made(tmp_path, chunk(b"SPAN", span(STEP, 2000, 5, 1), 2**32 - 1),
                chunk(b"SPAN", span(STEP, 2000, 5, 1), 1), done())
    code, text = export(path, tmp_path / "x.csv")
    assert code == 0 and "1 spans of threads" in text
    assert len(rows(tmp_path / "x.csv")) == 1


def test_many_threads(tmp_path):
    one = span(SAMPLE, 2000, 5, 1) + span(COLLATE, 2010, 5)
    path = made(tmp_path, *[chunk(b"SPAN", one, i) for i in range(1, 65537)],
                done())
    for kind in KINDS:
        exported(path, kind)
    events, _ = read_chrome(path.with_suffix(".json"))
    assert len(check_chrome(events)) == 65536
