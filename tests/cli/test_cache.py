# SPDX-License-Identifier: Apache-2.0
"""The step `cache`: the same batches with and without it, as many hits as
samples fit, nothing read for them, and clear words where it cannot be."""
import io
import tarfile

import numpy as np
import pytest

N = 60
EPOCHS = ["--epochs", 3]
SLOW = "latency=2ms,iops=3000"


@pytest.fixture(scope="module")
def photos(photos_of):
    return photos_of(N)


@pytest.fixture(scope="module")
def sources(mill, photos, tmp_path_factory):
    """The photos as files, in a tar, as encoded and as decoded records."""
    root = tmp_path_factory.mktemp("sets")
    with tarfile.open(root / "a.tar", "w") as tar:
        for i, p in enumerate(sorted(photos.glob("*/*.jpg"))):
            for ext, data in (("jpg", p.read_bytes()),
                              ("cls", str(i % 2).encode())):
                info = tarfile.TarInfo(f"{i:03}.{ext}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    mill("prepare", f"files {photos}", "--out", root / "bytes")
    mill("prepare", f"files {photos} | decode_image | resize 40", "--out",
         root / "pixels")
    mill("prepare", f"files {photos} | decode_image | resize 32x32 | "
         "normalize imagenet", "--out", root / "deferred")
    np.save(root / "a.npy", np.random.default_rng(4).integers(
        0, 256, (N, 24, 24, 3), np.uint8))
    np.save(root / "b.npy", np.arange(N))
    return {"files": f"files {photos}", "tar": f"tar {root}/a.tar",
            "bytes": f"records {root}/bytes",
            "pixels": f"records {root}/pixels",
            "deferred": f"records {root}/deferred",
            "npy": f"npy {root}/a.npy labels={root}/b.npy",
            "mapped": f"npy {root}/a.npy labels={root}/b.npy map=yes"}


PHOTO = ["decode_image", "resize 36x40", "random_crop 32", "flip",
         "normalize imagenet", "batch 8"]
STEPS = {"files": PHOTO, "tar": PHOTO, "bytes": PHOTO,
         "pixels": PHOTO[2:], "deferred": ["random_crop 24", "batch 8"],
         "npy": ["center_crop 22", "resize 20x20", "flip", "batch 8"],
         "mapped": ["center_crop 22", "resize 20x20", "flip", "batch 8"]}


def random_at(steps):
    return next(i for i, s in enumerate(steps)
                if s.split()[0] in ("random_crop", "flip"))


def with_cache(source, steps, at, ram):
    return " | ".join([source, *steps[:at], f"cache ram={ram}", *steps[at:]])


# ---- the same batches ----

@pytest.mark.parametrize("kind", STEPS)
def test_batches_are_the_same_wherever_the_cache_stands(mill, sources, kind):
    source, steps = sources[kind], STEPS[kind]
    want = mill.digest(" | ".join([source, *steps]), *EPOCHS)
    for at in range(random_at(steps) + 1):
        for ram, fetch, threads in (("64M", "ahead", 3), ("80K", "ahead", 1),
                                    ("80K", "direct", 3)):
            text = with_cache(source, steps, at, ram)
            got = mill.json("run", text, *EPOCHS, "--digest", "--threads",
                            threads, "--fetch", fetch)
            assert got["digest"] == want, (text, fetch)
            c = got["cache"]
            assert c["hits"] + c["misses"] == 3 * N
            assert c["hits"] == 2 * c["samples"], (text, fetch)
            assert c["full"] == (c["samples"] < N)
            assert c["bytes"] <= c["ram"]
            if ram == "64M":
                assert c["samples"] == N


@pytest.mark.parametrize("more", [
    ["--order", "sequential"], ["--order", "block", "--block", 4],
    ["--rank", "1/3"], ["--seed", 9, "--memory", "24M"],
    ["--storage", SLOW], ["--cold"]])
def test_no_option_changes_that(mill, sources, more):
    source, steps = sources["tar"], STEPS["tar"]
    want = mill.digest(" | ".join([source, *steps]), *EPOCHS, *more)
    for at, ram, fetch in ((0, "16M", "ahead"), (0, "40K", "ahead"),
                           (0, "40K", "direct"), (2, "100K", "ahead")):
        text = with_cache(source, steps, at, ram)
        assert mill.digest(text, *EPOCHS, *more, "--fetch", fetch,
                           "--threads", 3) == want


def test_ragged_and_padded_batches_are_the_same(mill, ragged):
    for tail in ("batch 16", "cast i32 | batch 16 pad=-1",
                 "select data | batch 7", "select label,data | batch 7"):
        steps = tail.split(" | ")
        want = mill.digest(f"files {ragged} | {tail}", *EPOCHS)
        for at in range(len(steps)):
            for ram in ("1M", "50K"):
                text = with_cache(f"files {ragged}", steps, at, ram)
                assert mill.digest(text, *EPOCHS, "--threads", 3) == want


def test_sound_keeps_its_rate(mill, tmp_path):
    import wave
    for i in range(12):
        with wave.open(str(tmp_path / f"{i:02}.wav"), "wb") as w:
            w.setparams((1, 2, 8000 if i % 3 else 16000, 0, "NONE", ""))
            w.writeframes(np.random.default_rng(i).integers(
                -9000, 9000, 2000 + 100 * i, np.int16).tobytes())
    steps = ["decode_audio dtype=f32", "resample 16000", "batch 4"]
    want = mill.digest(f"files {tmp_path} | " + " | ".join(steps), *EPOCHS)
    for at in range(3):
        assert mill.digest(with_cache(f"files {tmp_path}", steps, at, "4M"),
                           *EPOCHS) == want


def test_bad_samples_are_as_without(mill, picky, tmp_path):
    for i in range(40):
        (tmp_path / f"{i:02}").write_bytes(bytes([i % 20] * (50 + i)))
    for policy in ("skip", "replace"):
        runs = []
        for steps in ("picky", "cache ram=1M | picky", "picky | cache ram=1M"):
            runs.append(mill.json(
                "run", f"files {tmp_path} | {steps} | batch 4", "--digest",
                "--plugin", picky, "--on-error", policy, *EPOCHS,
                "--threads", 2))
        assert len({r["digest"] for r in runs}) == 1
        assert runs[0]["bad"] == runs[1]["bad"] == runs[2]["bad"]
        assert len(runs[0]["bad"]) == 6
        assert runs[1]["cache"]["samples"] == 40
        assert runs[2]["cache"]["samples"] == 38


def test_a_bad_sample_is_named_with_its_place_also_from_the_cache(
        mill, picky, tmp_path):
    a = np.zeros((10, 300), np.uint8)
    a[4, 0] = 13
    np.save(tmp_path / "a.npy", a)
    r = mill.json("run", f"npy {tmp_path}/a.npy | cache ram=1M | picky | "
                  "batch 4", "--plugin", picky, "--on-error", "skip", *EPOCHS)
    assert len(r["bad"]) == 3
    assert {b["offset"] for b in r["bad"]} == {128 + 4 * 300}


# ---- checkpoints ----

@pytest.mark.parametrize("fetch", ["direct", "ahead"])
def test_a_run_goes_on_in_the_middle_with_and_without(mill, sources, tmp_path,
                                                      fetch):
    source, steps = sources["tar"], STEPS["tar"]
    plain = " | ".join([source, *steps])
    cached = with_cache(source, steps, 1, "100K")
    want = mill.digest(plain, *EPOCHS)
    for first in (plain, cached):
        for second in (plain, cached):
            at = tmp_path / "at"
            mill("run", first, *EPOCHS, "--samples", 100, "--digest",
                 "--checkpoint", at, "--fetch", fetch)
            assert mill.digest(second, *EPOCHS, "--resume", at, "--fetch",
                               fetch, "--threads", 3) == want


# ---- how much is held, and what is read ----

def run_epochs(mill, text, n, *args):
    return mill.json("run", text, "--epochs", n, *args)


@pytest.mark.parametrize("fetch", ["direct", "ahead"])
@pytest.mark.parametrize("threads", [1, 3])
def test_half_a_cache_has_the_same_hits_in_each_epoch(mill, tmp_path, fetch,
                                                      threads):
    for i in range(200):
        (tmp_path / f"{i:03}").write_bytes(bytes(1000))
    text = f"files {tmp_path} | cache ram={100 * 1088} | batch 8"
    args = ["--fetch", fetch, "--threads", threads]
    for n in (1, 2, 3, 4):
        r = run_epochs(mill, text, n, *args)
        assert r["cache"] == {"ram": 108800, "bytes": 108800, "samples": 100,
                              "hits": 100 * (n - 1),
                              "misses": 200 + 100 * (n - 1), "full": True}
        assert r["bytes_read"] == 1000 * r["cache"]["misses"]


@pytest.mark.parametrize("fetch", ["direct", "ahead", "auto"])
def test_what_is_held_is_neither_read_nor_waited_for(mill, sources, fetch):
    text = f"{sources['files']} | cache ram=16M | batch 8"
    args = ["--storage", "latency=5ms,iops=300", "--fetch", fetch,
            "--threads", 3]
    one = run_epochs(mill, text, 1, *args)
    many = run_epochs(mill, text, 30, *args)
    assert many["bytes_read"] == one["bytes_read"] > 0
    if fetch != "auto":  # which may read one twice as it changes over
        assert many["storage_allows"]["requests"] == N
    assert many["cache"]["hits"] == 29 * N and many["cache"]["misses"] == N
    # 29 epochs more, which would wait 6 s
    assert many["seconds"] < one["seconds"] + 3


def test_steps_before_it_run_once(mill, sources):
    r = run_epochs(mill, f"{sources['files']} | decode_image | resize 24x24 | "
                   "cache ram=16M | flip | batch 8", 4, "--threads", 3)
    calls = {s["name"]: s["calls"] for s in r["steps"]}
    assert calls == {"read": N, "decode_image": N, "resize": N,
                     "cache": 4 * N, "flip": 4 * N}


def test_what_nobody_needs_is_not_kept(mill, sources):
    all_of_it, part = (run_epochs(
        mill, f"{sources['npy']} | cache ram=16M | {select}batch 8", 1)
        for select in ("", "select label | "))
    assert all_of_it["cache"]["bytes"] > N * 24 * 24 * 3
    assert part["cache"]["bytes"] == N * 64


def test_a_prepared_set_keeps_what_is_stored(mill, sources):
    """Not the floats that a deferred step makes of it."""
    text = f"{sources['deferred']} | cache ram=16M | batch 8"
    r = run_epochs(mill, text, 2)
    assert N * 32 * 32 * 3 < r["cache"]["bytes"] < N * (32 * 32 * 3 + 200)
    assert [s["name"] for s in mill.json("explain", text)["steps"]] == \
        ["records", "cache", "normalize", "batch"]


def test_the_report_has_a_line_and_the_trace_a_step(mill, sources, tmp_path):
    text = f"{sources['npy']} | cache ram=16M | cast f32 | batch 8"
    out = mill("run", text, "--epochs", 4).stdout
    assert "cache: 60 samples in " in out and "; 75.0 % hits" in out
    assert "cache" not in mill("run", f"{sources['npy']} | batch 8").stdout
    mill("trace", text, "--epochs", 2, "-o", tmp_path / "t.mrt")
    s = mill.json("trace", tmp_path / "t.mrt")
    calls = {x["name"]: x["time"]["count"] for x in s["steps"]}
    assert calls["cache"] == 2 * N and calls["read"] == N


def test_explain_says_what_fits(mill, sources):
    npy = sources["npy"]
    assert "kept in memory: 60 of 60 samples fit" in mill(
        "explain", f"{npy} | cache ram=16M | batch 8").stdout
    plan = mill.json("explain", f"{npy} | cache ram={10 * 1856} | batch 8")
    assert plan["steps"][1]["cache"] == {"ram": 18560, "fits": 10,
                                         "about": False}
    assert "about 60 of 60 samples fit" in mill(
        "explain", f"{sources['files']} | cache ram=16M | batch 8").stdout
    assert "as many as fit" in mill(
        "explain", f"{sources['files']} | decode_image | cache ram=1M | "
        "resize 8 | batch 8").stdout


# ---- prepare ----

@pytest.mark.parametrize("at", [0, 1, 2])
def test_prepare_ignores_it(mill, sources, tmp_path, at):
    source, steps = sources["tar"], STEPS["tar"]
    text = with_cache(source, steps, at, "1G")
    mill("prepare", " | ".join([source, *steps]), "--out", tmp_path / "a")
    mill("prepare", text, "--out", tmp_path / "b", "--memory", "64M")
    assert (tmp_path / "a/meta.json").read_text() == \
        (tmp_path / "b/meta.json").read_text()
    # a stage has the number that explain prints
    until = 3 + (at < 2)
    mill("prepare", text, "--out", tmp_path / "c", "--until", until)
    assert (tmp_path / "a/meta.json").read_text() == \
        (tmp_path / "c/meta.json").read_text()


# ---- errors ----

@pytest.mark.parametrize("text,says", [
    ("flip | cache ram=1M | batch 4", "comes after 'flip', which is random"),
    ("batch 4 | cache ram=1M", "'cache' comes after batch"),
    ("cache ram=1M | cache ram=1M | batch 4", "a second cache"),
    ("cache | batch 4", "cache needs 'ram'"),
    ("cache ram=0 | batch 4", "ram=0"),
    ("cache ram=1Q | batch 4", "ram=1Q: want a size"),
    ("cache ram=1M field=data | batch 4", "no parameter 'field'"),
    ("cache ram=900T | batch 4", "that this process may use"),
])
def test_errors_show_the_place(mill, sources, text, says):
    r = mill.fails("run", f"{sources['npy']} | {text}",
                   code=1 if "900T" in text else 2, says=says)
    lines = r.stderr.splitlines()
    at = lines[-1].index("^")
    assert lines[-2][at:].startswith(("cache", "ram=", "field="))


def test_it_must_fit_beside_the_buffers(mill, sources):
    text = f"{sources['npy']} | cache ram=8M | batch 8"
    mill.fails("run", text, "--memory", "8M", code=1,
               says=["ram=8.0 MB does not fit into a memory budget of 8.0 MB",
                     "raise --memory", "^~~~~"])
    mill.fails("run", f"{sources['npy']} | cast f64 | cache ram=8M | batch 60",
               "--memory", "9300K", code=1,
               says=["beside the cache", "raise --memory"])
    r = mill.json("run", text, "--memory", "12M", *EPOCHS)
    assert r["cache"]["samples"] == N and r["memory_peak"] < 12 << 20
    assert mill.json("explain", text, "--memory", "12M")["memory"] == 12 << 20
    without = mill.json("explain", f"{sources['npy']} | batch 8")["memory"]
    assert mill.json("explain", text)["memory"] == without + (8 << 20)
