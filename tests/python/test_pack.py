# SPDX-License-Identifier: Apache-2.0
"""pack against plain Python: rows, segments, lengths and pieces of random
documents, cut and fitted; and that no token is lost, whatever the options."""
import base64
import os
import pathlib
import random
import subprocess

import millrace
import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MILL = ROOT / os.environ.get("MILLRACE_BUILD", "build") / "millrace"


# ---- as it is described ----

def cut(docs, room):
    pieces, at = [], 0
    for d, n in enumerate(docs):
        done = 0
        while done < n:
            part = min(n - done, room - at % room)
            pieces.append((at // room, at % room, part, d, done))
            at, done = at + part, done + part
    return pieces, -(-at // room)


def fit(docs, room):
    items = [(room, d, k * room) for d, n in enumerate(docs)
             for k in range(n // room)]
    rests = [(n % room, d, n - n % room) for d, n in enumerate(docs)
             if n % room]
    items += sorted(rests, key=lambda x: -x[0])
    left, touched, pieces = [], [], []
    for n, d, start in items:
        able = [r for r, x in enumerate(left) if x >= n]
        if able:
            row = min(able, key=lambda r: (left[r], -touched[r]))
        else:
            row = len(left)
            left.append(room)
            touched.append(0)
        pieces.append((row, room - left[row], n, d, start))
        left[row] -= n
        touched[row] = len(pieces)
    return sorted(pieces), len(left)


def packed(docs, room, how, eos=None, value=0):
    if eos is not None:
        docs = [d + [eos] for d in docs]
    pieces, rows = {"cut": cut, "fit": fit}[how]([len(d) for d in docs], room)
    ids = np.full((rows, room), value, np.int32)
    segments = np.full((rows, room), -1, np.int32)
    lengths = np.zeros(rows, np.int32)
    for row, start, n, d, first in pieces:
        ids[row, start:start + n] = docs[d][first:first + n]
        segments[row, start:start + n] = d
        lengths[row] = max(lengths[row], start + n)
    return {"ids": ids, "segments": segments, "lengths": lengths,
            "pieces": np.array(pieces, np.int32).reshape(-1, 5)}


# ---- documents ----

@pytest.fixture
def write(tmp_path):
    """Texts whose ids are their bytes."""
    (tmp_path / "r.tiktoken").write_text("".join(
        f"{base64.b64encode(bytes([b])).decode()} {b}\n" for b in range(256)))

    def make(docs):
        for f in tmp_path.glob("t/x/*"):
            f.unlink()
        (tmp_path / "t" / "x").mkdir(parents=True, exist_ok=True)
        for i, d in enumerate(docs):
            (tmp_path / "t" / "x" / f"{i:05}").write_bytes(bytes(d))
        return f"files {tmp_path}/t | tokenize ranks={tmp_path}/r.tiktoken"
    return make


def random_docs(rng, count):
    most = rng.choice([1, 3, 10, 40, 200])
    return [[rng.randrange(65, 91) for _ in range(rng.randrange(most + 1))]
            for _ in range(count)]


def batches(text, **options):
    return list(millrace.Loader(text, order="sequential", **options))


def same(batch, want):
    for name, x in want.items():
        got = np.array(batch[name])
        assert got.shape == x.shape and got.dtype == x.dtype, name
        assert np.array_equal(got, x), name


@pytest.mark.parametrize("how", ["cut", "fit"])
@pytest.mark.parametrize("seed", range(12))
def test_rows_are_those_of_the_description(write, how, seed):
    rng = random.Random(seed)
    docs = random_docs(rng, rng.randrange(1, 40))
    source = write(docs)
    eos = rng.choice([None, 0, 7])
    value = rng.choice([0, -100, 5])
    n = rng.choice([1, 4, 16, 50])
    for room in (1, 2, 7, 63, 64, 65, 256):
        text = (f"{source} | batch {n} | pack {room} how={how} value={value}"
                + ("" if eos is None else f" eos={eos}"))
        got = batches(text, threads=2)
        assert len(got) == -(-len(docs) // n)
        for i, b in enumerate(got):
            part = docs[i * n:(i + 1) * n]
            assert b.count == len(part)
            same(b, packed(part, room, how, eos, value))


@pytest.mark.parametrize("how", ["cut", "fit"])
def test_every_document_comes_back_from_its_pieces(write, how):
    rng = random.Random(5)
    docs = random_docs(rng, 300)
    for b in batches(f"{write(docs)} | batch 100 | pack 33 how={how} eos=1"):
        back = [[] for _ in range(b.count)]
        ids = b["ids"]
        for row, start, n, d, first in sorted(b["pieces"].tolist(),
                                              key=lambda p: p[3:]):
            assert len(back[d]) == first
            back[d] += ids[row, start:start + n].tolist()
        for i, d in zip(b.indices, back):
            assert d == docs[i] + [1]
        assert b["lengths"].sum() == sum(map(len, back))
        assert (b["segments"] >= 0).sum() == sum(map(len, back))


def test_fit_splits_no_document_that_fits_and_needs_fewer_splits(write):
    rng = random.Random(6)
    docs = random_docs(rng, 200)
    b, = batches(f"{write(docs)} | batch 200 | pack 64 how=fit")
    split = np.bincount(b["pieces"][:, 3], minlength=200)
    for d, n in zip(docs, split):
        assert n == -(-len(d) // 64)
    used = b["lengths"].sum() / b["ids"].size
    assert used > 0.9


def test_batches_padded_or_dense_pack_alike(write):
    docs = random_docs(random.Random(7), 30)
    source = write(docs)
    for how in ("", "pad=9"):
        b, = batches(f"{source} | batch 30 {how} | pack 16")
        same(b, packed(docs, 16, "cut"))
    b, = batches(f"{source} | pad 6 value=3 | batch 30 | pack 16 how=fit")
    same(b, packed([(d + [3] * 6)[:6] for d in docs], 16, "fit"))


def test_other_fields_stay_those_of_the_samples(write):
    docs = random_docs(random.Random(8), 10)
    b, = batches(f"{write(docs)} | batch 10 | pack 8")
    assert b["label"].shape == (10,)
    assert len(b.samples("ids")) == len(b["ids"]) != 10
    assert all(x.shape == (8,) for x in b.samples("ids"))
    assert b.offsets("ids") is None and b.shapes("ids") is None


def test_documents_of_no_tokens_give_no_rows(write):
    b, = batches(f"{write([[], [], []])} | batch 3 | pack 8")
    assert b["ids"].shape == (0, 8) and b["pieces"].shape == (0, 5)
    b, = batches(f"{write([[], [], []])} | batch 3 | pack 8 eos=2 how=fit")
    assert b["ids"].tolist() == [[2, 2, 2, 0, 0, 0, 0, 0]]
    assert b["lengths"].tolist() == [3]


def test_rows_do_not_depend_on_threads_or_restarts(write):
    source = write(random_docs(random.Random(9), 200))
    text = f"{source} | batch 16 | pack 32 how=fit"
    want = [b.numpy() for b in millrace.Loader(text, threads=1, seed=3)]
    loader = millrace.Loader(text, threads=2, seed=3)
    it = iter(loader)
    for w in want[:5]:
        same(next(it), w)
    state = loader.state_dict()
    other = millrace.Loader(text, threads=2, seed=3)
    other.load_state_dict(state)
    rest = list(other)
    assert len(rest) == len(want) - 5
    for b, w in zip(rest, want[5:]):
        same(b, w)


def test_a_bad_document_is_left_out_of_the_rows(write, tmp_path):
    docs = [[65] * 3, [66] * 3, [67] * 3]
    source = write(docs)
    np.save(tmp_path / "e.npy", np.zeros((66, 1), "<f4"))
    b, = batches(f"{source} | embed {tmp_path}/e.npy | batch 3",
                 on_error="skip")
    assert b.count == 1
    (tmp_path / "t" / "x" / "00001").unlink()
    (tmp_path / "t" / "x" / "00001").symlink_to("nowhere")
    text = f"{source} | batch 3 | pack 4"
    with pytest.raises(Exception):
        batches(text)
    b, = batches(text, on_error="skip")
    same(b, packed([docs[0], docs[2]], 4, "cut"))


@pytest.mark.parametrize("rest, words", [
    ("pack 8", ["comes after `batch N`"]),
    ("batch 2 | pack 8 | pack 9", ["'segments'", "already"]),
    ("batch 2 | pack 8 | pad 9", ["must come before"]),
    ("batch 2 | pack 0", ["pack", "0"]),
    ("batch 2 | pack 8 value=0.5", ["value=0.5"]),
    ("cast u8 | batch 2 | pack 8 eos=256", ["eos=256"]),
    ("batch 2 | pack 8 field=label", ["want lists of ids"]),
    ("batch 2 | pack 8 how=best", ["cut", "fit"]),
])
def test_wrong_uses_are_refused(write, rest, words):
    with pytest.raises(Exception) as e:
        batches(f"{write([[65]])} | {rest}")
    for w in words:
        assert w in str(e.value), str(e.value)


def test_rows_larger_than_the_memory_are_refused(write):
    with pytest.raises(Exception, match="raise --memory"):
        batches(f"{write([[65]])} | batch 1 | pack 16777216",
                memory=16 << 20)


def test_prepare_stores_what_comes_before_the_batch(write, tmp_path):
    docs = random_docs(random.Random(10), 20)
    source = write(docs)
    subprocess.run([MILL, "prepare", f"{source} | batch 20 | pack 16",
                    "--out", tmp_path / "set"], check=True)
    b, = batches(f"records {tmp_path}/set | batch 20 | pack 16")
    same(b, packed(docs, 16, "cut"))


def test_pack_is_counted_as_a_step(write):
    loader = millrace.Loader(
        f"{write(random_docs(random.Random(11), 64))} | batch 16 | pack 16",
        epochs=1)
    list(loader)
    stats = loader.stats()
    names = [s["name"] for s in stats["steps"]]
    assert names == ["read", "tokenize", "pack"]
    assert stats["steps"][2]["calls"] == 4
    assert stats["steps"][2]["bytes_out"] > 0
