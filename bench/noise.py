# SPDX-License-Identifier: Apache-2.0
"""What the machine did beside a measurement: the cores that processes which
are not ours, and other guests of the host, took from it."""
import os
import statistics
import time

TICK = os.sysconf("SC_CLK_TCK")


def busy():
    """(busy, stolen) CPU seconds of the whole machine."""
    with open("/proc/stat") as f:
        v = [int(x) / TICK for x in f.readline().split()[1:9]]
    user, nice, system, _idle, _iowait, irq, softirq, steal = v
    return user + nice + system + irq + softirq, steal


class Noise:
    """Wraps the jobs of interleave(): cores taken by others, job by job.
    A job's own CPU time is that of children that ended, plus own()."""

    def __init__(self):
        self.cores, self.stolen = [], []

    def watch(self, job, own=lambda: 0):
        def watched():
            mine, (all_, stolen) = self.mine() + own(), busy()
            start = time.monotonic()
            got = job()
            wall = time.monotonic() - start
            mine = self.mine() + own() - mine
            now, gone = busy()
            self.cores.append(max(0, now - all_ - mine) / wall)
            self.stolen.append((gone - stolen) / wall)
            return got
        return watched

    @staticmethod
    def mine():
        t = os.times()
        return t.user + t.system + t.children_user + t.children_system

    def summary(self):
        if not self.cores:
            return {}
        return {"others_cores_median": round(statistics.median(self.cores), 3),
                "others_cores_max": round(max(self.cores), 3),
                "stolen_cores_median": round(statistics.median(self.stolen),
                                             3),
                "stolen_cores_max": round(max(self.stolen), 3)}
