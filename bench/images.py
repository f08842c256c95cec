# SPDX-License-Identifier: Apache-2.0
"""Photos to training batches: Millrace beside bare libjpeg-turbo loops,
torch's DataLoader (Pillow, OpenCV) and FFCV, warm cache.

What is compared runs slice by slice in the same rounds. Peers are started
once per group of comparisons and stay (coproc.py)."""
import os
import time
from concurrent.futures import ThreadPoolExecutor

import photos
from common import (Failed, HERE, PYTHON, epochs_for, interleave, output_json,
                    paired, say)
from coproc import IDLE, Peer
from noise import Noise

QUESTION = "how many photos a second, beside bare decoding and peers?"
BATCH = {"large": 16}       # else 64
TAIL = "normalize imagenet | batch {batch}"
STEPS = {
    "train": "{decode} | random_resized_crop 224 | flip | " + TAIL,
    "val": "{decode} | resize 256 | center_crop 224 | " + TAIL}


def batch_of(name):
    return BATCH.get(name, 64)


def pipeline(ph, mode="train", fast=False):
    decode = "decode_image fast=yes" if fast else "decode_image"
    return f"files '{ph.dir}' | " + STEPS[mode].format(
        decode=decode, batch=batch_of(ph.name))


class Group:
    """Jobs that are measured in the same rounds. A job's key names it in the
    comparisons; what it is stands in the report beside its figures."""

    def __init__(self, env, report, title):
        self.env, self.report, self.title = env, report, title
        self.seconds = 0.5 if env.quick else 2.0
        self.jobs, self.what, self.peers = {}, {}, {}
        self.values, self.failed, self.noise = {}, {}, Noise()

    def add(self, key, job, own=lambda: 0, **what):
        """job() gives samples, seconds and the CPU seconds they took."""
        def both():
            r = job()
            return {key: r["samples"] / r["seconds"],
                    f"cpu {key}": r["cpu"] / r["samples"] * 1000}
        self.jobs[key] = self.noise.watch(both, own)
        self.what[key] = what

    def timed(self, run):
        """A job of about self.seconds from run(epochs), which starts a
        process. How many epochs it takes is found once."""
        epochs = []

        def job():
            if not epochs:
                epochs.append(epochs_for(self.seconds, run))
            cpu = self.noise.mine()
            r = run(epochs[0])
            return {"samples": r["samples"], "seconds": r["seconds"],
                    "cpu": self.noise.mine() - cpu}
        return job

    def bare(self, ph, how, threads, key=None):
        def run(epochs):
            r = output_json([self.env.tool("bare_jpeg"), how, ph.one,
                             str(threads), str(epochs)])
            return {"samples": r["images"], "seconds": r["seconds"]}
        self.add(key or f"bare {how}, {ph.name}, {threads}", self.timed(run),
                 side=f"bare libjpeg-turbo, {how}", data=ph.name, n=threads,
                 layout="RGBX pixels")

    def command(self, ph, threads, mode="train", fast=False):
        order = "shuffle" if mode == "train" else "sequential"

        def run(epochs):
            r = self.env.run(pipeline(ph, mode, fast), "--threads", threads,
                             "--epochs", epochs, "--order", order)
            if r["samples"] != ph.count * epochs or r.get("bad_samples"):
                raise Failed(f"{r['samples']} samples, {r['bad_samples']} bad,"
                             f" instead of {epochs} x {ph.count}")
            return r
        name = "millrace fast" if fast else "millrace"
        self.add(f"{name}, {ph.name}, {threads}", self.timed(run),
                 side="Millrace" + (", fast=yes" if fast else ""),
                 data=ph.name, n=threads, layout="NCHW")

    def python(self, ph, threads, mode="train"):
        self.add(f"python, {ph.name}, {threads}", self.timed(
            lambda e: output_json(
                loop(ph, threads, e, mode), env=self.env.module())),
            side="Millrace from Python", data=ph.name, n=threads,
            layout="NCHW")

    def peer(self, key, cmd, **what):
        p = self.peers[key] = Peer(key, [PYTHON, "-B", *cmd])
        self.add(key, lambda: p.slice(self.seconds),
                 lambda: p.cpu() if p.process else 0, **what)

    def torch(self, library, ph, workers, mode="train"):
        self.peer(f"torch {library}, {ph.name}, {workers}",
                  torch_cmd(library, ph, workers, mode),
                  side="torch DataLoader + "
                  + {"pil": "Pillow", "cv2": "OpenCV"}[library],
                  data=ph.name, n=workers, layout="NCHW")

    def ffcv(self, ph, how, workers, layout="nchw", mode="train"):
        """how: "make", FFCV's own re-encoding, or "original" bytes."""
        name = "q90" if how == "make" else "bytes"
        key = f"ffcv {name}, {ph.name}, {layout}, {workers}"
        try:
            beton = ph.beton(how)
        except Failed as e:
            self.failed[key] = str(e)
            return
        self.peer(key, ffcv_cmd(ph, beton, workers, layout, mode,
                                self.env.quick),
                  side="FFCV" + (", its q90 re-encoding" if how == "make"
                                 else ", the same bytes (patched writer)"),
                  data=ph.name if how == "original" else
                  "q90" if ph.name == "imagenet" else f"{ph.name}, q90",
                  n=workers, layout="NCHW" if layout == "nchw" else
                  "channels last")

    def run(self, rounds):
        say(f"  {self.title}: {len(self.jobs)} jobs")
        with ThreadPoolExecutor(2) as pool:     # they compile on one core
            list(pool.map(self.start, self.peers.values()))
        jobs = {k: j for k, j in self.jobs.items() if k not in self.failed}
        self.values, failed = interleave(jobs, rounds)
        self.failed.update(failed)

    def start(self, p):
        try:
            p.start()
        except Failed as e:
            self.failed[p.name] = str(e)
            say(f"  {p.name}: FAILED: {e}")

    def close(self):
        for p in self.peers.values():
            p.close()

    def tell(self):
        """All figures into the report."""
        for key, reason in self.failed.items():
            self.report.fail(f"{self.title}: {key}", reason)
        for key, what in self.what.items():
            n = what["n"]
            name = (f"{self.title}: {what['side']}, {what['data']}, "
                    f"{what['layout']}, {n} "
                    + ("thread" if "illrace" in what["side"] or "bare" in
                       what["side"] else "worker") + ("s" if n > 1 else ""))
            cpu = self.values.get(f"cpu {key}", {})
            self.report.measure(
                name, "images/s", self.values.get(key, {}), group=self.title,
                key=key, cpu_ms_per_image=[cpu[r] for r in sorted(cpu)],
                **what)
        for p in self.peers.values():
            if p.busy_idle > IDLE:
                self.report.note(f"{p.name} took {p.busy_idle:.2f} cores when "
                                 "it was not its turn")
        self.report.top["settings"].setdefault("noise", {})[self.title] = \
            self.noise.summary()
        disturbed(self.report, self.title, self.noise)

    def ratio(self, name, above, below, target=None):
        self.report.ratio(f"{self.title}: {name}",
                          paired(self.values.get(above, {}),
                                 self.values.get(below, {})), target)
        if self.noise.disturbed():
            undecide(self.report)

    def cpu(self, name, above, below):
        """How much CPU time a photo takes of one, in terms of another.
        Waiting is not in it, but others on the machine change it too (shared
        caches and cores), and threads that spin while they wait."""
        self.report.ratio(f"{self.title}: CPU time per photo, {name}",
                          paired(self.values.get(f"cpu {above}", {}),
                                 self.values.get(f"cpu {below}", {})))


def disturbed(report, title, noise):
    if noise.disturbed():
        s = noise.summary()
        report.top["disturbed"] = True
        report.note(f"{title}: others took {s['others_cores_median']:.2f} "
                    "cores while this was measured, the host "
                    f"{s['stolen_cores_median']:.2f}: its rates and ratios "
                    "are not to be trusted (peers whose threads wait for "
                    "each other suffer most)")


def undecide(report):
    """The last ratio was measured on a disturbed machine."""
    if "met" in report.top["ratios"][-1]:
        report.top["ratios"][-1]["met"] = "disturbed"


def loop(ph, threads, epochs, mode="train"):
    return [PYTHON, os.path.join(HERE, "loop_images.py"), pipeline(ph, mode),
            str(threads), str(epochs)]


def torch_cmd(library, ph, workers, mode="train"):
    return [os.path.join(HERE, "peer_torch_images.py"), library, mode, ph.dir,
            batch_of(ph.name), workers]


def ffcv_cmd(ph, beton, workers, layout, mode="train", quick=False):
    """Epochs of 2,400 photos (large ones: 384), see there."""
    want = 384 if ph.name == "large" else 2400
    repeat = 2 if quick else max(1, round(want / ph.photos))
    return [photos.FFCV, "run", beton, mode, layout, batch_of(ph.name),
            workers, repeat]


def train(env, report, real):
    """The photos as they are, and as FFCV re-encodes them."""
    g = Group(env, report, "train")
    again = photos.q90(env, real)
    report.setting(**{f"bytes_each_{p.name}": round(p.bytes_each())
                      for p in (real, again)})
    for n in (1, 2):
        g.bare(real, "whole", n)
        g.bare(real, "region", n)
        g.command(real, n)
        g.torch("pil", real, n)
        g.torch("cv2", real, n)
        g.ffcv(real, "original", n)
        g.ffcv(real, "make", n)
        g.command(again, n)
    g.python(real, 2)
    g.command(real, 2, fast=True)
    g.bare(again, "region", 2)
    g.torch("pil", again, 2)
    g.ffcv(real, "make", 2, "nhwc")
    try:
        g.run(env.rounds(5))
        memory(env, report, g, real)
    finally:
        g.close()
    g.tell()
    for n, want in ((2, 2.2), (1, 2)):
        each = f", {n} each"
        g.ratio("Millrace on the photos / FFCV on its q90, NCHW" + each,
                f"millrace, imagenet, {n}", f"ffcv q90, imagenet, nchw, {n}",
                (">=", want))
        g.ratio("Millrace / FFCV, the photos' bytes both, NCHW" + each,
                f"millrace, imagenet, {n}", f"ffcv bytes, imagenet, nchw, {n}",
                (">=", want))
        g.ratio("Millrace / FFCV, q90 bytes both, NCHW" + each,
                f"millrace, q90, {n}", f"ffcv q90, imagenet, nchw, {n}",
                (">=", want))
    g.ratio("Millrace NCHW / FFCV channels last, q90 bytes both, 2 each",
            "millrace, q90, 2", "ffcv q90, imagenet, nhwc, 2")
    for library, want in (("pil", 3.3), ("cv2", 3)):
        g.ratio(f"Millrace / torch + {library}, 2 each",
                "millrace, imagenet, 2", f"torch {library}, imagenet, 2",
                (">=", want))
        g.ratio(f"Millrace / torch + {library}, 1 each",
                "millrace, imagenet, 1", f"torch {library}, imagenet, 1")
    g.ratio("Millrace / torch + pil, q90 bytes both, 2 each",
            "millrace, q90, 2", "torch pil, q90, 2")
    for n, want in ((2, (">=", 0.88)), (1, None)):
        ours = f"millrace, imagenet, {n}"
        g.ratio(f"Millrace / bare region, {n} each", ours,
                f"bare region, imagenet, {n}", want)
        g.ratio(f"Millrace / bare whole, {n} each", ours,
                f"bare whole, imagenet, {n}")
    g.ratio("Millrace / bare region, q90 bytes, 2 each", "millrace, q90, 2",
            "bare region, q90, 2")
    g.ratio("Millrace, 2 threads / 1", "millrace, imagenet, 2",
            "millrace, imagenet, 1", (">=", 1.9))
    g.ratio("bare region, 2 threads / 1", "bare region, imagenet, 2",
            "bare region, imagenet, 1")
    g.ratio("Millrace fast=yes / exact, 2 threads",
            "millrace fast, imagenet, 2", "millrace, imagenet, 2")
    g.ratio("Millrace from Python / the command, 2 threads",
            "python, imagenet, 2", "millrace, imagenet, 2")
    for name, key in (("FFCV on its q90", "ffcv q90, imagenet, nchw, 2"),
                      ("FFCV, same bytes", "ffcv bytes, imagenet, nchw, 2"),
                      ("torch + pil", "torch pil, imagenet, 2"),
                      ("torch + cv2", "torch cv2, imagenet, 2"),
                      ("bare region", "bare region, imagenet, 2")):
        g.cpu(f"{name} / Millrace, 2 each", key, "millrace, imagenet, 2")


def memory(env, report, g, real):
    """Peak memory, 2 threads or workers, batch 64."""
    try:
        for name, cmd, kw in (
                ("Millrace", [env.millrace, "run", "--json", pipeline(real),
                              "--threads", 2, "--epochs", 5], {}),
                ("Millrace from Python", loop(real, 2, 5),
                 {"env": env.module()})):
            mb = [env.spawn(cmd, **kw)[1]["maxrss_kib"] / 1024
                  for _ in range(3)]
            if name == "Millrace":
                report.ratio("memory: peak RSS of the command", mb,
                             ("<", 150), "MB")
            report.measure(f"memory: {name}, peak RSS", "MB", mb,
                           group="memory", side=name)
    except Failed as e:
        report.fail("memory of Millrace", str(e))
    for key, name in (("torch pil, imagenet, 2", "torch DataLoader + Pillow"),
                      ("torch cv2, imagenet, 2", "torch DataLoader + OpenCV"),
                      ("ffcv q90, imagenet, nchw, 2", "FFCV")):
        p = g.peers.get(key)
        if not p or p.process is None:
            continue
        try:
            report.measure(f"memory: {name}, peak PSS of its processes", "MB",
                           p.peak_pss(g.seconds), group="memory", side=name)
        except Failed as e:
            report.fail(f"memory of {name}", str(e))


def synth(env, report):
    """Photos that everybody can make: data sets are not to be had freely."""
    g = Group(env, report, "train, synth")
    ph = photos.small(env)
    report.setting(bytes_each_synth=round(ph.bytes_each()))
    g.bare(ph, "region", 2)
    g.command(ph, 1)
    g.command(ph, 2)
    g.torch("pil", ph, 2)
    g.ffcv(ph, "make", 2)
    try:
        g.run(env.rounds(5))
    finally:
        g.close()
    g.tell()
    g.ratio("Millrace / FFCV on its q90, NCHW, 2 each", "millrace, synth, 2",
            "ffcv q90, synth, nchw, 2")
    g.ratio("Millrace / torch + pil, 2 each", "millrace, synth, 2",
            "torch pil, synth, 2")
    g.ratio("Millrace / bare region, 2 each", "millrace, synth, 2",
            "bare region, synth, 2")


def large(env, report):
    g = Group(env, report, "train, large")
    ph = photos.large(env)
    report.setting(bytes_each_large=round(ph.bytes_each()),
                   size_large=photos.LARGE, batch_large=batch_of("large"))
    g.bare(ph, "whole", 2)
    g.bare(ph, "region", 2)
    g.command(ph, 2)
    g.command(ph, 2, fast=True)
    g.torch("pil", ph, 2)
    g.torch("cv2", ph, 2)
    g.ffcv(ph, "original", 2)
    g.ffcv(ph, "make", 2)
    try:
        g.run(env.rounds(5))
    finally:
        g.close()
    g.tell()
    for name, key, want in (("Millrace", "millrace", 2),
                            ("Millrace fast=yes", "millrace fast", 3.3)):
        g.ratio(f"{name} on the photos / FFCV on its q90, NCHW, 2 each",
                f"{key}, large, 2", "ffcv q90, large, nchw, 2", (">=", want))
        g.ratio(f"{name} / FFCV, the photos' bytes both, NCHW, 2 each",
                f"{key}, large, 2", "ffcv bytes, large, nchw, 2", (">=", want))
        for library in ("pil", "cv2"):
            g.ratio(f"{name} / torch + {library}, 2 each", f"{key}, large, 2",
                    f"torch {library}, large, 2")
    g.ratio("Millrace / bare region, 2 each", "millrace, large, 2",
            "bare region, large, 2")


def val(env, report, real):
    g = Group(env, report, "val")
    again = photos.q90(env, real)
    g.bare(real, "whole", 2)
    g.bare(real, "center", 2)
    g.command(real, 2, "val")
    g.command(again, 2, "val")
    g.torch("pil", real, 2, "val")
    g.torch("cv2", real, 2, "val")
    g.ffcv(real, "original", 2, mode="val")
    g.ffcv(real, "make", 2, mode="val")
    try:
        g.run(env.rounds(5))
    finally:
        g.close()
    g.tell()
    g.ratio("Millrace on the photos / FFCV on its q90, NCHW, 2 each",
            "millrace, imagenet, 2", "ffcv q90, imagenet, nchw, 2", (">=", 2))
    g.ratio("Millrace / FFCV, the photos' bytes both, NCHW, 2 each",
            "millrace, imagenet, 2", "ffcv bytes, imagenet, nchw, 2",
            (">=", 2))
    g.ratio("Millrace / FFCV, q90 bytes both, NCHW, 2 each",
            "millrace, q90, 2", "ffcv q90, imagenet, nchw, 2", (">=", 2))
    g.ratio("Millrace / torch + pil, 2 each", "millrace, imagenet, 2",
            "torch pil, imagenet, 2", (">=", 2))
    g.ratio("Millrace / torch + cv2, 2 each", "millrace, imagenet, 2",
            "torch cv2, imagenet, 2")
    g.ratio("Millrace / bare center, 2 each", "millrace, imagenet, 2",
            "bare center, imagenet, 2")


def first_batch(env, report, real):
    """From the start of a process to its first batch, 2 threads each."""
    def command():
        seen = env.spawn([env.millrace, "run", "--json", pipeline(real),
                          "--threads", 2, "--samples", 64, "--epochs", 1])[1]
        return seen["seconds"] * 1000       # to its exit: an upper bound

    def python():
        start = time.monotonic()
        r = output_json(loop(real, 2, 0), env=env.module())
        return (r["first_batch_at"] - start) * 1000

    def peer(name, cmd):
        def job():
            p = Peer(name, [PYTHON, "-B", *cmd])
            try:
                return p.start().first_batch_s * 1000
            finally:
                p.close()
        return job

    noise = Noise()
    values, failed = interleave(
        {"Millrace, the command": noise.watch(command),
         "Millrace from Python": noise.watch(python)}, env.rounds(15))
    disturbed(report, "first batch", noise)
    more = {"torch DataLoader + Pillow": peer(
        "torch", torch_cmd("pil", real, 2))}
    try:
        more["FFCV"] = peer("FFCV", ffcv_cmd(
            real, real.beton("make"), 2, "nchw", quick=True))
    except Failed as e:
        failed["FFCV"] = str(e)
    got, gone = interleave(more, 1 if env.quick else 3)
    values.update(got)
    for name, v in values.items():
        report.measure(f"first batch: {name}", "ms", v, group="first batch",
                       side=name)
    for name, reason in {**failed, **gone}.items():
        report.fail(f"first batch: {name}", reason)
    for name, want in (("Millrace, the command", 100),
                       ("Millrace from Python", 300)):
        report.ratio(f"first batch: {name}",
                     list(values.get(name, {}).values()), ("<", want), "ms")
        if noise.disturbed():
            undecide(report)


def main(env, report):
    report.setting(
        batch=64, cache="warm", order="shuffle", rounds=env.rounds(5),
        train=pipeline_text("train"), val=pipeline_text("val"),
        output="f32 NCHW 224x224, normalised, where nothing else is said",
        clock="Millrace: opening and listing included; peers: whole epochs "
        "after a warm-up; bare: files in memory")
    parts = {"train": train, "val": val, "synth": synth, "large": large,
             "first": first_batch}
    wanted = os.environ.get("BENCH_IMAGES", " ".join(parts)).split()
    if set(wanted) != set(parts):
        report.top["partial"] = wanted
        report.note(f"only {', '.join(wanted)}: BENCH_IMAGES says so")
    real = None
    try:
        real = photos.imagenet(env)
        report.setting(photos=real.photos, names_per_photo=(real.count
                                                            // real.photos))
    except Failed as e:
        report.fail("real photos", str(e))
        report.note("only synthetic photos were measured")
    for name, part in parts.items():
        if name not in wanted or (real is None and part in REAL):
            continue
        try:
            part(env, report, *([real] if part in REAL else []))
        except Failed as e:
            report.fail(name, str(e))
            say(f"  {name}: FAILED: {e}")


REAL = (train, val, first_batch)        # of photos that are not synthetic


def pipeline_text(mode):
    return "files DIR | " + STEPS[mode].format(decode="decode_image",
                                               batch=64)
