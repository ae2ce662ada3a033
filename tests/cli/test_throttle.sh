#!/bin/sh
# SPDX-License-Identifier: MIT
# test_throttle.sh TRAPLINE VICTIMS - programs keep to their budget under `trapline throttle`. TAP.
# Only upper bounds of what was drawn: they hold on any machine, however busy.

# shellcheck source=tests/cli/tap.sh disable=SC2154 # its variables come from there
. "$(dirname "$0")/tap.sh"

throttle()
{
	timeout -k 2 60 "$trapline" throttle "$@" >"$tmp/out" 2>"$tmp/err"
}

# got MAXIMUM: the share of a CPU in the summary is above 0 and at most this.
got()
{
	sed -n 's/.*got \([0-9.]*\)% of a CPU.*/\1/p' "$tmp/err" |
		awk -v most="$1" '{ n++; good = $1 > 0 && $1 <= most } END { exit !(n && good) }'
}

wrong()
{
	name=$1
	pattern=$2
	shift 2
	throttle "$@"
	[ $? = 2 ] && grep -q "^trapline throttle: .*$pattern" "$tmp/err"
	ok "$name" $?
}

throttle --cpu 30% -- "$victims/spinner" 1 1.5
[ $? = 0 ] && got 33
ok "one_thread_keeps_to_its_share" $?

throttle --cpu 0.4 -- "$victims/spinner" 8 1.5
[ $? = 0 ] && got 46
ok "eight_threads_share_one_budget" $?

throttle --cpu 40% -- sh -c "'$victims/spinner' 1 1.5 & '$victims/spinner' 1 1.5; wait"
[ $? = 0 ] && got 46 && grep -q 'begun in [3-9] programs' "$tmp/err"
ok "processes_draw_from_the_same_account" $?

throttle --cpu 50% -- sh -c 'exit 7'
[ $? = 7 ]
ok "the_status_of_the_command_is_ours" $?

for mode in seccomp seccomp_child; do
	throttle --cpu 30% -- "$victims/race_guest" $mode
	[ $? = 1 ] && grep -q 'ran without a budget: a seccomp filter' "$tmp/err"
	ok "${mode}_is_let_go_before_it_forbids_our_calls" $?
done

start spinner 2 20
throttle -p $pid --cpu 20% --for 2
[ $? = 0 ] && got 25 && kill -0 $pid
ok "a_running_process_is_throttled_and_goes_on" $?
kill $pid
wait $pid 2>/dev/null

wrong "a_budget_is_needed" "how much" -- true
wrong "a_wrong_share_is_said" "such as 30%" --cpu fast -- true
wrong "an_unknown_counter_is_said" "no counter 'unicorns'" --count unicorns=1/s -- true
wrong "a_static_program_is_refused" "linked statically" --cpu 10% -- "$victims/static_victim"
wrong "no_program_is_said" "which program" --cpu 10%
wrong "no_process_is_said" "no process 99999999" --cpu 10% -p 99999999

finished
