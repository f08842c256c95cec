// A tuning. D: what `millrace tune --json` says. What is missing in it is not
// shown, or shown as not known.
const list = v => Array.isArray(v) ? v.filter(o => o !== null && typeof o === "object") : [];
const num = v => typeof v === "number" && isFinite(v) ? v : undefined;
const ALL = list(D.strategies), SPLITS = list(D.splits), STEPS = list(D.steps);
const BY_ID = new Map(ALL.map(s => [s.id, s]));
const BEST = BY_ID.get(D.best), GOAL = D.objective || {};
const SHOWN = (Array.isArray(D.shown) ? D.shown : []).map(i => BY_ID.get(i)).filter(Boolean);

// ---- words ----
const NAMES = new Map([...ALL.map(s => [s.split, s.after]), ...SPLITS.map(s => [s.split, s.name])].filter(n => n[1]));
function splitName(k, name) {
	return k < 0 ? "all online" : k === 0 ? "as read" : "after " + (name || NAMES.get(k) || "step " + k);
}
const codecName = c => c.codec || "none";
function cacheName(s) {
	if (s.cache !== "ram" && s.cache !== "page")
		return "no cache";
	const share = num(s.cache_share) > 0 ? " (" + percent(s.cache_share) + " of the samples)" : "";
	const bytes = num(s.cache_bytes) > 0 ? " of " + size(s.cache_bytes) : "";
	return s.cache === "page" ? "page cache" + bytes + share :
		"ram cache" + bytes + (s.cache_after ? " after " + s.cache_after : "") + share;
}
// Of a mixture, how many samples are stored; the others go through all steps
const mixed = s => s.part > 0 && s.part < 1;
const part = s => mixed(s) ? Math.round(100 * s.part) + " % " : "";
// A strategy, a line for each of what is stored, read and kept
function words(s) {
	const how = [s.order && "order " + s.order, num(s.threads) && count(s.threads) + (s.threads === 1 ? " thread" : " threads"),
		num(s.shards) > 1 && count(s.shards) + " shards"].filter(Boolean).join(", ");
	return [s.split < 0 ? "all online" : part(s) + "stored " + splitName(s.split, s.after) + ", codec " + codecName(s), how, cacheName(s)].filter(Boolean);
}
function short(s) {
	return [part(s) + splitName(s.split, s.after), s.split < 0 || (s.codec || "none") === "none" ? "" : codecName(s), s.order,
		s.cache === "ram" || s.cache === "page" ? s.cache + " cache" : ""].filter(Boolean).join(", ") + " (" + s.id + ")";
}

const took = v => v > 0 ? time(v) : "0 s";

//include tunetables.js
//include tunecharts.js

// ---- the answer ----
function limits() {
	const set = [["max_storage", "storage", size], ["max_prepare", "preparation", time], ["max_memory", "memory", size]];
	return set.filter(([key]) => num(GOAL[key]) > 0).map(([key, what, show]) => what + " \u2264 " + show(GOAL[key])).join(", ");
}
function goal() {
	if (GOAL.kind === "weights" && Array.isArray(GOAL.weights))
		return "weights of preparation time, storage, throughput: " + GOAL.weights.join(", ");
	return num(GOAL.epochs) > 0 ? "least " + (num(GOAL.price_hour) > 0 || num(GOAL.price_gb) > 0 ? "cost" : "time") + " of " + count(GOAL.epochs) +
		(GOAL.epochs === 1 ? " epoch" : " epochs") + " with the preparation" : undefined;
}
function summary() {
	const none = "no strategy " + (limits() ? "keeps to " + limits() : "can be chosen"), said = String(D.answer || "").replace(/\.$/, "");
	document.body.classList.add("broad");
	head("Tuning", BEST ? said || "chosen: " + words(BEST).join("; ") : none + (said ? ". " + said : ""), BEST ? "accelerator" : "cpu");
	if (!BEST)
		return;
	// What there would be without doing anything.
	const usual = D.baseline === undefined || D.baseline === D.best ? D.all_online : D.baseline;
	const online = usual === D.best ? undefined : BY_ID.get(usual);
	const from = online && online.cache === "page" ? " from the page cache" : "";
	const tile = (key, show, what) => {
		const v = num(BEST[key]), was = online && num(online[key]);
		return [v === undefined ? undefined : solid(show(v)), "", what, v === undefined || was === undefined ? undefined : solid(show(was))];
	};
	const epochs = num(GOAL.epochs) > 0 ? " for " + count(GOAL.epochs) + (GOAL.epochs === 1 ? " epoch" : " epochs") : "";
	tiles([
		tile("warm_per_s", figure, "samples/s" + (online ? ": all online" + from + ", chosen" : "")),
		tile("total_s", time, "total time" + epochs),
		[num(BEST.offline_s) === undefined ? undefined : took(BEST.offline_s), "", "prepared once, in"],
		[num(BEST.added_bytes) === undefined ? undefined : size(BEST.added_bytes), "", "stored for it"],
	]);
}
const quoted = text => "'" + text.replaceAll("'", "'\\''") + "'";
function commands() {
	const s = make("section", undefined, { id: "commands" }), text = String(D.text || ""), run = String(D.run || "");
	const put = (id, what, code) => {
		const pre = codeBlock(code);
		pre.id = id;
		s.append(make("p", what, { className: "dim" }), pre);
	};
	if (D.prepare)
		put("prepare", "Once, to store what does not change", String(D.prepare));
	else if (BEST)
		s.append(make("p", "Nothing has to be stored.", { className: "dim" }));
	if (text)
		put("text", "The pipeline from then on", text);
	if (run)
		put("run", "Run it", text && !run.startsWith("millrace") ? "millrace run " + quoted(text) + " " + run : run);
	$("page").append(s);
}

// ---- the end ----
function notes() {
	const all = Array.isArray(D.notes) ? D.notes : [];
	if (!all.length)
		return;
	const ul = make("ul");
	for (const n of all)
		ul.append(make("li", String(n)));
	section("notes", "Notes").append(ul);
}
function asked() {
	const s = section("origin", "What was asked, and on what it was measured"), code = make("code", String(D.pipeline || ""), { id: "pipeline" });
	const number = (v, show) => num(v) === undefined ? undefined : show(v);
	facts(s, [
		["pipeline", code],
		["asked for", goal()],
		["limits", limits() || "none"],
		["accelerator", num(GOAL.accelerator) > 0 ? figure(GOAL.accelerator) + " samples/s" : "not a limit"],
		["prices", num(GOAL.price_hour) > 0 || num(GOAL.price_gb) > 0 ? figure(GOAL.price_hour || 0) + " an hour, " + figure(GOAL.price_gb || 0) + " a GB" : "none"],
		["data set", number(D.samples, v => count(v) + " samples, batches of " + count(num(D.batch) || 0))],
		["threads", number(D.threads, v => count(v) + (num(D.cores) > 0 ? ", of " + count(D.cores) + " cores" : ""))],
		["storage", D.storage ? "imitated: " + D.storage : "the one that is there"],
		["memory for caches", number(D.memory, size)],
		["measured on", number(D.sampled, v => count(v) + " samples" + (num(D.precision) > 0 ? ", to " + percent(D.precision) : ""))],
		["took", number(D.seconds, time)],
	]);
}

summary();
commands();
tradeChart();
strategyTable();
epochChart();
codecChart();
threadChart();
cacheChart();
splitTable();
stepTable();
measuredChart();
notes();
asked();
drawPlots();
start();
