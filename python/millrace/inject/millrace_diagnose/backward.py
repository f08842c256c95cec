# SPDX-License-Identifier: Apache-2.0
"""Does the loop train, and how long is it in backward()? There ranks wait for
one another, so that in step all of them seem to be as slow as the slowest:
what they take outside of it is their own."""
import functools
import sys
import time

now = time.perf_counter


def synchronise():
    """What was given to a GPU is done."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda and cuda.is_initialized():
        cuda.synchronize()


class Backward:
    def __init__(self):
        self.called = self.timed = self.inside = False
        self.seconds = 0.0

    def watch(self):
        """Until it is called, or as long as it is timed."""
        autograd = sys.modules.get("torch.autograd")
        if autograd is None:
            return
        backward = autograd.backward

        @functools.wraps(backward)
        def watched(*args, **kw):
            self.called = True
            if not self.timed and autograd.backward is watched:
                autograd.backward = backward
            if not self.timed or self.inside:   # a checkpoint's, in another
                return backward(*args, **kw)
            synchronise()
            begun, self.inside = now(), True
            try:
                return backward(*args, **kw)
            finally:
                synchronise()
                self.inside = False
                self.seconds += now() - begun

        autograd.backward = watched


def straggler(own, step):
    """What is to be said of the ranks' own seconds of a step, or None."""
    if None in own or max(own) - min(own) < 0.1 * step:
        return None
    return (f"rank {own.index(max(own))} is the straggler by its computing: "
            f"outside of backward() a step takes it {1e3 * max(own):.3g} ms, "
            f"the quickest rank {1e3 * min(own):.3g} ms; the others wait for "
            f"it in backward()")
