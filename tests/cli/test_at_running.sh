#!/bin/sh
# SPDX-License-Identifier: MIT
# test_at_running.sh TRAPLINE VICTIMS - exact points in a process that runs already. TAP. Needs root.

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/tap.sh"
need_uprobes
need jq
command='at'

# is_in PID LETTER: the state of its first thread.
is_in()
{
	grep -q "^State:.$2" "/proc/$1/status"
}

runs_on()
{
	is_in "$1" '[RSD]'
}

start calls
calls=$pid

watch -p "$calls" 'lookup#3' --json --snapshot
[ $? = 0 ] && jq -e '.type == "point" and .count == 3 and (.stack[0].function == "lookup" or .function == "lookup")' "$tmp/out" >/dev/null
ok "the_third_call_from_now_on_is_a_point" $?
eventually runs_on "$calls"
ok "the_process_continues" $?

watch -p "$calls" 'lookup#1' --snapshot
[ $? = 0 ] && grep -q '^at lookup#1:$' "$tmp/err" && grep -q '^    #0  lookup (calls.c:' "$tmp/err"
ok "the_next_call_is_a_point" $?

watch -p "$calls" 'lookup#2 if arg2 == 1' --json --snapshot
[ $? = 0 ] && jq -e '.count == 2' "$tmp/out" >/dev/null
ok "occurrences_with_a_condition_count" $?

# A step of an instruction with a uprobe looks like a SIGTRAP that was sent.
"$trapline" break -p "$calls" lookup --mechanism uprobe --summary >"$tmp/summary" 2>"$tmp/arming" &
breaker=$!
started="$started $breaker"
eventually grep -q '^breaking on' "$tmp/arming"
sleep 0.3
watch -p "$calls" 'lookup#2+20' --snapshot
[ $? = 0 ] && grep -q '^at lookup#2+20:$' "$tmp/err" && eventually runs_on "$calls"
ok "a_step_of_a_uprobe_of_another_is_a_step" $?
watch -p "$calls" 'lookup#2' --snapshot
[ $? = 0 ] && eventually runs_on "$calls"
ok "a_point_without_steps_is_not_disturbed_by_it" $?
kill -INT $breaker
wait $breaker

watch -p "$calls" 'lookup#1' --stop
[ $? = 0 ] && is_in "$calls" T && grep -q "process $calls is stopped in thread" "$tmp/err"
ok "it_is_left_stopped" $?
wrong "a_stopped_process_is_refused" "process $calls is stopped already" -p "$calls" 'lookup#1'
is_in "$calls" T && kill -CONT "$calls" && eventually runs_on "$calls"
ok "a_refusal_leaves_it_stopped" $?

"$trapline" at -p "$calls" 'lookup#1 if arg2 == 77' >"$tmp/out" 2>"$tmp/err" &
waiter=$!
sleep 1
runs_on "$calls"
ok "it_runs_while_the_point_is_awaited" $?
kill -KILL $waiter
wait $waiter 2>/dev/null
sleep 0.3
eventually runs_on "$calls"
ok "a_killed_command_leaves_it_running" $?

watch -p "$calls" 'lookup#1' --signal KILL
[ $? = 0 ] && eventually test ! -e "/proc/$calls/exe"
ok "a_signal_is_delivered_there" $?

# The kernel resets an ignored SIGTRAP at a step: the steps are refused, the point is not.
# shellcheck disable=SC2154 # victims is of tap.sh
sh -c "trap '' TRAP; exec '$victims/calls'" >/dev/null 2>&1 &
pid=$!
started="$started $pid"
eventually runs "$pid" calls
ignored=$(grep SigIgn "/proc/$pid/status")
watch -p "$pid" 'lookup#2+20' --snapshot
[ $? = 1 ] && grep -q "cannot make 20 steps: thread [0-9]* ignores SIGTRAP" "$tmp/err" &&
	eventually runs_on "$pid" && [ "$(grep SigIgn "/proc/$pid/status")" = "$ignored" ]
ok "steps_of_a_thread_that_ignores_sigtrap_are_refused" $?
watch -p "$pid" 'lookup#2' --snapshot
[ $? = 0 ] && eventually runs_on "$pid" && [ "$(grep SigIgn "/proc/$pid/status")" = "$ignored" ]
ok "a_point_in_it_is_not" $?

start calls 2000 1000
watch -p "$pid" 'lookup#1000000'
[ $? = 1 ] && grep -q 'the program ended after [0-9]* occurrence' "$tmp/err"
ok "a_process_that_ends_before_is_reported" $?

wrong "one_target_is_enough" "give -p PID or -- CMD, not both" -p 1 'lookup#1' -- true
wrong "each_needs_a_command" "-p PID cannot be combined with --each" -p 1 --each lookup --signal 14
wrong "counters_need_a_command" "--counter cannot be combined with -p PID" -p $$ 'lookup#1' -c syscalls
wrong "an_unknown_process_is_refused" "there is no process 99999999" -p 99999999 'lookup#1'

finished
