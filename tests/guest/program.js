// SPDX-License-Identifier: MIT
// program.js - a program of node that behaves as guest.h says: compiled code, collections, a thread.
'use strict';
const fs = require('fs');
const { Worker } = require('worker_threads');
const fd = fs.openSync(process.argv[3], 'r+');

function get(offset) {
	const b = Buffer.alloc(4);
	fs.readSync(fd, b, 0, 4, offset);
	return b.readUInt32LE(0);
}

function put(offset, value) {
	const b = Buffer.alloc(4);
	b.writeUInt32LE(value, 0);
	fs.writeSync(fd, b, 0, 4, offset);
}

function must(what, text) {
	if (what)
		return;
	fs.writeSync(fd, Buffer.from(text + '\0'), 0, text.length + 1, 24);
	console.log(text);
	process.exit(1);
}

function round() {
	let sum = 0;
	const all = [];
	for (let i = 0; i < 20000; i++) {
		sum += i % 7;
		if (i % 100 === 0)
			all.push({ text: 'x'.repeat(i % 50), at: i });
		try {
			if (i % 5000 === 1)
				throw new Error('deep');
		} catch (e) {
			sum += e.message.length;
		}
	}
	must(sum === 60013 && all.length === 200, 'a sum is ' + sum);
}

put(12, process.pid);
const worker = new Worker('let n = 0; require("worker_threads").parentPort.on("message", m => {' +
	'for (let i = 0; i < 1000; i++) n += m; require("worker_threads").parentPort.postMessage(n); n = 0; })',
	{ eval: true });
worker.on('message', n => {
	must(n === 3000, 'a thread gave ' + n);
	round();
	put(16, get(16) + 1);
	if (!get(0))
		return setTimeout(() => worker.postMessage(3), 3);
	console.log('ok');
	process.exit(0);
});
worker.postMessage(3);
