# SPDX-License-Identifier: Apache-2.0
"""Prepared data sets: the same batches as the whole pipeline, whatever the
split and codec; kills, full disks, damage and changed sources."""
import io
import json
import os
import random
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest

CODECS = ["none", "lz4", "zstd", "zlib", "gzip"]
STEPS = ["decode_image", "resize 40 short=yes", "center_crop 36",
         "random_crop 32", "flip", "normalize imagenet"]


@pytest.fixture(scope="module")
def photos(photos_of):
    return photos_of(40)


@pytest.fixture
def whole(photos):
    return " | ".join([f"files {photos}", *STEPS, "batch 8"])


def files_of(folder):
    return {f.name: f.read_bytes() for f in sorted(folder.iterdir())}


def flip_bit(path, at, bit=2):
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(data)


# ---- equal to the unsplit pipeline ----

@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("split", [1, 2, 3, 4])
def test_a_split_gives_the_same_batches(mill, whole, tmp_path, split, codec):
    out = tmp_path / "out"
    mill("prepare", whole, "--until", split, "--out", out, "--codec", codec,
         "--shards", 3)
    rest = " | ".join([f"records {out}", *STEPS[split - 1:], "batch 8"])
    for args in (["--seed", 3, "--epochs", 2], ["--order", "block"],
                 ["--rank", "1/3", "--threads", 3]):
        assert mill.digest(rest, *args) == mill.digest(whole, *args)


@pytest.mark.parametrize("literal", [[], ["--literal"]])
@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize("steps", ["normalize imagenet",
                                   "cast f32 | normalize center | cast f16",
                                   "cast i32 | cast f64 field=label",
                                   "select label,data | cast i16 field=label"])
def test_wide_types_are_stored_and_deferred_exactly(mill, tmp_path, steps,
                                                    codec, literal):
    source = "synthetic 9,7,3 u8 count=50 classes=5"
    out = tmp_path / "out"
    mill("prepare", f"{source} | {steps} | batch 4", "--out", out, "--codec",
         codec, *literal)
    assert mill.digest(f"records {out} | batch 4") == \
        mill.digest(f"{source} | {steps} | batch 4")


def test_normalize_is_deferred_and_explain_says_so(mill, tmp_path):
    p = "synthetic 16,16,3 u8 count=20 | normalize imagenet | batch 4"
    r = mill.json("prepare", p, "--out", tmp_path / "small")
    assert r["deferred"].startswith("normalize") and "u8[16 16 3]" in \
        r["stored"]
    wide = mill.json("prepare", p, "--out", tmp_path / "wide", "--literal")
    assert wide["deferred"] == "" and "f32[3 16 16]" in wide["stored"]
    assert wide["bytes"] > 3 * r["bytes"]
    steps = mill.json("explain", f"records {tmp_path}/small | batch 4")["steps"]
    assert [s["name"] for s in steps] == ["records", "normalize", "batch"]
    assert [s["deferred"] for s in steps] == [False, True, False]
    assert "left to be done" in \
        mill("explain", f"records {tmp_path}/small | batch 4").stdout


def test_until_takes_all_that_is_not_random(mill, whole, tmp_path):
    mill("prepare", whole, "--out", tmp_path / "out")
    meta = json.loads((tmp_path / "out" / "meta.json").read_text())
    assert meta["plan"]["stages"] == 4


def test_samples_of_any_shape_and_of_no_bytes_are_stored(mill, tmp_path):
    (tmp_path / "in").mkdir()
    for i in range(20):
        (tmp_path / "in" / f"{i:02}").write_bytes(bytes(range(i)) * i)
    for codec in CODECS:
        out = tmp_path / codec
        mill("prepare", f"files {tmp_path}/in", "--out", out, "--codec", codec)
        assert mill.digest(f"records {out} | batch 3") == \
            mill.digest(f"files {tmp_path}/in | batch 3")


def test_a_prepared_set_can_be_prepared_again(mill, whole, tmp_path):
    mill("prepare", whole, "--until", 2, "--out", tmp_path / "a")
    mill("prepare", f"records {tmp_path}/a | {STEPS[1]}", "--out",
         tmp_path / "b", "--codec", "lz4")
    rest = " | ".join([f"records {tmp_path}/b", *STEPS[2:], "batch 8"])
    assert mill.digest(rest) == mill.digest(whole)


def test_what_a_set_has_deferred_stays_with_sets_of_it(mill, tmp_path):
    whole = "synthetic 9 u8 count=20 | cast f32 | cast f64"
    mill("prepare", whole, "--out", tmp_path / "a")
    want = mill.digest(f"{whole} | batch 3")
    for i, args in enumerate([[], ["--until", 1], ["--until", 2],
                              ["--until", "records", "--literal"]]):
        mill("prepare", f"records {tmp_path}/a", "--out", tmp_path / str(i),
             *args)
        assert mill.digest(f"records {tmp_path}/{i} | batch 3") == want


@pytest.mark.parametrize("option", ["map=no", "verify=always", "verify=never"])
def test_options_of_records_do_not_change_a_byte(mill, tmp_path, option):
    p = "synthetic 100,3 f32 count=77"
    for codec in ("none", "zstd"):
        mill("prepare", p, "--out", tmp_path / codec, "--codec", codec)
        assert mill.digest(f"records {tmp_path}/{codec} {option} | batch 4",
                           "--epochs", 2) == \
            mill.digest(f"{p} | batch 4", "--epochs", 2)


def test_the_bytes_do_not_depend_on_threads_or_memory(mill, whole, tmp_path):
    sets = []
    for i, args in enumerate([["--threads", 1], ["--threads", 5],
                              ["--memory", "8M"]]):
        mill("prepare", whole, "--out", tmp_path / str(i), "--codec", "zstd",
             *args)
        sets.append(files_of(tmp_path / str(i)))
    assert sets[0] == sets[1] == sets[2]


# ---- refusals ----

def test_random_steps_cannot_be_stored(mill, whole, tmp_path):
    mill.fails("prepare", whole, "--until", "flip", "--out", tmp_path / "out",
               code=2, says=["random_crop is random", "--until 4", "^"])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("args, says", [
    (["--until", "resise"], "did you mean 'resize'"),
    (["--until", "9"], "from 1, the source, to 7"),
    (["--codec", "rar"], "one of: gzip lz4 none zlib zstd"),
    (["--codec", "zstd", "--level", "99"], "zstd has 1 to 19"),
    (["--codec", "none", "--level", "2"], "no levels"),
    (["--on-error", "replace"], "twice"),
    (["--samples", "10"], "means nothing to `prepare`"),
    (["--order", "block"], "means nothing to `prepare`"),
])
def test_nonsense_is_refused_with_a_remedy(mill, whole, tmp_path, args, says):
    mill.fails("prepare", whole, "--out", tmp_path / "out", *args, code=2,
               says=says)
    assert not (tmp_path / "out").exists()


def test_a_dry_run_says_what_would_be_and_stores_nothing(mill, whole,
                                                         tmp_path):
    out = tmp_path / "out"
    r = mill.json("prepare", whole, "--out", out, "--dry-run")
    assert not r["complete"] and r["samples"] == 40
    assert r["estimate_bytes"] > 10_000 and "image" in r["stored"]
    assert "40 samples" in mill("prepare", whole, "--out", out,
                                "--dry-run").stdout
    assert not out.exists()


def test_the_report_names_the_storage_that_was_imitated(mill, tmp_path):
    r = mill.json("prepare", "synthetic 4 count=9", "--out", tmp_path / "out",
                  "--storage", "ssd")
    assert r["loader"]["storage"] == "ssd"


def test_out_must_be_given(mill, whole):
    mill.fails("prepare", whole, code=2, says="--out DIR")


def test_it_never_overwrites(mill, whole, tmp_path):
    out = tmp_path / "out"
    mill("prepare", whole, "--out", out)
    before = files_of(out)
    mill.fails("prepare", whole, "--out", out, code=2, says="already")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    mill.fails("prepare", whole, "--out", tmp_path / "mine", code=2,
               says="not empty")
    assert files_of(out) == before
    assert [f.name for f in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


def killed(mill, out):
    """The pipeline of a set that is begun there."""
    p = "synthetic 300,300 u8 count=3000 cost=400us"
    r = mill.start("prepare", p, "--out", out, "--shards", 2)
    r.kill()
    r.wait()
    return p


def test_a_set_of_another_pipeline_is_not_gone_on_with(mill, tmp_path):
    out = tmp_path / "out"
    p = killed(mill, out)
    assert (out / "meta.json.part").exists()
    mill.fails("prepare", p.replace("3000", "3001"), "--out", out, code=2,
               says="its pipeline is")
    mill.fails("prepare", p, "--codec", "lz4", "--out", out, code=2,
               says="its codec is none")


def test_a_set_that_is_not_finished_says_so(mill, tmp_path):
    out = tmp_path / "out"
    killed(mill, out)
    for words in (["verify", out], ["run", f"records {out} | batch 2"]):
        mill.fails(*words, code=1, says=[f"{out}: ", "not finished",
                                         "the same command"])
    shutil.rmtree(out)
    mill.fails("verify", out, code=1, says="no prepared data set")
    out.mkdir()
    mill.fails("verify", out, code=1, says="no prepared data set")


def test_a_dry_run_is_refused_where_the_run_would_be(mill, tmp_path):
    p, out = "synthetic 30 u8 count=20", tmp_path / "out"
    dry = ["--dry-run", "--out", out]
    mill("prepare", p, *dry)
    assert not out.exists()
    out.mkdir()
    mill("prepare", p, *dry)
    mill("prepare", p, "--out", out)
    before = files_of(out)
    mill.fails("prepare", p, *dry, code=2, says="holds a prepared data set")
    assert files_of(out) == before
    (out / "meta.json").rename(out / "mine.json")
    mill.fails("prepare", p, *dry, code=2, says="is not empty")
    mill.fails("convert", p, *dry, "--to", "tar", code=2, says="is not empty")


def test_a_dry_run_goes_on_with_the_same_plan_only(mill, tmp_path):
    out, args = tmp_path / "out", ["--shards", 2, "--dry-run"]
    p = killed(mill, out)
    mill("prepare", p, "--out", out, *args)
    mill.fails("prepare", p, "--out", out, "--codec", "lz4", *args, code=2,
               says="its codec is none")


@pytest.mark.parametrize("source,where", [
    ("files {}", "new"), ("files {}", "a/new"), ("files {}/../in", "new"),
    ("files {} ext=txt", "a/new"), ("files {} ext=txt", "a/.new"),
    ("list {}/a/l.csv", "a/new")])
def test_a_set_within_its_source_is_refused(mill, tmp_path, source, where):
    for c in "ab":
        (tmp_path / "in" / c).mkdir(parents=True)
        (tmp_path / "in" / c / "x.txt").write_text(c)
    (tmp_path / "in" / "a" / "l.csv").write_text("x.txt,0\n")
    source = source.format(tmp_path / "in")
    mill.fails("prepare", source, "--out", tmp_path / "in" / where, code=2,
               says=["--out", "folder that the samples come from"])
    mill.fails("prepare", source, "--out", f"in/{where}/", cwd=tmp_path,
               code=2, says="folder that the samples come from")
    assert not (tmp_path / "in" / where).exists()
    mill("prepare", source, "--out", tmp_path / "in2")


@pytest.mark.parametrize("source,where", [("files {} ext=txt", "new"),
                                          ("files {}", ".new")])
def test_a_set_that_its_source_does_not_see_may_lie_there(mill, tmp_path,
                                                          source, where):
    for c in "ab":
        (tmp_path / "in" / c).mkdir(parents=True)
        (tmp_path / "in" / c / "x.txt").write_text(c)
    out = tmp_path / "in" / where
    source = source.format(tmp_path / "in")
    mill("prepare", source, "--out", out)
    assert mill.digest(f"records {out} | batch 2") == \
        mill.digest(f"{source} | batch 2")


def test_two_at_once_are_refused(mill, tmp_path):
    p = "synthetic 300,300 u8 count=3000 cost=400us"
    r = mill.start("prepare", p, "--out", tmp_path / "out", "--shards", 1)
    mill.fails("prepare", p, "--out", tmp_path / "out", "--shards", 1, code=1,
               says="another process")
    r.kill()
    r.wait()


def test_a_changed_source_is_refused(mill, tmp_path):
    source = tmp_path / "in"
    source.mkdir()
    for i in range(5):
        (source / f"{i}").write_bytes(b"x" * 100)
    out = tmp_path / "out"
    mill("prepare", f"files {source}", "--out", out)
    p = f"records {out} | batch 2"
    mill("run", p)
    old = (source / "3").stat()
    (source / "3").write_bytes(b"y" * 100)
    mill.fails("run", p, code=1, says=[str(source / "3"), "has changed",
                                       "prepare again"])
    mill("run", p.replace("out |", "out check=no |"))
    (source / "3").write_bytes(b"x" * 100)
    os.utime(source / "3", ns=(old.st_atime_ns, old.st_mtime_ns))
    mill("run", p)
    (source / "new").write_bytes(b"z")
    mill.fails("run", p, code=1, says=[str(source), "has changed"])
    shutil.rmtree(source)
    mill("run", p)  # where nothing is left, the set stands alone


def test_another_pipeline_than_the_one_given_is_refused(mill, tmp_path):
    mill("prepare", "synthetic 4 count=10", "--out", tmp_path / "out")
    made = json.loads((tmp_path / "out" / "meta.json").read_text())["plan"]
    mill("run", f"records {tmp_path}/out from='{made['pipeline']}' | batch 2")
    mill.fails("run", f"records {tmp_path}/out from='synthetic 5' | batch 2",
               code=2, says=["made by another pipeline", "synthetic"])


def test_the_pipeline_given_may_be_written_as_the_user_did(mill, whole,
                                                           tmp_path):
    mill("prepare", whole, "--out", tmp_path / "out")
    for text in (whole, whole.partition(" | batch")[0],
                 whole.replace(" | ", "  |  ").replace(
                     " | ", " | cache ram=1M | ", 1)):
        mill("run", f"records {tmp_path}/out from=\"{text}\" | batch 2")
    for text in (whole.partition(" | ")[0],
                 whole.replace(" | ", " ext=jpg | ", 1)):
        mill.fails("run", f"records {tmp_path}/out from=\"{text}\" | batch 2",
                   code=2, says="made by another pipeline")
    mill.fails("run", f"records {tmp_path}/out from='files x | ersize 3' | "
               "batch 2", code=2, says=["from: ", "did you mean 'resize'?"])


def test_files_that_a_wildcard_finds_later_are_noticed(mill, tmp_path):
    for i in range(2):
        np.save(tmp_path / f"{i}.npy", np.arange(6).reshape(3, 2))
    out = tmp_path / "out"
    mill("prepare", "npy ?.npy", "--out", out, cwd=tmp_path)
    p = f"records {out} | batch 2"
    mill("run", p)
    np.save(tmp_path / "x.npy", np.arange(6).reshape(3, 2))
    mill.fails("run", p, code=1, says=[
        f"{tmp_path}/?.npy: finds 3 files", "prepare again", "check=no"])
    mill("run", p.replace("out |", "out check=no |"))
    (tmp_path / "x.npy").unlink()
    (tmp_path / "other.txt").write_text("another file beside them")
    mill("run", p)
    for i in range(2):
        (tmp_path / f"{i}.npy").unlink()
    mill("run", p)  # where nothing is left, the set stands alone


# ---- kills ----

def test_it_survives_kills_at_random_moments(mill, tmp_path):
    p = "synthetic 50,50,3 f32 count=600 cost=500us"
    args = ["--codec", "zstd", "--shards", 4, "--threads", 2]
    mill("prepare", p, "--out", tmp_path / "calm", *args)
    out = tmp_path / "out"
    dice = random.Random(5)
    kills = 0
    while kills < 50:
        r = subprocess.Popen([mill.bin, "prepare", p, "--out", out,
                              *map(str, args)], stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
        try:
            r.wait(dice.random() * 0.35)
        except subprocess.TimeoutExpired:
            r.send_signal(signal.SIGKILL)
            r.wait()
            kills += 1
            done = (out / "meta.json").exists() and \
                not (out / "meta.json.part").exists()
        else:
            assert r.returncode == 0
            done = True
        if done:
            assert files_of(out) == files_of(tmp_path / "calm")
            shutil.rmtree(out)
    if not (out / "meta.json").exists():
        mill("prepare", p, "--out", out, *args)
    assert files_of(out) == files_of(tmp_path / "calm")
    mill("verify", out)


def test_ctrl_c_stops_it_and_the_same_command_goes_on(mill, tmp_path):
    p = "synthetic 300,300 u8 count=3000 cost=400us"
    args = ["prepare", p, "--out", tmp_path / "out", "--shards", 2]
    r = mill.start(*args)
    time.sleep(0.3)
    r.send_signal(signal.SIGINT)
    done = mill.finish(r)
    assert done.returncode == 1 and "same command" in done.stderr
    again = mill.json(*args)
    assert again["complete"] and 0 < again["resumed"] < 3000
    mill("verify", tmp_path / "out")


def test_a_torn_tail_is_cut_off(mill, tmp_path):
    """What a power failure may leave: a journal ahead of its data."""
    p = "synthetic 300,300 u8 count=3000 cost=400us"
    out = tmp_path / "out"
    r = mill.start("prepare", p, "--out", out, "--shards", 1)
    time.sleep(0.3)
    r.kill()
    r.wait()
    part = out / "shard-00000.mrs.part"
    size = part.stat().st_size
    assert size > 200_000
    with open(part, "r+b") as f:
        f.seek(size - 100_000)
        f.write(b"\0" * 100_000)
    with open(out / "shard-00000.mrs.idx.part", "ab") as f:
        f.write(b"garbage")
    mill("prepare", p, "--out", out, "--shards", 1)
    mill("prepare", p, "--out", tmp_path / "calm", "--shards", 1)
    assert files_of(out) == files_of(tmp_path / "calm")


# ---- full disks ----

@pytest.fixture
def small_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", disk],
            stderr=subprocess.DEVNULL).returncode:
        pytest.skip("cannot mount a small tmpfs here")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_too_little_space_is_found_before_the_start(mill, small_disk):
    mill.fails("prepare", "synthetic 1000,1000 u8 count=10", "--out",
               small_disk / "out", code=1, says=["will take about", "free"])


def test_a_disk_that_gets_full_leaves_nothing_that_looks_whole(mill,
                                                               small_disk,
                                                               tmp_path):
    p = "synthetic 1000,1000 u8 count=1"  # fits; then the disk fills up
    out = small_disk / "out"
    r = subprocess.Popen([mill.bin, "prepare",
                          "synthetic 300,100 u8 count=40 cost=20ms",
                          "--threads", "1", "--out", out, "--shards", "4"],
                         stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    while not out.exists():
        time.sleep(0.01)
    free = os.statvfs(small_disk)
    (small_disk / "ballast").write_bytes(
        b"\0" * (free.f_bavail * free.f_frsize - 300_000))
    err = r.communicate(timeout=60)[1].decode()
    assert r.returncode == 1, err
    assert "No space left" in err and "make room" in err
    assert not (out / "meta.json").exists()
    mill.fails("run", f"records {out} | batch 2", code=1, says="not finished")
    os.remove(small_disk / "ballast")
    mill("prepare", "synthetic 300,100 u8 count=40 cost=20ms", "--out", out,
         "--shards", 4)
    mill("verify", out)
    mill("prepare", p, "--out", tmp_path / "x")


# ---- damage ----

@pytest.fixture
def set_of(mill, tmp_path):
    def make(codec="none", **kw):
        out = tmp_path / f"set-{codec}"
        mill("prepare", "synthetic 50,20 u8 count=40", "--out", out,
             "--codec", codec, "--shards", 2)
        return out
    return make


@pytest.mark.parametrize("codec", ["none", "zstd", "lz4"])
def test_a_flipped_bit_in_a_record_costs_that_sample_only(mill, set_of, codec):
    out = set_of(codec)
    flip_bit(out / "shard-00001.mrs", 64 + 700)  # its first record
    r = mill("verify", out, code=1)
    assert "shard-00001.mrs: sample 20 (bytes 64 to " in r.stdout
    p = f"records {out} | batch 8"
    mill.fails("run", p, code=1, says=["shard-00001.mrs", "sample 20",
                                       "checksum"])
    got = mill.json("run", p, "--on-error", "skip")
    assert got["samples"] == 39 and got["bad_samples"] == 1


@pytest.mark.parametrize("place, says", [
    (3, "shard-00000.mrs"), (20, "damaged header"), (-10, "footer"),
    (-200, ""), (-60, "footer")])
def test_flipped_bits_in_header_index_and_footer_are_named(mill, set_of, place,
                                                           says):
    out = set_of()
    shard = out / "shard-00000.mrs"
    flip_bit(shard, place if place >= 0 else shard.stat().st_size + place)
    r = mill("verify", out, code=1)
    assert "shard-00000.mrs" in r.stdout + r.stderr
    assert says in r.stdout + r.stderr


def test_a_flipped_bit_in_the_index_is_named(mill, set_of):
    out = set_of()
    shard = out / "shard-00000.mrs"
    keys = sum(len(str(i)) + 1 for i in range(20))
    flip_bit(shard, shard.stat().st_size - 64 - keys - 32 * 7)
    for args in (["verify", out], ["run", f"records {out} | batch 2"]):
        mill.fails(*args, code=1, says=["shard-00000.mrs", "damaged index"])


@pytest.mark.parametrize("codec", ["none", "lz4"])
@pytest.mark.parametrize("verify", ["once", "never"])
def test_a_flipped_entry_costs_that_sample_only(mill, set_of, codec, verify):
    out = set_of(codec)
    shard = out / "shard-00000.mrs"
    good = shard.read_bytes()
    keys = sum(len(str(i)) + 1 for i in range(20))
    entry = len(good) - 64 - keys - 32 * 7      # of sample 13
    p = f"records {out} verify={verify} | batch 8"
    for at in (0, 1, 7, 8, 9, 15, 16, 23, 31):  # offset, length, checksum, bad
        flip_bit(shard, entry + at, 7)
        r = mill.json("run", p, "--on-error", "skip")
        assert [b["index"] for b in r["bad"]] == [13], at
        assert "shard-00000.mrs" in r["bad"][0]["reason"]
        assert r["samples"] == 39
        shard.write_bytes(good)


def test_bad_samples_at_the_end_are_no_reason_to_stop(mill, tmp_path):
    mill("synth", "images", tmp_path / "in", "--count", 5, "--size",
         "1200x1200", "--same-size")    # each is a batch of its own
    files = sorted((tmp_path / "in").glob("*/*.jpg"))
    for f in files[1], files[4]:
        f.write_bytes(b"no picture")
    text = f"files {tmp_path}/in | decode_image"
    mill("prepare", text, "--out", tmp_path / "out", "--on-error", "skip")
    mill("verify", tmp_path / "out")
    r = mill.json("run", f"records {tmp_path}/out | resize 9 | batch 1",
                  "--on-error", "skip")
    assert r["samples"] == 3
    assert sorted(b["index"] for b in r["bad"]) == [1, 4]


def test_a_bad_sample_keeps_its_reason_when_the_index_is_damaged(mill,
                                                                 tmp_path):
    (tmp_path / "in").mkdir()
    for i in range(6):
        (tmp_path / "in" / f"{i}.bin").write_bytes(b"no picture")
    text = f"files {tmp_path}/in | decode_image | resize 8"
    out = tmp_path / "out"
    mill("prepare", text, "--out", out, "--on-error", "skip")
    shard = out / "shard-00000.mrs"
    keys = sum(len(f"{i}.bin") + 1 for i in range(6))
    flip_bit(shard, shard.stat().st_size - 64 - keys - 32 * 2)  # of sample 4
    mill.fails("run", f"records {out} | batch 2", code=1, says="damaged index")
    r = mill.json("run", f"records {out} | batch 2", "--on-error", "skip")
    reasons = {b["index"]: b["reason"] for b in r["bad"]}
    assert "entry 4 is wrong" in reasons.pop(4)
    assert sorted(reasons) == [0, 1, 2, 3, 5]
    assert all("was bad when the set was prepared" in v
               for v in reasons.values())


@pytest.mark.parametrize("place", [3, 20, -10, "cut", "other"])
def test_a_damaged_shard_of_several_costs_its_samples(mill, set_of, place):
    out = set_of()
    shard = out / "shard-00001.mrs"
    if place == "cut":
        os.truncate(shard, shard.stat().st_size // 2)
    elif place == "other":
        shutil.copy(out / "shard-00000.mrs", shard)
    else:
        flip_bit(shard, place % shard.stat().st_size)
    p = f"records {out} | batch 8"
    stop = mill.fails("run", p, code=1, says="shard-00001.mrs")
    r = mill.json("run", p, "--on-error", "skip")
    assert r["samples"] == 20 and r["bad_samples"] == 20
    assert all(b["index"] >= 20 and b["reason"] in stop.stderr
               for b in r["bad"])
    assert mill.json("run", p, "--on-error", "replace")["samples"] == 40
    flip_bit(out / "shard-00000.mrs", 3)
    mill.fails("run", p, "--on-error", "skip", code=1, says="shard-00000.mrs")
    os.remove(shard)
    mill.fails("run", p, "--on-error", "skip", code=1, says="shard-0000")


def test_every_flipped_bit_of_meta_is_noticed(mill, set_of):
    out = set_of()
    meta = out / "meta.json"
    good = meta.read_bytes()
    for at in random.Random(1).sample(range(len(good)), 60):
        flip_bit(meta, at)
        mill.fails("run", f"records {out} | batch 2", code=1, says="meta.json")
        meta.write_bytes(good)
    mill("run", f"records {out} | batch 2")


def test_truncated_and_missing_shards_are_named(mill, set_of):
    out = set_of()
    shard = out / "shard-00001.mrs"
    data = shard.read_bytes()
    for n in (0, 10, 64, len(data) // 2, len(data) - 1):
        shard.write_bytes(data[:n])
        mill.fails("verify", out, code=1, says="shard-00001.mrs")
    shard.unlink()
    mill.fails("verify", out, code=1, says="shard-00001.mrs")
    shutil.copy(out / "shard-00000.mrs", shard)
    mill.fails("verify", out, code=1, says=["shard-00001.mrs", "another"])


def test_a_shard_that_shrinks_while_it_is_read_is_an_error(mill, tmp_path):
    out = tmp_path / "out"
    mill("prepare", "synthetic 1000,300 u8 count=64", "--out", out)
    r = mill.start("run", f"records {out} | normalize mean=1 | batch 2",
                   "--seconds", 20, "--threads", 2)
    os.truncate(out / "shard-00000.mrs", 4096)
    done = mill.finish(r)
    assert done.returncode == 1 and "shrunk" in done.stderr


def test_a_bad_sample_keeps_its_place_and_its_reason(mill, photos, tmp_path):
    source = tmp_path / "in"
    shutil.copytree(photos, source)
    bad = source / "class1" / "p021.jpg"
    bad.write_bytes(bad.read_bytes()[:200])
    whole = " | ".join([f"files {source}", *STEPS, "batch 8"])
    out = tmp_path / "out"
    mill.fails("prepare", whole, "--out", out, code=1, says="p021.jpg")
    r = mill.json("prepare", whole, "--out", out, "--on-error", "skip")
    assert r["bad_samples"] == 1
    rest = " | ".join([f"records {out}", *STEPS[3:], "batch 8"])
    mill.fails("run", rest, code=1, says=["p021.jpg", "decode_image"])
    for policy in ("skip", "replace"):
        assert mill.digest(rest, "--on-error", policy) == \
            mill.digest(whole, "--on-error", policy)
    mill("verify", out)


# ---- convert ----

def test_convert_to_tar_is_what_tarfile_reads(mill, photos, tmp_path):
    import tarfile
    out = tmp_path / "out"
    mill("convert", f"files {photos}", "--to", "tar", "--out", out,
         "--shards", 3)
    assert sorted(f.name for f in out.iterdir()) == \
        [f"shard-{i:06}.tar" for i in range(3)]
    found = {}
    for f in sorted(out.iterdir()):
        with tarfile.open(f) as t:
            for m in t.getmembers():
                found[m.name] = t.extractfile(m).read()
    for i in range(40):
        name = f"class{i % 2}/p{i:03}"
        assert found.pop(name + ".jpg") == (photos / f"{name}.jpg").read_bytes()
        assert found.pop(name + ".cls") == str(i % 2).encode()
    assert not found


def test_convert_refuses_random_steps(mill, photos, tmp_path):
    mill.fails("convert", f"files {photos} | decode_image | flip", "--to",
               "tar", "--out", tmp_path / "out", code=2,
               says=["flip is random", "^"])


def test_it_says_what_is_left_and_how_to_go_on(mill, whole, tmp_path):
    out = mill("prepare", whole, "--out", tmp_path / "out").stdout
    left = "random_crop 32 | flip | normalize imagenet"
    assert f"leaves to each epoch: {left}" in out
    command = out[out.index("use it: millrace run '") + 22:].rstrip("'\n")
    assert command == f"records {tmp_path}/out | {left} | batch 8"
    assert mill.digest(command) == mill.digest(whole)


@pytest.mark.parametrize("tail", ["batch 4 pad=0 | pack 100",
                                  "batch 3 drop_last=yes", "batch 64"])
def test_how_to_go_on_has_the_batches_as_they_were_given(mill, tmp_path,
                                                         tail):
    (tmp_path / "in").mkdir()
    for i in range(9):
        (tmp_path / "in" / f"{i}").write_text("text " * i)
    p = f"files {tmp_path}/in | cast i32"
    out = mill("prepare", f"{p} | {tail}", "--out", tmp_path / "out").stdout
    assert f"run 'records {tmp_path}/out | {tail}'\n" in out
    assert mill.digest(f"records {tmp_path}/out | {tail}") == \
        mill.digest(f"{p} | {tail}")
    assert mill.json("prepare", f"{p} | {tail}", "--dry-run", "--out",
                     tmp_path / "no")["tail"] == tail
    out = mill("prepare", p, "--out", tmp_path / "none").stdout
    assert f"run 'records {tmp_path}/none | batch 64'\n" in out


@pytest.mark.parametrize("command", ["prepare", "convert"])
def test_shards_are_a_number(mill, tmp_path, command):
    for n in ("-1", "two", "1K", "1.5"):
        mill.fails(command, "synthetic 3 count=4", "--out", tmp_path / "out",
                   f"--shards={n}", code=2, says=["shards", "an integer"])
    assert "--shards N" in mill(command, "--help").stdout


def test_convert_writes_arrays_as_numpy_reads_them(mill, tmp_path):
    import tarfile
    a = np.random.default_rng(1).random((6, 3, 5)).astype("f4")
    np.save(tmp_path / "a.npy", a)
    mill("convert", f"npy {tmp_path}/a.npy", "--to", "tar", "--out",
         tmp_path / "out")
    with tarfile.open(tmp_path / "out" / "shard-000000.tar") as t:
        got = [np.load(io.BytesIO(t.extractfile(m).read()))
               for m in t.getmembers()]
    assert np.array_equal(got, a)


@pytest.mark.parametrize("depth", [1, 5, 12, 30])
def test_convert_writes_long_names_as_tarfile_reads_them(mill, tmp_path,
                                                         depth):
    import tarfile
    folder = tmp_path / "in" / "/".join(["é" * 10] * depth)
    folder.mkdir(parents=True)
    (folder / ("x" * 90 + ".txt")).write_text("hello")
    mill("convert", f"files {tmp_path}/in", "--to", "tar", "--out",
         tmp_path / "out")
    with tarfile.open(tmp_path / "out" / "shard-000000.tar") as t:
        names = t.getnames()
    path = (folder / ("x" * 90)).relative_to(tmp_path / "in")
    assert sorted(names) == sorted([f"{path}.txt", f"{path}.cls"])


def test_a_killed_convert_goes_on(mill, tmp_path):
    p = "synthetic 300,300 u8 count=3000 cost=300us"
    args = ["convert", p, "--to", "tar", "--shards", 6]
    mill(*args, "--out", tmp_path / "calm")
    r = mill.start(*args, "--out", tmp_path / "out")
    time.sleep(0.3)
    r.kill()
    r.wait()
    mill(*args, "--out", tmp_path / "out")
    assert files_of(tmp_path / "out") == files_of(tmp_path / "calm")
