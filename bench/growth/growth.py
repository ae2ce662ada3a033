#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""growth.py BUILD [--page FILE] [--small] [LINE]... - how costs grow, as JSON lines and as one page.

Lines: threads (1 to 4,000), events (1 to 10,000), mappings (10 to 60,000), symbols (100 to 200,000
functions), rate (hits a second, up to loss). Each point is a program of its own, and `trapline break -p`
of the command as a user runs it. A cost is the CPU time of the command and the wall time until the
events are armed, each the least of the rounds: other load only adds.

The fit of a line is the exponent of its growth: costs above that of its first point, as a power of n, over
the upper part of the line. An exponent over that of n log n by TOLERANCE is named on standard error, and
the exit status is 1.

        TRAPLINE_BENCH_ROUNDS    3
--small: a tenth of each, for a test.
"""
import argparse
import json
import math
import os
import platform
import re
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.dirname(HERE))
from functions import write_functions  # noqa: E402

ROUNDS = int(os.environ.get("TRAPLINE_BENCH_ROUNDS", "3"))
TOLERANCE = 0.2
# A cost must be so many times that of the first point before its growth is fitted.
ABOVE = 1.5
PAGE_PARTS = os.path.join(HERE, "..", "..", "report", "page")

POINTS = {"threads": [1, 10, 100, 1000, 2000, 4000], "events": [1, 10, 100, 1000, 3000, 10000],
          "mappings": [10, 1000, 4000, 16000, 32000, 60000], "symbols": [100, 2000, 20000, 100000, 200000],
          "rate": [1000, 5000, 20000, 50000, 100000, 200000, 500000]}
MECHANISMS = {"threads": ["uprobe", "probe"], "events": ["uprobe"], "mappings": ["uprobe", "probe"],
              "symbols": ["uprobe", "probe"], "rate": ["uprobe", "probe"]}

TARGET = """#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
int f_0(int);
static void *sleeps(void *arg) { for (;;) pause(); return arg; }
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
/* THREADS MAPPINGS RATE: calls f_0() so many times a second, for 2 s after a line of input. */
int main(int argc, char **argv)
{
	int threads = atoi(argv[1]), mappings = atoi(argv[2]);
	double rate = atof(argv[3]);
	pthread_attr_t attr;
	pthread_t thread;
	char text[8];
	long calls = 0;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 65536);
	for (int i = 1; i < threads; i++)
		if (pthread_create(&thread, &attr, sleeps, NULL))
			return printf("cannot create thread %d\\n", i), 1;
	for (int i = 0; i < mappings; i++)
		if (mmap(NULL, 4096, i % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
			return printf("cannot make mapping %d\\n", i), 1;
	puts("ready");
	fflush(stdout);
	if (!fgets(text, sizeof(text), stdin))
		return 0;
	double start = now();
	while (rate > 0 && now() < start + 2)
		if ((double)calls < (now() - start) * rate)
			f_0((int)calls++);
	printf("calls %ld\\n", calls);
	fflush(stdout);
	if (!fgets(text, sizeof(text), stdin))
		return 0;
	return 0;
}
"""


def build_target(folder, functions):
    """A program that has so many functions."""
    path = f"{folder}/target{functions}"
    if os.path.exists(path):
        return path
    with open(f"{folder}/main.c", "w", encoding="utf8") as f:
        f.write(TARGET)
    with open(f"{path}.s", "w", encoding="utf8") as f:
        write_functions(f, functions)
    subprocess.run(["gcc", "-O1", "-g", "-pthread", "-o", path, f"{folder}/main.c", f"{path}.s"], check=True)
    return path


def raise_limits():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return soft


def children_cpu():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def one(build, program, arguments, location, mechanism, folder):
    """Seconds until armed, CPU seconds of the command, calls and the summary; or a text: why not."""
    with subprocess.Popen([program, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as target:
        try:
            said = target.stdout.readline().strip()
            if said != "ready":
                return said
            is_rate = arguments[2] > 0
            lines = f"{folder}/lines"
            command = [f"{build}/trapline", "break", "-p", str(target.pid), location, "--mechanism", mechanism,
                       "--budget", "none", "--json", "-o", lines]
            before = children_cpu()
            start = time.monotonic()
            with subprocess.Popen(command, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as run:
                text = run.stderr.readline()
                armed = time.monotonic() - start
                if not text.startswith("breaking on"):
                    return (text + run.stderr.read()).strip().splitlines()[-1] if text else "no words"
                calls = 0
                if is_rate:
                    target.stdin.write("go\n")
                    target.stdin.flush()
                    calls = int(target.stdout.readline().split()[1])
                run.send_signal(signal.SIGINT)
                run.stderr.read()
            cpu = children_cpu() - before
            with open(lines, encoding="utf8", errors="replace") as f:
                for last in f:
                    pass
            return armed, cpu, calls, json.loads(last)
        finally:
            target.kill()


def point(build, folder, line, mechanism, n):
    """What one point needs: the program, its arguments, the location."""
    program = build_target(folder, n if line in ("events", "symbols") else 10)
    arguments = [n if line == "threads" else 1, n if line == "mappings" else 0, n if line == "rate" else 0]
    return one(build, program, arguments, "f_*" if line == "events" else "f_0", mechanism, folder)


def measure(build, folder, line, mechanism, points):
    row = {"bench": "growth", "line": line, "mechanism": mechanism, "n": [], "armed_ms": [], "cpu_ms": []}
    if line == "rate":
        row |= {"made_per_second": [], "lost_percent": []}
    for n in points:
        found = [point(build, folder, line, mechanism, n) for _ in range(1 if line == "rate" else ROUNDS)]
        refused = [f for f in found if isinstance(f, str)]
        if refused:
            row["ends_at"], row["because"] = n, re.sub(r"\d{3,}", "N", refused[0])[:200]
            break
        row["n"].append(n)
        row["armed_ms"].append(round(min(f[0] for f in found) * 1e3, 2))
        row["cpu_ms"].append(round(min(f[1] for f in found) * 1e3, 2))
        if line == "rate":
            _, _, calls, summary = found[0]
            row["made_per_second"].append(calls / 2)
            lost = calls - summary["delivered"]
            row["lost_percent"].append(round(100 * max(lost, 0) / max(calls, 1), 2))
    return row


def exponent(n, cost):
    """Of the growth above the first point, in the upper part; and that of n log n there. None: it does not grow."""
    upper = [(x, y - cost[0]) for x, y in zip(n, cost) if y > ABOVE * cost[0]][-3:]
    if len(upper) < 2:
        return None

    def slope(points):
        mean_x = statistics.mean(math.log(x) for x, _ in points)
        mean_y = statistics.mean(math.log(y) for _, y in points)
        return (sum((math.log(x) - mean_x) * (math.log(y) - mean_y) for x, y in points)
                / sum((math.log(x) - mean_x) ** 2 for x, _ in points))
    return slope(upper), slope([(x, x * math.log(x)) for x, _ in upper])


def judge(row):
    """Adds the fits, and returns what is worse than n log n."""
    worse = []
    if row["line"] == "rate":
        lossy = [made for made, lost in zip(row["made_per_second"], row["lost_percent"]) if lost > 0]
        row["loses_from"] = lossy[0] if lossy else None
        return worse
    for key in ("armed_ms", "cpu_ms"):
        fit = exponent(row["n"], row[key])
        row[f"{key}_exponent"] = round(fit[0], 2) if fit else None
        if fit and fit[0] > fit[1] + TOLERANCE:
            worse.append(f"{row['line']}, {row['mechanism']}: {key} grows as n^{fit[0]:.2f}, "
                         f"n log n would be n^{fit[1]:.2f}")
    row["is_worse"] = bool(worse)
    return worse


def part(name):
    with open(os.path.join(PAGE_PARTS, name), encoding="utf8") as f:
        return f.read()


def write_page(path, rows, machine):
    with open(f"{HERE}/growth.js", encoding="utf8") as f:
        own = f.read()
    data = json.dumps({"kind": "growth", "rows": rows, "machine": machine}).replace("<", "\\u003c")
    with open(path, "w", encoding="utf8") as f:
        f.write(f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>trapline: growth</title>
<style>
{part("page.css")}</style>
</head>
<body>
<script type="application/json" id="data">{data}</script>
<main id="main"></main>
<script>
"use strict";
{part("page.js")}{own}start();
</script>
</body>
</html>
""")


def main():
    parser = argparse.ArgumentParser(prog="growth.py")
    parser.add_argument("build", metavar="BUILD")
    parser.add_argument("lines", metavar="LINE", nargs="*", default=[], help=", ".join(POINTS))
    parser.add_argument("--page", metavar="FILE")
    parser.add_argument("--small", action="store_true")
    options = parser.parse_intermixed_args()
    for line in options.lines:
        if line not in POINTS:
            parser.error(f"invalid line '{line}': expected {', '.join(POINTS)}")
    raise_limits()
    machine = {"date": time.strftime("%Y-%m-%d", time.gmtime()), "kernel": platform.release(), "cpus": os.cpu_count(),
               "load": round(os.getloadavg()[0], 1), "rounds": ROUNDS}
    rows, worse = [], []
    with tempfile.TemporaryDirectory() as folder:
        for line in options.lines or POINTS:
            points = [n for n in POINTS[line] if not options.small or n <= POINTS[line][-1] / 10]
            for mechanism in MECHANISMS[line]:
                row = measure(os.path.abspath(options.build), folder, line, mechanism, points)
                worse += judge(row)
                rows.append(row)
                print(json.dumps(row), flush=True)
    if options.page:
        write_page(options.page, rows, machine)
    for text in worse:
        print(f"growth: worse than n log n: {text}", file=sys.stderr)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
