#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""heap_everyday.py TRAPLINE [NAME...] - everyday programs under `trapline heap`: they do what they do without it.

Each line of heap_everyday.list runs twice without and once with it. Output and exit status must be the same,
and no error may be reported; where the two runs without differ, only the status counts. JSON lines: one for
each program, then a sum. The exit status is 1 if one differs or has a report.

        TRAPLINE_HEAP_OPTIONS    of trapline heap; "" (the default budget)
"""
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

OPTIONS = shlex.split(os.environ.get("TRAPLINE_HEAP_OPTIONS", ""))
SECONDS = 120
HERE = os.path.dirname(os.path.abspath(__file__))


def rows():
    with open(f"{HERE}/heap_everyday.list", encoding="utf8") as f:
        for line in f:
            if not line.startswith("#"):
                yield line.rstrip("\n").split("\t", 1)


def is_installed(name, command):
    for word in {command.split()[0], name.split()[0]}:
        if word not in {"printf", "echo", "for", "ls", "mkdir", "cp", "rm", "tr", "zcat"} and \
                "=" not in word and "/" not in word and shutil.which(word):
            return True
    first = [w for w in command.split() if "=" not in w][0]
    return "/" in first and os.path.exists(first)


def prepare(folder):
    words = "the quick brown fox jumps over a lazy dog and then some more of the same words "
    text = "".join(f"{i} {words[i % 40:]}{i * 7919 % 1000}\n" for i in range(4000))
    files = {"words.txt": text, "words2.txt": text.replace("11 the", "12 a"),
             "data.json": json.dumps([{"n": i, "name": f"name {i}"} for i in range(2000)]),
             "page.xml": "<r>" + "".join(f"<i n='{i}'>t{i}</i>" for i in range(500)) + "</r>",
             "page.xsl": "<x:stylesheet version='1.0' xmlns:x='http://www.w3.org/1999/XSL/Transform'>"
                         "<x:output method='text'/><x:template match='/'><x:value-of select='count(//i)'/>"
                         "</x:template></x:stylesheet>",
             "prog.c": "#include <stdio.h>\n#include <stdlib.h>\nstruct n { int k; struct n *l; };\n"
                       "int main(void) { struct n *h = 0; for (int i = 0; i < 99; i++) { struct n *x ="
                       " malloc(sizeof *x); x->k = i; x->l = h; h = x; } long s = 0; while (h) { struct n *x"
                       " = h; s += x->k; h = x->l; free(x); } printf(\"%ld\\n\", s); return 0; }\n",
             "prog.cc": "#include <map>\n#include <string>\n#include <vector>\n#include <algorithm>\n"
                        "std::map<std::string, std::vector<int>> m;\nint f(const std::string &s) {"
                        " auto &v = m[s]; v.push_back(1); std::sort(v.begin(), v.end()); return v.size(); }\n"}
    for name, content in files.items():
        with open(f"{folder}/{name}", "w", encoding="utf8") as f:
            f.write(content)
    with open(f"{folder}/big.bin", "wb") as f:
        f.write(bytes(i * i % 251 for i in range(1 << 20)))
    run = lambda *argv: subprocess.run(argv, cwd=folder, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    run("convert", "-size", "200x200", "gradient:red-blue", "pic.png")
    run("git", "init", "-q", "repo")
    for i in range(6):
        with open(f"{folder}/repo/words.txt", "w", encoding="utf8") as f:
            f.write(text[i * 1000:i * 1000 + 90000])
        run("git", "-C", "repo", "add", ".")
        run("git", "-C", "repo", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", f"change {i}")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def run(argv, folder, port):
    """(status, output); what is left of it is ended with its session."""
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "HOME": folder, "PORT": str(port), "TERM": "dumb"}
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(argv, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=out,
                                   stderr=out, start_new_session=True)
        try:
            status = process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            status = "timeout"
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        out.seek(0)
        return status, out.read().replace(str(port).encode(), b"PORT")


def judge(trapline, name, command, folder):
    port = free_port()
    bare = [run(["sh", "-c", command], folder, port) for _ in range(2)]
    report = f"{folder}/heap.report"
    if os.path.exists(report):
        os.unlink(report)
    status, said = run([trapline, "heap", *OPTIONS, "--json", "-o", report, "--", "sh", "-c", command], folder, port)
    result = {"program": name, "status": status, "bare": bare[0][0], "same_status": status == bare[0][0],
              "stable": bare[0] == bare[1]}
    # The command tells what it did on the program's standard error.
    said = b"".join(line for line in said.splitlines(True) if not line.startswith((b"trapline heap: ", b"  ")))
    kept = b"".join(line for line in bare[0][1].splitlines(True) if not line.startswith(b"  "))
    result["same_output"] = not result["stable"] or said == kept
    if not result["same_output"]:
        result["output"] = said[-600:].decode(errors="replace")
        result["bare_output"] = kept[-600:].decode(errors="replace")
    try:
        with open(report, encoding="utf8") as f:
            lines = [json.loads(line) for line in f]
        result["reports"] = [line for line in lines if line["type"] == "heap"]
        summary = [line for line in lines if line["type"] == "summary"][-1]
        result.update({k: summary.get(k) for k in ("sampled", "reused", "processes", "cost_ns", "cpu_ns")})
    except (OSError, ValueError, IndexError) as wrong:
        result["reports"] = []
        result["failed"] = f"no summary: {wrong}: {said[-300:].decode(errors='replace')}"
    return result


def short(report):
    """One line, for who reads."""
    where = [f.get("function") or f.get("module") for f in (report.get("first") or {}).get("stack", [])[:4]]
    return f"{report['kind']} {report['grade']} {report['first']['access']} {(report['block'] or {}).get('offset')} of {(report['block'] or {}).get('size')}: {where}"


def main():
    trapline, wanted = os.path.abspath(sys.argv[1]), sys.argv[2:]
    bad, ran, missing = [], 0, []
    with tempfile.TemporaryDirectory() as folder:
        prepare(folder)
        for name, command in rows():
            if wanted and name not in wanted:
                continue
            if not is_installed(name, command):
                missing.append(name)
                continue
            result = judge(trapline, name, command, folder)
            ran += 1
            if result["reports"] or "failed" in result or not (result["same_status"] and result["same_output"]):
                bad.append(name)
                print(f"# {name}: {result['status']} for {result['bare']}, same output: {result['same_output']}",
                      *[short(r) for r in result["reports"]], sep="\n#   ", file=sys.stderr, flush=True)
            print(json.dumps(result), flush=True)
    print(json.dumps({"ran": ran, "wrong": bad, "missing": missing}), flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
