/* SPDX-License-Identifier: MIT */
/* histogram.js - how often each duration or value came, for each place. A click on a bar selects. */
const HISTOGRAMS = 8, BARS = 16;
const shownColumn = { name: "number" };

function histogramCard() {
	const button = (name, text) => node("button", { id: "show_" + name, onclick: () => {
		shownColumn.name = name;
		drawHistograms();
	} }, text);
	const choices = run.is_calls && hits.result ? [button("number", "durations"), " ", button("result", "results")] : [];
	return node("section", { class: "card histograms", id: "histograms" }, node("h2", {},
		node("span", { id: "histogram_title" }), node("small", { id: "histogram_more" })), ...choices,
		node("div", { class: "fold", id: "bars" }));
}
const isDuration = column => run.is_calls && column === "number";
function numberText(v, column) {
	return isDuration(column) ? time(v / 1000) : String(Number(v.toPrecision(6)));
}
function rangeText([place, column, least, most]) {
	const from = numberText(least, column), to = numberText(most, column);
	return data.places[place] + " " + (from === to ? from : `${from} to ${to}`);
}
/* [least, most, label, hits] of each bar. */
function barsOf(list, column) {
	const times = new Map();
	for (const i of list) {
		const v = hits[column][i];
		if (times.has(v)) times.get(v)[0]++;
		else times.set(v, [1, i]);
	}
	const sorted = [...times.keys()].sort((a, b) => a - b), low = sorted[0], high = sorted[sorted.length - 1];
	if (!isDuration(column) && sorted.length <= BARS)
		return sorted.map(v => [v, v, run.is_calls ? String(v) : value(times.get(v)[1]), times.get(v)[0]]);
	const edges = edgesOf(low, high, sorted, column), bars = [];
	for (let k = 0; k + 1 < edges.length; k++)
		bars.push([edges[k], edges[k + 1], numberText(edges[k], column), 0]);
	for (const v of sorted) {
		const k = edges.findLastIndex(e => e <= v);
		bars[Math.min(k, bars.length - 1)][3] += times.get(v)[0];
	}
	/* A bar ends before the next one begins. */
	return bars.map(([a, b, label, n], k) => [a, k + 1 < bars.length ? below(b) : b, label, n]);
}
const below = v => Number.isInteger(v) ? v - 1e-6 : v - Math.abs(v) * 1e-12;
/* Powers of two where the largest is far from the middle, else equal steps. */
function edgesOf(low, high, sorted, column) {
	const middle = sorted[sorted.length >> 1], edges = [];
	if (isDuration(column) || low >= 0 && high > 100 * (middle + 1)) {
		let e = low < 1 ? 0 : 2 ** Math.floor(Math.log2(low));
		for (; e <= high; e = e ? 2 * e : 1) edges.push(e);
		edges.push(e);
		return edges;
	}
	const step = stepFor(high - low || 1, BARS - 1);
	const edge = k => Number((k * step).toPrecision(12)), first = Math.floor(low / step);
	for (let k = first; k === first || edge(k - 1) <= high; k++) edges.push(edge(k));
	return edges;
}
function histogram(place, list, column) {
	const bars = barsOf(list, column), most = Math.max(...bars.map(b => b[3])), r = state.range;
	return node("div", {}, node("h3", { class: "mono" }, data.places[place], dim(" " + count(list.length, "hit"))),
		node("div", { class: "histogram" }, ...bars.map(([least, end, label, n]) => node("div", {
			class: "line" + (r && r[0] === place && r[1] === column && r[2] === least ? " on" : ""),
			title: "select", onclick: () => choose("range", [place, column, least, end]) },
			node("span", { class: "label mono dim" }, label),
			node("span", { class: "length", style: n ? `width:${100 * n / most}%` : "width:0;min-width:0" }),
			node("span", { class: "dim" }, n ? n.toLocaleString("en") : "")))));
}
function drawHistograms() {
	const column = shownColumn.name, lists = new Map();
	for (let i = 0; i < hits.n; i++)
		if (hits[column] && hits[column][i] !== null && fits(i, "range")) {
			if (!lists.has(hits.place[i])) lists.set(hits.place[i], []);
			lists.get(hits.place[i]).push(i);
		}
	const all = [...lists].sort((a, b) => b[1].length - a[1].length);
	$("histograms").hidden = !all.length && !hits.result;
	$("histogram_title").textContent = isDuration(column) ? "Durations" : run.is_calls ? "Results" : "Values";
	$("histogram_more").textContent = all.length > HISTOGRAMS ?
		`${HISTOGRAMS} of ${all.length}; select another one above` : "a click on a bar selects";
	for (const name of ["number", "result"])
		if ($("show_" + name)) $("show_" + name).className = name === column ? "on" : "";
	$("bars").replaceChildren(...all.slice(0, HISTOGRAMS).map(([place, list]) => histogram(place, list, column)));
}
