#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""text_sums.py PID - a sum for the code of each file that a process has mapped, but for what trapline loads."""
import collections
import hashlib
import sys

OURS = ("memfd", "trapline", "Zydis")


def main():
    sums = collections.OrderedDict()
    with open(f"/proc/{sys.argv[1]}/maps", encoding="utf-8") as maps:
        lines = [line.split() for line in maps]
    with open(f"/proc/{sys.argv[1]}/mem", "rb") as memory:
        for fields in lines:
            if "x" not in fields[1] or len(fields) < 6 or not fields[5].startswith("/"):
                continue
            if any(name in fields[5] for name in OURS):
                continue
            start, end = (int(n, 16) for n in fields[0].split("-"))
            memory.seek(start)
            sums.setdefault(fields[5], hashlib.sha256()).update(memory.read(end - start))
    for path, found in sums.items():
        print(path, found.hexdigest())


main()
