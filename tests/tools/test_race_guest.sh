#!/bin/sh
# SPDX-License-Identifier: MIT
# test_race_guest.sh TRAPLINE VICTIMS - the program goes on as it was, and the command's own manners.

# shellcheck source=tests/tools/race_lib.sh disable=SC1091,SC2034,SC2154 # shared with it
. "$(dirname "$0")/race_lib.sh"
# shellcheck source=tests/other_user.sh
. "$(dirname "$0")/../other_user.sh"

# searched_until EXPRESSION ARG...: searches, for longer each time, until that holds. What is found in
# how long is a matter of chance, and of what else the machine does. Its last $status.
searched_until()
{
	expression=$1
	shift
	for seconds in 1 2 4 8 16 32; do
		race "$@" $seconds
		status=$?
		holds "$expression" && return
	done
}
is_found='any(.[]; .type == "race")'

for mode in own_sigtrap blocked_signals interrupted_calls closed_descriptors forks fork_storm vforks \
	exec locks many_threads small_stacks signal_stacks jumps; do
	race --overhead 20% -- "$victims/race_guest" $mode
	ok "$mode: the program notices nothing" $?
	holds '.[-1].type == "summary" and .[-1].processes_failed == 0'
	ok "$mode: the search ran" $?
	case $mode in locks | many_threads)
		holds 'all(.[]; .type != "race")'
		ok "$mode: nothing is reported" $?
		;;
	*)
		for _ in 1 2 3 4 5 6 7 8 9 10; do
			holds 'any(.[]; .type == "race" and .first.function == "increment")' && break
			race --overhead 20% -- "$victims/race_guest" $mode
		done
		holds 'any(.[]; .type == "race" and .first.function == "increment")'
		ok "$mode: the race is found all the same" $?
		;;
	esac
done

# The thread that the kernel wakes for a signal has it, although others return from our handler before. One that
# was about to return as the signal came still takes it (trapline(7)): about 1 of 100 calls on a busy machine.
for _ in 1 2 3; do
	race --overhead 50% -- "$victims/ended_calls" 10
	ended=$?
	[ $ended != 0 ] || break
done
[ $ended = 0 ]
ok "a signal ends each of 12 calls of the first thread" $?
cat "$tmp/out"

# A handler that leaves by siglongjmp waits for the end of a stall, which so is never left behind: the place
# of one that was left is taken for ten seconds.
race --overhead 50% -- "$victims/race_guest" jumps
holds '.[-1] | .stalls > 0 and .counters.stalls_left == 0'
ok "jumps: no stall is left behind" $?

for mode in seccomp seccomp_child; do
	race --overhead 20% -- "$victims/race_guest" $mode
	ok "$mode: the program is let go before it forbids our calls" $?
	holds '.[-1].processes_failed == 1' && grep -q '^trapline race: note: 1 of [12] processes were searched only in part: a seccomp filter forbids system calls of the detector$' "$tmp/err"
	ok "$mode: and that is said" $?
	race --sweep --for 1 -- "$victims/race_guest" $mode
	ok "$mode: from a sweep, too" $?
	holds '.[-1].stalls > 0 and .[-1].processes_failed > 0'
	ok "$mode: which held it until then" $?
done

# Signals come late where threads wait for a CPU: with several at once some are on their way.
wrong=0
for round in 1 2 3 4; do
	pids=
	for _ in 1 2 3 4; do
		"$trapline" race --overhead 20% -o /dev/null -- "$victims/race_guest" seccomp \
			>/dev/null 2>&1 &
		pids="$pids $!"
	done
	for pid in $pids; do
		wait "$pid" || wrong=$((wrong + 1))
	done
done
[ $wrong = 0 ]
ok "seccomp: nor is a signal's handler killed that comes late, of $((round * 4)) runs" $?

race -- "$victims/race_guest" forks
holds '.[-1].processes == 31'
ok "forked children are searched" $?
race -- "$victims/race_guest" exec
holds '.[-1].processes == 2'
ok "a program started by exec is searched" $?

# The events of a stall are in its parent's threads: none may get into a child while it is forked.
if [ "$(id -u)" = 0 ] && [ "$(stat -Lc %i /proc/self/ns/pid)" = $((0xeffffffc)) ]; then
	"$victims/race_obstacle" claimed "$trapline" race --json -o "$tmp/races.json" --overhead 50% -- \
		"$victims/race_guest" fork_events >"$tmp/out" 2>"$tmp/err"
	holds '.[-1].stalls > 0 and .[-1].counters.stalls_left == 0' && grep -qx "events $(getconf _NPROCESSORS_ONLN)" "$tmp/out"
	ok "a forked child has none of the events of a stall" $?
else
	skip "a forked child has none of the events of a stall" "privilege, in the first pid namespace"
fi

# Ticks come from clocks of the CPUs, where the command may have them; copies are kept for its end.
own_clocks=2
clocks=$own_clocks
if [ "$(id -u)" = 0 ] && [ "$(stat -Lc %i /proc/self/ns/pid)" = $((0xeffffffc)) ]; then
	own_clocks=0
	clocks=$(getconf _NPROCESSORS_ONLN)
fi
# An event that lies in a thread makes each of its switches dearer. So there is none between stalls, where
# the ticks need none; else 3 watches and a breakpoint are in all threads, which makes them alike.
least=0
[ "$own_clocks" -gt 0 ] && least=4
# shellcheck disable=SC2016 # not ours: the shell's that is started
looks='"$0" mutex 3 & sleep 0.5
	for i in $(seq 100); do ls -l /proc/$!/fd 2>/dev/null | grep -c perf_event; sleep 0.02; done; wait'
# has_events N: most often nobody is held; and none are there before the agent is, and after its end.
has_events()
{
	events=$(grep -vx 0 "$tmp/out" | sort | uniq -c | sort -rn | awk 'NR == 1 { print $2 }')
	holds '.[-1].stalls > 0 and .[-1].threads_at_once > 2' && [ "$events" = "$1" ]
}
"$victims/race_obstacle" claimed "$trapline" race --json -o "$tmp/races.json" --overhead 5% -- \
	sh -c "$looks" "$victims/race_right" >"$tmp/out" 2>"$tmp/err"
has_events $((least + clocks))
ok "between stalls there are no events but the clocks, or 3 watches and a breakpoint with clocks of its own" $?

# Events of the CPUs, a watch and a breakpoint, where no other search of this machine has them.
if [ "$own_clocks" = 0 ]; then
	race --overhead 5% -- sh -c "$looks" "$victims/race_right"
	has_events $((3 * clocks)) || has_events "$clocks"
	ok "with events of the CPUs nothing is opened at all" $?
	"$victims/race_obstacle" claimed "$trapline" race --json -o "$tmp/races.json" --overhead 20% -- \
		"$victims/race_racy" read_modify_write 3 >"$tmp/out" 2>"$tmp/err"
	holds "$is_found"' and .[-1].watches == 3'
	ok "where another search has those, watches are opened in the threads" $?

	setarch -R "$victims/race_racy" read_modify_write 3 >/dev/null 2>&1 &
	outside=$!
	race --overhead 50% -- setarch -R "$victims/race_racy" read_modify_write 2
	wait $outside && holds "$is_found and .[-1].processes_failed == 0"
	ok "a process that is not searched goes on when it traps at the same addresses" $?

	# shellcheck disable=SC2016 # not ours
	race --overhead 100% -- sh -c 'for i in 1 2 3 4; do
		"$0" read_modify_write 9 & sleep 0.3; kill -9 $!; done; exec "$0" read_modify_write 2' \
		"$victims/race_racy"
	holds "$is_found"' and .[-1].processes > 4 and .[-1].processes_failed == 0'
	ok "a process that was killed while a thread was held keeps nothing from others" $?
else
	skip "with events of the CPUs nothing is opened at all" "privilege, in the first pid namespace"
	skip "where another search has those, watches are opened in the threads" \
		"privilege, in the first pid namespace"
	skip "a process that is not searched goes on when it traps at the same addresses" \
		"privilege, in the first pid namespace"
	skip "a process that was killed while a thread was held keeps nothing from others" \
		"privilege, in the first pid namespace"
fi

if [ $own_clocks = 0 ]; then
	searched_until "$is_found" --overhead 20% -- unshare -pf "$victims/race_racy" read_modify_write
	holds "$is_found"
	ok "a program in a pid namespace of its own has clocks of its own" $?
else
	skip "a program in a pid namespace of its own has clocks of its own" \
		"privilege, in the first pid namespace"
fi

timeout 60 "$trapline" race --overhead 20% -- sh -c "'$victims/race_right' mutex 4 &
	echo \$! >'$tmp/pid'; wait \$!; echo \$? >'$tmp/end'" >"$tmp/out" 2>"$tmp/err" &
command=$!
sleep 1
# Of timeout, whose child is the command.
pkill -9 -P $command
sleep 1
left=$(cat "$tmp/pid")
kill -0 "$left" && [ -z "$(find "/proc/$left/fd" -lname "*perf_event*")" ]
ok "the command is killed: the next tick takes all away" $?
for _ in $(seq 100); do
	[ -s "$tmp/end" ] && break
	sleep 0.1
done
[ "$(cat "$tmp/end" 2>/dev/null)" = 0 ]
ok "the command is killed: and the program goes on to its end" $?

race -- sh -c "'$victims/race_right' mutex 30 >/dev/null & sleep 1; echo \$!"
left=$(cat "$tmp/out")
for _ in $(seq 100); do # its next tick may wait for a CPU
	events=$(find "/proc/$left/fd" -lname "*perf_event*" | wc -l)
	[ "$events" = 0 ] && break
	sleep 0.1
done
[ "$left" ] && kill "$left" && [ "$events" = 0 ]
ok "a process that goes on after the command has no event any more" $?

race -- sh -c 'echo out; echo err >&2; exit 3'
[ $? = 3 ] && [ "$(cat "$tmp/out")" = out ] && [ "$(cat "$tmp/err")" = err ]
ok "output and exit status are the program's" $?
race -- sh -c 'kill -9 $$'
[ $? = 137 ] && grep -q '^trapline race: note: sh was killed by SIGKILL\(, sent by the process itself\)*$' "$tmp/err"
ok "death by a signal is told as a shell does, and in words" $?
searched_until "$is_found" --error-exitcode 9 --overhead 20% -- "$victims/race_racy" read_modify_write
[ "$status" = 9 ]
ok "--error-exitcode when a race was found" $?
race --error-exitcode 9 -- "$victims/race_right" mutex 0.3
ok "and not when none was" $?

for seconds in 1 2 4 8 16 32; do
	timeout 60 "$trapline" race --overhead 20% -- "$victims/race_racy" read_modify_write $seconds \
		>"$tmp/out" 2>"$tmp/err"
	grep -q '^race A' "$tmp/err" && break
done
# exactly PATTERN: the report has that line, from end to end.
exactly()
{
	grep -qxE "$1" "$tmp/err"
}
[ ! -s "$tmp/out" ] &&
	exactly 'race A: write-write of shared_word in word_increment \(definite: read-modify-write without LOCK\) \[[0-9a-f]{16}\]'
ok "the text goes to stderr: the head names grade, variable, function and fingerprint" $?
access='read-modify-write of 8 bytes at 0x[0-9a-f]+ by thread [0-9]+ \(race_racy\)'
exactly "  $access, stalled before it:" && exactly "  $access, during the stall:" &&
	exactly '    #0  word_increment(\+0x[0-9a-f]+)? \(race_racy.c:[0-9]+\) in race_racy' &&
	exactly '  value of 8 bytes at 0x[0-9a-f]+: 0x[0-9a-f]+ -> 0x[0-9a-f]+, [0-9]+ us after the stall began'
ok "then both accesses with their stacks, and the value" $?
exactly '1 race: 1 definite \(A\), in [0-9.]+ s with [0-9]+ stalls? at [0-9]+ sites?, none lost' &&
	exactly '  A \[[0-9a-f]{16}\] [0-9]+ times?: word_increment / word_increment'
ok "and a line that sums up" $?
! grep -q -e '^cost: ' -e '^searched: ' -e '^of [0-9]* sample' "$tmp/err"
ok "without the bookkeeping" $?
timeout 60 "$trapline" race -v -- "$victims/race_racy" read_modify_write 1 >"$tmp/out" 2>"$tmp/err"
exactly 'searched: 1 process, at most 3 threads at the same time; watchpoints (on the CPUs|in each thread)' &&
	exactly 'cost: [0-9.]+% of the [0-9.]+ s that the program ran; threads were stalled for [0-9.]+ ms' &&
	grep -q '^of [0-9]* samples*' "$tmp/err"
ok "which --verbose adds: what was done and what it cost" $?

searched_until '.[-1].stalls > 0' -- "$victims/race_racy" read_modify_write
holds '.[-1] | .overhead > 0 and .stalls > 0 and .sites_covered > 0 and .runs == 1'
ok "the summary counts" $?
searched_until '.[-1].stalls > 0' --overhead 20% -- "$victims/race_right" mutex
there=$(jq -s '.[-1].sites_total' "$tmp/races.json")
holds '.[-1] | .sites_total > 20 and .sites_covered <= .sites_total'
ok "and says how many accesses there are, by the timer as well" $?
race --sweep --for 1 -- "$victims/race_right" mutex 0.3
# A sweep leaves out some, and has the calls of libc.
holds ".[-1].sites_total | . > $there / 4 and . < $there * 4"
ok "about as many as a sweep lists" $?
timeout 60 "$trapline" race -- "$victims/race_right" mutex 2 >"$tmp/out" 2>"$tmp/err"
exactly 'no race found in [0-9.]+ s: [1-9][0-9]* stalls? at [1-9][0-9]* sites?, none lost' &&
	exactly "tested: [0-9]+ of [0-9]+ memory access(es)? that threads reached \\([0-9]+%\\); about $there exist"
ok "and the text says how many were tested" $?
exactly "try: trapline race --sweep -- $victims/race_right mutex 2"
ok "and what to do next" $?
timeout 60 "$trapline" race -- true >"$tmp/out" 2>"$tmp/err"
! grep -q -e 'were tested' -e 'try:' "$tmp/err"
ok "but not where nothing was stalled at all" $?

searched_until "$is_found" --overhead 20% -- "$victims/race_racy" read_write
holds '.[0] | .first.tid != .second.tid and (.first.stack | length > 1) and
	(.second.stack | length > 1) and .size == 8 and (.address | startswith("0x")) and
	.count > 0 and (.fingerprint | length == 16) and .variable == "shared_word" and
	(.first.file | endswith("race_racy.c")) and .first.line > 0'
ok "a race has all its members" $?
one=$(jq -r 'select(.type == "race") | .fingerprint' "$tmp/races.json" | head -n 1)
searched_until "$is_found" --overhead 20% -- "$victims/race_racy" read_write
[ "$one" = "$(jq -r 'select(.type == "race") | .fingerprint' "$tmp/races.json" | head -n 1)" ]
ok "its fingerprint is the same in the next run" $?

# wrong NAME PATTERN ARG...: exit 2 and one line that holds the pattern.
wrong()
{
	name=$1
	pattern=$2
	shift 2
	timeout 20 "$trapline" race "$@" >"$tmp/out" 2>"$tmp/err"
	[ $? = 2 ] && [ "$(wc -l <"$tmp/err")" = 1 ] && grep -q -- "$pattern" "$tmp/err"
	ok "$name" $?
}
wrong "no command" '^trapline race: a process is missing: give -p PID, or -- CMD to start one$'
wrong "a command that is not there" 'cannot start /no/such' -- /no/such
wrong "an overhead that is not a number" \
	"^trapline race: invalid --overhead 'x': expected a percentage (example: 2%)$" --overhead x -- true
wrong "an overhead over 1000 %" \
	"^trapline race: invalid --overhead '2000%': expected a share of the CPU time, at most 1000% (example: 2%)$" \
	--overhead 2000 -- true
wrong "a grade that does not exist" "^trapline race: invalid --grade 'D': expected A|B|C$" --grade D -- true
wrong "a delay that is too long" \
	"^trapline race: invalid --delay '11s': expected at most 10s (example: 1ms)$" --delay 11 -- true
wrong "an argument that is not an option" \
	"^trapline race: unexpected argument 'x': give the command after --$" x -- true
wrong "a static program is refused, with the remedy" 'statically' -- "$victims/race_static"

timeout 20 "$trapline" race --grade B --delay 1ms -- true 2>"$tmp/err"
exactly 'no race found in [0-9.]+ s: 0 stalls at 0 sites, none lost' &&
	exactly 'this run shows nothing: too short, or never two threads at the same time'
ok "a program with one thread: it says that nothing could be found" $?

# shown NAME PATTERN OPTION...: a line of progress on a terminal, which the summary replaces.
shown()
{
	name=$1
	pattern=$2
	shift 2
	TERM=xterm script -qec "'$trapline' race $* -- '$victims/race_right' mutex 2" "$tmp/screen" >/dev/null </dev/null
	tr '\r' '\n' <"$tmp/screen" | grep -qE "^.\[K$pattern; Ctrl-C ends\$" &&
		tr '\r' '\n' <"$tmp/screen" | grep -qE '^.\[Kno race found in '
	ok "$name" $?
}
if command -v script >/dev/null; then
	shown "progress on a terminal" '[0-9]+ s: [0-9]+ stalls? at [0-9]+ sites?, 0 races'
	shown "of a sweep: with the run" '[0-9]+ s: run 1, [0-9]+ stalls? at [0-9]+ sites?, 0 races' \
		--sweep --for 1
else
	skip "progress on a terminal" "script(1)"
	skip "of a sweep: with the run" "script(1)"
fi
# colored COMMAND: a race on a terminal has a bold head.
colored()
{
	for seconds in 1 2 4 8 16; do
		TERM=xterm script -qec "$1 '$trapline' race --overhead 20% -- '$victims/race_racy' \
			read_modify_write $seconds" "$tmp/screen" >/dev/null </dev/null
		grep -q 'race A: ' "$tmp/screen" && break
	done
	grep -q '\[1mrace A: .*\[0m' "$tmp/screen"
}
if command -v script >/dev/null; then
	colored ""
	ok "the head of a race is bold on a terminal" $?
	! colored "env NO_COLOR=1" && grep -q 'race A: ' "$tmp/screen"
	ok "but not with NO_COLOR" $?
else
	skip "the head of a race is bold on a terminal" "script(1)"
	skip "but not with NO_COLOR" "script(1)"
fi
timeout 60 "$trapline" race -- "$victims/race_right" mutex 2 >"$tmp/out" 2>"$tmp/err"
! grep -q -e "$(printf '\033')" -e 'Ctrl-C' "$tmp/out" "$tmp/err"
ok "and elsewhere none" $?

# --for with a command: the report comes then, the program runs on, and its exit status counts.
timeout 60 "$trapline" race --overhead 20% --for 500ms -- sh -c "'$victims/race_right' mutex 1.5
	'$victims/race_right' mutex 0.2; echo end; exit 3" >"$tmp/out" 2>"$tmp/err"
[ $? = 3 ] && [ "$(cat "$tmp/out")" = end ]
ok "--for with a command: it runs to its end, and its exit status counts" $?
tail -n 1 "$tmp/err" | grep -qE '^trapline race: note: the search has ended; waiting for sh \(process [0-9]+\) to end$' &&
	[ "$(grep -cE '^no race found in [0-9.]+ s: ' "$tmp/err")" = 1 ]
ok "and the report is there before" $?
race --overhead 20% --for 0.3 -- sh -c "until grep -q summary '$tmp/races.json'; do sleep 0.1; done
	'$victims/race_right' mutex 1 & sleep 0.5; ls -l /proc/\$!/fd | grep -c perf_event; wait"
[ "$(sed -n 1p "$tmp/out")" = 0 ] && holds '.[-1].processes > 0'
ok "a program that starts after the end is not searched" $?

if lend "$victims/race_racy"; then
	for seconds in 1 2 4 8 16 32; do
		timeout 60 $as_user "$lent/trapline" race --overhead 20% -- "$lent/race_racy" \
			read_modify_write $seconds >"$tmp/out" 2>"$tmp/err"
		grep -q '^race A' "$tmp/err" && break
	done
	grep -q '^race A' "$tmp/err"
	ok "it works without privilege" $?
else
	skip "it works without privilege" "$not_lent"
fi
finished
