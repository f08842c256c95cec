# SPDX-License-Identifier: Apache-2.0
"""extract_text: how good its articles are, how fast it finds them, and how
the pipeline around it scales."""
import gzip
import json
import os
import random
import re
import statistics
from collections import Counter

import photos
from common import (Failed, HERE, PYTHON, ROOT, bootstrap, epochs_for,
                    interleave, output, output_json, paired)

QUESTION = "how good and how fast are articles taken from pages?"
REAL = os.path.join(os.environ.get("MILLRACE_DATA") or os.path.join(
    os.path.dirname(ROOT), "shared", "data"), "html", "aeb")
PEER = os.path.join(HERE, "peer_readability.py")
PAGES = 1000
WORDS = re.compile(r"\w+")
DRAWS = 1000


# ---- how good ----

def shingles(text, n):
    """The runs of n words, and how often each comes."""
    words = WORDS.findall(text)
    return Counter(tuple(words[i:i + n]) for i in range(
        max(1, len(words) - n + 1)) if words)


def shares(truth, got, n):
    """Of one page: (precision or None without a text, recall)."""
    a, b = shingles(truth, n), shingles(got, n)
    both = (a & b).total()
    return both / b.total() if b else None, both / a.total()


def f1(pages):
    """Precision and recall are means over pages, as that benchmark has it."""
    p = statistics.fmean(x[0] for x in pages if x[0] is not None)
    r = statistics.fmean(x[1] for x in pages)
    return p, r, 2 * p * r / (p + r) if p + r else 0.0


def interval(pages):
    """95 % of the F1s of pages drawn again and again."""
    rng = random.Random(1)
    got = sorted(f1(rng.choices(pages, k=len(pages)))[2]
                 for _ in range(DRAWS))
    return got[int(DRAWS * 0.025)], got[int(DRAWS * 0.975)]


def real_pages(env):
    """The pages, unpacked, in the order of the truth's keys."""
    truth = json.load(open(os.path.join(REAL, "ground-truth.json")))

    def make(to):
        os.makedirs(os.path.join(to, "all"))
        for key in truth:
            packed = os.path.join(REAL, "html", key + ".html.gz")
            with open(os.path.join(to, "all", key + ".html"), "wb") as f:
                f.write(gzip.open(packed).read())
    return truth, photos.made(os.path.join(env.data, "pages-real"), make)


def ours(env, folder, truth):
    where = dict(os.environ, PYTHONPATH=os.path.join(env.build, "python"),
                 PYTHONDONTWRITEBYTECODE="1")
    code = ("import json, millrace, sys\n"
            "l = millrace.Loader(f'files {sys.argv[1]} | extract_text | "
            "batch 16', order='sequential')\n"
            "print(json.dumps([bytes(x).decode() for b in l "
            "for x in b.samples('data')]))")
    texts = output_json([PYTHON, "-c", code, folder], env=where)
    return dict(zip(sorted(truth), texts))


def peers():
    folder = os.path.join(REAL, "output")
    for name in sorted(os.listdir(folder)):
        made = json.load(open(os.path.join(folder, name)))
        made = made.get("output", made)
        yield name.removesuffix(".json"), {
            k: v.get("articleBody") or "" for k, v in made.items()}


def quality(env, report, truth, folder):
    rows, table = [], {}
    for name, texts in [("Millrace", ours(env, folder, truth)), *peers()]:
        four, one = ([shares(v["articleBody"], texts[k], n)
                      for k, v in truth.items()] for n in (4, 1))
        table[name] = {"4": f1(four), "interval": interval(four),
                       "1": f1(one), "pages": four}
        p, r, f = table[name]["4"]
        lo, hi = table[name]["interval"]
        rows.append((name, f"{p:.3f}", f"{r:.3f}", f"{f:.3f}",
                     f"{lo:.3f} .. {hi:.3f}", f"{table[name]['1'][2]:.3f}"))
    report.add_table(
        f"{len(truth)} articles of the web, by runs of four words",
        ("", "precision", "recall", "F1", "95 %", "F1, single words"), rows,
        table)
    best = max((n for n in table if n != "Millrace"),
               key=lambda n: table[n]["4"][2])
    report.ratio(f"F1 of Millrace - F1 of {best}, the best of them",
                 [table["Millrace"]["4"][2] - table[best]["4"][2]],
                 (">=", 0), interval=differences(table["Millrace"]["pages"],
                                                 table[best]["pages"]))


def differences(a, b):
    rng = random.Random(2)
    got = []
    for _ in range(DRAWS):
        draw = rng.choices(range(len(a)), k=len(a))
        got.append(f1([a[i] for i in draw])[2] - f1([b[i] for i in draw])[2])
    got.sort()
    return got[int(DRAWS * 0.025)], got[int(DRAWS * 0.975)]


# ---- how fast ----

def synth(env):
    count = 200 if env.quick else PAGES
    return photos.made(
        os.path.join(env.data, f"synth-html-{count}"),
        lambda to: output([env.millrace, "synth", "html", to, "--count",
                           str(count), "--classes", "1"]))


def step_rate(env, folder):
    """MB of HTML a second of the step itself, on one thread."""
    pipeline = f"files '{folder}' | extract_text | batch 64"
    epochs = []

    def run():
        if not epochs:
            epochs.append(epochs_for(env.seconds, lambda n: env.run(
                pipeline, "--threads", 1, "--epochs", n)))
        r = env.run(pipeline, "--threads", 1, "--epochs", epochs[0])
        step = next(s for s in r["steps"] if s["name"] == "extract_text")
        return {"step": step["bytes_in"] / step["total_ms"] / 1e3,
                "run": r["bytes_read"] / r["seconds"] / 1e6}
    return run


def peer_rate(env, folder):
    def run():
        r = output_json([PYTHON, PEER, folder, str(2 * env.seconds)])
        return r["bytes"] / r["seconds"] / 1e6
    return run


def speed(env, report, name, folder):
    step = step_rate(env, folder)
    values, failed = interleave({
        "ours": step,
        "readability-lxml": peer_rate(env, folder)}, env.rounds(9))
    for job, reason in failed.items():
        report.fail(f"{name}: {job}", reason)
    report.measure(f"{name}: extract_text, one thread", "MB/s",
                   values.get("step", {}))
    report.measure(f"{name}: with reading, one thread", "MB/s",
                   values.get("run", {}))
    peer = values.get("readability-lxml", {})
    report.measure(f"{name}: readability-lxml, one thread", "MB/s", peer)
    ratio = paired(values.get("step", {}), peer)
    report.ratio(f"{name}: extract_text / readability-lxml", ratio,
                 (">=", 10), interval=bootstrap(ratio) if ratio else None)


def pipeline_text():
    """examples/nlp.txt without its remarks."""
    with open(os.path.join(ROOT, "examples", "nlp.txt")) as f:
        lines = [x.strip() for x in f]
    return " | ".join(x for x in lines if x and not x.startswith("#"))


def scaling(env, report, folder):
    pipeline = pipeline_text()
    # long: the memory of the first batches is given out once
    epochs = epochs_for(4 * env.seconds, lambda n: env.run(
        pipeline, "--threads", 1, "--epochs", n, cwd=folder))

    def job(threads):
        def run():
            r = env.run(pipeline, "--threads", threads, "--epochs",
                        epochs * threads, cwd=folder)
            return r["samples"] / r["seconds"]
        return run

    values, failed = interleave({"1": job(1), "2": job(2)}, env.rounds(9))
    for name, reason in failed.items():
        report.fail(f"NLP pipeline, {name} threads", reason)
    for n in "12":
        report.measure(f"examples/nlp.txt, {n} thread(s)", "pages/s",
                       values.get(n, {}))
    ratio = paired(values.get("2", {}), values.get("1", {}))
    report.ratio("examples/nlp.txt: 2 threads / 1", ratio, (">=", 1.8),
                 interval=bootstrap(ratio) if ratio else None)


def main(env, report):
    made = synth(env)
    report.setting(rounds=env.rounds(9), draws=DRAWS)
    if os.path.isdir(REAL):
        truth, real = real_pages(env)
        quality(env, report, truth, real)
        speed(env, report, "web", real)
    else:
        report.fail("real pages", f"no {REAL}")
    speed(env, report, "synth", os.path.join(made, "pages"))
    try:
        scaling(env, report, made)
    except Failed as e:
        report.fail("scaling", str(e))
    report.note("the step's rate is of its own time; the peer's pages are in "
                "memory before its clock starts")
