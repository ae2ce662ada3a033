#!/bin/sh
# SPDX-License-Identifier: MIT
# test_hit_memory.sh TRAPLINE VICTIMS SOURCES - what pointers lead to is printed as it was at the hit. TAP.
# The program changes that memory before and behind each call, thousands of times a second.

# shellcheck source=tests/cli/tap.sh disable=SC2154,SC2034 # trapline, victims and tmp are of there
. "$(dirname "$0")/tap.sh"

command='break'
need_uprobes
need gcc
gcc -g -O1 "$3/values/moment.c" -o "$tmp/moment"
"$tmp/moment" &
pid=$!
started="$started $pid"

# all_say_n COUNT: so many lines, at least, are of calls, and each text of a line is that of its n.
all_say_n()
{
	awk -v least="$1" '/point\(n=/ {
		all++
		match($0, /point\(n=[0-9]+/)
		n = substr($0, RSTART + 8, RLENGTH - 8)
		texts = gsub("\"n" n "\"", "")
		if (texts < 3 || /"/)
			wrong++
	} END { print all + 0 " lines, " wrong + 0 " wrong" > "/dev/stderr"; exit all < least || wrong }' "$tmp/out"
}

hits=$(share 3000)
watch -p "$pid" point --args --ret --budget none --limit "$hits" --for 60
all_say_n "$hits" 2>"$tmp/err"
ok texts_of_structs_of_the_stack_and_of_results_are_those_of_the_hit $?
! grep -q 'read later' "$tmp/out"
ok nothing_is_marked_as_read_later $?

watch -p "$pid" point --args --json --budget none --limit 200 --for 60
[ "$(grep -c '"args"' "$tmp/out")" = 200 ] && ! grep -q 'after' "$tmp/out"
ok json_has_the_same_values $?

watch point --args --limit 20 -- "$tmp/moment"
all_say_n 20 2>"$tmp/out2" && grep -q 'not by probes: they copy no memory' "$tmp/err"
ok a_command_is_observed_by_what_copies_the_memory $?

# Each has one of four registers, and no copies.
watch -p "$pid" point --args --mechanism hardware --no-bpf --limit 20
grep -q '(memory read later)' "$tmp/out" && grep -q 'without BPF' "$tmp/err"
ok where_nothing_is_copied_the_lines_say_so $?

command='watch'
watch -p "$pid" shown --limit 300
awk '/NULL -> / { all++; if (!/NULL -> 0x[0-9a-f]+ "n[0-9]+"/ || /read later/) wrong++ }
	END { exit all < 50 || wrong }' "$tmp/out"
ok the_text_of_a_new_value_is_that_of_the_hit $?
awk '/" -> NULL/ { all++; if (!/read later/) wrong++ } END { exit all < 50 || wrong }' "$tmp/out"
ok the_text_of_an_old_value_is_marked $?

finished
