# SPDX-License-Identifier: Apache-2.0
"""What Python's `for batch in loader` costs beside the command."""
import os

import data
from common import (HERE, PYTHON, bootstrap, epochs_for, interleave,
                    output_json, paired)

QUESTION = "what does the Python loop cost beside the command?"
SIZE = 10240


def main(env, report):
    path, count = data.npy(env, SIZE, data.total(env, 6)[0])
    pipeline = f"npy '{path}' | batch 32"
    epochs = epochs_for(env.seconds, lambda n: env.run(
        pipeline, "--threads", 2, "--epochs", n))
    rounds = 3 if env.quick else 41
    report.setting(rounds=rounds, epochs=epochs, threads=2, sample=SIZE,
                   samples=count, clock="from opening the loader to the end")
    where = dict(os.environ, PYTHONPATH=os.path.join(env.build, "python"),
                 PYTHONDONTWRITEBYTECODE="1")

    def rate(r):
        return r["samples"] * SIZE / r["seconds"] / 1e6

    values, failed = interleave({
        "command": lambda: rate(env.run(
            pipeline, "--threads", 2, "--epochs", epochs)),
        "Python loop": lambda: rate(output_json(
            [PYTHON, os.path.join(HERE, "loop_millrace.py"), pipeline, "2",
             str(epochs)], env=where))}, rounds)
    for name, reason in failed.items():
        report.fail(name, reason)
    for name, v in values.items():
        report.measure(name, "MB/s", v)
    ratio = paired(values.get("Python loop", {}), values.get("command", {}))
    report.ratio("Python loop / command", ratio, (">=", 0.97),
                 interval=bootstrap(ratio) if ratio else None)
