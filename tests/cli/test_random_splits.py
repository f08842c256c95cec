# SPDX-License-Identifier: Apache-2.0
"""Random pipelines that are split anywhere give the batches of the whole:
any codec, number of shards, order, epoch, rank and way of reading, and when
they are resumed in the middle.

MILLRACE_SECONDS  how long to go on (10)
MILLRACE_SEED     the first case (0); a failure names its own
"""
import json
import os
import random
import shutil
import time
import wave

import numpy as np
import pytest
from PIL import Image

DTYPES = ["u8", "i16", "i32", "i64", "f16", "f32", "f64"]
CODECS = ["none", "lz4", "zstd", "zlib", "gzip"]
SECONDS = float(os.environ.get("MILLRACE_SECONDS", "10"))
SEED = int(os.environ.get("MILLRACE_SEED", "0"))


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Texts of sources: arrays, pictures, sounds and files of many sizes."""
    root = tmp_path_factory.mktemp("sources")
    rng = np.random.default_rng(1)
    (root / "png").mkdir()
    for i in range(23):
        h, w = rng.integers(12, 30, 2)
        a = rng.integers(0, 255, (h, w, 3), np.uint8)
        Image.fromarray(a // 64 * 64).save(root / "png" / f"{i}.png")
    for c in "ab":
        (root / "bytes" / c).mkdir(parents=True)
        for i in range(40):
            data = bytes(rng.integers(0, 4, int(rng.integers(0, 900)),
                                      np.uint8))
            (root / "bytes" / c / f"{i}").write_bytes(data)
    (root / "wav").mkdir()
    for i, rate in enumerate([8000, 16000, 22050, 16000, 44100]):
        with wave.open(f"{root}/wav/{i}.wav", "wb") as w:
            w.setparams((1, 2, rate, 0, "NONE", ""))
            w.writeframes(rng.integers(-9999, 9999, 300 * i, "i2").tobytes())
    np.save(root / "x.npy", rng.normal(size=(97, 5, 3)).astype("f4"))
    np.save(root / "y.npy", np.arange(97))
    return {
        "pictures": [f"files {root}/png | decode_image | resize 14",
                     f"files {root}/png | decode_image | center_crop 12",
                     "synthetic 13,11,3 u8 count=70 classes=4",
                     "synthetic 12,12,1 u8 count=1"],
        "sounds": [f"files {root}/wav | decode_audio",
                   f"files {root}/wav | decode_audio f32 keep"],
        "arrays": [f"npy {root}/x.npy labels={root}/y.npy",
                   f"files {root}/bytes", f"npy {root}/x.npy",
                   "synthetic 3 f64 count=31", "synthetic 40,2 i16 count=300",
                   "synthetic 700 u8 count=64 classes=9"],
    }


def draw_steps(dice, kind):
    steps = []
    if kind == "sounds":
        return dice.choices(["resample 8000", "resample 11025",
                             "resample 16000"], k=dice.randrange(4))
    if kind == "pictures":
        steps = dice.choices(["flip", "flip p=0.3", "center_crop 9",
                              "resize 12", "random_crop 9 padding=2",
                              "random_resized_crop 11"], k=dice.randrange(4))
        if dice.random() < 0.4:
            return [*steps, "normalize center"]
    return steps + [f"cast {t}" for t in
                    dice.choices(DTYPES, k=dice.randrange(4))]


def draw_options(dice, ranks):
    order = dice.choice(["shuffle", "sequential", "block", "block"])
    opts = ["--order", order, "--seed", dice.randrange(100), "--epochs",
            dice.randint(1, 3)]
    if order == "block":
        opts += ["--block", dice.choice([1, 2, 3, 8, 16, 64])]
    if ranks and dice.random() < 0.3:
        n = dice.randint(2, 4)
        opts += ["--rank", f"{dice.randrange(n)}/{n}"]
    return opts


def draw_reading(dice):
    return ["--fetch", dice.choice(["auto", "direct", "ahead", "ahead"]),
            "--threads", dice.randint(1, 3)]


def random_of(steps):
    """Steps before the first random one."""
    return next((i for i, s in enumerate(steps)
                 if s.startswith(("flip", "random_"))), len(steps))


class Case:
    """One pipeline, prepared once or twice on the way."""

    def __init__(self, mill, dice, sources, top):
        self.mill, self.dice, self.top = mill, dice, top
        self.log, self.deferred = [], 0
        kind = dice.choice(["pictures", "arrays", "sounds"])
        source = dice.choice(sources[kind])
        self.steps = source.split(" | ") + draw_steps(dice, kind)
        self.batch = f"batch {dice.choice([1, 3, 8])}" + (
            " pad=0" if "bytes" in source and dice.random() < 0.5 else "")

    def run(self, *args):
        self.log.append(" ".join(repr(str(a)) for a in args))
        return self.mill(*args)

    def digest(self, steps, *args):
        text = " | ".join([*steps, self.batch])
        out = self.run("run", text, "--digest", "--json", *args).stdout
        return json.loads(out)["digest"]

    def prepare(self, steps, out):
        """What is left after a split somewhere."""
        dice, steady = self.dice, random_of(steps)
        args = ["--codec", dice.choice(CODECS), "--shards",
                dice.choice([0, 1, 2, 7, 1000]), "--shuffle",
                dice.choice(["auto", "yes", "no"])]
        until = dice.randint(0, steady)
        if until:
            # explain's numbers count what is left of a prepared set
            args += ["--until", until + (until > 1) * self.deferred]
        if dice.random() < 0.5:
            args += ["--literal"]
        self.run("prepare", " | ".join(steps), "--out", out, *args)
        self.run("verify", out)
        plan = json.loads((out / "meta.json").read_text())["plan"]
        self.deferred = plan.get("deferred", "").count("cast ") + \
            plan.get("deferred", "").count("normalize ")
        done = until or steady
        options = "".join(dice.choice(["", f" {o}"]) for o in (
            "map=no", "verify=always"))
        return [f"records {out}{options}", *steps[done:]]

    def check(self):
        opts = draw_options(self.dice, "count=1" != self.steps[0][-7:])
        want = self.digest(self.steps, *opts)
        rest = self.prepare(self.steps, self.top / "a")
        if self.dice.random() < 0.3:
            rest = self.prepare(rest, self.top / "b")
        assert self.digest(rest, *opts, *draw_reading(self.dice)) == want
        if self.dice.random() < 0.5:
            mark = self.top / "mark"
            self.digest(rest, *opts, "--checkpoint", mark, "--samples",
                        self.dice.randint(1, 100), *draw_reading(self.dice))
            assert self.digest(rest, *opts, "--resume", mark,
                               *draw_reading(self.dice)) == want


def test_a_random_split_gives_the_batches_of_the_whole(mill, sources,
                                                       tmp_path):
    end, seed = time.monotonic() + SECONDS, SEED
    while seed == SEED or time.monotonic() < end:
        case = Case(mill, random.Random(seed), sources, tmp_path / "case")
        case.top.mkdir()
        try:
            case.check()
        except Exception as e:
            raise AssertionError(f"MILLRACE_SEED={seed}:\n"
                                 + "\n".join(case.log)) from e
        shutil.rmtree(case.top)
        seed += 1
