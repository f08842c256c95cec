# SPDX-License-Identifier: Apache-2.0
"""How bench/presto measures: rates of `millrace run`, in interleaved rounds,
with intervals; and the cells of its tables."""
import os
import statistics

from common import Env, Failed, bootstrap, interleave, number
from noise import Noise


class Lab(Env):
    """Where things are and how thorough to be, for all experiments."""

    def __init__(self, options):
        super().__init__(options.build, options.quick)
        self.out = os.path.abspath(options.results or
                                   os.path.join(self.build, "bench",
                                                "presto"))
        self.data = os.path.abspath(options.work or
                                    os.path.join(self.build, "bench", "data",
                                                 "presto"))
        self.samples = options.samples or (100 if self.quick else 1000)
        self.storage, self.order = options.storage, options.order
        self.cores = len(os.sched_getaffinity(0))
        self.threads = options.threads or self.cores
        self.seconds = options.seconds or (0.3 if self.quick else 2.0)
        self.repeats = options.rounds or (2 if self.quick else 3)
        self.names = options.pipelines
        self.noise = Noise()
        for folder in (self.out, self.data):
            os.makedirs(folder, exist_ok=True)

    def rates(self, jobs, report, about="", rounds=None):
        """Runs jobs (name -> function giving a number) in rounds; returns
        name -> list of values. What failed is in the report, with what it
        was about."""
        watched = {k: self.noise.watch(j) for k, j in jobs.items()}
        values, failed = interleave(watched, rounds or self.repeats)
        for name, reason in failed.items():
            words = name if isinstance(name, tuple) else (name,)
            report.fail(", ".join(str(w) for w in (about, *words) if w),
                        reason)
        return {k: list(v.values()) for k, v in values.items()}


    def tell_noise(self, report):
        """What others did meanwhile, into the report; begins anew."""
        report.top["noise"] = s = self.noise.summary()
        if self.noise.disturbed():
            report.top["disturbed"] = True
            report.note("others took "
                        f"{s['others_cores_median']:.2f} cores, the host "
                        f"{s['stolen_cores_median']:.2f}, while this was "
                        "measured: rates that the CPU limits are too low")
        self.noise = Noise()


def run(lab, p, text, *options, threads=None, storage=None, order=None,
        **more):
    """One `millrace run` of a pipeline p; storage "" is the page cache. More
    are options by name: fetch, memory."""
    storage = lab.storage if storage is None else storage
    words = ["--threads", threads or lab.threads, "--order",
             order or lab.order, *options]
    if storage:
        words += ["--storage", storage]
    for name, value in more.items():
        words += [f"--{name}", value]
    return lab.run(text, *words, cwd=p.cwd)


def warm(lab, p, text):
    """What a text reads, into the page cache: a profile withholds bytes, and
    reads them from wherever they are."""
    run(lab, p, text, "--epochs", 1, storage="")


def rate(lab, p, text, field=None, seconds=None, **kw):
    """Samples/s over some seconds, in as many epochs as that takes; or with
    field a function of the run's JSON."""
    seconds = seconds or lab.seconds
    r = run(lab, p, text, "--seconds", seconds, **kw)
    while not r["samples"] and seconds < 60:    # not a batch in that time
        seconds *= 3
        r = run(lab, p, text, "--seconds", seconds, **kw)
    if not r["samples"]:
        raise Failed(f"no batch in {seconds:.0f} s")
    return field(r) if field else r["samples"] / r["seconds"]


def later(lab, p, text, **kw):
    """Samples/s of the epochs after the first, which fills the caches: what
    a longer run has more than one of a single epoch."""
    first = run(lab, p, text, "--epochs", 1, **kw)
    for length in (("--seconds", round(first["seconds"] + lab.seconds, 3)),
                   ("--epochs", 20)):   # where that was too short
        both = run(lab, p, text, *length, **kw)
        more = both["samples"] - first["samples"]
        time = both["seconds"] - first["seconds"]
        if more > 0 and time > 0:
            return more / time
    raise Failed("twenty epochs took no longer than one: too few samples")


def median(values):
    return statistics.median(values) if values else None


def cell(values, unit=""):
    """A median with its 95 % interval, as text."""
    if not values:
        return "-"
    text = number(statistics.median(values))
    if len(values) > 1:
        low, high = bootstrap(values, 1000)
        text += f" ({number(low)}..{number(high)})"
    return text + unit


def spread(values):
    """What goes into the JSON."""
    if not values:
        return None
    low, high = bootstrap(values, 1000) if len(values) > 1 else (None, None)
    return {"median": statistics.median(values), "low": low, "high": high,
            "values": values}


def times(values, base):
    """a / b of medians, as text."""
    if not values or not base:
        return "-"
    return f"{number(median(values) / median(base))}x"


def size(n):
    """Bytes, as text, decimal as the study has them."""
    for unit, word in ((1e9, "GB"), (1e6, "MB"), (1e3, "KB")):
        if n >= unit:
            return f"{number(n / unit)} {word}"
    return f"{n:.0f} B"
