#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""FFCV's loader over NDArray samples.

usage: peer_ffcv.py make NPY BETON             write FFCV's own file
       peer_ffcv.py run BETON BATCH WORKERS SECONDS

`run` takes the samples in random order from the page cache. Two epochs warm
up (the first compiles); then whole epochs are timed until SECONDS have
passed. Prints one line of JSON.
"""
import json
import sys
import time

import numpy as np
from ffcv.fields import NDArrayField
from ffcv.fields.decoders import NDArrayDecoder
from ffcv.loader import Loader, OrderOption
from ffcv.writer import DatasetWriter


class Rows:
    def __init__(self, path):
        self.rows = np.load(path, mmap_mode="r")

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return (np.array(self.rows[i]),)


def make(npy, beton):
    rows = Rows(npy)
    field = NDArrayField(rows.rows.dtype, rows.rows.shape[1:])
    DatasetWriter(beton, {"data": field}, num_workers=2).from_indexed_dataset(
        rows, chunksize=1000)


def epoch(loader):
    samples = size = 0
    for (batch,) in loader:
        samples += len(batch)
        size += batch.nbytes if hasattr(batch, "nbytes") else batch.numel()
    return samples, size


def run(beton, batch, workers, seconds):
    loader = Loader(beton, batch_size=int(batch), num_workers=int(workers),
                    order=OrderOption.RANDOM, os_cache=True, drop_last=False,
                    pipelines={"data": [NDArrayDecoder()]})
    start = time.monotonic()
    epoch(loader)
    epoch(loader)
    warmup = time.monotonic() - start
    done = size = epochs = 0
    start = time.monotonic()
    while epochs == 0 or time.monotonic() - start < float(seconds):
        n, b = epoch(loader)
        done, size, epochs = done + n, size + b, epochs + 1
    print(json.dumps({"samples": done, "bytes": size, "epochs": epochs,
                      "seconds": time.monotonic() - start,
                      "warmup_s": warmup}))


if __name__ == "__main__":
    {"make": make, "run": run}[sys.argv[1]](*sys.argv[2:])
