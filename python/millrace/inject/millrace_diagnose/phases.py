# SPDX-License-Identifier: Apache-2.0
"""The phases, driven from within the script's own loop: what the loop asks
for, a generator answers, which so decides what it gets, and takes the time.

  G  the first batch again and again: the loop alone
  P  a part of the data set whose files are in memory: and its preparation
  F  the same, its files evicted before: and the storage

Before P, without the loop: the loader alone, and the storage alone.
"""
import math
import sys
import time

from . import files
from .replay import Replay
from .source import Source
from .subset import Behind, Subset
from .times import Times

now = time.perf_counter

# Of 60 seconds, which is what a diagnosis takes unless told otherwise
SHARE = {"g": 6, "learn": 8, "p": 4, "s": 4, "c": 1, "as_p": 10, "as_f": 15}
WARM_UP = 3         # first steps of a program take longer
LEAST = 6           # iterations, or two rounds of the workers
MOST = 1000000      # samples of a subset


class Broken(Exception):
    """The data set raised what is the cause of this."""


class Over(Exception):
    """No more can be measured; says why."""


def synchronise():
    """What was given to a GPU is done."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda and cuda.is_initialized():
        cuda.synchronize()


def memory():
    """Bytes that are free for a subset."""
    try:
        with open("/proc/meminfo") as f:
            for line in f:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024 // 4
    except (OSError, ValueError):
        pass
    return 1 << 30


class Phases:
    def __init__(self, loader, make, seconds, ranks, notes, result):
        self.source = Source(loader, make)
        self.scale = seconds / 60
        self.ranks, self.notes, self.result = ranks, notes, result
        self.workers = self.source.workers
        self.subset = self.step = None
        self.phase = "g"

    def limit(self, phase):
        return SHARE[phase] * self.scale

    def skip(self):
        return self.source.stock + self.workers + 1

    def any(self, yes):
        return any(self.ranks.agree(bool(yes)))

    # ---- the whole ----

    def run(self):
        source = self.source
        source.draw(1)
        if source.indexed and not source.batches:
            raise Over("the data set is empty")
        yield from self.replay(self.first())
        self.learn()
        self.loader_alone()
        self.storage_alone()
        yield from self.fed("as_p", False)
        if all(self.ranks.agree(bool(self.subset.all()))):
            yield from self.fed("as_f", True)
        else:
            self.result.note(
                "the files that the data set reads did not become known: "
                "whether it waits for the storage is not known")
        self.phase = "done"

    def take(self, it):
        try:
            return next(it)
        except StopIteration:
            raise
        except Exception as e:
            raise Broken from e

    def first(self):
        it = self.source.stream(self.source.part(1))
        try:
            return self.take(it)
        except StopIteration:
            raise Over("the data set is empty") from None
        finally:
            del it
            self.source.close()

    # ---- with the loop ----

    def loop(self, t, phase, feed, skip):
        """Hand out what `feed` has, until enough is known."""
        begun, left, turn, every = now(), skip, 0, t.round
        while True:
            if feed.ready():        # a pass begins
                left = min(skip, feed.most_skipped())
            asked = now()
            got = [feed.next()]
            given = now()
            new = yield got.pop()
            at = now()
            feed.done()
            turn += 1
            if new:                 # the loop was left, and begun again
                left = skip if feed.waits else 0
            elif left:
                left -= 1
                if not left or self.late(begun, phase, left, skip):
                    left = 0
                    synchronise()
                    every = self.period(t, (now() - begun) / turn)
            else:
                t.add(given - asked if feed.waits else 0, at - given,
                      feed.samples)
            if turn % every == 0 and self.any(self.enough(t, phase, begun)):
                break
        at = now()
        synchronise()
        t.more(now() - at)

    def late(self, begun, phase, left, skip):
        """Skipping takes too long; one round of the workers must do."""
        late = now() - begun > self.limit(phase) / 3 \
            and skip - left > self.workers
        return self.any(late) if self.ranks.ranks > 1 else late

    def period(self, t, pace):
        """Iterations from one look at the clock to the next: ranks look at
        the others' then, which takes a while."""
        if self.ranks.ranks == 1:
            return t.round
        pace = min(self.ranks.agree(pace))
        return t.round * max(1, math.ceil(1 * self.scale / pace / t.round))

    def enough(self, t, phase, begun):
        limit, took = self.limit(phase), t.seconds()
        if now() - begun > 3 * limit + 10:
            return True
        if len(t) < max(LEAST, 2 * t.round):
            return False
        return took >= limit or took >= limit / 3 and t.narrow()

    def replay(self, batch):
        self.result.known["batch"] = self.source.samples_of(0)
        t = self.result.times["g"] = Times(1)
        yield from self.loop(t, "g", Again(batch, self.source.samples_of(0)),
                             WARM_UP)
        w = t.windows()
        if not w:
            raise Over("the loop did not ask for batches one after another")
        self.step = sum(w) / len(w) * self.source.samples_of(0)
        self.result.write()

    def fed(self, phase, cold):
        self.phase = phase
        t = self.result.times[phase] = Times(self.workers)
        feed = Feed(self, cold)
        try:
            yield from self.loop(t, phase, feed, self.skip())
        finally:
            feed.close()
        feed.judge()
        self.result.write()

    # ---- without it ----

    def learn(self):
        """One pass over what becomes the subset: which files it reads."""
        source = self.source
        self.phase = "learn"
        need = math.ceil(self.limit("as_f") / max(self.step, 1e-5)) \
            + 2 * self.skip()
        need = min(need, max(64, MOST // max(1, source.samples_of(0))))
        source.draw(need)
        least = min(self.skip() + 2 * max(1, self.workers), need)
        self.notes.begin()
        n, begun = 0, now()
        it = source.stream(source.part(need))
        try:
            while n < need and (n < least
                                or now() - begun < self.limit("learn")):
                if now() - begun > 3 * self.limit("learn") + 10 and n:
                    break
                self.take(it)
                n += 1
        except StopIteration:
            pass
        finally:
            del it
            self.notes.end()
            source.close()
        if min(self.ranks.agree(n)) == 0:
            raise Over("the data set gave its batches only once: it cannot "
                       "be read again")
        self.subset = Subset(source, n, self.notes.read())
        n = min(self.ranks.agree(min(n, self.subset.fit(memory()))))
        self.subset.cut(n)
        self.result.learnt(self.subset)

    def loader_alone(self):
        self.subset.warm()
        self.ranks.agree(0)
        t = self.result.times["p"] = Times(self.workers)
        feed = Feed(self, False, False)
        left, begun = self.skip(), now()
        try:
            while not self.enough(t, "p", begun):
                if feed.ready():
                    left = min(self.skip(), feed.most_skipped())
                at = now()
                feed.next()
                feed.done()
                if left:
                    left -= 1
                else:
                    t.add(now() - at, 0, feed.samples)
        finally:
            feed.close()

    def storage_alone(self):
        """The same files, read by as many threads as there are workers;
        evicted before (s), and when they are in memory (c)."""
        sub = self.subset
        can = sub.own and self.source.indexed
        if can:
            self.result.stayed.append(files.evict_all(sub.own))
        self.ranks.agree(0)
        if not can:
            return
        for phase in ("s", "c"):
            if phase == "c":
                sub.warm()
            t = self.result.times[phase] = Times(1)
            step = max(1, sub.count // 16)
            begun = now()
            for i in range(0, sub.count, step):
                part = range(i, min(i + step, sub.count))
                paths = [p for k in part for p in sub.own_of[k]]
                at = now()
                files.read_all(paths, max(1, self.workers))
                t.add(now() - at, 0, sum(map(self.source.samples_of, part)))
                if now() - begun > self.limit(phase) and len(t) > 2:
                    break


class Again:
    """The first batch, for G."""

    waits = False       # making a copy is no wait

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

    def __init__(self, phases, cold, together=True):
        self.phases, self.cold, self.together = phases, cold, together
        self.source, self.subset = phases.source, phases.subset
        self.it, self.turn, self.samples = None, 0, 0
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
            result.stayed.append(files.evict_all(sub.all()))
        elif sub.own:
            result.resident.append(sub.warm())
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
            batch = self.phases.take(self.it)
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

