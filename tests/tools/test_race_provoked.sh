#!/bin/sh
# SPDX-License-Identifier: MIT
# test_race_provoked.sh TRAPLINE VICTIMS - a failure that stalls provoke is told, with the stall before it,
# and a replay shows it again. TAP.

# shellcheck source=tests/tools/race_lib.sh disable=SC1091,SC2034,SC2154 # shared with it
. "$(dirname "$0")/race_lib.sh"

failure='any(.[]; .type == "failure")'

# provokes NAME MODE SECONDS...: a sweep tells a failure.
provokes()
{
	name=$1
	mode=$2
	shift 2
	for seconds in "$@"; do
		race --sarif "$tmp/sarif" --baseline "$tmp/base" --write-baseline --sweep --for "$seconds" -- "$victims/race_provoked" "$mode"
		if holds "$failure"; then
			ok "$name" 0
			return
		fi
	done
	ok "$name" 1
}

provokes "an assertion that a stall makes fail" assertion 2 5 10 20 40
provokes "a hang that a stall provokes" hang 3 5 10 20 40
cp "$tmp/races.json" "$tmp/known.json"
known=$(jq -r 'select(.type == "failure").known_as' "$tmp/known.json" | head -n 1)
jq -e --arg known "$known" '.runs[0] | .tool.driver.rules as $rules | any(.results[];
	.ruleId == "race/failure" and $rules[.ruleIndex].id == .ruleId and .baselineState == "new" and
	.partialFingerprints["traplineFailure/v1"] == $known and (.relatedLocations | length) >= 1)' \
	"$tmp/sarif" >/dev/null
ok "SARIF has the failure, with the places of the stalls" $?
grep -q "^$known  failure: a hang$" "$tmp/base"
ok "a baseline takes it" $?
for seconds in 3 5 10 20 40; do
	timeout -k 60 120 "$trapline" race --sweep --for "$seconds" --baseline "$tmp/base" \
		--error-exitcode 9 -- "$victims/race_provoked" assertion >"$tmp/out" 2>"$tmp/err"
	status=$?
	grep -q '^killed by SIGABRT in .*: in the baseline$' "$tmp/err" && break
done
[ $status = 0 ] && grep -q '^killed by SIGABRT in .*: in the baseline$' "$tmp/err" &&
	! grep -q '^failure:' "$tmp/err"
ok "a known failure is not reported, and does not count" $?
fingerprint=$(jq -r 'select(.type == "failure").fingerprint' "$tmp/known.json" | head -n 1)
timeout -k 60 120 "$trapline" race --replay "$fingerprint" --input "$tmp/known.json" --for 60 -- \
	"$victims/race_provoked" hang >"$tmp/out" 2>"$tmp/err"
grep -q "replay of $fingerprint: seen 1 time, in 1 of " "$tmp/err"
ok "a replay shows the hang again" $?
grep -q "\"aimed_failed\":[1-9]" "$tmp/known.json" && jq -e -s 'any(.[]; .type == "failure" and .chance < 0.002 and .runs >= 5 and
	.undisturbed_runs >= 5 and .count > .undisturbed_failed)' "$tmp/known.json" >/dev/null
ok "its rates with and without stalls are in the report, and differ by more than chance" $?
blamed=0
compared=0
for _ in 1 2 3 4 5 6; do
	timeout -k 60 120 "$trapline" race --sweep --for 2 --error-exitcode 9 -- "$victims/race_provoked" flaky \
		>"$tmp/out" 2>"$tmp/err"
	[ $? = 9 ] && blamed=$((blamed + 1))
	grep -q '^exit status 1 in .* with stalls, and in [1-9].* without: not reported, ' "$tmp/err" && compared=$((compared + 1))
done
[ $blamed = 0 ] && [ $compared -gt 0 ]
ok "a program that fails by itself in some runs is not blamed on a stall ($blamed of 6, $compared compared)" $?
for mode in mended woken; do
	race --sweep --for 1 -- "$victims/race_provoked" $mode
	! holds "$failure"
	ok "$mode: no failure is told" $?
done
finished
