# SPDX-License-Identifier: Apache-2.0
"""Cold data on slow storage: what share of its speed each --fetch gets.

Two kinds of storage. A loop device whose reads a v1 blkio cgroup throttles
(requests/s and bytes/s, no latency of its own), and slowfs (latency and
bytes/s). Both are mounted anew before each run, so that nothing is cached.
"""
import contextlib
import os
import shutil
import subprocess
import time

import data
from common import Failed, interleave, output, output_json, say

QUESTION = "what share of slow storage does each --fetch get?"
SIZE = 100_000
PAGES = 102_400         # what reading such a file takes from the disk
MODES = ("direct", "ahead", "auto")
CGROUPS = "/sys/fs/cgroup/blkio"


def unmount(where):
    for _ in range(20):
        if not os.path.ismount(where):
            return
        subprocess.run(["umount", where], stderr=subprocess.DEVNULL)
        time.sleep(0.05)
    subprocess.run(["umount", "-l", where])


class Throttled:
    """An ext4 image on a loop device that a cgroup slows down."""

    def __init__(self, env, iops, rate, folders, per_folder):
        self.env, self.iops, self.rate = env, iops, rate
        self.folders, self.per_folder = folders, per_folder
        self.mnt = os.path.join(env.data, "mnt")
        self.image = os.path.join(env.data,
                                  f"disk-{folders}x{per_folder}.img")
        self.group = os.path.join(CGROUPS, f"millrace-bench-{os.getpid()}")
        self.device = None
        # whole pages are read
        self.allowed = min(rate * SIZE / PAGES, iops * SIZE) / 1e6

    @staticmethod
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

    def make_image(self):
        if os.path.exists(self.image):
            return
        say(f"  making {self.image}")
        n = self.folders * self.per_folder
        size = n * (SIZE + 8192) * 5 // 4 + (32 << 20)
        data.need(self.env, size)
        part = self.image + ".part"
        with open(part, "wb") as f:
            os.posix_fallocate(f.fileno(), 0, size)
        output(["mkfs.ext4", "-q", "-F", part])
        output(["mount", "-o", "loop", part, self.mnt])
        try:
            output([self.env.tool("make_files"),
                    os.path.join(self.mnt, "files"), str(self.folders),
                    str(self.per_folder), str(SIZE), str(SIZE)])
        finally:
            unmount(self.mnt)
        os.rename(part, self.image)

    def __enter__(self):
        try:
            os.makedirs(self.mnt, exist_ok=True)
            self.make_image()
            self.device = output(["losetup", "-f", "--show", "--direct-io=on",
                                  "--read-only", self.image]).strip()
            os.mkdir(self.group)
            number = os.stat(self.device).st_rdev
            where = f"{os.major(number)}:{os.minor(number)}"
            for key, v in (("iops", self.iops), ("bps", self.rate)):
                with open(f"{self.group}/blkio.throttle.read_{key}_device",
                          "w") as f:
                    f.write(f"{where} {v}\n")
        except OSError as e:
            self.__exit__()
            raise Failed(f"throttled device: {e}") from None
        except BaseException:
            self.__exit__()
            raise
        return self

    def fresh(self):
        """Mount anew, cold; where the files are."""
        unmount(self.mnt)
        output(["mount", "-o", "ro,noload", self.device, self.mnt])
        return os.path.join(self.mnt, "files")

    def inside(self, cmd):
        return ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"',
                self.group, *cmd]

    def __exit__(self, *_):
        unmount(self.mnt)
        if self.device:
            subprocess.run(["losetup", "-d", self.device])
            self.device = None
        for _ in range(20):         # until its last process is gone
            if not os.path.isdir(self.group):
                break
            with contextlib.suppress(OSError):
                os.rmdir(self.group)
                break
            time.sleep(0.05)


class Latent:
    """slowfs: each read answered after a while, through one line."""

    def __init__(self, env, latency, rate, folders, per_folder):
        self.env = env
        self.mnt = os.path.join(env.data, "mnt")
        self.args = [str(folders), str(per_folder), str(SIZE),
                     str(int(latency * 1e6)), str(rate)]
        self.server = None
        self.allowed = rate / 1e6

    @staticmethod
    def missing():
        if os.geteuid() != 0:
            return "needs root"
        if not os.path.exists("/dev/fuse"):
            return "no /dev/fuse"
        return None

    def __enter__(self):
        os.makedirs(self.mnt, exist_ok=True)
        return self

    def fresh(self):
        self.__exit__()
        self.server = subprocess.Popen(
            [self.env.tool("slowfs"), self.mnt, *self.args],
            stderr=subprocess.PIPE, text=True)
        for _ in range(200):
            if os.path.ismount(self.mnt):
                return self.mnt
            if self.server.poll() is not None:
                break
            time.sleep(0.01)
        raise Failed(f"slowfs: {self.server.stderr.read().strip()}"
                     if self.server.poll() is not None else
                     "slowfs does not mount")

    def inside(self, cmd):
        return cmd

    def __exit__(self, *_):
        unmount(self.mnt)
        if not self.server:
            return
        try:
            self.server.wait(5)
        except subprocess.TimeoutExpired:
            self.server.kill()
            self.server.wait()
        self.server.stderr.close()
        self.server = None


def jobs_on(env, disk, label):
    def bare(threads):
        def job():
            cmd = [env.tool("bare_files"), disk.fresh(), str(SIZE), "32",
                   str(threads), "1"]
            r = output_json(disk.inside(cmd))
            return r["bytes"] / r["seconds"] / 1e6
        return job

    def fetch(mode):
        def job():
            where = disk.fresh()
            r = output_json(disk.inside(
                [env.millrace, "run", "--json", f"files '{where}' | batch 32",
                 "--threads", "2", "--epochs", "1", "--fetch", mode]))
            return r["samples"] * SIZE / r["seconds"] / 1e6
        return job

    jobs = {f"{label}: bare files, {t} threads": bare(t) for t in (2, 32)}
    jobs.update({f"{label}: --fetch {m}": fetch(m) for m in MODES})
    return jobs


def main(env, report):
    per = 50 if env.quick else 250
    shape = (4, per)
    cases = {
        "200 IOPS, 40 MB/s": (Throttled, (200, 40_000_000)),
        "2000 IOPS, 40 MB/s": (Throttled, (2000, 40_000_000)),
        "10 ms, 40 MB/s": (Latent, (0.010, 40_000_000)),
    }
    rounds = 1 if env.quick else 3
    report.setting(threads=2, file_bytes=SIZE, files=shape[0] * per,
                   rounds=rounds, cache="cold (mounted anew)")
    unmount(os.path.join(env.data, "mnt"))      # of a run that was killed
    for label, (kind, limits) in cases.items():
        why = kind.missing()
        if why:
            report.fail(label, f"skipped: {why}")
            continue
        say(f"  {label}")
        try:
            with kind(env, *limits, *shape) as disk:
                values, failed = interleave(jobs_on(env, disk, label), rounds)
                allowed = disk.allowed
        except Failed as e:
            report.fail(label, str(e))
            continue
        for name, v in values.items():
            report.measure(name, "MB/s", v)
        for name, v in values.items():
            report.ratio(name + f" / {allowed:.1f} MB/s",
                         [x / allowed for x in v.values()])
        for name, reason in failed.items():
            report.fail(name, reason)
