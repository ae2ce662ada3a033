#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""heap_pairs.py BUILD - what programs of a second and more pay for `trapline heap`, in pairs.

Each round runs a program alone and then under trapline, the first of both by turns. The CPU time is
that of the program and its children, its start included; the command has its own column. The ratios
are those of one round, so a machine that is slower for a while falsifies few of them.

JSON lines, one a program: median of the ratios, the interval that holds 95 of 100 medians of draws of
the rounds, what the summary says that it cost as a ratio, its upper bound, whether that is not refuted
(it is, if the whole interval is above), allocations a second, and the CPU time of the command. A program that is not installed is left out, with a line.

        TRAPLINE_BENCH_PROGRAMS  names; all
        TRAPLINE_BENCH_ROUNDS    5
        TRAPLINE_HEAP_OPTIONS    of trapline heap; ""
"""
import json
import os
import random
import shlex
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROUNDS = int(os.environ.get("TRAPLINE_BENCH_ROUNDS", "5"))
OPTIONS = shlex.split(os.environ.get("TRAPLINE_HEAP_OPTIONS", ""))
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "heap_pairs")
LUA = next((p for p in ("lua5.4", "lua5.3", "lua") if shutil.which(p)), "lua")
PYTHON = ("import collections\nwords = [str(i * 7919 % 100003) for i in range(200000)]\n"
          "for _ in range({n}):\n    c = collections.Counter(words)\n"
          "    d = {{w: [w, len(w)] for w in words}}\n    s = sorted(d.items())[:10]\n")
PERL = ("my %h; for my $i (1 .. {n}) {{ my $k = 'key' . ($i % 5000); $h{{$k}} .= 'x'; "
        "my @l = split /,/, \"a,$i,b,c\"; delete $h{{$k}} if length($h{{$k}}) > 20; }}")
LUA_TEXT = ("local t = {{}} for i = 1, {n} do t[i % 1000] = {{ name = 'n' .. i, list = {{ i, i + 1 }} }} "
            "if i % 7 == 0 then t[i % 1000].name = t[i % 1000].name .. 'x' end end")
SQL = ("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT, c REAL); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL "
       "SELECT i + 1 FROM n WHERE i < {n}) INSERT INTO t SELECT i, 'name ' || i, i * 0.5 FROM n; "
       "SELECT count(*), sum(length(b)) FROM t GROUP BY a % 100; SELECT upper(b) || c FROM t WHERE a % 3 = 0;")
AWK = "BEGIN {{ for (i = 0; i < {n}; i++) {{ k = \"w\" i % 5000; c[k] = c[k] \"x\"; if (length(c[k]) > 30) delete c[k] }} }}"


def compiled(name, folder, compiler="cc", *more):
    source = next(f"{FOLDER}/{name}{end}" for end in (".c", ".cc") if os.path.exists(f"{FOLDER}/{name}{end}"))
    subprocess.run([compiler, "-O2", "-o", f"{folder}/{name}", source, *more], check=True)
    return f"{folder}/{name}"


def programs(folder):
    """(name, command, input file or None); amounts for a second and more."""
    text = f"{folder}/text"
    with open(text, "w", encoding="utf8") as f:
        draw = random.Random(1)
        f.write("\n".join(" ".join(draw.choice(("alpha", "beta", "gamma", "delta")) + str(draw.randrange(9999))
                                   for _ in range(9)) for _ in range(90000)))
    yield "perl", ["perl", "-e", PERL.format(n=1500000)], None
    yield "lua", [LUA, "-e", LUA_TEXT.format(n=2000000)], None
    yield "python", ["/usr/bin/python3", "-c", PYTHON.format(n=7)], None
    yield "python_malloc", ["env", "PYTHONMALLOC=malloc", "/usr/bin/python3", "-c", PYTHON.format(n=5)], None
    yield "sqlite", ["sqlite3", ":memory:", SQL.format(n=900000)], None
    yield "xz", ["xz", "-1", "-c"], text
    yield "gzip", ["gzip", "-9", "-c"], text
    yield "awk", ["awk", AWK.format(n=5000000)], None
    yield "json", [compiled("json", folder), "1200"], None
    yield "map", [compiled("map", folder, "g++"), "1500000"], None
    yield "loop", [compiled("loop", folder), "60000000"], None
    yield "forks", [compiled("forks", folder), "3000"], None


def run(before, command, source, folder):
    """CPU seconds of the program, and of all."""
    told = f"{folder}/told"
    stdin = open(source, "rb") if source else subprocess.DEVNULL
    before_all = os.times()
    subprocess.run([*before, f"{folder}/cpu_of", told, *command], stdin=stdin, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, check=True)
    after = os.times()
    if source:
        stdin.close()
    with open(told, encoding="utf8") as f:
        own = float(f.read())
    return own, after.children_user + after.children_system - before_all.children_user - before_all.children_system


def summary_of(path):
    with open(path, encoding="utf8") as f:
        return next(row for row in map(json.loads, f) if row["type"] == "summary")


def interval(values):
    draw = random.Random(1)
    drawn = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(1000))
    return [round(drawn[25], 3), round(drawn[974], 3)]


def measure(name, command, source, folder, heap):
    ratios, said, most, rates, own = [], [], [], [], []
    for n in range(ROUNDS):
        pair = {}
        for is_heap in (n % 2 == 0, n % 2 == 1):
            pair[is_heap] = run(heap if is_heap else [], command, source, folder)
        summary = summary_of(f"{folder}/report")
        counters = summary["counters"]
        ratios.append(pair[True][0] / pair[False][0])
        said.append(1 + counters["cost_ns"] / max(1, counters["cpu_ns"] - counters["cost_ns"]))
        most.append(1 + summary["cost_most_ns"] / max(1, counters["cpu_ns"] - summary["cost_most_ns"]))
        rates.append(counters["allocations"] / pair[True][0])
        own.append(pair[True][1] - pair[True][0])
    print(json.dumps({"bench": "heap_pairs", "program": name, "rounds": ROUNDS, "options": OPTIONS,
                      "alone_s": round(pair[False][0], 2), "ratio": round(statistics.median(ratios), 3),
                      "interval": interval(ratios), "said": round(statistics.median(said), 3),
                      "said_most": round(statistics.median(most), 3),
                      "bound_holds": interval(ratios)[0] <= statistics.median(most),
                      "allocations_per_s": round(statistics.median(rates)),
                      "command_s": round(statistics.median(own), 3), "load": os.getloadavg()[0]}), flush=True)


def main():
    build = os.path.abspath(sys.argv[1])
    wanted = os.environ.get("TRAPLINE_BENCH_PROGRAMS", "").split()
    with tempfile.TemporaryDirectory() as folder:
        compiled("cpu_of", folder)
        heap = [f"{build}/trapline", "heap", *OPTIONS, "--json", "-o", f"{folder}/report", "--"]
        for name, command, source in programs(folder):
            if wanted and name not in wanted:
                continue
            if not shutil.which(command[0]):
                print(json.dumps({"bench": "heap_pairs", "program": name, "missing": command[0]}), flush=True)
                continue
            measure(name, command, source, folder, heap)


if __name__ == "__main__":
    main()
