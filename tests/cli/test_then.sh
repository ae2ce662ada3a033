#!/bin/sh
# SPDX-License-Identifier: MIT
# test_then.sh TRAPLINE VICTIMS - what --then does to a process at a hit, and what it leaves behind. TAP.
# Needs root: uprobes are for it alone.

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/tap.sh"
need_uprobes
need jq
command='break'

state()
{
	awk '$1 == "State:" { print $2 }' "/proc/$1/status"
}

is_stopped()
{
	[ "$(state "$1")" = T ]
}

runs_on()
{
	! is_stopped "$1" && kill -0 "$1"
}

start calls 1000000 2000
calls=$pid

watch -p "$calls" lookup --limit 1
[ $? = 0 ] && runs_on "$calls"
ok "a_hit_alone_stops_nothing" $?

watch -p "$calls" lookup --then stop
status=$?
is_stopped "$calls"
stopped=$?
kill -CONT "$calls"
[ $status = 0 ] && [ $stopped = 0 ] && grep -q '^1 hit in ' "$tmp/out" &&
	grep -q "    process $calls is stopped, at the hit in thread [0-9]*: .* gdb -p [0-9]*, .* kill -CONT $calls\$" "$tmp/out" &&
	eventually runs_on "$calls"
ok "stop_leaves_the_process_stopped_at_the_hit" $?

watch -p "$calls" lookup --then stop --json
kill -CONT "$calls"
jq -e -s 'map(select(.type == "action")) | length == 1 and all(.action == "stop" and .late_ns == 0 and .stopped_ns == null)' "$tmp/out" >/dev/null
ok "json_has_the_action" $?

watch -p "$calls" lookup --ret --then stop
kill -CONT "$calls"
grep -q "    process $calls is stopped, [0-9.]* ms after the hit in thread" "$tmp/out"
ok "a_stop_that_comes_later_says_so" $?

start calls 1000000 2000
watch -p "$pid" lookup --then 'signal USR1'
[ $? = 0 ] && grep -q 'SIGUSR1 sent to thread [0-9]*, at the hit$' "$tmp/out"
told=$?
wait "$pid"
[ $? = 138 ] && [ $told = 0 ]
ok "signal_arrives_and_the_process_continues_with_it" $?

watch -p "$calls" lookup --then "core $tmp/core" --if 'thread == "worker"'
[ $? = 0 ] && grep -q "    core $tmp/core, at the hit, [0-9.]* MiB; the process was stopped for [0-9.]* ms\$" "$tmp/out" &&
	runs_on "$calls" && [ "$(stat -c %a "$tmp/core")" = 600 ]
ok "core_writes_a_file_and_the_process_continues" $?
if command -v gdb >/dev/null; then
	gdb -batch -nx "$victims/calls" "$tmp/core" -ex bt -ex 'info threads' -ex 'p things.name' >"$tmp/out" 2>"$tmp/err"
	grep -q '^#0 .* lookup (' "$tmp/out" && grep -q '^#1 .* worker (' "$tmp/out" && grep -q '^  2 .* (LWP ' "$tmp/out" &&
		grep -q '"things"' "$tmp/out" && grep -q "^. 1 .*(LWP [0-9]*" "$tmp/out"
	ok "a_debugger_opens_the_core" $?
else
	skip "a_debugger_opens_the_core" gdb
fi

# 3 TB, most of which nothing has used: to read it all would take hours.
start sparse
if eventually grep -q ready "$tmp/victim"; then
	sparse=$pid
	watch -p "$sparse" tick --then "core $tmp/sparse"
	[ $? = 0 ] && runs_on "$sparse" && [ "$(du -k "$tmp/sparse" | cut -f 1)" -lt 100000 ]
	ok "a_core_of_memory_that_is_reserved_has_no_holes_read" $?
	if command -v gdb >/dev/null; then
		gdb -batch -nx "$victims/sparse" "$tmp/sparse" -ex 'p *page[63]' -ex 'p *shared_page[3]' -ex 'p page[5][1]' >"$tmp/out" 2>"$tmp/err"
		[ "$(grep -c '= 1063$\|= 2003$\|= 0$' "$tmp/out")" = 3 ]
		ok "its_pages_are_in_the_core" $?
	fi
	# The memory that it shares has not grown by the look.
	[ "$(awk '/^RssShmem/ { print $2 }' "/proc/$sparse/status")" -lt 1000 ]
	ok "its_shared_memory_has_not_grown" $?
	rm -f "$tmp/sparse"
	kill "$sparse"
else
	skip "a_core_of_memory_that_is_reserved_has_no_holes_read" "2 TB of address space"
fi

watch -p "$calls" lookup --then "core $tmp/many" --limit 3
[ $? = 0 ] && [ -s "$tmp/many.1" ] && [ -s "$tmp/many.2" ] && [ -s "$tmp/many.3" ] && [ ! -e "$tmp/many" ] && runs_on "$calls"
ok "each_core_has_its_number" $?

mkdir "$tmp/small"
if mount -t tmpfs -o size=64k none "$tmp/small" 2>/dev/null; then
	watch -p "$calls" lookup --then "core $tmp/small/core"
	[ $? = 1 ] && grep -q "cannot write the core $tmp/small/core: No space left on device" "$tmp/err" &&
		[ ! -e "$tmp/small/core" ] && runs_on "$calls"
	ok "a_full_disk_is_an_error_and_leaves_nothing" $?
	umount "$tmp/small"
else
	skip "a_full_disk_is_an_error_and_leaves_nothing" "mount is not permitted"
fi
watch -p "$calls" lookup --then "core /dev/full"
[ $? = 1 ] && [ -c /dev/full ] && runs_on "$calls"
ok "a_device_is_not_removed" $?

if [ "$(uname -m)" = x86_64 ]; then
	watch -p "$calls" lookup --then snapshot --json
	copy=$(jq -r 'select(.type == "action") | .snapshot_pid' "$tmp/out")
	started="$started $copy"
	end_copy() { kill -KILL "$copy"; }
	is_stopped "$copy" && runs_on "$calls" && [ "$(awk '$1 == "PPid:" { print $2 }' "/proc/$copy/status")" != "$calls" ] &&
		[ -z "$(ps -o pid= --ppid "$calls")" ] && [ "$(ps -o sid= -p "$copy" | tr -d ' ')" = "$copy" ]
	ok "snapshot_is_a_frozen_process_of_its_own" $?
	before=$(gdb -batch -nx -p "$copy" -ex 'p rounds_done' 2>/dev/null | grep '^\$1')
	sleep 0.3
	after=$(gdb -batch -nx -p "$copy" -ex 'p rounds_done' 2>/dev/null | grep '^\$1')
	[ -n "$before" ] && [ "$before" = "$after" ]
	ok "its_memory_does_not_change" $?
	end_copy
	watch -p "$calls" lookup --then snapshot --limit 5 --json
	[ "$(jq -r 'select(.type == "action") | .snapshot_pid' "$tmp/out" | sort -u | wc -l)" = 5 ] && runs_on "$calls"
	ok "each_hit_has_its_snapshot" $?
	jq -r 'select(.type == "action") | .snapshot_pid' "$tmp/out" | xargs kill -KILL
fi

watch -p "$calls" lookup --limit 10 --then "exec echo %p %n >>$tmp/told; sleep 8"
[ $? = 0 ] && [ "$(grep -c "^$calls [1-4]\$" "$tmp/told")" = 4 ] &&
	grep -q '^--then started 4 commands, and none at 6 hits, since 4 were running$' "$tmp/out" &&
	grep -q 'note: 4 commands are still running$' "$tmp/err" && runs_on "$calls"
ok "a_command_that_hangs_delays_neither_hits_nor_the_end" $?

watch -p "$calls" lookup --limit 2 --then 'exec exit 3'
[ $? = 0 ] && grep -q '^--then started 2 commands, 2 failed$' "$tmp/out"
ok "a_command_that_fails_is_counted" $?

# Killed at any moment, the command leaves the process running, and no copy of it beside it.
cp "$victims/calls" "$tmp/own"
"$tmp/own" 1000000 2000 >/dev/null &
own=$!
started="$started $own"
copies()
{
	for exe in /proc/[0-9]*/exe; do
		readlink "$exe"
	done 2>/dev/null | grep -cx "$tmp/own"
}
eventually runs_on "$own"
i=0
while [ $i -lt 12 ]; do
	i=$((i + 1))
	"$trapline" break -p "$own" lookup --limit 0 --then "core $tmp/killed" >/dev/null 2>&1 &
	killed=$!
	sleep "0.$((i * 37 % 90 + 10))"
	kill -KILL $killed
	wait $killed 2>/dev/null
done
eventually runs_on "$own"
sleep 0.3
runs_on "$own"
ok "a_killed_command_leaves_the_process_running" $?
[ "$(copies)" = 1 ]
ok "and_no_copy_of_it" $?
kill "$own"
rm -f "$tmp"/killed*

kill -STOP "$calls"
watch -p "$calls" lookup --then "core $tmp/none" --for 1
[ $? = 0 ] && grep -q '^0 hits in ' "$tmp/out" && is_stopped "$calls" && [ ! -e "$tmp/none" ]
ok "a_process_that_is_stopped_already_stays_so" $?
kill -CONT "$calls"

watch libc.so.6:_exit --then "core $tmp/at_end" -- sh -c 'exit 3'
[ -s "$tmp/at_end" ] && grep -q 'exited with status 3' "$tmp/out"
ok "a_process_that_is_about_to_end_has_a_core" $?

wrong "an_unknown_action_is_refused" "invalid --then 'jump': expected stop" -p "$calls" lookup --then jump
wrong "a_signal_needs_a_name" "invalid --then 'signal': expected 'signal NAME'" -p "$calls" lookup --then signal
wrong "an_unknown_signal_is_refused" "no signal is named 'NOPE'" -p "$calls" lookup --then 'signal NOPE'
wrong "nothing_follows_stop" "nothing follows stop" -p "$calls" lookup --then 'stop now'

finished
