# SPDX-License-Identifier: Apache-2.0
"""Writes a process's spans into a file of its own: docs/trace-format.md.

Each thread collects its spans in a buffer of its own, and writes them with
one write() when a batch is done: what happens to the process afterwards
changes nothing about them. The file is made with the first write, so that
processes in which nothing was seen leave none.

Two kinds of chunks are for the merging of the files only: PART (u32: the
process that this one works for) and LIVE (u32s: processes that still ran
when this one ended, which thus end without a word).
"""
import atexit
import collections
import functools
import itertools
import json
import operator
import os
import struct
import sys
import threading
import time
import zlib

from . import counters
from .own import CHUNK, FAILED, NO_BATCH, NO_SAMPLE, Own  # noqa: F401

BATCH, WAIT_IN, COLLATE = 1, 5, 7
NEXT, CONSUME, WORK, PIN, START = 8, 9, 10, 11, 12
READ = "read"       # the step with the number 0
LOOK = 10**9        # ns between two looks whether the file is still there

now = time.monotonic_ns
_chunk = struct.Struct("<4s4sIIII").pack


def chunk(kind, thread, body):
    return _chunk(b"CHNK", kind, thread, len(body), zlib.crc32(body), 0) + body


def _environment(*names):
    for n in names:
        try:
            return int(os.environ[n])
        except (KeyError, ValueError):
            pass
    return None


def rank():
    """(rank, ranks) of this process: by torch, or by who launched it."""
    dist = sys.modules.get("torch.distributed")
    try:
        if dist and dist.is_available() and dist.is_initialized():
            return dist.get_rank(), dist.get_world_size()
    except Exception:
        pass
    for r, n in (("RANK", "WORLD_SIZE"),
                 ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
                 ("PMI_RANK", "PMI_SIZE"),
                 ("SLURM_PROCID", "SLURM_NTASKS"),
                 ("LOCAL_RANK", "LOCAL_WORLD_SIZE")):
        mine, all_ = _environment(r), _environment(n)
        if mine is not None and all_ is not None and 0 <= mine < all_:
            return mine, all_
    return 0, 1


def header():
    try:
        with open("/proc/sys/kernel/random/boot_id") as f:
            boot = bytes.fromhex(f.read().strip().replace("-", ""))[:8]
    except (OSError, ValueError):
        boot = bytes(8)
    return struct.pack("<8sIIQQ8sII16x", b"MRTRACE1", os.getpid(), 0, now(),
                       time.time_ns(), boot.ljust(8, b"\0"), *rank())


def plain(x):
    """What JSON has for a number that is not Python's own, or a text."""
    try:
        return operator.index(x)
    except TypeError:
        return str(x)


class Local(threading.local):
    def __init__(self):
        self.own = Own(flush)   # one look is slow enough
        self.asked = None       # the loader that it has a batch of


class Writer:
    """A process's file. All its methods may be called by any thread, and in
    the midst of one another: by the handler of a signal, or by what the
    garbage collector takes away just then. So none waits for a lock: what is
    to be written is put in line, and whoever has the lock writes it all."""

    def __init__(self, folder, names=None):
        """names: steps that have their numbers already."""
        self.folder, self.path, self.works_for = folder, None, 0
        self.pid = os.getpid()
        self.lock = threading.Lock()
        self.fd = -1
        self.looked = 0         # when it was asked whether it is still there
        self.off = False        # it ended, or could not go on
        self.line = collections.deque()     # chunks
        self.left = collections.deque()     # (thread, its last sums), ended
        self.begun = set()      # numbers of threads
        self.names = dict(names or {READ: 0})
        self.steps = itertools.count(max(self.names.values()) + 1)
        self.written = self.lost = 0
        for name, number in self.names.items():
            self.put_name(name, number)

    def put(self, kind, thread, body):
        self.line.append(chunk(kind, thread, body))

    def put_name(self, name, number):
        name = name if number < 255 else "others"
        self.put(b"NAME", 0, bytes([number])
                 + name.encode(errors="replace")[:200])

    def step(self, name):
        """The number of a step; those beyond 254 share the last one."""
        number = self.names.get(name)
        if number is None:
            number = min(next(self.steps), 255)
            self.put_name(name, number)
            # another thread may have been as quick: both numbers are its own
            number = self.names.setdefault(name, number)
        return number

    def meta(self, values):
        self.put(b"META", 0, json.dumps(values, default=plain).encode())

    def flush(self, own, last=False):
        """Write what this thread has; `last`: it ends."""
        spans, c = own.take(), own.counters
        told = b""
        if c and (last or c.due()):
            c.look()
            told = c.records()
            if last:
                c.close()
        if self.off or not spans and not told:
            return
        if own.number not in self.begun:
            self.begin_thread(own)
        for at in range(0, len(spans), CHUNK):
            self.put(b"SPAN", own.number, spans[at:at + CHUNK])
        if own.slow.keys:       # of samples before it
            keys, own.slow.keys = own.slow.keys, b""
            self.put(b"KEYS", own.number, keys)
        if c:
            c.number = own.number
        if told:
            self.put(b"CNTR", own.number, told)
        self.write()
        if self.off and c:
            c.close()

    def begin_thread(self, own):
        own.number = next(_threads)
        me = threading.current_thread()
        role = own.role or "consumer"
        name = own.name or ("main" if me is threading.main_thread()
                            else me.name)
        what = {"name": name, "role": role, "pid": os.getpid(),
                "tid": threading.get_native_id()}
        self.put(b"THRD", own.number, json.dumps(what).encode())
        self.begun.add(own.number)

    def write(self):
        """All that is in line. Where somebody is at it, they will find this
        as well: they look again when they have let go of the lock."""
        while self.line and self.lock.acquire(False):
            try:
                self.write_out(self.take_line())
            finally:
                self.lock.release()

    def take_line(self):
        """With the lock held: the chunks, which are in line no more."""
        while self.left:
            number, told = self.left.popleft()
            self.put(b"CNTR", number, told)
        chunks = [self.line.popleft() for _ in range(len(self.line))]
        self.written += sum(len(c) - 24 for c in chunks
                            if c[4:8] == b"SPAN") // 32
        return chunks

    def write_out(self, chunks):
        """With the lock held."""
        data = b"".join(chunks)
        try:
            if self.fd < 0:
                data = self.open() + data
            elif self.is_removed():
                self.off = True
                os.close(self.fd)
                self.fd = -1
                return
            while data:
                data = data[os.write(self.fd, data):]
        except OSError as e:
            self.stop(e)

    def is_removed(self):
        """The part of the program that was recorded has ended, and this
        process goes on: a worker that stays. Asked once a second."""
        at = now()
        if at - self.looked < LOOK:
            return False
        self.looked = at
        return os.fstat(self.fd).st_nlink == 0 \
            and not os.path.exists(self.path)

    def open(self):
        """Make the file; its first bytes."""
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND
        for again in itertools.count():
            name = str(os.getpid()) + (f"-{again}" if again else "") + ".mrt"
            self.path = os.path.join(self.folder, name)
            try:
                self.fd = os.open(self.path, flags | os.O_CLOEXEC, 0o666)
                break
            except FileExistsError:     # a number that was used before
                continue
        at_end(self.finish)
        first = header()
        if self.works_for:
            first += chunk(b"PART", 0, struct.pack("<I", self.works_for))
        return first

    def stop(self, error):
        """The program goes on; one of its processes says what happened."""
        self.off = True
        self.say("stopped", f"tracing stops, the program goes on: "
                 f"{self.folder}: {error.strerror or error}")

    def say(self, name, text):
        """By the first of the trace's processes that has it to say; `name`
        is that of a file by which the others know."""
        if not os.path.isdir(self.folder):
            return      # the command that was traced has long ended
        try:
            os.close(os.open(os.path.join(self.folder, name),
                             os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
        except FileExistsError:
            return
        except OSError:
            pass
        try:
            print("millrace:", text, file=sys.stderr, flush=True)
        except Exception:
            pass

    def finish(self):
        """The process ends in an orderly way."""
        if self.pid != os.getpid():     # a child that was left its atexit
            return
        for ending in endings:
            ending()
        flush(True)
        off, self.off = self.off, True
        if off or self.fd < 0:
            return
        # Who writes is soon done, unless this was called in their midst.
        alone = self.lock.acquire(timeout=1)
        self.write_out([*self.take_line(), *self.last()])
        if alone:
            os.close(self.fd)
            self.fd = -1
            self.lock.release()

    def last(self):
        """The chunks that end the file."""
        live, chunks = children(), []
        if live:
            chunks.append(chunk(b"LIVE", 0,
                                struct.pack(f"<{len(live)}I", *live)))
        chunks.append(chunk(b"DONE", 0, struct.pack(
            "<QQQ", self.written, self.lost, now())))
        return chunks


def children():
    """Processes of multiprocessing that still run."""
    module = sys.modules.get("multiprocessing.process")
    live = []
    for p in list(getattr(module, "_children", ())):
        try:
            if os.waitid(os.P_PID, p.pid, os.WEXITED | os.WNOHANG
                         | os.WNOWAIT) is None:
                live.append(p.pid)
        except ChildProcessError:   # another's, as with a fork server
            if os.path.exists(f"/proc/{p.pid}"):
                live.append(p.pid)
        except OSError:
            pass
    return live


def at_end(function):
    """Call it when the process ends: children of multiprocessing know no
    atexit, and the main process ends its workers before it comes to that."""
    util = sys.modules.get("multiprocessing.util")
    if util:
        util.Finalize(None, function, exitpriority=100)
    atexit.register(function)


# ---- the writer of this process ----

def without(what):
    """The program comes first: where the function fails it goes on without
    `what`, which is said once."""
    def wrap(function):
        @functools.wraps(function)
        def safe(*args):
            try:
                return function(*args)
            except Exception as e:
                if writer is not None:
                    writer.say("without-" + what.replace(" ", "-"),
                               f"the trace is without {what}: {e!r}")
        return safe
    return wrap


@without("some spans")
def flush(last=False):
    if writer is not None:
        writer.flush(local.own, last)


writer = None
local = Local()
endings = []        # to be called before the file is closed
forks = []          # and in a child that was forked
_threads = itertools.count(1)     # some outlive a writer
_numbers = itertools.count()
_spare = []


def begin(folder):
    global writer, _numbers
    writer = Writer(folder)
    counters.load(folder)
    _numbers = itertools.count()
    _spare.clear()
    local.own = Own(flush)


def end():
    """Close the file; what follows is not recorded."""
    global writer
    if writer:
        writer.finish()
    writer = None


def on():
    return writer is not None and not writer.off


def _after_fork():
    """A child has a file of its own, and nothing that its parent saw."""
    global writer, _threads
    counters.forked()
    if writer is None:
        return
    if writer.fd >= 0:
        try:
            os.close(writer.fd)
        except OSError:
            pass
    # Numbers of steps that were looked up before stay as they are.
    old, writer = writer, Writer(writer.folder, writer.names)
    writer.off = old.off
    _threads = itertools.count(1)
    local.own = Own(flush)
    for forked in forks:
        forked()


os.register_at_fork(after_in_child=_after_fork)


def take_number():
    """The number of the next batch."""
    try:
        return _spare.pop()
    except IndexError:
        return next(_numbers)


def give_back(number):
    """It did not come to a batch."""
    _spare.append(number)


def counted(own):
    """A sample begins: the thread's counters, or None when this one is not
    counted, nor if it is within a step of one that is."""
    c = own.counters
    if c is None:
        c = own.counters = counters.thread(writer.left.append, writer.meta)
    return c.sample(own.batch) if c and not own.counted else None
