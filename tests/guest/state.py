# SPDX-License-Identifier: MIT
"""state.py - what a process is made of, as /proc shows it, and how two moments differ."""
import collections
import hashlib
import os
import re

# Lines of /proc/PID/status that a tool has no reason to change.
FIELDS = ['Name', 'State', 'TracerPid', 'Uid', 'Gid', 'NoNewPrivs', 'Seccomp', 'CapEff', 'Cpus_allowed', 'SigIgn']

LIBC_SIGNALS = (32, 33)  # glibc's own: their handlers come with the first thread of a process


def read(path):
    try:
        with open(path, encoding='utf-8', errors='replace') as file:
            return file.read()
    except OSError:
        return ''


def field(text, name):
    found = re.search(rf'^{name}:\s*(.*)$', text, re.M)
    return found.group(1) if found else None


def live_part(pid):
    """The folder of a thread that is there: the first one may have ended."""
    for tid in sorted(os.listdir(f'/proc/{pid}/task'), key=int):
        if not (field(read(f'/proc/{pid}/task/{tid}/status'), 'State') or 'Z').startswith(('Z', 'X')):
            return f'/proc/{pid}/task/{tid}'
    return f'/proc/{pid}'


def threads(pid):
    """Name and blocked signals of each thread."""
    all_of = collections.Counter()
    for tid in os.listdir(f'/proc/{pid}/task'):
        text = read(f'/proc/{pid}/task/{tid}/status')
        if text:
            all_of[(field(text, 'Name'), field(text, 'SigBlk'))] += 1
    return all_of


def descriptors(part):
    found = {}
    for number in os.listdir(f'{part}/fd'):
        try:
            found[number] = os.readlink(f'{part}/fd/{number}')
        except OSError:
            pass
    return found


def mappings(part):
    """(start, end, permissions, name) of each."""
    for line in read(f'{part}/maps').splitlines():
        words = line.split(None, 5)
        start, end = (int(x, 16) for x in words[0].split('-'))
        yield start, end, words[1], words[5] if len(words) > 5 else ''


def files(part):
    """How many mappings of files there are of each name, permissions and flags, as that of a locked one."""
    all_of = collections.Counter()
    name = permissions = ''
    for line in read(f'{part}/smaps').splitlines():
        words = line.split(None, 5)
        if re.match(r'[0-9a-f]+-[0-9a-f]+$', words[0]):
            permissions, name = words[1], words[5] if len(words) > 5 else ''
        elif words[0] == 'VmFlags:' and name.startswith('/'):
            all_of[(name, f'{permissions} ({" ".join(word for word in line.split()[1:] if word != "sd")})')] += 1
    return all_of


def code_of(part):
    """(start, end, name) of each mapping of a file that is executable."""
    return [(start, end, name) for start, end, permissions, name in mappings(part)
            if 'x' in permissions and name.startswith('/') and not name.startswith('/memfd:trapline')]


def text_of(part, ranges):
    """A sum of the bytes of each of these ranges."""
    sums = {}
    with open(f'{part}/mem', 'rb', buffering=0) as memory:
        for start, end, name in ranges:
            try:
                memory.seek(start)
                sums[(start, end, name)] = hashlib.sha1(memory.read(end - start)).hexdigest()
            except OSError:
                sums[(start, end, name)] = 'unreadable'
    return sums


class State:
    def __init__(self, pid, before=None):
        part = live_part(pid)
        status = read(f'{part}/status')
        self.status = {name: field(status, name) for name in FIELDS}
        self.status['State'] = (self.status['State'] or '?')[0].replace('R', 'S')
        self.caught = int(field(status, 'SigCgt') or '0', 16)
        self.size = int((field(status, 'VmSize') or '0').split()[0])
        self.limits = read(f'{part}/limits')
        self.threads = threads(pid)
        self.descriptors = descriptors(part)
        self.files = files(part)
        self.code = {(start, end) for start, end, permissions, name in mappings(part)
                     if 'x' in permissions and not name}
        self.text = text_of(part, before.text if before else code_of(part))


def differences(before, after, kept_files=(), kept_signals=()):
    """What changed, as lines; new mappings of `kept_files` and handlers of `kept_signals` are expected."""
    said = []
    for name, value in before.status.items():
        if after.status[name] != value:
            said.append(f'{name} was {value}, is {after.status[name]}')
    for signal in range(1, 65):
        bit = 1 << (signal - 1)
        if (before.caught ^ after.caught) & bit and signal not in (*kept_signals, *LIBC_SIGNALS):
            said.append(f'signal {signal} has {"a" if after.caught & bit else "no"} handler')
    if before.limits != after.limits:
        said.append('a limit changed')
    for what, count in (after.threads - before.threads).items():
        said.append(f'{count} more threads {what}')
    for what, count in (before.threads - after.threads).items():
        said.append(f'{count} fewer threads {what}')
    for number in sorted(set(before.descriptors) | set(after.descriptors), key=int):
        old, new = before.descriptors.get(number), after.descriptors.get(number)
        if old != new:
            said.append(f'descriptor {number} was {old}, is {new}')
    for (name, permissions), count in (after.files - before.files).items():
        if not any(re.fullmatch(pattern, name) for pattern in kept_files):
            said.append(f'{count} more mappings {permissions} {name}')
    for (name, permissions), count in (before.files - after.files).items():
        said.append(f'{count} fewer mappings {permissions} {name}')
    for key, value in before.text.items():
        if after.text.get(key) != value:
            said.append(f'the code of {key[2]} changed')
    return said
