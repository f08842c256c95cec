# SPDX-License-Identifier: Apache-2.0
"""Batches: values, order, the mapping, views and who keeps what alive."""
import collections.abc
import gc
import pickle

import millrace
import numpy as np
import pytest

DTYPES = {"u8": np.uint8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
          "f16": np.float16, "f32": np.float32, "f64": np.float64}


def address(a):
    return a.__array_interface__["data"][0]


def test_sequential_batches_are_the_rows_of_the_file(npy, array):
    loader = millrace.Loader(f"npy {npy} | batch 64", order="sequential")
    got = [b["data"] for b in loader]
    assert [len(x) for x in got] == [64] * 15 + [40]
    assert np.array_equal(np.concatenate(got), array)


def test_shuffled_epochs_have_each_sample_once_in_a_new_order(npy, array):
    loader = millrace.Loader(f"npy {npy} | batch 64", seed=3)
    first = np.concatenate([b.indices for b in loader])
    second = np.concatenate([b.indices for b in loader])
    assert sorted(first) == sorted(second) == list(range(1000))
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("epochs", [0, 3])
def test_an_epoch_taken_by_its_length_is_a_whole_one(npy, epochs):
    want = millrace.Loader(f"npy {npy} | batch 300", seed=3)
    loader = millrace.Loader(f"npy {npy} | batch 300", seed=3, epochs=epochs)
    for _ in range(3):
        rest = iter(loader)
        got = [next(rest).indices for _ in range(len(loader))]
        assert np.array_equal(np.concatenate(got),
                              np.concatenate([b.indices for b in want]))
    assert len(list(loader)) == (0 if epochs else 4)


def test_indices_say_which_samples_are_in_the_batch(npy, array):
    for batch in millrace.Loader(f"npy {npy} | batch 64", seed=3):
        assert batch.indices.dtype == np.uint64
        assert np.array_equal(batch["data"], array[batch.indices])


def test_a_list_of_all_batches_keeps_each_ones_own_data(npy, array):
    batches = list(millrace.Loader(f"npy {npy} | batch 10", seed=5))
    assert len(batches) == 100
    for b in batches:
        assert np.array_equal(b["data"], array[b.indices])
    assert [b.number for b in batches] == list(range(100))
    assert {b.epoch for b in batches} == {0}


def test_len_counts_batches_and_properties_count_samples(npy):
    loader = millrace.Loader(f"npy {npy} | batch 64", rank=(1, 3))
    assert loader.dataset_samples == 1000
    assert loader.epoch_samples == sum(b.count for b in loader)
    assert len(loader) == len(list(loader))
    dropped = millrace.Loader(f"npy {npy} | batch 64 drop_last=yes")
    assert len(dropped) == len(list(dropped)) == 15


def test_ranks_share_the_epoch_without_overlap(npy):
    parts = [np.concatenate([b.indices for b in
                             millrace.Loader(f"npy {npy} | batch 64",
                                             rank=f"{r}/4")])
             for r in range(4)]
    assert sorted(np.concatenate(parts)) == list(range(1000))


def test_a_loop_after_a_break_continues_the_epoch(npy):
    loader = millrace.Loader(f"npy {npy} | batch 100")
    for batch in loader:
        if batch.number == 3:
            break
    assert [b.number for b in loader] == [4, 5, 6, 7, 8, 9]
    assert [b.epoch for b in loader] == [1] * 10


def test_an_iterator_that_ended_stays_ended(npy):
    loader = millrace.Loader(f"npy {npy} | batch 500")
    it = iter(loader)
    assert len(list(it)) == 2
    with pytest.raises(StopIteration):
        next(it)
    assert len(list(loader)) == 2


def test_after_the_last_epoch_loops_are_empty(npy):
    loader = millrace.Loader(f"npy {npy} | batch 500", epochs=2)
    assert [len(list(loader)) for _ in range(4)] == [2, 2, 0, 0]


def test_a_batch_is_a_mapping(npy):
    batch = next(iter(millrace.Loader("synthetic count=8 shape=2 | batch 4")))
    assert isinstance(batch, collections.abc.Mapping)
    assert list(batch) == list(batch.keys()) == ["data", "label"]
    assert len(batch) == 2 and batch.count == 4
    assert "label" in batch and "image" not in batch and 3 not in batch
    assert batch.get("image") is None and batch.get("image", 5) == 5
    assert np.array_equal(batch.get("data"), batch["data"])
    assert [v.shape for v in batch.values()] == [(4, 2), (4,)]
    assert {k: v.shape for k, v in batch.items()} == {
        k: v.shape for k, v in dict(batch).items()}
    match batch:
        case {"label": label}:
            assert label.dtype == np.int64
        case _:
            pytest.fail("does not match as a mapping")


def test_an_unknown_field_is_a_key_error_that_names_those_there():
    batch = next(iter(millrace.Loader("synthetic count=8 shape=2 | batch 4")))
    for get in (batch.__getitem__, batch.tensor, batch.samples, batch.shapes,
                batch.offsets):
        with pytest.raises(KeyError, match="'imgae'.*'data', 'label'"):
            get("imgae")


def test_arrays_are_views_of_the_batch_and_writable(npy):
    batch = next(iter(millrace.Loader(f"npy {npy} | batch 64")))
    a, b = batch["data"], batch.numpy()["data"]
    assert np.shares_memory(a, b) and not a.flags.owndata
    a[0, 0, 0] = 123.0
    assert batch["data"][0, 0, 0] == 123.0
    assert not batch.indices.flags.writeable


def test_views_outlive_the_batch_and_the_loader(npy, array):
    loader = millrace.Loader(f"npy {npy} | batch 64")
    batch = next(iter(loader))
    view, indices = batch["data"], batch.indices
    part = view[3]
    del batch, view
    for _ in loader:
        pass
    loader.close()
    del loader
    gc.collect()
    assert np.array_equal(part, array[indices[3]])


def test_batches_outlive_the_loader(npy, array):
    with millrace.Loader(f"npy {npy} | batch 64") as loader:
        batch = next(iter(loader))
        keys = batch.sample_keys
    del loader
    gc.collect()
    assert np.array_equal(batch["data"], array[batch.indices])
    assert batch.sample_keys == keys
    assert list(batch) == ["data"]


@pytest.mark.parametrize("name", DTYPES)
def test_each_dtype_has_numpys_own_type(tmp_path, name):
    a = np.arange(60).reshape(20, 3).astype(DTYPES[name])
    np.save(tmp_path / "x.npy", a)
    loader = millrace.Loader(f"npy {tmp_path}/x.npy | batch 20",
                             order="sequential")
    x = next(iter(loader))["data"]
    assert x.dtype.type is DTYPES[name]
    assert np.array_equal(x, a)


def test_a_tensor_is_a_buffer_without_numpy():
    batch = next(iter(millrace.Loader(
        "synthetic count=8 shape=2,3 dtype=f32 | batch 4")))
    t = batch.tensor("data")
    m = memoryview(t)
    assert (m.format, m.shape, m.strides) == ("f", (4, 2, 3), (24, 12, 4))
    assert (t.shape, t.dtype, t.nbytes) == ((4, 2, 3), "f32", 96)
    assert bytes(t) == batch["data"].tobytes()
    assert "f32 (4, 2, 3)" in repr(t) and "4 samples" in repr(batch)


def test_batches_cannot_be_made_or_pickled():
    with pytest.raises(TypeError):
        millrace.Batch()
    with pytest.raises(TypeError):
        millrace.Tensor()
    batch = next(iter(millrace.Loader("synthetic count=8 shape=2 | batch 4")))
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(batch)


def test_classes_and_keys_come_from_the_folders(folders):
    path, contents = folders
    loader = millrace.Loader(f"files {path} | batch 8")
    assert loader.classes == ["ant", "bee", "cat"]
    assert loader.class_to_idx == {"ant": 0, "bee": 1, "cat": 2}
    for batch in loader:
        for key, label in zip(batch.sample_keys, batch["label"]):
            name = "/".join(key.split("/")[-2:])
            assert contents[name][1] == label


def test_names_that_are_not_utf8_survive(tmp_path):
    (tmp_path / "d\udcff").mkdir()
    (tmp_path / "d\udcff" / "f\udcfe").write_bytes(b"abc")
    loader = millrace.Loader(f"files {tmp_path} | batch 1")
    assert loader.classes == ["d\udcff"]
    batch = next(iter(loader))
    assert batch.sample_keys[0].endswith("d\udcff/f\udcfe")


def test_a_source_without_classes_has_an_empty_list(npy):
    loader = millrace.Loader(f"npy {npy} | batch 8")
    assert loader.classes == [] and loader.class_to_idx == {}


def test_ragged_fields_come_flat_with_offsets_and_as_samples(folders):
    path, contents = folders
    for batch in millrace.Loader(f"files {path} | batch 8"):
        flat, offsets = batch["data"], batch.offsets("data")
        shapes, samples = batch.shapes("data"), batch.samples("data")
        assert flat.ndim == 1 and len(offsets) == batch.count + 1
        assert shapes.shape == (batch.count, 1)
        assert offsets[0] == 0 and offsets[-1] == len(flat)
        for i, key in enumerate(batch.sample_keys):
            want = contents["/".join(key.split("/")[-2:])][0]
            assert flat[offsets[i]:offsets[i + 1]].tobytes() == want
            assert samples[i].tobytes() == want
            assert shapes[i, 0] == len(want)
            assert not want or np.shares_memory(samples[i], flat)


def test_padded_fields_are_dense_with_the_samples_own_shapes(folders):
    path, contents = folders
    for batch in millrace.Loader(f"files {path} | batch 8 pad=7"):
        x, shapes = batch["data"], batch.shapes("data")
        assert x.shape == (batch.count, shapes.max())
        assert batch.offsets("data") is None
        samples = batch.samples("data")
        for i, key in enumerate(batch.sample_keys):
            want = contents["/".join(key.split("/")[-2:])][0]
            n = shapes[i, 0]
            assert x[i, :n].tobytes() == want == samples[i].tobytes()
            assert (x[i, n:] == 7).all()
            assert address(samples[i]) == address(x[i])


def test_dense_fields_have_samples_but_no_offsets(npy):
    batch = next(iter(millrace.Loader(f"npy {npy} | batch 8")))
    assert batch.offsets("data") is None and batch.shapes("data") is None
    for i, s in enumerate(batch.samples("data")):
        assert np.array_equal(s, batch["data"][i])
        assert address(s) == address(batch["data"][i])
