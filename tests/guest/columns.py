#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""columns.py TRAPLINE|DUMP - each command, each way of it and each option has its place in the matrix.

A command that observes a process, or an option that brings something into one, cannot come without a
column in tools.py, and each tool that the agents have in their tables has one too. DUMP is a file as `trapline --dump-options` prints it. Exit status 1 names what is missing.
"""
import os
import re
import subprocess
import sys

import tools

# Commands that touch no process by themselves: dap makes the events of watch and break, point runs
# break, and patrol runs heap, race and break.
WITHOUT_COLUMN = {'report', 'check', 'dap', 'patrol', 'point'}

# Options that bring something of their own into a process: a column uses each, with each of these values.
INSIDE = {
    'break': {'mechanism': ['uprobe', 'probe', 'hardware'], 'trace': [], 'then': []},
    'watch': {'at-writers': []},
    'heap': {'growth': []},
    'race': {'sweep': [], 'heap': []},
    'record': {'code': [], 'break': []},
    'patch': {'undo': []},
}

# Options that choose what is reported, how, or how much of it: nothing else comes into the process.
OUTSIDE = set('''
    align all args as baseline budget by check consistency counter cpu debuginfod delay depth dry-run each
    error-exitcode explain faults first folded follow for frames from gen-suppressions grade growth-format if inlined input inside jobs json
    kernel last leave-copies limit list match max-rate mechanism multiplex name no-bpf no-stack no-stall on output
    outside overhead pending per-thread pid print redact replay ret sarif seed signal since snapshot stack stall stop summary suppressions tables then
    thread threads timeout to top until until-covered until-hit vary verbose window write-baseline'''.split())


# The rows of the tables of tools that come into a process (src/guest/run.h), and their columns.
ROWS = {'race': 'race', 'throttle': 'throttle', 'flow': 'flow', 'probe': 'probe', 'patch': 'patch', 'heap': 'heap',
        'patch-go': 'patch'}
AGENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'agent')


def rows():
    """The options of the rows in the sources of the agents."""
    for folder, _, names in os.walk(AGENT):
        for name in names:
            if name.endswith('.c'):
                with open(os.path.join(folder, name), encoding='utf-8') as file:
                    yield from re.findall(r'\.option = "([\w-]+)="', file.read())


def missing_rows(found):
    for option in sorted(found):
        if ROWS.get(option) not in tools.TOOLS:
            yield f'the tool {option}= of agent/ has no column: see ROWS in tests/guest/columns.py'
    for option in sorted(set(ROWS) - found):
        yield f'agent/ has no tool {option}= any more: ROWS in tests/guest/columns.py'


def read_dump(name):
    """{command: {option: its values}} of the program's option tables."""
    if os.access(name, os.X_OK):
        text = subprocess.run([name, '--dump-options'], stdout=subprocess.PIPE, text=True, check=True).stdout
    else:
        with open(name, encoding='utf-8') as file:
            text = file.read()
    commands = {}
    for line in text.splitlines():
        words = line.split('\t')
        if words[0] == 'command':
            commands[words[1]] = {}
        elif words[0] == 'option':
            commands[words[1]][words[2]] = words[5].split('|') if words[4] == 'choice' else []
    return commands


def lines_of(command):
    """The argument lists of the columns that run a command."""
    for row in tools.TOOLS.values():
        for words in [row.get('run', []), *row.get('attach', [])]:
            if words and words[0] == command:
                yield words


def has(command, option, value=None):
    for words in lines_of(command):
        for i, word in enumerate(words):
            if word == '--' + option and (value is None or words[i + 1:i + 2] == [value]):
                return True
    return False


def missing(commands):
    for command, options in commands.items():
        if command in WITHOUT_COLUMN:
            continue
        if not any(lines_of(command)):
            yield f'trapline {command} has no column in tests/guest/tools.py'
            continue
        if 'pid' in options and not any('-p' in words for words in lines_of(command)):
            yield f'trapline {command} has -p, and no column with attach in tests/guest/tools.py'
        inside = INSIDE.get(command, {})
        for option, values in options.items():
            if option not in OUTSIDE and option not in inside:
                yield (f'trapline {command} --{option} is not in tests/guest/columns.py: '
                       'does it bring something into a process?')
            for value in (values if option in inside and values else [None]) if option in inside else []:
                if not has(command, option, value):
                    yield f'trapline {command} --{option}{" " + value if value else ""} has no column'
        for option, values in inside.items():
            if option not in options:
                yield f'trapline {command} has no --{option} any more: tests/guest/columns.py'


def main():
    said = list(missing(read_dump(sys.argv[1]))) + list(missing_rows(set(rows())))
    for line in said:
        print(f'columns: {line}', file=sys.stderr)
    return bool(said)


if __name__ == '__main__':
    sys.exit(main())
