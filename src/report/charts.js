// What the pages of diagnoses and predictions share: texts, tables, charts.

// ---- elements ----
//include elements.js
function section(id, title, text) {
	const s = make("section", undefined, { id });
	s.append(make("h2", title));
	if (text)
		s.append(make("p", text, { className: "dim" }));
	$("page").append(s);
	return s;
}

// ---- numbers ----
const UNKNOWN = "not measured";
const count = n => Math.round(n).toLocaleString("en");
function figure(v) {
	if (typeof v !== "number")
		return "not known"; // JSON cannot say infinity
	return v >= 100 ? count(v) : v >= 10 ? v.toFixed(1) : v >= .01 || v === 0 ? v.toFixed(2) : v.toPrecision(2);
}
const percent = share => typeof share !== "number" ? "not known" : (100 * share).toFixed(1) + "\u00a0%";
function time(s) {
	return s >= 86400 ? figure(s / 86400) + " days" : s >= 5400 ? figure(s / 3600) + " h" :
		s >= 120 ? figure(s / 60) + " min" : s >= 1 ? figure(s) + " s" :
		s >= 1e-3 ? figure(s * 1e3) + " ms" : figure(s * 1e6) + " \u00b5s";
}
function size(b) {
	const unit = ["B", "KB", "MB", "GB", "TB", "PB"];
	let u = 0;
	for (; b >= 1024 && u < 5; u++)
		b /= 1024;
	return (u ? figure(b) : String(Math.round(b))) + " " + unit[u];
}
const known = f => !!f && f.n > 0;
const positive = v => typeof v === "number" && v > 0;
const interval = f => f.given ? "as given" : f.n > 1 ? figure(f.low) + " to " + figure(f.high) : "measured once, no interval";
const unknown = () => make("span", UNKNOWN, { className: "none" });

// ---- the head ----
const TONES = { accelerator: "compute", cpu: "prep", storage: "fetch" };
function head(title, sentence, bottleneck) {
	const v = make("p", sentence.charAt(0).toUpperCase() + sentence.slice(1) + ".", { id: "verdict", className: "verdict" });
	v.style.setProperty("--tone", "var(--" + (TONES[bottleneck] || "job") + ")");
	document.title = title + " \u2013 Millrace";
	$("page").append(make("h1", title), v);
}
// What is shown: [value or undefined, unit, what it is, what it was before]
function tiles(list) {
	const all = make("div", undefined, { id: "tiles", className: "tiles" });
	for (const [value, unit, what, before] of list) {
		const t = make("div", undefined, { className: "tile" });
		const b = make("b", undefined, { className: value === undefined ? "none" : "" });
		if (before !== undefined)
			b.append(make("small", before + " \u2192 "));
		b.append(value === undefined ? UNKNOWN : value);
		if (value !== undefined && unit)
			b.append(make("small", " " + unit));
		t.append(b, make("span", what));
		all.append(t);
	}
	$("page").append(all);
}
function codeBlock(text) {
	const pre = make("pre"), code = make("code", text), b = make("button", "copy", { type: "button" });
	const say = ok => { b.textContent = ok ? "copied" : "press Ctrl C"; setTimeout(() => b.textContent = "copy", 2000); };
	b.onclick = () => {
		const r = document.createRange();
		r.selectNodeContents(code);
		getSelection().removeAllRanges();
		getSelection().addRange(r);
		if (navigator.clipboard)
			navigator.clipboard.writeText(text).then(() => say(true), () => say(document.execCommand("copy")));
		else
			say(document.execCommand("copy"));
	};
	pre.className = "copied";
	pre.append(code, b);
	return pre;
}
function legend(where, entries) {
	const l = make("div", undefined, { className: "legend" });
	for (const [paint, text] of entries) {
		const e = make("span"), i = make("i");
		i.style.background = "var(--" + paint + ")";
		e.append(i, text);
		l.append(e);
	}
	where.append(l);
}
// Columns: title, what to show of a row (a text, an element, or undefined:
// it is not known), a class
function table(where, columns, rows, mark) {
	const t = make("table"), h = make("thead"), tr = make("tr"), body = make("tbody");
	for (const [title, , className = ""] of columns)
		tr.append(make("th", title, { scope: "col", className }));
	rows.forEach((r, i) => {
		const line = make("tr", undefined, { className: mark && mark(r, i) ? "marked" : "" });
		for (const [, show, className = ""] of columns) {
			const td = make("td", undefined, { className }), v = show(r, i);
			td.append(v === undefined ? unknown() : v);
			line.append(td);
		}
		body.append(line);
	});
	h.append(tr);
	t.append(h, body);
	const around = make("div", undefined, { className: rows.length > 30 ? "scroll long" : "scroll" });
	around.append(t);
	where.append(around);
	return t;
}
function facts(where, list) {
	const dl = make("dl");
	for (const [what, value] of list) {
		const dd = make("dd");
		dd.append(value === undefined ? unknown() : value);
		dl.append(make("dt", what), dd);
	}
	where.append(dl);
}

// ---- charts: drawn for the width that there is, again when it changes ----
const charts = [];
function chart(where, label, paint, more) {
	const box = make("div", undefined, Object.assign({ className: "chart" }, more));
	where.append(box);
	charts.push(() => {
		const w = Math.max(120, Math.round(box.clientWidth || 600));
		const svg = document.createElementNS(SVG, "svg");
		svg.setAttribute("role", "img");
		svg.setAttribute("aria-label", label);
		svg.setAttribute("viewBox", "0 0 " + w + " " + paint(svg, w));
		box.replaceChildren(svg);
	});
	return box;
}
function start() {
	const redraw = () => charts.forEach(c => c());
	let width = innerWidth;
	redraw();
	addEventListener("resize", () => {
		if (innerWidth !== width)
			redraw();
		width = innerWidth;
	});
	addEventListener("beforeprint", () => document.querySelectorAll("details").forEach(d => d.open = true));
	document.documentElement.dataset.ready = "yes";
}

// ---- scales ----
function ticks(low, high, wish) {
	const rough = (high - low) / Math.max(1, wish), power = Math.pow(10, Math.floor(Math.log10(rough)));
	const step = power * (rough / power > 5 ? 10 : rough / power > 2 ? 5 : rough / power > 1 ? 2 : 1), out = [];
	if (!(step > 0) || !isFinite(step))
		return [low];
	for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++)
		out.push(i * step);
	return out;
}
function powers(low, high, wish) {
	const out = [], a = Math.floor(Math.log10(low)), b = Math.ceil(Math.log10(high));
	const every = Math.max(1, Math.ceil((b - a) / Math.max(1, wish)));
	for (let p = a; p <= b; p += every)
		if (Math.pow(10, p) >= low * .999 && Math.pow(10, p) <= high * 1.001)
			out.push(Math.pow(10, p));
	return out;
}
const brief = v => v >= 1e9 ? +(v / 1e9).toPrecision(3) + "G" : v >= 1e6 ? +(v / 1e6).toPrecision(3) + "M" :
	v >= 1e5 ? +(v / 1e3).toPrecision(3) + "k" : v >= 1e3 ? count(v) : String(+v.toPrecision(3));

// One scale for figures that may lie far apart: { log, low, high, at(v) in
// 0..1 }
function rateScale(figures) {
	const means = figures.map(f => f.mean).filter(v => v > 0);
	const most = Math.max(...figures.map(f => Math.max(f.high, f.mean)), 0), least = Math.min(...means);
	const log = means.length > 1 && Math.max(...means) > 30 * least;
	const low = log ? Math.pow(10, Math.floor(Math.log10(least / 1.5))) : 0;
	const high = most > 0 ? most * (log ? 1.3 : 1.02) : 1;
	const place = v => log ? v > 0 ? Math.log(v / low) / Math.log(high / low) : 0 : v / high;
	return { log, low, high, at: v => Math.max(0, Math.min(1, place(v))) };
}

// ---- a stacked bar: [share, paint, text], the shares of `of` ----
function stacked(where, label, parts, of) {
	chart(where, label, (svg, w) => {
		const h = 34;
		let x = 0;
		for (const [share, paint, text] of parts) {
			const wide = Math.max(0, share / of * w);
			if (!(wide > 0))
				continue;
			const g = draw(svg, "g", {});
			draw(g, "rect", { x: x.toFixed(1), y: 0, width: wide.toFixed(1), height: h, class: "part", fill: "var(--" + paint + ")" });
			draw(g, "title", {}, text);
			x += wide;
		}
		return h;
	});
}

// ---- rates: [name, figure or null, what it is, paint] ----
function rates(where, rows) {
	const scale = rateScale(rows.map(r => r[1]).filter(known)), inset = 7;
	const x = (v, w) => inset + scale.at(v) * (w - 2 * inset);
	const marks = w => scale.log ? powers(scale.low, scale.high, w / 60) : ticks(0, scale.high, w / 80);
	const grid = (svg, w, h) => {
		for (const t of marks(w))
			draw(svg, "line", { x1: x(t, w), x2: x(t, w), y1: 0, y2: h, stroke: "var(--line)" });
	};
	for (const [name, f, what, paint] of rows) {
		const row = make("div", undefined, { className: "rate" }), p = make("p");
		p.append(make("b", name), known(f) ? figure(f.mean) + " " : unknown());
		if (known(f))
			p.append(make("small", "(" + interval(f) + ")", { className: "dim" }));
		p.append(make("span", what, { className: "what dim" }));
		row.append(p);
		where.append(row);
		const label = name + ": " + (known(f) ? figure(f.mean) + " samples/s, " + interval(f) : UNKNOWN);
		chart(row, label, (svg, w) => {
			const h = innerWidth > 640 ? 48 : 30, y = h / 2;
			svg.setAttribute("preserveAspectRatio", "none");
			grid(svg, w, h);
			if (!known(f))
				return h;
			draw(svg, "rect", { x: inset, y: y - 8, width: Math.max(1, x(f.mean, w) - inset), height: 16, class: "bar", fill: "var(--" + paint + ")" });
			whisker(svg, f, v => x(v, w), y, true);
			draw(svg, "title", {}, label);
			return h;
		}, { className: "" });
	}
	const last = make("div", undefined, { className: "rate" });
	last.append(make("p", "samples/s" + (scale.log ? ", logarithmic scale" : ""), { className: "dim" }));
	where.append(last);
	chart(last, "the scale of the bars", (svg, w) => {
		const list = marks(w);
		list.forEach((t, i) => draw(svg, "text", { x: x(t, w), y: 13, "text-anchor": x(t, w) > w - 20 ? "end" : x(t, w) < 20 ? "start" : "middle" }, brief(t)));
		return 18;
	}, { className: "axis" });
}
// The 95 % interval, lying or upright; none of what was measured once.
function whisker(svg, f, at, middle, lying) {
	if (f.n < 2)
		return;
	const a = at(f.low), b = at(f.high), g = draw(svg, "g", { class: "whisker", stroke: "var(--ink)", "stroke-width": 1.5 });
	const line = (p, q, r, s) => draw(g, "line", lying ? { x1: p, y1: q, x2: r, y2: s } : { x1: q, y1: p, x2: s, y2: r });
	line(a, middle, b, middle);
	line(a, middle - 5, a, middle + 5);
	line(b, middle - 5, b, middle + 5);
}

// ---- a frame with axes for what goes from left to right ----
// o: low, high, values (of the ticks below; else round ones), most, xText,
// yText, height, share: the ticks at the left are percents
function frame(svg, w, o) {
	const left = 52, right = 12, top = 24, bottom = 38, h = o.height;
	const span = o.high - o.low || 1;
	const x = v => o.high > o.low ? left + (v - o.low) / span * (w - left - right) : (left + w - right) / 2;
	const y = v => h - bottom - v / o.most * (h - top - bottom);
	draw(svg, "text", { x: 0, y: 12 }, o.yText);
	for (const t of ticks(0, o.most, (h - top - bottom) / 45)) {
		draw(svg, "line", { x1: left, x2: w - right, y1: y(t), y2: y(t), stroke: "var(--line)" });
		draw(svg, "text", { x: left - 6, y: y(t) + 4, "text-anchor": "end" }, o.share ? Math.round(100 * t) + " %" : brief(t));
	}
	let end = -1e9;
	for (const v of o.values || ticks(o.low, o.high, (w - left) / 70)) {
		if (x(v) - end < 34)
			continue;
		end = x(v);
		draw(svg, "line", { x1: end, x2: end, y1: h - bottom, y2: h - bottom + 4, stroke: "var(--dim)" });
		draw(svg, "text", { x: end, y: h - bottom + 17, "text-anchor": "middle" }, brief(v));
	}
	draw(svg, "text", { x: w - right, y: h - 4, "text-anchor": "end" }, o.xText);
	return { x, y, left, right: w - right, top, bottom: h - bottom };
}
// A level that is compared with, with its name above it at one end.
function level(svg, f, v, text, paint, end) {
	draw(svg, "line", { x1: f.left, x2: f.right, y1: f.y(v), y2: f.y(v), stroke: "var(--" + paint + ")", "stroke-dasharray": "6 4", "stroke-width": 1.5 });
	draw(svg, "text", { x: end ? f.right : f.left + 4, y: f.y(v) - 5, "text-anchor": end ? "end" : "start" }, text);
}
