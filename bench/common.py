# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks share: running commands, interleaved rounds, medians,
and the report that each of them ends with."""
import datetime
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

PYTHON = "/usr/bin/python3"
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)


class Failed(Exception):
    """A measurement, or a whole benchmark, that cannot be made; says why."""


def say(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def output(cmd, timeout=300, **kw):
    """The command's stdout; Failed with the end of its stderr otherwise."""
    try:
        p = subprocess.run(cmd, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           text=True, timeout=timeout, **kw)
    except FileNotFoundError as e:
        raise Failed(f"{e.filename} is missing") from None
    except subprocess.TimeoutExpired:
        raise Failed(f"no end after {timeout} s: {cmd[0]}") from None
    if p.returncode:
        said = (p.stderr.strip() or p.stdout.strip() or "no message")
        lines = said.splitlines()
        told = [x for x in lines if x.startswith("millrace: ")] or lines[-1:]
        raise Failed(f"exit {p.returncode}: {told[0][:300]}")
    return p.stdout


def output_json(cmd, **kw):
    text = output(cmd, **kw).strip()
    try:
        return json.loads(text)
    except ValueError:
        raise Failed(f"no JSON from {cmd[0]}: {text[:200]!r}") from None


class Env:
    """One run of bench/run: where things are, and how thorough to be."""

    def __init__(self, build, quick):
        self.build = os.path.abspath(build)
        self.quick = quick
        self.out = os.path.join(self.build, "bench")
        self.data = os.path.join(self.out, "data")
        self.millrace = os.path.join(self.build, "millrace")
        self.seconds = 0.4 if quick else 1.2   # of one measurement
        os.makedirs(self.data, exist_ok=True)

    def tool(self, name):
        path = os.path.join(self.out, name)
        if not os.access(path, os.X_OK):
            raise Failed(f"{path} is missing: build first (ninja -C "
                         f"{self.build})")
        return path

    def rounds(self, n):
        return 2 if self.quick else n

    def run(self, pipeline, *options, command=None, **kw):
        """`millrace run --json`: its numbers."""
        return output_json([command or self.millrace, "run", "--json",
                            pipeline, *map(str, options)], **kw)

    def module(self):
        """The environment in which Python finds this build's module."""
        return dict(os.environ, PYTHONDONTWRITEBYTECODE="1",
                    PYTHONPATH=os.path.join(self.build, "python"))

    def warm(self, pipeline, threads, seconds):
        """A pipeline's samples, seconds and CPU seconds once all of its
        memory was used before (loop_warm.py): what a long job has, and what
        is to stand beside a bare loop whose buffers are there when its clock
        starts."""
        return output_json([PYTHON, os.path.join(HERE, "loop_warm.py"),
                            pipeline, str(threads), str(seconds)],
                           env=self.module())

    def spawn(self, cmd, **kw):
        """Run a command under spawn: (its stdout, what spawn saw)."""
        with tempfile.NamedTemporaryFile("r", suffix=".json") as f:
            text = output([self.tool("spawn"), f.name, *map(str, cmd)], **kw)
            return text, json.load(f)


def epochs_for(seconds, run):
    """How many epochs of run(epochs) last about `seconds`. A first epoch is
    slower than the rest (checksums, faults of pages), so the answer comes
    from a run that lasts about half of that at least; and not from the very
    first one, which may have come from the disk."""
    epochs = 1
    run(epochs)
    while True:
        took = max(run(epochs)["seconds"], 1e-4)
        if took >= seconds / 2:
            return max(1, round(epochs * seconds / took))
        epochs = max(epochs + 1, round(epochs * seconds / took))


def interleave(jobs, rounds):
    """Run each job once a round, there and back, so that a machine that
    drifts treats all alike. jobs: name -> function giving a number, or a
    dict of numbers by name. Returns (values: name -> one per round, failed:
    name -> reason); a job that fails is left out from then on."""
    values, failed = {}, {}
    for r in range(rounds):
        start = time.monotonic()
        names = list(jobs) if r % 2 == 0 else list(reversed(jobs))
        for name in names:
            if name in failed:
                continue
            try:
                got = jobs[name]()
            except Failed as e:
                failed[name] = str(e)
                say(f"  {name}: FAILED: {e}")
                continue
            many = got if isinstance(got, dict) else {name: got}
            for k, v in many.items():
                values.setdefault(k, {})[r] = v
        took = time.monotonic() - start
        if took >= 1 or r + 1 == rounds:
            say(f"  round {r + 1} of {rounds}: {took:.1f} s")
    return values, failed


def paired(a, b):
    """a / b, round by round, where both were measured."""
    return [a[r] / b[r] for r in sorted(a.keys() & b.keys()) if b[r]]


def bootstrap(values, draws=4000):
    """A 95 % interval of the median."""
    rng = random.Random(1)
    medians = sorted(statistics.median(rng.choices(values, k=len(values)))
                     for _ in range(draws))
    return medians[int(draws * 0.025)], medians[int(draws * 0.975)]


def machine():
    cpu = "unknown"
    with open("/proc/cpuinfo") as f:
        for line in f:
            if line.startswith("model name"):
                cpu = line.split(":", 1)[1].strip()
                break
    with open("/proc/meminfo") as f:
        kib = int(f.readline().split()[1])
    u = os.uname()
    return {"cpu": cpu, "cores": len(os.sched_getaffinity(0)),
            "memory_gib": round(kib / 2**20, 1),
            "kernel": f"{u.sysname} {u.release} {u.machine}",
            "load": [round(x, 2) for x in os.getloadavg()]}


def number(v):
    if v is None:
        return "-"
    if abs(v) >= 1000:
        return f"{v:,.0f}"
    return f"{v:.3g}" if abs(v) < 10 else f"{v:.1f}"


class Report:
    """Collects a benchmark's figures; writes NAME.json and NAME.md."""

    def __init__(self, env, name, question):
        self.env, self.name = env, name
        self.top = {
            "bench": name, "question": question,
            "date": datetime.datetime.now().astimezone().isoformat(
                timespec="seconds"),
            "quick": env.quick, "machine": machine(), "settings": {},
            "measurements": [], "ratios": [], "tables": [], "failed": [],
            "notes": []}

    def setting(self, **kw):
        self.top["settings"].update(kw)

    def note(self, text):
        if text not in self.top["notes"]:
            self.top["notes"].append(text)
            say(f"  note: {text}")

    def fail(self, name, reason):
        self.top["failed"].append({"name": name, "reason": reason})

    def add_table(self, title, head, rows, data):
        """A table of its own: what it shows, and the data behind it."""
        self.top["tables"].append({"title": title, "head": head,
                                   "rows": rows, "data": data})

    def measure(self, name, unit, values, **more):
        """values: by round (a dict), a list or a single number."""
        if isinstance(values, dict):
            values = [values[r] for r in sorted(values)]
        elif not isinstance(values, list):
            values = [values]
        if values:
            self.top["measurements"].append(
                {"name": name, "unit": unit, **self.spread(values), **more})

    def ratio(self, name, values, target=None, unit="", interval=None):
        """target: ("<=" or ">=" or "<", number), judged on the median; with
        an interval that holds the target it is left undecided."""
        row = {"name": name, "unit": unit}
        if values:
            row.update(self.spread(values))
        if interval:
            row["interval95"] = list(interval)
        if target:
            sign, want = target
            row["target"] = f"{sign} {want}"
            if values:
                m = row["median"]
                row["met"] = {"<=": m <= want, ">=": m >= want,
                              "<": m < want}[sign]
            if interval and interval[0] <= want <= interval[1]:
                row["met"] = "undecided"
        self.top["ratios"].append(row)

    @staticmethod
    def spread(values):
        return {"median": statistics.median(values), "min": min(values),
                "max": max(values), "values": values}

    def markdown(self):
        t = self.top
        m = t["machine"]
        lines = [f"## {t['bench']}: {t['question']}", "",
                 f"{t['date']}, {m['cpu']}, {m['cores']} cores, "
                 f"{m['memory_gib']} GiB, {m['kernel']}"
                 + (" (--quick: not to be quoted)" if t["quick"] else ""), ""]
        if t["measurements"]:
            lines += self.table(
                ("measured", "unit", "median", "min", "max", "n"),
                [(x["name"], x["unit"], number(x["median"]), number(x["min"]),
                  number(x["max"]), str(len(x["values"])))
                 for x in t["measurements"]])
        if t["ratios"]:
            lines += self.table(
                ("compared", "median", "min", "max", "95 %", "target", ""),
                [self.ratio_row(x) for x in t["ratios"]
                 if "median" in x or "target" in x])
        for x in t["tables"]:
            lines += [f"{x['title']}:", "", *self.table(x["head"], x["rows"])]
        lines += [f"- not measured: {x['name']}: {x['reason']}"
                  for x in t["failed"]]
        lines += [f"- {x}" for x in t["notes"]]
        return "\n".join(lines).rstrip() + "\n"

    @staticmethod
    def ratio_row(x):
        name = x["name"] + (f" ({x['unit']})" if x["unit"] else "")
        met = {True: "met", False: "NOT MET"}.get(x.get("met"),
                                                  x.get("met", ""))
        if x.get("target") and "met" not in x:
            met = "not measured"
        both = x.get("interval95")
        return (name, number(x.get("median")), number(x.get("min")),
                number(x.get("max")),
                f"{number(both[0])} .. {number(both[1])}" if both else "",
                x.get("target", ""), met)

    @staticmethod
    def table(head, rows):
        """A Markdown table that also reads well as plain text; columns
        without a value are left out."""
        used = [i for i in range(len(head)) if any(r[i] for r in rows)]
        rows = [[r[i] for i in used] for r in [head, *rows]]
        width = [max(len(r[i]) for r in rows) for i in range(len(used))]
        text = ["| " + " | ".join(c.ljust(w) if i == 0 else c.rjust(w)
                                  for i, (c, w) in enumerate(zip(r, width)))
                + " |" for r in rows]
        rule = "|" + "|".join("-" * (w + 1) + ("-" if i == 0 else ":")
                              for i, w in enumerate(width)) + "|"
        return [text[0], rule, *text[1:], ""]

    def write(self):
        base = os.path.join(self.env.out, self.name)
        with open(base + ".json", "w") as f:
            json.dump(self.top, f, indent=1)
            f.write("\n")
        with open(base + ".md", "w") as f:
            f.write(self.markdown())
        return base
