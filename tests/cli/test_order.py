# SPDX-License-Identifier: Apache-2.0
"""Which samples come when: orders, epochs, ranks."""
import subprocess

import pytest

ORDERS = ["sequential", "shuffle", "block"]


def test_batches_hold_the_samples_that_their_indices_name(mill, ids):
    p = f"npy {ids} | batch 7"
    batches = mill.batches(p)[0]
    sums = [float(line.split()[-1]) for line in mill.loader(p)
            if line.startswith("  data")]
    assert sums == [sum(b) for b in batches] and len(sums) == 15


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("n", [1, 2, 97, 1000])
def test_every_order_is_a_permutation(mill, order, n):
    got = mill.order(f"synthetic shape=1 count={n} | batch 8", "--order",
                     order, "--block", 16)
    assert sorted(got) == list(range(n))


def test_sequential_is_the_identity_in_each_epoch(mill):
    e = mill.batches("synthetic shape=1 count=50 | batch 8", "--order",
                     "sequential", "--epochs", 2)
    assert sum(e[0], []) == sum(e[1], []) == list(range(50))


def test_shuffle_is_not_sequential_and_has_few_fixed_points(mill):
    got = mill.order("synthetic shape=1 count=1000 | batch 8")
    assert sum(i == v for i, v in enumerate(got)) < 10
    neighbours = sum(abs(a - b) == 1 for a, b in zip(got, got[1:]))
    assert neighbours < 20


@pytest.mark.parametrize("order", ["shuffle", "block"])
def test_seed_and_epoch_give_the_order(mill, order):
    def epochs(seed):
        e = mill.batches("synthetic shape=1 count=200 | batch 10", "--order",
                         order, "--seed", seed, "--epochs", 3)
        assert sorted(e) == [0, 1, 2]
        return [tuple(sum(e[i], [])) for i in range(3)]

    a, again, b = epochs(1), epochs(1), epochs(2)
    assert a == again
    assert len({*a, *b}) == 6, "each epoch and seed has an order of its own"
    assert all(sorted(o) == list(range(200)) for o in a + b)


def test_order_does_not_depend_on_threads(mill):
    p = "synthetic shape=1 count=500 | batch 8"
    assert mill.batches(p, "--threads", 1, "--epochs", 2) == \
        mill.batches(p, "--threads", 5, "--epochs", 2)


def test_block_order_keeps_blocks_together_and_mixes_them(mill):
    n, block, group = 4096, 32, 8
    got = mill.order(f"synthetic shape=1 count={n} | batch 64", "--order",
                     "block", "--block", block)
    assert sorted(got) == list(range(n))
    starts = set()
    for at in range(0, n, group * block):
        have = set(got[at:at + group * block])
        # What is read together: whole blocks of neighbours, around the end.
        first = [i for i in have if (i - 1) % n not in have]
        starts.update(i % block for i in first)
        for i in first:
            run = 0
            while (i + run) % n in have:
                run += 1
            assert run % block == 0
        assert len(first) <= group
        assert got[at:at + group * block] != sorted(have), "not mixed"
    assert len(starts) == 1, "blocks do not overlap"
    assert got != mill.order(f"synthetic shape=1 count={n} | batch 64",
                             "--order", "block", "--block", block, "--seed",
                             1)


# ---- ranks ----

@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("count", [97, 200])
def test_ranks_share_each_epoch_exactly_once(mill, order, count):
    p = f"synthetic shape=1 count={count} | batch 8"
    for ranks in (1, 2, 3, 5):
        shares = [mill.batches(p, "--order", order, "--epochs", 2, "--rank",
                               f"{r}/{ranks}") for r in range(ranks)]
        for epoch in (0, 1):
            parts = [sum(s[epoch], []) for s in shares]
            assert sorted(sum(parts, [])) == list(range(count))
            sizes = [len(x) for x in parts]
            assert max(sizes) - min(sizes) <= 8


def test_ranks_together_deliver_the_order_of_one(mill):
    # Batch s of all ranks is one global batch of the order.
    p = "synthetic shape=1 count=96 | batch 8"
    whole = mill.order(p, "--seed", 3)
    shares = [mill.batches(p, "--seed", 3, "--rank", f"{r}/3")[0]
              for r in range(3)]
    assert sum((shares[r][s] for s in range(4) for r in range(3)),
               []) == whole


@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_drop_last_gives_all_ranks_the_same_number_of_full_batches(mill,
                                                                   ranks):
    p = "synthetic shape=1 count=107 | batch 8 drop_last=yes"
    shares = [mill.batches(p, "--rank", f"{r}/{ranks}")[0]
              for r in range(ranks)]
    assert {len(s) for s in shares} == {107 // (8 * ranks)}
    assert all(len(b) == 8 for s in shares for b in s)
    seen = sum((sum(s, []) for s in shares), [])
    assert len(seen) == len(set(seen))


def test_ranks_work_from_the_command_line(mill):
    p = "synthetic shape=1 count=100 | batch 8"
    got = [mill.json("run", p, "--rank", f"{r}/3")["samples"]
           for r in range(3)]
    assert sum(got) == 100 and max(got) - min(got) <= 1


def test_rank_without_samples_is_an_error_that_says_why(mill):
    mill.fails("run", "synthetic shape=1 count=3 | batch 8", "--rank", "4/5",
               code=1, says=["nothing to deliver", "3 samples", "5 ranks"])
    mill.fails("run", "synthetic shape=1 count=7 | batch 8 drop_last=yes",
               code=1, says=["nothing to deliver", "drop_last"])


def test_drop_last_leaves_out_the_short_batch_only(mill):
    p = "synthetic shape=1 count=100 | batch 16"
    assert [len(b) for b in mill.batches(p)[0]] == [16] * 6 + [4]
    assert [len(b) for b in mill.batches(f"{p} drop_last=yes")[0]] == [16] * 6


@pytest.mark.parametrize("ranks", [
    "288230376151711744",   # times a batch of 64 is 2^64
    "9223372036854775807"])
def test_absurd_numbers_of_ranks_do_not_crash(mill, ranks):
    r = subprocess.run([mill.bin, "run", "synthetic shape=1 count=100 | "
                        "batch 64", "--rank", f"5000/{ranks}"],
                       capture_output=True, text=True)
    assert r.returncode in (1, 2) and "rank" in r.stderr, r
