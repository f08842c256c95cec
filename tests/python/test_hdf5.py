# SPDX-License-Identifier: Apache-2.0
"""HDF5 files, bit for bit as h5py reads them."""
import os
import pathlib

import millrace
import numpy as np
import pytest

h5py = pytest.importorskip("h5py", reason="h5py is not installed")

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = (ROOT / os.environ.get("MILLRACE_DATA", "../shared/data")).resolve()
NILM = sorted((DATA / "nilm").glob("*/*.h*5")) or [None]


@pytest.fixture(autouse=True)
def available():
    try:
        millrace.Loader("hdf5 /no/such | batch 1")
    except Exception as e:
        if "not in this build" in str(e):
            pytest.skip(str(e))


def load(text, field, **options):
    """All samples, in order."""
    options.setdefault("order", "sequential")
    out = []
    for b in millrace.Loader(f"{text} | batch 7", **options):
        out += [np.array(x) for x in b[field]]
    return out


def same(a, b):
    b = np.asarray(b)
    assert a.dtype == b.dtype and a.shape == b.shape
    assert a.tobytes() == b.tobytes()


def numbers(shape, dtype, seed=1):
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        return rng.normal(0, 50, shape).astype(dtype)
    if np.dtype(dtype).kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    info = np.iinfo(dtype)
    return rng.integers(info.min // 3, info.max // 3, shape).astype(dtype)


STORAGE = {
    "contiguous": {},
    "chunked": dict(chunks=True),
    "deflate": dict(compression="gzip"),
    "shuffle": dict(compression="gzip", shuffle=True),
    "fletcher": dict(fletcher32=True),
    "all": dict(compression="gzip", shuffle=True, fletcher32=True),
    "lzf": dict(compression="lzf"),  # read by libhdf5
}


# ---- real files ----

@pytest.mark.skipif(NILM == [None], reason="no data at ../shared/data/nilm")
@pytest.mark.parametrize("path", NILM, ids=lambda p: p and p.stem[:12])
@pytest.mark.parametrize("window,step", [(64000, 0), (1000, 700), (0, 0)])
def test_recordings_are_what_h5py_reads(path, window, step):
    with h5py.File(path) as f:
        names = list(f)
        want = {n: f[n][...] for n in names}
        factor = "calibration_factor" in f[names[0]].attrs
        attributes = {n: f[n].attrs["calibration_factor"]
                      for n in names if factor}
    text = (f"hdf5 '{path}' {','.join(names)} window={window} step={step}" +
            (" attributes=calibration_factor" if factor else ""))
    for n in names:
        got = load(text, n, threads=2)
        size, hop = window or len(want[n]), step or window or len(want[n])
        assert len(got) == (len(want[n]) - size) // hop + 1
        for i, x in enumerate(got):
            same(x, want[n][i * hop:i * hop + size])
        if factor:
            a = load(text, f"{n}_calibration_factor")
            assert set(float(x) for x in a) == {attributes[n]}


# ---- made ones ----

@pytest.mark.parametrize("kind", STORAGE)
@pytest.mark.parametrize("dtype", ["u1", "<i2", "<i4", "<i8", "<f2", "<f4",
                                   "<f8"])
def test_every_type_in_every_storage(tmp_path, kind, dtype):
    a = numbers((53, 4), dtype)
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f.create_dataset("g/x", data=a, **STORAGE[kind])
    got = load(f"hdf5 {tmp_path}/x.h5 g/x", "x")
    assert len(got) == 53
    for x, y in zip(got, a):
        same(x, y)


@pytest.mark.parametrize("kind", STORAGE)
@pytest.mark.parametrize("stored,given", [
    ("i1", "i2"), ("<u2", "<i4"), ("<u4", "<i8"), (">u2", "<i4"),
    (">i2", "<i2"), (">i4", "<i4"), (">i8", "<i8"), (">f2", "<f2"),
    (">f4", "<f4"), (">f8", "<f8"), (">u4", "<i8"), ("bool", "u1")])
def test_other_numbers_are_converted(tmp_path, kind, stored, given):
    a = numbers((29, 3), stored)
    a.flat[0] = 1
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f.create_dataset("x", data=a, **STORAGE[kind])
    got = load(f"hdf5 {tmp_path}/x.h5 x window=5", "x")
    assert len(got) == 5
    for i, x in enumerate(got):
        same(x, a[i * 5:i * 5 + 5].astype(given))


SHAPES = [((100,), (7,)), ((100,), (100,)), ((33, 5), (4, 5)),
          ((33, 5), (4, 2)), ((33, 5), (1, 1)), ((20, 9, 7), (3, 4, 5)),
          ((20, 9, 7), (6, 9, 7)), ((20, 9, 7), (6, 9, 2)),
          ((20, 9, 7), (20, 1, 7)), ((12, 3, 2, 5), (5, 2, 2, 3))]


@pytest.mark.parametrize("shape,chunks", SHAPES)
@pytest.mark.parametrize("window,step", [(1, 0), (5, 0), (6, 2), (4, 9),
                                         (0, 0)])
@pytest.mark.parametrize("kind", ["chunked", "all", "shuffle"])
def test_chunks_that_do_not_divide(tmp_path, shape, chunks, window, step,
                                   kind):
    a = numbers(shape, "<i4")
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f.create_dataset("x", data=a, **{**STORAGE[kind], "chunks": chunks})
    got = load(f"hdf5 {tmp_path}/x.h5 x window={window} step={step}", "x",
               threads=2)
    size, hop = window or shape[0], step or window or shape[0]
    assert len(got) == (shape[0] - size) // hop + 1
    for i, x in enumerate(got):
        rows = a[i * hop:i * hop + size]
        same(x, rows[0] if window == 1 else rows)


@pytest.mark.parametrize("fill", [None, -7, 2.5])
@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("storage", [
    dict(), dict(chunks=(4, 3)), dict(chunks=(4, 3), compression="gzip"),
    dict(chunks=(4, 3), maxshape=(None, 6)),
    dict(chunks=(4, 3), maxshape=(None, None), compression="gzip"),
    dict(chunks=(30, 6), compression="gzip", shuffle=True)])
def test_what_was_never_written_has_the_fill_value(tmp_path, fill, storage,
                                                   libver):
    with h5py.File(tmp_path / "x.h5", "w", libver=libver) as f:
        d = f.create_dataset("x", (30, 6), "<f4", fillvalue=fill, **storage)
        f.create_dataset("none", (30, 6), "<f4", fillvalue=fill, **storage)
        if "chunks" in storage:
            d[10:13, 2:5] = 9
            d[29, 5] = 1
        want = d[...]
    for name in ("x", "none"):
        got = load(f"hdf5 {tmp_path}/x.h5 {name} window=3", name)
        if name == "none":
            want = np.full((30, 6), fill or 0, "<f4")
        same(np.concatenate(got), want)


@pytest.mark.parametrize("kind", STORAGE)
@pytest.mark.parametrize("libver", ["earliest", "latest", "v108"])
@pytest.mark.parametrize("userblock", [0, 512])
def test_every_version_of_the_format(tmp_path, kind, libver, userblock):
    a = numbers((200, 3), "<i2")
    kw = dict(userblock_size=userblock) if userblock else {}
    with h5py.File(tmp_path / "x.h5", "w", libver=libver, **kw) as f:
        for i in range(30):  # headers in several pieces
            f.attrs[f"a{i}"] = np.zeros(50)
        d = f.create_dataset("x", data=a, **STORAGE[kind])
        for i in range(30):
            d.attrs[f"a{i}"] = np.zeros(50)
        d.attrs["k"] = 7
    text = f"hdf5 {tmp_path}/x.h5 x window=10 attributes=k"
    same(np.concatenate(load(text, "x")), a)
    assert [float(v) for v in load(text, "x_k")] == [7] * 20


def test_many_chunks_in_a_deep_index(tmp_path):
    a = numbers((9000, 2), "<i2")
    with h5py.File(tmp_path / "x.h5", "w") as f:
        d = f.create_dataset("x", (10, 2), "<i2", chunks=(1, 1),
                             maxshape=(None, 2), compression="gzip")
        d.resize((9000, 2))
        d[...] = a
        d.resize((8000, 2))
    same(np.stack(load(f"hdf5 {tmp_path}/x.h5 x", "x")), a[:8000])


@pytest.mark.parametrize("kind", STORAGE)
def test_shuffled_samples_over_many_files_and_threads(tmp_path, kind):
    parts = [numbers((n, 6), "<f4", n) for n in (40, 3, 0, 77, 5)]
    for i, a in enumerate(parts):
        with h5py.File(tmp_path / f"{i}.h5", "w") as f:
            f.create_dataset("x", data=a, maxshape=(None, 6),
                             **{**STORAGE[kind], "chunks": (8, 4)})
            f.create_dataset("deep/y", data=np.arange(len(a)) + 1000 * i,
                             **({} if i % 2 else STORAGE["chunked"])
                             if len(a) else {})
    text = f"hdf5 '{tmp_path}/?.h5' x,deep/y window=2 step=1 | batch 5"
    x = [p[k:k + 2] for p in parts for k in range(len(p) - 1)]
    y = [np.arange(k, k + 2) + 1000 * i for i, p in enumerate(parts)
         for k in range(len(p) - 1)]
    seen = 0
    for b in millrace.Loader(text, threads=4, seed=3):
        for k, i in enumerate(b.indices):
            same(b["x"][k], x[int(i)])
            same(b["y"][k], y[int(i)])
            seen += 1
    assert seen == len(x)


def test_whole_files_may_differ_in_length(tmp_path):
    parts = [numbers((n, 2), "<i2", n) for n in (4, 9)]
    for i, a in enumerate(parts):
        with h5py.File(tmp_path / f"{i}.h5", "w") as f:
            f["x"] = a
    loader = millrace.Loader(f"hdf5 '{tmp_path}/*.h5' x window=0 | batch 1",
                             order="sequential")
    for b, a in zip(loader, parts):
        same(np.asarray(b["x"]).reshape(a.shape), a)


@pytest.mark.parametrize("then", ["", " | normalize mean=0 std=1"])
def test_a_file_over_the_limit_is_refused_also_after_a_large_one(tmp_path,
                                                                 then):
    # The first one's buffer has more room than a sample may take.
    for i, n in enumerate((8_900_000, 40_000_000)):
        with h5py.File(tmp_path / f"{i}.h5", "w") as f:
            f["x"] = np.zeros(n, "u1")
    loader = millrace.Loader(
        f"hdf5 '{tmp_path}/*.h5' x window=0{then} | batch 1", memory="18M",
        threads=1, order="sequential", on_error="skip")
    assert len(list(loader)) == (1 if not then else 0)
    assert all("raise --memory" in b["reason"] for b in loader.bad_samples())
    assert [b["index"] for b in loader.bad_samples()][-1] == 1


def test_links_virtual_and_external_data_are_read_too(tmp_path):
    a = numbers((40, 3), "<f8")
    a.tofile(tmp_path / "raw")
    with h5py.File(tmp_path / "there.h5", "w") as f:
        f["x"] = a
    layout = h5py.VirtualLayout((40, 3), "<f8")
    layout[...] = h5py.VirtualSource(tmp_path / "there.h5", "x", (40, 3))
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f["soft"] = h5py.SoftLink("/raw")
        f["link"] = h5py.ExternalLink(tmp_path / "there.h5", "/x")
        f.create_virtual_dataset("virtual", layout)
        f.create_dataset("raw", (40, 3), "<f8", external=[
            (tmp_path / "raw", 0, a.nbytes)])
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_layout(h5py.h5d.COMPACT)
        d = h5py.h5d.create(f.id, b"compact", h5py.h5t.IEEE_F64LE,
                            h5py.h5s.create_simple((40, 3)), plist)
        d.write(h5py.h5s.ALL, h5py.h5s.ALL, a)
    for name in ("soft", "link", "virtual", "raw", "compact"):
        got = load(f"hdf5 {tmp_path}/x.h5 {name} window=4", name, threads=3)
        same(np.concatenate(got), a)


def test_chunks_whose_filters_were_skipped(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as f:
        d = f.create_dataset("x", (8, 4), "<i4", chunks=(2, 4),
                             compression="gzip", shuffle=True)
        d[:4] = 5
        raw = np.arange(8, dtype="<i4")
        d.id.write_direct_chunk((4, 0), raw.tobytes(), 3)  # neither
    with h5py.File(tmp_path / "x.h5") as f:
        want = f["x"][...]
    same(np.stack(load(f"hdf5 {tmp_path}/x.h5 x", "x")), want)


def test_names_of_fields_stay_apart(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f["a/x"], f["b/x"], f["y"] = np.zeros(3), np.ones(3), np.ones(3)
    loader = millrace.Loader(f"hdf5 {tmp_path}/x.h5 a/x,/b/x,y | batch 3")
    assert set(next(iter(loader))) == {"a_x", "b_x", "y"}


def test_more_files_than_may_be_open(tmp_path):
    import resource
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for i in range(80):
        with h5py.File(tmp_path / f"{i:03}.h5", "w") as f:
            f["x"] = np.arange(4) + 4 * i
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (70, hard))
        got = load(f"hdf5 '{tmp_path}/*.h5' x", "x", threads=2)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert [int(v) for v in got] == list(range(320))


# ---- what is refused, and damage ----

def refused(text, *words, capfd=None):
    with pytest.raises(Exception) as e:
        list(millrace.Loader(text + " | batch 1"))
    for w in words:
        assert w in str(e.value), str(e.value)
    if capfd:
        assert capfd.readouterr().err == ""


@pytest.fixture
def odd(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f["u8"] = np.zeros(3, "<u8")
        f["text"] = [b"a", b"b"]
        f["record"] = np.zeros(3, [("a", "<i4"), ("b", "<f4")])
        f["long"] = np.zeros(5)
        f["short"] = np.zeros(4)
        f["scalar"] = 3.5
        f["empty"] = np.zeros((3, 0))
        f.create_dataset("vlen", (3,), h5py.vlen_dtype("u1"))
        f["long"].attrs["list"] = [1, 2]
        f["long"].attrs["word"] = "word"
    return tmp_path / "x.h5"


@pytest.mark.parametrize("words,says", [
    ("u8", ["unsigned 64", "'u8'"]), ("text", ["texts"]),
    ("record", ["records"]), ("vlen", ["different lengths"]),
    ("long,short", ["5 rows", "4"]), ("scalar", ["dimensions"]),
    ("empty", ["without elements"]), ("what", ["no dataset 'what'", "long"]),
    ("''", ["say dataset=", "long, record"]), ("long,", ["empty name"]),
    ("long,long", ["two fields", "'long'"]),
    ("long window=6", ["no samples", "6 rows", "has 5"]),
    ("long window=0 step=2", ["step"]),
    ("long attributes=none", ["no", "attribute 'none'"]),
    ("long attributes=list", ["not a single number"]),
    ("long attributes=word", ["not a single number"])])
def test_refusals_say_why(odd, words, says, capfd):
    refused(f"hdf5 {odd} {words}", *says, capfd=capfd)


def test_files_that_are_none_are_named(tmp_path, capfd):
    (tmp_path / "a.h5").write_bytes(b"no such thing" * 100)
    (tmp_path / "b.h5").write_bytes(b"")
    refused(f"hdf5 {tmp_path}/a.h5 x", "a.h5", "signature", capfd=capfd)
    refused(f"hdf5 {tmp_path}/b.h5 x", "b.h5", capfd=capfd)
    refused(f"hdf5 {tmp_path}/c.h5 x", "c.h5", "no such file", capfd=capfd)
    refused(f"hdf5 {tmp_path} x", "not a file", capfd=capfd)


def test_files_that_differ_are_refused(tmp_path):
    for i, a in enumerate((np.zeros((3, 2)), np.zeros((3, 4)))):
        with h5py.File(tmp_path / f"{i}.h5", "w") as f:
            f["x"] = a
    refused(f"hdf5 '{tmp_path}/*.h5' x", "1.h5", "f64[4]", "0.h5", "f64[2]")


def test_a_file_cut_short_is_told_by_name(tmp_path, capfd):
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f.create_dataset("x", data=numbers((1000, 9), "<i4"),
                         chunks=(10, 9), compression="gzip")
    whole = (tmp_path / "x.h5").read_bytes()
    for n in (1, 100, 1000, len(whole) // 2, len(whole) - 1):
        (tmp_path / "x.h5").write_bytes(whole[:n])
        refused(f"hdf5 {tmp_path}/x.h5 x", "x.h5", capfd=capfd)


@pytest.mark.parametrize("kind", ["deflate", "shuffle", "fletcher", "all"])
def test_only_samples_in_a_damaged_chunk_are_lost(tmp_path, kind):
    a = numbers((1000, 9), "<i4")
    with h5py.File(tmp_path / "x.h5", "w") as f:
        d = f.create_dataset("x", data=a,
                             **{**STORAGE[kind], "chunks": (10, 9)})
        info = d.id.get_chunk_info(37)
    with open(tmp_path / "x.h5", "r+b") as f:
        f.seek(info.byte_offset + info.size // 2)
        f.write(b"\xff" * 30)
    text = f"hdf5 {tmp_path}/x.h5 x | batch 10"
    loader = millrace.Loader(text, on_error="skip", order="sequential")
    got = np.concatenate([np.array(b["x"]) for b in loader])
    same(got, np.delete(a, np.s_[370:380], 0))
    assert loader.stats()["bad_samples"] == 10
    with pytest.raises(Exception) as e:
        list(millrace.Loader(text))
    for w in ("x.h5", "dataset 'x'", "chunk [370, 0]",
              str(info.byte_offset)):
        assert w in str(e.value)


def test_a_chunk_larger_than_the_memory_is_refused(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f.create_dataset("x", (5000000, 4), "<f8", chunks=(5000000, 4),
                         compression="gzip")[:1] = 1
    with pytest.raises(Exception) as e:
        list(millrace.Loader(f"hdf5 {tmp_path}/x.h5 x | batch 1",
                             memory="64M"))
    assert "chunks of 160000000 bytes" in str(e.value)
    assert "--memory" in str(e.value)
