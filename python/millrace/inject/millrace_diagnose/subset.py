# SPDX-License-Identifier: Apache-2.0
"""The files behind the samples that are looked at."""
import queue
import statistics
import threading

from . import files
from .watch import key, listed, samples_in


class Subset:
    """What the notes of a pass say about `batches`; of a stream, about the
    first `count` of them, all together."""

    def __init__(self, source, count, notes):
        self.source, self.count = source, count
        self.by_key, self.held = {}, set()
        self.how = ""           # how the files became known, or why not
        bytes_, calls = [], []
        for note in notes:
            self.by_key.setdefault(note["key"], []).extend(note["files"])
            self.held.update(note["held"])
            n = max(1, note["n"])
            bytes_.append(note["read"] / n)
            calls.append(note["calls"] / n)
        self.read = statistics.median(bytes_) if bytes_ else 0
        self.calls = statistics.median(calls) if calls else 0
        self.find()

    def find(self):
        """`own`: files of one batch each; `shared`: of several."""
        batches = self.source.batches[:self.count]
        each = [set(self.by_key.get(key(b), ())) for b in batches] \
            if self.source.indexed else [set().union(*self.by_key.values())]
        seen, twice = set(), set()
        for paths in each:
            twice |= seen & paths
            seen |= paths
        if not seen and not self.held and self.source.indexed:
            each = [self.listed(b) for b in batches]
            seen = set().union(*each)
            self.how = "by what the data set lists"
        elif seen:
            self.how = "as Python opened them"
        elif self.held:
            self.how = "as the data set keeps them open"
        self.own_of = [sorted(paths - twice) for paths in each]
        self.own = [p for paths in self.own_of for p in paths]
        self.shared = sorted(twice | (self.held - seen))

    def listed(self, batch):
        found = set()
        for i in batch if isinstance(batch, (list, tuple)) else [batch]:
            try:
                path = listed(self.source.loader.dataset, i)
            except Exception:   # whatever its attributes are
                path = None
            if path:
                found.add(path)
        return found

    def all(self):
        return self.own + self.shared

    def samples(self):
        return sum(self.source.samples_of(i) for i in range(self.count))

    def sample_bytes(self):
        own = sum(map(files.size, self.own))
        return own / max(1, self.samples()) if own else self.read

    def fit(self, most):
        """Leave out the last batches until the files' bytes are few
        enough; how many are left."""
        total = 0
        for n, paths in enumerate(self.own_of):
            total += sum(map(files.size, paths))
            if total > most and n > 0 and self.source.indexed:
                return n
        return self.count

    def cut(self, count):
        if count < self.count:
            self.count = count
            self.find()

    # ---- in and out of memory ----

    def warm(self, until):
        """Read what belongs to single batches (the rest was read when the
        pass was made); the share that is in memory, None: unknown."""
        cold = [p for p in self.own if files.resident([p]) != 1]
        files.read_all(cold, 4, until)
        return files.resident(self.own)

    def there(self):
        """Bytes in memory."""
        n = 0
        for p in self.all():
            pages = files.pages_in_memory(p)
            n += pages[0] * files.PAGE if pages else 0
        return n

    def expected(self):
        """Bytes that a pass has to read, about."""
        own = sum(map(files.size, self.own))
        return own or max(self.read, 512) * self.samples()


class Behind:
    """Evicts the files of batches that the loop is done with, so that they
    are cold when their turn comes again."""

    def __init__(self, subset, threaded):
        self.subset = subset
        self.back = self.all = 0    # bytes that were there, of how many
        self.todo = queue.SimpleQueue() if threaded else None
        if threaded:
            self.thread = threading.Thread(target=self.work, daemon=True)
            self.thread.start()

    def done(self, turn):
        paths = self.subset.own_of[turn % self.subset.count]
        if self.todo is not None:
            self.todo.put(paths)
        else:
            self.evict(paths)

    def evict(self, paths):
        for p in paths:
            n = files.pages_in_memory(p)
            if n:
                self.back += n[0] * files.PAGE
                self.all += n[1] * files.PAGE
            files.evict(p)

    def work(self):
        while True:
            paths = self.todo.get()
            if paths is None:
                return
            self.evict(paths)

    def close(self):
        if self.todo is not None:
            self.todo.put(None)
            self.thread.join()
