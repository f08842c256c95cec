# SPDX-License-Identifier: Apache-2.0
"""What `millrace trace -- python3 train.py` costs a PyTorch script, beside
torch's own profiler and sampling profilers, where they are to be had."""
import json
import os
import shutil
import sys
import tempfile

from common import (Failed, HERE, PYTHON, ROOT, bootstrap, interleave, output,
                    paired)
from noise import DISTURBED, Noise
from photos import originals

sys.path.insert(0, os.path.join(ROOT, "tests", "python"))
from mrt import Trace  # noqa: E402

QUESTION = "what does tracing a PyTorch script cost?"
WORKERS, BATCH, EPOCHS = 2, 32, 3
CLASSES = 20


def photos(env):
    """The photos in folders by class, as links."""
    to = os.path.join(env.data, "foreign")
    if os.path.isdir(to):
        return to
    source = originals()
    if not os.path.isdir(source):
        source = os.path.join(env.data, "foreign-synth")
        output([env.millrace, "synth", "images", "--out", source, "--count",
                "400"])
    names = sorted(os.path.join(d, f) for d, _, files in os.walk(source)
                   for f in files if f.lower().endswith((".jpeg", ".jpg")))
    if not names:
        raise Failed(f"{source} holds no photos")
    part = tempfile.mkdtemp(dir=env.data)
    for i, name in enumerate(names):
        folder = os.path.join(part, f"{i % CLASSES:02}")
        os.makedirs(folder, exist_ok=True)
        os.symlink(name, os.path.join(folder, f"{i:05}.jpeg"))
    os.rename(part, to)
    return to


class Script:
    def __init__(self, env, folder):
        self.env, self.folder = env, folder
        self.out = os.path.join(env.out, "foreign.mrt")
        self.bytes = []

    def run(self, before=(), after=(), epochs=EPOCHS):
        return output([*before, PYTHON, os.path.join(HERE, "loop_foreign.py"),
                       self.folder, str(WORKERS), str(BATCH), str(epochs),
                       *after], timeout=900)

    def job(self, name, before=(), after=(), kept=None):
        def run():
            text = self.run(before, after)
            # a sampler may write beside what the script prints
            line = next(x for x in text.splitlines() if x[:1] == "{")
            got = json.loads(line)
            if kept:
                self.bytes.append(os.path.getsize(kept) / got["images"])
            return {name: got["seconds"], name + ", CPU": got["cpu"]}
        return run

    def jobs(self):
        here = {"untraced": self.job("untraced")}
        here["millrace trace"] = self.job(
            "millrace trace", [self.env.millrace, "trace", "-o", self.out,
                               "--"], kept=self.out)
        # what the machine's noise alone makes of a ratio
        here["untraced, again"] = self.job("untraced, again")
        here["torch.profiler"] = self.job("torch.profiler",
                                          after=["profiler"])
        return here

    def samplers(self, report):
        """Others' profilers, by the names of their packages."""
        found = {}
        for name, words in (
                ("py-spy", ["record", "--subprocesses", "-r", "100", "-o",
                            os.devnull, "--"]),
                ("austin", ["-C", "-i", "10000", "-o", os.path.join(
                    self.env.out, "foreign.austin")])):
            path = shutil.which(name)
            if not path:
                report.fail(name, "not installed (py-spy is in no Debian "
                            "package; austin is one)")
                continue
            try:
                self.run([path, *words], epochs=1)
            except Failed as e:
                report.fail(name, f"{path}: {e}")
                continue
            found[name] = self.job(name, [path, *words])
        return found


def main(env, report):
    script = Script(env, photos(env))
    script.run(epochs=1)        # the files are in memory from here on
    noise = Noise()
    rounds = env.rounds(15)
    jobs = {**script.jobs(), **script.samplers(report)}
    report.setting(workers=WORKERS, batch=BATCH, epochs=EPOCHS, rounds=rounds)
    values, failed = interleave(
        {n: noise.watch(j) for n, j in jobs.items()}, rounds)
    for name, reason in failed.items():
        report.fail(name, reason)
    for name in values:
        report.measure(name, "s", values[name])
    for name in jobs:
        if name == "untraced" or name not in values:
            continue
        target = ("<=", 1.02) if name == "millrace trace" else None
        for what in ("", ", CPU"):
            r = paired(values[name + what], values["untraced" + what])
            report.ratio(f"{name} / untraced{what or ', wall'}", r,
                         target=target if not what else None,
                         interval=bootstrap(r) if len(r) > 2 else None)
    report.ratio("log per image", script.bytes, unit="B",
                 target=("<=", 234))
    check(report, script)
    others = sorted(noise.cores)[len(noise.cores) // 2]
    if others > DISTURBED:
        report.note(f"other processes took {others:.1f} cores meanwhile: "
                    "the ratios are not to be trusted")


def check(report, script):
    """That what was measured is a whole trace."""
    t = Trace(script.out)
    images = len(t.of("sample"))
    if not t.done or len(t.of("step")) != 5 * images:
        raise Failed(f"{script.out}: not a whole trace")
    report.note(f"{images:,} images, {len(t.spans):,} spans: read and 4 "
                "transforms each")
