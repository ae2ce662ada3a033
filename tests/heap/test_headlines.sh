#!/bin/sh
# SPDX-License-Identifier: MIT
# test_headlines.sh TRAPLINE VICTIMS SOURCES - a headline of heap, race and flow names the innermost function that
# the user wrote: also one that was put into another, and none of a library's headers. TAP.

# shellcheck source=tests/cli/tap.sh disable=SC1091,SC2154 # shared with the others
. "$(dirname "$0")/../cli/tap.sh"
need jq g++
sources=$3

# build OPTION...: the program, in $tmp/program.
build()
{
	options=$*
	g++ "$@" -o "$tmp/program" "$sources/headlines.cc" -pthread 2>"$tmp/err"
}

heap_names()
{
	timeout -k 2 60 "$trapline" heap --first 1 -- "$tmp/program" heap >"$tmp/out" 2>"$tmp/err"
	sed -n 's/^heap A: .* in \(.*\) \[.*/\1/p' "$tmp/err" "$tmp/out" >"$tmp/names"
	i=0
	for name in "$@"; do
		i=$((i + 1))
		case $(sed -n ${i}p "$tmp/names") in "$name" | "$name("*) ;; *) return 1 ;; esac
	done
}

# race_names FUNCTION ARG...: of the program. A race is found when it happens.
race_names()
{
	name=$1
	shift
	for _ in 1 2 3 4 5 6 7 8; do
		timeout -k 2 100 "$trapline" race --overhead 20% -- "$tmp/program" race "$@" >"$tmp/out" 2>"$tmp/err"
		grep -h '^race ' "$tmp/out" "$tmp/err" >"$tmp/names" && break
	done
	sed -n '1s/.* in \([^ (]*\)[ (].*/\1/p' "$tmp/names" | grep -qx "$name"
}

flow_names()
{
	timeout -k 2 60 "$trapline" flow --overhead 100% -- "$tmp/program" flow >"$tmp/out" 2>"$tmp/err"
	grep -q "^32 bytes of read .*, in $1[ (]" "$tmp/err"
}

for options in '-O2 -g' '-O0 -g'; do
	# shellcheck disable=SC2086
	build $options || echo 'Bail out! no program'
	heap_names store::Cell::read plain with_vector
	ok "heap names what is inlined, and not the C++ library: $options" $?
	race_names store::Counter::bump by_method
	ok "race names what is inlined: $options" $?
	race_names count_vector
	ok "race does not name the C++ library: $options" $?
	flow_names store::Source::fill
	ok "flow names what is inlined: $options" $?
done

# Nothing says what is inlined: the function that has the code is named, and the library's by its name.
build -O0 || echo 'Bail out! no program'
heap_names inlined_method plain with_vector
ok 'heap without lines' $?
flow_names flow
ok 'flow without lines' $?

# One error has one fingerprint, whatever is named: two lines of one function are two errors.
build -O2 -g
timeout -k 2 60 "$trapline" heap --first 1 --json -o "$tmp/heap.json" -- "$tmp/program" heap >"$tmp/out" 2>"$tmp/err"
jq -e -s '[.[] | select(.type == "heap")] | length == 3 and (map(.fingerprint) | unique | length) == 3 and
	(.[0].first | .function == "store::Cell::read" and (.file | endswith("headlines.cc"))) and
	(.[2].first | (.function | startswith("with_vector")) and (.file | endswith("headlines.cc")))' "$tmp/heap.json" >"$tmp/jq"
ok 'the file and the line are those of what is named' $?

if command -v rustc >/dev/null; then
	rustc -O -g -o "$tmp/program" "$sources/headlines.rs" 2>"$tmp/err"
	timeout -k 2 60 "$trapline" heap --first 1 -- "$tmp/program" >"$tmp/out" 2>"$tmp/err"
	grep -hq '^heap A: use-after-free: .* in headlines::Buf::read \[' "$tmp/out" "$tmp/err"
	ok 'Rust' $?
else
	skip 'Rust' 'rustc is not installed'
fi
finished
