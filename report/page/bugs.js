/* SPDX-License-Identifier: MIT */
/* bugs.js - the page of the bugs of many hosts: one table, a row for each bug. */
const bugColumns = [["state", "state"], ["kind", "kind"], ["where", "where"], ["program", "program"], ["count", "count"],
	["hosts", "hosts"], ["builds", "builds"], ["first_seen", "first seen"], ["last_seen", "last seen"],
	["fingerprint", "fingerprint"]];
const bugOrder = { by: "", down: false };

function cellOf(bug, name) {
	const value = bug[name];
	if (name === "first_seen" || name === "last_seen") return (value || "").slice(0, 16).replace("T", " ");
	if (name === "state" && bug.gone_since) return `gone since ${bug.gone_since.slice(0, 12)}, ${bug.later_visits} visits`;
	return value === null || value === undefined ? "" : String(value);
}
function drawBugs() {
	const text = $("search").value.toLowerCase(), by = bugOrder.by;
	const shown = data.bugs.filter(bug => bug.searched.includes(text));
	if (by)
		shown.sort((a, b) => (a[by] < b[by] ? -1 : a[by] > b[by] ? 1 : 0) * (bugOrder.down ? -1 : 1));
	$("rows").replaceChildren(...shown.map(bug => node("tr", { class: "bug " + bug.state }, ...bugColumns.map(([name]) =>
		node("td", { class: typeof bug[name] === "number" ? "number" : "mono", title: name === "where" ? bug.file || "" : "" },
			cellOf(bug, name))))));
	const all = count(data.bugs.length, "bug");
	$("shown").textContent = shown.length === data.bugs.length ? all : `${shown.length} of ${all}`;
}
pages.bugs = () => {
	const states = name => data.bugs.filter(bug => bug.state === name).length;
	for (const bug of data.bugs) {
		bug.where = (bug.is_allocation ? "block of " : "") + (bug.function || "?") + (bug.file ? ` (${base(bug.file)}:${bug.line})` : "");
		bug.searched = JSON.stringify(bug).toLowerCase();
	}
	document.title = "bugs - trapline";
	$("main").append(node("header", {}, node("h1", { id: "what" }, "Bugs"), node("p", {}, data.name || "")),
		node("div", { class: "tiles" }, tile(data.bugs.length, data.bugs.length === 1 ? "bug" : "bugs"),
			tile(states("new"), "new since " + data.since.slice(0, 10)), tile(states("gone"), "gone"),
			tile(data.findings.toLocaleString("en"), "findings")),
		node("section", { class: "card bar" }, node("input", { type: "search", id: "search", placeholder: "search",
			"aria-label": "search", oninput: soon(drawBugs) }), node("b", { id: "shown" })),
		node("section", { class: "card" }, node("table", { class: "bugs" }, node("thead", {}, node("tr", {},
			...bugColumns.map(([name, title]) => node("th", {}, node("button", { onclick: () => {
				bugOrder.down = bugOrder.by === name && !bugOrder.down;
				bugOrder.by = name;
				drawBugs();
			} }, title))))), node("tbody", { id: "rows" }))));
	drawBugs();
};
