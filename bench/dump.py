#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a field of the first samples of a pipeline to a file, bare.

usage: PYTHONPATH=BUILD/python dump.py PIPELINE FIELD SAMPLES OUT
"""
import sys

import millrace
import numpy as np


def main():
    pipeline, field, samples, out = sys.argv[1:]
    left = int(samples)
    with open(out, "wb") as f:
        for batch in millrace.Loader(pipeline, order="sequential"):
            rows = np.ascontiguousarray(batch[field][:left])
            f.write(memoryview(rows).cast("B"))
            left -= len(rows)
            if not left:
                return 0
    print(f"{left} samples are missing", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
