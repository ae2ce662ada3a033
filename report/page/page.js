/* SPDX-License-Identifier: MIT */
/* page.js - what the pages share: the data, elements, times, colours. */
const data = JSON.parse(document.getElementById("data").textContent);
/* The function that fills the page, by the kind of data. */
const pages = {};
const $ = id => document.getElementById(id);
const colors = ["#3b7df0", "#e5842b", "#22a877", "#c153c8", "#df4b41", "#14a0b8", "#a8862a",
	"#7d68dc", "#639a1f", "#e0508a"];

function node(tag, attributes, ...children) {
	const n = document.createElement(tag);
	for (const [k, v] of Object.entries(attributes || {}))
		if (k === "style") n.style.cssText = v;
		else if (k === "class") n.className = v;
		else if (k.includes("-") || k === "role") n.setAttribute(k, v);
		else n[k] = v;
	n.append(...children.filter(c => c !== null && c !== undefined));
	return n;
}
const dim = text => node("span", { class: "dim" }, text);
const dot = color => node("span", { class: "dot", style: "background:" + color });
const base = path => String(path).split("/").pop();
const count = (n, one, more) => n.toLocaleString("en") + " " + (n === 1 ? one : more || one + "s");
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function time(us) {
	const size = Math.abs(us);
	return size >= 1e6 ? (us / 1e6).toFixed(3) + " s" : size >= 1e3 ? (us / 1e3).toFixed(2) + " ms" :
		us.toFixed(1) + " µs";
}
/* The time of day with microseconds, which Date does not have. */
function clock(ms) {
	const whole = Math.floor(ms), d = new Date(whole), two = n => String(n).padStart(2, "0");
	const us = Math.floor((ms - whole) * 1000 + 0.5);
	return [d.getHours(), d.getMinutes(), d.getSeconds()].map(two).join(":") + "." +
		String(d.getMilliseconds()).padStart(3, "0") + String(Math.min(us, 999)).padStart(3, "0");
}
function day(ms) {
	const d = new Date(ms), two = n => String(n).padStart(2, "0");
	return [d.getFullYear(), two(d.getMonth() + 1), two(d.getDate())].join("-");
}
function tile(value, text, bad) {
	return node("div", { class: "tile" }, node("b", { class: bad ? "bad" : "" }, String(value)),
		node("span", {}, text));
}
function card(title, small, ...children) {
	return node("section", { class: "card" }, node("h2", {}, title, small || ""), ...children);
}
/* A step of 1, 2 or 5 times a power of ten that gives about n parts. */
function stepFor(span, n) {
	const raw = span / n, step = 10 ** Math.floor(Math.log10(raw));
	return [1, 2, 5, 10].map(k => k * step).find(s => s >= raw);
}
/* Of a canvas, which is empty then. */
function contextOf(c, width, height) {
	const ratio = window.devicePixelRatio || 1;
	c.style.height = height + "px";
	c.width = width * ratio;
	c.height = height * ratio;
	const g = c.getContext("2d");
	g.scale(ratio, ratio);
	g.font = "11px system-ui, sans-serif";
	g.textBaseline = "middle";
	return g;
}
/* Calls f once before the next frame, however often it was asked for. */
function soon(f) {
	let asked = false;
	return () => {
		if (asked) return;
		asked = true;
		requestAnimationFrame(() => { asked = false; f(); });
	};
}
function start() {
	const page = pages[data.kind];
	if (page) return page();
	$("main").append(node("p", { class: "note" }, `This page has no view for '${data.kind}'.`));
}
