# SPDX-License-Identifier: Apache-2.0
"""The pages of `diagnose --html` and `whatif --html` in a real browser."""
import ctypes
import json
import os
import subprocess

import pytest
from traces import BUILD, Err

HOSTILE = ("files \"/d/<b>&amp;</script><script>var hacked = 1</script>\" "
           "labels='x' | decode_image | batch 64")
OPEN = "const of = s => [...document.querySelectorAll(s)];"


def figure(mean, share=0.1, n=8):
    return {"mean": mean, "low": mean * (1 - share),
            "high": mean * (1 + share), "n": n}


def diagnosis(**more):
    rank = [{"rank": i, "as_g": figure(3000), "as_p": figure(2900),
             "as_f": figure(1100 if i == 2 else 1500)} for i in range(3)]
    d = {
        "pipeline": HOSTILE, "samples": 100000, "batch": 64, "threads": 2,
        "cores": 4, "sampled": 4576, "seconds": 17, "sample_bytes": 20000,
        "sample_requests": 1, "step_seconds": 0.02, "profile": "bw=20M",
        "depth": 2, "limits": {"bw": 2e7},
        "as_g": figure(3000, 0.001), "as_p": figure(2980),
        "as_f": figure(1000), "g": figure(3000, 0.001), "p": figure(3900),
        "s": figure(1000), "c": figure(90000), "pc": figure(9000),
        "page": figure(1170),
        "points": [{"threads": t, "rate": figure(1950 * t)}
                   for t in (1, 2, 4)],
        "steps": [{"name": "read", "us": 500, "bytes_out": 20000,
                   "fixed": True},
                  {"name": "decode_image", "us": 20, "bytes_out": 0,
                   "fixed": False}],
        "codecs": [{"name": "zstd", "ratio": 1.5, "unpack": 6e8}],
        "ranks": rank, "notes": ["<i>a note</i> & more", 7],
        "machine": {"cpu": "<b>CPU</b>", "cores": 4, "memory": 1 << 34},
    }
    return d | more


def diagnosis_page(d, to):
    library = ctypes.CDLL(str(BUILD / "src" / "libmillrace.so.0"))
    err = Err()
    code = library.mr_diagnosis_page(json.dumps(d).encode(), b"d.json",
                                     os.fsencode(to), ctypes.byref(err))
    assert code == 0, err.text


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    d = tmp_path_factory.mktemp("pages")
    least = {k: diagnosis()[k] for k in ("pipeline", "samples", "batch",
                                         "threads", "as_g")}
    near = diagnosis(c=figure(4000), points=[], ranks=[], notes=3,
                     command="python3 'a <b>.py'", threads=0)
    del near["pipeline"]
    one = diagnosis(as_p=None, p=figure(3900, n=1), as_g=figure(0, n=0))
    for name, what in {"all": diagnosis(), "least": least, "near": near,
                       "odd": one}.items():
        diagnosis_page(what, d / f"{name}.html")
        (d / f"{name}.json").write_text(json.dumps(what))
    for name, saved, *options in (
            ("sweep", "all", "--sweep", "cache=0:100:5"),
            ("cores", "all", "--sweep", "cores=1:64:1", "--storage", "nvme"),
            ("single", "least", "--sweep", "nodes=1:1:1"),
            ("change", "all", "--cache", "40%", "--accelerator", "2x"),
            ("unknown", "odd", "--cores", "9")):
        subprocess.run([BUILD / "millrace", "whatif", d / f"{saved}.json",
                        "--html", d / f"{name}.html", *options], check=True,
                       stdout=subprocess.DEVNULL)
    return d


@pytest.fixture
def page(browser, served):
    """Opens a page; gives what runs a script in it."""
    seen = []

    def open_(name):
        browser.get(f"{served[0]}/{name}.html")
        seen.append(f"/{name}.html")

        def js(text, *args):
            return browser.execute_script(OPEN + text, *args)
        assert js("return document.documentElement.dataset.ready") == "yes"
        assert js("return performance.getEntriesByType('resource')"
                  ".length") == 0
        return js
    yield open_
    assert browser.get_log("browser") == []
    # nothing else was asked for; a page that it has, it may not ask for again
    assert set(served[1]) == set(seen)


def texts(js, selector):
    return js("return of(arguments[0]).map(e => e.textContent"
              ".replaceAll('\\u00a0', ' '))", selector)


@pytest.mark.parametrize("name", ["all", "least", "near", "odd", "sweep",
                                  "cores", "single", "change", "unknown"])
def test_a_page_is_drawn_without_an_error(page, name):
    js = page(name)
    assert js("return of('svg').length") > 0
    words = js("return document.body.innerText")
    for wrong in ("NaN", "undefined", "Infinity", "null", "[object"):
        assert wrong not in words
    assert "NaN" not in js("return of('svg').map(s => s.outerHTML).join()")


def test_a_diagnosis_shows_its_verdict_rates_and_intervals(page):
    js = page("all")
    assert "Fetch-bound" in texts(js, "#verdict")[0]
    assert [t.split()[0] for t in texts(js, ".tile b")] == \
        ["1,000", "33.3", "0.2", "66.4"]
    assert js("return of('#epoch .part').length") == 3
    wide = js("return of('#rates .bar').map(b => +b.getAttribute('width'))")
    assert len(wide) == 7 and js("return of('#rates .whisker').length") == 7
    g, p, s, c, gp, f, lru = wide
    assert c > p > g > gp > lru > f == s
    # logarithmic: three times is not three times as long
    assert "logarithmic" in js("return $('rates').textContent")
    assert c < 3 * g
    assert js("return of('#threads .whisker').length") == 3
    assert js("return of('#threads .point').length") == 3
    assert texts(js, "#ranks .tag") == ["slowest"]
    assert texts(js, "#ranks .marked td")[0] == "2slowest"
    assert texts(js, "#steps tr:nth-child(2) td")[3:] == ["not measured",
                                                          "no"]
    assert texts(js, "#codecs td")[:2] == ["zstd", "1.50"]


def test_rates_that_are_near_have_a_linear_scale(page):
    js = page("near")
    wide = js("return of('#rates .bar').map(b => +b.getAttribute('width'))")
    assert "logarithmic" not in js("return $('rates').textContent")
    assert wide[0] / wide[5] == pytest.approx(3, rel=0.01)


def test_a_script_has_its_command_and_workers(page):
    js = page("near")
    assert texts(js, "#pipeline code") == ["python3 'a <b>.py'"]
    assert "workers" in texts(js, "#origin dt")


def test_hostile_text_is_shown_as_text(page):
    for name in ("all", "sweep"):
        js = page(name)
        assert texts(js, "#pipeline code") == [HOSTILE]
        assert js("return [typeof hacked, of('script').length,"
                  "of('main b, main i').some(e => /CPU|note/"
                  ".test(e.textContent))]") == ["undefined", 1, False]
    js = page("all")
    assert texts(js, "#notes li") == ["<i>a note</i> & more", "7"]
    assert "<b>CPU</b>, 4 cores, 16.0 GB" in texts(js, "#origin dd")


def test_what_was_not_measured_is_never_0(page):
    js = page("least")
    assert "not measured" in texts(js, "#verdict")[0]
    assert texts(js, ".tile b") == ["not measured"] * 4
    assert js("return of('#rates .bar').length") == 1
    assert len(texts(js, "#rates .none")) == 5
    js = page("odd")
    assert texts(js, ".tile b")[2:] == ["not measured"] * 2
    assert "no interval" in js("return $('rates').textContent")


def test_remedies_can_be_copied(page):
    js = page("all")
    assert len(texts(js, "#remedies li")) >= 2
    js("of('#remedies pre button')[0].click()")
    how = js("return getSelection().toString()")
    assert "cache ram=" in how and "</script><script>" in how
    assert how == texts(js, "#remedies pre code")[0]


def test_a_sweep_has_a_line_its_knee_and_all_points(page):
    js = page("sweep")
    assert js("return of('#ratechart .line').length") == 1
    assert js("return of('#ratechart .point').length") == 21
    assert js("return of('#sharechart .area').length") == 3
    knee = texts(js, "#ratechart .knee text")[0].split()[1]
    assert texts(js, "#sweep .marked td")[0] == knee
    assert len(texts(js, "#sweep tbody tr")) == 21
    assert f"from {knee} %".lower() in texts(js, "#verdict")[0].lower()
    assert texts(js, "#said")[0].startswith(knee)
    js("of('#ratechart svg')[0].dispatchEvent(new KeyboardEvent('keydown',"
       "{key: 'ArrowRight'}))")
    assert texts(js, "#said")[0].startswith(str(int(knee) + 5))
    js("""const s = of('#sharechart svg')[0], b = s.getBoundingClientRect();
       s.dispatchEvent(new PointerEvent('pointermove', {clientX: b.left}));""")
    assert texts(js, "#said")[0].startswith("0 %")
    # dashed where it is extrapolated
    assert page("cores")("return of('#ratechart .line').length") == 2


def test_now_and_predicted_stand_side_by_side(page):
    js = page("change")
    assert [t.split()[1] for t in texts(js, "#tiles b")[:1]] == ["→"]
    assert texts(js, "#compared th")[1:] == ["measured", "modelled",
                                             "predicted"]
    assert js("return of('#epochs svg').length") == 2


def test_pages_fit_a_phone_a_dark_room_and_paper(browser, page):
    cdp = browser.execute_cdp_cmd
    cdp("Emulation.setDeviceMetricsOverride", {
        "width": 390, "height": 740, "deviceScaleFactor": 2, "mobile": True})
    cdp("Emulation.setEmulatedMedia", {
        "features": [{"name": "prefers-color-scheme", "value": "dark"}]})
    try:
        for name in ("all", "sweep", "change", "odd"):
            js = page(name)
            assert js("return document.documentElement.scrollWidth") <= 390
            # charts are drawn for this width, not made smaller
            assert js("return of('.chart svg').every(s => Math.abs(s.viewBox"
                      ".baseVal.width - s.clientWidth) < 2)")
            assert js("return getComputedStyle(document.body)"
                      ".backgroundColor") == "rgb(20, 23, 26)"
        assert len(cdp("Page.printToPDF", {})["data"]) > 20000
    finally:
        cdp("Emulation.clearDeviceMetricsOverride", {})
        cdp("Emulation.setEmulatedMedia", {"features": []})
