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
    t = r.trace()
    many = 4 + (what == "signal")
    assert len(t.of("next")) == len(t.of("consume")) == many
    assert t.done and t.done[0] == len(t.spans)
