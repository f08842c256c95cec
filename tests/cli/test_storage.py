# SPDX-License-Identifier: Apache-2.0
"""--storage and --cold: what they refuse, that they change nothing but the
time, and that the report says so."""
import os

import pytest

OK = "synthetic shape=4 count=100 | batch 10"
SLOW = "latency=2ms,iops=2000,bw=100M,stream=50M"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """200 files of 20,000 bytes."""
    root = tmp_path_factory.mktemp("storage")
    for i in range(200):
        (root / f"{i:03}").write_bytes(os.urandom(20_000))
    return root


@pytest.mark.parametrize("profile,says", [
    ("cehp-hdd", "did you mean 'ceph-hdd'?"),
    ("s4", "want hdd, ssd, nvme, ceph-hdd or s3"),
    ("nothing", "storage=nothing: unknown 'nothing'"),
    ("hdd,latencies=5ms", "did you mean 'latency'?"),
    ("bw=200Q", "bw=200Q: want a size"),
    ("latency=5d", "latency=5d: want a time"),
    ("iops=-3", "iops=-3: want"),
    ("bw=1G,ssd", "a preset comes first"),
    ("hdd,", "'' is no limit"),
])
def test_nonsense_profiles_are_refused(mill, profile, says):
    mill.fails("run", OK, "--storage", profile, code=2, says=says)
    mill.fails("explain", OK, "--storage", profile, code=2, says=says)


@pytest.mark.parametrize("fetch", ["direct", "ahead", "auto"])
@pytest.mark.parametrize("env", [{}, {"MILLRACE_NO_URING": "1"}])
def test_storage_and_cold_do_not_change_the_batches(mill, files, fetch, env):
    pipe = f"files {files} | batch 16"
    want = mill.digest(pipe, "--seed", 3)
    for more in (["--cold"], ["--storage", SLOW],
                 ["--cold", "--storage", "s3,latency=1ms"]):
        assert mill.digest(pipe, "--seed", 3, "--fetch", fetch, "--threads", 2,
                           *more, env=env) == want


def test_storage_that_gives_all_it_has_is_the_verdict_beside_dear_steps(
        mill, files):
    """Of each 5 ms that a thread has for a sample, 2.9 are work: more threads
    would be of no use."""
    for _ in range(4):      # whoever else wants a CPU makes the steps dearer
        r = mill.json("run", f"files {files} | burn us=2900 | batch 16",
                      "--plugins", mill.build / "tests" / "work.so",
                      "--storage", "latency=1ms,iops=400", "--fetch", "ahead",
                      "--threads", 2, "--epochs", 3)
        assert r["budget"]["steps"] > r["budget"]["wait_in"]
        if r["verdict"]["bottleneck"] == "storage":
            break
    assert r["verdict"]["bottleneck"] == "storage", r["verdict"]


@pytest.mark.parametrize("fetch", ["direct", "ahead", "auto"])
def test_slow_storage_is_the_verdict_and_is_reported(mill, files, fetch):
    r = mill.json("run", f"files {files} | batch 16", "--storage",
                  "latency=4ms,iops=400,bw=100M", "--fetch", fetch,
                  "--threads", 2)
    assert r["verdict"]["bottleneck"] == "storage"
    assert "allows" in r["verdict"]["evidence"]
    assert r["storage"] == "latency=4ms,iops=400,bw=100M"
    allows = r["storage_allows"]
    assert allows["iops"] == 400 and allows["latency"] == 0.004
    assert allows["bw"] == 100 * 2**20 and allows["stream"] == 0
    assert allows["requests"] >= 200
    assert abs(allows["mb_per_s"] - 8) < 0.01
    # never faster than the storage, however busy the machine
    assert r["seconds"] >= 199 / 400
    assert 0 < allows["used"] < 1.03
    assert (r["fetch"] == "direct") == (fetch == "direct")


def test_reading_ahead_begins_by_itself_under_a_slow_profile(mill, files):
    r = mill.json("run", f"files {files} | batch 16", "--storage",
                  "latency=3ms", "--threads", 2, "--epochs", 3)
    assert r["fetch"] != "direct" and r["budget"]["wait_in"] > 0


def test_storage_that_takes_a_fifth_of_the_time_is_read_ahead(mill, files):
    r = mill.json("run", f"files {files} | burn us=4000 | batch 16",
                  "--plugins", mill.build / "tests" / "work.so", "--storage",
                  "latency=1ms", "--threads", 2, "--epochs", 2)
    assert r["fetch"] != "direct"


def test_one_thread_finds_out_within_its_first_batch(mill, tmp_path):
    # of any lengths, which one worker would rather not share out
    for i in range(128):
        (tmp_path / f"{i:03}.bin").write_bytes(b"x" * (1000 + i))
    r = mill.json("run", f"files {tmp_path} | batch 64", "--storage",
                  "latency=4ms", "--threads", 1, "--samples", 128)
    assert r["fetch"] != "direct"
    # alone it would have waited for each
    assert r["seconds"] < 128 * 0.004
    assert r["fetch_depth"] > 1


def test_large_files_of_any_length_are_one_request_each(mill, tmp_path):
    for i in range(40):     # lengths that nobody guesses
        (tmp_path / f"{i:02}.bin").write_bytes(bytes(550_000 + 2 ** (i // 2)))
    r = mill.json("run", f"files {tmp_path} | batch 8", "--storage",
                  "latency=1ms", "--fetch", "ahead", "--epochs", 2)
    assert r["samples"] == 80 and r["storage_allows"]["requests"] == 80


def test_the_end_of_a_set_is_read_by_few_requests(mill, tmp_path):
    out = tmp_path / "set"
    mill("prepare", "synthetic shape=10000 dtype=u8 count=250", "--out", out)
    for order, most in (("sequential", 3), ("block", 18)):
        r = mill.json("run", f"records {out} | batch 10", "--storage",
                      "latency=1ms", "--order", order, "--fetch", "ahead")
        assert r["samples"] == 250
        # 104 make a megabyte; blocks are a 16th of the set, and of the one
        # across its end two parts are read
        assert r["storage_allows"]["requests"] <= most, order


def test_mapped_samples_are_shaped_as_well(mill, tmp_path):
    import numpy as np
    np.save(tmp_path / "a.npy", np.zeros((100, 1000), np.uint8))
    r = mill.json("run", f"npy {tmp_path}/a.npy map=yes | batch 10",
                  "--storage", "iops=1000", "--fetch", "direct")
    assert r["storage_allows"]["requests"] == 100 and r["seconds"] > 0.09


def test_without_a_profile_the_key_is_empty(mill):
    r = mill.json("run", OK)
    assert r["storage"] == "" and "storage_allows" not in r
    assert "cold" not in r


def test_the_report_names_profile_and_share(mill, files):
    r = mill("run", f"files {files} | batch 16", "--storage", "iops=1000")
    assert "storage as iops=1000, which allows 20.0 MB/s" in r.stdout


def test_made_up_samples_count_as_reads_under_a_profile(mill):
    r = mill.json("run", "synthetic shape=100000 count=200 | batch 10",
                  "--storage", "bw=40M")
    assert r["bytes_read"] >= 200 * 100000
    assert r["verdict"]["bottleneck"] == "storage"
    assert 0.45 <= r["seconds"] <= 2     # 20 MB at 40 MiB/s


def test_made_up_samples_are_read_ahead_and_so_hide_the_latency(mill):
    r = mill.json("run", "synthetic shape=1000 count=2000 | batch 10",
                  "--storage", "latency=20ms", "--threads", "2")
    # 64 in flight; one after another by two threads: 20 s
    assert r["seconds"] < 5


def test_there_is_nothing_to_evict_of_a_made_up_data_set(mill):
    r = mill("run", OK, "--storage", "hdd", "--cold", "--samples", "64")
    assert "--cold: no file was evicted" in r.stderr


def test_cold_says_what_was_evicted(mill, files):
    if on_tmpfs(files):
        pytest.skip("the files are on tmpfs, which keeps them in memory")
    r = mill("run", f"files {files} | batch 16", "--cold")
    assert "evicted 200 files, 3.8 MB; 0 % stayed" in r.stdout
    assert r.stderr == ""
    cold = mill.json("run", f"files {files} | batch 16", "--cold")["cold"]
    assert cold == {"files": 200, "bytes": 4_000_000, "stayed": 0,
                    "unknown": 0}


def test_cold_warns_when_files_stay(mill):
    shm = "/dev/shm"
    if not on_tmpfs(shm) or not os.access(shm, os.W_OK):
        pytest.skip("no tmpfs in /dev/shm")
    path = f"{shm}/millrace-test-{os.getpid()}.tsv"
    try:
        with open(path, "w") as f:
            f.write("x\n" * 10_000)
        with open(path + ".list", "w") as f:
            f.write(f"{path}\t1\n")
        r = mill("run", f"list {path}.list | batch 1", "--cold")
        assert "(100 %) stayed in the page cache" in r.stderr
        assert "100 % stayed" in r.stdout
    finally:
        for p in (path, path + ".list"):
            if os.path.exists(p):
                os.unlink(p)


def test_explain_evicts_nothing(mill, files):
    mill("explain", f"files {files} | batch 16", "--cold")


def on_tmpfs(path):
    best = ("", "")
    with open("/proc/mounts") as f:
        for line in f:
            _, where, kind, *_ = line.split()
            if os.path.realpath(path).startswith(where) and \
                    len(where) >= len(best[0]):
                best = (where, kind)
    return best[1] in ("tmpfs", "ramfs")


@pytest.mark.parametrize("fetch", ["direct", "ahead"])
@pytest.mark.parametrize("order", ["shuffle", "sequential"])
def test_a_page_cache_that_holds_all_answers_from_then_on(mill, files, fetch,
                                                          order):
    pipe = f"files {files} | batch 16"
    args = ["--fetch", fetch, "--order", order, "--epochs", 3, "--threads", 2]
    r = mill.json("run", pipe, "--digest", *args, "--storage",
                  "latency=1ms,iops=2000,cache=8M")
    assert r["digest"] == mill.digest(pipe, *args)
    allows = r["storage_allows"]
    assert allows["cache"] == 8 << 20
    # in the air at the same time, a file may be missed by two epochs
    assert 200 <= allows["requests"] <= 210
    assert allows["requests"] + allows["cache_hits"] == 600
    assert allows["cache_bytes"] == 20000 * allows["cache_hits"]
    out = mill("run", pipe, *args, "--storage", "iops=9000,cache=8M").stdout
    assert "with a page cache of 8.0 MB: 66." in out


@pytest.mark.parametrize("fetch", ["direct", "ahead"])
def test_half_a_page_cache_thrashes_where_half_a_cache_does_not(mill, files,
                                                                fetch):
    """In sequential order an LRU has no hit (but for reads that overtake
    others), in shuffled order 15 %; `cache` has half in each."""
    args = ["--fetch", fetch, "--epochs", 6, "--threads", 1, "--storage",
            "iops=100000,cache=2000000"]
    for order, low, high in (("sequential", 0, 0.03),
                             ("shuffle", 0.08, 0.18)):
        pipe, more = f"files {files} | batch 16", ["--order", order]
        r = mill.json("run", pipe, *args, *more)["storage_allows"]
        hits = r["cache_hits"] / (r["cache_hits"] + r["requests"])
        assert low <= hits <= high
        c = mill.json("run", f"files {files} | cache ram={100 * 20096} | "
                      "batch 16", *args[:-2], *more)["cache"]
        assert c["hits"] == 500 and c["samples"] == 100
