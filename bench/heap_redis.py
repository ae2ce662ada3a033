#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""heap_redis.py BUILD - the CPU time of a Redis server under `trapline heap`, beside the same without.

Each pair starts a server, gives it the same requests and reads its CPU time before it ends, its start
included: once alone and once under trapline, the first of both by turns. JSON line: the median of the
ratios, and the interval that holds 95 of 100 draws of the pairs. A second line has pairs of two servers
alone, which is what the machine itself does.

        TRAPLINE_BENCH_PAIRS     10
        TRAPLINE_BENCH_REQUESTS  of each kind; 100000
        TRAPLINE_HEAP_OPTIONS    of trapline heap; ""
"""
import json
import os
import random
import shlex
import socket
import statistics
import subprocess
import sys
import tempfile
import time

PAIRS = int(os.environ.get("TRAPLINE_BENCH_PAIRS", "10"))
REQUESTS = os.environ.get("TRAPLINE_BENCH_REQUESTS", "100000")
OPTIONS = shlex.split(os.environ.get("TRAPLINE_HEAP_OPTIONS", ""))


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return str(s.getsockname()[1])


def server_of(port):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", encoding="utf8") as f:
                words = f.read().split("\0")
            if words[0].startswith("redis-server") and any(port in w for w in words):
                return int(pid)
        except OSError:
            pass
    return None


def cpu_s(pid):
    with open(f"/proc/{pid}/schedstat", encoding="utf8") as f:
        first = int(f.read().split()[0]) / 1e9
    total = 0
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/schedstat", encoding="utf8") as f:
            total += int(f.read().split()[0]) / 1e9
    return max(first, total)


def measure(before, folder):
    port = free_port()
    out = subprocess.DEVNULL
    process = subprocess.Popen([*before, "redis-server", "--port", port, "--save", "", "--dir", folder],
                               stdout=out, stderr=out)
    while subprocess.run(["redis-cli", "-p", port, "ping"], stdout=out, stderr=out, check=False).returncode:
        time.sleep(0.05)
    subprocess.run(["redis-benchmark", "-p", port, "-q", "-n", REQUESTS, "-r", "10000", "-t", "set,get,lpush,sadd"],
                   stdout=out, stderr=out, check=True)
    pid = server_of(port)
    used = cpu_s(pid)
    os.kill(pid, 15)
    process.wait(60)
    return used


def compared(name, command, folder):
    ratios, alone, under = [], [], []
    for i in range(PAIRS):
        first, second = ([], command) if i % 2 else (command, [])
        a, b = measure(first, folder), measure(second, folder)
        plain, other = (a, b) if i % 2 else (b, a)
        ratios.append(other / plain)
        alone.append(plain)
        under.append(other)
    draws = sorted(statistics.median(random.choices(ratios, k=PAIRS)) for _ in range(2000))
    print(json.dumps({"bench": "heap_redis", "what": name, "pairs": PAIRS, "alone_s": round(statistics.median(alone), 3),
                      "with_s": round(statistics.median(under), 3), "ratio": round(statistics.median(ratios), 4),
                      "least": round(draws[50], 4), "most": round(draws[1949], 4),
                      "load": os.getloadavg()[0]}), flush=True)


def main():
    build = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        report = f"{folder}/report"
        compared("trapline heap", [f"{build}/trapline", "heap", *OPTIONS, "--json", "-o", report, "--"], folder)
        with open(report, encoding="utf8") as f:
            print(json.dumps({"bench": "heap_redis", "what": "last summary",
                              **{k: v for k, v in json.loads(f.readlines()[-1]).items()
                                 if k in ("errors", "sampled", "reused", "lost", "cost_ns", "cpu_ns")}}), flush=True)
        compared("alone again", [], folder)


if __name__ == "__main__":
    main()
