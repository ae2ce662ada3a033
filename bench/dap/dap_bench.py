# SPDX-License-Identifier: MIT
"""
dap_bench.py TRAPLINE SOURCE - what a logpoint costs the thread that reaches it: `trapline dap`, gdb's dprintf and
lldb's adapter, one after the other in one run, each against the same program without it. JSON lines. Then the
longest pause of a thread that nothing else keeps from its processor, how long a thousand logpoints take, and
whether 20000 hits a second are all delivered or counted.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

trapline, source = sys.argv[1:3]
sys.path.insert(0, os.path.join(source, "tests/dap"))
from dap_client import Client  # noqa: E402

TARGET = os.path.join(source, "bench/dap/dap_target.c")
LINE = next(i for i, row in enumerate(open(TARGET, encoding="utf-8"), 1) if "return n + 1" in row)


def say(**row):
    row["load"] = round(os.getloadavg()[0], 1)
    print(json.dumps(row), flush=True)


class Target:
    """Its lines are read all the time: a full pipe would stop it."""

    def __init__(self, program, *arguments):
        self.process = subprocess.Popen([program, *arguments], stdout=subprocess.PIPE, text=True)
        self.rows = []
        self.pid = self.process.pid
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for row in self.process.stdout:
            self.rows.append(tuple(int(x) for x in row.split()))

    def measure(self, seconds):
        time.sleep(0.5)
        first = len(self.rows)
        time.sleep(seconds)
        rows = self.rows[first + 1 :]
        if not rows:
            return None
        return {
            "call_ns": round(statistics.median(r[0] for r in rows)),
            "longest_ns": max(r[1] for r in rows),
            "calls": rows[-1][2] - rows[0][2],
        }

    def end(self):
        self.process.kill()
        self.process.wait()


def by_adapter(command, pid, seconds, target):
    c = Client(command)
    c.begin()
    # lldb answers when the client is configured.
    c.send("attach", {"pid": pid})
    c.event("initialized")
    c.set_lines(TARGET, [{"line": LINE, "logMessage": "work {n}"}])
    c.request("configurationDone")
    done = []
    reader = threading.Thread(target=lambda: done.append(c.listen(seconds + 1)))
    reader.start()
    row = target.measure(seconds)
    reader.join()
    lines = sum("work " in b["output"] for b in c.lines())
    c.send("disconnect", {"terminateDebuggee": False})
    try:
        c.listen(5)
    except Exception:
        pass
    c.process.kill()
    return row, lines


def by_gdb(pid, seconds, target):
    commands = [f"dprintf dap_target.c:{LINE},\"work %d\\n\",n", "continue"]
    options = [x for command in commands for x in ("-ex", command)]
    gdb = subprocess.Popen(
        ["gdb", "-q", "-nx", "-batch", "-ex", "set pagination off", "-p", str(pid), *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    lines = []
    threading.Thread(target=lambda: lines.extend(gdb.stdout), daemon=True).start()
    time.sleep(3)
    row = target.measure(seconds)
    gdb.kill()
    gdb.wait()
    return row, len(lines)


def cost(program):
    target = Target(program, "200")
    plain = target.measure(1)
    say(what="call", by="nothing", **plain)
    row, lines = by_adapter([trapline, "dap"], target.pid, 4, target)
    say(what="call", by="trapline dap", lines=lines, **row)
    ours = row["call_ns"]
    target.end()
    for name, run in [
        ("gdb dprintf", by_gdb if shutil.which("gdb") else None),
        ("lldb", lldb() and (lambda pid, s, t: by_adapter([lldb()], pid, s, t))),
    ]:
        if not run:
            say(what="call", by=name, skipped="not installed")
            continue
        # A batch must end in the time.
        target = Target(program, "20")
        try:
            row, lines = run(target.pid, 6, target)
        except Exception as error:
            row, lines = None, str(error)
        if row:
            say(what="call", by=name, lines=lines, ratio=round(row["call_ns"] / ours, 1), **row)
        else:
            say(what="call", by=name, skipped=f"no batch ended: {lines}")
        target.end()


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def lldb():
    # Before 17 it was lldb-vscode, and had no logpoints.
    for name in ["lldb-dap", *(f"lldb-dap-{n}" for n in range(30, 17, -1))]:
        if shutil.which(name):
            return name
    return None


def longest_pause(program):
    """On a processor of its own, before all other threads, and with breakpoints that come and go meanwhile."""
    alone = ["chrt", "-f", "50", "taskset", "-c", str(max(os.sched_getaffinity(0)))]
    for by in ["nothing", "trapline dap"]:
        target = Target(*alone, program, "100", "2000")
        time.sleep(0.5)
        if by == "nothing":
            row = target.measure(5)
        else:
            c = Client([trapline, "dap"])
            c.attach(target.pid)
            c.set_lines(TARGET, [{"line": LINE, "logMessage": "work {n}"}])
            measured = []
            thread = threading.Thread(target=lambda: measured.append(target.measure(5)))
            thread.start()
            for i in range(20):
                c.set_functions([{"name": "main"}] if i % 2 else [{"name": "qsort"}, {"name": "main"}])
                c.listen(0.2)
            thread.join()
            row = measured[0]
            c.request("disconnect")
        say(what="longest pause", by=by, **(row or {"skipped": "the program needs SCHED_FIFO"}))
        target.end()


def a_thousand(folder):
    path = os.path.join(folder, "many.c")
    with open(path, "w", encoding="utf-8") as f:
        f.write("#include <unistd.h>\nvolatile int x;\nint main(void)\n{\n\tfor (;;) {\n")
        f.writelines(f"\t\tx = {i};\n" for i in range(1100))
        f.write("\t\tusleep(100000);\n\t}\n}\n")
    subprocess.run(["gcc", "-g", "-O0", "-o", path[:-2], path], check=True)
    many = subprocess.Popen([path[:-2]])
    time.sleep(0.2)
    c = Client([trapline, "dap"])
    c.attach(many.pid)
    begun = time.monotonic()
    answer = c.set_lines(path, [{"line": 6 + i, "logMessage": f"line {i} {{x}}"} for i in range(1000)])
    took = time.monotonic() - begun
    used = cpu_seconds(c.process.pid)
    begun = time.monotonic()
    c.set_lines(path, [])
    say(
        what="1000 logpoints",
        set_s=round(took, 3),
        cpu_s=round(used, 3),
        removed_s=round(time.monotonic() - begun, 3),
        verified=sum(row["verified"] for row in answer["body"]["breakpoints"]),
    )
    c.request("disconnect")
    many.kill()
    many.wait()


def a_storm(program):
    target = Target(program, "20000", "20000")
    time.sleep(0.5)
    c = Client([trapline, "dap"])
    c.attach(target.pid)
    c.set_lines(TARGET, [{"line": LINE, "logMessage": "work {n}"}])
    measured = threading.Thread(target=lambda: globals().update(storm=target.measure(10)))
    measured.start()
    c.listen(11)
    measured.join()
    target.end()
    row = c.event("terminated")["body"]["balance"][0]
    lost = sum(row["lost"].values())
    say(
        what="20000 a second for 10 s",
        taken=row["taken"],
        delivered=row["delivered"],
        lost=lost,
        unread=row["unread"],
        shown=row["shown"],
        summed=row["summed"],
        balanced=row["taken"] == row["delivered"] + lost + row["unread"] and row["hits"] == row["shown"] + row["summed"],
        **globals()["storm"],
    )
    c.request("disconnect")


def main():
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "dap_target")
        subprocess.run(["gcc", "-g", "-O1", "-o", program, TARGET], check=True)
        cost(program)
        longest_pause(program)
        a_thousand(folder)
        a_storm(program)


main()
