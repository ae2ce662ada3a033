/* SPDX-License-Identifier: MIT */
/* flows.js - the page of `trapline flow`: for each source the tree of its copies, and who got them. */
function flowPlace(p) {
	return node("span", { class: "mono" }, ...(p.via ? [p.via, dim(" called in ")] : []), p.function || "?",
		p.file ? dim(` ${base(p.file)}:${p.line}`) : "");
}
function flowStack(p) {
	if (!p.stack || !p.stack.length) return null;
	return node("details", {}, node("summary", { class: "dim" }, "stack"), stackOf(p.stack));
}
function flowEnd(f) {
	const to = f.to, parts = [count(f.bytes, "byte")];
	if (f.kind === "residue")
		parts.push(`at ${to.address}`, to.block ? `block ${to.block.address} of ${count(to.block.size, "byte")}` : `in ${to.memory}`);
	else if (to.fd !== null && to.fd !== undefined)
		parts.push(`to descriptor ${to.fd}`);
	if (to.path) parts.push(to.path);
	if (f.count > 1) parts.push(`${f.count.toLocaleString("en")} times`);
	return node("li", { class: "end", "data-grade": f.grade }, node("span", { class: "grade " + f.grade }, f.grade), " ",
		node("b", {}, f.kind === "residue" ? "residue" : to.name), " ", dim(parts.join(", ") + " "),
		f.kind === "residue" ? null : flowPlace(to), f.kind === "residue" ? null : flowStack(to));
}
function flowBranch(branch) {
	return node("ul", { class: "flow" }, ...branch.ends.map(flowEnd), ...[...branch.steps.values()].map(s => node("li", {},
		dim(s.place.kind === "copy" ? "copied by " : "computed by "), flowPlace(s.place), flowStack(s.place),
		flowBranch(s))));
}
function flowSource(flows) {
	const from = flows[0].from, root = { ends: [], steps: new Map() };
	for (const f of flows) {
		let at = root;
		for (const step of f.steps) {
			if (!at.steps.has(step.step)) at.steps.set(step.step, { place: step, ends: [], steps: new Map() });
			at = at.steps.get(step.step);
		}
		at.ends.push(f);
	}
	const what = `${count(from.bytes, "byte")} of ${from.name}` + (from.path ? ` (${from.path})` : "");
	return node("section", { class: "card" }, node("h2", {}, what, dim(from.offset ? ` from offset ${from.offset}` : "")),
		node("p", {}, dim("in "), flowPlace(from)), flowStack(from), flowBranch(root));
}
pages.flow = () => {
	const s = data.summary, c = s.counters, of = new Map();
	document.title = "flows - trapline";
	for (const f of data.flows) of.set(f.from.source, [...(of.get(f.from.source) || []), f]);
	const tiles = [tile(s.flows, s.flows === 1 ? "flow into a sink" : "flows into sinks"), tile(s.residues === null ? "?" : s.residues, "residues"),
		tile(s.sources, "sources"), tile(c.instructions.toLocaleString("en"), "instructions in windows")];
	if (c.kept) tiles.push(tile(Math.floor(c.kept_watched * 100 / c.kept) + " %", "of the copies watched"));
	if (c.indexed) tiles.push(tile(c.indexed.toLocaleString("en"), "table look-ups not followed"));
	$("main").append(node("header", {}, node("h1", { id: "what" }, "Flows"), node("p", {}, data.name || "")),
		node("div", { class: "tiles" }, ...tiles),
		node("p", { class: "note" }, "What runs between windows is not seen. The page never contains the bytes."),
		...[...of.values()].map(flowSource));
	if (!data.flows.length) $("main").append(node("p", { class: "card" }, "No flow was found."));
};
