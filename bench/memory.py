# SPDX-License-Identifier: Apache-2.0
"""Whether memory stays within --memory, and what a sample of the index
costs."""
import json
import os

import data
from common import Failed, say

QUESTION = "does memory stay within --memory + 64 MiB?"
SLACK = 64              # MiB for code, stacks, index
BUDGETS = (16, 64, 256)
MIB = 2**20


def peak(env, pipeline, budget, *options):
    """(MiB by wait4, MB by --json, samples) of one run."""
    text, seen = env.spawn(
        [env.millrace, "run", "--json", pipeline, "--threads", 2, "--memory",
         f"{budget}M", *options])
    r = json.loads(text)
    return seen["maxrss_kib"] / 1024, r.get("peak_rss_mb"), r["samples"]


def index_cost(env, report, big, count):
    """RSS with all files minus RSS with 1,000, per file: the index alone,
    as both deliver the same 1,000 samples."""
    small = data.files(env, 1, 1000, 1024, link=True)
    seen = [peak(env, f"files '{d}' | batch 32", 64, "--epochs", 1,
                 "--samples", 1000)[0] * MIB for d in (small, big)]
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
    npy, _ = data.npy(env, 10240, data.total(env, 6)[0])
    small = data.files(env, 1, 1000, 10240)
    ragged = data.files(env, 4, 500, 1000, 200_000)
    big, count = data.million(env)
    report.setting(threads=2, slack_mib=SLACK)
    plan = [(f"npy, 10 KB, {b}M", f"npy '{npy}' | batch 32", b)
            for b in BUDGETS]
    plan += [(f"files, 10 KB, {b}M", f"files '{small}' | batch 32", b)
             for b in BUDGETS]
    plan += [(f"ragged files, 1-200 KB, {b}M", f"files '{ragged}' | batch 32",
              b) for b in BUDGETS]
    plan += [(f"synthetic, a million, {b}M",
              "synthetic shape=16 dtype=u8 count=1000000 | batch 256", b)
             for b in BUDGETS]
    plan += [(f"files, {count:,}, {b}M", f"files '{big}' | batch 256", b)
             for b in BUDGETS]
    for name, pipeline, budget in plan:
        say(f"  {name}")
        try:
            seen, told, _ = peak(env, pipeline, budget, "--epochs", 1)
        except Failed as e:
            report.fail(name, str(e))
            continue
        report.measure(name + ", peak by --json", "MB",
                       [] if told is None else told)
        report.ratio(name + ", peak RSS", [seen], ("<=", budget + SLACK),
                     "MiB")
        # its MB may be MiB; by more than that they must not differ
        if told is None or not 0.9 < told / seen < 1.1:
            report.note(f"{name}: --json says {told}, wait4 {seen:.1f} MiB")
    try:
        index_cost(env, report, big, count)
    except Failed as e:
        report.fail("index per file", str(e))
