# SPDX-License-Identifier: Apache-2.0
"""LMDB databases, as LMDB's own module reads them."""
import os
import pathlib
import random

import millrace
import numpy as np
import pytest

lmdb = pytest.importorskip("lmdb", reason="python3-lmdb is not installed")

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = (ROOT / os.environ.get("MILLRACE_DATA", "../shared/data")).resolve()
REAL = sorted((DATA / "containers" / "lmdb").glob("*.lmdb")) or [None]


def put(path, items, db=None, **kw):
    """Writes in several transactions, and deletes some on the way."""
    env = lmdb.open(str(path), map_size=1 << 28, max_dbs=4, sync=False, **kw)
    handle = env.open_db(db) if db else None
    items = list(items)
    for i in range(0, len(items), 500):
        with env.begin(write=True, db=handle) as t:
            for k, v in items[i:i + 500]:
                t.put(k, b"x" * 9000)
                t.put(k, v)
                t.put(k + b"~", v)
            for k, _ in items[i:i + 500]:
                t.delete(k + b"~")
    env.close()
    return sorted(items)


def values(text, **options):
    options.setdefault("order", "sequential")
    out = []
    for b in millrace.Loader(f"{text} | batch 16", **options):
        out += [bytes(v) for v in b.samples("data")]
    return out


def keys(text):
    return [k for b in millrace.Loader(f"{text} | batch 16",
                                       order="sequential") for k in b.sample_keys]


def stored(path, db=None):
    env = lmdb.open(str(path), readonly=True, lock=False, max_dbs=4,
                    subdir=path.is_dir())
    with env.begin(db=env.open_db(db) if db else None) as t:
        out = [(bytes(k), bytes(v)) for k, v in t.cursor()]
    env.close()
    return out


def refused(text, *words):
    with pytest.raises(Exception) as e:
        list(millrace.Loader(text + " | batch 1"))
    for w in words:
        assert w in str(e.value), str(e.value)


# ---- good ones ----

@pytest.mark.skipif(REAL == [None], reason="no data at ../shared/data")
@pytest.mark.parametrize("path", REAL, ids=lambda p: p and p.name)
@pytest.mark.parametrize("map", ["no", "yes"])
def test_databases_by_other_tools(path, map):
    assert values(f"lmdb {path} map={map}") == [v for _, v in stored(path)]


@pytest.mark.parametrize("size", [0, 10, 1000, 2100, 5000, 100000])
@pytest.mark.parametrize("n", [1, 3, 200])
def test_values_of_every_size(tmp_path, size, n):
    rng = random.Random(size + n)
    items = put(tmp_path, ((b"%05d" % i, rng.randbytes(size + i % 7))
                           for i in range(n)))
    assert stored(tmp_path) == items
    assert values(f"lmdb {tmp_path}") == [v for _, v in items]


@pytest.mark.parametrize("n", [100, 20000])
def test_trees_of_several_levels_in_the_order_of_keys(tmp_path, n):
    rng = random.Random(n)
    names = {rng.randbytes(rng.randrange(1, 500 if n < 200 else 60))
             for _ in range(n)}
    put(tmp_path, ((k, rng.randbytes(rng.choice([0, 3, 50, 3000])
                                     if n < 200 else 5)) for k in names))
    want = stored(tmp_path)
    assert len(want) == len(names)
    assert values(f"lmdb {tmp_path}", threads=2) == [v for _, v in want]


def test_keys_are_told_as_text(tmp_path):
    put(tmp_path, [(b"plain", b"1"), (b"a\x00\xffb\\", b"2"),
                   ("\u00e4".encode(), b"3")])
    assert keys(f"lmdb {tmp_path}") == ["a\\x00\udcffb\\x5c", "plain",
                                        "\u00e4"]


def test_keys_may_be_chosen(tmp_path):
    put(tmp_path, [(b"image-%d" % i, b"i%d" % i) for i in range(5)] +
        [(b"label-%d" % i, b"l") for i in range(5)] + [(b"__len__", b"5")])
    got = values(f"lmdb {tmp_path} keys='image-*'")
    assert got == [b"i%d" % i for i in range(5)]
    refused(f"lmdb {tmp_path} keys=z*", "no entries", "z*")


def test_shuffled_samples_are_the_right_ones(tmp_path):
    items = put(tmp_path, ((b"%05d" % i, b"%d" % i * (i % 900))
                           for i in range(1000)))
    for b in millrace.Loader(f"lmdb {tmp_path} | batch 16", threads=3,
                             seed=2):
        for i, v in zip(b.indices, b.samples("data")):
            assert bytes(v) == items[int(i)][1]


def test_a_file_without_a_directory_and_read_only_ones(tmp_path):
    path = tmp_path / "x.lmdb"
    items = put(path, [(b"a", b"1"), (b"b", b"2")], subdir=False)
    assert values(f"lmdb {path}") == [v for _, v in items]
    (tmp_path / "d").mkdir()
    put(tmp_path / "d", items)
    (tmp_path / "d" / "lock.mdb").unlink()
    (tmp_path / "d").chmod(0o555)
    before = os.listdir(tmp_path / "d")
    assert values(f"lmdb {tmp_path}/d") == [b"1", b"2"]
    assert os.listdir(tmp_path / "d") == before


def test_databases_with_names(tmp_path):
    a = put(tmp_path, [(b"k%d" % i, b"a%d" % i) for i in range(300)], b"one")
    put(tmp_path, [(b"k%d" % i, b"b%d" % i) for i in range(3)], b"two")
    refused(f"lmdb {tmp_path}", "say db=", "one, two")
    refused(f"lmdb {tmp_path} db=three", "no database 'three'", "one, two")
    assert values(f"lmdb {tmp_path} db=one") == [v for _, v in a]


# ---- bad ones ----

def test_several_values_for_a_key_are_refused(tmp_path):
    env = lmdb.open(str(tmp_path), max_dbs=2)
    db = env.open_db(b"d", dupsort=True)
    with env.begin(write=True, db=db) as t:
        t.put(b"k", b"1")
        t.put(b"k", b"2")
    env.close()
    refused(f"lmdb {tmp_path} db=d", "MDB_DUPSORT")


def test_what_is_none_is_named(tmp_path):
    refused(f"lmdb {tmp_path}", "has no data.mdb")
    refused(f"lmdb {tmp_path}/no", "no", "cannot open")
    (tmp_path / "data.mdb").write_bytes(b"x" * 10000)
    refused(f"lmdb {tmp_path}", "data.mdb", "no LMDB file")
    (tmp_path / "data.mdb").write_bytes(b"")
    refused(f"lmdb {tmp_path}", "data.mdb", "ends at byte 0")
    env = lmdb.open(str(tmp_path / "e"))
    env.close()
    refused(f"lmdb {tmp_path}/e", "empty")


def test_a_file_that_was_cut_off_loses_what_is_not_there(tmp_path):
    items = put(tmp_path, ((b"%03d" % i, bytes([i]) * 50000)
                           for i in range(40)))
    path = tmp_path / "data.mdb"
    whole = path.read_bytes()
    kept = set()
    for part in range(1, 20):
        path.write_bytes(whole[:len(whole) * part // 20])
        try:
            loader = millrace.Loader(f"lmdb {tmp_path} | batch 4",
                                     on_error="skip")
        except millrace.Error as e:
            assert "data.mdb" in str(e) and "truncated" in str(e)
            continue
        got = {int(i): bytes(v) for b in loader
               for i, v in zip(b.indices, b.samples("data"))}
        kept.add(len(got))
        assert len(got) + loader.stats()["bad_samples"] == 40
        for i, v in got.items():
            assert v == items[i][1]
    assert len(kept) > 3


def test_slots_that_share_a_node_are_damage(tmp_path):
    """Else a small file with long keys takes any amount of memory."""
    put(tmp_path, [(b"%03d" % i + b"k" * 400, b"v") for i in range(40)])
    path = tmp_path / "data.mdb"
    b = bytearray(path.read_bytes())
    hurt = 0
    for page in range(2, len(b) // 4096):
        at = page * 4096
        flags, lower = (int.from_bytes(b[at + k:at + k + 2], "little")
                        for k in (10, 12))
        if flags & 2 and lower > 18:    # a leaf: slots up to its first node
            slot = bytes(b[at + 16:at + 18])
            node = int.from_bytes(slot, "little")
            b[at + 12:at + 14] = slot
            b[at + 16:at + node] = slot * ((node - 16) // 2)
            hurt += 1
    assert hurt
    path.write_bytes(b)
    refused(f"lmdb {tmp_path}", "data.mdb", "damaged")


@pytest.mark.parametrize("map", ["no", "yes"])
def test_damaged_pages_end_no_process(tmp_path, map):
    env = lmdb.open(str(tmp_path), sync=False)
    with env.begin(write=True) as t:
        for i in range(2000):
            t.put(b"%05d" % i, b"%d" % i * (1000 if i % 100 == 0 else 40))
    env.close()
    path = tmp_path / "data.mdb"
    whole = path.read_bytes()
    rng = random.Random(3)
    refused_, read = 0, 0
    for _ in range(150):
        b = bytearray(whole)
        for _ in range(rng.choice([1, 20])):
            page = rng.randrange(len(b) // 4096)
            b[page * 4096 + rng.randrange(64)] = rng.randrange(256)
        path.write_bytes(b)
        try:
            for x in millrace.Loader(f"lmdb {tmp_path} map={map} | batch 64",
                                     on_error="skip"):
                pass
            read += 1
        except millrace.Error as e:
            assert "data.mdb" in str(e), e
            refused_ += 1
    assert refused_ > 20 and read > 20
