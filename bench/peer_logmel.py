#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Log-mel spectrograms as people compute them, on one thread, of sounds that
are in memory as i16.

usage: peer_logmel.py torchaudio|numpy|scipy FILE.npy RATE

Frames of 20 ms each 10 ms, a Hann window, transforms of 1,024, magnitudes, 80
mel bins (HTK) from 125 to 3,800 Hz, ln(x + 1e-8). torchaudio and scipy in f32,
numpy in f64, as Millrace up to the magnitudes. torchaudio takes its frames out
of 1,024 samples, so that it has a few less.
"""
import os
import sys

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import numpy as np  # noqa: E402

from slices import serve  # noqa: E402

FFT, BINS, LOW, HIGH = 1024, 80, 125.0, 3800.0


def mel_matrix(rate):
    def mel(f):
        return 1127 * np.log(1 + f / 700)
    m = mel(np.linspace(0, rate / 2, FFT // 2 + 1)[1:])[:, None]
    e = np.linspace(mel(LOW), mel(HIGH), BINS + 2)
    up = (m - e[:-2]) / (e[1:-1] - e[:-2])
    down = (e[2:] - m) / (e[2:] - e[1:-1])
    return np.pad(np.maximum(0, np.minimum(up, down)), [(1, 0), (0, 0)])


def arrays(rfft, rate, real):
    """By NumPy's arrays, and either one's transform."""
    frame, step = rate // 50, rate // 100
    window = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(frame) / frame)
              ).astype(real)
    weights = mel_matrix(rate).astype(real)
    scale, offset = real(1 / 32768), real(1e-8)

    def log_mel(x):
        x = x.astype(real) * scale
        frames = np.lib.stride_tricks.sliding_window_view(x, frame)[::step]
        magnitude = np.abs(rfft(frames * window, FFT))
        return np.log(magnitude @ weights + offset).astype(np.float32)
    return log_mel


def by_torchaudio(rate):
    import torch
    import torchaudio
    torch.set_num_threads(1)
    mel = torchaudio.transforms.MelSpectrogram(
        rate, FFT, rate // 50, rate // 100, LOW, HIGH, n_mels=BINS, power=1,
        center=False, mel_scale="htk")

    def log_mel(x):
        with torch.no_grad():
            x = torch.from_numpy(x).float() * (1 / 32768)
            return torch.log(mel(x) + 1e-8)
    return log_mel


def main():
    library, path, rate = sys.argv[1:]
    rate = int(rate)
    if library == "torchaudio":
        log_mel = by_torchaudio(rate)
    elif library == "scipy":
        import scipy.fft
        log_mel = arrays(scipy.fft.rfft, rate, np.float32)
    else:
        log_mel = arrays(np.fft.rfft, rate, np.float64)
    data = np.load(path)

    def epoch(first):
        for x in data:
            log_mel(x)
            first()
        return len(data)

    serve(epoch, warmups=1)


if __name__ == "__main__":
    main()
