# SPDX-License-Identifier: Apache-2.0
"""What the random image steps draw: distributed as torchvision's, and the
pixels are those of the box that was drawn.

All numbers are the same in each run, so that what passes once does so."""
import subprocess

import millrace
import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
pictures = pytest.importorskip("pictures")


@pytest.fixture(scope="session")
def tv(torch):
    return pytest.importorskip("torchvision.transforms",
                               reason="torchvision is not installed")


def views(h, w, count, steps, seed=1, first=1):
    """box x y w h, scaled w h, window x y w h, mirrored; of each sample."""
    words = [pictures.TOOLS / "crop_tool", h, w, count, seed, first, steps]
    out = subprocess.run(list(map(str, words)), stdout=subprocess.PIPE,
                         check=True, timeout=60).stdout
    return np.array(out.split(), int).reshape(count, 11)


def p_value(a, b):
    """Kolmogorov-Smirnov for two samples; ties make it larger only."""
    both = np.concatenate([a, b])
    far = np.abs(np.searchsorted(np.sort(a), both, "right") / len(a) -
                 np.searchsorted(np.sort(b), both, "right") / len(b)).max()
    return 2 * np.exp(-2 * far * far * len(a) * len(b) / (len(a) + len(b)))


def boxes_of_torchvision(torch, tv, h, w, count, scale, ratio):
    torch.manual_seed(2)
    image = torch.empty(3, h, w)
    draw = tv.RandomResizedCrop.get_params
    out = np.array([draw(image, scale, ratio) for _ in range(count)])
    return out[:, [1, 0, 3, 2]]  # x y w h


def test_the_comparison_finds_what_differs():
    rng = np.random.default_rng(1)
    a, b = rng.random((2, 20_000))
    assert p_value(a, b) > 1e-3
    assert p_value(a, b * 1.03) < 1e-4
    assert p_value(a, b ** 1.08) < 1e-4


@pytest.mark.parametrize("h,w,scale,ratio", [
    (375, 500, (0.08, 1), (3 / 4, 4 / 3)),
    (80, 200, (0.3, 0.9), (0.6, 2)),  # many tries are too tall
    (80, 64, (0.8, 1), (3 / 4, 4 / 3)),
])
def test_boxes_are_distributed_as_torchvisions(torch, tv, h, w, scale, ratio):
    n = 20_000
    ours = views(h, w, n, f"random_resized_crop 224 scale={scale[0]},"
                 f"{scale[1]} ratio={ratio[0]!r},{ratio[1]!r}")[:, :4]
    theirs = boxes_of_torchvision(torch, tv, h, w, n, scale, ratio)
    for name, of in {"x": lambda b: b[:, 0], "y": lambda b: b[:, 1],
                     "width": lambda b: b[:, 2], "height": lambda b: b[:, 3],
                     "area": lambda b: b[:, 2] * b[:, 3],
                     "shape": lambda b: np.log(b[:, 2] / b[:, 3]),
                     "place": lambda b: b[:, 0] / (w - b[:, 2] + 1),
                     }.items():
        assert p_value(of(ours), of(theirs)) > 1e-4, name
    x, y, bw, bh = ours.T
    assert (x >= 0).all() and (y >= 0).all() and (bw > 0).all()
    assert (x + bw <= w).all() and (y + bh <= h).all()


@pytest.mark.parametrize("h,w", [(10, 1000), (1000, 10), (1, 50), (50, 1),
                                 (3, 7), (1, 1), (16, 17)])
def test_where_no_box_fits_it_is_torchvisions_middle(torch, tv, h, w):
    scale, ratio = (0.9, 1.0), (0.75, 0.8)
    ours = views(h, w, 300, "random_resized_crop 9 scale=0.9,1 "
                 "ratio=0.75,0.8")[:, :4]
    theirs = boxes_of_torchvision(torch, tv, h, w, 300, scale, ratio)
    theirs[:, 2:] = np.maximum(theirs[:, 2:], 1)  # there, a line may vanish
    assert set(map(tuple, ours)) == set(map(tuple, theirs))


def test_the_pixels_are_those_of_the_box(tv, tmp_path):
    """With the boxes drawn, as torchvision: crop, resize, mirror."""
    im = Image.fromarray(pictures.photo(300, 400))
    for i in range(12):
        im.save(tmp_path / f"{i:02}.png")
    for name, how in (("bilinear", tv.InterpolationMode.BILINEAR),
                      ("bicubic", tv.InterpolationMode.BICUBIC)):
        steps = f"random_resized_crop 64x80 filter={name} | flip"
        drawn = views(300, 400, 12, steps, seed=4, first=2)
        with millrace.Loader(f"files {tmp_path} | decode_image | {steps} | "
                             "batch 12", seed=4, order="sequential") as l:
            got = next(iter(l))["image"].astype(int)
        assert 0 < drawn[:, 10].sum() < 12
        for a, (x, y, w, h, *_, mirror) in zip(got, drawn):
            want = tv.functional.resized_crop(im, y, x, h, w, [64, 80], how)
            want = np.asarray(want)[:, ::-1 if mirror else 1]
            off = np.abs(a - want)
            assert off.max() <= 2 and off.mean() <= 0.1


def chi_square(counts):
    """In standard deviations of what chance would give."""
    want = counts.sum() / counts.size
    freedom = counts.size - 1
    return (((counts - want) ** 2 / want).sum() - freedom) / \
        np.sqrt(2 * freedom)


@pytest.mark.parametrize("padding", [0, 3])
def test_random_crops_are_anywhere_alike(tmp_path, padding):
    """Each pixel says where it is; the border is 0."""
    n, h, w = 20_000, 9, 12
    y, x = np.mgrid[1:h + 1, 1:w + 1]
    one = np.stack([y, x, y], -1).astype(np.uint8)
    np.save(tmp_path / "a.npy", np.broadcast_to(one, (n, h, w, 3)))
    with millrace.Loader(f"npy {tmp_path}/a.npy | random_crop 7 "
                         f"padding={padding} | batch 1000", seed=6,
                         epochs=1) as loader:
        crops = np.concatenate([b["data"].copy() for b in loader])
    # the middle pixel is never of the border
    top = crops[:, 3, 3, 0].astype(int) - 1 - 3 + padding
    left = crops[:, 3, 3, 1].astype(int) - 1 - 3 + padding
    down, across = h + 2 * padding - 7 + 1, w + 2 * padding - 7 + 1
    counts = np.zeros((down, across), int)
    np.add.at(counts, (top, left), 1)
    assert counts.sum() == n and chi_square(counts) < 5
    for i in range(0, n, 997):
        padded = np.pad(one, ((padding,) * 2, (padding,) * 2, (0, 0)))
        want = padded[top[i]:top[i] + 7, left[i]:left[i] + 7]
        assert (crops[i] == want).all()


@pytest.mark.parametrize("p", [0, 0.1, 0.5, 1])
def test_flips_are_as_often_as_told(p):
    n = 20_000
    rate = views(8, 8, n, f"flip p={p}")[:, 10].mean()
    assert abs(rate - p) <= 4 * np.sqrt(p * (1 - p) / n)


def test_steps_draw_independently():
    """Where the crop is tells nothing about the mirror, nor the next crop."""
    v = views(100, 100, 20_000, "random_crop 50 | flip | random_crop 10")
    one = views(100, 100, 20_000, "random_crop 50")
    mirrored = v[:, 10] == 1
    assert p_value(one[mirrored, 6], one[~mirrored, 6]) > 1e-4
    first, second = one[:, 6], v[:, 6] - one[:, 6]
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.03
    assert abs(np.corrcoef(one[:, 6], one[:, 7])[0, 1]) < 0.03
