# SPDX-License-Identifier: Apache-2.0
"""WebDataset's tars: the bytes that Python's tarfile gives, by WebDataset's
rule for keys; and what happens to tars that are damaged."""
import gzip
import io
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tarfile
import time

import numpy as np
import pytest

import millrace

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = (ROOT / os.environ.get("MILLRACE_DATA", "../shared/data")).resolve()
WEBDATASET = DATA / "containers" / "webdataset"
FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT,
           "pax": tarfile.PAX_FORMAT}


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """Nobody else's indices, and none of ours for anybody."""
    path = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(path))
    return path


def make(path, members, format=tarfile.PAX_FORMAT, mode="w", **info):
    """A tar of (name, bytes); returns its path."""
    with tarfile.open(path, mode, format=format) as t:
        for name, data in members:
            m = tarfile.TarInfo(name)
            m.size = len(data)
            for k, v in info.items():
                setattr(m, k, v)
            t.addfile(m, io.BytesIO(data))
    return path


def samples_of(count, size=1000, seed=1):
    """[(name, bytes)] of a picture, a class and a remark each."""
    rng = np.random.default_rng(seed)
    for i in range(count):
        yield f"{i:06}.jpg", rng.bytes(int(rng.integers(0, 2 * size)))
        yield f"{i:06}.cls", str(i * 7 - 3).encode()
        yield f"{i:06}.json", b'{"n": %d}' % i


def reference(path, number=("cls", "index", "id")):
    """[(key, {extension: value})] as WebDataset groups what tarfile reads."""
    out = []
    with tarfile.open(path) as t:
        for m in t:
            if not m.isreg():
                continue
            found = re.match(r"^((?:.*/|)[^.]+)[.]([^/]*)$", m.name, re.S)
            if not found:
                continue
            key, ext = found.group(1), found.group(2).lower()
            data = t.extractfile(m).read()
            if ext in number:
                data = int(data)
            if not out or out[-1][0] != key:
                out.append((key, {}))
            out[-1][1][ext] = data
    return out


def load(glob, more="", **options):
    """The same by millrace, and the loader."""
    options.setdefault("order", "sequential")
    loader = millrace.Loader(f"tar '{glob}' {more} | batch 7", epochs=1,
                             **options)
    out = []
    for batch in loader:
        fields = {name: [a.tobytes() if a.dtype == np.uint8 else int(a)
                         for a in batch.samples(name)] for name in batch}
        for i, key in enumerate(batch.sample_keys):
            out.append((key, {name: v[i] for name, v in fields.items()}))
    return out, loader


def same(glob, *paths, more="", **options):
    got, _ = load(glob, more, **options)
    want = sum((reference(p) for p in paths or [glob]), [])
    assert got == want and want
    return got


# ---- tars that others made ----

@pytest.mark.parametrize("name", ["inet40-000000.tar", "inet40-000001.tar",
                                  "inet40-000002.tar", "sample.tgz",
                                  "tendata.tar"])
@pytest.mark.parametrize("fetch", ["direct", "ahead"])
def test_real_tars_give_the_bytes_of_tarfile(name, fetch):
    if not WEBDATASET.exists():
        pytest.skip(f"{WEBDATASET} is missing")
    same(WEBDATASET / name, fetch=fetch)


def test_real_shards_are_one_data_set_and_decode():
    if not WEBDATASET.exists():
        pytest.skip(f"{WEBDATASET} is missing")
    got = same(WEBDATASET / "inet40-*.tar",
               *sorted(WEBDATASET.glob("inet40-*.tar")))
    assert [s["cls"] for _, s in got] == list(range(40))
    loader = millrace.Loader(f"tar '{WEBDATASET}/inet40-*.tar' | decode_image "
                             "| resize 32x32 | batch 40", epochs=1)
    (batch,) = loader
    assert batch["jpg"].shape == (40, 32, 32, 3)


def test_gnu_tar_makes_what_we_read(tmp_path):
    for name, data in samples_of(20):
        (tmp_path / name).write_bytes(data)
    for format in "v7", "ustar", "oldgnu", "gnu", "pax":
        subprocess.run(["tar", "-C", tmp_path, "--sort=name", "-cf",
                        tmp_path / f"{format}.tar", f"--format={format}",
                        *sorted(n for n, _ in samples_of(20))], check=True)
        assert len(same(tmp_path / f"{format}.tar")) == 20


# ---- formats ----

@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("map", ["yes", "no"])
def test_all_formats_give_the_bytes_of_tarfile(tmp_path, format, map):
    make(tmp_path / "a.tar", samples_of(100), FORMATS[format])
    got = same(tmp_path / "a.tar", more=f"map={map}")
    assert list(got[0][1]) == ["jpg", "cls", "json"]


LONG = {
    "100": "d" * 60 + "/" + "n" * 35,
    "250": "/".join(["d" * 49] * 4) + "/" + "n" * 40,
    "256": "/".join(["d" * 100] * 2) + "/" + "n" * 90,
    "4000": "/".join(["d" * 199] * 20) + "/x",
    "accents": "größe/naïve-日本語",
}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", LONG)
def test_long_and_foreign_names_are_whole(tmp_path, format, name):
    if format == "ustar" and len(LONG[name]) > 252:
        pytest.skip("longer than ustar can say")
    make(tmp_path / "a.tar", [(f"{LONG[name]}{i}.bin", b"%d" % i)
                              for i in range(5)], FORMATS[format])
    got = same(tmp_path / "a.tar")
    assert got[3] == (LONG[name] + "3", {"bin": b"3"})


def test_sizes_in_base_256_are_understood(tmp_path):
    make(tmp_path / "a.tar", samples_of(3), tarfile.GNU_FORMAT)
    raw = bytearray((tmp_path / "a.tar").read_bytes())
    with tarfile.open(tmp_path / "a.tar") as t:
        for m in t:
            h = raw[m.offset:m.offset + 512]
            h[124:136] = b"\x80" + m.size.to_bytes(11, "big")
            h[148:156] = b" " * 8
            h[148:156] = b"%06o\0 " % sum(h)
            raw[m.offset:m.offset + 512] = h
    (tmp_path / "b.tar").write_bytes(raw)
    assert same(tmp_path / "b.tar") == reference(tmp_path / "a.tar")


def pax(kind, **records):
    return tarfile.TarInfo._create_pax_generic_header(records, kind, "utf-8")


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE])
def test_size_and_name_of_a_pax_header_win(tmp_path, kind):
    # As for members over 8 GB, whose header says 0.
    raw = b""
    for i in range(5):
        raw += pax(kind, size="700", path=f"n{i}.bin", atime="1.25")
        raw += tarfile.TarInfo("not this").tobuf(tarfile.USTAR_FORMAT)
        raw += bytes([i]) * 700 + bytes(324)
    (tmp_path / "a.tar").write_bytes(raw)
    got = same(tmp_path / "a.tar")
    assert got[4] == ("n4", {"bin": b"\4" * 700})


def test_global_size_holds_until_a_member_has_its_own(tmp_path):
    raw = pax(tarfile.XGLTYPE, size="3")
    for i in range(4):
        if i == 2:
            raw += pax(tarfile.XHDTYPE, size="5")
        raw += tarfile.TarInfo(f"{i}.bin").tobuf(tarfile.USTAR_FORMAT)
        raw += b"abcdefgh" + bytes(504)
    (tmp_path / "a.tar").write_bytes(raw)
    got, _ = load(tmp_path / "a.tar")  # tarfile itself loses its way here
    assert [s["bin"] for _, s in got] == [b"abc", b"abc", b"abcde", b"abc"]


def test_global_pax_headers_are_passed_over(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w", format=tarfile.PAX_FORMAT,
                      pax_headers={"comment": "of all"}) as t:
        for name, data in samples_of(4):
            m = tarfile.TarInfo(name)
            m.size = len(data)
            t.addfile(m, io.BytesIO(data))
    assert len(same(tmp_path / "a.tar")) == 4


def test_links_directories_and_devices_are_passed_over(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as t:
        for i, kind in enumerate([tarfile.DIRTYPE, tarfile.SYMTYPE,
                                  tarfile.LNKTYPE, tarfile.FIFOTYPE,
                                  tarfile.CHRTYPE]):
            m = tarfile.TarInfo(f"x{i}.jpg")
            m.type, m.linkname = kind, "0.jpg"
            t.addfile(m)
            m = tarfile.TarInfo(f"{i}.jpg")
            m.size = 3
            t.addfile(m, io.BytesIO(b"abc"))
    assert len(same(tmp_path / "a.tar")) == 5


def test_keys_follow_webdatasets_rule(tmp_path):
    names = ["./a/b.c/000.jpg", "./a/b.c/000.seg.png", "x.JPG", "x.Seg.PNG",
             "dir.with.dots/y.jpg", "dir.with.dots/y.seg.png"]
    make(tmp_path / "a.tar", [(n, n.encode()) for n in names])
    got = same(tmp_path / "a.tar")
    assert [k for k, _ in got] == ["./a/b.c/000", "x", "dir.with.dots/y"]
    assert list(got[0][1]) == ["jpg", "seg.png"]


def test_what_is_no_sample_is_passed_over(tmp_path):
    make(tmp_path / "a.tar", [
        ("README", b"?"), ("1.jpg", b"1"), ("._2.jpg", b"?"),
        ("d/._2.jpg", b"?"), ("__meta__/info.json", b"?"), ("1.cls", b"1"),
        ("noext.", b"?"), ("2.jpg", b"2"), ("2.cls", b"2")])
    got, _ = load(tmp_path / "a.tar")
    assert got == [("1", {"jpg": b"1", "cls": 1}),
                   ("2", {"jpg": b"2", "cls": 2})]


# ---- compressed ones ----

@pytest.mark.parametrize("how", ["gz", "two gz", "gz and zeros", "zst"])
def test_compressed_tars_are_unpacked(tmp_path, how, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    plain = make(tmp_path / "a.tar", samples_of(300, 5000))
    raw = plain.read_bytes()
    if how == "zst" and not shutil.which("zstd"):
        pytest.skip("zstd is not installed")
    if how == "zst":
        packed = subprocess.run(["zstd", "-c", plain], check=True,
                                stdout=subprocess.PIPE).stdout
    elif how == "two gz":
        packed = gzip.compress(raw[:70000]) + gzip.compress(raw[70000:])
    else:
        packed = gzip.compress(raw) + bytes(999 if "zeros" in how else 0)
    (tmp_path / "b").write_bytes(packed)
    assert same(tmp_path / "b", plain, more="map=yes")
    assert sorted(os.listdir(tmp_path)) == ["a.tar", "b"]


def test_bomb_is_stopped_at_the_limit(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    for i in range(3):
        (tmp_path / f"{i}.tgz").write_bytes(gzip.compress(bytes(9 << 20)))
    with pytest.raises(millrace.LimitError, match=r"tgz: unpacks .*unpack="):
        load(tmp_path / "0.tgz", "unpack=8M")
    # It is a limit for all of them.
    with pytest.raises(millrace.LimitError, match="unpacks to more"):
        load(tmp_path / "*.tgz", "unpack=20M")
    with pytest.raises(millrace.DataError, match="is empty"):
        load(tmp_path / "*.tgz", "unpack=27M")


def test_full_disk_is_told_with_its_folder(tmp_path):
    (tmp_path / "a.tgz").write_bytes(gzip.compress(bytes(1 << 20)))
    text = ("import millrace, resource, signal\n"
            "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
            f"millrace.Loader('tar {tmp_path}/a.tgz | batch 1')\n")
    env = dict(os.environ, PYTHONPATH=os.path.dirname(millrace.__path__[0]), TMPDIR=str(tmp_path))
    r = subprocess.run([sys.executable, "-c", text], env=env, text=True,
                       capture_output=True, timeout=60)
    assert "cannot write; set TMPDIR" in r.stderr and "a.tgz" in r.stderr
    assert str(tmp_path) in r.stderr and "File too large" in r.stderr


@pytest.mark.parametrize("cut", [0.3, 0.7, 0.999])
def test_cut_off_gzip_gives_what_is_whole(tmp_path, cut):
    plain = make(tmp_path / "a.tar", samples_of(50))
    packed = gzip.compress(plain.read_bytes())
    (tmp_path / "b.tgz").write_bytes(packed[:int(len(packed) * cut)])
    got, loader = load(tmp_path / "b.tgz", on_error="skip")
    want = reference(plain)
    assert got == want[:len(got)] and len(got) >= int(50 * cut) - 3
    assert len(loader.bad_samples()) == 1
    with pytest.raises(millrace.DataError, match="b.tgz: "):
        load(tmp_path / "b.tgz")


@pytest.mark.parametrize("magic, name", [(b"BZh91AY", "bzip2"),
                                         (b"\xfd7zXZ\0", "xz")])
def test_other_compressions_name_the_way_out(tmp_path, magic, name):
    (tmp_path / "a.tar").write_bytes(magic + bytes(2000))
    with pytest.raises(millrace.UnsupportedError, match=f"{name} -d '.*a.tar'"):
        load(tmp_path / "a.tar")


# ---- fields ----

def test_images_come_first_and_numbers_are_decoded(tmp_path):
    make(tmp_path / "a.tar", [("1.txt", b"x"), ("1.cls", b" -1_0\n"),
                              ("1.seg.png", b"s"), ("1.png", b"p"),
                              ("1.index", b"9")])
    got, _ = load(tmp_path / "a.tar")
    assert list(got[0][1].items()) == [
        ("png", b"p"), ("seg.png", b"s"), ("txt", b"x"), ("cls", -10),
        ("index", 9)]
    got, _ = load(tmp_path / "a.tar", "decode=no")
    assert got[0][1]["cls"] == b" -1_0\n"


@pytest.mark.parametrize("members", [1, 2])
def test_damaged_gzip_gives_no_sample_whose_checksum_failed(tmp_path, members):
    """The checksum of a gzip member stands at its end: all that is in one
    whose checksum is wrong may be damaged, and what came before is not."""
    raw = bytearray(make(tmp_path / "a.tar", samples_of(20)).read_bytes())
    good, _ = load(tmp_path / "a.tar")
    half = len(raw) // 1024 * 512 if members == 2 else 0
    packed = gzip.compress(raw[:half]) if half else b""
    # Stored, so that a flipped bit is a wrong byte, not a wrong code.
    last = bytearray(gzip.compress(raw[half:], 0))
    last[len(last) // 2] ^= 4
    (tmp_path / "b.tgz").write_bytes(packed + last)
    got, loader = load(tmp_path / "b.tgz", on_error="skip")
    bad = loader.bad_samples()
    assert len(got) + len(bad) == 20 and bad
    assert [g for g in good if g[0] in dict(got)] == got
    assert len(got) >= 8 if half else not got
    assert "b.tgz: the compressed data is damaged" in bad[0]["reason"]
    with pytest.raises(millrace.DataError, match="b.tgz: the compressed data"):
        load(tmp_path / "b.tgz")


def test_gzip_damaged_before_the_first_header_is_told_so(tmp_path):
    packed = bytearray(gzip.compress(
        make(tmp_path / "a.tar", samples_of(3)).read_bytes()))
    (tmp_path / "b.tgz").write_bytes(packed[:20])
    with pytest.raises(millrace.DataError, match="b.tgz: truncated: the "
                       "compressed data goes on beyond its 20 bytes"):
        load(tmp_path / "b.tgz")


def test_fields_are_chosen_and_ordered(tmp_path):
    make(tmp_path / "a.tar", samples_of(10))
    got, _ = load(tmp_path / "a.tar", "fields=json,jpg")
    assert [list(s) for _, s in got] == [["json", "jpg"]] * 10
    assert got[3][1]["json"] == b'{"n": 3}'


def test_one_field_of_several_extensions(tmp_path):
    make(tmp_path / "a.tar", [("1.jpg", b"j"), ("1.cls", b"1"),
                              ("2.png", b"p"), ("2.cls", b"2")])
    got, _ = load(tmp_path / "a.tar", "fields=jpg;png,cls")
    assert got == [("1", {"jpg": b"j", "cls": 1}),
                   ("2", {"jpg": b"p", "cls": 2})]


def test_sample_without_a_field_is_a_bad_one(tmp_path):
    make(tmp_path / "a.tar", [("1.jpg", b"a"), ("1.cls", b"1"),
                              ("2.jpg", b"b"), ("3.jpg", b"c"),
                              ("3.cls", b"3")])
    with pytest.raises(millrace.DataError, match=r"sample '2' at byte \d+ has "
                       "no 'cls', which 2 of 3 samples have"):
        load(tmp_path / "a.tar")
    got, loader = load(tmp_path / "a.tar", on_error="skip")
    assert [k for k, _ in got] == ["1", "3"]
    assert [b["key"] for b in loader.bad_samples()] == ["2"]
    got, loader = load(tmp_path / "a.tar", "fields=jpg")
    assert [k for k, _ in got] == ["1", "2", "3"]


def test_stray_file_does_not_make_a_field(tmp_path):
    make(tmp_path / "a.tar", [*samples_of(5), ("index.html", b"<")])
    got, loader = load(tmp_path / "a.tar", on_error="skip")
    assert len(got) == 5 and list(got[0][1]) == ["jpg", "cls", "json"]
    assert [b["key"] for b in loader.bad_samples()] == ["index"]


@pytest.mark.parametrize("fields, says", [
    ("gif", "no sample has 'gif'; there are: jpg .3., cls .3., json .3."),
    ("jpg,jpg", "'jpg' is named twice"), ("jpg,", "is no name for a field"),
    (",", "is no name"), ("x" * 32, "is no name")])
def test_wrong_fields_are_refused(tmp_path, fields, says):
    make(tmp_path / "a.tar", samples_of(3))
    with pytest.raises(ValueError, match=says):
        load(tmp_path / "a.tar", f"fields={fields}")


def test_more_fields_than_there_may_be_must_be_chosen(tmp_path):
    make(tmp_path / "a.tar", [(f"1.x{i}", b"%d" % i) for i in range(33)])
    with pytest.raises(millrace.LimitError, match="more than 32 fields"):
        load(tmp_path / "a.tar")
    got, _ = load(tmp_path / "a.tar", "fields=" + ",".join(
        f"x{i}" for i in range(32)))
    assert got[0][1] == {f"x{i}": b"%d" % i for i in range(32)}
    got, _ = load(tmp_path / "a.tar", "fields=x16,x0")
    assert got[0][1] == {"x16": b"16", "x0": b"0"}


def test_keys_with_dots_are_explained(tmp_path):
    make(tmp_path / "a.tar", [(f"v1.{i}.jpg", b"") for i in range(300)])
    with pytest.raises(millrace.LimitError, match="extension begins at its "
                       "first dot, so keys must have none"):
        load(tmp_path / "a.tar")


def test_class_that_is_no_integer_is_shown_in_one_line(tmp_path):
    make(tmp_path / "a.tar", [("1.cls", b"1"), ("2.cls", b"a\nb\n")])
    with pytest.raises(millrace.DataError, match="no integer: 'a b'; decode"):
        load(tmp_path / "a.tar")


@pytest.mark.parametrize("text", [b"", b"x", b"1.5", b"9" * 19, b"1__0",
                                  b"_1", b"1_", b"- 1", b"1\0"])
def test_class_that_is_no_integer_is_a_bad_sample(tmp_path, text):
    with pytest.raises(ValueError):
        assert abs(int(text)) < 2**63 or int("too large")
    make(tmp_path / "a.tar", [("1.cls", b"1"), ("2.cls", text)])
    with pytest.raises(millrace.DataError, match="'cls' at byte [0-9]+ is no "
                       "integer: .*decode=no"):
        load(tmp_path / "a.tar")
    got, _ = load(tmp_path / "a.tar", on_error="skip")
    assert got == [("1", {"cls": 1})]


def test_extension_twice_in_a_sample_is_a_bad_sample(tmp_path):
    make(tmp_path / "a.tar", [("1.jpg", b"a"), ("1.jpg", b"b"),
                              ("2.jpg", b"c"), ("3.jpg", b""),
                              ("3.JPG", b"")])
    got, loader = load(tmp_path / "a.tar", on_error="skip")
    assert got == [("2", {"jpg": b"c"})]
    assert ["'jpg' twice" in b["reason"] for b in loader.bad_samples()] == \
        [True, True]


def test_interleaved_samples_are_told_to_follow_one_another(tmp_path):
    make(tmp_path / "a.tar", [(f"{k}.{e}", b"1") for e in ("jpg", "cls")
                              for k in range(4)])
    with pytest.raises(millrace.DataError, match="must follow one another"):
        load(tmp_path / "a.tar")


# ---- damage ----

def cut_at(tmp_path, n, count=20):
    path = make(tmp_path / "whole.tar", samples_of(count))
    (tmp_path / "cut.tar").write_bytes(path.read_bytes()[:n])
    return path, tmp_path / "cut.tar"


@pytest.mark.parametrize("member", [21, 22, 23])
@pytest.mark.parametrize("where", ["header", "data", "end"])
def test_cut_off_tar_loses_its_last_sample_only(tmp_path, member, where):
    path = make(tmp_path / "whole.tar", samples_of(20), tarfile.GNU_FORMAT)
    with tarfile.open(path) as t:
        m = t.getmembers()[member]
    n = {"header": m.offset + 100, "data": m.offset_data,
         "end": m.offset_data + m.size - 1}[where]
    (tmp_path / "cut.tar").write_bytes(path.read_bytes()[:n])
    got, loader = load(tmp_path / "cut.tar", on_error="skip")
    assert got == reference(path)[:7]
    (bad,) = loader.bad_samples()
    assert "cut.tar: truncated: " in bad["reason"]
    assert f"at byte {m.offset}" in bad["reason"]
    assert bad["offset"] == m.offset
    if where != "header":
        assert bad["key"] == "000007" and f"has {n} in all" in bad["reason"]
    with pytest.raises(millrace.DataError, match="cut.tar: truncated"):
        load(tmp_path / "cut.tar")


def test_every_cut_is_noticed_or_between_members(tmp_path):
    path = make(tmp_path / "whole.tar", samples_of(4, 700))
    want, raw = reference(path), path.read_bytes()
    with tarfile.open(path) as t:
        members = t.getmembers()
    for n in range(members[3].offset, members[-1].offset_data, 97):
        (tmp_path / "cut.tar").write_bytes(raw[:n])
        got, loader = load(tmp_path / "cut.tar", on_error="skip")
        whole = sum(m.offset_data + m.size <= n for m in members[2::3])
        assert got == want[:whole], n
        # Between samples nothing shows that there were more.
        between = any(m.offset_data + m.size <= n <= b.offset
                      for m, b in zip(members[2::3], members[3::3]))
        assert len(loader.bad_samples()) == (not between), n


@pytest.mark.parametrize("victim", range(6, 9))
@pytest.mark.parametrize("format", ["gnu", "pax"])
def test_damaged_header_loses_its_sample_only(tmp_path, victim, format):
    path = make(tmp_path / "a.tar", samples_of(20), FORMATS[format], mtime=1.5)
    want = reference(path)
    with tarfile.open(path) as t:
        m = t.getmembers()[victim]
    raw = bytearray(path.read_bytes())
    raw[m.offset_data - 512 + 130] ^= 1  # in the size
    path.write_bytes(raw)
    got, loader = load(path, on_error="skip")
    assert got == want[:2] + want[3:]
    (bad,) = loader.bad_samples()
    assert "wrong checksum" in bad["reason"] and "a.tar: " in bad["reason"]
    assert f"at byte {m.offset_data - 512}" in bad["reason"]


def test_damaged_header_of_single_members_loses_one(tmp_path):
    path = make(tmp_path / "a.tar", [(f"{i}.bin", bytes([i + 65]) * 3000)
                                     for i in range(9)], tarfile.GNU_FORMAT)
    want = reference(path)
    raw = bytearray(path.read_bytes())
    raw[4 * 3584 + 3] ^= 1
    path.write_bytes(raw)
    got, loader = load(path, on_error="skip")
    assert got == want[:4] + want[5:]
    (bad,) = loader.bad_samples()
    assert bad["key"].endswith("a.tar[byte 14336]")
    assert bad["offset"] == 14336


def test_zeroed_header_is_noticed(tmp_path):
    path = make(tmp_path / "a.tar", [(f"{i}.bin", b"") for i in range(9)],
                tarfile.GNU_FORMAT)
    raw = bytearray(path.read_bytes())
    raw[4 * 512:5 * 512] = bytes(512)
    path.write_bytes(raw)
    got, loader = load(path, on_error="skip")
    assert [k for k, _ in got] == list("01235678")
    assert "lone block of zeros" in loader.bad_samples()[0]["reason"]


@pytest.mark.parametrize("size", [b"77777777777\0", b"\x80" + b"\x7f" * 11,
                                  b"\xff" * 12, b"00000009999\0",
                                  b"\x80\0\0\0\x7f" + b"\xff" * 7])
def test_impossible_size_loses_what_it_hides(tmp_path, size):
    path = make(tmp_path / "a.tar", samples_of(6), tarfile.GNU_FORMAT)
    want = reference(path)
    with tarfile.open(path) as t:
        m = t.getmembers()[3 * 3]
    raw = bytearray(path.read_bytes())
    h = raw[m.offset:m.offset + 512]
    h[124:136] = size
    h[148:156] = b" " * 8
    h[148:156] = b"%06o\0 " % sum(h)
    raw[m.offset:m.offset + 512] = h
    path.write_bytes(raw)
    got, loader = load(path, on_error="skip")
    assert got[:3] == want[:3]
    (bad,) = loader.bad_samples()
    assert bad["key"] == "000003" and f"at byte {m.offset}" in bad["reason"]


def test_sparse_files_are_refused_by_name(tmp_path):
    os.truncate(os.open(tmp_path / "2.bin", os.O_CREAT | os.O_RDWR), 1 << 20)
    with open(tmp_path / "2.bin", "r+b") as f:
        for i in range(30):
            f.seek(i * 32768)
            f.write(b"x")
    for i in 1, 3:
        (tmp_path / f"{i}.bin").write_bytes(b"%d" % i)
    for format in "gnu", "pax":
        tar = tmp_path / f"{format}.tar"
        subprocess.run(["tar", "-C", tmp_path, "-Scf", tar, "--format", format,
                        "1.bin", "2.bin", "3.bin"], check=True)
        got, loader = load(tar, on_error="skip")
        if len(got) == 3:
            pytest.skip("the file system keeps no holes")
        assert [s["bin"] for _, s in got] == [b"1", b"3"]
        assert "sparse" in loader.bad_samples()[0]["reason"]


@pytest.mark.parametrize("data, says", [
    (b"", "no tar: its 0 bytes"), (b"x" * 100, "no tar: its 100 bytes are less"),
    (b"x" * 5000, "no tar: .*checksum"), (bytes(10240), "is empty")])
def test_what_is_no_tar_is_refused_by_name(tmp_path, data, says):
    (tmp_path / "a.tar").write_bytes(data)
    with pytest.raises(millrace.DataError, match=says) as e:
        load(tmp_path / "a.tar")
    assert "a.tar" in str(e.value)


@pytest.mark.parametrize("map", ["no", "yes"])
def test_tar_that_shrinks_meanwhile_loses_what_is_gone(tmp_path, map):
    path = make(tmp_path / "a.tar", samples_of(200))
    want = reference(path)
    loader = millrace.Loader(f"tar {path} map={map} | batch 1", epochs=1, memory="1M",
                             order="sequential", on_error="skip", threads=1)
    it = iter(loader)
    first = next(it)
    os.truncate(path, path.stat().st_size // 2)
    keys = [first.sample_keys[0]] + [b.sample_keys[0] for b in it]
    assert len(keys) + len(loader.bad_samples()) == 200
    assert keys == [k for k, _ in want[:len(keys)]]
    assert all("shrunk" in b["reason"] for b in loader.bad_samples())


def test_hostile_names_are_only_names(tmp_path):
    names = ["../../etc/passwd.jpg", "/abs.jpg", "a\nb.jpg", "%s%n.jpg",
             "\x1b[31m.jpg", " .jpg", "a" * 5000 + ".jpg"]
    make(tmp_path / "a.tar", [(n, n.encode()) for n in names])
    got, _ = load(tmp_path / "a.tar", "fields=jpg")
    assert [s["jpg"].decode() for _, s in got] == names
    assert [k + ".jpg" for k, _ in got][:6] == names[:6]


def test_broken_pax_header_loses_its_sample_only(tmp_path):
    path = make(tmp_path / "a.tar", samples_of(5), mtime=1.5)
    want = reference(path)
    raw = bytearray(path.read_bytes())
    with tarfile.open(path) as t:
        m = t.getmembers()[4]
    raw[m.offset + 512:m.offset + 515] = b"999"
    path.write_bytes(raw)
    got, loader = load(path, on_error="skip")
    assert got == want[:1] + want[2:]
    assert "extended header" in loader.bad_samples()[0]["reason"]


# ---- the index ----

def aged(path):
    """As if it had been made an hour ago: fresh tars get no index."""
    os.utime(path, (time.time() - 3600,) * 2)
    return path


def large(seed=1):
    """Over a megabyte: the index is kept."""
    return samples_of(30, 60000, seed)


def test_index_is_kept_beside_the_tar_and_used(tmp_path):
    path = aged(make(tmp_path / "a.tar", large()))
    want = same(path)
    index = tmp_path / "a.tar.mri"
    assert index.stat().st_size < 30 * 50
    # Headers that are gone are no longer needed.
    stamp = path.stat()
    raw = bytearray(path.read_bytes())
    raw[:512] = bytes(512)
    path.write_bytes(raw)
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert load(path)[0] == want
    # A pattern that matches the index too means the tar.
    assert load(tmp_path / "a*")[0] == want
    with pytest.raises(millrace.Error):
        assert load(path, "index=no")[0] == want


def test_fresh_tar_gets_no_index(tmp_path):
    same(make(tmp_path / "a.tar", large()))
    assert os.listdir(tmp_path) == ["a.tar"]


def test_small_tar_gets_an_index_only_where_one_says(tmp_path):
    path = aged(make(tmp_path / "a.tar", samples_of(3)))
    same(path)
    assert os.listdir(tmp_path) == ["a.tar"]
    same(path, more="index=beside")
    assert sorted(os.listdir(tmp_path)) == ["a.tar", "a.tar.mri"]


@pytest.mark.parametrize("change", ["size", "time", "bytes", "short", "empty",
                                    "version", "folder"])
def test_index_that_does_not_fit_is_made_again(tmp_path, change):
    path = aged(make(tmp_path / "a.tar", large()))
    same(path)
    index = tmp_path / "a.tar.mri"
    raw = bytearray(index.read_bytes())
    if change == "size":
        aged(make(path, large(seed=2)))
    elif change == "time":
        make(path, list(large())[::-1])
        os.utime(path, (1, 1))
    elif change == "folder":
        index.unlink()
        index.mkdir()
    else:
        raw[{"bytes": 200, "version": 7}.get(change, 0)] ^= 1
        index.write_bytes({"short": raw[:100], "empty": b""}.get(change, raw))
    same(path)
    if change != "folder":
        assert index.read_bytes() != raw
        same(path)


def test_index_goes_to_the_cache_where_nothing_else_can(tmp_path, own_cache):
    folder = tmp_path / "d"
    folder.mkdir()
    path = aged(make(folder / "a.tar", large()))
    folder.chmod(0o555)
    same(path)
    same(path, more="index=cache")
    assert os.listdir(folder) == ["a.tar"]
    (index,) = (own_cache / "millrace").iterdir()
    assert index.suffix == ".mri"
    folder.chmod(0o755)


@pytest.mark.parametrize("where, beside, cache", [
    ("auto", True, False), ("beside", True, False), ("cache", False, True),
    ("no", False, False)])
def test_index_is_kept_where_one_says(tmp_path, own_cache, where, beside,
                                      cache):
    path = aged(make(tmp_path / "a.tar", large()))
    for _ in range(2):
        same(path, more=f"index={where}")
    assert (tmp_path / "a.tar.mri").exists() == beside
    assert (own_cache / "millrace").exists() == cache


def test_place_for_the_index_that_cannot_be_written_is_an_error(
        tmp_path, monkeypatch):
    path = aged(make(tmp_path / "a.tar", large()))
    monkeypatch.setenv("XDG_CACHE_HOME", str(path))
    same(path)  # beside it
    with pytest.raises(millrace.StorageError, match="index=cache: .*cannot wr"):
        load(path, "index=cache")
    (tmp_path / "a.tar.mri").unlink()
    (tmp_path / "a.tar.mri").mkdir()
    with pytest.raises(millrace.StorageError, match="index=beside: "):
        load(path, "index=beside")
    same(path)  # nowhere


# ---- many ----

@pytest.mark.parametrize("threads", [1, 2, 5])
def test_many_tars_are_in_order_whatever_the_threads(tmp_path, threads):
    want = []
    for i in range(23):
        p = make(tmp_path / f"{i:03}.tar", [
            (f"{i}-{k}.{e}", b"%d" % (i * 10 + k)) for k in range(i % 4)
            for e in ("bin", "cls")])
        want += reference(p)
    got, loader = load(tmp_path / "*.tar", threads=threads)
    assert got == want and loader.dataset_samples == len(want)


def test_first_bad_tar_is_named_whatever_the_threads(tmp_path):
    for i in range(9):
        make(tmp_path / f"{i}.tar", samples_of(2))
    for i in 3, 7:
        (tmp_path / f"{i}.tar").write_bytes(b"x" * 512)
    with pytest.raises(millrace.DataError, match="3.tar: no tar"):
        load(tmp_path / "*.tar", threads=1)


def test_more_tars_than_files_may_be_open(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for i in range(120):
        make(tmp_path / f"{i:03}.tar", [(f"{i}.bin", b"%d" % i)])
    used = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 70, hard))
    try:
        for fetch in "direct", "ahead":
            got, _ = load(tmp_path / "*.tar", fetch=fetch)
            assert [s["bin"] for _, s in got] == [b"%d" % i for i in range(120)]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_order_and_threads_do_not_change_the_set(tmp_path):
    path = make(tmp_path / "a.tar", samples_of(200))
    want = dict(reference(path))
    for options in ({"order": "shuffle"}, {"order": "shuffle", "threads": 4},
                    {"order": "block", "fetch": "ahead"}):
        got, _ = load(path, **options)
        assert len(got) == 200 and dict(got) == want


def test_million_members_are_indexed_quickly(tmp_path):
    # Not a million here, and a generous limit: a walk that reads each header
    # by itself, or more than once, takes longer.
    n = 100_000
    info = tarfile.TarInfo("0000000.cls")
    info.size = 1
    head = info.tobuf(tarfile.USTAR_FORMAT)
    with open(tmp_path / "a.tar", "wb") as f:
        for i in range(n):
            h = bytearray(head)
            h[:7] = b"%07d" % i
            h[148:156] = b" " * 8
            h[148:156] = b"%06o\0 " % sum(h)
            f.write(h + b"7" + bytes(511))
    start = time.monotonic()
    loader = millrace.Loader(f"tar {tmp_path}/a.tar index=no | batch 10")
    assert time.monotonic() - start < 3
    assert loader.dataset_samples == n
