#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A training script as people write it, without the training: what
`millrace trace` is put before.

usage: loop_foreign.py DIR WORKERS BATCH EPOCHS [profiler]

Prints JSON: seconds of the epochs, CPU seconds of this process and its
workers, images.
"""
import contextlib
import json
import resource
import sys
import time

import torch
from torch.utils.data import DataLoader
from torchvision import transforms as T
from torchvision.datasets import ImageFolder


def cpu():
    return sum(r.ru_utime + r.ru_stime for r in map(
        resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def main():
    folder, workers, batch, epochs = sys.argv[1], *map(int, sys.argv[2:5])
    around = contextlib.nullcontext()
    if sys.argv[5:] == ["profiler"]:
        around = torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU])
    data = ImageFolder(folder, T.Compose([
        T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ToTensor(),
        T.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))]))
    torch.manual_seed(1)
    loader = DataLoader(data, batch, shuffle=True, num_workers=workers)
    torch.set_num_threads(1)
    images, used, start = 0, cpu(), time.monotonic()
    with around:
        for _ in range(epochs):
            for x, _y in loader:
                images += len(x)
    seconds = time.monotonic() - start
    print(json.dumps({"seconds": seconds, "cpu": cpu() - used,
                      "images": images}))


main()
