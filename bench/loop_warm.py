#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A pipeline, measured when it has run for two epochs: what it takes
to open it and to fill its buffers the first time is not in it. It never rests
between these and what is measured, since its threads would work ahead then.
Prints one line of JSON.

usage: PYTHONPATH=BUILD/python loop_warm.py PIPELINE THREADS SECONDS
"""
import json
import resource
import sys
import time

import millrace


def cpu():
    u = resource.getrusage(resource.RUSAGE_SELF)
    return u.ru_utime + u.ru_stime


def main():
    pipeline, threads, seconds = sys.argv[1:]
    loader = millrace.Loader(pipeline, threads=int(threads))

    def epoch():
        return sum(batch.count for batch in loader)

    for _ in range(2):
        epoch()
    samples, start, before = 0, time.monotonic(), cpu()
    while time.monotonic() - start < float(seconds):
        samples += epoch()
    print(json.dumps({"samples": samples, "cpu": cpu() - before,
                      "seconds": time.monotonic() - start}))


if __name__ == "__main__":
    main()
