# SPDX-License-Identifier: Apache-2.0
"""A prepared set keeps the rate of each sound: steps behind it give what they
give in the whole pipeline, and refuse what they refuse there."""
import json
import subprocess

import pytest
import sounds
from conftest import BUILD, ROOT
from test_audio import load, same

BIN = ROOT / BUILD / "millrace"
CODECS = ["none", "lz4", "zstd", "zlib", "gzip"]
MEL = ["stft 320 step=160 fft=512", "mel bins=20 rate=16000", "log"]
LIKE = ["decode_audio f32", "resample 16000", *MEL]
UNLIKE = ["decode_audio", *MEL]


@pytest.fixture
def clips(tmp_path):
    """Sounds of three rates, in two classes."""
    for i, rate in enumerate([22050, 16000, 8000, 22050, 16000]):
        folder = tmp_path / "clips" / "ab"[i % 2]
        folder.mkdir(parents=True, exist_ok=True)
        x = sounds.ints(3000 + 700 * i, 1 + i % 2, 16, seed=i)
        (folder / f"{i}.wav").write_bytes(
            sounds.wav_ints(x, 16, rate=rate))
    return f"files {tmp_path}/clips"


def prepare(steps, out, *args):
    subprocess.run([BIN, "prepare", " | ".join(steps), "--out", out,
                    *map(str, args)], check=True, stdout=subprocess.DEVNULL,
                   timeout=60)
    return f"records {out}"


def equal(got, want):
    (a, bad_a), (b, bad_b) = got, want
    assert bad_a == bad_b and a.keys() == b.keys()
    for key in b:
        same(a[key], b[key])


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("at", range(1, len(LIKE) + 1))
def test_sounds_of_many_rates_can_be_split_anywhere(tmp_path, clips, codec,
                                                    at):
    want = load(" | ".join([clips, *LIKE]))
    assert len(want[0]) == 5 and not want[1]
    records = prepare([clips, *LIKE], tmp_path / "out", "--until", at + 1,
                      "--codec", codec)
    for how in "", " map=no":
        equal(load(" | ".join([records + how, *LIKE[at:]])), want)


@pytest.mark.parametrize("at", [1, 2])
def test_a_sound_of_another_rate_is_refused_behind_a_set_too(tmp_path, clips,
                                                             at):
    want = load(" | ".join([clips, *UNLIKE]))
    assert len(want[0]) == 2 and len(want[1]) == 3
    records = prepare([clips, *UNLIKE], tmp_path / "out", "--until", at + 1)
    equal(load(" | ".join([records, *UNLIKE[at:]])), want)


def test_a_set_of_a_set_keeps_the_rates(tmp_path, clips):
    want = load(" | ".join([clips, *LIKE]))
    one = prepare([clips, "decode_audio f32"], tmp_path / "one")
    two = prepare([one, "select audio,label"], tmp_path / "two", "--codec",
                  "zstd")
    three = prepare([two], tmp_path / "three", "--until", "records")
    equal(load(" | ".join([three, *LIKE[1:]])), want)
    equal(load(" | ".join([three, "cache ram=1M", *LIKE[1:]])), want)


def test_only_sounds_have_rates(tmp_path, clips):
    prepare([clips, "decode_audio"], tmp_path / "a")
    prepare([clips], tmp_path / "b")

    def rated(out):
        meta = json.loads((tmp_path / out / "meta.json").read_text())
        return [f["name"] for f in meta["plan"]["fields"] if f.get("rate")]

    assert rated("a") == ["audio"] and rated("b") == []
    assert load(f"records {tmp_path}/b | decode_audio | resample 8000")[1] \
        == {}
