# SPDX-License-Identifier: Apache-2.0
"""Overhead per sample: Millrace beside bare loops and peers, warm cache."""
import os

import data
from common import (Failed, HERE, PYTHON, epochs_for, interleave, output,
                    output_json, paired, say)

QUESTION = "what does a sample cost, beside bare loops and peers?"
SIZES = {"10 KB": 10240, "80 KB": 81920, "640 KB": 655360, "20 MB": 20 << 20}
SMALL = "10 KB"
COPIES = len(SIZES) + 2     # the .npy files, the small files, FFCV's file


def batch_of(size):
    return 8 if size >= 1 << 20 else 32


def per(n, what="thread"):
    return f"{n} {what}" + ("s" if n > 1 else "")


def timed(env, epochs_cmd):
    """A job that runs epochs_cmd(epochs) for about env.seconds: MB/s. How
    many epochs that takes is found once, which also warms the page cache."""
    epochs = []

    def job():
        if not epochs:
            epochs.append(epochs_for(env.seconds, epochs_cmd))
        r = epochs_cmd(epochs[0])
        return r["bytes"] / r["seconds"] / 1e6
    return job


def bare_read(env, how, path, size, threads):
    ring = 2 if size >= 1 << 20 else 4
    return timed(env, lambda e: output_json(
        [env.tool("bare_read"), how, path, str(data.HEADER), str(size),
         str(batch_of(size)), str(threads), str(e), str(ring)]))


def bare_files(env, path, size, threads):
    return timed(env, lambda e: output_json(
        [env.tool("bare_files"), path, str(size), "32", str(threads),
         str(e)]))


def millrace(env, source, size, count, threads):
    fetched = []        # how, of each run: on warm data "direct" is expected

    def run(epochs):
        r = env.run(f"{source} | batch {batch_of(size)}", "--threads", threads,
                    "--epochs", epochs, "--order", "shuffle")
        if r["samples"] != count * epochs or \
                r["bytes_out"] < r["samples"] * size:
            raise Failed(f"{r['samples']} samples, {r['bytes_out']} bytes "
                         f"instead of {epochs} x {count} of {size}")
        fetched.append(r.get("fetch", "unknown"))
        return {"bytes": r["samples"] * size, "seconds": r["seconds"]}
    job = timed(env, run)
    job.fetched = fetched
    return job


def rate(r):
    return r["bytes"] / r["seconds"] / 1e6


def torch(env, kind, path, size, count, workers=2):
    # 27 k samples/s: a fifth of the data already takes more than a second
    few = min(count, max(400_000_000 // size, 16))
    return lambda: rate(output_json(
        [PYTHON, os.path.join(HERE, "peer_torch.py"), kind, path,
         str(batch_of(size)), str(workers), str(few), str(env.seconds)]))


def ffcv(env, npy, size, workers):
    script = os.path.join(HERE, "peer_ffcv.py")
    beton = npy[:-len("npy")] + "beton"

    def job():
        if not os.path.exists(beton):
            say(f"  making {beton}")
            data.need(env, os.path.getsize(npy))
            output([PYTHON, script, "make", npy, beton + ".part"])
            os.rename(beton + ".part", beton)
        return rate(output_json([PYTHON, script, "run", beton,
                                 str(batch_of(size)), str(workers),
                                 str(env.seconds)]))
    return job


def plan(env, size_all):
    """All jobs by name; those that are compared stand side by side."""
    jobs = {}
    for label, size in SIZES.items():
        path, count = data.npy(env, size, size_all)
        for t in (1, 2):
            jobs[f"bare pread, {label}, {per(t)}"] = bare_read(
                env, "pread", path, size, t)
            jobs[f"millrace npy, {label}, {per(t)}"] = millrace(
                env, f"npy '{path}'", size, count, t)
            jobs[f"millrace mapped npy, {label}, {per(t)}"] = millrace(
                env, f"npy '{path}' map=yes", size, count, t)
        for t in (1, 2) if label == SMALL else (2,):
            jobs[f"bare memcpy, {label}, {per(t)}"] = bare_read(
                env, "memcpy", path, size, t)
        jobs[f"torch memmap, {label}, 2 workers"] = torch(
            env, "npy", path, size, count)
        if label != SMALL:
            continue
        for w in (2, 1):
            jobs[f"FFCV NDArray, {label}, {per(w, 'worker')}"] = ffcv(
                env, path, size, w)
        folders = max(min(100, size_all // (size * 1000)), 2)
        many = data.files(env, folders, 1000, size)
        for t in (1, 2):
            jobs[f"bare files, {label}, {per(t)}"] = bare_files(
                env, many, size, t)
            jobs[f"millrace files, {label}, {per(t)}"] = millrace(
                env, f"files '{many}'", size, folders * 1000, t)
        for t in (1, 2):
            jobs[f"millrace synthetic, {label}, {per(t)}"] = millrace(
                env, f"synthetic shape={size} dtype=u8 count={count}", size,
                count, t)
        jobs[f"torch files, {label}, 2 workers"] = torch(
            env, "files", many, size, folders * 1000)
    return jobs


COMPARED = [
    # name, above, below, target
    ("npy 10 KB / bare pread, 2 threads", "millrace npy, 10 KB, 2 threads",
     "bare pread, 10 KB, 2 threads", (">=", 0.75)),
    ("npy 10 KB / bare pread, 1 thread", "millrace npy, 10 KB, 1 thread",
     "bare pread, 10 KB, 1 thread", None),
    ("npy 80 KB / bare pread, 2 threads", "millrace npy, 80 KB, 2 threads",
     "bare pread, 80 KB, 2 threads", None),
    ("npy 640 KB / bare pread, 2 threads", "millrace npy, 640 KB, 2 threads",
     "bare pread, 640 KB, 2 threads", None),
    ("npy 20 MB / bare pread, 2 threads", "millrace npy, 20 MB, 2 threads",
     "bare pread, 20 MB, 2 threads", None),
    ("files 10 KB / bare files, 2 threads", "millrace files, 10 KB, 2 threads",
     "bare files, 10 KB, 2 threads", (">=", 0.75)),
    ("mapped npy at 10 KB / at 20 MB, 2 threads",
     "millrace mapped npy, 10 KB, 2 threads",
     "millrace mapped npy, 20 MB, 2 threads", (">=", 0.6)),
    ("npy at 10 KB / npy at 20 MB, 2 threads",
     "millrace npy, 10 KB, 2 threads", "millrace npy, 20 MB, 2 threads",
     (">=", 0.6)),
    ("bare pread at 10 KB / at 20 MB, 2 threads",
     "bare pread, 10 KB, 2 threads", "bare pread, 20 MB, 2 threads", None),
    ("npy at 10 KB / bare pread at 20 MB, 2 threads",
     "millrace npy, 10 KB, 2 threads", "bare pread, 20 MB, 2 threads", None),
    # FFCV reads from a mapping, so like is compared with like
    ("mapped npy 10 KB / FFCV NDArray, 2 each",
     "millrace mapped npy, 10 KB, 2 threads", "FFCV NDArray, 10 KB, 2 workers",
     (">=", 2.2)),
    ("npy 10 KB / FFCV NDArray, 2 each", "millrace npy, 10 KB, 2 threads",
     "FFCV NDArray, 10 KB, 2 workers", None),
    ("mapped npy 10 KB / bare memcpy, 2 threads",
     "millrace mapped npy, 10 KB, 2 threads", "bare memcpy, 10 KB, 2 threads",
     None),
    ("npy 10 KB, 2 threads / FFCV NDArray, 1 worker",
     "millrace npy, 10 KB, 2 threads", "FFCV NDArray, 10 KB, 1 worker", None),
    ("npy 10 KB / torch memmap, 2 each", "millrace npy, 10 KB, 2 threads",
     "torch memmap, 10 KB, 2 workers", (">=", 20)),
    ("files 10 KB / torch files, 2 each", "millrace files, 10 KB, 2 threads",
     "torch files, 10 KB, 2 workers", None),
    ("npy 10 KB, 2 threads / 1 thread", "millrace npy, 10 KB, 2 threads",
     "millrace npy, 10 KB, 1 thread", (">=", 1.8)),
    ("bare pread 10 KB, 2 threads / 1 thread", "bare pread, 10 KB, 2 threads",
     "bare pread, 10 KB, 1 thread", None),
]


def main(env, report):
    size, message = data.total(env, COPIES)
    if message:
        report.note(message)
    rounds = env.rounds(5)
    report.setting(bytes_per_data_set=size, rounds=rounds, cache="warm",
                   order="shuffle", batch="32; 20 MB: 8")
    jobs = plan(env, size)
    values, failed = interleave(jobs, rounds)
    for name in jobs:
        if name in failed:
            report.fail(name, failed[name])
        bytes_each = SIZES[name.split(", ")[1]]
        got = values.get(name, {})
        report.measure(name, "MB/s", got)
        fetched = getattr(jobs[name], "fetched", [])
        if set(fetched) - {"direct"}:
            report.note(f"{name}: fetched by {', '.join(fetched)}")
        if got:
            report.top["measurements"][-1]["samples_per_s"] = (
                report.top["measurements"][-1]["median"] * 1e6 / bytes_each)
    for name, above, below, target in COMPARED:
        report.ratio(name, paired(values.get(above, {}),
                                  values.get(below, {})), target)
    large = [x for x in report.top["ratios"]
             if x["name"] == "npy 20 MB / bare pread, 2 threads"][0]
    if large.get("median", 1) < 0.75:
        report.note("the target against our own 20 MB says little: there we "
                    f"reach {large['median']:.2f} of the bare loop; see "
                    "10 KB against bare pread at 20 MB")
