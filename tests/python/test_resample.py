# SPDX-License-Identifier: Apache-2.0
"""resample: sines against themselves at the other rate, what must not come
through, lengths, channels, and rates that come with the files."""
import numpy as np
import pytest
import sounds
from test_audio import load, of_files, same

FLAT = 0.91     # of the lower rate's half: what passes


def resampled(tmp_path, x, a, b, options="", dtype="f32"):
    """x: n x channels at a Hz, through a WAV file; at b Hz."""
    x = np.asarray(x)
    if x.dtype.kind == "f":
        data = sounds.wav(x.astype("<f4").tobytes(), x.shape[1], 32, rate=a,
                          tag=3)
    else:
        data = sounds.wav_ints(x, 16, rate=a)
    got, bad = of_files(tmp_path, {"x": data}, f"decode_audio {dtype} keep | "
                        f"resample {b} {options}")
    assert not bad, bad
    return got["x"]


def sine(f, rate, seconds=1.0):
    t = np.arange(int(rate * seconds)) / rate
    return 0.9 * np.sin(2 * np.pi * f * t)


def middle(x):
    n = len(x) // 8
    return x[n:-n]


def db(x):
    return 20 * np.log10(abs(x).max() + 1e-12)


RATES = [(48000, 16000), (44100, 16000), (16000, 48000), (22050, 16000),
         (8000, 44100), (16000, 15999)]


@pytest.mark.parametrize("a,b", RATES)
@pytest.mark.parametrize("quality,want", [("high", -118), ("best", -138)])
def test_sines_are_what_they_would_be_at_that_rate(tmp_path, a, b, quality,
                                                   want):
    low = min(a, b) / 2
    for part in (0.02, 0.3, 0.6, 0.8, FLAT):
        f = low * part
        y = resampled(tmp_path, sine(f, a)[:, None], a, b,
                      f"quality={quality}")[:, 0].astype("f8")
        assert len(y) == b
        assert db(middle(y - sine(f, b))) < want, part


@pytest.mark.parametrize("a,b", [(48000, 16000), (44100, 16000),
                                 (96000, 8000), (22050, 16000)])
def test_what_the_new_rate_cannot_carry_does_not_come_through(tmp_path, a, b):
    for f in np.linspace(b - FLAT * b / 2, a / 2 * 0.999, 12):
        y = resampled(tmp_path, sine(f, a)[:, None], a, b)
        assert db(middle(y)) < -120, f


def test_a_sweep_loses_nothing_and_gains_nothing(tmp_path):
    """Up and down again: what came in, but for its ends."""
    t = np.arange(2 * 16000) / 16000
    x = 0.8 * np.sin(2 * np.pi * (50 * t + 0.5 * 3500 * t * t))   # to 7 kHz
    up = resampled(tmp_path, x[:, None], 16000, 48000)
    back = resampled(tmp_path, up, 48000, 16000)[:, 0]
    assert db(middle(back - x)) < -110


def test_scipy_agrees(tmp_path):
    signal = pytest.importorskip("scipy.signal")
    x = sine(440, 48000) + 0.05 * sine(3100, 48000)
    y = resampled(tmp_path, x[:, None], 48000, 16000)[:, 0]
    z = signal.resample_poly(x, 1, 3, window=("kaiser", 14.0))
    assert abs(middle(y - z)).max() < 1e-4


@pytest.mark.parametrize("a,b", [(44100, 16000), (16000, 44100),
                                 (48000, 16000), (11025, 8000), (8000, 7999)])
def test_lengths_are_rounded_to_the_nearest(tmp_path, a, b):
    files = {}
    lengths = [0, 1, 2, 3, 5, 10, 99, 1000, 4095, 4096, 4097, 12345]
    for n in lengths:
        files[f"{n:05}"] = sounds.wav_ints(sounds.ints(n, 1, 16), 16, rate=a)
    got, bad = of_files(tmp_path, files, f"decode_audio | resample {b}")
    assert not bad
    for n in lengths:
        assert len(got[f"{n:05}"]) == (2 * n * b + a) // (2 * a)


@pytest.mark.parametrize("channels", [1, 2, 8])
def test_channels_stay_apart(tmp_path, channels):
    x = np.stack([sine(200 * (c + 1), 44100) for c in range(channels)], 1)
    y = resampled(tmp_path, x, 44100, 16000)
    assert y.shape == (16000, channels)
    for c in range(channels):
        assert db(middle(y[:, c] - sine(200 * (c + 1), 16000))) < -115


def test_i16_is_rounded_and_clipped_but_not_dithered(tmp_path):
    x = np.round(sine(1000, 48000) * 32768).astype("i8")[:, None]
    y = resampled(tmp_path, x, 48000, 16000, dtype="i16")
    assert y.dtype == np.int16
    want = sine(1000, 16000) * 32768
    assert abs(middle(y[:, 0] - want)).max() < 1.01
    same(y, resampled(tmp_path, x, 48000, 16000, dtype="i16"))
    loud = np.where(np.arange(9000) // 20 % 2, 32767, -32768)[:, None]
    y = resampled(tmp_path, loud, 48000, 32000, dtype="i16")
    assert y.max() == 32767 and y.min() == -32768
    assert not resampled(tmp_path, loud * 0, 48000, 32000, dtype="i16").any()


def test_the_same_rate_is_left_alone(tmp_path):
    x = sounds.ints(3000, 2, 16)
    same(resampled(tmp_path, x, 16000, 16000, dtype="i16"), x.astype("i2"))


def test_each_file_has_its_own_rate_and_threads_do_not_change_a_byte(
        tmp_path):
    rates = [8000, 11025, 16000, 22050, 24000, 32000, 44100, 48000, 96000]
    files = {}
    for i in range(45):
        rate = rates[i * 7 % 9]
        x = np.round(sine(440, rate, 0.4) * 30000).astype("i8")
        files[f"{i:02}"] = sounds.wav_ints(
            np.repeat(x[:, None], 1 + i % 2, 1), 16, rate=rate)
    steps = "decode_audio | resample 16000 | stft 320 160 rate=16000"
    a, bad = of_files(tmp_path, files, steps)
    assert not bad and len(a) == 45
    text = f"files {tmp_path / 'files'} | {steps}"
    for threads in (1, 4):
        b = load(text, threads=threads)[0]
        assert all((a[k] == b[k]).all() for k in a)
    for x in a.values():        # all of them show the same tone
        assert x.shape == (39, 513) and x[20].argmax() == 28


def test_a_sound_of_another_rate_than_stft_was_told_is_refused(tmp_path):
    data = sounds.wav_ints(sounds.ints(9000, 1, 16), 16, rate=44100)
    for steps, name in (("stft rate=16000", "stft"),
                        ("stft 320 160 | mel rate=16000", "mel")):
        got, bad = of_files(tmp_path, {"x": data}, f"decode_audio | {steps}")
        assert not got and f"{name} was told rate=16000" in bad["x"]
        assert "44100 samples per second" in bad["x"]


def test_rates_that_cannot_be_are_named(tmp_path):
    x = sounds.ints(100, 1, 16)
    files = {"fast": sounds.wav_ints(x, 16, rate=2**31 - 1),
             "slow": sounds.wav_ints(x, 16, rate=3)}
    got, bad = of_files(tmp_path, files, "decode_audio | resample 16000")
    assert not got and all("a factor of 256" in r for r in bad.values())
    (tmp_path / "files" / "fast").unlink()
    got, bad = of_files(tmp_path, {"slow": files["fast"]}, "decode_audio | "
                        "resample 16000 from=8000")
    assert "was told from=8000" in bad["slow"]


def test_without_a_rate_it_must_be_said(tmp_path):
    x = sine(440, 8000)
    np.save(tmp_path / "x.npy", x[None].astype("f4"))
    got, bad = load(f"npy {tmp_path}/x.npy | resample 16000 | select data")
    assert "say resample from=RATE" in list(bad.values())[0]
