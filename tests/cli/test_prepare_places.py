# SPDX-License-Identifier: Apache-2.0
"""Prepared data sets in odd places, of odd sizes, and by several processes at
once."""
import json
import os
import resource
import signal
import subprocess
import tarfile

import numpy as np
import pytest

SOURCE = "synthetic 50 u8 count=30"


def names(folder):
    return sorted(f.name for f in folder.iterdir())


# ---- where to ----

@pytest.mark.parametrize("name", ["with space", "ünï", "a'b", "end/", "-dash",
                                  "new\nline"])
def test_out_may_have_any_name(mill, tmp_path, name):
    mill("prepare", SOURCE, f"--out={name}", cwd=tmp_path)
    mill("verify", f"./{name}", cwd=tmp_path)
    text = f"records \"./{name}\" | batch 4"
    if "\n" not in name:
        assert mill.digest(text, cwd=tmp_path) == \
            mill.digest(f"{SOURCE} | batch 4")


def test_out_may_be_a_link_to_a_folder(mill, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    mill("prepare", SOURCE, "--out", tmp_path / "link")
    mill("verify", tmp_path / "real")


def test_out_that_cannot_be_made_is_named(mill, tmp_path):
    (tmp_path / "file").write_text("x")
    for out in ("file", "file/below", "none/below"):
        mill.fails("prepare", SOURCE, "--out", tmp_path / out, code=1,
                   says=str(tmp_path / out))
    (tmp_path / "dangling").symlink_to("nowhere")
    mill.fails("prepare", SOURCE, "--out", tmp_path / "dangling", code=1,
               says="dangling")
    assert (tmp_path / "file").read_text() == "x"


def test_a_path_that_is_too_long_is_refused(mill, tmp_path):
    out = tmp_path
    while len(str(out)) < 3900:
        out = out / ("x" * 99)
    for n in (4001, 4050, 4080, 4095, 5000):
        part = (str(out) + "/" + "y" * 200 + "/" + "y" * 5000)[:n]
        r = mill("prepare", SOURCE, "--out", part, code=2)
        assert "at most 4000" in r.stderr


def test_a_folder_that_is_read_only_is_named(mill, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid():
        disk.chmod(0o500)
    elif subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", disk],
                        stderr=subprocess.DEVNULL).returncode:
        pytest.skip("cannot mount here")
    try:
        for out in (disk / "out", disk):
            r = mill.fails("prepare", SOURCE, "--out", out, code=1,
                           says=str(out))
            assert "Read-only" in r.stderr or "Permission" in r.stderr
    finally:
        if not os.geteuid():
            subprocess.run(["umount", disk], check=True)


def test_parts_of_others_are_not_removed(mill, tmp_path):
    (tmp_path / "film.part").write_text("half of a download")
    mill.fails("prepare", SOURCE, "--out", tmp_path, code=2, says="not empty")
    assert names(tmp_path) == ["film.part"]


def test_too_little_space_leaves_nothing_in_the_way(mill, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk],
            stderr=subprocess.DEVNULL).returncode:
        pytest.skip("cannot mount here")
    try:
        np.save(tmp_path / "a.npy", np.zeros((100, 30000), "u1"))
        args = ["prepare", f"npy {tmp_path}/a.npy", "--out", disk / "out"]
        mill.fails(*args, code=1, says=["will take about", "--codec"])
        mill(*args, "--codec", "zstd")
        mill("verify", disk / "out")
    finally:
        subprocess.run(["umount", disk], check=True)


def test_names_that_are_no_utf8_are_gone_on_with(mill, tmp_path):
    source = os.fsencode(tmp_path) + b"/in\xff"
    os.mkdir(source)
    for i in range(40):
        with open(source + b"/%d\xe9" % i, "wb") as f:
            f.write(b"x" * 100_000)
    args = ["prepare", os.fsdecode(b"files " + source), "--out",
            tmp_path / "out", "--shards", 3]
    mill(*args)
    out = tmp_path / "out"
    plan = json.loads((out / "meta.json").read_bytes())
    plan = {k: plan[k] for k in ("format", "version", "plan", "set")}
    assert plan["plan"]["source"] == []
    mill("run", f"records {out} | batch 4")
    # As if it had been stopped at the last moment, or before.
    was = {f.name: f.read_bytes() for f in out.iterdir()}
    mill("prepare", *args[1:3], tmp_path / "b", *args[4:], "--dry-run")
    r = subprocess.Popen([mill.bin, *map(str, args[:3]), tmp_path / "c",
                          *map(str, args[4:])], stdout=subprocess.DEVNULL)
    while not list(tmp_path.glob("c/*.part")) and r.poll() is None:
        pass
    r.send_signal(signal.SIGKILL)
    r.wait()
    if not (tmp_path / "c" / "meta.json").exists():
        mill(*args[:3], tmp_path / "c", *args[4:])
    assert {f.name: f.read_bytes() for f in (tmp_path / "c").iterdir()} == was


# ---- several at once ----

def test_of_writers_that_start_together_one_wins(mill, tmp_path):
    p = "synthetic 200 u8 count=2000 cost=30us"
    for i in range(8):
        out = tmp_path / str(i)
        runs = [subprocess.Popen([mill.bin, "prepare", p, "--out", out,
                                  "--shards", "2", "--threads", "1"],
                                 stdout=subprocess.DEVNULL,
                                 stderr=subprocess.PIPE) for _ in range(4)]
        said = [r.communicate(timeout=60)[1].decode() for r in runs]
        assert sorted(r.returncode == 0 for r in runs) == [False] * 3 + [True]
        assert all(not s or "another process" in s or "already" in s
                   for s in said), said
        mill("verify", out)
        assert names(out) == ["meta.json", "shard-00000.mrs",
                              "shard-00001.mrs"]


def test_a_set_is_read_by_some_while_others_verify_it(mill, tmp_path):
    out = tmp_path / "out"
    mill("prepare", "synthetic 3000 u8 count=3000", "--out", out, "--codec",
         "lz4", "--shards", 5)
    text = f"records {out} | batch 16"
    want = mill.digest(text, "--epochs", 3)
    runs = [subprocess.Popen([mill.bin, "run", text, "--digest", "--epochs",
                              "3", "--json"], stdout=subprocess.PIPE)
            for _ in range(2)]
    for _ in range(3):
        mill("verify", out)
    for r in runs:
        assert json.loads(r.communicate(timeout=60)[0])["digest"] == want


# ---- how much ----

def test_one_sample_is_a_set(mill, tmp_path):
    for codec in ("none", "zstd"):
        out = tmp_path / codec
        p = "synthetic 3 f32 count=1"
        r = mill.json("prepare", p, "--out", out, "--codec", codec, "--shards",
                      100)
        assert r["shards"] == 1 and r["samples"] == 1
        for order in ("sequential", "block", "shuffle"):
            assert mill.digest(f"records {out} | batch 4", "--order",
                               order) == mill.digest(f"{p} | batch 4")


def test_many_small_samples_in_many_shards(mill, tmp_path):
    p = "synthetic 2 u8 count=100000"
    out = tmp_path / "out"
    r = mill.json("prepare", p, "--out", out, "--shards", 500)
    assert r["shards"] == 500
    mill("verify", out)
    for order in ("shuffle", "block"):
        args = ["--order", order]
        assert mill.digest(f"records {out} | batch 256", *args) == \
            mill.digest(f"{p} | batch 256", *args)


def test_too_many_shards_for_the_limit_of_files_say_so(mill, tmp_path):
    out = tmp_path / "out"
    mill("prepare", "synthetic 2 u8 count=200", "--out", out, "--shards", 200)
    r = mill("run", f"records {out} | batch 2", code=1, preexec_fn=lambda:
             resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100)))
    assert "too many open files" in r.stderr and "shard-" in r.stderr


def test_as_many_fields_as_there_may_be(mill, tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as t:
        for i in range(20):
            for k in range(16):
                (tmp_path / "x").write_bytes(bytes([i, k]) * (i + k))
                t.add(tmp_path / "x", f"{i:03}.f{k:02}")
    p = f"tar {tmp_path}/a.tar index=no"
    for codec in ("none", "lz4"):
        mill("prepare", p, "--out", tmp_path / codec, "--codec", codec,
             "--shards", 3)
        assert mill.digest(f"records {tmp_path}/{codec} | batch 3") == \
            mill.digest(f"{p} | batch 3")


def test_as_many_steps_as_there_may_be(mill, tmp_path):
    casts = ["cast f32", "cast f64"] * 16
    whole = " | ".join(["synthetic 4 u8 count=9", *casts[:30], "batch 2"])
    assert whole.count("|") == 31
    # All of them are left to be done on load.
    mill("prepare", whole, "--out", tmp_path / "a")
    plan = json.loads((tmp_path / "a" / "meta.json").read_text())["plan"]
    assert plan["deferred"].count("cast") == 30
    assert mill.digest(f"records {tmp_path}/a | batch 2") == mill.digest(whole)
    mill.fails("run", f"records {tmp_path}/a | cast u8 | batch 2", code=1,
               says="more than 32 stages")
    mill.fails("prepare", whole, "--out", tmp_path / "b", "--literal", code=1,
               says=["31 stages", "--until 30"])
    assert not (tmp_path / "b").exists()
    mill("prepare", whole, "--out", tmp_path / "b", "--literal", "--until", 30)
    assert mill.digest(f"records {tmp_path}/b | {casts[29]} | batch 2") == \
        mill.digest(whole)


def test_blocks_larger_than_others_do_not_stall_reading(mill, tmp_path):
    """Runs of the larger ones take all the memory for reading ahead."""
    (tmp_path / "in").mkdir()
    for i in range(640):
        n = 60_000 if 128 <= i < 200 else 11_000
        (tmp_path / "in" / f"{i:03}").write_bytes(bytes([i % 251]) * n)
    out = tmp_path / "out"
    mill("prepare", f"files {tmp_path}/in", "--out", out, "--shards", 2)
    text = f"records {out} map=no | batch 4"
    args = ["--order", "block", "--block", 8, "--epochs", 20, "--threads", 2]
    want = mill.digest(text, *args, "--fetch", "direct")
    for memory in ("8800K", "9M", "9500K"):
        assert mill.digest(text, *args, "--fetch", "ahead", "--memory",
                           memory) == want
