# SPDX-License-Identifier: Apache-2.0
"""How good the model is: one diagnosis for each pipeline; from it, the speed
with other caches, storages and accelerators, predicted and then measured.
BENCH_PREDICT="CV,FLAC" takes some pipelines, BENCH_PREDICT_STEP=50 fewer caches.

A point that is off by more than half of what is allowed is measured twice more,
and the middle one of the three counts.

What the CPU limits is as certain as the machine's speed is, which may differ by
a fifth from one minute to the next, for the very job that was diagnosed. So a
reference, the job that was diagnosed, is measured again on both sides of
each such point: judged is its share of the reference, predicted and measured.
How far the reference went is told, and the plain errors are, too."""
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
REFERENCE = {"cache": 0, "storage": "ssd", "rate": 1e6}
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
                     "--seconds", "8" if env.quick else "60"])
    return path, d["p"]["mean"]


def predicted(env, path, cache, storage, rate):
    return output_json([env.millrace, "whatif", path, "--json", "--cache",
                        f"{cache}%", "--storage", storage, "--accelerator",
                        str(rate)])


def measured(env, pipeline, limit, cache, storage, rate):
    # The accelerator is steady. Else what lies ready at first must not count.
    seconds = 10 if limit == "accelerator" else 20
    d = output_json([env.millrace, "diagnose", pipeline, "--json",
                     "--job-only", "--subset", "240", "--cache", f"{cache}%",
                     "--storage", storage, "--accelerator", str(rate),
                     "--seconds", str(5 if env.quick else seconds)])
    return d["as_f"]["mean"]


class Job:
    """A pipeline, diagnosed once."""

    def __init__(self, env, name, pipeline):
        self.env, self.name, self.pipeline = env, name, pipeline
        self.path, self.p = diagnosed(env, name, pipeline)
        self.reference_guess = self.predicted(**REFERENCE)["samples_per_s"]
        self.references = []

    def predicted(self, **where):
        return predicted(self.env, self.path, **where)

    def reference(self):
        self.references.append(measured(self.env, self.pipeline, "cpu",
                                        **REFERENCE))
        return self.references[-1]

    def measure(self, limit, where):
        """Samples/s; and what the reference makes of it, where the CPU is
        what limits it."""
        if limit not in CPU:
            got = measured(self.env, self.pipeline, limit, **where)
            return got, got
        before = self.reference()
        got = measured(self.env, self.pipeline, limit, **where)
        now = (before + self.reference()) / 2
        return got, got * self.reference_guess / now

    def compare(self, **where):
        """One prediction, and what was measured for it."""
        want = self.predicted(**where)
        guess, limit = want["samples_per_s"], want["bottleneck"]
        got = [self.measure(limit, where)]

        def error(which):
            return 100 * (guess / statistics.median(
                x[which] for x in got) - 1)

        if abs(error(1)) > WORST / 2:
            got += [self.measure(limit, where) for _ in range(2)]
        return {"limit": limit, "predicted": guess, "measured": got,
                "error_plain": error(0), "error": error(1)}


def compare(env, name, pipeline, points, again):
    job = Job(env, name, pipeline)
    again[name] = job.references
    for storage in STORAGES:
        for speed, share in ACCELERATORS.items():
            for cache in CACHES:
                if env.quick and cache % 50:
                    continue
                where = {"cache": cache, "storage": storage,
                         "rate": round(job.p * share, 3)}
                points.append({"pipeline": name, "accelerator": speed,
                               **where, **job.compare(**where)})
        here = [abs(x["error"]) for x in points
                if x["pipeline"] == name and x["storage"] == storage]
        with open(os.path.join(env.out, "predict-points.json"), "w") as f:
            json.dump({"points": points, "references": again}, f, indent=1)
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
