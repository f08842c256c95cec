# SPDX-License-Identifier: Apache-2.0
"""millrace synth: the data, and what happens when things go wrong."""
import io
import os
import pathlib
import resource
import signal
import subprocess
import time
import wave
import zlib

import numpy as np
import pytest
from PIL import Image, JpegImagePlugin

BIN = os.environ.get("MILLRACE_BIN", "build/millrace")


def synth(*args, code=0, **kw):
    r = subprocess.run([BIN, "synth", *map(str, args)], text=True,
                       capture_output=True, timeout=120, **kw)
    assert r.returncode == code, r.stdout + r.stderr
    return r


def content(d):
    return {str(p.relative_to(d)): p.read_bytes()
            for p in sorted(pathlib.Path(d).rglob("*")) if p.is_file()}


def limit_files(size):
    """For subprocess: files may not grow past size, as on a full disk."""
    def set_limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    return {"preexec_fn": set_limit, "restore_signals": False}


# ---- images ----

def test_images_are_jpegs_in_class_folders(tmp_path):
    r = synth("images", tmp_path / "d", "--count", 25, "--classes", 4)
    files = content(tmp_path / "d")
    assert len(files) == 25
    assert "class-000/img-000000.jpg" in files
    assert "class-003/img-000003.jpg" in files
    assert not any("tmp" in name for name in files)
    for data in files.values():
        im = Image.open(io.BytesIO(data))
        im.load()
        assert im.format == "JPEG" and im.mode == "RGB"
    assert r.stdout.count("\n") == 1
    assert "25 files" in r.stdout and "millrace run 'files " in r.stdout


@pytest.mark.parametrize("kind,options", [
    ("html", ["--count", 12]),
    ("images", ["--count", 12]),
    ("tensors", ["--count", 3000, "--files", 3]),
    ("tensors", ["--count", 40, "--each"]),
    ("png16", ["--count", 5, "--size", "90x60"]),
    ("flac", ["--count", 7, "--duration", "0.5s"]),
    ("wav", ["--count", 7, "--duration", "0.5s"]),
    ("nilm", ["--count", 5, "--duration", "10s"])])
def test_data_depends_on_the_seed_and_not_on_threads(tmp_path, kind, options):
    synth(kind, tmp_path / "a", *options, "--threads", 1)
    synth(kind, tmp_path / "b", *options, "--threads", 5)
    synth(kind, tmp_path / "c", *options, "--seed", 1)
    a, b, c = (content(tmp_path / x) for x in "abc")
    assert a == b
    assert a.keys() == c.keys()
    assert all(a[k] != c[k] for k in a if k != "labels.npy")


def test_more_images_begin_with_the_same_ones(tmp_path):
    synth("images", tmp_path / "a", "--count", 5)
    synth("images", tmp_path / "b", "--count", 9)
    a, b = content(tmp_path / "a"), content(tmp_path / "b")
    assert a.items() <= b.items()


def test_images_have_the_sizes_and_bytes_of_imagenet(tmp_path):
    synth("images", tmp_path, "--count", 200)
    files = content(tmp_path).values()
    sizes = [Image.open(io.BytesIO(f)).size for f in files]
    pixels = sum(w * h for w, h in sizes)
    assert np.median([w for w, h in sizes]) == 500
    assert 0.1 < np.mean([h > w for w, h in sizes]) < 0.4
    assert len(set(sizes)) > 20
    # The 400 photos have 0.557 bytes per pixel and 113 KB.
    assert 0.50 < sum(map(len, files)) / pixels < 0.61
    assert 95e3 < np.mean([len(f) for f in files]) < 125e3


def test_images_have_a_natural_spectrum(tmp_path):
    synth("images", tmp_path, "--count", 20, "--same-size")
    n, total = 256, 0
    window = np.hanning(n)[:, None] * np.hanning(n)
    f = np.abs(np.fft.fftfreq(n) * n)
    radius = np.hypot(f[:, None], f).round().astype(int).ravel()
    for data in content(tmp_path).values():
        y = np.asarray(Image.open(io.BytesIO(data)).convert("L"), float)
        y = y[50:50 + n, 50:50 + n]
        power = np.abs(np.fft.fft2((y - y.mean()) * window)).ravel() ** 2
        total += np.log(np.bincount(radius, power) / np.bincount(radius))
    k = np.arange(4, 100)
    slope = np.polyfit(np.log(k), total[k] / 20, 1)[0] / 2
    assert -1.6 < slope < -0.9  # 0 is white noise; ImageNet has -1.2


def test_large_photos_have_less_entropy_per_pixel(tmp_path):
    synth("images", tmp_path, "--count", 8, "--size", "2592x1728",
          "--same-size")
    sizes = [len(f) for f in content(tmp_path).values()]
    assert 200e3 < np.mean(sizes) < 900e3


def test_same_size_quality_and_subsampling_are_obeyed(tmp_path):
    synth("images", tmp_path, "--count", 6, "--size", "123x77",
          "--same-size", "--quality", 50, "--subsampling", 420)
    for data in content(tmp_path).values():
        im = Image.open(io.BytesIO(data))
        assert im.size == (123, 77)
        assert im.quantization[0][0] == 16
        assert JpegImagePlugin.get_sampling(im) == 2


@pytest.mark.parametrize("size", ["8x8", "8x900", "900x8", "17x16"])
def test_odd_sizes_work(tmp_path, size):
    synth("images", tmp_path, "--count", 4, "--size", size, "--same-size")
    w, h = map(int, size.split("x"))
    for data in content(tmp_path).values():
        im = Image.open(io.BytesIO(data))
        im.load()
        assert im.size == (w, h)


# ---- html ----

def test_pages_have_texts_classes_and_a_vocabulary(tmp_path):
    r = synth("html", tmp_path / "d", "--count", 25, "--classes", 4)
    files = content(tmp_path / "d")
    assert len(files) == 53 and "53 files" in r.stdout
    assert "millrace run 'files " in r.stdout
    pages = [f for f in files if f.startswith("pages/")]
    assert "pages/class-003/page-000003.html" in pages and len(pages) == 25
    for name in pages:
        text = name.replace("pages/", "texts/").replace(".html", ".txt")
        first = files[text].decode().split(".")[0].split(" ")[0]
        assert f"<p>{first}" in files[name].decode()
    for name in ("encoder.json", "vocab.bpe", "table.npy"):
        assert files[name]


def test_the_example_of_texts_runs_on_made_pages(mill, tmp_path):
    synth("html", tmp_path, "--count", 20)
    example = f"@{mill.root}/examples/nlp.txt"
    one, two = (mill.json("run", example, "--threads", n, "--digest",
                          cwd=tmp_path) for n in (1, 2))
    assert one["samples"] == 20 and not one["bad_samples"]
    assert [s["name"] for s in one["steps"]] == [
        "read", "extract_text", "tokenize", "embed"]
    assert one["digest"] == two["digest"]
    assert 2e6 < one["bytes_out"] / 20 < 3.5e6


# ---- tensors ----

@pytest.mark.parametrize("name,dtype", [
    ("u8", "u1"), ("i16", "i2"), ("i32", "i4"), ("i64", "i8"), ("f16", "f2"),
    ("f32", "f4"), ("f64", "f8")])
def test_npy_files_have_type_shape_and_plausible_values(tmp_path, name, dtype):
    synth("tensors", tmp_path, "--count", 101, "--shape", "3,32,32",
          "--dtype", name)
    x = np.load(tmp_path / "data-00000.npy")
    assert x.dtype == np.dtype(dtype) and x.shape == (101, 3, 32, 32)
    x = x.astype(float)
    assert np.isfinite(x).all()
    assert x.std() > 0.3 * max(1, abs(x).max() / 50)
    # Smooth: neighbours are much nearer than the whole is wide.
    assert np.abs(np.diff(x, axis=3)).mean() < 0.6 * x.std()


def test_float_types_agree_with_each_other(tmp_path):
    x = {}
    for t in "f16", "f32", "f64":
        synth("tensors", tmp_path / t, "--count", 20, "--dtype", t)
        x[t] = np.load(tmp_path / t / "data-00000.npy")
    assert np.array_equal(x["f32"], x["f64"].astype("f4"))
    near_zero = abs(x["f32"]) < 2.0 ** -14
    assert np.array_equal(np.where(near_zero, 0, x["f32"]).astype("f2"),
                          x["f16"])


def test_headers_are_aligned_and_labels_go_round(tmp_path):
    synth("tensors", tmp_path, "--count", 103, "--files", 4, "--classes", 7)
    assert len(content(tmp_path)) == 5
    parts = []
    for p in sorted(tmp_path.glob("data-*.npy")):
        raw = p.read_bytes()
        assert raw[:8] == b"\x93NUMPY\x01\x00"
        assert (10 + int.from_bytes(raw[8:10], "little")) % 64 == 0
        parts.append(np.load(p))
    assert [len(p) for p in parts] == [26, 26, 26, 25]
    labels = np.load(tmp_path / "labels.npy")
    assert labels.dtype == np.int64
    assert np.array_equal(labels, np.arange(103) % 7)


def test_the_number_of_files_does_not_change_the_samples(tmp_path):
    synth("tensors", tmp_path / "a", "--count", 50, "--files", 1)
    synth("tensors", tmp_path / "b", "--count", 50, "--files", 3)
    a = np.load(tmp_path / "a/data-00000.npy")
    b = np.concatenate([np.load(p) for p in
                        sorted((tmp_path / "b").glob("data-*.npy"))])
    assert np.array_equal(a, b)


def test_each_writes_the_same_samples_as_raw_files(tmp_path):
    synth("tensors", tmp_path / "a", "--count", 21, "--classes", 5)
    synth("tensors", tmp_path / "b", "--count", 21, "--classes", 5, "--each")
    a = np.load(tmp_path / "a/data-00000.npy")
    files = content(tmp_path / "b")
    assert len(files) == 21
    for i in range(21):
        name = f"class-{i % 5:03d}/t-{i:07d}.bin"
        assert files[name] == a[i].tobytes()


def test_tensors_compress_but_not_to_nothing(tmp_path):
    synth("tensors", tmp_path, "--count", 500)
    raw = np.load(tmp_path / "data-00000.npy").tobytes()
    assert 0.4 < len(zlib.compress(raw)) / len(raw) < 0.98


@pytest.mark.parametrize("shape", ["1", "7", "1,1,1", "5000", "32x32x3",
                                   "2,1500,700"])
def test_any_shape_works(tmp_path, shape):
    synth("tensors", tmp_path, "--count", 3, "--shape", shape,
          "--dtype", "f32")
    want = tuple(int(n) for n in shape.replace("x", ",").split(","))
    assert np.load(tmp_path / "data-00000.npy").shape == (3, *want)


# ---- 16-bit pictures, sound, signals: more in test_examples.py ----

def test_png16_has_16_bits_and_the_size_asked_for(tmp_path):
    synth("png16", tmp_path, "--count", 3, "--size", "40x30")
    for data in content(tmp_path).values():
        assert data[:8] == b"\x89PNG\r\n\x1a\n" and data[24:26] == b"\x10\x02"
        im = Image.open(io.BytesIO(data))
        im.load()
        assert im.size == (40, 30) and im.mode == "RGB"
        assert np.asarray(im).std() > 5


def test_wav_is_what_flac_packs(tmp_path):
    synth("wav", tmp_path / "w", "--count", 3, "--duration", "1s")
    synth("flac", tmp_path / "f", "--count", 3, "--duration", "1s")
    w, f = content(tmp_path / "w"), content(tmp_path / "f")
    assert [n[:-4] for n in w] == [n[:-5] for n in f]
    for name, data in w.items():
        with wave.open(io.BytesIO(data)) as x:
            assert x.getparams()[:3] == (1, 2, 16000)
            sound = np.frombuffer(x.readframes(10**6), "<i2")
        assert 8000 <= len(sound) <= 24000 and 200 < sound.std() < 9000
        r = subprocess.run(["flac", "-d", "-s", "-c", "--force-raw-format",
                            "--endian=little", "--sign=signed",
                            tmp_path / "f" / (name[:-4] + ".flac")],
                           capture_output=True)
        assert r.returncode == 0 and r.stdout == sound.tobytes()


def test_mp3_is_made_or_the_library_is_named(tmp_path):
    r = subprocess.run([BIN, "synth", "mp3", tmp_path, "--count", "3",
                        "--duration", "0.5s"], text=True, capture_output=True)
    if r.returncode:
        assert "libmp3lame" in r.stderr and "install" in r.stderr
        assert list(tmp_path.iterdir()) == []
    else:
        assert len(content(tmp_path)) == 3
        assert all(d[0] == 0xff for d in content(tmp_path).values())


def test_an_hour_is_a_file_of_360_samples(tmp_path):
    r = synth("nilm", tmp_path, "--count", 12, "--duration", "101s")
    assert sorted(content(tmp_path)) == ["nilm-0000001.hdf5",
                                         "nilm-0000002.hdf5"]
    assert "hdf5 " in r.stdout and "calibrate | power" in r.stdout


# ---- what goes wrong ----

def test_an_unknown_kind_names_the_nearest_and_all(tmp_path):
    r = synth("imags", tmp_path / "d", code=2)
    assert "Did you mean images?" in r.stderr and "tensors" in r.stderr
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize("args", [
    ["images"], [], ["images", "d", "e"],
    ["images", "d", "--size", "50"], ["images", "d", "--size", "4x4"],
    ["images", "d", "--size", "20000x20000"], ["images", "d", "--count", "0"],
    ["images", "d", "--quality", "101"], ["images", "d", "--shape", "3"],
    ["tensors", "d", "--size", "9x9"], ["tensors", "d", "--files", "2000"],
    ["tensors", "d", "--shape", "1000000000,1000000000,1000000000"],
    ["tensors", "d", "--shape", "0"], ["tensors", "d", "--dtype", "u9"],
    ["nilm", "d", "--duration", "9s"], ["flac", "d", "--duration", "2h"],
    ["png16", "d", "--size", "9x9x9"], ["wav", "d", "--size", "9x9"]])
def test_wrong_options_are_refused_and_nothing_is_made(tmp_path, args):
    r = synth(*args, code=2, cwd=tmp_path,
              env={**os.environ, "PWD": str(tmp_path)},
              executable=os.path.abspath(BIN))
    assert r.stderr.startswith("millrace: ")
    assert list(tmp_path.iterdir()) == []


def test_a_directory_with_something_in_it_needs_force(tmp_path):
    (tmp_path / "precious").write_text("x")
    r = subprocess.run([BIN, "synth", "tensors", tmp_path], text=True,
                       capture_output=True)
    assert r.returncode != 0
    assert "not empty" in r.stderr and "--force" in r.stderr
    assert os.listdir(tmp_path) == ["precious"]
    synth("tensors", tmp_path, "--force", "--count", 3)
    assert sorted(os.listdir(tmp_path)) == ["data-00000.npy", "labels.npy",
                                            "precious"]


def test_directories_above_are_made(tmp_path):
    synth("tensors", tmp_path / "a/b/c", "--count", 3)
    assert (tmp_path / "a/b/c/labels.npy").exists()


def test_a_file_in_place_of_the_directory_is_told(tmp_path):
    (tmp_path / "f").write_text("x")
    r = synth("images", tmp_path / "f", code=1)
    assert f"{tmp_path}/f" in r.stderr and "Not a directory" in r.stderr


def test_a_directory_that_cannot_be_made_is_told():
    r = synth("tensors", "/proc/nothing/here", code=1)
    assert "/proc/nothing: cannot make directory" in r.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_unwritable_directory_is_told(tmp_path):
    tmp_path.chmod(0o500)
    r = synth("tensors", tmp_path, code=1)
    assert "Permission denied" in r.stderr


@pytest.mark.parametrize("kind,options,name", [
    ("images", ["--same-size"], "img-"),
    ("tensors", ["--count", 50000], "data-00000.npy"),
    ("tensors", ["--each"], "t-00000"), ("png16", ["--size", "90x60"], "img-"),
    ("flac", [], "clip-"), ("nilm", ["--duration", "10s"], "nilm-")])
def test_a_failed_write_names_the_file_and_leaves_no_part(tmp_path, kind,
                                                          options, name):
    r = synth(kind, tmp_path / "d", *options, "--threads", 3, code=1,
              **limit_files(2000))
    assert name in r.stderr and "File too large" in r.stderr
    for path in content(tmp_path / "d"):
        assert "tmp" not in path


def test_a_signal_stops_it_cleanly(tmp_path):
    p = subprocess.Popen([BIN, "synth", "images", tmp_path, "--count",
                          "1000000"], text=True, stderr=subprocess.PIPE)
    while not list(tmp_path.rglob("*.jpg")):
        time.sleep(0.01)
    p.send_signal(signal.SIGINT)
    _, err = p.communicate(timeout=20)
    files = content(tmp_path)
    assert p.returncode != 0
    assert f"stopped after {len(files):,} file" in err
    for path, data in files.items():
        assert path.endswith(".jpg") and data[-2:] == b"\xff\xd9"


def test_a_signal_leaves_no_half_array(tmp_path):
    p = subprocess.Popen([BIN, "synth", "tensors", tmp_path, "--count",
                          "10000000"], text=True, stderr=subprocess.PIPE)
    while not list(tmp_path.iterdir()):
        time.sleep(0.01)
    p.send_signal(signal.SIGTERM)
    _, err = p.communicate(timeout=20)
    assert p.returncode != 0
    assert "stopped after 0 files" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["images", "png16"])
@pytest.mark.parametrize("size", ["abc", "5x5", "100x"])
def test_a_size_is_a_width_and_a_height(tmp_path, kind, size):
    r = synth(kind, tmp_path / "out", "--size", size, code=2)
    assert "500x375" in r.stderr
