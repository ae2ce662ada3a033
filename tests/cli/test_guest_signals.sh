#!/bin/sh
# SPDX-License-Identifier: MIT
# test_guest_signals.sh TRAPLINE VICTIMS INCLUDE BUILD_INCLUDE - a signal that is sent to a process is never taken
# by a thread of ours there: a daemon that waits for it by sigwait(3) gets each one. And our threads live through
# breakpoints of ours. TAP.

# shellcheck source=tests/cli/tap.sh disable=SC2154 # its variables come from there
. "$(dirname "$0")/tap.sh"

# under NAME SIGNAL COMMAND ARG...: while it runs and after it, all signals arrive. A refusal is right, too.
under()
{
	name=$1
	number=$2
	what=$3
	shift 3
	rm -f "$tmp/end"
	start sigwaiter "$number" "$tmp/end"
	timeout -k 2 60 "$trapline" "$what" -p "$pid" "$@" >"$tmp/out" 2>"$tmp/err"
	sleep 0.2
	: >"$tmp/end"
	wait "$pid" && cp "$tmp/victim" "$tmp/out" && grep -q '^sent [1-9]' "$tmp/out"
	ok "$name" $?
}

for number in 5 11 7 4 8 15; do
	under "a_probe_takes_no_signal_$number" $number break step --mechanism probe --for 0.5
	under "a_breakpoint_takes_no_signal_$number" $number break tiny --mechanism probe --for 0.5
	under "a_trace_takes_no_signal_$number" $number break step --trace --for 0.5
	under "a_list_of_patches_takes_no_signal_$number" $number patch --list
done

# flow has SIGTRAP open where the program blocks it. One that is sent meanwhile waits until flow has ended, and can be
# merged with the next one, as the kernel does it.
rm -f "$tmp/end"
start sigwaiter 5 "$tmp/end"
timeout -k 2 60 "$trapline" flow -p "$pid" --for 0.5 >"$tmp/out" 2>"$tmp/err"
sleep 0.2
: >"$tmp/end"
wait "$pid"
cp "$tmp/victim" "$tmp/out"
awk '/^sent/ { is_right = $2 + 0 > 0 && $2 - $4 <= 1 } END { exit !is_right }' "$tmp/out" &&
	grep -q 'the program takes SIGTRAP itself\|never reached' "$tmp/err"
ok a_flow_leaves_a_trap_to_the_program $?
under a_flow_takes_no_signal_11 11 flow --for 0.5

# The signals that are open in a thread of ours.
open_in()
{
	for status in "/proc/$1/task"/*/status; do
		grep -q '^Name:.trapline-' "$status" && awk '/^SigBlk/ { print $2 }' "$status"
	done
}

# has_our_thread PID
has_our_thread()
{
	grep -q '^trapline-' "/proc/$1/task"/*/comm
}

lacks_our_thread()
{
	! has_our_thread "$1"
}

# shut NAME COMMAND ARG...: our thread is there, has all signals blocked but 9, 19, 32 and 33, and goes with it.
shut()
{
	name=$1
	what=$2
	shift 2
	start calls
	timeout -k 2 60 "$trapline" "$what" -p "$pid" "$@" --for 2 >"$tmp/out" 2>"$tmp/err" &
	tool=$!
	eventually has_our_thread "$pid"
	sleep 0.7
	open_in "$pid" >"$tmp/err"
	[ -s "$tmp/err" ] && ! grep -vq '^fffffffe7ffbfeff$' "$tmp/err"
	ok "$name" $?
	wait $tool
	eventually lacks_our_thread "$pid" && kill -0 "$pid"
	ok "${name}_and_goes" $?
	kill "$pid" 2>/dev/null
}

shut a_thread_of_probes_blocks_all break lookup --mechanism probe
shut a_thread_of_flow_blocks_all flow
shut a_thread_of_heap_blocks_all heap

# Our threads call functions that have a breakpoint or a jump of ours.
start calls
timeout -k 2 60 "$trapline" break -p "$pid" libc.so.6:free libc.so.6:memcpy libc.so.6:flock libc.so.6:munmap \
	libc.so.6:pthread_mutex_lock lookup --mechanism probe --for 1 >"$tmp/out" 2>"$tmp/err"
[ $? = 0 ] && sleep 0.2 && kill -0 "$pid"
ok a_thread_of_ours_lives_through_probes_of_what_it_calls $?
kill "$pid" 2>/dev/null

start sigwaiter 15 "$tmp/other_end"
cat >"$tmp/source.c" <<'EOF'
#include <trapline/tools.h>
static char **page;
TRAPLINE_PATCH_OLD(page, "page");
static int before(void)
{
	**page = 1;
	return 0;
}
TRAPLINE_PATCH_BEFORE(before);
static long other(long x)
{
	return x + 2;
}
TRAPLINE_PATCH("step", other);
EOF
${CC:-cc} -O2 -shared -fPIC "-I$3" "-I$4" -o "$tmp/one.so" "$tmp/source.c" 2>"$tmp/err" &&
	timeout -k 2 60 "$trapline" patch -p "$pid" "$tmp/one.so" >"$tmp/out" 2>"$tmp/err" && kill -0 "$pid"
ok a_hook_of_a_patch_may_fault_where_the_program_handles_it $?
finished
