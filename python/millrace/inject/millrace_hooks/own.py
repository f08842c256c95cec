# SPDX-License-Identifier: Apache-2.0
"""What a thread is at, and how its work on samples is timed.

This is done for each step of each sample, between steps that use the CPU's
caches for data: so _fast.c does the same in C, and is taken where it can be
loaded (any CPython from 3.8 with the same machine code). MILLRACE_HOOKS=python
leaves it out."""
import copy
import os
import struct
import time
import types

from .names import Slow
from .sizes import size

SAMPLE, STEP, FAILED = 2, 3, 0x80
NO_SAMPLE = 2**48 - 1
NO_BATCH = 2**32 - 1
MOST = 2**32 - 1
CHUNK = 8 << 20     # a chunk's spans at most; the format allows 16 MiB

now = time.monotonic_ns
_span = struct.Struct("<QQIHBBII").pack


class Own:
    """What a thread is at, and its spans that are not yet written, which
    flush() does when there are many."""

    __slots__ = ("flush", "number", "role", "name", "batch", "sample", "open",
                 "pinning", "counters", "counted", "slow", "_spans")

    def __init__(self, flush):
        self.flush = flush
        self.number = 0         # of the thread, once it has written
        self.role = self.name = None
        self.batch = NO_BATCH
        self.sample = NO_SAMPLE
        self.open = False       # within a sample, and in no step
        self.pinning = False
        self.counters = None    # False: there are none to be had
        self.counted = None     # their Group, while a sample is counted
        self.slow = Slow()
        self._spans = bytearray()

    def take(self):
        """The spans, which are gone then."""
        spans, self._spans = self._spans, bytearray()
        return bytes(spans)

    def span_of(self, batch, start, end, kind, sample=NO_SAMPLE):
        """Of a batch that the thread is not at."""
        self._spans += _span(start, end - start, sample & 0xffffffff,
                             sample >> 32, kind, 0, batch, 0)

    def span(self, start, end, kind, step=0, bytes_=0):
        """Of the sample and the batch that the thread is at."""
        sample = self.sample
        self._spans += _span(start, end - start, sample & 0xffffffff,
                             sample >> 32, kind, step, self.batch,
                             bytes_ if bytes_ < MOST else MOST)
        if len(self._spans) >= CHUNK:
            self.flush()

    def run(self, call, args, kw, step):
        """Call it as a step of this sample."""
        self.open = False
        counted = self.counted
        if counted:
            counted.begin()
        kind, out = STEP, None
        start = now()
        try:
            out = call(*args, **kw)
            return out
        except BaseException:
            kind |= FAILED
            raise
        finally:
            end = now()
            if counted:
                counted.add(step, start, end)
            self.span(start, end, kind, step, size(out))
            self.open = True

    def timed(self, get, args, number, counted):
        """Call it for that sample; `counted`: the thread's counters, or None
        where this one is not counted."""
        before = self.sample, self.open, self.counted
        self.sample, self.open = number, True
        self.counted = counted and counted.group
        start = now()
        try:
            x = get(*args)
            end = now()
            self.span(start, end, SAMPLE, 0, size(x))
            if end - start > self.slow.least and number != NO_SAMPLE:
                self.slow.note(end - start, number, *args)
            return x
        except StopIteration:
            raise
        except BaseException:
            self.span(start, now(), SAMPLE | FAILED)
            raise
        finally:
            self.sample, self.open, self.counted = before
            if counted:
                counted.end(now() - start)


class Function:
    """A plain function in a list of transforms, timed."""

    def __init__(self, function, step, local):
        self.__dict__.update(__wrapped__=function, _step=step, _local=local)

    def __call__(self, *args, **kw):
        own = self._local.own
        if not own.open:
            return self.__wrapped__(*args, **kw)
        return own.run(self.__wrapped__, args, kw, self._step)

    def __getattr__(self, name):
        return getattr(self.__dict__["__wrapped__"], name)

    def __repr__(self):
        return repr(self.__wrapped__)

    def __reduce__(self):
        # Arrives as the function itself, also where nothing is traced.
        return copy.copy, (self.__wrapped__,)


class Method:
    """Stands in a class for a method `call`. Within a sample, outside of a
    step: objects whose id is in `through` are called as ever, those in
    `numbers` as that step, and others as unknown(object) says: a step's
    number, or None."""

    def __init__(self, call, numbers, through, local, unknown):
        self.__wrapped__ = call
        self._numbers, self._through = numbers, through
        self._local, self._unknown = local, unknown

    def __call__(self, obj, *args, **kw):
        own, call = self._local.own, self.__wrapped__
        if not own.open or id(obj) in self._through:
            return call(obj, *args, **kw)
        step = self._numbers.get(id(obj))
        if step is None:
            step = self._unknown(obj)
            if step is None:
                return call(obj, *args, **kw)
        return own.run(call, (obj, *args), kw, step)

    def __get__(self, obj, kind=None):
        return self if obj is None else types.MethodType(self, obj)

    def __getattr__(self, name):
        return getattr(self.__dict__["__wrapped__"], name)


if os.environ.get("MILLRACE_HOOKS") != "python":
    try:
        from ._fast import Function, Method, Own  # noqa: F811
    except ImportError:
        pass
