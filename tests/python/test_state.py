# SPDX-License-Identifier: Apache-2.0
"""Checkpoints, statistics and bad samples."""
import json
import os

import millrace
import numpy as np
import pytest


def rest(loader):
    return [(b.epoch, b.number, b["data"].tobytes()) for b in loader]


@pytest.mark.parametrize("stop", [0, 1, 7, 20])
def test_resume_gives_the_same_batches_with_another_thread_count(npy, stop):
    pipe = f"npy {npy} | batch 50"
    a = millrace.Loader(pipe, seed=9, threads=1)
    it = iter(a)
    for _ in range(stop):
        next(it)
    state = json.loads(json.dumps(a.state_dict()))
    want = (rest(it) + rest(a))[:20]
    b = millrace.Loader(pipe, threads=3)
    b.load_state_dict(state)
    assert b.state_dict() == state
    assert (rest(b) + rest(b))[:20] == want


def test_a_state_counts_given_batches_not_prepared_ones(npy):
    loader = millrace.Loader(f"npy {npy} | batch 50")
    it = iter(loader)
    for n in range(5):
        assert loader.state_dict()["batch"] == n
        next(it)
    assert all(type(v) is int for v in loader.state_dict().values())


def test_going_back_repeats_the_batches(npy):
    loader = millrace.Loader(f"npy {npy} | batch 50", seed=2)
    state = loader.state_dict()
    first = rest(loader)
    loader.load_state_dict(state)
    assert rest(loader) == first


@pytest.mark.parametrize("fetch", ["direct", "ahead"])
def test_a_cache_stays_when_the_loader_goes_back(npy, fetch):
    want = rest(millrace.Loader(f"npy {npy} | batch 50", seed=2))
    loader = millrace.Loader(f"npy {npy} | cache ram=16M | batch 50", seed=2,
                             threads=3, fetch=fetch, epochs=2)
    state = loader.state_dict()
    for stop in (1, 0, 7, 3):  # with samples on their way
        it = iter(loader)
        assert [next(it)["data"].tobytes() for _ in range(stop)] == \
            [w[2] for w in want[:stop]]
        loader.load_state_dict(state)
    assert rest(loader) == want and len(rest(loader)) == 20
    cache = loader.stats()["cache"]
    assert cache["samples"] == cache["misses"] == 1000 and not cache["full"]
    assert cache["hits"] >= 1000


def test_a_state_of_something_else_is_refused(npy):
    state = millrace.Loader(f"npy {npy} | batch 50").state_dict()
    other = millrace.Loader(f"npy {npy} | batch 49")
    with pytest.raises(millrace.Error):
        other.load_state_dict(state)
    other = millrace.Loader(f"npy {npy} | batch 50", rank=(0, 2))
    with pytest.raises(millrace.Error):
        other.load_state_dict(state)


@pytest.mark.parametrize("spoil, text", [
    (lambda d: d.pop("seed"), "no 'seed'"),
    (lambda d: d.update(epoch=-1), "'epoch' is out of range"),
    (lambda d: d.update(epoch="1"), "'epoch' must be a whole number"),
])
def test_a_spoilt_state_is_a_value_error(npy, spoil, text):
    loader = millrace.Loader(f"npy {npy} | batch 50")
    state = loader.state_dict()
    spoil(state)
    with pytest.raises(ValueError, match=text):
        loader.load_state_dict(state)
    with pytest.raises(TypeError):
        loader.load_state_dict("state")


def test_an_epoch_that_nobody_comes_to_is_refused(npy):
    loader = millrace.Loader(f"npy {npy} | batch 1000")
    state = loader.state_dict()
    with pytest.raises(millrace.Error, match="not that many epochs"):
        loader.load_state_dict({**state, "epoch": 2**62})


def test_stats_count_what_was_given(npy):
    loader = millrace.Loader(f"npy {npy} | batch 50", threads=2)
    n = sum(1 for _ in loader)
    stats = loader.stats()
    assert stats["samples"] == 1000 and stats["batches"] == n == 20
    assert stats["threads"] == 2 and stats["seconds"] > 0
    assert {"steps", "budget", "verdict", "bytes_out"} <= stats.keys()


def test_bad_samples_are_listed_with_file_and_reason(folders):
    path, _ = folders
    loader = millrace.Loader(f"files {path} | batch 8", on_error="skip",
                             order="sequential")
    bad = path / "bee" / "03.bin"
    os.truncate(bad, 0)
    bad.unlink()
    count = sum(b.count for b in loader)
    listed = loader.bad_samples()
    assert count == 38 and len(listed) == 1
    assert listed[0]["key"].endswith("bee/03.bin")
    assert listed[0]["index"] == 16 and listed[0]["epoch"] == 0
    assert listed[0]["step"] == "read" and listed[0]["reason"]
    assert loader.stats()["bad_samples"] == 1


def test_no_bad_samples_is_an_empty_list(npy):
    loader = millrace.Loader(f"npy {npy} | batch 50")
    assert np.concatenate([b.indices for b in loader]).size == 1000
    assert loader.bad_samples() == []
