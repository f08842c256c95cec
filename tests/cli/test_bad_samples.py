# SPDX-License-Identifier: Apache-2.0
"""Bad samples: stop, skip, replace. Some cannot be read, some are refused
by a step."""
import numpy as np
import pytest

N = 120
UNREADABLE = {5, 17, 40, 41, 42, 90}  # links to nowhere, and directories
REFUSED = {13, 64, 65, 119}	       # begin with 13
BAD = UNREADABLE | REFUSED


@pytest.fixture(scope="module")
def spoilt(tmp_path_factory, picky):
    """Words for `run`: 120 files in a list, of which 10 are bad."""
    root = tmp_path_factory.mktemp("spoilt")
    lines = []
    for i in range(N):
        p = root / f"{i:03}.bin"
        if i in UNREADABLE and i % 2:
            p.symlink_to("nowhere")
        elif i in UNREADABLE:
            p.mkdir()
        else:
            first = 13 if i in REFUSED else 200
            p.write_bytes(bytes([first, i]) + b"x" * i)
        lines.append(f"{p.name}\t{i}\n")
    (root / "list").write_text("".join(lines))
    return [f"list {root}/list | picky | batch 16", "--plugin", picky]


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("fetch", ["direct", "ahead"])
def test_stop_names_the_first_bad_sample_in_order(mill, spoilt, threads,
                                                  fetch):
    args = [*spoilt, "--threads", threads, "--fetch", fetch]
    mill.fails("run", *args, "--order", "sequential", code=1,
               says=["005.bin", "No such file"])
    said = {mill.fails("run", *args, "--seed", 4, code=1).stderr
            for _ in range(3)}
    said.add(mill.fails("run", *spoilt, "--threads", 1, "--seed", 4,
                        code=1).stderr)
    assert len(said) == 1


def test_stop_says_key_step_and_reason_once(mill, spoilt, tmp_path, picky):
    (tmp_path / "a.bin").write_bytes(b"\x0dxyz")
    r = mill.fails("run", f"files {tmp_path} | picky | batch 1", "--plugin",
                   picky, code=1)
    assert r.stderr == "millrace: a.bin: picky: thirteen\n"


def test_stop_gives_json_too(mill, spoilt):
    r = mill.json("run", *spoilt, "--order", "sequential", code=1)
    assert r["bad"][0]["key"] == "005.bin" and r["samples"] == 0


def test_skip_delivers_all_good_samples_and_lists_the_bad(mill, spoilt):
    r = mill.json("run", *spoilt, "--on-error", "skip")
    assert r["samples"] == N - len(BAD) and r["bad_samples"] == len(BAD)
    assert {b["index"] for b in r["bad"]} == BAD
    assert r["bytes_out"] == sum(i + 2 + 8 for i in range(N) if i not in BAD)
    for b in r["bad"]:
        assert b["key"] == f"{b['index']:03}.bin" and b["epoch"] == 0
        if b["index"] in REFUSED:
            assert (b["step"], b["reason"]) == ("picky", "thirteen")
        else:
            assert b["step"] == "read" and b["key"] in b["reason"]


@pytest.mark.parametrize("policy", ["skip", "replace"])
@pytest.mark.parametrize("batch", ["batch 16", "batch 16 pad=1", "batch 5"])
def test_digest_does_not_depend_on_who_meets_the_bad(mill, spoilt, policy,
                                                     batch):
    text = spoilt[0].replace("batch 16", batch)
    got = {(mill.digest(text, *spoilt[1:], "--on-error", policy, "--threads",
                        t, "--fetch", fetch, "--epochs", 2))
           for t in (1, 2, 7) for fetch in ("direct", "ahead")}
    assert len(got) == 1


def test_bad_samples_are_listed_in_the_order_of_delivery(mill, spoilt):
    def listed(threads):
        return mill.json("run", *spoilt, "--on-error", "skip", "--threads",
                         threads, "--epochs", 2, "--seed", 9)["bad"]

    one = listed(1)
    assert one == listed(2) == listed(5)
    assert [b["epoch"] for b in one] == [0] * len(BAD) + [1] * len(BAD)
    order = mill.order(f"synthetic shape=1 count={N} | batch 16", "--seed", 9)
    assert [b["index"] for b in one[:len(BAD)]] == \
        [i for i in order if i in BAD]


@pytest.mark.parametrize("policy", ["skip", "replace"])
def test_quarantine_file_lists_the_bad_ones(mill, spoilt, tmp_path, policy):
    q = tmp_path / "q"
    r = mill.json("run", *spoilt, "--on-error", policy, "--quarantine", q)
    rows = [line.split("\t") for line in q.read_text().splitlines()]
    assert rows[0] == "epoch index key offset step reason".split()
    assert rows[1:] == [[str(b[k]) for k in rows[0]] for b in r["bad"]]
    assert len(rows) == 1 + len(BAD)


def test_quarantine_file_is_written_when_the_run_stops(mill, spoilt,
                                                       tmp_path):
    mill("run", *spoilt, "--order", "sequential", "--quarantine",
         tmp_path / "q", code=1)
    assert "005.bin" in (tmp_path / "q").read_text()


def test_quarantine_file_of_a_good_run_has_its_header_only(mill, tmp_path):
    mill("run", "synthetic shape=1 count=10 | batch 5", "--quarantine",
         tmp_path / "q")
    assert (tmp_path / "q").read_text().count("\n") == 1


def test_quarantine_keeps_one_line_for_any_name(mill, tmp_path):
    d = tmp_path / "d"
    d.mkdir()
    (d / "good").write_bytes(b"x")
    (d / "tab\there\nand line").symlink_to("nowhere")
    q = tmp_path / "q"
    mill("run", f"files {d} | batch 1", "--on-error", "skip", "--quarantine",
         q)
    lines = q.read_text().splitlines()
    assert len(lines) == 2 and lines[1].count("\t") == 5


def test_text_shows_some_and_counts_all(mill, tmp_path):
    for i in range(25):
        (tmp_path / f"{i:02}").symlink_to("nowhere")
    (tmp_path / "good").write_bytes(b"x")
    out = mill("run", f"files {tmp_path} | batch 1", "--on-error", "skip",
               "--order", "sequential").stdout
    assert "25 bad samples:" in out and "... and 15 more" in out
    assert "  00 (byte 0, read): " in out and "  24 (" not in out


def test_replace_keeps_the_sizes_of_batches(mill, spoilt):
    r = mill.json("run", *spoilt, "--on-error", "replace", "--epochs", 2)
    assert r["samples"] == 2 * N and r["batches"] == 16
    assert r["bad_samples"] == 2 * len(BAD)
    assert {b["index"] for b in r["bad"]} == BAD


def test_replacements_come_from_the_good_samples(mill, tmp_path, picky):
    # Sample i is [200, i] or, when bad, [13, i]: no 13 may come out.
    a = np.full((64, 2), 200, np.uint8)
    a[:, 1] = 0
    a[::4, 0] = 13
    np.save(tmp_path / "a.npy", a)
    p = f"npy {tmp_path}/a.npy | picky | batch 64"
    r = mill.json("run", p, "--plugin", picky, "--on-error", "replace")
    assert r["samples"] == 64 and r["bad_samples"] == 16
    # All good samples are alike, so that the bytes of the batch are known.
    np.save(tmp_path / "b.npy", np.full((64, 2), [200, 0], np.uint8))
    assert mill.digest(p, "--plugin", picky, "--on-error", "replace") == \
        mill.digest(f"npy {tmp_path}/b.npy | batch 64")


def test_replacements_stay_in_the_subset(mill, tmp_path, picky):
    # Sample i is [200, i] or, when bad, [13, i].
    a = np.full((400, 2), 13, np.uint8)
    a[:, 1] = np.arange(400) % 250
    np.save(tmp_path / "a.npy", a)
    words = ["run", f"npy {tmp_path}/a.npy | picky | batch 4", "--subset", 4,
             "--plugin", picky]
    chosen = [b["index"]
              for b in mill.json(*words, "--on-error", "skip")["bad"]]
    assert len(chosen) == 4
    # one of them is good, and takes the places of the others
    a[:, 0] = 200
    a[chosen[1:], 0] = 13
    np.save(tmp_path / "a.npy", a)
    r = mill.json(*words, "--on-error", "replace", "--digest")
    np.save(tmp_path / "b.npy", a[[chosen[0]] * 4])
    assert r["samples"] == 4 and r["digest"] == mill.digest(
        f"npy {tmp_path}/b.npy | batch 4")


@pytest.mark.parametrize("policy", ["skip", "replace"])
def test_data_set_without_a_good_sample_ends(mill, tmp_path, policy):
    for i in range(10):
        (tmp_path / f"{i}").symlink_to("nowhere")
    r = mill.json("run", f"files {tmp_path} | batch 4", "--on-error", policy,
                  "--epochs", 3)
    assert r["samples"] == r["batches"] == 0 and r["bad_samples"] == 30


def test_whole_batches_of_bad_samples_are_left_out(mill, tmp_path):
    for i in range(12):
        p = tmp_path / f"{i:02}"
        p.symlink_to("nowhere") if 4 <= i < 8 else p.write_bytes(b"x")
    r = mill.json("run", f"files {tmp_path} | batch 4", "--on-error", "skip",
                  "--order", "sequential")
    assert (r["samples"], r["batches"], r["bad_samples"]) == (8, 2, 4)


def test_skip_resumes_to_the_digest_of_one_run(mill, spoilt, tmp_path):
    args = [*spoilt, "--on-error", "skip", "--epochs", 2]
    c = tmp_path / "c"
    mill("run", *args, "--samples", 48, "--checkpoint", c, "--digest")
    assert mill.digest(*args, "--resume", c, "--threads", 3) == \
        mill.digest(*args)


def test_a_batch_padded_beyond_the_budget_is_refused(mill, tmp_path):
    for i in range(200):
        (tmp_path / f"{i:03}").write_bytes(b"x")
    (tmp_path / "long").write_bytes(bytes(1 << 20))
    mill.fails("run", f"files {tmp_path} | batch 201 pad=0", "--memory", "32M",
               code=1, says=["field 'data': 201 rows, padded to the largest",
                             "201 MB", "raise --memory"])


def test_sample_over_the_budget_is_a_bad_sample(mill, tmp_path):
    (tmp_path / "large").write_bytes(bytes(3 << 20))
    (tmp_path / "small").write_bytes(b"x")
    r = mill.json("run", f"files {tmp_path} | batch 2", "--memory", "1M",
                  "--on-error", "skip")
    assert r["samples"] == 1 and r["bad"][0]["key"] == "large"


@pytest.mark.parametrize("threads", [1, 4])
def test_more_bad_samples_than_are_kept_are_still_counted(mill, tmp_path,
                                                          threads):
    for i in range(50):
        (tmp_path / f"{i}").symlink_to("nowhere")
    r = mill.json("run", f"files {tmp_path} | batch 10", "--on-error", "skip",
                  "--epochs", 210, "--threads", threads)
    assert r["bad_samples"] == 10_500 and len(r["bad"]) == 10_000
