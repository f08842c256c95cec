# SPDX-License-Identifier: Apache-2.0
"""The page of a tuning in a real browser."""
import base64
import ctypes
import json
import os

import pytest
from traces import BUILD, Err
from tunings import tuning

HOSTILE = ("files \"/d/<b>&amp;</script><script>var hacked = 1</script>\" "
           "labels='x' | batch 64")
TUNED = tuning()
CHARTS = {"tradeplot", "codecplot", "threadplot", "cacheplot",
          "measuredplot", "epochplot"}
OPEN = """const of = s => [...document.querySelectorAll(s)];
const column = (t, i) => of('#' + t + ' tbody tr').map(
    r => r.children[i].textContent);
"""
# What changes with the media is drawn with the next frame.
FRAMES = "requestAnimationFrame(() => requestAnimationFrame(arguments[0]))"
# What is told at a chart's first point, or where there is none.
POINT = """const [id, n, done] = arguments, chart = plots[id].chart;
const e = n ? chart.getDatasetMeta(0).data.at(-1) :
    {x: chart.chartArea.right - 2, y: chart.chartArea.top + 2};
const c = chart.canvas, b = c.getBoundingClientRect();
c.dispatchEvent(new MouseEvent('mousemove', {clientX: b.left + e.x,
    clientY: b.top + e.y, bubbles: true}));
requestAnimationFrame(() => requestAnimationFrame(() => {
    const t = chart.tooltip;
    done(t.opacity ? t.body.flatMap(b => b.lines).join('|') : '');
}));
"""


def write(text, to):
    library = ctypes.CDLL(str(BUILD / "src" / "libmillrace.so.0"))
    err = Err()
    code = library.mr_tuning_page(text.encode(), b"t.json", os.fsencode(to),
                                  ctypes.byref(err))
    return code, err.text.decode()


def one():
    d = TUNED
    best = dict(next(s for s in d["strategies"] if s["id"] == d["best"]))
    return d | {"strategies": [best], "shown": [best["id"]], "ties": [],
                "all_online": -1, "all_offline": -1, "break_even": []}


def zeros():
    """Rates, sizes and times of 0, and names that are missing."""
    d = tuning(measured=3, objective={"kind": "weights",
                                      "weights": [0, 1, 1]})
    for s in d["splits"]:
        del s["name"]
        s.update(curve=[], online_per_s=0, bytes=0)
    for s in d["strategies"]:
        s.update(after="", cache_after="", offline_s=0, storage_bytes=0,
                 added_bytes=0, warm_per_s=0, cold_per_s=0, first_epoch_s=0)
    return d


def cached():
    """Nothing is stored: what the source is read from stays in memory."""
    d = TUNED
    best = next(s for s in d["strategies"] if s["split"] < 0 and
                s["cache"] == "page")
    return d | {"best": best["id"], "ties": [], "prepare": "",
                "shown": [best["id"]], "all_online": -1,
                "answer": "all online, page cache"}


def mixture():
    """One of which two fifths are stored, and which no other is as fast as."""
    d = TUNED
    like = next(s for s in d["strategies"] if s["split"] == 2 and
                s["cache"] == "none" and s["codec"] == "none")
    one = like | {"id": len(d["strategies"]), "part": 0.4, "score": 1.1,
                  "cold_per_s": 1e6, "warm_per_s": 1e6}
    return d | {"strategies": [*d["strategies"], one],
                "shown": [one["id"], *d["shown"]], "best": one["id"]}


def spread():
    """Rates of nearly two decades, with long numbers."""
    d = tuning()
    for i, s in enumerate(s for s in d["strategies"] if "measured" in s):
        s["warm_per_s"] = s["predicted_per_s"] = s["measured"]["per_s"] = \
            850 * 1.43 ** i
        s["measured"]["low"] = s["measured"]["high"] = None
    return d


def large():
    d = tuning(exhaustive=True)
    d["strategies"] *= 3
    d["strategies"] = [s | {"id": i} for i, s in enumerate(d["strategies"])]
    return d


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    d = tmp_path_factory.mktemp("tunings")
    pages = {
        "all": TUNED | {"notes": ["<i>a note</i> & more", 7]},
        "hostile": TUNED | {"pipeline": HOSTILE, "text": HOSTILE,
                            "answer": HOSTILE, "prepare": HOSTILE},
        "predicted": tuning(measured=0), "one": one(), "zeros": zeros(),
        "cached": cached(), "mixture": mixture(),
        "spread": spread(),
        "none": TUNED | {"best": -1, "ties": [], "shown": [], "answer": "",
                         "text": "", "prepare": "", "run": "",
                         "break_even": [], "objective": {
                             "kind": "epochs", "max_storage": 1 << 20}},
        "bare": {"millrace": "tuning"}, "large": large(),
    }
    for name, what in pages.items():
        assert write(json.dumps(what), d / f"{name}.html") == (0, "")
    assert len(json.dumps(pages["large"])) > 1 << 20
    return d


@pytest.fixture
def page(browser, folder):
    """Opens a page from its file, or takes the one that is open; gives what
    runs a script in it. Tests that change a page open it anew."""
    def open_(name, anew=False):
        def js(text, *args):
            return browser.execute_script(OPEN + text, *args)
        if anew or not browser.current_url.endswith(f"{folder}/{name}.html"):
            browser.get(f"file://{folder}/{name}.html")
            assert js("return document.documentElement.dataset.ready") == \
                "yes"
        return js
    yield open_
    # also of what the page's policy refused
    assert browser.get_log("browser") == []


@pytest.fixture
def emulate(browser):
    def set_(width=0, media="", scheme="light"):
        cdp = browser.execute_cdp_cmd
        cdp("Emulation.setEmulatedMedia", {"media": media, "features": [
            {"name": "prefers-color-scheme", "value": scheme}]})
        if width:
            cdp("Emulation.setDeviceMetricsOverride", {
                "width": width, "height": 740, "deviceScaleFactor": 2,
                "mobile": True})
        else:
            cdp("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_async_script(FRAMES)
    yield set_
    set_()
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def texts(js, selector):
    return js("return of(arguments[0]).map(e => e.textContent"
              ".replaceAll('\\u00a0', ' '))", selector)


def colours(js, chart):
    """How many colours are within a chart's axes."""
    return js("""const c = plots[arguments[0]].chart, a = c.chartArea;
        const n = c.currentDevicePixelRatio, d = c.ctx.getImageData(n * a.left,
            n * a.top, n * a.width, n * a.height);
        return new Set(new Uint32Array(d.data.buffer)).size""", chart)


def check_drawn(js, missing=(), empty=()):
    words = js("return document.body.innerText")
    for wrong in ("NaN", "undefined", "Infinity", "null", "[object"):
        assert wrong not in words
    assert js("return performance.getEntriesByType('resource').length") == 0
    assert set(js("return of('.plot').map(p => p.id)")) == \
        CHARTS - set(missing)
    for chart in CHARTS - set(missing) - set(empty):
        # more than the background, the grid and its crossings
        assert colours(js, chart) > 4, chart


def test_a_tuning_of_a_megabyte_is_drawn(page):
    check_drawn(page("large"))


def test_zeros_and_missing_names_are_drawn(page):
    js = page("zeros")
    check_drawn(js, ["threadplot", "epochplot"], ["codecplot", "cacheplot"])
    assert "after step 2" in texts(js, "#splittable td")


def test_a_tuning_that_says_nothing_is_drawn(page):
    check_drawn(page("bare"), CHARTS)


def test_the_answer_and_its_commands_come_first(page):
    js, d = page("all"), TUNED
    check_drawn(js)
    assert texts(js, "#verdict")[0].lower() == d["answer"].lower() + "."
    assert texts(js, "#prepare code, #text code") == [d["prepare"],
                                                      d["text"]]
    run = texts(js, "#run code")[0]
    assert run == f"millrace run '{d['text']}' {d['run']}"
    js("of('#prepare button')[0].click()")
    assert js("return getSelection().toString()") == d["prepare"]
    assert texts(js, "#notes li") == ["<i>a note</i> & more", "7"]


def test_tooltips_tell_a_strategy_in_words(browser, page):
    def tip(chart, point=True):
        return browser.execute_async_script(POINT, chart, point)
    d = TUNED
    page("all")
    best = next(s for s in d["strategies"] if s["id"] == d["best"])
    told = tip("tradeplot")
    assert f"Strategy {d['best']}, chosen" in told
    assert f"stored after {best['after']}" in told and "samples/s" in told
    for chart, said in (("codecplot", "once, offline"),
                        ("cacheplot", "ram cache"),
                        ("threadplot", "threads: "),
                        ("measuredplot", "error"), ("epochplot", "epoch")):
        assert said in tip(chart), chart
    assert tip("tradeplot", False) == ""


def test_what_is_read_is_not_called_stored(browser, page):
    js = page("cached")
    check_drawn(js)
    assert texts(js, "#commands p")[0] == "Nothing has to be stored."
    tiles = dict(zip(texts(js, ".tile span"), texts(js, ".tile b")))
    assert tiles["stored for it"] == "0 B"
    told = browser.execute_async_script(POINT, "tradeplot", True)
    assert "0 B stored for it" in told and "read from 2.05 GB" in told
    assert js("""const c = plots.tradeplot.chart;
        return [c.options.scales.x.title.text.split(',')[0],
                c.data.datasets[0].data[0].s.added_bytes]""") == \
        ["stored for it", 0]
    by = dict(zip(texts(js, "#strategytable th"),
                  texts(js, "#strategytable .marked td")))
    assert by["stored for it"] == "0 B" and by["read from"] == "2.05 GB"


def test_totals_meet_where_they_break_even(page):
    js, d = page("all"), TUNED
    assert js("return of('#evens li').length") == len(d["break_even"]) > 1
    for b in d["break_even"]:
        a, b = js("""const t = i => totals(BY_ID.get(i)), b = arguments[0];
            return [b.a, b.b].map(i => t(i).from + b.epoch * t(i).each)""", b)
        assert a == pytest.approx(b)


def test_axes_are_logarithmic_where_values_are_far_apart(page):
    kind = "return plots.tradeplot.chart.scales.y.type"
    js = page("all")
    assert js(kind) == "logarithmic"
    front = js("""return plots.tradeplot.chart.data.datasets.find(
        d => d.label === 'front').data.map(p => [p.x, p.y])""")
    assert len(front) > 2 and front == sorted(front)
    assert [y for _, y in front] == sorted({y for _, y in front})
    js = page("one")
    check_drawn(js)
    assert js(kind) == "linear"


def test_hostile_text_is_shown_as_text(page):
    js = page("hostile")
    check_drawn(js)
    assert texts(js, "#text code, #pipeline") == [HOSTILE] * 2
    assert HOSTILE[1:] in texts(js, "#verdict")[0]
    assert js("return [typeof hacked, of('script').length, of('main b')"
              ".some(e => e.textContent.includes('amp'))]") == \
        ["undefined", 1, False]
    quoted = HOSTILE.replace("'", "'\\''")
    assert texts(js, "#run code")[0].startswith(f"millrace run '{quoted}' --")


def test_no_strategy_allowed_is_said(page):
    js = page("none")
    check_drawn(js)
    assert texts(js, "#verdict") == ["No strategy keeps to storage ≤ "
                                     "1.00 MB."]
    assert js("return of('#commands pre, .tile').length") == 0
    assert js("return of('#strategytable tbody tr').length") > 500


def test_charts_follow_what_is_chosen(page):
    js = page("all", anew=True)
    assert js("return +$('codecsplit').value") == 2
    before = js("return plots.codecplot.chart.data.datasets[1].data"
                ".map(p => p.v)")
    js("$('codecsplit').value = 1; $('codecsplit').onchange()")
    assert js("return plots.codecplot.chart.data.datasets[1].data"
              ".map(p => p.v)") != before
    js("$('threadhow').value = 'gain'; $('threadhow').onchange()")
    ideal = js("return plots.threadplot.chart.data.datasets.at(-1)")
    assert ideal["label"] == "ideal" and ideal["data"][-1]["y"] == 4
    js("of('#threads .keys button')[0].click()")
    assert js("return plots.threadplot.chart.isDatasetVisible(0)") is False
    assert js("return of('#threads .keys button')[0].ariaPressed") == "false"


def test_codecs_are_of_what_is_stored_and_named_once(page):
    js, d = page("all", anew=True), TUNED
    names = [c["codec"] for c in d["splits"][1]["codecs"]]
    assert js("return column('codectable', 1)") == names * 4
    assert "all online" not in js("return column('codectable', 0)")
    bars = js("return plots.codecplot.chart.data.labels")
    assert sorted(bars) == sorted(names)


def test_a_mixture_is_no_strategy_of_its_split(page):
    js = page("mixture")
    check_drawn(js)
    one = js("return D.best")
    assert texts(js, "#strategytable .marked td")[1] == "40 % after resize"
    assert one not in js("return perCodec(2).map(s => s.id)")
    assert js("return fastest(2, 'none', 'cold_per_s').id") != one


def test_an_epoch_is_the_first_thing_that_has_a_total(page):
    js = page("all", anew=True)
    first = js("""return plots.epochplot.chart.data.datasets.filter(
        d => d.data[0].t).map(d => [d.data[0].t.s.id, d.data[0].e,
                                    total_of(d.data[0])]);
        function total_of(p) { return p.t.from + p.t.each * p.e; }""")
    by = {s["id"]: s for s in TUNED["strategies"]}
    assert len(first) == len(TUNED["shown"])
    for i, e, total in first:
        assert e == 1 and total == pytest.approx(
            by[i]["offline_s"] + by[i]["first_epoch_s"])


def test_tables_are_sorted_by_click_and_key(browser, page):
    from selenium.webdriver.common.keys import Keys
    js = page("all", anew=True)

    def rates():
        return [float(t.replace(",", "")) for t in
                js("return column('strategytable', 4)")]
    assert texts(js, "#strategytable .marked .tag")[0] == "chosen"
    assert "marked" in js("return of('#strategytable tbody tr')[0].className")
    button = browser.find_elements("css selector",
                                   "#strategytable th button")[4]
    button.click()
    assert rates() == sorted(rates(), reverse=True) and len(rates()) > 5
    button.send_keys(Keys.ENTER)
    assert rates() == sorted(rates())
    assert js("return of('#strategytable th').map(t => t.ariaSort)")[:6] == \
        ["none"] * 4 + ["ascending", "none"]
    js("$('every').click(); of('#strategytable th button')[9].click()")
    measured = js("return column('strategytable', 9)")
    assert measured[:12].count("–") == 0 and measured[12:] == \
        ["–"] * (len(measured) - 12)
    js("of('#steptable th button')[0].click()")
    js("of('#steptable th button')[0].click()")
    assert js("return column('steptable', 0)")[0] == "5 normalize"
    for t in ("splittable", "codectable"):
        js("of('#' + arguments[0] + ' th button')[1].click()", t)
        assert js("return of('#' + arguments[0] + ' th')[1].ariaSort", t)


def test_strategies_are_found_by_words(page):
    js, d = page("all", anew=True), TUNED
    rows = "return of('#strategytable tbody tr').length"
    assert js(rows) == len(d["shown"])
    js("$('every').click()")
    assert js(rows) == len(d["strategies"])
    js("$('find').value = 'ZSTD-3 ram'; $('find').oninput()")
    want = sum(s["codec"].startswith("zstd-3") and s["cache"] == "ram"
               for s in d["strategies"])
    assert js(rows) == want > 0
    assert texts(js, "#found")[0].startswith(f"{want} of ")
    js("$('find').value = 'nothing like it'; $('find').oninput()")
    assert js(rows) == 0


def test_predictions_are_the_models_not_what_was_corrected(page):
    js = page("all", anew=True)
    got = {i: (x, y) for i, x, y in js("""return plots.measuredplot.chart.data
        .datasets.flatMap(d => d.data).filter(p => p.s).map(
            p => [p.s.id, p.x, p.y])""")}
    want = {s["id"]: s for s in TUNED["strategies"] if "measured" in s}
    assert got.keys() == want.keys()
    assert sum(x != y for x, y in got.values()) > 5
    for i, (x, y) in got.items():
        assert x == pytest.approx(want[i]["predicted_per_s"])
        assert y == pytest.approx(want[i]["measured"]["per_s"])
        assert abs(x / y - 1) == pytest.approx(want[i]["error"])
    assert texts(js, "#strategytable th")[8:11] == ["predicted", "measured",
                                                    "error"]
    said = [float(t.replace(",", "")) for t in
            texts(js, "#strategytable .marked td")[8:10]]
    assert said == pytest.approx(got[TUNED["best"]], rel=0.01)


def test_what_was_not_measured_is_said(page):
    assert "12 measured" in texts(page("all"), "#errors")[0]
    js = page("predicted")
    check_drawn(js, ["measuredplot"])
    assert "No strategy was measured" in texts(js, "#measured")[0]


def test_a_tuning_fits_a_phone(page, emulate):
    emulate(360)
    for name in ("hostile", "all", "spread"):
        js = page(name, anew=True)
        assert js("return document.documentElement.scrollWidth") <= 360
        assert js("return of('canvas').every(c => c.clientWidth <= 360)")
        gaps = js("""return Object.values(plots).flatMap(p => {
            const x = p.chart.scales.x, n = p.chart.ctx;
            n.font = Chart.helpers.toFont(x.options.ticks.font).string;
            const wide = t => n.measureText(t.label).width / 2;
            return x.type === 'category' ? [] : x.ticks.slice(1).map((t, i) =>
                x.getPixelForValue(t.value) - wide(t) - wide(x.ticks[i]) -
                x.getPixelForValue(x.ticks[i].value));
        })""")
        assert len(gaps) > 8 and min(gaps) > 0
    assert js("const b = $('strategytable').parentNode;"
              "return b.scrollWidth > b.clientWidth")


def test_colours_follow_the_theme_and_paper(browser, page, emulate):
    look = """return [getComputedStyle(document.body).backgroundColor,
        plots.tradeplot.chart.data.datasets.find(d => d.key).key,
        Chart.defaults.color]"""
    js = page("all")
    light = js(look)
    emulate(scheme="dark")
    night = js(look)
    assert night[0] == "rgb(20, 23, 26)"
    assert all(a != b for a, b in zip(light, night))
    emulate(scheme="dark", media="print")
    assert js(look)[:2] == light[:2]
    assert js("return getComputedStyle($('strategytable').parentNode)"
              ".overflow") == "visible"
    emulate(718, scheme="dark", media="print")  # of A4
    assert js("return $('strategytable').offsetWidth") <= 718
    emulate(scheme="dark")
    pdf = browser.execute_cdp_cmd("Page.printToPDF",
                                  {"printBackground": True})["data"]
    assert len(base64.b64decode(pdf)) > 100000
    # and back
    assert js(look) == night


@pytest.mark.parametrize("text", ["", "[]", "7", "{", "{}",
                                  '{"millrace": "diagnosis"}',
                                  '{"millrace": {"tuning": 1}}',
                                  '{"millrace": "tuning"}; alert(1)'])
def test_what_is_no_tuning_is_refused(tmp_path, text):
    code, said = write(text, tmp_path / "x.html")
    assert code < 0 and not (tmp_path / "x.html").exists()
    assert said == ("t.json is no tuning; want what `millrace tune --json` "
                    "wrote")
