# SPDX-License-Identifier: Apache-2.0
"""Whether memory stays within --memory, and what a sample of the index
costs."""
import itertools
import json
import os

import data
from common import Failed, say

QUESTION = "does memory stay within --memory + 64 MiB?"
SLACK = 64              # MiB for code, stacks, index
BUDGETS = (16, 64, 256)
MIB = 2**20


def peak(env, pipeline, budget, samples, *options):
    """(MiB by wait4, MiB by --json) of one run of so many samples."""
    text, seen = env.spawn(
        [env.millrace, "run", "--json", pipeline, "--threads", 2, "--memory",
         f"{budget}M", *options])
    r = json.loads(text)
    if r["samples"] != samples:
        raise Failed(f"{r['samples']} samples instead of {samples}")
    return seen["maxrss_kib"] / 1024, r.get("peak_rss_mb")


def index_cost(env, report, big, count):
    """RSS with all files minus RSS with 1,000, per file: the index alone,
    as both deliver the same 1,000 samples."""
    small = data.files(env, 1, 1000, 1024, link=True)
    seen = [peak(env, f"files '{d}' | batch 32", 64, 960, "--epochs", 1,
                 "--samples", 960)[0] * MIB for d in (small, big)]
    each = (seen[1] - seen[0]) / (count - 1000)
    with os.scandir(big) as it:
        folder = next(it)
    with os.scandir(folder.path) as it:
        name = len(next(it).name)
    path = len(folder.name) + 1 + name      # they are all equally long
    report.measure("index, all", "bytes/file", each)
    report.measure("path from the source's folder", "bytes/file", path)
    report.measure("index without the path", "bytes/file", each - path)


def main(env, report):
    npy, rows = data.npy(env, 10240, data.total(env, 6)[0])
    small = data.files(env, 1, 1000, 10240)
    ragged = data.files(env, 4, 500, 1000, 200_000)
    big, count = data.million(env)
    report.setting(threads=2, slack_mib=SLACK)
    cases = [
        ("npy, 10 KB", f"npy '{npy}' | batch 32", rows),
        ("files, 10 KB", f"files '{small}' | batch 32", 1000),
        ("ragged files, 1-200 KB", f"files '{ragged}' | batch 32", 2000),
        ("synthetic, 1,000,000",
         "synthetic shape=16 dtype=u8 count=1000000 | batch 256", 1_000_000),
        (f"files, {count:,}", f"files '{big}' | batch 256", count),
    ]
    for (kind, pipeline, samples), budget in itertools.product(cases, BUDGETS):
        name = f"{kind}, {budget}M"
        say(f"  {name}")
        try:
            seen, told = peak(env, pipeline, budget, samples, "--epochs", 1)
        except Failed as e:
            report.fail(name, str(e))
            continue
        report.measure(name + ", peak by --json", "MiB",
                       [] if told is None else told)
        report.ratio(name + ", peak RSS", [seen], ("<=", budget + SLACK),
                     "MiB")
        if told is None or not 0.9 < told / seen < 1.1:
            report.note(f"{name}: --json says {told}, wait4 {seen:.1f} MiB")
    try:
        index_cost(env, report, big, count)
    except Failed as e:
        report.fail("index per file", str(e))
