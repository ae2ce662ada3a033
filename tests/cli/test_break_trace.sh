#!/bin/sh
# SPDX-License-Identifier: MIT
# test_break_trace.sh TRAPLINE VICTIMS - the tree of calls below one call, against a program that logs its
# own. TAP.

# shellcheck source=tests/cli/tap.sh disable=SC2154 # its variables come from there
. "$(dirname "$0")/tap.sh"

run()
{
	timeout -k 2 60 "$trapline" break "$@" >"$tmp/out" 2>"$tmp/err"
}

# wrong NAME PATTERN ARGUMENT...: status 2, and one line that has the pattern.
wrong()
{
	name=$1
	pattern=$2
	shift 2
	run "$@"
	[ $? = 2 ] && [ "$(wc -l <"$tmp/err")" = 1 ] && grep -q "^trapline break: .*$pattern" "$tmp/err"
	ok "$name" $?
}

# The tree of the victim's own functions, as the victim logs it.
tree()
{
	grep '"trace_call"' "$tmp/lines" | jq -r 'select(.module == "trace_calls" and .function != null and
		.function != "main") | "\(.depth) \(.function)"'
}

own='^[0-9] [a-z_]*$'

run traced --trace --json -o "$tmp/lines" -- "$victims/trace_calls"
status=$?
grep "$own" "$tmp/out" >"$tmp/logged"
tree >"$tmp/traced"
[ $status = 0 ] && [ "$(wc -l <"$tmp/logged")" -gt 20 ] && cmp "$tmp/logged" "$tmp/traced" &&
	grep -q '^result 138$' "$tmp/out"
ok "the_tree_is_the_one_that_the_program_logs" $?

ends()
{
	grep '"trace_call"' "$tmp/lines" | jq -r --arg f "$1" 'select(.function == $f) | .end' | sort -u
}
[ "$(ends jumps_back)" = left ] && [ "$(ends throws)" = left ] && [ "$(ends leaf)" = return ] &&
	jq -se 'map(select(.function == "tail_end")) | length > 0 and all(.tail)' "$tmp/lines" >/dev/null &&
	tail -n 3 "$tmp/lines" | jq -se 'map(select(.type == "trace")) | .[0].is_whole and .[0].ended_by == null' \
		>/dev/null
ok "how_a_call_ended_is_told" $?

# The instructions of a call are those of the calls below it, and some of its own.
grep '"trace_call"' "$tmp/lines" | jq -se '
	.[0].instructions > (.[1:] | map(select(.depth == 1) | .instructions) | add) and
	.[0].ns >= (.[1:] | map(select(.depth == 1) | .ns) | add) * 0.99 and
	(map(select(.function == "leaf") | .instructions) | unique | length) == 1' >/dev/null
ok "instructions_and_durations_add_up" $?

run traced --trace --depth 1 -- "$victims/trace_calls"
[ $? = 0 ] && grep -q '^ *[0-9]*  *[0-9.]* [um]s    recurses$' "$tmp/out" &&
	! grep -q 's      [a-z]' "$tmp/out" && grep -q '^[0-9]* deeper calls are not listed (--depth)$' "$tmp/out"
ok "calls_are_listed_to_a_depth" $?

run traced_never --trace -- "$victims/trace_calls" never
[ $? = 0 ] && grep -q '  traced_never (has not returned)$' "$tmp/out" &&
	grep -q 'continues natively: the system call exit_group came$' "$tmp/out" &&
	grep -q 'exited with status 7' "$tmp/out"
ok "a_call_that_never_returns_is_shown_to_the_end" $?

run traced_fork --trace -- "$victims/trace_calls" fork
[ $? = 0 ] && grep -q '^result 12$' "$tmp/out" && grep -q 'continues natively: the system call clone' "$tmp/out"
ok "a_fork_ends_the_trace_and_the_program_goes_on" $?

run traced_slow --trace -- "$victims/trace_calls" slow
[ $? = 0 ] && [ "$(grep -c ' leaf' "$tmp/out")" -ge 2 ] && grep -q '  traced_slow$' "$tmp/out"
ok "a_call_that_waits_is_traced_through" $?

run traced_many --trace --json -o "$tmp/lines" -- "$victims/trace_calls" many
status=$?
tail -n 3 "$tmp/lines" | jq -se 'map(select(.type == "trace")) | .[0] | .calls == 131072 and (.is_whole | not) and
	(.ended_by | test("limit of 131072 calls"))' >/dev/null
[ $? = 0 ] && [ $status = 0 ] && grep -q '^result -*[0-9]*$' "$tmp/out"
ok "the_limit_of_calls_is_told" $?

"$victims/trace_calls" all 2000 >"$tmp/program" &
pid=$!
run traced --trace --json -o "$tmp/lines" -p $pid
status=$?
tree >"$tmp/traced"
run traced --trace --depth 1 -p $pid
again=$?
! grep -q trapline-probe "/proc/$pid/maps" || :
kill -0 $pid && [ $status = 0 ] && cmp "$tmp/logged" "$tmp/traced" && [ $again = 0 ] &&
	grep -q ' recurses$' "$tmp/out"
ok "a_running_process_is_traced_and_goes_on" $?

text=$(awk '$2 ~ /x/ && $6 ~ /trace_calls/ { print $1; exit }' "/proc/$pid/maps")
begin=$((0x${text%-*}))
bytes=$((0x${text#*-} - begin))
dd if="/proc/$pid/mem" bs=4096 skip=$((begin / 4096)) count=$((bytes / 4096)) 2>/dev/null | sha256sum >"$tmp/after"
offset=$(awk '$2 ~ /x/ && $6 ~ /trace_calls/ { print "0x" $3; exit }' "/proc/$pid/maps")
dd if="$victims/trace_calls" bs=4096 skip=$((offset / 4096)) count=$((bytes / 4096)) conv=sync 2>/dev/null |
	sha256sum >"$tmp/file"
cmp "$tmp/after" "$tmp/file"
ok "its_code_is_as_it_was" $?
kill $pid
wait $pid 2>/dev/null

wrong depth_needs_a_trace 'depth needs --trace' leaf --depth 2 -- "$victims/trace_calls"
wrong one_call_has_no_limit '--limit cannot be combined with --trace' leaf --trace --limit 3 -- "$victims/trace_calls"
wrong a_trace_is_no_uprobe '--mechanism cannot be combined' leaf --trace --mechanism uprobe -- "$victims/trace_calls"
wrong one_function_is_traced 'needs one function' 'traced_*' --trace -- "$victims/trace_calls"

finished
