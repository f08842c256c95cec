# SPDX-License-Identifier: Apache-2.0
"""Where the fuzzers of containers start: small good files.

usage: seeds.py FOLDER
"""
import gzip
import json
import os
import pathlib
import struct
import sys
import types

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))
# What that file has is writers; the module itself is not needed.
sys.modules.setdefault("millrace", types.ModuleType("millrace"))
import containers as c  # noqa: E402
import sounds  # noqa: E402


def put(target, name, data):
    for kind in ("seeds", "corpus"):
        folder = pathlib.Path(str(OUT).replace("seeds", kind)) / target
        os.makedirs(folder, exist_ok=True)
    (OUT / target / name).write_bytes(data)


def tfrecord():
    one = c.example({"a": [1, 300, -1], "b": [b"x", b"yz"], "c": [1.5]})
    two = c.example({"a": [1], "b": [b""], "c": [1.0, 2.0]}, packed=False)
    three = c.sequence({"i": [3]}, {"t": [[1], [2]], "r": [[1, 2], []],
                                    "s": [[b"a"], [b"bc"]], "f": [[1.0] * 3]})
    files = c.record(one) + c.record(two)
    put("tfrecord", "file", b"\0" + files)
    put("tfrecord", "gzip", b"\0" + gzip.compress(files))
    for i, data in enumerate((one, two, three)):
        put("tfrecord", f"once{i}", b"\1\0" + data)
        put("tfrecord", f"two{i}", bytes([2 + i % 2, 128]) + data + data)


def mds():
    columns = {"a": "str", "b": "int", "c": "ndarray", "d": "ndarray:uint16",
               "e": "ndarray:int8:2,2"}
    rows = [{"a": "x" * i, "b": i, "c": np.ones((i + 1, 2), np.float32),
             "d": np.ones(3, np.uint16), "e": np.ones((2, 2), np.int8)}
            for i in range(3)]
    shard = c.mds_shard(columns, rows)
    put("mds", "raw", b"\0\3" + shard)
    put("mds", "gz", b"\4\3" + gzip.compress(shard))
    index = {"version": 2, "shards": [{
        "column_names": list(columns),
        "column_encodings": list(columns.values()),
        "column_sizes": [None, 8, None, None, 4], "compression": None,
        "format": "mds", "raw_data": {"basename": "s", "bytes": 47},
        "samples": 1, "zip_data": None}]}
    put("mds", "index", b"\1\0" + json.dumps(index).encode())


def beton():
    image = np.dtype([("m", "<u1"), ("w", "<u2"), ("h", "<u2"), ("p", "<u8")])
    blob = np.dtype([("p", "<u8"), ("n", "<u8")])
    row = np.dtype([("", image), ("", "<i8")], align=True)
    path = OUT / "beton" / "images"
    put("beton", "empty", b"")
    p = c.Place
    for name, modes in (("raw", (1, 1)), ("jpeg", (0, 0)), ("mixed", (0, 1))):
        path = OUT / "beton" / name
        c.beton_write(path, ["i", "l"], [2, 1],
                      [((m, 2, 3, p(k)), k) for k, m in enumerate(modes)],
                      [(0, bytes(18)), (1, bytes(18))], row)
    row = np.dtype([("", blob), ("", "<u8"), ("", "<f8")], align=True)
    text = json.dumps(np.dtype("<u2").descr).encode()
    args = np.array([2, 3] + [0] * 30 + [len(text)], "<u8").tobytes() + text
    c.beton_write(OUT / "beton" / "arrays", ["b", "a", "f"], [5, 4, 0],
                  [((p(0), 3), p(1), 0.5)], [(0, b"{}\0"), (0, bytes(12))],
                  row, args={"a": args})


def flac():
    """Bodies of first frames: see fuzz_flac.c for what stands before them."""
    if not sounds.have_flac():
        put("flac", "constant", bytes([2 | 7 << 3, 0, 0, 0, 9, 0, 0]))
        return
    for kind, bits in ((0, 8), (2, 16), (5, 24)):
        for channels in 1, 2, 3:
            for option in "-0", "-5", "-8":
                file = sounds.flac(sounds.ints(4096, channels, bits), bits,
                                   options=[option, "-b", "4096"])
                at = file.index(b"\xff\xf8")
                code = file[at + 3] >> 4
                put("flac", f"{bits}-{channels}{option}",
                    bytes([kind | 7 << 3, code]) + file[at + 6:])


def audio():
    files = {"empty": b""}
    for bits in (8, 16, 24, 32):
        x = sounds.ints(60, 2, bits)
        files[f"wav{bits}"] = sounds.wav_ints(x, bits, extensible=bits > 16)
        if sounds.have_flac():
            files[f"flac{bits}"] = sounds.flac(x, bits, options=["-8"])
            files[f"stream{bits}"] = sounds.flac(
                sounds.ints(99, 1, bits), bits, stream=True,
                options=["-0", "-b", "32"])
    for bits in (32, 64):
        files[f"real{bits}"] = sounds.wav(
            sounds.signal(50, 1).astype(f"<f{bits // 8}").tobytes(), 1, bits,
            tag=3)
    for rate in (8000, 11025, 16000, 22050, 44100, 48000):
        for channels in (1, 2):
            files[f"mp3-{rate}-{channels}"] = sounds.mp3(
                4, rate, channels, 32, info=channels == 1)
    files["id3"] = sounds.id3() + files["mp3-48000-1"] + b"TAG" + bytes(125)
    for i, (name, data) in enumerate(files.items()):
        for job in (i % 8, (i + 3) % 8):
            put("audio", f"{name}-{job}", bytes([job]) + data)


def merge():
    """A process's trace; the target makes the checksums right."""
    bodies = [(b"META", 0, b"{}"), (b"PART", 0, bytes([2, 0, 0, 0])),
              (b"NAME", 0, b"\1crop"), (b"THRD", 1, b"{}"),
              (b"SPAN", 1, (bytes(22) + b"\3\1" + bytes(8)) * 3),
              (b"LIVE", 0, bytes(8)), (b"DONE", 0, bytes(24))]
    for n in range(1, len(bodies) + 1):
        put("merge", str(n), bytes(64) + b"".join(
            struct.pack("<4s4sIIII", b"CHNK", kind, thread, len(b), 0, 0) + b
            for kind, thread, b in bodies[:n]))


def frames():
    cases = [(0, 320, 160, 1024, 80, 125, 3800, 16000, 8000),
             (1, 16, 3, 17, 9, 0, 4000, 8000, 44100),
             (2, 9, 9, 64, 23, 60, 7999, 16000, 15999),
             (11, 100, 50, 128, 40, 20, 20000, 48000, 16000),
             (20, 2, 1, 2, 1, 0, 1, 44100, 96000)]
    for i, (flags, *rest) in enumerate(cases):
        x = sounds.signal(700, 1)
        x = x.astype("<f4") if flags & 1 else (x * 32767).astype("<i2")
        put("frames", str(i), struct.pack("<B6H2I", flags, *rest)
            + x.tobytes())


OUT = pathlib.Path(sys.argv[1])
tfrecord()
mds()
beton()
audio()
flac()
merge()
frames()
