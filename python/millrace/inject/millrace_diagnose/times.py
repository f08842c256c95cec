# SPDX-License-Identifier: Apache-2.0
"""Times of iterations, and what is made of them."""
import math

WINDOWS = 20
ENOUGH = 0.01       # half of the 95 % interval, as a share of the mean


class Times:
    """Of one phase: seconds that the loop waited and worked, and samples, of
    each iteration that counts. Workers finish in turns, so that only whole
    rounds of them say how fast they are."""

    def __init__(self, round_):
        self.round = max(1, round_)
        self.waits, self.works, self.samples = [], [], []

    def add(self, wait, work, samples):
        self.waits.append(wait)
        self.works.append(work)
        self.samples.append(samples)

    def more(self, seconds):
        """What was still to be done at the end."""
        if self.works:
            self.works[-1] += seconds

    def __len__(self):
        return len(self.waits)

    def seconds(self):
        return sum(self.waits) + sum(self.works)

    def windows(self):
        """[seconds per sample] of parts with as many iterations each."""
        n = len(self)
        rounds = n // self.round
        if rounds < 2:
            return [self.rate_of(0, n)] if n else []
        long = self.round * max(1, math.ceil(rounds / WINDOWS))
        first = n % long
        return [self.rate_of(i, i + long) for i in range(first, n, long)]

    def rate_of(self, start, end):
        took = sum(self.waits[start:end]) + sum(self.works[start:end])
        return took / max(1, sum(self.samples[start:end]))

    def wait(self):
        """Mean wait for a batch."""
        return sum(self.waits) / len(self) if self.waits else 0.0

    def narrow(self):
        return narrow(self.windows())


def narrow(values):
    """Is their mean known well?"""
    n = len(values)
    if n < 8:
        return False
    mean = sum(values) / n
    var = sum((v - mean) ** 2 for v in values) / (n - 1)
    return 2.2 * math.sqrt(var / n) <= ENOUGH * mean
