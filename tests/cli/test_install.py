# SPDX-License-Identifier: Apache-2.0
"""What is installed, and that programs can be built with it."""
import os
import re
import shutil
import subprocess

import pytest


@pytest.fixture(scope="module")
def installed(mill, tmp_path_factory):
    """The root of an installation, and the environment for pkg-config."""
    root = tmp_path_factory.mktemp("install")
    if not shutil.which("meson"):
        pytest.skip("meson is not installed")
    r = subprocess.run(["meson", "install", "-C", mill.build, "--no-rebuild",
                        "--quiet"], capture_output=True, text=True,
                       env=dict(os.environ, DESTDIR=str(root)))
    assert r.returncode == 0, r.stdout + r.stderr
    pc = next(root.rglob("millrace.pc"))
    return root, dict(os.environ, PKG_CONFIG_PATH=str(pc.parent),
                      PKG_CONFIG_SYSROOT_DIR=str(root))


@pytest.fixture(scope="module")
def flags(installed):
    """Words that build against the installation."""
    if not shutil.which("pkg-config"):
        pytest.skip("pkg-config is not installed")
    root, env = installed
    out = subprocess.run(["pkg-config", "--cflags", "--libs", "millrace"],
                         env=env, capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
    assert "-lmillrace" in out.stdout
    lib = next(root.rglob("libmillrace.so")).parent
    return [*out.stdout.split(), f"-Wl,-rpath,{lib}"]


def find(root, name):
    found = list(root.rglob(name))
    assert len(found) == 1, (name, found)
    return found[0]


def test_installation_has_all_its_parts(installed):
    root, _ = installed
    for name in ("millrace.h", "plugin.h", "libmillrace.so", "millrace.pc",
                 "millrace.1"):
        find(root, name)
    names = {p.name for p in root.rglob("*")}
    assert not names & {"loader", "invert.so"}, "examples are not installed"


def test_installed_command_finds_its_library(installed, mill):
    root, _ = installed
    command = next(p for p in root.rglob("bin/millrace"))
    env = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
    r = subprocess.run([command, "run", "synthetic shape=3 count=9 | "
                        "batch 4", "--json"], env=env, capture_output=True,
                       text=True)
    assert r.returncode == 0, r.stderr
    assert '"samples": 9' in r.stdout
    maps = subprocess.run(["ldd", command], capture_output=True, text=True,
                          env=env).stdout
    assert str(mill.build) not in maps


def test_installed_manual_page_is_the_commands(installed, mill):
    root, _ = installed
    assert find(root, "millrace.1").read_text() == mill("list",
                                                        "--man").stdout


def test_example_builds_with_pkg_config_and_runs(mill, cc, flags):
    text = (mill.root / "examples" / "loader.c").read_text()
    program = cc(text, "loader", *flags, sanitize=True)
    r = subprocess.run([program, "--order", "sequential",
                        "synthetic shape=3 count=9 classes=9 | batch 4"],
                       capture_output=True, text=True)
    assert r.returncode == 0, r.stderr
    lines = r.stdout.splitlines()
    assert lines[0] == "epoch 0 batch 0: 4 samples"
    assert lines[2] == "  label i64[4] sum 6"
    assert lines[-1].startswith("9 samples in 3 batches")


def test_example_plugin_builds_with_pkg_config_and_runs(mill, cc, flags):
    text = (mill.root / "examples" / "plugin" / "invert.c").read_text()
    so = cc(text, "outside.so", "-shared", "-fPIC", *flags)
    p = "synthetic shape=5 count=20 | invert | speckle | batch 4"
    assert mill.digest(p, "--plugin", so) == \
        mill.digest(p, "--plugin", mill.plugin)


@pytest.mark.parametrize("header", ["millrace.h", "plugin.h"])
@pytest.mark.parametrize("lang,std", [("c", "c99"), ("c", "c17"),
                                      ("cc", "c++11"), ("cc", "c++17")])
def test_header_alone_compiles(mill, cc, header, lang, std):
    cc(f"#include <millrace/{header}>\n", f"alone-{header}-{std}.o", "-c",
       f"-std={std}", "-Wpedantic", f"-I{mill.root}/include",
       lang=lang)


def test_cpp_program_links_with_the_library(cc, flags):
    program = cc("""
        #include <millrace/millrace.h>
        #include <cstdio>
        int main()
        {
            mr_err err;
            mr_loader *l;
            mr_batch *b;
            if (mr_loader_open(&l, "synthetic shape=3 count=9 | batch 4",
                               &err))
                return 1;
            uint64_t n = 0;
            while (mr_loader_next(l, &b, &err) == MR_OK) {
                n += mr_batch_count(b);
                mr_batch_release(b);
            }
            mr_loader_close(l);
            std::printf("%d %s\\n", int(n), mr_version());
        }""", "cpp", "-std=c++17", *flags, lang="cc", sanitize=True)
    r = subprocess.run([program], capture_output=True, text=True)
    assert (r.returncode, r.stdout) == (0, "9 0.1.0\n"), r.stderr


def exported(path):
    out = subprocess.run(["nm", "-D", "--defined-only", path], check=True,
                         capture_output=True, text=True).stdout
    return {line.split()[-1].split("@")[0] for line in out.splitlines()
            if line.split()[-2] != "A"}


def test_library_exports_its_interface_and_nothing_else(mill, installed):
    root, _ = installed
    names = exported(next(root.rglob("libmillrace.so")).resolve())
    assert all(n.startswith("mr_") for n in names), names
    declared = set()
    for header in ("millrace.h", "plugin.h"):
        text = (mill.root / "include" / "millrace" / header).read_text()
        text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
        declared |= set(re.findall(r"^[a-z][\w ]*[ *](mr_\w+)\(", text,
                                   re.M))
    assert len(declared) > 30
    assert names == declared


def test_installed_command_finds_its_hooks_for_python(installed, tmp_path):
    root, _ = installed
    if not list(root.rglob("inject/sitecustomize.py")):
        pytest.skip("the Python module is not built")
    command = next(p for p in root.rglob("bin/millrace"))
    env = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
    r = subprocess.run([command, "trace", "-o", tmp_path / "t.mrt", "--",
                        "/usr/bin/python3", "-c", "print(1)"], env=env,
                       capture_output=True, text=True)
    assert (r.returncode, r.stdout) == (0, "1\n"), r.stderr
    assert "no DataLoader was seen: the Python that" in r.stderr
