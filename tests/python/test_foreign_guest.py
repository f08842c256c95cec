# SPDX-License-Identifier: Apache-2.0
"""The hooks are guests in a PyTorch program: it neither hangs nor fails nor
grows because of them, whatever it does."""
import pytest
from following import follow, needs_torch  # noqa: F401

pytestmark = needs_torch

HELD = """
import gc, signal
gc.disable()
torch.cuda.is_available = lambda: True
torch.cuda.current_device = lambda: 0
torch.cuda.set_device = lambda i: None
def pin(self, device=None):
    time.sleep(0.3)
    return self
torch.Tensor.pin_memory = pin

class Knot:
    def __init__(self, loader):
        self.me, self.it = self, iter(loader)
        next(self.it)

def collect():
    gc.collect()

other = iter(DataLoader(Set(4)))
signal.signal(signal.SIGUSR1, lambda *_: next(other))
def signalled():
    signal.raise_signal(signal.SIGUSR1)

loader = DataLoader(Set(4), 1, num_workers=int(sys.argv[1] == "pin"),
                    pin_memory=sys.argv[1] == "pin")
Knot(loader)        # which only the garbage collector takes away
meanwhile = [signalled if sys.argv[1] == "signal" else collect]
write = os.write
def slow(fd, data):     # as the hooks write what they have recorded
    while meanwhile:
        meanwhile.pop()()
    return write(fd, data)
os.write = slow
for x, i in DataLoader(Set(3)):
    pass
print("done", len(meanwhile))
"""


@pytest.mark.parametrize("what", ["collected", "pin", "signal"])
def test_what_comes_while_spans_are_written_does_not_hang(follow, what):
    """An iterator that is left to the garbage collector, with a thread that
    pins or none; and a signal's handler that uses a loader."""
    r = follow.finish(follow.start(HELD, what), patience=40)
    assert r.code == 0 and r.out == "done 0\n", r.err
    assert r.err.count("\n") == 1, r.err        # where the trace is
    t = r.trace()
    many = 4 + (what == "signal")
    assert len(t.of("next")) == len(t.of("consume")) == many
    if what != "pin":   # torch ends a worker so left with a signal, after 5 s
        assert t.done and t.done[0] == len(t.spans)


ODD = """
from numpy import int64

class Mapping(dict, Dataset):       # what it holds is in its __dict__, too
    def __init__(self, n):
        super().__init__(enumerate(range(n)))
        self.__dict__ = self
    def __len__(self):
        return 6
    def __getitem__(self, i):
        return i

class Transformed(Set):
    def __init__(self, n):
        super().__init__(n)
        self.transform = Shy()
    def __getitem__(self, i):
        return self.transform(i)

class Shy:
    def __getattr__(self, name):
        raise KeyError(name)
    def __call__(self, x):
        return x + 1

class Parts(list):
    def __getitem__(self, i):
        raise RuntimeError("not by number")

class Joined(Set):
    def __init__(self, n):
        super().__init__(n)
        self.datasets = Parts([1, 2])

data, number = eval(sys.argv[1])
for workers in 0, 2:
    loader = DataLoader(data(6), 2, num_workers=number(workers))
    print([len(x) for x in loader])
"""


@pytest.mark.parametrize("what, steps", [
    ("Mapping, int", set()), ("Transformed, int", {"Shy"}),
    ("Set, int64", set()), ("Joined, int", set())])
def test_odd_objects_do_not_fail_where_they_would_not(follow, what, steps):
    """Keys that are no texts, attributes that raise, numbers that are not
    Python's own; what cannot be followed is said once."""
    pytest.importorskip("numpy")
    r = follow(ODD, what)
    assert len(set(r.out.splitlines())) == 1
    lines = [x for x in r.err.splitlines() if x.startswith("millrace: ")]
    if what.startswith("Joined"):
        said = lines.pop(0)
        assert said.startswith("millrace: the trace is without some steps")
        assert "RuntimeError('not by number')" in said
    assert len(lines) == 1      # where the trace is
    t = r.trace()
    assert t.meta["batch"] == 2 and t.meta["threads"] == 0
    assert {s.step for s in t.of("step")} == steps
    assert len(t.of("step")) == 12 * len(steps)
    assert len(t.of("sample")) == 12


ATTRIBUTE = """
class Data(Set):
    def __init__(self, transform=None):
        super().__init__(4)
        if transform:
            self.transform = transform
    def __getattr__(self, name):
        if name != "transform":
            raise AttributeError(name)
        return "asked for " + name
    def __getitem__(self, i):
        return self.transform(i) if callable(self.transform) else i

class Better(Set):
    def __init__(self, transform=None):
        super().__init__(4)
        if transform:
            self.transform = transform
    def transform(self, i):
        return i + self.n
    def __getitem__(self, i):
        return self.transform(i)

for kind in Data, Better:
    for data in kind(lambda i: i * 2), kind():
        print([x.item() for x in DataLoader(data)], hasattr(kind, "transform"),
              isinstance(data.transform, str) and data.transform)
"""


def test_a_function_that_one_object_holds_is_not_seen_in_others(follow):
    r = follow(ATTRIBUTE)
    assert r.out.splitlines() == [
        "[0, 2, 4, 6] False False", "[0, 1, 2, 3] False asked for transform",
        "[0, 2, 4, 6] True False", "[4, 5, 6, 7] True False"]
    assert len(r.trace().of("step")) == 8


SHARDS = """
import gc, weakref

class Chain:
    def __init__(self, transforms):
        self.transforms = transforms
    def __call__(self, x):
        for t in self.transforms:
            x = t(x)
        return x

class Compose(Chain):
    pass

class Once:
    def __call__(self, x):
        return x + 1

class Slots:
    __slots__ = "n",
    def __call__(self, x):
        return x + 1
    def __del__(self):
        gone.append(1)

class Data(Set):
    def __init__(self, kind):
        super().__init__(2)
        self.transform = {
            "objects": lambda: Compose([Once(), Compose([Once()])]),
            "slots": lambda: Compose([Slots(), Slots()]),
            "list": lambda: [self.plain, self.other],
            "chain": lambda: Compose([self.plain, self.other]),
            "function": lambda: self.plain,
            "lambda": lambda: lambda x: self.plain(x)}[kind]()
    def plain(self, x):
        return x + 1
    def other(self, x):
        return x + 1
    def __getitem__(self, i):
        if isinstance(self.transform, list):
            return self.transform[1](self.transform[0](i))
        return self.transform(i)

gone = []
for workers in 0, 1:
    for kind in "objects", "slots", "list", "chain", "function", "lambda":
        made = []
        for shard in range(4):
            data = Data(kind)
            made.append(weakref.ref(data))
            for x in DataLoader(data, num_workers=workers):
                pass
        del data
        gc.collect()
        print(kind, sum(m() is not None for m in made))
print(len(gone))
"""


def test_data_sets_that_are_used_no_more_are_let_go(follow):
    """A new one for each shard, with transforms that hold it or do not."""
    r = follow(SHARDS)
    assert r.out.splitlines() == [f"{kind} 0" for kind in (
        "objects", "slots", "list", "chain", "function", "lambda")] * 2 + [
            "16"]
    steps = [s.step for s in r.trace().of("step")]
    # those with slots do not say when they are gone: they have one name
    assert {s: steps.count(s) for s in steps} == {
        "Once": 32, "Slots": 32, "plain": 48, "other": 32, "lambda": 16}
