# SPDX-License-Identifier: Apache-2.0
"""The command under test, and small data sets for it.

MILLRACE_BIN    the command (build/millrace)
MILLRACE_BUILD  its build tree (build)
MILLRACE_DATA   real data (../shared/data)
"""
import json
import os
import pathlib
import re
import subprocess
import types

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = (ROOT / os.environ.get("MILLRACE_BUILD", "build")).resolve()
BIN = (ROOT / os.environ.get("MILLRACE_BIN", BUILD / "millrace")).resolve()
PATIENCE = 60  # seconds until a run counts as hung, sanitizers included
DATA = (ROOT / os.environ.get("MILLRACE_DATA", "../shared/data")).resolve()


def sanitizers():
    """What the build was made with: "address,undefined", "thread", "none"."""
    try:
        text = (BUILD / "meson-info" / "intro-buildoptions.json").read_text()
    except FileNotFoundError:
        return "none"
    return next((o["value"] for o in json.loads(text)
                 if o["name"] == "b_sanitize"), "none")


def checked(r):
    """A sanitizer's report is a failure wherever it comes up."""
    out = r.stderr if isinstance(r.stderr, str) else ""
    assert "Sanitizer" not in out and "runtime error:" not in out, out
    return r


class Mill:
    """Runs the command. Arguments are words, in any order."""

    root, build, bin, data = ROOT, BUILD, BIN, DATA
    loader_bin = BUILD / "examples" / "loader"
    plugin = BUILD / "examples" / "invert.so"

    def __call__(self, *args, code=0, env=None, **kw):
        kw.setdefault("stdout", subprocess.PIPE)
        kw.setdefault("stderr", subprocess.PIPE)
        r = subprocess.run([str(BIN), *map(str, args)],
                           env=dict(os.environ, **(env or {})),
                           stdin=subprocess.DEVNULL, timeout=PATIENCE, **kw)
        # Not as text=True does it: that turns \r into \n.
        r.stdout, r.stderr = (os.fsdecode(b or b"")
                              for b in (r.stdout, r.stderr))
        checked(r)
        assert r.returncode == code, (args, r.returncode, r.stdout, r.stderr)
        return r

    def json(self, *args, **kw):
        out = os.fsencode(self(*args, "--json", **kw).stdout)
        return json.loads(out.decode("utf-8", "strict"))

    def digest(self, pipeline, *args, **kw):
        d = self.json("run", pipeline, "--digest", *args, **kw)["digest"]
        assert re.fullmatch("[0-9a-f]{16}", d) and d != "0" * 16
        return d

    def fails(self, *args, code, says=(), **kw):
        """Fails with this code, and says all of this on stderr; nothing but
        errors of usage may come without a name to look for."""
        r = self(*args, code=code, **kw)
        assert r.stderr.startswith("millrace: "), r.stderr
        for s in [says] if isinstance(says, str) else says:
            assert s in r.stderr, (s, r.stderr)
        return r

    def start(self, *args, env=None, **kw):
        """A long run, which has delivered a batch when this returns."""
        env = dict(os.environ, MILLRACE_PROGRESS="1", **(env or {}))
        p = subprocess.Popen([str(BIN), *map(str, args)], env=env,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, **kw)
        seen = os.read(p.stderr.fileno(), 1)
        assert seen == b"\r", seen + p.communicate()[1]
        return p

    def finish(self, p):
        """Exit code, and what it said, without the line of progress."""
        try:
            out, err = p.communicate(timeout=PATIENCE)
        finally:
            p.kill()
        err = re.sub(r"\r.*?\x1b\[K", "", "\r" + err.decode())
        r = types.SimpleNamespace(returncode=p.returncode,
                                  stdout=out.decode(), stderr=err)
        return checked(r)

    def loader(self, *args, code=0):
        """The example program's output, as lines."""
        assert self.loader_bin.exists(), "the examples are not built"
        r = subprocess.run([str(self.loader_bin), *map(str, args)], text=True,
                           capture_output=True, timeout=PATIENCE)
        checked(r)
        assert r.returncode == code, (args, r.stdout, r.stderr)
        return r.stdout.splitlines() if not code else r.stderr

    def batches(self, *args):
        """{epoch: [indices of each batch]}, by the example program."""
        epochs = {}
        for line in self.loader("--indices", *args):
            at, _, numbers = line.partition(":")
            epoch, number = map(int, at.split())
            got = epochs.setdefault(epoch, [])
            assert number == len(got)
            got.append([int(n) for n in numbers.split()])
        return epochs

    def order(self, *args):
        """The indices of the first epoch as one list."""
        return sum(self.batches(*args)[0], [])


@pytest.fixture(scope="session")
def mill():
    assert BIN.exists(), f"{BIN} is missing: build first, or set MILLRACE_BIN"
    return Mill()


@pytest.fixture(scope="session")
def cc(tmp_path_factory):
    """Compiles C (or C++) text; returns what it made."""
    folder = tmp_path_factory.mktemp("cc")
    flags = sanitizers()

    def compile(text, name, *args, sanitize=False, lang="c"):
        source = folder / f"{name}.{lang}"
        source.write_text(text)
        out = folder / name
        command = ["gcc" if lang == "c" else "g++", str(source), "-o",
                   str(out), "-Wall", "-Wextra", "-Werror", *map(str, args)]
        if sanitize and flags != "none":
            command.append(f"-fsanitize={flags}")
        r = subprocess.run(command, text=True, capture_output=True)
        assert r.returncode == 0, r.stderr
        return out
    return compile


# ---- data ----

@pytest.fixture(scope="session")
def ids(tmp_path_factory):
    """100 samples, [1] of i64 each: the sample's number."""
    path = tmp_path_factory.mktemp("ids") / "ids.npy"
    np.save(path, np.arange(100, dtype=np.int64).reshape(-1, 1))
    return path


@pytest.fixture(scope="session")
def ragged(tmp_path_factory):
    """100 files of 0 to 2,970 bytes in three folders."""
    root = tmp_path_factory.mktemp("ragged")
    rng = np.random.default_rng(5)
    for i in range(100):
        d = root / "abc"[i % 3]
        d.mkdir(exist_ok=True)
        (d / f"{i:03}.bin").write_bytes(rng.bytes(i * 30))
    return root


@pytest.fixture(scope="session")
def pictures(tmp_path_factory):
    """100 samples of u8 8 x 8 x 3 with labels, in three arrays."""
    root = tmp_path_factory.mktemp("pictures")
    a = np.random.default_rng(6).integers(0, 256, (100, 8, 8, 3), np.uint8)
    for i, part in enumerate(np.split(a, [30, 70])):
        np.save(root / f"{i}.npy", part)
    np.save(root / "labels", np.arange(100))
    return root


@pytest.fixture(scope="session")
def photos_of(tmp_path_factory):
    """Makes a folder of so many small JPEGs of different sizes, in two
    classes."""
    from PIL import Image

    def make(count):
        root = tmp_path_factory.mktemp("photos")
        rng = np.random.default_rng(3)
        for i in range(count):
            folder = root / f"class{i % 2}"
            folder.mkdir(exist_ok=True)
            h, w = rng.integers(40, 90, 2)
            a = rng.integers(0, 255, (h // 8 + 1, w // 8 + 1, 3), np.uint8)
            Image.fromarray(a).resize((int(w), int(h))).save(
                folder / f"p{i:03}.jpg", quality=90)
        return root
    return make


@pytest.fixture(scope="session")
def pipelines(mill, ids, ragged, pictures):
    """One of each kind; 100 samples in batches of 16, 7 batches."""
    return {
        "dense": f"npy {pictures}/[0-9].npy labels={pictures}/labels.npy "
                 "| normalize imagenet | batch 16",
        "bare": f"npy {ids} | batch 16",
        "made": "synthetic shape=9,5 dtype=f32 count=100 | batch 16",
        "ragged": f"files {ragged} | batch 16",
        "padded": f"files {ragged} | batch 16 pad=0",
        "cast": f"files {ragged} | cast i32 | batch 16 pad=-1",
        "random": "synthetic shape=6,5,3 count=100 | speckle p=0.3 | invert "
                  "| batch 16",
    }


@pytest.fixture(params=["dense", "bare", "made", "ragged", "padded", "cast",
                        "random"])
def pipeline(request, pipelines, mill):
    """Words for `run`: a pipeline of each kind in turn."""
    words = pipelines[request.param]
    return types.SimpleNamespace(
        name=request.param, text=words,
        args=[words] + (["--plugin", mill.plugin]
                        if request.param == "random" else []))


PICKY = """
#include <millrace/plugin.h>
/* picky: refuses samples of u8 that begin with 13. */
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
	const unsigned char *from = in->data;
	unsigned char *to = out->data;
	size_t n = mr_tensor_bytes(in);

	if (n && from[0] == 13)
		return mr_err_set(cx->err, MR_EDATA, "thirteen");
	for (size_t i = 0; i < n; i++)
		to[i] = from[i];
	return 0;
}
static const struct mr_param params[] = { MR_PARAM_END };
static const struct mr_op picky = {
	.name = "picky", .help = "refuses 13", .flags = MR_OP_SHAPE_KEEP,
	.size = 1, .params = params, .infer = infer, .run = run,
};
static const struct mr_op *const ops[] = { &picky, NULL };
extern const struct mr_plugin mr_plugin;
const struct mr_plugin mr_plugin = { .abi = MR_PLUGIN_ABI, .ops = ops };
"""


@pytest.fixture(scope="session")
def picky(cc, mill):
    """A plugin whose step `picky` refuses samples that begin with 13."""
    return cc(PICKY, "picky.so", "-shared", "-fPIC",
              f"-I{mill.root}/include", "-Wl,--unresolved-symbols=ignore-all")
