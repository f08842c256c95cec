# SPDX-License-Identifier: Apache-2.0
"""Caches: Table 5 and Figure 8 of the study. Its page cache had 80 GB, its
data up to 1.4 TB; here `--storage P,cache=SIZE` imitates a page cache that
holds the same share of the samples."""
import presto_paper as paper
from common import Failed, number
from presto_measure import cell, later, median, rate, size, spread, times, warm
from presto_sets import NAMES
from presto_splits import pipelines, prepared

FITTED = ("cv2-jpg", "cv2-png", "flac", "mp3", "nilm")      # Table 5's


def memory(p):
    """Bytes of a page cache that holds as large a share as theirs did."""
    return int(paper.MEMORY / paper.SETS[p.name][0] * p.count)


def epochs(lab, p, split):
    """Samples/s of epochs that find nothing cached, as the first one does,
    and of those after the first. A first epoch by itself is short here, and
    mostly beginning."""
    return {f"{split}, first": rate(lab, p, p.text(split)),
            f"{split}, later": later(
                lab, p, p.text(split),
                storage=f"{lab.storage},cache={memory(p)}")}


def fig8(lab, report):
    """the first epoch and the second, with the system's cache"""
    for p in pipelines(lab, NAMES, report):
        told = prepared(lab, p, p.strategies(), report)
        got = lab.rates({s: lambda s=s: epochs(lab, p, s) for s in told},
                        report, p.name)
        rows, points = [], []
        for split, t in told.items():
            a, b = (got.get(f"{split}, {w}") for w in ("first", "later"))
            said = paper.RATES[p.name].get(split, (None, None))
            rows.append((split, size(t["bytes"] / t["samples"]),
                         "yes" if t["bytes"] <= memory(p) else "no",
                         cell(a), cell(b), times(b, a),
                         *("" if s is None else str(s) for s in said),
                         f"{said[1] / said[0]:.1f}x" if said[1] else ""))
            points.append({"pipeline": p.name, "strategy": split,
                           "fits": t["bytes"] <= memory(p),
                           "first": spread(a), "later": spread(b)})
        report.add_table(
            f"{p.name}, {p.count} samples, a page cache of "
            f"{size(memory(p))} (as theirs of 80 GB)",
            ("strategy", "a sample", "fits", "first epoch/s", "later/s",
             "gain", "published: first", "second", "gain"), rows, points)


def levels(lab, p):
    """Jobs: the last strategy without a cache, from the page cache, and from
    the pipeline's own."""
    split = p.last()
    text = p.text(split)
    told = p.stored(split)
    held = int(told["bytes"] * 1.2) + told["samples"] * 256 + (1 << 20)
    warm(lab, p, text)
    return {"none": lambda: rate(lab, p, text),
            "system": lambda: rate(lab, p, text, storage=""),
            "application": lambda: later(lab, p, p.text(split, cache=held),
                                         storage="",
                                         memory=held + (1 << 30))}


def table5(lab, report):
    """no cache, the system's, the application's: the last strategy"""
    rows, points = [], []
    for p in pipelines(lab, FITTED, report):
        try:
            jobs = levels(lab, p)
        except Failed as e:
            report.fail(p.name, str(e))
            continue
        got = lab.rates(jobs, report, p.name)
        told = p.stored(p.last())
        plain, system, own = (got.get(k) for k in
                              ("none", "system", "application"))
        said = paper.TABLE5[p.name]
        rows.append((p.name, size(told["bytes"] / told["samples"]),
                     cell(plain), cell(system), cell(own),
                     times(system, plain), times(own, plain),
                     times(own, system), f"{said[0]}x", f"{said[1]}x",
                     f"{number(said[1] / said[0])}x"))
        points.append({"pipeline": p.name, "none": spread(plain),
                       "system": spread(system), "application": spread(own),
                       "gain": median(own) / median(system)
                       if own and system else None})
    report.add_table(
        f"samples/s of the last strategy; no cache is {lab.storage}",
        ("pipeline", "a sample", "no cache", "system", "application",
         "system/none", "app./none", "app./system",
         "published: system", "app.", "app./system"), rows, points)
