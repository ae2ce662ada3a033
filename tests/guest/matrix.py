#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""matrix.py TRAPLINE BUILT [PATTERN...] - what lives in a process harms nothing: tools x ways x behaviours. TAP.

Each cell runs a program that checks itself under a tool, and ends in one of these:

    .   the program is right, ends as without the tool, and is afterwards what it was
    r   the tool refuses in one line, and touched nothing
    X   harm, which fails, unless tests/guest/known has the cell (then k)
    u   harm that is not in each of five runs alone. It is printed with its count, and does not fail: a third of all
        cells, drawn anew each time, would fail by chance. Mend it, or give it a line in tests/guest/known
    s   the machine lacks something, which is named

A third of all cells is drawn, so that each row and each column is hit. TRAPLINE_SEED repeats a draw.
TRAPLINE_MATRIX is another share in percent, or "all". A pattern such as 'heap|flow * sent_*' runs all that
it fits. TABLE=FILE writes the table.
"""
import concurrent.futures
import errno
import fnmatch
import os
import random
import shutil
import sys
import tempfile
import threading
import time

import behaviours
import tools
from cell import Cell, Harm, Refused, end_marked

HERE = os.path.dirname(os.path.abspath(__file__))
JOBS = 2 * (os.cpu_count() or 1)  # a cell mostly waits
TRIES = 6  # that a known harm must pass in a row to be mended
ALONE = 5  # times that a cell with a new harm is played again, alone: the machine may have been busy
DOUBTFUL_MAX = 40  # new harms; more are none of the machine


def read_known():
    """(pattern, reason, whether it is seen only sometimes) of each line."""
    lines = []
    with open(os.path.join(HERE, 'known'), encoding='utf-8') as file:
        for line in file:
            line = line.strip()
            if line and not line.startswith('#'):
                cell, _, reason = line.partition(': ')
                lines.append((cell, reason, reason.startswith('sometimes')))
    return lines


def fits(cell, pattern):
    """Each of the three words fits one of the alternatives of its pattern, as in 'heap|flow -p limit_*'."""
    return all(any(fnmatch.fnmatch(word, choice) for choice in choices.split('|'))
               for word, choices in zip(cell.split(), pattern.split()))


class Runner:
    def __init__(self, trapline, built, folder):
        self.trapline = trapline
        self.built = built
        self.folder = folder
        self.known = read_known()
        self.lock = threading.Lock()
        self.row_locks = {}
        self.letters = {}
        self.doubtful = []  # (cell, what) of new harms
        self.runs_all = os.environ.get('TRAPLINE_MATRIX') == 'all'
        self.count = 0
        self.failed = 0

    def say(self, ok, name, directive='', comments=()):
        with self.lock:
            self.count += 1
            self.failed += not ok and ' # TODO' not in directive
            print(f'{"ok" if ok else "not ok"} {self.count} - {name}{directive}')
            for line in comments:
                print(f'# {line}')
            sys.stdout.flush()

    def note(self, cell, letter):
        with self.lock:
            self.letters[(cell.behaviour.name, cell.tool, cell.way)] = letter

    # ---- natively, once a row ----

    def baseline(self, row):
        with self.lock:
            lock = self.row_locks.setdefault(row.name, threading.Lock())
        with lock:
            if row.missing is None and row.native is None:
                self.find_native(row)
        return row.missing is None

    def find_native(self, row):
        if row.name in behaviours.BUILDS:
            row.missing = behaviours.build(row.name, self.folder)
        if row.missing is not None:
            return
        for last in (False, False, True):
            try:
                row.native = Cell(self.trapline, self.built, row).play()
                return
            except Refused as why:
                row.missing = str(why)
                return
            except OSError as error:
                if error.errno != errno.ENOEXEC:
                    raise
                row.missing = f'a kernel that runs programs such as {row.name}'
                return
            except Harm as why:
                if last:
                    row.missing = f'wrong natively: {why}'
                    self.say(False, f'native {row.name}', comments=[str(why)])

    def lacks(self, cell):
        """What this machine lacks for a cell, or None."""
        if not self.baseline(cell.behaviour):
            return cell.behaviour.missing
        used = {cell.tool} | ({tools.TOOLS[cell.tool]['partner']} if cell.way == 'two' else set())
        if os.environ.get('NO_DEBUG_REGISTERS') == '1' and (
                used & tools.BY_REGISTERS or (cell.tool, cell.way) == ('break', 'library')):
            return 'debug registers that fire (trapline check: watch_write)'
        return None

    # ---- cells ----

    def outcome(self, cell):
        """('.', text), ('r', line) or ('X', what)."""
        try:
            cell.play()
            return '.', ''
        except Refused as line:
            may = cell.behaviour.name in behaviours.REFUSABLE or cell.way == 'two' or any(
                text in str(line) for text in (*tools.MAY_REFUSE, tools.TOOLS[cell.tool].get('may_refuse', '\n')))
            return ('r', str(line)) if may else ('X', f'refused: {line}')
        except Harm as what:
            return 'X', str(what)

    def known_line(self, cell):
        for pattern, reason, sometimes in self.known:
            if fits(cell.name, pattern):
                return reason, sometimes
        return None

    def one(self, cell):
        lack = self.lacks(cell)
        if lack is not None:
            self.note(cell, 's')
            self.say(True, cell.name, f' # SKIP {lack}')
            return
        known = self.known_line(cell)
        letter, what = self.outcome(cell)
        for _ in range(TRIES - 1):
            if not known or (known[1] and not self.runs_all) or letter == 'X':
                break
            letter, what = self.outcome(cell)
        self.tell(cell, letter, what, known)

    def tell(self, cell, letter, what, known):
        if letter != 'X':
            self.note(cell, letter)
            if known and not known[1]:
                self.say(False, cell.name, comments=['known harm is mended: remove the line of tests/guest/known'])
            else:
                perhaps = ['perhaps mended: tests/guest/known'] if known and self.runs_all else []
                self.say(True, cell.name, comments=perhaps + ([f'refused: {what}'] if letter == 'r' else []))
        elif known:
            self.note(cell, 'k')
            self.say(False, cell.name, f' # TODO {known[0]}', [what])
        else:
            with self.lock:
                self.doubtful.append((cell, what))

    def settle(self):
        """Plays what harmed and is not known again, one at a time."""
        for cell, what in self.doubtful:
            again = []
            if len(self.doubtful) <= DOUBTFUL_MAX:
                again = [text for letter, text in (self.outcome(cell) for _ in range(ALONE)) if letter == 'X']
            if len(again) == ALONE or len(self.doubtful) > DOUBTFUL_MAX:
                self.note(cell, 'X')
                self.say(False, cell.name, comments=[what, f'alone {len(again)} of {ALONE}: {again[:1]}'])
            else:
                self.note(cell, 'u')
                self.say(False, cell.name, f' # TODO seen once, then in {len(again)} of {ALONE} runs alone', [what] + again[:1])


def is_cell(row, way, tool):
    """Whether that way exists for that program."""
    if way == 'library' and (row.name in behaviours.NOT_BY_LIBRARY or row.name in behaviours.BUILDS):
        return False
    if way == 'library' and row.name in behaviours.TAKES_TRAPS_AWAY:
        return False
    if row.moment in ('before', 'after') and way != '-p':
        return False
    if way == 'two' and (row.moment or row.name in behaviours.BUILDS):
        return False
    return True


def draw(cells, share):
    """That share of the cells, with each row and each column."""
    cells = cells[:]
    random.shuffle(cells)
    wanted = len(cells) * share // 100
    rows, found = set(), []
    column_hits = set()
    for cell in cells:
        column = (cell.tool, cell.way)
        if len(found) < wanted or cell.behaviour.name not in rows or column not in column_hits:
            found.append(cell)
            rows.add(cell.behaviour.name)
            column_hits.add(column)
    return found


def share_of_run():
    value = os.environ.get('TRAPLINE_MATRIX', '')
    if value == 'all':
        return 100
    if value:
        return int(value)
    return 33 if int(os.environ.get('TRAPLINE_STRESS') or 100) >= 50 else 5


def table(runner, rows, path):
    columns = tools.columns()
    width = max(len(row.name) for row in rows)
    with open(path, 'w', encoding='utf-8') as file:
        short = {'--': 'r', '-p': 'p', 'library': 'l', 'two': '2'}
        for i in range(max(len(tool) for tool, _ in columns)):
            file.write(' ' * width + ' ' + ' '.join(
                (tool[i] if i < len(tool) else ' ') if way == tools.ways(tool)[0] else ' ' for tool, way in columns) + '\n')
        file.write(' ' * width + ' ' + ' '.join(short[way] for _, way in columns) + '\n')
        for row in rows:
            file.write(row.name.ljust(width) + ' ' + ' '.join(
                runner.letters.get((row.name, tool, way), ' ') for tool, way in columns) + '\n')


def leave_nothing(folder):
    """A process that ends all of this run, and takes its folder away, when this one has ended in whatever way."""
    run = os.getpid()
    own, other = os.pipe()  # closed by exec, so that the other end is in this process alone
    if os.fork():
        os.close(own)
        return
    os.setsid()
    os.close(other)
    os.read(own, 1)
    end_marked(run)
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


def main():
    trapline, built, patterns = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3:]
    seed = int(os.environ.get('TRAPLINE_SEED') or random.SystemRandom().randrange(65536))
    random.seed(seed)
    tempfile.tempdir = folder = tempfile.mkdtemp(prefix='trapline-guest-')
    os.chmod(folder, 0o755)
    leave_nothing(folder)
    rows = behaviours.all_rows(built, folder)
    cells = [Cell(trapline, built, row, tool, way) for row in rows for tool, way in tools.columns()
             if is_cell(row, way, tool)]
    if patterns:
        chosen = [cell for cell in cells if any(fits(cell.name, p) for p in patterns)]
    else:
        chosen = draw(cells, share_of_run())
    print(f'# {len(chosen)} of {len(cells)} cells, {len(rows)} behaviours x {len(tools.columns())} columns; '
          f'TRAPLINE_SEED={seed}')
    runner = Runner(trapline, built, folder)
    begun = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get('JOBS', JOBS))) as pool:
        for done in [pool.submit(runner.one, cell) for cell in chosen]:
            done.result()
    runner.settle()
    print(f'1..{runner.count}')
    letters = list(runner.letters.values())
    print(f'# {time.monotonic() - begun:.0f} s: {letters.count(".")} right, {letters.count("r")} refused, '
          f'{letters.count("k")} known harms, {letters.count("X")} harms, {letters.count("u")} not always, {letters.count("s")} skipped')
    if os.environ.get('TABLE'):
        table(runner, rows, os.environ['TABLE'])
    return runner.failed > 0


if __name__ == '__main__':
    sys.exit(main())
