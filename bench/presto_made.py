# SPDX-License-Identifier: Apache-2.0
"""Samples of one size: Table 3, and Figures 7, 9, 11 and 13 of the study,
which has 15 GB in samples of 10 KB to 20.5 MB."""
import os
import shutil

import presto_paper as paper
from common import number, output, say
from presto_measure import (cell, later, median, rate, run, size, spread,
                            times, warm)
from presto_sets import LONGEST, Made

WHOLE = 15e9            # bytes that times are given for
SIZES = [10_000 << k for k in range(11)] + [20_500_000]
STEP = "rms period=500"


def sizes(lab):
    return SIZES[::4] + [SIZES[-1]] if lab.quick else SIZES


def total(lab):
    """Bytes of each set: 250 MB where --samples is 1000; a dozen of the
    largest, so that as many can be on their way as the storage rewards."""
    return max(lab.samples * 250_000, (2 if lab.quick else 12) * SIZES[-1])


def label(n):
    return f"{n / 1e6:.2f} MB" if n < 1e6 else f"{n / 1e6:.1f} MB"


def whole(values, n):
    """Seconds for 15 GB, from rates."""
    return [WHOLE / n / v for v in values or []]


def each(values):
    """Microseconds of a sample, as text."""
    return f"{number(1e6 / median(values))} us" if values else "-"


def fig7(lab, report):
    """reading 15 GB in samples of one size, u8 and f32"""
    sets = {(d, n): Made(lab, n, d, total(lab)) for n in sizes(lab)
            for d in ("u8", "f32")}
    for m in sets.values():
        warm(lab, m, m.text())
    got = lab.rates({k: lambda m=m: rate(lab, m, m.text())
                     for k, m in sets.items()}, report)
    rows, points = [], []
    for n in sizes(lab):
        both = [got.get((d, n)) for d in ("u8", "f32")]
        rows.append((label(n), *(cell(whole(v, n), " s") for v in both),
                     each(both[1])))
        points.append({"bytes": n, "u8": spread(whole(both[0], n)),
                       "f32": spread(whole(both[1], n))})
    report.add_table(
        f"seconds for 15 GB from {lab.storage}, by what {size(total(lab))} "
        "took", ("a sample", "u8", "f32", "a sample takes"), rows, points)
    small, large = (got.get(("f32", n)) for n in (SIZES[0], SIZES[-1]))
    if small and large:
        ratio = median(whole(small, SIZES[0])) / median(whole(large,
                                                              SIZES[-1]))
        report.note(f"10 KB samples take {ratio:.2f} times as long as those "
                    "of 20.5 MB; published: more than 11")


def levels(lab, m):
    held = int(m.size * m.count * 1.1) + m.count * 256 + (1 << 20)
    return {"no-cache": lambda: rate(lab, m, m.text()),
            "sys-cache": lambda: rate(lab, m, m.text(), storage=""),
            "app-cache": lambda: later(lab, m, m.text(cache=held), storage="",
                                       memory=held + (1 << 30))}


def fig9(lab, report):
    """the same with the system's cache and the application's"""
    jobs = {}
    for n in sizes(lab):
        m = Made(lab, n, "f32", total(lab))
        warm(lab, m, m.text())
        jobs.update({(k, n): j for k, j in levels(lab, m).items()})
    got = lab.rates(jobs, report)
    rows, points = [], []
    for n in sizes(lab):
        v = {k: got.get((k, n)) for k in ("no-cache", "sys-cache",
                                          "app-cache")}
        said = [paper.FIG9[k].get(n) for k in ("sys-cache", "app-cache")]
        rows.append((label(n), *(cell(whole(x, n), " s") for x in v.values()),
                     each(v["sys-cache"]), each(v["app-cache"]),
                     *(f"{s} s" if s else "" for s in said)))
        points.append({"bytes": n,
                       **{k: spread(whole(x, n)) for k, x in v.items()}})
    report.add_table(
        f"seconds for 15 GB; no-cache is {lab.storage}",
        ("a sample", "no-cache", "sys-cache", "app-cache",
         "a sample, sys", "a sample, app", "published: sys", "app"),
        rows, points)
    report.note("published, 10 KB from their application's cache: 138.3 s "
                "for 1.5 million samples, 92 us of a sample")


def counts(lab):
    """Numbers of threads: powers of two, to twice the cores."""
    found = [1]
    while found[-1] < 2 * lab.threads:
        found.append(found[-1] * 2)
    return found


def scaled(lab, report, step, title):
    """The speed-up with threads, by size, from the page cache."""
    jobs, threads = {}, counts(lab)
    for n in sizes(lab):
        m = Made(lab, n, "f32", total(lab))
        warm(lab, m, m.text(step))
        for t in threads:
            jobs[n, t] = lambda m=m, t=t: rate(
                lab, m, m.text(step), storage="", threads=t,
                seconds=lab.seconds / 2)
    got = lab.rates(jobs, report)
    rows, points = [], []
    for n in sizes(lab):
        v = [got.get((n, t)) for t in threads]
        rows.append((label(n), cell(whole(v[0], n), " s"),
                     *(times(x, v[0]) for x in v[1:])))
        points.append({"bytes": n, "threads": threads,
                       "seconds": [spread(whole(x, n)) for x in v]})
    report.add_table(title, ("a sample", "15 GB, 1 thread",
                             *(f"{t} threads" for t in threads[1:])),
                     rows, points)
    report.note(f"{lab.cores} cores: more threads than that cannot be faster")


def fig11(lab, report):
    """threads that read samples of one size"""
    scaled(lab, report, "", "speed-up, from the page cache; published: about "
           "1x at 10 KB with 8 threads on 8 cores")


def fig13(lab, report):
    """threads that apply the root mean square"""
    scaled(lab, report, STEP, f"speed-up with `{STEP}`; published with 8: "
           "NumPy below 1x, TensorFlow 4x to 8x")
    report.note("published at 20.5 MB: " + ", ".join(
        f"{k} {v} s" for k, v in paper.RMS.items()))


class Folder:
    """Raw samples of 200 KB as fio had them: in some arrays, or a file
    each."""
    EACH = 204_800

    def __init__(self, lab, files):
        self.cwd, self.count = lab.data, max(16, lab.samples)
        kind = f"{files}" if files else "each"
        self.path = os.path.join(lab.data, f"raw-{self.count}-{kind}")
        if not os.path.exists(self.path):
            say(f"  making {self.path}")
            shutil.rmtree(self.path + ".part", ignore_errors=True)
            output([lab.millrace, "synth", "tensors", self.path + ".part",
                    "--count", str(self.count), "--shape", str(self.EACH),
                    *(["--files", str(files)] if files else ["--each"])],
                   timeout=LONGEST)
            os.sync()
            os.rename(self.path + ".part", self.path)
        self.text = (f"npy '{self.path}/data-*.npy' | batch 16" if files else
                     f"files '{self.path}' | batch 16")


def requests(r):
    """(MB/s, requests/s, share of what the profile allows)"""
    a = r.get("storage_allows", {})
    return (r["bytes_read"] / r["seconds"] / 1e6,
            a.get("requests", 0) / r["seconds"], a.get("used"))


def table3(lab, report):
    """the storage, as fio profiles it"""
    seen, jobs = {}, {}
    for threads, files in ((1, 1), (8, 8), (1, 0), (8, 0)):
        f = Folder(lab, files)
        warm(lab, f, f.text)
        for fetch in ("direct", "ahead"):
            def job(f=f, files=files, threads=threads, fetch=fetch):
                r = run(lab, f, f.text, "--seconds", lab.seconds,
                        threads=threads, fetch=fetch, order="sequential")
                seen[threads, files > 0, fetch] = requests(r)
                return requests(r)[0]
            jobs[threads, files > 0, fetch] = job
    got = lab.rates(jobs, report)
    rows, points = [], []
    for (threads, one, fetch), values in got.items():
        said = paper.FIO[threads, "one" if one else "many"]
        _, per_s, used = seen[threads, one, fetch]
        rows.append((f"{threads} threads" if threads > 1 else "1 thread",
                     "one each" if one else "of 0.2 MB", fetch,
                     cell(values), number(per_s),
                     f"{100 * used:.0f} %" if used is not None else "",
                     str(said[0]), f"{said[1]:,}"))
        points.append({"threads": threads, "one_file": one, "fetch": fetch,
                       "mb_per_s": spread(values), "requests_per_s": per_s,
                       "used": used})
    report.add_table(
        f"{lab.storage}; direct: one request per thread at a time",
        ("", "files", "--fetch", "MB/s", "requests/s", "of what it allows",
         "published MB/s", "of 4 KB/s"), rows, points)
