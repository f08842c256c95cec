# SPDX-License-Identifier: Apache-2.0
"""Slow storage: is a profile as slow as it says, and does reading ahead get
all that it allows?

First the profiles themselves, for small and large requests, one at a time and
many in flight: the time is what the model gives. Then what reading
ahead gets of hdd, ceph-hdd and s3, with files of 10 KB to 5 MB, by io_uring
and by threads: over a whole run, its beginning included, and in the part
after the first seconds. Last a loop device that a cgroup throttles.
"""
import os

import data
import fetch
from common import Failed, interleave, output_json, say

QUESTION = "is slow storage imitated exactly, and used to the full?"
WAYS = {"io_uring": {}, "threads": {"MILLRACE_NO_URING": "1"}}

# bytes/s in total and of one request, seconds, requests/s: docs/storage.md
LIMITS = {"hdd": (200e6, 170), "ceph-hdd": (910e6, 1600),
          "s3": (1250e6, 5500)}

# --fetch, profile, bytes of a sample, seconds of one request. A thread by
# itself works between two requests: they must be long against that.
EXACT = [("direct", "bw=2M", 1 << 10, 1 / 2048),
         ("direct", "iops=2000", 1 << 10, 1 / 2000),
         ("direct", "latency=500us", 1 << 10, 500e-6),
         ("direct", "ceph-hdd", 1 << 10, 0.010 + 1024 / 219e6),
         ("direct", "bw=300M", 10 << 20, 1 / 30),
         ("direct", "bw=1G,stream=200M,latency=5ms", 10 << 20, 0.055),
         ("ahead", "bw=20M,latency=1ms", 1 << 10, 1 / (20 << 10)),
         ("ahead", "iops=20000,latency=1ms", 1 << 10, 1 / 20000),
         ("ahead", "bw=300M,stream=100M,latency=5ms", 10 << 20, 1 / 30)]


def run(env, pipeline, *options, way="io_uring", wrap=None):
    cmd = [env.millrace, "run", "--json", pipeline, "--threads", "2",
           *map(str, options)]
    return output_json(wrap(cmd) if wrap else cmd,
                       env=dict(os.environ, **WAYS[way]))


def exact(env, report, rounds):
    """The time per request, by the model's."""
    def job(mode, profile, size, each):
        def measure():
            path, _ = data.npy(env, size, 100 << 20)
            batch = 16 if each < 1e-3 else 1
            r = env.run(f"npy {path} | batch {batch}", "--threads", 1,
                        "--fetch", mode, "--seconds", 4 * env.seconds,
                        "--storage", profile)
            return r["seconds"] / r["samples"] / each
        return measure

    jobs = {f"{m}, {p}, {s >> 10} KB: time / model": job(m, p, s, t)
            for m, p, s, t in EXACT}
    values, failed = interleave(jobs, rounds)
    for name, v in values.items():
        report.ratio(name, list(v.values()), target=("<=", 1.05))
    return failed


def shares(env, report, _rounds):
    """What reading ahead gets of the profiles."""
    short, long = (0.5, 2) if env.quick else (2, 10)

    def job(profile, size, way, mode):
        per = {10_000: 1000, 100_000: 500, 5_000_000: 30}[size]
        batch = 32 if size < 10**6 else 4
        label = f"{profile}, {size // 1000} KB, {way}, {mode}"

        def measure():
            pipe = f"files {data.files(env, 4, per, size)} | batch {batch}"
            bw, iops = LIMITS[profile]
            allowed = min(bw, iops * size)
            # The first is thrown away: memory that a virtual machine has
            # not touched yet is slow to get.
            got = [run(env, pipe, "--storage", profile, "--fetch", mode,
                       "--seconds", s, way=way)
                   for s in (short, short, long)][1:]
            steady = ((got[1]["bytes_out"] - got[0]["bytes_out"]) /
                      (got[1]["seconds"] - got[0]["seconds"]))
            return {f"{label}: {long} s": got[1]["bytes_out"] /
                    got[1]["seconds"] / allowed,
                    f"{label}: after {short} s": steady / allowed}
        return label, measure

    jobs = dict(job(p, s, w, m) for p in LIMITS
                for s in (10_000, 100_000, 5_000_000) for w in WAYS
                for m in ("ahead", "auto"))
    values, failed = interleave(jobs, 1)        # they take long enough
    for name, v in values.items():
        report.ratio(name, list(v.values()), target=(">=", 0.9))
    return failed


def disk(env, report, rounds):
    """A real disk, throttled; evicted by --cold before each run."""
    why = fetch.Throttled.missing()
    if why:
        return {"throttled disk": f"skipped: {why}"}
    failed = {}
    for iops, rate in ((200, 40_000_000), (2000, 40_000_000)):
        per = 50 if env.quick else 250
        label = f"disk, {iops} IOPS, {rate // 10**6} MB/s"
        say(f"  {label}")
        try:
            with fetch.Throttled(env, iops, rate, 4, per) as d:
                where = d.fresh()
                jobs = {
                    f"{label}, {way}, {mode}": lambda way=way, mode=mode: (
                        run(env, f"files '{where}' | batch 32", "--cold",
                            "--fetch", mode, way=way, wrap=d.inside))
                    for way in WAYS for mode in ("ahead", "auto")}
                jobs = {k: (lambda f=f: f()["mb_per_s"] / d.allowed)
                        for k, f in jobs.items()}
                values, bad = interleave(jobs, rounds)
        except Failed as e:
            failed[label] = str(e)
            continue
        failed.update(bad)
        for name, v in values.items():
            report.ratio(name, list(v.values()), target=(">=", 0.85))
    return failed


def main(env, report):
    rounds = 1 if env.quick else 3
    report.setting(threads=2, rounds=rounds)
    for part in (exact, shares, disk):
        for name, reason in part(env, report, rounds).items():
            report.fail(name, reason)
