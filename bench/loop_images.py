#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The Python user's loop over photos. Prints one line of JSON.

usage: PYTHONPATH=BUILD/python loop_images.py PIPELINE THREADS EPOCHS
EPOCHS 0: ends with the first batch and says when that was there.
"""
import json
import os
import sys
import time

import millrace


def main():
    pipeline, threads, epochs = sys.argv[1:]
    samples = 0
    start = time.monotonic()
    loader = millrace.Loader(pipeline, threads=int(threads))
    if epochs == "0":
        next(iter(loader))["label"]
        print(json.dumps({"first_batch_at": time.monotonic()}), flush=True)
        os._exit(0)         # how long leaving takes is not asked
    for _ in range(int(epochs)):
        for batch in loader:
            samples += batch.count
    print(json.dumps({"samples": samples,
                      "seconds": time.monotonic() - start}))


if __name__ == "__main__":
    main()
