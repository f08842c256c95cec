# SPDX-License-Identifier: Apache-2.0
"""mds: MosaicML's shards, against a reader of its own, and what is wrong
with them."""
import ctypes
import ctypes.util
import gzip
import io
import json

import millrace
import numpy as np
import pytest

from containers import fields, mds_read, mds_write, samples, shared

WIDER = {"uint16": "int32", "uint32": "int64", "uint64": "int64",
         "int8": "int16"}
ROWS = [{"i": i, "s": "ä" * i} for i in range(10)]
COLUMNS = {"i": "int", "s": "str"}


def zstd(data):
    """By the C library; Python has none of its own."""
    name = ctypes.util.find_library("zstd")
    if not name:
        pytest.skip("no libzstd")
    z = ctypes.CDLL(name)
    z.ZSTD_compressBound.restype = z.ZSTD_compress.restype = ctypes.c_size_t
    z.ZSTD_compressBound.argtypes = [ctypes.c_size_t]
    z.ZSTD_compress.argtypes = [ctypes.c_void_p, ctypes.c_size_t,
                                ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int]
    out = ctypes.create_string_buffer(z.ZSTD_compressBound(len(data)))
    n = z.ZSTD_compress(out, len(out), data, len(data), 3)
    return out.raw[:n]


def edit(folder, change):
    index = json.loads((folder / "index.json").read_text())
    change(index)
    (folder / "index.json").write_text(json.dumps(index))
    return folder


# ---- what others have written ----

@pytest.mark.parametrize("name", ["inet40", "mosaic-sample/color",
                                  "mosaic-sample/pet", "mosaic-sample/x",
                                  "mosaic-sample/y"])
def test_what_mosaicml_wrote_is_what_a_reader_finds(name):
    folder = shared(f"mds/{name}")
    want = list(mds_read(folder))
    got = samples(f"mds {folder}")
    assert len(got) == len(want)
    for k, row in enumerate(want):
        assert set(got[k]) == set(row)
        for field, (encoding, data) in row.items():
            if encoding == "ndarray:float64":
                assert data[0] == 1 << 2
                assert got[k][field].dtype == np.float64
                data = data[2:]
            assert got[k][field].tobytes() == data


def test_its_photos_are_photos():
    image = pytest.importorskip("PIL.Image")
    folder = shared("mds/inet40")
    assert list(fields(f"mds {folder}")) == ["image", "file", "label"]
    got = samples(f"mds {folder} | decode_image")
    assert len(got) == 40
    for k, row in enumerate(mds_read(folder)):
        want = np.asarray(image.open(io.BytesIO(row["image"][1]))
                          .convert("RGB"))
        assert np.array_equal(got[k]["image"], want)


# ---- columns ----

@pytest.mark.parametrize("kind", ["uint8", "uint16", "uint32", "uint64",
                                  "int8", "int16", "int32", "int64",
                                  "float16", "float32", "float64"])
def test_numbers_of_each_kind_keep_their_value(tmp_path, kind):
    dtype = np.dtype(kind)
    values = [0, 1, 100, 2.5] if dtype.kind == "f" else \
        [0, 1, np.iinfo(dtype).max if kind != "uint64" else 2**63 - 1,
         np.iinfo(dtype).min]
    a = [np.array([[v, 1, 2]], dtype) for v in values]
    columns = {"n": kind, "a": f"ndarray:{kind}:1,3", "b": f"ndarray:{kind}",
               "c": "ndarray"}
    mds_write(tmp_path, columns, [[{"n": v, "a": x, "b": x, "c": x}
                                   for v, x in zip(values, a)]])
    got = samples(f"mds {tmp_path}")
    for k, v in enumerate(values):
        for f in columns:
            assert got[k][f].dtype == np.dtype(WIDER.get(kind, kind))
        assert got[k]["n"] == v and got[k]["n"].shape == ()
        for f in "abc":
            assert got[k][f].tolist() == a[k].tolist()


def test_a_uint64_that_does_not_fit_is_a_bad_sample(tmp_path):
    mds_write(tmp_path, {"n": "uint64"}, [[{"n": 1}, {"n": 2**63}]])
    with pytest.raises(millrace.DataError, match=r"\[1\]: .*9223372036854775808"
                       " does not fit"):
        samples(f"mds {tmp_path}")
    assert list(samples(f"mds {tmp_path}", on_error="skip")) == [0]


def test_arrays_may_differ_in_shape(tmp_path):
    arrays = [np.full((i + 1, 300), i, np.float32) for i in range(4)]
    mds_write(tmp_path, {"a": "ndarray"}, [[{"a": a} for a in arrays]])
    assert fields(f"mds {tmp_path}") == {"a": "f32[? ?]"}
    got = samples(f"mds {tmp_path}")
    assert all(np.array_equal(got[i]["a"], a) for i, a in enumerate(arrays))


def test_arrays_of_another_type_are_bad_samples(tmp_path):
    mds_write(tmp_path, {"a": "ndarray"}, [[
        {"a": np.zeros(3, np.int32)}, {"a": np.zeros(3, np.int16)},
        {"a": np.zeros((3, 1), np.int32)}]])
    assert list(samples(f"mds {tmp_path}", on_error="skip")) == [0]


def test_what_is_not_known_comes_as_bytes(tmp_path):
    mds_write(tmp_path, {"p": "pkl", "j": "json", "x": "bytes"},
              [[{"p": b"\x80\x04.", "j": {"a": [1]}, "x": b""}]])
    edit(tmp_path, lambda x: x["shards"][0].update(
        column_encodings=["pkl", "json", "of_the_future"]))
    got = samples(f"mds {tmp_path}")[0]
    assert {k: v.tobytes() for k, v in got.items()} == {
        "p": b"\x80\x04.", "j": b'{"a": [1]}', "x": b""}


def test_columns_are_chosen_in_order(tmp_path):
    names = [f"c{i}" for i in range(40)]
    mds_write(tmp_path, {n: "str" for n in names},
              [[{n: n for n in names}]])
    got = samples(f"mds {tmp_path} columns=c7,c19,c0")[0]
    assert [(k, v.tobytes()) for k, v in got.items()] == [
        ("c7", b"c7"), ("c19", b"c19"), ("c0", b"c0")]
    with pytest.raises(millrace.LimitError, match="40 columns.*columns="):
        samples(f"mds {tmp_path}")
    with pytest.raises(millrace.Error, match="no column 'x'.*c0 c1"):
        samples(f"mds {tmp_path} columns=x")


@pytest.mark.parametrize("pack,name", [(zstd, "zstd:3"),
                                       (gzip.compress, "gz")])
def test_compressed_shards_are_the_same(tmp_path, pack, name):
    mds_write(tmp_path / "z", COLUMNS, [ROWS[:4], ROWS[4:]], pack, name)
    got = samples(f"mds {tmp_path}/z")
    assert [(int(g["i"]), g["s"].tobytes().decode()) for g in got.values()] \
        == [(r["i"], r["s"]) for r in ROWS]
    bomb = [{"i": 0, "s": "a" * (20 << 20)}]
    mds_write(tmp_path / "b", COLUMNS, [bomb], pack, name)
    with pytest.raises(millrace.LimitError, match="unpack="):
        samples(f"mds {tmp_path}/b unpack=1M")
    shard = next((tmp_path / "z").glob("shard.00000*"))
    shard.write_bytes(shard.read_bytes()[:-3])
    with pytest.raises(millrace.DataError, match="shard.00000.*truncated"):
        samples(f"mds {tmp_path}/z")


def test_shards_may_lie_in_folders(tmp_path):
    mds_write(tmp_path / "0", COLUMNS, [ROWS])
    (tmp_path / "index.json").write_text(
        (tmp_path / "0" / "index.json").read_text()
        .replace("shard.00000", "0/shard.00000"))
    assert len(samples(f"mds {tmp_path}")) == 10


# ---- bad input ----

@pytest.mark.parametrize("name", ["../x.mds", "/etc/passwd", "a/../../b",
                                  "a//b", "..", ".", "http://x/y"])
def test_files_outside_of_the_folder_are_refused(tmp_path, name):
    mds_write(tmp_path, COLUMNS, [ROWS])
    edit(tmp_path, lambda x: x["shards"][0]["raw_data"].update(basename=name))
    with pytest.raises(millrace.DataError, match="shard 0.*not inside"):
        samples(f"mds {tmp_path}")


@pytest.mark.parametrize("change,says", [
    ({"samples": 1 << 40}, "no number of samples"),
    ({"samples": 10**30}, "no number of samples"),
    ({"samples": -1}, "no number of samples"),
    ({"samples": "10"}, "no number of samples"),
    ({"samples": 4000000000}, "too few for a shard"),
    ({"samples": 9}, "10 samples, and index.json says 9"),
    ({"format": "json"}, "format is not 'mds'"),
    ({"column_names": ["i"]}, "1, 2 and 2 entries"),
    ({"column_names": [["i"], "s"]}, "name is not a text"),
    ({"column_encodings": [1, 2]}, "encoding is not a text"),
    ({"column_sizes": [-8, None]}, "not a number of bytes"),
    ({"column_sizes": [10**30, None]}, "not a number of bytes"),
    ({"column_sizes": [4, None]}, "its size is another"),
    ({"column_encodings": ["ndarray:int64:2,2", "str"]}, "what its shape"),
    ({"column_encodings": ["ndarray:int64:99999999,99999999,99999999", "str"]},
     "what its shape"),
    ({"column_encodings": ["ndarray:float99:2", "str"]}, "no such type"),
    ({"raw_data": None}, "names no file"),
    ({"raw_data": {"basename": 7}}, "names no file"),
    ({"raw_data": {"basename": "gone.mds"}}, "gone.mds"),
    ({"compression": "br:11"}, "'br:11' is not supported")])
def test_an_index_that_lies_is_refused(tmp_path, change, says):
    mds_write(tmp_path, COLUMNS, [ROWS])
    edit(tmp_path, lambda x: x["shards"][0].update(change))
    with pytest.raises(millrace.Error, match=says):
        samples(f"mds {tmp_path}")


@pytest.mark.parametrize("text,says", [
    ("", "no JSON"), ("{", "no JSON"), ("[" * 10000, "no JSON"),
    ("[]", "no index"), ("{}", "no index"), ('{"version": 3}', "no index"),
    ('{"version": 2, "shards": []}', "empty"),
    ('{"version": 2, "shards": [1]}', "shard 0"),
    ('{"version": 2, "shards": {}}', "no index")])
def test_other_json_is_refused(tmp_path, text, says):
    (tmp_path / "index.json").write_text(text)
    with pytest.raises(millrace.DataError, match=says):
        samples(f"mds {tmp_path}")


def test_shards_that_differ_are_refused(tmp_path):
    mds_write(tmp_path, COLUMNS, [ROWS, ROWS])
    edit(tmp_path, lambda x: x["shards"][1].update(column_names=["i", "t"]))
    with pytest.raises(millrace.DataError, match="shard 1.*must agree"):
        samples(f"mds {tmp_path}")


def test_no_folder_and_no_index_are_errors(tmp_path):
    with pytest.raises(millrace.StorageError, match="index.json"):
        samples(f"mds {tmp_path}")


@pytest.mark.parametrize("at,value,lost", [
    (3, 2**32 - 1, {2, 3}), (3, 0, {2, 3}), (4, 60, {3, 4}), (10, 5, {9})])
def test_an_offset_that_lies_costs_its_neighbours_only(tmp_path, at, value,
                                                       lost):
    mds_write(tmp_path, COLUMNS, [ROWS])
    shard = tmp_path / "shard.00000.mds"
    data = bytearray(shard.read_bytes())
    data[4 + 4 * at:8 + 4 * at] = value.to_bytes(4, "little")
    shard.write_bytes(data)
    with pytest.raises(millrace.DataError, match=r"mds\[\d\]: "):
        samples(f"mds {tmp_path}")
    assert set(range(10)) - set(samples(f"mds {tmp_path}", on_error="skip")) \
        == lost


def test_a_truncated_shard_loses_what_was_cut(tmp_path):
    mds_write(tmp_path, COLUMNS, [ROWS])
    shard = tmp_path / "shard.00000.mds"
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(millrace.DataError, match=r"mds\[9\]: truncated"):
        samples(f"mds {tmp_path}")
    assert len(samples(f"mds {tmp_path}", on_error="skip")) == 9


def test_a_column_longer_than_its_sample_is_noticed(tmp_path):
    mds_write(tmp_path, COLUMNS, [ROWS])
    shard = tmp_path / "shard.00000.mds"
    data = bytearray(shard.read_bytes())
    at = int.from_bytes(data[4 + 4 * 5:8 + 4 * 5], "little")
    data[at:at + 4] = b"\xff\xff\xff\xff"
    shard.write_bytes(data)
    with pytest.raises(millrace.DataError, match=r"mds\[5\]: its columns need"):
        samples(f"mds {tmp_path}")
