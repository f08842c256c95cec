# SPDX-License-Identifier: Apache-2.0
"""DLPack: the same memory in torch and NumPy, kept alive by either."""
import gc
import threading

import millrace
import numpy as np
import pytest
from test_batches import DTYPES, address


def first(npy, **options):
    return next(iter(millrace.Loader(f"npy {npy} | batch 64", **options)))


@pytest.mark.parametrize("name", DTYPES)
def test_torch_and_back_for_each_dtype(torch, tmp_path, name):
    a = np.arange(60).reshape(20, 3).astype(DTYPES[name])
    np.save(tmp_path / "x.npy", a)
    loader = millrace.Loader(f"npy {tmp_path}/x.npy | batch 20",
                             order="sequential")
    batch = next(iter(loader))
    t = batch.torch()["data"]
    assert t.data_ptr() == address(batch["data"])
    assert t.shape == (20, 3) and t.stride() == (3, 1)
    assert np.array_equal(t.numpy(), a)
    back = np.from_dlpack(t)
    assert back.dtype == DTYPES[name]
    assert address(back) == address(batch["data"])
    assert torch.equal(torch.from_dlpack(batch.tensor("data")), t)


def test_torch_tensors_outlive_batch_and_loader(torch, npy, array):
    loader = millrace.Loader(f"npy {npy} | batch 64")
    batch = next(iter(loader))
    t, indices = batch.torch()["data"], batch.indices.copy()
    del batch
    for _ in loader:
        pass
    del loader
    gc.collect()
    assert np.array_equal(t.numpy(), array[indices])


def test_torch_sees_what_numpy_writes(torch, npy):
    batch = first(npy)
    t = batch.torch()["data"]
    batch["data"][5, 1, 2] = -1
    assert t[5, 1, 2] == -1
    t.zero_()
    assert not batch["data"].any()


def test_tensors_may_die_in_another_thread(torch, npy):
    batch = first(npy)
    tensors = [batch.torch()["data"] for _ in range(100)]
    del batch
    t = threading.Thread(target=tensors.clear)
    t.start()
    t.join()
    gc.collect()


def test_numpy_takes_a_tensor_by_dlpack_too(npy):
    batch = first(npy)
    x = np.from_dlpack(batch.tensor("data"))
    assert address(x) == address(batch["data"])


def test_a_capsule_that_nobody_takes_frees_its_part(npy):
    batch = first(npy)
    for _ in range(1000):
        assert "dltensor" in repr(batch.tensor("data").__dlpack__())


def test_the_newer_protocols_arguments_are_understood(npy):
    t = first(npy).tensor("data")
    assert t.__dlpack_device__() == (1, 0)
    t.__dlpack__(stream=None, max_version=(1, 0), dl_device=(1, 0), copy=False)
    for wrong in ({"dl_device": (2, 0)}, {"copy": True}, {"stream": 1}):
        with pytest.raises(BufferError):
            t.__dlpack__(**wrong)
