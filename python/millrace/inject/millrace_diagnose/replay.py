# SPDX-License-Identifier: Apache-2.0
"""One batch, given again and again as if it were new: what the loop did to
the one before must not be seen in the next."""
import copy


class Replay:
    def __init__(self, batch):
        self.tensors = []       # [given out, version, untouched copy]
        self.shape = self.keep(batch)

    def keep(self, x):
        """What to build the batch from; tensors become their number."""
        if _is_tensor(x):
            self.tensors.append([x, x._version, x.detach().clone()])
            return _Place(len(self.tensors) - 1)
        if type(x) is dict:
            return {k: self.keep(v) for k, v in x.items()}
        if type(x) in (list, tuple):
            return type(x)(self.keep(v) for v in x)
        if isinstance(x, tuple) and hasattr(x, "_fields"):
            return type(x)(*(self.keep(v) for v in x))
        return x

    def batch(self):
        return self.build(self.shape)

    def build(self, x):
        kind = type(x)
        if kind is _Place:
            return self.tensor(x.number)
        if kind is dict:
            return {k: self.build(v) for k, v in x.items()}
        if kind in (list, tuple):
            return kind(self.build(v) for v in x)
        if isinstance(x, tuple) and hasattr(x, "_fields"):
            return kind(*(self.build(v) for v in x))
        if kind in (int, float, str, bytes, bool, type(None)):
            return x
        try:    # an object of the script's own
            return copy.copy(x)
        except Exception:
            return x

    def tensor(self, number):
        """The same as before, unless it was written to or asked for its
        gradient: then a copy."""
        own = self.tensors[number]
        x, version, clean = own
        if x._version != version or x.requires_grad != clean.requires_grad:
            x = clean.clone()
            own[0], own[1] = x, x._version
        return x


class _Place:
    def __init__(self, number):
        self.number = number


def _is_tensor(x):
    return hasattr(x, "_version") and hasattr(x, "detach") \
        and hasattr(x, "element_size")
