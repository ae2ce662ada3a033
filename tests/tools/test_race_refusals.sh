#!/bin/sh
# SPDX-License-Identifier: MIT
# test_race_refusals.sh TRAPLINE VICTIMS - where nothing could be found, that is said, in one line with
# the remedy, and nothing is run or touched. TAP.

# shellcheck disable=SC2034,SC2154 # shared with race_lib.sh
trapline=$1
victims=$2
# shellcheck source=tests/tools/race_lib.sh disable=SC1091
. "$(dirname "$0")/race_lib.sh"
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
	for _ in $(seq 200); do
		case $(readlink "/proc/$pid/exe") in */"${program##*/}") break ;; esac
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

refused "neither process nor command" 'Give -p PID, or -- CMD' "$trapline" race
refused "both" 'not both' "$trapline" race -p $$ -- true
refused "no such process" 'no process 99999999' "$trapline" race -p 99999999
refused "a sweep of a process" 'runs a command again' "$trapline" race --sweep -p $$
refused "a replay of a process" 'runs a command again' \
	"$trapline" race --replay 0123456789abcdef --from /dev/null -p $$
refused "the heap of a process" 'notes blocks from the beginning' "$trapline" race --heap -p $$
refused "a time for a command" '--for goes with -p' "$trapline" race --for 1 -- true

refused "a static program" 'linked statically.*Link it dynamically' \
	"$trapline" race -- "$victims/race_static"
begin static_victim
refused "a static process" 'statically linked.*link it dynamically' "$trapline" race -p "$pid"
end "a static process"

refused "a program in Go" 'written in Go.*build it with -race' "$trapline" race -- "$victims/race_go"
begin race_go 60
refused "a process in Go" 'written in Go.*build it with -race' "$trapline" race -p "$pid"
end "a process in Go"

refused "under a seccomp filter" 'under a seccomp filter.*seccomp=unconfined' \
	"$victims/race_obstacle" filtered "$trapline" race -- true
begin race_obstacle filtered_sleep 60
refused "a process with a seccomp filter" 'seccomp filter.*run it without' "$trapline" race -p "$pid"
end "a process with a seccomp filter"

refused "no debug registers" 'no hardware breakpoint can be had.*no debug register is left' \
	"$victims/race_obstacle" registers -- "$trapline" race -- true
begin race_attached busy
"$victims/race_obstacle" registers "$pid" 60 >"$tmp/taken" &
holder=$!
for _ in $(seq 200); do
	grep -q taken "$tmp/taken" && break
	sleep 0.1
done
refused "a process whose debug registers are taken" 'registers.*are taken.*End one of them' \
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

if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
	cp "$victims/race_right" "$tmp/setuid" && chown 65534 "$tmp/setuid" && chmod 4755 "$tmp/setuid"
	chmod 755 "$tmp"
	refused "a setuid program" 'setuid.*Run it as its owner' "$trapline" race -- "$tmp/setuid"
else
	skip "a setuid program" "root and setpriv"
fi
nobody="setpriv --reuid 65534 --regid 65534 --clear-groups"
# A tree in root's home is not nobody's to run.
if [ "$(id -u)" = 0 ] && $nobody "$trapline" --version >/dev/null 2>&1; then
	prlimit --nofile=640:640 $nobody "$victims/race_attached" busy 600 &
	pid=$!
	for _ in $(seq 200); do
		case $(readlink "/proc/$pid/exe") in */race_attached) break ;; esac
		sleep 0.1
	done
	sleep 0.5
	refused "a process that may not have the descriptors" 'limit of descriptors.*prlimit --nofile' \
		"$trapline" race -p "$pid"
	grep -q 'Max open files *640 *640 ' "/proc/$pid/limits"
	ok "a process that may not have the descriptors: it has the limit that it had" $?
	refused "a process of another user" 'another user' $nobody "$trapline" race -p $$
	end "a process that may not have the descriptors"
else
	skip "a process that may not have the descriptors" "root, setpriv, and a tree that others may read"
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
grep -q 'note: only one CPU may be used.*Allow two' "$tmp/err"
ok "one CPU: what that means is said" $?
timeout 60 "$trapline" race -- "$victims/race_racy" read_modify_write 1 2>"$tmp/err"
! grep -q 'only one CPU' "$tmp/err"
ok "and not where there are two" $?

finish
