# SPDX-License-Identifier: MIT
"""dap_children.py - several processes in one session: cases of dap_cases.py."""

import os
import re
import signal
import subprocess
import tempfile

from dap_run import attached, case, client, ends, line_of, rows, victim


def forking(folder):
    """A program that forks a child each 0.1 s, which calls and ends; the third one stays."""
    path = os.path.join(folder, "forking.c")
    with open(path, "w", encoding="utf-8") as f:
        f.write(
            "#include <stdlib.h>\n#include <sys/wait.h>\n#include <unistd.h>\n"
            "volatile int seen;\nstatic char text[16];\n"
            "__attribute__((noinline)) void step(int n, const char *who)\n{\n\tseen = n + *who;\n}\n"
            "int main(int argc, char **argv)\n{\n"
            "\tint rounds = atoi(argv[1]);\n"
            "\tfor (int i = 0; i < rounds; i++) {\n"
            '\t\tstep(i, "parent");\n'
            "\t\tpid_t pid = fork();\n"
            "\t\tif (!pid) {\n"
            "\t\t\tfor (char *p = text; p < text + 5; p++)\n\t\t\t\t*p = (char)('a' + i);\n"
            "\t\t\tstep(100 + i, text);\n"
            "\t\t\tif (argc > 2)\n\t\t\t\tsleep(6);\n"
            "\t\t\t_exit(0);\n\t\t}\n"
            "\t\tif (argc < 3)\n\t\t\twaitpid(pid, 0, 0);\n"
            "\t}\n\tif (argc > 2)\n\t\tsleep(3);\n\treturn 5;\n}\n"
        )
    program = os.path.join(folder, "forking")
    subprocess.run(["gcc", "-g", "-O1", "-o", program, path], check=True)
    return program


@case
def children_are_observed_if_they_are_asked_for(calls):
    with tempfile.TemporaryDirectory() as folder:
        program = forking(folder)
        for follows in (True, False):
            c = client()
            c.begin()
            more = {"followChildren": True} if follows else {}
            assert c.request("launch", {"program": program, "args": ["20"], **more})["success"]
            row = rows(c.set_functions([{"name": "step"}]))[0]
            assert row["verified"], row
            c.request("configurationDone")
            row = c.event("terminated")["body"]["balance"][0]
            assert row["hits"] == (40 if follows else 20) and row["shown"] == row["hits"], row
            assert c.event("exited")["body"]["exitCode"] == 5
            lines = [b["output"] for b in c.lines() if "step(" in b["output"]]
            first = [line for line in lines if line.startswith("step(")]
            children = [line for line in lines if re.match(r"forking/\d+: step\(n=1\d\d, ", line)]
            assert len(first) == 20 and len(children) == (20 if follows else 0), lines
            # The text is that of the child's memory.
            for i, line in enumerate(children):
                assert '"%s"' % (chr(ord("a") + i) * 5) in line, line
            ends(c)


@case
def a_session_with_children_ends_with_the_last_of_them(calls):
    with tempfile.TemporaryDirectory() as folder:
        program = forking(folder)
        c = client()
        c.begin()
        arguments = {"program": program, "args": ["3", "stay"], "followChildren": True}
        assert c.request("launch", arguments)["success"]
        assert rows(c.set_functions([{"name": "step"}]))[0]["verified"]
        first = c.event("process")["body"]["systemProcessId"]
        c.request("configurationDone")
        c.line("n=102")
        threads = c.request("threads")["body"]["threads"]
        assert len(threads) == 4 and threads[0]["id"] == first, threads
        c.line("its children are still observed")
        # Where locations are looked up has gone.
        row = rows(c.set_functions([{"name": "step"}, {"name": "main"}]))[1]
        assert not row["verified"] and "first process has ended" in row["message"], row
        assert not c.events("terminated")
        row = c.event("terminated")["body"]["balance"][0]
        assert row["hits"] == 6, row
        ends(c)


@case
def children_that_run_already_are_observed_too(calls):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "prefork.c")
        with open(path, "w", encoding="utf-8") as f:
            f.write(
                "#include <unistd.h>\nint own;\n"
                "__attribute__((noinline)) void step(int n)\n{\n\town = n;\n}\n"
                "int main(void)\n{\n\tint n = !fork() + !fork() * 2;\n"
                "\tfor (int i = 0; i < 600; i++) {\n\t\tstep(n);\n\t\tusleep(50000);\n\t}\n}\n"
            )
        program = path[:-2]
        subprocess.run(["gcc", "-g", "-O0", "-o", program, path], check=True)
        prefork = victim(program=program)
        c = attached(prefork, followChildren=True)
        # Each process has its own value of the variable.
        row = rows(c.set_lines(path, [{"line": line_of("usleep", path), "logMessage": "own is {own}"}]))[0]
        assert row["verified"], row
        for n in range(4):
            body = c.line(f"own is {n}")
            assert body["output"].startswith("own is 0" if n == 0 else "prefork/"), body
        threads = c.request("threads")["body"]["threads"]
        assert len(threads) == 4, threads
        ends(c)
        for thread in threads:
            os.kill(thread["id"], signal.SIGKILL)
