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

SHARE = 0.002       # of a sample's time, what counting it may take
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


_USAGE = ("cpu", "faults", "minor", "major", "switches")


class Group:
    """Events that are read together, and what they have added up to by step.
    _group.c does the same in C: see own.py."""

    def __init__(self, lead, events, usage, at):
        """lead: the first one's descriptor, of so many of perf's; usage:
        whether getrusage() is read, too; at: kept for the caller."""
        self.lead, self.at = lead, at
        self.read = _reader(lead, events, usage)
        self.cost = sys.maxsize     # ns that counting a step takes
        self.spent = 0              # ns that it took in all
        # what a step that does nothing counts; when all were read first, last
        # and when a step began
        self.own = self.first = self.last = self.before = None
        self.began = 0
        # by step: how many, how long they took, their values added up, and
        # the squares of these (without the reading)
        self.calls, self.wall, self.sums, self.squares = {}, {}, {}, {}

    def begin(self):
        """A step is about to begin."""
        self.began = now()
        self.before = self.read()

    def add(self, step, start, end):
        """It has ended."""
        before, after = self.before, self.read()
        if before is None or after is None:
            return
        self.before, self.last = None, after
        if step != OUTSIDE:     # one of more than there are numbers for
            self.sum_up(step, [a - b for a, b in zip(after, before)],
                        end - start)
        self.spent += min(now() - end + start - self.began, ODD * self.cost)

    def sum_up(self, step, more, ns):
        if step not in self.sums:
            self.sums[step] = self.squares[step] = (0,) * len(more)
            self.calls[step] = self.wall[step] = 0
        self.calls[step] += 1
        self.wall[step] += ns
        self.sums[step] = [s + m for s, m in zip(self.sums[step], more)]
        if self.own:
            self.squares[step] = [
                s + (m - o) * (m - o)
                for s, m, o in zip(self.squares[step], more, self.own)]

    def look(self):
        self.last = self.read() or self.last

    def total(self):
        """What all have counted until the last look."""
        return tuple(a - b for a, b in zip(self.last, self.first))

    def steps(self):
        return [(s, n, self.wall[s], self.sums[s], self.squares[s])
                for s, n in sorted(self.calls.items())]

    def forget(self):
        for of in self.calls, self.wall, self.sums, self.squares:
            of.clear()

    def learned(self, cost, own):
        self.cost, self.own = cost, own
        self.first, self.spent = self.last, 0

    def close(self):
        """Whoever still holds this one reads nothing any more."""
        self.read = _nothing


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


if os.environ.get("MILLRACE_HOOKS") != "python":
    try:
        from ._fast import Group  # noqa: F811
    except ImportError:
        pass


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
            self.groups.append(self.group_of(files[0],
                                             [e for e, _ in members]))
        if not self.groups and plan["usage"]:
            self.groups.append(self.group_of(-1, []))
        for g in reversed(self.groups):     # the first one stays on
            self.group = g
            self.switch("enable")
            self.learn(g)
            if g is not self.groups[0]:
                self.switch("disable")

    def group_of(self, lead, events):
        usage = self.plan["usage"]      # [event, what] of getrusage()
        # (event, where its value is, where the time is that it counted in)
        at = [(e, 2 + i, 0) for i, e in enumerate(events)]
        base = 2 + len(events) if events else 0
        at += [(e, base + 2 + _USAGE.index(what), base) for e, what in usage]
        return Group(lead, len(events), bool(usage), at)

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
            spent = g.spent
            g.begin()
            g.add(0, now(), now())
            if not g.steps():
                raise OSError("the counters cannot be read")
            seen.append([g.spent - spent, *g.steps()[0][3]])
            g.forget()
        # the middle: a process that was just forked, or is disturbed, is
        # slower at times
        cost, *own = (sorted(values)[TRIES // 2] for values in zip(*seen))
        g.learned(cost, tuple(own))

    def close(self):
        for g in self.groups:
            g.close()
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
        self.group.look()
        at = self.groups.index(self.group) + 1
        try:
            self.switch("disable")
            self.group = self.groups[at % len(self.groups)]
            self.switch("enable")
        except OSError:     # the program has closed what is not its own
            self.close()

    def end(self, ns):
        """A sample that was counted has ended, after so long."""
        self.samples += 1
        self.ns += ns
        spent = sum(g.spent for g in self.groups)
        stride = int(spent / (SHARE * (self.ns or 1)))
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
            self.group.look()

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
            rest, calls = g.total(), 1
            for step, n, wall, sums, squares in g.steps():
                sums = list(sums)
                for _, i, _ in g.at:    # without the reading
                    sums[i] = max(sums[i] - n * g.own[i], 0)
                put(g, step, n, sums, squares, wall)
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
