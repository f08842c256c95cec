# SPDX-License-Identifier: Apache-2.0
"""beton: what FFCV wrote, files made by hand, and damaged ones."""
import io
import json
import struct
import subprocess
import sys

import millrace
import numpy as np
import pytest

from containers import Place, beton_write, fields, samples, shared

FLOAT, INT, IMAGE, BYTES, ARRAY, JSON = range(6)
IMAGE_ROW = np.dtype([("mode", "<u1"), ("width", "<u2"), ("height", "<u2"),
                      ("place", "<u8")])
BYTES_ROW = np.dtype([("place", "<u8"), ("size", "<u8")])


def row(*types):
    return np.dtype([("", t) for t in types], align=True)


def array_args(dtype, shape):
    text = json.dumps(np.dtype(dtype).descr).encode()
    dims = np.zeros(32, "<u8")
    dims[:len(shape)] = shape
    return dims.tobytes() + struct.pack("<Q", len(text)) + text


def pixels(k, h=5, w=4):
    return np.random.default_rng(k).integers(0, 256, (h, w, 3), np.uint8)


def pictures(path, n=6, jpeg=(), size=lambda k: (5, 4), **more):
    """Images and labels; those in `jpeg` are JPEGs."""
    image = pytest.importorskip("PIL.Image")
    rows, regions = [], []
    for k in range(n):
        h, w = size(k)
        data = pixels(k, h, w).tobytes()
        if k in jpeg:
            f = io.BytesIO()
            image.fromarray(pixels(k, h, w)).save(f, "JPEG")
            data = f.getvalue()
        rows.append(((int(k not in jpeg), w, h, Place(k)), k * 10))
        regions.append((k, data))
    return beton_write(path, ["image", "label"], [IMAGE, INT], rows, regions,
                       row(IMAGE_ROW, "<i8"), **more), [d for _, d in regions]


# ---- what FFCV wrote ----

def test_the_shared_file_has_its_labels_and_pictures():
    image = pytest.importorskip("PIL.Image")
    path = shared("beton/inet40-raw-64x64.beton")
    about = json.loads(path.with_name(path.name + ".json").read_text())
    got = samples(f"beton {path}")
    assert fields(f"beton {path}") == {"image": "u8[64 64 3]",
                                       "label": "i64[]"}
    assert len(got) == about["n"] == 40
    folder = shared("..") / "jpeg" / "imagenet"
    for s in about["samples"]:
        assert got[s["i"]]["label"] == s["label"]
        assert got[s["i"]]["image"].std() > 5
        name = folder / s["file"]
        if name.exists():  # the same photo, however it was scaled
            small = image.open(name).convert("RGB").resize((64, 64))
            a = np.asarray(small, float).reshape(-1)
            b = got[s["i"]]["image"].astype(float).reshape(-1)
            assert np.corrcoef(a, b)[0, 1] > 0.3


MODES = ["raw", "jpg", "proportion"]
WRITER = """
import sys
import numpy as np
from ffcv.writer import DatasetWriter
from ffcv.fields import (RGBImageField, IntField, FloatField, BytesField,
                         JSONField, NDArrayField)
class Set:
    def __init__(self, names):
        self.names = names
    def __len__(self):
        return 30
    def __getitem__(self, k):
        k = int(k)
        r = np.random.default_rng(k)
        s = {"img": r.integers(0, 256, (20 + k, 16, 3), np.uint8), "int": k,
             "float": k / 3, "json": {"k": k},
             "bytes": np.frombuffer(bytes([k] * (k + 1)), np.uint8),
             "arr": np.full((2, 3), k, np.float32),
             "wide": np.full((4,), k, np.uint16)}
        return tuple(s[n] for n in self.names)
for mode in sys.argv[2:]:
    fields = {"img": RGBImageField(write_mode=mode), "int": IntField(),
              "float": FloatField(), "bytes": BytesField(),
              "json": JSONField(),
              "arr": NDArrayField(np.dtype("float32"), (2, 3)),
              "wide": NDArrayField(np.dtype("uint16"), (4,))}
    if mode == "proportion":    # another order of the row's parts
        fields = dict(sorted(fields.items()))
    DatasetWriter(f"{sys.argv[1]}/{mode}.beton", fields, page_size=1 << 21,
                  num_workers=2).from_indexed_dataset(Set(list(fields)),
                                                      chunksize=4)
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A folder with a file in each mode; FFCV itself takes long to load."""
    folder = tmp_path_factory.mktemp("ffcv")
    r = subprocess.run([sys.executable, "-c", WRITER, str(folder), *MODES],
                       capture_output=True, text=True, timeout=120)
    if "ModuleNotFoundError" in r.stderr or "ImportError" in r.stderr:
        pytest.skip("FFCV cannot be imported")
    assert r.returncode == 0, r.stderr
    return folder


@pytest.mark.parametrize("mode", MODES)
def test_all_that_ffcv_itself_writes_is_read(written, mode):
    path = written / f"{mode}.beton"
    assert list(fields(f"beton {path}"))[0] == "img"
    step = "" if mode == "raw" else " | decode_image field=img"
    got = samples(f"beton {path}{step}")
    assert len(got) == 30
    for k, s in got.items():
        want = np.random.default_rng(k).integers(0, 256, (20 + k, 16, 3),
                                                 np.uint8)
        assert s["img"].shape == want.shape
        exact = np.array_equal(s["img"], want)
        assert exact or mode != "raw"
        if mode != "raw":   # noise survives JPEG badly, but it does
            a, b = (x.astype(float).reshape(-1) for x in (s["img"], want))
            assert np.corrcoef(a, b)[0, 1] > 0.3
        assert s["int"] == k and s["float"] == k / 3
        assert s["bytes"].tobytes() == bytes([k] * (k + 1))
        assert json.loads(s["json"].tobytes()) == {"k": k}
        assert s["arr"].dtype == np.float32 and (s["arr"] == k).all()
        assert s["wide"].tolist() == [k] * 4


# ---- by hand ----

def test_raw_pictures_of_one_size_have_a_shape(tmp_path):
    path, _ = pictures(tmp_path / "a")
    assert fields(f"beton {path}") == {"image": "u8[5 4 3]", "label": "i64[]"}
    got = samples(f"beton {path}")
    for k in range(6):
        assert np.array_equal(got[k]["image"], pixels(k))
        assert got[k]["label"] == 10 * k


def test_raw_pictures_may_differ_in_size(tmp_path):
    path, _ = pictures(tmp_path / "a", size=lambda k: (k + 1, 7 - k))
    assert fields(f"beton {path}")["image"] == "u8[? ? 3]"
    got = samples(f"beton {path}")
    assert all(np.array_equal(got[k]["image"], pixels(k, k + 1, 7 - k))
               for k in got)


def test_jpegs_come_as_their_bytes(tmp_path):
    path, data = pictures(tmp_path / "a", jpeg=range(6))
    got = samples(f"beton {path}")
    assert [got[k]["image"].tobytes() for k in range(6)] == data


@pytest.mark.parametrize("side", [5, 200])  # one block, and several
def test_raw_pictures_among_jpegs_come_as_png(tmp_path, side):
    path, data = pictures(tmp_path / "a", jpeg={1, 2},
                          size=lambda k: (side, side + k))
    got = samples(f"beton {path}")
    assert got[0]["image"][1:4].tobytes() == b"PNG"
    assert got[1]["image"].tobytes() == data[1]
    image = pytest.importorskip("PIL.Image")
    opened = image.open(io.BytesIO(got[0]["image"].tobytes()))
    assert np.array_equal(np.asarray(opened), pixels(0, side, side))
    got = samples(f"beton {path} | decode_image")
    for k in (0, 3, 4, 5):
        assert np.array_equal(got[k]["image"], pixels(k, side, side + k))


def test_numbers_alone_need_no_data(tmp_path):
    path = beton_write(tmp_path / "a", ["f", "i"], [FLOAT, INT],
                       [(k / 7, -k) for k in range(9)], [], row("<f8", "<i8"))
    got = samples(f"beton {path}")
    assert [(float(s["f"]), int(s["i"])) for s in got.values()] == [
        (k / 7, -k) for k in range(9)]


def test_bytes_may_be_empty_and_json_loses_its_zero(tmp_path):
    rows = [((Place(0), 0), (Place(1), 3)), ((Place(2), 2), (Place(3), 5))]
    path = beton_write(tmp_path / "a", ["b", "j"], [BYTES, JSON], rows,
                       [(0, b""), (0, b"[]\0"), (1, b"xy"), (1, b"[12]\0")],
                       row(BYTES_ROW, BYTES_ROW))
    got = samples(f"beton {path}")
    assert [(s["b"].tobytes(), s["j"].tobytes()) for s in got.values()] == [
        (b"", b"[]"), (b"xy", b"[12]")]


def test_arrays_keep_shape_and_value(tmp_path):
    a = np.arange(24, dtype="<i2").reshape(2, 3, 4)
    path = beton_write(tmp_path / "a", ["a"], [ARRAY], [(Place(0),)],
                       [(0, a.tobytes())], row("<u8"),
                       args={"a": array_args("<i2", (2, 3, 4))})
    assert fields(f"beton {path}") == {"a": "i16[2 3 4]"}
    assert np.array_equal(samples(f"beton {path}")[0]["a"], a)


# ---- bad input ----

def patched(tmp_path, at, data, **kw):
    path, _ = pictures(tmp_path / "a", **kw)
    raw = bytearray(path.read_bytes())
    raw[at:at + len(data)] = data
    path.write_bytes(raw)
    return path


@pytest.mark.parametrize("at,data,says", [
    (0, b"\3", "version 3"), (0, b"PNG", "version"),
    (2, b"\0\0", "0 fields"), (2, b"\xff\xff", "65535 fields"),
    (8, b"\xff" * 8, "too short for its samples"),
    (8, b"\0" * 8, "empty"),
    (16, b"\0" * 8, "allocation table is missing"),
    (16, b"\xff" * 8, "allocation table is missing"),
    (16, b"\x20" + b"\0" * 7, "behind its end"),
    (24, b"\xff", "'image' is of a type of its writer's own"),
    (24 + 1041, b"\4", "array of a type"),
    (24 + 1041 + 1, b"image\0", "two fields")])
def test_a_header_that_lies_is_refused(tmp_path, at, data, says):
    with pytest.raises(millrace.Error, match=says):
        samples(f"beton {patched(tmp_path, at, data)}")


ROWS_AT = 24 + 2 * 1041


@pytest.mark.parametrize("at,data,says", [
    (0, b"\7", "no mode 7"), (1, b"\xff\xff\xff\xff", "not in the data"),
    (1, b"\0\0", "an image of 0 bytes"),
    (5, b"\xff" * 8, "not in the data"), (5, b"\0" * 8, "not in the data")])
def test_a_bad_row_costs_that_sample_only(tmp_path, at, data, says):
    path = patched(tmp_path, ROWS_AT + 2 * 24 + at, data)
    with pytest.raises(millrace.DataError, match=rf"a\[2\]: .*{says}"):
        samples(f"beton {path}")
    assert sorted(samples(f"beton {path}", on_error="skip")) == [0, 1, 3, 4, 5]


def test_a_jpeg_that_the_table_does_not_know_is_a_bad_sample(tmp_path):
    path, _ = pictures(tmp_path / "a", jpeg=range(6))
    path.write_bytes(path.read_bytes()[:-24])
    with pytest.raises(millrace.DataError, match=r"a\[5\]: .*table"):
        samples(f"beton {path}")
    assert len(samples(f"beton {path}", on_error="skip")) == 5


def test_fields_far_apart_are_not_read_together(tmp_path):
    rows = [((Place(0), 10), (Place(2), 10))]
    path = beton_write(tmp_path / "a", ["x", "y"], [BYTES, BYTES], rows,
                       [(0, bytes(10)), (1, bytes(5 << 20)), (0, bytes(10))],
                       row(BYTES_ROW, BYTES_ROW))
    with pytest.raises(millrace.DataError, match="more than a page"):
        samples(f"beton {path}")


def test_a_truncated_file_is_refused(tmp_path):
    path, _ = pictures(tmp_path / "a")
    raw = path.read_bytes()
    for n in (0, 10, 24, 1000, ROWS_AT + 30, len(raw) - 200):
        path.write_bytes(raw[:n])
        with pytest.raises(millrace.DataError):
            samples(f"beton {path}")


def test_the_same_comes_from_a_mapping(tmp_path):
    path, _ = pictures(tmp_path / "a", n=20, jpeg=(1, 5))
    want, got = samples(f"beton {path}"), samples(f"beton {path} map=yes")
    assert len(want) == 20
    for k in want:
        assert all(np.array_equal(want[k][f], got[k][f]) for f in want[k])


def test_a_mapped_file_that_shrinks_loses_what_is_gone(tmp_path):
    path, _ = pictures(tmp_path / "a", n=300, size=lambda k: (64, 64))
    loader = millrace.Loader(f"beton {path} map=yes | batch 1", epochs=1,
                             memory="1M", order="sequential", threads=1,
                             on_error="skip")
    it = iter(loader)
    next(it)
    with open(path, "r+b") as f:
        f.truncate(path.stat().st_size // 2)
    assert 1 + sum(1 for _ in it) + len(loader.bad_samples()) == 300
    assert len(loader.bad_samples()) >= 100
