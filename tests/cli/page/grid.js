/* SPDX-License-Identifier: MIT */
/*
 * grid.js - the average colours of a coarse grid over parts of pictures, as lines of numbers. test_page.sh
 * writes pictures before it: [scheme, [name of a row, ...], [[left, width], ...], height of a row, base64 of a PNG].
 */
const columns = 6, rows = 12, out = document.getElementById("grid");
function average(bytes, width, left, right, top, bottom) {
	const sum = [0, 0, 0];
	for (let y = top; y < bottom; y++)
		for (let x = left; x < right; x++)
			for (let k = 0; k < 3; k++) sum[k] += bytes[4 * (y * width + x) + k];
	return sum.map(s => Math.round(s / ((bottom - top) * (right - left))));
}
function line(name, g, left, top, width, height) {
	const { data } = g.getImageData(left, top, width, height), cells = [];
	for (let row = 0; row < rows; row++)
		for (let column = 0; column < columns; column++)
			cells.push(...average(data, width, Math.floor(column * width / columns), Math.floor((column + 1) * width / columns),
				Math.floor(row * height / rows), Math.floor((row + 1) * height / rows)));
	return [name, width, ...cells].join(" ") + "\n";
}
for (const [scheme, names, parts, height, picture] of pictures) {
	const image = new Image();
	image.onload = () => {
		const c = document.createElement("canvas");
		c.width = image.width;
		c.height = image.height;
		const g = c.getContext("2d", { willReadFrequently: true });
		g.drawImage(image, 0, 0);
		names.forEach((name, row) => {
			for (const [left, width] of parts) out.append(line(name + "-" + scheme, g, left, row * height, width, height));
		});
	};
	image.onerror = () => out.append("the picture cannot be read\n");
	image.src = "data:image/png;base64," + picture.trim();
}
