# SPDX-License-Identifier: Apache-2.0
"""What to do once and what in each epoch: Tables 1, 2 and 4, Figures 6 and
14 of the study."""
import presto_paper as paper
from common import Failed, number
from presto_measure import cell, median, rate, size, spread, times, warm
from presto_sets import NAMES, SPLITS, Pipeline


def pipelines(lab, names, report):
    """Those of names that are wanted and whose data can be made."""
    for name in names:
        if lab.names and name.split("-grey")[0] not in lab.names:
            continue
        try:
            yield Pipeline(lab, name)
        except Failed as e:
            report.fail(name, str(e))


def reads(r):
    """MB/s that came from the storage."""
    return r["bytes_read"] / r["seconds"] / 1e6


def prepared(lab, p, splits, report):
    """name of split -> what is stored, of those that could be made."""
    told = {}
    for split in splits:
        try:
            told[split] = p.stored(split)
            warm(lab, p, p.text(split))
        except Failed as e:
            report.fail(f"{p.name}, {split}", str(e))
    return told


def best(values):
    """The strategy with the highest median."""
    return max(values, key=lambda k: median(values[k]), default=None)


def compared(lab, p, report, published):
    """One pipeline's strategies, side by side: a table."""
    told = prepared(lab, p, p.strategies(), report)
    jobs = {s: lambda s=s: rate(lab, p, p.text(s)) for s in told}
    got = lab.rates(jobs, report, p.name)
    top, rows, points = best(got), [], []
    for split, t in told.items():
        values = got.get(split)
        each = t["bytes"] / t["samples"]
        rows.append((split + (" *" if split == top else ""), size(each),
                     size(t["bytes"]), f"{t['seconds']:.2f} s"
                     if t["seconds"] else "", cell(values),
                     times(values, got.get("unprocessed")),
                     number(published.get(split))
                     if published.get(split) else ""))
        points.append({"pipeline": p.name, "strategy": split,
                       "bytes_each": each, "bytes": t["bytes"],
                       "prepare_s": t["seconds"],
                       "samples_per_s": spread(values),
                       "published": published.get(split)})
    report.add_table(f"{p.name}, {p.count} samples (* is the fastest)",
                     ("strategy", "a sample", "stored", "prepared in",
                      "samples/s", "of unprocessed", "published"),
                     rows, points)
    said = {k: v for k, v in published.items() if v}
    if top and said:
        theirs = max(said, key=said.get)
        report.top["settings"].setdefault("fastest", {})[p.name] = {
            "here": top, "published": theirs}


def fig6(lab, report):
    """storage consumption and throughput of each strategy"""
    for p in pipelines(lab, NAMES, report):
        compared(lab, p, report,
                 {k: v[0] for k, v in paper.RATES[p.name].items()})
    fastest = report.top["settings"].get("fastest", {})
    same = [n for n, f in fastest.items() if f["here"] == f["published"]]
    report.note("the fastest strategy is the published one for "
                f"{len(same)} of {len(fastest)}: {', '.join(same) or 'none'}")


def fig14(lab, report):
    """a greyscale step before and after pixel centering"""
    for p in pipelines(lab, ("cv-grey", "cv-grey-last"), report):
        compared(lab, p, report, paper.GREY[p.name])


def table1(lab, report):
    """all steps each time, all once, until resize once"""
    for p in pipelines(lab, ("cv",), report):
        told = prepared(lab, p, paper.TABLE1, report)
        got = lab.rates({s: lambda s=s: rate(lab, p, p.text(s))
                         for s in told}, report, p.name)
        source = p.source_bytes()
        rows, points = [], []
        for split, (sps, gigabytes) in paper.TABLE1.items():
            values = got.get(split)
            own = told.get(split, {}).get("bytes", 0)
            kept = source + (own if split != "unprocessed" else 0)
            rows.append((split, cell(values),
                         times(values, got.get("unprocessed")), size(kept),
                         f"{kept / source:.1f}x", str(sps),
                         f"{sps / 107:.1f}x", f"{gigabytes / 146:.1f}x"))
            points.append({"strategy": split, "bytes": kept,
                           "samples_per_s": spread(values)})
        report.add_table(f"cv, {p.count} samples; bytes with the source's",
                         ("strategy", "samples/s", "speed", "stored", "bytes",
                          "published/s", "speed", "bytes"), rows, points)


def table2(lab, report):
    """the data sets"""
    rows, points = [], []
    for p in pipelines(lab, NAMES, report):
        n, gigabytes, megabytes, kind = paper.SETS[p.name]
        own = p.source_bytes()
        rows.append((p.name, kind, f"{p.count:,}", size(own),
                     f"{own / p.count / 1e6:.4f}", f"{n:,}",
                     f"{gigabytes} GB", f"{megabytes:.4f}"))
        points.append({"pipeline": p.name, "samples": p.count, "bytes": own})
    report.add_table("made by `millrace synth`, beside the published ones",
                     ("pipeline", "format", "samples", "bytes", "MB each",
                      "published", "bytes", "MB each"), rows, points)


# Table 4's rows: the pipelines that have a concatenated strategy, and on what.
CONCATENATED = [n for n in NAMES if "concatenated" in SPLITS[n]]


def table4(lab, report):
    """many files or one: throughput and what is read"""
    rows, points = [], []
    for p in pipelines(lab, CONCATENATED, report):
        told = prepared(lab, p, ("unprocessed", "concatenated"), report)
        places = [lab.storage] + (["ssd"] if p.name in ("cv", "nlp") and
                                  lab.storage != "ssd" else [])
        seen, jobs = {}, {}
        for place in places:
            for split in told:
                for fetch in ("auto", "direct"):
                    def job(place=place, split=split, fetch=fetch):
                        def both(r):
                            seen.setdefault((place, split, fetch),
                                            []).append(reads(r))
                            return r["samples"] / r["seconds"]
                        return rate(lab, p, p.text(split), both,
                                    storage=f"{place}", order=lab.order,
                                    fetch=fetch)
                    jobs[place, split, fetch] = job
        got = lab.rates(jobs, report, p.name)
        for place in places:
            row, point = table4_row(lab, p, place, got, seen)
            rows.append(row)
            points.append(point)
    report.add_table(
        "one request per thread is --fetch direct; the rest reads ahead",
        ("pipeline", "unprocessed/s", "concatenated/s", "gain",
         "MB/s", "MB/s", "one request per thread: /s", "/s",
         "published", "", "MB/s", "MB/s"), rows, points)


def table4_row(lab, p, place, got, seen):
    name = p.name if place == lab.storage else f"{p.name}, {place}"
    key = name if place == lab.storage else f"{p.name}, ssd"
    said = paper.TABLE4.get(key, ("", "", "", ""))
    cells = {(s, f): got.get((place, s, f)) for s in
             ("unprocessed", "concatenated") for f in ("auto", "direct")}
    raw, one = cells["unprocessed", "auto"], cells["concatenated", "auto"]
    row = (name, cell(raw), cell(one), times(one, raw),
           number(median(seen.get((place, "unprocessed", "auto")))),
           number(median(seen.get((place, "concatenated", "auto")))),
           cell(cells["unprocessed", "direct"]),
           cell(cells["concatenated", "direct"]), *map(str, said))
    return row, {"pipeline": p.name, "storage": place,
                 **{f"{s}, {f}": spread(v) for (s, f), v in cells.items()}}
