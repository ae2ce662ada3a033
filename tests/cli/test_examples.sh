#!/bin/sh
# SPDX-License-Identifier: MIT
# test_examples.sh DIRECTORY - the programs in examples/ do what they say. TAP.

# shellcheck source=tests/cli/tap.sh disable=SC2154 # tmp comes from there
. "$(dirname "$0")/tap.sh"
examples=$1

# The share is bounded from above on any machine: what was not earned cannot be drawn.
"$examples/compactor" 1.5 >"$tmp/out" 2>&1
awk '/^compactor:/ { share = $2 } END { exit !(share > 0 && share < 24) }' "$tmp/out"
ok "the_compactor_keeps_to_its_share" $?

"$examples/judge" 1000 >"$tmp/out" 2>&1
grep -q '^accepted: prime 1000 is 7919$' "$tmp/out"
ok "the_judge_accepts_what_fits_the_budget" $?

"$examples/judge" 100000000 >"$tmp/out" 2>&1
grep -q '^rejected: the budget is used up$' "$tmp/out"
ok "the_judge_ends_what_does_not" $?

{ sleep 0.2; echo debug on; sleep 0.2; echo debug off; } | "$examples/debuglog" >"$tmp/out" 2>&1
grep -q '^server [12]: takes a request' "$tmp/out" &&
	grep -q '^served [1-9][0-9]* requests, [1-9][0-9]* debug lines$' "$tmp/out" &&
	! grep -q answers "$tmp/out"
ok "the_server_prints_the_debug_lines_that_are_on" $?

{ sleep 0.2; echo trace up; } | "$examples/debuglog" >"$tmp/out" 2>&1
grep -q '^unknown command: trace up$' "$tmp/out" &&
	grep -q '^served [1-9][0-9]* requests, 0 debug lines$' "$tmp/out"
ok "and_none_while_all_are_off" $?

"$examples/selfcheck" 20 >"$tmp/out" 2>/dev/null
grep '^{' "$tmp/out" | jq -e -s 'length > 0 and all(.[]; .type == "race" and
	.grade == "A" and .first.module == "selfcheck" and (.first.stack | length > 1))' >/dev/null &&
	grep -q '^served [0-9]* requests, [1-9][0-9]* races were reported$' "$tmp/out"
ok "the_server_finds_its_own_race" $?

"$examples/selfcheck" 1.5 right >"$tmp/out" 2>/dev/null
grep -q '^served [0-9]* requests, 0 races were reported$' "$tmp/out"
ok "and_none_where_there_is_a_lock" $?

if [ "$(uname -m)" = x86_64 ]; then
	"$examples/heapcheck" >"$tmp/out" 2>/dev/null
	jq -e -s 'length == 1 and .[0].kind == "use-after-free" and .[0].first.stack[0].module == "heapcheck"' "$tmp/out" >/dev/null
	ok "the_server_finds_the_error_in_its_heap" $?
	"$examples/heapcheck" right >"$tmp/out" 2>/dev/null && [ ! -s "$tmp/out" ]
	ok "and_none_where_there_is_none" $?
	for backend in poll poke signal watch; do
		"$examples/collector" $backend 50 6 >"$tmp/out" 2>&1
		ok "the_collector_keeps_living_lists_by_$backend" $?
	done
fi

finished
