#!/bin/sh
# SPDX-License-Identifier: MIT
# test_throttle_command.sh TRAPLINE VICTIMS - programs keep to their budget under `trapline throttle`. TAP.
# Only upper bounds of what was drawn: they hold on any machine, however busy.

# shellcheck source=tests/cli/tap.sh disable=SC2154 # its variables come from there
. "$(dirname "$0")/tap.sh"

throttle()
{
	timeout -k 2 60 "$trapline" throttle "$@" >"$tmp/out" 2>"$tmp/err"
}

# got MAXIMUM: the share of a CPU in the summary line is above 0 and at most this.
got()
{
	sed -n 's/^trapline throttle: CPU \([0-9.]*\)% (budget [0-9.]*%) in .* s$/\1/p' "$tmp/err" |
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
[ $? = 0 ] && got 33 && [ "$(wc -l <"$tmp/err")" = 1 ]
ok "one_thread_keeps_to_its_share" $?

throttle --cpu 0.4 -- "$victims/spinner" 8 1.5
[ $? = 0 ] && got 46
ok "eight_threads_share_one_budget" $?

throttle -v --cpu 40% -- sh -c "'$victims/spinner' 1 1.5 & '$victims/spinner' 1 1.5; wait"
[ $? = 0 ] && got 46 && grep -q '^processes throttled: [3-9]$' "$tmp/err" &&
	grep -q '^budget 1: [0-9]* checks, [0-9]* sleeps, [0-9.]* s asleep$' "$tmp/err"
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

# descriptors: of the process, and what they are.
descriptors()
{
	for fd in "/proc/$pid/fd"/*; do
		echo "${fd##*/} $(readlink "$fd")"
	done
}

start closer
descriptors >"$tmp/before"
throttle -p $pid --cpu 20% --for 0.3
status=$?
descriptors >"$tmp/out"
[ $status = 0 ] && cmp -s "$tmp/before" "$tmp/out"
ok "no_descriptor_stays_in_a_running_process" $?

"$trapline" throttle -p $pid --cpu 20% --for 5 2>"$tmp/err" &
throttling=$!
# Of a thread of ours, in a table of its own: none of the numbers is the program's.
has_events()
{
	find "/proc/$pid"/task/*/fd -lname '*perf_event*' 2>/dev/null | grep -q . && ! descriptors | grep -q perf_event
}
eventually has_events
status=$?
sleep 0.5
kill -USR1 $pid
wait $throttling
# Without its events it would use two CPUs, or all there is.
[ $? = 0 ] && [ $status = 0 ] && got 25
ok "a_process_that_closes_all_descriptors_keeps_its_budget" $?
kill $pid
wait $pid
[ $? = 0 ] && grep -q '^ok$' "$tmp/victim"
ok "and_its_own_files_at_their_numbers_stay_open" $?

# in_debt N: its threads sleep for seconds in a check while it closes all.
in_debt()
{
	"$victims/closer" >"$tmp/closer$1" &
	closer=$!
	timeout -k 2 60 "$trapline" throttle -p $closer --cpu 2% --for 6 2>"$tmp/err$1" &
	throttling=$!
	pid=$closer
	eventually has_events
	sleep 0.5
	kill -USR1 $closer
	wait $throttling && grep -q 'budget 2.0%' "$tmp/err$1"
	status=$?
	kill $closer
	wait $closer && grep -q '^ok$' "$tmp/closer$1" && return $status
}
debtors=
for i in 1 2 3 4 5 6; do
	in_debt $i &
	debtors="$debtors $!"
done
status=0
for debtor in $debtors; do
	wait "$debtor" || status=1
done
ok "and_one_that_closes_them_while_threads_sleep_in_a_check_too" $status

# --- processes that the agent is not in ---

# last LINE: what the last line is; PID stands for a number.
last()
{
	[ "$(tail -n 1 "$tmp/err" | sed 's/process [0-9]*/process PID/')" = "trapline throttle: $1" ]
}

# shellcheck disable=SC2016 # what is quoted is for that shell
throttle --cpu 30% -- sh -c '"$1" & sleep 1; kill $!' sh "$victims/static_victim"
[ $? = 1 ] && last 'throttle did not cover static_victim (process PID): it is linked statically; link it dynamically'
ok "a_static_child_is_reported" $?

throttle --cpu 30% -- env -i sleep 1
[ $? = 1 ] && last 'throttle did not cover sleep (process PID): it was started without the environment variable LD_PRELOAD; keep this variable'
ok "a_child_without_the_environment_is_reported" $?

# What the command leaves behind has other parents.
throttle --cpu 20% -- sh -c 'setsid timeout 1 "$1" & exit 3' sh "$victims/busy"
[ $? = 3 ] && got 25 && grep -q 'note: sh ended and left [12] process.*: the budget stays until the last one ends' "$tmp/err"
ok "a_daemon_keeps_the_budget_until_it_ends" $?

throttle --cpu 20% -- sh -c '(setsid "$1" & echo $! >"$2") & sleep 1' sh "$victims/static_victim" "$tmp/daemon"
[ $? = 1 ] && last 'throttle did not cover static_victim (process PID): it is linked statically; link it dynamically'
status=$?
kill "$(cat "$tmp/daemon")"
ok "a_static_daemon_is_reported" $status

throttle --cpu 20% -- sh -c 'setsid true & wait'
[ $? = 0 ] && ! grep -q note: "$tmp/err"
ok "a_command_that_leaves_nothing_ends_at_once" $?

printf '#!%s\n' "$victims/static_victim" >"$tmp/script"
chmod +x "$tmp/script"
"$trapline" throttle --cpu 30% -- "$tmp/script" 2>"$tmp/err" &
pid=$!
sleep 1
kill $pid
wait $pid
[ $? = 1 ] && last 'throttle covered no process: script (process PID): it is linked statically; link it dynamically'
ok "no_process_at_all_is_reported" $?

throttle --cpu 30% -- sh -c 'sleep 0.5; ls / >/dev/null'
[ $? = 0 ] && [ "$(wc -l <"$tmp/err")" = 1 ]
ok "children_with_the_agent_are_not" $?

printf '\177ELF\1\1\1' >"$tmp/elf32"
head -c 64 /dev/zero >>"$tmp/elf32"
chmod +x "$tmp/elf32"

# Some seconds of work, which take minutes within that budget: longer than throttle() waits.
# shellcheck disable=SC2016 # what is quoted is for that shell
throttle --cpu 1% --for 0.3 -- sh -c 'i=0; while [ $i -lt 1500000 ]; do i=$((i + 1)); done'
[ $? = 0 ] && grep -q '^trapline throttle: note: the budget is lifted; waiting for sh (process [0-9]*) to end$' "$tmp/err"
ok "for_lifts_the_budget_of_a_command_which_continues" $?

# --- processes that cannot be reached ---

sh -c 'true & exec sleep 20' &
parent=$!
eventually grep -q . "/proc/$parent/task/$parent/children"
zombie=$(tr -d ' ' <"/proc/$parent/task/$parent/children")
eventually grep -q '^State:.Z' "/proc/$zombie/status"
wrong "a_zombie_is_reported" "process $zombie: it has ended, and waits for its parent (zombie)$" --cpu 10% -p "$zombie"
kill $parent

"$victims/injectee" ends >"$tmp/victim" &
pid=$!
started="$started $pid"
eventually grep -q '^State:.Z' "/proc/$pid/status"
wrong "a_process_without_its_first_thread_is_reported" \
	"process $pid: its first thread has ended, and code is loaded by that thread; start the program with this command$" \
	--cpu 10% -p "$pid"
kill "$pid"

if grep -q '^Name:.kthreadd' /proc/2/status 2>/dev/null; then
	wrong "a_kernel_thread_is_reported" "process 2 is a kernel thread: it has no program to throttle$" --cpu 10% -p 2
else
	ok "a_kernel_thread_is_reported # SKIP the first PID namespace" 0
fi

if command -v script >/dev/null; then
	start spinner 1 20
	TERM=xterm script -qec "'$trapline' throttle -p $pid --cpu 50% --for 1" /dev/null >"$tmp/out"
	grep -q 'CPU [0-9.]*% (budget 50.0%) in [0-9.]* s; Ctrl-C ends' "$tmp/out"
	ok "a_terminal_shows_the_progress" $?
	kill "$pid"
else
	ok "a_terminal_shows_the_progress # SKIP script(1)" 0
fi

cpus=$(getconf _NPROCESSORS_ONLN)
wrong "a_budget_is_needed" "no budget: give --cpu, --faults or --counter (example: --cpu 30%)$" -- true
wrong "a_wrong_share_is_reported" "invalid --cpu 'fast': expected a share of one CPU (examples: 30%, 0.3)$" --cpu fast -- true
wrong "a_share_without_its_sign_is_noticed" \
	"\-\-cpu 30 means 3000%, more than this machine's ${cpus}00%: did you mean 30%?$" --cpu 30 -- true
wrong "a_share_of_more_than_there_is_limits_nothing" \
	"\-\-cpu 1e9% is more than this machine's ${cpus}00%: it would limit nothing$" --cpu 1e9% -- true
wrong "an_unknown_counter_is_reported" "unknown counter 'unicorns': expected task-clock, " --counter unicorns=1/s -- true
wrong "a_static_program_is_refused" "linked statically" --cpu 10% -- "$victims/static_victim"
wrong "a_32_bit_program_is_refused" "elf32 is a 32-bit program: the agent is for 64-bit programs$" --cpu 10% -- "$tmp/elf32"
wrong "a_program_is_needed" "no program: give -p PID, or -- CMD ARG... to start one$" --cpu 10%
wrong "a_missing_process_is_reported" "no process 99999999" --cpu 10% -p 99999999

finished
