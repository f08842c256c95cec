# SPDX-License-Identifier: Apache-2.0
"""The phases, driven from within the script's own loop: what the loop asks
for, a generator answers, which so decides what it gets, and takes the time.

  G  the first batch again and again: the loop alone
  P  a part of the data set whose files are in memory: and its preparation
  F  the same, its files evicted before: and the storage

Before P, without the loop: the loader alone, and the storage alone.
"""
import math
import statistics
import time

from . import files
from .backward import straggler, synchronise
from .feed import Again, Feed, Over, take
from .source import Source
from .subset import Subset
from .times import Times

now = time.perf_counter

# Of 60 seconds, which is what a diagnosis takes unless told otherwise; in the
# order in which they come
SHARE = {"g": 6, "learn": 8, "p": 4, "s": 4, "c": 1, "as_p": 10, "as_f": 15}
WARM_UP = 3         # first steps of a program take longer
LEAST = 6           # iterations, or two rounds of the workers
MOST = 1000000      # samples of a subset
COMPARED = 8        # iterations, at most, in which ranks are compared
LONGEST = 90        # seconds, of all phases together, however slow the loop
OPTIONAL = ("p", "s", "c")
NAMES = {"g": "G", "as_p": "G+P", "as_f": "F"}


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
    def __init__(self, loader, make, seconds, ranks, notes, result,
                 backward):
        self.source = Source(loader, make)
        self.scale = seconds / 60
        self.longest = min(LONGEST, 3 * seconds)
        self.until = math.inf       # no phase goes on beyond
        self.ranks, self.notes, self.result = ranks, notes, result
        self.workers = self.source.workers
        self.backward = backward
        self.subset = None
        self.step = self.turn = 0   # seconds of an iteration: G's, P's at most
        self.phase = "g"

    def limit(self, phase):
        return SHARE[phase] * self.scale

    def left(self):
        return max(0, self.until - now())

    def end(self, phase):
        """When it has to be over: those that come after it want their part
        of what is left."""
        after = list(SHARE)[list(SHARE).index(phase):]
        return now() + self.left() * SHARE[phase] / sum(
            SHARE[p] for p in after)

    def no_time(self, what):
        self.result.note(f"{what}: there was no time left of the "
                         f"{self.longest:.0f} s that a diagnosis may take")

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
        batch = self.first()        # that is the script's own start
        self.ranks.agree(0)
        self.until = now() + self.longest
        yield from self.replay(batch)
        self.learn()
        self.without_the_loop()
        yield from self.with_the_loop()
        self.phase = "done"

    def without_the_loop(self):
        """It tells where a limit comes from, and can be done without."""
        if self.any(self.left() - 2 * self.least()
                    < sum(map(self.limit, OPTIONAL))):
            self.no_time("the loader alone and the storage alone were not "
                         "measured")
            return
        self.loader_alone()
        self.storage_alone()

    def with_the_loop(self):
        if not (yield from self.fed("as_p", False)):
            self.no_time("whether the loop waits for its data is not known")
        elif not all(self.ranks.agree(bool(self.subset.all()))):
            self.result.note(
                "the files that the data set reads did not become known: "
                "whether it waits for the storage is not known")
        elif not (yield from self.fed("as_f", True)):
            self.no_time("whether it waits for the storage is not known")

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
        """Hand out what `feed` has, until enough is known, or there is no
        more time; how often the loop began anew."""
        begun, left, turn, every = now(), skip, 0, t.round
        end, again = self.end(phase), 0
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
            again += new
            if new:                 # the loop was left, and begun again
                left = skip if feed.waits else 0
            elif left:
                left = self.hurry(phase, begun, at - given, left - 1,
                                  skip - left + 1 > feed.rounds)
                if left is None:
                    break
                if not left:
                    synchronise()
                    every = self.period(t, (now() - begun) / turn)
            else:
                t.add(given - asked if feed.waits else 0, at - given,
                      feed.samples)
            look = turn % every == 0
            if (look or self.ranks.ranks == 1) and self.any(
                    self.late(t, end, at - asked, again)
                    or look and self.enough(t, phase)):
                break
        at = now()
        synchronise()
        t.more(now() - at)
        self.say_few(t, phase)
        return again

    def say_few(self, t, phase):
        n = len(t)
        if 0 < n < max(LEAST, 2 * t.round):
            self.result.note(f"{NAMES[phase]} is of {n} "
                             f"iteration{'s' * (n != 1)}: there was no time "
                             f"for more")

    def hurry(self, phase, begun, step, left, round_):
        """How many more to skip: none, when that takes too long and a round
        of the workers is over; None: nothing can be counted in time."""
        late = round_ and now() - begun > self.limit(phase) / 3
        late = max(self.ranks.agree(2 if self.left() < step else int(late)))
        return (left, 0, None)[late]

    def period(self, t, pace):
        """Iterations from one look at the clock to the next: ranks look at
        the others' then, which takes a while."""
        if self.ranks.ranks == 1:
            return t.round
        pace = min(self.ranks.agree(pace))
        n = max(1, math.ceil(self.scale / pace))
        return n if n < t.round else t.round * math.ceil(n / t.round)

    def late(self, t, end, pace, again):
        """Is there no time for another one? Two tell how much they differ,
        and may take from what was for later phases."""
        if not len(t):
            return now() > (end if again > WARM_UP else self.until)
        return now() + pace > (end if len(t) > 1 else self.until)

    def enough(self, t, phase):
        limit, took = self.limit(phase), t.seconds()
        if len(t) < max(LEAST, 2 * t.round):
            return False
        return took >= limit or took >= limit / 3 and t.narrow()

    def replay(self, batch):
        samples = self.source.samples_of(0)
        self.result.known["batch"] = samples
        t = self.result.times["g"] = Times(1)
        feed = Again(batch, samples)
        again = yield from self.loop(t, "g", feed, WARM_UP)
        w = t.windows()
        if not w:
            raise Over(
                "the loop did not ask for batches one after another"
                if again > WARM_UP else
                "a step of the loop takes so long that none could be "
                f"measured in the {self.longest:.0f} s that a diagnosis may "
                "take")
        self.step = self.turn = sum(w) / len(w) * samples
        if self.ranks.ranks > 1:
            yield from self.compare(feed)
        self.result.write()

    def compare(self, feed):
        """Names the rank that the others wait for though it has its data."""
        if not all(self.ranks.agree(self.backward.called)):
            return
        n = min(self.ranks.agree(int(self.limit("g") / self.step)))
        if n < 2:
            self.no_time("which rank's computing is the slowest is not known")
            return
        own = yield from self.own(feed, min(n, COMPARED))
        told = straggler(self.ranks.agree(own), self.step)
        if told:
            self.result.note(told)
        self.result.note("of ranks, computing within backward() and waiting "
                         "for the others there are not told apart")

    def own(self, feed, n):
        """Seconds of an iteration outside of backward(); None: unknown."""
        took, backward = [], self.backward
        backward.timed = True
        backward.watch()
        for _ in range(n):
            got = [feed.next()]
            synchronise()
            given, backward.seconds = now(), 0.0
            if not (yield got.pop()):
                synchronise()
                took.append(now() - given - backward.seconds)
        backward.timed = False
        return statistics.median(took) if took else None

    def least(self):
        """Seconds for as few iterations as can tell something."""
        return (self.workers + 2) * self.turn

    def fed(self, phase, cold):
        """Was there time for it?"""
        self.phase = phase
        if self.any(self.least() > self.left()):
            return False
        t = self.result.times[phase] = Times(self.workers)
        feed = Feed(self, cold, self.end(phase))
        try:
            yield from self.loop(t, phase, feed, self.skip())
        finally:
            feed.close()
        if not len(t):
            return False
        feed.judge()
        self.result.write()
        return True

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
        n, begun, end = 0, now(), self.end("learn")
        second = begun
        it = source.stream(source.part(need))
        try:
            while n < need and (n < least
                                or now() - begun < self.limit("learn")):
                if n and now() > end:
                    break
                take(it)
                n += 1
                second = second if n > 1 else now()
        except StopIteration:
            pass
        finally:
            del it
            pace = (now() - second) / (n - 1) if n > 1 else second - begun
            self.notes.end()
            source.close()
        if min(self.ranks.agree(n)) == 0:
            raise Over("the data set gave its batches only once: it cannot "
                       "be read again")
        self.subset = Subset(source, n, self.notes.read())
        n = min(self.ranks.agree(min(n, self.subset.fit(memory()))))
        self.subset.cut(n)
        self.turn = max(self.step, pace) if self.workers else self.step + pace
        self.result.learnt(self.subset)

    def loader_alone(self):
        end = self.end("p")
        self.subset.warm(end)
        self.ranks.agree(0)
        t = self.result.times["p"] = Times(self.workers)
        feed = Feed(self, False, end, False)
        left = self.skip()
        try:
            while now() < end and not self.enough(t, "p"):
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
        if not len(t):
            self.no_time("how fast the loader is alone is not known")

    def storage_alone(self):
        """The same files, read by as many threads as there are workers;
        evicted before (s), and when they are in memory (c)."""
        sub = self.subset
        can = sub.own and self.source.indexed
        if can:
            self.result.stayed.append(files.evict_all(sub.own, self.end("s")))
        self.ranks.agree(0)
        if not can:
            return
        if not self.reading("s", self.end("s")):
            self.no_time("how fast the storage is alone is not known")
        end = self.end("c")
        sub.warm(end)
        if not self.reading("c", end):
            self.no_time("how fast the files are read from memory is not "
                         "known")

    def reading(self, phase, end):
        """Was there time for some of it?"""
        t = self.result.times[phase] = Times(1)
        sub, begun = self.subset, now()
        step = max(1, sub.count // 16)
        for i in range(0, sub.count, step):
            part = range(i, min(i + step, sub.count))
            paths = [p for k in part for p in sub.own_of[k]]
            at = now()
            if not files.read_all(paths, max(1, self.workers), end):
                break
            t.add(now() - at, 0, sum(map(self.source.samples_of, part)))
            if now() - begun > self.limit(phase) and len(t) > 2:
                break
        return len(t) > 0
