#!/bin/sh
# SPDX-License-Identifier: MIT
# test_late_calls.sh TRAPLINE VICTIMS - handlers and masks of SIGTRAP that a program changes while a command is attached
# to it, and SIGSEGV that it takes by itself. The program checks itself: guest.h. TAP. Needs root.

here=$(dirname "$0")
# shellcheck source=tests/cli/tap.sh disable=SC1091
. "$here/../cli/tap.sh"
need_uprobes

has_rounds()
{
	od -An -tu4 -j16 -N4 "$tmp/control" | grep -q '[1-9]'
}

# The control page: its first byte says stop.
attached()
{
	row=$1
	shift
	case $row in exec_*) program=guest_processes ;; *) program=guest_signals ;; esac
	head -c 4096 /dev/zero >"$tmp/control"
	"$victims/$program" "$row" "$tmp/control" >"$tmp/program" 2>&1 &
	pid=$!
	started="$started $pid"
	eventually has_rounds
	"$trapline" "$@" -p $pid >"$tmp/out" 2>&1
	printf '\1' | dd of="$tmp/control" bs=1 count=1 conv=notrunc 2>/dev/null
	wait $pid
	status=$?
	started=
	grep -qx ok "$tmp/program" && [ $status = 0 ] && return
	echo "# status $status: $(tail -1 "$tmp/program"); $(tail -1 "$tmp/out")"
	return 1
}

# Without what is tested here most fail. On a busy machine a few still do: see tests/guest/known.
many()
{
	runs=$(share 5)
	[ "$runs" -ge 3 ] || runs=3
	wrong=0
	for _ in $(seq "$runs"); do
		attached "$@" || wrong=$((wrong + 1))
	done
	[ $wrong = 0 ] || echo "# $1: $wrong of $runs runs are wrong"
	[ $((3 * wrong)) -le "$runs" ]
}

for behaviour in handler_seen resethand nodefer longjmp onstack ignored blocked sent open; do
	many "${behaviour}"_trap flow --overhead 50% -o /dev/null --for 0.1
	ok "flow_leaves_the_sigtrap_of_the_program_alone_$behaviour" $?
	many "${behaviour}"_trap break step --mechanism probe --summary --for 0.1
	ok "a_probe_leaves_the_sigtrap_of_the_program_alone_$behaviour" $?
done

# Debug registers raise SIGTRAP there.
for behaviour in handler_seen resethand nodefer longjmp onstack ignored blocked; do
	many "${behaviour}"_trap heap --first 50 -o /dev/null --for 0.1
	ok "heap_leaves_the_sigtrap_of_the_program_alone_$behaviour" $?
done

# No thread of race is there but the one that keeps the calls.
for behaviour in handler_seen resethand nodefer longjmp onstack ignored blocked; do
	many "${behaviour}"_trap race --overhead 20% -o /dev/null --for 0.1
	ok "race_leaves_the_sigtrap_of_the_program_alone_$behaviour" $?
done

# Each check of a budget is a SIGTRAP.
for behaviour in handler_seen resethand nodefer longjmp onstack ignored blocked open sigwait; do
	many "${behaviour}"_trap throttle --cpu 60% --for 0.1
	ok "throttle_leaves_the_sigtrap_of_the_program_alone_$behaviour" $?
done

for behaviour in ignored sent; do
	many "${behaviour}"_trap patch "$victims/guest_fix.so"
	ok "patch_leaves_the_sigtrap_of_the_program_alone_$behaviour" $?
done

many exec_inherits flow --overhead 50% -o /dev/null --for 0.1
ok "flow_leaves_ignored_signals_to_a_new_program" $?
many exec_inherits break step --mechanism probe --summary --for 0.1
ok "a_probe_leaves_ignored_signals_to_a_new_program" $?

# replaced NAME COMMAND...: the program sets its handler without libc. The tool ends and says so, and the handler gets
# nothing of ours any more.
no_thread_of_ours()
{
	! grep -qs '^trapline-guest' "/proc/$pid"/task/*/comm
}
ours_is_there()
{
	! no_thread_of_ours
}
has_begun()
{
	grep -qx raw_action "/proc/$pid/comm"
}
replaced()
{
	name=$1
	shift
	"$victims/raw_action" >"$tmp/program" 2>&1 &
	pid=$!
	started="$started $pid"
	eventually has_begun
	sleep 0.2 # and has its threads
	"$trapline" "$@" --for 4 -p $pid >"$tmp/out" 2>"$tmp/err" &
	tool=$!
	eventually ours_is_there
	sleep 1
	kill -USR1 $pid
	sleep 0.2 # it is looked at every 20 ms
	wait $tool
	eventually no_thread_of_ours
	kill -USR2 $pid
	sleep 0.2
	kill -TERM $pid
	wait $pid
	[ $? = 0 ] && grep -qx '0 traps' "$tmp/program" &&
		grep -q 'the program replaced the handler of SIGTRAP by a system call of its own' "$tmp/out" "$tmp/err"
	ok "$name" $?
	started=
}
replaced race_ends_where_the_handler_is_replaced_without_libc race --overhead 20% -o "$tmp/races"
replaced throttle_ends_where_the_handler_is_replaced_without_libc throttle --cpu 60%
replaced heap_uses_no_registers_where_the_handler_is_replaced_without_libc heap --first 50
replaced flow_ends_where_the_handler_is_replaced_without_libc flow --overhead 50% -o "$tmp/flows"

# A SIGSEGV that is sent while it is blocked ends the search, and is the program's. One that alone is open stays open.
for behaviour in sigwait signalfd blocked sent open; do
	many "${behaviour}"_segv heap --first 50 -o /dev/null --for 0.1
	ok "heap_leaves_a_sent_sigsegv_to_the_program_$behaviour" $?
done

# No signal of ours waits where the program takes it by itself.
for behaviour in sigwait signalfd; do
	many "${behaviour}"_trap race --overhead 20% -o /dev/null --for 0.1
	ok "race_leaves_a_sent_sigtrap_to_the_program_$behaviour" $?
done
finished
