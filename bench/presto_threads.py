# SPDX-License-Identifier: Apache-2.0
"""Threads and orders: Figure 12 of the study, and its section on
shuffling, which has no figure."""
import presto_paper as paper
from common import Failed, number
from presto_made import counts
from presto_measure import cell, median, rate, spread, times
from presto_sets import NAMES
from presto_splits import pipelines, prepared

ORDERS = ("sequential", "block", "shuffle")
SHUFFLED = {"cv": ("unprocessed", "resized"), "nlp": ("bpe-encoded",),
            "mp3": ("spectrogram-encoded",), "nilm": ("aggregated",)}


def fig12(lab, report):
    """the speed-up of each strategy with threads"""
    threads = counts(lab)
    ways = {"no-cache": lab.storage, "sys-cache": ""}
    for p in pipelines(lab, NAMES, report):
        told = prepared(lab, p, p.strategies(), report)
        jobs = {(s, w, t): lambda s=s, w=w, t=t: rate(
                    lab, p, p.text(s), storage=ways[w], threads=t,
                    seconds=lab.seconds / 2)
                for s in told for w in ways for t in threads}
        got = lab.rates(jobs, report, p.name)
        rows, points = [], []
        for split in told:
            v = {w: [got.get((split, w, t)) for t in threads] for w in ways}
            rows.append((split, *(c for w in ways for c in (
                cell(v[w][0]), *(times(x, v[w][0]) for x in v[w][1:])))))
            points.append({"pipeline": p.name, "strategy": split,
                           "threads": threads,
                           **{w: [spread(x) for x in v[w]] for w in ways}})
        report.add_table(
            f"{p.name}, {p.count} samples",
            ("strategy", *(c for w in ways for c in (
                f"{w}: 1 thread/s", *(f"{t} threads" for t in threads[1:])))),
            rows, points)
    report.note(f"{lab.cores} cores: where the CPU is the limit, more threads "
                "than that cannot be faster")


def shuffle(lab, report):
    """what shuffling costs"""
    rows, points = [], []
    ways = {"page cache": "", lab.storage: lab.storage}
    for p in pipelines(lab, SHUFFLED, report):
        for split in SHUFFLED[p.name]:
            try:
                if not prepared(lab, p, (split,), report):
                    continue
            except Failed as e:
                report.fail(f"{p.name}, {split}", str(e))
                continue
            got = lab.rates({(w, o): lambda w=w, o=o: rate(
                                 lab, p, p.text(split), storage=ways[w],
                                 order=o)
                             for w in ways for o in ORDERS}, report,
                            f"{p.name}, {split}")
            for w in ways:
                v = [got.get((w, o)) for o in ORDERS]
                rows.append((f"{p.name}, {split}", w, *map(cell, v),
                             *(more(x, v[0]) for x in v[1:])))
                points.append({"pipeline": p.name, "strategy": split,
                               "storage": ways[w],
                               **{o: spread(x) for o, x in zip(ORDERS, v)}})
    report.add_table("samples/s by order; what a sample takes more than in "
                     "sequence",
                     ("", "from", *ORDERS, "block", "shuffle"), rows, points)
    report.note(f"published: {paper.SHUFFLE_MS} ms of a sample more, whatever "
                "its size, by a buffer of samples; here an order is a "
                "permutation of numbers, and nothing is held back")


def more(values, base):
    if not values or not base:
        return "-"
    return f"{number(1e6 / median(values) - 1e6 / median(base))} us"
