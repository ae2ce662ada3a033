# SPDX-License-Identifier: MIT
"""trapline.py - commands for gdb that hand a breakpoint over to Trapline: source it in gdb.

    trapline watch EXPR      what EXPR means here and now, by its address and size
    trapline break WHERE     a function or a line, by its address
    trapline stop            ends them

The hits arrive while the process runs, after continue or detach. gdb does not stop at them.
"""

import os
import signal
import subprocess

import gdb

running = []


def process():
    pid = gdb.selected_inferior().pid
    if not pid:
        raise gdb.GdbError("no process: start or attach to one first")
    return pid


def start(*words):
    program = os.environ.get("TRAPLINE", "trapline")
    try:
        # Ctrl-C in gdb is for the process.
        child = subprocess.Popen([program, *words], stdin=subprocess.DEVNULL, start_new_session=True)
    except OSError as error:
        raise gdb.GdbError(f"cannot start {program}: {error.strerror}; set TRAPLINE to its path") from error
    running.append(child)


class Trapline(gdb.Command):
    """Commands that hand a breakpoint over to Trapline."""

    def __init__(self):
        super().__init__("trapline", gdb.COMMAND_BREAKPOINTS, prefix=True)


def asked(question, *arguments):
    """What gdb answers; its error is one line, and not an exception of Python."""
    try:
        return question(*arguments)
    except gdb.error as error:
        raise gdb.GdbError(str(error)) from error


class Watch(gdb.Command):
    """trapline watch EXPR [OPTION...] - print each write to the bytes of EXPR, without a stop."""

    def __init__(self):
        super().__init__("trapline watch", gdb.COMMAND_BREAKPOINTS, gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument, from_tty):
        expression, _, options = argument.partition(" --")
        if not expression.strip():
            raise gdb.GdbError("EXPR is missing: give a variable, such as conn->state")
        value = asked(gdb.parse_and_eval, expression)
        if value.address is None:
            raise gdb.GdbError(f"{expression} is not in memory: it has no address")
        address = int(value.address.cast(gdb.lookup_type("unsigned long")))
        # The type gives names to the values, where Trapline finds it too.
        name = str(value.type.strip_typedefs().unqualified())
        place = f"0x{address:x}:{value.type.sizeof}"
        print(f"{expression} is {place}, {name}")
        options = gdb.string_to_argv("--" + options) if options else []
        start("watch", "-p", str(process()), place, *options)


class Break(gdb.Command):
    """trapline break WHERE [OPTION...] - print each execution of WHERE, without a stop."""

    def __init__(self):
        super().__init__("trapline break", gdb.COMMAND_BREAKPOINTS, gdb.COMPLETE_LOCATION)

    def invoke(self, argument, from_tty):
        where, _, options = argument.partition(" --")
        where = where.strip()
        if not where:
            raise gdb.GdbError("WHERE is missing: give a function or file:line")
        places = asked(gdb.decode_line, where)[1]
        if not places:
            raise gdb.GdbError(f"no code is at {where}")
        symbol = gdb.lookup_global_symbol(where) or gdb.lookup_static_symbol(where)
        options = gdb.string_to_argv("--" + options) if options else []
        # Of a function gdb gives the line behind its beginning, where arguments may have moved.
        location = where if symbol else f"0x{places[0].pc:x}"
        start("break", "-p", str(process()), location, *options)


class Stop(gdb.Command):
    """trapline stop - end what was started by trapline watch and trapline break."""

    def __init__(self):
        super().__init__("trapline stop", gdb.COMMAND_BREAKPOINTS)

    def invoke(self, argument, from_tty):
        for child in running:
            if child.poll() is None:
                child.send_signal(signal.SIGINT)
                child.wait()
        running.clear()


Trapline()
Watch()
Break()
Stop()
