# SPDX-License-Identifier: Apache-2.0
"""What a trace costs: the same run without one, with all its spans, with
counters per step, with samples of the program counter."""
import copy
import os
import re
import shutil
import struct
import subprocess

import data
import images
import photos
from common import (Failed, bootstrap, epochs_for, interleave, output_json,
                    paired)

QUESTION = "what does tracing cost?"
SIZE = 10240
# name, options beside --trace, most percent more
WAYS = {
    "spans": (["--events", "none"], 1.0),
    "spans, counters": ([], None),
    "spans, 1 kHz samples": (["--events", "none", "--sample", "1000"], 2.0),
    "spans, counters, 1 kHz samples": (["--sample", "1000"], None),
}
PERF = "untraced, perf record -F 1000 -g"
SMALL = {
    "spans": (["--events", "none"], 10.0),
    "spans, counters": ([], None),
}


def written(path):
    """Bytes, spans and lost spans of a trace, from its last chunk."""
    size = os.path.getsize(path)
    with open(path, "rb") as f:
        f.seek(-48, os.SEEK_END)
        end = f.read()
    if end[:8] != b"CHNKDONE":
        raise Failed(f"{path} has no end")
    return (size, *struct.unpack_from("<QQ", end, 24))


def job(env, title, name, pipeline, epochs, options, files):
    path = os.path.join(env.out, "trace.mrt")

    def run():
        more = ["--trace", path, *options] if options is not None else []
        seen = env.spawn([env.millrace, "run", "--json", pipeline,
                          "--threads", 2, "--epochs", epochs, *more])[1]
        if more:
            files.setdefault(name, []).append(written(path))
            os.unlink(path)     # else the next run waits for its blocks
        return {f"{title}, {name}": seen["seconds"],
                f"{title}, {name}, CPU": seen["user_s"] + seen["sys_s"]}
    return run


def by_perf(env, title, pipeline, epochs):
    """The tool that people know for it, on the untraced run; what it takes
    itself is counted, as our recorder is."""
    path = os.path.join(env.out, "perf.data")

    def run():
        words = [env.millrace, "run", "--json", pipeline, "--threads", "2",
                 "--epochs", str(epochs)]
        before = os.times()
        subprocess.run(["perf", "record", "-q", "-e", "cpu-clock", "-F",
                        "1000", "-g", "-o", path, "--", *words], check=True,
                       capture_output=True)
        after = os.times()
        os.unlink(path)
        return {f"{title}, {PERF}": after.elapsed - before.elapsed,
                f"{title}, {PERF}, CPU":
                after.children_user + after.children_system -
                before.children_user - before.children_system}
    return run


def compare(env, report, title, pipeline, ways, rounds):
    epochs = epochs_for(env.seconds, lambda n: env.run(
        pipeline, "--threads", 2, "--epochs", n))
    report.setting(**{title: f"{pipeline}, {epochs} epochs"})
    files = {}
    jobs = {n: job(env, title, n, pipeline, epochs, o, files)
            for n, o in [("untraced", None)] + [
                (n, o) for n, (o, _) in ways.items() if n != PERF]}
    if PERF in ways:
        jobs[PERF] = by_perf(env, title, pipeline, epochs)
    values, failed = interleave(jobs, rounds)
    for name, reason in failed.items():
        report.fail(f"{title}, {name}", reason)
    for name in values:
        report.measure(name, "s", values[name])
    for name, (_, most) in ways.items():
        for what, target in ((", CPU", most), ("", None)):
            more = [100 * (r - 1) for r in paired(
                values.get(f"{title}, {name}{what}", {}),
                values.get(f"{title}, untraced{what}", {}))]
            if not more:
                continue
            report.ratio(f"{title}: {name}: more{what or ', wall'}", more,
                         ("<=", target) if target else None, "%",
                         bootstrap(more))
            least(report, values, title, name, what)
    tell_files(report, title, files)


def least(report, values, title, name, what):
    """The rounds that were disturbed least, of each."""
    a, b = (min(values[f"{title}, {n}{what}"].values())
            for n in (name, "untraced"))
    report.ratio(f"{title}: {name}: more{what or ', wall'}, least of each",
                 [100 * (a / b - 1)], None, "%")


def tell_files(report, title, files):
    for name, got in files.items():
        each = [b / s for b, s, _ in got if s]
        lost = sum(x for _, _, x in got)
        if name == "spans":
            report.ratio(f"{title}: bytes per span", each, ("<=", 40))
        if lost:
            report.note(f"{title}, {name}: {lost} of "
                        f"{lost + sum(s for _, s, _ in got)} spans were lost")


def instructions(env, report, pipeline):
    """What noise does not touch: instructions of the program itself."""
    if not shutil.which("valgrind"):
        report.note("no valgrind: instructions were not counted")
        return
    path = os.path.join(env.out, "trace.mrt")

    def count(*more):
        text = subprocess.run(
            ["valgrind", "--tool=callgrind",
             "--callgrind-out-file=" + os.devnull, env.millrace, "run",
             pipeline, "--threads", "1", "--samples", "128", *more],
            capture_output=True, text=True, timeout=600).stderr
        found = re.search(r"refs:\s+([\d,]+)", text)
        if not found:
            raise Failed(f"callgrind: {text[-200:]}")
        return int(found[1].replace(",", ""))
    bare = count()
    for name, more in (("spans", ["--events", "none"]),
                       ("spans, counters", [])):
        report.ratio(f"photos: {name}: more instructions",
                     [100 * (count("--trace", path, *more) / bare - 1)],
                     ("<=", 1.0), "%")


def timer(env, report):
    """What of it is not ours: the kernel's samples of an empty loop."""
    try:
        r = output_json([env.tool("bare_samples"), "1000",
                         "5" if env.quick else "101"])
    except Failed as e:
        report.fail("the timer alone", str(e))
        return
    report.ratio("1 kHz samples of an empty loop, by the kernel alone: more",
                 [r["percent"]], None, "%")
    report.note(f"a sample takes the kernel {r['us']:.0f} us here")


def main(env, report):
    rounds = 2 if env.quick else 15
    report.setting(rounds=rounds, threads=2, cache="warm",
                   clock="spawn to exit; CPU: user and system, all threads")
    report.note("by CPU time, which other programs on the machine disturb "
                "least; the targets are judged by it")
    try:
        ph = photos.imagenet(env)
    except Failed as e:
        report.fail("photos", str(e))
        ph = photos.small(env)
    ways = dict(WAYS)
    if shutil.which("perf"):
        ways[PERF] = ([], None)
    else:
        report.note("no perf: not compared with it")
    longer = copy.copy(env)
    longer.seconds *= 3         # that starting and ending do not show
    compare(longer, report, "photos", images.pipeline(ph), ways, rounds)
    timer(env, report)
    instructions(env, report, images.pipeline(ph))
    path, _ = data.npy(env, SIZE, data.total(env, 6)[0])
    compare(env, report, "10 KB", f"npy '{path}' | batch 32", SMALL, rounds)
