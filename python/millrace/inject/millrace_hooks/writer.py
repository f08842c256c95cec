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
import itertools
import json
import os
import struct
import sys
import threading
import time
import zlib

from . import counters
from .own import CHUNK, FAILED, NO_BATCH, NO_SAMPLE, Own  # noqa: F401

BATCH, WAIT_IN, COLLATE = 1, 5, 7
NEXT, CONSUME, PIN, START = 8, 9, 11, 12
READ = "read"       # the step with the number 0

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


class Local(threading.local):
    def __init__(self):
        self.own = Own(flush)   # one look is slow enough


class Writer:
    """A process's file. All its methods may be called by any thread."""

    def __init__(self, folder, names=(READ,)):
        self.folder, self.works_for = folder, 0
        self.pid = os.getpid()
        self.lock = threading.Lock()
        self.fd = -1
        self.off = False        # it ended, or could not go on
        self.pending = []       # chunks that come before the next spans
        self.left = []          # (thread, its last sums) of some that ended
        self.threads = 0
        self.names = {}
        self.written = self.lost = 0
        for name in names:
            self.step(name)

    def step(self, name):
        """The number of a step; those beyond 254 share the last one."""
        with self.lock:
            number = self.names.get(name)
            if number is None:
                number = min(len(self.names), 255)
                self.names[name] = number
                if number == 255:
                    name = "others"
                self.pending.append(chunk(
                    b"NAME", 0, bytes([number]) + name.encode()[:200]))
            return number

    def meta(self, values):
        with self.lock:
            self.pending.append(chunk(b"META", 0, json.dumps(values).encode()))

    def flush(self, own, last=False):
        """Write what this thread has; `last`: it ends."""
        spans, c = own.take(), own.counters
        told = b""
        if c and (last or c.due()):
            c.look()
            told = c.records()
            if last:
                c.close()
        if not spans and not told:
            return
        with self.lock:
            if self.off:
                return
            if not own.number:
                self.begin_thread(own)
            for at in range(0, len(spans), CHUNK):
                self.pending.append(chunk(b"SPAN", own.number,
                                          spans[at:at + CHUNK]))
            if own.slow.keys:       # of samples before it
                self.pending.append(chunk(b"KEYS", own.number,
                                          own.slow.keys))
                own.slow.keys = b""
            if c:
                c.number = own.number
            if told:
                self.pending.append(chunk(b"CNTR", own.number, told))
            self.take_left()
            self.write(len(spans) // 32)

    def take_left(self):
        """With the lock held."""
        while self.left:
            number, told = self.left.pop()
            self.pending.append(chunk(b"CNTR", number, told))

    def begin_thread(self, own):
        self.threads += 1
        own.number = self.threads
        me = threading.current_thread()
        role = own.role or "consumer"
        name = own.name or ("main" if me is threading.main_thread()
                            else me.name)
        what = {"name": name, "role": role, "pid": os.getpid(),
                "tid": threading.get_native_id()}
        self.pending.append(chunk(b"THRD", own.number,
                                  json.dumps(what).encode()))

    def write(self, spans):
        """All that is pending, with the lock held."""
        data = b"".join(self.pending)
        self.pending = []
        try:
            if self.fd < 0:
                data = self.open() + data
            while data:
                data = data[os.write(self.fd, data):]
            self.written += spans
        except OSError as e:
            self.stop(e)

    def open(self):
        """Make the file; its first bytes."""
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND
        for again in itertools.count():
            name = str(os.getpid()) + (f"-{again}" if again else "") + ".mrt"
            try:
                self.fd = os.open(os.path.join(self.folder, name),
                                  flags | os.O_CLOEXEC, 0o666)
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
        if not os.path.isdir(self.folder):
            return      # the command that was traced has long ended
        try:
            os.close(os.open(os.path.join(self.folder, "stopped"),
                             os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
        except FileExistsError:
            return
        except OSError:
            pass
        try:
            print(f"millrace: tracing stops, the program goes on: "
                  f"{self.folder}: {error.strerror or error}",
                  file=sys.stderr, flush=True)
        except Exception:
            pass

    def finish(self):
        """The process ends in an orderly way."""
        if self.pid != os.getpid():     # a child that was left its atexit
            return
        for ending in endings:
            ending()
        flush(True)
        with self.lock:
            if self.off:
                return
            if self.fd >= 0:
                self.take_left()
                live = children()
                if live:
                    self.pending.append(chunk(b"LIVE", 0, struct.pack(
                        f"<{len(live)}I", *live)))
                self.pending.append(chunk(b"DONE", 0, struct.pack(
                    "<QQQ", self.written, self.lost, now())))
                self.write(0)
            if self.fd >= 0:
                os.close(self.fd)
            self.off = True


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

def flush(last=False):
    if writer is not None:
        writer.flush(local.own, last)


writer = None
local = Local()
endings = []        # to be called before the file is closed
forks = []          # and in a child that was forked
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
    global writer
    counters.forked()
    if writer is None:
        return
    if writer.fd >= 0:
        try:
            os.close(writer.fd)
        except OSError:
            pass
    # Numbers of steps that were looked up before stay as they are.
    old, writer = writer, Writer(writer.folder, list(writer.names))
    writer.off = old.off
    local.own = Own(flush)
    for forked in forks:
        forked()


os.register_at_fork(after_in_child=_after_fork)


def take_number():
    """The number of the next batch."""
    return _spare.pop() if _spare else next(_numbers)


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
