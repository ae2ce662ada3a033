# SPDX-License-Identifier: MIT
"""dap_run.py - what the cases of `trapline dap` share: a victim, a client, and how cases run. TAP."""

import os
import subprocess
import sys
import time
import traceback

from dap_client import Client
from dap_schema import Schema

trapline, victims, source = sys.argv[1:4]
CALLS = os.path.join(source, "tests/victims/calls.c")
schema = Schema(os.path.join(victims, "../npm/debugAdapterProtocol.json"))
started = []
cases = []


def case(function):
    cases.append(function)
    return function


def victim(*arguments, program=os.path.join(victims, "calls")):
    process = subprocess.Popen([program, *arguments], stdout=subprocess.DEVNULL)
    started.append(process)
    # Its code is there when the loader has run.
    time.sleep(0.2)
    return process


def client(*options, **more):
    return Client([trapline, "dap", *options], check=schema, **more)


def attached(process, **more):
    c = client()
    answer = c.attach(process.pid, **more)
    assert answer["success"], answer
    return c


def line_of(text, path=CALLS):
    with open(path, encoding="utf-8") as f:
        return next(i for i, line in enumerate(f, 1) if text in line)


def rows(answer):
    return answer["body"]["breakpoints"]


def ends(c):
    answer = c.request("disconnect")
    assert answer["success"]
    assert c.end() == 0


def main():
    wanted = os.environ.get("TRAPLINE_TEST")
    failed = 0
    number = 0
    for function in cases:
        if wanted and wanted not in function.__name__:
            continue
        number += 1
        calls = victim()
        begun = time.monotonic()
        try:
            skipped = function(calls)
            print(f"# {time.monotonic() - begun:.1f} s")
            print(f"ok {number} - {function.__name__}" + (f" # SKIP {skipped}" if skipped else ""))
        except Exception:
            failed += 1
            print(f"not ok {number} - {function.__name__}")
            for row in traceback.format_exc().splitlines():
                print("# " + row[:1500])
        for process in started:
            process.kill()
            process.wait()
        started.clear()
        sys.stdout.flush()
    print(f"1..{number}")
    return 1 if failed else 0
