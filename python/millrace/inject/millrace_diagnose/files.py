# SPDX-License-Identifier: Apache-2.0
"""Files of a data set: which ones are read, whether they are in memory, how
to get them there and out again; all without root."""
import ctypes
import math
import mmap
import os
import re
import stat
import sys
import threading
import time

PAGE = mmap.PAGESIZE
PROBES = 64         # of a file whose pages nobody else's process may count


# ---- which files are opened ----

class Opens:
    """Names that Python opens for reading while it is on. An audit hook
    cannot be taken away again: it is added when first needed."""

    def __init__(self):
        self.on = self.hooked = False
        self.names = []

    def begin(self):
        if not self.hooked:
            sys.addaudithook(self.event)
            self.hooked = True
        self.names, self.on = [], True

    def end(self):
        self.on = False
        return self.names

    def event(self, event, args):
        if not self.on or event != "open":
            return
        name, _mode, flags = args
        if type(flags) is int and flags & os.O_ACCMODE == os.O_RDONLY:
            self.names.append(name)


_NOT_DATA = re.compile(r"\.(py|pyc|pyi|so(\.[0-9.]+)?|pth|egg-link)$")
_ELSEWHERE = ("/proc/", "/sys/", "/dev/", "/etc/", "/usr/lib/", "/var/cache/")


def is_data(path):
    """A file that may be part of a data set: not one of Python's own."""
    if path.startswith(_ELSEWHERE) or _NOT_DATA.search(path):
        return False
    for home in {sys.prefix, sys.base_prefix}:
        if path.startswith(os.path.join(home, "lib")):
            return False
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False


def data_of(names):
    """The data among names that were opened, absolute, once each."""
    found = {}
    for n in names:
        try:
            path = os.path.abspath(os.fsdecode(n))
        except (TypeError, ValueError):
            continue        # a file descriptor
        if path not in found:
            found[path] = is_data(path)
    return [p for p, is_it in found.items() if is_it]


def held():
    """Data that this process has open or mapped: readers that keep a file
    (HDF5, LMDB, numpy.memmap) open it once, and not by Python's open()."""
    names, programs = set(), set()
    try:
        for fd in os.listdir("/proc/self/fd"):
            try:
                if int(fd) > 2 and not _only_written(fd):
                    names.add(os.readlink(f"/proc/self/fd/{fd}"))
            except (OSError, ValueError):
                pass
        with open("/proc/self/maps") as f:
            for line in f:
                part = line.rstrip("\n").split(None, 5)
                if len(part) == 6:
                    (programs if "x" in part[1] else names).add(part[5])
    except OSError:
        pass
    return data_of(n for n in names - programs if n.startswith("/")
                   and not n.endswith(" (deleted)"))


def _only_written(fd):
    with open(f"/proc/self/fdinfo/{fd}") as f:
        for line in f:
            if line.startswith("flags:"):
                return int(line.split()[1], 8) & os.O_ACCMODE == os.O_WRONLY
    return False


# ---- what is in memory ----

_libc = None


def libc():
    global _libc
    if _libc is None:
        _libc = ctypes.CDLL(None, use_errno=True)
        _libc.mmap.restype = ctypes.c_void_p
        _libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int,
                               ctypes.c_int, ctypes.c_int, ctypes.c_long]
        _libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        _libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t,
                                  ctypes.c_int]
        _libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t,
                                  ctypes.c_char_p]
    return _libc


def _by_mincore(fd, size):
    c = libc()
    at = c.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
    if at in (None, ctypes.c_void_p(-1).value):
        return None
    pages = (size + PAGE - 1) // PAGE
    seen = ctypes.create_string_buffer(pages)
    failed = c.mincore(at, size, seen)
    c.munmap(at, size)
    if failed:
        return None
    return sum(b & 1 for b in seen.raw) if pages < 64 \
        else pages - seen.raw.translate(_FIRST_BIT).count(0)


_FIRST_BIT = bytes(i & 1 for i in range(256))


def _by_probes(fd, size):
    """Reads that only succeed from memory. mincore() tells nothing, that is,
    that all is there, about files of others."""
    pages = (size + PAGE - 1) // PAGE
    step = max(1, pages // PROBES)
    there = tried = 0
    byte = bytearray(1)
    for page in range(0, pages, step):
        tried += 1
        try:
            there += os.preadv(fd, [byte], page * PAGE, os.RWF_NOWAIT) > 0
        except BlockingIOError:
            pass
        except (OSError, AttributeError):
            return None     # this file system cannot say
    return pages * there // tried


def pages_in_memory(path):
    """(pages that are in memory, pages); None: nobody can say."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        st = os.fstat(fd)
        if not st.st_size:
            return 0, 0
        mine = st.st_uid == os.geteuid() or os.geteuid() == 0 \
            or os.access(path, os.W_OK)
        n = (_by_mincore if mine else _by_probes)(fd, st.st_size)
        return None if n is None else (n, (st.st_size + PAGE - 1) // PAGE)
    except OSError:
        return None
    finally:
        os.close(fd)


def resident(paths):
    """The share of their pages that is in memory; None: unknown."""
    there = all_ = 0
    for p in paths:
        n = pages_in_memory(p)
        if n:
            there, all_ = there + n[0], all_ + n[1]
    return there / all_ if all_ else None


def evict(path):
    """Out of memory; what is not yet on the disk has to be written first."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    except OSError:
        pass
    finally:
        os.close(fd)


def let_go(paths):
    """Pages that this process has mapped cannot be evicted: it forgets those
    of files that it only reads (numpy.memmap, LMDB); they come back when
    they are touched."""
    paths = set(paths)
    try:
        with open("/proc/self/maps") as f:
            lines = f.readlines()
    except OSError:
        return
    for line in lines:
        part = line.rstrip("\n").split(None, 5)
        if len(part) == 6 and part[1] == "r--s" and part[5] in paths:
            start, end = (int(x, 16) for x in part[0].split("-"))
            libc().madvise(start, end - start, mmap.MADV_DONTNEED)


def evict_all(paths, until=math.inf):
    """The share that stayed; None: unknown."""
    let_go(paths)
    for p in paths:
        evict(p)
    stayed = resident(paths)
    if stayed:      # not yet written, most likely
        for p in paths:
            if time.perf_counter() > until:
                break
            _sync(p)
            evict(p)
        stayed = resident(paths)
    return stayed


def _sync(path):
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError:
        pass


# ---- reading ----

def read(path, until=math.inf):
    """All of it, thrown away; was there time for that?"""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        while time.perf_counter() < until:
            if not os.read(fd, 1 << 20):
                return True
        return False
    except OSError:
        return True
    finally:
        os.close(fd)


def read_all(paths, threads, until=math.inf):
    """By so many threads; was there time for all?"""
    todo = iter(paths)
    lock = threading.Lock()
    left = []

    def work():
        while not left:
            with lock:
                path = next(todo, None)
            if path is None:
                return
            if not read(path, until):
                left.append(path)

    crew = [threading.Thread(target=work) for _ in range(threads)]
    for t in crew:
        t.start()
    for t in crew:
        t.join()
    return not left


def size(path):
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def io_counters():
    """(bytes, calls) of read() in this process so far, or None."""
    try:
        with open("/proc/self/io", "rb", buffering=0) as f:
            text = f.read()
        v = dict(line.split(b": ") for line in text.splitlines())
        return int(v[b"rchar"]), int(v[b"syscr"])
    except (OSError, ValueError, KeyError):
        return None
