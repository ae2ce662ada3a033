# SPDX-License-Identifier: MIT
"""dap_quirks.py - what clients do that broke other adapters: cases of dap_cases.py. Each has the report."""

import json
import os
import subprocess
import tempfile

from dap_run import CALLS, attached, case, client, ends, line_of, rows, victim, victims


@case
def requests_before_a_process_are_answered_at_once(calls):
    # llvm-project 140154: an adapter that put them off until the launch waited for itself.
    c = client()
    for command, arguments in [
        ("threads", None),
        ("dataBreakpointInfo", {"name": "x"}),
        ("setBreakpoints", {"source": {"path": CALLS}, "breakpoints": []}),
        ("configurationDone", None),
    ]:
        answer = c.request(command, arguments)
        assert not answer["success"] and "comes first" in answer["message"], answer
    assert c.request("setExceptionBreakpoints", {"filters": []})["success"]
    assert c.attach(calls.pid)["success"]
    assert c.request("threads")["body"]["threads"]
    ends(c)


@case
def an_unknown_request_is_refused_and_its_user_is_not_disturbed(calls):
    c = attached(calls)
    for command in ["breakpointLocations", "setInstructionBreakpoints", "completions"]:
        answer = c.request(command, {})
        assert not answer["success"] and command in answer["message"], answer
        assert not answer["body"]["error"]["showUser"], answer
    # A refused pause is shown to the user, with the reason.
    assert c.request("pause", {"threadId": 1})["body"]["error"]["showUser"]
    ends(c)


@case
def lists_of_breakpoints_may_be_empty_missing_or_wrong(calls):
    c = attached(calls)
    line = line_of("a line to break on")
    for arguments in [{"breakpoints": []}, {}, {"breakpoints": None}, {"lines": [], "breakpoints": []}]:
        assert rows(c.set_lines(CALLS, [{"line": line}]))[0]["verified"]
        answer = c.request("setBreakpoints", {"source": {"path": CALLS}, **arguments})
        assert answer["success"] and rows(answer) == [], answer
    assert rows(c.request("setFunctionBreakpoints", {"breakpoints": []})) == []
    # A row without a line is not the first line with code.
    answer = rows(c.set_lines(CALLS, [{}, {"line": str(line)}, {"line": -1}, 7, {"line": line}]))
    assert [row["verified"] for row in answer] == [False] * 4 + [True], answer
    assert all("needs line" in row["message"] for row in answer[:4]), answer
    assert not c.request("setBreakpoints", {"source": {"sourceReference": 3}, "breakpoints": []})["success"]
    ends(c)


@case
def lines_count_from_0_if_the_client_says_so(calls):
    c = client()
    form = {"adapterID": "trapline", "linesStartAt1": False, "columnsStartAt1": False}
    assert c.request("initialize", form)["success"]
    assert c.request("attach", {"pid": calls.pid})["success"]
    line = line_of("a line to break on")
    row = rows(c.set_lines(CALLS, [{"line": line - 1, "column": 0, "logMessage": "here {tid}"}]))[0]
    assert row["verified"] and row["line"] == line - 1 and "message" not in row, row
    assert c.line("here ")["line"] == line - 1
    row = rows(c.set_lines(CALLS, [{"line": 0}]))[0]
    assert row["verified"] and "line 1 has no code" in row["message"], row
    ends(c)


@case
def files_have_paths_and_no_other_form(calls):
    c = client()
    answer = c.request("initialize", {"adapterID": "trapline", "pathFormat": "uri"})
    assert not answer["success"] and "path" in answer["message"], answer
    assert c.attach(calls.pid)["success"]
    ends(c)


@case
def empty_lines_between_messages_are_passed_over(calls):
    # zed 41277: some implementations write one behind each message.
    c = attached(calls)
    text = json.dumps({"seq": 900, "type": "request", "command": "threads"}).encode()
    for byte in b"\r\n\r\n\nContent-Length: %d\r\n\r\n" % len(text) + text + b"\r\n":
        c.write(bytes([byte]))
    assert c.until(lambda m: m["type"] == "response" and m["request_seq"] == 900)["success"]
    large = json.dumps({"seq": 901, "type": "request", "command": "threads", "arguments": {"x": "ü" * 700000}},
                       ensure_ascii=False).encode()
    c.write(b"Content-Length: %d\r\n\r\n" % len(large) + large)
    assert c.until(lambda m: m["type"] == "response" and m["request_seq"] == 901)["success"]
    ends(c)


@case
def a_source_is_found_through_a_symbolic_link(calls):
    # vscode-cpptools 4818, vscode-go 2111: the folder that the editor opened leads to another one.
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(os.path.dirname(CALLS), os.path.join(folder, "link"))
        path = os.path.join(folder, "link", "calls.c")
        c = attached(calls)
        row = rows(c.set_lines(path, [{"line": line_of("a line to break on"), "logMessage": "linked {tid}"}]))[0]
        assert row["verified"] and row["source"]["path"] == path, row
        assert c.line("linked ")["source"]["path"] == path
        ends(c)


@case
def another_file_of_the_same_name_is_not_the_source(calls):
    # An editor sends the breakpoints of all its files, such as each main.c of a workspace.
    with tempfile.TemporaryDirectory() as folder:
        path = {}
        for name in ("built", "other", "copy"):
            os.mkdir(os.path.join(folder, name))
            path[name] = os.path.join(folder, name, "main.c")
            with open(path[name], "w", encoding="utf-8") as f:
                extra = "/* more */" if name == "other" else ""
                f.write("#include <unistd.h>\nint main(void)\n{\n\tfor (;;)\n\t\tusleep(100000);%s\n}\n" % extra)
        program = os.path.join(folder, "program")
        subprocess.run(["gcc", "-g", "-O0", "-o", program, path["built"]], check=True)
        c = attached(victim(program=program))
        row = rows(c.set_lines(path["other"], [{"line": 5}]))[0]
        assert not row["verified"] and path["built"] in row["message"], row
        for name in ("built", "copy"):
            assert rows(c.set_lines(path[name], [{"line": 5}]))[0]["verified"], name
            c.set_lines(path[name], [])
        # Where the file of the build is not here, as after a build in a container, the name decides.
        os.remove(path["built"])
        assert rows(c.set_lines(path["other"], [{"line": 5}]))[0]["verified"]
        ends(c)


@case
def each_context_of_evaluate_has_its_meaning(calls):
    c = attached(calls)
    for context in ("hover", "watch", "variables", "clipboard", "repl", None):
        arguments = {"expression": "things.size"} | ({"context": context} if context else {})
        assert c.request("evaluate", arguments)["body"]["result"] == "3", context
    # What is a command in the console is a name elsewhere.
    for context in ("hover", "watch"):
        answer = c.request("evaluate", {"expression": "globals", "context": context})
        assert not answer["success"] and "globals" in answer["message"], answer
    for expression in ("", " ", "\n"):
        assert not c.request("evaluate", {"expression": expression, "context": "repl"})["success"]
    ends(c)


@case
def a_disconnect_ends_what_was_launched_and_never_what_was_attached_to(calls):
    # nvim-dap 1024: an editor that was closed ended the server.
    for ends_it in (True, False, None):
        c = attached(calls)
        assert c.request("disconnect", {"terminateDebuggee": ends_it})["success"]
        assert c.end() == 0 and calls.poll() is None
        said = [b for b in c.lines() if "and continues" in b["output"]]
        assert len(said) == (1 if ends_it else 0), (ends_it, c.lines())
    for ends_it in (True, None, False):
        c = client()
        c.begin()
        answer = c.request("launch", {"program": os.path.join(victims, "calls"), "args": None, "cwd": None, "env": None})
        assert answer["success"], answer
        pid = c.event("process")["body"]["systemProcessId"]
        c.request("configurationDone")
        assert c.request("disconnect", {"terminateDebuggee": ends_it})["success"]
        assert c.end() == 0
        runs = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()
        if ends_it is False:
            assert runs and runs[0] != "Z", runs
            os.kill(pid, 9)
        else:
            assert not runs or runs[0] == "Z", (ends_it, runs)


@case
def the_environment_is_an_object_or_a_list(calls):
    for env in ({"COLOR": "green", "PORT": 8080, "ON": True, "HOME": None}, ["COLOR=green", "PORT=8080", "ON=true"]):
        c = client()
        c.begin()
        script = "echo $COLOR $PORT $ON"
        assert c.request("launch", {"program": "/bin/sh", "args": ["-c", script], "env": env})["success"]
        c.request("configurationDone")
        c.event("terminated")
        assert "".join(b["output"] for b in c.lines("stdout")) == "green 8080 true\n", c.lines()
        ends(c)
    for env, cause in [
        ({"COLOR": ["green"]}, "COLOR"),
        (["COLOR"], "COLOR"),
        ([7], "a row"),
        ({"A=B": "c"}, "A=B"),
        ("COLOR=green", "its type"),
    ]:
        c = client()
        c.begin()
        answer = c.request("launch", {"program": "/bin/true", "env": env})
        assert not answer["success"] and cause in answer["message"], (env, answer)
        ends(c)


@case
def requests_behind_the_end_of_the_process_have_that_cause(calls):
    calls = victim()
    c = attached(calls)
    assert rows(c.set_functions([{"name": "lookup"}]))[0]["verified"]
    calls.kill()
    calls.wait()
    c.event("terminated")
    for answer in (c.set_lines(CALLS, [{"line": 3}]), c.set_functions([{"name": "greeting"}])):
        assert not rows(answer)[0]["verified"] and "has ended" in rows(answer)[0]["message"], answer
    for command, arguments in [
        ("evaluate", {"expression": "rounds_done", "context": "watch"}),
        ("evaluate", {"expression": "break nap", "context": "repl"}),
        ("dataBreakpointInfo", {"name": "rounds_done"}),
        ("scopes", {"frameId": 0}),
    ]:
        answer = c.request(command, arguments)
        assert not answer["success"] and "has ended" in answer["message"], (command, answer)
    assert c.request("threads")["body"]["threads"] == []
    assert c.request("evaluate", {"expression": "balance", "context": "repl"})["success"]
    ends(c)
