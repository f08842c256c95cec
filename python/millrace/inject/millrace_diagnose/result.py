# SPDX-License-Identifier: Apache-2.0
"""What one rank measured: a JSON file in the folder, written again after each
phase, so that what is known stays known however the script ends."""
import json
import math
import os
import time


class Result:
    def __init__(self, folder, rank, ranks, loader):
        self.path = os.path.join(folder, f"{rank}.{os.getpid()}.rank")
        with open(os.path.join(folder, "measured"), "a"):
            pass    # tells the command that a loop was found
        self.start = time.monotonic()
        self.times = {}
        self.stayed, self.resident = [], []
        self.notes = []
        self.known = {
            "rank": rank, "ranks": ranks,
            "dataset": type(loader.dataset).__name__,
            "samples": _length(loader.dataset),
            "workers": loader.num_workers,
            "cores": len(os.sched_getaffinity(0)),
        }

    def note(self, text):
        if text not in self.notes:
            self.notes.append(text)

    def drop(self, phase, why):
        self.times.pop(phase, None)
        self.note(why)

    def learnt(self, subset):
        n = subset.samples()
        self.known.update({
            "batch": subset.source.samples_of(0), "sampled": n,
            "sample_bytes": subset.sample_bytes(),
            "sample_requests": subset.calls,
            "files": len(subset.own), "shared_files": len(subset.shared),
        })
        if subset.how and subset.all():
            files = len(subset.all())
            self.note(f"{files} file{'s' * (files != 1)} of {subset.count} "
                      f"batches ({n} samples) looked at; known "
                      f"{subset.how}")

    def text(self):
        all_ = dict(self.known, seconds=time.monotonic() - self.start,
                    notes=self.notes)
        stayed = [s for s in self.stayed if s is not None]
        there = [r for r in self.resident if r is not None]
        if stayed:
            all_["cold_stayed"] = max(stayed)
        if there:
            all_["warm_resident"] = min(there)
        all_["phases"] = {
            name: {"seconds_per_sample": t.windows(), "wait": t.wait(),
                   "iterations": len(t)}
            for name, t in self.times.items() if len(t)}
        return json.dumps(_finite(all_))

    def write(self):
        tmp = self.path + ".tmp"
        with open(tmp, "w", encoding="utf-8") as f:
            f.write(self.text())
        os.rename(tmp, self.path)


def _finite(x):
    if isinstance(x, float):
        return x if math.isfinite(x) else None
    if isinstance(x, dict):
        return {k: _finite(v) for k, v in x.items()}
    if isinstance(x, list):
        return [_finite(v) for v in x]
    return x


def _length(dataset):
    try:
        return len(dataset)
    except Exception:
        return None
