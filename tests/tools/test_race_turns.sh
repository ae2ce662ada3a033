#!/bin/sh
# SPDX-License-Identifier: MIT
# test_race_turns.sh TRAPLINE VICTIMS - at the default budget places in code take turns: races in code that
# seldom runs are found, programs that are right run as before, and the summary tells the share. TAP.

# shellcheck source=tests/tools/race_lib.sh disable=SC1091,SC2034,SC2154 # shared with it
. "$(dirname "$0")/race_lib.sh"

# turns NAME MODE SECONDS...: a race for level, in one run of these, at the default budget or that of
# $budget. What is found in how long is a matter of chance.
budget=
turns()
{
	name=$1
	mode=$2
	shift 2
	for seconds in "$@"; do
		# shellcheck disable=SC2086 # an option and its value, or nothing
		race $budget -- "$victims/race_cold" "$mode" "$seconds"
		if holds 'any(.[]; .type == "race" and .variable == "level")'; then
			ok "$name" 0
			return
		fi
	done
	ok "$name" 1
}

turns "a store executed once a second" once_a_second 3 6 12 24 24
holds '.[-1] | .sites_refused == 0 and .counters.site_hits > 0 and .sites_reached > 0 and
	.sites_reached_tested > 0 and .sites_reached_tested <= .sites_reached'
ok "the summary tells how many accesses that threads reached had their turn" $?
# Found in one run of six or so.
budget='--overhead 10%'
# shellcheck disable=SC2046
turns "a store executed once a run" once_a_run $(yes 0.4 | head -n 80)
budget=

for mode in right_once_a_run right_both_rare right_vfork right_waits; do
	race -- "$victims/race_cold" $mode 0.7
	ok "$mode: it ends as without trapline" $?
	holds 'all(.[]; .type != "race")'
	ok "$mode: nothing is reported" $?
done

# Breakpoints of the clock beside traps, in a short loop: each is gone at its first hit. With the traps
# that stayed, this cost 25 times as much and more.
"$victims/race_cold" right_rounds 0 >"$tmp/alone" && race -- "$victims/race_cold" right_rounds 0 &&
	[ "$(cat "$tmp/out")" -lt $((10 * $(cat "$tmp/alone") + 300000)) ]
status=$?
[ $status = 0 ] || cat "$tmp/alone" >>"$tmp/out"
ok "a short loop costs about what it costs alone" $status
holds 'all(.[]; .type != "race")'
ok "and nothing is reported of it" $?

# gdb takes each SIGTRAP of the kernel for its own breakpoint, and moves the pc back by a byte.
if command -v gdb >/dev/null; then
	cp "$victims/race_cold" "$tmp/cold_debugged"
	race -- "$tmp/cold_debugged" right_both_rare 60 &
	search=$!
	eventually pgrep -x cold_debugged
	pid=$(pgrep -x cold_debugged)
	gdb -nx -batch -p "$pid" -ex 'handle SIGTRAP nostop noprint pass' -ex 'handle SIGINT stop nopass' \
		-ex continue -ex detach >"$tmp/gdb" 2>&1 &
	debugger=$!
	eventually grep -q 'TracerPid:.[1-9]' "/proc/$pid/status"
	sleep 1
	kill -INT "$pid"
	wait $debugger
	kill "$pid"
	wait $search
	[ $? = 143 ] && grep -q SIGINT "$tmp/gdb" && ! grep -q SIGSEGV "$tmp/gdb"
	ok "a debugger may continue it" $?
else
	skip "a debugger may continue it" gdb
fi

# Traps would kill it. The samples of the clock are left.
race -- "$victims/race_cold" blocked_raw 0.5
[ $? = 0 ] && holds '.[-1] | .sites_refused == .processes' &&
	grep -q 'cannot trap all sites in .*SIGTRAP blocked.*there the samples choose what is stalled$' "$tmp/err"
ok "a thread with SIGTRAP blocked: no traps, and the reason is told" $?

# attached MODE SECONDS: of a process that runs already, where a breakpoint takes turns.
attached()
{
	"$victims/race_cold" "$1" $(($2 + 60)) >/dev/null &
	pid=$!
	eventually grep -q race_cold "/proc/$pid/comm"
	sleep 0.2
	race -p "$pid" --for "$2"
	kill -0 "$pid" && kill "$pid"
	wait "$pid"
	[ $? = 143 ]
}

is_found=1
for seconds in 2 4 8 16 32; do
	attached both_rare $seconds || break
	holds 'any(.[]; .type == "race" and .variable == "level")' && is_found=0 && break
done
ok "attached: code that is seldom reached has its turn" $is_found
attached right_both_rare 2
ok "attached: a program that is right goes on" $?
holds 'all(.[]; .type != "race") and .[-1].processes_failed == 0'
ok "attached: nothing is reported of it" $?

timeout 60 "$trapline" race -v -- "$victims/race_cold" right_once_a_run 2 >"$tmp/out" 2>"$tmp/err"
grep -q '^tested: [0-9]* of [0-9]* memory access.* that threads reached (' "$tmp/err" &&
	grep -q '^coverage: .* sites had a trap for a time$' "$tmp/err"
ok "in text too" $?
finished
