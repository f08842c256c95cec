# SPDX-License-Identifier: Apache-2.0
"""Threads, signals, forks and memory."""
import gc
import os
import resource
import signal
import sys
import threading
import time

import millrace
import pytest

# A batch takes one worker 1.2 s: next() waits.
SLOW = "synthetic count=1000 shape=2 cost=300ms | batch 4"
FAST = "synthetic count=4096 shape=64 | batch 4"


def wait_until(condition, seconds=10):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def in_thread(call):
    """Starts call in a thread; the list has its result or exception."""
    result = []

    def body():
        try:
            result.append(call())
        except BaseException as e:
            result.append(e)
    t = threading.Thread(target=body, daemon=True)
    t.start()
    return t, result


def test_other_threads_run_while_one_waits():
    with millrace.Loader(SLOW, threads=1) as loader:
        t, result = in_thread(lambda: next(iter(loader)))
        ticks = 0
        while t.is_alive():
            time.sleep(0.001)
            ticks += 1
        assert result[0].count == 4
        assert ticks > 100


def test_two_threads_on_one_loader_get_an_error_not_a_crash():
    with millrace.Loader(SLOW, threads=1) as loader:
        t, result = in_thread(lambda: next(iter(loader)))
        time.sleep(0.3)
        for call in (lambda: next(iter(loader)), loader.state_dict,
                     loader.bad_samples, loader.close,
                     lambda: loader.load_state_dict(
                         dict.fromkeys("epoch batch seed samples pipeline "
                                       "rank ranks".split(), 0))):
            with pytest.raises(RuntimeError, match="another thread"):
                call()
        assert loader.stats()["samples"] == 0     # this one may
        t.join()
        assert result[0].count == 4


def test_many_threads_hammering_one_loader_lose_no_batch():
    loader = millrace.Loader(FAST, epochs=1, order="sequential")
    got, lock = [], threading.Lock()

    def work():
        it = iter(loader)
        while True:
            try:
                b = next(it)
            except StopIteration:
                return
            except RuntimeError:
                continue
            with lock:
                got.append(b.number)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(got) == list(range(1024))


@pytest.mark.parametrize("pipe", [SLOW, FAST])
def test_ctrl_c_ends_a_loop_promptly(script, pipe):
    p = script(f"""
import millrace, signal
# a shell starts jobs in the background with Ctrl-C ignored
signal.signal(signal.SIGINT, signal.default_int_handler)
loader = millrace.Loader({pipe!r}, threads=1)
print("ready", flush=True)
while True:
    for batch in loader:
        pass
""")
    assert p.stdout.readline() == "ready\n"
    time.sleep(0.3)
    start = time.monotonic()
    p.send_signal(signal.SIGINT)
    _, err = p.communicate(timeout=20)
    # Leaving closes the loader, whose worker finishes its sample.
    assert time.monotonic() - start < 3
    assert "KeyboardInterrupt" in err
    assert p.returncode == -signal.SIGINT


def test_a_signal_handler_may_save_the_state_and_close(script):
    p = script(f"""
import millrace, signal, sys
loader = millrace.Loader({SLOW!r}, threads=1)
def stop(*_):
    print(loader.state_dict()["batch"])
    loader.close()
signal.signal(signal.SIGTERM, stop)
print("ready", flush=True)
try:
    next(iter(loader))
except millrace.StateError as e:
    print(e)
""")
    assert p.stdout.readline() == "ready\n"
    time.sleep(0.3)
    p.send_signal(signal.SIGTERM)
    out, err = p.communicate(timeout=20)
    assert out == "0\nthe loader is closed\n", err


FORK = """
import gc, millrace, os, sys, threading, time
loader = millrace.Loader(sys.argv[1], threads=2)
it = iter(loader)
if sys.argv[2] == "busy":
    threading.Thread(target=lambda: next(it), daemon=True).start()
    time.sleep(0.3)
else:
    batch = next(it)
pid = os.fork()
if pid == 0:
    try:
        next(it)
        os._exit(1)
    except millrace.StateError as e:
        print(e, flush=True)
    batch = None
    del it, loader
    gc.collect()
    with millrace.Loader("synthetic count=8 shape=2 | batch 4") as other:
        assert len(list(other)) == 2
    sys.exit(0)
_, status = os.waitpid(pid, 0)
print("child", os.waitstatus_to_exitcode(status), flush=True)
if sys.argv[2] != "busy":
    assert next(it).count == 4
"""


@pytest.mark.parametrize("pipe, mode", [(FAST, "idle"), (SLOW, "busy")])
def test_a_forked_child_gets_an_error_and_ends(script, pipe, mode):
    p = script(FORK, pipe, mode)
    out, err = p.communicate(timeout=30)
    assert "fork" in out and "child 0" in out, out + err
    assert p.returncode == 0, err


def rss():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * resource.getpagesize()


def skip_with_sanitizers():
    if "san.so" in os.environ.get("LD_PRELOAD", ""):
        pytest.skip("sanitizers keep freed memory")


def test_memory_is_stable_over_thousands_of_batches():
    skip_with_sanitizers()
    loader = millrace.Loader("synthetic count=4000 shape=1000 | batch 4",
                             threads=2, memory="1M")

    def epoch():
        for batch in loader:
            batch["data"], batch.indices, batch.sample_keys, batch.items()
            batch.samples("data"), repr(batch), batch.get("none")
            batch.tensor("data").__dlpack__()
            memoryview(batch.tensor("label")), list(batch)
            with pytest.raises(KeyError):
                batch["none"]
        loader.stats(), loader.class_to_idx, repr(loader)
        loader.bad_samples(), loader.load_state_dict(loader.state_dict())
        for wrong in ({}, {"epoch": 2**64}, {"epoch": "x"}):
            with pytest.raises(ValueError):
                loader.load_state_dict(wrong)
    for _ in range(3):
        epoch()
    gc.collect()
    before, objects = rss(), sys.getallocatedblocks()
    for _ in range(5):
        epoch()
    gc.collect()
    assert sys.getallocatedblocks() - objects < 100
    # 20,000 samples of 1 KB were delivered; a leak of one in ten shows
    assert rss() - before < 2 << 20


LEAVE = """
import gc, millrace, os, resource, sys
def rss():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * resource.getpagesize()
def fails(*args, **options):
    try:
        millrace.Loader(*args, **options)
    except (millrace.PipelineError, TypeError):
        return
    raise AssertionError
def once():
    with millrace.Loader("synthetic count=64 shape=1000 | batch 8",
                         plugins=[]) as loader:
        list(loader)
    fails("nonsense | batch 8")
    fails("x", thread=1)
    fails("x", plugins=[3])
    millrace.explain("synthetic shape=2 | batch 8", json=True)
    millrace.list()
for _ in range(50):
    once()
gc.collect()
before, fds = rss(), len(os.listdir("/proc/self/fd"))
objects = sys.getallocatedblocks()
for _ in range(200):
    once()
gc.collect()
print(rss() - before, sys.getallocatedblocks() - objects,
      len(os.listdir("/proc/self/fd")) - fds,
      len(os.listdir("/proc/self/task")))
"""


def test_loaders_leave_nothing_behind(script, monkeypatch):
    skip_with_sanitizers()
    # The threads of each loader would have heaps of their own.
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")
    out, err = script(LEAVE).communicate(timeout=60)
    assert err == ""
    memory, objects, files, tasks = map(int, out.split())
    assert memory < 1 << 20 and objects < 100 and files == 0 and tasks == 1


def test_reference_counts_are_balanced(npy):
    loader = millrace.Loader(f"npy {npy} | batch 8")
    batch = next(iter(loader))
    key = "".join(["da", "ta"])

    def use():
        batch["data"], batch.tensor(key), batch.samples(key), dict(batch)
        batch.shapes(key), batch.get("x", key), list(batch.items())
        batch.indices, key in batch, len(loader), iter(loader)
        loader.load_state_dict(loader.state_dict())
    use()
    things = (loader, batch, key, millrace.Batch, millrace.Tensor,
              millrace.Loader, type(iter(loader)))
    gc.collect()
    before = [sys.getrefcount(t) for t in things]
    objects = sys.getallocatedblocks()
    for _ in range(100):
        use()
    gc.collect()
    assert sys.getallocatedblocks() - objects < 50
    after = [sys.getrefcount(t) for t in things]
    assert max(a - b for a, b in zip(after, before)) < 50


def test_the_interpreter_may_end_with_a_loader_running(script):
    p = script(f"""
import millrace
loader = millrace.Loader({FAST!r})
it = iter(loader)
batch = next(it)
keep = batch["data"]
""")
    _, err = p.communicate(timeout=20)
    assert p.returncode == 0 and err == ""
