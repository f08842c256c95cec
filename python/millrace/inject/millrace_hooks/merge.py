# SPDX-License-Identifier: Apache-2.0
"""Makes one trace of the files of several processes, as the command does
it; for record(), where all of them work for one process."""
import glob
import json
import os
import struct
import zlib

from .counters import OUTSIDE, RECORD
from .writer import CHUNK, READ, chunk

_head = struct.Struct("<4s4sIIII")


def chunks(f):
    """(kind, thread, body) of what is whole."""
    while True:
        head = f.read(24)
        if len(head) < 24:
            return
        mark, kind, thread, size, crc, _ = _head.unpack(head)
        if mark != b"CHNK" or size > 2 * CHUNK:
            return
        body = f.read(size)
        if len(body) < size or zlib.crc32(body) != crc:
            return
        yield kind, thread, body


class Merge:
    def __init__(self, out):
        self.out = out
        self.names = {READ.encode(): 0}
        self.threads = self.spans = 0
        self.live, self.missing, self.end = set(), set(), 0

    def put(self, kind, thread, body):
        self.out.write(chunk(kind, thread, body))

    def name(self, body):
        """The number of a step's name in the output."""
        number = self.names.get(body[1:])
        if number is None:
            number = min(len(self.names), 255)
            self.names[body[1:]] = number
            self.put(b"NAME", 0, bytes([number]) + body[1:])
        return number

    def part(self, f, pid):
        steps = bytearray(256)
        counts = {}     # by thread: the last ones say all
        most, done = 0, False
        for kind, thread, body in chunks(f):
            most = max(most, thread)
            new = thread and self.threads + thread
            if kind == b"NAME":
                steps[body[0]] = self.name(body)
            elif kind == b"SPAN":
                body = bytearray(body)
                body[23::32] = body[23::32].translate(steps)
                self.spans += len(body) // 32
                self.put(kind, new, bytes(body))
            elif kind == b"CNTR":
                counts[new] = bytearray(body)
            elif kind == b"LIVE":
                self.live.update(struct.unpack(f"<{len(body) // 4}I", body))
            elif kind == b"DONE":
                done = True
                self.end = max(self.end, struct.unpack("<QQQ", body)[2])
            elif kind != b"PART":
                self.put(kind, new, body)
        steps[OUTSIDE] = OUTSIDE
        for thread, body in counts.items():
            body[::RECORD.size] = body[::RECORD.size].translate(steps)
            self.put(b"CNTR", thread, bytes(body))
        self.threads += most
        if not done:
            self.missing.add(pid)

    def finish(self):
        if not self.missing - self.live:
            self.put(b"DONE", 0, struct.pack("<QQQ", self.spans, 0, self.end))


def merge(folder, path, header, meta):
    """The files in `folder` become `path`; its own process's comes first.
    False when there are none."""
    own = os.path.join(folder, f"{os.getpid()}.mrt")
    parts = sorted(glob.glob(os.path.join(glob.escape(folder), "*.mrt")),
                   key=lambda p: (p != own, p))
    if not parts:
        return False
    tmp = path + ".tmp"
    with open(tmp, "wb") as out:
        out.write(header)
        m = Merge(out)
        m.put(b"META", 0, json.dumps(meta).encode())
        for p in parts:
            with open(p, "rb") as f:
                pid = struct.unpack_from("<8sI", f.read(64).ljust(64))[1]
                m.part(f, pid)
        m.finish()
    os.replace(tmp, path)
    return True
