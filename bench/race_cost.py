#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""race_cost.py BUILD - what a search for races costs a program, in pairs.

Each round runs a program alone, then launched by `trapline race`, then attached to by `trapline race
-p`, by root and by a user where both can be had. The ratios are those of one round, so a machine that
is slower for a while falsifies few of them. The work is fixed; its time alone is about SECONDS.

JSON lines, one a program and a way: medians of the ratios of wall time and of CPU time, the interval
that holds 95 of 100 medians of draws of the rounds, CPU time of the command itself beside the
program's, and what the search said that it cost.

        TRAPLINE_BENCH_PROGRAMS "compute:2 handover:2 stencil:2 sleepers:4 short:2"
        TRAPLINE_BENCH_WAYS     "launched attached"
        TRAPLINE_BENCH_USERS    "root user", those that there are
        TRAPLINE_BENCH_ROUNDS   5
        TRAPLINE_BENCH_SECONDS  2
        TRAPLINE_BENCH_OPTIONS  of trapline race: none
"""
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

SECONDS = float(os.environ.get("TRAPLINE_BENCH_SECONDS", "2"))
SHORT_S = 0.05
ROUNDS = int(os.environ.get("TRAPLINE_BENCH_ROUNDS", "5"))
OPTIONS = os.environ.get("TRAPLINE_BENCH_OPTIONS", "").split()
NOBODY = 65534
AMOUNTS = {"compute": 20000, "handover": 20000, "rounds": 20000, "sleepers": 100, "stencil": 2000,
           "table": 4000000, "short": 500}
KINDS = {"short": "compute"}


def words(name, default):
    return os.environ.get(name, default).split()


def as_user(user):
    if user == "root":
        return {}
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []}


def run(command, user):
    """Seconds of wall time and of CPU time, with that of its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          **as_user(user)) as process:
        process.wait()
    wall = time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"wall": wall, "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime}


def said_in(report):
    try:
        with open(report) as f:
            return json.loads(f.readlines()[-1])
    except (OSError, ValueError, IndexError):
        return {}


def launched(folder, command, user, report):
    took = run([f"{folder}/trapline", "race", "--json", "-o", report, *OPTIONS, "--", *command], user)
    return took | {"said": said_in(report)}


def attached(folder, command, user, report):
    start = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, **as_user(user)) as program:
        time.sleep(0.02)  # its threads are there
        search = subprocess.Popen([f"{folder}/trapline", "race", "--json", "-o", report, *OPTIONS, "-p",
                                   str(program.pid)], stdin=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL, **as_user(user))
        _, _, used = os.wait4(program.pid, 0)
        wall = time.monotonic() - start
        program.returncode = 0
        _, _, search_used = os.wait4(search.pid, 0)
        search.returncode = 0
    return {"wall": wall, "cpu": used.ru_utime + used.ru_stime,
            "command": search_used.ru_utime + search_used.ru_stime, "said": said_in(report)}


def amount_for(target, name, threads, seconds):
    """So much work takes that time alone."""
    kind = KINDS.get(name, name)
    n = AMOUNTS[name]
    for _ in range(4):
        took = run([target, kind, threads, str(n)], "root")["wall"]
        n = max(1, int(n * min(20, seconds / max(took, 1e-3))))
    return [target, kind, threads, str(n)]


def interval(values):
    draws = sorted(statistics.median(random.choices(values, k=len(values))) for _ in range(1000))
    return round(draws[25], 3), round(draws[974], 3)


def tell(name, threads, way, user, alone, searched):
    wall = [s["wall"] / a["wall"] for a, s in zip(alone, searched)]
    cpu = [s["cpu"] / a["cpu"] for a, s in zip(alone, searched)]
    more = [(s["wall"] - a["wall"]) * 1e3 for a, s in zip(alone, searched)]
    line = {"what": "cost", "program": name, "threads": int(threads), "way": way, "user": user,
            "rounds": len(alone), "alone_s": round(statistics.median(a["wall"] for a in alone), 3),
            "wall": round(statistics.median(wall), 3), "wall_95": interval(wall),
            "cpu": round(statistics.median(cpu), 3), "cpu_95": interval(cpu),
            "more_ms": round(statistics.median(more), 1)}
    if "command" in searched[0]:
        line["command_cpu_ms"] = round(1e3 * statistics.median(s["command"] for s in searched), 1)
    for key, of in (("said", "overhead"), ("stalls", "stalls")):
        values = [s["said"].get(of) for s in searched if s["said"].get(of) is not None]
        if values:
            line[key] = round(statistics.median(values), 4)
    print(json.dumps(line), flush=True)


def bench(folder, reports, program, ways, users):
    name, threads = program.split(":")
    command = amount_for(f"{folder}/race_target", name, threads, SHORT_S if name == "short" else SECONDS)
    found = {}
    alone = []
    for _ in range(ROUNDS):
        alone.append(run(command, "root"))
        for way in ways:
            for user in users:
                report = f"{reports[user]}/report"
                took = (launched if way == "launched" else attached)(folder, command, user, report)
                found.setdefault((way, user), []).append(took)
    for (way, user), searched in found.items():
        tell(name, threads, way, user, alone, searched)


def main():
    build = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build")
    is_root = os.geteuid() == 0
    users = words("TRAPLINE_BENCH_USERS", "root user" if is_root else "root")
    ways = words("TRAPLINE_BENCH_WAYS", "launched attached")
    programs = words("TRAPLINE_BENCH_PROGRAMS", "compute:2 handover:2 stencil:2 sleepers:4 short:2")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        for path in (f"{build}/trapline", f"{build}/libtrapline-agent.so", f"{build}/libtrapline-heap.so",
                     f"{build}/bench/race_target"):
            shutil.copy(path, folder)
        reports = {}
        for user in users:
            reports[user] = f"{folder}/{user}"
            os.mkdir(reports[user])
            if user != "root":
                os.chown(reports[user], NOBODY, NOBODY)
        for program in programs:
            bench(folder, reports, program, ways, users)


main()
