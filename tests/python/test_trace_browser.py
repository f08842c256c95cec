# SPDX-License-Identifier: Apache-2.0
"""A trace in a real browser: the events for Chrome are read and checked by a
script of a page, the report is looked at, clicked and printed."""
import pytest
from traces import export, record

RULES = """
const done = arguments[0];
fetch("/t.json").then(r => r.json()).then(t => {
	const wrong = [], lanes = {}, flows = {}, open = {}, count = {};
	for (const e of t.traceEvents) {
		count[e.ph] = (count[e.ph] || 0) + 1;
		const lane = e.pid + "/" + e.tid;
		if (e.ph === "X")
			(lanes[lane] ||= []).push(e);
		if (e.ph === "s" || e.ph === "f") {
			const f = flows[e.id] ||= {};
			if (e.ph in f)
				wrong.push("flow " + e.id + " twice");
			f[e.ph] = e.ts;
		}
		if (e.ph === "b" && open[e.cat + e.id] !== undefined)
			wrong.push("id " + e.id + " twice");
		if (e.ph === "b")
			open[e.cat + e.id] = true;
		if (e.ph === "e" && open[e.cat + e.id] !== true)
			wrong.push("id " + e.id + " is not open");
		if (e.ph === "e")
			open[e.cat + e.id] = false;
	}
	for (const k in flows)
		if (!("s" in flows[k] && "f" in flows[k]))
			wrong.push("flow " + k + " has one end");
	for (const k in open)
		if (open[k])
			wrong.push(k + " stays open");
	const slack = 0.0005; // times are doubles here
	for (const k in lanes) {
		const around = [];
		let last = 0;
		for (const e of lanes[k]) {
			if (e.ts < last)
				wrong.push("back in time on " + k);
			last = e.ts;
			while (around.length && around.at(-1) <= e.ts + slack)
				around.pop();
			if (around.length && e.ts + e.dur > around.at(-1) + slack)
				wrong.push("overlap on " + k + " at " + e.ts);
			around.push(e.ts + e.dur);
		}
	}
	done([wrong.slice(0, 5), count]);
}).catch(e => done([[String(e)], {}]));
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    d = tmp_path_factory.mktemp("browser")
    record(d / "t.mrt", "synthetic 16,16,3 u8 count=400 cost=200us | normalize "
           "imagenet field=data | cast f16 | batch 16", "--threads", "2",
           "--sample", "2000")
    for kind in ("json", "html"):
        assert export(d / "t.mrt", d / f"t.{kind}") == (0, "")
    (d / "empty.html").write_text("<!doctype html><title>empty</title>"
                                    "<link rel='icon' href='data:,'>")
    return d


@pytest.fixture
def page(browser, served):
    browser.get(served[0] + "/t.html")
    yield browser
    assert browser.get_log("browser") == []
    assert served[1] == ["/t.html"]


def painted(browser, canvas):
    """Colours that are on a canvas."""
    return browser.execute_script("""
        const from = document.getElementById(arguments[0]);
        const c = document.createElement("canvas");
        c.width = from.width;
        c.height = from.height;
        const g = c.getContext("2d", {willReadFrequently: true});
        g.drawImage(from, 0, 0);
        const d = g.getImageData(0, 0, c.width, c.height);
        return new Set(new Uint32Array(d.data.buffer)).size;""", canvas)


def test_events_keep_the_formats_rules_in_a_browser(browser, served):
    browser.get(served[0] + "/empty.html")
    wrong, count = browser.execute_async_script(RULES)
    assert wrong == []
    assert count["X"] > 1200 and count["s"] == count["f"] == 25


def test_report_draws_its_charts_and_asks_for_nothing(page):
    js = page.execute_script
    assert js("return document.documentElement.dataset.ready") == "yes"
    assert painted(page, "overview") > 4 and painted(page, "timeline") > 4
    assert js("return document.querySelectorAll('#charts svg').length") == 3
    assert js("return document.querySelectorAll('#charts rect').length") > 20
    assert js("return document.querySelectorAll('#steps svg').length") >= 8
    assert js("return performance.getEntriesByType('resource').length") == 0


def test_counters_and_functions_of_the_steps_are_shown(page):
    def rows(table):
        return page.execute_script(
            "return [...document.querySelectorAll('#' + arguments[0] + ' tr')]"
            ".map(r => [...r.children].map(c => c.textContent))", table)

    head, *steps = rows("counters")
    assert [s[0] for s in steps] == ["read", "normalize", "cast"]
    assert all(s[1] == "400" for s in steps)
    clock = head.index("task-clock, \u00b5s")
    assert float(steps[0][clock].split()[0]) >= 100, steps
    told = page.execute_script("return $('counted').textContent")
    assert "sw-counted" in told
    assert "cycles hw-counted" in told or "unavailable: " in told

    head, *functions = rows("functions")
    assert head == ["share", "95 % interval", "samples", "function", "step"]
    counts = [int(f[2]) for f in functions]
    assert counts == sorted(counts, reverse=True) and sum(counts) > 20
    assert functions[0][4] == "read", functions[:3]


def test_tables_are_sorted_by_the_column_that_is_chosen(page):
    def column(i):
        return page.execute_script(
            "return [...document.querySelectorAll('#steps tbody tr')]"
            ".map(r => r.children[arguments[0]].textContent)", i)

    def choose(i):
        page.execute_script("document.querySelectorAll('#steps th button')"
                            "[arguments[0]].click()", i)

    def calls():
        return [int(v.replace(",", "")) for v in column(2)]

    choose(2)
    assert calls() == sorted(calls(), reverse=True) and len(set(calls())) > 1
    choose(2)
    assert calls() == sorted(calls())
    choose(0)
    assert column(0) == sorted(column(0))
    assert page.execute_script(
        "return document.querySelector('#steps th').ariaSort") == "ascending"


def test_timeline_zooms_moves_and_tells(page):
    js = page.execute_script
    n = js("return document.querySelectorAll('#window option').length")
    for i in range(n):
        js("const w = document.getElementById('window');"
           "w.value = arguments[0]; w.onchange({target: w});", i)
        assert painted(page, "timeline") > 3
    js("choose(0); for (let i = 0; i < 6; i++) $('in').click();")
    assert js("return span") == pytest.approx(js("return shown.ns") / 64)
    before = js("return from")
    js("$('timeline').dispatchEvent(new KeyboardEvent('keydown',"
       "{key: 'ArrowRight'}))")
    assert js("return from") > before
    js("$('fit').click()")
    assert js("return [from, span]") == [0, js("return shown.ns")]
    told = [js("""const box = $('timeline').getBoundingClientRect();
       $('timeline').dispatchEvent(new MouseEvent('click',
       {clientX: box.left + box.width * arguments[0],
        clientY: box.top + 10 + box.height * arguments[1]}));
       return $('said').textContent""", x / 10, y / 10)
            for x in range(1, 10) for y in range(9)]
    assert any("batch" in t for t in told), told


def test_report_fits_a_phone_and_a_dark_room(page):
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": True})
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {
        "features": [{"name": "prefers-color-scheme", "value": "dark"}]})
    try:
        js = page.execute_script
        assert js("return document.documentElement.scrollWidth") <= 360
        assert js("return getComputedStyle(document.body).backgroundColor") \
            == "rgb(20, 23, 26)"
        assert painted(page, "timeline") > 4
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_report_can_be_printed(page):
    pdf = page.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    assert len(pdf["data"]) > 20000
