# SPDX-License-Identifier: Apache-2.0
"""Tracing of PyTorch programs that know nothing of it: times that are known
because the programs sleep, and programs that end in all the ways they can."""
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import textwrap
import time

import pytest
from conftest import MODULE
from following import (BIN, PATIENCE, START, Follow, follow,  # noqa: F401
                       near, needs_torch, summary)
from mrt import Trace
from traces import NEXT, chunk, done, read_chrome, span, thread, trace

pytestmark = needs_torch


# ---- known answers: the program sleeps, and keeps a log of its own ----

KNOWN = """
log = os.open(sys.argv[1], os.O_CREAT | os.O_APPEND | os.O_WRONLY)

class Watch:
    def __init__(self, *what):
        self.what = what
    def __enter__(self):
        self.start = time.monotonic()
    def __exit__(self, *_):
        end = time.monotonic()
        os.write(log, f"{self.start!r} {end!r} {' '.join(self.what)}\\n"
                 .encode())

class Slow:
    def __init__(self, took):
        self.took = took
    def __call__(self, x):
        with Watch("step", type(self).__name__):
            time.sleep(self.took)
        return x

class Fast(Slow):
    pass

def plain(x):
    with Watch("step", "plain"):
        time.sleep(0.015)
    return x

class Compose:
    def __init__(self, transforms):
        self.transforms = transforms
    def __call__(self, x):
        for t in self.transforms:
            x = t(x)
        return x

class Known(Set):
    def __init__(self):
        super().__init__(12)
        self.transform = Compose([Slow(0.05), Compose([Fast(0.02)]), plain])
    def __getitem__(self, i):
        with Watch("sample"):
            time.sleep(0.03)
            return self.transform(torch.zeros(5)), i

def collate(samples):
    with Watch("collate"):
        time.sleep(0.06)
        return torch.stack([s[0] for s in samples])

for workers in (0, 1, 2):
    it = iter(DataLoader(Known(), batch_size=2, num_workers=workers,
                         collate_fn=collate))
    for n in range(6):
        with Watch("next"):
            batch = next(it)
        with Watch("consume"):
            time.sleep(0.04)
    assert next(it, None) is None
"""


def compare(got, log):
    """Each span lasted as long as the program's own clock says: the median
    of the differences is within 2 %, or 1 ms, and none is far off."""
    assert len(got) == len(log) > 0
    log = [(a, b - a) for a, b in log]
    got = [(s.start, s.end - s.start) for s in got]
    off = [abs(g[1] - x[1]) / max(0.02 * x[1], 0.001)
           for g, x in zip(sorted(got), sorted(log))]
    assert statistics.median(off) <= 1, off
    assert sum(o > 1 for o in off) <= len(off) / 4, off


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """The trace, and {what: [(start, end)]} by the program itself."""
    folder = tmp_path_factory.mktemp("known")
    trace = Follow(folder)(KNOWN, folder / "log").trace()
    log = {}
    for line in (folder / "log").read_text().splitlines():
        start, end, *what = line.split()
        log.setdefault(" ".join(what), []).append((float(start), float(end)))
    return trace, log


@pytest.fixture(scope="module")
def known(both):
    return both[0]


def test_times_are_those_that_the_program_measures_itself(both):
    t, log = both
    assert t.done and t.whole and t.meta["foreign"]
    for kind in ("sample", "collate", "next", "consume"):
        compare(t.of(kind), log[kind])
    for step, least in (("Slow", 0.05), ("Fast", 0.02), ("plain", 0.015)):
        compare(t.of("step", step=step), log[f"step {step}"])
        assert min(t.lengths("step", step=step)) >= least
    assert {s.step for s in t.of("step")} == {"Slow", "Fast", "plain"}


def test_a_batch_is_its_samples_and_their_collation(both):
    t, log = both
    for b in range(18):
        batch, = t.of("batch", batch=b)
        parts = [*t.of("sample", batch=b), *t.of("collate", batch=b)]
        took = sum(s.end - s.start for s in parts)
        assert all(batch.start <= s.start and s.end <= batch.end
                   for s in parts)
        assert 0.29 <= took <= batch.end - batch.start <= took + 0.01


def test_delays_and_waits_follow(both):
    t, log = both
    ready, waits, delays = t.ready(), t.waits(), t.delays()
    near([delays[b] for b in range(6)], 0)      # no workers
    # With workers, by the program's own clock: collated, and received.
    collated = sorted(b for _, b in log["collate"])
    received = sorted(b for _, b in log["next"])
    near([abs(delays[b] - (received[b] - collated[b]))
          for b in range(6, 12)], 0)
    # One worker makes what is waited for but for the time of the training.
    for b in range(7, 12):
        assert waits[b] == pytest.approx(
            ready[b] - ready[b - 1] - 0.04 - delays[b - 1] + delays[b],
            abs=0.01)
    assert [b for b in t.out_of_order() if b < 12] == []


def test_the_handing_over_of_a_batch_is_seen(follow):
    """What is packed takes long; the rest of the way to `next` is short."""
    r = follow("""
        class Heavy:
            def __reduce__(self):
                time.sleep(0.05)
                return Heavy, ()
        class Data(Set):
            def __getitem__(self, i):
                time.sleep(0.08)
                return Heavy()
        for x in DataLoader(Data(8), num_workers=2, collate_fn=list):
            assert type(x) is list and type(x[0]) is Heavy
        """)
    t = r.trace()
    sent = {s.batch: s for s in t.of("work")}
    assert sorted(sent) == list(range(8)) and t.done
    near(t.lengths("work"), 0.05, least=0.005)
    ready, taken = t.ready(), {s.batch: s.end for s in t.of("next")}
    for b, s in sent.items():
        worker = t.of("batch", batch=b)[0].thread
        assert s.thread == worker + " hand-over"
        # having sent it, the thread waits for Python's lock
        assert ready[b] <= s.start and s.end <= taken[b] + 0.03
    told = summary(r.path)
    assert told["workers"] == told["worker_threads"] == 2


def test_each_batch_has_its_spans_and_each_thread_its_role(known):
    for b in range(18):
        assert len(known.of("next", batch=b)) == 1
        assert len(known.of("consume", batch=b)) == 1
        assert len(known.of("batch", batch=b)) == 1
        assert len(known.of("sample", batch=b)) == 2
    samples = [s.sample for s in sorted(known.of("sample"),
                                        key=lambda s: (s.batch, s.start))]
    assert samples == list(range(12)) * 3
    assert len(known.of("start")) == 3
    roles = sorted(t["role"] for t in known.threads.values())
    assert roles == ["consumer"] + ["hand-over"] * 3 + ["worker"] * 3
    assert known.meta["samples"] == 12 and known.meta["batch"] == 2


def test_a_slow_batch_holds_up_those_behind_it(follow):
    """Batch 2 takes 600 ms, others 50 ms; two workers, two ahead each."""
    r = follow("""
        class Odd(Set):
            def __getitem__(self, i):
                time.sleep(0.6 if i == 2 else 0.05)
                return i
        for batch in DataLoader(Odd(8), batch_size=1, num_workers=2):
            time.sleep(0.02)
        """)
    t = r.trace()
    # 1 and 7 may be so, too
    assert [b for b in t.out_of_order() if 1 < b < 7] == [3, 5]
    ready, asked = t.ready(), {s.batch: s.start for s in t.of("next")}
    taken = {s.batch: s.end for s in t.of("next")}
    blocked, delays = t.head_of_line(), t.delays()
    # Batch 2 was the second of its worker; 3 lay ready almost all the while.
    slow, = t.lengths("batch", batch=2)
    assert 0.6 <= slow < 0.8
    assert blocked[2] == pytest.approx(taken[2] - max(asked[2], ready[3]),
                                       abs=1e-6)
    assert slow - 0.3 < blocked[2] <= slow
    told = summary(r.path)      # says what the reader above found
    assert told["out_of_order"] == len(t.out_of_order())
    held = {b["batch"]: b for b in told["held_up_by"]}
    # until it was ready; receiving it is not the batches' fault
    assert held[2]["blocked_ms"] == pytest.approx(
        1e3 * (ready[2] - max(asked[2], ready[3])), abs=0.01)
    assert held[2]["prepared_ms"] == pytest.approx(1e3 * slow, abs=0.01)
    assert told["held_up_by"][0] == held[2]
    assert held[2]["thread"] == t.of("batch", batch=2)[0].thread
    assert told["head_of_line_seconds"] >= 1e-3 * held[2]["blocked_ms"]
    assert told["wait"]["count"] == 8
    assert told["wait"]["total_ms"] == pytest.approx(
        1e3 * sum(t.waits().values()), abs=0.01)
    assert told["wait"]["max_ms"] == pytest.approx(
        1e3 * max(t.waits().values()), abs=0.01)
    assert told["delay"]["total_ms"] == pytest.approx(
        1e3 * sum(delays.values()), abs=0.01)
    assert delays[3] > blocked[2] and delays[5] > 0.35
    assert blocked[0] < blocked[2] and delays[2] < 0.1


CLOCK = """
used = 0
def work(seconds):
    global used
    start = time.monotonic()
    time.sleep(seconds)
    used += time.monotonic() - start
"""


def apart(t):
    """The consumer's waits and uses do not overlap; their seconds."""
    spans = sorted([*t.of("next"), *t.of("consume")])
    assert all(a.end <= b.start for a, b in zip(spans, spans[1:]))
    return [sum(t.lengths(kind)) for kind in ("next", "consume")]


def test_loaders_side_by_side_do_not_hold_each_other_up(follow):
    """The fast one's batches are ready while the slow one's is waited for."""
    r = follow(CLOCK + """
slow, fast = (DataLoader(Set(12, took), num_workers=1)
              for took in (0.1, 0.002))
for (x, i), (y, j) in zip(slow, fast):
    assert i == j
    work(0.03)
print(used)
""")
    t = r.trace()
    lines = {}
    for s in t.of("next"):
        lines.setdefault(s.line, []).append(s)
    slow, fast = (lines[k] for k in sorted(lines))
    assert len(slow) == len(fast) == 12
    near([s.end - s.start for s in slow[1:]], 0.07, least=0.01)
    near([s.end - s.start for s in fast], 0)
    waited, used = apart(t)
    told = summary(r.path)
    assert told["out_of_order"] == 0 and told["held_up_by"] == []
    assert told["head_of_line_seconds"] == 0
    near([used], float(r.out), least=0.01)
    assert told["consumer_wait"] == pytest.approx(waited)
    assert told["consumer_busy"] == pytest.approx(used)


def test_what_is_in_a_loop_around_is_not_counted_twice(follow):
    """Validation inside of training, with a loader of its own."""
    r = follow(CLOCK + """
train = DataLoader(Set(6, 0.05), num_workers=1)
val = DataLoader(Set(4, 0.02), num_workers=1)
for n, (x, i) in enumerate(train):
    work(0.08)
    if n % 2:
        for y, j in val:
            work(0.04)
print(used)
""")
    t = r.trace()
    waited, used = apart(t)
    near([used], float(r.out), least=0.01)
    lines = [s.line for s in t.of("next")]
    assert sorted(map(lines.count, set(lines))) == [4, 4, 4, 6]
    train = min(lines)      # nobody waits for it but at the start
    waits = [s.end - s.start for s in t.of("next", line=train)]
    assert max(waits[1:]) < 0.02 and t.out_of_order() == []
    told = summary(r.path)
    assert told["out_of_order"] == 0 and told["head_of_line_seconds"] == 0


UNORDERED = r"""
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

class Odd(Set):
    def __getitem__(self, i):
        time.sleep(0.6 if i == 2 else 0.05)
        return i

class Unordered(_MultiProcessingDataLoaderIter):    # as in torch 2.6
    _in_order = False
    def _next_data(self):
        while self._rcvd_idx < self._send_idx \
                and self._rcvd_idx not in self._task_info:
            self._rcvd_idx += 1
        if self._rcvd_idx == self._send_idx:
            self._shutdown_workers()
            raise StopIteration
        i, data = self._get_data()
        self._tasks_outstanding -= 1
        del self._task_info[i]
        self._try_put_index()
        return data

class Loader(DataLoader):
    def _get_iterator(self):
        return Unordered(self)

for x in Loader(Odd(8), num_workers=2):
    print(x.item())
"""


def test_batches_that_leave_in_any_order_hold_nobody_up(follow):
    r = follow(UNORDERED)
    t = r.trace()
    order = list(map(int, r.out.split()))
    assert sorted(order) == list(range(8)) and order.index(2) > 4
    assert [s.batch for s in t.of("next")] == order
    assert [s.sample for b in order for s in t.of("sample", batch=b)] == order
    told = summary(r.path)
    assert told["head_of_line_seconds"] < 0.01
    assert 2 not in [b["batch"] for b in told["held_up_by"]]


def test_the_same_run_gives_the_same_spans(follow):
    text = """
        torch.manual_seed(3)
        loader = DataLoader(Set(40), batch_size=4, shuffle=True,
                            num_workers=2, persistent_workers=True)
        for epoch in range(2):
            for x, i in loader:
                pass
        """
    one, two = (follow(text).trace() for _ in range(2))
    assert one.identities() == two.identities()
    assert [s.batch for s in one.of("next")] == list(range(20))
    assert len(one.of("start")) == 2 and one.done and two.done
    first = [s.sample for s in one.of("sample") if s.batch < 10]
    assert sorted(first) == list(range(40))


BOTH_WAYS = """
import pickle, inspect

class Double:
    def __call__(self, x):
        return x * 2, [x, "a", {"b": x}]

class Fails:
    def __call__(self, x, i=[0]):
        i[0] += 1
        if i[0] == 7:
            raise ValueError("the seventh")
        return bytes(9)

def plain(x):
    return x.numpy()

class Chain:
    def __init__(self, transforms): self.transforms = transforms
    def __call__(self, x):
        self.transforms[0](x)
        plain, fails = self.transforms[1:]
        assert pickle.loads(pickle.dumps(plain)).__name__ == "plain"
        assert plain.__name__ == "plain" and "plain" in repr(plain)
        assert list(inspect.signature(fails.__call__).parameters) == ["x", "i"]
        plain(x)
        return fails(x)

class Compose(Chain):
    pass

class Data(Set):
    def __init__(self, n):
        super().__init__(n)
        self.transform = Compose([Double(), plain, Fails()])
    def __getitem__(self, i):
        return self.transform(torch.full((3, i + 1), float(i))), i

try:
    for x in DataLoader(Data(20), 3, num_workers=0): pass
except ValueError as e:
    print(e)
print("millrace_hooks._fast" in sys.modules)
"""


def test_what_is_done_in_c_is_done_in_python_alike(follow):
    fast = follow(BOTH_WAYS)
    one = fast.trace()
    slow = follow(BOTH_WAYS, env={"MILLRACE_HOOKS": "python"})
    two = slow.trace()
    assert fast.out == "the seventh\nTrue\n"
    assert slow.out == "the seventh\nFalse\n"
    assert one.identities() == two.identities()
    assert [s.size for s in one.spans] == [s.size for s in two.spans]
    assert [s.failed for s in one.spans] == [s.failed for s in two.spans]
    assert {s.step for s in one.of("step")} == {"Double", "plain", "Fails"}
    assert sum(s.failed for s in one.spans) > 2
    assert [s.size for s in one.of("step", step="plain")][:3] == [12, 24, 36]


# ---- kinds of loaders ----

def test_all_kinds_of_loaders_are_followed(follow):
    t = follow("""
        class Stream(IterableDataset):
            def __iter__(self):
                info = torch.utils.data.get_worker_info()
                k, n = (info.id, info.num_workers) if info else (0, 1)
                return iter(range(k, 20, n))

        def count(loader):
            print(sum(1 for _ in loader), flush=True)

        class Many(Set):
            def __getitems__(self, many):
                return [self[i] for i in many]

        count(DataLoader(Stream(), batch_size=4))
        count(DataLoader(Stream(), batch_size=4, num_workers=2))
        count(DataLoader(Stream(), batch_size=None))
        count(DataLoader(Set(6), batch_size=None))
        count(DataLoader(Set(6), batch_sampler=[[0, 5], [1, 2, 3]]))
        count(DataLoader(Many(6), batch_size=3))
        a, b = (iter(DataLoader(Set(4), num_workers=n)) for n in (0, 1))
        for x, y in zip(a, b):      # two at a time
            pass
        it = iter(DataLoader(Set(50), num_workers=1))
        next(it); next(it)          # left before its end
        del it
        print("left", flush=True)
        count(DataLoader(torch.utils.data.Subset(Set(9), [8, 7]),
                         batch_size=2))
        """)
    assert r_words(t.out) == ["5", "6", "20", "6", "2", "2", "left", "1"]
    t = t.trace()
    got = t.of("next")
    assert len(got) == 5 + 6 + 20 + 6 + 2 + 2 + 8 + 2 + 1
    assert len({s.batch for s in got}) == len(got)
    assert len(t.of("consume")) == len(got) and t.done
    ready = t.ready()
    assert all(s.batch in ready for s in got)
    assert len(t.of("start")) == 10
    last = max(s.batch for s in got)
    assert [s.sample for s in t.of("sample", batch=last)] == [0, 1]


def r_words(text):
    return text.split()


@pytest.mark.parametrize("workers", [0, 2])
def test_the_budget_closes_for_all_kinds_of_data_sets(follow, workers):
    """Also where samples have no numbers."""
    text = """
        class Slow:
            def __call__(self, x):
                time.sleep(0.004)
                return x
        class Timed(Set):
            def __init__(self):
                super().__init__(12)
                self.transform = Slow()
            def __getitem__(self, i):
                return self.transform(torch.zeros(3))
        class Many(Timed):
            def __getitems__(self, many):
                return [self[i] for i in many]
        class Words(Timed):
            pass
        class Stream(IterableDataset):
            def __init__(self):
                self.transform = Slow()
            def __iter__(self):
                return (self.transform(torch.zeros(3)) for i in range(12))
        data = globals()[sys.argv[1]]()
        sampler = list("abcdefghijkl") if sys.argv[1] == "Words" else None
        for x in DataLoader(data, 3, sampler=sampler,
                            num_workers=int(sys.argv[2])):
            time.sleep(0.02)
        """
    for kind in "Timed", "Many", "Words", "Stream":
        told = summary(follow(text, kind, workers).path)
        budget, whole = told["budget"], told["thread_seconds"]
        assert all(v >= 0 for v in budget.values())
        assert sum(budget.values()) == pytest.approx(whole, rel=0.01), kind
        assert budget["steps"] >= 12 * 0.004
        if workers:
            assert budget["consumer"] == 0
        else:
            assert 4 * 0.02 <= budget["consumer"]
            assert budget["unattributed"] == 0
        # of several in one call, of which it is not known how many there were
        assert told["samples"] == (4 if kind == "Many" else
                                   24 if kind == "Stream" and workers else 12)
        for s in told["slowest"]:
            assert ("sample" in s) == (kind == "Timed")


@pytest.mark.parametrize("how", ["spawn", "forkserver"])
def test_workers_that_are_not_forked_are_followed(follow, how):
    t = follow("""
        if __name__ == "__main__":
            loader = DataLoader(Set(12), batch_size=2, num_workers=2,
                                multiprocessing_context=sys.argv[1],
                                persistent_workers=True)
            for epoch in range(2):
                for x, i in loader:
                    pass
        """, how).trace()
    assert [s.batch for s in t.of("next")] == list(range(12))
    assert len(t.of("sample")) == 24 and t.done
    assert {s.thread for s in t.of("batch")} == {"worker 0", "worker 1"}


PIN = """
# A device as far as the DataLoader looks at it.
torch.cuda.is_available = lambda: True
torch.cuda.current_device = lambda: 0
torch.cuda.set_device = lambda i: None
def pin(self, device=None):
    time.sleep(0.03)
    return self
torch.Tensor.pin_memory = pin
for workers in (0, 2):
    for x, i in DataLoader(Set(8), batch_size=2, num_workers=workers,
                           pin_memory=True):
        time.sleep(0.01)
"""


def test_copies_into_pinned_memory_are_seen(follow):
    t = follow(PIN).trace()
    assert sorted(s.batch for s in t.of("pin")) == list(range(8))
    assert min(t.lengths("pin")) >= 0.06    # two tensors
    assert statistics.median(t.lengths("pin")) < 0.075
    assert {s.thread for s in t.of("pin")} == {"main", "pin"}


def test_torchvision_and_its_reads_are_seen(follow, tmp_path):
    pytest.importorskip("torchvision", reason="torchvision is not installed")
    from PIL import Image
    for i in range(8):
        folder = tmp_path / "set" / "ab"[i % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (64, 48), (i, i, i)).save(folder / f"{i}.png")
    r = follow("""
        from torchvision import transforms as T
        from torchvision.datasets import ImageFolder
        data = ImageFolder(sys.argv[1], T.Compose([
            T.Resize(40), T.Grayscale(),
            T.RandomApply([T.CenterCrop(32)], p=1.0),
            T.ToTensor(), T.Normalize([0.5], [0.5])]))
        before = [repr(data), data.loader, list(data.transform.transforms)]
        for workers in (0, 2):
            for x, y in DataLoader(data, 4, num_workers=workers):
                pass
        print(before == [repr(data), data.loader, data.transform.transforms])
        """, tmp_path / "set")
    assert r.out == "True\n"
    t = r.trace()
    assert {s.step for s in t.of("step")} == {
        "read", "Resize", "Grayscale", "RandomApply", "ToTensor", "Normalize"}
    assert len(t.of("step")) == 16 * 6
    for step, size in (("read", 64 * 48 * 3), ("RandomApply", 32 * 32),
                       ("ToTensor", 32 * 32 * 4)):
        assert {s.size for s in t.of("step", step=step)} == {size}


# ---- the program is the program ----

def test_output_and_exit_code_are_the_programs_own(follow):
    r = follow("""
        print("out"); print("err", file=sys.stderr)
        print(os.environ.get("PYTHONPATH", "").count("inject"),
              any("inject" in p for p in sys.path))
        for x, i in DataLoader(Set(2)):
            pass
        sys.exit(7)
        """, code=7)
    assert r.out == "out\n1 False\n"
    err, ours, _ = r.err.split("\n")       # one line of ours, at the end
    assert err == "err" and ours.startswith("millrace: ")
    assert f"`millrace trace {r.path}` says what is in it" in ours
    assert len(r.trace().of("next")) == 2 and r.trace().meta["exit"] == 7


def test_an_error_in_a_worker_is_marked(follow):
    r = follow("""
        class Bad(Set):
            def __getitem__(self, i):
                if i == 5:
                    raise ValueError("five")
                return i
        for x in DataLoader(Bad(8), batch_size=2, num_workers=1):
            pass
        """, code=1)
    assert "ValueError: five" in r.err and r.err.count("millrace: ") == 1
    t = r.trace()
    assert [(s.batch, s.sample) for s in t.of("sample", failed=True)] == [
        (2, 5)]
    assert [s.batch for s in t.of("batch", failed=True)] == [2]
    assert [s.batch for s in t.of("next", failed=True)] == [2]
    assert [s.batch for s in t.of("next", failed=False)] == [0, 1]


SLOW = """
loader = DataLoader(Set(100000, 0.01), batch_size=2, num_workers=2)
for n, x in enumerate(loader):
    if n == 5:
        import multiprocessing
        print(os.getpid(), *[p.pid for p in
                             multiprocessing.active_children()], flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_killed_program_leaves_what_it_did(follow, number):
    """SIGTERM goes to the command, which hands it on."""
    p = follow.start(SLOW)
    pid = int(p.stdout.readline().split()[0])
    time.sleep(0.3)
    os.kill(p.pid if number == signal.SIGTERM else pid, number)
    r = follow.finish(p)
    assert r.code == -number
    t = r.trace()
    assert t.done is None and t.meta["signal"] == number
    assert [s.batch for s in t.of("next")][:6] == list(range(6))
    assert len(t.of("next")) > 8


def test_ctrl_c_ends_the_program_as_ever(follow):
    # which ignores it if it was begun in the background, as these tests may be
    p = follow.start("""
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
""" + SLOW)
    p.stdout.readline()
    os.killpg(p.pid, signal.SIGINT)         # as a terminal does
    r = follow.finish(p)
    assert r.code in (-signal.SIGINT, 1) and "KeyboardInterrupt" in r.err
    assert r.err.count("millrace: ") == 1   # where the trace is
    assert len(r.trace().of("next")) > 5


def test_a_killed_worker_leaves_what_it_did(follow):
    p = follow.start(SLOW)
    os.kill(int(p.stdout.readline().split()[1]), signal.SIGKILL)
    r = follow.finish(p)
    assert r.code == 1 and "killed by signal: Killed" in r.err
    t = r.trace()
    assert t.done is None and len(t.of("batch")) > 5
    # torch raises from a signal's handler: most likely, but not always there
    assert len(t.of("next", failed=True)) <= 1


def test_workers_that_exit_by_themselves_leave_what_they_did(follow):
    t = follow("""
        class Leaves(Set):
            def __getitem__(self, i):
                if i == 7:
                    os._exit(3)
                return i
        try:
            try:
                for x in DataLoader(Leaves(20), num_workers=1):
                    pass
            finally:
                # torch's handler of SIGCHLD raises, too, when it comes to it
                time.sleep(0.5)
        except (RuntimeError, OSError, EOFError):
            print("left")
        """)
    assert t.out == "left\n"
    assert [s.batch for s in t.trace().of("batch")] == list(range(7))


FULL = """
import resource
if len(sys.argv) > 1:
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), -1))
for x, i in DataLoader(Set(400), batch_size=2, num_workers=2):
    pass
print("all of it")
"""


def test_a_full_disk_stops_the_trace_not_the_program(follow):
    r = follow(FULL, 6000)
    assert r.out == "all of it\n"
    assert r.err.count("tracing stops, the program goes on") == 1, r.err
    t = r.trace()
    assert t.whole and not t.done and 50 < len(t.of("next")) < 200
    assert 20 < len(t.of("batch")) < 200


def test_a_trace_that_cannot_be_written_does_not_change_the_exit(follow):
    p = follow.start(FULL, preexec_fn=lambda: resource.setrlimit(
        resource.RLIMIT_FSIZE, (30000, resource.RLIM_INFINITY)))
    out, err = p.communicate(timeout=PATIENCE)
    assert (p.returncode, out) == (0, "all of it\n")
    assert "what was recorded stays in" in err and "File too large" in err
    parts = follow.folder / "t.mrt.parts"
    assert sum(p.stem.isdigit() for p in parts.glob("*.mrt")) == 3
    assert not (follow.folder / "t.mrt").exists()
    # and is not written over
    p = follow.start("")
    out, err = p.communicate(timeout=PATIENCE)
    assert p.returncode == 1 and "is there already" in err


def test_other_processes_of_the_program_are_kept_apart(follow):
    """Two trainers of its own, and a fork that ends at once."""
    r = follow("""
        import multiprocessing
        def train(n):
            for x, i in DataLoader(Set(6), batch_size=2, num_workers=n):
                pass
        if os.fork() == 0:
            os._exit(0)
        os.wait()
        both = [multiprocessing.Process(target=train, args=(n,))
                for n in (0, 1)]
        for p in both:
            p.start()
        for p in both:
            p.join()
        """)
    t = r.trace()
    assert sorted(s.batch for s in t.of("next")) == list(range(6))
    assert sorted(s.batch for s in t.of("batch")) == list(range(6))
    for s in t.of("next"):      # each with its own worker's batch
        b, = t.of("batch", batch=s.batch)
        assert b.end <= s.end
    assert t.done


def test_workers_are_those_of_an_epoch(follow):
    """Each epoch starts its own two."""
    r = follow("""
        for epoch in range(3):
            for x, i in DataLoader(Set(20, 0.005), 2, num_workers=2):
                pass
        """)
    told = summary(r.path)
    assert (told["workers"], told["worker_threads"]) == (2, 6)
    text = subprocess.run([str(BIN), "trace", str(r.path)], check=True,
                          capture_output=True, text=True).stdout
    assert "budget: 2 workers at a time, 6 in all" in text
    assert "waiting for a task" in text and "for bytes" not in text
    if told["hardware"].get("functions"):   # importing torch is one line
        places = [f["place"] for f in told["hardware"]["functions"]]
        assert places.count("before the first batch") == 1


@pytest.mark.parametrize("workers", [0, 2])
def test_slow_samples_are_called_by_their_paths(follow, workers):
    """By each data set's own list; one without has none, though its samples
    have the same numbers."""
    r = follow("""
        class Listed(Set):
            def __init__(self, n, name):
                super().__init__(n)
                self.samples = [(f"{name}/{i}.jpg", i % 2) for i in range(n)]
            def __getitem__(self, i):
                time.sleep({7: 0.1, 27: 0.05}.get(i, 0.001))
                return i
        class Slow(Set):
            def __getitem__(self, i):
                time.sleep(0.08 if i == 7 else 0.001)
                return i
        half = torch.utils.data.Subset(Listed(40, "b"), range(20, 40))
        workers = int(sys.argv[1])
        for data in Listed(30, "a"), Slow(30), half:
            for batch in DataLoader(data, 4, num_workers=workers):
                pass
        """, workers)
    slow = summary(r.path)["slowest"]
    seven = {s.get("key"): s["ms"] for s in slow if s["sample"] == 7}
    assert set(seven) == {"a/7.jpg", "b/27.jpg", None}
    assert seven["a/7.jpg"] >= 100 and 80 <= seven[None]
    assert seven["b/27.jpg"] >= 50
    keys = {}
    for s in slow:
        keys.setdefault(s["sample"], set()).add(s.get("key"))
    for i, names in keys.items():
        assert names <= {None, f"a/{i}.jpg", f"b/{i + 20}.jpg"}
    # what the trace becomes has the same names
    for to in "t.json", "t.html":
        subprocess.run([str(BIN), "trace", str(r.path), "-o",
                        str(follow.folder / to)], check=True)
    named = {(s["sample"], round(s["ms"] * 1e6)): s["key"]
             for s in slow if "key" in s}
    events, _ = read_chrome(follow.folder / "t.json")
    found = {(e["args"]["sample"], e["dur"]): e["args"]["key"]
             for e in events if "key" in e.get("args", {})}
    assert len(named) > 2 and named.items() <= found.items()
    assert "a/7.jpg" in (follow.folder / "t.html").read_text()


def test_what_a_killed_command_leaves_can_be_read(follow):
    """`millrace trace` itself is killed; the program goes on to its end."""
    folder, parts = follow.folder, follow.folder / "t.mrt.parts"
    p = follow.start("""
        for x, i in DataLoader(Set(12), 2, num_workers=1):
            pass
        open(sys.argv[1], "w").close()
        time.sleep(0.5)
        """, folder / "ready")
    try:
        deadline = time.monotonic() + PATIENCE
        while not (folder / "ready").exists():
            assert time.monotonic() < deadline and p.poll() is None
            time.sleep(0.05)
        p.kill()
        p.wait()
    finally:
        os.killpg(p.pid, signal.SIGKILL)
        p.communicate()
    again = follow.start("")
    _, err = again.communicate(timeout=PATIENCE)
    assert again.returncode == 1
    assert f"`millrace trace {parts}` makes a trace of what is in it" in err
    told = summary(parts)       # t.mrt comes of it
    assert told["batches"] == told["wait"]["count"] == 6
    t = Trace(folder / "t.mrt")
    assert sorted(s.batch for s in t.of("batch")) == list(range(6))
    assert [s.batch for s in t.of("next")] == list(range(6))
    assert parts.exists()


# ---- ranks ----

RANKS = """
import subprocess
if len(sys.argv) > 1:
    ranks = [subprocess.Popen([sys.executable, sys.argv[0]], env=dict(
        os.environ, RANK=str(r), WORLD_SIZE="2")) for r in range(2)]
    sys.exit(max(p.wait() for p in ranks))
for x, i in DataLoader(Set(3 + int(os.environ["RANK"])), num_workers=1):
    pass
"""


def test_ranks_have_traces_of_their_own(follow):
    """Both ways: the command is started per rank, or starts the ranks."""
    r = follow(RANKS, "launch")
    assert not r.path.exists()
    assert "t.rank0.mrt to " in r.err and "t.rank1.mrt, of 2 ranks" in r.err
    for rank in (0, 1):
        t = r.trace(follow.folder / f"t.rank{rank}.mrt")
        assert (t.rank, t.ranks) == (rank, 2)
        assert len(t.of("next")) == 3 + rank and t.done
    follow(RANKS, env={"RANK": "4", "WORLD_SIZE": "8"})
    t = r.trace(follow.folder / "t.rank4.mrt")
    assert (t.rank, t.ranks) == (4, 8) and len(t.of("next")) == 7
    assert "sampling" in t.meta     # what is sampled is all of this rank


def test_each_rank_is_told_and_becomes_what_the_name_says(follow):
    """A trace that was there before is none of them."""
    old = follow.folder / "t.mrt"
    old.write_text("old")
    r = follow(RANKS, "launch", options=["--summary"])
    assert r.err.index("\nrank 0\n") < r.err.index("\nrank 1\n")
    assert r.err.count("3 samples in") == r.err.count("4 samples in") == 1
    for rank in (0, 1):
        (follow.folder / f"t.rank{rank}.mrt").unlink()
    r = follow(RANKS, "launch", options=["--json"], out="t.json")
    told = [json.loads(x) for x in r.err.splitlines() if x[0] == "{"]
    assert [(t["rank"], t["samples"]) for t in told] == [(0, 3), (1, 4)]
    for rank in (0, 1):
        _, other = read_chrome(follow.folder / f"t.rank{rank}.json")
        assert (other["rank"], other["ranks"]) == (rank, 2)
    assert old.read_text() == "old"
    assert sorted(os.listdir(follow.folder)) == [
        "t.mrt", "t.rank0.json", "t.rank1.json", "train.py"]


def test_parts_of_ranks_become_what_the_name_says(tmp_path):
    parts = tmp_path / "t.mrt.parts"
    parts.mkdir()
    (tmp_path / "t.mrt").write_text("old")
    for rank in (0, 1):
        (parts / f"{rank}.mrt").write_bytes(trace(
            thread(1, "main", "consumer", 7 + rank, 7),
            chunk(b"SPAN", span(NEXT, 2000, 5, batch=0), 1), done(),
            rank=rank, ranks=2))
    r = subprocess.run([str(BIN), "trace", str(parts), "-o",
                        str(tmp_path / "t.csv")], check=True,
                       capture_output=True, text=True, timeout=PATIENCE)
    assert r.stdout.startswith("rank 0\n") and "\nrank 1\n" in r.stdout
    assert (tmp_path / "t.mrt").read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == [
        "t.mrt", "t.mrt.parts", "t.rank0.csv", "t.rank1.csv"]


# ---- nothing to see ----

def test_no_loader_is_said(follow, tmp_path):
    r = follow("", command=["sh", "-c", "exit 5"], code=5)
    assert "no DataLoader was seen: sh started no Python" in r.err
    r = follow("print(1)")
    assert r.out == "1\n" and "no DataLoader was seen: the Python" in r.err
    assert not r.path.exists()
    r = follow("", command=[str(tmp_path / "none")], code=127)
    assert "cannot be run: No such file" in r.err


@pytest.mark.parametrize("out", ["t.mrt", "t.html"])
def test_what_was_there_stays_where_nothing_was_seen(follow, out):
    (follow.folder / out).write_text("old")
    r = follow("", command=["true"], out=out)
    assert "no DataLoader was seen" in r.err
    assert (follow.folder / out).read_text() == "old"
    assert sorted(os.listdir(follow.folder)) == sorted([out, "train.py"])


def test_another_sitecustomize_is_still_run(follow, tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(
        "import sys\nsys.customized = __file__\n")
    r = follow("", command=[sys.executable, "-c", "import sys, sitecustomize;"
                            "print(sys.customized == sitecustomize.__file__,"
                            "'torch' in sys.modules, 'zlib' in sys.modules)"],
               env={"PYTHONPATH": str(tmp_path / "site")})
    assert r.out == "True False False\n"


# ---- a part of a program ----

def test_a_part_of_a_program_is_recorded_and_hooks_are_removed(tmp_path):
    script = tmp_path / "part.py"
    script.write_text(START + textwrap.dedent("""
        import millrace.trace
        def seen():
            d = torch.utils.data.dataloader
            return [d.DataLoader.__iter__, d._BaseDataLoaderIter.__next__,
                    d._utils.worker._worker_loop, d._utils.fetch.
                    _MapDatasetFetcher.fetch, dict(os.environ),
                    list(sys.meta_path), list(sys.path)]
        if __name__ == "__main__":
            before = seen()
            kept = DataLoader(Set(6), 2, num_workers=1,
                              persistent_workers=True)
            for x in kept: pass
            with millrace.trace.record(sys.argv[1]):
                for x in kept: pass
                for how in "fork", "spawn":
                    for x in DataLoader(Set(6), 2, num_workers=1,
                                        multiprocessing_context=how): pass
                try:
                    raise KeyError
                except KeyError:
                    pass
            assert seen() == before
            assert [i.tolist() for x, i in kept] == [[0, 1], [2, 3], [4, 5]]
        """))
    r = subprocess.run([sys.executable, str(script), str(tmp_path / "p.mrt")],
                       env=dict(os.environ, PYTHONPATH=str(MODULE)),
                       capture_output=True, text=True, timeout=PATIENCE)
    assert r.returncode == 0 and r.stderr == "", r.stderr
    t = Trace(tmp_path / "p.mrt")
    assert [s.batch for s in t.of("next")] == list(range(9))
    # workers that ran before are not followed
    assert sorted(s.batch for s in t.of("batch")) == list(range(3, 9))
    assert not (tmp_path / "p.mrt.parts").exists() and t.done


STAYS = """
import millrace.trace
from multiprocessing.queues import Queue

class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(10))

def hooked(it):
    return sum(not isinstance(q, Queue) for q in it._index_queues) + (
        "_get_data" in vars(it)) + ("_millrace" in vars(it))

def files(it):
    pids = [w.pid for w in it._workers]
    return sum(os.readlink(f"/proc/{pid}/fd/{fd}").endswith(".mrt (deleted)")
               for pid in pids for fd in os.listdir(f"/proc/{pid}/fd"))

def all_of(it):
    return [x.tolist() for x in it]

class Numbers(Set):
    def __getitem__(self, i):
        return i

done, half, stream = (DataLoader(
    data, 2, num_workers=2, persistent_workers=True)
    for data in (Numbers(40), Numbers(40), Stream()))
alone = iter(DataLoader(Numbers(6), 2))
want = all_of(DataLoader(Numbers(40), 2))
for name in sys.argv[1:]:
    with millrace.trace.record(name):
        assert all_of(done) == want and len(all_of(stream)) == 10
        it = iter(half)
        first = [next(it).tolist() for _ in range(3)]
        if name.endswith("q.mrt"):
            first_alone = next(alone).tolist()
    assert not hooked(done._iterator) and hooked(it) == 3
    for loader in done, stream:     # an epoch amid the other's
        assert len(all_of(loader)) in (10, 20)
        assert not hooked(loader._iterator)
    assert first + all_of(it) == want and not hooked(it)
assert [first_alone, *all_of(alone)] == [[0, 1], [2, 3], [4, 5]]
assert type(alone._dataset_fetcher.dataset) is Numbers
until = time.monotonic() + 30
while any(files(x._iterator) for x in (done, half, stream)):
    assert time.monotonic() < until
    for loader in done, half, stream:
        all_of(loader)
"""


def test_workers_that_stay_are_left_alone_after_the_block(tmp_path):
    """Also an epoch that began in the block goes on after it, and another
    block of the same name finds the same workers."""
    script = tmp_path / "stays.py"
    script.write_text(START + STAYS)
    names = [str(tmp_path / name) for name in ("p.mrt", "q.mrt", "p.mrt")]
    r = subprocess.run([sys.executable, str(script), *names],
                       env=dict(os.environ, PYTHONPATH=str(MODULE)),
                       capture_output=True, text=True, timeout=PATIENCE)
    assert r.returncode == 0 and r.stderr == "", r.stderr
    for name in names[1:]:
        t = Trace(name)
        assert t.done and len(t.of("next")) == 20 + 10 + 3
        assert len({s.batch for s in t.of("next")}) == 33


@pytest.mark.parametrize("name, kind, says", [
    ("p.html", "ValueError", "what is recorded is an .mrt file"),
    ("no/p.mrt", "FileNotFoundError", "the trace cannot be written"),
    ("left.mrt", "FileExistsError", "makes a trace of what is in it")])
def test_where_a_part_cannot_be_recorded_is_said(tmp_path, name, kind, says):
    (tmp_path / "left.mrt.parts").mkdir()
    r = subprocess.run([sys.executable, "-c", textwrap.dedent("""
        import sys
        import millrace.trace
        with millrace.trace.record(sys.argv[1]):
            print("inside")
        """), str(tmp_path / name)],
        env=dict(os.environ, PYTHONPATH=str(MODULE)),
        capture_output=True, text=True, timeout=PATIENCE)
    last = r.stderr.splitlines()[-1]
    assert r.returncode == 1 and r.stdout == ""
    assert last.startswith(kind) and says in last, r.stderr
    assert str(tmp_path / name) in last
    assert os.listdir(tmp_path) == ["left.mrt.parts"]
