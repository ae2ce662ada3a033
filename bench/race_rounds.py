#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""race_rounds.py BUILD - what `trapline race -p` costs a program whose threads wait for each other.

A program of many threads with a barrier runs all the time, and notes when each round is over. It is
searched and left alone in turn. Two runs of such a program differ by half here, and so do a second
and the next; so the windows are short, many, and in one process. Each begins a search, which may
spend 5 ms at once.

JSON lines: the mean and the median round with the search by those without, with the interval that
holds 95 of 100 draws of the windows, and what the search itself says that it cost, as a ratio. And
what a machine that is slower for a while does not touch: the part of the time that goes into the
excess of rounds over four median ones, which is where a stall shows, with the search and without.

        TRAPLINE_BENCH_THREADS  "2 8 64"
        TRAPLINE_BENCH_BUDGETS  "2%"
        TRAPLINE_BENCH_WINDOWS  of each kind; 30
        TRAPLINE_BENCH_SECONDS  of a window; 0.5
"""
import array
import json
import mmap
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time

WINDOW_S = float(os.environ.get("TRAPLINE_BENCH_SECONDS", "0.5"))
SETTLE_S = 0.5  # attaching is not what is measured
ROUNDS_MAX = 8 << 20


class Program:
    def __init__(self, build, folder, threads):
        path = os.path.join(folder, "rounds")
        self.process = subprocess.Popen([f"{build}/bench/race_target", "stencil", threads, "2e9", path])
        time.sleep(1)
        with open(path, "rb") as f:
            self.map = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)

    def count(self):
        return int.from_bytes(self.map[:8], sys.byteorder)

    def window(self):
        """Durations of the rounds in the next window, ns."""
        first = self.count()
        time.sleep(WINDOW_S)
        last = self.count()
        if last >= ROUNDS_MAX:
            sys.exit("race_rounds.py: more rounds than can be noted: fewer windows")
        ends = array.array("Q")
        ends.frombytes(self.map[8 + 8 * first:8 + 8 * last])
        return [b - a for a, b in zip(ends, ends[1:])]

    def end(self):
        self.process.kill()
        self.process.wait()


def searched(build, folder, program, budget):
    report = os.path.join(folder, "report")
    search = subprocess.Popen([f"{build}/trapline", "race", "-p", str(program.process.pid), "--overhead",
                               budget, "--json", "-o", report], stderr=subprocess.DEVNULL)
    time.sleep(SETTLE_S)
    rounds = program.window()
    search.send_signal(signal.SIGINT)
    search.wait()
    with open(report) as f:
        summary = json.loads(f.readlines()[-1])
    time.sleep(0.1)
    return rounds, summary["overhead"]


def mean_ratio(on, off):
    return (sum(map(sum, on)) / sum(map(len, on))) / (sum(map(sum, off)) / sum(map(len, off)))


def interval(on, off):
    draws = sorted(mean_ratio(*zip(*random.choices(list(zip(on, off)), k=len(on)))) for _ in range(1000))
    return draws[25], draws[974]


def tail(windows):
    """The mean over the windows; as a part of one."""
    parts = []
    for rounds in windows:
        median = statistics.median(rounds)
        parts.append(sum(r - median for r in rounds if r > 4 * median) / sum(rounds))
    return statistics.mean(parts)


def main():
    build = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build")
    windows = int(os.environ.get("TRAPLINE_BENCH_WINDOWS", "30"))
    for threads in os.environ.get("TRAPLINE_BENCH_THREADS", "2 8 64").split():
        for budget in os.environ.get("TRAPLINE_BENCH_BUDGETS", "2%").split():
            on, off, said = [], [], []
            with tempfile.TemporaryDirectory() as folder:
                program = Program(build, folder, threads)
                for _ in range(windows):
                    off.append(program.window())
                    rounds, overhead = searched(build, folder, program, budget)
                    on.append(rounds)
                    said.append(1 + overhead)
                program.end()
            low, high = interval(on, off)
            median = [statistics.median(x for w in side for x in w) for side in (on, off)]
            print(json.dumps({"what": "rounds", "program": "stencil", "threads": int(threads),
                              "budget": budget, "windows": windows, "seconds": WINDOW_S,
                              "mean_ratio": round(mean_ratio(on, off), 3),
                              "low": round(low, 3), "high": round(high, 3),
                              "median_ratio": round(median[0] / median[1], 3),
                              "tail": round(tail(on), 3), "tail_without": round(tail(off), 3),
                              "said": round(statistics.mean(said), 3)}), flush=True)


main()
