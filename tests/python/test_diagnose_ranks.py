# SPDX-License-Identifier: Apache-2.0
"""How ranks of a script that is diagnosed come to agree. Ranks are threads
here."""
import random
import sys
import threading
import time
import types

import pytest
from conftest import MODULE

PATIENCE = 0.3
LATE = 3 * PATIENCE


@pytest.fixture
def ranks(monkeypatch):
    monkeypatch.syspath_prepend(str(MODULE / "millrace" / "inject"))
    from millrace_diagnose import ranks
    return ranks


class Distributed:
    """torch.distributed of so many threads."""

    def __init__(self, n):
        self.n, self.gate = n, threading.Barrier(n, timeout=20)
        self.all, self.me = [None] * n, threading.local()

    def is_available(self):
        return True

    def is_initialized(self):
        return True

    def get_rank(self):
        return self.me.rank

    def get_world_size(self):
        return self.n

    def all_gather_object(self, to, value):
        self.all[self.me.rank] = value
        self.gate.wait()
        to[:] = self.all
        self.gate.wait()


@pytest.fixture
def torchs(monkeypatch):
    def make(n):
        d = Distributed(n)
        monkeypatch.setitem(sys.modules, "torch.distributed", d)
        return d
    monkeypatch.delitem(sys.modules, "torch.distributed", raising=False)
    return make


def meet(ranks, folders, delays, dist=None, patience=PATIENCE):
    """By rank: how it agrees, its remark, and what it then agrees upon.
    None as a delay: it never comes."""
    met = [None] * len(delays)

    def one(rank):
        if dist:
            dist.me.rank = rank
        time.sleep(delays[rank])
        by, remark = ranks.meet(str(folders[rank]), rank, len(delays),
                                patience)
        all_ = by.agree(rank * 10) if dist or not remark else None
        met[rank] = types.SimpleNamespace(by=type(by), remark=remark,
                                          all=all_)

    crew = [threading.Thread(target=one, args=(r,), daemon=True)
            for r, d in enumerate(delays) if d is not None]
    for t in crew:
        t.start()
    for t in crew:
        t.join(30)
        assert not t.is_alive()
    return met


def test_ranks_of_one_machine_agree_by_files(ranks, torchs, tmp_path):
    for dist in (None, torchs(3)):
        folder = tmp_path / str(bool(dist))
        folder.mkdir()
        for m in meet(ranks, [folder] * 3, [0, 0.1, 0], dist, 20):
            assert m.by is ranks.ByFiles and m.all == [0, 10, 20]


def test_ranks_of_several_machines_agree_through_torch(ranks, torchs,
                                                       tmp_path):
    """Each machine has a folder of its own; on one of them a rank is late."""
    folders = [tmp_path / "a"] * 2 + [tmp_path / "b"] * 2
    for f in set(folders):
        f.mkdir()
    for m in meet(ranks, folders, [0, LATE, 0, 0], torchs(4)):
        assert m.by is ranks.ByTorch and m.all == [0, 10, 20, 30]


def test_a_rank_that_is_late_does_as_the_others(ranks, torchs, tmp_path):
    for m in meet(ranks, [tmp_path] * 3, [0, LATE, 0], torchs(3)):
        assert m.by is ranks.ByTorch and m.all == [0, 10, 20]


def test_late_by_about_the_others_patience_all_do_the_same(ranks, torchs,
                                                           tmp_path):
    dice = random.Random(3)
    seen = set()
    for turn in range(40):
        folder = tmp_path / str(turn)
        folder.mkdir()
        delays = [0, 0.02 + dice.uniform(-0.004, 0.004), 0]
        met = meet(ranks, [folder] * 3, delays, torchs(3), 0.02)
        seen.add(met[0].by)
        assert len({m.by for m in met}) == 1
        assert all(m.all == [0, 10, 20] for m in met)
    assert seen <= {ranks.ByFiles, ranks.ByTorch}


def test_without_torch_a_late_rank_is_measured_by_itself_as_others_are(
        ranks, torchs, tmp_path):
    for rank, m in enumerate(meet(ranks, [tmp_path] * 3, [0, LATE, 0])):
        assert m.by is ranks.Alone
        assert f"rank {rank} was measured by itself" in m.remark


def test_who_meets_a_rank_that_has_died_is_measured_by_itself(ranks, torchs,
                                                              tmp_path):
    met = meet(ranks, [tmp_path] * 3, [0, None, 0.1])
    assert met[0].by is met[2].by is ranks.Alone


def test_a_rank_that_dies_later_is_missed(ranks, tmp_path):
    first, other = (ranks.ByFiles(str(tmp_path), r, 2) for r in range(2))
    t = threading.Thread(target=other.agree, args=(1,))
    t.start()
    assert first.agree(0) == [0, 1]
    t.join()
    with pytest.raises(ranks.Lost, match="rank 1 did not come"):
        first.agree(2, PATIENCE)
