# SPDX-License-Identifier: Apache-2.0
"""The step `stored`: a part of the samples from a prepared set, the others
through the steps before it; the same batches as without."""
import shutil

import numpy as np
import pytest

N = 40
STEPS = ["decode_image", "resize 40x44", "center_crop 36", "random_crop 32",
         "flip", "normalize imagenet"]
CODECS = ["none", "lz4", "zstd", "zlib", "gzip"]


@pytest.fixture(scope="module")
def photos(photos_of):
    return photos_of(N)


@pytest.fixture
def whole(photos):
    return text([f"files {photos}", *STEPS])


def text(stages):
    return " | ".join([*stages, "batch 8"])


def with_set(photos, until, out, *, more=()):
    return text([f"files {photos}", *STEPS[:until - 1], f"stored {out}",
                 *STEPS[until - 1:], *more])


def part(mill, pipeline, out, until, first, *args):
    return mill.json("prepare", pipeline, "--until", until, "--first", first,
                     "--out", out, *args)


# ---- the same batches ----

@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("until", [1, 2, 3, 4])
def test_a_part_gives_the_same_batches(mill, photos, whole, tmp_path, until,
                                       codec):
    out = tmp_path / "out"
    made = part(mill, whole, out, until, 17, "--codec", codec, "--shards", 2)
    assert made["samples"] == 17 and made["complete"]
    mixed = with_set(photos, until, out)
    for args in (["--seed", 3, "--epochs", 2], ["--order", "block"],
                 ["--order", "sequential"], ["--rank", "1/3", "--threads", 3],
                 ["--fetch", "ahead"], ["--fetch", "ahead", "--order",
                                        "block", "--block", 5],
                 ["--storage", "latency=1ms"], ["--cold"]):
        assert mill.digest(mixed, *args) == mill.digest(whole, *args), args


@pytest.mark.parametrize("first", [1, N - 1, N, 10 * N])
def test_of_any_size(mill, photos, whole, tmp_path, first):
    out = tmp_path / "out"
    assert part(mill, whole, out, 3, first)["samples"] == min(first, N)
    assert mill.digest(with_set(photos, 3, out)) == mill.digest(whole)


@pytest.mark.parametrize("first", ["", " first=7", " first=1000"])
@pytest.mark.parametrize("more", [[], ["--seed", 4, "--epochs", 2],
                                  ["--subset", 12],
                                  ["--order", "block", "--fetch", "ahead"]])
def test_samples_from_all_over(mill, photos, whole, tmp_path, first, more):
    out = tmp_path / "out"
    mill("prepare", whole, "--until", 3, "--subset", 20, "--out", out)
    mixed = with_set(photos, 3, f"{out}{first}")
    assert mill.digest(mixed, *more) == mill.digest(whole, *more)
    said = mill("explain", mixed).stdout
    assert f"set: {min(int(first[7:] or 20), 20)} of 40 samples" in said


def test_what_was_left_to_be_done_follows(mill, tmp_path):
    source = "synthetic 9,7,3 u8 count=50 classes=5"
    rest = "normalize center | batch 4"
    out = tmp_path / "out"
    made = mill.json("prepare", f"{source} | {rest}", "--first", 20, "--out",
                     out)
    assert made["deferred"].startswith("normalize")
    mixed = f"{source} | stored {out} | {rest}"
    assert mill.digest(mixed) == mill.digest(f"{source} | {rest}")
    said = mill("prepare", f"{source} | {rest}", "--first", 20, "--out",
                tmp_path / "again").stdout
    use = said.split("use it: millrace run '")[1].split("'")[0]
    assert mill.digest(use) == mill.digest(mixed)


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_cache_may_follow(mill, photos, whole, tmp_path, at):
    out = tmp_path / "out"
    part(mill, whole, out, 2, 11)
    steps = [*STEPS[:1], f"stored {out}", *STEPS[1:at],
             "cache ram=1M", *STEPS[at:]]
    mixed = text([f"files {photos}", *steps])
    for args in (["--epochs", 3], ["--epochs", 3, "--fetch", "ahead"]):
        assert mill.digest(mixed, *args) == mill.digest(whole, *args)


def test_several_fields_and_sources_that_read_by_themselves(mill, tmp_path):
    np.savez(tmp_path / "a.npz",
             x=np.arange(600, dtype=np.float32).reshape(30, 20),
             y=np.arange(30, dtype=np.int64))
    source = f"npz {tmp_path}/a.npz each=row"
    out = tmp_path / "out"
    mill("prepare", f"{source} | select y,x | cast f64 field=x | batch 4",
         "--until", "select", "--first", 13, "--out", out)
    whole = f"{source} | select y,x | cast f64 field=x | batch 4"
    mixed = (f"{source} | select y,x | stored {out} | cast f64 field=x | "
             "batch 4")
    assert mill.digest(mixed) == mill.digest(whole)


def test_ragged_fields_go_into_the_batch(mill, tmp_path):
    (tmp_path / "in").mkdir()
    for i in range(20):
        (tmp_path / "in" / f"{i:02}").write_bytes(bytes(range(i)) * i)
    source, out = f"files {tmp_path}/in", tmp_path / "out"
    mill("prepare", source, "--first", 9, "--out", out)
    for end in ("batch 3", "batch 3 pad=7"):
        assert mill.digest(f"{source} | stored {out} | {end}") == \
            mill.digest(f"{source} | {end}")


def test_a_set_of_a_set(mill, photos, whole, tmp_path):
    mill("prepare", whole, "--until", 1, "--out", tmp_path / "all")
    source = f"records {tmp_path}/all"
    mill("prepare", text([source, *STEPS]), "--until", 3, "--first", 15,
         "--out", tmp_path / "some")
    mixed = text([source, *STEPS[:2], f"stored {tmp_path}/some", *STEPS[2:]])
    for order in ("shuffle", "block", "sequential"):
        assert mill.digest(mixed, "--order", order, "--fetch", "ahead") == \
            mill.digest(whole, "--order", order)


def test_a_run_goes_on_with_and_without(mill, photos, whole, tmp_path):
    part(mill, whole, tmp_path / "out", 3, 20)
    mixed = with_set(photos, 3, tmp_path / "out")
    at = tmp_path / "at"
    mill("run", whole, "--samples", 16, "--checkpoint", at)
    rest = ["--epochs", 2, "--resume", at]
    assert mill.digest(mixed, *rest) == mill.digest(whole, *rest)


def test_bad_samples_are_as_without(mill, photos, whole, tmp_path):
    root = tmp_path / "photos"
    shutil.copytree(photos, root)
    bad = [sorted(root.glob("*/*.jpg"))[k] for k in (2, 30)]
    for p in bad:
        p.write_bytes(b"\xff\xd8 no photo")
    whole = text([f"files {root}", *STEPS])
    part(mill, whole, tmp_path / "out", 3, 15, "--on-error", "skip")
    mixed = with_set(root, 3, tmp_path / "out")
    for policy in ("skip", "replace"):
        assert mill.digest(mixed, "--on-error", policy) == \
            mill.digest(whole, "--on-error", policy)
    assert mill.json("run", mixed, "--on-error", "skip")["bad_samples"] == 2


def test_nothing_of_the_part_is_decoded(mill, photos, whole, tmp_path):
    part(mill, whole, tmp_path / "out", 2, 30)
    steps = {s["name"]: s["calls"] for s in mill.json(
        "run", with_set(photos, 2, tmp_path / "out"), "--epochs",
        2)["steps"]}
    assert steps["decode_image"] == 2 * 10 and steps["read"] == 2 * N
    assert steps["resize"] == 2 * N


def test_explain_and_other_commands_know_it(mill, photos, whole, tmp_path):
    out = tmp_path / "out"
    part(mill, whole, out, 3, 20)
    mixed = with_set(photos, 3, out)
    assert "from a prepared set: the first 20 of 40 samples" in \
        mill("explain", mixed).stdout
    stages = mill.json("explain", mixed)["steps"]
    assert [s.get("stored") for s in stages if s["name"] == "stored"] == [20]
    # what is prepared of it has no such step
    mill("prepare", mixed, "--out", tmp_path / "all")
    assert mill.digest(text([f"records {tmp_path}/all", *STEPS[3:]])) == \
        mill.digest(whole)
    mill.fails("diagnose", mixed, "--accelerator", 100, code=1,
               says="'stored'")


# ---- what is refused ----

def test_a_set_of_other_steps_is_refused(mill, photos, whole, tmp_path):
    out = tmp_path / "out"
    part(mill, whole, out, 3, 20)
    for until in (2, 4):
        mill.fails("run", with_set(photos, until, out), code=2,
                   says=["stored: ", str(out), "up to another step"])
    other = text([f"files {photos}", "decode_image", "resize 40x45",
                  f"stored {out}", *STEPS[2:]])
    mill.fails("run", other, code=2, says="another pipeline")
    # on one's own risk, as long as the types are the same
    mill("run", other.replace("stored ", "stored check=no ").replace(
        "resize 40x45", "resize 40x44 filter=bicubic"))
    mill.fails("run", other.replace("stored ", "stored check=no "), code=1,
               says="its fields are not those")


def test_a_set_of_other_samples_is_refused(mill, photos, whole, tmp_path):
    root = tmp_path / "photos"
    shutil.copytree(photos, root)
    out = tmp_path / "out"
    part(mill, text([f"files {root}", *STEPS]), out, 3, 20)
    first = sorted(root.glob("*/*.jpg"))[0]
    first.rename(first.with_name("zzz.jpg"))
    mill.fails("run", with_set(root, 3, out), code=1, says="has changed")
    mill.fails("run", with_set(root, 3, f"{out} check=no"), code=1,
               says=[str(out), "p000.jpg", "--first N"])


@pytest.mark.parametrize("end, says", [
    (["random_crop 32", "stored OUT"], "is random"),
    (["stored OUT", "stored OUT"], "second stored"),
    (["cache ram=1M", "stored OUT"], "after a cache"),
    (["stored OUT", "nothing"], "unknown step"),
    (["stored"], "needs 'dir'"),
])
def test_where_it_cannot_stand(mill, photos, tmp_path, end, says):
    p = text([f"files {photos}", "decode_image",
              *(e.replace("OUT", str(tmp_path)) for e in end)])
    mill.fails("run", p, code=2, says=says)


def test_it_comes_before_batch(mill, photos, tmp_path):
    mill.fails("run", f"files {photos} | batch 4 | stored {tmp_path}", code=2,
               says="after batch")


def test_a_set_that_is_missing_or_damaged_is_named(mill, photos, whole,
                                                   tmp_path):
    out = tmp_path / "out"
    mill.fails("run", with_set(photos, 3, out), code=1, says=str(out))
    part(mill, whole, out, 3, 20)
    shard = next(f for f in out.iterdir() if f.name != "meta.json")
    data = bytearray(shard.read_bytes())
    data[len(data) // 3] ^= 4
    shard.write_bytes(data)
    mill.fails("run", with_set(photos, 3, out), code=1,
               says=[shard.name, "checksum"])


def test_first_and_subset_exclude_each_other(mill, whole, tmp_path):
    mill.fails("prepare", whole, "--first", 5, "--subset", 5, "--out",
               tmp_path / "out", code=2, says=["--first", "--subset"])


def test_a_part_does_not_take_the_place_of_another(mill, photos, whole,
                                                   tmp_path):
    out = tmp_path / "out"
    part(mill, whole, out, 3, 20)
    mill.fails("prepare", whole, "--until", 3, "--first", 21, "--out", out,
               code=2, says=str(out))
    assert mill.digest(with_set(photos, 3, out)) == mill.digest(whole)
