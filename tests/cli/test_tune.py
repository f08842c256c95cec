# SPDX-License-Identifier: Apache-2.0
"""tune: what to store, how, what to cache; and apply it."""
import json
import os
import re
import shlex
import signal
import subprocess
import time

import pytest

QUICK = ("--seconds", "1", "--precision", "0.2")


def tune(mill, *args):
    return mill.json("tune", *args, *QUICK)


@pytest.fixture(scope="module")
def photos(mill, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tune") / "photos"
    mill("synth", "images", folder, "--count", 96, "--size", "160x120")
    return folder


def text(folder):
    return (f"files {folder} | decode_image | resize 64 | normalize center | "
            "random_crop 48 | batch 16")


@pytest.fixture(scope="module")
def result(mill, photos, tmp_path_factory):
    scratch = tmp_path_factory.mktemp("that's it")
    got = tune(mill, text(photos), "--storage", "ceph-hdd", "--max-memory", "0",
               "--scratch", str(scratch))
    assert os.listdir(scratch) == []
    return got


def test_every_split_and_no_random_step_is_a_strategy(result):
    after = {s["after"] for s in result["strategies"]}
    assert after == {"", "read", "decode_image", "resize", "normalize"}
    assert [s["split"] for s in result["splits"]] == [-1, 0, 1, 2, 3]
    orders = {s["order"] for s in result["strategies"]}
    assert orders == {"shuffle", "block"}
    codecs = {s["codec"] for s in result["strategies"]}
    assert {"none", "lz4", "zstd-1", "zstd-3", "zstd-9"} <= codecs
    assert "zstd-3+shuffle" in codecs
    assert all(s["cache"] == "none" for s in result["strategies"])


def test_the_best_few_and_the_extremes_were_measured(result):
    by = {s["id"]: s for s in result["strategies"]}
    for name in ("best", "all_online", "all_offline"):
        assert by[result[name]]["measured"]["per_s"] > 0, name
    assert "error" in by[result["best"]]
    assert by[result["best"]]["score"] > 0.97
    assert len([s for s in by.values() if "measured" in s]) < 12


def test_exhaustive_measures_all_of_them(mill, photos):
    for repeats in (1, 3):
        got = tune(mill, text(photos), "--storage", "ssd", "--max-memory", "0",
                   "--keep-order", "--threads", 1, "--exhaustive", "--repeats",
                   repeats)
        measured = [s["measured"] for s in got["strategies"]
                    if s["part"] == 1]
        assert len(measured) > 20 and all(m["per_s"] > 0 for m in measured)
    assert all(m["low"] <= m["per_s"] <= m["high"] for m in measured)


def test_numbers_of_the_strategies_add_up(result):
    n = result["samples"]
    epochs = result["objective"]["epochs"]
    for s in result["strategies"]:
        want = s["offline_s"] + n / s["cold_per_s"] + \
            (epochs - 1) * n / s["warm_per_s"]
        assert s["total_s"] == pytest.approx(want, rel=1e-3)
        assert s["storage_bytes"] > 0
        assert (s["offline_s"] == 0) == (s["split"] == -1)
        # all of the set is read, and nothing else, but of a mixture
        assert s["added_bytes"] == pytest.approx(
            0 if s["split"] < 0 else s["storage_bytes"]) or s["part"] < 1


def test_sizes_are_those_of_prepare(mill, result, photos, tmp_path):
    by = {s["name"]: s for s in result["splits"]}
    # a machine without a free core looks at fewer of them
    near = 0.02 if result["sampled"] == result["samples"] else 0.1
    for step in ("decode_image", "normalize"):
        out = tmp_path / step
        made = mill.json("prepare", text(photos), "--until", step,
                         "--literal", "--out", out)
        assert by[step]["bytes"] == pytest.approx(
            made["bytes"] / made["samples"], rel=near)


def test_what_a_sample_takes_is_the_mean_of_all_of_them(mill, tmp_path):
    """Two of sixty are large: a few would not tell."""
    for name, count, size in (("a", 58, "40x30"), ("b", 2, "800x600")):
        mill("synth", "images", tmp_path / "in" / name, "--count", count,
             "--classes", 1, "--size", size)
    got = tune(mill, f"files {tmp_path / 'in'} | decode_image | flip | batch 4",
               "--max-memory", "0")
    made = {s["name"]: s for s in got["splits"]}["decode_image"]
    assert made["plain_bytes"] == pytest.approx(made["bytes"], rel=0.02)


def test_what_codecs_gain_is_learnt_from_all_samples(mill, tmp_path):
    """Four of sixty do not pack: sixteen that are tried do not tell. A page
    cache of all holds these, too: else there were misses, at 170 a second."""
    folder = tmp_path / "in"
    folder.mkdir()
    for i in range(60):
        (folder / f"{i:02}.bin").write_bytes(
            os.urandom(50000) if i % 16 == 0 else bytes(50000))
    pipe = f"files {folder} | batch 4"
    got = tune(mill, pipe, "--storage", "hdd", "--exhaustive", "--repeats", 1,
               "--threads", 1, "--keep-order")
    of = [s for s in got["strategies"]
          if s["codec"] == "zstd-3" and s["part"] == 1 and not s["shuffle"]]
    made = mill.json("prepare", pipe, "--codec", "zstd", "--level", 3, "--out",
                     tmp_path / "set", "--shards", 1)
    for s in of:
        assert s["storage_bytes"] == pytest.approx(made["bytes"], rel=0.1)
    assert all(s["measured"]["per_s"] > 1000 for s in of
               if s["cache"] == "page")


@pytest.mark.parametrize("order, note, least, most", [
    ("sequential", "measured on the first ", 1000, 1300),
    ("shuffle", "chosen at random", 15000, 35000)])
def test_sets_are_made_of_the_samples_that_are_read(mill, tmp_path, order, note,
                                                    least, most):
    """Half of the files, the last ones, are large."""
    for i in range(1400):
        (tmp_path / f"{i:04}.bin").write_bytes(bytes(1000 if i < 700 else 50000))
    got = tune(mill, f"files {tmp_path} | batch 8", "--order", order, "--storage",
               "ssd", "--max-memory", "0", "--seed", 3)
    assert any(note in n for n in got["notes"])
    assert least < got["splits"][1]["bytes"] < most


def test_apply_makes_the_set_and_the_same_batches(mill, photos, tmp_path):
    out, file = tmp_path / "a set", tmp_path / "new.txt"
    # Nothing but speed counts, and there is no other way to it.
    done = mill("tune", text(photos), *QUICK, "--storage", "ceph-hdd",
                "--max-memory", "0", "--weights", "0,0,1",
                "--apply", out, "--write", file)
    assert "byte for byte" in done.stdout
    assert sorted(os.listdir(tmp_path)) == ["a set", "new.txt"]
    new = file.read_text()
    assert "records" in new
    # What it says is the pipeline with the options that the gain is from.
    options = re.search("^# run with: (.*)$", new, re.M).group(1)
    used = re.search("^use it: (.*)$", done.stdout, re.M).group(1)
    command = shlex.split(used)
    assert command[:2] == ["millrace", "run"]
    assert command[2] == new.splitlines()[-1]
    assert command[3:] == options.split() and "--threads" in command
    assert mill.json(*command[1:], "--epochs", 1)["samples"] == 96
    for order in (["--order", "shuffle"], ["--order", "block"]):
        digests = {mill.digest(p, "--epochs", 2, *order)
                   for p in (text(photos), f"@{file}")}
        assert len(digests) == 1


def test_with_memory_for_all_a_cache_or_the_page_cache_is_chosen(mill, photos):
    got = tune(mill, text(photos), "--storage", "hdd")
    best = next(s for s in got["strategies"] if s["id"] == got["best"])
    assert best["cache"] in ("page", "ram")
    assert best["cache_share"] == 1
    assert {s["cache"] for s in got["strategies"]} == {"none", "page", "ram"}


def test_what_is_stored_may_be_larger_than_batches(mill, photos):
    """Two batches of the job, of 1.8 MB, fit into the memory; two of sixteen
    samples as they are stored, of 2.4 MB, do not."""
    got = tune(mill, f"files {photos} | decode_image | resize 112x112 | "
               "normalize center | random_crop 96 | batch 16", "--memory", "5M",
               "--storage", "hdd", "--threads", 2, "--max-memory", "0")
    assert "normalize" in {s["after"] for s in got["strategies"]}


def test_caches_leave_to_batches_what_they_need(mill, photos):
    """Of 1.8 MB each; beside a cache of half of 5 there were not two."""
    old = (f"files {photos} | decode_image | resize 112x112 | normalize center "
           "| random_crop 96 | batch 16")
    args = ["--storage", "hdd", "--threads", 2, "--keep-order"]
    got = tune(mill, old, *args, "--memory", "5M")
    assert got["memory"] == 0
    assert {s["cache"] for s in got["strategies"]} == {"none"}
    got = tune(mill, old, *args, "--memory", "20M", "--max-memory", "6M")
    assert 1 << 20 < got["memory"] < 6 << 20
    assert any("left for caches" in n for n in got["notes"])
    assert got["objective"]["max_memory"] == pytest.approx(6 << 20, 1e-3)


def test_a_share_of_the_data_that_memory_does_not_hold_is_refused_at_once(
        mill, tmp_path):
    """Before any step is run: the photos are none."""
    (tmp_path / "in").mkdir()
    for i in range(20):
        (tmp_path / "in" / f"{i}.jpg").write_bytes(bytes(200 << 10))
    mill.fails("tune", f"files {tmp_path / 'in'} | decode_image | batch 4",
               *QUICK, "--memory", "4M", "--max-memory", "60%", code=2,
               says=["max-memory '60%' is 2.3 MB", "half of --memory"])


def test_limits_are_kept(mill, photos):
    got = tune(mill, text(photos), "--storage", "hdd", "--max-memory", "0",
               "--max-storage", "1K")
    best = next(s for s in got["strategies"] if s["id"] == got["best"])
    assert best["split"] == -1
    assert all(s["split"] == -1 for s in got["strategies"] if s["allowed"])
    assert got["prepare"] == ""


def test_with_room_for_a_part_a_part_is_stored(mill, tmp_path):
    """Photos that are dear to decode, and room for two fifths of them."""
    photos, out, file = tmp_path / "in", tmp_path / "set", tmp_path / "t.json"
    mill("synth", "images", photos, "--count", 40, "--size", "1600x1200")
    old = (f"files {photos} | decode_image | resize 64x64 | flip | "
           "normalize center | batch 8")
    room = 40 * 64 * 64 * 3 * 2 // 5
    done = mill("tune", old, *QUICK, "--max-memory", "0", "--keep-order",
                "--storage", "ssd", "--max-storage", room, "--out", file,
                "--apply", out, "--seed", 4)
    got = json.loads(file.read_text())
    best = next(s for s in got["strategies"] if s["id"] == got["best"])
    assert best["after"] == "resize" and 0.3 < best["part"] < 1
    assert best["measured"]["per_s"] > 0
    assert all(s["part"] == 1 for s in got["strategies"] if s["split"] < 0)
    assert "the rest online" in got["answer"] and "byte for byte" in done.stdout
    new = got["text"]
    assert f"| resize 64x64 | stored {out} | flip" in new
    for more in ([], ["--seed", 3], ["--order", "block"]):
        assert mill.digest(new, *more) == mill.digest(old, *more)


def test_a_pipeline_that_begins_with_chance(mill, photos):
    got = tune(mill, f"files {photos} | decode_image | random_crop 16 | batch 16",
               "--storage", "hdd", "--max-memory", "0")
    assert {s["after"] for s in got["strategies"]} == \
        {"", "read", "decode_image"}
    got = tune(mill, "synthetic shape=8 count=64 | batch 4", "--max-memory", "0")
    assert {s["after"] for s in got["strategies"]} == {"", "read"}


def test_a_precision_that_is_not_reached_is_said(mill, photos, tmp_path):
    got = mill.json("tune", text(photos), "--seconds", "1", "--precision",
                    "0.005", "--max-memory", "0")
    if got["sampled"] < got["samples"]:
        assert got["notes"][0].startswith("the precision of 0.5 % was not")
        assert "--seconds" in got["notes"][0]


def test_the_chosen_one_is_on_the_front_and_compared_with_what_is(mill, photos):
    got = tune(mill, text(photos), "--storage", "hdd")
    by = {s["id"]: s for s in got["strategies"]}
    assert by[got["best"]]["pareto"]
    assert all(s["threads"] == got["threads"] for s in by.values()
               if s["pareto"])
    # The set would be in the page cache anyway.
    usual = by[got["baseline"]]
    assert (usual["split"], usual["cache"], usual["cache_share"]) == \
        (-1, "page", 1)
    assert usual["id"] == got["best"] or \
        "of all online from the page cache" in got["answer"]
    got = tune(mill, text(photos), "--storage", "hdd", "--max-memory", "0")
    assert got["baseline"] == got["all_online"]
    assert "of all online from the storage in every epoch" in got["answer"]


@pytest.mark.parametrize("count", [1, 3])
def test_three_samples_are_a_data_set(mill, tmp_path, count):
    folder = tmp_path / "few"
    mill("synth", "images", folder, "--count", count, "--classes", 1,
         "--size", "64x48")
    got = tune(mill, text(folder))
    assert got["samples"] == count and got["best"] >= 0


def test_a_set_can_be_tuned_again(mill, photos, tmp_path):
    out = tmp_path / "set"
    mill("prepare", text(photos), "--until", "normalize", "--out", out)
    got = tune(mill, f"records {out} | random_crop 48 | batch 16", "--max-memory",
               "0")
    # what prepare left to be done on load belongs to the source
    assert {s["after"] for s in got["strategies"]} == {"", "read"}


def test_a_cache_in_the_pipeline_is_one_of_many(mill, photos):
    got = tune(mill, f"files {photos} | decode_image | cache ram=1M | resize 64 | "
               "batch 16", "--storage", "hdd")
    assert "cache ram=1M" not in got["text"]
    assert {s["after"] for s in got["strategies"]} == \
        {"", "read", "decode_image", "resize"}


@pytest.mark.parametrize("args, code, words", [
    (["--weights", "1,2"], 2, ["weights", "three numbers"]),
    (["--weights", "0,0,0"], 2, ["weights"]),
    (["--max-memory", "lots"], 2, ["max-memory", "lots", "35%"]),
    (["--max-memory", "200%"], 2, ["max-memory '200%'", "up to 100%"]),
    (["--accelerator", "resnet50-h10"], 2, ["did you mean 'resnet50-h100'"]),
    (["--seconds", "700"], 2, ["seconds", "at most 600s"]),
    (["--trace", "x"], 2, ["--trace", "many runs"]),
    (["--storage", "hdd,cache=1G"], 2, ["cache=", "--max-memory"]),
    (["--samples", "5"], 2, ["--samples", "--precision"]),
    (["--cold"], 2, ["--cold", "leave it out"]),
    (["--repeats", "2"], 2, ["--repeats", "without --exhaustive"]),
    (["--repeats", "0", "--exhaustive"], 2, ["repeats"]),
    (["--scratch", "/nonexistent/x"], 1, ["/nonexistent/x", "--scratch"]),
    (["--memory", "64M", "--max-memory", "40M"], 2,
     ["max-memory '40M'", "half", "64.0 MB"]),
    (["--price-gb", "1"], 2, ["price-gb alone", "price-hour"]),
])
def test_wrong_options_are_named(mill, photos, args, code, words):
    mill.fails("tune", text(photos), *QUICK, *args, code=code, says=words)


def test_a_place_that_cannot_be_taken_is_refused_before_measuring(
        mill, photos, tmp_path):
    (tmp_path / "mine").write_text("not a data set")
    scratch = tmp_path / "scratch"
    # --scratch is missing, which would be the next thing to be found
    mill.fails("tune", text(photos), *QUICK, "--apply", tmp_path, "--scratch",
               scratch, code=2, says=[str(tmp_path), "is not empty"])
    assert os.listdir(tmp_path) == ["mine"]


def test_a_set_has_to_fit_where_it_is_to_be(mill, photos, tmp_path):
    """/proc has no room at all, and is not written to."""
    file = tmp_path / "t.json"
    mill("tune", text(photos), *QUICK, "--storage", "ceph-hdd", "--max-memory",
         "0", "--scratch", tmp_path, "--apply", "/proc/set", "--out", file)
    got = json.loads(file.read_text())
    best = next(s for s in got["strategies"] if s["id"] == got["best"])
    assert best["split"] == -1 and got["prepare"] == ""
    assert got["objective"]["max_storage"] == 0     # which the user did not say


def test_a_set_that_has_no_room_is_passed_over(mill, photos, tmp_path):
    """Room for those that are not packed, and for little beside them."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() != 0 or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=700k", "tmpfs", disk],
            capture_output=True).returncode:
        pytest.skip("cannot mount a small tmpfs here")
    try:
        got = tune(mill, f"files {photos} | decode_image | flip | batch 4",
                   "--storage", "hdd", "--max-memory", "0", "--threads", 1,
                   "--keep-order", "--exhaustive", "--repeats", 1,
                   "--scratch", disk)
        assert os.listdir(disk) == []
    finally:
        subprocess.run(["umount", disk], check=True)
    of = [s for s in got["strategies"] if s["codec"] != "none"]
    assert any("measured" not in s for s in of)
    assert all("measured" in s for s in got["strategies"]
               if s["codec"] == "none" and s["part"] == 1)
    note = [n for n in got["notes"] if "for want of room" in n]
    assert len(note) == 1 and "--scratch" in note[0]


def test_options_of_the_job_go_on_to_its_commands(mill, photos, tmp_path):
    out, file = tmp_path / "a='set'", tmp_path / "new.txt"
    done = mill("tune", text(photos), *QUICK, "--storage", "ceph-hdd",
                "--max-memory", "0", "--weights", "0,0,1", "--seed", 3,
                "--memory", "200M", "--on-error", "replace",
                "--apply", out, "--write", file, "--out", tmp_path / "t.json")
    got = json.loads((tmp_path / "t.json").read_text())
    made = shlex.split(got["prepare"])
    run = shlex.split(re.search("^use it: (.*)$", done.stdout, re.M).group(1))
    for words, has in ((run, {"--seed": "3", "--memory": str(200 << 20),
                              "--on-error": "replace"}),
                       (made, {"--memory": str(200 << 20),
                               "--on-error": "skip", "--out": str(out)})):
        assert {k: words[words.index(k) + 1] for k in has} == has
    assert "--seed" not in made     # samples are stored once, for all seeds
    assert "byte for byte" in done.stdout
    assert mill.json(*run[1:], "--epochs", 1)["samples"] == 96
    assert f"# reads what is made by: {got['prepare']}\n" in file.read_text()


def test_a_bad_sample_is_named(mill, tmp_path):
    folder = tmp_path / "bad"
    mill("synth", "images", folder, "--count", 12, "--classes", 1,
         "--size", "64x48")
    victim = sorted(folder.rglob("*.jpg"))[5]
    victim.write_bytes(victim.read_bytes()[:200])
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    mill.fails("tune", text(folder), *QUICK, "--scratch", scratch, code=1,
               says=victim.name)
    assert os.listdir(scratch) == []
    mill("tune", text(folder), *QUICK, "--on-error", "skip", "--scratch",
         scratch)


def heed():
    """Those who run tests may have them ignored, by nohup or a script."""
    for sig in (signal.SIGHUP, signal.SIGQUIT):
        signal.signal(sig, signal.SIG_DFL)


def start(mill, scratch, *args, **kw):
    """A tuning that has begun to make something."""
    p = subprocess.Popen([mill.bin, "tune", *args, "--scratch", str(scratch)],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         preexec_fn=heed, **kw)
    for _ in range(400):
        if any(os.listdir(scratch / d) for d in os.listdir(scratch)):
            break
        time.sleep(0.05)
    time.sleep(1)
    return p


@pytest.mark.parametrize("sig, times", [
    (signal.SIGINT, 1), (signal.SIGTERM, 1), (signal.SIGHUP, 1),
    (signal.SIGQUIT, 1), (signal.SIGINT, 500)])
def test_interrupted_it_leaves_nothing(mill, photos, tmp_path, sig, times):
    p = start(mill, tmp_path, text(photos))
    for _ in range(times):
        p.send_signal(sig)
        time.sleep(0.001)
    _, err = p.communicate(timeout=60)
    assert p.returncode == 1
    assert b"stopped" in err
    assert os.listdir(tmp_path) == []


STUCK = """
#include <millrace/plugin.h>
#include <unistd.h>
static int infer(const void *self, const struct mr_spec *in,
		 struct mr_spec *out, struct mr_err *err)
{
	(void)self;
	(void)err;
	*out = *in;
	return 0;
}
static int run(const struct mr_opctx *cx, const struct mr_tensor *in,
	       struct mr_tensor *out)
{
	(void)cx;
	(void)in;
	(void)out;
	while (pause() < 0)
		;
	return 0;
}
static const struct mr_param params[] = { MR_PARAM_END };
static const struct mr_op stuck = {
	.name = "stuck", .help = "hangs", .flags = MR_OP_SHAPE_KEEP,
	.size = 1, .params = params, .infer = infer, .run = run,
};
static const struct mr_op *const ops[] = { &stuck, NULL };
extern const struct mr_plugin mr_plugin;
const struct mr_plugin mr_plugin = { .abi = MR_PLUGIN_ABI, .ops = ops };
"""


def test_one_that_hangs_can_be_ended(mill, cc, tmp_path):
    """Not at once: a second Ctrl-C is most often an impatient one."""
    plugin = cc(STUCK, "stuck.so", "-shared", "-fPIC",
                f"-I{mill.root}/include", "-Wl,--unresolved-symbols=ignore-all")
    p = start(mill, tmp_path, "synthetic shape=8 count=64 | stuck | batch 4",
              *QUICK, "--plugins", str(plugin))
    for seconds in (0.5, 10.5):
        p.send_signal(signal.SIGINT)
        time.sleep(seconds)
        assert p.poll() is None
    p.send_signal(signal.SIGINT)
    assert p.wait(timeout=60) == -signal.SIGINT


def test_what_a_killed_one_left_the_next_removes(mill, photos, tmp_path):
    p = subprocess.Popen([mill.bin, "tune", text(photos), "--scratch",
                          str(tmp_path)], stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL)
    for _ in range(400):
        if any(len(os.listdir(tmp_path / d)) > 1
               for d in os.listdir(tmp_path)):
            break
        time.sleep(0.05)
    p.kill()
    p.wait()
    assert os.listdir(tmp_path)
    older = tmp_path / "millrace-tune-x1Y2z3"
    older.mkdir()
    (older / "lock").touch()
    (tmp_path / ".millrace-tune-mine").mkdir()  # no lock: not one of its own
    tune(mill, "synthetic shape=8 count=64 | batch 4", "--scratch", tmp_path)
    assert os.listdir(tmp_path) == [".millrace-tune-mine"]


def test_a_scratch_folder_beside_the_samples_is_none_of_them(mill, photos):
    names = os.listdir(photos)
    got = tune(mill, text(photos), "--storage", "ceph-hdd", "--max-memory", "0",
               "--scratch", photos)
    assert got["samples"] == 96 and sorted(os.listdir(photos)) == sorted(names)


def test_a_part_of_a_set_can_be_prepared(mill, photos, tmp_path):
    out = tmp_path / "part"
    made = mill.json("prepare", text(photos), "--until", "resize", "--subset",
                     20, "--out", out)
    assert made["samples"] == 20
    assert mill.json("run", f"records {out} | batch 5", "--epochs",
                     1)["samples"] == 20
    mill("verify", out)
