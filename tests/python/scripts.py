# SPDX-License-Identifier: Apache-2.0
"""Running `millrace diagnose -- python3 train.py` on small scripts. A file
that is not in memory is slow in them because the data set sleeps when
mincore() says so: no slow disk is needed."""
import concurrent.futures
import json
import os
import pathlib
import signal
import subprocess
import sys
import textwrap

import pytest
from conftest import BUILD, ROOT

BIN = pathlib.Path(os.environ.get("MILLRACE_BIN", ROOT / BUILD / "millrace"))
BIN = (ROOT / BIN).resolve()
PATIENCE = 120      # importing torch takes a while on a busy machine

needed = [
    pytest.mark.skipif(
        subprocess.run([sys.executable, "-c", "import torch"],
                       capture_output=True).returncode != 0,
        reason="PyTorch is not installed"),
    pytest.mark.skipif(
        "--keep-running" not in subprocess.run(
            [BIN, "diagnose", "--help"], capture_output=True,
            text=True).stdout,
        reason="this build does not diagnose scripts"),
]

# What the scripts share: 120 files, each of which takes COLD seconds to read
# when it is not in memory, and PREP seconds to prepare.
COMMON = """
import ctypes, mmap, os, sys, time
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

HERE = os.path.dirname(os.path.abspath(__file__))
FILES, BATCH = 120, 4
PREP, COLD, STEP = 0.004, 0.012, 0.03
_c = ctypes.CDLL(None)
_c.mmap.restype = ctypes.c_void_p
_c.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int,
                    ctypes.c_int, ctypes.c_int, ctypes.c_long]
_c.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_c.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]

def path(i):
    return f"{HERE}/data/{i}"

def is_cold(fd):
    at = _c.mmap(None, 1, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
    seen = ctypes.create_string_buffer(1)
    _c.mincore(at, 1, seen)
    _c.munmap(at, 1)
    return not seen.raw[0] & 1

class Files(Dataset):
    def __len__(self):
        return FILES
    def __getitem__(self, i):
        with open(path(i), "rb") as f:
            if is_cold(f.fileno()):
                time.sleep(COLD)
            x = f.read()
        time.sleep(PREP)
        return torch.tensor(float(len(x))), i

class Numbers(Dataset):
    def __init__(self, n):
        self.n = n
    def __len__(self):
        return self.n
    def __getitem__(self, i):
        return torch.full((8,), float(i)), i

model = torch.nn.Linear(1, 1)

def step(x):
    time.sleep(STEP)
    model(x[:, None]).sum().backward()
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "data").mkdir()
    for i in range(120):
        (tmp_path / "data" / str(i)).write_bytes(bytes(3000))
    (tmp_path / "common.py").write_text(COMMON)
    os.sync()
    return tmp_path


class Ran:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def json(self):
        assert "NaN" not in self.out
        return json.loads(self.out)


def finish(p):
    try:
        out, err = p.communicate(timeout=PATIENCE)
    finally:
        try:
            os.killpg(p.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    assert "millrace_diagnose" not in err, err
    return Ran(p.returncode, out, err)


def start(folder, text, *args, options=("--json",), seconds=6, env=None,
          plain=False, name="train.py", stdout=subprocess.PIPE):
    script = folder / name
    script.write_text(textwrap.dedent(text))
    clean = {k: v for k, v in os.environ.items() if k not in (
        "RANK", "WORLD_SIZE", "PYTHONPATH", "MILLRACE_NO_SECCOMP")}
    command = [sys.executable, str(script), *map(str, args)]
    if not plain:
        command = [str(BIN), "diagnose", *options, "--seconds", str(seconds),
                   "--", *command]
    return subprocess.Popen(
        command, cwd=folder, stdin=subprocess.DEVNULL, text=True,
        stdout=stdout, stderr=subprocess.PIPE,
        start_new_session=True,
        env={**clean, "TMPDIR": str(folder), **(env or {})})


def run(*args, code=0, **kw):
    r = finish(start(*args, **kw))
    assert r.code == code, (r.code, r.out, r.err)
    return r


def several(*jobs):
    """Runs that need no clock, beside each other."""
    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        return [f.result() for f in [pool.submit(j) for j in jobs]]
