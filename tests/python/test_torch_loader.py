# SPDX-License-Identifier: Apache-2.0
"""millrace.torch.DataLoader beside torch's own."""
import gc
import json

import millrace
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
DataLoader = pytest.importorskip("millrace.torch").DataLoader


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """No rank from whoever runs the tests."""
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)


@pytest.fixture
def labelled(array, tmp_path):
    """A pipeline of the 1,000 samples with the labels 0 to 999."""
    np.save(tmp_path / "a.npy", array)
    np.save(tmp_path / "y.npy", np.arange(1000))
    return f"npy {tmp_path}/a.npy labels={tmp_path}/y.npy"


def theirs(array, **options):
    data = torch.utils.data.TensorDataset(torch.from_numpy(array),
                                          torch.arange(len(array)))
    return torch.utils.data.DataLoader(data, **options)


@pytest.mark.parametrize("drop", [False, True])
def test_batches_are_those_of_torchs_loader(array, labelled, drop):
    text = f"{labelled} | batch 64 drop_last={'yes' if drop else 'no'}"
    ours = DataLoader(text, order="sequential")
    want = theirs(array, batch_size=64, drop_last=drop)
    assert len(ours) == len(want) == 15 + (not drop)
    assert ours.batch_size == want.batch_size == 64
    assert len(ours.dataset) == len(want.dataset) == 1000
    for _ in range(2):
        n = 0
        for a, b in zip(ours, want, strict=True):
            assert type(a) is type(b) is list and len(a) == len(b) == 2
            for x, y in zip(a, b):
                assert x.dtype == y.dtype and torch.equal(x, y)
            n += 1
        assert n == len(ours)


def test_one_field_is_the_tensor_itself(array, npy):
    a = next(iter(DataLoader(f"npy {npy} | batch 10", order="sequential")))
    assert torch.is_tensor(a) and torch.equal(a, torch.from_numpy(array[:10]))


def test_fields_come_in_the_order_of_the_pipeline(labelled):
    loader = DataLoader(f"{labelled} | select label,data | batch 10")
    labels, data = next(iter(loader))
    assert labels.dtype == torch.int64 and data.shape == (10, 3, 4)


def test_a_list_of_all_batches_is_right(array, labelled):
    loader = DataLoader(f"{labelled} | batch 10", seed=5)
    batches = list(loader)
    del loader
    gc.collect()
    labels = torch.cat([y for _, y in batches])
    assert sorted(labels.tolist()) == list(range(1000))
    for x, y in batches:
        assert np.array_equal(x.numpy(), array[y.numpy()])
        x[0] = 0        # they are ours to write


def test_tensors_are_not_copies(labelled, monkeypatch):
    seen = []
    collate = DataLoader._collate
    monkeypatch.setattr(DataLoader, "_collate", lambda self, batch:
                        seen.append(batch) or collate(self, batch))
    x, y = next(iter(DataLoader(f"{labelled} | batch 10")))
    assert x.data_ptr() == seen[0]["data"].ctypes.data
    assert y.data_ptr() == seen[0]["label"].ctypes.data


def test_pinning_is_left_out_without_cuda(labelled):
    loader = DataLoader(f"{labelled} | batch 10", pin_memory=True)
    x, y = next(iter(loader))
    assert x.is_pinned() == y.is_pinned() == torch.cuda.is_available()


# ---- loops and epochs ----

def order_of(loader):
    return torch.cat([y for _, y in loader]).tolist()


def test_each_loop_is_an_epoch_in_a_new_order(labelled):
    loader = DataLoader(f"{labelled} | batch 64", seed=1)
    first, second = order_of(loader), order_of(loader)
    assert sorted(first) == sorted(second) == list(range(1000))
    assert first != second


def test_after_a_whole_epoch_prepared_batches_are_not_thrown_away(
        labelled, monkeypatch):
    loader = DataLoader(f"{labelled} | batch 64")
    monkeypatch.setattr(DataLoader, "load_state_dict", lambda *_: pytest.fail(
        "moved, which stops the workers"))
    for n in range(3):
        loader.set_epoch(n)
        assert len(list(loader)) == 16


@pytest.mark.parametrize("taken", [0, 1, 3, 10])
def test_a_loop_after_a_break_is_a_whole_epoch_as_with_torch(labelled, taken):
    loader = DataLoader(f"{labelled} | batch 100", seed=1)
    it = iter(loader)
    for _ in range(taken):
        next(it)
    whole = millrace.Loader(f"{labelled} | batch 100", seed=1)
    epochs = [np.concatenate([b["label"] for b in whole]).tolist()
              for _ in range(3)]
    assert order_of(loader) == epochs[taken > 0]
    assert order_of(loader) == epochs[1 + (taken > 0)]


def test_an_older_loop_says_that_another_one_began(labelled):
    loader = DataLoader(f"{labelled} | batch 100")
    old, new = iter(loader), iter(loader)
    next(new)
    with pytest.raises(RuntimeError, match="another one began"):
        next(old)
    assert len(list(new)) == 9
    with pytest.raises(StopIteration):
        next(new)


def test_set_epoch_chooses_the_next_loops_epoch(labelled):
    plain = millrace.Loader(f"{labelled} | batch 100", seed=4)
    epochs = [np.concatenate([b["label"] for b in plain]).tolist()
              for _ in range(6)]
    loader = DataLoader(f"{labelled} | batch 100", seed=4)
    for n in (0, 1, 2, 5, 3, 3):
        loader.set_epoch(n)
        assert order_of(loader) == epochs[n]
    next(iter(loader))
    loader.set_epoch(4)
    assert order_of(loader) == epochs[4]
    with pytest.raises(ValueError, match="epoch"):
        loader.set_epoch(-1)


def test_after_an_error_the_next_loop_tries_the_next_epoch(folders):
    path, _ = folders
    loader = DataLoader(f"files {path} | batch 1")
    hidden = path / "cat" / "05.bin"
    data = hidden.read_bytes()
    hidden.unlink()
    with pytest.raises(millrace.StorageError, match="cat/05.bin"):
        list(loader)
    hidden.write_bytes(data)
    assert len(list(loader)) == 39


# ---- checkpoints ----

@pytest.mark.parametrize("stop", [0, 1, 7, 20])
def test_a_state_continues_in_the_middle_of_an_epoch(labelled, stop):
    a = DataLoader(f"{labelled} | batch 50", seed=9, threads=1)
    it = iter(a)
    given = [next(it)[1].tolist() for _ in range(stop)]
    state = json.loads(json.dumps(a.state_dict()))
    rest = [y.tolist() for _, y in it]
    b = DataLoader(f"{labelled} | batch 50", threads=2)
    next(iter(b))
    b.load_state_dict(state)
    assert b.state_dict() == state
    want = rest or [y.tolist() for _, y in a]
    assert [y.tolist() for _, y in b] == want
    assert sum(map(len, given + rest)) == 1000
    assert len(order_of(b)) == 1000


def test_a_loop_ends_when_the_loader_is_moved(labelled):
    loader = DataLoader(f"{labelled} | batch 50")
    it = iter(loader)
    next(it)
    loader.load_state_dict(loader.state_dict())
    with pytest.raises(RuntimeError, match="moved"):
        next(it)
    assert len(list(loader)) == 19


# ---- ranks ----

def test_the_rank_comes_from_the_environment(labelled, monkeypatch):
    text = f"{labelled} | batch 10"
    parts = []
    for r in range(4):
        monkeypatch.setenv("RANK", str(r))
        monkeypatch.setenv("WORLD_SIZE", "4")
        loader = DataLoader(text)
        assert len(loader) == 25 and loader.dataset_samples == 1000
        parts += order_of(loader)
    assert sorted(parts) == list(range(1000))
    assert len(DataLoader(text, rank=(0, 1))) == 100
    assert len(DataLoader(text, rank="1/2")) == 50
    monkeypatch.delenv("WORLD_SIZE")
    assert len(DataLoader(text)) == 100


def test_a_process_group_goes_before_the_environment(labelled, monkeypatch,
                                                     tmp_path):
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")
    group = torch.distributed
    if not group.is_available():
        pytest.skip("PyTorch is built without torch.distributed")
    group.init_process_group("gloo", init_method=f"file://{tmp_path}/group",
                             rank=0, world_size=1)
    try:
        assert len(DataLoader(f"{labelled} | batch 10")) == 100
        assert len(DataLoader(f"{labelled} | batch 10", rank=(1, 2))) == 50
    finally:
        group.destroy_process_group()


@pytest.mark.parametrize("rank, ranks, text", [
    ("one", "4", "RANK='one'"), ("4", "4", "0 <= R < N"), ("", "", "RANK=''")])
def test_a_wrong_rank_in_the_environment_is_named(labelled, monkeypatch, rank,
                                                  ranks, text):
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", ranks)
    with pytest.raises(ValueError, match=text):
        DataLoader(f"{labelled} | batch 10")


# ---- what it is ----

def test_it_is_a_loader_with_all_that_belongs_to_one(folders):
    path, _ = folders
    with DataLoader(f"files {path} | batch 1", on_error="skip") as loader:
        assert isinstance(loader, millrace.Loader)
        assert loader.classes == loader.dataset.classes == ["ant", "bee",
                                                            "cat"]
        assert loader.class_to_idx["cat"] == 2
        assert loader.pipeline == f"files {path} | batch 1"
        assert len(list(loader)) == loader.stats()["batches"] == 39
        assert loader.bad_samples() == []
    assert loader.closed
    with pytest.raises(millrace.StateError):
        iter(loader)


def test_the_batch_size_is_found_in_any_text(tmp_path):
    (tmp_path / "p").write_text("synthetic count=9 shape=2 # batch 7\n"
                                "batch drop_last=yes count=4\n")
    assert DataLoader(f"@{tmp_path}/p").batch_size == 4


def test_wrong_options_are_told_as_by_the_loader():
    with pytest.raises(TypeError, match="did you mean 'threads'"):
        DataLoader("synthetic | batch 4", thread=2)
    with pytest.raises(millrace.PipelineError):
        DataLoader("synthetic | btach 4")


def test_samples_of_one_shape_in_a_batch_are_stacked(folders):
    path, contents = folders
    loader = DataLoader(f"files {path} | batch 1", order="sequential")
    for (x, y), (data, label) in zip(loader, contents.values(), strict=True):
        assert x.shape == (1, len(data)) and y.tolist() == [label]
        assert bytes(x[0].tolist()) == data


def test_samples_of_different_shapes_are_an_error_with_ways_out(folders):
    path, _ = folders
    loader = DataLoader(f"files {path} | batch 4", order="sequential")
    with pytest.raises(RuntimeError, match=r"'data' in batch 0.*\(1,\) and "
                                           r"\(2,\).*pad=0"):
        next(iter(loader))
    x, y = next(iter(DataLoader(f"files {path} | batch 4 pad=0",
                                order="sequential")))
    assert x.shape == (4, 4) and y.shape == (4,)


def test_import_millrace_alone_does_not_import_torch(script):
    p = script("import sys, millrace; print('torch' in sys.modules)")
    assert p.communicate(timeout=60)[0] == "False\n"


def test_a_pipeline_needs_torch_but_not_torchvision(script):
    p = script("import sys, millrace.torch\n"
               "l = millrace.torch.DataLoader('synthetic count=9 shape=2 | "
               "batch 4')\n"
               "print(len(list(l)), 'torchvision' in sys.modules)")
    assert p.communicate(timeout=60)[0] == "3 False\n"
