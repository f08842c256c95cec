# SPDX-License-Identifier: Apache-2.0
"""Other programs read what the codecs pack, and the other way round."""
import gzip
import random
import re
import shutil
import subprocess
import zlib

import pytest

WORDS = b"the mill grinds what the water brings "


def samples():
    r = random.Random(1)
    yield b""
    yield b"x"
    yield WORDS * 3000
    yield r.randbytes(70001)
    yield bytes(300000) + r.randbytes(10)
    yield bytes(i // 7 % 256 for i in range(150528))


def tool(mill, *args, data, code=0):
    r = subprocess.run([mill.build / "tests" / "codec_tool", *map(str, args)],
                       input=data, stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, timeout=60)
    assert r.returncode == code, (args, r.stderr)
    assert b"Sanitizer" not in r.stderr, r.stderr
    return r.stdout if not code else r.stderr.decode()


def command(name, *args):
    if not shutil.which(name):
        pytest.skip(f"no {name} here")
    return lambda data: subprocess.run(
        [name, *args], input=data, stdout=subprocess.PIPE, check=True,
        timeout=60).stdout


def lz4_block():
    return pytest.importorskip("lz4.block")


def readers(codec):
    if codec == "zlib":
        return zlib.decompress
    if codec == "gzip":
        return gzip.decompress
    if codec == "zstd":
        return command("zstd", "-dc")
    block = lz4_block()
    return lambda data: block.decompress(data, uncompressed_size=1 << 20)


def writers(codec):
    if codec == "zlib":
        return zlib.compress
    if codec == "gzip":
        return gzip.compress
    if codec == "zstd":     # with a checksum and no size, as a pipe gives
        return command("zstd", "-c", "--check")
    block = lz4_block()
    return lambda data: block.compress(data, store_size=False)


CODECS = [("lz4", 1), ("lz4", 9), ("zstd", 1), ("zstd", 3), ("zstd", 19),
          ("zlib", 1), ("zlib", 6), ("zlib", 12), ("gzip", 1), ("gzip", 12)]


@pytest.mark.parametrize("codec, level", CODECS)
def test_other_programs_read_what_is_packed(mill, codec, level):
    read = readers(codec)
    for data in samples():
        assert read(tool(mill, codec, "pack", level, data=data)) == data


@pytest.mark.parametrize("codec", ["lz4", "zstd", "zlib", "gzip"])
def test_what_other_programs_pack_is_read(mill, codec):
    write = writers(codec)
    for data in samples():
        packed = write(data)
        assert tool(mill, codec, "unpack", len(data), data=packed) == data


def test_a_gzip_file_with_a_name_is_read(mill, tmp_path):
    (tmp_path / "a.txt").write_bytes(WORDS)
    with gzip.open(tmp_path / "a.gz", "wb") as f:
        f.write(WORDS)
    packed = (tmp_path / "a.gz").read_bytes()
    assert b"a\0" in packed
    assert tool(mill, "gzip", "unpack", len(WORDS), data=packed) == WORDS


@pytest.mark.parametrize("codec", ["zstd", "zlib", "gzip"])
def test_a_checksum_that_differs_is_noticed(mill, codec):
    packed = bytearray(writers(codec)(WORDS * 10))
    # gzip ends with sum and size, the others with the sum
    packed[-8 if codec == "gzip" else -1] ^= 1
    said = tool(mill, codec, "unpack", len(WORDS) * 10, data=bytes(packed),
                code=1)
    assert "checksum" in said


def test_list_tells_the_levels(mill):
    out = mill("list", "codecs").stdout
    assert re.search(r"^  zstd .*levels 1 to 19, default 3", out, re.M)
    assert re.search(r"^  lz4 .*levels 1 to 12, default 1", out, re.M)
    assert re.search(r"^  none (?!.*levels)", out, re.M)
    assert out in mill("list").stdout


def test_list_shows_one_codec(mill):
    out = mill("list", "zstd").stdout
    assert out.startswith("zstd: ") and "(codec)" in out
    assert "1 to 19; default 3" in out
    assert "levels" not in mill("list", "none").stdout
    assert "did you mean 'zstd'" in mill("list", "zst", code=2).stderr


def test_the_reference_has_a_row_per_codec(mill):
    text = (mill.root / "docs" / "reference.md").read_text()
    chapter = text.split("\n## Codecs\n")[1].split("\n## ")[0]
    names = re.findall(r"^\| `(\w+)` \|", chapter, re.M)
    assert names == re.findall(r"^  (\w+) ", mill("list", "codecs").stdout,
                               re.M)
