#!/bin/sh
# SPDX-License-Identifier: MIT
# test_library_sizes.sh TRAPLINE VICTIMS SOURCE - size() and has_value() in conditions, and str() of texts that have no
# NUL, in BPF: as many hits as the program has such calls, and no fault of a load. TAP.

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/tap.sh"
need_uprobes
need jq g++
command='break'
program="$tmp/library_sizes"

calls=9

# counts HITS CONDITION: of all calls.
counts()
{
	watch sized --mechanism uprobe --if "$2" --json -- "$program" &&
		summary ".hits == $1 and .rejected == $calls - $1 and .condition_faults == 0"
	ok "$2 $build" $?
}

for build in -O0 -O2; do
	g++ -g -std=c++17 $build -o "$program" "$3/tests/victims/library_sizes.cc"
	counts 1 's.size() == 3'
	counts 1 'w.size() == 3'
	counts 3 'v.size() > 6'
	counts 2 'm.size() == 2'
	counts 2 'o.has_value()'
	counts 1 'c->parts.size() == 4 && c->name.size() == 4'
	counts 1 's.size() + v.size() == 7'
	counts 5 'str(w) == "abc"'
	counts 4 'str(w) != "abc"'
	counts 2 'str(s) == "yyyyyy"'
	counts 0 'str(w) == "abcdefgh"'
done

watch sized --if 'o.size() == 1' -- "$program"
[ $? = 2 ] && grep -q 'column 1: a condition cannot call size() of .*optional' "$tmp/err"
ok what_a_type_does_not_have_is_refused $?

watch sized --if 's.clear()' -- "$program"
[ $? = 2 ] && grep -q 'cannot call clear()' "$tmp/err"
ok another_function_is_refused $?

watch pointed --mechanism uprobe --args --json -- "$program" &&
	hits '.[0].args.p | .symbol == "global" and .value == "\"a global text\""'
ok the_value_behind_a_named_pointer_is_the_value_alone $?

if command -v rustc >/dev/null && rustc -g -o "$tmp/rust" "$3/tests/victims/library_sizes.rs" 2>/dev/null; then
	program="$tmp/rust"
	calls=8
	build=Rust
	counts 5 'str(s) == "abc"'
	counts 5 'str(t) == "abc"'
	counts 3 'str(t) != "abc"'
	counts 1 's.len() == 3'
	counts 1 't.len() == 3'
else
	skip strings_of_rust "rustc is not installed"
fi
finished
