#!/bin/sh
# SPDX-License-Identifier: MIT
# test_race_attach.sh TRAPLINE VICTIMS - `trapline race -p`: races of a process that runs already, which
# notices nothing and is afterwards as it was. TAP.

# shellcheck source=tests/tools/race_lib.sh disable=SC1091,SC2034,SC2154 # shared with it
. "$(dirname "$0")/race_lib.sh"
# shellcheck source=tests/other_user.sh
. "$(dirname "$0")/../other_user.sh"
trap '[ -n "$pid" ] && kill -9 "$pid" 2>/dev/null; rm -rf "$tmp"' EXIT

is_started()
{
	case $(readlink "/proc/$pid/exe") in */race_attached) ;; *) return 1 ;; esac
}

# begin MODE: a victim in the background; its pid in $pid.
begin()
{
	"$victims/race_attached" "$1" 600 >"$tmp/victim" 2>&1 &
	pid=$!
	wait_until is_started
	sleep 0.3
}

# ended_well: the victim's own opinion.
ended_well()
{
	kill -TERM "$pid"
	wait "$pid"
	status=$?
	pid=
	[ $status = 0 ] && return
	echo "the victim ended with status $status" >>"$tmp/err"
	cat "$tmp/victim" >>"$tmp/err"
	return 1
}

# attach ARG...: as race(), of $pid.
attach()
{
	race --overhead 20% -p "$pid" "$@"
}

# state: what a search could leave behind.
state()
{
	echo "descriptors $(find "/proc/$pid/fd" -type l | wc -l)"
	echo "events $(find "/proc/$pid/fd" -lname '*perf_event*' | wc -l)"
	echo "blocked $(grep -hs SigBlk "/proc/$pid"/task/*/status | sed "$passing" |
		sort | uniq -c | tr -s ' \n\t' ' ')"
	echo "threads $(find "/proc/$pid/task" -mindepth 1 -maxdepth 1 | wc -l)"
	grep 'Max open files' "/proc/$pid/limits"
	"$victims/race_obstacle" registers "$pid" 0.1
}

# is_searched: a thread of ours has the end of the pipe that tells of our end, and it is not being begun.
is_searched()
{
	for task in "/proc/$pid"/task/*; do
		grep -qs '^trapline-guest' "$task/comm" && find "$task/fd" -lname 'pipe:*' 2>/dev/null | grep -q . && break
	done &&
		! grep -hqs 'TracerPid:.*[1-9]' "/proc/$pid"/task/*/status
}

# wait_until COMMAND...: or for a minute, on a machine that does much else.
wait_until()
{
	for _ in $(seq 600); do
		"$@" && return
		sleep 0.1
	done
}

# The thread that gives SIGTRAP back is the last to leave.
is_left()
{
	! is_searched && ! grep -qs '^trapline-guest' "/proc/$pid"/task/*/comm
}

# search: in the background, and begun; its pid in $observer.
search()
{
	"$trapline" race -p "$pid" --overhead 20% >/dev/null 2>"$tmp/err" &
	observer=$!
	wait_until is_searched
}

# search_killed: nothing of it stays.
search_killed()
{
	kill -9 $observer
	wait $observer 2>/dev/null
	wait_until is_left
	state >"$tmp/after"
	diff "$tmp/before" "$tmp/after" >"$tmp/out"
}

# settle: all threads are there, and out of libc's hands.
settle()
{
	for _ in $(seq 100); do
		[ "$(find "/proc/$pid/task" -mindepth 1 -maxdepth 1 | wc -l)" = 2003 ] &&
			! grep -hq 'SigBlk:.*[1-9a-f]' "/proc/$pid"/task/*/status && return
		sleep 0.1
	done
}

# memory: what is mapped but for the stack, which may grow.
memory()
{
	grep -v stack "/proc/$pid/maps" | awk '{ print $1, $2, $6 }'
}

increments='.first.function == "increment"'

for mode in busy births blocked interrupted own_sigtrap forks many locks right_births asleep; do
	begin $mode
	passing=
	# A thread in its own handler has SIGTRAP blocked for the moment, and one that comes to ours all.
	[ $mode = own_sigtrap ] && passing='s/\(0\{14\}10\|fffffff[0-9a-f]*\)$/0000000000000000/'
	[ $mode = many ] && settle
	state >"$tmp/before"
	case $mode in many | births) seconds=6 ;; *) seconds=2 ;; esac
	attach --for $seconds
	ok "$mode: searched" $?
	case $mode in
	locks | right_births)
		for seconds in 4 8 16 32; do
			holds '.[-1].stalls > 0' && break
			attach --for $seconds
		done
		holds 'all(.[]; .type != "race") and .[-1].stalls > 0'
		ok "$mode: nothing is reported" $?
		;;
	many)
		# Arming two thousand threads takes long, so few are held: which is a matter of chance.
		for seconds in 12 24 48; do
			holds '.[-1].stalls > 0' && break
			attach --for $seconds
		done
		holds '.[-1].stalls > 0 and .[-1].threads_at_once > 2000 and .[-1].processes_failed == 0'
		ok "$mode: threads are held" $?
		;;
	asleep)
		holds '.[-1].type == "summary" and .[-1].stalls == 0'
		ok "$mode: nothing runs, nothing is held" $?
		;;
	*)
		for seconds in 4 8 16 32; do
			holds "any(.[]; .type == \"race\" and $increments)" && break
			attach --for $seconds
		done
		holds "any(.[]; .type == \"race\" and $increments) and .[-1].processes_failed == 0"
		ok "$mode: the race is found" $?
		;;
	esac
	grep -qx "trapline race: note: detached from process $pid; the agent and an idle SIGTRAP handler stay loaded" \
		"$tmp/err"
	ok "$mode: what stays is said" $?
	case $mode in births | right_births | forks) ;; *)
		state >"$tmp/after"
		diff "$tmp/before" "$tmp/after" >"$tmp/out"
		ok "$mode: descriptors, events, masks, limits and registers are as before" $?
		;;
	esac
	ended_well
	ok "$mode: the program notices nothing" $?
done

passing=
begin forks
attach --for 3
holds '.[-1].processes > 1'
ok "forked children are searched" $?
ended_well

begin busy
state >"$tmp/before"
search
is_searched
ok "killed: it was searched before" $?
race -p "$pid" --for 1
[ $? = 2 ] && grep -q 'is searched by another trapline race (PID [0-9]*): end that one first' "$tmp/err"
ok "a second search of the same process is refused" $?
search_killed
ok "killed: the process ends the search by itself" $?
for seconds in 2 4 8 16 32; do
	attach --for $seconds --sarif "$tmp/races.sarif"
	jq -e '.runs[0].results | length > 0' "$tmp/races.sarif" >/dev/null && break
done
jq -e '.runs[0].results | length > 0' "$tmp/races.sarif" >/dev/null
ok "SARIF of a process" $?
memory >"$tmp/once"
times=$(share 10)
bad=0
for _ in $(seq $times); do
	attach --for 0.2 || bad=$((bad + 1))
done
[ $bad = 0 ]
ok "$times times attached and detached" $?
state >"$tmp/after"
memory >"$tmp/often"
diff "$tmp/before" "$tmp/after" >"$tmp/out" && diff "$tmp/once" "$tmp/often" >>"$tmp/out"
ok "and after them it is as after the first" $?
ended_well
ok "and has noticed nothing" $?

# Inside the program, that is: before it runs there is nothing to harm, and later is above.
begin busy
for _ in $(seq $times); do
	"$trapline" race -p "$pid" --overhead 20% >/dev/null 2>&1 &
	observer=$!
	for _ in $(seq 1000); do
		grep -q 'TracerPid:.*[1-9]' "/proc/$pid/status" && break
	done
	sleep "0.0$(shuf -i 0-99 -n 1)"
	kill -9 $observer
	wait $observer 2>/dev/null
done
for seconds in 2 4 8 16 32; do
	attach --for $seconds
	holds "any(.[]; .type == \"race\" and $increments)" && break
done
holds "any(.[]; .type == \"race\" and $increments)"
ok "killed $times times while it begins: it can be searched all the same" $?
[ "$(find "/proc/$pid/fd" -lname '*perf_event*' | wc -l)" = 0 ]
ok "and no event stays" $?
ended_well
ok "and the program notices nothing" $?

# A file of the same name is another one here.
mkdir "$tmp/mnt"
if unshare -m true 2>/dev/null; then
	cp /bin/true "$tmp/mnt/race_attached"
	unshare -m sh -c 'mount -t tmpfs none "$0" && cp "$1" "$0" && exec "$0/race_attached" busy 600' \
		"$tmp/mnt" "$victims/race_attached" >"$tmp/victim" 2>&1 &
	pid=$!
	wait_until is_started
	sleep 0.3
	for seconds in 2 4 8 16 32; do
		attach --for $seconds
		holds 'any(.[]; .type == "race")' && break
	done
	holds "any(.[]; .type == \"race\" and $increments and (.first.file | endswith(\"race_attached.c\")))"
	ok "other mounts: the places are those of its files" $?
	holds '.[-1].sites_total > 0 and .[-1].sites_total < 100'
	ok "other mounts: and so is the number of sites" $?
	kill -9 "$pid"
	wait "$pid" 2>/dev/null
	pid=
else
	skip "other mounts: the places are those of its files" "the right to unshare -m"
fi

begin asleep
state >"$tmp/before"
search
sleep 0.5
search_killed
ok "killed while all of its threads sleep: it ends all the same" $?
ended_well
ok "and notices nothing" $?

# Each time some thread may just be in its own handler of SIGTRAP, where that is blocked: who blocks it
# for good afterwards has killed the program at its next int3.
begin own_sigtrap
for _ in 1 2 3 4 5 6 7 8 9 10; do
	attach --for 0.2
done
ended_well
ok "a program with traps of its own, searched ten times" $?

for round in 1 2 3; do
	begin slow_sigtrap
	attach --for 0.2
	ended_well
	ok "a program that is in its handler of SIGTRAP, round $round" $?
done

if lend "$victims/race_attached"; then
	$as_user "$lent/race_attached" busy 600 >"$tmp/victim" 2>&1 &
	pid=$!
	wait_until is_started
	sleep 0.5
	state >"$tmp/before"
	for seconds in 2 4 8 16 32; do
		attach --for $seconds
		holds "any(.[]; .type == \"race\" and $increments)" && break
	done
	holds "any(.[]; .type == \"race\" and $increments)"
	ok "a process of another user, by root" $?
	state >"$tmp/after"
	diff "$tmp/before" "$tmp/after" >"$tmp/out"
	ok "and it is as before" $?
	for seconds in 2 4 8 16 32; do
		timeout 60 $as_user "$lent/trapline" race --overhead 20% -p "$pid" --for $seconds \
			>"$tmp/out" 2>"$tmp/err"
		grep -q '^race .* in increment' "$tmp/err" && break
	done
	grep -q '^race .* in increment' "$tmp/err" && grep -q 'a clock in each thread' "$tmp/err"
	ok "by its own user: with other clocks, and that is said" $?
	ended_well
else
	skip "by its own user" "$not_lent"
	skip "a process of another user, by root" "$not_lent"
fi

# Numbers of threads are its own there, and ours mean nothing to it.
if unshare --pid --fork --mount-proc true 2>/dev/null; then
	unshare --pid --fork --mount-proc "$victims/race_attached" busy 600 >"$tmp/victim" 2>&1 &
	outer=$!
	pid=
	is_born()
	{
		pid=$(tr -d ' ' <"/proc/$outer/task/$outer/children")
		[ -n "$pid" ] && is_started
	}
	wait_until is_born
	sleep 0.3
	state >"$tmp/before"
	for seconds in 2 4 8 16 32; do
		attach --for $seconds
		holds "any(.[]; .type == \"race\" and $increments)" && break
	done
	holds "any(.[]; .type == \"race\" and $increments)"
	ok "a process in a pid namespace of its own" $?
	state >"$tmp/after"
	diff "$tmp/before" "$tmp/after" >"$tmp/out"
	ok "and there nothing stays either" $?
	kill -TERM "$pid"
	wait "$outer"
	ok "and it notices nothing" $?
	pid=
else
	skip "a process in a pid namespace of its own" "unshare, and the right to use it"
fi

begin busy
(wait_until is_searched; sleep 0.5; kill -INT "$(cat "$tmp/observer")") &
sh -c "echo \$\$ >'$tmp/observer'; exec '$trapline' race -p $pid --json -o '$tmp/races.json'" 2>"$tmp/err"
ok "Ctrl-C ends it" $?
[ "$(find "/proc/$pid/fd" -lname '*perf_event*' | wc -l)" = 0 ] && holds '.[-1].type == "summary"'
ok "with a summary, and nothing stays" $?
(wait_until is_searched; sleep 0.5; kill -TERM "$pid") &
attach
[ $? = 0 ] && grep -q 'has ended' "$tmp/err" && holds '.[-1].type == "summary"'
ok "a process that ends is the end" $?
wait "$pid"
pid=

# A stopped process runs no thread: no tool that works in a thread of its own comes into it.
begin busy
kill -STOP "$pid"
timeout 60 "$trapline" race -p "$pid" --for 0.5 >"$tmp/out" 2>"$tmp/err"
[ $? = 2 ] && grep -qx "trapline race: process $pid: it is stopped: continue it first (kill -CONT $pid)" "$tmp/err"
ok "a stopped process is refused" $?
grep -q 'State:.T' "/proc/$pid/status"
ok "and it is still stopped" $?
kill -CONT "$pid"
ended_well
ok "and continues later" $?
begin asleep
timeout 60 "$trapline" race -p "$pid" --for 0.5 >"$tmp/out" 2>"$tmp/err"
grep -qx 'this run shows nothing: the threads used too little CPU time for a sample' "$tmp/err" &&
	! grep -q 'is stopped' "$tmp/err"
ok "a process that sleeps is not called stopped" $?
ended_well
ok "and notices nothing" $?

finished
