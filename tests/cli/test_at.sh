#!/bin/sh
# SPDX-License-Identifier: MIT
# test_at.sh TRAPLINE VICTIMS - exact points from the command line, and sweeps over them. TAP.

# shellcheck source=tests/cli/tap.sh disable=SC2154 # its variables come from there
. "$(dirname "$0")/tap.sh"

run()
{
	timeout -k 2 100 "$trapline" "$@" >"$tmp/out" 2>"$tmp/err"
}

wrong()
{
	name=$1
	pattern=$2
	shift 2
	run "$@"
	[ $? = 2 ] && grep -q "^trapline $1: .*$pattern" "$tmp/err"
	ok "$name" $?
}

if [ "$(id -u)" != 0 ] || [ ! -e /sys/bus/event_source/devices/uprobe/type ]; then
	echo "1..0 # SKIP uprobes (root, CONFIG_UPROBE_EVENTS)"
	exit 0
fi

run at 'write#5' --signal SIGALRM -- "$victims/reentrant"
[ $? = 3 ] && grep -q alarm "$tmp/out"
ok "a_signal_at_the_fifth_write_breaks_it" $?

run at 'write#4' --signal 14 -- "$victims/reentrant"
[ $? = 0 ] && [ "$(grep -c alarm "$tmp/out")" = 1 ]
ok "a_signal_at_the_fourth_does_not" $?

i=0
broken=0
while [ $i -lt 100 ]; do
	i=$((i + 1))
	run at 'write#5' --signal ALRM -- "$victims/reentrant"
	[ $? = 3 ] && broken=$((broken + 1))
done
echo "# $broken of 100 runs broke"
[ $broken = 100 ]
ok "a_hundred_of_a_hundred_times" $?

run at 'put_line#3' --json -o "$tmp/first" -- "$victims/reentrant"
run at 'put_line#3' --json -o "$tmp/second" -- "$victims/reentrant"
cmp -s "$tmp/first" "$tmp/second" && jq -e '.type == "point" and .count == 3 and
	.function == "put_line" and (.regs | length == 17) and .ip == .regs.rip' \
	"$tmp/first" >/dev/null
ok "two_runs_are_at_the_same_point_byte_for_byte" $?

run at 'write#2 if arg2 == 5' --json -- "$victims/reentrant"
[ $? = 0 ] && grep '"point"' "$tmp/out" | jq -e '.count == 2 and .regs.rdx == "0x5"' >/dev/null
ok "a_condition_says_which_passes_count" $?

run at 'put_line#3' --counter page-faults --json -o "$tmp/first" -- "$victims/reentrant"
value=$(jq .value "$tmp/first")
jq -e '.counter == "page-faults" and .count == 3 and .value > 0' "$tmp/first" >/dev/null &&
	run at "put_line@$value if arg0 == $(jq -r .regs.rdi "$tmp/first")" --counter page-faults \
		--json -o "$tmp/second" -- "$victims/reentrant"
[ $? = 0 ] && jq -e --argjson v "$value" '.value == $v and .count == null and
	.function == "put_line"' "$tmp/second" >/dev/null
ok "a_point_by_the_amount_that_another_run_told" $?

run at 'put_line@0' --counter page-faults -- "$victims/reentrant"
[ $? = 1 ] && grep -q 'put_line@0: the point was missed' "$tmp/err"
ok "an_amount_that_is_over_at_the_place_is_told" $?

run at 'write#3' --snapshot -- "$victims/reentrant"
[ $? = 0 ] && grep -q '^at write#3:' "$tmp/err" && grep -q '#1 .* main' "$tmp/err" &&
	[ "$(grep -c '^line' "$tmp/out")" = 3 ]
ok "a_snapshot_has_registers_and_the_stack_and_the_program_goes_on" $?

run at 'write#400' -- "$victims/reentrant"
[ $? = 1 ] && grep -q 'it came to write 15 times' "$tmp/err" && [ "$(grep -c . "$tmp/out")" = 15 ]
ok "a_point_that_is_not_reached_is_told_and_the_program_ends" $?

(
	timeout -k 2 20 "$trapline" at 'put_line#1' --break -- "$victims/reentrant" >"$tmp/out" 2>"$tmp/err" &
	for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
		grep -q 'is stopped' "$tmp/err" && break
		sleep 0.2
	done
	pid=$(sed -n 's/.*process \([0-9]*\) is stopped.*/\1/p' "$tmp/err")
	[ -n "$pid" ] && grep -q '^State:.*T' "/proc/$pid/status" && kill -CONT "$pid" && wait $!
)
ok "break_leaves_it_stopped_until_somebody_lets_it_go_on" $?

run sweep --signal SIGALRM --each write -- "$victims/reentrant"
[ $? = 1 ] && [ "$(grep -c '^write#' "$tmp/out")" = 3 ] &&
	grep -q '^write: 15 runs, 3 broken$' "$tmp/out" &&
	grep -q "^reproduce: trapline at 'write#5' --signal SIGALRM -- " "$tmp/out"
ok "a_sweep_finds_the_three_places_and_the_first_reproduces_it" $?

run sweep --signal SIGALRM --each 'write if arg2 == 2' -- "$victims/reentrant"
[ $? = 0 ] && grep -q '^write: 12 runs, 0 broken$' "$tmp/out"
ok "a_sweep_over_safe_places_finds_nothing" $?

run sweep --signal SIGALRM --each write --runs 4 --json \
	--check '! grep -q alarm' -- "$victims/reentrant"
[ $? = 1 ] && tail -n 1 "$tmp/out" | jq -e '.type == "summary" and .runs == 4 and .broken == 4' \
	>/dev/null
ok "a_check_of_the_output_decides" $?

wrong "an_amount_needs_a_counter" 'an amount of what' at 'write@5' -- true
wrong "an_unknown_counter_is_refused" "not 'apples'" at 'write@5' --counter apples -- true
wrong "an_amount_is_a_number" 'PLACE@AMOUNT' at 'write@x' --counter cycles -- true
wrong "a_point_needs_a_number" "PLACE#N" at malloc -- true
wrong "passes_begin_at_1" "counted from 1" at 'malloc#0' -- true
wrong "an_unknown_function_gets_a_near_one" "did you mean put_line" at 'put_lime#1' -- "$victims/reentrant"
wrong "an_unknown_signal_is_said" "no signal 'SIGFOO'" at 'write#1' --signal SIGFOO -- true
wrong "a_wrong_condition_is_said" "column" at 'write#1 if arg0 ==' -- true
wrong "a_sweep_needs_a_signal" "which signal" sweep --each write -- true
wrong "a_sweep_needs_a_place" "where" sweep --signal ALRM -- true
wrong "a_check_that_always_says_no_is_noticed" "without any signal" sweep --signal ALRM --each write --check false -- true

finished
