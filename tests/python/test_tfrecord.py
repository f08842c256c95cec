# SPDX-License-Identifier: Apache-2.0
"""tfrecord: against a parser of the wire format of its own, bad input, and
indexes that are kept."""
import gzip
import io
import os
import struct
import time
import zlib

import millrace
import numpy as np
import pytest

from containers import (example, feature, fields, masked, message,
                        read_records, record, samples, sequence, shared)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache folder of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "millrace"


def write(path, records):
    path.write_bytes(b"".join(record(r) for r in records))
    return path


def old(path):
    """As if it had been written long ago: its index may be kept."""
    os.utime(path, (1e9, 1e9))
    return path


@pytest.fixture
def numbers(tmp_path):
    return write(tmp_path / "n.tfrecord",
                 [example({"x": [i], "y": [float(i)], "z": list(range(i))})
                  for i in range(20)])


# ---- what others have written ----

def same(got, want):
    """A field and what the parser gave."""
    if want is None:
        assert got.size == 0
    elif isinstance(want, list):
        assert len(want) < 2 and got.tobytes() == b"".join(want)
    else:
        assert got.dtype == want.dtype
        assert np.array_equal(got.reshape(-1), want)


@pytest.mark.parametrize("name,want", [
    ("dmlab-train.tfrecord-00000-of-00001", ""),
    ("mnist.tfrecord", ""), ("nsynth-train.tfrecord", ""),
    ("penguin-train.tfrecord.gz", ""),
    ("taxi-train-00000-of-00012.tfrecord.gz",
     "company,dropoff_census_tract,dropoff_latitude,fare,payment_type,tips,"
     "pickup_community_area,trip_seconds,trip_start_timestamp"),
    ("taxi-train-00001-of-00012.tfrecord.gz",
     "pickup_longitude,pickup_latitude,dropoff_longitude,trip_miles,"
     "trip_start_month,trip_start_hour,trip_start_day,"
     "dropoff_community_area")])
def test_what_tensorflow_wrote_is_what_a_parser_finds(name, want):
    path = shared(f"tfrecord/{name}")
    data = path.read_bytes()
    if name.endswith(".gz"):
        data = gzip.decompress(data)
    records = list(read_records(data))
    got = samples(f"tfrecord {path} features={want}")
    assert len(got) == len(records)
    for i, r in enumerate(records):
        assert set(got[i]) == set(want.split(",") if want else r)
        for field, value in got[i].items():
            same(value, r[field])


def test_an_image_comes_first_so_that_it_is_decoded():
    image = pytest.importorskip("PIL.Image")
    path = shared("tfrecord/dmlab-train.tfrecord-00000-of-00001")
    got = samples(f"tfrecord {path} | decode_image")
    assert list(got[0])[0] == "image"
    for k, r in enumerate(read_records(path.read_bytes())):
        want = np.asarray(image.open(io.BytesIO(r["image"][0])))
        assert np.array_equal(got[k]["image"], want)


def test_bytes_that_begin_as_a_picture_come_before_names(tmp_path):
    write(tmp_path / "a", [example({"image/format": [b"jpeg"], "a": [b"x"],
                                    "photo": [b"\xff\xd8\xff\xe0abc"]})])
    assert list(fields(f"tfrecord {tmp_path}/a")) == [
        "photo", "image/format", "a"]


# ---- features and fields ----

def test_packed_and_unpacked_numbers_are_the_same(tmp_path):
    values = {"i": [1, -1, 300, 2**62, -2**63], "f": [1.5, -2.0, 0.25]}
    write(tmp_path / "a", [example(values, True), example(values, False)])
    got = samples(f"tfrecord {tmp_path}/a")
    for k in (0, 1):
        assert got[k]["i"].tolist() == values["i"]
        assert got[k]["f"].tolist() == values["f"]


def test_one_value_in_each_record_is_a_scalar_else_a_list(numbers):
    assert fields(f"tfrecord {numbers}") == {
        "x": "i64[]", "y": "f32[]", "z": "i64[?]"}
    got = samples(f"tfrecord {numbers}")
    assert [int(got[i]["x"]) for i in range(20)] == list(range(20))
    assert all(got[i]["z"].tolist() == list(range(i)) for i in range(20))


def test_features_are_chosen_in_order_and_shaped(tmp_path):
    write(tmp_path / "a", [example({"a": [1], "b": [1.0] * 6, "c": [b"x" * 4]})
                           for _ in range(3)])
    source = f"tfrecord {tmp_path}/a features='c[2x2],b[2x3],a[]'"
    assert fields(source) == {"c": "u8[2 2]", "b": "f32[2 3]", "a": "i64[?]"}
    assert samples(source)[0]["b"].shape == (2, 3)


def test_names_with_slashes_and_colons_are_kept(tmp_path):
    write(tmp_path / "a", [example({"image/class/label": [4], "a:b": [5],
                                    "has space,comma": [6]})])
    got = samples(f"tfrecord {tmp_path}/a")[0]
    assert got == {"a:b": 5, "has_space_comma": 6, "image/class/label": 4}
    batch = next(iter(millrace.Loader(
        f"tfrecord {tmp_path}/a | cast f32 field=image/class/label "
        "| select image/class/label | batch 1")))
    assert batch["image/class/label"].tolist() == [4.0]


def test_a_long_name_is_known_by_its_end(tmp_path):
    name = "a/very/long/prefix/of/many/parts/label_text"
    write(tmp_path / "a", [example({name: [4]})])
    assert list(fields(f"tfrecord {tmp_path}/a")) == [name[-31:]]
    assert samples(f"tfrecord {tmp_path}/a features={name}")[0]


def test_several_byte_values_come_joined_with_their_lengths(tmp_path):
    write(tmp_path / "a", [example({"t": [b"ab", b"", b"cde"]}),
                           example({"t": [b"f"]}), example({})])
    got = samples(f"tfrecord {tmp_path}/a")
    assert [(s["t"].tobytes(), s["t_lengths"].tolist())
            for s in got.values()] == [(b"abcde", [2, 0, 3]), (b"f", [1]),
                                       (b"", [])]


def test_a_missing_feature_is_an_empty_list(tmp_path):
    write(tmp_path / "a", [example({"a": [1], "b": [2, 3], "c": [b"x"]}),
                           example({"a": [1], "b": []}), example({"a": [2]})])
    got = samples(f"tfrecord {tmp_path}/a")
    assert [s["b"].tolist() for s in got.values()] == [[2, 3], [], []]
    assert [s["c"].tobytes() for s in got.values()] == [b"x", b"", b""]


def test_a_missing_scalar_is_an_error_that_names_record_and_feature(tmp_path):
    write(tmp_path / "a", [example({"a": [1]}), example({})])
    with pytest.raises(millrace.DataError,
                       match=r"a\[1\]: feature 'a' is missing.*features=a\[\]"):
        samples(f"tfrecord {tmp_path}/a examine=1")
    assert len(samples(f"tfrecord {tmp_path}/a examine=1",
                       on_error="skip")) == 1
    got = samples(f"tfrecord {tmp_path}/a examine=1 features='a[]'")
    assert [s["a"].tolist() for s in got.values()] == [[1], []]


def test_the_last_feature_of_a_name_counts(tmp_path):
    twice = message(1, b"".join(
        message(1, message(1, b"a") + message(2, feature([v])))
        for v in (1, 2)))
    write(tmp_path / "a", [twice])
    assert samples(f"tfrecord {tmp_path}/a")[0]["a"] == 2


def test_more_features_than_fields_must_be_chosen_from(tmp_path):
    write(tmp_path / "a", [example({f"f{i:02}": [i] for i in range(40)})])
    with pytest.raises(millrace.LimitError,
                       match="more than 32.*features=f00,f01") as e:
        samples(f"tfrecord {tmp_path}/a")
    # What is proposed can be pasted.
    few = str(e.value).rpartition(" ")[2]
    assert list(samples(f"tfrecord {tmp_path}/a {few}")[0]) == [
        f"f{i:02}" for i in range(32)]
    assert samples(f"tfrecord {tmp_path}/a features=f19,f03")[0] == {
        "f19": 19, "f03": 3}
    with pytest.raises(millrace.Error, match="no feature 'nix'.*f00"):
        samples(f"tfrecord {tmp_path}/a features=nix")
    with pytest.raises(millrace.Error, match=r"'f01\[28x28' has a \["):
        samples(f"tfrecord {tmp_path}/a features=f01[28x28")


def test_sequence_examples_give_steps(tmp_path):
    write(tmp_path / "a", [
        sequence({"id": [7]}, {"tok": [[1], [2], [3]],
                               "vec": [[1.0, 2.0], [3.0, 4.0]],
                               "rag": [[1, 2], [], [3]],
                               "txt": [[b"ab"], [b"c"]]}),
        sequence({"id": [8]}, {"tok": [[4]], "vec": [], "rag": [[5]],
                               "txt": [[b""]]})])
    source = f"tfrecord {tmp_path}/a"
    assert fields(source) == {
        "id": "i64[]", "rag": "i64[?]", "rag_lengths": "i64[?]",
        "tok": "i64[?]", "txt": "u8[?]", "txt_lengths": "i64[?]",
        "vec": "f32[? 2]"}
    a, b = samples(source).values()
    assert a["tok"].tolist() == [1, 2, 3] and b["tok"].tolist() == [4]
    assert a["vec"].tolist() == [[1, 2], [3, 4]] and b["vec"].shape == (0, 2)
    assert a["rag"].tolist() == [1, 2, 3]
    assert a["rag_lengths"].tolist() == [2, 0, 1]
    assert a["txt"].tobytes() == b"abc" and a["txt_lengths"].tolist() == [2, 1]


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress,
                                  lambda d: gzip.compress(d[:100]) +
                                  gzip.compress(d[100:])])
def test_compressed_files_are_the_same(tmp_path, numbers, pack):
    (tmp_path / "p").write_bytes(pack(numbers.read_bytes()))
    want, got = (samples(f"tfrecord {p}") for p in (numbers, tmp_path / "p"))
    assert want.keys() == got.keys()
    for k in want:
        assert all(np.array_equal(want[k][f], got[k][f]) for f in want[k])


def test_files_are_taken_in_order_and_mixed(tmp_path, numbers):
    (tmp_path / "o.tfrecord").write_bytes(gzip.compress(numbers.read_bytes()))
    write(tmp_path / "p.tfrecord", [])
    got = samples(f"tfrecord {tmp_path}/*.tfrecord")
    assert [int(got[i]["x"]) for i in range(40)] == [*range(20)] * 2


# ---- bad input ----

def test_a_bad_checksum_loses_that_record_only(tmp_path, numbers):
    data = bytearray(numbers.read_bytes())
    at = len(record(example({"x": [0], "y": [0.0], "z": []})))
    data[at + 20] ^= 1
    numbers.write_bytes(data)
    with pytest.raises(millrace.DataError,
                       match=rf"n.tfrecord\[1\]: .*byte {at} is damaged.*"
                       "checksum"):
        samples(f"tfrecord {numbers}")
    got = samples(f"tfrecord {numbers}", on_error="skip")
    assert sorted(got) == [0, *range(2, 20)]


def test_checks_can_be_switched_off(tmp_path):
    data = bytearray(record(example({"x": [b"abc"]})))
    data[-5] ^= 1
    (tmp_path / "a").write_bytes(data + record(example({"x": [b"d"]})))
    got = samples(f"tfrecord {tmp_path}/a check=no")
    assert got[0]["x"].tobytes() == b"ab" + bytes([ord("c") ^ 1])
    assert sorted(samples(f"tfrecord {tmp_path}/a", on_error="skip")) == [1]


@pytest.mark.parametrize("cut", [1, 5, 17, 30])
def test_a_truncated_file_loses_its_last_record(tmp_path, numbers, cut):
    whole = numbers.read_bytes()
    numbers.write_bytes(whole[:-cut])
    with pytest.raises(millrace.DataError, match=r"\[19\]: truncated.*byte"):
        samples(f"tfrecord {numbers}")
    assert sorted(samples(f"tfrecord {numbers}", on_error="skip")) == \
        [*range(19)]


def test_a_bad_length_loses_what_follows_and_says_so(tmp_path, numbers):
    data = bytearray(numbers.read_bytes())
    at = len(record(example({"x": [0], "y": [0.0], "z": []})))
    data[at] ^= 1
    numbers.write_bytes(data)
    with pytest.raises(millrace.DataError,
                       match=rf"\[1\]: the checksum of the length at byte "
                       rf"{at} is wrong; all after it is lost"):
        samples(f"tfrecord {numbers}")
    assert sorted(samples(f"tfrecord {numbers}", on_error="skip")) == [0]


def test_lengths_that_lie_take_no_memory(tmp_path):
    length = struct.pack("<Q", 1 << 62)
    good = record(example({"a": [1]}))
    (tmp_path / "a").write_bytes(
        good + length + struct.pack("<I", masked(length)) + b"x" * 10)
    with pytest.raises(millrace.DataError, match="truncated"):
        samples(f"tfrecord {tmp_path}/a")
    body = b"\x0a\xff\xff\xff\xff\x0f"
    write(tmp_path / "b", [example({"a": [1]}), body])
    with pytest.raises(millrace.DataError, match=r"b\[1\]: .*no tf.train"):
        samples(f"tfrecord {tmp_path}/b examine=1")


@pytest.mark.parametrize("data,says", [
    (b"hello world, this is no record file", "is no TFRecord file"),
    (b"short", "is no TFRecord file"), (b"", "empty"),
    (gzip.compress(b"also none, but packed"), "is no TFRecord file")])
def test_other_files_are_refused(tmp_path, data, says):
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(millrace.DataError, match=says):
        samples(f"tfrecord {tmp_path}/a")


def test_damaged_and_cut_gzip_is_an_error_with_the_place(tmp_path, numbers):
    packed = gzip.compress(numbers.read_bytes())
    (tmp_path / "a").write_bytes(packed[:-20])
    with pytest.raises(millrace.DataError, match="a: truncated"):
        samples(f"tfrecord {tmp_path}/a")
    (tmp_path / "b").write_bytes(packed[:60] + b"\xff" * 40 + packed[100:])
    with pytest.raises(millrace.DataError, match="b: .*damaged.*byte"):
        samples(f"tfrecord {tmp_path}/b")


def test_a_bomb_stops_at_the_bound(tmp_path):
    (tmp_path / "a").write_bytes(gzip.compress(bytes(50 << 20)))
    with pytest.raises(millrace.LimitError, match="unpack="):
        samples(f"tfrecord {tmp_path}/a unpack=1M")


def test_types_that_change_are_noticed(tmp_path):
    write(tmp_path / "a", [example({"a": [1]}), example({"a": [1.0]})])
    with pytest.raises(millrace.DataError, match=r"a\[1\]: feature 'a' holds "
                       "floats here, and integers before"):
        samples(f"tfrecord {tmp_path}/a")
    with pytest.raises(millrace.DataError, match=r"a\[1\]: .*another type"):
        samples(f"tfrecord {tmp_path}/a examine=1")


# ---- kept indexes ----

def large(tmp_path, seed=0):
    """Over a megabyte, so that its index is kept."""
    rng = np.random.default_rng(seed)
    return old(write(tmp_path / "l.tfrecord", [
        example({"i": [i], "d": [rng.bytes(20000)]}) for i in range(60)]))


def test_an_index_is_kept_beside_the_file_and_used(tmp_path):
    path = large(tmp_path)
    want = samples(f"tfrecord {path}")
    index = tmp_path / "l.tfrecord.mri"
    assert index.exists()
    made = index.stat().st_mtime_ns
    got = samples(f"tfrecord '{tmp_path}/*'")
    assert index.stat().st_mtime_ns == made
    assert sorted(got) == sorted(want)
    assert all(np.array_equal(got[k]["d"], want[k]["d"]) for k in want)


def test_a_stale_or_damaged_index_is_made_again(tmp_path):
    path = large(tmp_path)
    index = tmp_path / "l.tfrecord.mri"
    samples(f"tfrecord {path}")
    good = index.read_bytes()
    for bad in (b"", good[:-1], good[:50] + b"\1" + good[51:], good + b"x",
                b"\xff" * 200):
        index.write_bytes(bad)
        assert len(samples(f"tfrecord {path}")) == 60
        assert index.read_bytes() == good
    # another file of the same size, changed later
    large(tmp_path, seed=1)
    os.utime(path, (1e9 + 1, 1e9 + 1))
    assert len(samples(f"tfrecord {path}")) == 60
    assert index.read_bytes() != good


def test_a_folder_that_is_read_only_is_left_alone(tmp_path, cache):
    folder = tmp_path / "ro"
    folder.mkdir()
    path = large(folder)
    folder.chmod(0o555)
    try:
        assert len(samples(f"tfrecord {path}")) == 60
        assert [p.name for p in folder.iterdir()] == ["l.tfrecord"]
        kept = list(cache.iterdir())
        assert len(kept) == 1
        made = kept[0].stat().st_mtime_ns
        assert len(samples(f"tfrecord {path}")) == 60
        assert kept[0].stat().st_mtime_ns == made
    finally:
        folder.chmod(0o755)


def test_where_an_index_is_kept_can_be_said(tmp_path, cache, numbers):
    old(numbers)
    beside = tmp_path / "n.tfrecord.mri"
    samples(f"tfrecord {numbers} index=no")
    samples(f"tfrecord {numbers}")  # small: not worth it
    assert not beside.exists() and not cache.exists()
    samples(f"tfrecord {numbers} index=cache")
    assert not beside.exists() and len(list(cache.iterdir())) == 1
    samples(f"tfrecord {numbers} index=beside")
    assert beside.exists()


def test_a_file_that_changes_now_has_no_index_kept(tmp_path, cache, numbers):
    os.utime(numbers, (time.time(), time.time()))
    samples(f"tfrecord {numbers} index=beside")
    assert not (tmp_path / "n.tfrecord.mri").exists()


def test_without_any_place_for_an_index_it_works(tmp_path, monkeypatch):
    path = large(tmp_path)
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("HOME", raising=False)
    tmp_path.chmod(0o555)
    try:
        assert len(samples(f"tfrecord {path}")) == 60
        for where in "cache", "beside":
            with pytest.raises(millrace.StorageError, match=f"index={where}: "
                               ".*l.tfrecord: .*folder"):
                samples(f"tfrecord {path} index={where}")
    finally:
        tmp_path.chmod(0o755)


@pytest.mark.parametrize("threads", [1, 5])
def test_many_files_are_in_order_whatever_the_threads(tmp_path, threads):
    for i in range(23):
        write(tmp_path / f"{i:02}", [example({"x": [i * 10 + k]})
                                     for k in range(i % 4)])
        if i % 3 == 0:
            old = tmp_path / f"{i:02}"
            old.write_bytes(gzip.compress(old.read_bytes()))
    got = samples(f"tfrecord '{tmp_path}/??'", threads=threads)
    assert [int(s["x"]) for s in got.values()] == [
        i * 10 + k for i in range(23) for k in range(i % 4)]


def test_the_same_comes_from_a_mapping(tmp_path):
    path = large(tmp_path)
    with open(tmp_path / "g", "wb") as f:
        f.write(gzip.compress(path.read_bytes()))
    want = samples(f"tfrecord {path}")
    for source in str(path), f"{tmp_path}/g":
        for fetch in "direct", "ahead":
            got = samples(f"tfrecord {source} map=yes", fetch=fetch)
            assert all(got[k]["i"] == want[k]["i"] and
                       np.array_equal(got[k]["d"], want[k]["d"])
                       for k in want)


def test_a_mapped_file_that_shrinks_loses_what_is_gone(tmp_path):
    path = large(tmp_path)
    loader = millrace.Loader(f"tfrecord {path} map=yes | batch 1", epochs=1,
                             memory="1M", order="sequential", threads=1,
                             on_error="skip")
    it = iter(loader)
    next(it)
    os.truncate(path, path.stat().st_size // 2)
    assert 1 + sum(1 for _ in it) + len(loader.bad_samples()) == 60
    assert len(loader.bad_samples()) >= 29


def test_the_same_bytes_come_out_with_any_number_of_threads(tmp_path):
    path = large(tmp_path)
    one, five = (samples(f"tfrecord {path}", threads=n, order="shuffle")
                 for n in (1, 5))
    assert list(one) == list(five)
    assert all(np.array_equal(one[k]["d"], five[k]["d"]) for k in one)
