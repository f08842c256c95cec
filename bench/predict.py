# SPDX-License-Identifier: Apache-2.0
"""How good the model is: one diagnosis for each pipeline; from it, the speed
with other caches, storages and accelerators, predicted and then measured.
BENCH_PREDICT="CV,FLAC" takes some pipelines, BENCH_PREDICT_STEP=50 fewer caches.

A point that is off by more than half of what is allowed is measured twice more,
and the middle one of the three counts. Points that leave most of the CPU idle,
since storage or accelerator are slow, are measured several at a time, as many as
take HALF of it together; what is measured again is alone.

What the CPU limits is as certain as the machine's speed is, which may differ by
a fifth from one minute to the next, for the very job that was diagnosed. So a
reference, the job that was diagnosed, is measured again on both sides of
each such point: judged is its share of the reference, predicted and measured.
How far the reference went is told, and the plain errors are, too."""
import concurrent.futures
import json
import os
import statistics

import photos
from common import Failed, output, output_json, say

QUESTION = "how far are predictions from measurements?"
STEP = int(os.environ.get("BENCH_PREDICT_STEP", "10"))   # percent
CACHES = range(0, 101, STEP)
STORAGES = ("hdd", "ceph-hdd", "ssd")
ACCELERATORS = {"slow": 0.3, "medium": 0.8, "fast": 3.0}   # of P
MEDIAN, WORST = 5.0, 12.0       # percent
CPU = ("cpu", "balanced")       # limits
HALF = 0.6                      # of the CPU, by points that wait
# Of few samples, a cache's share of the bytes is not its share of the samples,
# which are what a disk's requests are counted by: of 480 photos, those for which
# a cache of 90 % of the bytes had no room were 8.8 %.
SUBSET = {"CV": 2000, "CV2-JPG": 480, "FLAC": 320, "NILM": 480}
SECONDS = {"accelerator": 12, "storage": 20, "cpu": 8, "balanced": 8}
REFERENCE = {"cache": 0, "storage": "ssd", "rate": 1e6}
IMAGE = "decode_image | resize 256 | normalize center | random_crop 224"
SOUND = ("decode_audio dtype=i16 rate=16000 | stft frame=20ms step=10ms "
         "fft=1024 rate=16000 | mel bins=80 fmin=125 fmax=3800 rate=16000 | "
         "log | batch 16 pad=-18.420681")


def synth(env, kind, count, *options):
    """The folder says how many: --quick makes fewer."""
    count //= 4 if env.quick else 1
    path = os.path.join(env.data, "-".join(["predict", kind, str(count),
                                            *options[1:2]]))
    return photos.made(path, lambda to: output(
        [env.millrace, "synth", kind, to, "--count", str(count), *options]))


def pipelines(env):
    cv = synth(env, "images", 2000)
    large = synth(env, "images", 480, "--size", "2592x1728", "--same-size")
    flac = synth(env, "flac", 320)
    nilm = synth(env, "nilm", 720)
    return {
        "CV": f"files '{cv}' | {IMAGE} | batch 16",
        "CV2-JPG": f"files '{large}' | {IMAGE} | batch 4",
        "FLAC": f"files '{flac}' ext=flac | {SOUND}",
        "NILM": f"hdf5 '{nilm}/*.hdf5' dataset=voltage,current1 window=64000 "
                "attributes=calibration_factor | calibrate | power | batch 8",
    }


def diagnosed(env, name, pipeline):
    """A file with the diagnosis under a storage of no limit, and P."""
    path = os.path.join(env.out, f"predict-{name}.json")
    d = output_json([env.millrace, "diagnose", pipeline, "--accelerator",
                     "1e6", "--storage", "ssd", "--json", "--out", path,
                     "--seconds", "8" if env.quick else "60"])
    return path, d["p"]["mean"]


def predicted(env, path, cache, storage, rate):
    return output_json([env.millrace, "whatif", path, "--json", "--cache",
                        f"{cache}%", "--storage", storage, "--accelerator",
                        str(rate)])


def measured(env, name, pipeline, limit, cache, storage, rate):
    # What lies ready at first must not count where the storage is slow.
    d = output_json([env.millrace, "diagnose", pipeline, "--json",
                     "--job-only", "--subset", str(SUBSET[name]),
                     "--cache", f"{cache}%",
                     "--storage", storage, "--accelerator", str(rate),
                     "--seconds", str(5 if env.quick else SECONDS[limit])])
    return d["as_f"]["mean"]


class Point:
    """One prediction, and what is measured for it."""

    def __init__(self, job, accelerator, **where):
        self.job, self.accelerator, self.where = job, accelerator, where
        want = predicted(job.env, job.path, **where)
        self.guess, self.limit = want["samples_per_s"], want["bottleneck"]
        self.load = self.guess / job.p      # of the CPU
        self.got = []   # samples/s; and what the reference makes of it

    def alone(self):
        """Whether nothing may run beside it."""
        return self.limit in CPU or self.load > HALF

    def measure(self):
        got = measured(self.job.env, self.job.name, self.job.pipeline,
                       self.limit, **self.where)
        self.got.append((got, got * self.job.now() if self.limit in CPU
                         else got))

    def error(self, which=1):
        """In percent."""
        return 100 * (self.guess / statistics.median(
            x[which] for x in self.got) - 1)

    def told(self):
        return {"pipeline": self.job.name, "accelerator": self.accelerator,
                **self.where, "limit": self.limit, "predicted": self.guess,
                "measured": self.got, "error_plain": self.error(0),
                "error": self.error()}


class Job:
    """A pipeline, diagnosed once."""

    def __init__(self, env, name, pipeline):
        self.env, self.name, self.pipeline = env, name, pipeline
        self.path, self.p = diagnosed(env, name, pipeline)
        self.guess = predicted(env, self.path, **REFERENCE)["samples_per_s"]
        self.references = []

    def points(self):
        caches = [c for c in CACHES if not self.env.quick or c % 50 == 0]
        return [Point(self, speed, cache=cache, storage=storage,
                      rate=round(self.p * share, 3))
                for storage in STORAGES for speed, share
                in ACCELERATORS.items() for cache in caches]

    def reference(self):
        self.references.append(measured(self.env, self.name, self.pipeline,
                                        "cpu", **REFERENCE))

    def now(self):
        """By how much the machine is slower now than when the job was
        diagnosed: the reference before and after what was measured."""
        self.reference()
        return self.guess / statistics.mean(self.references[-2:])


def together(points):
    """Points that wait, as many at a time as leave the CPU idle enough."""
    waiting = sorted(points, key=lambda x: -x.load)
    running = {}
    with concurrent.futures.ThreadPoolExecutor(len(points) or 1) as pool:
        while waiting or running:
            room = HALF - sum(x.load for x in running.values())
            fits = next((x for x in waiting if x.load <= room), None)
            if fits:
                waiting.remove(fits)
                running[pool.submit(fits.measure)] = fits
                continue
            done, _ = concurrent.futures.wait(
                running, return_when=concurrent.futures.FIRST_COMPLETED)
            for d in done:
                running.pop(d)
                d.result()


def compare(env, name, pipeline, points, again):
    job = Job(env, name, pipeline)
    again[name] = job.references
    here = job.points()
    together([x for x in here if not x.alone()])
    job.reference()
    for x in here:
        if x.alone():
            x.measure()
    job.reference()
    for x in here:
        if abs(x.error()) > WORST / 2:
            x.measure()
            x.measure()
    points += [x.told() for x in here]
    with open(os.path.join(env.out, "predict-points.json"), "w") as f:
        json.dump({"points": points, "references": again}, f, indent=1)
    errors = [abs(x.error()) for x in here]
    say(f"  {name}: median {statistics.median(errors):.1f} %, worst "
        f"{max(errors):.1f} %")


def rows(points):
    for name in dict.fromkeys(x["pipeline"] for x in points):
        for storage in STORAGES:
            here = [x for x in points if x["pipeline"] == name
                    and x["storage"] == storage]
            if not here:
                continue
            worst = max(here, key=lambda x: abs(x["error"]))
            errors = [abs(x["error"]) for x in here]
            yield (f"{name}, {storage}", str(len(here)),
                   f"{statistics.median(errors):.1f} %",
                   f"{abs(worst['error']):.1f} %",
                   f"{worst['accelerator']}, cache {worst['cache']} %: "
                   f"{worst['predicted']:.0f} for "
                   f"{statistics.median(x[1] for x in worst['measured']):.0f}"
                   "/s")


def main(env, report):
    points, again = [], {}
    wanted = os.environ.get("BENCH_PREDICT", "").split(",")
    for name, pipeline in pipelines(env).items():
        if wanted != [""] and name not in wanted:
            continue
        try:
            compare(env, name, pipeline, points, again)
        except Failed as e:
            report.fail(name, str(e))
    if not points:
        return
    errors = [abs(x["error"]) for x in points]
    report.ratio("error of predictions, median", [statistics.median(errors)],
                 ("<=", MEDIAN), "%")
    report.ratio("error of predictions, worst", [max(errors)],
                 ("<=", WORST), "%")
    for words, here in (
            ("the CPU is a limit", CPU),
            ("storage or accelerator are", ("storage", "accelerator"))):
        some = [abs(x["error"]) for x in points if x["limit"] in here]
        if some:
            report.ratio(f"where {words}, worst of {len(some)}", [max(some)],
                         ("<=", WORST), "%")
    plain = [abs(x["error_plain"]) for x in points]
    report.ratio("the machine's own changes left in, median",
                 [statistics.median(plain)], None, "%")
    report.ratio("the machine's own changes left in, worst", [max(plain)],
                 None, "%")
    report.measure("the reference, the fastest above the slowest", "%",
                   [100 * (max(x) / min(x) - 1) for x in again.values()])
    report.measure("predictions off by more than 5 %", "%",
                   100 * sum(e > 5 for e in errors) / len(errors))
    report.add_table("errors by pipeline and storage",
                     ("", "points", "median", "worst", "where"),
                     list(rows(points)), points)
    report.setting(caches=f"0 to 100 % in steps of {STEP}")
    report.note("each pipeline was diagnosed once, under ssd; caches are "
                "`cache ram=`, accelerators 0.3, 0.8 and 3 times P")
