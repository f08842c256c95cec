// A prediction. D: asked (what is different), diagnosis, whatif (what
// mr_whatif() says).
const W = D.whatif, G = D.diagnosis, SWEEP = W.sweep;
const NAMES = { accelerator: "the accelerator", cpu: "the preparation", storage: "the storage",
	balanced: "several that are about equally fast" };
const UNITS = { cache: " % of the data set in the cache", cores: " threads that prepare",
	accelerator: " samples/s of the accelerator", nodes: " nodes" };
const AXES = { cache: "cache, % of the data set", cores: "threads that prepare",
	accelerator: "samples/s of the accelerator", nodes: "nodes" };
const plain = v => String(+v.toPrecision(6));
const unit = v => plain(v) + (SWEEP.of === "nodes" && v === 1 ? " node" : UNITS[SWEEP.of]);
const knee = SWEEP ? SWEEP.points.findIndex(p => p[SWEEP.of] === SWEEP.knee) : -1;
// All of the first sections compare now with this.
const then = SWEEP ? SWEEP.points[knee >= 0 ? knee : SWEEP.points.length - 1] : W;
// Where that is: without a knee, the end of the sweep.
const WHERE = knee >= 0 ? "at the knee" : SWEEP ? "at the end" : "predicted";

function asked() {
	const a = D.asked, list = [];
	if (a.cache)
		list.push((a.page_cache ? "a page cache of " : "a cache of ") + a.cache);
	else if (a.page_cache)
		list.push("a page cache instead of \u201ccache ram=\u201d");
	if (a.cores > 0)
		list.push(count(a.cores) + " threads");
	if (a.storage)
		list.push("the storage " + a.storage);
	if (a.accelerator)
		list.push(/x$/.test(a.accelerator) ? "an accelerator " + a.accelerator + " as fast" : "the accelerator " + a.accelerator);
	if (a.compress)
		list.push("samples packed with " + a.compress);
	if (a.nodes > 0)
		list.push(count(a.nodes) + " nodes");
	return list.join(", ");
}
const times = () => positive(W.now.samples_per_s) ?
	(then.samples_per_s / W.now.samples_per_s).toFixed(2) + "x of what it is now" : "";
function sentence() {
	const what = asked(), rate = figure(then.samples_per_s) + " samples/s, " + times();
	const limit = "; " + NAMES[then.bottleneck] + " would set the pace";
	if (!SWEEP)
		return (what ? "with " + what : "as it is") + ": " + rate + limit;
	const at = (what ? "with " + what + ", " : ""), place = unit(then[SWEEP.of]);
	if (knee < 0)
		return at + "the rate still rises at " + place + ", where the sweep ends: " + rate + limit;
	// Nothing more to gain is not all there is to gain.
	const waits = 1 - then.au > .05 ? "; the accelerator still waits for " + percent(1 - then.au) + " of the time" : "";
	if (knee === 0)
		return at + "more than " + place + " gains nothing: " + rate + limit + waits;
	return at + "from " + place + " on nothing " + (waits ? "more " : "") + "is gained: " + rate + limit + waits;
}

function summary() {
	const now = W.now, at = WHERE;
	head("What if", sentence(), then.bottleneck);
	tiles([
		[figure(then.samples_per_s), "", "samples/s: now, " + at, figure(now.samples_per_s)],
		[percent(then.au), "", "accelerator utilisation (AU)", percent(now.au)],
		[percent(then.prep_stall), "", "prep stall: waiting for the preparation", percent(now.prep_stall)],
		[percent(then.fetch_stall), "", "fetch stall: waiting for the storage", percent(now.fetch_stall)],
	]);
	const pre = make("pre", undefined, { id: "pipeline" });
	pre.append(make("code", W.pipeline));
	$("page").append(make("p", G.command ? "The command" : "The pipeline", { className: "dim" }), pre);
}

// ---- now and then ----
const PARTS = [["compute", "computing", o => o.au], ["prep", "waiting for the preparation", o => o.prep_stall],
	["fetch", "waiting for the storage", o => o.fetch_stall]];
function epochs() {
	const s = section("epochs", "An epoch, now and " + WHERE);
	const long = o => positive(o.samples_per_s) ? G.samples / o.samples_per_s : undefined;
	const most = Math.max(long(W.now) || 0, long(then) || 0);
	for (const [name, o] of [["now, as modelled", W.now], [SWEEP ? "with " + unit(then[SWEEP.of]) : "predicted", then]]) {
		const t = long(o);
		s.append(make("p", name + ": " + (t === undefined ? "not known" : time(t))));
		if (t !== undefined)
			stacked(s, name, PARTS.map(([paint, what, of]) => [of(o) * t, paint,
				what + ": " + percent(of(o)) + ", " + time(of(o) * t)]), most);
	}
	legend(s, PARTS.map(([paint, what]) => [paint, what]));
}
function compared() {
	const s = section("compared", "Side by side");
	const m = { samples_per_s: known(G.as_f) || known(G.as_p) ? G.samples_per_s : undefined,
		au: known(G.as_f) ? G.au : undefined, prep_stall: known(G.as_p) ? G.prep_stall : undefined,
		fetch_stall: known(G.as_p) && known(G.as_f) ? G.fetch_stall : undefined,
		bottleneck: G.verdict.bottleneck, g: known(G.as_g) ? G.as_g.mean : undefined, p: known(G.p) ? G.p.mean : undefined,
		s: known(G.s) ? G.s.mean : undefined, hits: G.cache_share };
	const three = [m, W.now, then];
	const show = (key, how, zero) => three.map(o => typeof o[key] === "number" && (zero || o[key] > 0) ? how(o[key]) : undefined);
	const rows = [
		["samples/s", ...show("samples_per_s", figure)],
		["accelerator utilisation (AU)", ...show("au", percent, true)],
		["prep stall", ...show("prep_stall", percent, true)],
		["fetch stall", ...show("fetch_stall", percent, true)],
		["sets the pace", ...three.map(o => o.bottleneck)],
		["found in the cache", ...show("hits", percent, true)],
		["G, the accelerator", ...show("g", figure)],
		["P, the preparation", ...show("p", figure)],
		["S, the storage", ...show("s", figure)],
	];
	table(s, [["", r => r[0], "text"], ["measured", r => r[1]], ["modelled", r => r[2]],
		[WHERE, r => r[3]]], rows);
	if (then.beyond)
		s.append(make("p", "More threads than were measured: an extrapolation.", { className: "dim" }));
}

// ---- a sweep ----
function sayPoint(p) {
	return unit(p[SWEEP.of]) + ": " + figure(p.samples_per_s) + " samples/s, AU " + percent(p.au) +
		", prep stall " + percent(p.prep_stall) + ", fetch stall " + percent(p.fetch_stall) +
		", paced by " + NAMES[p.bottleneck] + (p.beyond ? ", more threads than were measured" : "");
}
function rateOver(svg, w, o) {
	const list = SWEEP.points, f = frame(svg, w, o), xy = p => f.x(p[SWEEP.of]) + "," + f.y(p.samples_per_s);
	// Beyond what was measured it is dashed.
	const edge = list.findIndex(p => p.beyond), sure = edge < 0 ? list : list.slice(0, edge);
	const line = { fill: "none", stroke: "var(--job)", "stroke-width": 2.5, "stroke-linejoin": "round" };
	draw(svg, "polyline", { ...line, points: sure.map(xy).join(" "), class: "line" });
	if (edge >= 0)
		draw(svg, "polyline", { ...line, points: list.slice(Math.max(0, edge - 1)).map(xy).join(" "), "stroke-dasharray": "7 5", class: "line" });
	if (list.length <= 60)
		for (const p of list)
			draw(svg, "circle", { cx: f.x(p[SWEEP.of]), cy: f.y(p.samples_per_s), r: 2.5, fill: "var(--job)", class: "point" });
	level(svg, f, W.now.samples_per_s, "now", "other", true);
	if (knee >= 0) {
		const p = list[knee], x = f.x(p[SWEEP.of]), g = draw(svg, "g", { class: "knee" });
		draw(g, "line", { x1: x, x2: x, y1: f.top, y2: f.bottom, stroke: "var(--mark)", "stroke-dasharray": "3 3", "stroke-width": 1.5 });
		draw(g, "circle", { cx: x, cy: f.y(p.samples_per_s), r: 6, fill: "var(--mark)" });
		draw(g, "text", { x: x > w / 2 ? x - 8 : x + 8, y: f.bottom - 8, class: "strong", "text-anchor": x > w / 2 ? "end" : "start" },
			"knee: " + plain(SWEEP.knee) + (SWEEP.of === "cache" ? " %" : ""));
	}
	return f;
}
function sharesOver(svg, w, o) {
	const list = SWEEP.points, f = frame(svg, w, { ...o, most: 1, share: true, yText: "share of an epoch" });
	let below = list.map(() => 0);
	for (const [paint, what, of] of PARTS) {
		const above = list.map((p, i) => Math.min(1, below[i] + of(p)));
		const at = (i, v) => f.x(list[i][SWEEP.of]).toFixed(1) + "," + f.y(v).toFixed(1);
		const up = above.map((v, i) => at(i, v)), back = below.map((v, i) => at(i, v)).reverse();
		const one = list.length > 1 ? { points: up.concat(back).join(" ") } :
			{ points: [[-8, below[0]], [8, below[0]], [8, above[0]], [-8, above[0]]].map(([dx, v]) => f.x(list[0][SWEEP.of]) + dx + "," + f.y(v)).join(" ") };
		draw(draw(svg, "polygon", { ...one, fill: "var(--" + paint + ")", class: "area" }), "title", {}, what);
		below = above;
	}
	return f;
}
// Tells of the point under a finger, the mouse, or the arrow keys.
function tells(svg, f, w, said) {
	const list = SWEEP.points, mark = draw(svg, "line", { y1: f.top, y2: f.bottom, stroke: "var(--ink)", visibility: "hidden" });
	let now = knee >= 0 ? knee : list.length - 1;
	const show = i => {
		now = Math.max(0, Math.min(list.length - 1, i));
		const x = f.x(list[now][SWEEP.of]);
		mark.setAttribute("x1", x);
		mark.setAttribute("x2", x);
		mark.setAttribute("visibility", "visible");
		said.textContent = sayPoint(list[now]);
	};
	const near = e => {
		const box = svg.getBoundingClientRect(), x = (e.clientX - box.left) / box.width * w;
		let best = 0;
		list.forEach((p, i) => { if (Math.abs(f.x(p[SWEEP.of]) - x) < Math.abs(f.x(list[best][SWEEP.of]) - x)) best = i; });
		show(best);
	};
	svg.setAttribute("tabindex", 0);
	svg.addEventListener("pointermove", near);
	svg.addEventListener("pointerdown", near);
	svg.addEventListener("keydown", e => {
		const by = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
		if (!by)
			return;
		e.preventDefault();
		show(now + by);
	});
}
function sweep() {
	const list = SWEEP.points, s = section("sweep", "Samples per second by " + AXES[SWEEP.of]);
	const o = { low: list[0][SWEEP.of], high: list[list.length - 1][SWEEP.of], xText: AXES[SWEEP.of], yText: "samples/s", height: 280,
		most: Math.max(W.now.samples_per_s, ...list.map(p => p.samples_per_s)) * 1.08 || 1 };
	const said = make("p", sayPoint(then), { className: "said", id: "said" });
	said.setAttribute("aria-live", "polite");
	const both = paint => (svg, w) => {
		tells(svg, paint(svg, w, o), w, said);
		return o.height;
	};
	chart(s, "samples per second over " + AXES[SWEEP.of] + "; " + sentence(), both(rateOver), { id: "ratechart" });
	s.append(said);
	if (list.some(p => p.beyond))
		s.append(make("p", "Dashed: more threads than were measured, an extrapolation.", { className: "dim" }));
	legend(s, PARTS.map(([paint, what]) => [paint, what]));
	chart(s, "shares of an epoch over " + AXES[SWEEP.of], both(sharesOver), { id: "sharechart" });
	const all = make("details", undefined, { open: list.length <= 30 });
	all.append(make("summary", "All " + list.length + " points"));
	s.append(all);
	table(all, [
		[SWEEP.of === "cache" ? "cache, %" : SWEEP.of, p => plain(p[SWEEP.of])],
		["samples/s", p => figure(p.samples_per_s)],
		["prep", p => percent(p.prep_stall)],
		["fetch", p => percent(p.fetch_stall)],
		["AU", p => percent(p.au), "wide"],
		["pace", p => p.bottleneck + (p.beyond ? " *" : ""), "text"],
	], list, (p, i) => i === knee);
}

summary();
if (SWEEP)
	sweep();
epochs();
compared();
start();
