# SPDX-License-Identifier: Apache-2.0
"""The scaling kernels against Pillow's resize().

Both round to u8 after the rows and after the columns; weights have 14 bits
here and 22 there, so a pixel may be off by one now and then, and by two if
both passes are."""
import subprocess

import numpy as np
import pytest

from conftest import BUILD, ROOT

Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")

TOOL = (ROOT / BUILD / "tests" / "resample_tool").resolve()
FILTERS = {"bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC,
           "area": Image.BOX}
# in and out, height and width: from a tenth to eight times
SIZES = [((375, 500), (256, 341)), ((375, 500), (224, 224)),
         ((500, 375), (50, 38)), ((333, 517), (34, 51)),
         ((60, 80), (480, 640)), ((97, 31), (224, 224)),
         ((200, 300), (200, 100)), ((200, 300), (100, 300)),
         ((256, 256), (128, 64)), ((300, 450), (200, 300)),
         ((1, 1), (9, 5)), ((1, 700), (3, 70)), ((7, 5), (7, 5)),
         ((2, 3), (1, 1)), ((640, 480), (639, 481))]


def noise(h, w, channels):
    rng = np.random.default_rng(h * 10007 + w)
    return rng.integers(0, 256, (h, w, channels), dtype=np.uint8)


def gradient(h, w, channels):
    y, x = np.mgrid[0:h, 0:w]
    ramps = [x / w, y / h, (x + y) / (h + w), 1 - x / w]
    return (np.stack(ramps[:channels], -1) * 255).astype(np.uint8)


def photo(h, w, channels):
    """Shades, shapes with hard edges, a texture and the noise of a sensor."""
    rng = np.random.default_rng(h + w)
    y, x = np.mgrid[0:h, 0:w]
    layers = []
    for c in range(channels):
        a = 120 + 60 * np.sin(x / (17 + c) + y / 41) * np.cos(y / 29)
        for _ in range(6):
            cy, cx, r = rng.random(3) * [h, w, max(h, w) / 4]
            disc = (y - cy) ** 2 + (x - cx) ** 2 < r * r
            a = np.where(disc, a * 0.3 + rng.random() * 180, a)
        a = a + 12 * np.sin(x * 1.7) * (y > h / 2) + rng.normal(0, 3, (h, w))
        layers.append(a)
    return np.clip(np.stack(layers, -1), 0, 255).astype(np.uint8)


def ours(how, image, out, name, antialias=True, window=None):
    top, left, h, w = window or (0, 0, *out)
    words = [how, *image.shape, *out, name, int(antialias), top, left, h, w]
    done = subprocess.run([TOOL, *map(str, words)], input=image.tobytes(),
                          stdout=subprocess.PIPE, check=True, timeout=60)
    return np.frombuffer(done.stdout, np.uint8).reshape(
        h, w, image.shape[2])


def pillows(image, out, name):
    """Channel by channel: as a whole, Pillow would weigh colours by alpha."""
    planes = [np.asarray(Image.fromarray(image[:, :, c]).resize(
        (out[1], out[0]), FILTERS[name])) for c in range(image.shape[2])]
    return np.stack(planes, -1)


def assert_close(got, want, name):
    """The mean of ten equal weights is x.5 for every tenth pixel. Which way
    that goes is an accident of rounding 1/10, here and in Pillow."""
    off = np.abs(got.astype(int) - want.astype(int))
    most = 0.3 if name == "area" else 0.02
    assert off.max() <= 2 and off.mean() <= most, (off.max(), off.mean())


@pytest.mark.parametrize("how", ["plain", "fast"])
@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("kind", [noise, gradient, photo])
def test_scaling_is_pillows_but_for_rounding(how, name, kind):
    for n, (size, out) in enumerate(SIZES):
        image = kind(*size, n % 4 + 1)
        assert_close(ours(how, image, out, name), pillows(image, out, name),
                     name)


@pytest.mark.parametrize("name", FILTERS)
def test_random_sizes_are_pillows_but_for_rounding(name):
    rng = np.random.default_rng(5)
    for _ in range(25):
        size = rng.integers(1, 300, 2)
        out = np.maximum(1, size * 10 ** rng.uniform(-1, 0.9, 2)).astype(int)
        image = noise(*size, 4)
        assert_close(ours("fast", image, tuple(out), name),
                     pillows(image, tuple(out), name), name)


@pytest.mark.parametrize("how", ["plain", "fast"])
@pytest.mark.parametrize("name", FILTERS)
def test_a_window_is_that_part_of_the_whole(how, name):
    rng = np.random.default_rng(6)
    for size, out in SIZES:
        image = noise(*size, 4)
        whole = ours("plain", image, out, name)
        for _ in range(4):
            h, w = (int(rng.integers(1, n + 1)) for n in out)
            top, left = (int(rng.integers(0, n - m + 1))
                         for n, m in zip(out, (h, w)))
            part = ours(how, image, out, name, True, (top, left, h, w))
            assert (part == whole[top:top + h, left:left + w]).all()


def test_a_flat_image_stays_flat():
    for value in (0, 1, 128, 254, 255):
        image = np.full((611, 1277, 3), value, np.uint8)
        for name in FILTERS:
            for out in ((7, 3), (100, 2000)):
                assert (ours("fast", image, out, name) == value).all()


def test_without_antialias_a_shrunken_image_is_made_of_neighbours():
    """Then two inputs count, however far the next output is."""
    image = noise(1, 1000, 1)
    got = ours("fast", image, (1, 10), "bilinear", antialias=False)
    x = (np.arange(10) + 0.5) * 100
    pair = image[0, :, 0].astype(float)
    want = (pair[x.astype(int) - 1] + pair[x.astype(int)]) / 2
    assert np.abs(got[0, :, 0] - want).max() <= 1


def test_area_is_the_mean():
    image = noise(1, 7000, 1)
    for ratio in (2, 5, 10, 14, 100):
        got = ours("fast", image, (1, 7000 // ratio), "area")[0, :, 0]
        want = image.reshape(-1, ratio).mean(1)
        assert np.abs(got - want).max() < 0.55


def test_a_very_long_row_still_counts_each_input():
    """20,000 equal weights, of which 14 bits can tell few apart."""
    image = gradient(1, 200_000, 1)
    for name in FILTERS:
        assert_close(ours("fast", image, (1, 10), name),
                     pillows(image, (1, 10), name), name)
