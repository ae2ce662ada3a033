/* SPDX-License-Identifier: MIT */
/* growth.js - one chart for each line of growth.py: costs against n, both axes by powers of ten. */
pages.growth = () => {
	const { rows, machine } = data, worse = rows.filter(r => r.is_worse);
	document.title = "trapline: growth";
	$("main").append(node("header", {}, node("h1", {}, "How costs grow"),
		node("p", {}, `${machine.date}, Linux ${machine.kernel}, ${machine.cpus} CPUs, load ${machine.load}, ` +
			`the least of ${count(machine.rounds, "round")}`)),
		node("div", { class: "tiles" }, tile(rows.length, "lines"),
			tile(worse.length, "worse than n log n", worse.length > 0)));
	const cards = [...new Set(rows.map(r => r.line))].map(chartCard);
	$("main").append(node("div", { class: "fold", style: "grid-template-columns: repeat(auto-fit, minmax(min(520px, 100%), 1fr))" },
		...cards));
	const draw = soon(() => document.querySelectorAll("canvas").forEach(drawChart));
	window.addEventListener("resize", draw);
	matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
	draw();
};
/* Each series has a name, a color, points and words. */
function seriesOf(line) {
	const series = [];
	for (const row of data.rows.filter(r => r.line === line)) {
		const add = (name, xs, ys, text) => series.push({ name: `${row.mechanism}: ${name}`,
			color: colors[series.length % colors.length], points: xs.map((x, i) => [x, ys[i]]), text });
		const grows = e => e === null || e === undefined ? "does not grow" : `n^${e}`;
		if (line === "rate") {
			add("lost", row.made_per_second, row.lost_percent, row.loses_from ? `from ${count(row.loses_from, "hit")} a second`
				: "nothing lost");
			continue;
		}
		add("until armed", row.n, row.armed_ms, grows(row.armed_ms_exponent));
		add("CPU time of the command", row.n, row.cpu_ms, grows(row.cpu_ms_exponent));
	}
	return series;
}
const unitOf = line => line === "rate" ? "%" : "ms";
function chartCard(line) {
	const ended = data.rows.filter(r => r.line === line && r.ends_at);
	const axis = line === "rate" ? "hits a second" : line;
	return card(`${axis[0].toUpperCase()}${axis.slice(1)}`, node("small", {}, `${unitOf(line)} against ${axis}`),
		node("div", { class: "chips" }, ...seriesOf(line).map(s => node("span", {}, dot(s.color), `${s.name} `, dim(s.text)))),
		node("canvas", { style: "cursor: default", "data-line": line, "aria-label": `costs against ${axis}` }),
		...ended.map(r => node("p", { class: "dim" }, `${r.mechanism}: ends before ${r.ends_at.toLocaleString("en")}: ${r.because}`)));
}
const power = v => Math.log10(Math.max(v, 1e-9));
function drawChart(c) {
	const line = c.dataset.line, series = seriesOf(line), isShare = line === "rate";
	const width = c.clientWidth, height = 260;
	const all = series.flatMap(s => s.points), bottom = height - 26, right = width - 14;
	const g = contextOf(c, width, height);
	if (!all.length) return;
	const xs = all.map(p => power(p[0])), ys = all.map(p => p[1]);
	const x0 = Math.floor(Math.min(...xs)), x1 = Math.max(Math.ceil(Math.max(...xs)), x0 + 1);
	const y0 = isShare ? 0 : Math.floor(Math.min(...ys.map(power))), y1 = isShare ? 100 : Math.max(Math.ceil(Math.max(...ys.map(power))), y0 + 1);
	const x = v => 64 + (power(v) - x0) / (x1 - x0) * (right - 64);
	const y = v => bottom - ((isShare ? v : power(v)) - y0) / (y1 - y0) * (bottom - 12);
	const label = (v, unit) => v.toLocaleString("en", { maximumFractionDigits: 3 }) + unit;
	g.strokeStyle = css("--line");
	g.fillStyle = css("--dim");
	g.textAlign = "right";
	for (let k = y0; k <= y1; k += isShare ? 25 : 1) {
		const v = isShare ? k : 10 ** k;
		g.fillText(label(v, " " + unitOf(line)), 58, y(v));
		g.beginPath(); g.moveTo(64, y(v)); g.lineTo(right, y(v)); g.stroke();
	}
	g.textAlign = "center";
	for (let k = x0; k <= x1; k++) {
		g.fillText(label(10 ** k, ""), Math.min(x(10 ** k), right - 16), bottom + 14);
		g.beginPath(); g.moveTo(x(10 ** k), 12); g.lineTo(x(10 ** k), bottom); g.stroke();
	}
	for (const s of series) {
		g.strokeStyle = g.fillStyle = s.color;
		g.lineWidth = 2;
		g.beginPath();
		s.points.forEach((p, i) => i ? g.lineTo(x(p[0]), y(p[1])) : g.moveTo(x(p[0]), y(p[1])));
		g.stroke();
		for (const p of s.points) { g.beginPath(); g.arc(x(p[0]), y(p[1]), 3, 0, 7); g.fill(); }
	}
}
