#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""remains.py TRAPLINE BUILT - what stays in a process after the clean end of each command with -p.

The tables of trapline(7) and SECURITY.md are made of it. The program is the plain one of the matrix.
"""
import collections
import os
import sys

import behaviours
import state
import tools
from cell import PID, Cell, Harm, Refused


class Measured(Cell):
    """Keeps the mappings from before the attach and from after the end."""

    def mappings(self):
        return set(state.mappings(f'/proc/{self.control.get(PID)}'))

    def steady(self):
        before = super().steady()
        self.mapped_before = self.mappings()
        return before

    def compare(self, before):
        self.mapped_after = self.mappings()
        super().compare(before)

    def sizes(self):
        """KiB by name and permissions."""
        sizes = collections.Counter()
        for sign, these in ((1, self.mapped_after - self.mapped_before),
                            (-1, self.mapped_before - self.mapped_after)):
            for start, end, permissions, name in these:
                sizes[(name or 'anonymous', permissions)] += sign * (end - start) // 1024
        return sizes


def main():
    plain = [row for row in behaviours.listed(os.path.abspath(sys.argv[2])) if row.name == 'plain'][0]
    for tool, row in tools.TOOLS.items():
        if 'attach' not in row:
            continue
        cell = Measured(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), plain, tool, '-p')
        try:
            cell.play()
        except (Harm, Refused) as what:
            print(f'{tool}: {what}')
            continue
        more = len(cell.mapped_after) - len(cell.mapped_before)
        print(f'{tool}: {cell.grown} KiB of address space in {more} mappings')
        for (name, permissions), kib in sorted(cell.sizes().items()):
            if kib:
                print(f'    {kib:8} KiB {permissions} {name}')
        for line in cell.kept:
            if 'mappings' not in line:
                print(f'    {line}')


if __name__ == '__main__':
    sys.exit(main())
