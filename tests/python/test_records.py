# SPDX-License-Identifier: Apache-2.0
"""Prepared data sets from Python: keys and classes come along."""
import subprocess

import numpy as np

import millrace
from conftest import BUILD, ROOT

BIN = ROOT / BUILD / "millrace"


def test_keys_and_classes_are_kept(tmp_path):
    for c in ("cat", "dog"):
        (tmp_path / "in" / c).mkdir(parents=True)
        for i in range(5):
            (tmp_path / "in" / c / f"{i}.bin").write_bytes(c.encode() * i)
    subprocess.run([BIN, "prepare", f"files {tmp_path}/in", "--out",
                    tmp_path / "out", "--shards", "3"], check=True,
                   stdout=subprocess.DEVNULL)
    seen = []
    for source in (f"records {tmp_path}/out", f"files {tmp_path}/in"):
        loader = millrace.Loader(f"{source} | batch 4", order="sequential")
        batches = list(loader)
        seen.append((loader.classes, [k for b in batches for k in b.sample_keys],
                     np.concatenate([b["label"] for b in batches]).tolist()))
    assert seen[0] == seen[1]
    assert list(seen[0][0]) == ["cat", "dog"]
    assert "dog/4.bin" in seen[0][1]
