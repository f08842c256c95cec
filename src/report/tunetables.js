// Tables that are sorted by a column's button; what is not known comes last.

// A number stays with its unit.
const solid = v => typeof v === "string" && /^[\d.,]+ \S+$/.test(v) ? v.replace(" ", "\u00a0") : v;

// Columns: title, value of a row, how to show it (a text or an element), a
// class. Returns { show(rows) }, which keeps the order that was chosen.
function sortable(where, id, columns, rows, mark) {
	const t = make("table", undefined, { id, className: "data" }), head = make("thead"), row = make("tr"), body = make("tbody");
	const lines = new Map();
	let by = -1, down = true, now = rows;
	const line = r => {
		const tr = make("tr", undefined, { className: mark && mark(r) ? "marked" : "" });
		for (const [, value, show, className = ""] of columns) {
			const td = make("td", undefined, { className }), v = value(r);
			td.append(v === undefined ? make("span", "\u2013", { className: "none", title: UNKNOWN }) : /text/.test(className) ? show(v, r) : solid(show(v, r)));
			tr.append(td);
		}
		lines.set(r, tr);
		return tr;
	};
	const order = (a, b) => {
		const x = columns[by][1](a), y = columns[by][1](b);
		if (x === undefined || y === undefined)
			return (x === undefined) - (y === undefined);
		const less = typeof x === "string" ? x.localeCompare(y, "en", { numeric: true }) : x - y;
		return down ? -less : less;
	};
	const fill = () => {
		[...row.children].forEach((th, i) =>
			th.setAttribute("aria-sort", i !== by ? "none" : down ? "descending" : "ascending"));
		body.replaceChildren(...(by < 0 ? now : [...now].sort(order)).map(r => lines.get(r) || line(r)));
	};
	columns.forEach(([title, , , className = ""], i) => {
		const th = make("th", undefined, { scope: "col", className }), b = make("button", title, { type: "button" });
		b.onclick = () => {
			down = by === i ? !down : !/text/.test(className);
			by = i;
			fill();
		};
		th.append(b);
		row.append(th);
	});
	head.append(row);
	t.append(head, body);
	const around = make("div", undefined, { className: rows.length && rows.length < 16 ? "scroll" : "scroll long", tabIndex: 0 });
	around.setAttribute("role", "region");
	around.setAttribute("aria-label", where.querySelector("h2").textContent);
	around.append(t);
	where.append(around);
	fill();
	return { show: list => { now = list; fill(); } };
}

function badges(s) {
	const list = [];
	if (s.id === D.best)
		list.push("chosen");
	if (Array.isArray(D.ties) && D.ties.includes(s.id))
		list.push("tie");
	if (s.id === D.all_online)
		list.push("all online");
	if (s.id === D.all_offline)
		list.push("all offline");
	if (s.allowed === false)
		list.push("beyond a limit");
	return list;
}

function strategyColumns() {
	const number = key => s => num(s[key]), rate = v => figure(v);
	const some = key => ALL.some(s => num(s[key]) > 0);
	const named = (v, s) => {
		const e = make("span", String(v));
		for (const b of badges(s))
			e.append(make("span", b, { className: b === "beyond a limit" ? "tag faint" : "tag" }));
		return e;
	};
	const kept = s => s.cache === "ram" || s.cache === "page" ? s.cache + (num(s.cache_share) >= 0 ? ", " + percent(s.cache_share) : "") : "none";
	return [
		["no.", number("id"), named],
		["stored", number("split"), (v, s) => part(s) + splitName(v, s.after), "text"],
		["codec", s => s.split < 0 ? "" : codecName(s), String, "text"],
		["cache", kept, String, "text"],
		["samples/s", number("warm_per_s"), rate],
		["total time", number("total_s"), took],
		["stored for it", number("added_bytes"), size],
		["prepared in", number("offline_s"), took],
		["predicted", number("predicted_per_s"), rate],
		["measured", s => s.measured ? num(s.measured.per_s) : undefined, rate],
		["error", s => s.measured ? num(s.error) : undefined, percent],
		["cold samples/s", number("cold_per_s"), rate],
		["read from", number("storage_bytes"), size],
		["order", s => s.order || "", String, "text"],
		["threads", number("threads"), count],
		some("memory_bytes") && ["memory", number("memory_bytes"), size],
		some("cost") && ["cost", number("cost"), rate],
		["score", number("score"), v => v.toFixed(2)],
		["Pareto front", s => s.pareto ? "yes" : "no", String, "text"],
	].filter(Boolean);
}

function strategyTable() {
	const s = section("strategies", "Strategies", "Rates and times are of the whole data set, corrected by what was measured; " +
		"predicted (by the model alone) and measured are of the samples that were looked at. The columns\u2019 names sort.");
	if (!ALL.length)
		return s.append(make("p", "None.", { className: "none" }));
	const tools = make("div", undefined, { className: "tools" });
	const find = make("input", undefined, { type: "search", id: "find", placeholder: "zstd ram block" });
	const every = make("input", undefined, { type: "checkbox", id: "every", checked: !SHOWN.length });
	const label = make("label", "with the words "), other = make("label"), said = make("span", "", { id: "found", className: "dim" });
	said.setAttribute("aria-live", "polite");
	label.append(find);
	other.append(every, " all " + count(ALL.length));
	tools.append(label, other, said);
	s.append(tools);
	const rest = ALL.filter(x => !SHOWN.includes(x)).sort((a, b) => (num(b.score) || 0) - (num(a.score) || 0));
	const sets = { false: SHOWN, true: SHOWN.concat(rest) };
	const texts = new Map(ALL.map(x => [x, ("#" + x.id + " " + words(x).join(" ") + " " + badges(x).join(" ")).toLowerCase()]));
	const grid = sortable(s, "strategytable", strategyColumns(), [], x => x === BEST);
	const fill = () => {
		const wanted = find.value.toLowerCase().split(/\s+/).filter(Boolean);
		const rows = sets[every.checked].filter(x => wanted.every(w => texts.get(x).includes(w)));
		said.textContent = count(rows.length) + " of " + count(ALL.length);
		grid.show(rows);
	};
	find.oninput = every.onchange = fill;
	fill();
}

function splitTable() {
	const s = section("splits", "Splits", "What a sample is if it is stored there, and how fast what is left to do online is.");
	if (!SPLITS.length)
		return s.append(make("p", "None.", { className: "none" }));
	sortable(s, "splittable", [
		["split", x => x.split, (v, x) => splitName(x.split, x.name), "text"],
		["bytes of a sample", x => num(x.bytes), size],
		["prepared, samples/s", x => num(x.offline_per_s) || undefined, figure],
		["online, samples/s", x => num(x.online_per_s), figure],
		["from cold storage, samples/s", x => num(x.cold_per_s) || undefined, figure],
	], SPLITS, x => BEST && x.split === BEST.split);
}

function codecTable(s) {
	const rows = SPLITS.filter(x => x.split >= 0).flatMap(x => list(x.codecs).map(c => ({ ...c, at: x })));
	if (!rows.length)
		return s.append(make("p", "No codec was tried.", { className: "none" }));
	const chosen = r => BEST && r.at.split === BEST.split && codecName(r) === codecName(BEST);
	// 0: it takes no time
	const speed = key => r => num(r[key]) || undefined;
	sortable(s, "codectable", [
		["split", r => r.at.split, (v, r) => splitName(r.at.split, r.at.name), "text"],
		["codec", codecName, String, "text"],
		["bytes before / after", r => num(r.ratio), v => v.toFixed(2)],
		["packs, MB/s", speed("pack_mb_s"), figure],
		["unpacks, MB/s", speed("unpack_mb_s"), figure],
	], rows, chosen);
}

function stepTable() {
	const s = section("steps", "Steps", "Microseconds of one thread for a sample.");
	if (!STEPS.length)
		return s.append(make("p", "Steps: " + UNKNOWN + ".", { className: "none" }));
	const rows = STEPS.map((x, i) => ({ ...x, i }));
	sortable(s, "steptable", [
		["step", r => r.i, (v, r) => v + " " + (r.name || ""), "text"],
		["mean", r => num(r.us), figure],
		["p50", r => num(r.p50_us), figure],
		["p99", r => num(r.p99_us), figure],
		["bytes after it", r => num(r.bytes_out), size],
		["may be stored", r => r.fixed ? "yes" : "no", String, "text"],
	], rows);
}
