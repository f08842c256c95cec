# SPDX-License-Identifier: Apache-2.0
"""tokenize, pad and embed against plain Python: GPT-2's and tiktoken's
algorithms as they are written, on vocabularies made here, and reference
encodings of GPT-2 where the shared data is."""
import base64
import json
import os
import pathlib
import random
import subprocess
import sys
import unicodedata

import millrace
import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = pathlib.Path(os.environ.get("MILLRACE_DATA",
                                   ROOT.parent / "shared" / "data")) / "gpt2"
shared = pytest.mark.skipif(not DATA.is_dir(), reason=f"no {DATA}")


# ---- as others do it ----

def alphabet():
    """GPT-2's characters for bytes."""
    own = [*range(33, 127), *range(161, 173), *range(174, 256)]
    more = [b for b in range(256) if b not in own]
    return {**{b: chr(b) for b in own},
            **{b: chr(256 + i) for i, b in enumerate(more)}}


CHARS = alphabet()


def printed(b):
    return "".join(CHARS[x] for x in b)


def kind(c):
    if c.isspace() and not "\x1c" <= c <= "\x1f":
        return "S"
    k = unicodedata.category(c)[0]
    return k if k in "LN" else "O"


def split(text):
    """GPT-2's pattern, alternative by alternative. A lone surrogate, which
    stands for a bad byte, is neither letter, number nor space."""
    out, i = [], 0
    kinds = [kind(c) for c in text]
    while i < len(text):
        end = i
        for word in ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d"):
            if text.startswith(word, i):
                end = i + len(word)
                break
        for k in "LNO":
            if end > i:
                break
            j = i + (text[i] == " ")
            while j < len(text) and kinds[j] == k:
                j += 1
            if j > i + (text[i] == " "):
                end = j
        if end == i:
            while end < len(text) and kinds[end] == "S":
                end += 1
            if end < len(text) and end > i + 1:
                end -= 1
        out.append(text[i:end].encode("utf-8", "surrogateescape"))
        i = end
    return out


def split_cl100k(text):
    """cl100k's pattern, alternative by alternative."""
    out, i = [], 0
    kinds = [kind(c) for c in text] + ["end"]

    def run(j, ok):
        while j < len(text) and ok(j):
            j += 1
        return j

    while i < len(text):
        end = i
        low = text[i:i + 3].lower().replace("\u017f", "s")
        for word in ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d"):
            if end == i and low.startswith(word):
                end = i + len(word)
        if end == i:
            j = i + (kinds[i] in "OS" and text[i] not in "\r\n")
            k = run(j, lambda x: kinds[x] == "L")
            end = k if k > j else i
        if end == i:
            end = min(run(i, lambda x: kinds[x] == "N"), i + 3)
        if end == i:
            j = i + (text[i] == " ")
            k = run(j, lambda x: kinds[x] == "O")
            if k > j:
                end = run(k, lambda x: text[x] in "\r\n")
        if end == i:
            k = run(i, lambda x: kinds[x] == "S")
            lines = [x for x in range(i, k) if text[x] in "\r\n"]
            end = lines[-1] + 1 if lines else \
                k if k == len(text) or k == i + 1 else k - 1
        out.append(text[i:end].encode("utf-8", "surrogateescape"))
        i = end
    return out


def gpt2_piece(piece, merges):
    """bpe() of GPT-2's encoder.py."""
    word = [bytes([b]) for b in piece]
    while len(word) > 1:
        pair = min(zip(word, word[1:]), key=lambda p: merges.get(p, 1e9))
        if pair not in merges:
            break
        out, i = [], 0
        while i < len(word):
            if tuple(word[i:i + 2]) == pair:
                out.append(word[i] + word[i + 1])
                i += 2
            else:
                out.append(word[i])
                i += 1
        word = out
    return word


def tiktoken_piece(piece, ranks):
    if piece in ranks:
        return [piece]
    parts = [bytes([b]) for b in piece]
    while len(parts) > 1:
        low = [ranks.get(a + b, 1e9) for a, b in zip(parts, parts[1:])]
        i = low.index(min(low))
        if low[i] == 1e9:
            break
        parts[i:i + 2] = [parts[i] + parts[i + 1]]
    return parts


# ---- vocabularies ----

class Vocabulary:
    """Random merges, over few letters so that they meet; later ones may make
    what earlier ones use, which no training does."""

    def __init__(self, folder, seed, letters=b"abe \xc3\xa9", count=120):
        rng = random.Random(seed)
        tokens = [bytes([b]) for b in range(256)]
        parts = [bytes([b]) for b in letters]
        self.merges = {}
        for _ in range(count):
            a, b = rng.choice(parts), rng.choice(parts)
            if len(a + b) > 20 or (a, b) in self.merges:
                continue
            self.merges[a, b] = 0
            parts.append(a + b)
            if a + b not in tokens:
                tokens.append(a + b)
        order = list(self.merges)
        rng.shuffle(order)
        self.merges = {m: i for i, m in enumerate(order)}
        ids = list(range(len(tokens)))
        rng.shuffle(ids)
        self.ids = dict(zip(tokens, ids))
        self.tokens = {i: t for t, i in self.ids.items()}
        self.gpt2 = write_gpt2(folder, self.ids, order)
        self.ranks = write_ranks(folder, self.ids)


def write_gpt2(folder, ids, order):
    (folder / "encoder.json").write_text(json.dumps(
        {**{printed(t): i for t, i in ids.items()}, "<|end of text|>": 99999}))
    (folder / "vocab.bpe").write_text("#version: 0.2\n" + "".join(
        f"{printed(a)} {printed(b)}\n" for a, b in order), encoding="utf-8")
    return f"vocab={folder}/encoder.json merges={folder}/vocab.bpe"


def write_ranks(folder, ids):
    (folder / "r.tiktoken").write_text("".join(
        f"{base64.b64encode(t).decode()} {i}\n"
        for t, i in sorted(ids.items(), key=lambda x: x[1])))
    return f"ranks={folder}/r.tiktoken"


def encode(folder, texts, how, **options):
    """The ids of texts, by the loader; two epochs, the second with a cache
    that knows the words."""
    data = folder / "texts"
    if not data.exists():
        (data / "x").mkdir(parents=True)
    for f in (data / "x").iterdir():
        f.unlink()
    for i, t in enumerate(texts):
        (data / "x" / f"{i:05}.txt").write_bytes(t)
    loader = millrace.Loader(f"files {data} | tokenize {how} | batch 16",
                             order="sequential", **options)
    for _ in range(2):
        got = [[int(v) for v in x] for b in loader for x in b.samples("ids")]
        assert len(got) == len(texts)
    return got


def random_texts(seed, count):
    """Words of few letters, long ones too, odd characters, bad bytes."""
    rng = random.Random(seed)
    odd = ["é", "ß", "ñ", "中文", "\u3000", "\u00a0", "\u2028", "٣", "Ⅳ", "²",
           "😀", "e\u0301", "\x1c", "\x85", "\ufffd", "\ufeff", "'", "'ll",
           "'S", "''s", "\n", "\r\n", "\t", "  ", "12", ".", " .", "\0"]
    for _ in range(count):
        out = b""
        for _ in range(rng.randrange(12)):
            what = rng.randrange(10)
            if what < 5:
                n = rng.choice([1, 2, 3, 5, 8, 15, 16, 17, 30, 49, 64, 65, 200])
                out += b" " * rng.randrange(3) + bytes(
                    rng.choice(b"abe") for _ in range(n))
            elif what < 8:
                out += rng.choice(odd).encode()
            elif what < 9:
                out += chr(rng.choice([*range(0xd800),
                                       *range(0xe000, 0x11000)])).encode()
            else:
                out += bytes(rng.randrange(256) for _ in range(4))
        yield out


def pieces(text):
    return split(text.decode("utf-8", "surrogateescape"))


@pytest.mark.parametrize("seed", range(3))
def test_ids_are_those_of_gpt2s_algorithm(tmp_path, seed):
    v = Vocabulary(tmp_path, seed)
    texts = list(random_texts(seed, 60))
    want = [[v.ids[t] for p in pieces(x) for t in gpt2_piece(p, v.merges)]
            for x in texts]
    for cache in ("0", "512", "4M"):
        got = encode(tmp_path, texts, f"{v.gpt2} cache={cache}", threads=2)
        for x, a, b in zip(texts, got, want):
            assert a == b, x


@pytest.mark.parametrize("seed", range(3))
def test_ids_are_those_of_tiktokens_algorithm(tmp_path, seed):
    v = Vocabulary(tmp_path, seed + 100)
    texts = list(random_texts(seed + 100, 60))
    want = [[v.ids[t] for p in pieces(x) for t in tiktoken_piece(p, v.ids)]
            for x in texts]
    for cache in ("0", "512", "4M"):
        got = encode(tmp_path, texts, f"{v.ranks} cache={cache}", threads=2)
        for x, a, b in zip(texts, got, want):
            assert a == b, x


@pytest.mark.parametrize("seed", range(3))
def test_pieces_may_be_those_of_cl100k(tmp_path, seed):
    v = Vocabulary(tmp_path, seed + 200)
    rng = random.Random(seed)
    odd = ["'S", "'LL", "'Ve", "'\u017f", "1234567", "...\n\n", " \n  x",
           "\t", "ab", " be", "\r\n", "'", "\u3000", "a1", "  ", "\n"]
    texts = list(random_texts(seed + 200, 60)) + [
        "".join(rng.choices(odd, k=20)).encode() for _ in range(60)]
    want = [[v.ids[t] for p in split_cl100k(x.decode("utf-8",
                                                     "surrogateescape"))
             for t in tiktoken_piece(p, v.ids)] for x in texts]
    got = encode(tmp_path, texts, f"{v.ranks} split=cl100k")
    for x, a, b in zip(texts, got, want):
        assert a == b, x


@pytest.mark.parametrize("count, words", [
    (100256, ["100256 tokens", "cl100k", "say split=cl100k"]),
    (199998, ["199998 tokens", "o200k", "not known"])])
def test_vocabularies_of_other_patterns_are_refused(tmp_path, count, words):
    tokens = [bytes([b]) for b in range(256)]
    tokens += [i.to_bytes(3, "big") for i in range(count - 256)]
    how = write_ranks(tmp_path, {t: i for i, t in enumerate(tokens)})
    refused(tmp_path, how, "r.tiktoken", *words)
    if count == 100256:
        encode(tmp_path, [b"text"], f"{how} split=cl100k")


NPM = pathlib.Path(os.environ.get(
    "MILLRACE_NPM", ROOT / os.environ.get("MILLRACE_BUILD", "build")
    / "bench" / "data" / "npm")) / "node_modules" / "tiktoken"
ENCODE = """
const [module, name, folder] = process.argv.slice(1);
const fs = require('fs'), tiktoken = require(module);
let ranks = '';
for (const line of require(`${module}/encoders/${name}.json`)
		.bpe_ranks.split('\\n')) {
	const [, first, ...tokens] = line.split(' ');
	tokens.forEach((t, i) => ranks += `${t} ${Number(first) + i}\\n`);
}
fs.writeFileSync(`${folder}/r.tiktoken`, ranks);
const texts = JSON.parse(fs.readFileSync(`${folder}/texts.json`));
const e = tiktoken.get_encoding(name);
console.log(JSON.stringify(texts.map((t) => [...e.encode_ordinary(t)])));
"""


@pytest.mark.skipif(not NPM.is_dir(), reason=f"no {NPM}")
@pytest.mark.parametrize("name, how", [("r50k_base", ""), ("p50k_base", ""),
                                       ("cl100k_base", "split=cl100k")])
def test_ids_are_those_of_tiktoken(tmp_path, name, how):
    texts = [t.decode("utf-8", "replace") for t in random_texts(7, 200)]
    texts += ["I'M he'LL don't\n\n  x = 12345;\r\n\tif (a)\n", "'\u017f"]
    (tmp_path / "texts.json").write_text(json.dumps(texts))
    r = subprocess.run(["node", "-e", ENCODE, NPM, name, tmp_path],
                       stdout=subprocess.PIPE, text=True, check=True)
    got = encode(tmp_path, [t.encode() for t in texts],
                 f"ranks={tmp_path}/r.tiktoken {how}")
    for t, a, b in zip(texts, got, json.loads(r.stdout)):
        assert a == b, t


def test_every_text_comes_back_from_its_ids(tmp_path):
    v = Vocabulary(tmp_path, 1)
    rng = random.Random(2)
    texts = [rng.randbytes(rng.randrange(300)) for _ in range(100)]
    texts += ["".join(chr(rng.choice([rng.randrange(0xd800),
                                      rng.randrange(0x10000, 0x110000)]))
                      for _ in range(60)).encode() for _ in range(100)]
    for how in (v.gpt2, v.ranks):
        for x, ids in zip(texts, encode(tmp_path, texts, how)):
            assert b"".join(v.tokens[i] for i in ids) == x


@pytest.mark.parametrize("how", ["gpt2", "ranks"])
def test_a_long_piece_takes_no_square_of_time(tmp_path, how):
    v = Vocabulary(tmp_path, 3)
    text = bytes(random.Random(4).choices(b"abe", k=1 << 20))
    ids, = encode(tmp_path, [text], getattr(v, how))
    assert b"".join(v.tokens[i] for i in ids) == text


def table_version():
    head = (ROOT / "src" / "op" / "unicode_table.h").read_text()[:200]
    return head.split("from Unicode ")[1].split(". */")[0]


def test_the_table_of_characters_is_what_its_script_makes():
    if unicodedata.unidata_version != table_version():
        pytest.skip(f"Python has Unicode {unicodedata.unidata_version}, "
                    f"the table {table_version()}")
    made = subprocess.run([sys.executable, ROOT / "tools" / "unicode.py"],
                          stdout=subprocess.PIPE, check=True, text=True)
    assert made.stdout == (ROOT / "src" / "op" / "unicode_table.h").read_text()


@shared
@pytest.mark.parametrize("how", [
    f"vocab={DATA}/encoder.json merges={DATA}/vocab.bpe",
    f"ranks={DATA}/r50k_base.tiktoken"])
def test_ids_are_gpt2s_reference(tmp_path, how):
    cases = [json.loads(line) for name in ("ref-tricky", "ref-articles")
             for line in open(DATA / f"{name}.jsonl", encoding="utf-8")]
    texts = [c["text"].encode() for c in cases]
    assert len(cases) > 70
    for c, ids in zip(cases, encode(tmp_path, texts, how, threads=2)):
        assert ids == c["ids"], c["id"]


@shared
def test_gpt2s_texts_come_back(tmp_path):
    with open(DATA / "encoder.json", encoding="utf-8") as f:
        tokens = {i: t for t, i in json.load(f).items()}
    byte = {c: b for b, c in CHARS.items()}
    rng = random.Random(5)
    texts = [rng.randbytes(500) for _ in range(50)]
    texts += ["".join(chr(rng.randrange(0xd800)) for _ in range(200)).encode()
              for _ in range(50)]
    got = encode(tmp_path, texts, f"vocab={DATA}/encoder.json "
                 f"merges={DATA}/vocab.bpe")
    for x, ids in zip(texts, got):
        assert bytes(byte[c] for i in ids for c in tokens[i]) == x


# ---- bad vocabularies ----

def refused(tmp_path, how, *words):
    with pytest.raises(Exception) as e:
        encode(tmp_path, [b"text"], how)
    for w in words:
        assert w in str(e.value), str(e.value)


def test_the_files_must_be_named(tmp_path):
    v = Vocabulary(tmp_path, 1)
    for how in ("", "vocab=x", "merges=x", f"{v.gpt2} {v.ranks}"):
        refused(tmp_path, how, "vocab=encoder.json merges=vocab.bpe")
    refused(tmp_path, "ranks=/no/such", "/no/such", "No such file")


@pytest.mark.parametrize("edit, words", [
    (lambda t: t[:-1], ["encoder.json", "no JSON"]),
    (lambda t: "[1, 2]", ["encoder.json", "JSON object"]),
    (lambda t: "", ["encoder.json", "no JSON"]),
    (lambda t: t.replace('"a": ', '"zzz": '), ["byte 0x61"]),
    (lambda t: t.replace('"a": ', '"a": -'), ["'a'", "no id"]),
    (lambda t: t.replace('"a": ', '"a": 1e'), ["'a'", "no id"]),
    (lambda t: t.replace("99999", "5"), ["the id 5", "another"]),
    (lambda t: t.replace("99999", "16777216"), ["<|end of text|>", "no id"]),
])
def test_a_damaged_encoder_is_refused(tmp_path, edit, words):
    v = Vocabulary(tmp_path, 1)
    f = tmp_path / "encoder.json"
    f.write_text(edit(f.read_text()))
    refused(tmp_path, v.gpt2, *words)


@pytest.mark.parametrize("line, words", [
    ("ab", ["line 3", "two tokens", "'ab'"]),
    ("a ", ["line 3", "two tokens"]),
    (" a", ["line 3", "two tokens"]),
    ("a b c", ["line 3", "two tokens"]),
    ("a \u4e2d", ["line 3", "two tokens"]),
    ("zz a", ["line 3", "first token is not"]),
    ("a zz", ["line 3", "second token is not"]),
    ("z z", ["line 3", "what they make is not"]),
    (None, ["line 3", "was there before"]),
])
def test_a_damaged_line_of_merges_is_named(tmp_path, line, words):
    v = Vocabulary(tmp_path, 1)
    f = tmp_path / "vocab.bpe"
    lines = f.read_text(encoding="utf-8").split("\n")
    lines[2] = lines[1] if line is None else line
    f.write_text("\n".join(lines), encoding="utf-8")
    refused(tmp_path, v.gpt2, "vocab.bpe", *words)


@pytest.mark.parametrize("line, words", [
    ("IQ==", ["line 2", "base64"]),
    ("IQ= 5000", ["line 2", "base64"]),
    ("I!== 5000", ["line 2", "base64"]),
    ("==== 5000", ["line 2", "base64"]),
    (" 5000", ["line 2", "base64"]),
    ("enp6 ", ["line 2", "rank"]),
    ("enp6 -1", ["line 2", "'-1'"]),
    ("enp6 16777216", ["line 2", "rank"]),
    ("enp6 99999999999999999999", ["line 2", "rank"]),
    ("enp6 0", ["line 2", "rank 0 was there before"]),
    ("enp6 5000", ["no token for the byte"]),
    (None, ["line 2", "was there before"]),
])
def test_a_damaged_line_of_ranks_is_named(tmp_path, line, words):
    ids = {bytes([b]): b for b in range(256)}
    how = write_ranks(tmp_path, ids)
    f = tmp_path / "r.tiktoken"
    lines = f.read_text().split("\n")
    lines[1] = lines[0].split()[0] + " 7000" if line is None else line
    f.write_text("\n".join(lines))
    refused(tmp_path, how, "r.tiktoken", *words)


@pytest.mark.parametrize("drop", [1, 2, 10])
def test_merges_that_were_cut_off_are_refused(tmp_path, drop):
    ids = {bytes([b]): b for b in range(256)}
    order = [(b"a", b"b"), (b"c", b"d"), (b"ab", b"cd")]
    order += [(b"x", bytes([c])) for c in b"abcdefgh"]
    ids.update({a + b: 256 + i for i, (a, b) in enumerate(order)})
    encode(tmp_path, [b"abcd"], write_gpt2(tmp_path, ids, order))
    how = write_gpt2(tmp_path, ids, order[:-drop])
    refused(tmp_path, how, "vocab.bpe", "cut off", f"makes {drop} of",
            f"id {256 + len(order) - drop}")


def test_tokens_that_are_special_need_no_merge(tmp_path):
    ids = {bytes([b]): b for b in range(256)}
    for t in (b"<s>", b"<|im_start|>", b"[PAD]", b"madeupword0001"):
        ids[t] = len(ids)
    assert encode(tmp_path, [b"<s>"], write_gpt2(tmp_path, ids, []))


def test_ranks_that_were_cut_off_in_a_line_are_refused(tmp_path):
    how = write_ranks(tmp_path, {bytes([b]): b for b in range(256)})
    f = tmp_path / "r.tiktoken"
    f.write_bytes(f.read_bytes()[:-2])  # 25 for 255: a rank as any other
    refused(tmp_path, how, "r.tiktoken", "cut off", "256")


@pytest.mark.parametrize("count, name", [(50256, "r50k"), (50280, "p50k")])
def test_vocabularies_of_gpt2s_pattern_take_no_other(tmp_path, count, name):
    tokens = [bytes([b]) for b in range(256)]
    tokens += [i.to_bytes(3, "big") for i in range(count - 256)]
    how = write_ranks(tmp_path, {t: i for i, t in enumerate(tokens)})
    refused(tmp_path, f"{how} split=cl100k", "r.tiktoken", name,
            "say split=gpt2")
    encode(tmp_path, [b"text"], how)


def test_lines_may_end_as_on_windows(tmp_path):
    v = Vocabulary(tmp_path, 1)
    want = encode(tmp_path, [b"abe abe baba"], v.gpt2)
    for name in ("vocab.bpe", "r.tiktoken"):
        f = tmp_path / name
        f.write_bytes(f.read_bytes().replace(b"\n", b"\r\n"))
    assert encode(tmp_path, [b"abe abe baba"], v.gpt2) == want
    encode(tmp_path, [b"abe"], v.ranks)


# ---- pad, embed ----

def arrays(text, field):
    return [np.array(x) for b in millrace.Loader(text, order="sequential")
            for x in b.samples(field)]


@pytest.fixture
def ids(tmp_path):
    """Texts of 0, 1, 5 and 9 ids, each its byte."""
    how = write_gpt2(tmp_path, {bytes([b]): b for b in range(256)}, [])
    (tmp_path / "t" / "x").mkdir(parents=True)
    for n in (0, 1, 5, 9):
        (tmp_path / "t" / "x" / str(n)).write_bytes(bytes(range(65, 65 + n)))
    return f"files {tmp_path}/t | tokenize {how}"


def test_pad_fills_up_and_cuts(ids):
    want = {"right": [[7] * 5, [65] + [7] * 4, list(range(65, 70)),
                      list(range(65, 70))],
            "left": [[7] * 5, [7] * 4 + [65], list(range(65, 70)),
                     list(range(69, 74))]}
    for side, rows in want.items():
        b = next(iter(millrace.Loader(f"{ids} | pad 5 value=7 side={side} "
                                      "| batch 4", order="sequential")))
        assert b["ids"].dtype == np.int32 and b["ids"].shape == (4, 5)
        assert np.array(b["ids"]).tolist() == rows


def test_pad_wants_a_value_of_the_type(ids):
    with pytest.raises(Exception, match="value=0.5"):
        list(millrace.Loader(f"{ids} | pad 5 value=0.5 | batch 1"))
    for x in arrays(f"{ids} | cast f16 | pad 12 value=0.1 | batch 1", "ids"):
        assert x.dtype == np.float16 and x[-1] == np.float16(0.1)
    for x in arrays(f"{ids} | pad 12 value=-100 | batch 1", "ids"):
        assert x[-1] == -100


@pytest.mark.parametrize("dtype", ["<f4", "<f2"])
def test_embed_takes_the_rows(tmp_path, ids, dtype):
    table = np.random.default_rng(1).random((80, 24)).astype(dtype)
    np.save(tmp_path / "e.npy", table)
    got = arrays(f"{ids} | embed {tmp_path}/e.npy | batch 1", "ids")
    assert [x.shape for x in got] == [(0, 24), (1, 24), (5, 24), (9, 24)]
    for x in got:
        assert x.dtype == table.dtype
        assert np.array_equal(x, table[65:65 + len(x)])
    b = next(iter(millrace.Loader(
        f"{ids} | pad 6 | embed {tmp_path}/e.npy | batch 4")))
    assert b["ids"].shape == (4, 6, 24)


def test_embed_takes_what_others_than_numpy_write(tmp_path, ids):
    table = np.arange(160, dtype="<f4").reshape(80, 2)
    f = tmp_path / "e.npy"
    for text in ("{'descr': '<f4', 'fortran_order': False, 'shape': (80,2,)}",
                 "{'shape':(80, 2),'fortran_order':False,'descr':'<f4'}",
                 " { 'fortran_order' : False , 'descr' : '<f4', "
                 "'shape' : ( 80 , 2 ) , }"):
        head = text.encode() + b"\n"
        f.write_bytes(b"\x93NUMPY\1\0" + len(head).to_bytes(2, "little")
                      + head + table.tobytes())
        for x in arrays(f"{ids} | embed {f} | batch 1", "ids"):
            assert np.array_equal(x, table[65:65 + len(x)])


def test_embed_of_a_table_without_rows_names_each_id(tmp_path, ids):
    np.save(tmp_path / "e.npy", np.zeros((0, 2), "<f4"))
    loader = millrace.Loader(f"{ids} | embed {tmp_path}/e.npy | batch 4",
                             order="sequential", on_error="skip", epochs=1)
    b, = loader
    assert b.samples("ids")[0].shape == (0, 2) and b.count == 1
    with pytest.raises(Exception, match="x/1.*id 65.*no rows"):
        arrays(f"{ids} | embed {tmp_path}/e.npy | batch 1", "ids")
    np.save(tmp_path / "e.npy", np.zeros((300, 0), "<f2"))
    for n, x in zip((0, 1, 5, 9), arrays(
            f"{ids} | embed {tmp_path}/e.npy | batch 1", "ids")):
        assert x.shape == (n, 0)


def test_embed_names_the_sample_and_goes_on_without_it(tmp_path, ids):
    np.save(tmp_path / "e.npy", np.zeros((70, 2), "<f4"))
    text = f"{ids} | embed {tmp_path}/e.npy | batch 4"
    with pytest.raises(Exception, match="x/9.*id 70 at position 5"):
        arrays(text, "ids")
    b, = millrace.Loader(text, order="sequential", on_error="skip", epochs=1)
    assert b.count == 3


def test_special_tokens_are_text_as_any_other(tmp_path):
    v = Vocabulary(tmp_path, 1)
    text = b"<|end of text|>"
    for how in (v.gpt2, v.ranks):
        ids, = encode(tmp_path, [text], how)
        assert 99999 not in ids
        assert b"".join(v.tokens[i] for i in ids) == text


def test_pad_takes_no_ids_for_what_they_are(ids):
    for side in ("left", "right"):
        x = arrays(f"{ids} | pad 1 side={side} | batch 1", "ids")
        assert [v.tolist() for v in x] == [
            [0], [65], [65 if side == "right" else 69],
            [65 if side == "right" else 73]]


def test_embed_names_an_id_that_the_table_lacks(tmp_path, ids):
    np.save(tmp_path / "e.npy", np.zeros((70, 2), "<f4"))
    with pytest.raises(Exception) as e:
        arrays(f"{ids} | embed {tmp_path}/e.npy | batch 1", "ids")
    for w in ("id 70 at position 5", "e.npy", "0 to 69"):
        assert w in str(e.value)


@pytest.mark.parametrize("table", [
    np.zeros((70, 2)), np.zeros(70, "<f4"), np.zeros((7, 2, 2), "<f4"),
    np.asfortranarray(np.zeros((7, 2), "<f4")), np.zeros((7, 2), ">f4")])
def test_embed_says_how_to_convert_other_tables(tmp_path, ids, table):
    np.save(tmp_path / "e.npy", table)
    with pytest.raises(Exception, match="convert it"):
        arrays(f"{ids} | embed {tmp_path}/e.npy | batch 1", "ids")


def test_embed_refuses_a_damaged_table(tmp_path, ids):
    f = tmp_path / "e.npy"
    np.save(f, np.zeros((70, 2), "<f4"))
    whole = f.read_bytes()
    for data in (b"", whole[:9], whole[:60], whole[:-1],
                 whole.replace(b"(70, 2)", b"(7777777777777777777, 2)")):
        f.write_bytes(data)
        with pytest.raises(Exception, match="e.npy"):
            arrays(f"{ids} | embed {f} | batch 1", "ids")


def test_embed_survives_a_table_that_shrinks(tmp_path, ids):
    f = tmp_path / "e.npy"
    np.save(f, np.zeros((100, 2000), "<f4"))
    loader = millrace.Loader(f"{ids} | embed {f} | batch 1")
    os.truncate(f, 4096)
    with pytest.raises(Exception, match="shorter"):
        list(loader)


def test_embed_survives_ids_that_shrink(tmp_path):
    np.save(tmp_path / "e.npy", np.zeros((100, 8), "<f4"))
    f = tmp_path / "ids.npy"
    np.save(f, np.ones((64, 4096), "<i4"))
    loader = millrace.Loader(f"npy {f} map=yes | embed {tmp_path}/e.npy | "
                             "batch 1", order="sequential", on_error="skip")
    os.truncate(f, 40960)
    assert len(list(loader)) < 64
    assert len(loader.bad_samples()) > 32
