#!/bin/sh
# SPDX-License-Identifier: MIT
# test_foreign_loaders.sh TRAPLINE VICTIMS - a program that the agent cannot be loaded into is refused before it starts, and
# runs as without where another program starts it: with the C library musl, or with a sanitizer. TAP.

# shellcheck source=tests/cli/tap.sh disable=SC2154 # its variables come from there
. "$(dirname "$0")/tap.sh"

cat >"$tmp/program.c" <<'EOF'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *work(void *arg)
{
	return arg;
}

int main(void)
{
	char *blocks[600];
	pthread_t thread;

	for (int i = 0; i < 600; i++) {
		blocks[i] = malloc(100 + (size_t)i);
		memset(blocks[i], 1, 100);
	}
	for (int i = 0; i < 600; i++)
		free(blocks[i]);
	pthread_create(&thread, NULL, work, NULL);
	pthread_join(thread, NULL);
	puts("ok");
	return 0;
}
EOF

# make NAME COMPILER FLAG...: $tmp/NAME, which runs alone; false where it cannot be made.
make()
{
	out=$tmp/$1
	shift
	command -v "$1" >/dev/null && "$@" -pthread -o "$out" "$tmp/program.c" 2>"$tmp/err" && [ "$("$out")" = ok ]
}

# refused NAME WHY COMMAND...: by one line, and the program has not run.
refused()
{
	name=$1
	why=$2
	shift 2
	timeout -k 2 60 "$trapline" "$@" >"$tmp/out" 2>"$tmp/err"
	[ $? = 2 ] && [ ! -s "$tmp/out" ] && [ "$(wc -l <"$tmp/err")" = 1 ] && grep -q ": $why; watch, " "$tmp/err"
	ok "$name" $?
}

# runs_below NAME PROGRAM COMMAND...: as a child of a shell that has the agent.
runs_below()
{
	name=$1
	program=$2
	shift 2
	timeout -k 2 60 "$trapline" "$@" -- sh -c "$program; echo it ended with \$?" >"$tmp/out" 2>"$tmp/err"
	grep -qx ok "$tmp/out" && grep -qx 'it ended with 0' "$tmp/out" && ! grep -q 'ld.so\|relocating\|runtime' "$tmp/err"
	ok "$name" $?
}

# each NAME WHY PROGRAM: under all tools that preload.
each()
{
	for what in 'heap' 'flow' 'race --overhead 5%' 'race --heap' 'throttle --cpu 90%'; do
		tool=$(echo "$what" | sed 's/ --heap/_heap/; s/ .*//')
		# Root has it searched from outside else.
		inside=
		[ "$tool" != race ] || inside=--inside
		# shellcheck disable=SC2086 # words
		refused "$1_is_refused_by_$tool" "$2" $what $inside -- "$3"
		# shellcheck disable=SC2086 # words
		runs_below "$1_runs_below_$tool" "$3" $what
	done
	refused "$1_is_refused_for_probes" "$2" break malloc --mechanism probe -- "$3"
}

other='its loader is not that of glibc'
sanitizer='it has a sanitizer'
if make musl musl-gcc; then
	each a_program_with_musl "$other" "$tmp/musl"
	printf '#!%s\n' "$tmp/musl" >"$tmp/script"
	chmod +x "$tmp/script"
	refused a_script_of_such_a_program_is_refused "$other" heap -- "$tmp/script"
else
	skip a_program_with_musl musl-gcc
fi
if make asan gcc -fsanitize=address; then each a_program_with_asan "$sanitizer" "$tmp/asan"; else skip a_program_with_asan libasan; fi
if make tsan gcc -fsanitize=thread; then each a_program_with_tsan "$sanitizer" "$tmp/tsan"; else skip a_program_with_tsan libtsan; fi
if make clang_asan clang -fsanitize=address; then
	each a_program_with_asan_inside "$sanitizer" "$tmp/clang_asan"
else
	skip a_program_with_asan_inside clang
fi

# What is not to be refused: a program of glibc, in a folder of any depth, has the agent.
make plain "${CC:-cc}" || ok the_compiler_makes_plain 1
deep=$tmp/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/r/s/t
mkdir -p "$deep"
cp "$tmp/plain" "$deep/plain"
ln -s "$deep/plain" "$tmp/link"
for path in "$tmp/plain" "$deep/plain" "$tmp/link"; do
	timeout -k 2 60 "$trapline" heap --first 20 -- "$path" >"$tmp/out" 2>"$tmp/err"
	grep -qx ok "$tmp/out" && grep -q '[1-9][0-9]* blocks sampled in 1 process' "$tmp/err" && ! grep -q ld.so "$tmp/err"
	ok "a_program_of_glibc_is_sampled_at_depth_$(echo "${path#"$tmp"}" | tr -cd / | wc -c)_${path##*/}" $?
done

finished
