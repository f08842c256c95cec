# SPDX-License-Identifier: Apache-2.0
"""The pipelines of bench/presto and what is stored of them: the texts of
examples/, data of `millrace synth`, and for each split a data set of
`millrace prepare`. Made once, in the work folder, and used again."""
import json
import os
import re
import shlex
import shutil

import data
from common import ROOT, Failed, output, output_json, say

LONGEST = 900       # seconds that making a data set may take

# The study's names of the splits, with our step that each comes after; 1 is
# the source, whose samples are stored as they are read.
CV = {"concatenated": "1", "decoded": "decode_image", "resized": "resize",
      "pixel-centered": "normalize"}
AUDIO = {"concatenated": "1", "decoded": "decode_audio",
         "spectrogram-encoded": "log"}
SPLITS = {
    "cv": CV, "cv2-jpg": CV, "cv2-png": CV,
    "nlp": {"concatenated": "1", "decoded": "extract_text",
            "bpe-encoded": "tokenize", "embedded": "embed"},
    "nilm": {"decoded": "calibrate", "aggregated": "power"},
    "mp3": AUDIO, "flac": AUDIO,
    "cv-grey": {"concatenated": "1", "decoded": "decode_image",
                "resized": "resize", "applied-greyscale": "greyscale",
                "pixel-centered": "normalize"},
    "cv-grey-last": {"concatenated": "1", "decoded": "decode_image",
                     "resized": "resize", "pixel-centered": "normalize",
                     "applied-greyscale": "greyscale"},
}
NAMES = ["cv", "cv2-jpg", "cv2-png", "nlp", "nilm", "mp3", "flac"]
# Samples of each where `--samples` says 1000: as many bytes, about, decoded.
SHARE = {"cv2-jpg": 0.12, "cv2-png": 0.04, "flac": 0.5, "nilm": 0.72}
FEWEST = 4


def count_of(name, samples):
    return max(FEWEST, round(samples * SHARE.get(name, 1)))


def example(name):
    """(words of its synth command, the steps, where to run it)."""
    file = "cv-grey" if name == "cv-grey-last" else name
    with open(os.path.join(ROOT, "examples", f"{file}.txt")) as f:
        text = f.read()
    synth = re.search(r"^#\s+millrace synth (.*)$", text, re.M)
    cd = re.search(r"^#\s+cd (\S+) &&", text, re.M)
    steps = [line.strip() for line in text.splitlines()
             if line.strip() and not line.startswith("#")]
    if name == "cv-grey-last":
        grey = steps.index("greyscale")
        steps[grey:grey + 2] = reversed(steps[grey:grey + 2])
    return shlex.split(synth.group(1)), steps, cd.group(1) if cd else "."


class Pipeline:
    """One of them, with its data. `steps` begins with the source."""

    def __init__(self, lab, name):
        self.lab, self.name = lab, name
        self.count = count_of(name, lab.samples)
        words, self.steps, where = example(name)
        share = "cv" if name.startswith("cv-grey") else name
        self.root = os.path.join(lab.data, f"{share}-{self.count}")
        self.cwd = os.path.normpath(os.path.join(self.root, where))
        self.splits = SPLITS[name]
        self.made(words)
        # Small batches: a run that is cut off after some time has whole ones.
        most = min(4 if name.startswith("cv2") else 16, self.count // 4)
        self.steps[-1] = re.sub(r"^batch \d+", f"batch {most}",
                                self.steps[-1])

    def made(self, words):
        """Makes the data where it is missing."""
        done = os.path.join(self.root, "complete")
        if os.path.exists(done):
            return
        say(f"  making the data of {self.name}: {self.count} samples")
        data.need(self.lab, self.count * 20_000_000
                  if self.name == "cv2-png" else self.count * 500_000)
        shutil.rmtree(self.root, ignore_errors=True)
        os.makedirs(self.root)
        words[words.index("--count") + 1] = str(self.count)
        output([self.lab.millrace, "synth", *words], cwd=self.root,
               timeout=LONGEST)
        os.sync()
        with open(done, "w") as f:
            f.write(f"{self.count}\n")

    def source_bytes(self):
        """Of the samples as they came, without what else is in the folder."""
        if self.name == "nlp":
            top = os.path.join(self.cwd, "pages")
        else:
            top = os.path.join(self.root, "data")
        return sum(os.path.getsize(os.path.join(d, f))
                   for d, _, files in os.walk(top) for f in files)

    def strategies(self):
        return ["unprocessed", *self.splits]

    def last(self):
        return list(self.splits)[-1]

    def place(self, split):
        """The number of steps, with the source, up to a split."""
        step = self.splits[split]
        if step == "1":
            return 1
        names = [s.split()[0] for s in self.steps]
        return names.index(step) + 1

    def text(self, split, cache=0, codec="none"):
        """The pipeline to run for a split; with cache, bytes of memory after
        what is read."""
        if split == "unprocessed":
            head, rest = self.steps[0], self.steps[1:]
        else:
            head = f"records '{self.folder(split, codec)}'"
            rest = self.steps[self.place(split):]
        kept = [f"cache ram={cache}"] if cache else []
        return " | ".join([head, *kept, *rest])

    def folder(self, split, codec="none"):
        return os.path.join(self.root, f"{self.name}-{split}-{codec}")

    def stored(self, split, codec="none"):
        """What prepare said of a split's data set, made where missing:
        samples, bytes, seconds."""
        if split == "unprocessed":
            return {"samples": self.count, "bytes": self.source_bytes(),
                    "seconds": 0.0}
        to = self.folder(split, codec)
        told = to + ".json"
        if os.path.exists(told):
            with open(told) as f:
                return json.load(f)
        say(f"  preparing {self.name} until {split}, {codec}")
        self.dropped(split, codec)
        r = output_json([self.lab.millrace, "prepare", "--json", "--literal",
                         " | ".join(self.steps), "--until",
                         self.splits[split], "--codec", codec, "--out", to,
                         "--threads", str(self.lab.threads)],
                        cwd=self.cwd, timeout=LONGEST)
        if not r["complete"]:
            raise Failed(f"{to}: prepare did not end; delete it")
        keep = {k: r[k] for k in ("samples", "bytes", "seconds", "stored")}
        os.sync()
        with open(told, "w") as f:
            json.dump(keep, f)
        return keep

    def dropped(self, split, codec):
        shutil.rmtree(self.folder(split, codec), ignore_errors=True)
        if os.path.exists(self.folder(split, codec) + ".json"):
            os.unlink(self.folder(split, codec) + ".json")


class Made:
    """Samples of one size and type, in records: the study's synthetic set."""

    def __init__(self, lab, size, dtype, total):
        self.lab, self.cwd = lab, lab.data
        self.size, self.dtype = size, dtype
        width = {"u8": 1, "f32": 4}[dtype]
        self.count = max(2, total // size)
        self.folder = os.path.join(lab.data,
                                   f"made-{dtype}-{size}x{self.count}")
        # some megabytes a batch, as far as that goes
        self.batch = max(1, min(256, (4 << 20) // size, self.count))
        if not os.path.exists(os.path.join(self.folder, "meta.json")):
            say(f"  making {self.count} samples of {size} bytes")
            data.need(lab, self.count * size)
            output([lab.millrace, "prepare", "--literal",
                    f"synthetic shape={size // width} dtype={dtype} "
                    f"count={self.count}", "--out", self.folder],
                   timeout=LONGEST)
            os.sync()

    def text(self, step="", cache=0):
        words = [f"records '{self.folder}'"]
        words += [f"cache ram={cache}"] if cache else []
        words += [step] if step else []
        return " | ".join([*words, f"batch {self.batch}"])
