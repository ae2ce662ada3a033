#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""flow_juliet.py TRAPLINE CORPUS WORK - flows of the Juliet suite (CWE78, CWE23) by `trapline flow`.

CORPUS is a checkout of arichardson/juliet-test-suite-c. Each case that is not for Windows becomes a bad and
a good program in WORK. Each runs once, and gets a text by its console, its environment, a file or a socket.
A bad one has to bring it to an exec, a shell or an open; a good one must not. One JSON line at the end.

        TRAPLINE_JULIET_VARIANT  the flow variant; 01
        TRAPLINE_JULIET_JOBS     builds at once; 2
        TRAPLINE_JULIET_ONLY     a regular expression: cases with such a name
"""
import concurrent.futures
import json
import os
import subprocess
import sys
import threading

import heap_juliet as suite

TEXT = "julietflowtext"
SINKS = {"system", "popen", "execl", "execlp", "execle", "execv", "execvp", "execve", "posix_spawn", "posix_spawnp",
         "open64", "openat64", "fopen64", "creat64"}
suite.WEAKNESSES = ["78", "23"]


def source_of(name):
    return "env:ADD" if "environment" in name else "read"


def run(trapline, work, name, program):
    """(whether a sink gets the text, the status, what the summary says)"""
    report = f"{work}/flow.{threading.get_ident()}.json"
    if os.path.exists(report):
        os.unlink(report)
    argv = [trapline, "flow", "--from", source_of(name), "--match", TEXT, "--as", "jsonl", "-o", report, "--", program]
    environment = {**os.environ, "ADD": TEXT}
    # Good ones write to it.
    with open("/tmp/file.txt", "w", encoding="utf8") as f:
        f.write(TEXT + "\n")
    with suite.Feeder(name, TEXT + "\n"):
        try:
            done = subprocess.run(argv, input=(TEXT + "\n").encode(), stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=60, env=environment, check=False)
        except subprocess.TimeoutExpired:
            return None, "timeout", ""
    try:
        with open(report, encoding="utf8") as f:
            lines = [json.loads(line) for line in f]
    except (OSError, ValueError) as wrong:
        return None, done.returncode, f"{wrong}: {done.stdout.decode(errors='replace')}"
    flows = [line for line in lines if line["type"] == "flow" and line["kind"] != "residue"]
    reached = [f["to"]["name"] for f in flows if f["to"]["name"] in SINKS and f["grade"] == "A"]
    return bool(reached), done.returncode, lines[-1]["counters"]


def main():
    trapline, corpus, work = sys.argv[1:4]
    os.makedirs(work, exist_ok=True)
    found = suite.cases(corpus)
    # The first one makes what all share.
    name = next(iter(found))
    suite.build(corpus, work, name, found[name][0], "bad", False)
    with concurrent.futures.ThreadPoolExecutor(suite.JOBS) as pool:
        jobs = {(name, kind): pool.submit(suite.build, corpus, work, name, sources[kind == "good"], kind, False)
                for name, sources in found.items() for kind in ("bad", "good")}
        programs = {key: job.result() for key, job in jobs.items()}
    # One at a time. One that listens cannot have the port soon after the feeder has listened there.
    order = sorted(programs, key=lambda key: "connect_socket" in key[0])
    results = {key: run(trapline, work, key[0], programs[key]) for key in order}
    os.unlink("/tmp/file.txt")
    missed = {n: results[n, "bad"][1:] for n in found if not results[n, "bad"][0]}
    false = sorted(n for n in found if results[n, "good"][0])
    failed = sorted(f"{n} {k}: {r[1]} {r[2]}" for (n, k), r in results.items() if r[0] is None)
    print(json.dumps({"variant": suite.VARIANT, "cases": len(found), "found": len(found) - len(missed),
                      "missed": missed, "false": false, "failed": failed}))
    print(f"{len(found) - len(missed)} of {len(found)} bad ones found, {len(false)} good ones reported, "
          f"{len(failed)} without an answer", file=sys.stderr)


if __name__ == "__main__":
    main()
