#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""values.py TRAPLINE VALUES - random programs whose own output is the truth.

Each program has functions with random parameters, attributes and results, and calls them with random
values, which it prints. Trapline reports the same calls. Each value that it reports is the printed one,
or is refused; a value that is neither is wrong. TRAPLINE_SEED repeats a run. TAP.
"""
import collections
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

INTEGERS = [
    ("signed char", 8, True), ("unsigned char", 8, False), ("short", 16, True),
    ("unsigned short", 16, False), ("int", 32, True), ("unsigned", 32, False),
    ("long", 64, True), ("unsigned long", 64, False), ("long long", 64, True),
]
STRUCTS = {
    "struct s1": ["int"], "struct s2": ["int", "short"], "struct s3": ["long", "int"],
    "struct s4": ["unsigned char", "unsigned char", "short"], "struct s5": ["long", "long", "long"],
    "struct s6": ["double", "int"], "struct s7": ["float", "float"], "struct s8": ["int", "double"],
}
OTHERS = ["double", "float", "long double", "__int128", "void *", "_Bool", "enum color",
          "const char *", "double _Complex"]
COLORS = ["RED", "GREEN", "BLUE"]
ATTRIBUTES = ["", "", "", "static", "static", "__attribute__((ms_abi))",
              "__attribute__((sysv_abi))", "__attribute__((visibility(\"hidden\")))",
              "__attribute__((cold))"]
CLANG_ATTRIBUTES = ["__attribute__((preserve_most))", "__attribute__((regcall))",
                    "__attribute__((vectorcall))"]


def width_of(name):
    for integer in INTEGERS:
        if integer[0] == name:
            return integer
    return None


def value_of(rnd, name):
    """A value as source text."""
    integer = width_of(name)
    if integer:
        _, bits, signed = integer
        value = rnd.getrandbits(rnd.choice([3, bits]) if bits > 3 else bits) % (1 << bits)
        if signed and value >= 1 << (bits - 1):
            value -= 1 << bits
        if value == -(1 << 63):
            value += 1
        return "(%s)%d%s" % (name, value, "" if signed else "u" if value < 1 << 63 else "ul")
    if name in STRUCTS:
        return "(%s){%s}" % (name, ", ".join(value_of(rnd, m) for m in STRUCTS[name]))
    return {
        "double": lambda: "%d.5" % rnd.randint(-99, 99),
        "float": lambda: "%d.25f" % rnd.randint(-99, 99),
        "long double": lambda: "%d.5L" % rnd.randint(-99, 99),
        "__int128": lambda: "(__int128)%d" % rnd.randint(-9999, 9999),
        "void *": lambda: "(void *)0x%xul" % rnd.randint(1, 1 << 44),
        "_Bool": lambda: "(_Bool)%d" % rnd.randint(0, 1),
        "enum color": lambda: rnd.choice(COLORS),
        "const char *": lambda: '"text%d"' % rnd.randint(0, 99),
        "double _Complex": lambda: "(%d.0 + 0.0 * 1.0i)" % rnd.randint(0, 99),
    }[name]()


def printing(name, expression):
    """printf's format and arguments for a value."""
    integer = width_of(name)
    if integer:
        return ("%lld", "(long long)" + expression) if integer[2] else \
            ("%llu", "(unsigned long long)" + expression)
    if name in STRUCTS:
        parts = [printing(m, "%s.m%d" % (expression, i)) for i, m in enumerate(STRUCTS[name])]
        return "{" + " ".join(p[0] for p in parts) + "}", ", ".join(p[1] for p in parts)
    return {
        "double": ("%.17g", expression), "float": ("%.9g", "(double)" + expression),
        "long double": ("%.18Lg", expression), "__int128": ("%lld", "(long long)" + expression),
        "void *": ("%p", expression), "_Bool": ("%s", expression + ' ? "true" : "false"'),
        "enum color": ("%s", "color_names[%s]" % expression),
        "const char *": ("%p", "(const void *)" + expression),
        "double _Complex": ("{%.17g %.17g}", "__real__ %s, __imag__ %s" % (expression, expression)),
    }[name]


def is_used(rnd):
    return rnd.random() < 0.85


class Function:
    def __init__(self, rnd, number, attributes, is_cpp):
        kinds = [i[0] for i in INTEGERS] * 2 + list(STRUCTS) + \
            [o for o in OTHERS if not (is_cpp and "Complex" in o)]
        self.name = "fn_%d" % number
        self.attribute = rnd.choice(attributes)
        self.parameters = [rnd.choice(kinds) for _ in range(rnd.randint(0, 8))]
        self.result = rnd.choice(kinds + ["void"])
        # GCC marks ms_abi nowhere, so only the places of parameters betray it: not known of a struct.
        if "ms_abi" in self.attribute:
            self.result = "long"
            wide = ("long double", "__int128", "double _Complex")
            self.parameters = [p for p in self.parameters if p not in wide]
        self.rnd = rnd

    def prototype(self):
        text = ", ".join("%s p%d" % (t, i) for i, t in enumerate(self.parameters)) or "void"
        return "%s __attribute__((noinline)) %s %s(%s)" % (self.attribute, self.result, self.name,
                                                           text)

    def body(self):
        """Each parameter is used or not: compilers take away those that are not."""
        lines = ["{"]
        for i, kind in enumerate(self.parameters):
            if is_used(self.rnd):
                lines.append("\ttouch(&p%d, sizeof(p%d));" % (i, i) if self.rnd.random() < 0.3
                             else "\tsink += (long)sizeof(p%d); keep_%s(p%d);" %
                             (i, identifier(kind), i))
        lines.append("\tsink++;")
        if self.result != "void":
            lines.append("\t%s r = %s;" % (self.result, value_of(self.rnd, self.result)))
            form, args = printing(self.result, "r")
            lines.append('\tprintf("R %s %s\\n", %s);' % (self.name, form, args))
            lines.append("\treturn r;")
        return "\n".join(lines + ["}"])

    def call(self):
        values = [value_of(self.rnd, t) for t in self.parameters]
        form = 'printf("C %s' % self.name
        args = ""
        declarations = ""
        for i, (kind, value) in enumerate(zip(self.parameters, values)):
            declarations += "%s a%d = %s; " % (kind, i, value)
            text, more = printing(kind, "a%d" % i)
            form += "|" + text
            args += ", " + more
        call = "%s(%s)" % (self.name, ", ".join("a%d" % i for i in range(len(values))))
        use = call if self.result == "void" or self.rnd.random() < 0.4 else \
            "%s v = %s; touch(&v, sizeof(v))" % (self.result, call)
        return '\t{ %s%s\\n"%s); %s; }' % (declarations, form, args, use)


def identifier(kind):
    return re.sub(r"\W+", "_", kind)


def program(rnd, is_cpp, is_clang, functions, rounds):
    attributes = ATTRIBUTES + (CLANG_ATTRIBUTES if is_clang else [])
    fns = [Function(rnd, i, attributes, is_cpp) for i in range(functions)]
    kinds = sorted({t for f in fns for t in f.parameters})
    out = ["#include <stdio.h>", "#include <string.h>",
           "enum color { RED, GREEN, BLUE };",
           'static const char *const color_names[] = { "RED", "GREEN", "BLUE" };',
           "static volatile long sink;"]
    for name, members in STRUCTS.items():
        out.append("%s { %s };" % (name, " ".join("%s m%d;" % (m, i)
                                                  for i, m in enumerate(members))))
    out.append("static __attribute__((noinline)) void touch(const void *p, unsigned long n)\n"
               "{\n\tchar b[64];\n\tmemcpy(b, p, n < 64 ? n : 64);\n\tsink += b[0];\n}")
    for kind in kinds:
        out.append("static inline void keep_%s(%s v)\n{\n\t%s volatile copy = v;\n"
                   "\t(void)copy;\n}" % (identifier(kind), kind, kind) if kind not in STRUCTS else
                   "static inline void keep_%s(%s v)\n{\n\tsink += (long)v.m0;\n}" %
                   (identifier(kind), kind))
    for f in fns:
        out.append(f.prototype() + "\n" + f.body())
    out.append("int main(int argc, char **argv)\n{\n\tif (!freopen(argv[argc - 1], \"w\", stdout))"
               "\n\t\treturn 1;")
    for _ in range(rounds):
        out += [f.call() for f in fns]
    out.append("\treturn 0;\n}")
    text = "\n".join(out) + "\n"
    return text.replace("_Bool", "bool") if is_cpp else text


def number(text):
    """A number of a report, or None."""
    text = text.split(" ")[0]
    try:
        return int(text, 16) if text.lower().startswith(("0x", "-0x")) else int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return None


def same_scalar(said, truth):
    if said == truth or (said == "NULL" and truth in ("(nil)", "0x0")):
        return True
    a, b = number(said), number(truth)
    if a is None or b is None:
        return False
    if isinstance(a, int) and isinstance(b, int):
        return a % (1 << 64) == b % (1 << 64)
    return abs(float(a) - float(b)) <= 1e-6 * max(1.0, abs(float(b)))


def judge(said, truth, counts):
    """right, wrong or why it was refused."""
    said = said.strip()
    if truth.startswith("{") and said.startswith("{"):
        if said.startswith("{...}"):
            counts["refused: by address"] += 1
            return True
        wanted = truth.strip("{}").split(" ")
        parts = re.findall(r"\.\w+ ((?:<[^>]*>|[^,{}])+)", said)
        if len(parts) != len(wanted):
            return False
        return all([judge(p, w, counts) for p, w in zip(parts, wanted)])
    refusal = re.match(r"<([a-z0-9 :]+)[^>]*>$", said)
    if refusal:
        counts["refused: " + re.sub(r"[xs][mt]+\d", "vector", refusal.group(1))] += 1
        return True
    if not same_scalar(said, truth):
        return False
    counts["right"] += 1
    return True


def read_truth(text):
    calls = collections.defaultdict(list)
    results = collections.defaultdict(list)
    for line in text.splitlines():
        if line.startswith("C "):
            name, *values = line[2:].split("|")
            calls[name.strip()].append(values)
        elif line.startswith("R "):
            name, value = line[2:].split(" ", 1)
            results[name].append(value)
    return calls, results


HIT = re.compile(r"\b(fn_\d+)[^ (]*\((.*?)\)(?: = (.*?))?  +(?:[\d.]+ [mun]?s|from)")


def compare(report, truth, counts, told):
    calls, results = read_truth(truth)
    seen = collections.Counter()
    wrong = 0
    for line in report.splitlines():
        hit = HIT.search(line)
        if not hit:
            continue
        name, args, result = hit.groups()
        at = seen[name]
        seen[name] += 1
        # In a clone the compiler may have changed their order.
        said = re.split(r"(?:^|, )p(\d+)=", args)[1:]
        pairs = [(value, calls[name][at][int(i)]) for i, value in zip(said[::2], said[1::2])
                 if at < len(calls[name])]
        if result is not None and at < len(results[name]):
            pairs.append((result, results[name][at]))
        for a, b in pairs:
            if not judge(a, b, counts):
                wrong += 1
                told.append("%s: said %s, is %s" % (line.strip()[:300], a, b))
    return wrong


def build(folder, source, compiler, flags):
    done = subprocess.run([compiler, "-w", "-g", *flags, source, "-o", folder + "/p"],
                          capture_output=True, text=True)
    return done.returncode == 0, done.stderr


def configurations():
    for compiler in ("gcc", "clang", "g++", "clang++"):
        if not shutil.which(compiler):
            continue
        for level in ("-O0", "-O1", "-O2", "-O3"):
            yield compiler, [level]
            if level in ("-O2", "-O3") and "clang" not in compiler:
                yield compiler, [level, "-flto"]
            if level in ("-O2", "-O3") and "clang" in compiler and shutil.which("ld.lld"):
                yield compiler, [level, "-flto", "-fuse-ld=lld"]


def main():
    trapline = sys.argv[1]
    wanted = int(sys.argv[2])
    seed = int(os.environ.get("TRAPLINE_SEED", random.randrange(1 << 32)))
    counts = collections.Counter()
    wrong, told, failed = 0, [], []
    print("TAP version 13\n# seed %d" % seed)
    rnd = random.Random(seed)
    chosen = list(configurations())
    rnd.shuffle(chosen)
    turn = 0
    while sum(counts.values()) + wrong < wanted and turn < 400:
        compiler, flags = chosen[turn % len(chosen)]
        turn += 1
        with tempfile.TemporaryDirectory() as folder:
            source = folder + ("/p.cc" if "++" in compiler else "/p.c")
            with open(source, "w", encoding="ascii") as f:
                f.write(program(rnd, "++" in compiler, "clang" in compiler, 12, 5))
            fine, why = build(folder, source, compiler, flags)
            if not fine:
                failed.append(why)
                counts["not compiled"] += 0
                continue
            report = subprocess.run(
                [trapline, "break", "fn_*", "--args", "--ret", "--", folder + "/p",
                 folder + "/truth"], capture_output=True, text=True, check=False)
            if not os.path.exists(folder + "/truth"):
                failed.append(report.stderr)
                continue
            with open(folder + "/truth", encoding="utf-8") as truth:
                text = truth.read()
            before = len(told)
            wrong += compare(report.stdout, text, counts, told)
            for line in told[before:][:3]:
                print("# %s %s: %s" % (compiler, " ".join(flags), line))
            if len(told) > before and os.environ.get("TRAPLINE_KEEP"):
                shutil.copytree(folder, os.environ["TRAPLINE_KEEP"] + "/%d" % turn)
            if not HIT.search(report.stdout):
                failed.append(report.stderr)
    total = sum(counts.values()) + wrong
    for reason, n in sorted(counts.items()):
        print("# %s: %d" % (reason, n))
    print("# %d values of %d programs, %d wrong, %d programs without a hit" %
          (total, turn, wrong, len(failed)))
    for why in failed[:3]:
        print("# " + why.replace("\n", " ")[:300])
    print("%sok 1 - each_value_is_right_or_refused" % ("" if not wrong else "not "))
    print("%sok 2 - values_are_reported" % ("" if counts["right"] > total / 4 else "not "))
    print("1..2")
    return 0


if __name__ == "__main__":
    sys.exit(main())
