# SPDX-License-Identifier: Apache-2.0
"""Loaders that take only the base of their iterators from torch, as
torchdata's StatefulDataLoader. A stand-in for it is enough: it sends what
that one sends, and looks at its fetcher as closely."""
import pytest
from following import follow, needs_torch  # noqa: F401

pytestmark = needs_torch

WORKER = """
import queue
from torch.utils.data import _DatasetKind
from torch.utils.data._utils.worker import (_IterableDatasetStopIteration,
                                            _ResumeIteration)

def stateful(x):
    return all(hasattr(type(x), n) for n in ("state_dict", "load_state_dict"))

def state_of(fetcher, dataset):
    of = getattr(fetcher, "dataset_iter", fetcher.dataset)
    return (of.state_dict() if stateful(of) else None,
            fetcher.dataset is dataset)

def _worker_loop(dataset_kind, dataset, index_queue, data_queue, done_event,
                 auto_collation, collate_fn, drop_last, base_seed, init_fn,
                 worker_id, num_workers, persistent_workers, shared_seed,
                 worker_state):
    make = lambda: _DatasetKind.create_fetcher(
        dataset_kind, dataset, auto_collation, collate_fn, drop_last)
    fetcher = make()
    while True:
        try:
            r = index_queue.get(timeout=5)
        except queue.Empty:
            continue
        if r is None:
            return
        if isinstance(r, (_ResumeIteration, str)):
            fetcher = make()
            data_queue.put((r, "ack"))
            continue
        i, (index, snapshot) = r
        try:
            data = fetcher.fetch(index)
        except StopIteration:
            data = _IterableDatasetStopIteration(worker_id)
        data_queue.put((i, (data, worker_id, state_of(fetcher, dataset))))
"""

LOADER = """
import torch.multiprocessing
from torch.utils.data import DataLoader, _DatasetKind, _utils
from torch.utils.data.dataloader import _BaseDataLoaderIter
from .worker import _worker_loop, state_of

class StatefulDataLoader(DataLoader):
    def _get_iterator(self):
        return (_Many if self.num_workers else _Single)(self)
    def __iter__(self):
        if self.persistent_workers and self._iterator is not None:
            self._iterator._reset(self)
        else:
            self._iterator = self._get_iterator()
        return self._iterator

class _Base(_BaseDataLoaderIter):
    def _reset(self, loader, first_iter=False):
        super()._reset(loader, first_iter)
    def __next__(self):
        return super().__next__()

class _Single(_Base):
    def __init__(self, loader):
        super().__init__(loader)
        self._dataset_fetcher = _DatasetKind.create_fetcher(
            self._dataset_kind, self._dataset, self._auto_collation,
            self._collate_fn, self._drop_last)
    def _next_data(self):
        return self._dataset_fetcher.fetch(self._next_index())
    def state(self):
        return state_of(self._dataset_fetcher, self._dataset)

class _Many(_Base):
    def __init__(self, loader):
        super().__init__(loader)
        self._in_order = True
        mp = loader.multiprocessing_context or torch.multiprocessing
        self._worker_result_queue = self._data_queue = mp.Queue()
        self._index_queues, self._workers = [], []
        for k in range(self._num_workers):
            q = mp.Queue()
            p = mp.Process(target=_worker_loop, daemon=True, args=(
                self._dataset_kind, self._dataset, q, self._data_queue, None,
                self._auto_collation, self._collate_fn, self._drop_last, 0,
                None, k, self._num_workers, self._persistent_workers, None,
                None))
            p.start()
            self._index_queues.append(q)
            self._workers.append(p)
        self._reset(loader, first_iter=True)
    def _reset(self, loader, first_iter=False):
        super()._reset(loader, first_iter)
        self._send_idx = self._rcvd_idx = 0
        self._came, self._on = {}, [True] * self._num_workers
        for q in self._index_queues:
            q.put("state" if first_iter else
                  _utils.worker._ResumeIteration(None))
        for _ in self._index_queues:
            assert self._get_data()[1] == "ack"
        for _ in range(2 * self._num_workers):
            self._put()
    def _get_data(self):
        return self._data_queue.get()
    def _put(self):
        try:
            index = self._next_index()
        except StopIteration:
            return
        k = self._send_idx % self._num_workers
        self._index_queues[k].put((self._send_idx, (index, True)))
        self._send_idx += 1
    def _next_data(self):
        while self._rcvd_idx < self._send_idx:
            if self._rcvd_idx not in self._came:
                i, came = self._get_data()
                self._came[i] = came
                continue
            data, k, self.last = self._came.pop(self._rcvd_idx)
            self._rcvd_idx += 1
            if isinstance(data, _utils.worker._IterableDatasetStopIteration):
                self._on[k] = False
                continue
            if all(self._on):
                self._put()
            return data
        for q in self._index_queues if not self._persistent_workers else ():
            q.put(None)
        raise StopIteration
    def state(self):
        return self.last
    def __del__(self):
        for q in self._index_queues:
            q.put(None)
        for p in self._workers:
            p.join()
"""

SCRIPT = """
from torchdata.stateful_dataloader import StatefulDataLoader

class Walk:
    def __init__(self):
        self.at = 0
    def __iter__(self):
        return self
    def __next__(self):
        if self.at == 8:
            raise StopIteration
        self.at += 1
        return self.at - 1
    def state_dict(self):
        return self.at
    def load_state_dict(self, at):
        self.at = at

class Stream(IterableDataset):
    def __iter__(self):
        return Walk()

class Numbers(Set):
    def __getitem__(self, i):
        return i

if __name__ == "__main__":
    for workers in 0, 2:
        more = dict(multiprocessing_context=sys.argv[1],
                    persistent_workers=True) if workers else {}
        for data in Numbers(8), Stream():
            loader = StatefulDataLoader(data, 2, num_workers=workers, **more)
            for epoch in range(2):
                got = []
                for n, x in enumerate(loader):
                    if n == 1:
                        print(loader._iterator.state())
                    got += x.tolist()
                print(sorted(got))
            del loader
"""


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_a_loader_with_loops_of_its_own_is_followed(follow, tmp_path, how):
    folder = tmp_path / "lib" / "torchdata" / "stateful_dataloader"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(
        "from .stateful_dataloader import StatefulDataLoader\n")
    (folder / "worker.py").write_text(WORKER)
    (folder / "stateful_dataloader.py").write_text(LOADER)
    r = follow(SCRIPT, how, env={"PYTHONPATH": str(tmp_path / "lib")})
    once = [str(list(range(8)))]
    # one stream is read twice by two workers, each of which is at its second
    # sample after the second batch
    twice = [str(sorted([*range(8)] * 2))]
    assert r.out.splitlines() == (
        (["(None, True)"] + once) * 2 + (["(4, True)"] + once) * 2
        + (["(None, True)"] + once) * 2 + (["(2, True)"] + twice) * 2)
    t = r.trace()
    taken = [s.batch for s in t.of("next")]
    assert len(taken) == len(set(taken)) == 4 * 6 + 8 * 2
    assert set(taken) == set(t.ready()) and None not in taken
    assert len({s.line for s in t.of("next")}) == 8 == len(t.of("start"))
    assert {s.thread for s in t.of("batch")} == {"main", "worker 0",
                                                 "worker 1"}
    assert len(t.of("sample")) >= 2 * len(taken) and t.done
