#!/bin/sh
# SPDX-License-Identifier: MIT
# test_examples.sh DIRECTORY - the programs in examples/ do what they say. TAP.

count=0
failed=0

# ok NAME STATUS: the last command's status decides.
ok()
{
	count=$((count + 1))
	if [ "$2" = 0 ]; then
		echo "ok $count - $1"
	else
		echo "not ok $count - $1"
		failed=$((failed + 1))
		printf '%s\n' "$out" | sed 's/^/# /'
	fi
}

# The share is bounded from above on any machine: what was not earned cannot be drawn.
out=$("$1/compactor" 1.5 2>&1)
printf '%s\n' "$out" | awk '/^compactor:/ { share = $2 } END { exit !(share > 0 && share < 24) }'
ok "the_compactor_keeps_to_its_share" $?

out=$("$1/judge" 1000 2>&1)
printf '%s\n' "$out" | grep -q '^accepted: prime 1000 is 7919$'
ok "the_judge_accepts_what_fits_the_budget" $?

out=$("$1/judge" 100000000 2>&1)
printf '%s\n' "$out" | grep -q '^rejected: the budget is used up$'
ok "the_judge_ends_what_does_not" $?

out=$("$1/selfcheck" 20 2>/dev/null)
printf '%s\n' "$out" | grep '^{' | jq -e -s 'length > 0 and all(.[]; .type == "race" and
	.grade == "A" and .first.module == "selfcheck" and (.first.stack | length > 1))' >/dev/null &&
	printf '%s\n' "$out" | grep -q '^served [0-9]* requests, [1-9][0-9]* races were reported$'
ok "the_server_finds_its_own_race" $?

out=$("$1/selfcheck" 1.5 right 2>/dev/null)
printf '%s\n' "$out" | grep -q '^served [0-9]* requests, 0 races were reported$'
ok "and_none_where_there_is_a_lock" $?

if [ "$(uname -m)" = x86_64 ]; then
	for backend in poll poke signal watch; do
		out=$("$1/collector" $backend 50 6 2>&1)
		ok "the_collector_keeps_living_lists_by_$backend" $?
	done
fi

echo "1..$count"
[ $failed = 0 ]
