/* SPDX-License-Identifier: MIT */
/* timeline.js - a lane with an axis of its own for each place, and a strip for each thread. */
const LANES = 8, STRIPS = 12, TITLE = 18, STRIP = 26, AXIS = 22, RIGHT = 12;
let drag = null, spots = [], left = 64;

function timelineCard() {
	const canvas = node("canvas", { id: "plot", tabIndex: 0, onkeydown: moveByKey, ondblclick: showAll,
		"aria-label": "values over time, and the hits of each thread",
		onpointerdown: e => { if (e.pointerType === "mouse") drag = { from: e.offsetX }; },
		onpointermove: e => { if (drag) { drag.to = e.offsetX; redraw(); } },
		onclick: e => pick(e.offsetX, e.offsetY) });
	const redraw = soon(drawTimeline);
	window.addEventListener("pointerup", zoom);
	window.addEventListener("resize", redraw);
	matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
	return card("Timeline", node("small", { id: "lanes_more" }, ""), node("div", { class: "chips", id: "filters" }),
		node("div", { class: "chips", id: "legend" }), canvas);
}
const x = (t, width) => left + (t - state.from) / (state.to - state.from) * (width - left - RIGHT);
const isIn = i => hits.time[i] >= state.from && hits.time[i] <= state.to;

/* The lanes: those of the places with the most hits, of the selected one alone if there is one. */
function lanesNow() {
	const places = state.place >= 0 ? [state.place] : hits.ranks.place.order.slice(0, LANES);
	const lanes = new Map(places.map(p => [p, { place: p, name: data.places[p], hits: [], numbers: 0,
		low: Infinity, high: -Infinity }]));
	for (let i = 0; i < hits.n; i++) {
		const lane = lanes.get(hits.place[i]);
		if (!lane || !isIn(i)) continue;
		lane.hits.push(i);
		const v = hits.number[i];
		if (v === null) continue;
		lane.numbers++;
		lane.low = Math.min(lane.low, v);
		lane.high = Math.max(lane.high, v);
	}
	let top = 0;
	for (const lane of lanes.values()) {
		const height = !lane.numbers ? STRIP - 8 : lanes.size === 1 ? 190 : 96;
		Object.assign(lane, { top: top + TITLE, height });
		top += TITLE + height + 8;
	}
	return [[...lanes.values()], top];
}
function drawTimeline() {
	const c = $("plot"), width = c.clientWidth;
	const [lanes, below] = lanesNow();
	const order = hits.ranks.thread.order, strips = order.length > 1 ? order.slice(0, STRIPS) : [];
	const height = below + strips.length * STRIP + AXIS;
	left = width < 600 ? 64 : 110;
	const g = contextOf(c, width, height);
	spots = [];
	drawTimes(g, width, height);
	for (const lane of lanes) drawLane(g, lane, width);
	drawStrips(g, strips, below, width);
	if (drag && drag.to !== undefined) {
		g.fillStyle = css("--mark") + "33";
		g.fillRect(Math.min(drag.from, drag.to), 0, Math.abs(drag.to - drag.from), height - AXIS);
	}
	const more = (shown, all, what) => all > shown ? `${shown} of ${all} ${what} have a lane` : "";
	$("lanes_more").textContent = ["drag to zoom, click a hit", state.place < 0 ? more(lanes.length, data.places.length,
		run.is_calls ? "functions" : "variables") : "", strips.length ? more(strips.length, order.length, "threads") : ""]
		.filter(t => t).join("; ");
	c.dataset.lanes = lanes.length;
	c.dataset.strips = strips.length;
}
function drawTimes(g, width, height) {
	const step = stepFor(state.to - state.from, Math.max(2, Math.min(8, (width - left) / 110)));
	for (let t = Math.ceil(state.from / step) * step; t <= state.to; t += step) {
		const at = x(t, width);
		g.fillStyle = css("--line");
		g.fillRect(Math.round(at), 0, 1, height - AXIS);
		g.fillStyle = css("--dim");
		g.textAlign = at > width - 40 ? "right" : "center";
		g.fillText(t ? shortTime(t, step) : "0", at, height - AXIS / 2);
	}
}
/* With as many digits as the step needs. */
function shortTime(us, step) {
	const [unit, name] = step >= 1e5 || us >= 1e7 ? [1e6, "s"] : step >= 1e2 || us >= 1e4 ? [1e3, "ms"] : [1, "µs"];
	return (us / unit).toFixed(Math.max(0, Math.min(6, Math.ceil(-Math.log10(step / unit) - 0.001)))) + " " + name;
}
function scaleOf(lane) {
	let { low, high } = lane;
	if (low === high) { low -= 1; high += 1; }
	/* Durations differ by powers of ten. */
	const f = v => run.is_calls ? Math.log10(Math.max(v, 1)) : v;
	const span = f(high) - f(low) || 1;
	return v => lane.top + 6 + (f(high) - f(v)) / span * (lane.height - 12);
}
function drawLane(g, lane, width) {
	g.textAlign = "left";
	g.fillStyle = css("--ink");
	g.font = "600 12px system-ui, sans-serif";
	g.fillText(cut(g, `${lane.name}`, width - left - RIGHT - 90), left, lane.top - TITLE / 2);
	g.textAlign = "right";
	g.font = "11px system-ui, sans-serif";
	g.fillStyle = css("--dim");
	g.fillText(count(lane.hits.length, "hit"), width - RIGHT, lane.top - TITLE / 2);
	g.fillStyle = css("--line");
	g.fillRect(left, lane.top + lane.height, width - left - RIGHT, 1);
	if (!lane.numbers) {
		drawTicks(g, lane.hits, lane.top, lane.height, width);
		return;
	}
	const y = scaleOf(lane);
	drawScale(g, lane, y);
	if (!run.is_calls) drawCurve(g, lane, y, width);
	drawDots(g, lane, y, width);
}
function cut(g, text, width) {
	if (g.measureText(text).width <= width) return text;
	let n = text.length;
	while (n > 1 && g.measureText(text.slice(0, n) + "…").width > width) n--;
	return text.slice(0, n) + "…";
}
/* If there are few values, each has its name; else least, middle and most. */
function drawScale(g, lane, y) {
	const names = new Map();
	for (const i of lane.hits) {
		if (names.size > 6) break;
		if (hits.number[i] !== null) names.set(hits.number[i], run.is_calls ? time(hits.number[i] / 1000) : value(i));
	}
	const few = names.size <= 6, middle = run.is_calls ? Math.sqrt(lane.low * lane.high) : (lane.low + lane.high) / 2;
	const text = v => few ? names.get(v) : run.is_calls ? time(v / 1000) : String(Number(v.toPrecision(6)));
	let last = -100;
	g.textAlign = "right";
	g.fillStyle = css("--dim");
	for (const v of (few ? [...names.keys()] : [lane.low, middle, lane.high]).sort((a, b) => b - a)) {
		const at = y(v);
		if (at - last < 12) continue;
		last = at;
		g.fillText(cut(g, String(text(v)), left - 10), left - 8, at);
	}
}
function drawCurve(g, lane, y, width) {
	g.strokeStyle = css("--dim");
	g.globalAlpha = 0.5;
	g.beginPath();
	let last = null, lastX = -1;
	for (const i of lane.hits) {
		if (hits.number[i] === null) continue;
		const at = x(hits.time[i], width), h = y(hits.number[i]);
		if (last === null) g.moveTo(at, h);
		else if (at - lastX >= 0.5 || Math.abs(h - last) >= 1) { g.lineTo(at, last); g.lineTo(at, h); }
		else continue;
		last = h;
		lastX = at;
	}
	g.stroke();
	g.globalAlpha = 1;
}
/* Of the hits on one pixel the first that fits is drawn: more would not be seen. */
function drawDots(g, lane, y, width) {
	const size = lane.hits.length > 4000 ? 2 : lane.hits.length > 800 ? 3 : 5, rows = lane.height + 1;
	const drawn = new Uint8Array((Math.ceil(width) + 1) * rows), plain = css("--dim");
	for (const isFit of [1, 0]) {
		g.globalAlpha = isFit ? 1 : 0.18;
		for (const i of lane.hits) {
			if (hits.number[i] === null || hits.isFit[i] !== isFit) continue;
			const at = Math.round(x(hits.time[i], width)), h = Math.round(y(hits.number[i]));
			const pixel = at * rows + h - lane.top;
			if (drawn[pixel]) continue;
			drawn[pixel] = 1;
			g.fillStyle = isFit ? hitColor(i) : plain;
			disc(g, at, h, size / 2);
			if (isFit) spots.push([at, h, i]);
		}
	}
	g.globalAlpha = 1;
	const m = state.hit;
	if (m < 0 || hits.place[m] !== lane.place || !isIn(m) || hits.number[m] === null) return;
	g.fillStyle = hitColor(m);
	disc(g, x(hits.time[m], width), y(hits.number[m]), 6);
	g.strokeStyle = css("--ink");
	g.stroke();
}
function disc(g, at, h, radius) {
	if (radius < 2) {
		g.fillRect(at - radius, h - radius, 2 * radius, 2 * radius);
		return;
	}
	g.beginPath();
	g.arc(at, h, radius, 0, 7);
	g.fill();
}
function drawTicks(g, list, top, height, width) {
	const drawn = new Uint8Array(Math.ceil(width) + 1), plain = css("--dim");
	for (const isFit of [1, 0]) {
		g.globalAlpha = isFit ? 0.9 : 0.18;
		for (const i of list) {
			if (hits.isFit[i] !== isFit) continue;
			const at = Math.round(x(hits.time[i], width));
			if (drawn[at]) continue;
			drawn[at] = 1;
			g.fillStyle = isFit ? hitColor(i) : plain;
			g.fillRect(at - 1, top + 2, 2, height - 4);
			if (isFit) spots.push([at, top + height / 2, i]);
		}
	}
	g.globalAlpha = 1;
	if (state.hit >= 0 && isIn(state.hit) && list.includes(state.hit)) {
		g.fillStyle = css("--ink");
		g.fillRect(x(hits.time[state.hit], width) - 1, top - 1, 3, height + 2);
	}
}
function drawStrips(g, threads, top, width) {
	const lists = new Map(threads.map(t => [t, []]));
	if (!threads.length) return;
	for (let i = 0; i < hits.n; i++) {
		const list = lists.get(hits.thread[i]);
		if (list && isIn(i)) list.push(i);
	}
	for (const [thread, list] of lists) {
		g.fillStyle = css("--line");
		g.fillRect(left, top + STRIP - 1, width - left - RIGHT, 1);
		g.fillStyle = css("--dim");
		g.textAlign = "right";
		g.fillText(cut(g, threadName(thread), left - 10), left - 8, top + STRIP / 2);
		drawTicks(g, list, top + 4, STRIP - 8, width);
		top += STRIP;
	}
}
function pick(px, py) {
	let best = -1, distance = 200;
	for (const [a, b, i] of spots) {
		const d = (a - px) ** 2 + (b - py) ** 2;
		if (d < distance) { distance = d; best = i; }
	}
	if (best >= 0) mark(best);
}
function zoom() {
	if (!drag) return;
	const { from, to } = drag, width = $("plot").clientWidth;
	drag = null;
	if (to === undefined || Math.abs(to - from) < 6) return;
	const us = px => state.from + (px - left) / (width - left - RIGHT) * (state.to - state.from);
	const a = Math.max(state.from, us(Math.min(from, to))), b = Math.min(state.to, us(Math.max(from, to)));
	if (b - a > 0.01) { state.from = a; state.to = b; }
	changed();
}
