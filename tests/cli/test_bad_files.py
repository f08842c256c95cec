# SPDX-License-Identifier: Apache-2.0
"""One of several files that is damaged: with skip and replace its samples are
bad ones, with stop it is the error; and so is the only file."""
import gzip
import json
import struct

import numpy as np
import pytest

h5py = pytest.importorskip("h5py")
ROWS = 20


@pytest.fixture(scope="module")
def made(mill, tmp_path_factory):
    """Two files of 20 samples in each container: {kind: {name: bytes}}."""
    root = tmp_path_factory.mktemp("made")
    out = {}
    for to in ("tar", "tfrecord"):
        (root / to).mkdir()
        for name in "ab":
            mill("convert", f"synthetic 9 u8 count={ROWS}", "--to", to,
                 "--out", root / to / name, "--shards", 1)
        out[to] = {f"{n}.{to}": next((root / to / n).glob(f"*.{to}"))
                   .read_bytes() for n in "ab"}
    out["gz"] = {n.replace("tfrecord", "gz"): gzip.compress(d)
                 for n, d in out["tfrecord"].items()}
    for name in "ab":
        with h5py.File(root / f"{name}.h5", "w") as f:
            f["x"] = np.arange(ROWS * 3.).reshape(ROWS, 3)
        np.save(root / f"{name}.npy", np.arange(ROWS * 3.).reshape(ROWS, 3))
        np.savez_compressed(root / f"{name}.npz", x=np.zeros((ROWS, 99)),
                            y=np.arange(ROWS))
    for kind in ("npy", "npz"):
        out[kind] = {f"{n}.{kind}": (root / f"{n}.{kind}").read_bytes()
                     for n in "ab"}
    out["h5"] = {f"{n}.h5": (root / f"{n}.h5").read_bytes() for n in "ab"}
    shard = struct.pack("<I", ROWS)
    at = 4 + 4 * (ROWS + 1)
    shard += struct.pack(f"<{ROWS + 1}I", *(at + 8 * i
                                            for i in range(ROWS + 1)))
    shard += struct.pack(f"<{ROWS}q", *range(ROWS))
    index = {"version": 2, "shards": [
        {"format": "mds", "samples": ROWS, "compression": None,
         "column_names": ["x"], "column_encodings": ["int"],
         "column_sizes": [8], "raw_data": {"basename": f"{n}.mds"},
         "zip_data": None} for n in "ab"]}
    out["mds"] = {"a.mds": shard, "b.mds": shard,
                  "index.json": json.dumps(index).encode()}
    return out


TEXTS = {"tar": "tar '{}/*.tar' index=no", "h5": "hdf5 '{}/*.h5' x",
         "tfrecord": "tfrecord '{}/*.tfrecord' index=no", "mds": "mds {}",
         "gz": "tfrecord '{}/*.gz'", "npy": "npy '{}/*.npy'",
         "npz": "npz '{}/*.npz'"}


def flip(data, at):
    data = bytearray(data)
    data[at] ^= 4
    return bytes(data)


# What happens to b, and how many bad samples that is.
DAMAGE = {
    "tar no tar": ("tar", lambda d: flip(flip(d, 3), 258), 1),
    "tar empty": ("tar", lambda d: b"", 1),
    "tfrecord length": ("tfrecord", lambda d: flip(d, 0), 1),
    "gz cut": ("gz", lambda d: d[:len(d) // 2], 1),
    "gz flip": ("gz", lambda d: flip(d, len(d) - 6), 1),
    "h5 cut": ("h5", lambda d: d[:len(d) // 2], 1),
    "h5 empty": ("h5", lambda d: b"", 1),
    "npy no NumPy": ("npy", lambda d: flip(d, 1), 1),
    "npy shape": ("npy", lambda d: d.replace(b"(20, 3)", b"(20, 9"), 1),
    "npy empty": ("npy", lambda d: b"", 1),
    "npz cut": ("npz", lambda d: d[:-9], 1),
    "npz CRC": ("npz", lambda d: flip(d, d.index(b"PK\1\2") + 16), ROWS),
    "mds table cut": ("mds", lambda d: d[:30], ROWS),
}


@pytest.mark.parametrize("case", DAMAGE)
@pytest.mark.parametrize("which", ["a", "b", "ab"])
def test_a_damaged_file_of_several_is_bad_samples(mill, made, tmp_path, case,
                                                  which):
    kind, damage, lost = DAMAGE[case]
    for name, data in made[kind].items():
        (tmp_path / name).write_bytes(
            damage(data) if name[0] in which and name[1] == "." else data)
    text = TEXTS[kind].format(tmp_path) + " | batch 4"
    first = str(tmp_path / f"{which[0]}.")
    stop = mill.fails("run", text, "--order", "sequential", code=1, says=first)
    if which == "ab":
        mill.fails("run", text, "--on-error", "skip", code=1, says=first)
        return
    r = mill.json("run", text, "--on-error", "skip")
    assert r["samples"] == ROWS and r["bad_samples"] == lost
    for b in r["bad"]:
        assert b["key"].startswith(first)
        assert b["reason"] in stop.stderr
    assert mill.json("run", text, "--on-error",
                     "replace")["samples"] == ROWS + lost
    assert len({mill.digest(text, "--on-error", "skip", "--threads", n)
                for n in (1, 4)}) == 1


@pytest.mark.parametrize("rows, bad", [(15, 5), (4, 1)])
def test_rows_of_a_truncated_array_that_are_there_are_good(mill, made,
                                                           tmp_path, rows,
                                                           bad):
    """Where most are missing, its shape may be what is damaged."""
    data = made["npy"]["a.npy"]
    for name in "ab":
        (tmp_path / f"{name}.npy").write_bytes(
            data if name == "b" else data[:len(data) - 24 * (20 - rows) + 5])
    for glob, more in (("*", ROWS), ("a", 0)):
        text = f"npy '{tmp_path}/{glob}.npy' | batch 4"
        mill.fails("run", text, code=1, says="truncated")
        for how in ("no", "yes"):
            r = mill.json("run", text.replace(" |", f" map={how} |"),
                          "--on-error", "skip")
            assert (r["samples"], r["bad_samples"]) == (rows + more, bad)
            assert all("truncated" in b["reason"] for b in r["bad"])


def test_prepare_takes_a_damaged_file_as_a_bad_sample(mill, made, tmp_path):
    (tmp_path / "in").mkdir()
    for name, data in made["h5"].items():
        (tmp_path / "in" / name).write_bytes(data if name[0] == "a" else b"")
    text = f"hdf5 '{tmp_path}/in/*.h5' x"
    mill.fails("prepare", text, "--out", tmp_path / "out", code=1, says="b.h5")
    mill("prepare", text, "--out", tmp_path / "out", "--on-error", "skip")
    r = mill.json("run", f"records {tmp_path}/out | batch 4", "--on-error",
                  "skip")
    assert r["samples"] == ROWS and r["bad_samples"] == 1
    assert "b.h5" in r["bad"][0]["reason"]


def test_a_damaged_first_header_costs_its_sample_only(mill, made, tmp_path):
    for name, data in made["tar"].items():
        (tmp_path / name).write_bytes(flip(data, 3) if name[0] == "b"
                                      else data)
    r = mill.json("run", f"tar {tmp_path}/b.tar index=no | batch 4",
                  "--on-error", "skip")
    # The header, and what is left of its sample: nobody knows yet what a
    # whole one has.
    assert r["samples"] == ROWS - 1 and r["bad_samples"] <= 2
    assert any("at byte 0" in b["reason"] for b in r["bad"])
