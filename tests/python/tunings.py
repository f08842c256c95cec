# SPDX-License-Identifier: Apache-2.0
"""Tunings for tests: what `millrace tune --json` would say of a job with
pictures, by a model that is simple but has the real one's shape."""
import itertools

SAMPLES, BATCH, EPOCHS = 20000, 64, 30
# name, us, bytes after it, may it be stored
STEPS = [("read", 60, 110000, True), ("decode_image", 2400, 600000, True),
         ("resize", 700, 196608, True), ("to_chw", 90, 196608, True),
         ("random_crop", 40, 150528, False),
         ("normalize", 160, 602112, False)]
# name, shuffle, ratio for pictures and for JPEGs, MB/s packing, unpacking
CODECS = [("none", False, 1, 1, 0, 0), ("lz4", False, 1.2, 1, 600, 2900),
          ("lz4+shuffle", True, 1.35, 1, 500, 2300),
          ("zstd-3", False, 1.6, 1.01, 300, 900),
          ("zstd-3+shuffle", True, 1.8, 1.01, 260, 800),
          ("zstd-9", False, 1.7, 1.02, 60, 900),
          ("zlib-6+shuffle", True, 2.1, 1.02, 35, 90)]
THREADS = [1, 2, 4]
DISK = 150e6  # bytes a second
MEMORY = 2 << 30


def split_of(k):
    fixed = [s for s in STEPS if s[3]]
    before, after = STEPS[:k + 1], STEPS[max(k, 0) + 1:]
    online = sum(s[1] for s in after) + (60 if k < 0 else 8)
    size = fixed[max(k, 0)][2]
    rate = 1e6 / online
    return {
        "split": k, "name": "" if k < 0 else fixed[k][0], "bytes": size,
        "offline_per_s": 0 if k < 0 else 4e6 / sum(s[1] for s in before),
        "online_per_s": rate * 3.5, "cold_per_s": min(rate, DISK / size),
        "curve": [{"threads": t, "per_s": rate * t / (1 + 0.05 * (t - 1))}
                  for t in THREADS],
        "codecs": [
            {"codec": c, "shuffle": s, "ratio": r if k > 0 else j,
             "pack_mb_s": p, "unpack_mb_s": u}
            for c, s, r, j, p, u in CODECS[:1 if k < 0 else None]]}


def strategy(split, codec, threads, order, cache):
    k, size = split["split"], split["bytes"]
    name, shuffle, ratio, jpeg, pack, unpack = codec
    stored = size / (ratio if k > 0 else jpeg)
    cpu = 1e6 / split["curve"][0]["per_s"]
    cpu = threads / (1 + 0.05 * (threads - 1)) / (
        cpu / 1e6 + (size / unpack / 1e6 if unpack else 0))
    disk = DISK / stored * (0.25 if order == "shuffle" else 1)
    share = 0 if cache == "none" else min(1, MEMORY / (
        SAMPLES * (stored if cache == "page" else size)))
    if cache == "page" and share < 1:
        share *= share / 2
    cold = min(cpu, disk)
    warm = cold if not share else min(cpu, disk / max(1e-9, 1 - share))
    offline = 0 if k < 0 else SAMPLES / split["offline_per_s"] + (
        SAMPLES * size / pack / 4e6 if pack else 0)
    first = SAMPLES / cold
    return {
        "split": k, "after": split["name"], "codec": name,
        "shuffle": shuffle, "threads": threads, "order": order, "shards": 1,
        "cache": cache, "cache_after": split["name"] or "read",
        "cache_bytes": MEMORY if cache != "none" else 0,
        "cache_share": share, "offline_s": offline,
        "storage_bytes": int(SAMPLES * stored),
        "added_bytes": int(SAMPLES * stored) if k >= 0 else 0,
        "cold_per_s": cold, "warm_per_s": warm, "predicted_per_s": warm,
        "memory_bytes": MEMORY if cache == "ram" else 0,
        "first_epoch_s": first,
        "total_s": offline + first + (EPOCHS - 1) * SAMPLES / warm,
        "cost": 0, "allowed": threads < 4 or not name.startswith("lz4")}


def strategies(splits):
    out = []
    for split, codec, threads, order, cache in itertools.product(
            splits, CODECS, reversed(THREADS), ["block", "shuffle",
                                                "sequential"],
            ["none", "page", "ram"]):
        if split["split"] < 0 and (codec[0] != "none" or order == "block"):
            continue
        out.append(strategy(split, codec, threads, order, cache))
    least = min(s["total_s"] for s in out)
    for i, s in enumerate(out):
        s["id"] = i
        s["score"] = least / s["total_s"]
        s["pareto"] = False
    return out


def mark_front(every):
    """Of storage, preparation and rate, what no other is better in."""
    def keys(s):
        return s["added_bytes"], s["offline_s"], -s["warm_per_s"]
    kept = []
    for s in sorted((s for s in every if s["allowed"]), key=keys):
        if not any(all(a <= b for a, b in zip(keys(k), keys(s)))
                   for k in kept):
            s["pareto"] = True
            kept.append(s)


def measure(s, i):
    """What was measured has corrected the rate of the whole data set, not
    what the model alone said."""
    off = 1 + (i % 7 - 3) * 0.04
    rate = s["warm_per_s"]
    s["predicted_per_s"] = rate / off
    s["measured"] = {"per_s": rate, "low": rate * 0.95, "high": rate * 1.06}
    s["error"] = abs(1 / off - 1)


def even(a, b):
    """From which epoch on a's total is below b's; None: never."""
    def line(s):
        each = SAMPLES / s["warm_per_s"]
        return s["offline_s"] + s["first_epoch_s"] - each, each
    (a0, a1), (b0, b1) = line(a), line(b)
    return (a0 - b0) / (b1 - a1) if b1 > a1 and a0 > b0 else None


def tuning(measured=12, exhaustive=False, **more):
    splits = [split_of(k) for k in range(-1, 4)]
    every = strategies(splits)
    mark_front(every)
    ranked = sorted((s for s in every if s["allowed"]),
                    key=lambda s: -s["score"])
    best = ranked[0]
    online = max((s for s in ranked if s["split"] < 0),
                 key=lambda s: s["score"])
    offline = max((s for s in ranked if s["split"] == 3),
                  key=lambda s: s["score"])
    shown = list({s["id"]: s for s in [
        best, online, offline, *ranked[1:4],
        *(next(r for r in ranked if r["split"] == k) for k in range(4)),
    ]}.values())
    for i, s in enumerate(every if exhaustive else
                          (shown + ranked[20:])[:measured]):
        measure(s, i)
    evens = [(s, even(best, s)) for s in shown if s is not best]
    text = "records DIR | random_crop 224 | normalize imagenet | batch 64"
    d = {
        "millrace": "tuning",
        "pipeline": "files photos | decode_image | resize 256 | to_chw | "
                    "random_crop 224 | normalize imagenet | batch 64",
        "samples": SAMPLES, "batch": BATCH, "threads": 4, "cores": 4,
        "storage": "ceph-hdd", "memory": MEMORY, "sampled": 384,
        "precision": 0.05, "seconds": 23.1,
        "objective": {"kind": "epochs", "epochs": EPOCHS,
                      "weights": [0, 0, 1], "max_storage": 0,
                      "max_prepare": 0, "max_memory": 0, "price_hour": 0,
                      "price_gb": 0, "accelerator": 0},
        "steps": [{"name": n, "us": us, "p50_us": us * 0.95,
                   "p99_us": us * 1.8, "bytes_out": size, "fixed": fixed}
                  for n, us, size, fixed in STEPS],
        "splits": splits, "strategies": every, "best": best["id"],
        "ties": [ranked[1]["id"]], "all_online": online["id"],
        "all_offline": offline["id"], "shown": [s["id"] for s in shown],
        "break_even": [{"a": best["id"], "b": s["id"], "epoch": e}
                       for s, e in evens if e],
        "answer": f"store the samples after {best['after']} with "
                  f"{best['codec']}: {best['warm_per_s']:.0f} samples/s, "
                  f"{best['warm_per_s'] / online['warm_per_s']:.1f} times "
                  "what all online gives",
        "text": text,
        "prepare": "millrace prepare 'files photos | decode_image | resize "
                   f"256 | to_chw | {text[14:]}' --until {best['after']} "
                   f"--codec {best['codec']} --out DIR",
        "run": f"--order {best['order']} --threads {best['threads']}",
        "notes": ["measured on 384 of 20,000 samples"],
    }
    return d | more
