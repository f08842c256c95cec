# SPDX-License-Identifier: Apache-2.0
"""Batches of a part of a DataLoader's data set, made as that loader makes
them: by a copy of it that differs in the sampler alone."""
import copy
import itertools
import random
import sys

# An epoch is not drawn further than this to find the subset.
MOST = 20000


class Indices:
    """In the place of a sampler: a list, once or again and again."""

    def __init__(self, items, again):
        self.items, self.again = items, again

    def __iter__(self):
        return itertools.cycle(self.items) if self.again \
            else iter(self.items)

    def __len__(self):
        return len(self.items)


class Source:
    def __init__(self, loader, make):
        self.loader, self.make = loader, make
        self.indexed = not _streams(loader)
        self.copy = copy.copy(loader)
        vars(self.copy).update(_iterator=None,
                               _IterableDataset_len_called=None)
        self.workers = loader.num_workers
        if self.workers and not _forks(loader):
            # Starting them takes seconds: once is enough.
            vars(self.copy)["persistent_workers"] = True
        ahead = getattr(loader, "prefetch_factor", None) or 2
        # batches that may lie ready when a phase begins to be measured
        self.stock = self.workers * ahead
        self.batches, self.drawn, self.rest = [], [], None
        self.current = None

    # ---- which samples ----

    def draw(self, n):
        """At least n of the epoch's first batches of indices, as the loop
        would get them, or all. Incomplete ones are left out if there are
        others."""
        if not self.indexed:
            return
        if self.rest is None:
            self.rest = iter(self.loader._index_sampler)
        more = min(n, MOST) - len(self.drawn)
        self.drawn += itertools.islice(self.rest, max(0, more))
        fixed = getattr(self.loader, "batch_size", None)
        self.batches = [b for b in self.drawn if not fixed
                        or _length(b) == _length(self.drawn[0])]

    def samples_of(self, turn):
        """How many samples the batch has that is the turn-th of a pass."""
        if self.indexed:
            return _length(self.batches[turn % len(self.batches)])
        return getattr(self.loader, "batch_size", None) or 1

    # ---- batches ----

    def part(self, n):
        """The first n batches' indices; None of a stream, which has none."""
        return self.batches[:n] if self.indexed else None

    def stream(self, items, again=False):
        """A new iterator over those batches, once or again and again;
        without `items`, over a stream from its start."""
        self.close()
        own = vars(self.copy)
        which = "batch_sampler" if self.loader._auto_collation else "sampler"
        own[which] = vars(self.loader)[which] if items is None \
            else Indices(items, again)
        if own.get("_iterator") is not None:    # it has persistent workers
            own["_iterator"]._index_sampler = own[which]
        self.current = self.make(self.copy)
        return self.current

    def close(self, finally_=False):
        """Workers that the script would end after an epoch end."""
        old, self.current = self.current, None
        if finally_ or not getattr(self.copy, "persistent_workers", False):
            stop(vars(self.copy).get("_iterator") if old is None else old)
            vars(self.copy)["_iterator"] = None

    def whole(self):
        """The script's own iterator over its epoch, from the start. Samplers
        of torch begin anew, with the random numbers that they would have
        had; of others, what was drawn is not lost."""
        loader = self.loader
        if not self.indexed or self.rest is None or _is_torchs(
                loader._index_sampler):
            return self.make(loader)
        which = "batch_sampler" if loader._auto_collation else "sampler"
        old = vars(loader)[which]
        vars(loader)[which] = _Once(itertools.chain(self.drawn, self.rest),
                                    old)
        try:
            it = self.make(loader)
        finally:
            vars(loader)[which] = old
        it._index_sampler = old
        return it


class _Once:
    """What is left of a pass that was begun."""

    def __init__(self, rest, sampler):
        self.rest, self.sampler = rest, sampler

    def __iter__(self):
        return self.rest

    def __len__(self):
        return len(self.sampler)


def _is_torchs(sampler):
    while type(sampler).__module__.startswith("torch."):
        sampler = getattr(sampler, "sampler", None)
        if sampler is None:
            return True
    return False


def _streams(loader):
    kind = getattr(loader, "_dataset_kind", 0)
    kinds = getattr(sys.modules["torch.utils.data.dataloader"],
                    "_DatasetKind", None)
    return kind == getattr(kinds, "Iterable", 1)


def _forks(loader):
    context = getattr(loader, "multiprocessing_context", None) \
        or sys.modules["multiprocessing"]
    return context.get_start_method() == "fork"


def _length(batch):
    return len(batch) if isinstance(batch, (list, tuple)) else 1


def stop(iterator):
    """Its workers, at once."""
    end = getattr(iterator, "_shutdown_workers", None)
    if end:
        try:
            end()
        except Exception:
            pass    # they are gone already


# ---- random numbers ----

class Dice:
    """The states of random number generators, to go back to them."""

    def __init__(self, loader):
        torch = sys.modules["torch"]
        self.own = [g for g in {id(g): g for g in (
            getattr(loader, "generator", None),
            getattr(getattr(loader, "sampler", None), "generator", None),
        ) if g is not None}.values()]
        self.states = [g.get_state() for g in self.own]
        self.torch = torch.get_rng_state()
        self.python = random.getstate()
        numpy = sys.modules.get("numpy")
        self.numpy = numpy.random.get_state() if numpy else None
        cuda = getattr(torch, "cuda", None)
        self.cuda = cuda.get_rng_state_all() \
            if cuda and cuda.is_initialized() else None

    def restore(self):
        torch = sys.modules["torch"]
        for g, state in zip(self.own, self.states):
            g.set_state(state)
        torch.set_rng_state(self.torch)
        random.setstate(self.python)
        if self.numpy is not None:
            sys.modules["numpy"].random.set_state(self.numpy)
        if self.cuda is not None:
            torch.cuda.set_rng_state_all(self.cuda)
