#!/bin/sh
# SPDX-License-Identifier: MIT
# test_attach_hostile.sh TRAPLINE VICTIMS - what a program makes of an attach harms no other process. TAP.

# shellcheck source=tests/cli/tap.sh disable=SC2154 # its variables come from there
. "$(dirname "$0")/tap.sh"

chmod 755 "$tmp"
mkdir "$tmp/open"
echo "of root" >"$tmp/open/secret"
chmod 600 "$tmp/open/secret"

# is_untouched: the file has its only line.
is_untouched()
{
	[ "$(head -c 100 "$tmp/open/secret" | tr -d '\0')" = "of root" ]
}

# attach MODE COMMAND ARG...: to a new hostile program.
attach()
{
	mode=$1
	shift
	start swapper "$mode" "$tmp/open/secret"
	timeout -k 2 60 "$trapline" "$1" -p "$pid" "$2" "$3" --for 0.1 >"$tmp/out" 2>"$tmp/err"
	status=$?
	kill "$pid"
	wait "$pid" 2>/dev/null
}

not()
{
	! "$@"
}

if [ "$(id -u)" = 0 ]; then
	for _ in 1 2 3 4; do
		attach swap throttle --cpu 90%
	done
	is_untouched
	ok "a_file_that_another_thread_puts_there_is_not_written" $?

	attach answer throttle --cpu 90%
	is_untouched && [ $status = 2 ] && grep -q 'runs under a seccomp filter' "$tmp/err"
	ok "a_file_that_a_filter_answers_with_is_not_written" $?
else
	skip "a_file_that_another_thread_puts_there_is_not_written" "root"
	skip "a_file_that_a_filter_answers_with_is_not_written" "root"
fi

# --- a call that does not return ---

# is_called: the thread is in the call, where all signals are blocked.
is_called()
{
	grep -q '^SigBlk:.ffffffff' "/proc/$pid/status"
}

# The command waits a minute for the call by itself, which is longer than timeout(1) here.
for end in "INT throttle --cpu 90%" "TERM race --overhead 5%"; do
	start stuck
	# shellcheck disable=SC2086 # words
	set -- $end
	timeout -k 2 20 "$trapline" "$2" -p "$pid" "$3" "$4" >"$tmp/out" 2>"$tmp/err" &
	command=$!
	eventually is_called
	pkill "-$1" -P "$command"
	wait "$command"
	[ $? = 2 ] && grep -q 'the attach was ended while a call inside it had not returned' "$tmp/err"
	ok "$1_ends_the_attach_of_$2" $?
	kill -USR1 "$pid"
	eventually not is_called
	kill "$pid"
	wait "$pid"
	[ $? = 0 ] && grep -q '^ok$' "$tmp/victim"
	ok "the_thread_runs_on_after_$1" $?
done

# --- a program that ends during the attach ---

# The first ones have not even begun.
true_causes=0
: >"$tmp/causes"
for n in 00 01 02 03 04 05 07 09 11 13 15 20; do
	"$victims/waits" nanosleep 0.$n >/dev/null &
	timeout -k 2 60 "$trapline" throttle -p $! --cpu 90% --for 0.01 2>"$tmp/err"
	case $? in
	0) true_causes=$((true_causes + 1)) ;;
	2) grep -q ' no process \|no such process\|it has \(just \)*e\|it has only begun\|executed another program' "$tmp/err" &&
		[ "$(wc -l <"$tmp/err")" = 1 ] && true_causes=$((true_causes + 1)) ;;
	esac
	cat "$tmp/err" >>"$tmp/causes"
done
cp "$tmp/causes" "$tmp/err"
[ $true_causes = 12 ]
ok "the_end_of_a_program_is_the_cause_that_is_given" $?

# --- a stop of the program during a call ---

# has_stopped: a thread of it, since the one in the call may run on.
has_stopped()
{
	cat "/proc/$pid/task/"*/status | grep -q '^State:.T (stopped)'
}

start stuck
timeout -k 2 60 "$trapline" throttle -p "$pid" --cpu 90% >"$tmp/out" 2>"$tmp/err" &
command=$!
eventually is_called
kill -STOP "$pid"
eventually has_stopped && is_called
ok "a_stop_during_a_call_stops_the_program" $?
kill -CONT "$pid"
eventually not has_stopped && is_called
ok "the_call_goes_on_after_a_stop" $?
kill -USR1 "$pid"
wait "$command"
[ $? = 2 ] && grep -q 'its dynamic linker refused the object' "$tmp/err"
ok "the_call_returns_after_a_stop" $?
kill "$pid"
wait "$pid"
[ $? = 0 ] && grep -q '^ok$' "$tmp/victim"
ok "the_thread_runs_on_after_a_stop" $?

start stuck
timeout -k 2 20 "$trapline" throttle -p "$pid" --cpu 90% --for 0.1 >"$tmp/out" 2>"$tmp/err"
[ $? = 2 ] && grep -q 'the attach was ended while a call' "$tmp/err"
ok "for_ends_the_attach" $?
kill "$pid"

finished
