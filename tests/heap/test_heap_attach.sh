#!/bin/sh
# SPDX-License-Identifier: MIT
# test_heap_attach.sh TRAPLINE VICTIMS - heap -p samples a process that runs, and leaves it as it was, also
# when the command is killed. TAP.

# shellcheck source=tests/cli/tap.sh disable=SC1091,SC2154 # shared with the others
. "$(dirname "$0")/../cli/tap.sh"
need jq python3
sums=$(dirname "$0")/text_sums.py

# start [ARG...]: a server that runs, $pid.
start()
{
	"$victims/heap_server" "$@" >"$tmp/server" 2>&1 &
	pid=$!
	started="$started $pid"
	for _ in $(seq 100); do
		[ -s "$tmp/server" ] && break
		sleep 0.05
	done
	python3 "$sums" $pid >"$tmp/before"
}
# stop: its own checks held.
stop()
{
	kill -TERM $pid
	wait $pid
	[ $? = 0 ] && grep -q fine "$tmp/server"
}
is_as_before()
{
	for _ in $(seq 100); do
		python3 "$sums" $pid >"$tmp/after"
		cmp -s "$tmp/before" "$tmp/after" && return 0
		sleep 0.1
	done
	return 1
}
# Its code, by a search that begins.
is_changed()
{
	for _ in $(seq 200); do
		python3 "$sums" $pid | cmp -s - "$tmp/before" || return 0
		sleep 0.05
	done
	return 1
}
attach()
{
	timeout -k 2 100 "$trapline" heap -p $pid "$@" >"$tmp/out" 2>"$tmp/err"
}
holds()
{
	jq -e -s "$1" "$tmp/out" >/dev/null
}

start bad
attach --json --for 1
[ $? = 0 ] && holds 'any(.[]; .type == "heap" and .kind == "use-after-free" and .grade == "A" and
	.first.access == "read" and .block.size == 48 and any(.first.stack[]; .function == "read_freed"))'
ok 'an error of a process that runs is found' $?
holds '.[-1].type == "summary" and .[-1].sampled > 0 and .[-1].processes > 1'
ok 'and its children are sampled' $?
attach --for 1
[ $? = 0 ] && grep -q 'use-after-free' "$tmp/err" && grep -q 'malloc() is that of .*libc' "$tmp/err"
ok 'it can be done again' $?
# A fork copies mappings, and what is anonymous. Landings are a file's, and those that are near are one mapping.
awk '/^[0-9a-f]+-/ { split($1, ends, "-"); ours = /memfd:trapline-pads/; n += ours
		joined += ours && substr(ends[1], 1, length(ends[1]) - 4) != substr(ends[2], 1, length(ends[2]) - 4) }
	ours && /^Anonymous:/ { copied += $2 / 4 }
	END { print n + 0 " mappings of landings, " joined + 0 " joined, " copied + 0 " pages copied"
		exit n == 0 || n > 60 || joined == 0 || copied > n / 4 }' "/proc/$pid/smaps" >"$tmp/err"
ok 'a fork copies few landings of its jumps, in few mappings' $?
kill -USR1 $pid
is_as_before
ok 'its code is as before when the last sampled block is gone' $?
"$trapline" heap -p $pid --for 60 >/dev/null 2>"$tmp/first" &
first=$!
is_changed
# Its library is there: soon it holds the process.
sleep 2
attach --for 1
status=$?
kill -INT $first
wait $first
[ $status = 2 ] || [ $status = 1 ] && grep -q 'sampled by another trapline heap' "$tmp/err"
ok 'but not twice at once' $?
is_as_before
ok 'and after that too' $?
stop
ok 'it did its work all the time' $?

# A search replaces the default action of SIGBUS, which a thread of the server sets and reads all the time.
start bad
for _ in $(seq "$(share 20)"); do
	attach --for 0.2 || break
done
stop
ok 'its own handlers stay, however often a search begins' $?

# --- on a terminal ---

start bad
TERM=xterm script -qec "'$trapline' heap -p $pid --for 1.5" /dev/null >"$tmp/out" </dev/null
grep -q 'blocks* sampled, [0-9]* errors*; Ctrl-C ends' "$tmp/out" && grep -q "$(printf '\033')\[1mheap A" "$tmp/out"
ok 'a line shows how far it is, and errors have a colour' $?
stop
ok 'which is nothing to the program' $?

# --- a large program ---

start bad-crowded
attach --json --for 1
[ $? = 0 ] && holds 'any(.[]; .type == "heap" and .kind == "use-after-free")'
ok 'where most memory near libc is in use, jumps lie behind the first instructions' $?
kill -USR1 $pid
is_as_before
ok 'and go as others do' $?
stop
ok 'which is nothing to the program either' $?

# --- blocks that stay ---

start
attach --first 50 --for 1
grep -q 'sampled blocks* .* in use: free() and its like stay changed' "$tmp/err"
ok 'blocks that are still in use are reported' $?
python3 "$sums" $pid | cmp -s - "$tmp/before"
[ $? = 1 ]
ok 'and free() knows them' $?
kill -USR1 $pid
is_as_before
ok 'until they are freed' $?
stop
ok 'which the program does as it would have' $?

# --- children ---

start bad-workers
attach --json --first 1000 --for 3 &
search=$!
is_changed
# Now its children are forked while the search runs, however long the machine took.
kill -USR2 $pid
wait $search
[ $? = 0 ] && holds 'any(.[]; .type == "heap" and .kind == "use-after-free" and .block.size == 56 and
	any(.first.stack[]; .function == "read_freed_in_child"))'
ok 'an error of a child that the process forks is found' $?
# One that was forked while the search began has some of its jumps, and is refused.
child=$(pgrep -P $pid heap_server | sed -n 4p)
attach --for 0.5
timeout 60 "$trapline" heap -p "$child" --for 0.5 >/dev/null 2>"$tmp/err"
[ $? = 0 ] && grep -q 'blocks* sampled' "$tmp/err"
ok 'a child can be searched later by itself' $?
stop
ok 'children go on when the search has ended' $?

# --- the command is killed ---

start
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
	"$trapline" heap -p $pid >/dev/null 2>&1 &
	command=$!
	sleep 0.0$((i * 7 % 10))
	[ $((i % 3)) = 0 ] && sleep 0.3
	kill -KILL $command
	wait $command 2>/dev/null
done
kill -0 $pid
ok 'kill -9 of the command at different moments does no harm' $?
attach --first 5 --for 0.5
[ $? = 0 ]
ok 'and another one may come' $?
kill -USR1 $pid
is_as_before
ok 'its code is as before after that' $?
stop
ok 'and its work was done' $?

# --- refusals ---

"$trapline" heap -p 999999999 2>"$tmp/err"
[ $? = 2 ] && grep -q 'no process 999999999' "$tmp/err"
ok 'a process that is not there is refused' $?
"$trapline" heap -p $$ -- true 2>"$tmp/err"
[ $? = 2 ] && grep -q 'cannot be combined' "$tmp/err"
ok 'a process and a command are refused' $?
finished
