# SPDX-License-Identifier: Apache-2.0
"""Reads a trace by docs/trace-format.md, apart from the code under test."""
import collections
import json
import struct
import zlib

KINDS = {1: "batch", 2: "sample", 3: "step", 4: "fetch", 5: "wait_in",
         6: "wait_out", 7: "collate", 8: "next", 9: "consume", 10: "work",
         11: "pin", 12: "start", 13: "turn"}

Span = collections.namedtuple(
    "Span", "start end kind failed inexact step sample batch size thread line",
    defaults=[None])


class Trace:
    def __init__(self, path):
        with open(path, "rb") as f:
            self.data = f.read()
        (magic, self.pid, zero, self.start, self.real, self.boot, self.rank,
         self.ranks) = struct.unpack_from("<8sIIQQ8sII", self.data)
        assert magic == b"MRTRACE1" and zero == 0
        assert self.data[48:64] == bytes(16)
        self.meta, self.threads, self.names = {}, {}, {0: "read"}
        self.spans, self.kinds, self.done = [], [], None
        self.whole = True       # no chunk is cut off
        self.read(64)

    def read(self, at):
        while at < len(self.data):
            if at + 24 > len(self.data):
                self.whole = False
                return
            mark, kind, thread, size, crc, zero = struct.unpack_from(
                "<4s4sIIII", self.data, at)
            assert mark == b"CHNK" and zero == 0 and size <= 16 << 20
            body = self.data[at + 24:at + 24 + size]
            if len(body) < size:
                self.whole = False
                return
            assert zlib.crc32(body) == crc
            self.kinds.append(kind.decode())
            self.chunk(kind, thread, body)
            at += 24 + size

    def chunk(self, kind, thread, body):
        if kind == b"META":
            self.meta.update(json.loads(body))
        elif kind == b"THRD":
            assert thread > 0 and thread not in self.threads
            self.threads[thread] = json.loads(body)
        elif kind == b"NAME":
            self.names[body[0]] = body[1:].decode()
        elif kind == b"SPAN":
            assert thread in self.threads and len(body) % 32 == 0
            for i in range(0, len(body), 32):
                self.span(thread, body[i:i + 32])
        elif kind == b"DONE":
            assert self.done is None
            self.done = struct.unpack("<QQQ", body)

    def span(self, thread, b):
        start, took, low, high, kind, step, batch, size = struct.unpack(
            "<QQIHBBII", b)
        sample = low | high << 32
        sample = None if sample == 2**48 - 1 else sample
        line = None
        if KINDS[kind & 63] == "next":
            sample, line = None, sample
        self.spans.append(Span(
            start / 1e9, (start + took) / 1e9, KINDS[kind & 63],
            bool(kind & 128), bool(kind & 64),
            self.names[step] if kind & 63 == 3 else None,
            sample, None if batch == 2**32 - 1 else batch, size,
            self.threads[thread]["name"], line))

    def of(self, kind, **want):
        return [s for s in self.spans if s.kind == kind
                and all(getattr(s, k) == v for k, v in want.items())]

    def lengths(self, kind, **want):
        return [s.end - s.start for s in self.of(kind, **want)]

    def identities(self):
        """Of the spans that do not depend on timing."""
        return sorted((s.kind, s.batch or 0, s.sample or 0, s.step or "")
                      for s in self.spans if s.kind in
                      ("batch", "sample", "step", "collate", "next",
                       "consume"))

    # ---- what follows from the spans ----

    def ready(self):
        return {s.batch: s.end for s in self.of("batch")}

    def waits(self):
        return {s.batch: s.end - s.start for s in self.of("next")}

    def delays(self):
        ready = self.ready()
        return {s.batch: s.end - ready[s.batch] for s in self.of("next")}

    def later(self, s):
        """Batches that the iterator gave after the one of this `next`."""
        return [x.batch for x in self.of("next", line=s.line, thread=s.thread)
                if x.end > s.end]

    def out_of_order(self):
        """Batches that were ready before one that was taken earlier."""
        ready = self.ready()
        return sorted({b for s in self.of("next") for b in self.later(s)
                       if ready[b] < ready[s.batch]})

    def head_of_line(self):
        """Of each batch: time in `next` while a later one lay ready."""
        ready = self.ready()
        blocked = {}
        for s in self.of("next"):
            later = [ready[b] for b in self.later(s)]
            since = max(s.start, min(later, default=s.end))
            blocked[s.batch] = max(0.0, s.end - since)
        return blocked


if __name__ == "__main__":
    import sys
    t = Trace(sys.argv[1])
    print(t.meta, t.threads, t.names, t.done, collections.Counter(t.kinds))
    for s in t.spans:
        print(s)
