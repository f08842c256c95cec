# SPDX-License-Identifier: Apache-2.0
"""Compression of what is stored: Figure 10 of the study."""
import presto_paper as paper
from common import Failed
from presto_measure import cell, rate, size, spread, times, warm
from presto_sets import NAMES
from presto_splits import pipelines

# The study has gzip and zlib; the others are what `prepare` has besides.
CODECS = ("none", "gzip", "zlib", "lz4", "zstd")
QUICK = ("none", "gzip")


def made(p, split, codecs, report):
    told = {}
    for codec in codecs:
        try:
            told[codec] = p.stored(split, codec)
        except Failed as e:
            report.fail(f"{p.name}, {split}, {codec}", str(e))
    return told


def one(lab, p, split, codecs, report):
    """One strategy with each codec; the packed sets are taken away again,
    since there would be twenty gigabytes of them."""
    try:
        told = made(p, split, codecs, report)
        for codec in told:
            warm(lab, p, p.text(split, codec=codec))
        got = lab.rates({c: lambda c=c: rate(lab, p, p.text(split, codec=c))
                         for c in told}, report,
                        f"{p.name}, {split}",
                        rounds=1 if lab.quick else None)
    finally:
        for codec in codecs:
            if codec != "none":
                p.dropped(split, codec)
    plain = told.get("none")
    rows, points = [], []
    for codec, t in told.items():
        saved = 1 - t["bytes"] / plain["bytes"] if plain else None
        longer = t["seconds"] / plain["seconds"] if plain else None
        said = paper.FIG10.get((p.name, split), paper.SLOWER
                               if p.name in ("nilm", "mp3", "flac") and
                               split != "concatenated" else ("", ""))
        rows.append((f"{split}, {codec}", size(t["bytes"] / t["samples"]),
                     "" if codec == "none" else f"{100 * saved:.1f} %",
                     cell(got.get(codec)),
                     times(got.get(codec), got.get("none")),
                     f"{t['seconds']:.2f} s",
                     "" if codec == "none" else f"{longer:.1f}x",
                     *(said if codec in ("gzip", "zlib") else ("", ""))))
        points.append({"pipeline": p.name, "strategy": split, "codec": codec,
                       "bytes": t["bytes"], "saved": saved,
                       "prepare_s": t["seconds"],
                       "samples_per_s": spread(got.get(codec))})
    return rows, points


def fig10(lab, report):
    """compression: space saved, offline time, throughput"""
    codecs = QUICK if lab.quick else CODECS
    gained = []
    for p in pipelines(lab, NAMES, report):
        rows, points = [], []
        for split in p.splits:
            more, data = one(lab, p, split, codecs, report)
            rows += more
            points += data
        report.add_table(f"{p.name}, {p.count} samples",
                         ("", "a sample", "saved", "samples/s", "of none",
                          "offline", "of none", "published: saved",
                          "of none"), rows, points)
        gained += gains(points)
    report.note("faster than stored plainly, beyond both intervals: "
                + ("; ".join(gained) or "none"))


def gains(points):
    """Where packing paid: its interval is above that of none."""
    plain = {x["strategy"]: x["samples_per_s"] for x in points
             if x["codec"] == "none"}
    for x in points:
        a, b = x["samples_per_s"], plain.get(x["strategy"])
        if (x["codec"] != "none" and a and b and
                min(a["values"]) > max(b["values"])):
            yield (f"{x['pipeline']} {x['strategy']} {x['codec']} "
                   f"{a['median'] / b['median']:.2f}x, "
                   f"{100 * x['saved']:.0f} % saved")
