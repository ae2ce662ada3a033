#!/bin/sh
# SPDX-License-Identifier: MIT
# test_race_refusals.sh TRAPLINE VICTIMS - where nothing could be found, that is said, in one line with
# the remedy, and nothing is run or touched. TAP.

# shellcheck source=tests/tools/race_lib.sh disable=SC1091,SC2034,SC2154 # shared with it
. "$(dirname "$0")/race_lib.sh"
# shellcheck source=tests/other_user.sh
. "$(dirname "$0")/../other_user.sh"
trap '[ -n "$pid" ] && kill -9 "$pid" 2>/dev/null; rm -rf "$tmp"' EXIT

# refused NAME PATTERN COMMAND...: exit 2 and one line that holds the pattern.
refused()
{
	name=$1
	pattern=$2
	shift 2
	timeout -k 2 60 "$@" >"$tmp/out" 2>"$tmp/err"
	[ $? = 2 ] && [ "$(wc -l <"$tmp/err")" = 1 ] &&
		grep -q -- "^trapline race: .*$pattern" "$tmp/err"
	ok "$name" $?
}

# begin PROGRAM ARG...: in the background; its pid in $pid.
begin()
{
	program=$victims/$1
	shift
	"$program" "$@" >"$tmp/victim" 2>&1 &
	pid=$!
	wait_for_exe "${program##*/}"
}

# wait_for_exe NAME: the process $pid has executed it, and runs.
wait_for_exe()
{
	for _ in $(seq 200); do
		case $(readlink "/proc/$pid/exe") in */"$1") break ;; esac
		sleep 0.1
	done
	sleep 0.3
}

# end NAME: it is still there.
end()
{
	kill -0 "$pid"
	ok "$1: it runs on" $?
	kill -9 "$pid"
	wait "$pid" 2>/dev/null
	pid=
}

refused "neither process nor command" "a process is missing: give -p PID, or -- CMD to start one" "$trapline" race
refused "both" 'not both' "$trapline" race -p $$ -- true
refused "no such process" 'no process 99999999' "$trapline" race -p 99999999
refused "a sweep of a process" \
	'cannot combine --sweep with -p: it runs a command repeatedly; give -- CMD ARG...$' \
	"$trapline" race --sweep -p $$
refused "a replay of a process" 'cannot combine --replay with -p: it runs a command repeatedly' \
	"$trapline" race --replay 0123456789abcdef --input /dev/null -p $$
refused "the heap of a process" \
	'cannot combine --heap with -p: it records each allocation from the start; give -- CMD ARG...$' \
	"$trapline" race --heap -p $$

refused "a static program" 'linked statically.*Link it dynamically' \
	"$trapline" race --inside -- "$victims/race_static"
begin static_victim
refused "a static process" 'statically linked.*link it dynamically' "$trapline" race --inside -p "$pid"
end "a static process"

refused "a program in Go" 'cannot search .*/race_go: it is a Go program, whose runtime handles all signals; build it with -race' \
	"$trapline" race --inside -- "$victims/race_go"
begin race_go 60
refused "a process in Go" 'cannot search process [0-9]*: it is a Go program.*build it with -race' \
	"$trapline" race --inside -p "$pid"
end "a process in Go"

refused "under a seccomp filter" 'true would inherit this seccomp filter, which may kill it.*seccomp=unconfined' \
	"$victims/race_obstacle" filtered "$trapline" race --inside -- true
begin race_obstacle filtered_sleep 60
refused "a process with a seccomp filter" 'seccomp filter.*run it without' "$trapline" race --inside -p "$pid"
end "a process with a seccomp filter"


# Where the kernel's word on a filter cannot be had, there may be one.
unreadable='mount --bind /dev/null /proc/$$/status && exec "$@"'
if unshare -m sh -c "$unreadable" sh true 2>/dev/null; then
	timeout 60 "$trapline" race -- unshare -m sh -c "$unreadable" sh true 2>"$tmp/err"
	grep -q 'were not searched: /proc/self/status is not readable.*seccomp filter.*(mount proc at /proc): Input' "$tmp/err"
	ok "a command that cannot read its status" $?
	unshare -m sh -c "$unreadable" sh "$victims/race_attached" busy >"$tmp/victim" 2>&1 &
	pid=$!
	wait_for_exe race_attached
	refused "a process that cannot read its status" 'cannot search process [0-9]*: /proc/self/status is not readable.*(mount proc at /proc)' \
		"$trapline" race -p "$pid"
	end "a process that cannot read its status"
else
	skip "a command that cannot read its status" "the right to mount"
fi
# Its list of groups fills more than the first page of the file.
groups=$(seq -s, 100000 101000)
if setpriv --groups "$groups" true 2>/dev/null; then
	timeout 60 "$trapline" race -- setpriv --groups "$groups" "$victims/race_obstacle" filtered true 2>"$tmp/err"
	grep -q 'processes were not searched: a seccomp filter' "$tmp/err"
	ok "a seccomp filter in a process of many groups" $?
	timeout 60 "$trapline" race -- setpriv --groups "$groups" true 2>"$tmp/err"
	! grep -q 'not searched' "$tmp/err"
	ok "many groups without a filter" $?
else
	skip "a seccomp filter in a process of many groups" "the right to set groups"
fi

refused "no debug registers" 'cannot search: no hardware breakpoint is available.*no debug register is left' \
	"$victims/race_obstacle" registers -- "$trapline" race -- true
begin race_attached busy
"$victims/race_obstacle" registers "$pid" 60 >"$tmp/taken" &
holder=$!
for _ in $(seq 200); do
	grep -q taken "$tmp/taken" && break
	sleep 0.1
done
refused "a process whose debug registers are taken" 'all 4 debug registers of one of its threads are taken; end the debugger, trapline or perf' \
	"$trapline" race -p "$pid"
[ "$(find "/proc/$pid/fd" -lname '*perf_event*' | wc -l)" = 0 ]
ok "a process whose debug registers are taken: nothing stays" $?
kill $holder
wait $holder 2>/dev/null
for seconds in 2 4 8 16 32; do
	race --overhead 20% -p "$pid" --for $seconds
	holds '.[-1].stalls > 0' && break
done
holds '.[-1].stalls > 0'
ok "and when they are free it is searched" $?
end "a process whose debug registers are taken"

if lend "$victims/race_attached"; then
	cp "$victims/race_right" "$tmp/setuid" && chown 65534 "$tmp/setuid" && chmod 4755 "$tmp/setuid"
	refused "a setuid program" 'setuid.*Run it as its owner' "$trapline" race -- "$tmp/setuid"
	prlimit --nofile=40:40 $as_user "$lent/race_attached" busy 600 &
	pid=$!
	wait_for_exe race_attached
	refused "a process that may not have the descriptors" 'hard limit of file descriptors is too low, 5 per thread are needed; raise it with prlimit --nofile$' \
		"$trapline" race -p "$pid"
	grep -q 'Max open files *40 *40 ' "/proc/$pid/limits"
	ok "a process that may not have the descriptors: it has the limit that it had" $?
	refused "a process of another user" 'another user' $as_user "$lent/trapline" race -p $$
	end "a process that may not have the descriptors"
else
	skip "a setuid program" "$not_lent"
	skip "a process that may not have the descriptors" "$not_lent"
fi
if command -v gdb >/dev/null; then
	begin race_attached busy
	gdb -p "$pid" -nx -batch -ex 'shell sleep 20' >/dev/null 2>&1 &
	debugger=$!
	for _ in $(seq 200); do
		grep -q 'TracerPid:.[1-9]' "/proc/$pid/status" && break
		sleep 0.3
	done
	refused "a process under a debugger" 'not permitted to trace it: it has a debugger' \
		"$trapline" race -p "$pid"
	kill -9 $debugger
	wait $debugger 2>/dev/null
	end "a process under a debugger"
else
	skip "a process under a debugger" "gdb"
fi

timeout 60 taskset -c 0 "$trapline" race -- "$victims/race_racy" read_modify_write 1 2>"$tmp/err"
grep -qx 'trapline race: note: only one CPU is available (taskset, cpuset): races are found only if a thread switch falls into a stall; allow at least two' \
	"$tmp/err"
ok "one CPU: what that means is said" $?
timeout 60 "$trapline" race -- "$victims/race_racy" read_modify_write 1 2>"$tmp/err"
! grep -q 'only one CPU' "$tmp/err"
ok "and not where there are two" $?

finished
