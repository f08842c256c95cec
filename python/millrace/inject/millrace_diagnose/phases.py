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
from .feed import Again, Feed, Over, take
from .source import Source
from .subset import Subset
from .times import Times

now = time.perf_counter

# Of 60 seconds, which is what a diagnosis takes unless told otherwise
SHARE = {"g": 6, "learn": 8, "p": 4, "s": 4, "c": 1, "as_p": 10, "as_f": 15}
WARM_UP = 3         # first steps of a program take longer
LEAST = 6           # iterations, or two rounds of the workers
MOST = 1000000      # samples of a subset


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

    def first(self):
        it = self.source.stream(self.source.part(1))
        try:
            return take(it)
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
                take(it)
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
