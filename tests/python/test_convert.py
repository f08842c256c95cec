# SPDX-License-Identifier: Apache-2.0
"""convert: what it writes is what others read, and what we read again."""
import io
import os
import subprocess
import tarfile

import numpy as np
import pytest
from PIL import Image

import pictures
import sounds
from conftest import BUILD, ROOT
from containers import (example, mds_write, read_records, record, samples,
                        shared)

BIN = ROOT / BUILD / "millrace"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def convert(source, to, out, *args):
    subprocess.run([BIN, "convert", source, "--to", to, "--out", out,
                    *map(str, args)], check=True, stdout=subprocess.DEVNULL,
                   timeout=60)
    return sorted(out.iterdir())


def same(got, want, names):
    """The fields of all samples, by their names there and here."""
    assert len(got) == len(want)
    for i in want:
        assert len(got[i]) == len(want[i])
        for there, here in names.items():
            assert np.array_equal(got[i][there], want[i][here]), (i, there)


# ---- tar ----

@pytest.mark.parametrize("depth", [0, 1, 4, 9, 12, 40])
@pytest.mark.parametrize("length", [1, 93, 94, 95, 96, 97, 150, 240])
def test_tars_of_any_names_are_read_by_all(tmp_path, depth, length):
    folder = tmp_path / "in" / "/".join(["földer"] * depth)
    folder.mkdir(parents=True)
    for i in range(3):
        (folder / f"{i}{'n' * length}.bin").write_bytes(bytes([i]) * 700 * i)
    tars = convert(f"files {tmp_path}/in", "tar", tmp_path / "out")
    with tarfile.open(tars[0]) as t:
        found = {m.name: t.extractfile(m).read() for m in t}
    listed = subprocess.run(["tar", "tf", tars[0], "--quoting-style=literal"],
                            check=True, capture_output=True)
    assert listed.stderr == b""
    assert listed.stdout.decode().splitlines() == list(found)
    for path in folder.iterdir():
        name = str(path.relative_to(tmp_path / "in"))
        assert found.pop(name) == path.read_bytes()
        found.pop(name[:-4] + ".cls")
    assert not found
    same(samples(f"tar {tars[0]}"), samples(f"files {tmp_path}/in"),
         {"bin": "data", "cls": "label"})


def test_samples_of_one_name_stay_apart(tmp_path):
    """Files that differ in their extensions alone, or in dots."""
    (tmp_path / "in").mkdir()
    for name in ("a.jpg", "a.png", "b.c.jpg", "b_c.jpg", "d.cls", "e"):
        (tmp_path / "in" / name).write_bytes(name.encode())
    tars = convert(f"files {tmp_path}/in", "tar", tmp_path / "out")
    with tarfile.open(tars[0]) as t:
        found = [(m.name.partition("."), t.extractfile(m).read()) for m in t]
    keys = [k for (k, _, _), _ in found]
    assert keys == sorted(keys) and len(set(keys)) == 6
    assert len({name for name, _ in found}) == 12
    assert [data for _, data in found[::2]] == [
        f.name.encode() for f in sorted((tmp_path / "in").iterdir())]


def test_a_file_that_is_listed_twice_is_two_samples(tmp_path):
    (tmp_path / "x.jpg").write_bytes(b"x")
    (tmp_path / "y.jpg").write_bytes(b"yy")
    (tmp_path / "l.csv").write_text("x.jpg,1\nx.jpg,2\nx.jpg,3\ny.jpg,4\n")
    tars = convert(f"list {tmp_path}/l.csv", "tar", tmp_path / "out",
                   "--shards", 2)
    got = samples(f"tar {tmp_path}/out/*.tar")
    assert len(tars) == 2
    assert [int(got[i]["cls"]) for i in range(4)] == [1, 2, 3, 4]
    assert [got[i]["jpg"].tobytes() for i in range(4)] == [
        b"x", b"x", b"x", b"yy"]


@pytest.mark.parametrize("dtype", ["u1", "i2", "i4", "i8", "f2", "f4", "f8"])
def test_arrays_in_tars_are_numpys(tmp_path, dtype):
    a = (np.random.default_rng(2).random((11, 3, 4)) * 99).astype(dtype)
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "y.npy", np.arange(11) - 5)
    tars = convert(f"npy {tmp_path}/a.npy labels={tmp_path}/y.npy", "tar",
                   tmp_path / "out", "--shards", 4)
    assert len(tars) == 4
    got, labels = [], []
    for path in tars:
        with tarfile.open(path) as t:
            for m in t:
                if m.name.endswith(".npy"):
                    got.append(np.load(io.BytesIO(t.extractfile(m).read())))
                else:
                    labels.append(int(t.extractfile(m).read()))
    assert np.array_equal(got, a) and got[0].dtype == a.dtype
    assert labels == list(range(-5, 6))


def groups(tars):
    """[(key, {extension: bytes})] as WebDataset groups members: by their
    names up to the first dot after the last slash."""
    out = []
    for path in tars:
        with tarfile.open(path) as t:
            for m in t:
                folder, slash, name = m.name.rpartition("/")
                key, _, ext = name.partition(".")
                key = folder + slash + key
                if not out or out[-1][0] != key:
                    out.append((key, {}))
                assert ext not in out[-1][1]
                out[-1][1][ext] = t.extractfile(m).read()
    return out


def is_grouped(tars, want, names):
    """All samples of a source are there: fields by their extensions."""
    got = groups(tars)
    assert len(got) == len({key for key, _ in got}) == len(want)
    for i, (key, members) in enumerate(got):
        assert "[" not in key and not key.startswith("/")
        assert set(members) == set(names)
        for ext, name in names.items():
            a = want[i][name]
            assert members[ext] == (a.tobytes() if a.ndim else b"%d" % a)


REAL = {
    "mds": ("mds {}/inet40", {"jpg": "image", "file": "file",
                              "cls": "label"}),
    "tfrecord": ("tfrecord {}/dmlab-train.tfrecord-00000-of-00001",
                 {"jpg": "image", "filename": "filename", "cls": "label"}),
    "lmdb": ("lmdb {}/inet40.lmdb", {"jpg": "data"}),
}


@pytest.mark.parametrize("kind", REAL)
def test_containers_become_tars(tmp_path, kind):
    text, names = REAL[kind]
    source = text.format(shared(kind))
    tars = convert(source, "tar", tmp_path / "out", "--shards", 2)
    want = samples(source)
    is_grouped(tars, want, names)
    same(samples(f"tar {tmp_path}/out/*.tar"), want, names)


def picture(kind, i, h=9, w=8):
    return pictures.encoded(Image.fromarray(pictures.photo(h, w, seed=i)),
                            kind)


def kinds():
    """Of each format that is known by how it begins, two."""
    for i in range(2):
        x = sounds.ints(2000 + i, 1, 16)
        yield {"jpg": picture("JPEG", i),
               "png": picture("PNG", i),
               "wav": sounds.wav_ints(x, 16), "mp3": sounds.mp3(4 + i),
               "flac": b"fLaC" + bytes(60 + i), "txt": b"plain text"}


@pytest.mark.parametrize("container", ["mds", "tfrecord"])
def test_bytes_are_called_by_how_they_begin(tmp_path, container):
    rows = [{f"a/{k}": v for k, v in row.items()} for row in kinds()]
    if container == "mds":
        mds_write(tmp_path / "in", {k: "bytes" for k in rows[0]},
                  [rows[:1], rows[1:]])
        source = f"mds {tmp_path}/in"
    else:
        for i, row in enumerate(rows):
            (tmp_path / f"x.y-{i}").write_bytes(record(example(
                {k: [v] for k, v in row.items()})))
        source = f"tfrecord {tmp_path}/x.y-*"
    tars = convert(source, "tar", tmp_path / "out")
    names = {k: f"a/{k}" for k in ("jpg", "png", "wav", "mp3", "flac")}
    is_grouped(tars, samples(source), {**names, "a_txt": "a/txt"})


def test_two_pictures_of_a_sample_stay_apart(tmp_path):
    rows = [{"left": picture("JPEG", i),
             "right": picture("JPEG", i, 8, 9)}
            for i in range(3)]
    mds_write(tmp_path / "in", {"left": "bytes", "right": "bytes"}, [rows])
    tars = convert(f"mds {tmp_path}/in", "tar", tmp_path / "out")
    names = {"jpg": "left", "right.jpg": "right"}
    want = samples(f"mds {tmp_path}/in")
    is_grouped(tars, want, names)
    same(samples(f"tar {tars[0]}"), want, names)


def test_a_tar_of_a_tar_has_its_names(tmp_path):
    """Whatever the bytes begin as."""
    photo = picture("JPEG", 0)
    with tarfile.open(tmp_path / "x.tar", "w") as t:
        for i in range(3):
            for ext in ("jpeg", "seg.img", "txt"):
                m = tarfile.TarInfo(f"d/{i}.{ext}")
                m.size = len(photo)
                t.addfile(m, io.BytesIO(photo))
    tars = convert(f"tar {tmp_path}/x.tar", "tar", tmp_path / "out")
    assert [(k, sorted(m)) for k, m in groups(tars)] == [
        (f"d/{i}", ["jpeg", "seg.img", "txt"]) for i in range(3)]


def test_only_a_file_that_no_step_changed_keeps_its_extension(tmp_path):
    (tmp_path / "in").mkdir()
    for i in range(2):
        (tmp_path / "in" / f"{i}.html").write_text(
            f"<p>{'Words of a text. ' * 40}</p>")
    source = f"files {tmp_path}/in"
    convert(source, "records", tmp_path / "set")
    convert(f"{source} | extract_text", "records", tmp_path / "text")
    for text, ext in ((source, "html"), (f"records {tmp_path}/set", "html"),
                      (f"{source} | extract_text", "data"),
                      (f"records {tmp_path}/text", "data")):
        out = tmp_path / "".join(c for c in text if c.isalpha())
        got = groups(convert(text, "tar", out))
        assert [sorted(m) for _, m in got] == [sorted(["cls", ext])] * 2


# ---- tfrecord ----

def test_bytes_and_labels_in_tfrecords_come_back(tmp_path):
    for c in ("ant", "bee"):
        (tmp_path / "in" / c).mkdir(parents=True)
        for i in range(9):
            (tmp_path / "in" / c / f"{i}").write_bytes(os.urandom(i * 300 + 1))
    files = convert(f"files {tmp_path}/in", "tfrecord", tmp_path / "out",
                    "--shards", 3)
    want = samples(f"files {tmp_path}/in")
    parsed = [r for f in files for r in read_records(f.read_bytes())]
    assert len(parsed) == 18
    for i, r in enumerate(parsed):
        assert set(r) == {"data", "label"}
        assert r["data"] == [want[i]["data"].tobytes()]
        assert r["label"].tolist() == [int(want[i]["label"])]
    same(samples(f"tfrecord {tmp_path}/out/*"), want,
         {"data": "data", "label": "label"})


@pytest.mark.parametrize("shape", [(), (4,), (2, 3)])
@pytest.mark.parametrize("dtype", ["u1", "i2", "i4", "i8", "f2", "f4", "f8"])
def test_numbers_of_any_type_in_tfrecords(tmp_path, dtype, shape):
    a = ((np.random.default_rng(3).random((7, *shape)) - 0.5) * 500).astype(
        dtype)
    np.save(tmp_path / "a.npy", a)
    files = convert(f"npy {tmp_path}/a.npy", "tfrecord", tmp_path / "out")
    for i, r in enumerate(read_records(files[0].read_bytes())):
        got = r["data"]
        if "data/dtype" in r:
            name = dtype[0] + str(8 * int(dtype[1]))
            assert r["data/dtype"] == [name.encode()]
            assert np.array_equal(r["data/shape"], shape)
        if isinstance(got, list):
            got = np.frombuffer(b"".join(got), dtype)
        assert np.array_equal(np.ravel(got), np.ravel(a[i])), (i, r)
