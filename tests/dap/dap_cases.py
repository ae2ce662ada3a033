# SPDX-License-Identifier: MIT
"""dap_cases.py TRAPLINE VICTIMS SOURCE - what `trapline dap` promises, by the client of this tree. TAP."""

import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import dap_children  # noqa: E402, F401
import dap_quirks  # noqa: E402, F401
from dap_client import Client, Gone  # noqa: E402
from dap_run import (  # noqa: E402
    CALLS, attached, case, client, ends, line_of, main, rows, schema, source, started, trapline, victim, victims,
)


def probes_of(pid):
    """The code of the program as it is in its memory."""
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        for row in maps:
            fields = row.split()
            if "x" in fields[1] and fields[-1].endswith("/calls"):
                first, last = (int(x, 16) for x in fields[0].split("-"))
                break
    with open(f"/proc/{pid}/mem", "rb") as memory:
        memory.seek(first)
        return memory.read(last - first)


def balance_holds(row):
    return row["taken"] == row["delivered"] + sum(row["rejected"].values()) + sum(row["lost"].values()) and (
        row["hits"] == row["shown"] + row["summed"]
    )


@case
def a_logpoint_is_a_line_with_values_and_its_place(calls):
    c = attached(calls)
    line = line_of("int lookup(struct table *t")
    text = r"\{{key}\} {n} {t->size} {t->name} {rounds_done} {thread} {tid}"
    answer = c.set_lines(CALLS, [{"line": line, "logMessage": text, "condition": "n == 5"}])
    assert rows(answer)[0]["verified"], answer
    c.request("configurationDone")
    body = c.line('"zebra"} 5 3')
    assert re.fullmatch(
        r'\{0x[0-9a-f]+ "zebra"\} 5 3 0x[0-9a-f]+ "things" \d+ calls \d+\n', body["output"]
    ), body
    assert body["source"]["path"] == CALLS and abs(body["line"] - line) <= 2, body
    c.listen(0.3)
    assert not [b for b in c.lines() if "key" in b["output"] and "zebra" not in b["output"]]
    ends(c)


def locals_of(folder, *options):
    program = os.path.join(folder, "locals" + "".join(options))
    path = os.path.join(source, "tests/dap/locals.c")
    subprocess.run(["gcc", "-g", *options, "-o", program, path], check=True)
    return victim(program=program), path


def built_victim(folder, compiler, option, name):
    """A victim of tests/victims, started, and the path of its source."""
    path = os.path.join(source, "tests/victims", name)
    program = os.path.join(folder, os.path.splitext(os.path.basename(path))[0])
    subprocess.run([compiler, "-g", option, "-o", program, path], check=True)
    return victim(program=program), path


def logged(c, path, text, message):
    """The lines of a logpoint at the line with the text, once it is verified; None: it is not, with a cause."""
    line = line_of(text, path)
    row = rows(c.set_lines(path, [{"line": line, "logMessage": "at " + message}]))[0]
    if not row["verified"]:
        assert "has no location at this instruction" in row["message"], row
        return None
    c.messages.clear()
    c.line("at ")
    c.listen(0.3)
    lines = [b["output"][3:] for b in c.lines() if b["output"].startswith("at ")]
    return [re.sub(r"  \(memory read later\)\n", "", text).strip() for text in lines]


@case
def locals_are_those_of_the_hit_and_of_the_innermost_block(calls):
    with tempfile.TemporaryDirectory() as folder:
        for options in (["-O0"], ["-O0", "-fomit-frame-pointer"], ["-Og"]):
            program, path = locals_of(folder, *options)
            c = attached(program)
            # The stack is copied at the hit: at -O0 all is of one moment.
            message = "{n} {sum} {i} {inner} {p.x} {p.y} {p.w} {pp->x} {p.tag} {text} {table[2]} {pp->next->y}"
            for row in logged(c, path, "in the loop", message) or []:
                n, total, i, inner, x, y, w, by_pointer, tag, text, element, chain = row.split()
                assert int(total) == 3 * int(n) and int(inner) == int(total) + int(i), row
                assert (x, int(y), by_pointer, int(element)) == (n, int(n) + 1, n, int(n) + 2), row
                assert float(w) == int(n) / 2 and (tag, text) == ('"tag"', f'"t{n}"') and chain == y, row
            for row in logged(c, path, "in the block", "{n} {sum} {i}") or []:
                n, total, i = row.split()
                assert (int(total), i) == (-int(n), "1"), row
            whole = logged(c, path, "at the end", "{sum} {p} {table} {name}")
            for row in whole or []:
                fields = re.fullmatch(r'(\d+) \{\.x (\d+), .*\} \[(\d+), .*\] 0x[0-9a-f]+ "zebra"', row)
                assert fields and int(fields[1]) == 3 * int(fields[2]), row
            assert whole or options[0] != "-O0"
            line = line_of("at the end", path)
            row = rows(c.set_lines(path, [{"line": line, "logMessage": "{i}"}]))[0]
            assert not row["verified"] and "no variable of that name exists at locals.c" in row["message"], row
            ends(c)


def parts_of_moment(row):
    """The fields of a line without the pointers, which have their text behind them."""
    return [part.strip('"') for part in row.split() if not part.startswith("0x")]


@case
def memory_is_that_of_the_hit_whatever_comes_behind_it(calls):
    with tempfile.TemporaryDirectory() as folder:
        program, path = built_victim(folder, "gcc", "-O1", "values/moment.c")
        c = attached(program)
        message = "at {n} {p->seq} {p->next->seq} {p->next->next->next->seq} {counter} {first.next->seq} "
        message += "{p->text} {p->name} {h->list->name} {last} {large.name} {first.text} {p->low}"
        row = rows(c.set_lines(path, [{"line": line_of("the point", path), "logMessage": message}]))[0]
        assert row["verified"], row
        lines = []
        for _ in range(20):
            c.listen(0.5)
            lines = [b["output"][3:] for b in c.lines() if b["output"].startswith("at ")]
            if len(lines) > 1000:
                break
        assert len(lines) > 300, len(lines)
        for line in lines:
            n, *parts = parts_of_moment(line)
            assert parts == [n] * 5 + ["n" + n] * 6 + [str(int(n) % 128)], line
        ends(c)


@case
def a_method_has_its_members_and_conditions_have_its_locals(calls):
    with tempfile.TemporaryDirectory() as folder:
        program, path = built_victim(folder, "g++", "-O0", "line_locals.cc")
        c = attached(program)
        message = "at {rounds} {count} {twice} {item.price} {item}"
        line = line_of("in the loop", path)
        row = rows(c.set_lines(path, [{"line": line, "logMessage": message, "condition": "i == 1"}]))[0]
        assert row["verified"], row
        c.line("at ")
        c.listen(0.3)
        lines = [b["output"].split() for b in c.lines() if b["output"].startswith("at ")]
        for _, rounds, count, twice, price, *item in lines:
            assert int(rounds) > 0 and int(count) in (2, 3) and int(twice) == 2 * int(count) and price == count, lines
            assert {"2": "pear", "3": "plum"}[count] in " ".join(item), lines
        ends(c)


@case
def a_function_prints_its_arguments_and_others_do_not_appear(calls):
    c = attached(calls)
    answer = c.set_functions([{"name": "next_color", "condition": "c == RED"}])
    assert rows(answer)[0]["verified"], answer
    c.line("next_color(c=RED)")
    c.listen(0.3)
    assert not [b for b in c.lines() if "next_color" not in b["output"]], c.lines()
    assert "calls.c" in c.line("next_color")["source"]["path"]
    ends(c)


@case
def what_cannot_be_is_not_verified_with_a_cause(calls):
    c = attached(calls)
    line = line_of("a line to break on")
    for arguments, cause in [
        ({"line": 99999}, "no code at line 99999"),
        ({"line": line, "logMessage": "{nosuch}"}, "no variable of that name exists"),
        ({"line": line, "logMessage": "{open"}, "invalid logMessage"),
        ({"line": line, "condition": "1 +"}, "condition, column"),
        ({"line": line, "condition": "nosuch > 1"}, "nosuch"),
        ({"line": line, "hitCondition": "every other"}, "invalid hitCondition"),
        ({"line": line, "hitCondition": "0"}, "invalid hitCondition"),
    ]:
        row = rows(c.set_lines(CALLS, [arguments]))[0]
        assert not row["verified"] and cause in row["message"], row
    row = rows(c.set_lines("/tmp/nosuch.c", [{"line": 3}]))[0]
    assert not row["verified"] and "no source file is named" in row["message"], row
    row = rows(c.set_functions([{"name": "nosuch"}]))[0]
    assert not row["verified"] and "no function is named" in row["message"], row
    c.listen(0.2)
    assert not c.lines(), c.lines()
    ends(c)


@case
def a_line_without_code_is_the_next_one(calls):
    c = attached(calls)
    line = line_of("/* Once: a color from a color. */")
    row = rows(c.set_lines(CALLS, [{"line": line}]))[0]
    assert row["verified"] and row["line"] > line and "has no code" in row["message"], row
    ends(c)


@case
def hit_conditions_are_exact(calls):
    c = attached(calls)
    answer = c.set_functions(
        [
            {"name": "next_color", "hitCondition": "7"},
            {"name": "greeting", "hitCondition": "== 3"},
            {"name": "turn", "hitCondition": "> 5"},
        ]
    )
    assert all(row["verified"] for row in rows(answer)), answer
    c.listen(1.5)
    calls.send_signal(signal.SIGKILL)
    calls.wait()
    balance = {row["name"]: row for row in c.event("terminated")["body"]["balance"]}
    assert balance["next_color"]["hits"] == 7 and balance["greeting"]["hits"] == 1, balance
    assert balance["turn"]["hits"] > 0 and all(balance_holds(row) for row in balance.values()), balance
    ends(c)


@case
def breakpoints_come_and_go_while_it_runs_and_those_that_stay_lose_no_hit(calls):
    c = client()
    c.begin()
    rounds = 400
    assert c.request("launch", {"program": os.path.join(victims, "calls"), "args": [str(rounds), "5000"]})["success"]
    stays = {"name": "next_color"}
    first = rows(c.set_functions([stays]))[0]["id"]
    c.request("configurationDone")
    for name in ["lookup", "greeting", "turn", "nap", "scale"] * 2:
        answer = rows(c.set_functions([stays, {"name": name}]))
        # On a machine that does much else the process may have ended first.
        if not answer[1]["verified"]:
            c.event("terminated")
            break
        assert answer[0]["id"] == first and answer[0]["verified"], answer
        c.set_lines(CALLS, [{"line": line_of("a line to break on")}])
        c.listen(0.02)
        c.set_lines(CALLS, [])
    c.set_functions([stays])
    row = c.event("terminated")["body"]["balance"][0]
    assert row["name"] == "next_color" and balance_holds(row) and row["hits"] == rounds, row
    ends(c)


@case
def removed_breakpoints_give_no_line_and_leave_the_code_as_it_was(calls):
    before = probes_of(calls.pid)
    c = attached(calls)
    c.set_functions([{"name": "next_color"}, {"name": "greeting"}])
    c.line("greeting(")
    assert probes_of(calls.pid) != before
    c.set_functions([{"name": "next_color"}])
    c.listen(0.1)
    c.messages.clear()
    c.listen(0.4)
    assert [b for b in c.lines() if "next_color(" in b["output"]]
    assert not [b for b in c.lines() if "greeting(" in b["output"]]
    c.set_functions([])
    assert probes_of(calls.pid) == before
    ends(c)
    assert calls.poll() is None


@case
def a_thousand_breakpoints_stand_at_once_and_are_balanced(calls):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "many.c")
        with open(path, "w", encoding="utf-8") as f:
            f.write("#include <unistd.h>\nvolatile int x;\nint main(void)\n{\n\tfor (;;) {\n")
            f.writelines(f"\t\tx = {i};\n" for i in range(1100))
            f.write("\t\tusleep(100000);\n\t}\n}\n")
        subprocess.run(["gcc", "-g", "-O0", "-o", path[:-2], path], check=True)
        many = victim(program=path[:-2])
        c = attached(many)
        wanted = [{"line": 6 + i, "logMessage": f"line {i} {{x}}"} for i in range(1000)]
        wanted[500]["condition"] = "x == 499"
        answer = rows(c.set_lines(path, wanted))
        assert all(row["verified"] for row in answer), [row for row in answer if not row["verified"]][:3]
        assert [row["line"] for row in answer] == [row["line"] for row in wanted]
        c.line("line 3 ")
        c.listen(0.5)
        again = rows(c.set_lines(path, wanted[:500]))
        assert [row["id"] for row in again] == [row["id"] for row in answer[:500]]
        c.listen(0.5)
        many.kill()
        many.wait()
        balance = c.event("terminated")["body"]["balance"]
        hits = [row["hits"] for row in balance]
        # One may be between the first and the last line, and no row is seen while the batch is armed.
        assert len(balance) == 500 and min(hits) > 0 and max(hits) - min(hits) <= 2, (min(hits), max(hits))
        assert all(balance_of_batch(row) for row in balance), balance[0]
        ends(c)


def balance_of_batch(row):
    return row["taken"] == row["delivered"] + sum(row["rejected"].values()) + sum(row["lost"].values()) + row["unread"]


@case
def lines_are_limited_and_all_hits_are_in_the_sums(calls):
    fast = victim("1000000000", "0")
    c = attached(fast)
    assert rows(c.set_functions([{"name": "lookup"}]))[0]["verified"]
    c.listen(3)
    times = sorted(m["received"] for m in c.events("output"))
    # A second on this side may be longer or shorter than one of the adapter, which does not run alone.
    assert len(times) <= (times[-1] - times[0] + 2) * 200, (len(times), times[-1] - times[0])
    fast.kill()
    fast.wait()
    row = c.event("terminated")["body"]["balance"][0]
    assert row["hits"] > 2000 and balance_holds(row), row
    shown = sum("lookup(" in b["output"] for b in c.lines())
    summed = sum(int(b["output"].split()[1]) for b in c.lines() if "more hit" in b["output"])
    assert (shown, summed) == (row["shown"], row["summed"]), (shown, summed, row)
    ends(c)


@case
def a_data_breakpoint_is_found_by_name_and_address(calls):
    c = attached(calls)
    body = c.request("dataBreakpointInfo", {"name": "rounds_done"})["body"]
    assert body["dataId"] == "rounds_done" and "unsigned long" in body["description"], body
    assert body["accessTypes"] == ["write", "readWrite"], body
    address = re.search("0x[0-9a-f]+", body["description"]).group()
    body = c.request("dataBreakpointInfo", {"name": address, "asAddress": True, "bytes": 4})["body"]
    assert body["dataId"] == address + ":4" and not body["canPersist"], body
    body = c.request("dataBreakpointInfo", {"name": "nosuch"})["body"]
    assert body["dataId"] is None and "nosuch" in body["description"], body
    # Where the registers do not fire, the answer has the cause; the emulated machine tests the rest.
    answer = c.request("setDataBreakpoints", {"breakpoints": [{"dataId": "rounds_done", "accessType": "write"}]})
    row = rows(answer)[0]
    if row["verified"]:
        c.line("rounds_done: ")
    else:
        assert "debug register" in row["message"], row
    answer = c.request("setDataBreakpoints", {"breakpoints": [{"dataId": "rounds_done", "condition": "nosuch"}]})
    assert not rows(answer)[0]["verified"] and "nosuch" in rows(answer)[0]["message"], answer
    ends(c)


def branch(c, number, **part):
    answer = c.request("variables", {"variablesReference": number, **part})
    assert answer["success"], answer
    return answer["body"]["variables"]


def named(rows_of_branch, end):
    return next(row for row in rows_of_branch if row["name"].endswith(end))


def opened(c, number, *path):
    """The rows behind a path of names."""
    for name in path:
        number = named(branch(c, number), name)["variablesReference"]
    return branch(c, number)


@case
def globals_are_a_tree_of_objects_files_and_members(calls):
    names = victim(program=os.path.join(victims, "names"))
    c = attached(names)
    root = c.request("scopes", {"frameId": 0})["body"]["scopes"][0]["variablesReference"]
    assert root == c.request("evaluate", {"expression": "globals", "context": "repl"})["body"]["variablesReference"]
    objects = [row["name"] for row in branch(c, root)]
    assert objects[0] == "names" and any("libc" in name for name in objects) and "[vdso]" not in objects, objects
    rows_of_file = opened(c, root, "names", "/names.c")
    assert named(rows_of_file, "color")["type"] == "color_t" and named(rows_of_file, "color")["value"] in (
        "RED", "GREEN", "BLUE"), rows_of_file
    # What the client would evaluate, and watch, leads to the same place.
    meta = named(branch(c, named(rows_of_file, "conn")["variablesReference"]), "meta")
    assert meta["evaluateName"] == "conn->meta", meta
    for row in branch(c, meta["variablesReference"]):
        answer = c.request("evaluate", {"expression": row["evaluateName"], "context": "watch"})
        assert answer["success"], (row, answer)
    matrix = named(rows_of_file, "matrix")
    assert matrix["indexedVariables"] == 3, matrix
    line = branch(c, matrix["variablesReference"], filter="indexed", start=1, count=1)
    assert [row["name"] for row in line] == ["[1]"] and line[0]["evaluateName"] == "matrix[1]", line
    assert branch(c, matrix["variablesReference"], filter="named") == []
    info = c.request("dataBreakpointInfo", {"variablesReference": line[0]["variablesReference"], "name": "[2]"})
    assert info["body"]["dataId"] == "matrix[1][2]" and info["body"]["canPersist"], info
    # A static of another file is named with its file, and the compiler's copies of a library are pages.
    other = opened(c, root, "names", "/names_other.c")
    info = c.request(
        "dataBreakpointInfo",
        {"variablesReference": opened_number(c, root, "names", "/names_other.c"), "name": "same_name"},
    )
    assert info["body"]["dataId"] == named(other, "same_name")["evaluateName"] == "names_other.c:same_name", info
    for number in (999, (1 << 24) + 99999, 1 << 40):
        assert not c.request("variables", {"variablesReference": number})["success"]
    assert not c.request("dataBreakpointInfo", {"variablesReference": root, "name": "names"})["success"]
    ends(c)


def opened_number(c, number, *path):
    for name in path:
        number = named(branch(c, number), name)["variablesReference"]
    return number


@case
def an_address_may_be_written_as_a_name_or_a_pointer(calls):
    names = victim(program=os.path.join(victims, "names"))
    c = attached(names)
    for name, data in [("&big_number", "big_number:4"), ("conn", "*conn:4"), ("0x4000", "0x4000:4"), ("16384", "16384:4")]:
        body = c.request("dataBreakpointInfo", {"name": name, "asAddress": True, "bytes": 4})["body"]
        assert body["dataId"] == data, (name, body)
        assert body["canPersist"] == (name[0] not in "01"), body
    row = rows(c.request("setDataBreakpoints", {"breakpoints": [{"dataId": "0x4000:4"}]}))[0]
    assert not row["verified"] and "no memory is mapped" in row["message"], row
    ends(c)


@case
def pause_and_steps_are_refused_in_one_sentence(calls):
    c = attached(calls)
    for command in ["pause", "next", "stepIn", "stepOut", "stackTrace", "setVariable", "nosuch"]:
        answer = c.request(command, {"threadId": calls.pid})
        assert not answer["success"] and answer["message"] and ". " not in answer["message"], answer
    threads = c.request("threads")["body"]["threads"]
    assert {t["name"].split("/")[0] for t in threads} == {"calls", "worker"}, threads
    ends(c)


@case
def the_console_prints_values_and_runs_commands(calls):
    c = attached(calls)
    answer = c.request("evaluate", {"expression": "things.size", "context": "watch"})
    assert answer["body"]["result"] == "3", answer
    answer = c.request("evaluate", {"expression": "nosuch", "context": "hover"})
    assert not answer["success"] and "nosuch" in answer["message"], answer
    answer = c.request("evaluate", {"expression": "break 'nap' --limit 2", "context": "repl"})
    assert answer["success"], answer
    c.line("2 hits in")
    answer = c.request("evaluate", {"expression": "break nap", "context": "repl"})
    c.line("  nap ")
    answer = c.request("evaluate", {"expression": "stop", "context": "repl"})
    # The first one may have printed its last line a moment ago.
    assert re.match("[12] command", answer["body"]["result"]), answer
    assert "watch EXPR" in c.request("evaluate", {"expression": "help", "context": "repl"})["body"]["result"]
    ends(c)


@case
def data_breakpoints_of_a_launched_program_are_exact(calls):
    c = client()
    c.begin()
    assert c.request("launch", {"program": os.path.join(victims, "calls"), "args": ["20", "1000"]})["success"]
    whole = {"dataId": "rounds_done", "accessType": "write"}
    # Of three writes of a round, 8, 19 and 4 more, one is more than 10.
    some = {"dataId": "calls.c:rounds_done", "condition": "new > old + 10", "hitCondition": "> 5"}
    answer = c.request("setDataBreakpoints", {"breakpoints": [whole, some, {"dataId": "things.size", "hitCondition": "3"}]})
    assert all(row["verified"] for row in rows(answer)), answer
    c.request("configurationDone")
    body = c.event("terminated")["body"]["balance"]
    assert [row["hits"] for row in body] == [60, 15, 0] and all(balance_holds(row) for row in body), body
    changes = [b["output"].split(": ")[1].split(",")[0].split(" -> ") for b in c.lines() if b["output"].startswith("rounds_done: ") and " -> " in b["output"]]
    # Each write is seen once, in the order of the writes.
    assert len(changes) == 60 and all(a[1] == b[0] for a, b in zip(changes, changes[1:])), changes
    ends(c)


@case
def a_race_is_a_group_with_both_places(calls):
    racy = victim("busy", "600", program=os.path.join(victims, "race_attached"))
    c = attached(racy)
    for _ in range(4):
        answer = c.request("evaluate", {"expression": "race 3", "context": "repl"})
        assert answer["success"], answer
        c.line("a lower grade not shown")
        races = [m["body"] for m in c.events("traplineRace")]
        if races:
            break
        c.messages.clear()
    assert races and races[0]["grade"] in "AB", (races, c.lines())
    for side in ("first", "second"):
        assert races[0][side]["path"].endswith("/race_attached.c") and races[0][side]["line"] > 0, races
    groups = [i for i, b in enumerate(c.lines()) if b.get("group") == "start"]
    group = c.lines()[groups[0] : groups[0] + 4]
    assert "shared_word" in group[0]["output"] and group[3].get("group") == "end", group
    for row, side in zip(group[1:3], ("first", "second")):
        assert row["output"].strip() == races[0][side]["text"] and row["line"] == races[0][side]["line"], group
        assert row["source"]["path"] == races[0][side]["path"], group
    # In a form that the user asks for it is passed on as it is.
    c.messages.clear()
    c.request("evaluate", {"expression": "race 0.2 --as sarif", "context": "repl"})
    c.line('"$schema"')
    assert not c.events("traplineRace")
    ends(c)
    assert racy.poll() is None


@case
def a_launched_program_waits_for_its_breakpoints(calls):
    c = client()
    c.begin()
    answer = c.request("launch", {"program": os.path.join(victims, "calls"), "args": ["3", "1000"]})
    assert answer["success"], answer
    c.event("initialized")
    assert rows(c.set_functions([{"name": "next_color"}]))[0]["verified"]
    c.request("configurationDone")
    assert c.event("exited")["body"]["exitCode"] == 0
    row = c.event("terminated")["body"]["balance"][0]
    assert row["hits"] == 3 and balance_holds(row), row
    ends(c)


@case
def the_output_of_a_launched_program_arrives(calls):
    c = client()
    c.begin()
    script = "echo out; echo err >&2; pwd; echo $COLOR; exit 3"
    answer = c.request(
        "launch", {"program": "/bin/sh", "args": ["-c", script], "cwd": "/usr", "env": {"COLOR": "green"}}
    )
    assert answer["success"], answer
    c.request("configurationDone")
    assert c.event("exited")["body"]["exitCode"] == 3
    out = "".join(b["output"] for b in c.lines("stdout"))
    assert out == "out\n/usr\ngreen\n" and "".join(b["output"] for b in c.lines("stderr")) == "err\n", c.lines()
    answer = c.request("launch", {"program": "/bin/true"})
    assert not answer["success"], answer
    ends(c)


@case
def launch_and_attach_refuse_with_a_cause(calls):
    for command, arguments, cause in [
        ("attach", {}, "pid"),
        ("attach", {"pid": 999999999}, "there is no process"),
        ("attach", {"pid": "12x"}, "pid"),
        ("attach", {"pid": 2}, ""),
        ("launch", {}, "program"),
        ("launch", {"program": "/nosuch"}, "cannot start"),
        ("launch", {"program": "/bin/true", "stopOnEntry": True}, "never stops"),
        ("launch", {"program": "/bin/true", "cwd": "/nosuch"}, "folder"),
        ("setBreakpoints", {"source": {"path": "x.c"}}, "comes first"),
    ]:
        c = client()
        c.begin()
        answer = c.request(command, arguments)
        assert not answer["success"] and cause in answer["message"], (command, arguments, answer)
        ends(c)


@case
def an_exec_ends_the_session_with_the_balance(calls):
    shell = subprocess.Popen(["/bin/sh", "-c", "read line; exec sleep 60"], stdin=subprocess.PIPE)
    started.append(shell)
    c = attached(shell)
    shell.stdin.write(b"\n")
    shell.stdin.close()
    c.event("terminated")
    c.line("ran another program (exec)")
    ends(c)
    shell.kill()


@case
def broken_framing_ends_the_session_and_leaves_nothing(calls):
    before = probes_of(calls.pid)
    for bytes_sent in [
        b"Content-Length: 2147483648\r\n\r\n{",
        b"Content-Length: 99999999999999999999\r\n\r\n",
        b"Content-Length: -1\r\n\r\n{}",
        b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
        b"Content-Type: x\r\n\r\n{}",
        b"Content-Length: 2\r\n\r\n[]",
        b"Content-Length: 4\r\n\r\n{\xff\xff}",
        b"x" * 3000,
        b'Content-Length: 17\r\n\r\n{"type":"neither"}'[:-1],
    ]:
        c = attached(calls)
        c.set_functions([{"name": "next_color"}])
        c.write(bytes_sent)
        try:
            c.until(lambda m: False, 20)
        except Gone:
            pass
        assert c.end(20) == 0, bytes_sent
        assert probes_of(calls.pid) == before, bytes_sent
    assert calls.poll() is None


@case
def a_message_may_come_in_pieces(calls):
    c = attached(calls)
    text = b'{"seq": 900, "type": "request", "command": "threads"}'
    for byte in b"content-length: %d\r\nContent-Type: x\r\n\r\n" % len(text) + text:
        c.write(bytes([byte]))
    answer = c.until(lambda m: m["type"] == "response" and m["request_seq"] == 900)
    assert answer["success"]
    ends(c)


@case
def a_client_that_vanishes_or_is_killed_leaves_nothing(calls):
    before = probes_of(calls.pid)
    c = attached(calls)
    c.set_functions([{"name": "lookup"}, {"name": "next_color"}])
    c.request("evaluate", {"expression": "break nap", "context": "repl"})
    c.close()
    assert c.end(20) == 0
    assert probes_of(calls.pid) == before
    c = attached(calls)
    c.set_functions([{"name": "lookup"}])
    c.request("evaluate", {"expression": "break nap", "context": "repl"})
    c.process.kill()
    c.end()
    end = time.monotonic() + 30
    while probes_of(calls.pid) != before and time.monotonic() < end:
        time.sleep(0.1)
    assert probes_of(calls.pid) == before and calls.poll() is None


def naps_of(pid):
    """How often its first thread has slept, which it does once a round."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as f:
        return next(int(row.split()[1]) for row in f if row.startswith("voluntary_ctxt_switches"))


@case
def a_client_that_does_not_read_does_not_hold_up_the_process(calls):
    fast = victim("1000000000", "0")
    c = attached(fast)
    c.set_functions([{"name": "lookup"}])
    begun = naps_of(fast.pid)
    time.sleep(2)
    assert naps_of(fast.pid) > begun + 10
    ends(c)
    fast.kill()


@case
def an_adapter_that_is_killed_at_any_moment_leaves_the_process_as_it_was(calls):
    seed = int(os.environ.get("TRAPLINE_SEED") or time.time_ns() % 1000000)
    print(f"# TRAPLINE_SEED={seed}")
    moments = random.Random(seed)
    before = probes_of(calls.pid)
    for _ in range(15):
        c = client()
        try:
            c.send("initialize", {"adapterID": "test"})
            c.send("attach", {"pid": calls.pid})
            c.send("setFunctionBreakpoints", {"breakpoints": [{"name": "lookup"}, {"name": "next_color"}]})
            c.send("setDataBreakpoints", {"breakpoints": [{"dataId": "rounds_done"}]})
            c.send("evaluate", {"expression": "break nap", "context": "repl"})
        except BrokenPipeError:
            pass
        time.sleep(moments.uniform(0, 0.25))
        c.process.kill()
        c.end()
        assert calls.poll() is None
    end = time.monotonic() + 30
    while probes_of(calls.pid) != before and time.monotonic() < end:
        time.sleep(0.1)
    assert probes_of(calls.pid) == before and calls.poll() is None
    naps = naps_of(calls.pid)
    time.sleep(0.2)
    assert naps_of(calls.pid) > naps


@case
def a_port_takes_one_client_with_the_token(calls):
    server = subprocess.Popen([trapline, "dap", "--port", "0"], stdout=subprocess.PIPE, text=True)
    started.append(server)
    words = server.stdout.readline().split()
    port, token = int(words[1]), words[3]
    assert len(token) == 32
    bad = Client(port=port, check=schema)
    bad.begin()
    assert not bad.request("setFunctionBreakpoints", {"breakpoints": []})["success"]
    assert not bad.request("attach", {"pid": calls.pid, "token": token[:-1] + "x"})["success"]
    assert closes(bad)
    bad.close()
    c = Client(port=port, check=schema)
    assert c.attach(calls.pid, token=token)["success"]
    second = Client(port=port)
    assert closes(second)
    second.close()
    assert rows(c.set_functions([{"name": "next_color"}]))[0]["verified"]
    c.line("next_color(")
    c.request("disconnect")
    assert server.wait(20) == 0
    try:
        socket.create_connection(("127.0.0.1", port), 1)
        raise AssertionError("the port is still open")
    except OSError:
        pass


def closes(c):
    try:
        c.listen(20)
    except (Gone, ConnectionError):
        return True
    return False


@case
def every_message_fits_the_schema_of_the_protocol(calls):
    if schema.why_not:
        return schema.why_not
    assert schema.checked > 1000, schema.checked
    return None


sys.exit(main())
