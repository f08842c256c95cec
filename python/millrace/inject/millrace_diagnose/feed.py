# SPDX-License-Identifier: Apache-2.0
"""What the script's loop is fed with: its first batch again and again, or
batches of the subset."""
from . import files
from .replay import Replay
from .subset import Behind


class Broken(Exception):
    """The data set raised what is the cause of this."""


class Over(Exception):
    """No more can be measured; says why."""


def take(it):
    try:
        return next(it)
    except StopIteration:
        raise
    except Exception as e:
        raise Broken from e


class Again:
    """The first batch, for G."""

    waits = False       # making a copy is no wait
    rounds = 0          # at least to be skipped

    def __init__(self, batch, samples):
        self.replay, self.samples = Replay(batch), samples

    def ready(self):
        return False

    def next(self):
        return self.replay.batch()

    def done(self):
        pass


class Feed:
    """Batches of the subset, for P and F: in one pass that never ends, or in
    one after another."""

    waits = True

    def __init__(self, phases, cold, until, together=True):
        self.phases, self.cold, self.together = phases, cold, together
        self.until = until      # to bring files into memory, or out of it
        self.source, self.subset = phases.source, phases.subset
        self.it, self.turn, self.samples = None, 0, 0
        self.rounds = phases.workers
        # Files can be evicted behind the loop when the workers are not at
        # them again already.
        self.endless = self.source.indexed and (
            not cold or not self.subset.shared and (
                not phases.workers
                or self.subset.count >= phases.skip() + 2))
        if together:
            self.endless = all(phases.ranks.agree(self.endless))
        self.behind = Behind(self.subset, phases.workers > 0) \
            if cold and self.endless else None
        self.before = self.back = 0     # bytes in memory: at first, by it

    def ready(self):
        """Begin a pass if it is time to; did it begin?"""
        if self.it is not None and (self.endless
                                    or self.turn < self.subset.count):
            return False
        if self.it is not None:
            self.came_back()
        result, sub = self.phases.result, self.subset
        if self.cold:
            stop_reading(self.source)
            result.stayed.append(files.evict_all(sub.all(), self.until))
        elif sub.own:
            result.resident.append(sub.warm(self.until))
        self.before = sub.there()
        if self.together:
            self.phases.ranks.agree(0)
        self.it, self.turn = None, 0
        self.it = self.source.stream(self.source.part(sub.count),
                                     self.endless)
        return True

    def came_back(self):
        share = self.turn / max(1, self.subset.count)
        back = self.subset.there() - self.before
        self.back = max(self.back, back / max(
            1, share * self.subset.expected()))
        if self.cold and self.subset.read < 512 and not self.subset.own:
            # It is mapped, and not read: what came is what it needed.
            self.phases.result.known["sample_bytes"] = back / max(
                1, share * self.subset.samples())

    def most_skipped(self):
        return self.phases.skip() if self.endless else self.subset.count // 3

    def next(self):
        self.samples = self.source.samples_of(self.turn)
        try:
            batch = take(self.it)
        except StopIteration:
            raise Over("a pass over the same part of the data set was "
                       "shorter than the one before") from None
        self.turn += 1
        return batch

    def done(self):
        """The loop has no more use for the batch."""
        if self.behind is not None:
            self.behind.done(self.turn - 1)

    def judge(self):
        """Was it what it was meant to be?"""
        result, sub = self.phases.result, self.subset
        if not self.cold:
            if sub.shared and self.before:
                result.resident.append(min(1, self.before / max(
                    1, sub.there())))
            there = [r for r in result.resident if r is not None]
            if there and min(there) < 0.9:
                result.note(f"only {100 * min(there):.0f} % of the files were "
                            f"in memory for G+P: waiting for the others "
                            f"counts as preparation")
            return
        if self.behind is None:
            self.came_back()
        else:
            self.back = self.behind.back / max(1, self.behind.all)
        stayed = [s for s in result.stayed if s is not None]
        if not stayed or max(stayed) > 0.5:
            result.drop("as_f", "the files could not be evicted from memory "
                        "(they may be in tmpfs, or mapped by a process): "
                        "whether the loop waits for the storage is not known")
        elif self.back < 0.2:
            result.drop("as_f", "the data set did not read its files again "
                        "when they were evicted (it may keep samples in "
                        "memory, or read other files than those that are "
                        "known): whether it waits for the storage is not "
                        "known")

    def close(self):
        self.it = None
        if self.behind is not None:
            self.behind.close()
        self.source.close()


def stop_reading(source):
    """Workers that are ahead would bring back what is evicted."""
    source.close()
    it = vars(source.copy).get("_iterator")
    if it is not None:      # they stay, but finish what they have
        for _ in source.stream([]):
            pass

