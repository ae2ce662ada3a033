#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""runner.py TRAPLINE BUILT - whether the matrix leaves nothing behind, and draws what it promises. TAP."""
import os
import random
import signal
import subprocess
import sys
import time

os.environ['GUEST_PATIENCE'] = '2'  # before cell reads it

import behaviours
import matrix
import state
import tools
from cell import Cell, Harm, marked

HERE = os.path.dirname(os.path.abspath(__file__))
# An orphan that is stopped, in a session of its own, as a snapshot is.
ORPHAN = '(setsid sh -c "echo \\$\\$ >orphan; kill -STOP \\$\\$" &) ; '


class Test:
    def __init__(self):
        self.count = 0
        self.failed = 0

    def ok(self, name, is_right, comment=''):
        self.count += 1
        self.failed += not is_right
        print(f'{"ok" if is_right else "not ok"} {self.count} - {name}')
        if comment and not is_right:
            print(f'# {comment}')


def wait_for(condition):
    end = time.monotonic() + 20
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


class Watched(Cell):
    """Remembers the orphan of its program."""

    def native(self):
        self.program = self.start(self.victim())
        path = os.path.join(self.folder, 'orphan')
        wait_for(lambda: os.path.exists(path) and os.path.getsize(path))
        with open(path, encoding='utf-8') as file:
            self.orphan = int(file.read())
        super().native()


def is_there(pid):
    """A zombie is not: init takes its time."""
    return (state.field(state.read(f'/proc/{pid}/status'), 'State') or 'Z')[0] not in 'ZX'


def ended_cells(test, trapline, built):
    for name, end in [('ends', 'exit 3'), ('fails', 'kill -KILL $$'), ('hangs', 'kill -STOP $$')]:
        row = behaviours.Behaviour(name, ['sh', '-c', ORPHAN + 'sleep 0.2; ' + end])
        cell = Watched(trapline, built, row)
        try:
            cell.play()
            harm = ''
        except Harm as what:
            harm = str(what)
        test.ok(f'a_cell_that_{name}_leaves_no_orphan', harm and not is_there(cell.orphan) and
                not marked(os.getpid()), f'{harm}: {cell.orphan}')


def ended_run(test, trapline, built):
    """By SIGKILL, which it cannot handle."""
    words = [sys.executable, '-B', os.path.join(HERE, 'matrix.py'), trapline, built, 'break library *']
    run = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    began = wait_for(lambda: marked(run.pid))
    run.send_signal(signal.SIGKILL)
    run.wait()
    test.ok('a_run_that_is_killed_leaves_no_process', began and wait_for(lambda: not marked(run.pid)))


def draws(test, trapline, built):
    rows = behaviours.all_rows(built, '/tmp')
    cells = [Cell(trapline, built, row, tool, way) for row in rows for tool, way in tools.columns()
             if matrix.is_cell(row, way, tool)]
    for share in (0, 12, 33):
        seed = random.SystemRandom().randrange(65536)
        random.seed(seed)
        drawn = matrix.draw(cells, share)
        test.ok(f'a_draw_of_{share}_percent_has_each_row_and_column',
                {cell.behaviour.name for cell in drawn} == {row.name for row in rows} and
                {(cell.tool, cell.way) for cell in drawn} == set(tools.columns()) and
                len(drawn) >= len(cells) * share // 100, f'seed {seed}')


def main():
    trapline, built = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    test = Test()
    ended_cells(test, trapline, built)
    ended_run(test, trapline, built)
    draws(test, trapline, built)
    print(f'1..{test.count}')
    return test.failed > 0


if __name__ == '__main__':
    sys.exit(main())
