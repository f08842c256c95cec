# SPDX-License-Identifier: Apache-2.0
"""The data sets of the benchmarks, in BUILD/bench/data: made when missing,
used again when there. The folder can be deleted at any time."""
import os
import shutil

from common import Failed, output, say

HEADER = 128            # bytes before the first sample of our .npy files
GB = 10**9
RESERVE = 1 * GB        # of the disk that is never taken


def free(path):
    s = os.statvfs(path)
    return s.f_bavail * s.f_frsize - RESERVE, s.f_favail


def need(env, size, inodes=0):
    """Failed unless the disk has room."""
    have, left = free(env.data)
    if size > have:
        raise Failed(f"{env.data}: {size / GB:.1f} GB needed, "
                     f"{max(have, 0) / GB:.1f} GB free")
    if inodes and left and inodes > left:       # btrfs says 0: no limit
        raise Failed(f"{env.data}: {inodes} inodes needed, {left} free")


def total(env, copies):
    """Bytes per data set, so that `copies` of them fit disk and page cache;
    2 GB where there is room. Returns (bytes, message or None)."""
    want = GB // 4 if env.quick else 2 * GB
    used = sum(os.stat(os.path.join(env.data, f)).st_blocks * 512
               for f in os.listdir(env.data)
               if os.path.isfile(os.path.join(env.data, f)))
    with open("/proc/meminfo") as f:
        info = dict(line.split(":") for line in f)
    memory = int(info["MemTotal"].split()[0]) * 1024
    room = min(free(env.data)[0] + used, memory * 0.6) / copies
    if room >= want:
        return want, None
    size = int(room) // 10**6 * 10**6
    if size < 50 * 10**6:
        raise Failed(f"no room for data in {env.data}: {room / 1e6:.0f} MB "
                     f"per data set")
    return size, (f"data sets of {size / GB:.2f} GB instead of "
                  f"{want / GB:.2f} GB: disk or memory are short")


def npy(env, sample, size):
    """One .npy file of u8 samples; (path, number of samples)."""
    count = max(size // sample, 1)
    path = os.path.join(env.data, f"u8-{sample}x{count}.npy")
    if os.path.exists(path):
        return path, count
    say(f"  making {path} ({count * sample / GB:.2f} GB)")
    need(env, count * sample)
    text = ("{'descr': '|u1', 'fortran_order': False, "
            f"'shape': ({count}, {sample}), }}").encode()
    text = text.ljust(HEADER - 11) + b"\n"
    head = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text
    assert len(head) == HEADER
    noise = os.urandom(16 << 20)
    with open(path + ".part", "wb") as f:
        f.write(head)
        left = count * sample
        while left:
            left -= f.write(noise[:left])
        f.flush()
        os.fsync(f.fileno())    # else its writing disturbs what is measured
    os.rename(path + ".part", path)
    return path, count


def files(env, folders, per_folder, low, high=None, link=False):
    """Files in folders; the path. With link they share their contents."""
    high = high or low
    path = os.path.join(env.data, f"files-{folders}x{per_folder}-{low}-{high}"
                        + ("-link" if link else ""))
    if os.path.exists(path):
        return path
    n = folders * per_folder
    say(f"  making {path} ({n} files)")
    each = (high + 4095) // 4096 * 4096
    need(env, n * 64 + (folders if link else n) * each,
         2 * folders if link else n + folders)
    shutil.rmtree(path + ".part", ignore_errors=True)
    output([env.tool("make_files"), path + ".part", str(folders),
            str(per_folder), str(low), str(high), *(["link"] if link else [])],
           timeout=900)
    os.sync()
    os.rename(path + ".part", path)
    return path


def million(env):
    """The directory of a million entries (fewer with --quick), and their
    number. Names of 1 KB files; 1000 folders."""
    per = 100 if env.quick else 1000
    return files(env, 1000, per, 1024, link=True), 1000 * per
