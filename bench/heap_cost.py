#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""heap_cost.py BUILD - what a pair of malloc() and free() costs under `trapline heap`, beside its peers.

Each round runs the same loop in turn: alone (the floor), under trapline, where its block is seldom sampled,
with each block sampled (--first), and under the peers that are there: MALLOC_CHECK_=3, scudo with its GWP-ASan (of the
newest clang, preloaded), AddressSanitizer (another build) and valgrind. JSON lines: medians of the CPU time of a pair
in ns, and what it is more than alone, the median of the rounds.

        TRAPLINE_BENCH_ROUNDS    7
"""
import glob
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

ROUNDS = int(os.environ.get("TRAPLINE_BENCH_ROUNDS", "7"))
LOOP = r"""
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static double now(void) { struct timespec t; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); return t.tv_sec * 1e9 + t.tv_nsec; }
static __attribute__((noinline)) void pair(size_t n) { void *volatile p = malloc(n); free(p); }
static __attribute__((noinline)) void deeper(size_t n, int d) { if (d) deeper(n, d - 1); else pair(n); __asm__ volatile(""); }
int main(int argc, char **argv) {
	int n = atoi(argv[1]); double best = 1e30;
	for (int r = 0; r < 5; r++) {
		double start = now();
		for (int i = 0; i < n; i++) deeper(32, 4);
		double took = (now() - start) / n;
		best = took < best ? took : best;
	}
	printf("%.3f\n", best);
	return 0;
}
"""


def cost_ns(command, environment):
    run = subprocess.run(command, env={**os.environ, **environment}, stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, check=True)
    return float(run.stdout.split()[-1])


def ways(build, folder):
    """(name, command, environment) of each that is there."""
    loop, heap = f"{folder}/loop", [f"{build}/trapline", "heap", "-o", "/dev/null"]
    scudo = sorted(glob.glob("/usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.scudo_standalone-x86_64.so"))
    check = glob.glob("/lib/x86_64-linux-gnu/libc_malloc_debug.so.0")
    yield "alone", [loop, "400000"], {}
    yield "trapline heap", [*heap, "--", loop, "400000"], {}
    yield "trapline heap, each block sampled", [*heap, "--first", "100000000", "--", loop, "4000"], {}
    if check:
        yield "MALLOC_CHECK_=3", [loop, "400000"], {"MALLOC_CHECK_": "3", "LD_PRELOAD": check[0]}
    if scudo:
        yield "scudo with GWP-ASan", [loop, "400000"], {"LD_PRELOAD": scudo[-1]}
    if os.path.exists(f"{folder}/asan"):
        yield "AddressSanitizer", [f"{folder}/asan", "400000"], {}
    if shutil.which("valgrind"):
        yield "valgrind", ["valgrind", "-q", loop, "20000"], {}


def main():
    build = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/loop.c", "w", encoding="utf8") as f:
            f.write(LOOP)
        compile_ = lambda *more: subprocess.run(["cc", "-O1", f"{folder}/loop.c", *more], check=False,
                                                stderr=subprocess.DEVNULL)
        compile_("-o", f"{folder}/loop")
        compile_("-fsanitize=address", "-o", f"{folder}/asan")
        rows = list(ways(build, folder))
        seen = {name: [] for name, _, _ in rows}
        for _ in range(ROUNDS):
            for name, command, environment in rows:
                seen[name].append(cost_ns(command, environment))
    alone = seen["alone"]
    for name, values in seen.items():
        more = [b - a for a, b in zip(alone, values)]
        print(json.dumps({"bench": "heap_cost", "what": name, "rounds": ROUNDS, "pair_ns": round(statistics.median(values), 2),
                          "more_ns": round(statistics.median(more), 2), "load": os.getloadavg()[0]}), flush=True)


if __name__ == "__main__":
    main()
