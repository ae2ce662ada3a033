#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""heap_juliet.py TRAPLINE CORPUS WORK [TOOL...] - heap errors of the Juliet suite, by `trapline heap` and peers.

CORPUS is a checkout of arichardson/juliet-test-suite-c. Each case that is not for Windows becomes a bad
and a good program in WORK, without optimisation, as the suite has it. A tool runs each once. What counts
is what valgrind reports of a heap block: a case that is no heap error here is nobody's miss.

WORK keeps the programs and what the peers said; trapline always runs again. JSON lines: one for each
tool, with the names of what it missed and of good programs that it reported. A table on standard error.

        TRAPLINE_JULIET_VARIANT  the flow variant; 01
        TRAPLINE_JULIET_JOBS     programs at once; 2
        TRAPLINE_JULIET_ONLY     a regular expression: cases with such a name
        TRAPLINE_HEAP_OPTIONS    of trapline heap; "--first 8"
"""
import collections
import concurrent.futures
import glob
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import threading
import time

VARIANT = os.environ.get("TRAPLINE_JULIET_VARIANT", "01")
JOBS = int(os.environ.get("TRAPLINE_JULIET_JOBS", "2"))
ONLY = re.compile(os.environ.get("TRAPLINE_JULIET_ONLY", ""))
OPTIONS = shlex.split(os.environ.get("TRAPLINE_HEAP_OPTIONS", "--first 8"))
WEAKNESSES = ["122", "124", "126", "127", "415", "416", "590", "761"]
PORT = 27015  # of the suite
PEERS = ["valgrind", "asan", "scudo", "malloc_check"]
SCUDO = "/usr/lib/llvm-14/lib/clang/14.0.6/lib/linux/libclang_rt.scudo_standalone-x86_64.so"
MALLOC_DEBUG = "/usr/lib/x86_64-linux-gnu/libc_malloc_debug.so.0"
port_lock = threading.Lock()


def cases(corpus):
    """{name: (sources of the bad program, sources of the good one)}"""
    found = {}
    for weakness in WEAKNESSES:
        for path in glob.glob(f"{corpus}/testcases/CWE{weakness}_*/**/*_{VARIANT}*.c*", recursive=True):
            name = re.match(rf"(.*_{VARIANT})(_bad|_good1|[a-z])?\.(c|cpp)$", os.path.basename(path))
            if not name or re.search("w32|wchar_t", path) or not ONLY.search(name[1]):
                continue
            bad, good = found.setdefault(name[1], ([], []))
            if name[2] != "_good1":
                bad.append(path)
            if name[2] != "_bad":
                good.append(path)
    return found


def build(corpus, work, name, sources, kind, asan):
    """The path of the program."""
    folder = f"{work}/{'asan' if asan else 'plain'}/{kind}"
    program = f"{folder}/{name}"
    if os.path.exists(program):
        return program
    os.makedirs(folder, exist_ok=True)
    compiler = "g++" if any(s.endswith(".cpp") for s in sources) else "gcc"
    support = [f"{work}/io{'.asan' if asan else ''}.o"]
    omit = "-DOMITGOOD" if kind == "bad" else "-DOMITBAD"
    flags = ["-w", "-g", "-O0", "-DINCLUDEMAIN", f"-I{corpus}/testcasesupport"]
    flags += ["-fsanitize=address"] if asan else []
    if not os.path.exists(support[0]):
        subprocess.run(["gcc", *flags, "-c", f"{corpus}/testcasesupport/io.c", "-o", support[0] + ".new"], check=True)
        os.rename(support[0] + ".new", support[0])
    subprocess.run([compiler, *flags, omit, *sorted(sources), *support, "-pthread", "-lm", "-o", program + ".new"],
                   check=True)
    os.rename(program + ".new", program)
    return program


class Feeder:
    """Sends an answer to whoever asks at the port, or listens there."""

    def __init__(self, name, answer):
        self.listens = "connect_socket" in name
        self.connects = "listen_socket" in name
        self.answer = answer.encode()
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def __enter__(self):
        if self.listens or self.connects:
            port_lock.acquire()
            if self.listens:
                self.server = socket.socket()
                self.server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                self.server.bind(("127.0.0.1", PORT))
                self.server.listen()
                self.server.settimeout(0.2)
            self.thread.start()
        return self

    def run(self):
        while not self.stop.is_set():
            try:
                if self.listens:
                    connection = self.server.accept()[0]
                else:
                    connection = socket.create_connection(("127.0.0.1", PORT), 1)
                connection.sendall(self.answer)
                connection.shutdown(socket.SHUT_WR)
                time.sleep(0.05)
                connection.close()
            except OSError:
                time.sleep(0.05)

    def __exit__(self, *_):
        if self.listens or self.connects:
            self.stop.set()
            self.thread.join()
            if self.listens:
                self.server.close()
            port_lock.release()


def run(argv, name, seconds, extra):
    """(status, what it printed). Index 10 is behind an array of 10, and -5 before it."""
    answer = "-5\n" if re.match("CWE12[47]_", name) else "10\n"
    environment = {**os.environ, "ADD": "a value of the environment", **extra}
    with Feeder(name, answer):
        try:
            done = subprocess.run(argv, input=answer.encode(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  timeout=seconds, env=environment, check=False)
        except subprocess.TimeoutExpired as late:
            return "timeout", (late.stdout or b"").decode(errors="replace")
    return done.returncode, done.stdout.decode(errors="replace")


HEAP_BLOCK = re.compile(r"bytes (?:after|before|inside) (?:a|an unallocated) block of size|Invalid free|Mismatched free")


def names_heap_error(said):
    """What valgrind says of an undefined value may name a block too."""
    entries = re.split(r"^==\d+== *$", said, flags=re.MULTILINE)
    return any(HEAP_BLOCK.search(e) and not re.search("ninitialised", e) for e in entries)


def by_valgrind(_, work, program, name):
    status, said = run(["valgrind", "--leak-check=no", program], name, 90, {})
    return names_heap_error(said), status, said


def by_asan(_, work, program, name):
    program = program.replace("/plain/", "/asan/")
    status, said = run([program], name, 30, {"ASAN_OPTIONS": "detect_leaks=0"})
    return "ERROR: AddressSanitizer" in said and "SEGV on unknown" not in said, status, said


def by_scudo(_, work, program, name):
    options = "GWP_ASAN_Enabled=true:GWP_ASAN_SampleRate=1:GWP_ASAN_MaxSimultaneousAllocations=1000"
    status, said = run([program], name, 30, {"LD_PRELOAD": SCUDO, "SCUDO_OPTIONS": options})
    return "GWP-ASan detected" in said or "Scudo ERROR" in said, status, said


def by_malloc_check(_, work, program, name):
    status, said = run([program], name, 30, {"LD_PRELOAD": MALLOC_DEBUG, "MALLOC_CHECK_": "3"})
    return status == -6, status, said


def by_trapline(trapline, work, program, name):
    report = f"{work}/trapline.{threading.get_ident()}.json"
    if os.path.exists(report):
        os.unlink(report)
    status, said = run([trapline, "heap", *OPTIONS, "--json", "-o", report, "--", program], name, 60, {})
    try:
        with open(report, encoding="utf8") as f:
            lines = [json.loads(line) for line in f]
    except (OSError, ValueError) as wrong:
        return None, status, f"no report: {wrong}\n{said}"
    if not lines or lines[-1].get("type") != "summary":
        return None, status, f"no summary\n{said}"
    errors = [line for line in lines if line["type"] == "heap"]
    return bool(errors), status, [f"{e['kind']} {e['grade']}" for e in errors]


TOOLS = {"valgrind": by_valgrind, "asan": by_asan, "scudo": by_scudo, "malloc_check": by_malloc_check,
         "trapline": by_trapline}


def judged(tool, trapline, work, kept, program, name, kind):
    """[whether it reports, status, what]; of a peer, kept from an earlier run."""
    key = f"{tool} {kind} {name}"
    if key not in kept:
        kept[key] = TOOLS[tool](trapline, work, program, name)
    if tool == "valgrind":
        return [names_heap_error(kept[key][2]), *kept[key][1:]]
    return kept[key]


def main():
    trapline, corpus, work = sys.argv[1:4]
    tools = sys.argv[4:] or [*PEERS, "trapline"]
    tools = ["valgrind", *[t for t in tools if t != "valgrind"]]
    os.makedirs(work, exist_ok=True)
    store = f"{work}/peers.{VARIANT}.json"
    kept = {}
    if os.path.exists(store):
        with open(store, encoding="utf8") as f:
            kept = json.load(f)
    found = cases(corpus)
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        jobs = {}
        for name, (bad, good) in found.items():
            for kind, sources in (("bad", bad), ("good", good)):
                for asan in [False, True] if "asan" in tools else [False]:
                    jobs[name, kind, asan] = pool.submit(build, corpus, work, name, sources, kind, asan)
        programs = {key: job.result() for key, job in jobs.items()}
        results = {}
        for tool in tools:
            jobs = {(name, kind): pool.submit(judged, tool, trapline, work, kept, programs[name, kind, False], name, kind)
                    for name in found for kind in ("bad", "good")}
            results[tool] = {key: job.result() for key, job in jobs.items()}
            with open(store + ".new", "w", encoding="utf8") as f:
                json.dump({k: v for k, v in kept.items() if not k.startswith("trapline ")}, f)
            os.rename(store + ".new", store)
    reachable = sorted(n for n in found if results["valgrind"][n, "bad"][0])
    for tool in tools:
        tell(tool, found, reachable, results[tool])


def tell(tool, found, reachable, result):
    missed = [n for n in reachable if not result[n, "bad"][0]]
    false = sorted(n for n in found if result[n, "good"][0])
    more = sorted(n for n in found if result[n, "bad"][0] and n not in reachable)
    failed = sorted(f"{n} {k}" for n, k in result if result[n, k][0] is None)
    by_weakness = collections.Counter(n[:6] for n in reachable if n not in missed)
    print(json.dumps({"tool": tool, "variant": VARIANT, "cases": len(found), "reachable": len(reachable),
                      "found": len(reachable) - len(missed), "found_by_weakness": by_weakness, "missed": missed,
                      "false": false, "more": more, "failed": failed,
                      "load": os.getloadavg()[0]}), flush=True)
    print(f"{tool:13} {len(reachable) - len(missed):4} of {len(reachable)} found, {len(false)} good ones reported, "
          f"{len(more)} more, {len(failed)} without an answer", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
