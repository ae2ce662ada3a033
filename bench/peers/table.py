#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""table.py <LINES - the manual page trapline-peers(7), from the JSON lines of compare.py."""
import datetime
import json
import re
import sys

# Of each bench: its name in the table, what its figure is, and its unit.
WORKS = [("break_false", "breakpoint, false", "ns"), ("break_true", "breakpoint, true", "ns"),
         ("watch_false", "watch, false", "ns"), ("watch_true", "watch, true", "ns"),
         ("trace", "20,000 functions", "ns"), ("patch", "patched function", "ns"), ("race", "data race", "ratio"),
         ("heap", "malloc and free", "ns")]
AHEAD = 0.95
SHORT = {"bpftrace, a line for each": "bpftrace, lines", "trapline heap, each block sampled": "trapline heap, all"}

PAGE = r""".\" SPDX-License-Identifier: MIT
.\" bench/peers/run makes this page.
.Dd {date}
.Dt TRAPLINE-PEERS 7
.Os
.Sh NAME
.Nm trapline-peers
.Nd costs of trapline and of other tools, measured in one run
.Sh DESCRIPTION
Each tool does the same work on the same program, by turns, in {rounds} rounds.
A figure is the median of the rounds.
The other tools are those of {system}, in a system of their own.
.Pp
Date: {day}.
Kernel: Linux {kernel}.
Processor: {processor}, {cpus} CPUs, load {load}.
.Pp
Versions:
{versions}.
.Bl -tag -width Ds
.It breakpoint
An argument is compared at each call of a function, in a running process.
The figure is the time of a call.
.Dq False
is a comparison that rejects all calls, and
.Dq true
is one that accepts all.
Each tool prints a line for each call that it accepts, and perf writes a file.
.It watch
The same for each write of a variable.
.It 20,000 functions
A program calls each of 20,000 functions five times, and each call is recorded or counted.
The figure is the time of a call.
The time to begin and to end is in the last column.
.It patched function
The figure is the time of a call of a function that was replaced in the running process.
.It data race
The figure is the time of a program without a race, as a ratio to the program alone.
The last column has the time until a race in a loop is reported.
.It malloc and free
The figure is the CPU time of the pair.
.Nm trapline Cm heap
and GWP-ASan check a sample of the blocks, the others all.
.El
.Sh THE TABLE
.Dq Ratio
is the cost, as a multiple of the cheapest figure of trapline for the same work.
A figure below 1 means that the tool is ahead.
{missing}.Bl -column "breakpoint, false" "ThreadSanitizer, clang" "97,385 us" "17,643" "85,162 lost"
.It Sy Work Ta Sy Tool Ta Sy Cost Ta Sy Ratio Ta Sy Remarks
{rows}
.El
.Sh WHERE A TOOL IS AHEAD
{ahead}
.Sh WHAT CANNOT RUN HERE
These are the words of the tools on this machine, or how many hits they saw.
{refused}
.Sh SEE ALSO
.Xr trapline 1 ,
.Xr trapline 7
"""


def plain(text):
    """The words of a tool, which are not macros."""
    return text.replace("\\", "\\e").replace('"', "\\(dq").replace("-", "\\-").strip()


def quoted(text):
    return f'.Ql "{plain(text)}"'


def amount(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def cost_text(row, unit):
    if unit == "ratio":
        return f"{amount(row['ratio'])} times"
    ns = row["ns"]
    return f"{amount(ns)} ns" if ns < 1e5 else f"{amount(ns / 1000)} us"


def remark(row):
    remarks = []
    if row.get("extra_s") is not None and row["contender"] != "alone":
        remarks.append(f"{row['extra_s']:.2f} s")
    if "first_s" in row:
        remarks.append(f"after {row['first_s']:.2g} s" if row["first_s"] else "not found")
    if row.get("lost"):
        remarks.append(f"{row['lost']:,} lost")
    return ", ".join(remarks)


def is_ours(row):
    return row["contender"].startswith("trapline")


def rows_of(rows, work, unit):
    """Lines of the table, the tools that are ahead, and those that cannot."""
    measured = [r for r in rows if unit in r]
    ours = min((r[unit] for r in measured if is_ours(r)), default=None)
    table, ahead, refused = [], [], []
    for row in rows:
        first = work if not table else ""
        if row.get("skipped"):
            table.append(f".It {first} Ta {row['contender']} Ta cannot Ta Ta")
            refused.append((row["contender"], work, row["skipped"]))
            continue
        if row.get("note"):
            refused.append((row["contender"], work, row["note"]))
        is_bare = row["contender"] == "alone" or row["contender"].endswith("before")
        ratio = row[unit] / ours if ours and not is_bare else None
        table.append(f".It {first} Ta {row['contender']} Ta {cost_text(row, unit)} Ta "
                     f"{amount(ratio) if ratio else ''} Ta {remark(row)}".rstrip())
        if ratio and ratio < AHEAD and not is_ours(row):
            ahead.append((row["contender"], work, f"takes {ratio:.2g} of the time of trapline", row.get("lost")))
        if ours is None and not is_bare:
            ahead.append((row["contender"], work, "does it here, and trapline does not", row.get("lost")))
    if any("first_s" in r and is_ours(r) for r in rows) and not any(r.get("first_s") and is_ours(r) for r in rows):
        ahead += [(r["contender"], work, "reports the race here, and trapline does not", None)
                  for r in rows if r.get("first_s")]
    return table, ahead, refused


def main():
    lines = [json.loads(text) for text in sys.stdin if text.startswith("{")]
    for row in lines:
        row["contender"] = SHORT.get(row.get("contender"), row.get("contender"))
    machine = next(row for row in lines if row["bench"] == "peers_machine")
    rows, ahead, refused = [], [], []
    for bench, work, unit in WORKS:
        some = rows_of([row for row in lines if row["bench"] == bench], work, unit)
        for whole, part in zip((rows, ahead, refused), some):
            whole += part
    # One tool has the same words for several works.
    reasons = {}
    for tool, work, why in refused:
        first = reasons.setdefault(tool, {})
        first.setdefault(re.sub(r"0x[0-9a-f]+|process \d+", "", why), (why, []))[1].append(work)
    refused = [(tool, "; ".join(works), why) for tool, whys in reasons.items() for why, works in whys.values()]
    missing = [work for bench, work, _ in WORKS if bench not in [row["bench"] for row in lines]]
    day = datetime.date.fromisoformat(machine["date"])
    versions = ",\n".join(f"{tool} {version}" for tool, version in machine["versions"].items() if version)
    print(PAGE.format(
        date=f"{day:%B} {day.day}, {day.year}", day=machine["date"], rounds=machine["rounds"],
        system=machine["system"], kernel=plain(machine["kernel"]), processor=plain(machine["processor"]),
        cpus=machine["cpus"], load=f"{machine['load']:.0f}", versions=versions,
        missing=f"Not measured in this run: {'; '.join(missing)}.\n" if missing else "", rows="\n".join(rows),
        ahead=".Bl -tag -width Ds\n" + "\n".join(
            f".It {work}\n{tool} {how}" + (f", and loses {lost:,} hits." if lost else ".")
            for tool, work, how, lost in ahead) + "\n.El"
        if ahead else "In no row.",
        refused=".Bl -tag -width Ds\n" + "\n".join(
            f".It {tool} ({work})\n{quoted(why)}" for tool, work, why in refused) + "\n.El"
        if refused else "All can."), end="")


if __name__ == "__main__":
    main()
