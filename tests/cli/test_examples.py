# SPDX-License-Identifier: Apache-2.0
"""Each pipeline of examples/, run on the data that the command at its top
makes: shapes, types, counts, and bytes per sample after each step, against
what NumPy, Pillow and the files themselves say."""
import re
import shlex
import subprocess
import wave

import numpy as np
import pytest
from PIL import Image

FEW = {"cv": 12, "cv2-jpg": 2, "cv2-png": 2, "cv-grey": 12, "flac": 4,
       "mp3": 4, "nilm": 5}
SECONDS = {"flac": "2s", "mp3": "1s", "nilm": "20s"}


def commands(text):
    """The commands in the comment at the top: synth, and run."""
    top = text.split("\n\n")[0]
    return re.findall(r"^#\s+millrace (synth|run) (.*)$", top, re.M)


@pytest.fixture(scope="module")
def example(mill, tmp_path_factory):
    """Makes an example's data, few of it; runs it. Gives folder, files, and
    what explain and run say."""
    made = {}

    def get(name):
        if name in made:
            return made[name]
        cwd = tmp_path_factory.mktemp(name)
        file = mill.root / "examples" / f"{name}.txt"
        (verb, synth), (run, at) = commands(file.read_text())
        assert verb == "synth" and run == "run"
        assert at == f"@examples/{name}.txt"
        words = shlex.split(synth)
        words[words.index("--count") + 1] = str(FEW[name])
        if name in SECONDS:
            words += ["--duration", SECONDS[name]]
        r = subprocess.run([str(mill.bin), "synth", *words], cwd=cwd,
                           text=True, capture_output=True, timeout=110)
        if "libmp3lame" in r.stderr:
            pytest.skip(r.stderr.strip())
        if "not in this build" in r.stderr:
            pytest.skip(r.stderr.strip())
        assert r.returncode == 0, r.stderr
        plan = mill.json("explain", f"@{file}", cwd=cwd)
        got = mill.json("run", f"@{file}", cwd=cwd)
        assert got["bad_samples"] == 0
        made[name] = (cwd, sorted(p for p in cwd.rglob("*") if p.is_file()),
                      plan, got)
        return made[name]
    return get


def bytes_after(got, *names):
    """Bytes of a sample after each step, on average."""
    by = {s["name"]: s for s in got["steps"]}
    return [by[n]["bytes_out"] / by[n]["calls"] for n in names]


def fields(plan, step):
    """What a step gives, as text."""
    s = [s for s in plan["steps"] if s["name"] == step][0]
    return {f["name"]: (f["dtype"], f["shape"]) for f in s["fields"]}


def test_every_pipeline_has_an_example_with_a_comment_on_each_step(mill):
    names = {p.stem for p in (mill.root / "examples").glob("*.txt")}
    assert names >= set(FEW) | {"nlp"}
    for name in FEW:
        lines = (mill.root / "examples" / f"{name}.txt").read_text().split(
            "\n\n", 1)[1].splitlines()
        for before, line in zip([""] + lines, lines):
            assert line.startswith("#") or before.startswith("#"), line


# ---- pictures ----

def resized(size):
    w, h = size
    return (256, int(256 * h / w)) if w < h else (int(256 * w / h), 256)


@pytest.mark.parametrize("name", ["cv", "cv2-jpg", "cv2-png", "cv-grey"])
def test_pictures(example, name):
    cwd, files, plan, got = example(name)
    n, channels = FEW[name], 1 if name == "cv-grey" else 3
    assert got["samples"] == len(files) == n
    assert fields(plan, "random_crop") == {
        "image": ("f32", [channels, 224, 224]), "label": ("i64", [])}
    sizes = [Image.open(f).size if name != "cv2-png" else (2592, 1728)
             for f in files]
    raw = np.mean([f.stat().st_size for f in files])
    decoded = np.mean([3 * w * h for w, h in sizes])
    small = np.mean([3 * w * h for w, h in map(resized, sizes)])
    want = {"read": raw, "decode_image": decoded, "resize": small,
            "random_crop": 4 * channels * 224 * 224}
    if channels == 3:
        want["normalize"] = 4 * small
    else:
        want["greyscale"] = small / 3
        want["normalize"] = 4 * small / 3
    assert bytes_after(got, *want) == list(want.values())
    if name == "cv":
        assert 95e3 < raw < 125e3
        assert 4.5e5 < decoded < 7e5
    if name.startswith("cv2"):
        assert decoded == 13_436_928 and small == 294_912
    if name == "cv2-jpg":
        assert 2e5 < raw < 9e5
    if name == "cv2-png":
        assert 14e6 < raw < 21e6


@pytest.mark.parametrize("name", ["cv", "cv-grey"])
def test_pictures_before_the_crop_are_pillows(mill, example, name, tmp_path):
    cwd, files, _, _ = example(name)
    text = (mill.root / "examples" / f"{name}.txt").read_text()
    text = text.replace("random_crop 224", "").replace("batch 64", "")
    mill("prepare", text, "--out", tmp_path / "set", cwd=cwd)
    for k, a in enumerate(arrays(mill, tmp_path / "set")):
        im = Image.open(files[k]).convert("RGB")
        im = im.resize(resized(im.size), Image.BILINEAR)
        if name == "cv-grey":
            im = im.convert("L")
        b = np.asarray(im, np.float32) / np.float32(127.5) - 1
        b = b[None] if b.ndim == 2 else b.transpose(2, 0, 1)
        assert a.shape == b.shape and a.dtype == np.float32
        wrong = np.abs(a - b) * 127.5
        assert wrong.mean() < 0.1 and wrong.max() < 5


def test_grey_may_come_after_centring(mill, example, tmp_path):
    cwd, files, _, _ = example("cv")
    start = "files data/cv | decode_image | resize 256 | "
    mill("prepare", start + "greyscale | normalize center", "--out",
         tmp_path / "a", cwd=cwd)
    mill("prepare", start + "normalize center | greyscale", "--out",
         tmp_path / "b", cwd=cwd)
    for a, b in zip(arrays(mill, tmp_path / "a"), arrays(mill, tmp_path / "b")):
        assert a.shape == b.shape and a.shape[0] == 1
        assert np.abs(a - b).max() < 1.01 / 127.5 / 2 + 1e-6


def test_a_crop_of_planes_is_the_crop_of_the_image(mill, example, tmp_path):
    """In each of these the crop is the fourth step, and draws the same."""
    cwd, _, _, _ = example("cv")
    start = "files data/cv | decode_image | resize 256 | "
    tail = "| batch 4"
    a = mill.digest(f"{start} select image,label | random_crop 224 "
                    f"| normalize center {tail}", cwd=cwd)
    b = mill.digest(f"{start} normalize center | random_crop 224 "
                    f"| select image,label {tail}", cwd=cwd)
    assert a == b


def arrays(mill, folder):
    """Field 0 of each sample of a prepared set, in order."""
    import sys
    sys.path.insert(0, str(mill.build / "python"))
    import millrace
    return [np.array(x) for b in millrace.Loader(
        f"records {folder} | batch 4", order="sequential")
        for x in b.samples("image")]


def test_large_pngs_give_the_upper_8_of_16_bits(mill, example, tmp_path):
    cwd, files, _, _ = example("cv2-png")
    text = "files data/cv2-png | decode_image"
    r = mill.json("run", f"{text} | batch 1", "--memory", "256M", cwd=cwd)
    assert r["bytes_out"] > 2 * 13e6 and r["peak_rss_mb"] < 400
    mill("prepare", text, "--out", tmp_path / "set", cwd=cwd)
    for a, f in zip(arrays(mill, tmp_path / "set"), files):
        assert int.from_bytes(f.read_bytes()[24:25], "big") == 16
        want = np.asarray(Image.open(f).convert("RGB"))
        assert a.shape == (1728, 2592, 3) and np.array_equal(a, want)


# ---- sound ----

@pytest.mark.parametrize("name,rate", [("flac", 16000), ("mp3", 48000)])
def test_sound(example, name, rate, tmp_path):
    cwd, files, plan, got = example(name)
    assert got["samples"] == len(files) == FEW[name]
    tool = {"flac": ["flac", "-d", "-s", "-f", "-o"],
            "mp3": ["mpg123", "-q", "-w"]}[name]
    lengths = []
    for f in files:
        try:
            subprocess.run([*tool, str(tmp_path / "x.wav"), str(f)],
                           check=True, capture_output=True)
        except FileNotFoundError:
            pytest.skip(f"{tool[0]} is not installed")
        with wave.open(str(tmp_path / "x.wav")) as w:
            assert w.getframerate() == rate and w.getnchannels() == 1
            lengths.append(w.getnframes())
    frames = np.array([1 + (n - rate // 50) // (rate // 100)
                       for n in lengths])
    want = {"read": np.mean([f.stat().st_size for f in files]),
            "decode_audio": 2 * np.mean(lengths),
            "stft": 4 * 513 * frames.mean(), "mel": 4 * 80 * frames.mean(),
            "log": 4 * 80 * frames.mean()}
    assert bytes_after(got, *want) == pytest.approx(list(want.values()))
    dtype, shape = list(fields(plan, "log").values())[0]
    assert dtype == "f32" and shape[1] == 80
    if name == "flac":
        assert 0.5 < want["read"] / want["decode_audio"] < 0.66
    else:
        assert 0.07 < want["read"] / want["decode_audio"] < 0.12


# ---- signals ----

def test_signals(example):
    cwd, files, plan, got = example("nilm")
    assert got["samples"] == 5 and len(files) == 3
    assert fields(plan, "hdf5") == {
        "voltage": ("i16", [64000]), "current1": ("i16", [64000]),
        "voltage_calibration_factor": ("f64", []),
        "current1_calibration_factor": ("f64", [])}
    assert fields(plan, "calibrate") == {"signal": ("f64", [2, 64000])}
    assert fields(plan, "power") == {"signal": ("f64", [3, 500])}
    assert bytes_after(got, "calibrate", "power") == [1_024_000, 12_000]
    assert got["bytes_out"] == 5 * 12_000
    share = sum(f.stat().st_size for f in files) / 5
    assert 120e3 < share < 175e3
