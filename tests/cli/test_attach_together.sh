#!/bin/sh
# SPDX-License-Identifier: MIT
# test_attach_together.sh TRAPLINE VICTIMS - commands that attach to one process at the same moment do so
# one after the other, and the process is as before. TAP.

# shellcheck source=tests/cli/tap.sh disable=SC2154,SC2181 # its variables come from there
. "$(dirname "$0")/tap.sh"

# run_one K COMMAND ARG...: its exit status is in a file.
run_one()
{
	k=$1
	shift
	timeout -k 2 90 "$trapline" "$@" --for 0.1 >"$tmp/out.$k" 2>"$tmp/err.$k"
	echo $? >"$tmp/status.$k"
}

# attach_all: three commands at once.
attach_all()
{
	commands=
	run_one 1 throttle -p "$pid" --cpu 90% &
	commands="$commands $!"
	run_one 2 throttle -p "$pid" --cpu 90% &
	commands="$commands $!"
	run_one 3 race -p "$pid" &
	commands="$commands $!"
	# shellcheck disable=SC2086 # numbers
	wait $commands
}

# is_clear K: it succeeded; or it is refused by one line, which has the cause. That is not the other
# command's short stop of a thread.
is_clear()
{
	case $(cat "$tmp/status.$1") in
	0) ! grep -q 'not permitted' "$tmp/err.$1" ;;
	2) [ "$(wc -l <"$tmp/err.$1")" = 1 ] &&
		grep -q '^trapline .*: process .*\(; try again\|another trapline .*: end that one first\)' "$tmp/err.$1" ;;
	*) false ;;
	esac
}

# attach_often ROUNDS: counts. One that waits for a time may end before the last round.
attach_often()
{
	clear=0
	succeeded=0
	commands_run=0
	: >"$tmp/err"
	for _ in $(seq "$1"); do
		attach_all
		! grep -q '^State:.Z' "/proc/$pid/status" || break
		for k in 1 2 3; do
			commands_run=$((commands_run + 1))
			[ "$(cat "$tmp/status.$k")" = 0 ] && succeeded=$((succeeded + 1))
			if is_clear $k; then clear=$((clear + 1)); else cat "$tmp/err.$k" >>"$tmp/err"; fi
		done
	done
	echo "# $succeeded of $commands_run commands attached"
	[ $clear = $commands_run ] && [ $succeeded -gt 0 ]
}

masks()
{
	cat "/proc/$pid/task/"*/status | grep -E '^(SigBlk|TracerPid)' | sort | uniq -c
}

# ways_back: those that the attaches have left. On a busy machine there are more than commands at once:
# a thread that did not run since is still in one.
ways_back()
{
	awk '$2 == "r-xp" && !$6 { print $1 }' "/proc/$pid/maps"
}

# uses_an_old_one: an attach leaves no other one.
uses_an_old_one()
{
	left=$(ways_back)
	run_one 1 throttle -p "$pid" --cpu 90%
	[ "$left" ] && [ "$(ways_back)" = "$left" ]
}

start injectee
masks >"$tmp/before"
attach_often 5
ok "each_attaches_to_a_process_that_runs" $?
eventually uses_an_old_one
ok "later_ones_use_what_earlier_ones_left" $?
masks | diff "$tmp/before" - >"$tmp/out"
ok "its_signal_masks_are_as_before" $?
kill "$pid"
wait "$pid"
[ $? = 0 ] && grep -q '^ok ' "$tmp/victim"
ok "a_process_that_runs_is_unharmed" $?

start waits poll 12
attach_often 5
ok "each_attaches_to_a_process_that_waits" $?
wait "$pid"
awk '$1 == "poll" && !$2 && !$3 && $4 >= 11998 { n++ } END { exit n != 1 }' "$tmp/victim"
good=$?
[ $good = 0 ] || cp "$tmp/victim" "$tmp/out"
ok "a_process_that_waits_is_unharmed" $good

finished
