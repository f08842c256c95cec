# SPDX-License-Identifier: Apache-2.0
"""NumPy's .npz files, as numpy.load() reads them."""
import io
import random
import zipfile

import millrace
import numpy as np
import pytest

DTYPES = ["u1", "<i2", "<i4", "<i8", "<f2", "<f4", "<f8", "?"]
SAVE = {"stored": np.savez, "packed": np.savez_compressed}


@pytest.fixture(params=SAVE)
def save(request):
    return SAVE[request.param]


def load(text, field, **options):
    options.setdefault("order", "sequential")
    out = []
    for b in millrace.Loader(f"{text} | batch 7", **options):
        out += [np.array(x) for x in b.samples(field)]
    return out


def same(a, b):
    b = np.asarray(b)
    assert a.dtype == b.dtype and a.shape == b.shape
    assert a.tobytes() == b.tobytes()


def refused(text, *words, **options):
    with pytest.raises(Exception) as e:
        list(millrace.Loader(text + " | batch 1", **options))
    for w in words:
        assert w in str(e.value), str(e.value)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(10,), (10, 3), (10, 2, 3, 4)])
def test_rows_are_samples(tmp_path, save, dtype, shape):
    a = (np.random.default_rng(1).random(shape) * 100).astype(dtype)
    save(tmp_path / "x.npz", a, y=np.arange(10))
    got = load(f"npz {tmp_path}/x.npz", "arr_0", threads=2)
    want = a.view("u1") if dtype == "?" else a
    assert len(got) == 10
    for x, y in zip(got, want):
        same(x, y)
    assert [int(v) for v in load(f"npz {tmp_path}/x.npz y", "y")] == \
        list(range(10))


def test_rows_of_many_files(tmp_path, save):
    rng = np.random.default_rng(2)
    x = [rng.random((n, 4)) for n in (3, 0, 8, 1)]
    for i, a in enumerate(x):
        save(tmp_path / f"{i}.npz", x=a, y=np.arange(len(a)) + 10 * i)
    all_x = np.concatenate(x)
    all_y = np.concatenate([np.arange(len(a)) + 10 * i
                            for i, a in enumerate(x)])
    seen = []
    for b in millrace.Loader(f"npz '{tmp_path}/*.npz' x,y | batch 5",
                             threads=3, seed=4):
        for k, i in enumerate(b.indices):
            same(b["x"][k], all_x[int(i)])
            assert b["y"][k] == all_y[int(i)]
            seen.append(int(i))
    assert sorted(seen) == list(range(12))


@pytest.mark.parametrize("dtype", DTYPES)
def test_files_are_samples(tmp_path, save, dtype):
    rng = np.random.default_rng(3)
    want = []
    for i in range(9):
        want.append((rng.random((3, 50 + i, 40)) * 100).astype(dtype))
        save(tmp_path / f"{i}.npz", x=want[-1], label=i)
    text = f"npz '{tmp_path}/*.npz' each=file"
    got = load(text, "x", threads=2)
    for x, y in zip(got, want):
        same(x.reshape(y.shape), y.view("u1") if dtype == "?" else y)
    assert [int(v) for v in load(text, "label")] == list(range(9))


def test_files_of_one_shape_make_dense_batches(tmp_path, save):
    for i in range(4):
        save(tmp_path / f"{i}.npz", x=np.full((2, 3), i, "<f4"))
    b = next(iter(millrace.Loader(f"npz '{tmp_path}/*.npz' each=file "
                                  "| batch 4", order="sequential")))
    assert b["x"].shape == (4, 2, 3) and b["x"][:, 0, 0].tolist() == [0, 1, 2,
                                                                     3]


def test_zip64_and_comments(tmp_path):
    a = np.arange(1000).reshape(10, 100)
    f = io.BytesIO()
    np.save(f, a)
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as z:
        z.comment = b"c" * 5000
        with z.open("x.npy", "w", force_zip64=True) as m:
            m.write(f.getvalue())
        z.writestr("readme.txt", "no array")
    same(np.stack(load(f"npz {tmp_path}/x.npz", "x")), a)
    # More members than 16 bits can count.
    with zipfile.ZipFile(tmp_path / "y.npz", "w") as z:
        for i in range(66000):
            z.writestr(f"{i}", b"")
        z.writestr("x.npy", f.getvalue())
    same(np.stack(load(f"npz {tmp_path}/y.npz x", "x")), a)


def test_members_of_more_than_4_gb(tmp_path):
    """Made by hand, with a hole in it."""
    f = io.BytesIO()
    np.save(f, np.zeros((1,), "u1"))
    head = f.getvalue()[:-1].replace(b"(1,), }" + b" " * 9,
                                     b"(5000000000,), }")
    size = len(head) + 5000000000
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as z:
        with z.open("x.npy", "w", force_zip64=True) as m:
            m.write(head)
    raw = (tmp_path / "x.npz").read_bytes()
    at, end = raw.index(b"PK\x01\x02"), raw.index(b"PK\x05\x06")
    entry = bytearray(raw[at:end])
    entry[20:28] = b"\xff" * 8
    entry[30:32] = (20).to_bytes(2, "little")
    entry = entry[:46 + 5] + b"\1\0\x10\0" + size.to_bytes(8, "little") * 2
    first = at + 5000000000
    end64 = b"PK\x06\x06" + b"\0" * 20 + b"".join(
        n.to_bytes(8, "little") for n in (1, 1, len(entry), first))
    after = first + len(entry)
    with open(tmp_path / "x.npz", "wb") as out:
        out.write(raw[:at])
        out.seek(first - 4)
        out.write(b"abcd" + entry + end64 + b"PK\x06\x07\0\0\0\0" +
                  after.to_bytes(8, "little") + b"\1\0\0\0" +
                  b"PK\x05\x06" + b"\0" * 4 + b"\xff" * 12 + b"\0\0")
    got = []
    for b in millrace.Loader(f"npz {tmp_path}/x.npz x | batch 1000",
                             order="sequential", samples=2000):
        got.append(b["x"].sum())
    assert got == [0, 0]
    loader = millrace.Loader(f"npz {tmp_path}/x.npz x | batch 1000")
    assert len(loader) == 5000000


# ---- what is refused, and damage ----

def test_refusals_say_why(tmp_path, save):
    p = tmp_path / "x.npz"
    save(p, x=np.zeros((3, 2)), y=np.zeros(4), n=5, c=np.zeros(3, "c8"),
         f=np.asfortranarray(np.zeros((3, 2))), e=np.zeros((3, 0)),
         o=np.array([None, 1, "x"]))
    refused(f"npz {p} z", "no array 'z'", "x y n")
    refused(f"npz {p} x,y", "4 rows", "'x' has 3", "each=file")
    refused(f"npz {p} n", "'n'", "no rows", "each=file")
    refused(f"npz {p} c", "'c'", "<c8", "np.savez(")
    refused(f"npz {p} f", "'f'", "Fortran")
    refused(f"npz {p} e", "'e'", "without elements")
    refused(f"npz {p} o", "'o'", "|O")
    refused(f"npz {p} x,x", "twice")
    refused(f"npz {p} x,", "array")
    save(tmp_path / "y.npz", x=np.zeros((3, 3)))
    refused(f"npz '{tmp_path}/*.npz' x", "y.npz", "f64[3]", "x.npz",
            "f64[2]")
    (tmp_path / "z.npz").write_bytes(b"no zip file" * 10)
    refused(f"npz {tmp_path}/z.npz", "z.npz", "no zip file")
    refused(f"npy {p}", "x.npz", "the source npz")


def test_more_than_may_be_unpacked_is_refused(tmp_path):
    a = np.zeros(1000000)
    np.savez_compressed(tmp_path / "x.npz", x=a)
    refused(f"npz {tmp_path}/x.npz unpacked=4M", "8000128 bytes",
            "unpacked=")
    np.savez_compressed(tmp_path / "y.npz", x=a[:10])
    refused(f"npz '{tmp_path}/?.npz' each=file", "x.npz", "8000128 bytes",
            "--memory", memory="4M")


def test_what_is_unpacked_follows_the_budget(tmp_path):
    np.savez_compressed(tmp_path / "x.npz", x=np.zeros((1000, 1000)))
    text = f"npz {tmp_path}/x.npz"
    refused(text, "8000128 bytes", "7864320", "--memory", memory="15M")
    for more, memory in (("", "20M"), ("unpacked=8M", "15M")):
        loader = millrace.Loader(f"{text} {more} | batch 10", memory=memory,
                                 epochs=1)
        assert sum(len(b.indices) for b in loader) == 1000


def test_a_damaged_file_is_one_lost_sample(tmp_path, save):
    rng = np.random.default_rng(5)
    for i in range(6):
        save(tmp_path / f"{i}.npz", x=rng.random((40, 50)) // 0.001)
    raw = bytearray((tmp_path / "3.npz").read_bytes())
    raw[len(raw) // 2] ^= 255
    (tmp_path / "3.npz").write_bytes(raw)
    text = f"npz '{tmp_path}/*.npz' each=file | batch 1"
    loader = millrace.Loader(text, on_error="skip")
    assert sorted(int(i) for b in loader for i in b.indices) == [0, 1, 2, 4,
                                                                 5]
    refused(text.rsplit("|", 1)[0], "3.npz", "'x.npy'", "damaged")


def test_damage_anywhere_ends_no_process(tmp_path, save):
    rng = random.Random(6)
    p = tmp_path / "x.npz"
    save(p, x=np.arange(200), y=np.arange(400).reshape(200, 2))
    whole = p.read_bytes()
    refused_ = 0
    for i in range(300):
        b = bytearray(whole)
        if i % 3 == 0:
            b = b[:rng.randrange(len(b))]
        for _ in range(rng.randrange(4) if b else 0):
            b[rng.randrange(len(b))] = rng.randrange(256)
        p.write_bytes(b)
        for each in ("row", "file"):
            try:
                for _ in millrace.Loader(f"npz {p} each={each} | batch 64"):
                    pass
            except millrace.Error as e:
                assert "x.npz" in str(e), e
                refused_ += 1
    assert refused_ > 200
