# SPDX-License-Identifier: Apache-2.0
"""Steps of one's own: examples/plugin/invert.c, and plugins that are not."""
import shutil

import numpy as np
import pytest

ABI = """
#include <millrace/plugin.h>
extern const struct mr_plugin mr_plugin;
const struct mr_plugin mr_plugin = { .abi = %s };
"""


def test_step_of_a_plugin_gives_the_right_bytes(mill, tmp_path):
    a = np.random.default_rng(1).integers(0, 256, (50, 7, 3), np.uint8)
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", 255 - a)
    assert mill.digest(f"npy {tmp_path}/a.npy | invert | batch 8",
                       "--plugin", mill.plugin) == \
        mill.digest(f"npy {tmp_path}/b.npy | batch 8")


def test_inverting_twice_changes_nothing(mill):
    p = "synthetic shape=7,3 count=50 {}| batch 8"
    assert mill.digest(p.format("| invert | invert "), "--plugin",
                       mill.plugin) == mill.digest(p.format(""))


def test_random_step_depends_on_seed_and_epoch_only(mill):
    p = "synthetic shape=100 count=20 | speckle p=0.5 | batch 20"
    args = ["--plugin", mill.plugin, "--order", "sequential"]

    def zeros(*more):
        lines = mill.loader(p, *args, *more)
        return [line for line in lines if line.startswith("  data")]

    e = zeros("--epochs", 2)
    assert len(e) == 2 and e[0] != e[1]
    assert e == zeros("--epochs", 2, "--threads", 4)
    assert zeros("--seed", 1) != e[:1]


def test_random_step_works_with_its_probability(mill):
    args = ["--plugin", mill.plugin]
    p = "synthetic shape=10 count=20 {}| batch 8"
    assert mill.digest(p.format("| speckle p=0 "), *args) == \
        mill.digest(p.format(""))
    lines = mill.loader(p.format("| speckle p=1 "), *args)
    sums = [line.split()[3] for line in lines if line.startswith("  data")]
    assert sums == ["0"] * 3


def test_two_random_steps_draw_different_numbers(mill):
    # With the same numbers, the second would find only zeros to blacken.
    def black(steps):
        line = mill.loader("synthetic shape=1000 count=1 | invert "
                           f"{steps} | batch 1", "--plugin", mill.plugin)[1]
        return float(line.split()[3])
    assert black("| speckle p=0.5 | speckle p=0.5") < \
        0.75 * black("| speckle p=0.5")


def test_parameters_of_a_plugin_are_checked(mill):
    args = ["--plugin", mill.plugin]
    mill.fails("run", "synthetic | speckle p=2 | batch 4", *args, code=2,
               says=["speckle: p=2", "0 to 1"])
    mill.fails("run", "synthetic | invrt | batch 4", *args, code=2,
               says="did you mean 'invert'?")
    mill.fails("run", "synthetic dtype=f32 | select data | invert | batch 4",
               *args, code=1, says=["invert takes u8, not f32"])


def test_step_of_a_plugin_is_unknown_without_it(mill):
    mill.fails("run", "synthetic | invert | batch 4", code=2,
               says="unknown step 'invert'")


def test_plugin_may_lie_in_the_current_folder(mill, tmp_path):
    shutil.copy(mill.plugin, tmp_path / "mine.so")
    mill("run", "synthetic shape=4 count=9 | invert | batch 4", "--plugin",
         "mine.so", cwd=tmp_path)


def test_several_plugins_are_loaded(mill, picky):
    got = mill.json("run", "synthetic shape=4 count=9 | picky | invert | "
                    "batch 4", "--plugins", f"{picky},{mill.plugin}",
                    "--on-error", "skip")
    assert [s["name"] for s in got["steps"]] == ["read", "picky", "invert"]


def test_plugin_option_takes_an_equal_sign(mill):
    mill("run", "synthetic shape=4 count=9 | invert | batch 4",
         f"--plugin={mill.plugin}")


@pytest.mark.parametrize("command", ["run", "explain"])
def test_missing_plugin_is_named(mill, command):
    mill.fails(command, "synthetic | batch 4", "--plugin", "/no/such.so",
               code=2, says=["plugin /no/such.so", "No such file"])


def test_file_that_is_no_plugin_is_named(mill, tmp_path, cc):
    (tmp_path / "text.so").write_text("hello")
    mill.fails("run", "synthetic | batch 4", "--plugin",
               tmp_path / "text.so", code=2, says=str(tmp_path / "text.so"))
    so = cc("int nothing;", "nothing.so", "-shared", "-fPIC")
    mill.fails("run", "synthetic | batch 4", "--plugin", so, code=2,
               says=[str(so), "no symbol 'mr_plugin'"])


@pytest.mark.parametrize("abi", ["0", "MR_PLUGIN_ABI + 1", "-7"])
def test_plugin_for_another_version_is_refused(mill, cc, abi):
    so = cc(ABI % abi, "abi.so", "-shared", "-fPIC",
            f"-I{mill.root}/include")
    mill.fails("run", "synthetic | batch 4", "--plugin", so, code=2,
               says=[str(so), "ABI", "build it again"])


def test_plugin_without_steps_is_harmless(mill, cc):
    so = cc(ABI % "MR_PLUGIN_ABI", "empty.so", "-shared", "-fPIC",
            f"-I{mill.root}/include")
    mill("run", "synthetic shape=4 count=9 | batch 4", "--plugin", so)
    mill.fails("run", "synthetic | bach 4", "--plugin", so, code=2,
               says="did you mean 'batch'?")


def test_too_many_plugins_are_refused(mill):
    many = ",".join([str(mill.plugin)] * 100)
    mill.fails("run", "synthetic | batch 4", "--plugin", many, code=1,
               says="plugins")
