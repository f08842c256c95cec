# SPDX-License-Identifier: Apache-2.0
"""Counts what the CPU and the kernel did for each step of a thread.

Which events there are, and how the kernel is asked for them, the command has
found out and left in the folder of the trace (events.json); without that file
nothing is counted. A thread opens its counters when it begins its first
sample, and reads them before and after each step of the samples that are
drawn: as many as keep the reading below SHARE of the time. Sums are written
about once a second, and at the end: docs/trace-format.md, CNTR.
"""
import errno
import json
import os
import struct
import sys
import time
import weakref

SHARE = 0.005       # of a sample's time, what counting it may take
RARELY = 100000     # one sample in so many, at least
ODD = 4             # times as long as it should take: others had the CPU
TRIES = 32          # readings, to learn what one costs
TELL = 10**9        # ns between two records of the sums
OUTSIDE = 255       # the step's number of what is in none

now = time.monotonic_ns
RECORD = struct.Struct("<BB6x4QdQ")
_record = RECORD.pack
_plan = None        # what events.json says
_live = weakref.WeakSet()


class Group:
    """Events that are read together, and what they have added up to."""

    def __init__(self, lead, events, usage):
        """events: of perf's, in the order in which they were opened; usage:
        [event, what] of getrusage()."""
        self.lead = lead
        self.read = _reader(lead, len(events), bool(usage))
        # (event, where its value is, where the time is that it counted in)
        self.at = [(e, 2 + i, 0) for i, e in enumerate(events)]
        base = 2 + len(events) if events else 0
        self.at += [(e, base + 2 + _USAGE.index(what), base)
                    for e, what in usage]
        # by step: how many, their values added up, the squares of these
        # (without the reading), and how long they took
        self.calls, self.sums, self.squares, self.wall = {}, {}, {}, {}
        self.first = self.last = self.own = None

    def forget(self):
        for of in self.calls, self.sums, self.squares, self.wall:
            of.clear()


_USAGE = ("cpu", "faults", "minor", "major", "switches")


def _reader(lead, n, usage):
    """A function that gives (ns enabled, ns running, values...) of perf's
    events, then the same of getrusage(); None when that failed."""
    unpack = struct.Struct(f"=8x{2 + n}Q").unpack
    size, read, cpu = 8 * (3 + n), os.read, time.thread_time_ns

    def perf():
        try:
            return unpack(read(lead, size))
        except (OSError, struct.error):
            return None

    if not usage:
        return perf
    from resource import RUSAGE_THREAD, getrusage

    def used():
        ns, u = cpu(), getrusage(RUSAGE_THREAD)
        minor, major = u.ru_minflt, u.ru_majflt
        return (ns, ns, ns, minor + major, minor, major,
                u.ru_nvcsw + u.ru_nivcsw)

    def both():
        values = perf()
        return values and values + used()

    return both if n else used


def _nothing():
    """What is read after the counters were closed."""


def _delay():
    """ns that this thread was ready to run and had no CPU, or None."""
    try:
        with open("/proc/thread-self/schedstat") as f:
            return int(f.read().split()[1])
    except (OSError, ValueError, IndexError):
        return None


class Counters:
    """Those of the thread that makes it. Raises OSError where the kernel
    does not give them."""

    def __init__(self, plan, leave):
        self.plan, self.leave = plan, leave
        self.number = 0         # the thread's, once it has written
        self.files, self.groups = [], []
        self.told = now()
        self.batch = None
        self.left = 1           # samples until the next one that is counted
        self.samples = self.ns = 0
        self.began = self.spent = 0     # ns: of counting a step; of all
        self.cost = sys.maxsize         # ns that counting a step takes
        self.random = id(self) ^ self.told
        self.since = self.told, _delay()
        self.delay = None       # (of the thread, in so many ns)
        _live.add(self)
        try:
            self.open()
        except BaseException:
            self.close()
            raise

    # ---- opening ----

    def open(self):
        plan = self.plan
        for members in plan["groups"]:
            files = self.open_group(members)
            self.groups.append(Group(files[0], [e for e, _ in members],
                                     plan["usage"]))
        if not self.groups and plan["usage"]:
            self.groups.append(Group(-1, [], plan["usage"]))
        for g in reversed(self.groups):     # the first one stays on
            self.group = g
            self.switch("enable")
            self.learn(g)
            if g is not self.groups[0]:
                self.switch("disable")

    def open_group(self, members):
        import ctypes
        call = ctypes.CDLL(None, use_errno=True).syscall
        call.restype = ctypes.c_long
        long, lead = ctypes.c_long, -1
        files = []
        for _, attr in members:
            fd = call(long(self.plan["syscall"]),
                      ctypes.create_string_buffer(bytes.fromhex(attr)),
                      long(0), long(-1), long(lead),
                      long(self.plan["flags"]))
            if fd < 0:
                e = ctypes.get_errno()
                raise OSError(e, f"perf_event_open: {os.strerror(e)}")
            self.files.append(fd)
            files.append(fd)
            lead = files[0]
        return files

    def switch(self, how):
        """By its leader alone: the others run when it does."""
        if self.group.lead >= 0:
            from fcntl import ioctl
            ioctl(self.group.lead, self.plan[how], 0)

    def learn(self, g):
        """What a step costs that does nothing, in time and in counts."""
        seen = []
        for _ in range(TRIES):
            spent = self.spent
            before = self.read()
            self.add(0, before, now(), now())
            if 0 not in g.sums:
                raise OSError("the counters cannot be read")
            seen.append([self.spent - spent, *g.sums[0]])
            g.forget()
        # the middle: a process that was just forked, or is disturbed, is
        # slower at times
        self.cost, *g.own = (sorted(values)[TRIES // 2]
                             for values in zip(*seen))
        g.first = g.last
        self.spent = 0

    def close(self):
        """Whoever still holds this one reads nothing any more."""
        for g in self.groups:
            g.read = _nothing
        while self.files:
            try:
                os.close(self.files.pop())
            except OSError:
                pass
        self.leave = None
        self.left = sys.maxsize

    def __del__(self):
        """The thread has ended without a word."""
        try:
            if self.leave and self.number and self.groups:
                self.leave((self.number, self.records()))
            self.close()
        except Exception:
            pass    # the interpreter is being taken down

    # ---- counting ----

    def sample(self, batch):
        """A sample begins; None when it is not counted."""
        self.left -= 1
        if self.left > 0 or not self.groups:
            return None
        if batch != self.batch and len(self.groups) > 1:
            self.rotate()
        self.batch = batch
        return self

    def rotate(self):
        """The next group's turn: they do not fit the CPU all at once."""
        g = self.group
        g.last = g.read() or g.last
        at = self.groups.index(g) + 1
        try:
            self.switch("disable")
            self.group = self.groups[at % len(self.groups)]
            self.switch("enable")
        except OSError:     # the program has closed what is not its own
            self.close()

    def read(self):
        """A step is about to begin."""
        self.began = now()
        return self.group.read()

    def add(self, step, before, start, end):
        """A step has ended; `before` was read when it began."""
        g = self.group
        after = g.read()
        if before is None or after is None:
            return
        g.last = after
        if step != OUTSIDE:     # one of more than there are numbers for
            sums = g.sums.get(step)
            if sums is None:
                sums = g.squares[step] = (0,) * len(after)
                g.calls[step] = g.wall[step] = 0
            g.calls[step] += 1
            g.wall[step] += end - start
            more = [a - b for a, b in zip(after, before)]
            g.sums[step] = [s + m for s, m in zip(sums, more)]
            if g.own:
                g.squares[step] = [s + (m - o) * (m - o) for s, m, o
                                   in zip(g.squares[step], more, g.own)]
        self.spent += min(now() - end + start - self.began, ODD * self.cost)

    def end(self, ns):
        """A sample that was counted has ended, after so long."""
        self.samples += 1
        self.ns += ns
        stride = int(self.spent / (SHARE * (self.ns or 1)))
        stride = min(stride + 1, RARELY) if stride else 1
        # By chance, so that it never keeps step with the data.
        self.left = 1 + self.draw(2 * stride - 1)
        if self.samples == 1 and self.draw(stride):
            # The first is not like the others, and counts no more often.
            for g in self.groups:
                g.forget()

    def draw(self, below):
        self.random = (self.random * 6364136223846793005
                       + 1442695040888963407) & (2**64 - 1)
        return (self.random >> 33) % below

    # ---- telling ----

    def due(self):
        return now() - self.told >= TELL

    def look(self):
        """How it stands now; by the thread itself."""
        self.told, delay = now(), _delay()
        since, was = self.since
        if delay is not None and was is not None:
            self.delay = delay - was, self.told - since
        if self.groups:
            self.group.last = self.group.read() or self.group.last

    def records(self):
        """All sums until the last look."""
        total = {}

        def put(g, step, calls, values, squares, wall):
            for event, value, since in g.at:
                t = total.setdefault((step, event), [0] * 6)
                for i, v in enumerate((calls, values[value], values[since],
                                       values[since + 1], squares[value],
                                       wall)):
                    t[i] += v

        for g in self.groups:
            rest, calls = [a - b for a, b in zip(g.last, g.first)], 1
            for step, sums in sorted(g.sums.items()):
                n = g.calls[step]
                sums = list(sums)
                for _, i, _ in g.at:    # without the reading
                    sums[i] = max(sums[i] - n * g.own[i], 0)
                put(g, step, n, sums, g.squares[step], g.wall[step])
                rest = [a - b for a, b in zip(rest, sums)]
                calls += n
            put(g, OUTSIDE, calls, [max(r, 0) for r in rest],
                [0] * len(rest), 0)
        for event in self.plan["delay"]:
            if self.delay:
                delay, ns = self.delay
                total[OUTSIDE, event] = 1, delay, ns, ns, 0, ns
        return b"".join(_record(step, event, *t)
                        for (step, event), t in total.items())


# ---- of this process ----

def load(folder):
    """What the threads of this process are to count."""
    global _plan
    try:
        with open(os.path.join(folder, "events.json")) as f:
            _plan = json.load(f)
    except (OSError, ValueError):
        _plan = None


def thread(leave, meta):
    """The calling thread's counters; False when there are none to be had,
    which META says. `leave` takes what a thread leaves behind."""
    if _plan is None:
        return False
    try:
        return Counters(_plan, leave)
    except Exception as e:      # the program comes first
        files = isinstance(e, OSError) and e.errno == errno.EMFILE
        meta({"counting": {
            "reason": getattr(e, "strerror", None) or str(e) or repr(e),
            "remedy": "raise `ulimit -n`" if files else
            "millrace doctor says what is allowed here"}})
        return False


def forked():
    """In a child: the counters are its parent's."""
    for c in list(_live):
        c.close()
    _live.clear()
