# SPDX-License-Identifier: Apache-2.0
"""Lists, help, manual page, reference, README: what cannot rot."""
import os
import re
import shutil
import subprocess

import pytest


@pytest.fixture(scope="module")
def reference(mill):
    return mill("list", "--markdown").stdout


def sections(reference, title):
    """{name: [parameters]} of a chapter of the reference."""
    chapter = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", reference,
                        re.M | re.S).group(1)
    found = {}
    for part in re.split(r"^### ", chapter, flags=re.M)[1:]:
        name = part.split("\n", 1)[0]
        found[name] = re.findall(r"^\| `([^`]+)` \|", part, re.M)
    return found


def loader_options(reference):
    chapter = reference.split("## Options of a loader")[1]
    return re.findall(r"^\| `(--[^`]+)` \|", chapter, re.M)


# ---- list ----

def test_list_names_all_sources_and_steps(mill, reference):
    out = mill("list").stdout
    names = set(re.findall(r"^  (\w+) ", out, re.M))
    for chapter in ("Sources", "Steps"):
        have = sections(reference, chapter)
        assert have and set(have) <= names
    for name in ("files", "list", "npy", "synthetic", "batch", "cast",
                 "normalize", "select"):
        assert name in names


def test_list_shows_one_kind_on_demand(mill):
    sources, steps = mill("list", "sources").stdout, mill("list",
                                                         "steps").stdout
    assert "  npy " in sources and "  cast " not in sources
    assert "  cast " in steps and "  npy " not in steps
    assert mill("list", "codecs").stdout.startswith("codecs\n")


def test_list_tells_every_parameter_of_every_name(mill, reference):
    for chapter in ("Sources", "Steps"):
        for name, params in sections(reference, chapter).items():
            out = mill("list", name).stdout
            assert out.startswith(f"{name}: ")
            for p in params:
                assert re.search(rf"^  {p}\b", out, re.M), (name, p)


def test_list_tells_ranges_defaults_and_what_is_required(mill):
    out = mill("list", "batch").stdout
    assert "1 to 1048576; required; its name may be left out" in out
    assert "yes or no; default no" in out


def test_reference_in_the_docs_is_what_the_command_prints(mill, reference):
    file = mill.root / "docs" / "reference.md"
    assert file.exists(), "make it: build/millrace list --markdown"
    assert file.read_text() == reference, \
        "make it again: build/millrace list --markdown > docs/reference.md"


def test_reference_is_made_of_whole_tables(reference):
    rows = [line for line in reference.splitlines() if line[:1] == "|"]
    assert len(rows) > 30
    for row in rows:
        assert len(re.findall(r"(?<!\\)\|", row)) == 5, row


# ---- help ----

def commands(mill):
    out = mill("--help").stdout
    return re.findall(r"^  (\w+) +\S", out.split("commands:")[1]
                      .split("\n\n")[0], re.M)


def test_help_lists_the_commands(mill):
    assert {"run", "list", "explain", "synth"} <= set(commands(mill))
    assert mill("-h").stdout == mill("--help").stdout


def test_help_of_every_command_tells_every_option(mill, reference):
    have = {k.split()[1]: v for k, v in sections(reference,
                                                 "Commands").items()}
    assert set(have) == set(commands(mill))
    for name in commands(mill):
        r = mill(name, "--help")
        assert r.stderr == ""
        assert r.stdout.startswith(f"usage: millrace {name} ")
        assert r.stdout == mill(name, "-h").stdout
        want = list(have[name])
        if "options of a loader" in reference.split(
                f"### millrace {name}")[1].split("###")[0]:
            want += loader_options(reference)
        for option in [*want, "--help"]:
            assert re.search(rf"^  (-h, )?{option}\b", r.stdout, re.M), \
                (name, option)


def test_run_has_the_options_of_the_contract(mill):
    out = mill("run", "--help").stdout
    for option in """threads memory epochs samples seconds seed order on-error
            rank checkpoint resume digest json""".split():
        assert f"--{option}" in out
    assert "sequential" in out and "replace" in out


def test_help_fits_a_terminal_of_80_columns(mill):
    for name in commands(mill):
        for line in mill(name, "--help").stdout.splitlines():
            assert len(line) <= 80, (name, line)
            assert line == line.rstrip() or not line.strip(), (name, line)


def test_help_works_beside_other_options(mill):
    assert mill("run", "--threads", 2, "--help").stdout == \
        mill("run", "--help").stdout


def test_version_is_the_headers(mill):
    header = (mill.root / "include/millrace/millrace.h").read_text()
    version = re.search(r'#define MR_VERSION "(.*)"', header).group(1)
    assert mill("--version").stdout == f"millrace {version}\n"


def test_options_may_stand_anywhere_and_take_equal_signs(mill):
    p = "synthetic shape=2 count=10 | batch 4"
    want = mill.digest(p, "--seed", 3)
    for words in (["--digest", "--seed=3", "--json", p],
                  ["--seed", "3", p, "--digest", "--json"],
                  ["--json", "--digest", "--seed=3", "--", p]):
        assert f'"{want}"' in mill("run", *words).stdout


# ---- manual page ----

@pytest.fixture(scope="module")
def man(mill, tmp_path_factory):
    path = tmp_path_factory.mktemp("man") / "millrace.1"
    path.write_text(mill("list", "--man").stdout)
    return path


def test_manual_page_has_no_warnings(man):
    if shutil.which("man"):
        words = ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z",
                 man]
    elif shutil.which("mandoc"):
        words = ["mandoc", "-Tlint", "-W", "warning", man]
    else:
        pytest.skip("neither man nor mandoc is installed")
    r = subprocess.run(words, capture_output=True, text=True,
                       env=dict(os.environ, LC_ALL="C.UTF-8",
                                MANROFFSEQ=""))
    assert r.returncode == 0 and r.stderr == ""


def test_manual_page_tells_commands_options_and_steps(man, reference):
    if not shutil.which("man"):
        pytest.skip("man is not installed")
    text = subprocess.run(["man", "-l", man], capture_output=True, text=True,
                          env=dict(os.environ, LC_ALL="C.UTF-8", MANPAGER="",
                                   PAGER="cat", MANWIDTH="100")).stdout
    text = re.sub(".\b", "", text)
    for name in [*sections(reference, "Steps"),
                 *sections(reference, "Sources")]:
        assert re.search(rf"^\s+{name}\b", text, re.M), name
    for option in loader_options(reference):
        assert option in text
    assert "EXIT STATUS" in text and "millrace run" in text


# ---- README ----

def blocks(path):
    return re.findall(r"^```sh\n(.*?)^```", path.read_text(), re.M | re.S)


def test_commands_in_the_readme_run(mill, tmp_path):
    readme = mill.root / "README.md"
    if not readme.exists():
        pytest.skip("there is no README.md yet")
    ran = 0
    env = dict(os.environ, PATH=f"{mill.bin.parent}:{os.environ['PATH']}",
               PYTHONPATH=str(mill.build / "python"))
    for block in blocks(readme):
        if re.search(r"\bmake\b", block):
            continue
        script = re.sub(r"^\$ ", "", block, flags=re.M)
        script = script.replace("build/millrace", "millrace")
        r = subprocess.run(["sh", "-e", "-c", script], cwd=tmp_path, env=env,
                           capture_output=True, text=True, timeout=120,
                           stdin=subprocess.DEVNULL)
        assert r.returncode == 0, (block, r.stdout, r.stderr)
        ran += 1
    assert ran, "README.md has no ```sh block that a test could run"
