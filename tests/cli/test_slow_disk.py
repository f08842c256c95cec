# SPDX-License-Identifier: Apache-2.0
"""A disk that is slow for real: a loop device whose reads a v1 blkio cgroup
throttles. Nothing here depends on how busy the machine is but by far: the
exact figures are those of bench/storage.py."""
import contextlib
import os
import shutil
import subprocess
import time

import pytest

CGROUPS = "/sys/fs/cgroup/blkio"
SIZE, FILES = 100_000, 200
RATE = 20_000_000
IOPS = 400
SECONDS = SIZE * FILES / RATE
PATIENCE = 60


def missing():
    if os.geteuid() != 0:
        return "needs root"
    limit = os.path.join(CGROUPS, "blkio.throttle.read_iops_device")
    if not os.path.exists(limit):
        return f"no v1 blkio cgroup ({limit})"
    for tool in ("losetup", "mkfs.ext4", "mount", "umount"):
        if not shutil.which(tool):
            return f"{tool} is missing"
    if not os.path.exists("/dev/loop-control"):
        return "no loop devices"
    return None


def call(*cmd):
    r = subprocess.run(list(map(str, cmd)), text=True, capture_output=True,
                       timeout=PATIENCE)
    if r.returncode:
        pytest.skip(f"{cmd[0]} does not work here: {r.stderr.strip()}")
    return r.stdout.strip()


def again(what):
    """Tries until it works, for a second: the kernel lets go late."""
    for _ in range(20):
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            what()
            return
        time.sleep(0.05)


@pytest.fixture(scope="module")
def disk(tmp_path_factory):
    """The mounted files, and how to run a command under the throttle."""
    why = missing()
    if why:
        pytest.skip(why)
    top = tmp_path_factory.mktemp("disk")
    image, mnt, data = top / "image", top / "mnt", top / "data"
    group = f"{CGROUPS}/millrace-test-{os.getpid()}"
    mnt.mkdir()
    (data / "a").mkdir(parents=True)
    for i in range(FILES):
        (data / "a" / f"{i:04}").write_bytes(os.urandom(SIZE))
    with contextlib.ExitStack() as undo:
        with open(image, "wb") as f:
            os.posix_fallocate(f.fileno(), 0, FILES * SIZE * 2 + (16 << 20))
        call("mkfs.ext4", "-q", "-F", "-d", data, image)
        device = call("losetup", "-f", "--show", "--direct-io=on",
                      "--read-only", image)
        undo.callback(again, lambda: subprocess.run(
            ["losetup", "-d", device], check=True))
        call("mount", "-o", "ro,noload", device, mnt)
        undo.callback(again, lambda: subprocess.run(["umount", mnt],
                                                    check=True))
        try:
            os.mkdir(group)
            undo.callback(again, lambda: os.rmdir(group))
            number = os.stat(device).st_rdev
            where = f"{os.major(number)}:{os.minor(number)}"
            for key, v in (("iops", IOPS), ("bps", RATE)):
                with open(f"{group}/blkio.throttle.read_{key}_device",
                          "w") as f:
                    f.write(f"{where} {v}\n")
        except OSError as e:
            pytest.skip(f"the cgroup cannot be set up: {e}")
        yield mnt, group


def run(mill, disk, *args, env=None):
    """millrace run in the cgroup; its JSON."""
    mnt, group = disk
    script = 'echo $$ > "$0/cgroup.procs" && exec "$@"'
    r = subprocess.run(
        ["sh", "-c", script, group, str(mill.bin), "run", "--json",
         f"files {mnt}/a | batch 20", "--threads", "2", *args],
        text=True, capture_output=True, timeout=PATIENCE,
        env=dict(os.environ, **(env or {})))
    assert r.returncode == 0, r.stderr
    import json
    return json.loads(r.stdout)


@pytest.mark.parametrize("env", [{}, {"MILLRACE_NO_URING": "1"}])
@pytest.mark.parametrize("fetch", ["auto", "ahead"])
def test_a_slow_disk_is_used_to_the_full(mill, disk, fetch, env):
    r = run(mill, disk, "--cold", "--fetch", fetch, env=env)
    assert r["samples"] == FILES and r["bad_samples"] == 0
    assert r["cold"]["files"] == FILES and r["cold"]["stayed"] == 0
    # Was it evicted? Then it cannot be faster than the throttle.
    assert r["seconds"] > 0.7 * SECONDS, r
    assert r["seconds"] < SECONDS / 0.6, r
    assert r["verdict"]["bottleneck"] == "storage", r["verdict"]


def test_without_cold_the_second_run_comes_from_memory(mill, disk):
    run(mill, disk)
    assert run(mill, disk)["seconds"] < 0.5 * SECONDS
