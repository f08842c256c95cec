# SPDX-License-Identifier: Apache-2.0
"""Files that steps read, vocabularies and tables, are part of what a prepared
set is: by their contents, not by their dates."""
import base64
import json
import os

import numpy as np
import pytest


def write_ranks(path, extra=()):
    tokens = [bytes([b]) for b in range(256)] + list(extra)
    path.write_text("".join(f"{base64.b64encode(t).decode()} {i}\n"
                            for i, t in enumerate(tokens)))


@pytest.fixture
def texts(tmp_path):
    (tmp_path / "t" / "x").mkdir(parents=True)
    for i in range(20):
        (tmp_path / "t" / "x" / f"{i:02}").write_text("ab " * i)
    write_ranks(tmp_path / "r.tiktoken", [b"ab"])
    np.save(tmp_path / "e.npy", np.arange(514, dtype="<f4").reshape(257, 2))
    return tmp_path


@pytest.fixture
def pipeline(texts):
    return (f"files {texts}/t | tokenize ranks={texts}/r.tiktoken "
            f"| embed {texts}/e.npy | batch 4")


def prepare(mill, pipeline, out, *args):
    mill("prepare", pipeline, "--out", out, *args)
    return f"records {out} | batch 4"


def test_the_contents_are_noted(mill, texts, pipeline):
    prepare(mill, pipeline, texts / "set")
    meta = json.loads((texts / "set" / "meta.json").read_text())
    tables = meta["plan"]["tables"]
    assert [(t["path"], t["size"]) for t in tables] == [
        (str(f), f.stat().st_size)
        for f in (texts / "r.tiktoken", texts / "e.npy")]


def test_sets_without_such_files_note_none(mill, texts):
    prepare(mill, f"files {texts}/t | batch 4", texts / "set")
    meta = json.loads((texts / "set" / "meta.json").read_text())
    assert "tables" not in meta["plan"]


def change_vocabulary(texts):
    write_ranks(texts / "r.tiktoken", [b"ba"])      # of the same size


def change_table(texts):
    with open(texts / "e.npy", "r+b") as f:
        f.seek(-1, os.SEEK_END)
        f.write(b"\x7f")


@pytest.mark.parametrize("name, change", [("r.tiktoken", change_vocabulary),
                                          ("e.npy", change_table)])
def test_other_contents_are_refused_and_named(mill, texts, pipeline, name,
                                              change):
    rest = prepare(mill, pipeline, texts / "set")
    want = mill.digest(rest)
    then = os.stat(texts / name)
    change(texts)
    os.utime(texts / name, ns=(then.st_atime_ns, then.st_mtime_ns))
    mill.fails("run", rest, code=1, says=[
        str(texts / name), "other contents", "prepare again", "check=no"])
    assert mill.digest(rest.replace("set ", "set check=no ")) == want


def test_a_new_date_changes_nothing(mill, texts, pipeline):
    rest = prepare(mill, pipeline, texts / "set")
    want = mill.digest(rest)
    for name in ("r.tiktoken", "e.npy"):
        os.utime(texts / name, (1, 1))
    assert mill.digest(rest) == want


def test_a_set_stands_alone_without_them(mill, texts, pipeline):
    rest = prepare(mill, pipeline, texts / "set")
    want = mill.digest(rest)
    for name in ("r.tiktoken", "e.npy"):
        (texts / name).unlink()
    assert mill.digest(rest) == want


def test_files_of_steps_after_the_split_do_not_count(mill, texts, pipeline):
    prepare(mill, pipeline, texts / "set", "--until", "tokenize")
    rest = f"records {texts}/set | embed {texts}/e.npy | batch 4"
    want = mill.digest(rest)
    change_table(texts)
    assert mill.digest(rest) != want


def test_going_on_with_another_vocabulary_is_refused(mill, texts):
    p = (f"synthetic 400 u8 count=3000 cost=400us "
         f"| tokenize ranks={texts}/r.tiktoken")
    r = mill.start("prepare", p, "--out", texts / "set", "--shards", 2)
    r.kill()
    r.wait()
    os.utime(texts / "r.tiktoken", (1, 1))
    change_vocabulary(texts)
    mill.fails("prepare", p, "--out", texts / "set", "--shards", 2, code=2,
               says=[f"{texts}/r.tiktoken", "other contents"])
