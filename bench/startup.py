# SPDX-License-Identifier: Apache-2.0
"""How soon the first batch comes, and how fast a million files are listed."""
import data
from common import interleave, output_json, paired

QUESTION = "how soon does the first batch come, how fast is listing?"
THREADS = 2


def start_jobs(env, small):
    pipeline = f"files '{small}' | batch 32"

    def first():
        r = env.run(pipeline, "--threads", THREADS, "--epochs", 1)
        return r["first_batch_ms"]

    def whole():
        seen = env.spawn([env.millrace, "run", "--json", pipeline,
                          "--threads", THREADS, "--samples", 32, "--epochs",
                          1, "--order", "sequential"])[1]
        return seen["seconds"] * 1000

    return {"first batch, by --json": first,
            "spawn to exit, one batch": whole}


def list_jobs(env, small, big):
    def explain(where):
        return lambda: env.spawn(
            [env.millrace, "explain", f"files '{where}' | batch 32",
             "--threads", THREADS])[1]["seconds"]

    def walk():
        return output_json([env.tool("bare_walk"), big,
                            str(THREADS)])["seconds"]

    return {"explain, 1,000 files": explain(small),
            "explain, all files": explain(big), "bare walk": walk}


def main(env, report):
    small = data.files(env, 1, 1000, 10240)
    big, count = data.million(env)
    report.setting(threads=THREADS, small_files=1000, listed_files=count,
                   listed="hard links, 1000 folders", cache="warm")

    env.run(f"files '{small}' | batch 32", "--epochs", 1)       # warms
    values, failed = interleave(start_jobs(env, small), env.rounds(15))
    for name, v in values.items():
        report.measure(name, "ms", v)
        report.ratio(name + " (1,000 files of 10 KB)", list(v.values()),
                     ("<=", 50), "ms")

    jobs = list_jobs(env, small, big)
    jobs["bare walk"]()                                         # warms
    values, more = interleave(jobs, env.rounds(7))
    failed.update(more)
    for name, v in values.items():
        report.measure(name, "s", v)
    base = values.get("explain, 1,000 files", {})
    took = {r: t - base[r] for r, t in
            values.get("explain, all files", {}).items() if r in base}
    walk = values.get("bare walk", {})
    rates = {"millrace listing": took, "bare walk listing": walk}
    for name, v in rates.items():
        report.measure(name, "files/s",
                       {r: count / t for r, t in v.items() if t > 0})
    report.ratio(f"listing {count:,} files, time / bare walk",
                 paired(took, walk))
    for name, reason in failed.items():
        report.fail(name, reason)
