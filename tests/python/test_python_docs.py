# SPDX-License-Identifier: Apache-2.0
"""docs/python.md: its code runs, in order, in one name space."""
import re

import numpy as np
import pytest
from conftest import ROOT


def test_the_guides_code_blocks_run(tmp_path, monkeypatch, torch):
    pytest.importorskip("torchvision", reason="no torchvision installed")
    image = pytest.importorskip("PIL.Image")
    monkeypatch.chdir(tmp_path)
    np.save("train.npy", np.zeros((1000, 32, 32, 3), np.uint8))
    for c in "cat", "dog":
        (tmp_path / "photos" / c).mkdir(parents=True)
        for i in range(5):
            (tmp_path / "photos" / c / f"{i}.bin").write_bytes(b"x" * (i + 1))
            path = tmp_path / "images" / c / f"{i}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            noise = np.random.default_rng(i).integers(256, size=(50, 60, 3))
            image.fromarray(noise.astype(np.uint8)).save(path)
    text = (ROOT / "docs" / "python.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    assert len(blocks) > 5
    names = {}
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), names)
