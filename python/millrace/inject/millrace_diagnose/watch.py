# SPDX-License-Identifier: Apache-2.0
"""What a batch reads, seen where it is fetched: in a worker or in the main
process. While the file `learning` is there, each fetch adds a line to a file
of the process's own, which the main process reads: workers may be forked or
spawned, and live as long as they like."""
import functools
import glob
import json
import os

from . import files

MAIN = "MILLRACE_DIAGNOSE_MAIN"

_opens = files.Opens()


class Notes:
    """Between a main process and its workers, in the folder."""

    def __init__(self, folder, main):
        self.folder, self.main = folder, main
        self.flag = os.path.join(folder, f"{main}.learning")

    def begin(self):
        with open(self.flag, "w"):
            pass

    def end(self):
        try:
            os.unlink(self.flag)
        except OSError:
            pass

    def on(self):
        return os.access(self.flag, os.F_OK)

    def add(self, what):
        path = os.path.join(self.folder, f"{self.main}.{os.getpid()}.opens")
        line = (json.dumps(what) + "\n").encode("utf-8", "replace")
        fd = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY
                     | os.O_CLOEXEC, 0o666)
        try:
            os.write(fd, line)
        finally:
            os.close(fd)

    def read(self):
        for path in glob.glob(os.path.join(glob.escape(self.folder),
                                           f"{self.main}.*.opens")):
            with open(path, encoding="utf-8") as f:
                for line in f:
                    try:
                        yield json.loads(line)
                    except ValueError:
                        pass    # cut off


def key(index):
    """What a fetch is asked for, as both sides know it."""
    return repr(index)[:20000]


def samples_in(index):
    return len(index) if isinstance(index, (list, tuple)) else 1


def watched_fetch(fetch, folder):
    @functools.wraps(fetch)
    def watched(self, index):
        main = os.environ.get(MAIN)
        notes = main and Notes(folder, main)
        if not notes or not notes.on():
            return fetch(self, index)
        before = files.io_counters()
        _opens.begin()
        try:
            return fetch(self, index)
        finally:
            names = _opens.end()
            after = files.io_counters()
            read, calls = (after[0] - before[0], after[1] - before[1]) \
                if before and after else (0, 0)
            notes.add({"key": key(index), "n": samples_in(index),
                       "files": files.data_of(names), "held": files.held(),
                       "read": read, "calls": calls})
    return watched


def listed(dataset, index):
    """The file of a sample by what the data set says of itself: an attribute
    with as many names as there are samples (`samples`, `imgs` and others)."""
    while True:     # torch's Subset
        inner, indices = (getattr(dataset, a, None)
                          for a in ("dataset", "indices"))
        if inner is None or indices is None:
            break
        dataset, index = inner, indices[index]
    for value in _lists(dataset):
        item = value[index]
        if isinstance(item, (tuple, list)) and item:
            item = item[0]
        if isinstance(item, (str, os.PathLike)) and os.path.isfile(item):
            return os.path.abspath(os.fspath(item))
    return None


def _lists(dataset):
    try:
        n = len(dataset)
        own = vars(dataset)
    except TypeError:
        return
    for name in sorted(own, key=lambda a: a not in ("samples", "imgs")):
        value = own[name]
        if isinstance(value, (list, tuple)) and len(value) == n:
            yield value
