# SPDX-License-Identifier: Apache-2.0
"""greyscale and color_jitter against Pillow and torchvision: every byte is
equal."""
import itertools
import os
import pathlib
import subprocess

import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
F = pytest.importorskip("torchvision.transforms.functional",
                        reason="torchvision is not installed")
import millrace  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("MILLRACE_BUILD", "build")
ADJUST = {"b": F.adjust_brightness, "c": F.adjust_contrast,
          "s": F.adjust_saturation, "h": F.adjust_hue}
FACTORS = [0, 1e-6, 0.1, 1 / 3, 0.5, 0.75, 0.999999, 1, 1.0000001, 1.1,
           4 / 3, 1.5, 2, 3.7, 100, 12345.678]
HUES = [-0.5, -0.4999, -0.25, -0.1, -0.003, 0, 0.001, 0.004, 0.02, 0.3, 0.5]
TWINS = ["fast", "plain"]


def tool(image, *words):
    """What the kernel makes of an array of bytes."""
    r = subprocess.run([BUILD / "tests" / "colour", *map(str, words)],
                       input=image.tobytes(), stdout=subprocess.PIPE,
                       timeout=60, check=True)
    return np.frombuffer(r.stdout, np.uint8)


def kernel(image, twin, *adjustments):
    channels = 3 if image.ndim == 3 else 1
    words = itertools.chain(*((k, float(f).hex()) for k, f in adjustments))
    return tool(image, twin, "adjust", channels, *words).reshape(image.shape)


def pillow(image, *adjustments):
    im = Image.fromarray(image)
    for kind, factor in adjustments:
        im = ADJUST[kind](im, factor)
    return np.asarray(im)


def noise(h, w, *channels, seed=1):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (h, w, *channels), np.uint8)


def photo(h, w):
    """Soft gradients, a little noise, clipped lights and shadows."""
    y, x = np.mgrid[0:h, 0:w]
    a = np.stack([x * 300 / w - 20, y * 280 / h + x * 20 / w - 10,
                  (x + y) * 250 / (w + h)], -1)
    a += np.random.default_rng(2).normal(0, 3, a.shape)
    return a.clip(0, 255).astype(np.uint8)


def all_colours():
    a = np.arange(1 << 24, dtype=np.uint32)
    return np.stack([a >> 16, a >> 8, a], -1).astype(np.uint8).reshape(
        4096, 4096, 3)


IMAGES = {
    "noise": noise(61, 83, 3),
    "photo": photo(120, 97),
    "dark": noise(40, 50, 3) // 16,
    "light": 255 - noise(40, 50, 3) // 16,
    "flat": np.full((9, 7, 3), (200, 30, 90), np.uint8),
    "black": np.zeros((5, 5, 3), np.uint8),
    "one": np.array([[[1, 2, 3]]], np.uint8),
    "grey": noise(61, 83),
    "row of grey": np.arange(256, dtype=np.uint8).reshape(1, 256),
}


@pytest.fixture(params=IMAGES)
def image(request):
    return IMAGES[request.param]


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize("kind", "bcs")
def test_blends_equal_pillow_for_every_factor(image, kind, twin):
    for factor in FACTORS:
        got = kernel(image, twin, (kind, factor))
        assert np.array_equal(got, pillow(image, (kind, factor))), factor


@pytest.mark.parametrize("twin", TWINS)
def test_hue_equals_torchvision_for_every_shift(image, twin):
    for factor in HUES:
        got = kernel(image, twin, ("h", factor))
        assert np.array_equal(got, pillow(image, ("h", factor))), factor


def test_hue_equals_torchvision_for_all_256_turns():
    image = photo(64, 64)
    for turn in range(-127, 128):
        factor = turn / 255 + (1e-9 if turn > 0 else -1e-9)
        got = kernel(image, "fast", ("h", factor))
        assert np.array_equal(got, pillow(image, ("h", factor))), turn


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize("factor", [0, -0.2])
def test_hue_equals_torchvision_for_all_colours(twin, factor):
    image = all_colours()
    got = kernel(image, twin, ("h", factor))
    assert np.array_equal(got, pillow(image, ("h", factor)))


@pytest.mark.parametrize("factor", [0.3, 1.7])
def test_saturation_equals_pillow_for_all_colours(factor):
    image = all_colours()
    got = kernel(image, "fast", ("s", factor))
    assert np.array_equal(got, pillow(image, ("s", factor)))


@pytest.mark.parametrize("twin", TWINS)
def test_every_order_of_all_four_equals_torchvision(image, twin):
    rng = np.random.default_rng(3)
    for kinds in itertools.permutations("bcsh"):
        a = [(k, rng.uniform(-0.5, 0.5) if k == "h" else rng.uniform(0, 2.5))
             for k in kinds]
        assert np.array_equal(kernel(image, twin, *a), pillow(image, *a)), a


def test_random_factors_equal_torchvision():
    rng = np.random.default_rng(4)
    for i in range(150):
        h, w = rng.integers(1, 60, 2)
        image = noise(h, w, 3, seed=i)
        a = [(k, rng.uniform(-0.5, 0.5) if k == "h" else rng.exponential())
             for k in rng.choice(list("bcsh"), rng.integers(0, 7))]
        assert np.array_equal(kernel(image, "fast", *a), pillow(image, *a)), a


# ---- grey ----

@pytest.mark.parametrize("twin", TWINS)
def test_grey_equals_pillow_for_all_colours(twin):
    image = all_colours()
    want = np.asarray(Image.fromarray(image).convert("L"))
    assert np.array_equal(tool(image, twin, "grey", 3, 1), want.ravel())


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize("channels", [1, 3])
def test_grey_equals_torchvision(image, twin, channels):
    want = np.asarray(F.to_grayscale(Image.fromarray(image), channels))
    got = tool(image, twin, "grey", 3 if image.ndim == 3 else 1, channels)
    assert np.array_equal(got, want.ravel())


# ---- the steps, through a loader ----

def run(tmp_path, images, steps, **options):
    """Each image in order after the steps."""
    np.save(tmp_path / "in.npy", images)
    loader = millrace.Loader(f"npy {tmp_path}/in.npy | {steps} | batch 8",
                             order="sequential", **options)
    return np.concatenate([np.array(b["data"]) for b in loader])


@pytest.mark.parametrize("channels", [1, 3])
def test_the_step_greyscale_equals_torchvision(tmp_path, channels):
    images = noise(9, 30, 40, 3)
    out = run(tmp_path, images, f"greyscale {channels}")
    assert out.shape == (9, 30, 40, channels)
    for got, image in zip(out, images):
        want = F.to_grayscale(Image.fromarray(image), channels)
        assert np.array_equal(got, np.asarray(want).reshape(got.shape))


@pytest.mark.parametrize("kind,name,factor", [
    ("b", "brightness", 1.3), ("c", "contrast", 0.4),
    ("s", "saturation", 2.5), ("h", "hue", -0.11)])
def test_a_range_of_one_factor_is_that_factor(tmp_path, kind, name, factor):
    images = noise(9, 30, 40, 3)
    out = run(tmp_path, images, f"color_jitter {name}={factor},{factor}")
    for got, image in zip(out, images):
        assert np.array_equal(got, pillow(image, (kind, factor)))


def test_all_orders_and_only_those_come_up(tmp_path):
    image = photo(16, 16)
    factors = {"b": 1.2, "c": 0.7, "s": 1.6, "h": 0.13}
    wants = {pillow(image, *((k, factors[k]) for k in kinds)).tobytes(): kinds
             for kinds in itertools.permutations("bcsh")}
    assert len(wants) == 24, "each order gives another image"
    out = run(tmp_path, np.stack([image] * 1000),
              "color_jitter brightness=1.2,1.2 contrast=0.7,0.7 "
              "saturation=1.6,1.6 hue=0.13,0.13", seed=5)
    assert {wants[got.tobytes()] for got in out} == set(wants.values())


def test_one_channel_changes_in_brightness_and_contrast_alone(tmp_path):
    images = noise(9, 30, 40, 1)
    out = run(tmp_path, images, "color_jitter saturation=0.9 hue=0.5")
    assert np.array_equal(out, images)
    out = run(tmp_path, images, "color_jitter contrast=1.8,1.8 hue=0.5")
    for got, image in zip(out, images):
        assert np.array_equal(got[..., 0],
                              pillow(image[..., 0], ("c", 1.8)))


def test_without_ranges_nothing_changes(tmp_path):
    images = noise(9, 30, 40, 3)
    for steps in ("color_jitter", "color_jitter 0 contrast=1,1 hue=0,0"):
        assert np.array_equal(run(tmp_path, images, steps), images)
