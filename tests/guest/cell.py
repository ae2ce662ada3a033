# SPDX-License-Identifier: MIT
"""cell.py - one cell: a behaviour under a tool in one way, and whether the program came to harm."""
import itertools
import mmap
import os
import re
import signal
import struct
import subprocess
import tempfile
import time

import state
import tools

STOP, HOLD, HELD, PID, ROUNDS, ENTERED, WRONG = 0, 4, 8, 12, 16, 20, 24
MARK = 'GUEST_CELL'  # in the environment of all that a cell starts: RUN/NUMBER/
QUIET = 0.12  # seconds that a program lives at least under a tool
PATIENCE = float(os.environ.get('GUEST_PATIENCE', '30'))  # seconds without progress that are a hang

NUMBERS = itertools.count()


class Harm(Exception):
    """What is wrong, in one line."""


class Refused(Exception):
    """The tool said in one line why not."""


class Control:
    """The shared page of guest.h."""

    def __init__(self, folder):
        self.path = os.path.join(folder, 'control')
        with open(self.path, 'wb') as file:
            file.write(bytes(4096))
        os.chmod(self.path, 0o666)
        with open(self.path, 'r+b') as file:
            self.page = mmap.mmap(file.fileno(), 4096)

    def get(self, offset):
        return struct.unpack_from('<I', self.page, offset)[0]

    def set(self, offset, value):
        struct.pack_into('<I', self.page, offset, value)

    @property
    def wrong(self):
        return bytes(self.page[WRONG:WRONG + 232]).split(b'\0')[0].decode(errors='replace')


def marked(mark):
    """The processes of a run, or of a cell of it. Orphans and new sessions have the mark in their environment too."""
    return [int(name) for name in os.listdir('/proc')
            if name.isdigit() and f'{MARK}={mark}/' in state.read(f'/proc/{name}/environ')]


def end_marked(mark):
    """Kills until none is there: one may be in the midst of a fork. A stopped or traced one ends too."""
    for _ in range(1000):
        pids = marked(mark)
        if not pids:
            return
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.01)
    raise Harm(f'processes do not end: {pids}')


class Program:
    """A process in a session of its own, with its output in files."""

    def __init__(self, folder, name, words, environment):
        self.files = [open(os.path.join(folder, f'{name}.{end}'), 'w+b') for end in ('out', 'err')]
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=self.files[0],
                                        stderr=self.files[1], start_new_session=True, cwd=folder,
                                        env={**os.environ, **environment})
        self.pid = self.process.pid

    def ended(self):
        return self.process.poll() is not None

    @property
    def status(self):
        code = self.process.returncode
        return code if code is None or code >= 0 else 128 - code

    def text(self, which):
        self.files[which].flush()
        self.files[which].seek(0)
        return self.files[which].read(100000).decode(errors='replace')

    def close(self):
        """It was killed."""
        self.process.wait()
        for file in self.files:
            file.close()


class Cell:
    def __init__(self, trapline, built, behaviour, tool=None, way=None):
        self.trapline = trapline
        self.built = built
        self.behaviour = behaviour
        self.tool = tool
        self.way = way
        self.kept = []  # what remains after a clean end, as lines
        self.grown = 0  # KiB of address space

    @property
    def name(self):
        return f'{self.tool} {self.way} {self.behaviour.name}' if self.tool else f'native {self.behaviour.name}'

    # ---- waiting ----

    def until(self, condition, what, progress=False):
        """Waits for it; the program ends or hangs otherwise."""
        end = time.monotonic() + PATIENCE
        last = end + 3 * PATIENCE
        rounds = None
        while not condition():
            if progress and rounds != self.control.get(ROUNDS) and end < last:
                rounds = self.control.get(ROUNDS)
                end = time.monotonic() + PATIENCE
            if time.monotonic() > end:
                raise Harm(f'{what}: not in time, {"with" if progress else "without"} rounds of the program')
            time.sleep(0.004)

    def rounds(self, more):
        goal = self.control.get(ROUNDS) + more
        self.until(lambda: self.control.get(ROUNDS) >= goal or self.program.ended(), f'{more} more rounds')
        self.alive()

    def alive(self):
        if self.control.wrong:
            raise Harm(self.control.wrong)
        if self.program.ended():
            if self.program.status == 77 and not self.tool:
                raise Refused('this machine cannot')
            raise Harm(f'the program ended with status {self.program.status} {self.said()}')

    def said(self):
        lines = (self.program.text(0) + self.program.text(1)).strip().splitlines()
        return '(' + ' | '.join(lines[-3:])[:300] + ')' if lines else ''

    # ---- the state of the program between two rounds ----

    def snapshot(self, before=None):
        pid = self.control.get(PID)
        self.control.set(HOLD, 1)
        self.until(lambda: self.control.get(HELD) or self.program.ended(), 'the next pause')
        self.alive()
        time.sleep(0.02)  # what a round started ends
        try:
            seen = state.State(pid, before)
        except OSError as error:
            raise Harm(f'the program has gone: {error}') from error
        self.control.set(HOLD, 0)
        self.until(lambda: not self.control.get(HELD) or self.program.ended(), 'the end of the pause')
        return seen

    def steady(self):
        """What it is before, without what passes: a thread blocks all signals while it makes another, or reads a file."""
        before = self.snapshot()
        for _ in range(20):
            again = self.snapshot()
            if (again.threads, again.descriptors) == (before.threads, before.descriptors):
                break
            before = again
        return before

    def compare(self, before):
        """Before and after a clean end; the program may need a moment to be as before."""
        row = tools.TOOLS[self.tool] if self.tool else {}
        partner = tools.TOOLS[row['partner']] if self.way == 'two' else {}
        beside = tools.TOOLS['flow'] if self.behaviour.name.startswith('trapline') else {}
        remains = [what.get('remains', {}) for what in (row, partner, beside)]
        # Where a thread cannot be seen outside of our code, all stays: elsewhere than in the plain program.
        kind = 'mappings' if self.behaviour.name == 'plain' else 'perhaps'
        for _ in range(5):
            after = self.snapshot(before)
            said = state.differences(before, after,
                                     [x for kept in remains for x in kept.get(kind, [])],
                                     [x for kept in remains for x in kept.get('handlers', [])])
            self.kept = state.differences(before, after)
            self.grown = after.size - before.size
            most = sum(kept.get('mebibytes', 0) for kept in remains)
            if self.behaviour.name == 'plain' and self.tool and self.grown > max(most << 10, 4):
                said.append(f'{self.grown >> 10} MiB of address space stay, not {most}')
            if not said:
                return
            time.sleep(0.2)
        raise Harm('afterwards: ' + '; '.join(said)[:600])

    # ---- commands ----

    def fill(self, words):
        values = {'PID': str(self.control.get(PID)), 'FIX': os.path.join(self.built, self.behaviour.fix),
                  'UNDO': self.behaviour.fix,
                  'FILE': os.path.join(self.folder, f'file{self.number}'), 'STEP': self.behaviour.step,
                  'COUNTER': self.behaviour.counter, 'TRAPLINE': self.trapline}
        self.number += 1
        return tools.fill(words, values)

    def start(self, words, environment=None):
        program = Program(self.folder, f'program{len(self.programs)}', words,
                          {MARK: f'{self.mark}/', **(environment or {})})
        self.programs.append(program)
        return program

    def command(self, words):
        return self.start(self.fill(words))

    def wait(self, command, what):
        self.until(lambda: command.ended() or self.program.ended(), f'the end of {what}', progress=True)
        if not command.ended():
            self.alive()

    def beside(self, moment):
        """gdb and its like: they work, and are not in the way."""
        if self.behaviour.moment != moment:
            return
        command = self.command(self.behaviour.beside)
        self.wait(command, command.process.args[0])
        if command.status not in (0, 124, 130) and not refusal(command):
            raise Harm(f'{command.process.args[0]}: status {command.status}: {command.text(1)[-200:]!r}')

    # ---- the ways ----

    def victim(self):
        return [*self.behaviour.command, self.control.path]

    def native(self):
        self.program = self.start(self.victim())
        self.rounds(2)
        before = None if self.is_without_state() else self.steady()
        self.rounds(2)
        if before:
            self.compare(before)
        self.finish()

    def is_without_state(self):
        import behaviours
        return self.behaviour.name in behaviours.NO_STATE

    def run(self):
        words = [self.trapline, *self.fill(tools.TOOLS[self.tool]['run']), '--', *self.victim()]
        self.program = self.start(words)
        self.until(lambda: self.control.get(ROUNDS) >= 2 or self.program.ended() or self.control.wrong,
                   '2 rounds')
        if not self.control.get(ROUNDS) and self.program.ended():
            self.judge_refusal(self.program)
        self.beside('during')
        # A sweep has a limit for each run.
        if self.tool != 'sweep':
            self.live()
        self.finish()

    def live(self):
        """More rounds, and some time."""
        end = time.monotonic() + QUIET
        while time.monotonic() < end and not self.program.ended():
            time.sleep(0.01)
        if not self.program.ended():
            self.until(lambda: self.control.get(ROUNDS) >= 3 or self.program.ended() or self.control.wrong,
                       '3 rounds')

    def judge_refusal(self, command):
        """Nothing ran. It is a refusal if one line says why."""
        line = refusal(command)
        if line:
            raise Refused(line)
        if self.tool:
            raise Harm(f'the program did not run: status {command.status}: '
                       f'{(command.text(0) + command.text(1))[-300:]!r}')

    def library(self):
        self.program = self.start(self.victim(), {'LD_PRELOAD': os.path.join(self.built, 'guest_library.so'),
                                                  'GUEST_TOOL': tools.TOOLS[self.tool]['library']})
        self.rounds(2)
        self.beside('during')
        self.live()
        self.finish()
        if 'refused: ' in self.program.text(1):
            raise Refused(self.program.text(1).strip())

    def attach(self, second=None):
        self.program = self.start(self.victim())
        self.rounds(2)
        self.beside('before')
        before = None if self.is_without_state() else self.steady()
        refused = None
        for number, words in enumerate(tools.TOOLS[self.tool]['attach']):
            command = self.command([self.trapline, *words])
            other = None
            if second:
                time.sleep(0.15)
                other = self.command([self.trapline, *tools.TOOLS[second]['attach'][0]])
            self.beside('during')
            self.wait(command, self.tool)
            if other:
                refused = self.end_other(other, second) or refused
                second = None
            line = self.judge_command(command, self.tool)
            if line and number:  # what came in goes out when nothing is in the way any more
                command = self.command([self.trapline, *words])
                self.wait(command, self.tool)
                line = self.judge_command(command, self.tool)
            refused = line or refused
            self.rounds(1)
            if line:
                break
        if before:
            self.compare(before)
        self.beside('after')
        self.rounds(2)
        self.finish()
        if refused:
            raise Refused(refused)

    def end_other(self, other, second):
        """The line of a refusal of the second command, or of what undoes it."""
        self.wait(other, second)
        line = self.judge_command(other, second)
        for words in tools.TOOLS[second]['attach'][1:]:
            if line:
                break
            other = self.command([self.trapline, *words])
            self.wait(other, second)
            line = self.judge_command(other, second)
        return line

    def judge_command(self, command, tool):
        """The line of a refusal, or None: it did its work."""
        if self.control.wrong:
            raise Harm(self.control.wrong)
        line = refusal(command)
        if command.status in (0, 1) and not (command.status and line):
            return None
        if not line:
            raise Harm(f'{tool}: status {command.status}: {command.text(1)[-300:]!r}')
        return line

    def two(self):
        self.attach(tools.TOOLS[self.tool]['partner'])

    # ---- the end ----

    def finish(self):
        """It ends as without the tool: the same status, and "ok" once."""
        self.control.set(STOP, 1)
        self.until(self.program.ended, 'the end of the program', progress=True)
        if self.control.wrong:
            raise Harm(self.control.wrong)
        lines = self.program.text(0).splitlines()
        status = self.program.status
        native = self.behaviour.native
        if 'ok' not in lines:
            raise Harm(f'the program ended with status {status} and did not say ok {self.said()}')
        # The command tells of a trouble of its own by a status, and a line.
        row = tools.TOOLS.get(self.tool, {})
        own = self.way == '--' and (row.get('own_status') or status in (1, 2) and
                                    re.search(r'^trapline', self.program.text(1), re.M))
        if native is not None and status != native[0] and not own:
            raise Harm(f'the exit status is {status}, natively {native[0]} {self.said()}')
        entered = self.control.get(ENTERED)
        if native is not None and not self.behaviour.name.startswith('exec') and self.tool != 'sweep':
            if entered != native[1]:
                raise Harm(f'a crash handler was entered {entered} times, natively {native[1]}')

    def play(self):
        """Plays the cell. Raises Harm or Refused."""
        self.programs = []
        self.number = 0
        self.mark = f'{os.getpid()}/{next(NUMBERS)}'
        with tempfile.TemporaryDirectory(prefix='trapline-guest-') as self.folder:
            os.chmod(self.folder, 0o777)
            self.control = Control(self.folder)
            try:
                {None: self.native, '--': self.run, '-p': self.attach, 'library': self.library,
                 'two': self.two}[self.way]()
                return self.program.status, self.control.get(ENTERED)
            finally:
                end_marked(self.mark)
                for program in self.programs:
                    program.close()


def refusal(command):
    """The one line by which a command that failed tells why, or None."""
    own = ('trapline', 'strace', 'ptrace', 'warning', 'Could not attach')
    lines = [line for line in command.text(1).splitlines() if line.startswith(own) and ': note: ' not in line]
    return lines[-1] if command.status and 1 <= len(lines) <= 2 else None
