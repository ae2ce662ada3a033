# SPDX-License-Identifier: MIT
"""tools.py - the columns of the matrix: each tool, with the command of each way.

    run      the arguments before `-- CMD`
    attach   one command after the other, on a running process: PID, FIX (a patch), FILE (a new file)
    library  a tool that library.c starts in the program itself
    own_status  the exit status of `run` is not that of the program
    may_refuse  what any program may make it say
    partner  another tool, which the way "two" attaches at the same time
    remains  what the process keeps after a clean end of `attach`: patterns of mappings, handlers of
             signals, and MiB of address space at most; trapline(7) and SECURITY.md say the same.
             perhaps: the mappings of a process where a thread is not seen outside of our code

STEP is the location that is broken on, COUNTER the variable that is watched: those of the behaviour.
"""

TIME = '0.25'

# What each tool may say on a machine that does much else.
MAY_REFUSE = ['the attach was ended before anything was loaded']

SIGTRAP = 5

# What the agent leaves: itself, what it is linked with, where its jumps landed (a thread may be on such a
# landing), its handler of SIGTRAP, and what its tool shared.
AGENT = [r'/memfd:trapline-agent-\w+ \(deleted\)', r'/.*/libZydis\.so\S*', r'/memfd:trapline-pads \(deleted\)']
REGION = [r'/memfd:trapline-region \(deleted\)']
WINDOW = [r'/memfd:trapline-window \(deleted\)']
PATCH = [r'/memfd:guest_\w*fix\.so \(deleted\)']


def agent(mebibytes, *mappings):
    always = AGENT + [name for kind in mappings for name in kind]
    return {'mappings': always, 'perhaps': always + REGION + WINDOW, 'handlers': [SIGTRAP],
            'mebibytes': mebibytes}


TOOLS = {
    'race': {
        'run': ['race', '--overhead', '20%', '-o', '/dev/null'],
        'attach': [['race', '--overhead', '20%', '-o', '/dev/null', '--for', TIME, '-p', 'PID']],
        'library': 'race',
        'partner': 'heap',
        'remains': agent(10),
    },
    'sweep': {
        'run': ['race', '--sweep', '--for', '0.2', '-o', '/dev/null'],
    },
    'heap': {
        'run': ['heap', '--first', '50', '-o', '/dev/null'],
        'attach': [['heap', '--first', '50', '-o', '/dev/null', '--for', TIME, '-p', 'PID']],
        'library': 'heap',
        'partner': 'flow',
        'remains': agent(86, REGION),
    },
    'flow': {
        'run': ['flow', '--overhead', '50%', '-o', '/dev/null'],
        'attach': [['flow', '--overhead', '50%', '-o', '/dev/null', '--for', TIME, '-p', 'PID']],
        'partner': 'throttle',
        'remains': agent(12),
    },
    'throttle': {
        'run': ['throttle', '--cpu', '60%'],
        'attach': [['throttle', '--cpu', '60%', '--for', TIME, '-p', 'PID']],
        'library': 'throttle',
        'partner': 'probe',
        'remains': agent(10),
    },
    'probe': {
        'own_status': True,
        'run': ['break', 'STEP', '--mechanism', 'probe', '--summary'],
        'attach': [['break', 'STEP', '--mechanism', 'probe', '--summary', '--for', TIME, '-p', 'PID']],
        'library': 'probe',
        'partner': 'trace',
        'remains': agent(12),
    },
    'trace': {
        'own_status': True,
        'run': ['break', 'STEP', '--trace'],
        'attach': [['break', 'STEP', '--trace', '--for', TIME, '-p', 'PID']],
        'partner': 'patch',
        'remains': agent(12),
    },
    'patch': {
        'may_refuse': 'nothing is named',
        'attach': [['patch', '-p', 'PID', 'FIX'], ['patch', '-p', 'PID', '--undo', 'UNDO']],
        'library': 'patch',
        'partner': 'break',
        'remains': agent(88, PATCH),
    },
    'at': {
        'may_refuse': 'and a step would end that',
        'own_status': True,
        'run': ['at', 'STEP#20+40', '--snapshot', '-o', 'FILE'],
        'attach': [['at', 'STEP#20+40', '--snapshot', '-o', 'FILE', '-p', 'PID']],
        'partner': 'watch',
    },
    'watch': {
        'own_status': True,
        'run': ['watch', 'COUNTER', '--summary'],
        'attach': [['watch', 'COUNTER', '--summary', '--for', TIME, '-p', 'PID']],
        'library': 'watch',
        'partner': 'race',
    },
    'break': {
        'own_status': True,
        'run': ['break', 'STEP', '--mechanism', 'uprobe', '--summary'],
        'attach': [['break', 'STEP', '--mechanism', 'uprobe', '--summary', '--for', TIME, '-p', 'PID']],
        'library': 'break',
        'partner': 'record',
    },
    'record': {
        'own_status': True,
        'run': ['record', '--break', 'STEP', '--args', '--mechanism', 'uprobe', '-o', 'FILE'],
        'attach': [['record', '--break', 'STEP', '--args', '--ret', '-o', 'FILE', '--for', TIME, '-p', 'PID']],
        'partner': 'at',
    },
    'writers': {
        'may_refuse': 'no thread wrote',
        'attach': [['watch', 'COUNTER', '--at-writers', '--if', 'new < 0', '--summary', '--for', TIME, '-p', 'PID']],
        'remains': agent(10),
    },
    'snapshot': {
        'attach': [['break', 'STEP', '--then', 'snapshot', '--for', TIME, '-p', 'PID']],
    },
    'hardware': {
        'attach': [['break', 'STEP', '--mechanism', 'hardware', '--summary', '--for', TIME, '-p', 'PID']],
    },
    'growth': {
        'run': ['heap', '--growth', '--overhead', '50', '-o', '/dev/null'],
        'attach': [['heap', '--growth', '--overhead', '50', '-o', '/dev/null', '--for', TIME, '-p', 'PID']],
        'remains': agent(460, REGION),
    },
    'race_heap': {
        'run': ['race', '--heap', '--overhead', '20%', '-o', '/dev/null'],
    },
    'code_log': {
        'own_status': True,
        'run': ['record', '--code', '-o', 'FILE'],
    },
    'traps': {
        'library': 'traps',
    },
}

# These need debug registers that fire.
BY_REGISTERS = {'race', 'sweep', 'race_heap', 'at', 'watch', 'writers', 'hardware'}

WAYS = ['--', '-p', 'library', 'two']


def ways(tool):
    """The ways of a tool, in their order."""
    row = TOOLS[tool]
    has = {'--': 'run' in row, '-p': 'attach' in row, 'library': 'library' in row, 'two': 'partner' in row}
    return [way for way in WAYS if has[way]]


def columns():
    return [(tool, way) for tool in TOOLS for way in ways(tool)]


def fill(words, values):
    """The arguments with their values: the words in capitals, alone or at the start of one."""
    filled = []
    for word in words:
        for name, value in values.items():
            if word == name or word.startswith(name + '#'):
                word = value + word[len(name):]
                break
        filled.append(word)
    return filled
