# SPDX-License-Identifier: MIT
"""values_memory.py - random programs of C and C++ whose variables are watched, also of 32 bits."""
import re
import subprocess
import time

COLORS = ["RED", "GREEN", "BLUE"]
# name, bytes where a long has 8, and where it has 4
SCALARS = [
    ("signed char", 1, 1), ("unsigned char", 1, 1), ("short", 2, 2), ("unsigned short", 2, 2),
    ("int", 4, 4), ("unsigned", 4, 4), ("long", 8, 4), ("unsigned long", 8, 4), ("_Bool", 1, 1),
    ("float", 4, 4), ("double", 8, 8), ("enum color", 4, 4), ("void *", 8, 4), ("const char *", 8, 4),
    ("char", 1, 1),
]


def is_integer(kind):
    return kind.split()[-1] in ("char", "short", "int", "unsigned", "long") and "*" not in kind


class Variable:
    """A variable, an element, a member, a bit-field: what is watched, and what is assigned."""

    def __init__(self, rnd, number, is_32bit):
        size = 2 if is_32bit else 1
        kinds = [s for s in SCALARS if s[size] < 8 or not is_32bit]
        self.kind, self.bytes = (lambda s: (s[0], s[size]))(rnd.choice(kinds))
        self.form = rnd.choice(["plain", "plain", "element", "member", "packed", "bits", "pointer"])
        self.rnd = rnd
        name = "g_%d" % number
        self.name = name
        if self.form == "bits":
            self.kind, self.bytes = rnd.choice([("int", 4), ("unsigned", 4), ("short", 2)])
            self.bits = rnd.randint(1, self.bytes * 8 - 3)
        self.declaration = {
            "plain": "volatile %s %s;" % (self.kind, name),
            "element": "volatile %s %s[5];" % (self.kind, name),
            "member": "struct { char a; volatile %s m; char b; } %s;" % (self.kind, name),
            "packed": "struct { char a; volatile %s m; char b; } __attribute__((packed)) %s;" %
                      (self.kind, name),
            "bits": "struct { %s a : 2; %s m : %d; } volatile %s;" %
                    (self.kind, self.kind, getattr(self, "bits", 1), name),
            "pointer": "struct { long a; volatile %s m; } at_%d; __typeof__(at_%d) *%s = &at_%d;" %
                       (self.kind, number, number, name, number),
        }[self.form].replace("volatile void *", "void *volatile").replace(
            "volatile const char *", "const char *volatile")
        self.access = {"plain": name, "element": name + "[3]", "pointer": name + "->m"}.get(
            self.form, name + ".m")

    def value(self):
        rnd = self.rnd
        if self.form == "bits":
            low = -(1 << (self.bits - 1)) if self.kind != "unsigned" else 0
            high = (1 << (self.bits - 1)) - 1 if low else (1 << self.bits) - 1
            return str(rnd.randint(low, high)) if high > low else str(low)
        if is_integer(self.kind):
            bits = 8 * self.bytes
            return "(%s)%d" % (self.kind, rnd.getrandbits(rnd.choice([3, bits - 1])) *
                               (-1 if rnd.random() < 0.3 and "unsigned" not in self.kind else 1))
        return {"_Bool": lambda: str(rnd.randint(0, 1)), "float": lambda: "%d.25f" % rnd.randint(-99, 99),
                "double": lambda: "%d.5" % rnd.randint(-99, 99),
                "enum color": lambda: rnd.choice(COLORS),
                "void *": lambda: "(void *)0x%xul" % rnd.randint(1, 1 << 30),
                "const char *": lambda: '"text%d"' % rnd.randint(0, 99)}[self.kind]()

    def printing(self):
        if is_integer(self.kind) or self.form == "bits":
            form = "%llu" if "unsigned" in self.kind else "%lld"
            return form, "(%s long long)" % ("unsigned" if "u" in form else "") + self.access
        return {"_Bool": ("%s", self.access + ' ? "true" : "false"'),
                "float": ("%.9g", "(double)" + self.access), "double": ("%.17g", self.access),
                "enum color": ("%s", "color_names[%s]" % self.access),
                "void *": ("%p", self.access), "const char *": ('\\"%s\\"', self.access)}[self.kind]


def program(rnd, is_cpp, is_32bit, variables, rounds):
    names = [Variable(rnd, i, is_32bit) for i in range(variables)]
    out = ["#include <stdio.h>", "enum color { RED, GREEN, BLUE };",
           'static const char *const color_names[] = { "RED", "GREEN", "BLUE" };']
    out += [v.declaration for v in names]
    out.append("int main(int argc, char **argv)\n{\n\tFILE *truth = fopen(argv[argc - 1], \"w\");\n"
               "\tif (!truth || getchar() < 0)\n\t\treturn 1;")
    for _ in range(rounds):
        for v in names:
            form, argument = v.printing()
            out.append('\t%s = %s; fprintf(truth, "%d|%s\\n", %s);' %
                       (v.access, v.value(), names.index(v), form, argument))
    out.append("\tfclose(truth);\n\treturn 0;\n}")
    text = "\n".join(out) + "\n"
    return (text.replace("_Bool", "bool") if is_cpp else text), names


def run(trapline, folder, variable):
    """The hits of one variable, and what the program says. None: refused, with the sentence."""
    truth = folder + "/truth"
    target = subprocess.Popen([folder + "/p", truth], stdin=subprocess.PIPE)
    time.sleep(0.05)
    watch = subprocess.Popen([trapline, "watch", "-p", str(target.pid), variable.access, "--max-rate", "0"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said = ""
    for line in watch.stderr:
        said += line
        if line.startswith("watching"):
            break
    target.communicate(b"x\n")
    out, more = watch.communicate(timeout=60)
    return (out if watch.returncode == 0 else None), said + more


CHANGE = re.compile(r"  ((?:(?!  )[^ ]| (?! ))+) -> ((?:[^ ]| (?! ))+)  ")


def changes_of(report):
    """Old and new values of its hits. One that changes nothing may be of bytes beside it: Trapline says so."""
    found = [tuple(part.strip() for part in hit.groups()) for hit in CHANGE.finditer(report)]
    return [(old, new) for old, new in found if old != new]


def collapse(values):
    return [v for i, v in enumerate(values) if not i or v != values[i - 1]]


def agrees(said, truth, same):
    if truth.startswith('"') and re.match("0x[0-9a-f]+$", said):
        return True  # the text is not known, as it is in a process that has ended
    text = said.split(" ", 1)[1] if truth.startswith('"') and " " in said else said
    return text == truth or same(said, truth)


def compare(variable, report, truth, counts, told, same):
    """The reported ones are the assigned ones, in their order. Returns how many are not."""
    changes = changes_of(report)
    said = [new for _, new in changes]
    wanted = collapse(truth)
    if changes and wanted and agrees(changes[0][0], wanted[0], same):
        wanted = wanted[1:]  # it had that value before
    wrong = 0
    if len(said) != len(wanted):
        told.append("%s: %d values for %d" % (variable.declaration, len(said), len(wanted)))
        return abs(len(said) - len(wanted))
    for a, b in zip(said, wanted):
        if agrees(a, b, same):
            counts["right"] += 1
        elif a.startswith("<"):
            counts["refused: " + a.strip("<>")[:40]] += 1
        else:
            wrong += 1
            told.append("%s: said %s, is %s" % (variable.declaration, a, b))
    return wrong
