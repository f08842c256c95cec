# SPDX-License-Identifier: Apache-2.0
"""Traces for tests: made by hand, byte by byte as docs/trace-format.md has
it, or recorded; and what the events for Chrome must keep to."""
import collections
import ctypes
import json
import os
import pathlib
import struct
import subprocess
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = (ROOT / os.environ.get("MILLRACE_BUILD", "build")).resolve()

BATCH, SAMPLE, STEP, FETCH, WAIT_IN, WAIT_OUT, COLLATE, NEXT, CONSUME, \
    WORK, PIN, START = range(1, 13)
NONE = 2**48 - 1


class Err(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("text", ctypes.c_char * 1024)]


def export(trace, to):
    """Result and text of mr_trace_export()."""
    library = ctypes.CDLL(str(BUILD / "src" / "libmillrace.so.0"))
    err = Err()
    code = library.mr_trace_export(os.fsencode(trace), os.fsencode(to),
                                   ctypes.byref(err))
    return code, err.text.decode(errors="replace")


def record(path, pipeline, *options):
    subprocess.run([BUILD / "millrace", "run", pipeline, *options,
                    "--trace", path], check=True, stdout=subprocess.DEVNULL)
    return path


def span(kind, start, ns, step=0, sample=NONE, batch=2**32 - 1, size=0):
    return struct.pack("<QQQII", start, ns, sample | kind << 48 | step << 56,
                       batch, size)


def chunk(kind, data, thread=0):
    return b"CHNK" + kind + struct.pack("<IIII", thread, len(data),
                                        zlib.crc32(data), 0) + data


def thread(number, name, role, pid, tid):
    return chunk(b"THRD", json.dumps(dict(
        name=name, role=role, pid=pid, tid=tid)).encode(), number)


def trace(*chunks, start=1000, rank=0, ranks=1):
    return b"MRTRACE1" + struct.pack(
        "<IIQQQII16x", 77, 0, start, 10**18, 5, rank, ranks) + b"".join(chunks)


def done():
    return chunk(b"DONE", bytes(24))


def nanoseconds(us):
    """Exactly: the file has three digits after the point."""
    return int(us.replace(".", ""))


def read_chrome(path):
    """The events, with times in whole nanoseconds."""
    with open(path, encoding="utf-8") as f:
        whole = json.load(f, parse_float=nanoseconds)
    return whole["traceEvents"], whole["otherData"]


def check_chrome(events):
    """The format's rules; returns the slices of each lane."""
    lanes = collections.defaultdict(list)
    named, opened, flows = set(), {}, {}
    for e in events:
        lane = e["pid"], e["tid"]
        if e["ph"] == "M":
            if e["name"] == "thread_name":
                assert lane not in named, "a lane has two names"
                named.add(lane)
            continue
        assert e["ts"] >= 0
        if e["ph"] in "Xsf":
            assert lane in named, "a lane without a name"
            lanes[lane].append(e)
        if e["ph"] == "b":
            assert (e["cat"], e["id"]) not in opened, "an id is used twice"
            opened[e["cat"], e["id"]] = e["ts"]
        elif e["ph"] == "e":
            assert opened[e["cat"], e["id"]] is not None, "closed twice"
            assert opened[e["cat"], e["id"]] <= e["ts"]
            opened[e["cat"], e["id"]] = None
        elif e["ph"] in "sf":
            flow = flows.setdefault(e["id"], {})
            assert e["ph"] not in flow, "a flow has an end twice"
            flow[e["ph"]] = lane
    assert not any(v is not None for v in opened.values())
    assert all(len(f) == 2 for f in flows.values()), "a flow with one end"
    for of_lane in lanes.values():
        check_lane(of_lane)
    return {k: [e for e in v if e["ph"] == "X"] for k, v in lanes.items()}


def check_lane(events):
    """Times never go back; slices lie within the one around them, or after
    the one before; the ends of flows lie in a slice."""
    around, last = [], 0
    for e in events:
        assert e["ts"] >= last, "time goes back on a lane"
        last = e["ts"]
        end = e["ts"] + e.get("dur", 0)
        while around and around[-1] <= e["ts"] and \
                not (around[-1] == e["ts"] == end):
            around.pop()
        assert not around or end <= around[-1], "slices overlap"
        if e["ph"] == "X":
            around.append(end)
        else:
            assert around, "a flow that is in no slice"
