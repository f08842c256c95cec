// A diagnosis. D: what mr_diagnosis_json() says.

// What is not known is undefined, never 0. How long the job waits is known by
// the job; for which of two, if it was seen with everything in memory.
const au = known(D.as_f) ? D.au : undefined;
const prep = known(D.as_p) ? D.prep_stall : undefined;
const fetched = known(D.as_p) && known(D.as_f) ? D.fetch_stall : undefined;
const rate = known(D.as_f) || known(D.as_p) ? D.samples_per_s : undefined;
const who = D.command ? "workers" : "threads";
const share = v => v === undefined ? undefined : percent(v);

function summary() {
	if (rate === undefined)
		head("Diagnosis", "the accelerator takes " + (known(D.as_g) ? figure(D.as_g.mean) : "an unknown number of") +
			" samples/s; whether it waits for them was not measured");
	else
		head("Diagnosis", D.verdict.evidence, D.verdict.bottleneck);
	const job = known(D.as_f) ? "samples/s of the job" : "samples/s, with everything in memory";
	tiles([
		[rate === undefined ? undefined : figure(rate), "", job],
		[share(au), "", "accelerator utilisation (AU)"],
		[share(prep), "", "prep stall: waiting for the preparation"],
		[share(fetched), "", "fetch stall: waiting for the storage"],
	]);
	$("page").append(make("p", D.command ? "The command" : "The pipeline", { className: "dim" }));
	const pre = make("pre", undefined, { id: "pipeline" });
	pre.append(make("code", D.pipeline || D.command));
	$("page").append(pre);
}

function epoch() {
	const s = section("epoch", "An epoch of the accelerator");
	const waits = au === undefined ? 0 : 1 - au;
	const parts = [[1 - (au === undefined ? prep || 0 : waits), "compute", "computing"]];
	if (prep !== undefined)
		parts.push([prep, "prep", "waiting for the preparation"]);
	if (fetched !== undefined)
		parts.push([fetched, "fetch", "waiting for the storage"]);
	if (prep === undefined && au !== undefined)
		parts.push([waits, "other", "waiting; for what was not measured"]);
	const say = ([v, , what]) => what + ": " + percent(v) +
		(positive(D.epoch_seconds) ? ", " + time(v * D.epoch_seconds) : "");
	if (rate === undefined) {
		s.append(make("p", "How long the accelerator waits was not measured.", { className: "none" }));
		return;
	}
	if (positive(D.epoch_seconds))
		s.append(make("p", count(D.samples) + " samples in " + time(D.epoch_seconds) +
			(au === undefined ? ", with everything in memory" : ""), { className: "dim" }));
	stacked(s, parts.map(say).join("; "), parts.map(p => [p[0], p[1], say(p)]), 1);
	legend(s, parts.map(p => [p[1], say(p)]));
	if (fetched === undefined && prep !== undefined)
		s.append(make("p", "Waiting for the storage: " + UNKNOWN + ".", { className: "none" }));
}

function allRates() {
	const s = section("rates", "How fast each could be", "Samples per second; whiskers are 95 % intervals.");
	const rows = [
		["G", D.as_g, "the accelerator, fed with ready batches", "compute"],
		["P", D.p, "the preparation alone, everything in memory", "prep"],
		["S", D.s, "the storage alone, cold", "fetch"],
		["C", D.c, "reading alone, everything in memory", "other"],
		["G+P", D.as_p, "accelerator and preparation, in memory", "other"],
		["F", D.as_f, "all of it, from the storage: the job", "job"],
	];
	// An accelerator is as fast as it is said to be: that need not be measured.
	for (const r of rows)
		if (!D.command && known(D.as_g) && D.as_g.n === 1 && known(r[1]) && r[1].n === 1 && r[1].mean === D.as_g.mean)
			r[1] = { ...r[1], given: true };
	if (known(D.page))
		rows.push(["LRU", D.page, "the same with a page cache instead of \u201ccache ram=\u201d", "job"]);
	rates(s, rows);
}

function byThreads() {
	const list = D.points, s = section("threads", "Preparation by " + who);
	if (!list.length) {
		s.append(make("p", "P by " + who + ": " + UNKNOWN + ".", { className: "none" }));
		return;
	}
	const g = known(D.as_g) ? D.as_g.mean : Infinity, high = Math.max(...list.map(p => Math.max(p.rate.high, p.rate.mean)));
	const shown = g < 2 * high, most = (shown ? Math.max(high, g) : high) * 1.08 || 1;
	const label = list.map(p => p.threads + " " + who + ": " + figure(p.rate.mean) + " samples/s").join("; ");
	chart(s, label, (svg, w) => {
		const f = frame(svg, w, { low: Math.min(1, list[0].threads), high: list[list.length - 1].threads,
			values: list.map(p => p.threads), most, height: 240, xText: who, yText: "samples/s" });
		draw(svg, "polyline", { points: list.map(p => f.x(p.threads) + "," + f.y(p.rate.mean)).join(" "),
			fill: "none", stroke: "var(--prep)", "stroke-width": 2.5, class: "line" });
		for (const p of list) {
			whisker(svg, p.rate, f.y, f.x(p.threads), false);
			const c = draw(svg, "circle", { cx: f.x(p.threads), cy: f.y(p.rate.mean), r: 4, fill: "var(--prep)", class: "point" });
			draw(c, "title", {}, p.threads + " " + who + ": " + figure(p.rate.mean) + " (" + interval(p.rate) + ")");
		}
		if (shown)
			level(svg, f, g, "what the accelerator takes", "compute");
		return 240;
	});
	table(s, [
		[who, p => count(p.threads) + (p.threads === D.threads ? " (the job)" : "")],
		["samples/s", p => figure(p.rate.mean)],
		["95 % interval", p => interval(p.rate)],
	], list, p => p.threads === D.threads);
}

function remedies() {
	const s = section("remedies", "What would help", "Predicted, the best first.");
	const list = make("ol");
	if (!D.remedies.length)
		s.append(make("p", rate === undefined || (au === undefined ? prep : 1 - au) > .05 ?
			"Nothing that can be predicted from what was measured." :
			"Nothing: the accelerator has all it takes" + (au === undefined ? ", as far as was measured." : ".")));
	for (const r of D.remedies) {
		const li = make("li"), p = make("p");
		p.append(make("span", figure(r.gain) + "x", { className: "gain" }), ", " + figure(r.rate) + " samples/s: " + r.what);
		li.append(p);
		if (r.cost)
			li.append(make("p", "Costs " + r.cost + ".", { className: "dim" }));
		if (r.how)
			li.append(codeBlock(r.how));
		list.append(li);
	}
	s.append(list);
}

function steps() {
	const s = section("steps", "The steps", "Mean of one sample, on one thread. What is the same in each epoch may be stored after the step.");
	const most = Math.max(...D.steps.map(t => t.us), 0);
	if (!D.steps.length) {
		s.append(make("p", "The steps: " + UNKNOWN + ".", { className: "none" }));
		return;
	}
	const bar = t => {
		const svg = document.createElementNS(SVG, "svg");
		svg.setAttribute("viewBox", "0 0 100 10");
		svg.setAttribute("style", "width:100px;display:inline-block");
		svg.setAttribute("aria-hidden", "true");
		draw(svg, "rect", { x: 0, y: 0, width: most > 0 ? t.us / most * 100 : 0, height: 10, fill: "var(--prep)" });
		return svg;
	};
	table(s, [
		["step", (t, i) => i + " " + t.name, "text"],
		["\u00b5s", t => positive(t.us) ? figure(t.us) : undefined],
		["", bar, "text wide"],
		["bytes after it", t => positive(t.bytes_out) ? size(t.bytes_out) : undefined],
		["may be stored", t => t.fixed ? "yes" : "no", "text"],
	], D.steps);
}

function codecs() {
	const s = section("codecs", "Codecs", "Samples as stored, packed one by one.");
	if (!D.codecs.length)
		return s.append(make("p", "Codecs: " + UNKNOWN + ".", { className: "none" }));
	table(s, [
		["codec", c => c.name, "text"],
		["bytes before / after", c => positive(c.ratio) ? c.ratio.toFixed(2) : undefined],
		["unpacks, a second and thread", c => positive(c.unpack) ? size(c.unpack) : undefined],
	], D.codecs);
}

function ranks() {
	if (!D.ranks.length)
		return;
	const by = D.ranks.some(r => known(r.as_f)) ? "as_f" : D.ranks.some(r => known(r.as_p)) ? "as_p" : "as_g";
	const all = D.ranks.filter(r => known(r[by])), last = Math.min(...all.map(r => r[by].mean));
	const slowest = all.length > 1 ? all.find(r => r[by].mean === last) : undefined;
	const s = section("ranks", "Ranks", "Samples per second, with 95 % intervals. All wait for the slowest.");
	const name = r => {
		const e = make("span", String(r.rank));
		if (r === slowest)
			e.append(make("span", "slowest", { className: "tag" }));
		return e;
	};
	const cell = key => r => {
		if (!known(r[key]))
			return undefined;
		const e = make("span", figure(r[key].mean) + " ");
		e.append(make("small", "(" + interval(r[key]) + ")", { className: "dim" }));
		return e;
	};
	table(s, [["rank", name, "text"], ["G", cell("as_g")], ["G+P", cell("as_p")], ["F", cell("as_f")]],
		D.ranks, r => r === slowest);
}

function notes() {
	const s = section("notes", "Notes"), list = make("ul");
	if (!D.notes || !D.notes.length)
		return s.append(make("p", "None.", { className: "dim" }));
	for (const n of D.notes)
		list.append(make("li", String(n)));
	s.append(list);
}

function storage() {
	const l = D.limits || {}, said = [];
	if (!D.profile)
		return known(D.s) || known(D.as_f) ? "the one that is there" : undefined;
	if (l.bw > 0)
		said.push(size(l.bw) + "/s");
	if (l.stream > 0)
		said.push(size(l.stream) + "/s of a request");
	if (l.latency > 0)
		said.push("latency " + time(l.latency));
	if (l.iops > 0)
		said.push(count(l.iops) + " requests/s");
	return "imitated: " + D.profile + (said.length ? " (" + said.join(", ") + ")" : "");
}

function measuredOn() {
	const m = D.machine || {}, s = section("origin", "What was measured, and on what");
	const or = (v, text) => positive(v) ? text : undefined;
	facts(s, [
		["machine", [m.cpu, positive(m.cores) && count(m.cores) + " cores", positive(m.memory) && size(m.memory),
			m.kernel && "Linux " + m.kernel].filter(Boolean).join(", ") || "not known"],
		["Millrace", D.version || "not known"],
		["data set", count(D.samples) + " samples"],
		["a sample", or(D.sample_bytes, size(D.sample_bytes) + " read" +
			(positive(D.sample_requests) ? " by " + +D.sample_requests.toFixed(2) + (D.sample_requests.toFixed(2) === "1.00" ? " request" : " requests") : ""))],
		["a batch", count(D.batch) + " samples"],
		[who, count(D.threads) + (positive(D.cores) ? ", of " + count(D.cores) + " cores" : "")],
		["accelerator", (D.accelerator || "not known") + (positive(D.step_seconds) ? ", " + time(D.step_seconds) + " for a batch" : "")],
		["storage", storage()],
		["reads in flight", or(D.depth, String(+D.depth.toFixed(1)))],
		["cache", positive(D.cache_share) ? size(D.cache_bytes) + ", " + percent(D.cache_share) + " of the data set" : "none"],
		["measured on", or(D.sampled, count(D.sampled) + " of the samples")],
		["took", or(D.seconds, time(D.seconds))],
		["in memory while P was measured", D.warm_resident >= 0 && known(D.p) ? percent(D.warm_resident) + " of the bytes" : undefined],
	]);
}

summary();
epoch();
allRates();
remedies();
byThreads();
steps();
codecs();
ranks();
notes();
measuredOn();
start();
