# SPDX-License-Identifier: Apache-2.0
"""Prepared data: Millrace's records beside FFCV's raw mode, bare copying and
bare unpacking of the same shards, warm; making them beside the steps and the
disk alone; opening a million."""
import copy
import glob
import json
import mmap
import os
import shutil
import threading
import time

import data
import overhead
import photos
from codecs_speed import dump, pictures
from common import (Failed, PYTHON, interleave, output, output_json, paired,
                    say)
from images import Group, disturbed, undecide
from noise import Noise

QUESTION = "how fast are prepared records, beside FFCV and bare loops?"
THREADS = 2
SIDE = 256
IMAGE = SIDE * SIDE * 3
STEPS = f"decode_image | resize {SIDE} | center_crop {SIDE}"
TRAIN = "random_resized_crop 224 | flip | normalize imagenet | batch 64"
SMALL = 10240
CODECS = {"none": 0, "lz4": 1, "zstd": 3}
LONGEST = 600               # seconds that preparing may take


def prepare(env, pipeline, to, *options, **kw):
    """`millrace prepare --json`: its numbers."""
    text = output([env.millrace, "prepare", "--json", pipeline, "--out", to,
                   "--threads", str(THREADS), *map(str, options)],
                  timeout=LONGEST, **kw)
    try:
        return json.loads(text)
    except ValueError:
        raise Failed(f"no JSON from prepare: {text[:200]!r}") from None


def level(codec):
    words = ["--codec", codec]
    return words + ["--level", CODECS[codec]] if CODECS[codec] else words


def image_set(env, ph, codec):
    """The photos at 256 x 256 as records."""
    return photos.made(f"{ph.one}-{SIDE}-{codec}.records", lambda to: prepare(
        env, f"files '{ph.one}' | {STEPS}", to, *level(codec)))


def stored(where):
    return sum(os.path.getsize(p) for p in glob.glob(where + "/*"))


class Records(Group):
    def records(self, key, where, ph, steps, **what):
        """steps after `records`; the rate is that of whole epochs."""
        def run(epochs):
            r = self.env.run(f"records '{where}' | {steps}", "--threads",
                             THREADS, "--epochs", epochs, "--order",
                             "shuffle")
            if r["samples"] != ph.photos * epochs or r.get("bad_samples"):
                raise Failed(f"{r['samples']} samples, {r['bad_samples']} bad,"
                             f" instead of {epochs} x {ph.photos}")
            return r
        self.add(key, self.timed(run), data=ph.name, n=THREADS, **what)

    def unpacking(self, where, codec, ph):
        """Into batches, beside a bare loop: both when they are warm."""
        self.add(f"millrace {codec}", lambda: self.env.warm(
            f"records '{where}' | batch 64", THREADS, self.seconds),
            side=f"Millrace, {codec}", data=ph.name, n=THREADS,
            layout="u8 NHWC")
        self.add(f"bare {codec}", self.timed(lambda epochs: bare(
            self.env, where, codec, IMAGE, 64, epochs)),
            side=f"bare unpacking, {codec}", data=ph.name, n=THREADS,
            layout="u8 NHWC")

    def raw(self, key, beton, ph, layout):
        repeat = 2 if self.env.quick else max(1, round(9600 / ph.photos))
        self.peer(key, [photos.FFCV, "run", beton, "train", layout, 64,
                        THREADS, repeat],
                  side="FFCV raw", data=ph.name, n=THREADS,
                  layout={"nchw": "NCHW", "nhwc": "channels last"}[layout])


def bare(env, where, codec, size, batch, epochs):
    return json.loads(output([env.tool("bare_unpack"), where, codec,
                              str(size), str(batch), str(THREADS),
                              str(epochs)]))


def beton(env, ph):
    """FFCV's raw file of the same pixels, which Millrace has made."""
    pipeline = f"files '{ph.one}' | {STEPS} | batch 64"
    files = [dump(env, pipeline, ph.photos, f"{ph.name}-{SIDE}-{field}", field)
             for field in ("image", "label")]
    return photos.made(f"{ph.one}-{SIDE}-raw.beton", lambda to: output(
        [PYTHON, "-B", photos.FFCV, "raw", *files, str(SIDE),
         to]))


# ---- images ----

def train(env, report, ph):
    g = Records(env, report, "train from records")
    where = image_set(env, ph, "none")
    g.records("millrace", where, ph, TRAIN, side="Millrace", layout="NCHW")
    g.records("millrace lz4", image_set(env, ph, "lz4"), ph, TRAIN,
              side="Millrace, lz4", layout="NCHW")
    try:
        raw = beton(env, ph)
        for layout in ("nchw", "nhwc"):
            g.raw(f"ffcv {layout}", raw, ph, layout)
    except Failed as e:
        report.fail("FFCV raw", str(e))
    try:
        g.run(env.rounds(7))
    finally:
        g.close()
    g.tell()
    g.ratio("Millrace / FFCV raw, both NCHW, 2 each", "millrace",
            "ffcv nchw", (">=", 3))
    g.ratio("Millrace NCHW / FFCV raw channels last, 2 each", "millrace",
            "ffcv nhwc", (">=", 1.2))
    g.ratio("lz4 / not packed", "millrace lz4", "millrace")


def unpack(env, report, ph):
    g = Records(env, report, "unpacking")
    g.seconds *= 2
    plain = ph.photos * IMAGE
    for codec in CODECS:
        where = image_set(env, ph, codec)
        report.setting(**{f"ratio_{codec}": round(plain / stored(where), 3)})
        g.unpacking(where, codec, ph)
    try:
        g.run(env.rounds(7))
    finally:
        g.close()
    g.tell()
    for codec in CODECS:
        g.ratio(f"{codec}: Millrace / bare unpacking, 2 each",
                f"millrace {codec}", f"bare {codec}",
                (">=", 0.95) if CODECS[codec] else None)


def quiet(report, title, noise):
    """Notes what others did meanwhile."""
    report.top["settings"].setdefault("noise", {})[title] = noise.summary()
    disturbed(report, title, noise)


# ---- copying ----

def copying(env, report):
    """Records of 10 KB, not packed: what the engine costs a sample."""
    size, message = data.total(env, overhead.COPIES)
    if message:
        report.note(message)
    npy, count = data.npy(env, SMALL, size)
    data.need(env, 0 if os.path.exists(npy[:-3] + "records") else size)
    where = photos.made(npy[:-3] + "records", lambda to: prepare(
        env, f"npy '{npy}'", to, "--codec", "none"))
    noise = Noise()
    # Our first epoch compares checksums, which nobody else does: with it a
    # run of one second would show little else.
    env = copy.copy(env)
    env.seconds *= 4
    jobs = {"millrace records": overhead.millrace(
                env, f"records '{where}'", SMALL, count, THREADS),
            "bare memcpy from the shards": overhead.timed(
                env, lambda e: bare(env, where, "none", SMALL, 32, e)),
            "FFCV NDArray": overhead.ffcv(env, npy, SMALL, THREADS)}
    values, failed = interleave(
        {k: noise.watch(j) for k, j in jobs.items()}, env.rounds(7))
    for name in jobs:
        if name in failed:
            report.fail(name, failed[name])
        report.measure(f"10 KB: {name}, 2 each", "MB/s",
                       values.get(name, {}))
    ours = values.get("millrace records", {})
    for name, other, want in (
            ("bare memcpy of the same shards", "bare memcpy from the shards",
             0.75), ("FFCV NDArray", "FFCV NDArray", 2.2)):
        report.ratio(f"10 KB: records / {name}, 2 each",
                     paired(ours, values.get(other, {})), (">=", want))
        if noise.disturbed():
            undecide(report)
    quiet(report, "copying", noise)


# ---- making them ----

def write_disk(env, size, rate=None):
    """Seconds that writing so many bytes takes, past the page cache as
    prepare does, on the disk at the end; not faster than rate, bytes/s."""
    path = os.path.join(env.data, "disk.part")
    block = mmap.mmap(-1, 4 << 20)
    block.write(os.urandom(4 << 20))
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    try:
        fd = os.open(path, flags | os.O_DIRECT)
    except OSError:                         # a file system without it
        fd = os.open(path, flags)
    try:
        start = time.monotonic()
        for i in range(size // len(block)):
            if rate:
                time.sleep(max(0, start + i * len(block) / rate
                               - time.monotonic()))
            os.write(fd, block)
        os.fsync(fd)
        return (time.monotonic() - start) * size / (
            size // len(block) * len(block))
    finally:
        os.close(fd)
        os.unlink(path)


def making(env, report, ph):
    """MB/s of plain bytes, with the steps, the steps and packing, or the
    disk alone beside it."""
    many = photos.Photos(env, ph.name, ph.one, 1 if env.quick else 10)
    pipeline = f"files '{many.dir}' | {STEPS}"
    plain = many.count * IMAGE
    pixels = dump(env, f"files '{ph.one}' | {STEPS} | batch 16", 32,
                  f"u8-{ph.name}")
    told, steps_rate = {}, []

    def ours(codec, threads=THREADS):
        to = os.path.join(env.data, f"making-{codec}.records")

        def job():
            shutil.rmtree(to, ignore_errors=True)
            start = time.monotonic()
            told[codec] = prepare(env, pipeline, to, *level(codec),
                                  "--threads", str(threads))
            took = time.monotonic() - start
            shutil.rmtree(to)
            return plain / took / 1e6
        return job

    def steps(threads=THREADS):
        start = time.monotonic()
        env.run(f"{pipeline} | batch 64", "--threads", threads,
                "--epochs", 1, "--order", "sequential")
        steps_rate.append(plain / (time.monotonic() - start) / 1e6)
        return steps_rate[-1]

    def beside():
        """What the machine allows: the disk takes CPU time as well (on a
        virtual machine, of the host's), whoever writes."""
        rate = steps_rate[-1] * 1e6
        writer = threading.Thread(target=write_disk, args=(env, plain, rate))
        writer.start()
        try:
            return steps()
        finally:
            writer.join()

    def packing(codec):
        """On all threads, if they do not disturb each other."""
        r = output_json([env.tool("codecs"), pixels, str(IMAGE), "1", "3",
                         codec, str(CODECS[codec])])
        return THREADS * r["pack_mb_s"]

    steps()                                                     # warms
    noise = Noise()
    jobs = {"prepare, none, 1 thread": ours("none", 1),
            "the steps alone (run), 1 thread": lambda: steps(1)}
    jobs.update({f"prepare, {c}": ours(c) for c in CODECS})
    jobs["the steps alone (run)"] = steps
    jobs["the steps beside a disk that is written"] = beside
    jobs["the disk alone (write, fsync)"] = \
        lambda: plain / write_disk(env, plain) / 1e6
    packed = [c for c in CODECS if CODECS[c]]
    jobs.update({f"packing alone, {c}": lambda c=c: packing(c)
                 for c in packed})
    values, failed = interleave(
        {k: noise.watch(j) for k, j in jobs.items()}, env.rounds(5))
    for name in jobs:
        if name in failed:
            report.fail(f"making: {name}", failed[name])
        report.measure(f"making: {name}", "MB/s", values.get(name, {}))
    shares(report, told)
    alone = values.get("the steps alone (run)", {})
    disk = values.get("the disk alone (write, fsync)", {})
    for per in (", 1 thread", ""):
        slow = {i: min(v, disk.get(i, v)) for i, v in values.get(
            f"the steps alone (run){per}", {}).items()}
        # where no core is left over, the disk's own share is told below
        report.ratio("making: none, prepare / the slower of the steps and "
                     f"the disk alone{per or f', {THREADS} threads'}",
                     paired(values.get(f"prepare, none{per}", {}), slow),
                     (">=", 0.95) if per else None)
    report.ratio("making: none, prepare / the steps beside a disk that is "
                 f"written, {THREADS} threads",
                 paired(values.get("prepare, none", {}), values.get(
                     "the steps beside a disk that is written", {})),
                 (">=", 0.95))
    for codec in CODECS:
        work, name = alone, "the steps"
        if codec in packed:
            pack = values.get(f"packing alone, {codec}", {})
            work = {i: 1 / (1 / alone[i] + 1 / pack[i])
                    for i in alone if i in pack}
            name += " and packing"
        report.ratio(f"making: {codec}, prepare / {name} alone",
                     paired(values.get(f"prepare, {codec}", {}), work))
    quiet(report, "making", noise)


def shares(report, told):
    """Where prepare's own account says its time went: its threads' (steps,
    packing, waiting) and the writer's."""
    rows = []
    for codec, r in told.items():
        run = r["loader"]
        of = {x["name"]: x["share"] for x in run["steps"]}
        packing = of.pop("store", 0)
        rows.append((codec, *(f"{100 * x:.1f} %" for x in (
            sum(of.values()), packing, r["write_seconds"] / r["seconds"],
            r["sync_seconds"] / r["seconds"],
            1 - run["seconds"] / r["seconds"]))))
    report.add_table(
        "making: shares of the threads' time, and of the whole",
        ("codec", "threads: reading, steps", "threads: packing, storing",
         "whole: write", "whole: fsync", "whole: before and after"), rows,
        told)


# ---- opening ----

def opening(env, report):
    count = 100_000 if env.quick else 1_000_000
    seen = {}

    def of(n):
        where = photos.made(
            os.path.join(env.data, f"tiny-{n}.records"), lambda to: prepare(
                env, f"synthetic shape=16 dtype=u8 count={n}", to, "--codec",
                "none"))

        def job():
            r = env.spawn([env.millrace, "run", "--json",
                           f"records '{where}' | batch 256", "--threads",
                           THREADS, "--samples", 256, "--epochs", 1])[1]
            seen.setdefault(n, []).append(r["maxrss_kib"] / 1024)
            return r["seconds"] * 1000
        return job

    jobs = {f"{n:,} samples": of(n) for n in (1000, count)}
    for job in jobs.values():
        job()                                                   # warms
    seen.clear()
    values, failed = interleave(jobs, env.rounds(15))
    for name, reason in failed.items():
        report.fail(f"opening: {name}", reason)
    for n in (1000, count):
        name = f"opening: {n:,} samples, one batch, spawn to exit"
        got = list(values.get(f"{n:,} samples", {}).values())
        report.ratio(name, got, ("<", 100), "ms")
        report.ratio(name + ", peak RSS", seen.get(n, []), ("<", 100), "MB")


def main(env, report):
    ph, what = pictures(env)
    report.setting(threads=THREADS, cache="warm", order="shuffle",
                   photos=f"{ph.photos} {what} at {SIDE}x{SIDE}",
                   train=f"records DIR | {TRAIN}",
                   clock="Millrace: opening included, but not beside bare "
                   "unpacking, where two epochs go before; FFCV: whole epochs "
                   "after a warm-up; bare: shards mapped, indices read before")
    parts = {"train": lambda: train(env, report, ph),
             "unpack": lambda: unpack(env, report, ph),
             "copying": lambda: copying(env, report),
             "making": lambda: making(env, report, ph),
             "opening": lambda: opening(env, report)}
    wanted = os.environ.get("BENCH_RECORDS", " ".join(parts)).split()
    if set(wanted) != set(parts):
        report.top["partial"] = wanted
        report.note(f"only {', '.join(wanted)}: BENCH_RECORDS says so")
    for name in (n for n in parts if n in wanted):
        say(f"  {name}")
        try:
            parts[name]()
        except Failed as e:
            report.fail(name, str(e))
            say(f"  {name}: FAILED: {e}")
