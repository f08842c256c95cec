#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""FFCV's loader over photos.

usage: peer_ffcv_images.py make DIR BETON        write FFCV's file, mode 'jpg'
       peer_ffcv_images.py original DIR BETON    the same with DIR's own bytes
       peer_ffcv_images.py raw PIXELS LABELS SIDE BETON   mode 'raw'
       peer_ffcv_images.py extract BETON DIR     the JPEG files in it
       peer_ffcv_images.py run BETON train|val nchw|nhwc BATCH WORKERS REPEAT

FFCV decodes every picture and encodes it anew (OpenCV, quality 90, 4:2:0);
it has no way to keep the bytes of a JPEG file. `original` replaces its
encoder by one that gives the file's bytes, which its reader takes well: so
both sides can decode the same bytes. `raw` takes pixels from a file of u8
SIDE x SIDE x 3 and labels from one of i64.

run: train is RandomResizedCropRGBImageDecoder and RandomHorizontalFlip, val
CenterCropRGBImageDecoder with ratio 224/256; then NormalizeImage to f32,
ToTensor, ToTorchImage. nchw: a contiguous NCHW tensor, as torch, OpenCV and
Millrace deliver it; nhwc: FFCV's default, a view of NHWC memory. Order
random, from the page cache. An epoch takes each sample REPEAT times, because
FFCV allocates its buffers anew for each epoch: a short one would be unfair.
The first epoch compiles.
"""
import os
import sys

import cv2
import numpy as np
import torch
from ffcv.fields import IntField, RGBImageField, rgb_image
from ffcv.fields.rgb_image import (CenterCropRGBImageDecoder,
                                   RandomResizedCropRGBImageDecoder)
from ffcv.loader import Loader, OrderOption
from ffcv.reader import Reader
from ffcv.transforms import (NormalizeImage, RandomHorizontalFlip, ToTensor,
                             ToTorchImage)
from ffcv.writer import DatasetWriter
from PIL import Image

from slices import serve

MEAN = np.array([0.485, 0.456, 0.406]) * 255
STD = np.array([0.229, 0.224, 0.225]) * 255


class Folder:
    """(picture, class) in the order of ImageFolder."""

    def __init__(self, path):
        classes = sorted(e.name for e in os.scandir(path) if e.is_dir())
        self.files = [(os.path.join(path, c, f), label)
                      for label, c in enumerate(classes)
                      for f in sorted(os.listdir(os.path.join(path, c)))]

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        path, label = self.files[i]
        with Image.open(path) as image:
            return np.array(image.convert("RGB")), label


class Encoded(np.ndarray):
    """Stands for a picture of its shape; knows its file."""


class Originals(Folder):
    def __getitem__(self, i):
        path, label = self.files[i]
        with Image.open(path) as image:
            shape = (image.height, image.width, 3)
        stand_in = np.broadcast_to(np.uint8(0), shape).view(Encoded)
        stand_in.data_of_file = np.fromfile(path, np.uint8)
        return stand_in, label


class Pixels:
    def __init__(self, pixels, labels, side):
        self.pixels = np.fromfile(pixels, np.uint8).reshape(-1, side, side, 3)
        self.labels = np.fromfile(labels, np.int64)
        assert len(self.pixels) == len(self.labels)

    def __len__(self):
        return len(self.pixels)

    def __getitem__(self, i):
        return self.pixels[i], int(self.labels[i])


def write(folder, beton, mode="jpg"):
    # FFCV's writer waits forever for a sample that failed in a worker, and
    # one that is larger than a page of its file fails
    fields = {"image": RGBImageField(write_mode=mode), "label": IntField()}
    DatasetWriter(beton, fields, num_workers=2).from_indexed_dataset(folder)


def make(path, beton):
    write(Folder(path), beton)


def original(path, beton):
    rgb_image.encode_jpeg = lambda image, _quality: image.data_of_file
    write(Originals(path), beton)


def raw(pixels, labels, side, beton):
    write(Pixels(pixels, labels, int(side)), beton, "raw")


def extract(beton, path):
    reader = Reader(beton)
    size = {int(a["ptr"]): int(a["size"]) for a in reader.alloc_table}
    data = np.memmap(beton, np.uint8, mode="r")
    for i, sample in enumerate(reader.metadata):
        at, label = int(sample["f0"]["data_ptr"]), int(sample["f1"])
        folder = os.path.join(path, f"c{label:03d}")
        os.makedirs(folder, exist_ok=True)
        data[at:at + size[at]].tofile(os.path.join(folder, f"{i:06d}.jpg"))


def steps(mode, layout):
    if mode == "train":
        first = [RandomResizedCropRGBImageDecoder((224, 224)),
                 RandomHorizontalFlip()]
    else:
        first = [CenterCropRGBImageDecoder((224, 224), ratio=224 / 256)]
    return [*first, NormalizeImage(MEAN, STD, np.float32), ToTensor(),
            ToTorchImage(channels_last=layout == "nhwc")]


def run(beton, mode, layout, batch, workers, repeat):
    workers = int(workers)
    if workers == 1:
        cv2.setNumThreads(1)    # its resize would use every core
    samples = int(Reader(beton).num_samples)
    loader = Loader(beton, batch_size=int(batch), num_workers=workers,
                    order=OrderOption.RANDOM, os_cache=True, drop_last=False,
                    indices=np.tile(np.arange(samples, dtype=np.uint64),
                                    int(repeat)),
                    pipelines={"image": steps(mode, layout)})
    want = torch.contiguous_format if layout == "nchw" else \
        torch.channels_last

    def epoch(first):
        done = 0
        for images, labels in loader:
            first()
            done += len(labels)
        assert images.dtype == torch.float32
        assert images.shape[1:] == (3, 224, 224)
        assert images.is_contiguous(memory_format=want)
        return done

    serve(epoch, warmups=1, layout=layout, samples=samples * int(repeat),
          versions={"FFCV": "0.0.3 (Debian)", "torch": torch.__version__,
                    "OpenCV": cv2.__version__})


if __name__ == "__main__":
    {"make": make, "original": original, "raw": raw, "extract": extract,
     "run": run}[sys.argv[1]](*sys.argv[2:])
