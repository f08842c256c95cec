#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The loop that a Python user writes. Prints one line of JSON.

usage: PYTHONPATH=BUILD/python loop_millrace.py PIPELINE THREADS EPOCHS
"""
import json
import sys
import time

import millrace
import numpy  # noqa: F401, as a user's script has: its import is not our time


def main():
    pipeline, threads, epochs = sys.argv[1:]
    samples = 0
    start = time.monotonic()
    loader = millrace.Loader(pipeline, threads=int(threads))
    for _ in range(int(epochs)):
        for batch in loader:
            samples += len(batch["data"])
    print(json.dumps({"samples": samples,
                      "seconds": time.monotonic() - start}))


if __name__ == "__main__":
    main()
