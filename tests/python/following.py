# SPDX-License-Identifier: Apache-2.0
"""Runs Python texts that use PyTorch under `millrace trace`."""
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import textwrap

import pytest
from conftest import BUILD, ROOT
from mrt import Trace

BIN = pathlib.Path(os.environ.get("MILLRACE_BIN", ROOT / BUILD / "millrace"))
BIN = (ROOT / BIN).resolve()
PATIENCE = 120      # importing torch takes a while on a busy machine

needs_torch = pytest.mark.skipif(
    subprocess.run([sys.executable, "-c", "import torch"],
                   capture_output=True).returncode != 0,
    reason="PyTorch is not installed")

START = """
import os, sys, time
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

class Set(Dataset):
    def __init__(self, n, took=0.0):
        self.n, self.took = n, took
    def __len__(self):
        return self.n
    def __getitem__(self, i):
        time.sleep(self.took)
        return torch.full((3, 4), float(i)), i
"""


class Ran:
    def __init__(self, folder, p, out, err):
        self.code, self.out, self.err = p.returncode, out, err
        self.path = folder / "t.mrt"

    def trace(self, path=None):
        return Trace(path or self.path)


class Follow:
    """Runs a Python text under `millrace trace`."""

    def __init__(self, folder):
        self.folder = folder

    def start(self, text, *args, command=None, env=None, out="t.mrt",
              options=(), **kw):
        script = self.folder / "train.py"
        script.write_text(START + textwrap.dedent(text))
        clean = {k: v for k, v in os.environ.items()
                 if k not in ("RANK", "WORLD_SIZE", "PYTHONPATH")}
        return subprocess.Popen(
            [str(BIN), "trace", "-o", str(self.folder / out), *options, "--",
             *(command or [sys.executable, str(script), *map(str, args)])],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, start_new_session=True,
            env=dict(clean, **(env or {})), **kw)

    def finish(self, p, patience=PATIENCE):
        try:
            out, err = p.communicate(timeout=patience)
        finally:
            try:
                os.killpg(p.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        assert not (self.folder / "t.mrt.parts").exists()
        return Ran(self.folder, p, out, err)

    def __call__(self, *args, code=0, **kw):
        r = self.finish(self.start(*args, **kw))
        assert r.code == code, (r.code, r.out, r.err)
        return r


@pytest.fixture
def follow(tmp_path):
    return Follow(tmp_path)


def near(values, want, share=0.02, least=0.001):
    """Their median is `want`, within 2 % or 1 ms."""
    m = statistics.median(values)
    assert abs(m - want) <= max(share * want, least), (m, want, values)


def summary(path):
    return json.loads(subprocess.run(
        [str(BIN), "trace", str(path), "--json"], check=True,
        capture_output=True, timeout=PATIENCE).stdout)
