# SPDX-License-Identifier: Apache-2.0
"""Our own JPEG decoder against libjpeg: the same pixels of sound files, the
same verdict on broken ones."""
import io
import random

import pytest

np = pytest.importorskip("numpy")
Image = pytest.importorskip("PIL.Image")

PLAIN = {"MILLRACE_SIMD": "none"}
LIBJPEG = {"MILLRACE_LIBJPEG": "1"}


def picture(h, w, seed=1):
    rng = np.random.default_rng(seed)
    small = rng.normal(128, 50, (h // 4 + 2, w // 4 + 2, 3)).clip(0, 255)
    im = Image.fromarray(small.astype(np.uint8)).resize((w, h))
    noise = rng.normal(0, 8, (h, w, 3))
    return Image.fromarray((np.asarray(im) + noise).clip(0, 255)
                           .astype(np.uint8))


def jpeg(im, **how):
    b = io.BytesIO()
    im.save(b, "JPEG", **how)
    return b.getvalue()


def with_restarts(data, mcus):
    """The same picture cannot be made by editing; but a restart interval of
    all its MCUs is legal, and needs no marker in the data."""
    at = data.index(b"\xff\xda")
    return data[:at] + b"\xff\xdd\0\4" + mcus.to_bytes(2, "big") + data[at:]


@pytest.fixture(scope="session")
def sound():
    files = []
    for i, (h, w) in enumerate([(16, 16), (97, 133), (64, 80), (33, 250)]):
        im = picture(h, w, i)
        for ss in (0, 1, 2):
            files.append(jpeg(im, quality=[30, 75, 95][ss], subsampling=ss))
            files.append(jpeg(im, quality=90, subsampling=ss, optimize=True))
        files.append(jpeg(im.convert("L")))
    im = picture(64, 80)
    files.append(with_restarts(jpeg(im, subsampling=0), 80))
    return files


def broken(files, n, seed):
    """Bits turned, bytes lost, markers put in; in the headers too."""
    rng = random.Random(seed)
    for _ in range(n):
        s = bytearray(rng.choice(files))
        for _ in range(rng.choice([1, 1, 2, 5])):
            at = rng.randrange(2, len(s))
            kind = rng.random()
            if kind < 0.5:
                s[at] ^= 1 << rng.randrange(8)
            elif kind < 0.7:
                s[at] = 0xff
            elif kind < 0.85:
                del s[at:at + rng.randrange(1, 20)]
            else:
                s[at:at] = bytes([0xff, 0xd0 + rng.randrange(8)])
        yield bytes(s)


def write(folder, files):
    folder.mkdir()
    for i, data in enumerate(files):
        (folder / f"{i:04}.jpg").write_bytes(data)
    return folder


def outcome(mill, folder, steps, env=None):
    r = mill.json("run", f"files {folder} | {steps} | batch 5", "--digest",
                  "--on-error", "skip", "--order", "sequential",
                  env=env)
    return r["digest"], r["samples"], sorted(b["key"] for b in r["bad"])


@pytest.mark.parametrize("steps", [
    "resize 40x50", "random_crop 20 padding=12", "random_resized_crop 24",
    "flip | center_crop 90"])
@pytest.mark.parametrize("env", [PLAIN, LIBJPEG], ids=["plain", "libjpeg"])
def test_sound_files_give_the_same_pixels(mill, tmp_path, sound, steps, env):
    folder = write(tmp_path / "x", sound)
    ours = outcome(mill, folder, f"decode_image | {steps}")
    assert ours[1:] == (len(sound), [])
    assert ours == outcome(mill, folder, f"decode_image | {steps}", env)


@pytest.mark.parametrize("lenient", ["no", "yes"])
@pytest.mark.parametrize("seed", range(3))
def test_broken_files_have_the_same_end(mill, tmp_path, sound, lenient, seed):
    folder = write(tmp_path / "x", broken(sound, 150, seed))
    steps = f"decode_image lenient={lenient} | resize 32x32"
    ours = outcome(mill, folder, steps)
    assert 20 < ours[1] < 150
    assert ours == outcome(mill, folder, steps, LIBJPEG)
    assert ours == outcome(mill, folder, steps, PLAIN)


def test_file_without_tables_does_not_get_its_neighbours(mill, tmp_path):
    """Without a Huffman table JPEG's usual one counts, and not that of the
    file before."""
    im = picture(64, 80)
    usual = jpeg(im, subsampling=0)
    bare = usual
    while b"\xff\xc4" in bare:
        at = bare.index(b"\xff\xc4")
        bare = bare[:at] + bare[at + 2 + int.from_bytes(
            bare[at + 2:at + 4], "big"):]
    other = jpeg(im, subsampling=0, optimize=True)

    def digest(name, second):
        folder = write(tmp_path / name, [other, second])
        return mill.digest(f"files {folder} | decode_image | batch 1",
                           "--order", "sequential", "--threads", 1)
    assert digest("bare", bare) == digest("usual", usual)
