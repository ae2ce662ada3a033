#!/bin/sh
# SPDX-License-Identifier: MIT
# test_at.sh TRAPLINE VICTIMS - exact points from the command line, and --each occurrence. TAP.

# shellcheck source=tests/cli/tap.sh disable=SC2154 # its variables come from there
. "$(dirname "$0")/tap.sh"

run()
{
	timeout -k 2 100 "$trapline" "$@" >"$tmp/out" 2>"$tmp/err"
}

# wrong NAME PATTERN ARGUMENT...: status 2, and one line that has the pattern.
wrong()
{
	name=$1
	pattern=$2
	shift 2
	run at "$@"
	[ $? = 2 ] && [ "$(wc -l <"$tmp/err")" = 1 ] && grep -q "^trapline at: .*$pattern" "$tmp/err"
	ok "$name" $?
}

# left_stopped POINT COMMAND...: by --stop, and it continues and ends well. What it printed is in out.
left_stopped()
(
	point=$1
	shift
	: >"$tmp/err"
	timeout -k 2 60 "$trapline" at "$point" --stop -- "$@" >"$tmp/out" 2>"$tmp/err" &
	for _ in $(seq 200); do
		grep -q 'is stopped' "$tmp/err" && break
		sleep 0.2
	done
	pid=$(sed -n 's/.*process \([0-9]*\) is stopped.*/\1/p' "$tmp/err")
	[ -n "$pid" ] && grep -q '^State:.*T' "/proc/$pid/status" && kill -CONT "$pid" && wait $!
)

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
[ $? = 1 ] && grep -q '^trapline at: cannot reach put_line@0: the point was missed' "$tmp/err"
ok "an_amount_that_is_over_at_the_place_is_told" $?

# --- system calls ---

system_calls()
{
	run at 'put_line#3' --counter syscalls --json -o "$tmp/first" -- "$victims/reentrant"
	value=$(jq .value "$tmp/first")
	reached=0
	i=0
	while [ $i -lt 5 ]; do # not `for _`: the shell's $_ may be in the environment, and on the stack
		i=$((i + 1))
		run at "put_line@$value" --counter syscalls --json -o "$tmp/second" -- "$victims/reentrant"
		[ $? = 0 ] && jq -e --slurpfile first "$tmp/first" '.counter == "syscalls" and
			.value == $first[0].value and .regs == $first[0].regs' "$tmp/second" >/dev/null &&
			reached=$((reached + 1))
	done
	echo "# $value system calls; $reached of 5 runs at the same point"
	[ $reached = 5 ]
	ok "a_point_by_system_calls_that_another_run_told" $?

	run at "put_line@$value+20" --counter syscalls --json -o "$tmp/first" -- "$victims/reentrant"
	run at 'put_line#3+20' --json -o "$tmp/second" -- "$victims/reentrant"
	[ "$(jq -c '.ip, .regs, .steps' "$tmp/first")" = "$(jq -c '.ip, .regs, .steps' "$tmp/second")" ] &&
		jq -e --argjson v "$value" '.value == $v and .steps == 20' "$tmp/first" >/dev/null
	ok "steps_from_an_amount_are_steps_from_its_pass" $?

	# The program makes five calls between two passes.
	run at "put_line@$((value - 1))" --counter syscalls -- "$victims/reentrant"
	[ $? = 1 ] && grep -q 'the point was missed: the count is [0-9]*, [0-9]* past it' "$tmp/err"
	ok "system_calls_that_are_no_point_are_a_miss_with_the_distance" $?

	hidden='mount -t tmpfs tmpfs /sys/kernel/tracing && mount -t tmpfs tmpfs /sys/kernel/debug && exec "$@"'
	# shellcheck disable=SC2016 # what is quoted is for that shell
	if unshare -m true 2>/dev/null && [ -d /sys/kernel/debug ]; then
		unshare -m sh -c "$hidden" sh "$trapline" at 'put_line#1' --counter syscalls -- \
			"$victims/reentrant" >"$tmp/out" 2>"$tmp/err"
		[ $? = 2 ] && grep -q 'raw_syscalls:sys_enter' "$tmp/err" && ! grep -q line "$tmp/out"
		ok "without_the_tracepoint_the_reason_is_told" $?
	else
		ok "without_the_tracepoint_the_reason_is_told # SKIP a mount namespace of its own" 0
	fi
}

if [ -r /sys/kernel/tracing/events/raw_syscalls/sys_enter/id ]; then
	system_calls
else
	ok "points_by_system_calls # SKIP the tracepoint raw_syscalls:sys_enter (tracefs)" 0
fi

# --- single steps ---

# Where each step leads, as the instructions of line() tell: five rounds of rep stosb, getpid() and
# kill() a step each, two instructions of the handler and two of libc's return from it.
run at 'line#1' --json -o "$tmp/first" -- "$victims/steps"
base=$(jq -r .ip "$tmp/first")
landed=0
steps=0
for offset in 0 1 2 3 4 11 16 16 16 16 16 18 19 24 26 28 33 38 40 on_signal __restore_rt \
	__restore_rt 40 main; do
	run at "line#1+$steps" --json -o "$tmp/second" -- "$victims/steps"
	status=$?
	ip=$(jq -r .ip "$tmp/second")
	there=$(jq -r .function "$tmp/second")
	case $offset in
	[0-9]*) [ $((ip - base)) = "$offset" ] && [ "$there" = line ] ;;
	__restore_rt) [ "$there" != line ] && [ "$there" != on_signal ] && [ "$there" != main ] ;;
	*) [ "$there" = "$offset" ] ;;
	esac && [ $status = 0 ] && grep -q '^handled 1$' "$tmp/out" &&
		jq -e --argjson k $steps '.steps == $k and .ip == .regs.rip' "$tmp/second" >/dev/null &&
		landed=$((landed + 1))
	steps=$((steps + 1))
done
echo "# $landed of $steps places after 0, 1, 2... steps"
[ $landed = $steps ] && [ $steps = 24 ]
ok "each_step_lands_where_the_instructions_say" $?

# What pushf has put into rax, and syscall into r11: bit 8 is the trap flag.
run at 'line#1+3' --json -o "$tmp/first" -- "$victims/steps"
run at 'line#1+14' --json -o "$tmp/second" -- "$victims/steps"
[ $(($(jq -r .regs.rax "$tmp/first") & 0x102)) = 2 ] && [ $(($(jq -r .regs.r11 "$tmp/second") & 0x102)) = 2 ]
ok "the_program_does_not_see_that_it_is_stepped" $?

run at 'spin+5#101' --json -o "$tmp/first" -- "$victims/steps"
run at 'spin+5#1+300' --json -o "$tmp/second" -- "$victims/steps"
what='.ip, (.regs | del(.rdi))' # its process id
[ "$(jq -c "$what" "$tmp/first")" = "$(jq -c "$what" "$tmp/second")" ]
ok "a_hundred_rounds_of_three_steps_are_the_hundred_and_first_pass" $?

run at 'put_line#2+500' --snapshot --json -o "$tmp/first" -- "$victims/reentrant"
run at 'put_line#2+500' --snapshot --json -o "$tmp/second" -- "$victims/reentrant"
[ $? = 0 ] && cmp -s "$tmp/first" "$tmp/second" && jq -e '.steps == 500 and .count == 2 and
	(.stack | length > 0)' "$tmp/first" >/dev/null
ok "two_runs_of_steps_are_alike_byte_for_byte" $?

run at 'put_line#2+1000000' --signal ALRM -- "$victims/reentrant"
[ $? = 1 ] && made=$(sed -n 's/.* 1000000 steps: .* ended, .* after \([0-9]*\)$/\1/p' "$tmp/err") &&
	[ "$(grep -c . "$tmp/out")" = 15 ] && [ "${made:-0}" -gt 100 ] &&
	run at "put_line#2+$made" --json -- "$victims/reentrant" &&
	! run at "put_line#2+$((made + 1))" --json -- "$victims/reentrant"
ok "a_program_that_ends_in_the_window_is_told_with_the_steps_it_made" $?

run at 'in_thread#1+1000000' -- "$victims/steps" thread
[ $? = 1 ] && grep -q '^trapline at: cannot make 1000000 steps: thread [0-9]* ended, .* after [0-9]*$' "$tmp/err" &&
	grep -q '^handled 1$' "$tmp/out"
ok "so_is_a_thread_and_the_program_goes_on" $?

run at 'in_thread#1+1000000' -- "$victims/steps" execute
[ $? = 1 ] && grep -q 'executed another program, after [0-9]*$' "$tmp/err" &&
	grep -q '^executed$' "$tmp/out"
ok "a_thread_that_executes_a_program_is_told_and_that_runs" $?

run at 'in_thread#1+1000000' -- "$victims/steps" kill
[ $? = 1 ] && grep -q 'cannot make 1000000 steps: .* after [0-9]*$' "$tmp/err" && [ ! -s "$tmp/out" ]
ok "a_process_that_is_killed_in_the_window_is_told" $?

run at 'line#1+2' --signal USR1 -- "$victims/steps"
[ $? = 0 ] && grep -q '^handled 2$' "$tmp/out"
ok "a_signal_is_delivered_after_the_steps" $?

run at 'spin+5#1+40000' -- "$victims/steps" alarm
[ $? = 0 ] && grep -q '^handled 2$' "$tmp/out"
ok "a_signal_that_comes_while_stepping_is_handled" $?

left_stopped 'spin+5#1+40000' "$victims/steps" continue
ok "who_is_let_go_meanwhile_stands_after_the_last_step" $?

run at 'write#3' --snapshot -- "$victims/reentrant"
[ $? = 0 ] && grep -q '^at write#3:' "$tmp/err" && grep -q '#1 .* main' "$tmp/err" &&
	[ "$(grep -c '^line' "$tmp/out")" = 3 ]
ok "a_snapshot_has_registers_and_the_stack_and_the_program_goes_on" $?

run at 'write#400' -- "$victims/reentrant"
[ $? = 1 ] && grep -q '^trapline at: cannot reach write#400: the program ended after 15 occurrences$' "$tmp/err" && [ "$(grep -c . "$tmp/out")" = 15 ]
ok "a_point_that_is_not_reached_is_told_and_the_program_ends" $?

left_stopped 'put_line#1' "$victims/reentrant"
ok "stop_leaves_it_stopped_until_it_is_resumed" $?

run at --signal SIGALRM --each write -- "$victims/reentrant"
[ $? = 1 ] && [ "$(grep -c '^write#' "$tmp/out")" = 3 ] &&
	grep -q '^write: 15 runs, 3 broken$' "$tmp/out" &&
	grep -q "^reproduce: trapline at 'write#5' --signal SIGALRM -- " "$tmp/out"
ok "each_finds_the_three_occurrences_and_the_first_reproduces_it" $?

run at --signal SIGALRM --each 'write if arg2 == 2' -- "$victims/reentrant"
[ $? = 0 ] && [ "$(cat "$tmp/out")" = 'write: 12 runs, none broken' ]
ok "each_of_safe_occurrences_is_one_line" $?

run at --signal SIGALRM --each write --limit 3 -v -o "$tmp/first" -- "$victims/reentrant"
[ $? = 0 ] && [ ! -s "$tmp/out" ] && [ "$(grep -c '^write#[123]: not broken$' "$tmp/first")" = 3 ] &&
	grep -q '^write: 3 runs, none broken; more occurrences may follow (--limit N)$' "$tmp/first"
ok "verbose_prints_the_runs_that_are_not_broken" $?

run at --signal SIGALRM --each write --limit 4 -j \
	--check '! grep -q alarm' -- "$victims/reentrant"
[ $? = 1 ] && tail -n 1 "$tmp/out" | jq -e '.type == "summary" and .runs == 4 and .broken == 4' \
	>/dev/null
ok "a_check_of_the_output_decides" $?

# What a kill leaves behind: --check decides, where without it each kill is broken.
run at --signal SIGKILL --each write --limit 4 --check '[ "$STATUS" = 137 ] || [ "$STATUS" = 0 ]' -- \
	"$victims/reentrant"
[ $? = 0 ] && grep -q '^write: [1-4] runs, none broken' "$tmp/out"
ok "a_kill_is_judged_by_the_check" $?
run at --signal SIGKILL --each write --limit 4 --check '[ "$STATUS" = 0 ]' -- "$victims/reentrant"
[ $? = 1 ] && grep -q 'check failed' "$tmp/out"
ok "and_a_check_may_call_it_broken" $?
run at --signal SIGKILL --each write --limit 4 -- "$victims/reentrant"
[ $? = 1 ] && grep -q 'killed by SIGKILL' "$tmp/out"
ok "without_a_check_a_kill_is_broken" $?
run at --signal SIGALRM --each write --limit 2 -- sh -c 'echo; exit 3'
grep -q 'note: without a signal the command ends with status 3, which counts as right' "$tmp/err"
ok "a_status_of_failure_without_a_signal_is_said" $?

# ended_early SIGNAL: no file and no run is left, whatever ends the command.
folders()
{
	find /tmp -maxdepth 1 -name 'trapline-at-*' | sort
}
left=$(folders)
has_ended()
{
	! pgrep -f '^sleep 61.25'
}
ended_early()
{
	"$trapline" at --signal SIGALRM --each write -- sleep 61.25 >"$tmp/out" 2>"$tmp/err" &
	observer=$!
	eventually pgrep -f '^sleep 61.25'
	kill -"$1" $observer
	wait $observer 2>/dev/null
	status=$?
	eventually has_ended && [ "$(folders)" = "$left" ]
}
ended_early INT && [ $status = 130 ]
ok "each_leaves_nothing_when_it_is_interrupted" $?
ended_early KILL && [ $status = 137 ]
ok "each_leaves_nothing_when_it_is_killed" $?

wrong "an_amount_needs_a_counter" 'LOCATION@AMOUNT needs --counter NAME (example: --counter syscalls)$' 'write@5' -- true
wrong "an_unknown_counter_is_refused" "invalid --counter 'apples': expected branches|instructions|cycles|page-faults|syscalls$" 'write@5' --counter apples -- true
wrong "an_amount_is_a_number" "invalid point 'write@x': expected 'LOCATION#N\[+K\] \[if COND\]' (example: 'malloc#1000')" 'write@x' --counter cycles -- true
wrong "steps_are_a_number" "invalid step count '+x': expected 0 to 1000000 (example: +12)$" 'write#1+x' -- true
wrong "steps_do_not_go_back" "'+-1'" 'write#1+-1' -- true
wrong "steps_are_not_nothing" "'+'" 'write@5+' --counter syscalls -- true
wrong "steps_have_a_limit" "'+1000001'" 'write#1+1000001' -- true
wrong "steps_need_an_occurrence" "invalid occurrence '#'" 'write#+5' -- true
wrong "a_point_needs_a_number" "invalid point 'malloc'" malloc -- true
wrong "occurrences_begin_at_1" "invalid occurrence '#0': expected a number from 1 (example: #1000)$" 'malloc#0' -- true
wrong "an_unknown_function_gets_a_near_one" "did you mean put_line" 'put_lime#1' -- "$victims/reentrant"
wrong "a_function_with_a_copy_is_two_points" "twice is 1 function and 1 inlined copy, and a point needs one: write twice+0 for the function, or FUNCTION+OFFSET of a copy (trapline break -l 'twice' lists them)$" 'twice#1' -- "$victims/steps"
run at 'twice+0#1' --json -- "$victims/steps"
[ $? = 0 ] && grep '"point"' "$tmp/out" | jq -e '.function == "twice"' >/dev/null
ok "the_function_without_its_copy_is_one_point" $?
wrong "copies_are_as_many_points" "add_inlined is 2 inlined copies, and a point needs one: give FUNCTION+OFFSET of one (trapline break -l 'add_inlined' lists them)$" 'add_inlined#1' -- "$victims/calls"

# Where libc's debug information is installed the loader has 45 inlined copies of its own.
run at 'malloc#1' --snapshot -- "$victims/steps"
[ $? = 0 ] && grep -q '^at malloc#1:$' "$tmp/err" && grep -q '^    #0  [_a-z]*malloc .*in libc.so.6$' "$tmp/err"
ok "the_example_of_the_help_works" $?
wrong "an_unknown_signal_is_reported" "no signal is named 'SIGFOO'; such as SIGALRM or 14$" 'write#1' --signal SIGFOO -- true
run at 'write#1 if arg0 ==' -- true
[ $? = 2 ] && grep -q '^trapline at: condition, column 8: expected a number' "$tmp/err"
ok "a_wrong_condition_is_reported" $?
wrong "a_command_is_needed" "no command: give it after -- (example: trapline at 'malloc#1000' -- ./program), or -p PID$" 'malloc#1'
wrong "a_point_is_needed" "no point: give LOCATION#N (example: 'malloc#1000'), or --each LOCATION$" -- true
wrong "one_point_is_enough" "unexpected argument 'b#1': give one point" 'a#1' 'b#1' -- true
wrong "each_needs_a_signal" "\-\-each needs --signal SIG (example: --signal SIGALRM)$" --each write -- true
wrong "each_counts_by_itself" "invalid --each 'write#2': expected a location without #N" --each 'write#2' --signal 14 -- true
wrong "each_names_the_location" "unexpected argument 'write#2': --each names the location$" --each write 'write#2' --signal 14 -- true
wrong "each_does_not_stop" "\-\-stop cannot be combined with --each$" --each write --signal 14 --stop -- true
wrong "limit_needs_each" "\-\-limit needs --each LOCATION$" 'write#2' -n 3 -- true
wrong "each_of_an_unknown_function_is_reported_once" "no function is named 'nosuch'" --each nosuch --signal 14 -- "$victims/reentrant"
wrong "a_check_that_always_fails_is_noticed" "\-\-check fails for a run without a signal" --signal ALRM --each write --check false -- true

finished
