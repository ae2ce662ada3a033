#!/bin/sh
# SPDX-License-Identifier: MIT
# test_heap_signals.sh TRAPLINE VICTIMS - under heap a program sees its signals, masks and stacks as without:
# heap_signals checks itself. TAP.

# shellcheck source=tests/cli/tap.sh disable=SC1091,SC2154 # shared with the others
. "$(dirname "$0")/../cli/tap.sh"

# natively CASE: it is right without us, so that a failure is ours.
natively()
{
	timeout -k 2 60 "$victims/heap_signals" "$1" >"$tmp/native" 2>&1
}
# from_start CASE
from_start()
{
	timeout -k 2 60 "$trapline" heap --first 1000 -- "$victims/heap_signals" "$1" >"$tmp/out" 2>"$tmp/err"
}
# attached CASE: the command comes first, then the case begins.
attached()
{
	rm -f "$tmp/go"
	"$victims/heap_signals" -w "$tmp/go" "$1" >"$tmp/out" 2>"$tmp/victim" &
	pid=$!
	started="$started $pid"
	for _ in $(seq 200); do
		[ -s "$tmp/out" ] && break
		sleep 0.05
	done
	timeout -k 2 120 "$trapline" heap -p $pid --first 1000 >/dev/null 2>"$tmp/err" &
	by=$!
	for _ in $(seq 400); do
		grep -q guard-late "/proc/$pid/maps" 2>/dev/null && break
		sleep 0.05
	done
	sleep 0.5
	: >"$tmp/go"
	wait $pid
	status=$?
	kill -INT $by 2>/dev/null
	wait $by
	return $status
}

cases=$("$victims/heap_signals" list)
for case in $cases; do
	if ! natively "$case"; then
		skip "$case" "$(tail -n 1 "$tmp/native")"
		continue
	fi
	from_start "$case" && grep -q '^right' "$tmp/out"
	ok "$case, from the start" $?
done
# One process, which forks for each.
attached each
for case in $cases; do
	natively "$case" || continue
	grep -qx "right $case" "$tmp/out"
	ok "$case, in a child of a process that ran before" $?
done
# What is sent while the command comes, and goes.
for _ in 1 2 3; do
	"$victims/heap_signals" before_throughout >"$tmp/out" 2>&1 &
	pid=$!
	started="$started $pid"
	sleep 0.3
	timeout -k 2 60 "$trapline" heap -p $pid --for 0.5 >/dev/null 2>"$tmp/err"
	wait $pid && grep -q '^right' "$tmp/out"
	ok 'before_throughout, in a process that the command comes to' $?
done
for case in fault_mask before_taken before_opened start_blocked; do
	attached $case && grep -q '^right' "$tmp/out" && grep -q 'block.* sampled' "$tmp/err"
	ok "$case, in a process that ran before" $?
done
finished
