/* SPDX-License-Identifier: MIT */
/*
 * facts.js - appended to a copy of a page by test_page.sh: what the layout is, before and after some
 * clicks, as a line of JSON in the page around the frame.
 */
const facts = { page: page_name, size: [innerWidth, innerHeight], errors: [] };
/* Everything is drawn at once, so that no fact depends on time. */
window.requestAnimationFrame = draw => draw();
window.onerror = text => { facts.errors.push(String(text)); };
const box = n => n.getBoundingClientRect();
const all = s => [...document.querySelectorAll(s)];
/* Elements that reach beyond the page, but for those that scroll by themselves. */
function wide() {
	return all("main *").filter(n => box(n).right > innerWidth + 1 && !n.closest("pre.source") &&
		n.offsetParent).map(n => n.tagName + "." + n.className).slice(0, 5);
}
/* Texts in a row that cover each other, or leave it. */
function covered() {
	let n = 0;
	for (const row of all("#rows .row").slice(0, 30)) {
		const cells = [...row.children].filter(c => c.offsetParent).map(box), own = box(row);
		cells.forEach((a, i) => {
			n += a.right > own.right + 1 || a.bottom > own.bottom + 1 || a.top < own.top - 1;
			for (const b of cells.slice(i + 1))
				n += a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
		});
	}
	return n;
}
function marked() {
	const rows = all("#rows .row.on"), list = document.querySelector("#list");
	if (rows.length !== 1) return rows.length;
	return box(rows[0]).top >= box(list).top - 1 && box(rows[0]).bottom <= box(list).bottom + 1 ? "in sight" : "out of sight";
}
const shown = () => document.querySelector("#shown").textContent;
const click = n => n.dispatchEvent(new MouseEvent("click", { bubbles: true }));
function type(text) {
	const field = document.querySelector("#search");
	field.value = text;
	field.dispatchEvent(new Event("input"));
}

function runFacts() {
	const plot = document.querySelector("#plot"), list = document.querySelector("#list");
	Object.assign(facts, { lanes: +plot.dataset.lanes, strips: +plot.dataset.strips, marked: marked(), covered: covered(),
		rows: all("#rows .row").length, histograms: all("#bars .histogram").length, shown: shown(),
		hit: document.querySelector("#detail dd").textContent, frames: all("#detail ol li").length,
		clock: /\d\d:\d\d:\d\d\.\d{6}/.test(document.querySelector("#rows").textContent),
		limit: !!document.querySelector("#limit") });
	click(document.querySelector("#place_table tbody tr"));
	Object.assign(facts, { by_place: shown(), lanes_of_place: +plot.dataset.lanes });
	click(document.querySelector("#place_table tbody tr"));
	click(document.querySelector("#thread_table tbody tr:nth-child(2)"));
	facts.by_thread = shown();
	type("worker3");
	facts.by_thread_and_search = shown();
	type("no such text");
	Object.assign(facts, { by_nothing: shown(), rows_of_nothing: all("#rows .row").length });
	click(document.querySelector("#all"));
	facts.again = shown();
	click([...document.querySelectorAll("#bars .line")].find(l => l.textContent));
	facts.by_bar = shown();
	click(document.querySelector("#all"));
	list.scrollTop = list.scrollHeight;
	list.dispatchEvent(new Event("scroll"));
	const rows = all("#rows .row");
	Object.assign(facts, { rows_at_end: rows.length, last: rows.length ? +rows[rows.length - 1].getAttribute("aria-rowindex") : 0,
		last_is_seen: rows.length && box(rows[rows.length - 1]).top < box(list).bottom });
	const by = document.querySelector("#color_by");
	facts.colors = [...by.options].map(o => {
		by.value = o.value;
		by.dispatchEvent(new Event("change"));
		return document.querySelectorAll("#legend button").length;
	});
}
function raceFacts() {
	const seen = () => all(".race").filter(n => !n.hidden).length;
	Object.assign(facts, { races: seen(), sides: all(".side").length, sources: all("pre.source").length,
		marked_lines: all("pre.source > .on").map(n => n.textContent.trim()), frames: all("ol.stack li").length });
	const grade = all(".bar button")[0];
	click(grade);
	facts.by_grade = seen();
	click(grade);
	type("word_increment");
	facts.by_search = seen();
	type("");
	facts.again = seen();
}
facts.wide = wide();
facts.dark = matchMedia("(prefers-color-scheme: dark)").matches;
if (data.kind === "run") runFacts();
else raceFacts();
facts.wide_at_end = wide();
facts.overflow = document.documentElement.scrollWidth - innerWidth;
parent.document.getElementById("facts").append("FACTS " + JSON.stringify(facts) + "\n");
