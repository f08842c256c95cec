# SPDX-License-Identifier: Apache-2.0
"""Ranks go through the phases in step: backward() makes them wait for one
another, so all of them must make the same number of iterations."""
import json
import os
import sys
import time

PATIENCE = 120      # seconds; a rank that is that late has died
MEET = 15           # in which the first and the last one come to their loops


class Alone:
    rank, ranks = 0, 1

    def agree(self, value):
        return [value]


class Lost(Exception):
    """Another rank is gone."""


class ByFiles:
    """In a folder that all of them see."""

    def __init__(self, folder, rank, ranks, meeting=1):
        """meeting: the how-manieth of these ranks, whose files stay."""
        self.folder, self.rank, self.ranks = folder, rank, ranks
        self.meeting, self.turn = meeting, 0

    def name(self, turn, rank):
        return os.path.join(self.folder,
                            f"agree.{self.meeting}.{turn}.{rank}")

    def agree(self, value, patience=PATIENCE):
        """The values of all ranks, by rank; all of them have come here."""
        self.turn += 1
        mine = self.name(self.turn, self.rank)
        with open(mine + ".tmp", "w") as f:
            json.dump(value, f)
        os.rename(mine + ".tmp", mine)
        return [self.wait(r, patience) for r in range(self.ranks)]

    def decide(self, word):
        """What the first rank said that came here counts for all, also for
        those that come after it."""
        name = os.path.join(self.folder, f"agree.{self.meeting}.how")
        try:
            os.symlink(word, name)
        except FileExistsError:
            pass
        return os.readlink(name)

    def wait(self, rank, patience):
        until = time.monotonic() + patience
        nap = 0.0005
        while True:
            try:
                with open(self.name(self.turn, rank)) as f:
                    return json.load(f)
            except FileNotFoundError:
                pass
            if time.monotonic() > until:
                raise Lost(f"rank {rank} did not come to where the others "
                           f"are within {patience:.0f} s")
            time.sleep(nap)
            nap = min(nap * 1.5, 0.01)


class ByTorch:
    """With torch.distributed, for ranks on several nodes."""

    def __init__(self, dist):
        self.dist = dist
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()

    def agree(self, value):
        all_ = [None] * self.ranks
        self.dist.all_gather_object(all_, value)
        return all_


def meet(folder, rank, ranks, patience=MEET, meeting=1):
    """How this rank agrees with the others; and a remark, or None. Who has
    all others in its folder says so, who has waited for them in vain says
    that, and whoever is first decides: a rank that comes late finds all
    others' files, though they do not look at its own any more."""
    if ranks < 2:
        return Alone(), None
    by = ByFiles(folder, rank, ranks, meeting)
    try:
        by.agree(0, patience)
        how = by.decide("together")
    except Lost:
        how = by.decide("apart")
    if how == "together":
        return by, None
    dist = sys.modules.get("torch.distributed")
    if dist and dist.is_available() and dist.is_initialized():
        return ByTorch(dist), None
    alone = Alone()
    alone.rank = rank
    return alone, (f"{ranks - 1} other ranks were not found: rank {rank} was "
                   f"measured by itself")
