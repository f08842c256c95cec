# SPDX-License-Identifier: Apache-2.0
"""Pictures for the tests: their content, and files of all kinds."""
import functools
import io
import struct
import subprocess
import zlib

import numpy as np
from PIL import Image

from conftest import BUILD, ROOT

TOOLS = (ROOT / BUILD / "tests").resolve()
SIZES = [(1, 1), (1, 37), (41, 1), (7, 9), (16, 16), (17, 33), (23, 64),
         (375, 500)]


@functools.lru_cache(None)
def photo(h, w, channels=3, seed=0):
    """Shades, shapes with hard edges, and the noise of a sensor."""
    rng = np.random.default_rng([h, w, seed])
    y, x = np.mgrid[0:h, 0:w]
    layers = []
    for c in range(channels):
        a = 120 + 60 * np.sin(x / (17 + c) + y / 41) * np.cos(y / 29)
        for _ in range(5):
            cy, cx, r = rng.random(3) * [h, w, max(h, w) / 4]
            disc = (y - cy) ** 2 + (x - cx) ** 2 < r * r
            a = np.where(disc, a * 0.3 + rng.random() * 180, a)
        layers.append(a + rng.normal(0, 3, (h, w)))
    return np.clip(np.stack(layers, -1), 0, 255).astype(np.uint8)


def encoded(image, kind, **options):
    f = io.BytesIO()
    image.save(f, kind, **options)
    return f.getvalue()


# ---- JPEG ----

def jpeg_tool(pixels, *words):
    """A JPEG of a kind that Pillow does not write."""
    h, w, channels = pixels.shape
    return subprocess.run(
        [TOOLS / "jpeg_tool", str(h), str(w), str(channels), *words],
        input=pixels.tobytes(), stdout=subprocess.PIPE, check=True,
        timeout=60).stdout


def without_last_scans(jpeg, n):
    """A progressive file that was never finished, and yet has its end."""
    parts = jpeg.split(b"\xff\xda")
    cut = parts[-n - 1]
    # the tables before a scan that is gone may stay
    return b"\xff\xda".join(parts[:-n - 1] + [cut]) + b"\xff\xd9"


def without_tables(jpeg, kind):
    """Leaves out the segments of that kind (0xc4: Huffman tables)."""
    out, at = jpeg[:2], 2
    while jpeg[at + 1] != 0xda:
        size = 2 + int.from_bytes(jpeg[at + 2:at + 4], "big")
        out += jpeg[at:at + size] if jpeg[at + 1] != kind else b""
        at += size
    return out + jpeg[at:]


def astray():
    """{name: bytes} of JPEGs with markers where none should be, or others."""
    b = jpeg_tool(photo(64, 128), "sample=2x2", "restart=2")
    first, second = b.index(b"\xff\xd0"), b.index(b"\xff\xd1")
    plain = jpeg_tool(photo(64, 64), "sample=2x2")
    middle, end = len(plain) * 2 // 3, len(plain) - 2

    def put(file, at, what, instead=0):
        return file[:at] + what + file[at + instead:]

    return {
        "renumbered.jpg": put(b, first, b"\xff\xd3", 2),
        "swapped.jpg": put(put(b, first, b"\xff\xd1", 2), second,
                           b"\xff\xd0", 2),
        "lost.jpg": put(b, first, b"", second - first),
        "twice.jpg": put(b, second, b"\xff\xd1"),
        "before.jpg": put(b, first, b"\x12\x34\x56"),
        "restart.jpg": put(plain, middle, b"\xff\xd0"),
        "ended.jpg": put(plain, middle, b"\xff\xd9"),
        "filled.jpg": put(plain, middle, b"\xff\xff\0"),
        "after.jpg": put(plain, end, b"\xab" * 40),
        "restart-after.jpg": put(plain, end, b"\xff\xd0"),
        "fill-after.jpg": put(plain, end, b"\xff\xff\xff"),
        "remark-after.jpg": put(plain, end, b"\xff\xfe\0\6abcd"),
        "scan-after.jpg": put(plain, end,
                              plain[plain.rindex(b"\xff\xda"):end]),
    }


def without_adobe(jpeg):
    """The file without its APP14 segment."""
    at = jpeg.index(b"\xff\xee")
    return jpeg[:at] + jpeg[at + 2 + int.from_bytes(jpeg[at + 2:at + 4],
                                                    "big"):]


def jpegs():
    """{name: bytes}, all of which Pillow can read."""
    files = {}
    for h, w in SIZES:
        rgb = Image.fromarray(photo(h, w))
        size = f"{h}x{w}"
        for sampling in range(3):
            for how in ("plain", "progressive", "optimize"):
                files[f"{how}-{sampling}-{size}"] = encoded(
                    rgb, "JPEG", subsampling=sampling, quality=88,
                    **({how: True} if how != "plain" else {}))
        files[f"grey-{size}"] = encoded(rgb.convert("L"), "JPEG")
        files[f"cmyk-{size}"] = encoded(rgb.convert("CMYK"), "JPEG")
        files[f"cmyk-bare-{size}"] = without_adobe(files[f"cmyk-{size}"])
        for name, words in {
                "440": ["sample=1x2"], "411": ["sample=4x1"],
                "410": ["sample=4x2"], "441": ["sample=1x4"],
                "restart": ["sample=2x2", "restart=2"],
                "restart-progressive": ["progressive", "restart=3"],
                "440-progressive": ["sample=1x2", "progressive"],
                "arithmetic": ["arith"], "separate": ["separate"],
                "arithmetic-progressive": ["arith", "progressive"],
                "rgb": ["rgb"]}.items():
            files[f"{name}-{size}"] = jpeg_tool(photo(h, w), *words)
        files[f"ycck-{size}"] = jpeg_tool(photo(h, w, 4), "ycck",
                                          "sample=2x2")
        whole = encoded(rgb, "JPEG", progressive=True, subsampling=2)
        for n in (1, 4, 7):
            files[f"unfinished-{n}-{size}"] = without_last_scans(whole, n)
        files[f"standard-tables-{size}"] = without_tables(
            encoded(rgb, "JPEG"), 0xc4)
        files[f"rubbish-after-{size}"] = encoded(rgb, "JPEG") + b"rubbish" * 9
    return {f"{name}.jpg": data for name, data in files.items()}


def turned(orientation, h=33, w=50, kind="JPEG", **options):
    exif = Image.Exif()
    exif[0x112] = orientation
    return encoded(Image.fromarray(photo(h, w)), kind, exif=exif.tobytes(),
                   **options)


# ---- PNG ----

ADAM7 = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4),
         (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}


def chunk(kind, data):
    check = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I",
                                                                    check)


def packed_row(row, depth):
    """One row of numbers [w, c] as bytes."""
    if depth == 16:
        return row.astype(">u2").tobytes()
    bits = np.unpackbits(row.astype(np.uint8).reshape(-1, 1), axis=1)
    return np.packbits(bits[:, 8 - depth:].ravel()).tobytes()


def filtered(rows, step):
    """Each row by another of PNG's five filters."""
    out, above = b"", None
    for y, row in enumerate(rows):
        row = np.frombuffer(row, np.uint8).astype(int)
        up = above if above is not None else np.zeros_like(row)
        left = np.concatenate([np.zeros(step, int), row])[:len(row)]
        corner = np.concatenate([np.zeros(step, int), up])[:len(row)]
        p = left + up - corner
        far = np.abs([p - left, p - up, p - corner])
        paeth = np.where((far[0] <= far[1]) & (far[0] <= far[2]), left,
                         np.where(far[1] <= far[2], up, corner))
        guess = [0, left, up, (left + up) // 2, paeth][y % 5]
        out += bytes([y % 5]) + ((row - guess) % 256).astype(
            np.uint8).tobytes()
        above = row
    return out


def png(numbers, depth, colour, interlaced=False, palette=None, extra=b""):
    """A PNG of numbers [h, w, c] of `depth` bits."""
    h, w = numbers.shape[:2]
    step = max(1, CHANNELS[colour] * depth // 8)
    data = b""
    for top, left, down, right in (ADAM7 if interlaced
                                   else [(0, 0, 1, 1)]):
        part = numbers[top::down, left::right]
        if part.size:
            data += filtered([packed_row(r, depth) for r in part], step)
    head = struct.pack(">IIBBBBB", w, h, depth, colour, 0, 0, interlaced)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) +
            (chunk(b"PLTE", palette.tobytes()) if palette is not None
             else b"") + extra + chunk(b"IDAT", zlib.compress(data)) +
            chunk(b"IEND", b""))


def pngs():
    """{name: (bytes, the pixels it must give)}"""
    files = {}
    rng = np.random.default_rng(8)
    for colour, depths in {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8),
                           4: (8, 16), 6: (8, 16)}.items():
        for depth in depths:
            for i, (h, w) in enumerate(SIZES[:-1] + [(40, 75)]):
                a = rng.integers(0, 1 << depth, (h, w, CHANNELS[colour]))
                palette = rng.integers(0, 256, (1 << min(depth, 8), 3),
                                       dtype=np.uint8)
                extra = chunk(b"tRNS", bytes([7])) if colour == 3 and i % 2 \
                    else b""
                if colour == 3:
                    want = palette[a[:, :, 0]]
                else:
                    want = a * 255 // ((1 << depth) - 1) if depth < 16 \
                        else a >> 8
                    want = want[:, :, :3] if colour in (2, 6) else \
                        want[:, :, [0, 0, 0]]
                name = f"{'laced' if i % 2 else 'png'}-{colour}-{depth}-" \
                       f"{h}x{w}.png"
                files[name] = (png(a, depth, colour, bool(i % 2),
                                   palette if colour == 3 else None, extra),
                               want.astype(np.uint8))
    return files


def pillow_pngs():
    """{name: bytes}, written by Pillow."""
    rgb = Image.fromarray(photo(31, 45))
    modes = {m: rgb.convert(m) for m in ("1", "L", "P", "RGB", "RGBA")}
    modes["LA"] = rgb.convert("L").convert("LA")
    files = {f"pillow-{m}.png": encoded(im, "PNG") for m, im in modes.items()}
    files["pillow-clear.png"] = encoded(modes["P"], "PNG", transparency=3)
    files["pillow-clear-RGB.png"] = encoded(rgb, "PNG",
                                            transparency=(9, 9, 9))
    return files
