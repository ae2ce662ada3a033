/* SPDX-License-Identifier: MIT */
/* races.js - the page of a search for races: each race with its two sides. */
const wanted = { text: "", grade: "" };

function sourceOf(side) {
	const lines = data.sources[side.file + ":" + side.line];
	if (!lines) return null;
	return node("pre", { class: "source mono" }, ...lines.lines.map((text, k) => node("span", {
		class: lines.first + k === side.line ? "on" : "" },
		dim(String(lines.first + k).padStart(5) + "  "), text || " ")));
}
function frameText(f) {
	return (f.function || "?") + (Number.isFinite(f.offset) && f.offset ? "+0x" + f.offset.toString(16) : "");
}
function stackOf(stack) {
	return node("ol", { class: "stack mono", start: 0 }, ...stack.map(f => node("li", { title: f.file || "" },
		frameText(f), dim((f.inlined ? " inlined" : "") + (f.file ? ` ${base(f.file)}:${f.line}` : "") +
		(f.module ? " in " + f.module : "")))));
}
function sideCard(title, side) {
	if (!side) return node("div", { class: "side" }, node("h3", {}, title),
		dim("the other access was not seen: its value changed meanwhile"));
	return node("div", { class: "side" }, node("h3", {}, `${title}: ${side.locked ? "locked " : ""}${side.access} by ` +
		`${side.thread || "?"}/${side.tid}`), node("div", { class: "mono" }, side.function || side.ip || "?",
		dim((side.file ? ` ${base(side.file)}:${side.line}` : "") + (side.module ? " in " + side.module : "") +
		(side.via ? ` through ${side.via}` : ""))), sourceOf(side), stackOf(side.stack || []));
}
function raceCard(race, i) {
	const facts = [["memory", [race.address, race.size ? `${race.size} bytes` : "", race.memory].filter(t => t).join(", ")],
		["value", race.old === null || race.old === undefined ? "" : `${race.old} -> ${race.new}`], ["why", race.why],
		["also", (race.also || []).length ? `${race.also.length} more pairs of lines of this variable: ` +
			race.also.slice(0, 20).map(a => [a.first, a.second].map(s => `${base(s.file || "?")}:${s.line || "?"}`)
				.join(" / ")).join(", ") + (race.also.length > 20 ? ", ..." : "") : ""],
		["seen", race.count > 1 ? race.count + " times" : "once"], ["fingerprint", race.fingerprint]];
	const heap = race.heap;
	return node("section", { class: "card race", id: "race_" + i, "data-grade": race.grade }, node("h2", {},
		node("span", { class: "grade " + race.grade }, race.grade), race.variable || race.address || "?", dim(race.kind)),
		node("dl", {}, ...facts.filter(f => f[1]).flatMap(([name, text]) =>
			[node("dt", {}, name), node("dd", { class: "mono" }, String(text))])),
		node("div", { class: "sides" }, sideCard("first", race.first), sideCard("second", race.second),
			heap ? node("div", { class: "side" }, node("h3", {}, `the block: ${heap.size} bytes, allocated by ` +
				`${heap.thread || "?"}/${heap.tid}`), stackOf(heap.stack || [])) : null));
}
function drawRaces() {
	let shown = 0;
	data.races.forEach((race, i) => {
		const fit = (!wanted.grade || race.grade === wanted.grade) &&
			(!wanted.text || race.searched.includes(wanted.text.toLowerCase()));
		$("race_" + i).hidden = !fit;
		shown += fit;
	});
	$("shown").textContent = shown === data.races.length ? count(shown, "race") :
		`${shown} of ${count(data.races.length, "race")}`;
}
pages.race = () => {
	const s = data.summary || {}, grades = [...new Set(data.races.map(r => r.grade))].sort();
	document.title = "races - trapline";
	data.races.sort((a, b) => a.grade < b.grade ? -1 : a.grade > b.grade ? 1 : 0);
	for (const race of data.races) race.searched = JSON.stringify(race).toLowerCase();
	const tiles = [tile(data.total, data.total === 1 ? "race" : "races")];
	for (const [name, text] of [["stalls", "stalls"], ["runs", "runs"], ["processes", "processes"]])
		if (Number.isFinite(s[name])) tiles.push(tile(s[name].toLocaleString("en"), text));
	if (s.sites_total) tiles.push(tile(`${s.sites_covered} of ${s.sites_total}`, "sites tested"));
	if (s.suppressed) tiles.push(tile(s.suppressed, "suppressed"));
	$("main").append(node("header", {}, node("h1", { id: "what" }, "Races"), node("p", {}, data.name || "")),
		node("div", { class: "tiles" }, ...tiles));
	if (data.total > data.races.length)
		$("main").append(node("p", { class: "note", id: "limit" },
			`This page has the first ${data.races.length} of ${data.total} races: its size is limited.`));
	$("main").append(node("section", { class: "card bar" }, node("input", { type: "search", id: "search",
		placeholder: "search functions, variables, files, threads", "aria-label": "search",
		oninput: soon(() => { wanted.text = $("search").value; drawRaces(); }) }),
		...grades.map(g => node("button", { onclick: e => {
			wanted.grade = wanted.grade === g ? "" : g;
			for (const b of document.querySelectorAll(".bar button")) b.classList.remove("on");
			if (wanted.grade) e.target.classList.add("on");
			drawRaces();
		} }, "grade " + g)), node("b", { id: "shown" })), ...data.races.map(raceCard));
	if (!data.races.length)
		$("main").append(node("p", { class: "card" }, "No race is in this file."));
	drawRaces();
	const asked = location.hash.match(/^#race=(\d+)$/);
	if (asked && $("race_" + asked[1])) $("race_" + asked[1]).scrollIntoView();
};
