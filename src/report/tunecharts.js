// The charts of a tuning, by Chart.js.

// ---- colours: of the theme that there is, on paper the light one ----
const root = document.documentElement;
const paper = matchMedia("print"), night = matchMedia("(prefers-color-scheme: dark)");
const dark = () => night.matches && !paper.matches && !root.classList.contains("printing");
const colour = name => getComputedStyle(root).getPropertyValue("--" + name).trim();
// none is near the colour of what is marked
const HUES = [210, 152, 275, 345, 48, 185, 100, 315, 240, 75];
const POINTS = ["circle", "triangle", "rect", "rectRot", "rectRounded"];
const PLACES = [...new Set([...SPLITS, ...ALL].map(s => s.split))].sort((a, b) => a - b);
function paint(i, alpha = 1) {
	const deep = Math.floor(i / HUES.length) % 3 * 9;
	return "hsla(" + HUES[i % HUES.length] + ", 62%, " + ((dark() ? 64 : 42) - deep) + "%, " + alpha + ")";
}
const splitPaint = (k, alpha) => paint(Math.max(0, PLACES.indexOf(k)), alpha);
function theme() {
	Object.assign(Chart.defaults, { color: colour("dim"), borderColor: colour("line"), animation: false,
		maintainAspectRatio: false, devicePixelRatio: Math.max(2, window.devicePixelRatio || 1) });
	Chart.defaults.font.family = "system-ui, sans-serif";
	Chart.defaults.datasets.scatter.clip = 10;
	Chart.defaults.plugins.legend.display = false;
	Object.assign(Chart.defaults.plugins.tooltip, { backgroundColor: colour("ink"), titleColor: colour("back"),
		bodyColor: colour("back"), footerColor: colour("back"), displayColors: false, footerFont: { weight: "normal" } });
}

// ---- a chart with its legend, whose entries hide and show ----
const plots = {};
function plot(where, id, label, config) {
	const all = make("figure"), keys = make("figcaption", undefined, { className: "keys" }), box = make("div", undefined, { className: "plot", id });
	const canvas = make("canvas"), hidden = new Set();
	canvas.setAttribute("role", "img");
	canvas.setAttribute("aria-label", label);
	box.append(canvas);
	all.append(keys, box);
	where.append(all);
	const p = plots[id] = { hidden, draw() {
		const c = config();
		if (p.chart)
			p.chart.destroy();
		for (const d of c.data.datasets)
			d.hidden = hidden.has(d.label || d.with);
		p.chart = new Chart(canvas, c);
		keys.replaceChildren(...c.data.datasets.filter(d => d.label).map(key));
	} };
	const key = d => {
		const b = make("button", undefined, { type: "button" }), i = make("i");
		i.style.background = d.key || d.borderColor;
		b.append(i, d.label);
		b.setAttribute("aria-pressed", !d.hidden);
		b.onclick = () => {
			if (!hidden.delete(d.label))
				hidden.add(d.label);
			p.draw();
			[...keys.children].find(k => k.textContent === d.label).focus();
		};
		return b;
	};
	return p;
}
function drawPlots() {
	const all = () => { theme(); Object.values(plots).forEach(p => p.draw()); };
	all();
	night.addEventListener("change", all);
	paper.addEventListener("change", () => root.classList.contains("printing") || all());
	addEventListener("beforeprint", () => {
		root.classList.add("printing");
		all();
		// for the width of a sheet
		Object.values(plots).forEach(p => p.chart.resize(660, 330));
	});
	addEventListener("afterprint", () => { root.classList.remove("printing"); all(); });
}

// ---- axes: from 0, or logarithmic where values lie far apart ----
function unitOf(values, units) {
	const most = Math.max(0, ...values.filter(isFinite));
	return units.find(u => most >= u[0] * u[2]) || units[units.length - 1];
}
const BYTES = [40, 30, 20, 10, 0].map((p, i) => [2 ** p, ["TB", "GB", "MB", "KB", "B"][i], 1]);
const TIMES = [[86400, "days", 2], [3600, "h", 2], [60, "min", 2], [1, "s", 1], [1e-3, "ms", 0]];
// What an axis has for the values: { at(v), scale, low, high }
function axis(values, title, units, linear) {
	const unit = units ? unitOf(values, units) : [1, ""];
	const all = values.map(v => v / unit[0]).filter(v => isFinite(v) && v >= 0), some = all.filter(v => v > 0);
	const most = Math.max(0, ...some), least = Math.min(most, ...some);
	const log = !linear && most > 20 * least, zero = log && all.length > some.length;
	const low = log ? least / (zero ? 3 : 1.3) : 0, high = most > 0 ? most * (log ? 1.3 : 1.06) : 1;
	const marks = wish => {
		const out = zero ? [low] : [], decades = Math.log10(high / low);
		for (let p = Math.floor(Math.log10(low)); p <= Math.log10(high); p++)
			for (const m of decades < 1 || decades * 3 < wish ? [1, 2, 5] : decades * 2 < wish ? [1, 3] : [1])
				if (m * 10 ** p >= (zero ? least * .99 : low) && m * 10 ** p <= high)
					out.push(m * 10 ** p);
		return out;
	};
	return { log, low, high, at: v => log && !(v > 0) ? low : v / unit[0], scale: {
		type: log ? "logarithmic" : "linear", min: low, max: high,
		title: { display: true, text: title + (unit[1] ? ", " + unit[1] : "") + (log ? " (logarithmic)" : "") },
		afterBuildTicks: a => {
			const wish = a.isHorizontal() ? a.chart.width / 80 : a.chart.height / 40;
			a.ticks = (log ? marks(wish) : ticks(0, high, wish)).map(value => ({ value }));
		},
		ticks: { callback: v => zero && v === low ? "0" : brief(v), maxRotation: 0 },
	} };
}
// No wider than a phone's chart
const wrapped = lines => lines.flatMap(text => text.match(/.{1,46}(\s|$)/g) || [text]);
// Points lie on each other, also the same strategy's: one is told.
function pointTips(lines) {
	let more = 0;
	return {
		filter: (item, i, all) => {
			const first = all.filter((a, n) => !a.raw.s || all.findIndex(b => b.raw.s === a.raw.s) === n);
			more = first.length - 1;
			return item === first[0];
		},
		callbacks: { title: () => "", label: c => wrapped(lines(c.raw)), footer: () => more > 0 ? "and " + count(more) + " more here" : "" },
	};
}
const near = { mode: "nearest", intersect: true };
const told = s => ["Strategy " + s.id + badges(s).map(b => ", " + b).join(""), ...words(s),
	figure(num(s.warm_per_s) || 0) + " samples/s, read from " + size(num(s.storage_bytes) || 0),
	size(num(s.added_bytes) || 0) + " stored for it, prepared in " + took(num(s.offline_s) || 0)];
const nothing = (s, text) => s.append(make("p", text, { className: "none" }));

// ---- storage against throughput ----
// What no other has both less stored and a higher rate than
function front(every) {
	const out = [];
	for (const s of [...every].sort((a, b) => a.added_bytes - b.added_bytes || b.warm_per_s - a.warm_per_s))
		if (!out.length || s.warm_per_s > out[out.length - 1].warm_per_s)
			out.push(s);
	return out;
}
function tradeChart() {
	const s = section("trade", "Storage against throughput", "A point is a strategy, full colour if no other beats it in speed, " +
		"preparation, memory and what is stored at once; a cross is beyond a limit. The line: the most samples/s for what is stored.");
	const every = ALL.filter(x => num(x.added_bytes) >= 0 && num(x.warm_per_s) >= 0);
	if (!every.length)
		return nothing(s, "There is no strategy to show.");
	plot(s, "tradeplot", "storage against samples per second of " + count(every.length) + " strategies", () => {
		const x = axis(every.map(v => v.added_bytes), "stored for it", BYTES), y = axis(every.map(v => v.warm_per_s), "samples/s");
		const at = v => ({ x: x.at(v.added_bytes), y: y.at(v.warm_per_s), s: v });
		const sets = [];
		if (every.includes(BEST))
			sets.push({ label: "chosen", data: [at(BEST)], pointStyle: "star", radius: 11, hoverRadius: 13, borderWidth: 3, borderColor: colour("mark") });
		sets.push({ label: "front", data: front(every.filter(v => v.allowed !== false)).map(at), showLine: true, stepped: "before",
			radius: 0, hitRadius: 0, borderColor: colour("ink"), borderWidth: 1.5, borderDash: [5, 3] });
		PLACES.forEach((k, i) => {
			const list = every.filter(v => v.split === k).sort((a, b) => !!b.pareto - !!a.pareto);
			const shade = v => splitPaint(k, v.pareto ? 1 : .3);
			if (list.length)
				sets.push({ label: splitName(k), key: splitPaint(k), data: list.map(at), backgroundColor: list.map(shade), borderColor: list.map(shade),
					pointStyle: list.map(v => v.allowed === false ? "crossRot" : POINTS[i % POINTS.length]),
					radius: list.map(v => v.pareto ? 6 : 4), hoverRadius: 8, hitRadius: 4 });
		});
		return { type: "scatter", data: { datasets: sets }, options: { interaction: near, scales: { x: x.scale, y: y.scale },
			plugins: { tooltip: pointTips(raw => told(raw.s)) } } };
	});
}

// ---- offline against online time, by codec ----
const epochTime = s => num(s.warm_per_s) > 0 && num(D.samples) > 0 ? D.samples / s.warm_per_s : undefined;
const byScore = (a, b) => (num(b.score) || 0) - (num(a.score) || 0);
// For each codec of a split, what is else like the split's best strategy
function perCodec(k) {
	const here = ALL.filter(s => s.split === k && !mixed(s)).sort(byScore), model = here.includes(BEST) ? BEST : here[0];
	const same = s => ["threads", "order", "cache", "cache_after"].every(key => s[key] === model[key]);
	return [...new Set(here.map(codecName))].map(c => {
		const list = here.filter(s => codecName(s) === c);
		return list.find(same) || list[0];
	}).sort((a, b) => codecName(a).localeCompare(codecName(b)));
}
function codecChart() {
	const s = section("codecs", "Codecs", "What a codec costs once, when the samples are packed, and in each epoch, when they are read; all else is the same.");
	const places = PLACES.filter(k => k >= 0 && ALL.some(v => v.split === k));
	const pick = make("select", undefined, { id: "codecsplit" }), label = make("label", "stored "), tools = make("p");
	for (const k of places)
		pick.append(make("option", splitName(k), { value: k }));
	pick.value = BEST && BEST.split >= 0 ? BEST.split : places[places.length - 1];
	label.append(pick);
	tools.append(label);
	if (!places.length)
		nothing(s, "No strategy stores anything.");
	else {
		s.append(tools);
		pick.onchange = plot(s, "codecplot", "time offline and time of an epoch by codec", () => {
			const list = perCodec(+pick.value), times = [...list.map(v => num(v.offline_s)), ...list.map(epochTime)].filter(v => v !== undefined);
			const y = axis(times, "time", TIMES), bar = (text, of, hue) => ({ label: text, borderColor: paint(hue), backgroundColor: paint(hue), maxBarThickness: 60,
				data: list.map(v => ({ x: codecName(v), y: of(v) === undefined ? null : y.at(of(v)), v: of(v), s: v })) });
			return { type: "bar", data: { labels: list.map(codecName), datasets: [bar("once, offline", v => num(v.offline_s), 1), bar("each epoch, online", epochTime, 0)] },
				options: { interaction: { mode: "index", intersect: false }, scales: { x: { grid: { display: false } }, y: y.scale }, plugins: { tooltip: { callbacks: {
					label: c => c.dataset.label + ": " + time(c.raw.v), footer: items => items.length ? wrapped(words(items[0].raw.s)) : "" } } } } };
		}).draw;
	}
	codecTable(s);
}

// ---- scaling with threads ----
function threadChart() {
	const s = section("threads", "Threads", "What is left to do online, by threads, with the samples in memory.");
	const curves = SPLITS.map(x => ({ x, points: list(x.curve).filter(p => num(p.threads) > 0 && num(p.per_s) >= 0) })).filter(c => c.points.length);
	if (!curves.length)
		return nothing(s, "Scaling with threads: " + UNKNOWN + ".");
	const how = make("select", undefined, { id: "threadhow" }), label = make("label", "show "), tools = make("p");
	how.append(make("option", "samples/s", { value: "rate" }), make("option", "speedup", { value: "gain" }));
	label.append(how);
	tools.append(label);
	s.append(tools);
	how.onchange = plot(s, "threadplot", "samples per second by threads for each split", () => {
		const gain = how.value === "gain", per = c => gain ? c.points[0].per_s / c.points[0].threads || 1 : 1;
		const most = Math.max(...curves.flatMap(c => c.points.map(p => p.threads)));
		const y = axis(curves.flatMap(c => c.points.map(p => p.per_s / per(c))).concat(gain ? [most] : []), gain ? "times one thread" : "samples/s");
		const x = axis([most], "threads");
		const sets = curves.map(c => ({ label: splitName(c.x.split, c.x.name), borderColor: splitPaint(c.x.split), backgroundColor: splitPaint(c.x.split),
			pointStyle: POINTS[PLACES.indexOf(c.x.split) % POINTS.length], radius: 4, showLine: true, borderWidth: 2,
			data: c.points.map(p => ({ x: p.threads, y: y.at(p.per_s / per(c)), p, c })) }));
		if (gain)
			sets.push({ label: "ideal", data: [...Array(41).keys()].map(n => most * n / 40).filter(n => n >= 1).map(n => ({ x: n, y: y.at(n) })), borderColor: colour("other"), showLine: true, radius: 0, hitRadius: 0, borderDash: [5, 4], borderWidth: 1.5 });
		x.scale.afterBuildTicks = a => { a.ticks = ticks(0, most, Math.min(most, a.chart.width / 60)).filter(v => v % 1 === 0).map(value => ({ value })); };
		return { type: "scatter", data: { datasets: sets }, options: { interaction: near, scales: { x: x.scale, y: y.scale }, plugins: { tooltip: pointTips(raw => raw.c ?
			[splitName(raw.c.x.split, raw.c.x.name), count(raw.p.threads) + " threads: " + figure(raw.p.per_s) + " samples/s"] : ["ideal"]) } } };
	}).draw;
}

// ---- cold, page cache, a cache of the application ----
function fastest(k, cache, key) {
	const every = ALL.filter(s => s.split === k && !mixed(s) && (s.cache || "none") === cache && num(s[key]) >= 0 && s.allowed !== false);
	return every.reduce((a, s) => !a || s[key] > a[key] ? s : a, undefined);
}
function cacheChart() {
	const s = section("caches", "Caches", "The fastest strategy of each split: nothing in memory, with the page cache, and with a cache of samples.");
	const kinds = [["cold", "none", "cold_per_s", 0], ["page cache", "page", "warm_per_s", 1], ["ram cache", "ram", "warm_per_s", 2]];
	const places = PLACES.filter(k => kinds.some(([, cache, key]) => fastest(k, cache, key)));
	if (!places.length)
		return nothing(s, "Caches: " + UNKNOWN + ".");
	plot(s, "cacheplot", "samples per second of each split by what is in memory", () => {
		const rows = kinds.map(([label, cache, key, hue]) => ({ label, key, hue, list: places.map(k => fastest(k, cache, key)) }));
		const y = axis(rows.flatMap(r => r.list.filter(Boolean).map(v => v[r.key])), "samples/s"), names = places.map(k => splitName(k));
		return { type: "bar", data: { labels: names, datasets: rows.map(r => ({ label: r.label, borderColor: paint(r.hue), backgroundColor: paint(r.hue), maxBarThickness: 60,
			data: r.list.map((v, i) => ({ x: names[i], y: v ? y.at(v[r.key]) : null, v: v && v[r.key], s: v })) })) },
		options: { interaction: { mode: "index", intersect: false }, scales: { x: { grid: { display: false } }, y: y.scale }, plugins: { tooltip: { callbacks: {
			label: c => c.raw.s ? wrapped([c.dataset.label + ": " + figure(c.raw.v) + " samples/s", short(c.raw.s)]) : "" } } } } };
	});
}

// ---- predicted against measured ----
const whiskers = { id: "whiskers", afterDatasetsDraw(chart) {
	const g = chart.ctx, { x, y } = chart.scales;
	chart.data.datasets.forEach((d, i) => chart.isDatasetVisible(i) && d.data.forEach(p => {
		if (!p.s || !(p.s.measured.low > 0) || !(p.s.measured.high > 0))
			return;
		g.strokeStyle = d.borderColor;
		g.lineWidth = 1;
		g.beginPath();
		g.moveTo(x.getPixelForValue(p.x), y.getPixelForValue(p.s.measured.low));
		g.lineTo(x.getPixelForValue(p.x), y.getPixelForValue(p.s.measured.high));
		g.stroke();
	}));
} };
function measuredChart() {
	const s = section("measured", "Predicted against measured", "Both of the samples that were looked at; predicted by the model alone. " +
		"The strategies\u2019 other rates are of the whole data set, and corrected by what was measured.");
	const every = ALL.filter(v => v.measured && num(v.measured.per_s) >= 0 && num(v.predicted_per_s) >= 0);
	if (!every.length)
		return nothing(s, "No strategy was measured as a whole: all rates are predicted.");
	const off = every.map(v => num(v.error)).filter(v => v !== undefined).sort((a, b) => a - b);
	if (off.length)
		s.append(make("p", count(every.length) + " measured. Error: " + percent(off[Math.floor(off.length / 2)]) + " in the middle, " + percent(off[off.length - 1]) +
			" at most; " + count(off.filter(v => v <= .15).length) + " within 15 %.", { id: "errors", className: "dim" }));
	plot(s, "measuredplot", "measured against predicted samples per second of " + count(every.length) + " strategies", () => {
		const values = every.flatMap(v => [v.predicted_per_s, v.measured.low || v.measured.per_s, v.measured.high || v.measured.per_s]);
		const x = axis(values, "predicted samples/s"), y = axis(values, "measured samples/s");
		// straight in both scales
		const ray = (k, label, dash) => ({ label, data: [x.log ? x.low : 0, x.high].map(v => ({ x: v, y: v * k })), showLine: true, radius: 0, hitRadius: 0, clip: 0,
			borderColor: colour("other"), borderWidth: 1.5, borderDash: dash });
		const sets = PLACES.map((k, i) => ({ label: splitName(k), borderColor: splitPaint(k), backgroundColor: splitPaint(k, .8), pointStyle: POINTS[i % POINTS.length], radius: 5, hoverRadius: 7,
			data: every.filter(v => v.split === k).map(v => ({ x: x.at(v.predicted_per_s), y: y.at(v.measured.per_s), s: v })) })).filter(d => d.data.length);
		return { type: "scatter", plugins: [whiskers], data: { datasets: [...sets, ray(1, "equal", []), ray(1.15, "\u00b1 15 %", [5, 4]), { ...ray(.85, "", [5, 4]), with: "\u00b1 15 %" }] },
			options: { interaction: near, scales: { x: x.scale, y: y.scale }, plugins: { tooltip: pointTips(raw => raw.s ? [...told(raw.s),
				"predicted " + figure(raw.s.predicted_per_s) + ", measured " + figure(raw.s.measured.per_s) + (raw.s.measured.high > 0 ? " (" + figure(raw.s.measured.low) + " to " + figure(raw.s.measured.high) + ")" : ", once") + ", error " + percent(raw.s.error)] : []) } } };
	});
}

// ---- total time by epochs ----
// { from, each }: the total of e epochs is from + e * each
function totals(s) {
	const epochs = num(GOAL.epochs), start = (num(s.offline_s) || 0) + (num(s.first_epoch_s) || 0);
	const each = epochs > 1 && num(s.total_s) >= start ? (s.total_s - start) / (epochs - 1) : epochTime(s);
	return each === undefined ? undefined : { s, each, from: start - (num(s.first_epoch_s) === undefined ? 0 : each) };
}
function epochChart() {
	const s = section("epochs", "Total time by epochs", "With the preparation; diamonds: from there on the one is done before the other.");
	const lines = (SHOWN.length ? SHOWN : [...ALL].sort(byScore).slice(0, 8)).map(totals).filter(Boolean), of = new Map(lines.map(t => [t.s.id, t]));
	if (!lines.length)
		return nothing(s, "There is no strategy to show.");
	const evens = list(D.break_even).filter(b => of.has(b.a) && of.has(b.b) && num(b.epoch) >= 0);
	const last = Math.max(2, num(GOAL.epochs) || 10, ...evens.map(b => Math.min(b.epoch * 1.3, 3 * (num(GOAL.epochs) || 10))));
	const total = (t, e) => t.from + t.each * e, sum = b => "From epoch " + figure(b.epoch) + " on, " + short(of.get(b.a).s) + " is ahead of " + short(of.get(b.b).s);
	plot(s, "epochplot", "total time by epochs of " + count(lines.length) + " strategies", () => {
		const y = axis(lines.map(t => total(t, last)), "total time", TIMES, true), x = axis([last / 1.06], "epochs");
		const marks = { label: "break-even", pointStyle: "rectRot", radius: 7, hoverRadius: 9, borderColor: colour("mark"), backgroundColor: colour("mark"),
			data: evens.filter(b => b.epoch <= last).map(b => ({ x: b.epoch, y: y.at(total(of.get(b.a), b.epoch)), b })) };
		const sets = lines.map((t, i) => ({ label: short(t.s), borderColor: paint(i), backgroundColor: paint(i), showLine: true, radius: 0, hitRadius: 6, borderWidth: t.s === BEST ? 3.5 : 1.5,
			data: [...Array(41).keys()].map(n => 1 + n * (last - 1) / 40).map(e => ({ x: e, y: y.at(total(t, e)), t, e })) }));
		return { type: "scatter", data: { datasets: marks.data.length ? [marks, ...sets] : sets }, options: { interaction: { mode: "nearest", intersect: false },
			scales: { x: x.scale, y: y.scale }, plugins: { tooltip: pointTips(raw => raw.b ? [sum(raw.b)] :
				["Strategy " + raw.t.s.id, ...words(raw.t.s), "after " + figure(raw.e) + " epochs: " + time(total(raw.t, raw.e))]) } } };
	});
	const ul = make("ul", undefined, { id: "evens" });
	for (const b of evens)
		ul.append(make("li", sum(b) + "."));
	s.append(ul);
}
