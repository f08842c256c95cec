# SPDX-License-Identifier: Apache-2.0
"""HDF5, .npz and LMDB by the command: the same digest whatever the storage,
threads and order of reading; damage loses what it hits. The values
themselves are compared in tests/python."""
import os

import numpy as np
import pytest

h5py = pytest.importorskip("h5py", reason="h5py is not installed")
lmdb = pytest.importorskip("lmdb", reason="python3-lmdb is not installed")

N = 300
CHUNKS = dict(chunks=(16, 5))
STORAGE = {
    "contiguous": {}, "chunked": CHUNKS,
    "rows": dict(chunks=(7, 9), shuffle=True, compression="gzip"),
    "all": dict(CHUNKS, compression="gzip", shuffle=True, fletcher32=True),
    "filled": dict(CHUNKS, fillvalue=3),
}


@pytest.fixture(scope="module")
def boxes(tmp_path_factory, mill):
    """The same numbers in every container."""
    if "(not in this build)" in mill("list", "hdf5").stdout:
        pytest.skip("hdf5 is not in this build")
    root = tmp_path_factory.mktemp("boxes")
    rng = np.random.default_rng(8)
    x = rng.integers(0, 9, (N, 9), "<i4")
    x[100:200] = 3  # the fill value
    for name, storage in STORAGE.items():
        with h5py.File(root / f"{name}.h5", "w") as f:
            d = f.create_dataset("x", (N, 9), "<i4", **storage)
            d[:100], d[200:] = x[:100], x[200:]
            if name != "filled":
                d[100:200] = 3
            d.attrs["k"] = 2.5
    with h5py.File(root / "big-endian.h5", "w") as f:
        f.create_dataset("x", data=x.astype(">i4"), compression="gzip")
        f["x"].attrs["k"] = 2.5
    np.savez(root / "stored.npz", x=x)
    np.savez_compressed(root / "packed.npz", x=x)
    (root / "each").mkdir()
    (root / "files").mkdir()
    env = lmdb.open(str(root / "lmdb"), sync=False)
    with env.begin(write=True) as t:
        for i in range(N):
            data = rng.bytes(int(rng.integers(0, 9000)))
            t.put(b"%04d" % i, data)
            (root / "files" / f"{i:04}").write_bytes(data)
            save = np.savez if i % 2 else np.savez_compressed
            save(root / "each" / f"{i:03}.npz", x=x[i])
    env.close()
    return root


def digests(mill, texts, *args):
    return {mill.digest(f"{t} | batch 32", "--threads", n, "--fetch", fetch,
                        *args)
            for t in texts for n in (1, 4) for fetch in ("direct", "ahead")}


@pytest.mark.parametrize("order", ["sequential", "shuffle"])
def test_digest_of_rows_is_the_same_from_every_container(mill, boxes, order):
    texts = [f"hdf5 {boxes}/{name}.h5 x" for name in STORAGE]
    texts += [f"hdf5 {boxes}/big-endian.h5 x", f"npz {boxes}/stored.npz",
              f"npz {boxes}/packed.npz",
              f"npz '{boxes}/each/*.npz' each=file"]
    assert len(digests(mill, texts, "--order", order)) == 1


@pytest.mark.parametrize("window", ["window=20", "window=20 step=3",
                                    "window=0"])
def test_digest_of_windows_is_the_same_in_every_storage(mill, boxes, window):
    texts = [f"hdf5 {boxes}/{name}.h5 x {window} attributes=k"
             for name in [*STORAGE, "big-endian"]]
    assert len(digests(mill, texts)) == 1


def test_digest_of_lmdb_is_that_of_files(mill, boxes):
    texts = [f"files {boxes}/files | select data", f"lmdb {boxes}/lmdb",
             f"lmdb {boxes}/lmdb map=yes"]
    assert len(digests(mill, texts)) == 1


def test_damage_is_skipped_and_named(mill, boxes, tmp_path):
    with h5py.File(boxes / "all.h5") as f:
        at = f["x"].id.get_chunk_info(5).byte_offset
    raw = bytearray((boxes / "all.h5").read_bytes())
    raw[at + 9:at + 12] = b"\0\1\2"
    (tmp_path / "x.h5").write_bytes(raw)
    r = mill.json("run", f"hdf5 {tmp_path}/x.h5 x | batch 8", "--on-error",
                  "skip")
    assert r["bad_samples"] == 16 and r["samples"] == N - 16
    for b in r["bad"]:
        assert "x.h5: dataset 'x', chunk [32, 5]" in b["reason"]
        assert str(at) in b["reason"]


def test_cut_files_are_named_not_skipped(mill, boxes, tmp_path):
    for name, text in (("all.h5", "hdf5 {} x"), ("stored.npz", "npz {}"),
                       ("packed.npz", "npz {} each=file"),
                       ("lmdb/data.mdb", "lmdb {}")):
        raw = (boxes / name).read_bytes()
        path = tmp_path / os.path.basename(name)
        for part in (0, 1, 100, len(raw) // 9):
            path.write_bytes(raw[:part])
            mill.fails("run", f"{text.format(path)} | batch 8", "--on-error",
                       "skip", code=1, says=path.name)


def test_explain_tells_types_and_what_is_left_out(mill, boxes):
    out = mill("explain", f"hdf5 {boxes}/all.h5 x window=7 attributes=k | "
               "batch 4").stdout
    assert "x i32[7 9]" in out and "x_k f64[]" in out
    assert f"{N // 7} samples" in out
    assert "left out" in mill("list", "hdf5").stdout
