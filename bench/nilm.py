# SPDX-License-Identifier: Apache-2.0
"""The steps of NILM, voltage and current to power per period, beside a bare
loop that reads the same bytes and adds them up."""
import copy
import os
import shutil
import struct

import data
from common import Failed, epochs_for, interleave, output, output_json, paired

QUESTION = "does power per period run as fast as its input can be read?"
WINDOW = 64000
SAMPLE = 2 * WINDOW * 8
BATCH = 32      # of 8, waking the consumer 2,500 times a second shows: 7 %
SMALL = 2 * WINDOW * 2          # as measured, 16 bits


def arrays(env, count):
    """Windows in volts and amperes, f64 [count, 2, WINDOW]."""
    path = os.path.join(env.data, f"nilm-{count}.npy")
    if os.path.exists(path):
        return path
    data.need(env, count * SAMPLE)
    text = ("{'descr': '<f8', 'fortran_order': False, "
            f"'shape': ({count}, 2, {WINDOW}), }}").encode()
    text = text.ljust(data.HEADER - 11) + b"\n"
    row = struct.pack(f"<{2 * WINDOW}d", *(
        ((k * 7919) % 1000 - 500) * 0.37 for k in range(2 * WINDOW)))
    with open(path + ".part", "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text)
        for _ in range(count):
            f.write(row)
        f.flush()
        os.fsync(f.fileno())
    os.rename(path + ".part", path)
    return path


def recordings(env, count):
    """HDF5 files as CREAM has them."""
    path = os.path.join(env.data, f"nilm-{count}")
    if not os.path.exists(path):
        data.need(env, count * 150_000)
        shutil.rmtree(path + ".part", ignore_errors=True)
        output([env.millrace, "synth", "nilm", path + ".part", "--count",
                str(count), "--duration", "10m"])
        os.sync()
        os.rename(path + ".part", path)
    return path


def unpacked(env, source, count):
    """The same 16-bit windows, stored by prepare: nothing to inflate."""
    path = os.path.join(env.data, f"nilm-{count}-raw")
    if not os.path.exists(path):
        data.need(env, count * SMALL)
        shutil.rmtree(path + ".part", ignore_errors=True)
        output([env.millrace, "prepare", source, "--until", "1", "--out",
                path + ".part"])
        os.sync()
        os.rename(path + ".part", path)
    return path


def timed(env, once):
    """once(epochs) gives {name: samples/s or MB/s} and seconds."""
    epochs = []

    def job():
        if not epochs:
            epochs.append(epochs_for(env.seconds,
                                     lambda n: once(n)[1]))
        return once(epochs[0])[0]
    return job


def bare(env, name, path, threads):
    def once(epochs):
        r = output_json([env.tool("bare_sum"), path, str(data.HEADER),
                         str(SAMPLE), str(BATCH), str(threads), str(epochs)])
        return {name: r["bytes"] / r["seconds"] / 1e6}, r
    return timed(env, once)


def mill(env, name, pipeline, threads, sample, steps=()):
    """MB/s of input, as a whole; and of some steps, by their own time."""
    def once(epochs):
        r = env.run(pipeline + f" | batch {BATCH}", "--threads", threads,
                    "--epochs", epochs)
        out = {name: r["samples"] * sample / r["seconds"] / 1e6}
        for s in r["steps"]:
            if s["name"] in steps:
                if not s["total_ms"]:
                    raise Failed(f"no time of {s['name']}")
                out[f"{name}: {s['name']} alone"] = (
                    s["bytes_in"] / s["total_ms"] / 1e3)
        return out, r
    return timed(env, once)


def plan(env):
    env = copy.copy(env)
    env.seconds *= 2            # that starting, 30 ms, does not show
    # beyond the CPU's caches
    path = arrays(env, 60 if env.quick else 400)
    count = 120 if env.quick else 720
    source = (f"hdf5 {recordings(env, count)}/*.hdf5 voltage,current1 "
              f"window={WINDOW} attributes=calibration_factor")
    raw = f"records {unpacked(env, source, count)} map=yes"
    jobs = {}
    for t in (1, 2):
        per = f"{t} thread" + "s" * (t > 1)
        jobs[f"bare sum, {per}"] = bare(env, f"bare sum, {per}", path, t)
        for kind in ("active", "reactive"):
            name = f"{kind} power, {per}"
            jobs[name] = mill(env, name, f"npy {path} map=yes | power "
                              f"kind={kind}", t, SAMPLE, ("power",))
        for name, text in (("from 16 bits in memory", raw),
                           ("from HDF5", source)):
            name = f"calibrate and power {name}, {per}"
            jobs[name] = mill(env, name, f"{text} | calibrate | power", t,
                              SMALL, ("calibrate", "power"))
    return jobs


def own(values, name, threads):
    """What `power` would read by itself, on all threads."""
    return {r: v * threads
            for r, v in values.get(f"{name}: power alone", {}).items()}


def main(env, report):
    rounds = env.rounds(7)
    report.setting(rounds=rounds, cache="warm", batch=BATCH,
                   window=f"2 x {WINDOW}")
    values, failed = interleave(plan(env), rounds)
    for name, why in failed.items():
        report.fail(name, why)
    for name, got in values.items():
        report.measure(name, "MB/s of input", got)
    for t in (1, 2):
        per = f"{t} thread" + "s" * (t > 1)
        below = values.get(f"bare sum, {per}", {})
        for kind in ("active", "reactive"):
            name = f"{kind} power, {per}"
            # of a thread's own time, hence times the number of threads
            report.ratio(f"{kind} power, by its own time / bare sum, {per}",
                         paired(own(values, name, t), below), (">=", 0.9))
            report.ratio(f"{kind} power, with the loader / bare sum, {per}",
                         paired(values.get(name, {}), below))
        report.ratio(
            f"power after calibrate, by its own time / bare sum, {per}",
            paired(own(values, "calibrate and power from 16 bits in memory, "
                       + per, t), below), (">=", 0.9))
    for name in ("active power", "calibrate and power from 16 bits in memory",
                 "calibrate and power from HDF5", "bare sum"):
        report.ratio(f"{name}, 2 threads / 1 thread", paired(
            values.get(f"{name}, 2 threads", {}),
            values.get(f"{name}, 1 thread", {})),
            (">=", 1.8) if "HDF5" in name else None)
    report.note("the steps' own rates are by the time of the threads that "
                "run them, so they are per thread")
