# SPDX-License-Identifier: Apache-2.0
"""The same batches, whatever threads, memory, fetch and interruptions."""
import json
import signal
import subprocess

import numpy as np
import pytest

ORDERS = ["sequential", "shuffle", "block"]
EPOCH = [16] * 6 + [4]  # the batches of the pipelines in conftest.py


def samples_of(batches):
    """Samples of that many batches, over epochs."""
    return sum((EPOCH * 10)[:batches])


@pytest.mark.parametrize("order", ORDERS)
def test_digest_is_the_same_for_any_number_of_threads(mill, pipeline, order):
    args = [*pipeline.args, "--order", order, "--epochs", 3, "--block", 4]
    assert len({mill.digest(*args, "--threads", t)
                for t in (1, 2, 4, 7)}) == 1


def test_digest_differs_by_order_and_seed(mill, pipelines):
    # With what the other tests compare: a digest that never changes would
    # pass all of them.
    p = pipelines["made"]
    assert len({mill.digest(p, "--order", o) for o in ORDERS}) == 3
    assert len({mill.digest(p, "--seed", s) for s in (0, 1, 2)}) == 3


def test_digest_depends_on_the_data(mill, tmp_path):
    a = np.zeros((10, 4), np.uint8)
    np.save(tmp_path / "a.npy", a)
    a[9, 3] = 1
    np.save(tmp_path / "b.npy", a)
    assert mill.digest(f"npy {tmp_path}/a.npy | batch 4") != \
        mill.digest(f"npy {tmp_path}/b.npy | batch 4")


def test_digest_is_the_same_from_a_mapping(mill, tmp_path):
    np.save(tmp_path / "a.npy", np.random.default_rng(1).random((100, 7)))
    for steps in ("", "| cast f32"):
        assert mill.digest(f"npy {tmp_path}/a.npy {steps} | batch 4") == \
            mill.digest(f"npy {tmp_path}/a.npy map=yes {steps} | batch 4")


def test_digest_of_several_epochs_goes_on_from_one(mill, pipelines):
    p = pipelines["made"]
    assert len({mill.digest(p, "--epochs", n) for n in (1, 2, 3)}) == 3


# ---- memory ----

def test_digest_is_the_same_for_any_memory_budget(mill, pipeline):
    args = [*pipeline.args, "--epochs", 2, "--threads", 3]
    assert len({mill.digest(*args, "--memory", m)
                for m in ("1M", "3M", "64M", "1G")}) == 1


def test_smallest_budget_for_a_batch_works_and_less_is_refused(mill):
    p = "synthetic shape=64,64,3 count=200 | cast f32 | batch 16"

    def fits(kb):
        r = subprocess.run([mill.bin, "explain", p, "--memory", f"{kb}K",
                            "--threads", "2"], capture_output=True)
        assert r.returncode in (0, 1), r.stderr
        return r.returncode == 0

    lo, hi = 1024, 1 << 20  # refused, accepted
    assert fits(hi) and not fits(lo)
    while hi - lo > 1:
        mid = (lo + hi) // 2
        lo, hi = (lo, mid) if fits(mid) else (mid, hi)
    assert mill.digest(p, "--memory", f"{hi}K", "--threads", 2) == \
        mill.digest(p, "--memory", "1G", "--threads", 2)
    mill.fails("run", p, "--memory", f"{lo}K", code=1,
               says=["batch", "memory budget", "--memory"])


def test_files_nearly_as_large_as_a_sample_may_be_fit_the_budget(mill,
                                                                 tmp_path):
    # 1M of memory: a sample may have 512K. Large and small ones in turn.
    for i, size in enumerate([500_000, 10, 300_000, 400_000, 70_000, 5,
                              524_000, 200_000]):
        (tmp_path / f"{i}.bin").write_bytes(bytes([i]) * size)
    args = [f"files {tmp_path} | batch 1", "--order", "sequential",
            "--epochs", 3]
    want = mill.digest(*args, "--memory", "1G")
    for fetch in ("direct", "ahead"):
        for threads in (1, 3):
            assert mill.digest(*args, "--memory", "1M", "--fetch", fetch,
                               "--threads", threads) == want


# ---- who reads ----

@pytest.mark.parametrize("pipeline", ["dense", "bare", "ragged", "padded",
                                      "cast"], indirect=True)
@pytest.mark.parametrize("order", ORDERS)
def test_digest_is_the_same_whoever_reads(mill, pipeline, order):
    args = [*pipeline.args, "--order", order, "--epochs", 3, "--threads", 2]
    want = mill.digest(*args, "--fetch", "direct")
    assert mill.digest(*args, "--fetch", "ahead") == want
    assert mill.digest(*args, "--fetch", "auto") == want
    assert mill.digest(*args, "--fetch", "ahead",
                       env={"MILLRACE_NO_URING": "1"}) == want


@pytest.mark.parametrize("env", [{}, {"MILLRACE_NO_URING": "1"}],
                         ids=["ring", "threads"])
@pytest.mark.parametrize("threads", [2, 5])
def test_sets_larger_than_what_is_read_ahead_keep_their_samples_apart(
        mill, tmp_path, threads, env):
    # Tiny samples, so that one worker overtakes another by thousands.
    x = tmp_path / "x.npy"
    np.save(x, np.arange(5000).reshape(-1, 1))
    args = [f"npy {x} | batch 16", "--epochs", 4]
    want = mill.digest(*args, "--fetch", "direct")
    for _ in range(3):
        assert mill.digest(*args, "--fetch", "ahead", "--threads", threads,
                           env=env) == want


def test_report_says_who_read(mill, pipelines):
    p = pipelines["ragged"]
    assert mill.json("run", p, "--fetch", "direct")["fetch"] == "direct"
    r = mill.json("run", p, "--fetch", "ahead")
    assert r["fetch"] in ("io_uring", "threads") and r["fetch_depth"] > 0
    assert mill.json("run", p, "--fetch", "ahead",
                     env={"MILLRACE_NO_URING": "1"})["fetch"] == "threads"


def test_files_larger_than_what_was_read_ahead_are_read_whole(mill,
                                                              tmp_path):
    for i, size in enumerate([10, 600_000, 131_072, 131_073, 0, 300_000]):
        (tmp_path / f"{i}.bin").write_bytes(bytes([i + 1]) * size)
    p = f"files {tmp_path} | batch 4"
    want = mill.digest(p, "--fetch", "direct", "--threads", 1)
    for env in ({}, {"MILLRACE_NO_URING": "1"}):
        assert mill.digest(p, "--fetch", "ahead", "--threads", 2,
                           env=env) == want
    r = mill.json("run", p, "--fetch", "ahead")
    assert r["bytes_read"] == 10 + 600_000 + 131_072 + 131_073 + 300_000


# ---- stop and go on ----

def stop_and_resume(mill, args, batches, tmp_path, first=(), then=()):
    """The digest of a run that was stopped after some batches."""
    c = tmp_path / "c"
    r = mill.json("run", *args, "--samples", samples_of(batches),
                  "--checkpoint", c, "--digest", *first)
    assert r["batches"] == batches and r["samples"] == samples_of(batches)
    return mill.digest(*args, "--resume", c, *then)


@pytest.mark.parametrize("batches", [1, 3, 6, 7, 8, 13, 14, 20])
def test_stop_and_resume_give_the_digest_of_one_run(mill, pipeline, batches,
                                                    tmp_path):
    args = [*pipeline.args, "--epochs", 3]
    assert stop_and_resume(mill, args, batches, tmp_path,
                           ["--threads", 2], ["--threads", 3]) == \
        mill.digest(*args, "--threads", 1)


@pytest.mark.parametrize("order", ORDERS)
def test_all_orders_resume_in_the_middle_of_an_epoch(mill, pipelines, order,
                                                     tmp_path):
    args = [pipelines["made"], "--epochs", 2, "--order", order, "--seed", 7]
    assert stop_and_resume(mill, args, 10, tmp_path) == mill.digest(*args)


def test_a_rank_resumes_its_own_share(mill, tmp_path):
    args = ["synthetic shape=3 count=100 | batch 8", "--rank", "1/3",
            "--epochs", 2]
    c = tmp_path / "c"
    mill("run", *args, "--samples", 24, "--checkpoint", c, "--digest")
    assert mill.digest(*args, "--resume", c) == mill.digest(*args)


def test_resume_after_the_last_batch_has_nothing_to_do(mill, pipelines,
                                                       tmp_path):
    c = tmp_path / "c"
    args = [pipelines["made"], "--epochs", 2]
    whole = mill.digest(*args, "--checkpoint", c)
    r = mill.json("run", *args, "--digest", "--resume", c)
    assert r["samples"] == 0 and r["digest"] == whole


def test_one_epoch_can_follow_another_by_checkpoints(mill, pipelines,
                                                     tmp_path):
    p, c = pipelines["ragged"], tmp_path / "c"
    mill("run", p, "--epochs", 1, "--checkpoint", c, "--digest")
    for n in (2, 3, 4):
        last = mill.digest(p, "--epochs", n, "--resume", c, "--checkpoint", c)
    assert last == mill.digest(p, "--epochs", 4)


def test_resume_keeps_the_seed_of_the_checkpoint(mill, pipelines, tmp_path):
    args = [pipelines["made"], "--epochs", 2]
    c = tmp_path / "c"
    mill("run", *args, "--samples", 32, "--seed", 5, "--checkpoint", c,
         "--digest")
    assert mill.digest(*args, "--resume", c) == \
        mill.digest(*args, "--seed", 5)


def test_a_run_that_stops_inside_a_batch_loses_no_sample(mill, pipelines,
                                                         tmp_path):
    p, c = pipelines["made"], tmp_path / "c"
    first = mill.json("run", p, "--samples", 20, "--checkpoint", c)
    then = mill.json("run", p, "--epochs", 1, "--resume", c)
    assert first["samples"] + then["samples"] == 100


def test_a_run_that_failed_resumes_with_the_batch_that_failed(mill, ragged,
                                                              tmp_path):
    # Batch 3 of 7 has a bad sample; once it is mended, the run goes on as
    # if nothing had been.
    names = sorted(p for p in ragged.rglob("*.bin"))
    late = tmp_path / "late.bin"
    names[3 * 16 + 5] = late
    (tmp_path / "list").write_text("".join(f"{n}\t1\n" for n in names))
    c = tmp_path / "c"
    args = [f"list {tmp_path}/list | batch 16", "--order", "sequential"]
    mill.fails("run", *args, "--checkpoint", c, "--digest", code=1,
               says="late.bin")
    late.write_bytes(b"here")
    assert mill.digest(*args, "--resume", c) == mill.digest(*args)


# ---- signals ----

@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("kind", ["slow", "ragged"])
def test_signal_ends_the_run_with_a_checkpoint_that_resumes(
        mill, pipelines, tmp_path, sig, kind):
    p = {"slow": "synthetic shape=4 count=100 cost=2ms | batch 16",
         "ragged": pipelines["ragged"]}[kind]
    c = tmp_path / "c"
    run = mill.start("run", p, "--epochs", 1_000_000, "--checkpoint", c,
                     "--digest", "--threads", 2)
    run.send_signal(sig)
    r = mill.finish(run)
    assert r.returncode == 0, r.stderr
    assert "(stopped)" in r.stdout and r.stderr == ""
    at = json.loads(c.read_text())
    until = ["--epochs", at["epoch"] + 1]
    assert mill.digest(p, *until, "--resume", c) == mill.digest(p, *until)


def test_json_says_stopped_after_a_signal_and_only_then(mill, tmp_path):
    p = "synthetic shape=4 count=100 cost=1ms | batch 10"
    run = mill.start("run", p, "--epochs", 1_000_000, "--json")
    run.send_signal(signal.SIGTERM)
    r = mill.finish(run)
    assert r.returncode == 0 and json.loads(r.stdout)["stopped"] is True
    assert mill.json("run", "synthetic shape=4 count=100 | batch 10")[
        "stopped"] is False


def test_seconds_end_a_run_cleanly(mill, tmp_path):
    c = tmp_path / "c"
    r = mill.json("run", "synthetic shape=4 count=100 | batch 10",
                  "--seconds", "300ms", "--checkpoint", c)
    assert r["stopped"] and r["samples"] > 0
    at = json.loads(c.read_text())
    assert at["epoch"] * 10 + at["batch"] == r["batches"]
