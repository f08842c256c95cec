# SPDX-License-Identifier: Apache-2.0
"""tar by the command: the same digest whichever way it is read, and damage
that is a sample's, not the run's. The bytes are compared in tests/python."""
import gzip
import io
import os
import tarfile

import numpy as np
import pytest

N = 120


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """N samples in three tars, of all formats."""
    root = tmp_path_factory.mktemp("shards")
    rng = np.random.default_rng(3)
    formats = [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]
    for s, format in enumerate(formats):
        with tarfile.open(root / f"{s}.tar", "w", format=format) as t:
            for i in range(s, N, 3):
                for ext, data in (("bin", rng.bytes(i * 37)),
                                  ("cls", b"%d\n" % i), ("txt", b"x" * i)):
                    m = tarfile.TarInfo(f"d/{i:04}.{ext}")
                    m.size, m.mtime = len(data), 1.5 if s == 2 else 1
                    t.addfile(m, io.BytesIO(data))
        os.utime(root / f"{s}.tar", (10**9, 10**9))
    return root


@pytest.fixture
def cache(tmp_path):
    return {"XDG_CACHE_HOME": str(tmp_path / "cache"), "TMPDIR": str(tmp_path)}


def test_digest_is_the_same_whichever_way_it_is_read(mill, shards, cache):
    want = mill.digest(f"tar '{shards}/*.tar' index=no | batch 16")
    for more, args in (("index=no", ["--threads", 1]),
                       ("index=no map=yes", ["--threads", 4]),
                       ("index=cache", []), ("index=cache", []),
                       ("index=no", ["--fetch", "ahead"]),
                       ("index=no map=yes", ["--fetch", "ahead"])):
        assert mill.digest(f"tar '{shards}/*.tar' {more} | batch 16", *args,
                           env=cache) == want, (more, args)


def test_compressed_tars_have_the_digest_of_plain_ones(mill, shards, cache,
                                                       tmp_path):
    for p in shards.glob("*.tar"):
        (tmp_path / (p.name + ".gz")).write_bytes(
            gzip.compress(p.read_bytes()))
    assert mill.digest(f"tar '{tmp_path}/*.gz' | batch 16", env=cache) == \
        mill.digest(f"tar '{shards}/*.tar' index=no | batch 16")


@pytest.mark.parametrize("kind", ["plain", "gz"])
@pytest.mark.parametrize("seed", range(8))
def test_any_damage_is_told_and_loses_little(mill, shards, cache, tmp_path,
                                             kind, seed):
    rng = np.random.default_rng(seed)
    raw = bytearray((shards / "1.tar").read_bytes())
    with tarfile.open(shards / "1.tar") as t:
        heads = [m.offset for m in t]
    if kind == "gz":
        raw = bytearray(gzip.compress(raw))
        raw = raw[:int(rng.integers(len(raw) // 2, len(raw)))]
    else:
        for at in rng.choice(heads[3:], 3):
            raw[at + int(rng.integers(0, 345))] ^= 255
    (tmp_path / "1.tar").write_bytes(raw)
    r = mill.json("run", f"tar '{tmp_path}/1.tar' | batch 4", "--on-error",
                  "skip", env=cache)
    least = N // 3 - 2 * 3 if kind == "plain" else 1
    assert least <= r["samples"] < N // 3 and r["bad_samples"] >= 1
    assert all("1.tar: " in b["reason"] for b in r["bad"])
    mill.fails("run", f"tar '{tmp_path}/1.tar' | batch 4", code=1,
               says=["1.tar: ", "at byte"], env=cache)


def test_fingerprint_does_not_know_the_folder(mill, shards, cache, tmp_path):
    """A checkpoint goes on after the data has moved."""
    for p in shards.glob("*.tar"):
        (tmp_path / p.name).write_bytes(p.read_bytes())
    c = tmp_path / "c"
    text = "tar *.tar index=no | batch 16"
    mill("run", text, "--samples", 32, "--checkpoint", c, "--epochs", 1,
         cwd=shards)
    mill("run", text, "--resume", c, "--epochs", 1, cwd=tmp_path)
    (tmp_path / "2.tar").unlink()
    mill.fails("run", text, "--resume", c, "--epochs", 1, cwd=tmp_path,
               code=2, says="belongs to another")


def test_labels_and_fields_are_explained(mill, shards):
    out = mill("explain", f"tar '{shards}/*.tar' index=no | batch 16").stdout
    assert "bin u8[?], cls i64[], txt u8[?]" in out
    out = mill("explain", f"tar '{shards}/*.tar' index=no fields=txt,cls "
               "decode=no | batch 16").stdout
    assert "txt u8[?], cls u8[?]" in out
