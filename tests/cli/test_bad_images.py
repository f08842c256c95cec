# SPDX-License-Identifier: Apache-2.0
"""Pictures that are truncated, damaged, huge or none at all: each is a bad
sample with its name and the reason, and takes no memory."""
import io
import struct
import zlib

import numpy as np
import pytest

from conftest import sanitizers

Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")

# Crops that see little or nothing of the lower end.
VIEWS = ["", "| center_crop 16", "| random_crop 8", "| resize 20",
         "| random_resized_crop 12 scale=0.01,0.05", "| random_crop 2 "
         "padding=300", "| resize 30 | center_crop 4 | normalize imagenet"]


def picture(h=300, w=200):
    y, x = np.mgrid[0:h, 0:w]
    noise = np.random.default_rng(3).normal(0, 9, (h, w, 3))
    a = 128 + 90 * np.sin(np.stack([x / 9 + y / 30, y / 7, x / 20], -1))
    return Image.fromarray(np.clip(a + noise, 0, 255).astype(np.uint8))


def encoded(kind, **options):
    f = io.BytesIO()
    picture().save(f, kind, **options)
    return f.getvalue()


GOOD = {"baseline.jpg": encoded("JPEG", quality=80),
        "progressive.jpg": encoded("JPEG", quality=80, progressive=True),
        "plain.png": encoded("PNG")}


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + \
        struct.pack(">I", zlib.crc32(kind + data))


def png(w, h, depth=8, colour=0, data=b"", interlaced=0):
    head = struct.pack(">IIBBBBB", w, h, depth, colour, 0, 0, interlaced)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + \
        chunk(b"IDAT", zlib.compress(data, 9)) + chunk(b"IEND", b"")


def jpeg_that_says(w, h, name="baseline.jpg"):
    b = bytearray(GOOD[name])
    at = b.index(b"\xff\xc2" if "progressive" in name else b"\xff\xc0")
    b[at + 5:at + 9] = struct.pack(">HH", h, w)
    return bytes(b)


def verdict(mill, folder, steps="", *args, how=""):
    """{name: (step, reason)} of the bad ones, and the count of the good."""
    r = mill.json("run", f"files {folder} | decode_image {how} {steps} | "
                  "batch 4", "--on-error", "skip", *args)
    assert r["samples"] + r["bad_samples"] == len(list(folder.iterdir()))
    return {b["key"]: (b["step"], b["reason"]) for b in r["bad"]}, r


# ---- truncated ----

@pytest.fixture(scope="module")
def cut(tmp_path_factory):
    """Good ones, and each of them cut at some percent."""
    folder = tmp_path_factory.mktemp("cut")
    for name, data in GOOD.items():
        (folder / name).write_bytes(data)
        for percent in (10, 50, 90, 99):
            (folder / f"{percent}-{name}").write_bytes(
                data[:len(data) * percent // 100])
    return folder


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("how", ["", "lenient=yes", "fast=yes"])
def test_truncated_pictures_are_bad_whatever_is_seen_of_them(mill, cut, view,
                                                             how):
    bad, r = verdict(mill, cut, view, how=how)
    assert sorted(bad) == sorted(p.name for p in cut.iterdir()
                                 if p.name not in GOOD)
    assert r["samples"] == len(GOOD)
    for name, (step, reason) in bad.items():
        assert step == "decode_image" and "truncated" in reason, reason
        assert f"after {(cut / name).stat().st_size} bytes" in reason


def test_stop_names_the_truncated_file(mill, cut):
    mill.fails("run", f"files {cut} | decode_image | center_crop 4 | batch 2",
               "--order", "sequential", code=1,
               says=["10-baseline.jpg: decode_image: JPEG: truncated"])


def test_skip_gives_the_good_ones_as_if_they_were_alone(mill, cut, tmp_path):
    for name, data in GOOD.items():
        (tmp_path / name).write_bytes(data)
    text = "| decode_image | resize 40x30 | batch 1"
    args = ["--order", "sequential"]
    assert mill.digest(f"files {cut} {text}", *args, "--on-error", "skip") \
        == mill.digest(f"files {tmp_path} {text}", *args)


@pytest.mark.parametrize("name", GOOD)
def test_missing_the_last_bytes_is_judged_alike_for_all_views(mill, tmp_path,
                                                              name):
    data = GOOD[name]
    for n in range(1, 40):
        (tmp_path / f"{n:02}.bin").write_bytes(data[:-n])
    whole, _ = verdict(mill, tmp_path)
    assert len(whole) > 30  # a JPEG may lack the mark of its end
    for view in VIEWS[1:]:
        assert verdict(mill, tmp_path, view)[0].keys() == whole.keys(), view


def test_rubbish_after_the_end_is_none_of_ours(mill, tmp_path):
    for name, data in GOOD.items():
        (tmp_path / name).write_bytes(data + b"rubbish\xff\xd8" * 20)
    for view in VIEWS:
        assert not verdict(mill, tmp_path, view)[0], view


# ---- damaged ----

@pytest.mark.parametrize("name", ["baseline.jpg", "progressive.jpg"])
def test_damaged_data_is_bad_unless_lenient(mill, tmp_path, name):
    data = bytearray(GOOD[name])
    middle = len(data) // 2
    data[middle:middle + 40] = b"\xff\xd0" * 20
    (tmp_path / "bad.jpg").write_bytes(data)
    (tmp_path / "good.jpg").write_bytes(GOOD[name])
    bad, r = verdict(mill, tmp_path)
    assert list(bad) == ["bad.jpg"] and r["samples"] == 1
    assert "lenient=yes" in bad["bad.jpg"][1], bad
    for view in VIEWS:
        assert not verdict(mill, tmp_path, view, how="lenient=yes")[0]


def test_a_png_with_a_wrong_checksum_is_bad(mill, tmp_path):
    data = GOOD["plain.png"]
    for name, at in {"head": data.index(b"IHDR") + 4 + 13,
                     "data": len(data) - 16,
                     "pixels": len(data) // 2}.items():
        b = bytearray(data)
        b[at] ^= 1
        (tmp_path / f"{name}.png").write_bytes(b)
    bad, _ = verdict(mill, tmp_path)
    assert sorted(bad) == ["data.png", "head.png", "pixels.png"]
    for step, reason in bad.values():
        assert step == "decode_image"
        assert reason == "PNG: invalid chunk checksum", reason


@pytest.mark.parametrize("content,says", [
    (b"", "the file is empty"),
    (b"\xff", "neither JPEG nor PNG: it begins with ff"),
    (b"\xff\xd8\xff", "JPEG"),
    (b"\x89PNG\r\n\x1a\n", "PNG: truncated"),
    (b"hello, world\n", "neither JPEG nor PNG: it begins with 68 65 6c 6c"),
    (b"GIF89a" + bytes(20), "GIF is not supported"),
    (b"RIFF\x20\0\0\0WEBPVP8 " + bytes(20), "WebP is not supported"),
    (b"\xff\xd8\xff\xd9", "JPEG"),
    (GOOD["baseline.jpg"][:2] * 50, "JPEG"),
])
def test_what_is_no_picture_is_named(mill, tmp_path, content, says):
    (tmp_path / "odd.bin").write_bytes(content)
    (tmp_path / "good.png").write_bytes(GOOD["plain.png"])
    bad, r = verdict(mill, tmp_path, "| center_crop 5")
    assert list(bad) == ["odd.bin"] and r["samples"] == 1
    assert bad["odd.bin"][0] == "decode_image" and says in bad["odd.bin"][1]


# ---- huge ----

@pytest.fixture
def modest(mill):
    """Did a run take little memory? A sanitizer's own is not counted, nor
    what a child is said to have had before it became the command."""
    def check(r, most=50):
        idle = mill.json("run", "synthetic shape=1 count=1 | batch 1")
        return sanitizers() != "none" or \
            r["peak_rss_mb"] < idle["peak_rss_mb"] + most
    return check


@pytest.mark.parametrize("name", ["baseline.jpg", "progressive.jpg"])
def test_a_jpeg_that_says_it_is_huge_is_refused_at_once(mill, modest,
                                                         tmp_path, name):
    (tmp_path / "a.jpg").write_bytes(jpeg_that_says(65535, 65535, name))
    (tmp_path / "b.jpg").write_bytes(jpeg_that_says(65000, 60000, name))
    bad, r = verdict(mill, tmp_path)
    assert "65500" in bad["a.jpg"][1], bad
    assert "65000 x 60000 pixels, more than max_pixels=" in bad["b.jpg"][1]
    assert modest(r)
    bad, r = verdict(mill, tmp_path, how="max_pixels=100000000000",
                     *["| center_crop 8", "--memory", "64M"])
    assert len(bad) == 2 and modest(r, 150)


@pytest.mark.parametrize("w,h", [(60000, 60000), (1 << 28, 2), (2, 1 << 28),
                                 (0x7fffffff, 0x7fffffff), (1 << 25, 1)])
@pytest.mark.parametrize("interlaced", [0, 1])
def test_a_png_that_says_it_is_huge_is_refused_at_once(mill, modest, tmp_path,
                                                       w, h, interlaced):
    (tmp_path / "a.png").write_bytes(png(w, h, interlaced=interlaced))
    bad, r = verdict(mill, tmp_path, "| random_resized_crop 8")
    assert bad["a.png"][0] == "decode_image" and "PNG: " in bad["a.png"][1] \
        or "no side may be over" in bad["a.png"][1], bad
    assert modest(r)


@pytest.mark.parametrize("interlaced", [0, 1])
def test_rows_that_are_huge_count_against_the_memory(mill, modest, tmp_path,
                                                     interlaced):
    """Less than max_pixels, but 1 GB for a few rows."""
    (tmp_path / "a.png").write_bytes(png(1 << 24, 16, interlaced=interlaced))
    bad, r = verdict(mill, tmp_path, "| random_resized_crop 8", "--memory",
                     "64M")
    assert "raise --memory" in bad["a.png"][1] and modest(r)


@pytest.mark.parametrize("view", VIEWS[:3])
def test_a_png_that_grows_a_thousandfold_keeps_to_the_memory(mill, modest,
                                                             tmp_path, view):
    """25 million pixels in 4 KB."""
    side = 5000
    data = bytes((1 + side // 8) * side)
    (tmp_path / "a.png").write_bytes(png(side, side, 1, 0, data))
    bad, r = verdict(mill, tmp_path, view, "--memory", "64M")
    assert modest(r, 150)
    if view:
        assert not bad
    else:
        assert "raise --memory" in bad["a.png"][1]


def test_a_picture_over_the_memory_is_named(mill, tmp_path):
    f = io.BytesIO()
    Image.new("RGB", (2000, 1500)).save(f, "JPEG", progressive=True)
    (tmp_path / "large.jpg").write_bytes(f.getvalue())
    for name, data in GOOD.items():
        (tmp_path / name).write_bytes(data)
    for view in ("", "| center_crop 8"):
        bad, _ = verdict(mill, tmp_path, view, "--memory", "8M")
        assert list(bad) == ["large.jpg"] and "--memory" in bad["large.jpg"][1]
    assert not verdict(mill, tmp_path, "| center_crop 8", "--memory",
                       "64M")[0]


def test_a_jpeg_of_too_many_scans_is_refused(mill, tmp_path):
    data = GOOD["progressive.jpg"]
    at = data.index(b"\xff\xda")
    end = data.index(b"\xff\xc4", at)
    for n in (400, 600):
        (tmp_path / f"{n}.jpg").write_bytes(
            data[:at] + data[at:end] * n + data[end:])
    bad, _ = verdict(mill, tmp_path)
    assert list(bad) == ["600.jpg"]
    assert "more than 500 scans" in bad["600.jpg"][1]


# ---- sizes and types ----

def test_a_crop_larger_than_the_picture_is_named(mill, tmp_path):
    (tmp_path / "a.png").write_bytes(GOOD["plain.png"])
    mill.fails("run", f"files {tmp_path} | decode_image | random_crop "
               "301x100 | batch 1", code=1,
               says=["a.png: random_crop:", "200 x 300", "100 x 301",
                     "padding="])
    assert not verdict(mill, tmp_path, "| random_crop 301x100 padding=0,1")[0]


def test_a_picture_that_would_become_too_long_is_named(mill, tmp_path):
    Image.new("L", (2000, 1)).save(tmp_path / "line.png")
    mill.fails("run", f"files {tmp_path} | decode_image | resize 256 | "
               "center_crop 9 | batch 1", code=1,
               says=["line.png: resize:", "512000"])


@pytest.mark.parametrize("steps,says,at", [
    ("resize 9", "put decode_image before it", "resize"),
    ("flip", "put decode_image before it", "flip"),
    ("random_crop 4 | decode_image", "put decode_image before it",
     "random_crop"),
    ("decode_image | decode_image", "the bytes of a file",
     "decode_image | decode_image"),
    ("decode_image | cast f32 | center_crop 4", "u8 H W C", "center_crop"),
    ("decode_image | to_chw | resize 9", "u8 H W C", "resize"),
    ("to_chw", "H W C", "to_chw"),
])
def test_steps_in_a_wrong_order_are_pointed_at(mill, tmp_path, steps, says,
                                               at):
    point_at(mill, tmp_path, steps, says, at, 1)


@pytest.mark.parametrize("steps,says,at", [
    ("decode_image | random_crop 1x2x3", "3 numbers; want one", "random_crop"),
    ("decode_image | resize 4x5 short=yes", "short=yes", "resize"),
    ("decode_image | random_crop 4 padding=1,2,3", "3 values of padding",
     "random_crop"),
    ("decode_image | random_resized_crop 4 scale=1,0.5", "the smaller first",
     "random_resized_crop"),
])
def test_wrong_values_are_pointed_at(mill, tmp_path, steps, says, at):
    point_at(mill, tmp_path, steps, says, at, 2)


def point_at(mill, tmp_path, steps, says, at, code):
    """The caret is under the last word of `at`."""
    (tmp_path / "a.png").write_bytes(GOOD["plain.png"])
    text = f"files . | {steps} | batch 1"
    r = mill.fails("explain", text, code=code, says=says, cwd=tmp_path)
    _, shown, caret = r.stderr.rstrip("\n").split("\n")
    assert shown.strip() == text
    last = at.split()[-1]
    at = shown.index(at) + len(at) - len(last)
    assert caret == " " * at + "^" + "~" * (len(last) - 1)
