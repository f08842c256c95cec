# SPDX-License-Identifier: Apache-2.0
"""How good `millrace tune` is: for seven pipelines on two storages, what it
picks and predicts beside `tune --exhaustive`, which measures every strategy.

BENCH_TUNE="cv,nlp ssd" takes some pipelines and storages only. What either
said is kept in BUILD/bench/tune; BENCH_TUNE_KEEP=1 takes an exhaustive answer
from there, since that is what takes long; BENCH_TUNE_REPEATS=1 makes it shorter
(tune's --repeats), and its figures less certain, but for those of the finals."""
import json
import os
import statistics
import types

import presto_sets
from common import Failed, number, output_json, say

QUESTION = "does `tune` pick what measuring every strategy would have picked?"
STORAGES = ("ceph-hdd", "ssd")
LONGEST = 4 * 3600          # seconds of one exhaustive answer
NEAR, CLOSE = 0.05, 0.15    # of the best one; of the measured rate
PICKS, SHARE = 13 / 14, 90  # targets
SECONDS, RATIO = 60, 20
FEWEST = 500                # samples of any pipeline


def key(s):
    """What makes a strategy the same in two answers."""
    return (s["split"], s.get("part", 1) < 1, s["codec"],
            bool(s.get("shuffle")), s["order"], s["cache"],
            s.get("cache_after", "") if s["cache"] == "ram"
            else "", s["threads"], s.get("shards", 1))


def found(answer, number_):
    """A strategy by its id."""
    return next((s for s in answer["strategies"] if s["id"] == number_), None)


def judged(full):
    """Those of an exhaustive answer that were measured."""
    return [s for s in full["strategies"]
            if s.get("measured", {}).get("per_s", 0) > 0]


def cost(full, s):
    """What is to be small, by what was measured: seconds of all epochs with
    preparation; or of an epoch, where throughput alone is asked for."""
    goal = full["objective"]
    epoch = full["samples"] / s["measured"]["per_s"]
    if goal["kind"] == "epochs":
        return s["offline_s"] + goal["epochs"] * epoch
    return epoch


def same(strategies, s):
    """The strategy like s in another answer; the number of shards may differ
    where no other has the same."""
    exact = [x for x in strategies if key(x) == key(s)]
    return (exact or [x for x in strategies if key(x)[:-1] == key(s)[:-1]]
            or [None])[0]


def predicted(s):
    """By the model alone, for the samples that were looked at."""
    return s.get("predicted_per_s", s["warm_per_s"])


def compare(quick, full):
    """One case: how far the pick is from the best, and the predictions from
    what was measured."""
    measured = judged(full)
    allowed = [s for s in measured if s.get("allowed", True)]
    pick = found(quick, quick["best"])
    if not allowed or pick is None:
        raise Failed("tune picked nothing" if allowed else
                     "no strategy was measured")
    best = min(allowed, key=lambda s: cost(full, s))
    mine = same(measured, pick)
    if mine is None:
        raise Failed(f"what was picked was not measured: {name_of(pick)}")
    errors = []
    for s in measured:
        guess = same(quick["strategies"], s)
        # of as many samples: in block order, few make more requests each
        if quick.get("sampled") != full.get("sampled"):
            guess = s
        if guess is not None:
            errors.append(predicted(guess) / s["measured"]["per_s"] - 1)
    return {
        "pick": name_of(pick), "best": name_of(best),
        "behind": cost(full, mine) / cost(full, best) - 1,
        "pick_per_s": mine["measured"]["per_s"],
        "best_per_s": best["measured"]["per_s"],
        "near": cost(full, mine) <= (1 + NEAR) * cost(full, best),
        "overlap": overlap(mine["measured"], best["measured"]),
        "strategies": len(measured), "predicted": len(errors),
        "close": sum(abs(e) <= CLOSE for e in errors),
        "error_median": statistics.median(map(abs, errors))
        if errors else None, "errors": errors,
        "seconds": quick["seconds"], "exhaustive_s": full["seconds"]}


def overlap(a, b):
    """Whether two rates cannot be told apart by their intervals."""
    return ((a.get("high") or a["per_s"]) >= (b.get("low") or b["per_s"]) and
            (b.get("high") or b["per_s"]) >= (a.get("low") or a["per_s"]))


def name_of(s):
    """In words."""
    where = "as it is" if s["split"] < 0 else f"after {s['after']}"
    pack = s["codec"]
    return ", ".join([where, *([pack] if s["codec"] != "none" and
                               s["split"] >= 0 else []), s["order"],
                      *([f"cache {s['cache']}"] if s["cache"] != "none"
                        else [])])


def ask(env, p, storage, *options):
    return output_json([env.millrace, "tune", " | ".join(p.steps),
                        "--storage", storage, "--max-memory", "0", "--json",
                        *options], cwd=p.cwd, timeout=LONGEST)


def exhaustive(env, p, storage, path):
    if os.environ.get("BENCH_TUNE_KEEP") and os.path.exists(path):
        with open(path) as f:
            return json.load(f)
    repeats = os.environ.get("BENCH_TUNE_REPEATS")
    return ask(env, p, storage, "--exhaustive",
               *(["--repeats", repeats] if repeats else []))


def kept(path, answer):
    with open(path, "w") as f:
        json.dump(answer, f)
    return answer


def case(env, p, storage):
    """Both answers, kept; compared."""
    folder = os.path.join(env.out, "tune")
    os.makedirs(folder, exist_ok=True)
    base = os.path.join(folder, f"{p.name}-{storage}")
    quick = kept(base + ".json", ask(env, p, storage))
    path = base + "-exhaustive.json"
    full = kept(path, exhaustive(env, p, storage, path))
    got = compare(quick, full)
    say(f"  {p.name}, {storage}: {got['seconds']:.0f} s and "
        f"{got['exhaustive_s']:.0f} s; {100 * got['behind']:.1f} % behind; "
        f"{got['close']} of {got['strategies']} close")
    return {"pipeline": p.name, "storage": storage, **got}


def row(x):
    return (f"{x['pipeline']}, {x['storage']}", x["pick"], x["best"],
            f"{100 * x['behind']:.1f} %", "yes" if x["near"] else
            "NO, but intervals overlap" if x["overlap"] else "NO",
            number(x["pick_per_s"]), number(x["best_per_s"]),
            f"{x['close']} of {x['strategies']}", f"{x['seconds']:.0f} s",
            f"{x['exhaustive_s']:.0f} s",
            f"{x['exhaustive_s'] / x['seconds']:.0f}x")


def wanted():
    """(pipelines, storages) of BENCH_TUNE."""
    words = os.environ.get("BENCH_TUNE", "").split()
    given = [w.split(",") for w in words]
    names = [n for g in given for n in g if n in presto_sets.NAMES]
    places = [n for g in given for n in g if n not in presto_sets.NAMES]
    return names or presto_sets.NAMES, places or STORAGES


def summary(report, cases):
    strategies = sum(x["strategies"] for x in cases)
    close = sum(x["close"] for x in cases)
    report.ratio(f"picks within {100 * NEAR:.0f} % of the best, of "
                 f"{len(cases)}", [float(sum(x["near"] for x in cases))],
                 (">=", round(PICKS * len(cases), 2)))
    report.ratio(f"of {strategies} strategies, predicted within "
                 f"{100 * CLOSE:.0f} %", [100 * close / strategies]
                 if strategies else [], (">=", SHARE), "%")
    report.ratio("seconds that tune takes, the longest",
                 [max(x["seconds"] for x in cases)], ("<", SECONDS), "s")
    report.ratio("exhaustive / tune, time",
                 [x["exhaustive_s"] / x["seconds"] for x in cases],
                 (">=", RATIO))
    report.add_table("cases; `behind` is the picked strategy's measured total "
                     "time, above the best one's",
                     ("", "picked", "best", "behind", "near", "picked/s",
                      "best/s", "predicted", "tune", "exhaustive", ""),
                     [row(x) for x in cases], cases)


def lab_of(env, name, samples):
    """Where a pipeline's data is, and how much; large samples are few, but
    not fewer than that."""
    least = FEWEST if not env.quick else 0
    return types.SimpleNamespace(
        data=os.path.join(env.data, "presto"), millrace=env.millrace,
        samples=max(samples, least / presto_sets.SHARE.get(name, 1)),
        threads=len(os.sched_getaffinity(0)))


def main(env, report):
    samples = 100 if env.quick else 1000
    os.makedirs(os.path.join(env.data, "presto"), exist_ok=True)
    names, places = wanted()
    cases = []
    for name in names:
        for storage in places:
            try:
                p = presto_sets.Pipeline(lab_of(env, name, samples), name)
                cases.append(case(env, p, storage))
            except (Failed, KeyError) as e:
                report.fail(f"{name}, {storage}", f"no {e} in the answer"
                            if isinstance(e, KeyError) else str(e))
    report.setting(samples=samples, storages=list(places))
    if len(cases) < len(presto_sets.NAMES) * len(STORAGES):
        report.top["partial"] = f"{len(cases)} cases"
    if cases:
        summary(report, cases)
