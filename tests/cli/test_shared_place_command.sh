#!/bin/sh
# SPDX-License-Identifier: MIT
# test_shared_place_command.sh TRAPLINE VICTIMS - a uprobe and a jump of ours at one instruction: whichever comes
# first, and whichever goes first, the program runs right, and its text is that of its file afterwards. TAP.
# Needs root.

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/tap.sh"
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/moments.sh"
need nm setarch
need_uprobes
program=$victims/shared_place

offset_of()
{
	nm -D --defined-only "$2" 2>/dev/null | cat - "$tmp/symbols" | awk -v name="$1" \
		'{ sub("@.*", "", $3) } $3 == name { print "0x" $1; exit }'
}
nm "$program" >"$tmp/symbols"

# set_uprobe FUNCTION FILE: as another tool does. It goes with remove_uprobe.
set_uprobe()
{
	rm -f "$tmp/hold"
	mkfifo "$tmp/hold"
	# shellcheck disable=SC2046 # words
	"$program" uprobe "$2" "$(offset_of "$1" "$2")" $(ls "/proc/$pid/task") <"$tmp/hold" >"$tmp/uprobe" 2>&1 &
	uprobe=$!
	started="$started $uprobe"
	exec 7>"$tmp/hold"
	eventually grep -q set "$tmp/uprobe"
}
remove_uprobe()
{
	exec 7>&-
	wait "$uprobe"
}

# observe COMMAND...: in the background, until its jumps stand.
observe()
{
	"$trapline" "$@" >"$tmp/probe" 2>"$tmp/observer" 7>&- &
	observer=$!
	started="$started $observer"
	eventually other_text
}
stop_observer()
{
	kill -INT "$observer" 2>/dev/null
	wait "$observer"
}
other_text()
{
	! text_is_of_file "$pid" "$changed"
}
is_right()
{
	sleep 0.2
	kill -0 "$pid" 2>/dev/null && [ ! -s "$tmp/victim" ]
}
ends_right()
{
	eventually text_is_of_file "$pid" "$changed" && is_right
	right=$?
	kill "$pid"
	wait "$pid" && [ $right = 0 ]
}

has_threads()
{
	[ "$(cat "/proc/$pid/task"/*/comm | wc -l)" = 5 ]
}

begin()
{
	# The heap lies behind the program, so that what jumps lead to is free in each run.
	setarch -R "$program" >"$tmp/victim" 2>&1 &
	pid=$!
	started="$started $pid"
	eventually runs "$pid" shared_place
	eventually has_threads
	changed=shared_place
}

for function in one three four landing five seven nop5; do
	begin
	observe break "$function" --mechanism probe --for 20 -p "$pid"
	set_uprobe "$function" "$program" && is_right
	during=$?
	remove_uprobe && is_right
	after=$?
	stop_observer
	[ $during = 0 ] && [ $after = 0 ] && ends_right
	ok "a_uprobe_comes_and_goes_on_a_probe_of_$function" $?

	begin
	observe break "$function" --mechanism probe --for 20 -p "$pid"
	set_uprobe "$function" "$program" && stop_observer && is_right
	during=$?
	remove_uprobe
	[ $during = 0 ] && ends_right
	ok "a_probe_goes_before_the_uprobe_on_$function" $?

	# A probe stands behind that instruction.
	[ "$function" != landing ] || continue
	begin
	set_uprobe "$function" "$program"
	is_right
	timeout 20 "$trapline" break "$function" --mechanism probe --for 1 -p "$pid" >"$tmp/out" 2>"$tmp/err" 7>&-
	[ $? = 2 ] && [ "$(wc -l <"$tmp/err")" = 1 ] && grep -q 'there is a breakpoint, or a uprobe' "$tmp/err" && is_right
	during=$?
	remove_uprobe
	[ $during = 0 ] && ends_right
	ok "a_probe_is_refused_where_a_uprobe_is_on_$function" $?
done

begin
observe break five --mechanism probe --for 20 -p "$pid"
timeout 20 "$trapline" break five --mechanism uprobe --for 1 -p "$pid" >"$tmp/out" 2>"$tmp/err"
[ $? = 2 ] && [ "$(wc -l <"$tmp/err")" = 1 ] && grep -q 'other bytes there than its file has' "$tmp/err" && is_right
during=$?
timeout 20 "$trapline" break three --mechanism uprobe --limit 5 -p "$pid" >"$tmp/out" 2>"$tmp/err"
beside=$?
stop_observer
[ $during = 0 ] && [ $beside = 0 ] && ends_right
ok a_uprobe_of_ours_is_refused_on_a_probe_and_not_beside_it $?

if [ "${NO_DEBUG_REGISTERS:-}" = 1 ]; then
	skip a_breakpoint_on_a_probe_is_one_of_the_processor "debug registers that fire (trapline check: break)"
else
	begin
	observe break five --mechanism probe --for 20 -p "$pid"
	timeout 20 "$trapline" break five --limit 5 -p "$pid" >"$tmp/out" 2>"$tmp/err"
	during=$?
	stop_observer
	[ $during = 0 ] && grep -q 'by hardware breakpoints' "$tmp/err" && ends_right
	ok a_breakpoint_on_a_probe_is_one_of_the_processor $?
fi

begin
timeout 40 "$trapline" break in_heap --trace --for 20 -p "$pid" >"$tmp/out" 2>"$tmp/err" &&
	grep -q '1 probe' "$tmp/out" && ends_right
ok a_trace_takes_the_room_of_the_heap_where_there_is_no_other $?

# What heap and flow change is in libc.
libc_file()
{
	awk '$6 ~ /\/libc[.-]/ { print $6; exit }' "/proc/$pid/maps"
}
for tool in heap flow; do
	begin
	changed=libc
	function=malloc
	[ $tool = heap ] || function='read'
	observe $tool --for 20 -p "$pid"
	set_uprobe "$function" "$(libc_file)" && is_right && remove_uprobe && is_right
	during=$?
	stop_observer
	[ $during = 0 ] && ends_right
	ok "a_uprobe_comes_and_goes_where_${tool}_has_a_jump" $?
done

finished
