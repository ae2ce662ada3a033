#!/bin/sh
# SPDX-License-Identifier: MIT
# test_vector_values.sh TRAPLINE VICTIMS SOURCE - arguments in vector registers, of two compilers, with and without
# optimisation: what a probe reads is what the call printed, and what is not read is not invented. TAP.

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/tap.sh"
need jq gcc
command='break'
source=$3/tests/victims/vector_values.c

# seen: the calls of the hits, in order, as the victim writes them.
seen()
{
	sed -n 's/^[0-9:.]* *[^ ]* *\(vectors_[^ ].*)\)  *from .*/\1/p' "$tmp/out"
}

# truth: what the calls printed; what the compiler left out is not compared.
is_true()
{
	grep -o '^vectors_[a-z]*(.*)' "$tmp/out" >"$tmp/truth"
	seen >"$tmp/seen"
	[ "$(wc -l <"$tmp/truth")" = 30 ] && [ "$(wc -l <"$tmp/seen")" = 30 ] || return 1
	awk 'NR == FNR { truth[FNR] = $0; next }
		{
			gsub(/<optimized out>|<not known>/, "?")
			n = split($0, seen, /[=, ]+/)
			split(truth[FNR], told, /[=, ]+/)
			if ($0 ~ /=\?/) { left++; next }
			for (i = 1; i <= n; i++)
				if (seen[i] !~ /\?/ && seen[i] != told[i]) { print truth[FNR]; print; wrong++ }
			if ($0 !~ /\?/) compared++
		}
		END { exit wrong || compared < 15 }' "$tmp/truth" "$tmp/seen" >"$tmp/err2"
}

# lines ARG...: the program prints too.
lines()
{
	watch "$@" --json -- "$program" "$rounds"
	status=$?
	sed -i '/^{/!d' "$tmp/out"
	return $status
}

for cc in gcc clang; do
	command -v $cc >/dev/null || continue
	for build in -O0 -O2; do
		program="$tmp/vectors$cc$build"
		$cc -g $build -w -o "$program" "$source" || continue
		watch 'vectors_*' --mechanism probe --args -- "$program"
		is_true && ! grep -q 'in xmm' "$tmp/out"
		ok "a_probe_reads_what_the_calls_got $cc $build" $?
	done
done
program="$tmp/vectorsgcc-O2"

rounds=9
lines vectors_plain --if 'a > 2 && b < 3' --print '{a} {b}' &&
	hits 'map(.printed) == ["2.5 2.25"]' && summary '.rejected_by.condition == 8 and .mechanism == "probe"'
ok "a_condition_compares_doubles_and_floats" $?

rounds=4
lines vectors_structs --if 't.z == 5.5f && p.y == -2.5 && t.y > 0.5 && d.b != 9.75' --print '{t.y} {d}' &&
	hits 'map(.printed) == ["1 {.a 6.25, .b 8.75}", "3 {.a 6.25, .b 10.75}"]'
ok "a_condition_compares_members_in_halves_of_registers" $?

lines vectors_structs --if 'p.y == 2.5' && summary '.hits == 0 and .rejected == 4'
ok "a_false_one_has_no_hit" $?

rounds=1
lines vectors_plain --args &&
	hits '.[0].args == {"a": 1.5, "n": 0, "b": 0, "c": -3.125}'
ok "json_has_numbers" $?

if [ "$(id -u)" = 0 ] && [ -r /sys/bus/event_source/devices/uprobe/type ]; then
	lines vectors_plain --mechanism uprobe --args --print '{a}'
	hits '.[0].args == {"a": null, "n": 0, "b": null, "c": null} and .[0].printed == "<in xmm0>"' &&
		grep -q 'note: a value <in xmm0> .*; use --mechanism probe$' "$tmp/err"
	ok "a_uprobe_invents_nothing_and_names_the_remedy" $?

	watch vectors_plain --mechanism uprobe --if 'a > 2' --json -- "$program" 1
	[ $? = 2 ] && grep -q 'which only a probe reads: use --mechanism probe' "$tmp/err"
	ok "a_uprobe_refuses_such_a_condition" $?

	lines vectors_result --ret
	hits '.[0].ret == null' && grep -q 'note: a value <in xmm0>' "$tmp/err"
	ok "a_floating_result_is_not_invented" $?

	mkfifo "$tmp/go"
	"$program" 1 more <"$tmp/go" >/dev/null &
	pid=$!
	started="$started $pid"
	exec 9>"$tmp/go"
	eventually grep -q ' r-xp .*/vectorsgcc-O2$' "/proc/$pid/maps"
	(sleep 1; head -c 1000 /dev/zero >&9) &
	watch -p "$pid" vectors_plain --mechanism probe --args --limit 3 --json
	hits 'map(.args) == [{"a": 1, "n": 1, "b": 0.5, "c": 0}, {"a": 1, "n": 1, "b": 0.5, "c": 0},
		{"a": 1, "n": 1, "b": 0.5, "c": 0}]'
	ok "a_probe_in_a_running_process_reads_them" $?
	exec 9>&-
else
	skip a_uprobe_invents_nothing_and_names_the_remedy "uprobes need root"
fi
finished
