# SPDX-License-Identifier: Apache-2.0
"""Large PNGs of 16 bits: decode_image beside a bare loop over libspng."""
import glob
import os
import shutil

import data
from common import interleave, output, output_json, paired

QUESTION = "what does decode_image add to libspng on large 16-bit PNGs?"


def pictures(env, count):
    path = os.path.join(env.data, f"png16-{count}")
    if not os.path.exists(path):
        data.need(env, count * 18_000_000)
        shutil.rmtree(path + ".part", ignore_errors=True)
        output([env.millrace, "synth", "png16", path + ".part", "--count",
                str(count)], timeout=900)
        os.sync()
        os.rename(path + ".part", path)
    return path


def main(env, report):
    rounds = env.rounds(5)
    path = pictures(env, 4 if env.quick else 8)
    files = sorted(glob.glob(path + "/*/*.png"))
    jobs = {}
    for t in (1, 2):
        per = f"{t} thread" + "s" * (t > 1)

        def bare(t=t):
            r = output_json([env.tool("bare_png"), str(t), "1", *files])
            return r["samples"] / r["seconds"]

        def mill(t=t):
            return env.run(f"files {path} | decode_image | batch 1",
                           "--threads", t)["samples_per_s"]
        jobs[f"bare libspng, {per}"] = bare
        jobs[f"decode_image, {per}"] = mill
    report.setting(rounds=rounds, cache="warm", size="2592x1728, 16 bits",
                   files=len(files))
    values, failed = interleave(jobs, rounds)
    for name, why in failed.items():
        report.fail(name, why)
    for name, got in values.items():
        report.measure(name, "samples/s", got)
    for t in ("1 thread", "2 threads"):
        report.ratio(f"decode_image / bare libspng, {t}", paired(
            values.get(f"decode_image, {t}", {}),
            values.get(f"bare libspng, {t}", {})), (">=", 0.95))
