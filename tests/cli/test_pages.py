# SPDX-License-Identifier: Apache-2.0
"""diagnose --html and whatif --html: files that are written, or not. What
they look like is seen in tests/python/test_pages_browser.py."""
import json
import resource
import signal

import pytest

RATE = {"mean": 1000, "low": 900, "high": 1100, "n": 5}


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "d.json"
    path.write_text(json.dumps({
        "pipeline": "synthetic shape=9 | batch 8 # </script>", "samples": 800,
        "batch": 8, "threads": 2, "sample_bytes": 5000, "as_g": RATE,
        "as_p": RATE, "as_f": RATE | {"mean": 500}, "p": RATE, "s": RATE}))
    return path


def data(path):
    """What a page holds for its script."""
    text = path.read_text()
    assert text.startswith("<!doctype html>") and text.endswith("</html>\n")
    assert text.count("</script>") == 1 and "http://www.w3" in text
    at = text.index("const D = ") + len("const D = ")
    return json.loads(text[at:text.index(";\n", at)])


def test_diagnose_writes_a_page_beside_its_json(mill, tmp_path):
    page = tmp_path / "d.html"
    d = mill.json("diagnose", "synthetic shape=10 count=100 | batch 8",
                  "--accelerator", "1000", "--seconds", "1", "--html", page)
    shown = data(page)
    assert {k: shown[k] for k in ("machine", "notes", "points", "as_f",
                                  "verdict", "pipeline")} == \
        {k: d[k] for k in ("machine", "notes", "points", "as_f", "verdict",
                           "pipeline")}
    assert list(tmp_path.iterdir()) == [page]


def test_whatif_writes_a_page_beside_text_and_json(mill, saved, tmp_path):
    page = tmp_path / "w.html"
    words = ["whatif", saved, "--sweep", "cache=0:100:10", "--nodes", "2",
             "--html", page]
    assert "samples/s" in mill(*words).stdout
    page.unlink()
    w = mill.json(*words)
    shown = data(page)
    assert shown["whatif"] == w and len(w["sweep"]["points"]) == 11
    assert shown["asked"]["nodes"] == 2
    assert shown["diagnosis"]["pipeline"].endswith("</script>")


def test_a_page_that_cannot_be_written_is_an_error(mill, saved, tmp_path):
    for path in ("/no/such/dir/w.html", tmp_path):
        r = mill.fails("whatif", saved, "--html", path, code=1,
                       says=[str(path), "cannot write"])
        assert "samples/s" in r.stdout, "the answer is there all the same"
    r = mill.fails("diagnose", "synthetic shape=10 count=10 | batch 8",
                   "--accelerator", "1000", "--seconds", "1", "--html",
                   tmp_path, code=1, says=[str(tmp_path), "cannot write"])
    assert "samples/s" in r.stdout
    assert list(tmp_path.iterdir()) == [saved], "no scraps are left"


def test_a_full_disk_leaves_the_old_page(mill, saved, tmp_path):
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    page = tmp_path / "w.html"
    page.write_text("old")
    mill.fails("whatif", saved, "--html", page, code=1,
               says=[str(page), "File too large"], preexec_fn=limit,
               restore_signals=False)
    assert page.read_text() == "old"
    assert sorted(tmp_path.iterdir()) == [saved, page]


def test_a_broken_diagnosis_makes_no_page(mill, saved, tmp_path):
    saved.write_text(saved.read_text().replace('"batch": 8', '"batch": "x"'))
    mill.fails("whatif", saved, "--html", tmp_path / "w.html", code=1,
               says=[str(saved), "'batch'"])
    assert not (tmp_path / "w.html").exists()
