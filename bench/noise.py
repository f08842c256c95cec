# SPDX-License-Identifier: Apache-2.0
"""What the machine did beside a measurement: the cores that processes which
are not ours, and other guests of the host, took from it. Two threads that
wait for each other suffer more from a third than two that do not, so ratios
from a disturbed machine are not to be trusted either."""
import os
import resource
import statistics
import time

DISTURBED = 0.1     # cores that others took, by the median of all jobs

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
        """CPU seconds of this process and of its children that ended."""
        return sum(r.ru_utime + r.ru_stime for r in map(
            resource.getrusage, (resource.RUSAGE_SELF,
                                 resource.RUSAGE_CHILDREN)))

    def disturbed(self):
        s = self.summary()
        return max(s.get("others_cores_median", 0),
                   s.get("stolen_cores_median", 0)) > DISTURBED

    def summary(self):
        if not self.cores:
            return {}
        return {"others_cores_median": round(statistics.median(self.cores), 3),
                "others_cores_max": round(max(self.cores), 3),
                "stolen_cores_median": round(statistics.median(self.stolen),
                                             3),
                "stolen_cores_max": round(max(self.stolen), 3)}
