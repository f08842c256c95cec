# SPDX-License-Identifier: Apache-2.0
"""The photos of the image benchmark, in BUILD/bench/data: made when missing,
used again when there."""
import os
import shutil

import data
from common import Failed, HERE, PYTHON, ROOT, output, say

FFCV = os.path.join(HERE, "peer_ffcv_images.py")
CLASSES = 20
LINKS = 3           # names of each of the few real photos: longer epochs
LARGE = "2592x1728"


def originals():
    return os.environ.get("MILLRACE_PHOTOS") or os.path.join(
        os.path.dirname(ROOT), "shared", "data", "jpeg", "imagenet")


def made(path, make):
    """path, after make(temporary name) where it is missing."""
    def gone(p):
        if os.path.isdir(p):
            shutil.rmtree(p)
        elif os.path.exists(p):
            os.unlink(p)

    if not os.path.exists(path):
        say(f"  making {path}")
        gone(path + ".part")
        make(path + ".part")
        os.sync()
        os.rename(path + ".part", path)
    return path


def count(path):
    return sum(len(files) for _, _, files in os.walk(path))


class Photos:
    """One data set. `one` has each photo once: the bare loops and FFCV's
    writer take that. `dir` may have each under several names (hard links),
    for longer epochs: Millrace and torch read that."""

    def __init__(self, env, name, one, links):
        self.env, self.name, self.one = env, name, one
        self.photos = count(one)
        self.dir = one if links == 1 else made(f"{one}-x{links}",
                                               self.linker(links))
        self.count = self.photos * links

    def linker(self, links):
        def make(to):
            for folder, _, names in os.walk(self.one):
                sub = os.path.join(to, os.path.relpath(folder, self.one))
                os.makedirs(sub, exist_ok=True)
                for name in names:
                    stem, end = os.path.splitext(name)
                    for i in range(links):
                        os.link(os.path.join(folder, name),
                                os.path.join(sub, f"{stem}-{i}{end}"))
        return make

    def beton(self, how):
        """FFCV's file: how is "make" (its re-encoding) or "original"."""
        return made(f"{self.one}-{how}.beton", lambda to: output(
            [PYTHON, "-B", FFCV, how, self.one, to]))

    def bytes_each(self):
        return sum(os.path.getsize(os.path.join(d, f)) for d, _, files
                   in os.walk(self.one) for f in files) / self.photos


def imagenet(env):
    """The real photos, dealt to class folders."""
    source = originals()
    if not os.path.isdir(source):
        raise Failed(f"no photos in {source}; name a folder of JPEG files in "
                     "MILLRACE_PHOTOS")
    links = 1 if env.quick else LINKS

    def make(to):
        for i, name in enumerate(sorted(os.listdir(source))):
            folder = os.path.join(to, f"c{i % CLASSES:03d}")
            os.makedirs(folder, exist_ok=True)
            shutil.copyfile(os.path.join(source, name),
                            os.path.join(folder, name))
    data.need(env, 300 * 10**6)
    return Photos(env, "imagenet",
                  made(os.path.join(env.data, "photos-imagenet"), make), links)


def q90(env, photos):
    """The same photos as FFCV stores them, taken out of its file."""
    beton = photos.beton("make")
    one = made(photos.one + "-q90", lambda to: output(
        [PYTHON, "-B", FFCV, "extract", beton, to]))
    return Photos(env, "q90", one, 1 if env.quick else LINKS)


def synth(env, name, n, *options, links=1):
    data.need(env, 600 * 10**6)
    one = made(os.path.join(env.data, f"photos-{name}-{n}"), lambda to: output(
        [env.millrace, "synth", "images", to, "--count", str(n), *options]))
    return Photos(env, name, one, links)


def small(env):
    return synth(env, "synth", 400 if env.quick else 1200)


def large(env):
    return synth(env, "large", 16 if env.quick else 48, "--size", LARGE,
                 links=1 if env.quick else 2)
