# SPDX-License-Identifier: Apache-2.0
"""Text: tokenize, on its first pass and later, beside tiktoken; embed beside
bare copying; both with a second thread."""
import concurrent.futures
import glob
import json
import os
import random
import re

import data
import photos
from common import (Failed, HERE, PYTHON, ROOT, interleave, output, paired,
                    say)
from coproc import Peer

QUESTION = "how fast is text tokenised, and ids turned into rows of a table?"
SHARED = os.environ.get("MILLRACE_DATA") or os.path.join(
    os.path.dirname(ROOT), "shared", "data")
WIDTH = 768
BATCH = 16
HEAD = 128              # bytes of our .npy headers


def vocabulary():
    path = os.path.join(SHARED, "gpt2", "r50k_base.tiktoken")
    if not os.path.exists(path):
        raise Failed(f"no vocabulary {path}; name the folder above gpt2/ in "
                     "MILLRACE_DATA")
    return path


# ---- texts ----

def articles():
    """English ones of the shared data: few characters beyond ASCII."""
    texts = []
    for path in glob.glob(os.path.join(SHARED, "html", "aeb",
                                       "ground-truth.json")):
        with open(path, encoding="utf-8") as f:
            texts += [v["articleBody"] for v in json.load(f).values()]
    for path in glob.glob(os.path.join(SHARED, "gpt2", "ref-articles.jsonl")):
        with open(path, encoding="utf-8") as f:
            texts += [json.loads(line)["text"] for line in f]
    return [t for t in texts
            if t and sum(c > "\x7f" for c in t) < 0.03 * len(t)]


def words(texts):
    """Words and how often they come; without texts, made up, by Zipf."""
    if texts:
        count = {}
        for t in texts:
            for w in re.findall(r"\w+|[^\w\s]+", t):
                count[w] = count.get(w, 0) + 1
        return count
    rng = random.Random(1)
    parts = ["ra", "te", "in", "con", "er", "lo", "s", "ing", "pre", "al",
             "th", "e", "un", "ment", "ed", "o", "ly", "st", "a", "vi"]
    return {"".join(rng.choices(parts, k=rng.randrange(1, 5))): 1e6 / (i + 3)
            for i in range(40000)}


def write_long(to, texts, size):
    """Words as often as they come in the texts, and now and then, as in any
    larger corpus, one that was not there before."""
    rng = random.Random(2)
    count = words(texts)
    known, weights = list(count), list(count.values())
    written = n = 0
    os.makedirs(os.path.join(to, "x"))
    while written < size:
        doc = rng.choices(known, weights, k=rng.randrange(100, 1500))
        for i in range(rng.randrange(30), len(doc), 60):
            a, b = rng.choice(known), rng.choice(known)
            doc[i] = a[:len(a) // 2 + 1] + b[len(b) // 2:]
        text = " ".join(doc).replace(" .", ".").replace(" ,", ",").encode()
        with open(os.path.join(to, "x", f"{n:06}.txt"), "wb") as f:
            f.write(text)
        written, n = written + len(text), n + 1


def write_each(to, texts):
    os.makedirs(os.path.join(to, "x"))
    for i, t in enumerate(texts):
        with open(os.path.join(to, "x", f"{i:06}.txt"), "wb") as f:
            f.write(t.encode())


def folders(env, report):
    """name -> folder of text files."""
    texts, out = articles(), {}
    size = 4_000_000 if env.quick else 24_000_000
    data.need(env, 2 * size)
    if texts:
        out["articles"] = photos.made(os.path.join(env.data, "text-articles"),
                                      lambda to: write_each(to, texts))
    else:
        report.note(f"no articles in {SHARED}: texts of made-up words only")
    kind = "long" if texts else "zipf"
    out["long text"] = photos.made(
        os.path.join(env.data, f"text-{kind}-{size}"),
        lambda to: write_long(to, texts, size))
    return out


def files_of(folder):
    return sorted(glob.glob(os.path.join(folder, "x", "*")))


# ---- tokenize ----

def step(r, name):
    return next(s for s in r["steps"] if s["name"] == name)


class Tokenize:
    """MB/s of the step in its thread: of the first pass by a new process,
    and of those after it."""

    def __init__(self, env, folder):
        self.env, self.vocab = env, vocabulary()
        self.pipeline = (f"files '{folder}' | tokenize ranks='{self.vocab}' "
                         f"| batch {BATCH}")
        self.bytes = sum(map(os.path.getsize, files_of(folder)))
        self.more = max(2, int(env.seconds * 60e6 / self.bytes))
        self.ids = None

    def run(self, epochs):
        r = self.env.run(self.pipeline, "--threads", 1, "--epochs", epochs)
        s = step(r, "tokenize")
        self.ids = s["bytes_out"] // 4 // epochs
        return s["total_ms"] / 1e3

    def __call__(self):
        first, all_ = self.run(1), self.run(1 + self.more)
        mb = self.bytes / 1e6
        return {"first": mb / first,
                "warm": mb * self.more / max(all_ - first, 1e-9)}


def tiktoken(env, folder):
    """The peer on the same texts; npm brings it, into our data folder."""
    home = os.path.join(env.data, "npm")
    if not os.path.isdir(os.path.join(home, "node_modules", "tiktoken")):
        os.makedirs(home, exist_ok=True)
        say("  fetching tiktoken with npm")
        output(["npm", "install", "--no-audit", "--no-fund", "--prefix", home,
                "tiktoken@1"], timeout=120)
    return Peer("tiktoken under node",
                ["node", os.path.join(HERE, "peer_tiktoken.mjs"),
                 os.path.join(home, "node_modules"), *files_of(folder)])


def tokenize(env, report, name, folder):
    ours, peer, rate = Tokenize(env, folder), None, None
    try:
        peer = tiktoken(env, folder).start()
    except Failed as e:
        report.fail(f"{name}, tiktoken under node", str(e))

    def theirs():
        r = peer.slice(env.seconds)
        return r["bytes"] / r["seconds"] / 1e6
    jobs = {"millrace": ours}
    if peer:
        jobs["tiktoken"] = theirs
    try:
        rate, failed = interleave(jobs, env.rounds(7))
    finally:
        if peer:
            peer.close()
    for who, why in failed.items():
        report.fail(f"{name}, {who}", why)
    if peer and peer.info["ids"] != ours.ids:
        report.fail(f"{name}, tiktoken under node",
                    f"{peer.info['ids']} ids, and {ours.ids} by Millrace")
    for k in ("first", "warm"):
        title = f"{name}, {ours.bytes / 1e6:.1f} MB, {k} pass, 1 thread"
        report.measure(title, "MB/s", rate.get(k, {}))
        if k == "first":
            report.ratio(title, list(rate.get(k, {}).values()), (">=", 40),
                         "MB/s")
    report.measure(f"{name}, tiktoken under node", "MB/s",
                   rate.get("tiktoken", {}))
    report.ratio(f"{name}, first pass / tiktoken under node",
                 paired(rate.get("first", {}), rate.get("tiktoken", {})),
                 (">=", 5))


def memory(env, report, folder):
    """What a second thread takes: not the vocabulary once more."""
    seen = {}
    for threads in (1, 2):
        text, s = env.spawn([
            env.millrace, "run", "--json", "--epochs", 2, "--threads",
            threads, "--memory", "64M",
            f"files '{folder}' | tokenize ranks='{vocabulary()}' "
            f"| batch {BATCH}"])
        seen[threads] = s["maxrss_kib"] / 1024
        report.measure(f"tokenize, peak RSS, {threads} threads", "MiB",
                       seen[threads])
    report.ratio("a second thread's memory", [seen[2] - seen[1]], ("<=", 16),
                 "MiB")


# ---- embed ----

def table(env, rows, dtype):
    size = {"f4": 4, "f2": 2}[dtype]
    text = (f"{{'descr': '<{dtype}', 'fortran_order': False, "
            f"'shape': ({rows}, {WIDTH}), }}").encode()
    head = b"\x93NUMPY\x01\x00" + (HEAD - 10).to_bytes(2, "little") \
        + text.ljust(HEAD - 11) + b"\n"

    def make(to):
        rng = random.Random(3)
        part = rng.randbytes(WIDTH * size * 64)
        with open(to, "wb") as f:
            f.write(head)
            for i in range(0, rows, 64):
                f.write(part[:min(64, rows - i) * WIDTH * size])
    return photos.made(os.path.join(env.data, f"table-{rows}-{dtype}.npy"),
                       make)


def ids_of(env, folder):
    """The ids as a prepared set, and as a file of int32."""
    path = os.path.join(env.data, f"ids-{os.path.basename(folder)}")
    ours = Tokenize(env, folder)
    ours.run(1)
    where = dict(os.environ, PYTHONPATH=os.path.join(env.build, "python"),
                 PYTHONDONTWRITEBYTECODE="1")
    kept = photos.made(path, lambda to: output([
        env.millrace, "prepare", ours.pipeline, "--out", to]))
    return kept, photos.made(path + ".i32", lambda to: output(
        [PYTHON, os.path.join(HERE, "dump.py"),
         f"records '{kept}' check=no | batch {BATCH}", "ids", str(ours.ids),
         to], env=where))


def embed(env, report, folder):
    with open(vocabulary()) as f:
        rows = sum(1 for _ in f)
    kept, raw = ids_of(env, folder)
    for dtype, size in (("f4", 4), ("f2", 2)):
        path = table(env, rows, dtype)
        bytes_ = os.path.getsize(raw) // 4 * WIDTH * size
        rounds = max(1, int(env.seconds * 5e9 / bytes_))
        batch = max(1, os.path.getsize(raw) // 4 * BATCH
                    // len(files_of(folder)))

        def ours():
            s = step(env.run(f"records '{kept}' check=no | embed '{path}' "
                             f"| batch {BATCH}", "--threads", 1, "--epochs",
                             rounds, "--order", "sequential"), "embed")
            return s["bytes_out"] / s["total_ms"] / 1e6

        def bare():
            r = json.loads(output([
                env.tool("bare_gather"), path, str(HEAD), str(WIDTH * size),
                raw, str(batch), str(rounds)]))
            return r["bytes"] / r["seconds"] / 1e9

        def twice():
            """Two at once: what a second core can add to memory's pace."""
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                return sum(pool.map(lambda _: bare(), range(2)))
        rate, failed = interleave({"embed": ours, "bare": bare,
                                   "two": twice}, env.rounds(7))
        for who, why in failed.items():
            report.fail(f"embed {dtype}, {who}", why)
        report.measure(f"embed {dtype}, rows of {WIDTH}", "GB/s",
                       rate.get("embed", {}))
        report.measure(f"bare gather {dtype}", "GB/s", rate.get("bare", {}))
        report.ratio(f"embed {dtype} / bare gather",
                     paired(rate.get("embed", {}), rate.get("bare", {})))
        report.ratio(f"bare gather {dtype}, two at once / one",
                     paired(rate.get("two", {}), rate.get("bare", {})))


def scaling(env, report, folder):
    with open(vocabulary()) as f:
        path = table(env, sum(1 for _ in f), "f2")
    pipeline = (f"files '{folder}' | tokenize ranks='{vocabulary()}' "
                f"| embed '{path}' | batch {BATCH}")

    # equally long for both: the memory of the first batches is given out once
    def job(threads):
        return lambda: env.run(pipeline, "--threads", threads, "--epochs",
                               threads * (1 if env.quick else 4)
                               )["samples_per_s"]
    rate, failed = interleave({1: job(1), 2: job(2)}, env.rounds(7))
    for n in (1, 2):
        if n in failed:
            report.fail(f"tokenize | embed, {n} threads", failed[n])
        report.measure(f"tokenize | embed, {n} threads", "texts/s",
                       rate.get(n, {}))
    report.ratio("tokenize | embed, 2 threads / 1",
                 paired(rate.get(2, {}), rate.get(1, {})), (">=", 1.8))


def main(env, report):
    report.setting(threads=1, rounds=env.rounds(7), vocabulary="r50k",
                   clock="of the step in its thread; the first pass is a new "
                         "process's")
    vocabulary()
    sets = folders(env, report)
    for name, folder in sets.items():
        tokenize(env, report, name, folder)
    folder = sets["long text"]
    memory(env, report, folder)
    embed(env, report, folder)
    scaling(env, report, folder)
