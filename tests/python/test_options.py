# SPDX-License-Identifier: Apache-2.0
"""Options by keyword, errors by class, and what the module says of itself."""
import inspect

import millrace
import pytest
from conftest import MODULE

PIPE = "synthetic count=8 shape=2 | batch 4"


@pytest.mark.parametrize("options, exception, text", [
    ({"thread": 2}, TypeError, "no option 'thread'; did you mean 'threads'"),
    ({"rnk": 2}, TypeError, "did you mean 'rank'"),
    ({"xyzzyxyzzy": 2}, TypeError, "no option 'xyzzyxyzzy'"),
    ({"threads": -1}, ValueError, "threads=-1: want a whole number, 0 to"),
    ({"threads": "2"}, TypeError, "threads='2': want a whole number"),
    ({"threads": True}, TypeError, "threads=True"),
    ({"threads": 1.5}, TypeError, "threads=1.5"),
    ({"seed": 2**64}, ValueError, "seed=18446744073709551616: too large"),
    ({"seed": -2**70}, ValueError, "seed=-"),
    ({"memory": "8Q"}, ValueError, "memory='8Q': want .*\"8G\""),
    ({"memory": "G"}, ValueError, "memory='G'"),
    ({"memory": "-1G"}, ValueError, "memory='-1G'"),
    ({"memory": "nan"}, ValueError, "memory='nan'"),
    ({"memory": []}, TypeError, "memory="),
    ({"order": "shufle"}, ValueError,
     "want \"shuffle\", \"sequential\" or \"block\"; did you mean \"shuffle\""),
    ({"order": 1}, TypeError, "order=1: want \"shuffle\""),
    ({"on_error": "panic"}, ValueError, "\"stop\", \"skip\" or \"replace\""),
    ({"fetch": "ahed"}, ValueError, "did you mean \"ahead\""),
    ({"plugins": 3}, TypeError, "plugins=3"),
    ({"storage": "hhd"}, ValueError, "did you mean 'hdd'"),
    ({"storage": 5}, TypeError, "storage=5"),
    ({"cold": "yes"}, TypeError, "cold='yes'"),
    ({"plugins": [3]}, TypeError, "plugins="),
    ({"rank": (3, 3)}, ValueError, "0 <= R < N"),
    ({"rank": (-1, 3)}, ValueError, "0 <= R < N"),
    ({"rank": "2"}, ValueError, "want \\(R, N\\) or \"R/N\""),
    ({"rank": "0/2x"}, ValueError, "want \\(R, N\\) or \"R/N\""),
    ({"rank": 1}, TypeError, "want \\(R, N\\) or \"R/N\""),
])
def test_a_wrong_option_is_named_with_what_is_allowed(options, exception,
                                                      text):
    with pytest.raises(exception, match=text):
        millrace.Loader(PIPE, **options)


@pytest.mark.parametrize("options", [
    {"memory": "64M"}, {"memory": 64 << 20}, {"memory": "0.0625GiB"},
    {"threads": None, "order": None}, {"rank": "0/2"}, {"rank": [1, 2]},
    {"seed": 2**60}, {"order": "block", "block": 4}, {"plugins": []},
    {"epochs": 1, "samples": 4, "on_error": "replace", "fetch": "direct"},
    {"storage": "ceph-hdd,latency=1ms", "cold": True}, {"storage": ""},
])
def test_right_options_are_taken(options):
    with millrace.Loader(PIPE, **options) as loader:
        assert next(iter(loader)).count > 0


def test_options_take_effect():
    with millrace.Loader(PIPE, samples=4, threads=3, seed=5) as loader:
        assert sum(b.count for b in loader) == 4
        assert loader.stats()["threads"] == 3
        assert loader.state_dict()["seed"] == 5


def test_storage_and_cold_are_in_the_stats(npy):
    with millrace.Loader(f"npy {npy} | batch 100", epochs=1, cold=True,
                         storage="iops=20000") as loader:
        assert sum(b.count for b in loader) == 1000
        stats = loader.stats()
    assert stats["storage"] == "iops=20000"
    assert stats["storage_allows"]["requests"] == 1000
    assert stats["cold"]["files"] == 1 and stats["seconds"] > 0.045


@pytest.mark.parametrize("args", [(), (1,), (PIPE, 2), (b"x",)])
def test_the_pipeline_is_one_text(args):
    with pytest.raises(TypeError, match="pipeline"):
        millrace.Loader(*args)


def test_the_pipeline_may_go_by_name():
    with millrace.Loader(pipeline=PIPE) as loader:
        assert loader.pipeline == PIPE
    with pytest.raises(TypeError):
        millrace.Loader(PIPE, pipeline=PIPE)
    with pytest.raises(ValueError, match="zero byte"):
        millrace.Loader("synthetic\0 | batch 4")


def test_a_wrong_pipeline_shows_the_place_with_a_caret():
    text = "synthetic count=8 shape=2 | btach 4"
    with pytest.raises(millrace.PipelineError) as e:
        millrace.Loader(text)
    lines = e.value.text.split("\n")
    at = next(i for i, line in enumerate(lines) if text in line)
    assert lines[at + 1][lines[at].index("btach")] == "^"
    assert "batch" in e.value.text.replace(text, "")
    assert e.value.code == -3 and str(e.value) == e.value.text
    assert isinstance(e.value, (ValueError)) and isinstance(
        e.value, millrace.Error)


@pytest.mark.parametrize("pipe, options, exception", [
    ("synthetic count=-1 | batch 4", {}, millrace.PipelineError),
    ("synthetic shape=2 | batch 4 | batch 4", {}, millrace.PipelineError),
    ("files {tmp}/none | batch 4", {}, millrace.StorageError),
    ("npy {tmp}/bad.npy | batch 4", {}, millrace.DataError),
    ("synthetic shape=1000,1000,100 count=9 | batch 900",
     {"memory": "64M"}, millrace.LimitError),
])
def test_each_kind_of_trouble_has_its_class(tmp_path, pipe, options,
                                            exception):
    (tmp_path / "bad.npy").write_bytes(b"\x93NUMPY\x01\0\xff\xff{'descr'")
    with pytest.raises(exception) as e:
        list(millrace.Loader(pipe.format(tmp=tmp_path), **options))
    assert isinstance(e.value, millrace.Error)
    assert e.value.code < 0 and e.value.text


def test_classes_fit_pythons_own():
    assert issubclass(millrace.Error, RuntimeError)
    assert issubclass(millrace.PipelineError, ValueError)
    assert issubclass(millrace.StorageError, OSError)
    assert millrace.Error("x").text == "" and millrace.Error("x").code == 0


def test_a_bad_sample_stops_the_loop_and_names_the_file(folders):
    path, _ = folders
    loader = millrace.Loader(f"files {path} | batch 8")
    (path / "cat" / "05.bin").unlink()
    with pytest.raises(millrace.StorageError, match="cat/05.bin"):
        list(loader)
    with pytest.raises(millrace.Error):
        list(loader)


def test_a_closed_loader_says_so():
    loader = millrace.Loader(PIPE)
    it = iter(loader)
    assert not loader.closed
    loader.close()
    loader.close()
    assert loader.closed and "closed" in repr(loader)
    for call in (lambda: next(it), lambda: iter(loader), lambda: len(loader),
                 loader.stats, loader.state_dict, loader.bad_samples,
                 lambda: loader.classes, loader.__enter__):
        with pytest.raises(millrace.StateError, match="closed"):
            call()


def test_a_loader_is_opened_once():
    with millrace.Loader(PIPE) as loader:
        with pytest.raises(RuntimeError):
            loader.__init__(PIPE)
        assert len(list(loader)) == 2
    with pytest.raises(RuntimeError, match="__init__"):
        iter(millrace.Loader.__new__(millrace.Loader))


def test_a_subclass_works_and_may_refer_to_its_iterator():
    class Mine(millrace.Loader):
        def __init__(self, n):
            super().__init__(f"synthetic count={n} shape=2 | batch 4")
            self.it = iter(self)
    loader = Mine(8)
    next(loader.it)
    assert len(list(loader)) == 1


def test_docstring_and_signature_come_from_the_table():
    signature = inspect.signature(millrace.Loader)
    assert signature.parameters["order"].default == "shuffle"
    assert signature.parameters["block"].default == 256
    for name in signature.parameters:
        assert name == "pipeline" or f"  {name}: " in millrace.Loader.__doc__


def test_stubs_name_the_options_and_members_that_there_are():
    stub = (MODULE / "millrace" / "_core.pyi").read_text()
    init = stub[stub.index("class Loader"):]
    init = init[:init.index("-> None")]
    for name in inspect.signature(millrace.Loader).parameters:
        assert f"\n        {name}: " in init
    for cls in (millrace.Loader, millrace.Batch, millrace.Tensor):
        body = stub[stub.index(f"class {cls.__name__}:"):]
        for name in vars(cls):
            if not name.startswith("_"):
                assert f"def {name}(" in body, name
    for name in millrace.__all__:
        assert name in stub


def test_explain_is_a_text_or_a_dict():
    text = millrace.explain(PIPE, threads=2)
    assert "synthetic" in text and "batch" in text
    assert isinstance(millrace.explain(PIPE, json=True), dict)
    with pytest.raises(millrace.PipelineError):
        millrace.explain("nonsense | batch 4")
    with pytest.raises(TypeError, match="explain.. has no option 'thread'"):
        millrace.explain(PIPE, thread=2)


def test_list_has_sources_and_steps_with_parameters():
    entries = {(e["kind"], e["name"]): e for e in millrace.list()}
    source = entries["source", "synthetic"]
    assert {p["name"] for p in source["params"]} >= {"shape", "count"}
    assert entries["step", "batch"]["help"]
    assert all(e["missing"] is None or e["missing"] for e in millrace.list())


def test_version_is_the_librarys():
    assert millrace.__version__.split(".")[0].isdigit()


def test_import_needs_no_numpy_and_arrays_say_what_they_need(script):
    p = script(f"""
import sys
sys.modules['numpy'] = sys.modules['torch'] = None  # as if not installed
import millrace
batch = next(iter(millrace.Loader({PIPE!r})))
assert memoryview(batch.tensor('data')).shape == (4, 2)
for call in (lambda: batch['data'], batch.torch, lambda: batch.indices):
    try:
        call()
    except ImportError as e:
        assert 'not installed' in str(e), e
    else:
        raise AssertionError
""")
    _, err = p.communicate(timeout=60)
    assert p.returncode == 0, err


def test_import_is_light(script):
    p = script("""
import collections.abc, sys
before = set(sys.modules)
import millrace
print(*sorted(set(sys.modules) - before))
""")
    out, err = p.communicate(timeout=60)
    assert set(out.split()) == {"millrace", "millrace._core"}, out + err
