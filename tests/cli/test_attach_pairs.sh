#!/bin/sh
# SPDX-License-Identifier: MIT
# test_attach_pairs.sh TRAPLINE VICTIMS - while one command has something loaded in a process, a second one is refused
# in a sentence that names the first; after it, it works. What works from outside goes at any time. TAP.

# shellcheck source=tests/cli/tap.sh disable=SC2154 # its variables come from there
. "$(dirname "$0")/tap.sh"

# set_arguments TOOL TIME: of the command, in $arguments.
set_arguments()
{
	case $1 in
	race) arguments="race --inside -p $pid --overhead 5% --for $2" ;;
	throttle) arguments="throttle --cpu 90% -p $pid --for $2" ;;
	probe) arguments="break -p $pid lookup --mechanism probe --max-rate 0 --for $2" ;;
	trace) arguments="break -p $pid lookup --trace --for $2" ;;
	uprobe) arguments="break -p $pid depth --mechanism uprobe --limit 1 --for $2" ;;
	patch) arguments="patch -p $pid --list" ;;
	*) arguments="$1 -p $pid --for $2" ;;
	esac
}

# has_our_object PID
has_our_object()
{
	grep -q memfd:trapline- "/proc/$1/maps"
}

# begin_first TOOL: on a new program; it goes on until end_first.
begin_first()
{
	start calls
	set_arguments "$1" 60
	# shellcheck disable=SC2086 # words
	timeout -k 2 60 "$trapline" $arguments >"$tmp/first" 2>&1 &
	first=$!
	eventually has_our_object "$pid"
	sleep 0.5
}

end_first()
{
	pkill -INT -P $first 2>/dev/null || kill -INT $first
	wait $first 2>/dev/null
}

# second TOOL
second()
{
	set_arguments "$1" 0.2
	# shellcheck disable=SC2086 # words
	timeout -k 2 60 "$trapline" $arguments >"$tmp/out" 2>"$tmp/err"
}

is_alive()
{
	kill -0 "$pid" 2>/dev/null && ! grep -q '^State:.*[TtZ]' "/proc/$pid/status"
}

# is_refused IS TOOL: by one line, beside notes.
is_refused()
{
	[ "$(grep -vc ' note: ' "$tmp/err")" = 1 ] &&
		grep -q "^trapline .*: process $pid $1 another trapline $2 (PID [0-9]*): end that one first$" "$tmp/err"
}

# lacks_registers TOOL... : one of them is race, whose detector needs debug registers to enter a process.
lacks_registers()
{
	[ "${NO_DEBUG_REGISTERS:-}" = 1 ] && case " $* " in *' race '*) ;; *) false ;; esac
}
registers='debug registers that fire (trapline check: watch_write)'

# pairs FIRST IS TOOL: with each other one.
pairs()
{
	for other in race heap flow throttle patch probe trace; do
		if lacks_registers "$1" $other; then
			skip "${other}_during_$1_is_refused" "$registers"
			skip "${other}_after_$1_works" "$registers"
			continue
		fi
		begin_first "$1"
		second $other
		[ $? = 2 ] && is_refused "$2" "$3" && is_alive
		ok "${other}_during_$1_is_refused" $?
		end_first
		second $other
		status=$?
		# Bytes are followed once in a process. A search that has found nothing tells by its status.
		case $1+$other in flow+flow) [ $status = 2 ] ;; *) [ $status -lt 2 ] ;; esac && is_alive
		ok "${other}_after_$1_works" $?
		kill "$pid" 2>/dev/null
	done
	if lacks_registers "$1"; then
		skip "a_break_by_uprobe_during_$1_works" "$registers"
		skip "the_process_lives_after_$1" "$registers"
		return
	fi
	begin_first "$1"
	if [ "$(id -u)" = 0 ]; then
		second uprobe && is_alive
		ok "a_break_by_uprobe_during_$1_works" $?
	else
		skip "a_break_by_uprobe_during_$1_works" root
	fi
	end_first
	is_alive
	ok "the_process_lives_after_$1" $?
	kill "$pid" 2>/dev/null
}

pairs flow 'is followed by' flow
pairs heap 'is sampled by' heap
pairs race 'is searched by' race
pairs throttle 'has a budget of' throttle
pairs probe 'has probes of' break

# Another test may run the same program: that of this command is the child of its child.
started_program()
{
	pgrep -x calls -P "$(pgrep -d, -P $first)"
}

# A program that a command has started is its own, too.
for what in 'flow' 'heap --first 10' 'throttle --cpu 90%' 'race --inside --overhead 5%'; do
	tool=${what%% *}
	if lacks_registers "$tool"; then
		skip "an_attach_to_what_${tool}_has_started_is_refused" "$registers"
		continue
	fi
	# shellcheck disable=SC2086 # words
	timeout -k 2 60 "$trapline" $what -- "$victims/calls" >"$tmp/first" 2>&1 &
	first=$!
	eventually started_program
	pid=$(started_program)
	for _ in $(seq 20); do # on a busy machine its agent may not run yet, which is another reason
		sleep 0.5
		second patch
		refused=$?
		grep -Eq 'not running yet|has not ended' "$tmp/err" || break
	done
	[ $refused = 2 ] && is_refused '[a-z ]*' "$tool" && is_alive
	ok "an_attach_to_what_${tool}_has_started_is_refused" $?
	kill "$pid"
	wait $first 2>/dev/null
done

# What a killed command has left is waited for.
start calls
for other in heap race probe; do
	if lacks_registers $other; then
		skip "${other}_after_a_killed_command_works" "$registers"
		continue
	fi
	set_arguments flow 60
	[ $other = heap ] || set_arguments probe 60
	# shellcheck disable=SC2086 # words
	"$trapline" $arguments >"$tmp/first" 2>&1 &
	first=$!
	eventually has_our_object "$pid"
	sleep 0.5
	kill -9 $first
	wait $first 2>/dev/null
	second $other
	[ $? -lt 2 ] && is_alive
	ok "${other}_after_a_killed_command_works" $?
done

# A user, or an editor's console, types the next command when the last line of the first is there.
begin_at_last_line()
{
	start calls
	flock "/proc/$pid/task/$pid/mem" sleep "$1" &
	first=$!
	for _ in $(seq 200); do
		flock -n "/proc/$pid/task/$pid/mem" true || break
		sleep 0.01
	done
	second patch
}
begin_at_last_line 1
[ $? = 0 ] && is_alive
ok 'a_command_that_is_ending_is_waited_for' $?
wait $first
begin_at_last_line 60
[ $? = 2 ] && grep -q "^trapline patch: process $pid is used by another trapline.*: end that one first$" "$tmp/err"
ok 'a_command_that_does_not_end_is_not_waited_for' $?
pkill -P $first
wait $first 2>/dev/null

finished
