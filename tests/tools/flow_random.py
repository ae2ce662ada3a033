#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""flow_random.py TRAPLINE FOLDER PROGRAMS SEED - random programs that move a secret, under `trapline flow`.

Each program is C. Its operations are done here too, byte by byte, with the way of each byte: "A" moved only,
"B" computed, "C" looked up in a table, None of something else. So for each sink it is known what it may get.
A flow that is reported and not known is false; one that is known and not reported is a miss. Misses are counted
by the operations before the sink that end a window, as what runs between windows is not seen. A seed makes the
same program again.
"""
import json
import os
import random
import subprocess
import sys
from collections import Counter

LENGTH = 24
SIZE = 64
BUFFERS = 5
ENDS = {"spin", "thread", "pipe", "file", "realloc"}
LEAST = 8  # bytes of a copy that a sink reports

HEAD = """#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define OP(n) __attribute__((noinline)) static void op_##n(void)
#define STAY __asm__ volatile("" : : : "memory")
static unsigned char *b[%d];
static size_t bytes[%d];
static int out;
static void must(int is) { if (!is) exit(9); }
static void spin(void) { for (volatile int i = 0; i < 400000; i++) ; }
""" % (BUFFERS, BUFFERS)


class Program:
	def __init__(self, seed):
		self.random = random.Random(seed)
		self.secret = bytes(self.random.choice(b"ABCDEFGHIJKLMNPQRSTUVWXYZabcdefghijkmnpqrstuvwxyz23456789")
				    for _ in range(LENGTH))
		self.bytes = [[self.random.randrange(256) for _ in range(SIZE)] for _ in range(BUFFERS)]
		self.way = [[None] * SIZE for _ in range(BUFFERS)]
		self.ended = set()  # by which operations windows may have ended
		self.sinks = {}  # function: (bytes, way, ended)
		self.code = []
		self.main = []
		for i in range(BUFFERS):
			text = ",".join(map(str, self.bytes[i]))
			self.code.append("static const unsigned char first_%d[] = {%s};" % (i, text))
			self.main.append("must((b[%d] = malloc(%d)) != NULL);" % (i, SIZE))
			self.main.append("memcpy(b[%d], first_%d, %d); bytes[%d] = %d;" % (i, i, SIZE, i, SIZE))
		self.main.append("must((out = open(\"/dev/null\", O_WRONLY)) >= 0);")
		self.main.append("must(read(0, b[0], %d) == %d);" % (LENGTH, LENGTH))
		for i in range(LENGTH):
			self.bytes[0][i], self.way[0][i] = self.secret[i], "A"

	def add(self, body):
		number = len(self.main)
		self.code.append("OP(%d) { %s }" % (number, body))
		self.main.append("op_%d();" % number)
		return "op_%d" % number

	def range(self):
		"""From a buffer to another, mostly of bytes that are of the secret."""
		r = self.random
		s = r.choice([i for i in range(BUFFERS) if any(self.way[i])] or [0])
		d = r.choice([i for i in range(BUFFERS) if i != s])
		n = r.choice([1, 4, 8, 13, LENGTH, LENGTH, LENGTH, 40])
		at = [i for i in range(SIZE) if self.way[s][i]]
		so = min(at[0] if at and r.random() < 0.8 else r.randrange(SIZE), SIZE - n)
		return s, so, d, r.randrange(SIZE - n + 1), n

	def put(self, s, so, d, do, n, change=lambda value: value, way=None):
		got = [(change(self.bytes[s][so + i]), self.way[s][so + i]) for i in range(n)]
		for i, (value, old) in enumerate(got):
			self.bytes[d][do + i] = value
			self.way[d][do + i] = old and max(old, way or old)

	def copy(self):
		s, so, d, do, n = self.range()
		how = self.random.choice(["memcpy", "loop", "string", "block", "thread", "pipe", "file", "swap"])
		to, from_ = "b[%d] + %d" % (d, do), "b[%d] + %d" % (s, so)
		if how == "swap":
			body = ("unsigned char *x = %s, *y = %s; for (int i = 0; i < %d; i++) { unsigned char t = x[i]; x[i] = y[i]; y[i] = t; STAY; }"
				% (to, from_, n))
			old = [(self.bytes[d][do + i], self.way[d][do + i]) for i in range(n)]
			self.put(s, so, d, do, n)
			for i, (value, way) in enumerate(old):
				self.bytes[s][so + i], self.way[s][so + i] = value, way
			return self.add(body)
		copy = "memcpy(%s, %s, %d);" % (to, from_, n)
		body = {
			"memcpy": copy,
			"loop": "unsigned char *x = %s; const unsigned char *y = %s; for (int i = 0; i < %d; i++) { x[i] = y[i]; STAY; }" % (to, from_, n),
			"string": "void *x = %s; const void *y = %s; size_t n = %d; __asm__ volatile(\"rep movsb\" : \"+D\"(x), \"+S\"(y), \"+c\"(n) : : \"memory\");" % (to, from_, n),
			"block": "void *x = malloc(%d); must(x != NULL); memcpy(x, %s, %d); STAY; memcpy(%s, x, %d); free(x);" % (n, from_, n, to, n),
			"pipe": "int e[2]; must(!pipe(e)); must(write(e[1], %s, %d) == %d && read(e[0], %s, %d) == %d); close(e[0]); close(e[1]);" % (from_, n, n, to, n, n),
			"file": "FILE *f = tmpfile(); must(f && pwrite(fileno(f), %s, %d, 0) == %d && pread(fileno(f), %s, %d, 0) == %d); fclose(f);" % (from_, n, n, to, n, n),
		}.get(how)
		if how == "thread":
			number = len(self.main)
			self.code.append("static void *thread_%d(void *x) { %s return x; }" % (number, copy))
			body = "pthread_t t; must(!pthread_create(&t, NULL, thread_%d, NULL)); pthread_join(t, NULL);" % number
		function = self.add(body)
		if how in ("pipe", "file"):  # which are sinks, too
			self.sink(function, s, so, n)
		self.put(s, so, d, do, n)
		self.ended |= {how} & ENDS
		return function

	def compute(self):
		s, so, d, do, n = self.range()
		how = self.random.choice(["xor", "add", "sum", "table"])
		key = self.random.randrange(1, 256)
		loop = "unsigned char *x = b[%d] + %d; const unsigned char *y = b[%d] + %d; for (int i = 0; i < %d; i++) x[i] = %%s;" % (d, do, s, so, n)
		if how == "sum":
			do = min(do, SIZE - 4)
			value = 5381
			for i in range(n):
				value = (value * 33 + self.bytes[s][so + i]) & 0xffffffff
			ways = [w for w in self.way[s][so:so + n] if w]
			for i in range(4):
				self.bytes[d][do + i] = value >> 8 * i & 255
				self.way[d][do + i] = max(ways + ["B"]) if ways else None
			return self.add("unsigned h = 5381; for (int i = 0; i < %d; i++) h = h * 33 + b[%d][%d + i]; memcpy(b[%d] + %d, &h, 4);"
					% (n, s, so, d, do))
		if how == "table":
			table = list(range(256))
			self.random.shuffle(table)
			self.code.append("static const unsigned char table_%d[] = {%s};" % (len(self.main), ",".join(map(str, table))))
			self.put(s, so, d, do, n, lambda v: table[v], "C")
			return self.add(loop % ("table_%d[y[i]]" % len(self.main)))
		change = (lambda v: v ^ key) if how == "xor" else (lambda v: (v + key) & 255)
		self.put(s, so, d, do, n, change, "B")
		return self.add(loop % ("y[i] %s %d" % ("^" if how == "xor" else "+", key)))

	def other(self):
		d = self.random.randrange(BUFFERS)
		how = self.random.choice(["set", "realloc", "spin"])
		if how == "set":
			do, value = self.random.randrange(SIZE // 2), self.random.randrange(256)
			for i in range(do, SIZE):
				self.bytes[d][i], self.way[d][i] = value, None
			return self.add("memset(b[%d] + %d, %d, %d);" % (d, do, value, SIZE - do))
		self.ended |= {how}
		if how == "spin":
			return self.add("spin();")
		return self.add("bytes[%d] *= 64; if (bytes[%d] > 1 << 22) bytes[%d] = 1 << 22; must((b[%d] = realloc(b[%d], bytes[%d])) != NULL);"
				% ((d,) * 6))

	def sink(self, function, k, at=0, n=SIZE):
		self.sinks[function] = (bytes(self.bytes[k][at:at + n]), self.way[k][at:at + n], sorted(self.ended))

	def source(self, operations):
		for _ in range(operations):
			self.random.choices([self.copy, self.compute, self.other], [6, 3, 2])[0]()
		for k in range(BUFFERS):
			self.sink(self.add("must(write(out, b[%d], %d) == %d);" % (k, SIZE, SIZE)), k)
		self.main.append("for (int k = 0; k < %d; k++) for (int i = 0; i < %d; i++) printf(\"%%02x\", b[k][i]);" % (BUFFERS, SIZE))
		return HEAD + "\n".join(self.code) + "\nint main(void)\n{\n\t" + "\n\t".join(self.main) + "\n}\n"

	def output(self):
		return "".join("%02x" % v for buffer in self.bytes for v in buffer)


def row(ways):
	"""The longest row of bytes that were moved only."""
	most = now = 0
	for way in ways:
		now = now + 1 if way == "A" else 0
		most = max(most, now)
	return most


def judge(p, flows):
	"""(what is false, Counter of misses, how many are right)"""
	false, misses, right = [], Counter(), 0
	told = {}
	for f in flows:
		told.setdefault(f["to"]["function"], []).append(f)
	for function, reported in told.items():
		content, ways, _ = p.sinks.get(function, (b"", [], []))
		for f in reported:
			if f["grade"] == "found":
				is_true = p.secret in content
			elif f["kind"] == "copy":
				is_true = f["bytes"] <= sum(way == "A" for way in ways)
			else:
				is_true = any(way in ("B", "C") for way in ways)
			if not is_true:
				false.append("%s %s %s: %d bytes in %s" % (f["grade"], f["kind"], f["to"]["name"], f["bytes"], function))
	for function, (_, ways, ended) in p.sinks.items():
		kinds = {f["kind"] for f in told.get(function, [])}
		for kind, wanted in (("copy", row(ways) >= LEAST), ("computed", any(w in ("B", "C") for w in ways))):
			if not wanted:
				continue
			if kind in kinds:
				right += 1
				continue
			misses[kind + " behind " + (", ".join(ended) or "nothing")] += 1
	return false, misses, right


def run(trapline, folder, seed):
	p = Program(seed)
	base = os.path.join(folder, "program")
	with open(base + ".c", "w") as f:
		f.write(p.source(p.random.randrange(4, 16)))
	subprocess.run(["cc", p.random.choice(["-O0", "-O1", "-O2", "-O3"]), "-g", "-w", "-pthread", "-o", base, base + ".c"], check=True)
	done = subprocess.run([trapline, "flow", "--tables", "--overhead", "100", "--match", p.secret.decode(), "--as", "jsonl",
			       "-o", base + ".jsonl", "--", base], input=p.secret + b"\n", capture_output=True, timeout=120)
	if done.returncode or done.stdout.decode() != p.output():
		return ["the program's output changed, or status %d: %s" % (done.returncode, done.stderr.decode()[-300:])], Counter(), 0
	with open(base + ".jsonl") as f:
		lines = [json.loads(line) for line in f]
	return judge(p, [x for x in lines if x["type"] == "flow" and x["kind"] != "residue"])


def main():
	trapline, folder, programs, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
	misses, right, false = Counter(), 0, 0
	for n in range(seed, seed + programs):
		wrong, missed, found = run(trapline, folder, n)
		misses += missed
		right += found
		false += len(wrong)
		for text in wrong:
			print("# seed %d: %s" % (n, text))
	print("# %d programs from seed %d: %d flows right, %d false, %d missed" % (programs, seed, right, false, sum(misses.values())))
	for reason, n in misses.most_common():
		print("# missed %d: %s" % (n, reason))
	return 1 if false or not right else 0


if __name__ == "__main__":
	sys.exit(main())
