# SPDX-License-Identifier: MIT
"""values_languages.py - random programs of Rust and Go, in the form of values.py."""
import re

# (bits, signed) by the names of both languages
NUMBERS = {"i8": (8, True), "u8": (8, False), "i16": (16, True), "u16": (16, False), "i32": (32, True),
           "u32": (32, False), "i64": (64, True), "u64": (64, False)}


def number_of(rnd, bits, signed):
    value = rnd.getrandbits(rnd.choice([3, bits])) % (1 << bits)
    return value - (1 << bits) if signed and value >= 1 << (bits - 1) else value


def text_of(rnd):
    return "".join(rnd.choice("abcxyz ") for _ in range(rnd.choice([0, 1, 5, 20, 30])))


class Rust:
    suffix = ".rs"
    pattern = "*fn_*"
    plain = list(NUMBERS) + ["bool", "f64", "&'static str"]
    STRUCTS = {"S0": ["i32", "u8"], "S1": ["i64", "i64", "i64"], "S2": ["u16", "bool", "i32"],
               "S3": ["&'static str", "i32"]}
    kinds = plain + plain + list(STRUCTS) + [
        "Option<u32>", "Option<i64>", "Option<&'static str>", "(i32, i64)", "(u8, bool)", "[i32; 3]",
        "&'static [i32]", "Vec<i64>", "String", "Result<i32, u8>", "Kind"]

    def value(self, rnd, kind):
        """Its source, and how it reads."""
        if kind in NUMBERS:
            n = str(number_of(rnd, *NUMBERS[kind]))
            return ("(%s%s)" % (n, "_" + kind), n)
        if kind in self.STRUCTS:
            parts = [self.value(rnd, m) for m in self.STRUCTS[kind]]
            return (kind + " { " + ", ".join("m%d: %s" % (i, p[0]) for i, p in enumerate(parts)) + " }",
                    "{" + ", ".join(p[1] for p in parts) + "}")
        inner = re.match(r"Option<(.*)>$", kind)
        if inner:
            if rnd.random() < 0.3:
                return "None", "None"
            source, truth = self.value(rnd, inner.group(1))
            return "Some(%s)" % source, "Some(%s)" % truth
        if kind.startswith("("):
            parts = [self.value(rnd, k) for k in kind.strip("()").split(", ")]
            return "(%s)" % ", ".join(p[0] for p in parts), "(%s)" % ", ".join(p[1] for p in parts)
        if kind in ("[i32; 3]", "&'static [i32]", "Vec<i64>"):
            n = 3 if kind == "[i32; 3]" else rnd.randint(0, 6)
            parts = [self.value(rnd, "i64" if "64" in kind else "i32") for _ in range(n)]
            source = "[" + ", ".join(p[0] for p in parts) + "]"
            before = {"[": "", "&": "&", "V": "vec!"}[kind[0]]
            return before + source, "[" + ", ".join(p[1] for p in parts) + "]"
        return {
            "bool": lambda: (("true", "true") if rnd.random() < 0.5 else ("false", "false")),
            "f64": lambda: (lambda n: ("%s_f64" % n, n))("%d.5" % rnd.randint(-99, 99)),
            "&'static str": lambda: (lambda t: ('"%s"' % t, '"%s"' % t))(text_of(rnd)),
            "String": lambda: (lambda t: ('"%s".to_string()' % t, '"%s"' % t))(text_of(rnd)),
            "Result<i32, u8>": lambda: (lambda ok, n: ("%s(%d)" % (ok, n), "%s(%d)" % (ok, n)))(
                rnd.choice(["Ok", "Err"]), rnd.randint(0, 99)),
            "Kind": lambda: (lambda n, x: [("Kind::Empty", "Empty"), ("Kind::Small(%d)" % n, "Small(%d)" % n),
                                           ("Kind::Pair { x: %d, y: %d }" % (n, x), "Pair{%d, %d}" % (n, x))])(
                rnd.randint(0, 99), rnd.randint(-99, 99))[rnd.randint(0, 2)],
        }[kind]()

    def program(self, rnd, functions, rounds):
        out = ["#![allow(warnings)]", "use std::fs::File;", "use std::hint::black_box;",
               "use std::io::Write;", "static mut OUT: Option<File> = None;",
               "fn say(t: &str) { unsafe { if let Some(f) = &mut *std::ptr::addr_of_mut!(OUT) "
               "{ f.write_all(t.as_bytes()).unwrap(); } } }",
               "#[derive(Clone)] pub enum Kind { Empty, Small(u32), Pair { x: i64, y: i64 } }"]
        for name, members in self.STRUCTS.items():
            out.append("#[derive(Clone)] pub struct %s { %s }" % (
                name, ", ".join("m%d: %s" % (i, m) for i, m in enumerate(members))))
        body = []
        shapes = []
        for i in range(functions):
            kinds = [rnd.choice(self.kinds) for _ in range(rnd.randint(0, 6))]
            result = rnd.choice(self.kinds)
            source, truth = self.value(rnd, result)
            shapes.append((i, kinds))
            uses = "".join(" black_box(&p%d);" % k for k in range(len(kinds)) if rnd.random() < 0.85)
            out.append("#[inline(never)] pub fn fn_%d(%s) -> %s {%s let r = black_box(%s); "
                       "say(%s); r }" % (i, ", ".join("p%d: %s" % (k, t) for k, t in enumerate(kinds)),
                                         result, uses, source, quoted("R fn_%d %s\n" % (i, truth))))
        for _ in range(rounds):
            for i, kinds in shapes:
                values = [self.value(rnd, k) for k in kinds]
                body.append("say(%s); black_box(fn_%d(%s));" % (
                    quoted("C fn_%d%s\n" % (i, "".join("|" + v[1] for v in values))), i,
                    ", ".join(v[0] if rnd.random() < 0.4 else "black_box(%s)" % v[0] for v in values)))
        out.append("fn main() { unsafe { OUT = Some(File::create(std::env::args().last().unwrap())"
                   ".unwrap()); }\n%s\n}" % "\n".join(body))
        return "\n".join(out) + "\n"

    def build(self, flags, source, to):
        return ["rustc", "-g", *flags, source, "-o", to]


class Go:
    suffix = ".go"
    pattern = "main.fn_*"
    NAMES = {"int8": "i8", "uint8": "u8", "int16": "i16", "uint16": "u16", "int32": "i32", "uint32": "u32",
             "int64": "i64", "uint64": "u64", "int": "i64"}
    STRUCTS = {"s0": ["int32", "uint8"], "s1": ["int64", "int64", "int64"], "s2": ["string", "int16"]}
    plain = list(NAMES) + ["bool", "float64", "string"]
    kinds = plain + plain + list(STRUCTS) + ["[]int", "[]int32", "[1]int64", "[3]int32", "[]string"]

    def value(self, rnd, kind):
        if kind in self.NAMES:
            n = str(number_of(rnd, *NUMBERS[self.NAMES[kind]]))
            return "%s(%s)" % (kind, n), n
        if kind in self.STRUCTS:
            parts = [self.value(rnd, m) for m in self.STRUCTS[kind]]
            return kind + "{" + ", ".join(p[0] for p in parts) + "}", \
                "{" + ", ".join(p[1] for p in parts) + "}"
        if kind.startswith("["):
            n, element = re.match(r"\[(\d*)\](.*)", kind).groups()
            parts = [self.value(rnd, element) for _ in range(int(n) if n else rnd.randint(0, 6))]
            return kind + "{" + ", ".join(p[0] for p in parts) + "}", \
                "[" + ", ".join(p[1] for p in parts) + "]"
        return {"bool": lambda: (("true", "true") if rnd.random() < 0.5 else ("false", "false")),
                "float64": lambda: (lambda n: ("float64(%s)" % n, n))("%d.5" % rnd.randint(-99, 99)),
                "string": lambda: (lambda t: ('"%s"' % t, '"%s"' % t))(text_of(rnd))}[kind]()

    def program(self, rnd, functions, rounds):
        out = ["package main", 'import "os"', "var out *os.File", "var sink interface{}",
               "func say(t string) { out.WriteString(t) }",
               "//go:noinline\nfunc keep(p interface{}) { sink = p }"]
        for name, members in self.STRUCTS.items():
            out.append("type %s struct { %s }" % (name, "; ".join(
                "m%d %s" % (i, m) for i, m in enumerate(members))))
        shapes = []
        for i in range(functions):
            kinds = [rnd.choice(self.kinds) for _ in range(rnd.randint(0, 7))]
            results = [rnd.choice(self.kinds) for _ in range(rnd.choice([1, 1, 2]))]
            values = [self.value(rnd, r) for r in results]
            shapes.append((i, kinds, len(results)))
            uses = "".join(" keep(p%d);" % k for k in range(len(kinds)) if rnd.random() < 0.85)
            truth = values[0][1] if len(values) == 1 else "(%s)" % ", ".join(v[1] for v in values)
            out.append("//go:noinline\nfunc fn_%d(%s) (%s) {%s say(%s); return %s }" % (
                i, ", ".join("p%d %s" % (k, t) for k, t in enumerate(kinds)), ", ".join(results), uses,
                quoted("R fn_%d %s\n" % (i, truth)), ", ".join(v[0] for v in values)))
        body = []
        for _ in range(rounds):
            for i, kinds, results in shapes:
                values = [self.value(rnd, k) for k in kinds]
                names = ["v%d" % k for k in range(results)]
                body.append("{ say(%s); %s := fn_%d(%s); %s }" % (
                    quoted("C fn_%d%s\n" % (i, "".join("|" + v[1] for v in values))), ", ".join(names), i,
                    ", ".join(v[0] for v in values), "; ".join("keep(%s)" % n for n in names)))
        out.append("func main() {\nout, _ = os.Create(os.Args[len(os.Args)-1])\n%s\n}" % "\n".join(body))
        return "\n".join(out) + "\n"

    def build(self, flags, source, to):
        return ["go", "build", *flags, "-o", to, source]


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


TOKEN = re.compile(r'"[^"]*"(?:\.\.\.)?|<[^>]*>|[-\w.+]+|[\[\](){}]')


def tokens(text):
    """Numbers, texts and names, without brackets, names of members and pointers before texts."""
    text = re.sub(r"\.\w+ ", "", text)
    text = re.sub(r"(\d) '.'", r"\1", text)
    found = []
    for token in TOKEN.findall(text):
        if token in "[](){}":
            continue
        try:
            token = str(int(token, 0) % (1 << 64))
        except ValueError:
            pass
        found.append(token)
    return found


def agree(said, truth, counts):
    """Each part is the printed one, or is refused. What a refusal stands for may be several parts."""
    form = ""
    refused = []
    for token in tokens(said):
        if token.startswith("<"):
            refused.append(re.sub(r"[xs][mt]+\d", "vector", token.strip("<>")))
            form += "(?:[^\x00]+\x00)*?"
        elif token.endswith("..."):
            form += re.escape(token.rstrip(".").rstrip('"')) + '[^\x00]*"\x00'
        else:
            form += re.escape(token) + "\x00"
    if not re.fullmatch(form, "".join(t + "\x00" for t in tokens(truth))):
        return False
    for reason in refused:
        counts["refused: " + reason[:40]] += 1
    counts["right"] += len(tokens(said)) - len(refused)
    return True
