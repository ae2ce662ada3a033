/* SPDX-License-Identifier: MIT */
/* findings.js - the page of races or errors of the heap: each with its sides. */
const wanted = { text: "", grade: "" };

function sourceOf(side) {
	const lines = data.sources[side.file + ":" + side.line];
	if (!lines) return null;
	return node("pre", { class: "source mono" }, ...lines.lines.map((text, k) => node("span", {
		class: lines.first + k === side.line ? "on" : "" },
		dim(String(lines.first + k).padStart(5) + "  "), text || " ")));
}
function frameText(f) {
	if (!f.function && f.module) return f.module + "+" + f.module_offset;
	return (f.function || "?") + (Number.isFinite(f.offset) && f.offset ? "+0x" + f.offset.toString(16) : "");
}
function stackOf(stack) {
	return node("ol", { class: "stack mono", start: 0 }, ...stack.map(f => node("li", { title: f.file || "" },
		frameText(f), dim((f.inlined ? " inlined" : "") + (f.file ? ` ${base(f.file)}:${f.line}` : "") +
		(f.module ? " in " + f.module : "")))));
}
function side(title, of) {
	return node("div", { class: "side" }, node("h3", {}, title), node("div", { class: "mono" },
		of.function || (of.stack && of.stack[0] ? frameText(of.stack[0]) : of.ip) || "?", dim((of.file ? ` ${base(of.file)}:${of.line}` : "") +
		(of.module ? " in " + of.module : "") + (of.via ? ` through ${of.via}` : ""))), sourceOf(of), stackOf(of.stack || []));
}
const threadOf = of => of.thread ? `${of.thread}/${of.tid}` : `thread ${of.tid}`;
function sideCard(title, of) {
	if (!of) return node("div", { class: "side" }, node("h3", {}, title),
		dim("the other access was not seen: its value changed meanwhile"));
	return side(`${title}: ${of.locked ? "locked " : ""}${of.access} by ${of.thread || "?"}/${of.tid}`, of);
}
function cardOf(f, i, title, small, facts, sides) {
	return node("section", { class: "card race", id: data.kind + "_" + i, "data-grade": f.grade }, node("h2", {},
		node("span", { class: "grade " + f.grade }, f.grade), title, dim(small)),
		node("dl", {}, ...[...facts, ["seen", f.count > 1 ? f.count + " times" : "once"], ["fingerprint", f.fingerprint]]
			.filter(fact => fact[1]).flatMap(([name, text]) =>
				[node("dt", {}, name), node("dd", { class: "mono" }, String(text))])),
		node("div", { class: sides.length > 2 ? "sides three" : "sides" }, ...sides));
}
const bytes = n => `${n} byte${n === 1 ? "" : "s"}`;
/* `3 bytes into a block of 64 bytes`. */
function whereIn(error) {
	const block = error.block || {}, at = block.offset, size = block.size;
	if (!Number.isFinite(at) || !Number.isFinite(size)) return error.address || "";
	return (at < 0 ? bytes(-at) + " before " : at === size ? "directly after " :
		at > size ? bytes(at - size) + " after " : bytes(at) + " into ") +
		`a block of ${bytes(size)} at ${block.address}`;
}
function errorCard(error, i) {
	const first = error.first, block = error.block || {}, what = first.access ? first.access +
		(error.size ? ` of ${bytes(error.size)}` : "") + (first.in_system_call ? " by a system call" : "") : "";
	const sides = [[first.tid ? first : null, what || "found"], [block.allocated, "allocated"], [block.freed, "freed"]];
	return cardOf(error, i, error.kind, what, [["memory", whereIn(error)]],
		sides.filter(([of]) => of).map(([of, title]) => side(`${title} by ${threadOf(of)}`, of)));
}
function raceCard(race, i) {
	const facts = [["memory", [race.address, race.size ? `${race.size} bytes` : "", race.memory].filter(t => t).join(", ")],
		["value", race.old === null || race.old === undefined ? "" : `${race.old} -> ${race.new}`], ["why", race.why],
		["also", (race.also || []).length ? `${race.also.length} more pairs of lines of this variable: ` +
			race.also.slice(0, 20).map(a => [a.first, a.second].map(s => `${base(s.file || "?")}:${s.line || "?"}`)
				.join(" / ")).join(", ") + (race.also.length > 20 ? ", ..." : "") : ""]];
	const block = race.block;
	return cardOf(race, i, race.variable || race.address || "?", race.kind, facts,
		[sideCard("first", race.first), sideCard("second", race.second),
			...(block && block.allocated ? [side(`the block: ${block.size} bytes, allocated by ${threadOf(block.allocated)}`,
				block.allocated)] : [])]);
}
/* What the two kinds of page differ in. */
const searches = {
	race: { one: "race", title: "Races", card: raceCard, none: "No race is in this file.",
		tiles: s => [...["stalls", "runs", "processes"].map(name => [s[name], name]),
			[s.sites_total ? `${s.sites_covered} of ${s.sites_total}` : null, "sites tested"]] },
	heap: { one: "error", title: "Errors of the heap", card: errorCard, none: "No error of the heap is in this file.",
		tiles: s => [[s.sampled, "blocks tested"], [s.processes, "processes"], [s.lost || null, "not tested"]] },
};
function drawFound() {
	let shown = 0;
	data.found.forEach((f, i) => {
		const fit = (!wanted.grade || f.grade === wanted.grade) &&
			(!wanted.text || f.searched.includes(wanted.text.toLowerCase()));
		$(data.kind + "_" + i).hidden = !fit;
		shown += fit;
	});
	const all = count(data.found.length, searches[data.kind].one);
	$("shown").textContent = shown === data.found.length ? all : `${shown} of ${all}`;
}
function drawFindings() {
	const search = searches[data.kind], s = data.summary || {}, grades = [...new Set(data.found.map(f => f.grade))].sort();
	document.title = search.title.toLowerCase() + " - trapline";
	data.found.sort((a, b) => a.grade < b.grade ? -1 : a.grade > b.grade ? 1 : 0);
	for (const f of data.found) f.searched = JSON.stringify(f).toLowerCase();
	const tiles = [tile(data.total, data.total === 1 ? search.one : search.one + "s")];
	for (const [value, name] of search.tiles(s))
		if (value !== null && value !== undefined)
			tiles.push(tile(value.toLocaleString("en"), value === 1 && name === "processes" ? "process" : name));
	if (s.suppressed) tiles.push(tile(s.suppressed, "suppressed"));
	$("main").append(node("header", {}, node("h1", { id: "what" }, search.title), node("p", {}, data.name || "")),
		node("div", { class: "tiles" }, ...tiles));
	if (data.total > data.found.length)
		$("main").append(node("p", { class: "note", id: "limit" },
			`This page has the first ${data.found.length} of ${data.total} ${search.one}s: its size is limited.`));
	$("main").append(node("section", { class: "card bar" }, node("input", { type: "search", id: "search",
		placeholder: "search functions, variables, files, threads", "aria-label": "search",
		oninput: soon(() => { wanted.text = $("search").value; drawFound(); }) }),
		...grades.map(g => node("button", { onclick: e => {
			wanted.grade = wanted.grade === g ? "" : g;
			for (const b of document.querySelectorAll(".bar button")) b.classList.remove("on");
			if (wanted.grade) e.target.classList.add("on");
			drawFound();
		} }, "grade " + g)), node("b", { id: "shown" })), ...data.found.map(search.card));
	if (!data.found.length)
		$("main").append(node("p", { class: "card" }, search.none));
	drawFound();
	const asked = location.hash.match(/^#(race|error)=(\d+)$/);
	if (asked && $(data.kind + "_" + asked[2])) $(data.kind + "_" + asked[2]).scrollIntoView();
}
pages.race = pages.heap = drawFindings;
