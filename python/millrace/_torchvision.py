# SPDX-License-Identifier: Apache-2.0
"""Torchvision's image folders and transforms as pipelines.

Only what comes out the same is converted; the rest is named. A transform is
known by its exact class, since a derived one may do anything.
"""
from __future__ import annotations

import hashlib
import operator
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torchvision import transforms as T
from torchvision.datasets import DatasetFolder
from torchvision.datasets.folder import default_loader, pil_loader
from torchvision.transforms._presets import ImageClassification

from ._core import Error, Loader
from .torch import ConversionError

KEEP = "or keep torch's DataLoader for this data set"
# Endings that ImageFolder takes and decode_image cannot read.
UNREAD = (".ppm", ".pgm", ".bmp", ".tif", ".tiff", ".webp")
FILTERS = {"BILINEAR": "bilinear", "BICUBIC": "bicubic", "BOX": "area"}


class Plan:
    """A data set as a pipeline: which samples, and what is done to them."""

    def __init__(self, dataset: Any, batch_size: int, drop_last: bool,
                 fast: bool) -> None:
        self.folder, self.samples = folder_of(dataset)
        self.whole = self.folder is dataset
        problems = folder_problems(self.folder, self.samples)
        chain = Chain(self.folder.transform)
        if problems or chain.problems:
            raise ConversionError(problems + chain.problems)
        decode = "decode_image exif=no" + (" fast=yes" if fast else "")
        batch = f"batch {operator.index(batch_size)}" + \
            (" drop_last=yes" if drop_last else "")
        self.steps = " | ".join([decode, *chain.steps, batch])
        self.table = b""

    def text(self, list_file: str | os.PathLike[str] | None) -> str | None:
        """Writes list_file when given; None when it is missing."""
        if list_file is None:
            files = self.whole and files_text(self.folder, self.samples)
            return f"{files} | {self.steps}" if files else None
        root = os.fspath(self.folder.root)
        self.table = table(root, self.samples)
        with open(list_file, "wb") as f:
            f.write(self.table)
        return f"list {quote(os.fspath(list_file))} root={quote(root)} " \
            f"| {self.steps}"

    def mark(self, order: str, block: int | None, subset: int) -> int:
        """What a state calls the pipeline, wherever the list was."""
        text = f"{self.folder.root}\n{self.steps}\n{order}\n{block}\n" \
            f"{subset}\n"
        h = hashlib.sha256(os.fsencode(text) + self.table)
        return int.from_bytes(h.digest()[:8], "little")


# ---- samples ----

def folder_of(dataset: Any) -> tuple[Any, list[tuple[str, int]]]:
    """The DatasetFolder below any Subsets, and the samples left of it."""
    kind = type(dataset)
    if kind is torch.utils.data.Subset:
        folder, samples = folder_of(dataset.dataset)
        return folder, [samples[i] for i in dataset.indices]
    if not isinstance(dataset, DatasetFolder):
        raise ConversionError([
            f"{kind.__name__} is no ImageFolder or Subset of one; for other "
            "data write the pipeline for millrace.torch.DataLoader, " + KEEP])
    return dataset, dataset.samples


def folder_problems(folder: Any,
                    samples: list[tuple[str, int]]) -> list[str]:
    """What keeps the samples from being files with a number."""
    kind, out = type(folder), []
    if kind.__getitem__ is not DatasetFolder.__getitem__ or \
            hasattr(kind, "__getitems__"):
        out.append(f"{kind.__name__} gets its samples in a way of its own "
                   "(__getitem__); do that to batches after loading, " + KEEP)
    if len(folder) != len(folder.samples):
        out.append(f"{kind.__name__} has a length of its own (__len__); say "
                   "which samples with torch.utils.data.Subset, " + KEEP)
    if folder.loader not in (default_loader, pil_loader):
        out.append(f"loader={folder.loader!r}: a reader of its own; only "
                   "torchvision's default one is known, " + KEEP)
    if folder.target_transform is not None:
        out.append(f"target_transform={folder.target_transform!r}: cannot be "
                   "converted; do it to the labels of the batches, " + KEEP)
    unread = [p for p, _ in samples if p.lower().endswith(UNREAD)]
    if unread:
        out.append(f"{len(unread)} of {len(samples)} files are no JPEG or "
                   f"PNG, such as {unread[0]!r}; convert them, leave them "
                   "out with is_valid_file=, " + KEEP)
    odd = [t for _, t in samples if not hasattr(t, "__index__")]
    if odd:
        out.append(f"a label is {odd[0]!r}; want whole numbers")
    if not samples:
        out.append("the data set is empty")
    return out


def files_text(folder: Any, samples: list[tuple[str, int]]) -> str | None:
    """The source `files`, if it gives these samples in this order.

    It does when it takes each of them, has as many, and they are sorted as
    it sorts: by folder, path and name, each by its bytes.
    """
    endings = folder.extensions or ()
    if isinstance(endings, str):
        endings = (endings,)
    known = {os.fsencode(e.lower()) for e in endings}
    start = os.fsencode(os.path.join(folder.root, ""))
    labels: dict[bytes, int] = {}
    last: tuple[bytes, ...] = ()
    for path, label in samples:
        name = os.fsencode(path)
        below = name[len(start):]
        top, _, rest = below.partition(b"/")
        key = top, *rest.rpartition(b"/")[::2]
        if not rest or key <= last or not name.startswith(start) or \
                b"//" in below or b"/." in b"/" + below or \
                b"." + rest.rpartition(b".")[2].lower() not in known or \
                labels.setdefault(top, label) != label:
            return None
        last = key
    ext = ",".join(e.lstrip(".") for e in endings)
    text = f"files {quote(os.fspath(folder.root))} ext={quote(ext)}"
    try:
        with Loader(f"{text} | batch 1") as found:
            numbers = found.class_to_idx
            same = found.dataset_samples == len(samples) and all(
                numbers.get(os.fsdecode(c)) == n for c, n in labels.items())
    except Error:
        same = False
    return text if same else None


def table(root: str, samples: list[tuple[str, int]]) -> bytes:
    """The samples for the source `list`: paths below the root, in quotes."""
    start, here = os.path.join(root, ""), os.getcwd()
    rows = [b"path,label\n"]
    for path, label in samples:
        if "\n" in path:
            raise ConversionError([f"{path!r} has a line break in its name, "
                                   "which a list cannot hold; rename it"])
        below = path[len(start):] if path.startswith(start) else \
            os.path.join(here, path)
        rows.append(b'"%s",%d\n' % (os.fsencode(below.replace('"', '""')),
                                    label))
    return b"".join(rows)


def quote(word: str) -> str:
    """A word as the parser of pipelines takes it."""
    if re.fullmatch(r"[\w./,:+@-]+", word):
        return word
    return "'" + word.replace("'", "'\"'\"'") + "'"


# ---- transforms ----

def flat(transform: Any) -> Iterator[Any]:
    """The transforms in order, without what only holds them together."""
    if type(transform) in (T.Compose, torch.nn.Sequential):
        inner = transform.transforms if type(transform) is T.Compose \
            else transform
        for t in inner:
            yield from flat(t)
    elif type(transform) is ImageClassification:
        # of a model's weights: weights.transforms()
        yield T.Resize(transform.resize_size, transform.interpolation)
        yield T.CenterCrop(transform.crop_size)
        yield T.PILToTensor()
        yield T.ConvertImageDtype(torch.float)
        yield T.Normalize(transform.mean, transform.std)
    elif transform is not None:
        yield transform


def number(x: Any) -> str:
    return repr(float(x)).removesuffix(".0")


def numbers(values: Any) -> str:
    return ",".join(number(v) for v in values)


def size_text(size: Any) -> str:
    """N, or HxW."""
    h, w = (size, size) if isinstance(size, int) else (size[0], size[-1])
    return str(h) if h == w else f"{h}x{w}"


class Chain:
    """Transforms, one after the other, as steps.

    What ToTensor and those after it do is one step in the end, so it is kept
    aside: `made` says what the image is by now, mean and std how its values
    0 to 1 are to be scaled.
    """

    def __init__(self, transform: Any) -> None:
        self.steps: list[str] = []
        self.problems: list[str] = []
        self.made = "PIL image"     # "u8 tensor", "tensor"; "": unknown
        self.channels = 3
        self.mean, self.std = [0.0], [1.0]
        self.place, self.now = 0, None
        for self.place, self.now in enumerate(flat(transform), 1):
            self.add(self.now)
        self.finish()

    def problem(self, what: str, way: str) -> None:
        self.problems.append(f"{type(self.now).__name__} (transform "
                             f"{self.place}): {what}; {way}")

    def parameter(self, name: str, value: Any, what: str,
                  way: str = "change it, " + KEEP) -> None:
        self.problem(f"{name}={value!r}: {what}", way)

    def add(self, t: Any) -> None:
        take = KNOWN.get(type(t))
        if take is None:
            self.unknown(t)
            return
        if type(t) in ON_PIL and self.made not in ("PIL image", ""):
            self.problem("works on a tensor there, with other rounding than "
                         "on an image", "move it before ToTensor, " + KEEP)
            return
        take(self, t)

    def unknown(self, t: Any) -> None:
        base = next((k for k in type(t).__mro__ if k in KNOWN), None)
        way = "do it to batches after loading, "
        if base:
            why = f"may do other things than {base.__name__}, of which it " \
                "is a subclass"
        elif type(t).__module__.startswith("torchvision.transforms.v2"):
            why = "is of torchvision.transforms.v2, which is not converted"
            way = "take the one of torchvision.transforms, "
        else:
            why = "has no counterpart"
        self.problem(why, way + KEEP)
        self.made = ""

    def finish(self) -> None:
        if self.made == "PIL image":
            self.problems.append("the transforms end with a PIL image, which "
                                 "no batch can hold; end them with ToTensor()")
        elif self.made == "u8 tensor":
            self.steps.append("to_chw")
        else:
            self.steps.append("normalize" + self.scaling())

    def scaling(self) -> str:
        if set(self.mean) == {0} and set(self.std) == {1}:
            return ""
        return f" mean={numbers(self.mean)} std={numbers(self.std)}"

    # ---- on images ----

    def filter(self, t: Any) -> str:
        mode = t.interpolation.name
        if mode not in FILTERS:
            self.parameter("interpolation", mode, "there are BILINEAR, "
                           "BICUBIC and BOX")
        return "" if mode == "BILINEAR" else f" filter={FILTERS.get(mode)}"

    def resize(self, t: Any) -> None:
        if t.max_size is not None:
            self.parameter("max_size", t.max_size, "has no counterpart")
        one = isinstance(t.size, int) or len(t.size) == 1
        size = size_text(t.size) if one else f"{t.size[0]}x{t.size[1]}"
        self.steps.append(f"resize {size}{self.filter(t)}")

    def center_crop(self, t: Any) -> None:
        self.steps.append(f"center_crop {size_text(t.size)}")

    def random_crop(self, t: Any) -> None:
        step = f"random_crop {size_text(t.size)}"
        if t.pad_if_needed:
            self.parameter("pad_if_needed", True, "has no counterpart",
                           "Resize the images to at least the size of the "
                           "crop, " + KEEP)
        if t.padding is not None:
            fill = t.fill if isinstance(t.fill, (tuple, list)) else [t.fill]
            if t.padding_mode != "constant":
                self.parameter("padding_mode", t.padding_mode,
                               "there is 'constant'")
            elif any(fill):
                self.parameter("fill", t.fill, "there is 0")
            pads = [t.padding] if isinstance(t.padding, int) else t.padding
            if min(pads) < 0:
                self.parameter("padding", t.padding, "want no negative one")
            step += f" padding={numbers(pads)}"
        self.steps.append(step)

    def random_resized_crop(self, t: Any) -> None:
        self.steps.append(
            f"random_resized_crop {size_text(t.size)} "
            f"scale={numbers(t.scale)} ratio={numbers(t.ratio)}"
            f"{self.filter(t)}")

    def flip(self, t: Any) -> None:
        # Of a tensor it is the same: it only moves values.
        self.steps.append(f"flip p={number(t.p)}")

    def greyscale(self, t: Any) -> None:
        self.channels = t.num_output_channels
        self.steps.append(f"greyscale channels={self.channels}")

    def color_jitter(self, t: Any) -> None:
        given = [f" {name}={numbers(getattr(t, name))}"
                 for name in ("brightness", "contrast", "saturation", "hue")
                 if getattr(t, name) is not None]
        if given:
            self.steps.append("color_jitter" + "".join(given))

    # ---- to tensors, and on them ----

    def to_tensor(self, t: Any) -> None:
        if self.made not in ("PIL image", ""):
            self.problem("gets a tensor, not a PIL image", "leave it out")
        if torch.get_default_dtype() is not torch.float32:
            self.problem("makes tensors of torch's default type, "
                         f"{torch.get_default_dtype()}", "set float32, " +
                         KEEP)
        self.made = "tensor"

    def pil_to_tensor(self, t: Any) -> None:
        if self.made not in ("PIL image", ""):
            self.problem("gets a tensor, not a PIL image", "leave it out")
        self.made = "u8 tensor"

    def convert_dtype(self, t: Any) -> None:
        if self.made == "PIL image":
            self.problem("gets a PIL image", "put PILToTensor before it")
        elif t.dtype is torch.float32:
            self.made = "tensor"
        elif t.dtype is not torch.uint8 or self.made != "u8 tensor":
            self.parameter("dtype", t.dtype, "there is torch.float32",
                           "convert the batches after loading, " + KEEP)

    def normalize(self, t: Any) -> None:
        if self.made not in ("tensor", ""):
            self.problem(f"gets a {self.made}, not a tensor of floats",
                         "put ToTensor before it")
        mean, std = (torch.as_tensor(x, dtype=torch.float64).flatten()
                     .tolist() for x in (t.mean, t.std))
        if self.made and not {len(mean), len(std)} <= {1, self.channels}:
            self.problem(f"has {len(mean)} means and {len(std)} deviations "
                         f"for {self.channels} channels", "give one for each")
            return
        # (x - a) / b, then (x - c) / d: (x - (a + b c)) / (b d)
        n = max(len(self.mean), len(mean), len(std))
        a, b, c, d = (x * n if len(x) == 1 else x
                      for x in (self.mean, self.std, mean, std))
        if not all(d):
            self.parameter("std", t.std, "division by zero")
        self.mean = [p + q * r for p, q, r in zip(a, b, c)]
        self.std = [q * s for q, s in zip(b, d)]


KNOWN: dict[type, Callable[[Chain, Any], None]] = {
    T.Resize: Chain.resize,
    T.CenterCrop: Chain.center_crop,
    T.RandomCrop: Chain.random_crop,
    T.RandomResizedCrop: Chain.random_resized_crop,
    T.RandomHorizontalFlip: Chain.flip,
    T.Grayscale: Chain.greyscale,
    T.ColorJitter: Chain.color_jitter,
    T.ToTensor: Chain.to_tensor,
    T.PILToTensor: Chain.pil_to_tensor,
    T.ConvertImageDtype: Chain.convert_dtype,
    T.Normalize: Chain.normalize,
}
ON_PIL = {T.Resize, T.CenterCrop, T.RandomCrop, T.RandomResizedCrop,
          T.Grayscale, T.ColorJitter}
