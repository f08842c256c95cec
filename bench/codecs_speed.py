# SPDX-License-Identifier: Apache-2.0
"""Codecs: what they save and what they cost, on one thread."""
import array
import glob
import gzip
import json
import math
import os
import random

import photos
from common import Failed, HERE, PYTHON, ROOT, number, output, say

QUESTION = "how small and how fast are the codecs, on images, floats, text?"
SIDE = 256
IMAGE = SIDE * SIDE * 3
CROP = 224 * 224 * 3
PIECE = 16384               # of text
WINDOW = 65536              # of a signal
PIXELS = "decode_image | resize 256 | center_crop 256"
FLOATS = "decode_image | resize 256 | center_crop 224 | normalize imagenet"


def dump(env, pipeline, samples, name, field="image"):
    where = dict(os.environ, PYTHONPATH=os.path.join(env.build, "python"),
                 PYTHONDONTWRITEBYTECODE="1")
    return photos.made(
        os.path.join(env.data, f"{name}-{samples}.raw"), lambda to: output(
            [PYTHON, os.path.join(HERE, "dump.py"), pipeline, field,
             str(samples), to], env=where))


def text(env, size):
    """Web pages where there are any, else our own documents again and again,
    with numbers in between."""
    pages = sorted(glob.glob(os.path.join(
        os.path.dirname(ROOT), "shared", "data", "html", "*", "html", "*")))
    ours = sorted(glob.glob(os.path.join(ROOT, "docs", "*.md")))

    def make(to):
        with open(to, "wb") as f:
            turn = 0
            while f.tell() < size:
                for path in pages or ours:
                    opened = gzip.open if path.endswith(".gz") else open
                    with opened(path, "rb") as g:
                        f.write(g.read() + (b"" if pages else b"%d" % turn))
                    turn += 1
            f.truncate(size)
    return photos.made(os.path.join(
        env.data, f"{'pages' if pages else 'docs'}-{size}.raw"), make), \
        "web pages" if pages else "Markdown"


def signal(env, size):
    """A signal with noise, as measured ones are: no float comes twice."""
    def make(to):
        rng = random.Random(1)
        with open(to, "wb") as f:
            array.array("f", (math.sin(i / 40) * 3 + rng.gauss(0, 0.05)
                              for i in range(size // 4))).tofile(f)
    return photos.made(os.path.join(env.data, f"signal-{size}.raw"), make)


def pictures(env):
    try:
        return photos.imagenet(env), "photos of ImageNet"
    except Failed:
        return photos.small(env), "photos from `millrace synth images`"


def row(x):
    name = x["codec"] + (f" {x['level']}" if x["level"] else "")
    return (name, f"{x['ratio']:.2f}", number(x["pack_mb_s"]),
            number(x["unpack_mb_s"]))


def main(env, report):
    few = 1 if env.quick else 4
    ph, what = pictures(env)
    files = f"files '{ph.one}'"
    pixels = dump(env, f"{files} | {PIXELS} | batch 16", 32 * few,
                  f"u8-{ph.name}")
    floats = dump(env, f"{files} | {FLOATS} | batch 16", 16 * few,
                  f"f32-{ph.name}")
    words, kind = text(env, 4_000_000 * few)
    wave = signal(env, 4_194_304 * few)
    sets = [(f"u8 images 256x256x3 ({what})", pixels, IMAGE, 1),
            ("f32 images 3x224x224, normalised", floats, CROP * 4, 1),
            ("normalised images, bytes shuffled", floats, CROP * 4, 4),
            ("f32 signal with noise, pieces of 64 KB", wave, WINDOW, 1),
            ("the signal, bytes shuffled", wave, WINDOW, 4),
            (f"{kind}, pieces of {PIECE >> 10} KB", words, PIECE, 1)]
    report.setting(threads=1, rounds=env.rounds(5), photos=what,
                   clock="the fastest round; packed data in memory")
    for title, path, sample, element in sets:
        say(f"  {title}")
        lines = output([env.tool("codecs"), path, str(sample), str(element),
                        str(env.rounds(5))], timeout=1200).splitlines()
        got = [json.loads(line) for line in lines]
        report.add_table(title, ("codec", "ratio", "pack MB/s",
                                 "unpack MB/s"), [row(x) for x in got], got)
