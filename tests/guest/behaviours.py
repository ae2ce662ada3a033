# SPDX-License-Identifier: MIT
"""behaviours.py - the rows of the matrix: how each program is built, and what it is.

A program of this folder's C and C++ sources was built by meson and lists its behaviours. The others are
built here, when a cell of theirs is drawn. A row is skipped by the name of what is missing.
"""
import os
import re
import shutil
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))

# What may be refused in one line: programs that cannot be entered, or not safely.
REFUSABLE = {
    'seccomp', 'chroot', 'limit_nofile', 'limit_fsize', 'limit_as', 'undumpable', 'traces_child', 'mlockall', 'other_user',
    'musl', 'asan', 'static', 'm32', 'setuid', 'go', 'java', 'node', 'python', 'perl', 'php', 'luajit',
    'folded_lld', 'folded_gold', 'leaderless', 'exec_itself', 'coroutine_2k', 'coroutine_4k', 'coroutine_8k',
    'closefrom', 'stop_continue', 'trapline_before', 'trapline_after', 'timer_thread', 'born_blocked', 'blocked_at_moments',
    'gdb_during', 'gcore_during', 'strace_during', 'trapline_during', 'nop5_red_zone',
}
# A thread has SIGTRAP blocked, which what sends SIGTRAP must refuse.
REFUSABLE |= {f'{how}_{name}' for how in ('sigwait', 'signalfd', 'blocked') for name in ('trap', 'segv', 'others')}

# These cannot be made one by a preloaded object.
NOT_BY_LIBRARY = {'musl', 'asan', 'static', 'm32', 'setuid', 'exec_itself'}

# In a program that uses the library these do what trapline(7) says a program must not: it installs its own
# handler of SIGTRAP later, blocks it where it reaches a trap, or forbids the library its calls.
TAKES_TRAPS_AWAY = {
    'sigwait_trap', 'sigwait_segv', 'sigwait_others', 'signalfd_trap', 'ignored_trap', 'sent_trap', 'open_trap', 'open_segv', 'blocked_trap',
    'onstack_trap', 'resethand_trap', 'nodefer_trap', 'longjmp_trap', 'handler_seen_trap', 'fault_trap',
    'steps_itself', 'blocked_at_moments', 'born_blocked', 'seccomp',
}

# Its state is another one after each round, or cannot be read.
NO_STATE = {'exec_itself', 'java', 'node', 'go', 'python', 'perl', 'php', 'luajit', 'rust', 'sbrk', 'asan', 'm32'}

# Commands beside the tool, on the plain program: at which moment, and which.
BESIDE = {
    'gdb': ['gdb', '-nx', '-q', '-batch', '-p', 'PID', '-ex', 'thread apply all bt 3', '-ex', 'detach'],
    'gcore': ['gcore', '-o', 'FILE', 'PID'],
    'strace': ['timeout', '-s', 'INT', '-k', '20', '0.3', 'strace', '-f', '-q', '-o', 'FILE', '-p', 'PID'],
    'trapline': ['TRAPLINE', 'flow', '--for', '0.3', '-o', '/dev/null', '-p', 'PID'],
}
MOMENTS = ['before', 'during', 'after']

C = ['-g', '-O1', '-pthread']

# name: (programs it needs, commands; OUT is the program, HERE this folder, BUILT the folder of meson)
BUILDS = {
    'musl': (['musl-gcc'], [['musl-gcc', *C, 'plain.c', 'guest_main.c', '-o', 'OUT']]),
    'static': (['gcc'], [['gcc', *C, '-static', 'plain.c', 'guest_main.c', '-o', 'OUT']]),
    'asan': (['gcc'], [['gcc', *C, '-fsanitize=address', 'plain.c', 'guest_main.c', '-o', 'OUT']]),
    'm32': (['gcc'], [['gcc', *C, '-m32', '-isystem', '/usr/include/x86_64-linux-gnu', 'plain.c', 'guest_main.c', '-o', 'OUT']]),
    'setuid': (['gcc'], [['gcc', *C, '-rdynamic', 'plain.c', 'guest_main.c', '-o', 'OUT'], ['chmod', '4755', 'OUT']]),
    'folded_lld': (['clang', 'ld.lld'], [['clang', *C, '-O2', '-ffunction-sections', '-rdynamic', 'code.c', 'guest_main.c',
                                          '-fuse-ld=lld', '-Wl,--icf=all', '-o', 'OUT']]),
    'folded_gold': (['gcc', 'ld.gold'], [['gcc', *C, '-O2', '-fno-ipa-icf', '-ffunction-sections', '-rdynamic', 'code.c',
                                          'guest_main.c', '-fuse-ld=gold', '-Wl,--icf=all', '-o', 'OUT']]),
    'rust': (['rustc'], [['rustc', '-g', '-C', 'opt-level=1', 'program.rs', '-o', 'OUT']]),
    'go': (['go'], [['go', 'build', '-o', 'OUT', 'program.go']]),
    'java': (['javac', 'java'], [['javac', '-d', 'OUT.d', 'Program.java']]),
    'node': (['node'], []),
    'python': (['python3'], []),
    'perl': (['perl'], []),
}
RUNS = {
    'java': ['java', '-Xshare:auto', '-XX:TieredStopAtLevel=1', '-cp', 'OUT.d', 'Program'],
    'node': ['node', 'HERE/program.js'],
    'python': ['python3', 'HERE/program.py'],
    'perl': ['perl', 'HERE/program.pl'],
}

# What is broken on and watched where it is not step() and counter.
STEPS = {'java': 'libc.so.6:pthread_create', 'node': 'libc.so.6:write', 'python': 'libc.so.6:read', 'perl': 'libc.so.6:read',
         'go': 'main.step', 'folded_lld': 'fold_a', 'folded_gold': 'fold_a', 'folded': 'fold_a'}
COUNTERS = {'java': 'libc.so.6:environ', 'node': 'libc.so.6:environ', 'python': 'libc.so.6:environ',
            'perl': 'libc.so.6:environ', 'go': 'main.counter', 'rust': 'COUNTER'}


def nop5_line():
    with open(os.path.join(HERE, 'code.c'), encoding='utf-8') as source:
        for number, line in enumerate(source, 1):
            if 'if (is_enabled())' in line:
                return f'code.c:{number}'
    raise ValueError('code.c has no static branch')


class Behaviour:
    """One row: name, command, what it lacks here (None: nothing)."""

    def __init__(self, name, command, missing=None, beside=None, moment=None):
        self.name = name
        self.command = command
        self.missing = missing
        self.beside = beside
        self.moment = moment
        self.step = nop5_line() if name == 'nop5_red_zone' else STEPS.get(name, 'step')
        self.counter = COUNTERS.get(name, 'counter')
        self.fix = 'guest_fold_fix.so' if name.startswith('folded') else 'guest_fix.so'
        self.native = None


def listed(built):
    """The behaviours of the programs that meson built."""
    for program in sorted(os.listdir(built)):
        if not re.fullmatch(r'guest_[a-z]+', program):
            continue
        path = os.path.join(built, program)
        for name in subprocess.run([path], stdout=subprocess.PIPE, text=True, check=True).stdout.split():
            yield Behaviour(name, [path, name])


def beside(built):
    plain = os.path.join(built, 'guest_stacks')
    for kind, command in BESIDE.items():
        missing = None if kind == 'trapline' or shutil.which(kind) else kind
        for moment in MOMENTS:
            yield Behaviour(f'{kind}_{moment}', [plain, 'plain'], missing, command, moment)


def build(name, folder):
    """What is missing for that program, or None: it is there."""
    needs, commands = BUILDS[name]
    for program in needs:
        if not shutil.which(program):
            return f'{program} is not installed'
    values = {'OUT': os.path.join(folder, name), 'HERE': HERE}
    for command in commands:
        words = [word.replace('OUT', values['OUT']) for word in command]
        done = subprocess.run(words, cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env={**os.environ, 'GOCACHE': os.path.join(folder, 'go-cache'), 'GO111MODULE': 'off'})
        if done.returncode:
            return f'{words[0]} cannot build {name}: ' + done.stdout.strip().replace('\n', ' ')[:200]
    return None


def foreign(folder):
    for name in BUILDS:
        words = RUNS.get(name, ['OUT'])
        command = [word.replace('OUT', os.path.join(folder, name)).replace('HERE', HERE) for word in words]
        yield Behaviour(name, command + ['folded' if name.startswith('folded') else 'plain'])


def all_rows(built, folder):
    return [*listed(built), *beside(built), *foreign(folder)]
