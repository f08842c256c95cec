# SPDX-License-Identifier: Apache-2.0
"""doctor: what the machine offers. Sizes and times are small; that figures
are right is a matter of bench/, that they are there, or say why not, of these
tests."""
import contextlib
import json
import math
import os
import signal
import subprocess
import time

import pytest

from conftest import PATIENCE

QUICK = ("--size", "2M", "--seconds", "1")
KINDS = ["sequential", "random_4k", "random_128k", "small_files"]


@contextlib.contextmanager
def mounted(disk, options):
    disk.mkdir()
    if os.geteuid() != 0 or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", disk],
            capture_output=True).returncode:
        pytest.skip("cannot mount here")
    try:
        yield disk
    finally:
        subprocess.run(["umount", disk], check=True)


def numbers(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [n for v in value for n in numbers(v)]
    return [value] if isinstance(value, (int, float)) else []


def about(d, topic):
    return [a for a in d["advice"] if a["topic"] == topic]


@pytest.fixture(scope="module")
def report(mill, tmp_path_factory):
    """One report that several tests look at, and the folder it is about."""
    folder = tmp_path_factory.mktemp("doctor")
    start = time.time()
    d = mill.json("doctor", folder, *QUICK)
    assert time.time() - start < 30
    d["folder"] = folder
    return d


def test_json_has_all_parts_and_no_number_that_is_none(report):
    assert {"storage", "memory", "codecs", "kernel", "limits", "topology",
            "advice", "seconds"} <= set(report)
    assert len(numbers(report)) > 100
    assert all(math.isfinite(n) for n in numbers(report))


def test_storage_is_measured_in_each_way(report):
    s = report["storage"]
    assert s["dir"] == str(report["folder"]) and s["reason"] is None
    assert s["file_bytes"] == 2 << 20 and s["files"] == (2 << 20) // 102400
    assert s["method"] == "buffered" and s["filesystem"]
    runs = s["runs"]
    assert [r["name"] for r in runs] == [k for k in KINDS for _ in "1n"]
    for one, many in zip(runs[::2], runs[1::2]):
        assert one["threads"] == 1 and many["threads"] >= 4
    for r in runs:
        assert r["reason"] is None and r["requests"] > 0
        assert r["bytes"] == r["requests"] * r["block"]
        assert 0 < r["p50_us"] <= r["p99_us"]
        assert r["mb_per_s"] == pytest.approx(
            r["iops"] * r["block"] / 1e6, rel=0.01)
        assert r["resident"] is None or 0 <= r["resident"] <= 1


def test_measured_storage_can_be_imitated(mill, report, ids):
    profile = report["storage"]["profile"]
    run = mill.json("run", f"npy {ids} | batch 16", "--storage", profile)
    assert run["samples"] == 100


def test_memory_and_codecs_have_speeds(mill, report):
    m = report["memory"]
    assert m["reason"] is None and m["usable"] <= m["total"]
    for key in ("read_1", "read_n", "copy_1", "copy_n"):
        assert m[key + "_gb_per_s"] > 0
    listed = {line.split()[0] for line in
              mill("list", "codecs").stdout.splitlines()[1:] if line[:1] == " "
              and line[2:3] != " "}
    assert {c["codec"] for c in report["codecs"]} == listed
    for c in report["codecs"]:
        assert c["reason"] is None
        assert c["pack_mb_per_s"] > 0 and c["unpack_mb_per_s"] > 0
        assert c["ratio"] == 1 if c["codec"] == "none" else c["ratio"] > 1


def test_limits_are_those_of_the_process(mill, tmp_path):
    r = subprocess.run(
        ["sh", "-c", 'ulimit -Sn 200; exec nice -n 3 "$0" doctor "$@" --json',
         str(mill.bin), str(tmp_path), *QUICK], text=True,
        capture_output=True, timeout=PATIENCE)
    assert r.returncode == 0, r.stderr
    d = json.loads(r.stdout)
    assert d["limits"]["open_files"] == 200
    assert d["limits"]["nice"] == os.nice(0) + 3
    found, = about(d, "open files")
    assert found["severity"] == "warning" and "ulimit" in found["remedy"]
    assert d["limits"]["cpus_allowed"] == len(os.sched_getaffinity(0))


def test_what_does_not_work_says_why(report):
    for name in ("io_uring", "hardware_events", "software_events"):
        f = report["kernel"][name]
        assert f["works"] is True or (f["reason"] and f["remedy"])
    t = report["topology"]
    assert t["reason"] or (t["threads"] >= t["cores"] >= 1 and
                           len(t["nodes"]) == t["numa_nodes"])
    for a in report["advice"]:
        assert a["severity"] in ("ok", "note", "warning") and a["what"]
        assert a["severity"] == "ok" or (a["why"] and a["remedy"])


def test_text_has_lines_as_fio_writes_them(mill, tmp_path, report):
    out = mill("doctor", *QUICK, "--direct", cwd=tmp_path).stdout
    assert out.count("IOPS=") == 8 and out.count("BW=") == 8
    assert "--storage bw=" in out and "\nadvice\n" in out
    for word in ("machine", "limits", "storage", "memory", "codecs"):
        assert f"\n{word} " in "\n" + out
    assert "O_DIRECT" in out
    assert os.listdir(tmp_path) == [] == os.listdir(report["folder"])


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM,
                                 signal.SIGHUP])
def test_signal_leaves_no_files_behind(mill, tmp_path, sig):
    # a run of tests may have it ignored
    p = mill.start("doctor", tmp_path, "--size", "64M", preexec_fn=lambda:
                   signal.signal(signal.SIGHUP, signal.SIG_DFL))
    while not os.listdir(tmp_path) and p.poll() is None:
        time.sleep(0.01)
    time.sleep({signal.SIGINT: 0.02, signal.SIGTERM: 0.4}.get(sig, 1))
    p.send_signal(sig)
    p.send_signal(sig)
    r = mill.finish(p)
    assert r.returncode == 1 and r.stdout == ""
    assert "stopped while measuring" in r.stderr
    assert os.listdir(tmp_path) == []


def test_started_by_nohup_it_outlives_the_terminal(mill, tmp_path):
    p = mill.start("doctor", tmp_path, *QUICK, preexec_fn=lambda:
                   signal.signal(signal.SIGHUP, signal.SIG_IGN))
    p.send_signal(signal.SIGHUP)
    assert mill.finish(p).returncode == 0


def test_missing_and_wrong_places_are_errors(mill, tmp_path):
    mill.fails("doctor", tmp_path / "no", code=1,
               says=[str(tmp_path / "no"), "No such file", "name the"])
    (tmp_path / "file").write_text("")
    mill.fails("doctor", tmp_path / "file", code=1, says="not a directory")
    mill.fails("doctor", "a", "b", code=2, says="one directory")
    mill.fails("doctor", tmp_path, "--size", "1K", code=2, says="1M to 64G")
    mill.fails("doctor", tmp_path, "--size", "60G", "--seconds", "0", code=2)


def test_place_that_cannot_be_written_is_told_and_the_rest_goes_on(
        mill, tmp_path):
    with mounted(tmp_path / "ro", "ro") as disk:
        d = mill.json("doctor", disk, "--seconds", "0.5")
    assert "read-only" in d["storage"]["reason"]
    assert d["storage"]["profile"] is None
    for r in d["storage"]["runs"]:
        assert r["iops"] is None and r["mb_per_s"] is None and r["reason"]
    assert d["memory"]["read_1_gb_per_s"] > 0
    assert about(d, "storage")[0]["remedy"]


def test_memory_is_no_disk(mill, tmp_path):
    with mounted(tmp_path / "ram", "size=64m") as disk:
        d = mill.json("doctor", disk, *QUICK)
        assert os.listdir(disk) == []
        mill.fails("doctor", disk, "--size", "100M", code=1,
                   says=["100 MB do not fit", "--size"])
    assert d["storage"]["memory"] is True
    assert d["storage"]["runs"][0]["resident"] in (None, 1)
    assert "memory" in about(d, "storage")[0]["what"]


def test_full_disk_is_told(mill, tmp_path):
    with mounted(tmp_path / "full", "size=1m") as disk:
        (disk / "much").write_bytes(b"x" * 900_000)
        d = mill.json("doctor", disk, "--seconds", "0.5")
        assert os.listdir(disk) == ["much"]
    assert "too little to measure with" in d["storage"]["reason"]
    assert about(d, "storage")[0]["severity"] == "warning"
    assert d["storage"]["runs"][0]["p99_us"] is None
