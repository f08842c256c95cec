# SPDX-License-Identifier: Apache-2.0
"""Sound to log-mel spectrograms: Millrace beside bare loops over libFLAC,
mpg123 and FFTW, and beside torchaudio, NumPy and SciPy, warm cache.

What is compared runs in the same rounds; the peers stay open (coproc.py), and
Millrace is measured when it has warmed up (loop_warm.py)."""
import os
import shutil
import sys

import data
from common import (Failed, HERE, PYTHON, ROOT, epochs_for, interleave,
                    output_json, paired, say)
from coproc import Peer
from noise import Noise
from photos import made

QUESTION = "how many sounds a second, beside bare decoding and peers?"
SETS = {"flac": ("librispeech-test-other", 16000), "mp3": ("cv-en", 48000)}
STEPS = ("stft frame=20ms step=10ms fft=1024 rate={0} | mel bins=80 fmin=125 "
         "fmax=3800 rate={0} | log")
SECONDS = 2         # of a piece of sound
TAIL = "batch 16 pad=-18.420681"
PEERS = {"torchaudio": (">=", 3), "numpy": (">=", 20), "scipy": None}


def originals(kind):
    return os.path.join(
        os.environ.get("MILLRACE_DATA")
        or os.path.join(os.path.dirname(ROOT), "shared", "data"),
        kind, SETS[kind][0])


def encoded(env, kind):
    """The recordings, in one folder."""
    source = originals(kind)
    if not os.path.isdir(source):
        raise Failed(f"no recordings in {source}; name a folder that has "
                     f"{kind}/{SETS[kind][0]} in MILLRACE_DATA")

    def make(to):
        os.makedirs(f"{to}/a")
        for base, _, names in sorted(os.walk(source)):
            for name in sorted(names):
                if name.endswith(kind):
                    shutil.copyfile(os.path.join(base, name), f"{to}/a/{name}")
    data.need(env, 200 * 10**6)
    return made(os.path.join(env.data, f"sound-{kind}"), make)


def decoded(env, kind, folder):
    """The same as one array, i16, of pieces of SECONDS: what neither side has
    to read or decode."""
    rate = SETS[kind][1]

    def make(to):
        sys.path.insert(0, env.module()["PYTHONPATH"])
        import millrace
        import numpy as np
        pieces = []
        with millrace.Loader(f"files {folder} | decode_audio rate={rate} | "
                             "batch 1", epochs=1, order="sequential") as l:
            for b in l:
                x = next(iter(b.samples("audio")))
                n = len(x) // (rate * SECONDS)
                pieces.append(x[:n * rate * SECONDS].reshape(n, rate * SECONDS).copy())
        with open(to, "wb") as f:
            np.save(f, np.concatenate(pieces))
    return made(os.path.join(env.data, f"sound-{kind}.npy"), make)


class Group:
    """Jobs that are measured in the same rounds: sounds per second, and CPU
    milliseconds for each."""

    def __init__(self, env, report, title):
        self.env, self.report, self.title = env, report, title
        self.seconds = 0.5 if env.quick else 2.0
        self.jobs, self.peers = {}, {}
        self.values, self.failed, self.noise = {}, {}, Noise()

    def add(self, key, job, own=lambda: 0):
        def both():
            r = job()
            return {key: r["samples"] / r["seconds"],
                    f"cpu {key}": r["cpu"] / r["samples"] * 1000}
        self.jobs[key] = self.noise.watch(both, own)

    def bare(self, key, mode, what, threads, *more):
        epochs = []

        def run(n):
            return output_json([self.env.tool("bare_audio"), mode, str(what),
                                str(threads), str(n), *more])

        def job():
            if not epochs:
                epochs.append(epochs_for(self.seconds, run))
            return run(epochs[0])
        self.add(key, job)

    def peer(self, key, *cmd):
        p = self.peers[key] = Peer(key, [PYTHON, "-B", *cmd])
        self.add(key, lambda: p.slice(self.seconds),
                 lambda: p.cpu() if p.process else 0)

    def millrace(self, key, pipeline, threads):
        self.add(key, lambda: self.env.warm(pipeline, threads, self.seconds))

    def run(self, rounds):
        say(f"  {self.title}: {len(self.jobs)} jobs")
        try:
            for p in self.peers.values():
                try:
                    p.start()
                except Failed as e:
                    self.failed[p.name] = str(e)
            jobs = {k: j for k, j in self.jobs.items() if k not in self.failed}
            self.values, failed = interleave(jobs, rounds)
            self.failed.update(failed)
        finally:
            for p in self.peers.values():
                p.close()
        for key, reason in self.failed.items():
            self.report.fail(f"{self.title}: {key}", reason)
        for key in self.jobs:
            self.report.measure(f"{self.title}: {key}", "sounds/s",
                                self.values.get(key, {}))
        self.report.top["settings"].setdefault("noise", {})[self.title] = \
            self.noise.summary()
        if self.noise.disturbed():
            s = self.noise.summary()
            self.report.top["disturbed"] = True
            self.report.note(
                f"{self.title}: others took {s['others_cores_median']:.2f} "
                "cores while this was measured, the host "
                f"{s['stolen_cores_median']:.2f}: look at the CPU times")

    def ratio(self, name, above, below, target=None):
        """Of rates; and of the CPU time that a sound takes, which waiting is
        not in: below's / above's, so that more is better there too."""
        self.report.ratio(f"{self.title}: {name}",
                          paired(self.values.get(above, {}),
                                 self.values.get(below, {})), target)
        if self.noise.disturbed() and "met" in self.report.top["ratios"][-1]:
            self.report.top["ratios"][-1]["met"] = "disturbed"
        self.report.ratio(f"{self.title}: {name}, by CPU time",
                          paired(self.values.get(f"cpu {below}", {}),
                                 self.values.get(f"cpu {above}", {})),
                          target)

    def fastest(self, name, above, below, target=None):
        """Of the fastest round of each: what else the machine does makes none
        faster."""
        a, b = (self.values.get(k, {}).values() for k in (above, below))
        self.report.ratio(f"{self.title}: {name}, fastest rounds",
                          [max(a) / max(b)] if a and b else [], target)


def decoding(env, report, kind, folder):
    g = Group(env, report, kind)
    for n in (1, 2):
        g.bare(f"bare decoding, {n}", kind, folder, n, "read")
        g.millrace(f"decode_audio, {n}",
                   f"files {folder} | decode_audio | batch 16", n)
        g.millrace(f"pipeline, {n}",
                   f"files {folder} | decode_audio | "
                   f"{STEPS.format(SETS[kind][1])} | {TAIL}", n)
    g.bare("bare decoding from memory, 1", kind, folder, 1)
    if kind == "mp3":
        g.bare("bare decoding of bytes handed over, 1", "feed", folder, 1)
    g.run(env.rounds(11)) # a few percent are to be seen
    g.ratio("decode_audio / bare decoding, 1 thread", "decode_audio, 1",
            "bare decoding, 1", (">=", 0.97))
    g.fastest("decode_audio / bare decoding, 1 thread", "decode_audio, 1",
              "bare decoding, 1", (">=", 0.97))
    g.ratio("decode_audio / bare decoding from memory, 1 thread",
            "decode_audio, 1", "bare decoding from memory, 1")
    g.ratio("decode_audio / bare decoding, 2 threads", "decode_audio, 2",
            "bare decoding, 2")
    report.ratio(f"{kind}: the pipeline, 2 threads / 1",
                 paired(g.values.get("pipeline, 2", {}),
                        g.values.get("pipeline, 1", {})), (">=", 1.8))
    if g.noise.disturbed() and "met" in report.top["ratios"][-1]:
        report.top["ratios"][-1]["met"] = "disturbed"


def log_mel(env, report, kind, array):
    rate = SETS[kind][1]
    g = Group(env, report, f"log-mel, {rate // 1000} kHz")
    g.bare("bare FFTW, transforms alone", "fft", SECONDS * 100 - 1, 1)
    g.millrace("stft | mel | log",
               f"npy {array} | {STEPS.format(rate)} | batch 16", 1)
    for p in PEERS:
        g.peer(p, os.path.join(HERE, "peer_logmel.py"), p, array, rate)
    g.run(env.rounds(7))
    for p, target in PEERS.items():
        g.ratio(f"Millrace / {p}, 1 thread", "stft | mel | log", p, target)
    g.ratio("Millrace / bare FFTW, 1 thread", "stft | mel | log",
            "bare FFTW, transforms alone")


def main(env, report):
    for kind in SETS:
        folder = encoded(env, kind)
        decoding(env, report, kind, folder)
        log_mel(env, report, kind, decoded(env, kind, folder))
    report.note("bare decoding opens, reads and decodes each file, and throws "
                "away what comes out")
    report.note("log-mel: of samples in memory, on both sides. NumPy's and "
                "torch's products use the BLAS that is installed (Debian's "
                "own unless another is)")
