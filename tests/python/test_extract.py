# SPDX-License-Identifier: Apache-2.0
"""extract_text: what a page of HTML says, from any bytes."""
import gzip
import html
import html.entities
import json
import os
import pathlib
import random
import re
import subprocess
from collections import Counter

import millrace
import numpy as np
import pytest
from test_tokenize import CHARS, gpt2_piece, pieces

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = os.environ.get("MILLRACE_BIN", str(ROOT / "build" / "millrace"))
DATA = pathlib.Path(os.environ.get("MILLRACE_DATA", ROOT.parent / "shared" /
                                   "data")) / "html" / "aeb"
SENTENCE = ("The mill by the river, which had stood there for years, was "
            "sold again. ")


def extract(folder, pages, how="", **options):
    """The texts of pages, in their order, as bytes."""
    data = folder / "pages" / "x"
    data.mkdir(parents=True, exist_ok=True)
    for f in data.iterdir():
        f.unlink()
    for i, page in enumerate(pages):
        if isinstance(page, str):
            page = page.encode()
        (data / f"{i:05}.html").write_bytes(page)
    loader = millrace.Loader(
        f"files {folder / 'pages'} | extract_text {how} | batch 8",
        order="sequential", **options)
    return [bytes(x) for b in loader for x in b.samples("data")]


def text(folder, page, how="", **options):
    got, = extract(folder, [page], how, **options)
    return got.decode()


# ---- articles ----

def synth(folder, *options):
    subprocess.run([BIN, "synth", "html", folder, *map(str, options)],
                   check=True, stdout=subprocess.DEVNULL, timeout=120)


def test_the_articles_of_made_pages_come_back_exactly(tmp_path):
    synth(tmp_path / "d", "--count", 60, "--seed", 3)
    pages = sorted((tmp_path / "d" / "pages").rglob("*.html"))
    texts = sorted((tmp_path / "d" / "texts").rglob("*.txt"))
    assert len(pages) == len(texts) == 60
    got = extract(tmp_path, [p.read_bytes() for p in pages], threads=2)
    for p, t, g in zip(pages, texts, got):
        assert g == t.read_bytes(), p
    assert 35e3 < sum(p.stat().st_size for p in pages) / 60 < 50e3
    assert 2.9e3 < sum(t.stat().st_size for t in texts) / 60 < 3.7e3


def test_the_example_gives_the_rows_of_the_texts_tokens(tmp_path):
    synth(tmp_path, "--count", 6, "--classes", 2)
    lines = (ROOT / "examples" / "nlp.txt").read_text().split("\n")
    steps = [x for x in lines if x and not x.startswith("#")]
    pipeline = " | ".join(steps)
    for name in ("pages", "encoder.json", "vocab.bpe", "table.npy"):
        assert pipeline.count(name) == 1
        pipeline = pipeline.replace(name, str(tmp_path / name))
    loader = millrace.Loader(pipeline, order="sequential")
    got = [np.array(x) for b in loader for x in b.samples("ids")]

    back = {c: b for b, c in CHARS.items()}
    ids = json.loads((tmp_path / "encoder.json").read_text())
    assert sorted(ids.values()) == list(range(2000))
    merges = {tuple(bytes(back[c] for c in w) for w in x.split(" ")): i
              for i, x in enumerate((tmp_path / "vocab.bpe").read_text(
                  encoding="utf-8").split("\n")[1:-1])}
    ids = {bytes(back[c] for c in t): i for t, i in ids.items()
           if t != "<|endoftext|>"}
    table = np.load(tmp_path / "table.npy")
    assert table.shape == (2000, 768) and 0.015 < table.std() < 0.025
    texts = sorted((tmp_path / "texts").rglob("*.txt"))
    assert len(texts) == len(got) == 6
    for f, rows in zip(texts, got):
        want = [ids[t] for p in pieces(f.read_bytes())
                for t in gpt2_piece(p, merges)]
        assert np.array_equal(rows, table[want])
        assert 600 < len(want) < 1200


def article(inside):
    return ("<!doctype html><title>T</title><nav><a href=/>Home</a></nav>"
            f"<article><h1>Title</h1>{inside}</article>"
            "<div class=comments><p>" + SENTENCE + "</p></div>")


def paragraphs(*middle):
    return article("<p>" + SENTENCE * 3 + "".join(middle) + "<p>" +
                   SENTENCE * 2)


@pytest.mark.parametrize("inside,line", [
    ("<p>one<br>two, and three", "one\ntwo, and three"),
    ("<ul><li>one<li>two</ul>", "one\ntwo"),
    ("<p>a <b>bold <i>word</b></i>, in the line", "a bold word, in the line"),
    ("<p>no<b>gap</b> one <i>gap</i> <u>two</u>", "nogap one gap two"),
    ("<p>a\n\t b&nbsp; c &lt;d&gt; &amp; &quot;e&quot;", 'a b c <d> & "e"'),
    ("<p>1 < 2, 3 > 2 and <3 </ p>", "1 < 2, 3 > 2 and <3"),
    ("<script>var a = '<p>no</p>';</script><p>yes</p>", "yes"),
    ("<SCRIPT>no</SCRIPT><p>yes", "yes"),
    ("<style>p { x: '</p>' }</style><!-- <p>no --><p>yes", "yes"),
    ("<!--> <p>yes</p> <!-- no --!><p>too", "yes\ntoo"),
    ("<textarea><p>no</textarea><p>yes", "yes"),
    ("<svg><title>no</title><path d=''/></svg><p>yes", "yes"),
    ("<p>yes<noscript>no</noscript>", "yes"),
    ("<table><tr><td>1<td>2<tr><th>3</table>", "1\n2\n3"),
    ("<dl><dt>a<dd>b<dt>c<dd>d</dl>", "a\nb\nc\nd"),
    ("<p style='display: none'>no<p>yes", "yes"),
    ("<div hidden>no</div><p>yes", "yes"),
    ("<p class='share-tools'>no</p><p>yes", "yes"),
    ("<p><a href=x>a link alone</a></p><p>yes", "yes"),
    ("<figure><figcaption>no</figcaption></figure><p>yes", "yes"),
    ("<select><option>no<option>no</select><p>yes", "yes"),
    ("<h2>Part</h2><p>yes", "Part\nyes"),
    ("<p>zero\0 byte\x01s", "zero bytes"),
    ("<p><custom-tag>yes</custom-tag>", "yes"),
    ("<p title=\"a > b\" data-x='</p>'>yes", "yes"),
    ("<p>a<wbr>b<img src=x>c", "abc"),
])
def test_lines_are_what_a_reader_sees(tmp_path, inside, line):
    got = text(tmp_path, paragraphs(inside)).split("\n")
    assert got[0] == (SENTENCE * 3).strip()
    assert got[-1] == (SENTENCE * 2).strip()
    assert "\n".join(got[1:-1]) == line


def test_every_character_reference_is_what_the_standard_says(tmp_path):
    names = [n for n in html.entities.html5 if n.endswith(";")]
    old = [n for n in html.entities.html5 if not n.endswith(";")]
    words = [f"&{n}" for n in names] + [f"&{n} " for n in old]
    words += ["&#65;", "&#x41;", "&#65", "&#x1F600;", "&#128;", "&#x9f;",
              "&#0;", "&#xD800;", "&#1114112;", "&#99999999999999;", "&#;",
              "&#x;", "&nosuch;", "&notit;", "&am", "&", "&;", "&ampx",
              "&CounterClockwiseContourIntegralx;"]
    got = text(tmp_path, paragraphs("<p>" + "<p>".join(
        f"({w})" for w in words)))
    for w, line in zip(words, got.split("\n")[1:]):
        plain = html.unescape(w)
        plain = re.sub(r"[ \t\n\r\xa0]+", " ", plain)
        assert line == f"({plain})", w


def test_hints_do_not_hide_the_article_itself(tmp_path):
    page = ("<body class=comments><div class='sidebar-left related'><div "
            "style='display:none'><p>" + SENTENCE * 9 + "</div></div>")
    assert text(tmp_path, page) == (SENTENCE * 9).strip()


def test_only_one_of_several_articles_is_taken(tmp_path):
    one = "<article><p>" + "<p>".join([SENTENCE * 3] * 4) + "</article>"
    two = one.replace("mill", "farm").replace("river, which", "river which")
    got = text(tmp_path, "<div>" + one + two + "</div>")
    assert "mill" in got and "farm" not in got


# ---- encodings ----

RUSSIAN = ("Мельница у реки, которая стояла там много лет, была снова "
           "продана. ")
JAPANESE = "川のほとりの水車小屋は、何年もそこにあったが、また売られた。" * 3
FRENCH = "Le moulin près de la rivière, qui était là, a été vendu à l’été. "


def coded(words, encoding, declare):
    return (declare + "<article><p>" + words * 2 + "<p>" + words +
            "</article>").encode(encoding)


@pytest.mark.parametrize("words,encoding,declare", [
    (RUSSIAN, "utf-8", ""),
    (RUSSIAN, "utf-8-sig", "<meta charset=koi8-r>"),
    (RUSSIAN, "utf-16", ""),
    (RUSSIAN, "utf-16-le", "<!doctype html>"),
    (RUSSIAN, "utf-16-be", "\ufeff"),
    (RUSSIAN, "cp1251", "<meta charset=windows-1251>"),
    (RUSSIAN, "cp1251", "<META HTTP-EQUIV='Content-Type' "
     "CONTENT='text/html; charset=Windows-1251'>"),
    (RUSSIAN, "koi8-r", "<?xml version='1.0' encoding='KOI8-R'?>"),
    (RUSSIAN, "iso8859-5", "<!-- <meta charset=utf-8> -->"
     "<meta charset='ISO-8859-5' />"),
    (JAPANESE, "cp932", "<meta charset=Shift_JIS>"),
    (JAPANESE, "euc-jp", "<meta charset=\"EUC-JP\">"),
    (JAPANESE, "iso2022-jp", "<meta charset=iso-2022-jp>"),
    (JAPANESE, "gb18030", "<meta charset=gb2312>"),
    (JAPANESE, "utf-8", "<meta charset=utf-16>"),
    (FRENCH, "cp1252", ""),
    (FRENCH, "cp1252", "<meta charset=iso-8859-1>"),
    (FRENCH, "cp1252", "<meta charset=no-such-thing>"),
    (FRENCH, "utf-8", "<meta charset=no-such-thing>"),
])
def test_pages_of_all_encodings_come_out_as_utf8(tmp_path, words, encoding,
                                                 declare):
    got = text(tmp_path, coded(words, encoding, declare))
    assert got == (words * 2).strip() + "\n" + words.strip()


def test_a_given_encoding_is_believed_but_for_a_mark(tmp_path):
    pages = [coded(RUSSIAN, "cp1251", "<meta charset=koi8-r>"),
             coded(RUSSIAN, "utf-16", "")]
    a, b = extract(tmp_path, pages, "encoding=windows-1251")
    assert a == b == ((RUSSIAN * 2).strip() + "\n" +
                      RUSSIAN.strip()).encode()


def test_an_unknown_encoding_is_refused_by_name(tmp_path):
    with pytest.raises(Exception, match="no encoding 'klingon'"):
        extract(tmp_path, ["x"], "encoding=klingon")


def test_bad_bytes_become_the_replacement_character(tmp_path):
    page = coded(RUSSIAN, "utf-8", "")
    cut = page.replace("лет".encode(), b"\xd0\xff\xd0", 1)
    assert text(tmp_path, cut) == (
        (RUSSIAN * 2).strip() + "\n" + RUSSIAN.strip()).replace(
            "лет", "\ufffd" * 3, 1)
    declared = b"<meta charset=utf-8><p>caf\xe9, again and again it was sold."
    assert text(tmp_path, declared) == "caf\ufffd, again and again it was sold."
    odd = b"<meta charset=shift_jis><p>" + "水車、".encode("cp932") + b"\xff\x81"
    assert text(tmp_path, odd) == "水車、\ufffd\ufffd"


# ---- odd pages ----

@pytest.mark.parametrize("page,want", [
    (b"", ""), (b" \n\t", ""), (b"<", "<"), (b"<p", ""), (b"</", "</"),
    (b"<!", ""), (b"<!--", ""), (b"<p>", ""), (b"&", "&"), (b"<a href='", ""),
    (b"hello", "hello"), (b"<p>hello</p", "hello"), (b"\xef\xbb\xbf", ""),
    (b"\xff\xfe", ""), (b"\xff\xfe<", "\ufffd"), (b"<script>x", ""),
    (b"<title>x", "x"), (b"<style>a</style><script>b</script>", ""),
    (b"<head><p>x", "x"), (b"</div></p></table>x", "x"),
    (b"<html><body><frameset>x", "x"), (b"<p>x<!-- y", "x"),
    (b"<plaintext>x", "x"), (b"<table><p>x", "x"), (b"<p>a<p>b", "a\nb"),
])
def test_small_and_broken_pages_give_what_they_say(tmp_path, page, want):
    assert text(tmp_path, page) == want


@pytest.mark.parametrize("data,says", [
    (gzip.compress(b"<p>x"), "gzip; unpack it first"),
    (b"%PDF-1.4 ...", "PDF"), (b"\x89PNG\r\n\x1a\n", "PNG"),
    (random.Random(1).randbytes(5000), "control characters"),
    (bytes(100), "control characters, as 0x00 at offset 0"),
])
def test_what_is_no_text_is_a_bad_sample(tmp_path, data, says):
    with pytest.raises(Exception, match=re.escape(says)):
        extract(tmp_path, [data])
    good = paragraphs()
    got = extract(tmp_path, [good, data, good], on_error="skip")
    assert len(got) == 2 and got[0] == got[1] != b""


def test_pages_with_too_little_text_can_be_left_out(tmp_path):
    pages = [paragraphs(), "<p>short", paragraphs()]
    with pytest.raises(Exception, match="has 5 bytes of text, and least=99"):
        extract(tmp_path, pages, "least=99")
    assert len(extract(tmp_path, pages, "least=99", on_error="skip")) == 2


@pytest.mark.parametrize("tag", ["div", "b", "ul><li", "table><tr><td", "p",
                                 "a href=x", "x-y", "blockquote", "svg",
                                 "form", "select", "h2"])
def test_a_million_open_elements_cost_neither_stack_nor_squares(tmp_path, tag):
    got = text(tmp_path, f"<{tag}>" * 10**6 + "<p>" + SENTENCE)
    # in a picture, or nothing but a link
    assert got == ("" if tag in ("svg", "a href=x") else SENTENCE.strip())


def test_a_million_ends_without_a_beginning_say_nothing(tmp_path):
    assert text(tmp_path, "</div>" * 10**6 + "x") == "x"
    assert text(tmp_path, "<x-y>" + "<i>" * 500 + "</z>" * 10**6 + "x") == "x"


@pytest.mark.parametrize("part", ["<", "<!--", "<title>", "<script>", "<p a='",
                                  "&", "&#", "</", "<a href=", "<!-- -", "<?",
                                  "<textarea>", "<p class='a b c d '>",
                                  "<li>", "<td>", "<dd><p>", "<option>"])
def test_repeated_beginnings_take_no_square_of_time(tmp_path, part):
    text(tmp_path, part * (3 * 10**6 // len(part)))


def test_huge_attributes_are_passed(tmp_path):
    big = "comment " * 10**6
    assert text(tmp_path, paragraphs(f"<p data-x='{big}' id=y>yes")).split(
        "\n")[1] == "yes"
    assert text(tmp_path, paragraphs(f"<p title={'x' * 10**7}>yes")).split(
        "\n")[1] == "yes"


def test_a_page_of_100_mb_is_read_or_refused_with_the_limit(tmp_path):
    block = "<div class=x><p>" + SENTENCE * 9 + "</p></div>\n"
    page = "<article>" + block * (100 * 10**6 // len(block)) + "</article>"
    got = text(tmp_path, page, memory="4G", threads=1)
    assert got.count("\n") == page.count("\n") - 1
    with pytest.raises(Exception, match="raise --memory|memory"):
        text(tmp_path, page, memory="64M", threads=1)
    tags = "<b>" * (100 * 10**6 // 3)
    with pytest.raises(Exception, match="33333333 tags needs .* a sample may"):
        text(tmp_path, tags, memory="1G", threads=1)


def test_other_types_are_refused(tmp_path):
    with pytest.raises(Exception, match="want the bytes of a page"):
        millrace.Loader("synthetic 3,4 f32 count=2 | extract_text | batch 2")


# ---- real pages ----

def shingles(words, n=4):
    return Counter(tuple(words[i:i + n]) for i in range(
        max(1, len(words) - n + 1)) if words)


def f1(truth, got):
    """Means of precision and recall over the pages, and between them."""
    p, r = [], []
    for a, b in zip(truth, got):
        a, b = (shingles(re.findall(r"\w+", x)) for x in (a, b))
        both = (a & b).total()
        if b:
            p.append(both / b.total())
        r.append(both / a.total())
    p, r = sum(p) / len(p), sum(r) / len(r)
    return 2 * p * r / (p + r)


@pytest.mark.skipif(not DATA.is_dir(), reason=f"no {DATA}")
def test_articles_of_real_pages_are_found_better_than_by_others(tmp_path):
    truth = json.loads((DATA / "ground-truth.json").read_text())
    pages = [gzip.decompress((DATA / "html" / f"{k}.html.gz").read_bytes())
             for k in truth]
    texts = [v["articleBody"] for v in truth.values()]
    ours = f1(texts, [t.decode() for t in extract(tmp_path, pages)])
    for f in (DATA / "output").glob("*.json"):
        peer = json.loads(f.read_text())
        peer = peer.get("output", peer)
        assert ours > f1(texts, [peer[k].get("articleBody") or ""
                                 for k in truth]), f.stem
    assert ours > 0.96
