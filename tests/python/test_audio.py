# SPDX-License-Identifier: Apache-2.0
"""Sound: FLAC and MP3 as their own commands decode them, WAV exactly, and
log-mel against a computation in f64."""
import os
import pathlib
import shutil
import subprocess

import millrace
import numpy as np
import pytest
import sounds

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = (ROOT / os.environ.get("MILLRACE_DATA", "../shared/data")).resolve()
REAL = {"flac": sorted((DATA / "flac").rglob("*.flac")),
        "mp3": sorted((DATA / "mp3").rglob("*.mp3"))}

needs_flac = pytest.mark.skipif(not sounds.have_flac(),
                                reason="the command flac is not installed")
needs_mpg123 = pytest.mark.skipif(not shutil.which("mpg123"),
                                  reason="the command mpg123 is not installed")


def load(text, **options):
    """{key: array} of the first epoch, and {key: reason} of the bad."""
    options = {"order": "sequential", "threads": 2, "on_error": "skip",
               **options}
    out = {}
    with millrace.Loader(f"{text} | batch 5", epochs=1, **options) as loader:
        for b in loader:
            for key, a in zip(b.sample_keys, b.samples("audio")):
                out[key] = a.copy()
        bad = {b["key"]: b["reason"] for b in loader.bad_samples()}
    return out, bad


def of_paths(tmp_path, paths, steps):
    """Of files anywhere: [array]; none may be bad."""
    table = tmp_path / "paths.tsv"
    table.write_text("".join(f"{p}\n" for p in paths))
    got, bad = load(f"list {table} | {steps}")
    assert not bad and len(got) == len(paths)
    return list(got.values())


def of_files(tmp_path, files, steps):
    """Of {name: bytes}."""
    folder = tmp_path / "files"
    folder.mkdir(exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return load(f"files {folder} | {steps}")


def one(tmp_path, data, steps="decode_audio"):
    got, bad = of_files(tmp_path, {"x": data}, steps)
    assert not bad, bad
    return got["x"]


def same(a, b):
    b = np.asarray(b)
    assert a.dtype == b.dtype and a.shape == b.shape
    assert (a == b).all()


def to_i16(x, bits):
    return (x << 16 - bits if bits <= 16 else x >> bits - 16).astype("i2")


def to_f32(x, bits):
    return (x / 2.0 ** (bits - 1)).astype("f4")


# ---- WAV ----

@pytest.mark.parametrize("channels", [1, 2, 8])
@pytest.mark.parametrize("bits", [8, 16, 24, 32])
@pytest.mark.parametrize("extensible", [False, True])
def test_wav_of_integers_is_exact(tmp_path, bits, channels, extensible):
    x = sounds.ints(2500, channels, bits)
    data = sounds.wav_ints(x, bits, extensible=extensible,
                           before=sounds.chunk(b"LIST", b"odd"))
    same(one(tmp_path, data, "decode_audio channels=keep"), to_i16(x, bits))
    same(one(tmp_path, data, "decode_audio f32 keep"), to_f32(x, bits))
    same(one(tmp_path, data),
         to_i16(x.sum(1), bits) if channels == 1 else
         (x.sum(1) * 2 ** 16 // (channels * 2 ** bits)).astype("i2"))
    same(one(tmp_path, data, "decode_audio f32"),
         to_f32(x.sum(1) / channels, bits))


@pytest.mark.parametrize("bits", [32, 64])
def test_wav_of_reals_is_exact(tmp_path, bits):
    x = sounds.signal(3000, 2).astype(f"<f{bits // 8}")
    data = sounds.wav(x.tobytes(), 2, bits, tag=3)
    same(one(tmp_path, data, "decode_audio f32 keep"), x.astype("f4"))
    same(one(tmp_path, data, "decode_audio i16 keep"),
         np.rint(x.astype("f8") * 32768).astype("i2"))


@pytest.mark.parametrize("channels,size", [
    (1, 0xffffffff), (1, 0x7ffff000), (3, 0x7ffff000 - 0x7ffff000 % 6)])
def test_wav_from_a_pipe_goes_to_the_files_end(tmp_path, channels, size):
    x = sounds.ints(100, channels, 16)
    data = sounds.wav_ints(x, 16, size=size)
    same(one(tmp_path, data, "decode_audio channels=keep"), to_i16(x, 16))


def test_sound_without_samples_is_empty(tmp_path):
    data = sounds.wav_ints(sounds.ints(0, 1, 16), 16)
    assert one(tmp_path, data).shape == (0,)
    assert one(tmp_path, data, "decode_audio | stft 320 160").shape == (0, 513)


# ---- FLAC ----

@needs_flac
@pytest.mark.parametrize("channels", [1, 2, 3, 8])
@pytest.mark.parametrize("bits", [8, 16, 24, 32])
@pytest.mark.parametrize("stream", [False, True])
def test_flac_is_what_went_in(tmp_path, bits, channels, stream):
    x = sounds.ints(9000, channels, bits)
    data = sounds.flac(x, bits, stream=stream)
    for tag in b"", sounds.id3():
        same(one(tmp_path, tag + data, "decode_audio channels=keep"),
             to_i16(x, bits))
    same(one(tmp_path, data, "decode_audio f32 keep"), to_f32(x, bits))
    same(one(tmp_path, data, "decode_audio f32"),
         to_f32(x.sum(1) / channels, bits))


@pytest.mark.skipif(not REAL["flac"], reason="no data at ../shared/data/flac")
@needs_flac
def test_recordings_are_what_flac_decodes(tmp_path):
    paths = REAL["flac"]
    got = of_paths(tmp_path, paths, "decode_audio channels=keep")
    reals = of_paths(tmp_path, paths, "decode_audio f32 keep")
    for p, a, f in zip(paths, got, reals):
        raw = subprocess.run(
            ["flac", "-d", "-s", "-c", "--force-raw-format", "--sign=signed",
             "--endian=little", p], check=True, stdout=subprocess.PIPE).stdout
        bits = int(subprocess.run(["metaflac", "--show-bps", p], check=True,
                                  stdout=subprocess.PIPE).stdout)
        raw = np.frombuffer(raw, "u1").reshape(-1, bits // 8)
        x = np.pad(raw, [(0, 0), (4 - bits // 8, 0)]).view("<i4") >> 32 - bits
        x = x.reshape(-1, a.shape[1])
        same(a, to_i16(x, bits))
        same(f, to_f32(x, bits))


# ---- MP3 ----

def by_mpg123(path, *options):
    return subprocess.run(["mpg123", "-q", "-s", *options, path], check=True,
                          stdout=subprocess.PIPE).stdout


def near(a, raw):
    b = np.frombuffer(raw, "<i2").reshape(a.shape)
    assert len(a) and abs(a.astype(int) - b).max() <= 1


@needs_mpg123
@pytest.mark.parametrize("rate", [8000, 11025, 12000, 16000, 22050, 24000,
                                  32000, 44100, 48000])
@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("info", [False, True])
def test_mp3_is_what_mpg123_decodes(tmp_path, rate, channels, info):
    data = sounds.mp3(30, rate, channels, info=info)
    path = tmp_path / "x.mp3"
    for before, after in ((b"", b""), (sounds.id3(), b"TAG" + bytes(125))):
        path.write_bytes(before + data + after)
        a = of_paths(tmp_path, [path], "decode_audio channels=keep")[0]
        whole = 30 * (1152 if rate >= 32000 else 576)
        assert a.shape == (whole - (576 + 700 if info else 0), channels)
        near(a, by_mpg123(path))
        near(of_paths(tmp_path, [path], "decode_audio")[0],
             by_mpg123(path, "-m"))
        f = of_paths(tmp_path, [path], "decode_audio f32 keep")[0]
        assert abs(f * 32768 - a).max() <= 1


@pytest.mark.skipif(not REAL["mp3"], reason="no data at ../shared/data/mp3")
@needs_mpg123
def test_recordings_are_what_mpg123_decodes(tmp_path):
    paths = REAL["mp3"]
    for p, a in zip(paths, of_paths(tmp_path, paths, "decode_audio")):
        near(a, by_mpg123(p))


# ---- what is wrong ----

@pytest.fixture
def good():
    files = {"wav": sounds.wav_ints(sounds.ints(9000, 1, 16), 16),
             "mp3": sounds.mp3(40), "info.mp3": sounds.mp3(40, info=True)}
    if sounds.have_flac():
        files["flac"] = sounds.flac(sounds.ints(9000, 1, 16), 16)
        files["stream.flac"] = sounds.flac(sounds.ints(9000, 1, 16), 16,
                                           stream=True)
    return files


def test_only_the_truncated_are_lost(tmp_path, good):
    files = dict(good)
    for name, data in good.items():
        files[f"half-{name}"] = data[:len(data) // 2 + 7]
        files[f"less-{name}"] = data[:-1]
        files[f"head-{name}"] = data[:50]
    got, bad = of_files(tmp_path, files, "decode_audio")
    assert set(got) == set(good)
    assert len(bad) == 3 * len(good)
    assert all("truncated" in r or "no chunk" in r for r in bad.values()), bad


def test_bytes_that_are_no_frame_are_noticed(tmp_path, good):
    files = {}
    for name, data in good.items():
        if "wav" not in name:
            at = len(data) // 2
            files[name] = data[:at] + bytes(300) + data[at:]
    got, bad = of_files(tmp_path, files, "decode_audio")
    assert not got and set(bad) == set(files)
    got, bad = of_files(tmp_path, files, "decode_audio lenient=yes")
    assert set(got) == {"mp3", "info.mp3"}


def test_what_is_no_sound_is_named(tmp_path):
    files = {"empty": b"", "text": b"hello", "ogg": b"OggS" + bytes(60),
             "id3": sounds.id3(), "rf64": b"RF64" + bytes(60),
             "alaw": sounds.wav(bytes(99), 1, 8, tag=6),
             "many": sounds.wav(bytes(90), 9, 8),
             "riff": b"RIFF\0\0\0\0WAVE"}
    got, bad = of_files(tmp_path, files, "decode_audio")
    assert not got
    for name, word in {"empty": "empty", "text": "begins with 68 65",
                       "ogg": "Ogg", "id3": "ID3", "rf64": "RF64",
                       "alaw": "format 0x0006", "many": "9 channels",
                       "riff": "no chunk 'fmt '"}.items():
        assert word in bad[name], bad[name]


@needs_flac
def test_a_head_that_claims_too_much_takes_no_memory(tmp_path):
    data = sounds.flac(sounds.ints(5000, 1, 16), 16)
    for claim, word in ((1 << 35, "may take"), (5001, "truncated"),
                        (4999, "more than the 4999")):
        total = int.from_bytes(data[21:26], "big") >> 36 << 36 | claim
        wrong = data[:21] + total.to_bytes(5, "big") + data[26:]
        _, bad = of_files(tmp_path, {"x": wrong}, "decode_audio")
        assert word in bad["x"]


def test_another_rate_is_refused_when_one_is_wanted(tmp_path):
    x = sounds.ints(100, 1, 16)
    files = {"a": sounds.wav_ints(x, 16, rate=16000),
             "b": sounds.wav_ints(x, 16, rate=44100)}
    got, bad = of_files(tmp_path, files, "decode_audio rate=16000")
    assert set(got) == {"a"} and "44100 samples per second" in bad["b"]


# ---- log-mel ----

def log_mel(x, frame, step, fft, rate, bins=80, low=125.0, high=3800.0):
    """As TensorFlow defines it, in f64, x in -1..1."""
    n = max(0, 1 + (len(x) - frame) // step)
    period = frame + (1 - frame % 2) - 1    # as tf.signal.hann_window has it
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(frame) / period) \
        if frame > 1 else np.ones(1)
    frames = np.array([x[i * step:i * step + frame] for i in range(n)])
    magnitude = np.abs(np.fft.rfft(frames * window, fft))

    def mel(f):
        return 1127 * np.log(1 + f / 700)
    m = mel(np.linspace(0, rate / 2, fft // 2 + 1)[1:])[:, None]
    e = np.linspace(mel(low), mel(high), bins + 2)
    up = (m - e[:-2]) / (e[1:-1] - e[:-2])
    down = (e[2:] - m) / (e[2:] - e[1:-1])
    weights = np.pad(np.maximum(0, np.minimum(up, down)), [(1, 0), (0, 0)])
    return np.log(magnitude @ weights + 1e-8)


STEPS = "stft rate={0} | mel rate={0} | log"


def check_log_mel(got, want):
    assert got.dtype == np.float32 and got.shape == want.shape
    assert abs(got - want).max() < 1e-5


@pytest.mark.parametrize("rate", [16000, 48000])
@pytest.mark.parametrize("dtype", ["i16", "f32"])
def test_log_mel_is_tensorflows(tmp_path, rate, dtype):
    frame = rate // 50
    for n in (frame, frame + frame // 2 - 1, 7 * frame + 3, 3 * rate):
        x = sounds.ints(n, 1, 16)
        data = sounds.wav_ints(x, 16, rate=rate)
        got = one(tmp_path, data,
                  f"decode_audio {dtype} | {STEPS.format(rate)}")
        check_log_mel(got, log_mel(x[:, 0] / 32768, frame, frame // 2, 1024,
                                   rate))


@pytest.mark.parametrize("frame", [200, 199, 1])
def test_lengths_and_bins_are_free(tmp_path, frame):
    x = sounds.ints(5000, 1, 16)
    data = sounds.wav_ints(x, 16, rate=8000)
    got = one(tmp_path, data, f"decode_audio | stft frame={frame} step=37 "
              "fft=300 | mel bins=23 fmin=60 fmax=4000 rate=8000 | log")
    check_log_mel(got, log_mel(x[:, 0] / 32768, frame, 37, 300, 8000, 23, 60,
                               4000))


@pytest.mark.parametrize("kind,rate,part", [
    ("flac", 16000, "librispeech"), ("mp3", 48000, "cv-en")])
def test_log_mel_of_recordings(tmp_path, kind, rate, part):
    paths = [p for p in REAL[kind] if part in str(p)][::4]
    if not paths:
        pytest.skip(f"no data at ../shared/data/{kind}")
    sound = of_paths(tmp_path, paths, "decode_audio")
    got = of_paths(tmp_path, paths, f"decode_audio | {STEPS.format(rate)}")
    for x, a in zip(sound, got):
        check_log_mel(a, log_mel(x / 32768, rate // 50, rate // 100, 1024,
                                 rate))


@pytest.mark.parametrize("steps,word", [
    ("stft", "needs rate="), ("stft frame=2x", "number of samples"),
    ("stft frame=2000 step=5", "raise it"), ("stft frame=0 step=1", "1 or"),
    ("stft 320 160 | mel rate=6000", "half the rate"),
    ("mel rate=16000", "as stft gives"), ("log", "wants f32"),
    ("stft 320 160 | stft 320 160", "one channel")])
def test_wrong_parameters_are_refused(tmp_path, steps, word):
    (tmp_path / "x").write_bytes(sounds.wav_ints(sounds.ints(9, 1, 16), 16))
    with pytest.raises(Exception, match=word):
        millrace.Loader(f"files {tmp_path} | decode_audio | {steps} | batch 1")


@pytest.mark.parametrize("name,rate", [("flac", 16000), ("mp3", 48000)])
def test_the_example_runs(tmp_path, name, rate):
    x = sounds.ints(rate, 1, 16)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / f"x.{name}").write_bytes(
        sounds.wav_ints(x, 16, rate=rate))
    text = (ROOT / "examples" / f"{name}.txt").read_text()
    text = text.replace(f"data/{name}", str(tmp_path))
    batch = next(iter(millrace.Loader(text)))
    check_log_mel(next(iter(batch.samples("audio"))),
                  log_mel(x[:, 0] / 32768, rate // 50, rate // 100, 1024,
                          rate))


@pytest.mark.parametrize("steps", [
    "stft 320 160 rate=16000 | mel rate=16000 | log",
    "stft 320 160 | mel rate=16000 bins=23 fmax=8000",
    "stft frame=100 step=7 fft=256 | log offset=0 | mel rate=16000 | log",
    "stft frame=9 step=3 fft=9 | mel bins=99 fmin=0 fmax=8000 rate=16000 | "
    "log offset=0", "stft 320 160 | log | cast f16"])
@pytest.mark.parametrize("dtype", ["i16", "f32"])
def test_joined_steps_give_the_bytes_of_each_alone(tmp_path, monkeypatch,
                                                   steps, dtype):
    """Also of silence, whose logarithm is minus infinity."""
    x = sounds.ints(3000, 1, 16)
    x[700:1300] = 0
    files = {f"{n:04}": sounds.wav_ints(x[:n], 16)
             for n in (0, 8, 319, 320, 500, 1600, 1700, 3000)}
    steps = f"decode_audio {dtype} | {steps}"
    joined, bad = of_files(tmp_path, files, steps)
    assert not bad
    text = f"files {tmp_path / 'files'} | {steps}"
    monkeypatch.setenv("MILLRACE_NO_JOIN", "1")
    alone = load(text)[0]
    assert set(joined) == set(alone) == set(files)
    for k in files:
        assert joined[k].tobytes() == alone[k].tobytes()
        assert joined[k].shape == alone[k].shape


def test_threads_do_not_change_a_byte(tmp_path):
    files = {f"{i:02}": sounds.mp3(5 + i, seed=i) for i in range(20)}
    steps = f"decode_audio | {STEPS.format(48000)}"
    of_files(tmp_path, files, steps)
    text = f"files {tmp_path / 'files'} | {steps}"
    a, b = (load(text, threads=n)[0] for n in (1, 4))
    assert all((a[k] == b[k]).all() for k in a) and len(a) == 20
