#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""values.py TRAPLINE VALUES - random programs whose own output is the truth.

Each program has functions with random parameters, attributes and results, and calls them with random
values, which it prints; or it has variables of random types and assigns to them. Trapline reports the
same. Each value that it reports is the printed one, or is refused; a value that is neither is wrong.
C and C++ of 64 and 32 bits, Rust and Go take turns. TRAPLINE_SEED repeats a run, TRAPLINE_ONLY is a part
of the name of the ways that are taken (memory, gcc -m32), TRAPLINE_KEEP a folder for what is wrong. TAP.
"""
import collections
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import values_languages  # noqa: E402
import values_memory  # noqa: E402

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


def compare(report, truth, counts, told, judge=judge):
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


def build(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False,
                          env={**os.environ, "GOFLAGS": "-mod=mod"})
    return done.returncode == 0, done.stderr


def c_configurations(compiler):
    for level in ("-O0", "-O1", "-O2", "-O3"):
        yield [level]
        if level in ("-O2", "-O3") and "clang" not in compiler:
            yield [level, "-flto"]
        if level in ("-O2", "-O3") and "clang" in compiler and shutil.which("ld.lld"):
            yield [level, "-flto", "-fuse-ld=lld"]


def has_32_bit():
    """A kernel without CONFIG_IA32_EMULATION runs no such program."""
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/p.c", "w", encoding="ascii") as f:
            f.write("#include <stdio.h>\nint main(void) { return 0; }\n")
        if not build(["gcc", "-m32", folder + "/p.c", "-o", folder + "/p"])[0]:
            return False
        try:
            return subprocess.run([folder + "/p"], check=False).returncode == 0
        except OSError:
            return False


def configurations():
    """(how a program of them is tried, compiler, flags), and what is not installed."""
    chosen, missing = [], []
    for compiler in ("gcc", "clang", "g++", "clang++"):
        if not shutil.which(compiler):
            missing.append(compiler)
            continue
        chosen += [(try_calls, compiler, flags) for flags in c_configurations(compiler)]
        chosen += [(try_memory, compiler, flags) for flags in c_configurations(compiler)]
    if has_32_bit():
        chosen += [(try_memory, "gcc", ["-m32", *flags]) for flags in c_configurations("gcc")]
    else:
        missing.append("gcc -m32")
    if shutil.which("rustc"):
        chosen += [(try_rust, "rustc", ["-C", "opt-level=%d" % n]) for n in range(4)]
        chosen += [(try_rust, "rustc", ["-C", "opt-level=3", "-C", "lto=fat"])]
    else:
        missing.append("rustc")
    if shutil.which("go"):
        chosen += [(try_go, "go", flags) for flags in ([], [], ["-gcflags=-N -l"])]
    else:
        missing.append("go")
    return chosen, missing


class Trial:
    """What the programs of a run have shown."""

    def __init__(self, trapline, seed):
        self.trapline = trapline
        self.rnd = random.Random(seed)
        self.counts = collections.Counter()
        self.by = collections.Counter()
        self.wrong = 0
        self.told = []
        self.failed = []

    def values(self):
        return sum(self.counts.values()) + self.wrong

    def observed(self, folder, pattern):
        """The report of a program's calls, and the truth; None: there is none."""
        report = subprocess.run([self.trapline, "break", pattern, "--args", "--ret", "--", folder + "/p",
                                 folder + "/truth"], capture_output=True, text=True, check=False)
        with open(folder + "/report", "w", encoding="utf-8") as f:
            f.write(report.stdout + report.stderr)
        if not os.path.exists(folder + "/truth") or not HIT.search(report.stdout):
            self.failed.append(report.stderr)
            return None
        with open(folder + "/truth", encoding="utf-8") as truth:
            return report.stdout, truth.read()


def make(trial, folder, name, text, command):
    with open(folder + "/" + name, "w", encoding="ascii") as f:
        f.write(text)
    fine, why = build(command)
    if not fine:
        trial.failed.append(why)
    return fine


def try_calls(trial, folder, compiler, flags):
    name = "p.cc" if "++" in compiler else "p.c"
    text = program(trial.rnd, "++" in compiler, "clang" in compiler, 12, 5)
    if not make(trial, folder, name, text, [compiler, "-w", "-g", *flags, folder + "/" + name, "-o", folder + "/p"]):
        return
    seen = trial.observed(folder, "fn_*")
    if seen:
        trial.wrong += compare(*seen, trial.counts, trial.told)


def try_language(trial, folder, language, flags):
    name = "p" + language.suffix
    text = language.program(trial.rnd, 12, 5)
    if not make(trial, folder, name, text, language.build(flags, folder + "/" + name, folder + "/p")):
        return
    seen = trial.observed(folder, language.pattern)
    if seen:
        trial.wrong += compare(*seen, trial.counts, trial.told, values_languages.agree)


def try_rust(trial, folder, _, flags):
    try_language(trial, folder, values_languages.Rust(), flags)


def try_go(trial, folder, _, flags):
    try_language(trial, folder, values_languages.Go(), flags)


def try_memory(trial, folder, compiler, flags):
    """One variable after the other, each with a process of its own."""
    name = "p.cc" if "++" in compiler else "p.c"
    text, variables = values_memory.program(trial.rnd, "++" in compiler, "-m32" in flags, 6, 12)
    if not make(trial, folder, name, text, [compiler, "-w", "-g", *flags, folder + "/" + name, "-o", folder + "/p"]):
        return
    for i, variable in enumerate(variables):
        out, said = values_memory.run(trial.trapline, folder, variable)
        if out is None:
            reason = re.sub(r"g_\d\S*|\d+", "", said.split(": ")[-1] if ": " in said else said)
            trial.counts["refused: " + " ".join(reason.split())[:60]] += 1
            continue
        with open(folder + "/truth", encoding="utf-8") as f:
            truth = [line.split("|", 1)[1] for line in f.read().splitlines() if line.startswith("%d|" % i)]
        trial.wrong += values_memory.compare(variable, out, truth, trial.counts, trial.told, same_scalar)


def report(trial, programs, missing):
    for reason, n in sorted(trial.counts.items()):
        print("# %s: %d" % (reason, n))
    for name, n in sorted(trial.by.items()):
        print("# values of %s: %d" % (name, n))
    for name in missing:
        print("# not installed: %s" % name)
    print("# %d values of %d programs, %d wrong, %d programs without a hit" %
          (trial.values(), programs, trial.wrong, len(trial.failed)))
    for why in trial.failed[:3]:
        print("# " + why.replace("\n", " ")[:300])
    print("%sok 1 - each_value_is_right_or_refused" % ("" if not trial.wrong else "not "))
    print("%sok 2 - values_are_reported" % ("" if trial.counts["right"] > trial.values() / 4 else "not "))
    print("1..2")


def main():
    wanted = int(sys.argv[2])
    only = os.environ.get("TRAPLINE_ONLY", "")
    seed = int(os.environ.get("TRAPLINE_SEED", random.randrange(1 << 32)))
    trial = Trial(sys.argv[1], seed)
    print("TAP version 13\n# seed %d" % seed)
    chosen, missing = configurations()
    chosen = [c for c in chosen if only in " ".join([c[0].__name__, c[1], *c[2]])]
    trial.rnd.shuffle(chosen)
    turn = 0
    while trial.values() < wanted and turn < 600:
        how, compiler, flags = chosen[turn % len(chosen)]
        turn += 1
        before, values = len(trial.told), trial.values()
        with tempfile.TemporaryDirectory() as folder:
            how(trial, folder, compiler, flags)
            for line in trial.told[before:][:3]:
                print("# %s %s: %s" % (compiler, " ".join(flags), line))
            if len(trial.told) > before and os.environ.get("TRAPLINE_KEEP"):
                shutil.copytree(folder, os.environ["TRAPLINE_KEEP"] + "/%d" % turn)
        language = compiler + (" -m32" if "-m32" in flags else "")
        trial.by["%s, %s" % (how.__name__[4:], language)] += trial.values() - values
    report(trial, turn, missing)
    return 0


if __name__ == "__main__":
    sys.exit(main())
