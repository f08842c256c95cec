# SPDX-License-Identifier: Apache-2.0
"""Files of sound that lie, are cut, flipped or put together wrongly: a reason,
or what is right; and sounds that are longer than the memory."""
import os
import struct

import numpy as np
import pytest
import sounds
from test_audio import DATA, REAL, needs_flac, needs_mpg123, near, by_mpg123
from test_audio import load, of_files, of_paths, one, same

X = sounds.ints(5000, 1, 16)


def bad_of(tmp_path, data, steps="decode_audio"):
    got, bad = of_files(tmp_path, {"x": data}, steps)
    assert not got and set(bad) == {"x"}, {k: a.shape for k, a in got.items()}
    return bad["x"]


# ---- WAV ----

@pytest.mark.parametrize("change,word", [
    (lambda w: w[:40] + b"\0\0\0\x80" + w[44:], "truncated: 10000 of 2147"),
    (lambda w: w[:40] + b"\x11\x27\0\0" + w[44:], "10000 of 10001"),
    (lambda w: w[:40] + b"\0\0\0\0" + w[44:], "has not finished it"),
    (lambda w: w[:24] + b"\0\0\0\0" + w[28:], "0 samples per second"),
    (lambda w: w[:16] + b"\xff\xff\xff\x7f" + w[20:], "no chunk 'data'"),
    (lambda w: w[:16] + b"\0\0\0\0" + w[20:], "has 0 bytes, want 16"),
    (lambda w: w[:32] + b"\1\0" + w[34:], "1 bytes for 1 channels"),
    (lambda w: w[:22] + b"\0\0" + w[24:], "0 channels"),
    (lambda w: w[:34] + b"\x21\0" + w[36:], "with 33 bits"),
    (lambda w: w[:20] + b"\xfe\xff" + w[22:], "format 0xfffe"),
    (lambda w: w[:36], "no chunk 'data'")])
def test_a_wav_that_lies_is_named(tmp_path, change, word):
    assert word in bad_of(tmp_path, change(sounds.wav_ints(X, 16)))


@pytest.mark.parametrize("change", [
    lambda w: w[:4] + b"\0\0\0\0" + w[8:],       # RIFF's own size
    lambda w: w[:4] + b"\xff\xff\xff\xff" + w[8:],
    lambda w: w[:28] + b"\0\0\0\0" + w[32:],     # bytes per second
    lambda w: w + b"x",
    lambda w: w + sounds.chunk(b"LIST", b"odd")])
def test_what_nobody_needs_may_be_wrong(tmp_path, change):
    same(one(tmp_path, change(sounds.wav_ints(X, 16))), X[:, 0].astype("i2"))


def test_a_wav_without_sound_may_have_other_chunks(tmp_path):
    empty = sounds.wav_ints(X[:0], 16)
    for rest in (b"", b"x", sounds.chunk(b"LIST", b"odd")):
        assert one(tmp_path, empty + rest).shape == (0,)


# ---- FLAC ----

def streaminfo(f, total=None, channels=None, bits=None, rate=None):
    v = int.from_bytes(f[18:26], "big")
    total = v & (1 << 36) - 1 if total is None else total
    bits = (v >> 36 & 31) + 1 if bits is None else bits
    channels = (v >> 41 & 7) + 1 if channels is None else channels
    rate = v >> 44 if rate is None else rate
    v = rate << 44 | channels - 1 << 41 | bits - 1 << 36 | total
    return f[:18] + v.to_bytes(8, "big") + f[26:]


@needs_flac
@pytest.mark.parametrize("lie,word", [
    ({"total": 2**36 - 1}, "68719476735 samples need more"),
    ({"total": 2**36 - 1, "channels": 8, "bits": 32}, "need more than"),
    ({"channels": 8}, "and 8 of 16 at 16000 before"),
    ({"bits": 32}, "and 1 of 32 at 16000 before"),
    ({"rate": 8000}, "and 1 of 16 at 8000 before"),
    ({"rate": 0}, "at 0 before")])
def test_a_flac_that_lies_is_named(tmp_path, lie, word):
    data = streaminfo(sounds.flac(X, 16), **lie)
    for steps in "decode_audio", "decode_audio f32 keep":
        assert word in bad_of(tmp_path, data, steps)


def crc8(data):
    c = 0
    for b in data:
        c ^= b
        for _ in range(8):
            c = (c << 1 ^ 7) & 255 if c & 128 else c << 1
    return c


def frames_of(flac):
    """Where its frames begin, by the checksums of their heads."""
    at, last = 4, False
    while not last:
        last = flac[at] >> 7
        at += 4 + int.from_bytes(flac[at + 1:at + 4], "big")
    return [i for i in range(at, len(flac) - 6)
            if flac[i] == 0xff and flac[i + 1] & 0xfe == 0xf8
            and any(crc8(flac[i:i + n]) == flac[i + n] for n in range(5, 8))]


@needs_flac
@pytest.mark.parametrize("stream", [False, True])
def test_frames_that_are_missing_are_no_silence(tmp_path, stream):
    x = sounds.ints(20000, 1, 16)
    f = sounds.flac(x, 16, options=["--blocksize=1024"], stream=stream)
    s = frames_of(f)
    assert len(s) == 20
    a, b, c = s[5], s[6], s[7]
    for data in (f[:a] + f[b:], f[:b] + f[a:], f[:a] + f[b:c] + f[a:b] + f[c:]):
        assert "missing or not in order" in bad_of(tmp_path, data)
    if not stream:
        for data in (f[:s[0]] + f[s[1]:], f[:s[-1]]):
            assert "truncated" in bad_of(tmp_path, data)


@needs_flac
def test_a_flipped_bit_of_flac_is_noticed_or_does_no_harm(tmp_path):
    x = sounds.ints(3000, 2, 16)
    f = sounds.flac(x, 16, options=["--blocksize=512", "--no-padding"])
    rng = np.random.default_rng(3)
    files = {}
    for i in range(300):
        at = int(rng.integers(0, len(f)))
        files[f"{i:03}"] = f[:at] + bytes([f[at] ^ 1 << rng.integers(8)]) + \
            f[at + 1:]
    got, bad = of_files(tmp_path, files, "decode_audio channels=keep")
    assert len(got) + len(bad) == 300 and len(bad) > 200
    for a in got.values():
        same(a, x.astype("i2"))


@needs_flac
@pytest.mark.parametrize("stream", [False, True])
def test_a_flac_is_truncated_only_where_its_end_is_missing(tmp_path, stream):
    f = sounds.flac(sounds.ints(9000, 1, 16), 16, stream=stream,
                    options=["--blocksize=1024"])
    s = frames_of(f)
    rng = np.random.default_rng(4)
    for _ in range(60):
        at = int(rng.integers(s[2] + 8, s[-2]))
        data = f[:at] + bytes([f[at] ^ 1 << rng.integers(8)]) + f[at + 1:]
        assert "truncated" not in bad_of(tmp_path, data)
    for at in rng.integers(s[2] + 8, len(f), 20):
        if at not in s:
            assert "truncated" in bad_of(tmp_path, f[:int(at)])


# ---- MP3 ----

def xing(frames, claim):
    m = sounds.mp3(frames, info=True)
    at = m.index(b"Info") + 8
    return m[:at] + struct.pack(">I", claim) + m[at + 4:]


def test_more_frames_than_there_are_is_truncated(tmp_path):
    for claim in (41, 80, 2**31, 2**32 - 1):
        assert "truncated" in bad_of(tmp_path, xing(40, claim))


@needs_mpg123
def test_fewer_frames_than_there_are_or_none_is_what_mpg123_makes_of_it(
        tmp_path):
    for claim in (0, 20, 39, 40):
        path = tmp_path / "x.mp3"
        path.write_bytes(xing(40, claim))
        near(of_paths(tmp_path, [path], "decode_audio")[0], by_mpg123(path))


def test_a_tag_that_claims_256_megabytes_takes_none(tmp_path):
    tag = b"ID3\3\0\0\x7f\x7f\x7f\x7f"
    assert "nothing follows the ID3 tag" in bad_of(
        tmp_path, tag + bytes(100) + sounds.mp3(30))


@needs_mpg123
@pytest.mark.parametrize("rate,channels", [(48000, 1), (44100, 2), (22050, 1),
                                           (8000, 2)])
def test_frames_of_many_bit_rates(tmp_path, rate, channels):
    rng = np.random.default_rng(5)
    kbps = [64, 80, 96, 128] if rate >= 32000 else [32, 48, 64, 80]
    data = b"".join(sounds.mp3_frame(rate, channels, kbps[i % 4], rng)
                    for i in range(50))
    path = tmp_path / "x.mp3"
    path.write_bytes(data)
    a = of_paths(tmp_path, [path], "decode_audio channels=keep")[0]
    assert a.shape == (50 * (1152 if rate >= 32000 else 576), channels)
    near(a, by_mpg123(path))


def test_another_rate_in_the_middle_is_named(tmp_path):
    data = sounds.mp3(20, 48000) + sounds.mp3(20, 44100)
    bad = bad_of(tmp_path, data)
    assert "at 44100 Hz after" in bad or "no frame" in bad, bad


def test_three_hours_are_taken_or_refused_by_the_memory(tmp_path):
    frame = sounds.mp3_frame(48000, 1, 64, np.random.default_rng(1))
    folder = tmp_path / "long"
    folder.mkdir()
    (folder / "x.mp3").write_bytes(frame * 450000)
    got, bad = load(f"files {folder} | decode_audio", memory="256M")
    assert not got
    assert bad["x.mp3"] == ("518400000 samples need more than the 134217728 "
                            "bytes that a sample may take; raise --memory")
    (folder / "x.mp3").write_bytes(frame * 5000)    # two minutes
    got, bad = load(f"files {folder} | decode_audio | stft rate=48000 | mel "
                    "rate=48000 | log", memory="32M")
    assert not bad and got["x.mp3"].shape == (11999, 80)


# ---- all of them ----

def test_random_bytes_behind_a_good_head_end(tmp_path):
    rng = np.random.default_rng(9)
    good = {"wav": sounds.wav_ints(X, 16), "mp3": sounds.mp3(30),
            "info": sounds.mp3(30, info=True)}
    if sounds.have_flac():
        good["flac"] = sounds.flac(X, 16)
    files = {}
    for name, data in good.items():
        for i in range(40):
            at = int(rng.integers(4, len(data)))
            files[f"{name}-{i}"] = data[:at] + rng.bytes(len(data) - at)
    for steps in "decode_audio", "decode_audio f32 keep lenient=yes":
        got, bad = of_files(tmp_path, files, steps)
        assert len(got) + len(bad) == len(files) and all(bad.values())


@pytest.mark.skipif(not (DATA / "mp3" / "odd").is_dir(),
                    reason="no data at ../shared/data")
def test_odd_recordings_cut_anywhere_are_refused_or_short(tmp_path):
    files = {}
    for p in REAL["mp3"] + REAL["flac"]:
        if "odd" not in str(p):
            continue
        data = p.read_bytes()
        for i in range(1, 8):
            files[f"{p.name}-{i}"] = data[:len(data) * i // 8]
    got, bad = of_files(tmp_path, files, "decode_audio")
    assert len(got) + len(bad) == len(files) and all(bad.values())
    # a cut between two frames cannot be seen where no number is given
    assert all("flac" not in k for k in got)
    assert os.listdir(tmp_path)
