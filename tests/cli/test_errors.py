# SPDX-License-Identifier: Apache-2.0
"""Things that go wrong outside of the pipeline's text: each has its exit
code, and a message that names the thing."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import numpy as np
import pytest

OK = "synthetic shape=4 count=100 | batch 10"


# ---- the command line ----

@pytest.mark.parametrize("args,says", [
    (["rnu", OK], "unknown command 'rnu'; did you mean 'run'?"),
    (["xxxxxx"], "unknown command 'xxxxxx'"),
    (["run", OK, "--theads", "2"], "did you mean --threads?"),
    (["run", OK, "--on_eror", "skip"], "did you mean --on-error?"),
    (["run", OK, "--qqqqqqqqq"], "see millrace run --help"),
    (["run", OK, "-x"], "unknown option -x"),
    (["run", OK, "--threads"], "--threads needs a value"),
    (["run"], "run takes one pipeline"),
    (["run", "synthetic", "batch"], "run takes one pipeline"),
    (["explain"], "explain takes one pipeline"),
    (["list", "a", "b"], "list takes one name"),
    (["list", "bach"], "did you mean 'batch'?"),
    (["list", "qqqqqqq"], "'qqqqqqq'"),
])
def test_wrong_usage_says_what_is_right(mill, args, says):
    r = mill.fails(*args, code=2, says=says)
    assert r.stdout == ""


def test_command_alone_shows_the_commands_and_fails(mill):
    r = mill(code=2)
    assert r.stdout == "" and "usage: millrace" in r.stderr
    assert "run" in r.stderr and "list" in r.stderr


@pytest.mark.parametrize("option,values", [
    ("threads", ["-1", "two", "nan", "", "4097", "1e3", "99999999999999999999",
                 "2 "]),
    ("memory", ["-1M", "lots", "nan", "inf", "", "5Q", "1e30"]),
    ("epochs", ["-1", "x", "", "1.5", "nan"]),
    ("samples", ["-1", "x", "", "nan", "2e3"]),
    ("seconds", ["-1", "x", "", "nan", "inf", "5d"]),
    ("seed", ["-1", "x", "", "99999999999999999999"]),
    ("order", ["random", "", "Shuffle"]),
    ("block", ["0", "-1", "x"]),
    ("on-error", ["ignore", ""]),
    ("fetch", ["fast", ""]),
])
def test_nonsense_values_of_options_are_refused(mill, option, values):
    for v in values:
        says = f"--{option}={v}: want"
        mill.fails("run", OK, f"--{option}", v, code=2, says=says)
        mill.fails("run", OK, f"--{option}={v}", code=2, says=says)


def test_values_keep_their_letters_in_messages(mill):
    mill.fails("run", OK, "--on-error", "do_not", code=2,
               says="--on-error=do_not: want stop|skip|replace")


@pytest.mark.parametrize("rank", ["3/3", "-1/3", "1", "1/", "/3", "a/b",
                                  "1/0", "0/-1", "1/3x", "1.5/3",
                                  "99999999999999999999/3", "nan/nan"])
def test_nonsense_ranks_are_refused(mill, rank):
    mill.fails("run", OK, "--rank", rank, code=2, says=["--rank", rank])


def test_budget_below_the_least_is_refused(mill):
    mill.fails("run", OK, "--memory", "1000K", code=2, says=["1024000",
                                                            "1M"])


# ---- data that is not there ----

@pytest.mark.parametrize("text,thing", [
    ("files /no/such/dir | batch 4", "/no/such/dir"),
    ("list /no/such/list | batch 4", "/no/such/list"),
    ("npy /no/such.npy | batch 4", "/no/such.npy"),
    ("npy '/no/such/*.npy' | batch 4", "/no/such/*.npy"),
])
@pytest.mark.parametrize("command", ["run", "explain"])
def test_missing_data_is_named(mill, command, text, thing):
    mill.fails(command, text, code=1, says=thing)


def test_file_in_place_of_a_directory_and_the_reverse_are_named(mill, ids,
                                                                ragged):
    mill.fails("run", f"files {ids} | batch 4", code=1,
               says=[str(ids), "directory"])
    mill.fails("run", f"npy {ragged} | batch 4", code=1,
               says=[str(ragged), "not a file"])
    mill.fails("run", f"list {ragged} | batch 4", code=1, says=str(ragged))


@pytest.mark.parametrize("text,code,says", [
    ("files http://127.0.0.1:9/x", 1, ["files takes folders on disks"]),
    ("files s3://bucket/x", 1, ["files takes folders on disks"]),
    ("tar ftp://127.0.0.1:9/x.tar", 1, ["http://, https:// and s3:// are "
                                        "taken"]),
    ("parquet x.parquet", 2, ["no C library", "docs/formats/parquet.md"]),
])
def test_what_is_not_supported_is_said(mill, text, code, says):
    mill.fails("run", f"{text} | batch 1", code=code,
               says=[text.split()[-1 if "//" in text else 0], *says])


def test_what_lies_one_folder_below_is_named(mill, tmp_path):
    for name in ("x", "y", "z"):
        (tmp_path / name).mkdir()
    for name in ("x", "y"):
        (tmp_path / name / "index.json").write_text("{}")
    r = mill.fails("run", f"mds {tmp_path} | batch 1", code=1, says=[
        f"{tmp_path}: has no index.json; these folders in it have one: "])
    assert {"x", "y"} == set(r.stderr.strip().rpartition(": ")[2].split(", "))
    mill.fails("run", f"mds {tmp_path}/z | batch 1", code=1,
               says=f"{tmp_path}/z: has no index.json, which")
    mill.fails("run", f"mds {tmp_path}/x/index.json | batch 1", code=1,
               says="mds takes the folder in which index.json lies")
    mill.fails("run", f"lmdb {tmp_path} | batch 1", code=1,
               says=f"{tmp_path}: has no data.mdb")


def test_empty_data_sets_are_named(mill, tmp_path):
    (tmp_path / "d" / "class").mkdir(parents=True)
    (tmp_path / "l").write_text("# nothing\n")
    np.save(tmp_path / "a.npy", np.zeros((0, 4), np.uint8))
    np.save(tmp_path / "b.npy", np.zeros((4, 0), np.uint8))
    for text in (f"files {tmp_path}/d", f"list {tmp_path}/l",
                 f"npy {tmp_path}/a.npy"):
        mill.fails("run", f"{text} | batch 4", code=1,
                   says=[text.split()[1], "the data set is empty"])
    mill.fails("run", f"npy {tmp_path}/b.npy | batch 4", code=1,
               says=["b.npy", "no elements"])
    (tmp_path / "d" / "class" / "x.jpg").write_bytes(b"x")
    mill.fails("run", f"files {tmp_path}/d ext=png | batch 4", code=1,
               says=["the data set is empty", "png"])


@pytest.mark.parametrize("content,says", [
    (b"", "no NumPy file"),
    (b"hello, this is no array at all", "no NumPy file"),
    (b"\x93NUMPY\x01\x00", "no NumPy file"),
    (b"\x93NUMPY\x09\x00\x10\x00" + b" " * 100, "9.0"),
    (b"\x93NUMPY\x01\x00\xff\xff", "truncated"),
    (b"\x93NUMPY\x01\x00\x10\x00" + b"x" * 100, "damaged header"),
])
def test_damaged_arrays_are_named(mill, tmp_path, content, says):
    (tmp_path / "x.npy").write_bytes(content)
    mill.fails("run", f"npy {tmp_path}/x.npy | batch 4", code=1,
               says=[str(tmp_path / "x.npy"), says])


def test_array_that_is_cut_short_is_named_before_it_is_read(mill, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((100, 100)))
    os.truncate(tmp_path / "x.npy", 5000)
    mill.fails("run", f"npy {tmp_path}/x.npy | batch 4", code=1,
               says=[str(tmp_path / "x.npy"), "truncated"])


def test_types_that_are_not_taken_come_with_the_conversion(mill, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((10, 4), np.complex64))
    mill.fails("run", f"npy {tmp_path}/x.npy | batch 4", code=1,
               says=["x.npy", "c8", "np.save"])


def test_the_conversion_of_texts_is_one_that_works(mill, tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, np.array(["b", "a", "b"]))
    r = mill.fails("run", f"npy {path} | batch 3", code=1, says=["'<U1'"])
    exec(r.stderr.partition("convert it: ")[2], {"np": np})
    assert np.load(path).tolist() == [1, 0, 1]
    mill("run", f"npy {path} | batch 3")


# ---- permissions: root reads everything, so such tests are run as nobody --

@pytest.fixture
def as_nobody(mill):
    """A folder that nobody can reach, and what runs the command as nobody."""
    d = pathlib.Path(tempfile.mkdtemp())
    d.chmod(0o755)
    who = {"user": 65534, "group": 65534} if os.geteuid() == 0 else {}
    try:
        r = subprocess.run([str(mill.bin), "--version"], capture_output=True,
                           **who)
        if r.returncode:
            pytest.skip("another user cannot run the command here")
    except OSError as e:
        pytest.skip(f"cannot run as another user: {e}")
    yield d, who
    for p in d.rglob("*"):
        if p.is_dir():
            p.chmod(0o755)
    shutil.rmtree(d)


def test_unreadable_directory_is_named(mill, as_nobody):
    d, who = as_nobody
    (d / "a").mkdir()
    (d / "b").mkdir()
    (d / "a" / "x").write_bytes(b"x")
    (d / "b").chmod(0)
    mill.fails("run", f"files {d} | batch 1", code=1, cwd="/",
               says=[str(d / "b"), "Permission denied"], **who)


def test_unreadable_file_is_named(mill, as_nobody):
    d, who = as_nobody
    for name in "abc":
        (d / name).write_bytes(b"x")
    (d / "b").chmod(0)
    for fetch in ("direct", "ahead"):
        mill.fails("run", f"files {d} | batch 1", "--fetch", fetch, code=1,
                   cwd="/", says=[str(d / "b"), "Permission denied"], **who)


def test_unreadable_array_and_list_are_named(mill, as_nobody):
    d, who = as_nobody
    for name in ("x.npy", "l"):
        (d / name).write_bytes(b"x")
        (d / name).chmod(0)
    mill.fails("run", f"npy {d}/x.npy | batch 1", code=1, cwd="/",
               says=[str(d / "x.npy"), "Permission denied"], **who)
    mill.fails("run", f"list {d}/l | batch 1", code=1, cwd="/",
               says=[str(d / "l"), "Permission denied"], **who)


# ---- data that changes under the run ----

@pytest.mark.parametrize("fetch", ["direct", "ahead"])
@pytest.mark.parametrize("mapped", ["no", "yes"])
def test_array_that_shrinks_while_it_is_read_ends_the_run(mill, tmp_path,
                                                          fetch, mapped):
    x = tmp_path / "x.npy"
    np.save(x, np.zeros((1000, 64), np.float32))
    run = mill.start("run", f"npy {x} map={mapped} | batch 16", "--epochs",
                     10**9, "--fetch", fetch, "--threads", 2)
    os.truncate(x, 1000)
    r = mill.finish(run)
    assert r.returncode == 1
    assert str(x) in r.stderr and "shrunk" in r.stderr


def test_file_that_vanishes_while_others_are_read_ends_the_run(mill,
                                                               tmp_path):
    for i in range(50):
        (tmp_path / f"{i}").write_bytes(b"x" * 100)
    run = mill.start("run", f"files {tmp_path} | batch 4", "--epochs", 10**9)
    (tmp_path / "17").unlink()
    r = mill.finish(run)
    assert r.returncode == 1 and r.stderr.startswith("millrace: ")
    assert str(tmp_path / "17") in r.stderr


# ---- limits ----

@pytest.mark.parametrize("fetch", ["direct", "ahead"])
@pytest.mark.parametrize("steps", ["", "| cast f32"])
def test_sample_larger_than_the_budget_is_named(mill, tmp_path, fetch, steps):
    (tmp_path / "large").write_bytes(bytes(5 << 20))
    (tmp_path / "small").write_bytes(b"x")
    r = mill.fails("run", f"files {tmp_path} {steps} | batch 1", "--memory",
                   "1M", "--fetch", fetch, code=1,
                   says=["large", "memory budget", "--memory"])
    assert "small" not in r.stderr
    assert mill.json("run", f"files {tmp_path} {steps} | batch 1",
                     "--memory", "64M")["samples"] == 2


def test_sample_without_end_is_refused_and_does_not_fill_the_memory(mill,
                                                                    tmp_path):
    (tmp_path / "l").write_text("/dev/zero\tx\n")
    for fetch in ("direct", "ahead"):
        mill.fails("run", f"list {tmp_path}/l | batch 1", "--memory", "8M",
                   "--fetch", fetch, code=1, says=["/dev/zero", "--memory"])


def test_batch_larger_than_the_budget_is_refused_at_once(mill):
    mill.fails("run", "synthetic shape=256,256,3 | batch 64", "--memory",
               "8M", code=1, says=["batch of 12", "8", "raise --memory"])
    mill.fails("run", "synthetic shape=1000000000000 | batch 1048576",
               code=1, says="batch")


# ---- lists with missing files ----

@pytest.fixture
def gaps(tmp_path):
    """A list of 20 files of which 3, 7 and 11 are missing."""
    lines = []
    for i in range(20):
        if i not in (3, 7, 11):
            (tmp_path / f"{i}.bin").write_bytes(bytes([i]) * (i + 1))
        lines.append(f"{i}.bin\t{i % 2}\n")
    (tmp_path / "list").write_text("".join(lines))
    return f"list {tmp_path}/list | batch 5"


def test_missing_file_of_a_list_stops_the_run(mill, gaps, tmp_path):
    mill.fails("run", gaps, "--order", "sequential", code=1,
               says=[str(tmp_path / "3.bin"), "No such file"])


def test_missing_files_of_a_list_are_skipped_on_demand(mill, gaps):
    r = mill.json("run", gaps, "--on-error", "skip")
    assert r["samples"] == 17 and r["bad_samples"] == 3
    assert sorted(b["key"] for b in r["bad"]) == ["11.bin", "3.bin", "7.bin"]


def test_missing_files_of_a_list_are_replaced_on_demand(mill, gaps):
    r = mill.json("run", gaps, "--on-error", "replace")
    assert r["samples"] == 20 and r["batches"] == 4
    assert r["bad_samples"] == 3


@pytest.mark.parametrize("content,says", [
    ("a\tb\tc\td\n", ":1: more than two columns"),
    ("a,1\nb\n", ":2: no label"),
    ("a\nb,1\n", ":2: a label, but"),
    ("a,\n", ":1: the label is empty"),
    (",1\n", ":1: no path"),
    ('"a,1\n', ":1: a quote is not closed"),
    ("a,99999999999999999999\n", ":1: the label does not fit"),
    ("a\0b\n", ":1: a zero byte"),
    ("x" * 70000, ":1: the line is longer"),
])
def test_wrong_lines_of_a_list_are_numbered(mill, tmp_path, content, says):
    (tmp_path / "l").write_text(content)
    mill.fails("run", f"list {tmp_path}/l | batch 1", code=1,
               says=f"{tmp_path}/l{says}")


# ---- checkpoints ----

@pytest.fixture
def checkpoint(mill, tmp_path):
    c = tmp_path / "c"
    mill("run", OK, "--samples", 50, "--checkpoint", c, "--digest")
    return c


@pytest.mark.parametrize("args,says", [
    (["synthetic shape=5 count=100 | batch 10"], "another pipeline"),
    (["synthetic shape=4 count=100 | batch 20"], "another pipeline"),
    ([OK, "--order", "sequential"], "another pipeline or order"),
    ([OK, "--order", "block"], "another pipeline or order"),
    ([OK, "--rank", "0/2"], "rank 0/1's, this is 0/2"),
])
def test_checkpoint_of_another_run_is_refused(mill, checkpoint, args, says):
    mill.fails("run", *args, "--resume", checkpoint, code=2,
               says=[str(checkpoint), says])


def test_checkpoint_of_a_data_set_that_grew_is_refused(mill, tmp_path):
    x, c = tmp_path / "x.npy", tmp_path / "c"
    np.save(x, np.zeros((50, 4)))
    mill("run", f"npy {x} | batch 10", "--samples", 20, "--checkpoint", c)
    np.save(x, np.zeros((60, 4)))
    mill.fails("run", f"npy {x} | batch 10", "--resume", c, code=2,
               says=[str(c), "50", "60"])


def test_truncated_checkpoints_are_refused_at_any_length(mill, checkpoint,
                                                         tmp_path):
    text = checkpoint.read_text()
    cut = tmp_path / "cut"
    for n in range(0, len(text.rstrip()), 17):
        cut.write_text(text[:n])
        mill.fails("run", OK, "--resume", cut, code=1,
                   says=[str(cut), "not a checkpoint, or a damaged one"])


@pytest.mark.parametrize("change", [
    {"millrace_checkpoint": 2}, {"epoch": -1}, {"batch": "5"},
    {"batch": 5.5}, {"pipeline": "xyz"}, {"pipeline": 17}, {"digest": None},
    {"seed": []}, {"rank": {}}, {"samples": True}, {"pipeline": ""},
])
def test_damaged_values_of_a_checkpoint_are_refused(mill, checkpoint, change):
    checkpoint.write_text(json.dumps({**json.loads(checkpoint.read_text()),
                                      **change}))
    mill.fails("run", OK, "--resume", checkpoint, code=1,
               says=[str(checkpoint), "damaged"])


@pytest.mark.parametrize("change", [{"batch": 11}, {"batch": 2**62},
                                    {"epoch": 2**62}])
def test_positions_out_of_range_are_refused(mill, checkpoint, change):
    checkpoint.write_text(json.dumps({**json.loads(checkpoint.read_text()),
                                      **change}))
    mill.fails("run", OK, "--resume", checkpoint, code=2,
               says=[str(checkpoint), "batch"])


@pytest.mark.parametrize("content", [b"", b"\0" * 100, b"[]", b"5", b"null",
                                     b"{}", b"\xff\xfe", b"[" * 10000,
                                     b'{"millrace_checkpoint": 1}'])
def test_garbage_is_no_checkpoint(mill, tmp_path, content):
    (tmp_path / "c").write_bytes(content)
    mill.fails("run", OK, "--resume", tmp_path / "c", code=1,
               says=[str(tmp_path / "c"), "not a checkpoint"])


def test_checkpoint_that_cannot_be_read_is_named_once(mill, tmp_path):
    for path in ("/no/such/c", tmp_path):
        r = mill.fails("run", OK, "--resume", path, code=1, says=str(path))
        assert r.stderr.count(str(path)) == 1, r.stderr
    (tmp_path / "c").write_bytes(b" " * 100_000)
    mill.fails("run", OK, "--resume", tmp_path / "c", code=1,
               says="larger than")


@pytest.mark.parametrize("option", ["--checkpoint", "--quarantine"])
def test_file_that_cannot_be_written_fails_the_run(mill, tmp_path, option):
    for path in ("/no/such/dir/c", tmp_path):
        mill.fails("run", OK, option, path, code=1,
                   says=[str(path), "cannot write"])
    assert list(tmp_path.iterdir()) == [], "no scraps are left"


def test_checkpoint_on_a_full_disk_leaves_the_old_one(mill, checkpoint):
    def limit():
        import resource
        import signal
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
    before = checkpoint.read_bytes()
    mill.fails("run", OK, "--checkpoint", checkpoint, code=1,
               says=[str(checkpoint), "File too large"], preexec_fn=limit,
               restore_signals=False)
    assert checkpoint.read_bytes() == before
    assert list(checkpoint.parent.iterdir()) == [checkpoint]


# ---- standard output ----

@pytest.mark.parametrize("args", [
    ["run", OK], ["run", OK, "--json"], ["explain", OK], ["list"],
    ["list", "--markdown"], ["list", "--man"], ["list", "batch"],
    ["run", "--help"], ["--help"], ["--version"],
])
def test_full_disk_or_closed_output_is_a_failure(mill, args):
    with open("/dev/full", "wb") as full:
        r = mill.fails(*args, code=1, stdout=full)
    assert "standard output" in r.stderr and "No space" in r.stderr
    r = mill.fails(*args, code=1, stdout=None,
                   preexec_fn=lambda: os.close(1))
    assert "standard output" in r.stderr
