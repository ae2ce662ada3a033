/* SPDX-License-Identifier: MIT */
/* hits.js - the page of a recording: its hits, what is selected, and the tables that select. */
const hits = { n: 0 };
const TABLE_ROWS = 200;
/*
 * What is selected. place, code, thread: an index, or -1. value: a text, or null. range: [place,
 * column, least, most] of a number, or null. hit: the marked one.
 */
const state = { from: 0, to: 1, place: -1, code: -1, thread: -1, value: null, range: null, text: "",
	colorBy: "place", order: "time", hit: -1 };
/* The hits that fit, in the order of the list. */
let view = [];
let run, end;

/* Columns become arrays by hit; times were differences in nanoseconds. */
function readHits() {
	const c = data.columns;
	run = data.run;
	hits.n = c.time.length;
	hits.time = new Float64Array(hits.n);
	end = Math.max(run.duration_us, 1);
	/* Calls are in the order of their returns: the last one need not be the latest. */
	for (let i = 0, ns = 0; i < hits.n; i++) {
		ns += c.time[i];
		hits.time[i] = ns / 1000;
		end = Math.max(end, hits.time[i]);
	}
	for (const name of ["thread", "place", "code", "text", "number", "result", "stack", "later", "key", "by"])
		hits[name] = c[name] || null;
	hits.isFit = new Uint8Array(hits.n);
	state.to = end;
	hits.ranks = { place: ranks(hits.place), code: ranks(hits.code), thread: ranks(hits.thread) };
	hits.values = data.texts.map(t => /^[.[]/.test(t) ? t : t.split(" -> ").pop());
	hits.processes = new Set(data.threads.map(t => t[2])).size;
}
/* How often each index is used, and its rank by that: the colour goes by the rank. */
function ranks(column) {
	const times = new Map();
	for (const i of column) times.set(i, (times.get(i) || 0) + 1);
	const order = [...times].sort((a, b) => b[1] - a[1]).map(s => s[0]);
	return { order, times, rank: new Map(order.map((i, rank) => [i, rank])) };
}
function threadName(i) {
	const [name, tid, pid] = data.threads[i];
	return (name || "?") + "/" + tid + (hits.processes > 1 ? " of " + pid : "");
}
const nameOf = { place: i => data.places[i], code: i => data.codes[i][0], thread: threadName };
const colorOf = (by, i) => colors[hits.ranks[by].rank.get(i) % colors.length];
const hitColor = i => colorOf(state.colorBy, hits[state.colorBy][i]);
const isSeveral = () => data.places.length > 1;

/* By which hits are grouped: the call with its result, or the new value. */
function value(i) {
	return hits.key && hits.key[i] !== null ? data.texts[hits.key[i]] : hits.values[hits.text[i]];
}
function valueText(i) {
	return (isSeveral() && !run.is_calls ? data.places[hits.place[i]] + ": " : "") + value(i);
}
function changeText(i) {
	const by = hits.by && hits.by[i] !== null ? "  " + data.texts[hits.by[i]] : "";
	return (isSeveral() && !run.is_calls ? data.places[hits.place[i]] + ": " : "") +
		data.texts[hits.text[i]] + by + (hits.later && hits.later[i] ? " (read later)" : "");
}
const clockOf = i => run.has_clock ? clock(run.started_ms + hits.time[i] / 1000) : "";
function codeTitle(i) {
	const [, file, module] = data.codes[i];
	return (file ? " " + base(file) : "") + (module ? " in " + module : "");
}

/* For each pool which entries have the text that is searched; null: nothing is searched. */
let found = null;
function search() {
	const wanted = state.text.toLowerCase();
	const has = t => t !== null && String(t).toLowerCase().includes(wanted);
	if (!wanted) { found = null; return; }
	found = { text: data.texts.map(has), place: data.places.map(has),
		thread: data.threads.map((_, i) => has(threadName(i))),
		code: data.codes.map(c => has(c[0]) || has(c[1]) || has(c[2])) };
	found.stack = data.stacks.map(s => s.some(c => found.code[c]));
}
const isFound = i => !found || found.text[hits.text[i]] || found.place[hits.place[i]] ||
	found.thread[hits.thread[i]] || found.code[hits.code[i]] || found.stack[hits.stack[i]] ||
	!!(hits.by && hits.by[i] !== null && found.text[hits.by[i]]);

/* Is the hit selected? A table leaves out its own selection and shows all of its rows. */
function fits(i, without) {
	const s = state, r = s.range;
	return hits.time[i] >= s.from && hits.time[i] <= s.to &&
		(s.place < 0 || without === "place" || hits.place[i] === s.place) &&
		(s.code < 0 || without === "code" || hits.code[i] === s.code) &&
		(s.thread < 0 || without === "thread" || hits.thread[i] === s.thread) &&
		(s.value === null || without === "value" || valueText(i) === s.value) &&
		(!r || without === "range" || hits.place[i] === r[0] && hits[r[1]][i] !== null &&
			hits[r[1]][i] >= r[2] && hits[r[1]][i] <= r[3]) && isFound(i);
}
function select() {
	view = [];
	/* Once for each change: all that is drawn asks for it. */
	for (let i = 0; i < hits.n; i++) {
		hits.isFit[i] = fits(i);
		if (hits.isFit[i]) view.push(i);
	}
	if (state.order !== "time")
		view.sort((a, b) => (hits.number[b] ?? -Infinity) - (hits.number[a] ?? -Infinity));
}

/* --- tables: each row selects --- */
function sums(key, without) {
	const by = new Map();
	for (let i = 0; i < hits.n; i++)
		if (fits(i, without)) {
			const k = key(i);
			by.set(k, (by.get(k) || 0) + 1);
		}
	return [...by].sort((a, b) => b[1] - a[1]);
}
function choose(what, i) {
	const none = what === "value" || what === "range" ? null : -1;
	state[what] = String(state[what]) === String(i) ? none : i;
	changed();
}
/* cells: of an index, what is shown. */
function drawTable(what, head, list, cells) {
	const total = list.reduce((n, s) => n + s[1], 0) || 1, most = list.length ? list[0][1] : 1;
	const rows = list.slice(0, TABLE_ROWS).map(([i, n]) => node("tr", {
		class: i === state[what] ? "on" : "", onclick: () => choose(what, i) },
		node("td", { class: "n" }, String(n)),
		node("td", { class: "n" }, (100 * n / total).toFixed(1) + " %"),
		node("td", { class: "mono wide" }, ...cells(i), node("br"), node("span", { class: "length",
			style: `height:3px;width:${Math.max(1, 100 * n / most)}%` }))));
	$(what + "_table").replaceChildren(node("thead", {}, node("tr", {},
		node("th", { class: "n" }, "hits"), node("th", { class: "n" }, "share"),
		node("th", {}, head))), node("tbody", {}, ...rows));
	$(what + "_more").textContent = list.length > TABLE_ROWS ?
		`the first ${TABLE_ROWS} of ${list.length}; the search finds the others` : "";
}
function drawTables() {
	const marked = by => i => [state.colorBy === by ? dot(colorOf(by, i)) : null, nameOf[by](i)]
		.filter(c => c);
	if (isSeveral())
		drawTable("place", run.is_calls ? "function" : "variable",
			sums(i => hits.place[i], "place"), marked("place"));
	drawTable("code", run.is_calls ? "caller" : "code", sums(i => hits.code[i], "code"),
		i => [...marked("code")(i), dim(codeTitle(i))]);
	drawTable("thread", "thread", sums(i => hits.thread[i], "thread"), marked("thread"));
	drawTable("value", run.is_calls ? "call" : "new value", sums(valueText, "value"), v => [v]);
}

/* --- what the selection is, and how it ends --- */
function drawChips() {
	const chip = (text, end) => node("button", { title: "remove this filter", onclick: end }, text + " ×");
	const list = [];
	for (const by of ["place", "code", "thread"])
		if (state[by] >= 0) list.push(chip(nameOf[by](state[by]), () => choose(by, state[by])));
	if (state.value !== null) list.push(chip(state.value, () => choose("value", state.value)));
	if (state.range) list.push(chip(rangeText(state.range), () => choose("range", state.range)));
	if (state.from > 0 || state.to < end)
		list.push(chip(`${time(state.from)} to ${time(state.to)}`, () => {
			state.from = 0;
			state.to = end;
			changed();
		}));
	$("filters").replaceChildren(...list);
	$("filters").hidden = !list.length;
	$("shown").textContent = view.length === hits.n ? count(hits.n, "hit") :
		`${view.length.toLocaleString("en")} of ${count(hits.n, "hit")}`;
}
function drawLegend() {
	const by = state.colorBy, order = hits.ranks[by].order, most = colors.length;
	$("legend").replaceChildren(...order.slice(0, most).map(i => node("button", {
		class: state[by] === i ? "on" : "", title: nameOf[by](i), onclick: () => choose(by, i) },
		dot(colorOf(by, i)), nameOf[by](i))),
		order.length > most ? dim(`and ${order.length - most} more, with the same colours`) : "");
}
function drawDetail() {
	const i = state.hit;
	if (i < 0) return;
	const list = data.stacks[hits.stack[i]], frames = list.length ? list : [hits.code[i]];
	const row = (name, text) => text ? [node("dt", {}, name), node("dd", { class: "mono" }, text)] : [];
	$("detail").replaceChildren(node("dl", {}, ...row("hit", "#" + i), ...row("thread", threadName(hits.thread[i])),
		...row("time", time(hits.time[i]) + " after the start"),
		...row("clock", run.has_clock ? day(run.started_ms + hits.time[i] / 1000) + " " + clockOf(i) : ""),
		...row(run.is_calls ? "call" : "value", changeText(i))),
		node("ol", { class: "stack mono", start: 0 }, ...frames.map(p => {
			const [name, file, , inlined] = data.codes[p];
			return node("li", { title: file }, name, dim((inlined ? " inlined" : "") + " " + codeTitle(p)));
		})), list.length ? "" : dim("no stack was recorded"));
}
function changed() {
	select();
	drawTimeline();
	drawTables();
	drawHistograms();
	drawList();
	drawChips();
	drawLegend();
}
/* Marks a hit; the list scrolls to it. */
function mark(i, keepsAddress) {
	state.hit = i;
	if (!keepsAddress) history.replaceState(null, "", "#hit=" + i);
	showInList(i);
	drawDetail();
	drawTimeline();
}

/* --- the page --- */
function about() {
	return [run.type, run.is_calls ? run.description : run.is_several ? "" :
		`${run.len} bytes at ${run.address}`, `${run.process || "process"} (${run.pid})`,
		run.has_clock ? day(run.started_ms) + " " + clock(run.started_ms).slice(0, 8) : ""]
		.filter(t => t).join(" · ");
}
function tiles() {
	const sum = lost => run.counts.filter(c => !!c[2] === lost).reduce((n, c) => n + c[1], 0);
	const names = lost => run.counts.filter(c => !!c[2] === lost && c[1]).map(c =>
		`${c[0]} ${c[1]}`).join(", ");
	const list = [tile(data.total.toLocaleString("en"), "hits"), tile(time(run.duration_us), run.reason),
		tile(data.threads.length, data.threads.length === 1 ? "thread" : "threads"),
		tile(hits.ranks.code.order.length, run.is_calls ? "callers" : "places of code"),
		tile(sum(false).toLocaleString("en"), "rejected" + (names(false) ? ": " + names(false) : "")),
		tile(sum(true).toLocaleString("en"), "lost" + (names(true) ? ": " + names(true) : ""), sum(true) > 0)];
	if (run.paused_us > 0)
		list.push(tile(time(run.paused_us), "paused: hits in that time were not seen", true));
	return node("div", { class: "tiles" }, ...list);
}
function footText() {
	const sum = lost => run.counts.filter(c => !!c[2] === lost).reduce((n, c) => n + c[1], 0);
	return `taken ${run.taken} = rejected ${sum(false)} + delivered ${run.delivered} + lost ` +
		`${sum(true)}; mechanism: ${run.mechanism}` +
		(run.cost_ns >= 0 ? `, about ${(run.cost_ns / 1000).toFixed(1)} µs a hit` : "") +
		(run.is_calls ? "; the duration of a call includes the cost of its breakpoints" : "");
}
function controls() {
	const choices = ["place", "thread", "code"].filter(by => by !== "place" || isSeveral());
	const label = { place: run.is_calls ? "function" : "variable", thread: "thread",
		code: run.is_calls ? "caller" : "code" };
	state.colorBy = choices[0];
	return node("section", { class: "card bar" },
		node("input", { type: "search", id: "search", placeholder: "search values, threads, functions, files",
			"aria-label": "search", oninput: soon(() => { state.text = $("search").value; search(); changed(); }) }),
		node("label", {}, "colour by ", node("select", { id: "color_by", onchange: e => {
			state.colorBy = e.target.value;
			changed();
		} }, ...choices.map(by => node("option", { value: by }, label[by])))),
		node("b", { id: "shown" }), node("button", { id: "all", onclick: showAll }, "show all"));
}
function showAll() {
	Object.assign(state, { from: 0, to: end, place: -1, code: -1, thread: -1, value: null, range: null, text: "" });
	$("search").value = "";
	search();
	changed();
}
function tableCard(what, title) {
	return card(title, node("small", {}, "a click selects"), node("div", { class: "scroll" },
		node("table", { id: what + "_table" })), node("small", { class: "dim", id: what + "_more" }));
}
/* page.html#hit=12 */
function markFromAddress() {
	const wanted = Number((location.hash.match(/^#hit=(\d+)$/) || [])[1] ?? -1);
	if (wanted < 0 || !hits.n) return;
	const i = Math.min(wanted, hits.n - 1);
	if (!fits(i)) showAll();
	mark(i, true);
}
pages.run = () => {
	readHits();
	document.title = `${run.what} - trapline`;
	$("main").append(node("header", {}, node("h1", { id: "what" }, run.what),
		node("p", {}, about())), tiles());
	if (data.total > hits.n)
		$("main").append(node("p", { class: "note", id: "limit" }, `This page has the first ` +
			`${count(hits.n, "hit")} of ${data.total.toLocaleString("en")}: its size is limited. ` +
			`The forms json and trace have all.`));
	$("main").append(controls(), timelineCard(), node("div", { class: "two" }, listCard(),
		card("Hit", node("small", {}, "a click on a hit, or the arrow keys, choose one"),
			node("div", { id: "detail" }))),
		node("div", { class: "fold" }, ...isSeveral() ? [tableCard("place", run.is_calls ? "Functions" :
			"Variables")] : [], tableCard("code", run.is_calls ? "Callers" : "Code"),
			tableCard("thread", "Threads"), tableCard("value", run.is_calls ? "Calls" : "Values")),
		histogramCard(), node("p", { class: "dim" }, footText()),
		node("pre", { class: "dim mono", id: "notes" }, run.notes || ""));
	state.hit = hits.n ? 0 : -1;
	changed();
	drawDetail();
	markFromAddress();
	window.onhashchange = markFromAddress;
};
