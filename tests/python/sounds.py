# SPDX-License-Identifier: Apache-2.0
"""Small files of sound, made here: WAV, FLAC (by its own command), MP3."""
import shutil
import struct
import subprocess

import numpy as np


def signal(n, channels, seed=1):
    """Tones and noise in -0.9..0.9, n x channels."""
    rng = np.random.default_rng(seed)
    t = np.arange(n)[:, None] / 16000
    tones = 220 * (1 + np.arange(channels))
    x = 0.5 * np.sin(2 * np.pi * tones * t) + 0.2 * rng.normal(
        0, 0.5, (n, channels))
    return np.clip(x, -0.9, 0.9)


def ints(n, channels, bits, seed=1):
    """The same as integers; the extremes are among them."""
    x = np.round(signal(n, channels, seed) * 2.0 ** (bits - 1))
    x = x.astype(np.int64)
    if n > 4:
        x[2], x[3] = -(1 << bits - 1), (1 << bits - 1) - 1
    return x


def pcm_bytes(x, bits):
    """Little-endian with a sign, bits: 8, 16, 24 or 32."""
    raw = np.ascontiguousarray(x, "<i8").view("u1").reshape(-1, 8)
    return raw[:, :bits // 8].tobytes()


def chunk(name, data):
    return name + struct.pack("<I", len(data)) + data + b"\0" * (
        len(data) % 2)


def wav(data, channels, bits, rate=16000, tag=1, extensible=False, size=None,
        before=b""):
    align = channels * bits // 8
    head = struct.pack("<HHIIHH", 0xfffe if extensible else tag, channels,
                       rate, rate * align, align, bits)
    if extensible:
        head += struct.pack("<HHIH", 22, bits, 0, tag) + bytes.fromhex(
            "000000001000800000aa00389b71")
    body = chunk(b"fmt ", head) + before
    body += b"data" + struct.pack(
        "<I", len(data) if size is None else size) + data
    return b"RIFF" + struct.pack("<I", 4 + len(body)) + b"WAVE" + body


def wav_ints(x, bits, **options):
    data = (x + 128).astype("u1").tobytes() if bits == 8 else pcm_bytes(
        x, bits)
    return wav(data, x.shape[1], bits, **options)


def have_flac():
    return shutil.which("flac") is not None


def flac(x, bits, rate=16000, options=(), stream=False):
    """stream: through a pipe, so that the head has no number of samples."""
    args = ["flac", "-s", "-c", "--force-raw-format", "--endian=little",
            "--sign=signed", f"--channels={x.shape[1]}", f"--bps={bits}",
            f"--sample-rate={rate}", *options, "-"]
    out = subprocess.run(args, input=pcm_bytes(x, bits), check=True,
                         stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE).stdout
    total = int.from_bytes(out[21:26], "big")
    claim = 0 if stream else len(x)
    total = total >> 36 << 36 | claim
    return out[:21] + total.to_bytes(5, "big") + out[26:]


# ---- MP3: frames of random numbers, which are noise to a decoder ----

RATES = {1: (44100, 48000, 32000), 2: (22050, 24000, 16000),
         2.5: (11025, 12000, 8000)}
KBPS = {1: (32, 40, 48, 56, 64, 80, 96, 112, 128),
        2: (8, 16, 24, 32, 40, 48, 56, 64, 80)}


class Bits:
    def __init__(self):
        self.value = self.n = 0

    def add(self, value, bits):
        self.value = self.value << bits | value
        self.n += bits

    def bytes(self, length):
        return (self.value << 8 * length - self.n).to_bytes(length, "big")


def side(version, channels, rng, silent):
    """Side information: granules whose numbers are in their own frame."""
    b = Bits()
    granules = 2 if version == 1 else 1
    if version == 1:
        b.add(0, 9 + (5 if channels == 1 else 3) + 4 * channels)
    else:
        b.add(0, 8 + (1 if channels == 1 else 2))
    for _ in range(granules * channels):
        b.add(0 if silent else 150, 12)  # bits
        b.add(0 if silent else 12, 9)    # pairs of large values
        b.add(int(rng.integers(160, 175)), 8)
        b.add(0, 4 if version == 1 else 9)
        b.add(0, 1)
        for _ in range(3):
            b.add(int(rng.choice([1, 2, 5, 7])), 5)
        b.add(3, 4)
        b.add(2, 3)
        b.add(0, 3 if version == 1 else 2)
    length = {1: 17, 2: 32} if version == 1 else {1: 9, 2: 17}
    assert (b.n + 7) // 8 == length[channels], b.n
    return b.bytes(length[channels])


def mp3_frame(rate, channels, kbps, rng, silent=False, body=None):
    version = next(v for v in RATES if rate in RATES[v])
    table = KBPS[1 if version == 1 else 2]
    head = (0x7ff << 21 | {1: 3, 2: 2, 2.5: 0}[version] << 19 | 1 << 17 |
            1 << 16 | (table.index(kbps) + 1) << 12 |
            RATES[version].index(rate) << 10 |
            (3 if channels == 1 else 0) << 6)
    size = (144 if version == 1 else 72) * kbps * 1000 // rate
    data = head.to_bytes(4, "big") + side(version, channels, rng, silent)
    if body:
        data = data[:4] + bytes(len(data) - 4) + body
    rest = size - len(data)
    return data + (b"\0" * rest if silent or body else rng.bytes(rest))


def mp3(frames, rate=48000, channels=1, kbps=64, seed=1, info=False,
        delay=576, padding=700):
    """info: with LAME's first frame, so that decoders cut both ends."""
    rng = np.random.default_rng(seed)
    out = b""
    if info:
        body = b"Info" + struct.pack(">II", 1, frames) + b"LAME3.100"
        body += b"\0" * 12 + (delay << 12 | padding).to_bytes(3, "big")
        out = mp3_frame(rate, channels, kbps, rng, body=body)
    for i in range(frames):
        out += mp3_frame(rate, channels, kbps, rng, silent=i < 2)
    return out


def id3(length=300):
    return b"ID3\3\0\0" + bytes([0, 0, length >> 7, length & 127]) + bytes(
        length)
