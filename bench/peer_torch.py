#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""torch's DataLoader over one .npy file, or over one file per sample.

usage: peer_torch.py npy|files PATH BATCH WORKERS SAMPLES SECONDS

Takes the first SAMPLES samples, shuffled. One epoch warms up (workers stay
alive between epochs, which is the best that torch offers); then whole epochs
are timed until SECONDS have passed. Prints one line of JSON.
"""
import json
import os
import sys
import time

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    """Rows of a memory-mapped array; collating copies them, nothing else."""

    def __init__(self, path, samples):
        self.path, self.samples, self.rows = path, samples, None

    def __len__(self):
        return self.samples

    def __getitem__(self, i):
        if self.rows is None:
            # mode "c": torch wants memory that it may write to
            self.rows = np.load(self.path, mmap_mode="c")
        return torch.from_numpy(self.rows[i])


class Files(Dataset):
    def __init__(self, path, samples):
        paths = sorted(os.path.join(d, f)
                       for d, _, files in os.walk(path) for f in files)
        self.paths = paths[:samples]

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        with open(self.paths[i], "rb") as f:
            return torch.from_numpy(np.fromfile(f, np.uint8))


def epoch(loader):
    samples = size = 0
    for batch in loader:
        samples += len(batch)
        size += batch.numel()
    return samples, size


def main():
    kind, path, batch, workers, samples, seconds = sys.argv[1:]
    data = {"npy": Rows, "files": Files}[kind](path, int(samples))
    loader = DataLoader(data, batch_size=int(batch), shuffle=True,
                        num_workers=int(workers),
                        persistent_workers=int(workers) > 0)
    epoch(loader)
    done = size = epochs = 0
    start = time.monotonic()
    while epochs == 0 or time.monotonic() - start < float(seconds):
        n, b = epoch(loader)
        done, size, epochs = done + n, size + b, epochs + 1
    print(json.dumps({"samples": done, "bytes": size, "epochs": epochs,
                      "seconds": time.monotonic() - start,
                      "version": torch.__version__}))


if __name__ == "__main__":
    main()
