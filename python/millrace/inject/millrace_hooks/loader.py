# SPDX-License-Identifier: Apache-2.0
"""Hooks on torch.utils.data, written against what 1.13 and 2.x share.

Batches are numbered when the main process sends them to a worker (or, without
workers, when it asks for them). The number travels in the place of torch's
own index of the task, which counts from 0 in each epoch, and is turned back
when the batch arrives: so workers and the thread that pins know it, however
they were started, and nothing has to be told them. What one iterator gives in
one epoch is a line, with a number of its own; only batches of a line are
compared.
"""
import collections
import functools
import itertools
import operator
import os
import sys
import weakref

from . import writer as w
from .patches import Patches
from .sizes import index, size
from .steps import Steps, forget, let_go

_patches = Patches()
_steps = Steps(_patches)
_states = weakref.WeakSet()
_over = collections.deque()     # what iterators had that are gone by now
_lines = itertools.count(1)
LATE = 2**31        # from here on, numbers are those of no batch


# ---- what fetches: in a worker, or in the main process ----

class Items:
    """A data set with numbers as keys, timed."""

    def __init__(self, dataset):
        self.__dict__["dataset"] = dataset

    def __getitem__(self, i):
        if not w.on():
            return self.dataset[i]
        own = w.local.own
        return own.timed(operator.getitem, (self.dataset, i),
                         index(i, w.NO_SAMPLE), w.counted(own))

    def __getattr__(self, name):
        dataset = self.__dict__["dataset"]
        value = getattr(dataset, name)
        if name != "__getitems__" or not value:
            return value
        if only_loops(dataset):     # then __getitem__ does the same
            raise AttributeError(name)
        return lambda many: timed_sample(value, (many,), w.NO_SAMPLE)

    def __setattr__(self, name, value):
        setattr(self.dataset, name, value)

    def __len__(self):
        return len(self.dataset)


def only_loops(dataset):
    """Is its __getitems__ that of torch's Subset, over one without?"""
    while type(dataset).__name__ == "Subset" \
            and type(dataset).__module__.startswith("torch."):
        dataset = dataset.dataset
        if not hasattr(dataset, "__getitems__"):
            return True
    return False


class Stream:
    """An iterator over samples, timed."""

    def __init__(self, iterator):
        self.__dict__["iterator"] = iterator

    def __iter__(self):
        return self

    def __next__(self):
        return timed_sample(next, (self.iterator,), w.NO_SAMPLE)

    def __getattr__(self, name):
        return getattr(self.__dict__["iterator"], name)


def timed_sample(get, args, number):
    if not w.on():
        return get(*args)
    own = w.local.own
    return own.timed(get, args, number, w.counted(own))


class Collate:
    def __init__(self, function):
        self.function = function

    def __call__(self, samples):
        if not w.on():
            return self.function(samples)
        own = w.local.own
        start = w.now()
        try:
            batch = self.function(samples)
        except BaseException:
            own.span(start, w.now(), w.COLLATE | w.FAILED)
            raise
        own.span(start, w.now(), w.COLLATE, 0, size(batch))
        return batch

    def __getattr__(self, name):
        return getattr(self.__dict__["function"], name)


@w.without("some steps")
def look(dataset):
    _steps.look(dataset)


@w.without("samples")
def dress(fetcher):
    """Let what a fetcher calls be timed, until it is given back what this
    returns: who looks at it between two batches finds what is its own."""
    its = vars(fetcher)
    if type(its.get("collate_fn")) is Collate:      # in two threads at once
        return {}
    if its.get("_millrace") is not w.writer:        # the first time
        its["_millrace"] = w.writer
        weakref.finalize(fetcher, let_go).atexit = False
        look(fetcher.dataset)
    timed = {"collate_fn": Collate, "dataset_iter": Stream}
    if "dataset_iter" not in its:
        timed = {"collate_fn": Collate, "dataset": Items}
    was = {name: its[name] for name in timed}
    its.update((name, timed[name](x)) for name, x in was.items())
    return was


def timed_fetch(fetch):
    @functools.wraps(fetch)
    def timed(self, possibly_batched_index):
        if not w.on():
            return fetch(self, possibly_batched_index)
        was = dress(self) or {}
        own = w.local.own
        start = w.now()
        kind = w.BATCH
        batch = None
        try:
            batch = fetch(self, possibly_batched_index)
            return batch
        except StopIteration:
            kind = None     # the end of a stream
            raise
        except BaseException:
            kind |= w.FAILED
            raise
        finally:
            vars(self).update(was)
            if kind is not None:
                own.span(start, w.now(), kind, 0, size(batch))
            if own.role == "worker":
                w.flush()
    return timed


# ---- workers, and the thread that pins ----

class Tasks:
    """The queue that a worker takes its tasks from, or the thread that pins
    its batches."""

    def __init__(self, queue, waits):
        self.queue, self.waits, self.since = queue, waits, None

    def get(self, *args, **kw):
        if self.since is None:      # an earlier call may have timed out
            self.since = w.now()
        task = self.queue.get(*args, **kw)
        if type(task) is tuple and type(task[0]) is int:
            own = w.local.own
            own.batch = task[0]
            if self.waits and w.on():
                own.span(self.since, w.now(), w.WAIT_IN)
        self.since = None
        return task

    def __getattr__(self, name):
        return getattr(self.__dict__["queue"], name)


class Parcel:
    """A batch in the queue, which pickles as what it is."""

    def __init__(self, task, results):
        self.task, self.results = task, results

    def __reduce__(self):
        self.results.packs(self.task[0])
        return tuple, (list(self.task),)


class Results:
    """The queue that a worker puts its batches into. A thread of the queue's
    packs them and sends them, one after the other."""

    def __init__(self, queue, worker):
        self.queue, self.worker = queue, worker
        self.packing = None     # (number, since when)
        send = queue._send_bytes

        def send_bytes(data):
            send(data)
            self.sent()

        queue._send_bytes = send_bytes

    def put(self, task, *args, **kw):
        if w.on() and type(task) is tuple and type(task[0]) is int:
            task = Parcel(task, self)
        return self.queue.put(task, *args, **kw)

    def packs(self, number):
        self.packing = number, w.now()

    @w.without("the handing over")
    def sent(self):
        if self.packing is None or not w.on():
            return
        (number, since), self.packing = self.packing, None
        own = w.local.own
        own.role, own.name = "hand-over", self.worker + " hand-over"
        own.span_of(number, since, w.now(), w.WORK)
        w.flush()

    def __getattr__(self, name):
        return getattr(self.__dict__["queue"], name)


def results(queue, worker):
    """As it is, where it is not multiprocessing's or sends already."""
    queues = sys.modules.get("multiprocessing.queues")
    if queues and isinstance(queue, queues.Queue) \
            and getattr(queue, "_thread", True) is None:
        return Results(queue, worker)
    return queue


def argument(args, kw, at, name, change):
    """Change one argument, given by place or by name."""
    if len(args) > at:
        return (*args[:at], change(args[at]), *args[at + 1:]), kw
    if name in kw:
        kw = dict(kw, **{name: change(kw[name])})
    return args, kw


def timed_loop(loop, threaded):
    @functools.wraps(loop)
    def timed(*args, **kw):
        own = w.local.own
        if not threaded and w.writer is not None:
            w.writer.works_for = parent()
        own.role = "worker"
        number = args[10] if len(args) > 10 else kw.get("worker_id", 0)
        own.name = f"worker {number}"
        args, kw = argument(args, kw, 2, "index_queue",
                            lambda q: Tasks(q, True))
        if not threaded:
            args, kw = argument(args, kw, 3, "data_queue",
                                lambda q: results(q, own.name))
        try:
            return loop(*args, **kw)
        finally:
            if threaded:
                w.flush(True)
            elif w.writer is not None:
                w.writer.finish()
    return timed


def parent():
    module = sys.modules.get("multiprocessing.process")
    mother = module.parent_process() if module else None
    return mother.pid if mother else os.getppid()


def timed_pin_loop(loop):
    @functools.wraps(loop)
    def timed(*args, **kw):
        own = w.local.own
        own.role = own.name = "pin"
        args, kw = argument(args, kw, 0, "in_queue",
                            lambda q: Tasks(q, False))
        try:
            return loop(*args, **kw)
        finally:
            w.flush()
    return timed


def timed_pin(pin):
    @functools.wraps(pin)
    def timed(*args, **kw):     # it calls itself for what is in a batch
        own = w.local.own
        if own.pinning or own.batch == w.NO_BATCH or not w.on():
            return pin(*args, **kw)
        own.pinning = True
        start = w.now()
        try:
            return pin(*args, **kw)
        finally:
            own.pinning = False
            own.span(start, w.now(), w.PIN)
            if own.role == "pin":
                w.flush()
    return timed


# ---- the main process ----

class State:
    """What an iterator has sent, and which batch the program has."""

    def __init__(self, iterator, single):
        self.iterator = weakref.ref(iterator)
        self.single = single
        self.over = False       # its batches are recorded no more
        self.line = next(_lines) if single else w.NO_SAMPLE
        self.numbers = {}       # torch's index of a task -> ours
        self.indices = {}       # and back
        self.last = None        # index that arrived last
        self.has = None         # (number, since) of the program's batch
        _states.add(self)

    def sent(self, i):
        if self.over:
            number = LATE + i
        else:
            number = self.numbers[i] = w.take_number()
        self.indices[number] = i
        return number

    def arrived(self, number):
        self.last = self.indices.pop(number, number)
        return self.last

    def done(self, at):
        """The program is done with its batch."""
        has, self.has = self.has, None
        if has and w.on():
            w.local.own.span_of(*has, at, w.CONSUME)

    def __del__(self):
        """Wherever the thread is that the garbage collector happens to run
        in: it is only noted."""
        try:
            if self.has:
                _over.append((*self.has, w.now()))
        except Exception:
            pass    # the interpreter is being taken down


def write_over():
    for _ in range(len(_over)):
        try:
            w.local.own.span_of(*_over.popleft(), w.CONSUME)
        except IndexError:      # another thread was there first
            break


def asks(at, state=None):
    """The thread is done with the batch that it has: it asks a loader for
    another, whichever loader that is. `state`: of this one, of which another
    thread may have had a batch."""
    other = w.local.asked and w.local.asked()
    for one in (other, state):
        if one:
            one.done(at)
    write_over()


def leave():
    """The process ends, and some batch was the last."""
    for state in list(_states):
        state.done(w.now())
    write_over()


def forked():
    """The batches that the parent has are not the child's."""
    for state in list(_states):
        state.has = None
    _over.clear()


def route(iterator, state):
    """Let an iterator's tasks carry our numbers. Nothing that is put into
    it may keep it: its end is what ends its workers."""
    me = weakref.ref(iterator)

    def get_data(*args, **kw):
        self = me()
        i, data = type(self)._get_data(self, *args, **kw)
        if type(i) is int:
            i = state.arrived(i)
        if state.over and not state.indices:
            unroute(self)
        return i, data

    iterator._get_data = get_data
    queues = iterator._index_queues
    for k, queue in enumerate(queues):
        queues[k] = Numbered(bare(queue), state)


class Numbered:
    """Stands in an iterator for a queue of tasks, which carry our numbers."""

    def __init__(self, queue, state):
        self.queue, self.state = queue, state

    def put(self, task, *args, **kw):
        state = self.state
        if type(task) is tuple and len(task) == 2 and type(task[0]) is int:
            task = state.sent(task[0]), task[1]
        elif state.over and task is not None:
            # A new epoch: whatever still arrives is thrown away.
            unroute(state.iterator())
        return self.queue.put(task, *args, **kw)

    def __getattr__(self, name):
        return getattr(self.__dict__["queue"], name)


def bare(queue):
    return queue.queue if type(queue) is Numbered else queue


def unroute(iterator):
    queues = iterator._index_queues
    queues[:] = map(bare, queues)
    vars(iterator).pop("_get_data", None)


def leave_alone(state):
    """Nothing is recorded any more. Tasks that are on their way carry our
    numbers: until they have come back, others have to, as well."""
    state.over = True
    iterator = state.iterator()
    if iterator is None:
        return
    vars(iterator).pop("_millrace", None)
    if not state.single and not state.indices:
        unroute(iterator)


def timed_reset(reset):
    @functools.wraps(reset)
    def timed(self, *args, **kw):
        # before it sends the epoch's first tasks, if it has workers
        if hasattr(self, "_index_queues") and hasattr(self, "_get_data"):
            if not hasattr(self, "_millrace") and w.on():
                self._millrace = State(self, False)
            if hasattr(self, "_millrace"):
                renew(self, self._millrace)
        return reset(self, *args, **kw)
    return timed


@w.without("batches")
def renew(iterator, state):
    """An epoch begins."""
    asks(w.now(), state)
    state.line = next(_lines)
    state.numbers.clear()
    state.indices.clear()
    route(iterator, state)


def marked(init):
    @functools.wraps(init)
    def timed(self, loader, *args, **kw):
        if w.on():
            self._millrace = State(self, loader.num_workers == 0)
        return init(self, loader, *args, **kw)
    return timed


def number_of(iterator, state, failed):
    """Of the batch that __next__ has just returned, or waits for."""
    if not getattr(iterator, "_in_order", True):
        i = state.last
    else:
        i = getattr(iterator, "_rcvd_idx", 0) - 1
        if failed and i not in state.numbers:
            i += 1      # it was not even received
    return state.numbers.pop(i, w.NO_BATCH)


def timed_next(next_):
    @functools.wraps(next_)
    def timed(self):
        state = getattr(self, "_millrace", None)
        if state is None or not w.on():
            return next_(self)
        own = w.local.own
        before = own.batch
        start = w.now()
        asks(start, state)
        if state.single:
            own.batch = w.take_number()
        kind = w.NEXT
        try:
            return next_(self)
        except StopIteration:
            kind = None
            raise
        except BaseException:
            kind |= w.FAILED
            raise
        finally:
            got(self, state, start, kind)
            own.batch = before
    return timed


@w.without("batches")
def got(iterator, state, start, kind):
    """__next__ has come to its end: with a batch, at the end, or failed."""
    at = w.now()
    if kind is None:
        if state.single:
            w.give_back(w.local.own.batch)
    else:
        number = w.local.own.batch if state.single else number_of(
            iterator, state, kind != w.NEXT)
        w.local.own.span_of(number, start, at, kind, state.line)
        if kind == w.NEXT:
            state.has = number, at
            w.local.asked = weakref.ref(state)
    w.flush()


def timed_iter(iter_):
    @functools.wraps(iter_)
    def timed(self):
        if not w.on():
            return iter_(self)
        describe(self)
        start = w.now()
        asks(start)
        kind = w.START
        try:
            return iter_(self)
        except BaseException:
            kind |= w.FAILED
            raise
        finally:
            w.local.own.span_of(w.NO_BATCH, start, w.now(), kind)
    return timed


_described = []


@w.without("a description")
def describe(loader):
    """What the first loader of a process is like, for META."""
    if _described == [os.getpid()]:
        return
    _described[:] = [os.getpid()]
    torch = sys.modules.get("torch")
    samples = None
    try:
        if hasattr(type(loader.dataset), "__getitem__"):
            samples = len(loader.dataset)
    except Exception:
        pass
    order = type(getattr(loader, "sampler", None)).__name__
    w.writer.meta({key: value for key, value in {
        "foreign": True, "clock": "monotonic",
        "torch": str(getattr(torch, "__version__", "")),
        "dataset": type(loader.dataset).__name__,
        "threads": loader.num_workers, "order": order, "samples": samples,
        "batch": getattr(loader, "batch_size", None)}.items()
        if value is not None})


# ---- putting it in, and taking it out ----

def hook_data(module):
    """torch.utils.data is there."""
    if w.writer is None:
        w.begin(os.environ["MILLRACE_TRACE"])
    if leave not in w.endings:
        w.endings.append(leave)
        w.forks.append(forked)
    dataloader = sys.modules["torch.utils.data.dataloader"]
    utils = dataloader._utils
    base = dataloader._BaseDataLoaderIter
    put = _patches.set
    put(dataloader.DataLoader, "__iter__",
        timed_iter(dataloader.DataLoader.__iter__))
    put(base, "__init__", marked(base.__init__))
    put(base, "__next__", timed_next(base.__next__))
    put(base, "_reset", timed_reset(base._reset))
    for name in ("_MapDatasetFetcher", "_IterableDatasetFetcher"):
        kind = getattr(utils.fetch, name)
        put(kind, "fetch", timed_fetch(kind.fetch))
    for name in ("_worker_loop", "_process_worker_loop",
                 "_thread_worker_loop"):
        loop = getattr(utils.worker, name, None)
        if loop:
            put(utils.worker, name, timed_loop(loop, "thread" in name))
    pin = utils.pin_memory
    put(pin, "_pin_memory_loop", timed_pin_loop(pin._pin_memory_loop))
    put(pin, "pin_memory", timed_pin(pin.pin_memory))


def hook_stateful(module):
    """torchdata's loader is there. Its iterators have torch's base alone, and
    workers a loop of their own, which has its name in two modules."""
    worker = sys.modules[module.__package__ + ".worker"]
    loop = timed_loop(worker._worker_loop, False)
    for where in worker, module:
        _patches.set(where, "_worker_loop", loop)
    loader = module.StatefulDataLoader
    _patches.set(loader, "__iter__", timed_iter(loader.__iter__))


def hook_compose(module):
    """A module with classes that are chains of transforms is there."""
    for name, kind in list(vars(module).items()):
        if isinstance(kind, type) and name.endswith("Compose") \
                and kind.__module__ == module.__name__ \
                and "__call__" in dir(kind):
            _steps.watch(kind)


def unhook():
    """Nothing is recorded any more, and all is as it was."""
    w.end()
    for state in list(_states):
        leave_alone(state)
    _patches.undo()
    forget()
    _described.clear()
    if leave in w.endings:
        w.endings.remove(leave)
        w.forks.remove(forked)
