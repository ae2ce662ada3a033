# SPDX-License-Identifier: MIT
"""pulp.py - a function that libpulp replaces in a running process: what a call costs before and afterwards.

scripts/install-deps peers builds libpulp from the sources that PULP names.
"""
import shutil
import subprocess
import tempfile

OLD = "int pulp_old(int x) { return x + 1; }\n"
NEW = "int pulp_new(int x) { return x + 2; }\n"
MAIN = """#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int pulp_old(int);
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e9 + t.tv_nsec; }
static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}
int main(void)
{
	char text[8];
	double ns[9];

	do {
		for (int r = 0; r < 9; r++) {
			double start = now();
			for (int i = 0; i < 2000000; i++)
				pulp_old(i);
			ns[r] = (now() - start) / 2e6;
		}
		qsort(ns, 9, sizeof(*ns), compare);
		printf("ns %.3f %d\\n", ns[4], pulp_old(0));
		fflush(stdout);
	} while (fgets(text, sizeof(text), stdin));
	return 0;
}
"""


def write(path, text):
    with open(path, "w", encoding="utf8") as f:
        f.write(text)


def must(command, folder):
    ran = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if ran.returncode:
        words = (ran.stdout.strip().splitlines() or ["no words"])[-1]
        raise RuntimeError(f"{' '.join(command[:2])}: {words}")


def make(folder):
    write(f"{folder}/old.c", OLD)
    write(f"{folder}/new.c", NEW)
    write(f"{folder}/main.c", MAIN)
    write(f"{folder}/new.dsc", f"{folder}/libnew.so\n@{folder}/libold.so\npulp_old:pulp_new\n")
    # As libpulp's manual has it: the nops of a function, and a table of symbols that it can read.
    must(["gcc", "-O2", "-fPIC", "-shared", "-fno-inline", "-fpatchable-function-entry=16,14", "-Wl,--hash-style=sysv",
          "-Wl,--build-id", "-Wl,-soname,libold.so", "-o", "libold.so", "old.c"], folder)
    must(["gcc", "-O2", "-fPIC", "-shared", "-o", "libnew.so", "new.c"], folder)
    must(["gcc", "-O2", "-o", "main", "main.c", "-L.", "-lold", f"-Wl,-rpath,{folder}"], folder)
    must(["ulp", "post", "libold.so"], folder)
    must(["ulp", "packer", "new.dsc"], folder)


def pulp_call():
    """(ns of a call before, ns afterwards), None; or None and why not."""
    if not shutil.which("ulp"):
        return None, "it is not in Debian, and was not built from its sources"
    with tempfile.TemporaryDirectory() as folder:
        try:
            make(folder)
            with subprocess.Popen(["env", "LD_PRELOAD=libpulp.so", f"{folder}/main"], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True) as target:
                try:
                    return patched(folder, target)
                finally:
                    target.kill()
        except RuntimeError as error:
            return None, str(error)


def measured(target):
    words = target.stdout.readline().split()
    if len(words) != 3:
        raise RuntimeError("the program with libpulp preloaded does not run")
    return float(words[1]), words[2]


def patched(folder, target):
    before, value = measured(target)
    must(["ulp", "trigger", "-p", str(target.pid), f"{folder}/libnew.so"], folder)
    target.stdin.write("x\n")
    target.stdin.flush()
    after, value = measured(target)
    if value != "2":
        raise RuntimeError("the function is the old one after ulp trigger")
    return (before, after), None
