# SPDX-License-Identifier: Apache-2.0
"""Pipelines that are wrong: the message, the place, the nearest name."""
import re

import pytest


def shown(r):
    """What the caret marks: the text above `^~~~`."""
    lines = r.stderr.splitlines()
    at = [i for i, line in enumerate(lines) if re.fullmatch(r" *\^~*", line)]
    assert len(at) == 1, r.stderr
    mark, above = lines[at[0]], lines[at[0] - 1]
    return above[mark.index("^"):len(mark)]


@pytest.mark.parametrize("text,mark,says", [
    ("synthetic | bach 4", "bach", "unknown step 'bach'; did you mean "
                                   "'batch'?"),
    ("syntetic | batch 4", "syntetic", "did you mean 'synthetic'?"),
    ("qqqqqqq | batch 4", "qqqqqqq", "`millrace list sources` shows"),
    ("synthetic | qqqqqqq", "qqqqqqq", "`millrace list steps` shows"),
    ("batch 4", "batch", "'batch' is a step; a pipeline begins with a"),
    ("synthetic | npy x", "npy", "'npy' is a source; it can only come first"),
    ("synthetic | batch 4 | cast f32", "cast", "'cast' comes after batch"),
    ("synthetic | batch 4 | batch 4", "batch", "'batch' comes after batch"),
    ("synthetic cont=5 | batch 4", "cont=5", "did you mean 'count'?"),
    ("synthetic zzzzzz=5 | batch 4", "zzzzzz=5",
     "`millrace list synthetic` shows its parameters"),
    ("synthetic | cast f32 f16 | batch 4", "f16", "cast takes no more"),
    ("synthetic count=5 count=6 | batch 4", "count=6", "'count' is given "
                                                       "twice"),
    ("synthetic | batch 4 count=5", "count=5", "'count' is given twice"),
    ("synthetic | cast f32 field=data field=label | batch 4", "field=label",
     "'field' is given twice"),
    ("synthetic | batch", "batch", "batch needs 'count'"),
    ("files | batch 4", "files", "files needs 'dir'"),
    ("files 'a b | batch 4", "'a b | batch 4", "a quote ' that is not "
                                               "closed"),
    ('files "a b', '"a b', 'a quote " that is not closed'),
    ("synthetic | batch 4 |", "|", "missing after the last bar"),
    ("synthetic | | batch 4", "|", "missing before this bar"),
    ("| synthetic", "|", "missing before this bar"),
])
def test_wrong_pipeline_shows_the_place_and_the_reason(mill, text, mark,
                                                       says):
    r = mill.fails("run", text, code=2, says=says)
    assert shown(r) == mark


@pytest.mark.parametrize("command", ["run", "explain"])
def test_caret_stands_under_the_word_and_not_under_its_like(mill, command):
    r = mill.fails(command, "synthetic count=3 | cast f32 | cast f33", code=2,
                   says="dtype=f33")
    lines = r.stderr.splitlines()
    assert lines[-2] == "  synthetic count=3 | cast f32 | cast f33"
    assert lines[-1] == "  " + " " * 36 + "^~~"


def test_empty_pipelines_are_refused(mill, tmp_path):
    (tmp_path / "p").write_text("# nothing\n\n  \t\n")
    for text in ("", "   ", "# only a comment", f"@{tmp_path}/p"):
        mill.fails("run", text, code=2, says="an empty pipeline")


@pytest.mark.parametrize("values,name", [
    ("count=-5", "count"), ("count=0", "count"), ("count=nan", "count"),
    ("count=1e99", "count"), ("count=99999999999999999999", "count"),
    ("count=many", "count"), ("count=", "count"), ("count=5x", "count"),
    ("count=1.5", "count"), ("dtype=f8", "dtype"), ("dtype=", "dtype"),
    ("shape=3,,3", "shape"), ("shape=3,", "shape"), ("shape=-3", "shape"),
    ("shape=0", "shape"), ("shape=inf", "shape"), ("shape=3;3", "shape"),
    ("shape=1,1,1,1,1,1,1,1,1", "shape"), ("cost=-1s", "cost"),
    ("cost=nan", "cost"), ("cost=5parsecs", "cost"), ("cost=inf", "cost"),
])
def test_nonsense_values_name_the_parameter(mill, values, name):
    r = mill.fails("run", f"synthetic {values} | batch 4", code=2,
                   says=f"synthetic: {name}=")
    assert shown(r) == values


@pytest.mark.parametrize("value", ["0", "-1", "1048577", "x", "''", "4.5",
                                   "nan"])
def test_nonsense_batch_sizes_are_refused(mill, value):
    r = mill.fails("run", f"synthetic | batch {value}", code=2,
                   says=["batch: count=", "1 to 1048576"])
    assert shown(r) == value


@pytest.mark.parametrize("text,says", [
    ("synthetic | batch 4 pad=much", "pad=much"),
    ("synthetic | batch 4 drop_last=maybe", "drop_last=maybe"),
    ("synthetic | normalize mean=1,2 std=1,2,3 | batch 4",
     "2 values of mean and 3 of std"),
    ("synthetic | normalize std=0 | batch 4", "std=0"),
    ("synthetic | normalize mean=nan | batch 4", "mean=nan"),
    ("synthetic | normalize imgnet | batch 4", "preset=imgnet"),
    ("synthetic | select data,data | batch 4", "'data' is named twice"),
    ("synthetic shape=1000000000000,1000000000000 | batch 4",
     "does not fit in memory"),
    ("synthetic shape=1,1,1,1,1,1,1,1 | batch 4", "8 dimensions"),
])
def test_values_that_cannot_work_together_are_refused(mill, text, says):
    mill.fails("run", text, code=2, says=says)


@pytest.mark.parametrize("text,mark,says", [
    ("synthetic shape=5,5 | normalize imagenet | batch 4", "normalize",
     ["normalize cannot take u8[5 5]", "3"]),
    ("synthetic | normalize layout=chw field=label | batch 4", "normalize",
     ["normalize cannot take i64", "H W C"]),
    ("synthetic | cast f32 field=image | batch 4", "cast",
     ["there is no field 'image'"]),
    ("synthetic | select image | batch 4", "select",
     ["no field 'image'", "data label"]),
])
def test_step_that_cannot_take_its_input_says_which_and_why(mill, text, mark,
                                                            says):
    r = mill.fails("run", text, code=1, says=says)
    assert shown(r) == mark


# ---- pipelines in files ----

def test_pipeline_from_a_file_equals_the_text(mill, tmp_path):
    (tmp_path / "p").write_text(
        "# made up\nsynthetic shape=4,4,3 count=30  # few\n\n"
        "\tnormalize   imagenet\r\n| batch 'count=8'\n".replace("'count=8'",
                                                                "count=8"))
    assert mill.digest(f"@{tmp_path}/p") == mill.digest(
        "synthetic shape=4,4,3 count=30 | normalize imagenet | batch 8")


def test_caret_in_a_file_names_the_line(mill, tmp_path):
    (tmp_path / "p").write_text("# first\nsynthetic count=5\n# more\n"
                                "cast f32\nbach 4 # here\n")
    r = mill.fails("run", f"@{tmp_path}/p", code=2,
                   says=["did you mean 'batch'?", "line 5:"])
    assert shown(r) == "bach"
    assert r.stderr.splitlines()[-2] == "  bach 4 # here"


def test_caret_stands_right_after_tabs(mill, tmp_path):
    (tmp_path / "p").write_text("synthetic\n\t\tcast\tf32\t|\tcast\tf99\n")
    r = mill.fails("run", f"@{tmp_path}/p", code=2, says="line 2:")
    assert shown(r) == "f99" and "\t" not in r.stderr


def test_caret_counts_letters_and_not_bytes(mill):
    r = mill.fails("run", "files 'größe/žluť' | bach 4", code=2,
                   says="did you mean 'batch'?")
    assert shown(r) == "bach"


def test_quote_left_open_in_a_file_points_at_the_quote(mill, tmp_path):
    (tmp_path / "p").write_text("files 'here\n| batch 4\n")
    r = mill.fails("run", f"@{tmp_path}/p", code=2, says=["not closed",
                                                         "line 1:"])
    assert shown(r) == "'here"


def test_long_line_is_cut_around_the_place(mill):
    text = "synthetic | " + "cast f32 | " * 20 + "bach 4"
    r = mill.fails("run", text, code=2, says="did you mean 'batch'?")
    assert shown(r) == "bach"
    assert max(map(len, r.stderr.splitlines())) < 110


def test_too_many_steps_and_too_long_words_are_refused(mill):
    mill.fails("run", "synthetic" + " | cast f32" * 40, code=2,
               says="more than 32 steps")
    mill.fails("run", "files " + "x" * 5000, code=2,
               says="longer than 4095")


def test_pipeline_file_that_is_missing_is_named(mill, tmp_path):
    mill.fails("run", "@/no/such/pipeline", code=1, says="/no/such/pipeline")
    mill.fails("run", f"@{tmp_path}", code=1, says=str(tmp_path))


def test_pipeline_file_of_garbage_is_refused(mill, tmp_path):
    (tmp_path / "p").write_bytes(b"\x00\xff" * 1000)
    mill.fails("run", f"@{tmp_path}/p", code=2, says="pipeline")
    (tmp_path / "p").write_bytes(b"x" * (1 << 21))
    mill.fails("run", f"@{tmp_path}/p", code=1, says="larger than")


def test_quotes_protect_blanks_bars_and_hashes(mill, tmp_path):
    d = tmp_path / "a b|c#d"
    d.mkdir()
    (d / "x").write_bytes(b"abc")
    for text in (f"files '{d}' | batch 1", f'files dir="{d}" | batch 1'):
        assert mill.json("run", text)["bytes_read"] == 3
