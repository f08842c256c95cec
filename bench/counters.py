# SPDX-License-Identifier: Apache-2.0
"""What counting and timing every step costs: this build beside one with the
counters compiled out."""
import json
import os

import data
from common import (Failed, ROOT, bootstrap, epochs_for, interleave, output,
                    paired, say)

QUESTION = "what do the counters cost?"
SIZE = 10240


def options(build):
    text = output(["meson", "introspect", "--buildoptions", build])
    return {o["name"]: o["value"] for o in json.loads(text)}


def without(env):
    """The command of a build without counters, made or brought up to date;
    all else as in the build that is measured."""
    here = options(env.build)
    if not here.get("counters", True):
        raise Failed(f"{env.build} is itself built without counters")
    build = os.path.join(env.out, "nocounters")
    same = [f"-D{k}={here[k]}" for k in
            ("buildtype", "optimization", "debug", "b_ndebug", "b_sanitize",
             "b_lto", "default_library") if k in here]
    if not os.path.exists(os.path.join(build, "build.ninja")):
        output(["meson", "setup", build, ROOT, *same, "-Dcounters=false",
                "-Dtests=false", "-Dpython=false"])
    for b in (env.build, build):    # both, or sources that differ are compared
        say(f"  building {b}")
        output(["ninja", "-C", b, "millrace"], timeout=900)
    return os.path.join(build, "millrace"), here


def main(env, report):
    command, opts = without(env)
    if opts["buildtype"] != "release":
        report.note(f"buildtype is {opts['buildtype']}, not release")
    path, count = data.npy(env, SIZE, data.total(env, 6)[0])
    pipeline = f"npy '{path}' | batch 32"
    epochs = epochs_for(env.seconds, lambda n: env.run(
        pipeline, "--threads", 2, "--epochs", n))
    rounds = 3 if env.quick else 101
    report.setting(rounds=rounds, epochs=epochs, threads=2, sample=SIZE,
                   samples=count, clock="spawn to exit")

    def job(name, binary):
        def run():
            # from outside: a build without counters has no clock to believe
            seen = env.spawn(
                [binary, "run", "--json", pipeline, "--threads", 2,
                 "--epochs", epochs, "--order", "shuffle"])[1]
            return {name: seen["seconds"],
                    name + ", CPU": seen["user_s"] + seen["sys_s"]}
        return run

    values, failed = interleave(
        {n: job(n, b) for n, b in (("with counters", env.millrace),
                                   ("without counters", command))}, rounds)
    for name, reason in failed.items():
        report.fail(name, reason)
    for name in values:
        report.measure(name, "s", values[name])

    def more(what):
        return [100 * (r - 1) for r in
                paired(values.get("with counters" + what, {}),
                       values.get("without counters" + what, {}))]

    cost, cpu = more(""), more(", CPU")
    if not cost:
        raise Failed("nothing to compare")
    low, high = bootstrap(cost)
    report.ratio("time more with counters", cost, ("<", 1.0), "%",
                 (low, high))
    report.ratio("CPU time more with counters", cpu, None, "%",
                 bootstrap(cpu))
    if high - low > 2:
        report.note(f"the 95 % interval is {high - low:.1f} points wide: the "
                    f"machine was too busy for this question")
    elif high < -1:
        report.note("faster with counters than without: something else "
                    "differs between the builds (alignment, flags)")
