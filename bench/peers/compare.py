#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""compare.py BUILD [PART]... - this library beside the newest peers, in one run, as JSON lines.

Parts: break (a condition that is false, or true, at each call), watch (the same of a variable), trace
(each of 20,000 functions), patch (a function is replaced), race, heap. Each round runs every contender
once, in turn, beside the program alone. A contender that cannot is a line with its own words. Versions
are what the contenders print.

        TRAPLINE_BENCH_ROUNDS    3

scripts/peers runs it where the peers are: scripts/peers run bench/peers/compare.py build.
"""
import collections
import glob
import json
import os
import platform
import re
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.dirname(HERE))
import pulp  # noqa: E402
from functions import write_functions  # noqa: E402

ROUNDS = int(os.environ.get("TRAPLINE_BENCH_ROUNDS", "3"))
FUNCTIONS = 20000
START_S = 60
HITS_S = 120
TRACE_S = int(os.environ.get("TRAPLINE_BENCH_TRACE_S", "120"))

# Of each tool the command that prints its version.
VERSIONS = {"trapline": ["trapline", "--version"], "gdb": ["gdb", "--version"], "lldb": ["lldb", "--version"],
            "bpftrace": ["bpftrace", "--version"], "perf": ["perf", "--version"], "rr": ["rr", "--version"],
            "valgrind": ["valgrind", "--version"], "uftrace": ["uftrace", "--version"],
            "gcc": ["gcc", "-dumpfullversion"], "clang": ["clang", "-dumpversion"], "libpulp": ["ulp", "--version"]}

# Name, script, mechanism, how many times fewer hits.
CONDITIONS = [("trapline, uprobe", "trapline.sh", "uprobe", 1), ("trapline, probe", "trapline.sh", "probe", 1),
              ("bpftrace", "bpftrace.sh", "uprobe", 1), ("perf", "perf.sh", "", 1),
              ("gdb", "gdb.sh", "", 16), ("lldb", "lldb.sh", "", 32), ("rr", "rr.sh", "", 1)]
WATCHES = [("trapline", "trapline.sh", "hardware", 1), ("bpftrace", "bpftrace.sh", "hardware", 1),
           ("perf", "perf.sh", "", 1), ("gdb", "gdb.sh", "", 16), ("lldb", "lldb.sh", "", 32),
           ("rr", "rr.sh", "", 1)]


def line(**fields):
    print(json.dumps(fields), flush=True)


def version_of(build, tool):
    command = VERSIONS[tool]
    command = [f"{build}/trapline"] + command[1:] if tool == "trapline" else command
    try:
        said = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False).stdout
    except OSError:
        return None
    found = re.search(r"\d+(\.\d+)+\S*|\d+", said)
    return found.group(0).rstrip(",)") if found else None


def machine(build):
    with open("/proc/cpuinfo", encoding="utf8") as f:
        cpu = re.search(r"model name\s*: (.*)", f.read())
    with open("/etc/os-release", encoding="utf8") as f:
        system = re.search(r'PRETTY_NAME="(.*)"', f.read()).group(1)
    line(bench="peers_machine", date=time.strftime("%Y-%m-%d", time.gmtime()), kernel=platform.release(),
         processor=cpu.group(1) if cpu else platform.machine(), cpus=os.cpu_count(), system=system, rounds=ROUNDS,
         load=os.getloadavg()[0], versions={tool: version_of(build, tool) for tool in VERSIONS})


class Lines:
    """A program that speaks by lines. It is ended at the end."""

    def __init__(self, command, **more):
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, start_new_session=True, **more)
        self.rest = b""
        self.is_over = False

    def next(self, seconds):
        until = time.monotonic() + seconds
        while b"\n" not in self.rest:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.child.stdout], [], [], left)[0]:
                return None
            more = os.read(self.child.stdout.fileno(), 1 << 16)
            if not more:
                self.is_over = True
                return None
            self.rest += more
        first, self.rest = self.rest.split(b"\n", 1)
        return first.decode("utf8", "replace")

    def wait_for(self, pattern, seconds):
        """The match, or the words after "skip", or None."""
        until = time.monotonic() + seconds
        while (text := self.next(until - time.monotonic())) is not None:
            found = re.match(pattern, text)
            if found or text.startswith("skip "):
                return found or text[5:]
        return None

    def end(self):
        self.child.stdin.close()
        try:
            self.child.wait(2)
        except subprocess.TimeoutExpired:
            # It began the session, so these are its children alone.
            os.killpg(self.child.pid, signal.SIGTERM)
            try:
                self.child.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(self.child.pid, signal.SIGKILL)
                self.child.wait()
        self.child.stdout.close()


def observed(build, event, is_true, contender, hits):
    """ns of a hit, and how many were seen; or why not."""
    _, script, mechanism, slowness = contender or (None, None, None, 1)
    count = max(hits // slowness, 10)
    target = Lines([f"{build}/bench/bench_conditions_target", event, str(count), str(count + 5), "plain"])
    peer = None
    try:
        pid, word, site = target.wait_for(r"ready (\d+) (\S+) (\S+)", START_S).groups()
        if script:
            environment = {**os.environ, "PEER_TRAPLINE": f"{build}/trapline",
                           "PEER_TEST": ">=" if is_true else "=="}
            peer = Lines([f"{HERE}/{script}", event, pid, word if event == "watch" else site,
                          "0" if is_true else str(count + 5), f"{build}/bench/bench_conditions_target", mechanism],
                         env=environment)
            armed = peer.wait_for("armed", START_S)
            if armed is None or isinstance(armed, str):
                return None, armed or "it does not say when it is armed"
        target.child.stdin.write(b"go\n")
        target.child.stdin.flush()
        took = target.wait_for(r"ns (\S+) (\S+)", HITS_S)
        if took is None:
            return None, f"{count} hits are not over after {HITS_S} s"
        target.end()
        seen = 0
        while peer and peer.wait_for("true ", 20) is not None:
            seen += 1
        return {"ns": float(took.group(2)), "seen": seen, "made": count}, None
    finally:
        for one in (peer, target):
            if one and not one.child.stdout.closed:
                one.end()


def middle(values):
    return float(f"{statistics.median(values):.4g}")


def observe_part(build, event, contenders):
    refused = {}
    # What cannot find a hit is fast where it has none to find.
    for work, is_true, hits in (("true", True, 3200), ("false", False, 16000)):
        seen = {name: [] for name, *_ in [("alone",), *contenders]}
        for _ in range(ROUNDS):
            for contender in [None, *contenders]:
                name = contender[0] if contender else "alone"
                if name in refused:
                    continue
                found, why = observed(build, event, is_true, contender, hits)
                # A watchpoint that never fires is no measurement.
                if found and contender and is_true and found["seen"] == 0:
                    found, why = None, f"it saw 0 of {found['made']} hits"
                if found and contender and not is_true and found["seen"]:
                    found, why = None, f"it printed {found['seen']} hits, and the condition is false"
                if found:
                    seen[name].append(found)
                else:
                    refused[name] = why
        for name, found in seen.items():
            tool = name.split(",", maxsplit=1)[0]
            if name in refused:
                line(bench=f"{event}_{work}", contender=name, tool=tool, skipped=refused[name])
                continue
            lost = sum(f["made"] - f["seen"] for f in found) if is_true and name != "alone" else None
            line(bench=f"{event}_{work}", contender=name, tool=tool, ns=middle([f["ns"] for f in found]), lost=lost,
                 made=sum(f["made"] for f in found))


# ---- 20,000 functions ------------------------------------------------------------------------------

TRACED = """#include <stdio.h>
#include <stdlib.h>
#include <time.h>
extern int (*const all[])(int);
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e9 + t.tv_nsec; }
int main(int argc, char **argv)
{
	int rounds = atoi(argv[1]), n = atoi(argv[2]), sum = 0;
	double best = 1e30, began = now();

	for (int r = 0; r < rounds; r++) {
		double start = now(), took;

		for (int i = 0; i < n; i++)
			sum += all[i](i);
		took = now() - start;
		best = took < best ? took : best;
	}
	printf("ns %.2f %.3f %d\\n", best / n, (now() - began) / 1e9, sum);
	return 0;
}
"""
# What gcc makes of such a function, alone, with -pg and with -fpatchable-function-entry=5.
ENTRIES = {"plain": "push %rbp; mov %rsp, %rbp", "mcount": "push %rbp; mov %rsp, %rbp; call *mcount@GOTPCREL(%rip)",
           "entries": "9: .rept 5; nop; .endr; push %rbp; mov %rsp, %rbp\n"
                      '\t.section __patchable_function_entries,"aw",@progbits; .balign 8; .quad 9b; .text'}


def make_traced(folder):
    with open(f"{folder}/main.c", "w", encoding="utf8") as f:
        f.write(TRACED)
    for name, entry in ENTRIES.items():
        with open(f"{folder}/{name}.s", "w", encoding="utf8") as f:
            write_functions(f, FUNCTIONS, entry)
            f.write('\t.section .data.rel.ro,"aw"\n\t.globl all\nall:\n')
            f.write("".join(f"\t.quad f_{i}\n" for i in range(FUNCTIONS)))
        # The C library has mcount() too.
        subprocess.run(["gcc", "-O1", "-g", "-o", f"{folder}/{name}", f"{folder}/main.c", f"{folder}/{name}.s"],
                       check=True)


def number_in(pattern, text):
    found = re.search(pattern, text)
    return int(found.group(1).replace(",", "")) if found else None


def perf_probes(folder):
    return subprocess.run(["perf", "probe", "--max-probes", str(FUNCTIONS * 2), "-x", f"{folder}/plain",
                           "-a", "trapline_peers:f=f_*"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=TRACE_S, check=False)


def traces(build, folder):
    """(name, tool, command, environment, calls in its output) of each."""
    plain = [f"{folder}/plain", "5", str(FUNCTIONS)]
    yield "alone", "alone", plain, lambda text: None
    yield ("trapline, uprobe", "trapline", [f"{build}/trapline", "break", "f_*", "--mechanism", "uprobe", "--budget", "none", "--json",
                                            "-o", f"{folder}/lines", "--", *plain],
           lambda text: count_lines(f"{folder}/lines"))
    yield ("bpftrace, counts", "bpftrace", ["bpftrace", "-e", f"uprobe:{folder}/plain:f_* {{ @ = count(); }}", "-c",
                                            " ".join(plain)], lambda text: number_in(r"@: (\d+)", text))
    yield ("bpftrace, a line for each", "bpftrace",
           ["bpftrace", "-o", f"{folder}/lines", "-e", f'uprobe:{folder}/plain:f_* {{ printf("%s %lu\\n", func, nsecs); }}',
            "-c", " ".join(plain)], lambda text: count_lines(f"{folder}/lines", "f_"))
    yield ("uftrace, -pg", "uftrace", ["uftrace", "record", "-d", f"{folder}/data", f"{folder}/mcount", *plain[1:]],
           lambda text: count_uftrace(folder))
    yield ("uftrace, patched entries", "uftrace",
           ["uftrace", "record", "-P", "f_.*", "-d", f"{folder}/data", f"{folder}/entries", *plain[1:]],
           lambda text: count_uftrace(folder))
    yield ("perf", "perf", ["perf", "record", "-q", "-o", f"{folder}/perf.data", "-e", "trapline_peers:*", "--", *plain],
           lambda text: count_perf(folder))


def count_lines(path, begin=None):
    with open(path, encoding="utf8", errors="replace") as f:
        return sum(1 for text in f if (text.startswith(begin) if begin else '"type":"hit"' in text.replace(" ", "")))


def count_uftrace(folder):
    said = subprocess.run(["uftrace", "report", "-d", f"{folder}/data", "-f", "call", "-F", "f_.*"],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False).stdout
    return sum(int(m) for m in re.findall(r"^\s+(\d+)\s+f_\d+$", said, re.M))


def count_perf(folder):
    said = subprocess.run(["perf", "script", "-i", f"{folder}/perf.data", "-F", "event"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, check=False).stdout
    return said.count("trapline_peers:")


def trace_part(build):
    with tempfile.TemporaryDirectory() as folder:
        make_traced(folder)
        found = collections.defaultdict(list)
        refused = {}
        for _ in range(ROUNDS):
            for name, tool, command, calls in traces(build, folder):
                if name not in refused:
                    trace_once(folder, name, tool, command, calls, found, refused)
        for name, tool, _, _ in traces(build, folder):
            if name in refused:
                line(bench="trace", contender=name, tool=tool, skipped=refused[name])
                continue
            rows = found[name]
            line(bench="trace", contender=name, tool=tool, functions=FUNCTIONS, ns=middle([r[0] for r in rows]),
                 extra_s=middle([r[1] for r in rows]), made=FUNCTIONS * 5,
                 lost=None if tool == "alone" else FUNCTIONS * 5 - rows[-1][2])


def trace_once(folder, name, tool, command, calls, found, refused):
    shutil.rmtree(f"{folder}/data", ignore_errors=True)
    environment = {**os.environ, "BPFTRACE_MAX_PROBES": str(FUNCTIONS * 2)}
    start = time.monotonic()
    try:
        if tool == "perf" and (made := perf_probes(folder)).returncode:
            refused[name] = last_line(made.stdout)
            return
        ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TRACE_S,
                             env=environment, check=False, errors="replace")
        took = time.monotonic() - start
        ns = re.search(r"^ns ([\d.]+) ([\d.]+) -?\d+$", ran.stdout, re.M)
        seen = calls(ran.stdout) if ns else None
        if not ns or (tool != "alone" and not seen):
            refused[name] = last_line(ran.stdout) if not ns else f"it saw 0 of {FUNCTIONS * 5} calls"
            return
        found[name].append((float(ns.group(1)), took - float(ns.group(2)), seen or 0))
    except subprocess.TimeoutExpired:
        refused[name] = f"it is not over after {TRACE_S} s"
    finally:
        if tool == "perf":
            subprocess.run(["perf", "probe", "-q", "-d", "trapline_peers:*"], stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, check=False)


def last_line(text):
    lines = [t.strip() for t in text.splitlines() if t.strip()]
    errors = [t for t in lines if re.search(r"error|cannot|failed|unable|invalid|limit", t, re.I)]
    return (errors or lines or ["it does not say why"])[0][:160]


# ---- patch, race, heap -----------------------------------------------------------------------------

def calls_of(build):
    """ns of a call: bare, and patched."""
    with subprocess.Popen([f"{build}/bench/bench_patch", "1"], stdout=subprocess.PIPE, text=True) as run:
        rows = [json.loads(run.stdout.readline()) for _ in range(2)]
        run.kill()
    return [row["ns_per_call"] for row in rows]


def patch_part(build):
    """The least of the rounds: such a call costs so little that other load is most of a median."""
    ours, theirs, why = [], [], None
    for _ in range(2 * ROUNDS):
        ours.append(calls_of(build))
        if not why:
            found, why = pulp.pulp_call()
            theirs += [found] if found else []
    for i, name in enumerate(("alone", "trapline")):
        line(bench="patch", contender=name, tool="trapline", ns=min(pair[i] for pair in ours))
    if why:
        line(bench="patch", contender="libpulp", tool="libpulp", skipped=why)
        return
    for i, name in enumerate(("libpulp, before", "libpulp")):
        line(bench="patch", contender=name, tool="libpulp", ns=min(pair[i] for pair in theirs))


def races(build, folder):
    target = f"{build}/bench/race_target"
    yield "alone", "alone", [target], {}
    yield "trapline race", "trapline", [f"{build}/trapline", "race", "-o", "/dev/null", "--", target], {}
    for compiler in ("gcc", "clang"):
        yield (f"ThreadSanitizer, {compiler}", compiler, ["setarch", "-R", f"{folder}/tsan-{compiler}"],
               {"TSAN_OPTIONS": "halt_on_error=1 exitcode=66"})
    for tool in ("helgrind", "drd"):
        yield f"valgrind, {tool}", "valgrind", ["valgrind", f"--tool={tool}", "-q", "--error-exitcode=66",
                                               "--exit-on-first-error=yes", target], {}


def race_part(build):
    source = os.path.join(HERE, "..", "race_target.c")
    with tempfile.TemporaryDirectory() as folder:
        for compiler in ("gcc", "clang"):
            subprocess.run([compiler, "-g", "-O2", "-pthread", "-fsanitize=thread", source, "-o",
                            f"{folder}/tsan-{compiler}"], stderr=subprocess.DEVNULL, check=False)
        seconds = collections.defaultdict(list)
        refused = {}
        for _ in range(ROUNDS):
            for name, _, command, environment in races(build, folder):
                start = time.monotonic()
                try:
                    ran = subprocess.run([*command, "table", "2", "800000"], env={**os.environ, **environment},
                                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120,
                                         check=False)
                    seconds[name].append(time.monotonic() - start)
                    if ran.returncode:
                        refused[name] = last_line(ran.stdout)
                except (OSError, subprocess.TimeoutExpired) as error:
                    refused[name] = str(error)
        for name, tool, command, environment in races(build, folder):
            if name in refused:
                line(bench="race", contender=name, tool=tool, skipped=refused[name])
                continue
            ratios = [a / b for a, b in zip(seconds[name], seconds["alone"])]
            line(bench="race", contender=name, tool=tool, ratio=middle(ratios), seconds=middle(seconds[name]),
                 **({} if tool == "alone" else first_race(name, command, environment, folder)))


def first_race(name, command, environment, folder):
    """Seconds until a race in a hot loop is reported, the median; None: not within the 5 s of the program."""
    is_ours = name.startswith("trapline")
    if is_ours:
        command = [w if w != "/dev/null" else f"{folder}/race" for w in command]
        command[2:2] = ["--json"]
    found = []
    note = {}
    for _ in range(ROUNDS):
        start = time.monotonic()
        ran = subprocess.run([*command, "hot", "2", "5"], env={**os.environ, **environment}, stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE, text=True, check=False, errors="replace")
        if is_ours:
            with open(f"{folder}/race", encoding="utf8") as f:
                found.append((json.loads(f.readlines()[-1]).get("first_race_ns") or 0) / 1e9)
            said = re.search(r"note: (.*)", ran.stderr)
            note = {"note": said.group(1)} if said else {}
        else:
            found.append(time.monotonic() - start if ran.returncode == 66 else 0)
    return {"first_s": middle([f for f in found if f]) if any(found) else None} | note


def heap_part(build):
    ran = subprocess.run([f"{HERE}/../heap_cost.py", build], stdout=subprocess.PIPE, text=True, check=True,
                         env={**os.environ, "TRAPLINE_BENCH_ROUNDS": str(ROUNDS)})
    tools = {"trapline": "trapline", "valgrind": "valgrind", "AddressSanitizer": "gcc", "scudo": "clang"}
    for row in map(json.loads, ran.stdout.splitlines()):
        tool = next((t for begin, t in tools.items() if row["what"].startswith(begin)), row["what"])
        line(bench="heap", contender=row["what"], tool=tool, ns=row["pair_ns"])
    if not glob.glob("/usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.scudo_standalone-x86_64.so"):
        line(bench="heap", contender="scudo with GWP-ASan", tool="clang", skipped="the package of clang has it not")


def main():
    build = os.path.abspath(sys.argv[1])
    parts = {"break": lambda: observe_part(build, "break", CONDITIONS),
             "watch": lambda: observe_part(build, "watch", WATCHES), "trace": lambda: trace_part(build),
             "patch": lambda: patch_part(build), "race": lambda: race_part(build), "heap": lambda: heap_part(build)}
    machine(build)
    for part in sys.argv[2:] or parts:
        parts[part]()


if __name__ == "__main__":
    main()
