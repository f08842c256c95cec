# SPDX-License-Identifier: Apache-2.0
"""The peer's side of coproc.py: a process that is started once (which may
take half a minute), warms up, and then measures a slice whenever it is asked.

It says one line of JSON when it is ready. For each line it reads, a number of
seconds, it runs whole epochs until these have passed and answers with one
line of JSON. It ends when its input ends.
"""
import json
import os
import sys
import time


def claim_stdout():
    """What libraries print must not come between the answers."""
    fd = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(fd, "w", buffering=1)


def serve(epoch, warmups, **info):
    """epoch(first) runs one epoch and gives its number of samples; it calls
    first() when its first batch is there."""
    out = claim_stdout()
    seen = []

    def first():
        if not seen:
            seen.append(time.monotonic())

    start = time.monotonic()
    for _ in range(warmups):
        epoch(first)
    print(json.dumps({"first_batch_at": seen[0],    # same clock as ours
                      "warmup_s": time.monotonic() - start, **info}),
          file=out)
    for line in sys.stdin:
        seconds = float(line)
        done = epochs = 0
        start = time.monotonic()
        while epochs == 0 or time.monotonic() - start < seconds:
            done, epochs = done + epoch(first), epochs + 1
        print(json.dumps({"samples": done, "epochs": epochs,
                          "seconds": time.monotonic() - start}), file=out)
