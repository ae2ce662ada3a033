/* SPDX-License-Identifier: MIT */
/* hit_list.js - the list of all hits that fit. Only the rows in sight are elements. */
const ROW = { wide: 26, narrow: 46, narrowBelow: 760, beyond: 6 };
let rowHeight = ROW.wide;

function listCard() {
	const byTime = () => { state.order = "time"; changed(); };
	const byNumber = () => { state.order = "number"; changed(); };
	const head = node("div", { class: "row head", id: "head" }, node("span", { class: "index n" }, "#"),
		node("button", { class: "since n", title: "order by time", onclick: byTime }, "time"),
		node("span", { class: "clock" }, run.has_clock ? "clock" : ""), node("span", { class: "thread" }, "thread"),
		node("button", { class: "value", title: "order by number, the largest first", onclick: byNumber },
			run.is_calls ? "call" : "value"),
		node("span", { class: "code" }, run.is_calls ? "from" : "code"));
	const list = node("div", { class: "list", id: "list", tabIndex: 0, role: "grid", "aria-label": "hits",
		onscroll: soon(drawRows), onkeydown: moveByKey }, node("div", { id: "rows" }));
	new ResizeObserver(soon(drawList)).observe(list);
	return card("Hits", node("small", { id: "order" }), head, list);
}
function row(at) {
	const i = view[at], cell = (name, ...text) => node("span", { class: name }, ...text);
	const full = changeText(i), where = data.codes[hits.code[i]][0];
	return node("div", { class: "row" + (i === state.hit ? " on" : ""), style: `top:${at * rowHeight}px`,
		role: "row", "aria-rowindex": String(at + 1), title: full, onclick: () => mark(i) },
		cell("index n dim", String(i)), cell("since n dim", time(hits.time[i])),
		cell("clock dim mono", clockOf(i)), cell("thread mono", dot(hitColor(i)), threadName(hits.thread[i])),
		cell("value mono", full), cell("code mono dim", where));
}
function drawRows() {
	const list = $("list"), first = Math.max(0, Math.floor(list.scrollTop / rowHeight) - ROW.beyond);
	const most = Math.ceil(list.clientHeight / rowHeight) + 2 * ROW.beyond;
	const rows = [];
	for (let at = first; at < Math.min(view.length, first + most); at++)
		rows.push(row(at));
	$("rows").replaceChildren(...rows);
}
function drawList() {
	const list = $("list"), isNarrow = list.clientWidth < ROW.narrowBelow;
	list.parentNode.classList.toggle("narrow", isNarrow);
	$("head").hidden = isNarrow;
	const was = rowHeight;
	rowHeight = isNarrow ? ROW.narrow : ROW.wide;
	$("rows").style.height = view.length * rowHeight + "px";
	if (was !== rowHeight) list.scrollTop = list.scrollTop / was * rowHeight;
	$("order").textContent = state.order === "time" ? "all, in the order of time" : "the largest number first";
	drawRows();
}
/* In the middle, unless it is in sight. */
function showInList(i) {
	const list = $("list"), at = state.order === "time" ? indexInView(i) : view.indexOf(i);
	const top = at * rowHeight;
	if (at >= 0 && (top < list.scrollTop || top + rowHeight > list.scrollTop + list.clientHeight))
		list.scrollTop = top - (list.clientHeight - rowHeight) / 2;
	drawRows();
}
/* In the order of time the view is sorted by hit. */
function indexInView(i) {
	let low = 0, high = view.length;
	while (low < high) {
		const middle = (low + high) >> 1;
		if (view[middle] < i) low = middle + 1;
		else high = middle;
	}
	return view[low] === i ? low : -1;
}
function moveByKey(e) {
	const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[e.key];
	if (!step || !view.length) return;
	e.preventDefault();
	const at = state.order === "time" ? indexInView(state.hit) : view.indexOf(state.hit);
	mark(view[Math.max(0, Math.min(view.length - 1, at < 0 ? 0 : at + step))]);
}
