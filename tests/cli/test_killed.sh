#!/bin/sh
# SPDX-License-Identifier: MIT
# test_killed.sh TRAPLINE VICTIMS - whatever moment a command is killed at, the process that it observes
# goes on with right results, its text is that of its file, no breakpoint is left, and no descriptor.
# TAP. Needs root. TRAPLINE_STRESS=8400 kills each command 500 times. TRAPLINE_SEED repeats the moments.

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/tap.sh"
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/moments.sh"
need_uprobes
times=$(share 6)
echo "# seed $seed, $times times each"

# kill_at FROM TO COMMAND...: it runs for that many milliseconds.
kill_at()
{
	from=$1
	to=$2
	shift 2
	"$@" >"$tmp/out" 2>"$tmp/err" &
	killed=$!
	draw_moment "$from" "$to"
	sleep "$moment"
	kill -9 $killed 2>/dev/null
	wait $killed 2>/dev/null
}

# What its descriptors are. An agent that was loaded has events of its own, by which they are known.
descriptors()
{
	for fd in "/proc/$1/fd"/*; do
		readlink "$fd"
	done | grep -v '^anon_inode:\[\(perf_event\|eventpoll\|pidfd\)\]$\|^/memfd:trapline\|^/memfd:killed_fix.so' | sort
}

goes_on()
{
	kill -0 "$1" && ! grep -q '^State:.*[TtZ]' "/proc/$1/status" &&
		timeout 20 "$trapline" break -p "$1" lookup --args --ret --limit 9 --json >"$tmp/out" 2>"$tmp/err" &&
		hits 'length == 9 and all(.ret == .args.n + 10 + (if .args.n == 5 then 1 else 0 end))'
}

# Stopped copies stay for a debugger.
end_copies()
{
	for copy in $(pgrep -f "^$victims/calls"); do
		grep -q '^State:.*T' "/proc/$copy/status" 2>/dev/null && kill -KILL "$copy"
	done
}

four_are_free()
{
	[ "${NO_DEBUG_REGISTERS:-}" != 1 ] || return 0
	timeout 20 "$trapline" watch -p "$1" rounds_done rounds_done+8:8 rounds_done+16:8 rounds_done+24:8 \
		--for 0.1 >"$tmp/out" 2>"$tmp/err"
}

# registers NAME: false, and it is skipped, where the command would be refused at once.
registers()
{
	[ "${NO_DEBUG_REGISTERS:-}" = 1 ] || return 0
	skip "$1" "debug registers that fire (trapline check: watch_write)"
	return 1
}

# has_its_text NAME: a patch stays, and the change that a killed command began may come after the command.
has_its_text()
{
	case $1 in *patch*) timeout 20 "$trapline" patch -p "$pid" --undo killed_fix.so ;; esac
	text_is_of_file "$pid" calls
}

# survives NAME FROM TO ARG...: the process of `calls` that pid names.
survives()
{
	name=$1
	from=$2
	to=$3
	shift 3
	before=$(descriptors "$pid")
	bad=0
	for _ in $(seq $times); do
		kill_at "$from" "$to" "$trapline" "$@"
		kill -0 "$pid" 2>/dev/null || bad=$((bad + 1))
	done
	step="$bad deaths" && [ $bad = 0 ] && step=text && eventually has_its_text "$name" &&
		step=results && goes_on "$pid" && step=registers && eventually four_are_free "$pid" &&
		step=descriptors && [ "$(descriptors "$pid")" = "$before" ]
	result=$?
	case $name in *snapshot*) end_copies ;; esac
	ok "$name" $result
	[ $result = 0 ] || echo "# what is wrong: $step"
}

# What the kernel logs where it cannot remove a probe of a process that is being killed. The trap stays in
# the text until the thread meets it, or for good.
leaks()
{
	dmesg 2>/dev/null | grep -c 'uprobe: trapline:.*failed to unregister'
}

# leaves_no_trap NAME ARG...: killed while the probes are set, more often than not. A later probe at the
# same place would remove what an earlier one left, so the text is read after each.
leaves_no_trap()
{
	name=$1
	left=0
	before=$(leaks)
	shift
	for _ in $(seq "$often"); do
		kill_at 10 150 "$trapline" "$@"
		eventually text_is_of_file "$pid" calls || left=$((left + 1))
	done
	eventually no_owner
	echo "# $name: $left of $often left a trap, the kernel logged $(($(leaks) - before))"
	[ $left = 0 ] && [ "$(leaks)" = "$before" ]
	ok "$name" $?
}

# The process that removes the probes has ended, too.
no_owner()
{
	! pgrep -x 'probe owner' >/dev/null
}

often=$(share 60)
start calls
leaves_no_trap no_trap_stays_of_a_killed_break break -p "$pid" lookup next_color depth last_act --mechanism uprobe --max-rate 100000
leaves_no_trap no_trap_stays_of_a_killed_record record -p "$pid" --break lookup --ret -o "$tmp/recorded" --max-rate 100000
kill "$pid" 2>/dev/null

start calls
registers a_killed_watch_leaves_nothing &&
	survives a_killed_watch_leaves_nothing 20 300 watch -p "$pid" rounds_done --max-rate 100000
survives a_killed_break_leaves_nothing 20 400 break -p "$pid" lookup next_color depth last_act --max-rate 100000
survives a_killed_break_on_returns_leaves_nothing 20 400 break -p "$pid" lookup depth last_act leap --ret --stack --max-rate 100000
registers a_killed_watch_of_objects_leaves_nothing &&
	survives a_killed_watch_of_objects_leaves_nothing 20 400 watch -p "$pid" --from lookup 'arg0->size' --max-rate 100000
kill "$pid" 2>/dev/null
start calls
registers a_killed_race_leaves_nothing &&
	survives a_killed_race_leaves_nothing 50 1500 race -p "$pid" --for 5
kill "$pid" 2>/dev/null
start calls
survives a_killed_throttle_leaves_nothing 50 1500 throttle --cpu 50% -p "$pid" --for 5
kill "$pid" 2>/dev/null

# What an agent does, and what acts on a process from outside: one process for each, since two in one are
# refused.
agent_survives()
{
	start calls
	survives "$@" -p "$pid"
	kill "$pid" 2>/dev/null
}

if [ -e "$victims/killed_fix.so" ]; then
	agent_survives a_killed_heap_leaves_nothing 50 1200 heap --first 20 --for 5
	agent_survives a_killed_flow_leaves_nothing 50 1500 flow --for 5
	agent_survives a_killed_probe_leaves_nothing 50 800 break lookup depth --mechanism probe --summary --for 5
	agent_survives a_killed_trace_leaves_nothing 50 800 break last_act --trace --for 5
	agent_survives a_killed_patch_leaves_nothing 10 300 patch "$victims/killed_fix.so"
	agent_survives a_killed_snapshot_leaves_nothing 20 500 break lookup --then snapshot --for 5
	agent_survives a_killed_record_leaves_nothing 20 400 record --break lookup --args --ret -o "$tmp/recorded" --for 5
	registers a_killed_at_leaves_nothing &&
		agent_survives a_killed_at_leaves_nothing 20 500 at 'lookup#50'
	registers a_killed_probe_of_writers_leaves_nothing &&
		agent_survives a_killed_probe_of_writers_leaves_nothing 20 800 watch rounds_done --at-writers --if 'new < 0' --for 5
fi

# launched NAME FROM TO ARG...: a command that it starts; one that has done nothing yet may end with it.
launched()
{
	name=$1
	from=$2
	to=$3
	shift 3
	bad=0
	unstarted=0
	for i in $(seq $times); do
		result=$tmp/result$i
		kill_at "$from" "$to" "$trapline" "$@" -- "$victims/steps" survive "$result"
		eventually_short test -s "$result.started" || { unstarted=$((unstarted + 1)) && continue; }
		eventually test -s "$result"
		[ "$(cat "$result" 2>/dev/null)" = "handled 1" ] || bad=$((bad + 1))
	done
	echo "# $name: $bad of $times came to harm, $unstarted had not begun"
	[ $bad = 0 ] && [ $unstarted -lt "$times" ]
	ok "$name" $?
}

eventually_short()
{
	for _ in 1 2 3 4 5; do
		"$@" 2>/dev/null && return
		sleep 0.1
	done
	return 1
}

registers a_program_killed_during_its_steps_goes_on &&
	launched a_program_killed_during_its_steps_goes_on 900 2000 at 'spin#1+250000'
registers a_program_goes_on_without_the_at_that_sent_it_a_signal &&
	launched a_program_goes_on_without_the_at_that_sent_it_a_signal 100 1200 at 'line#1' --signal SIGURG
registers a_program_goes_on_without_the_at_that_counts &&
	launched a_program_goes_on_without_the_at_that_counts 100 1200 at --counter syscalls 'spin@1'

finished
