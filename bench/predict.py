# SPDX-License-Identifier: Apache-2.0
"""How good the model is: one diagnosis for each pipeline; from it, the speed
with other caches, storages and accelerators, predicted and then measured.

What the CPU limits is as certain as the machine's speed is: a reference, the
job with all samples in its cache, is measured around the diagnosis and after
each point that the CPU limits (the one before it counts, too). How far it went
is told beside the errors, and so are the errors with that taken out. A point
that is off by more than half of what is allowed is measured twice more, and the
middle one of the three counts."""
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
IMAGE = "decode_image | resize 256 | normalize center | random_crop 224"
SOUND = ("decode_audio dtype=i16 rate=16000 | stft frame=20ms step=10ms "
         "fft=1024 rate=16000 | mel bins=80 fmin=125 fmax=3800 rate=16000 | "
         "log | batch 16 pad=-18.420681")


def synth(env, name, *options):
    path = os.path.join(env.data, name)
    return photos.made(path, lambda to: output(
        [env.millrace, "synth", *options[:1], to, *options[1:]]))


def pipelines(env):
    few = 4 if env.quick else 1
    cv = synth(env, "predict-cv", "images", "--count", str(1000 // few))
    large = synth(env, "predict-cv2", "images", "--count", str(96 // few),
                  "--size", "2592x1728", "--same-size")
    flac = synth(env, "predict-flac", "flac", "--count", str(320 // few))
    nilm = synth(env, "predict-nilm", "nilm", "--count", str(720 // few))
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
                     "--seconds", "8" if env.quick else "40"])
    return path, d["p"]["mean"]


def predicted(env, path, cache, storage, rate):
    return output_json([env.millrace, "whatif", path, "--json", "--cache",
                        f"{cache}%", "--storage", storage, "--accelerator",
                        str(rate)])


def measured(env, pipeline, cache, storage, rate):
    d = output_json([env.millrace, "diagnose", pipeline, "--json",
                     "--job-only", "--subset", "240", "--cache", f"{cache}%",
                     "--storage", storage, "--accelerator", str(rate),
                     "--seconds", "5" if env.quick else "10"])
    return d["as_f"]["mean"]


class Point:
    """One prediction, and what was measured for it."""

    def __init__(self, want, **where):
        self.want = want["samples_per_s"]
        self.limit = want["bottleneck"]
        self.where = where
        self.got = []           # pairs: samples/s, speed of the machine

    def off(self, steady=False):
        """Percent, of the middle one of what was measured."""
        return statistics.median(
            100 * (self.want * (speed if steady else 1) / got - 1)
            for got, speed in self.got)

    def told(self):
        return {**self.where, "limit": self.limit, "predicted": self.want,
                "measured": [got for got, _ in self.got],
                "machine": [speed for _, speed in self.got],
                "error": self.off(), "error_steady": self.off(steady=True)}


def compare(env, name, pipeline, points, again):
    def reference():
        again.setdefault(name, []).append(
            measured(env, pipeline, 100, "ssd", 1e6))
        return again[name][-1]

    def measure(point, cache, storage, rate):
        sides = [again[name][-1]]
        got = measured(env, pipeline, cache, storage, rate)
        if point.limit in CPU:
            sides.append(reference())
            point.got.append((got, statistics.mean(sides) / usual))
        else:
            point.got.append((got, 1))

    reference()
    path, p = diagnosed(env, name, pipeline)
    reference()
    usual = statistics.mean(again[name])
    for storage in STORAGES:
        for speed, share in ACCELERATORS.items():
            rate = round(p * share, 3)
            for cache in CACHES:
                if env.quick and cache % 50:
                    continue
                want = predicted(env, path, cache, storage, rate)
                point = Point(want, pipeline=name, storage=storage,
                              accelerator=speed, rate=rate, cache=cache)
                measure(point, cache, storage, rate)
                if abs(point.off()) > WORST / 2:
                    for _ in range(2):
                        measure(point, cache, storage, rate)
                points.append(point.told())
        here = [abs(x["error"]) for x in points
                if x["pipeline"] == name and x["storage"] == storage]
        with open(os.path.join(env.out, "predict-points.json"), "w") as f:
            json.dump(points, f, indent=1)
        say(f"  {name}, {storage}: median {statistics.median(here):.1f} %, "
            f"worst {max(here):.1f} %")


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
                   f"{statistics.median(worst['measured']):.0f}/s")


def main(env, report):
    points, again = [], {}
    for name, pipeline in pipelines(env).items():
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
    steady = [abs(x["error_steady"]) for x in points if x["limit"] in CPU]
    if steady:
        report.ratio("where the CPU is a limit, with the machine's own changes "
                     f"taken out, worst of {len(steady)}", [max(steady)],
                     ("<=", WORST), "%")
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
