#!/bin/sh
# SPDX-License-Identifier: MIT
# syscalls.sh TRAPLINE [RATE [SECONDS]] - what trapline, strace and bpftrace see of a program that makes RATE calls of
# close() a second, one after the other in one run, as JSON lines. Needs root, cc, jq, strace and bpftrace.

trapline=$1
rate=${2:-20000}
seconds=${3:-5}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cc -O2 -o "$tmp/calls" "$(dirname "$0")/syscalls.c" || exit 2

# begin: the program waits for a byte from the descriptor 9.
begin()
{
	rm -f "$tmp/go"
	mkfifo "$tmp/go"
	"$tmp/calls" "$rate" "$seconds" <"$tmp/go" 2>"$tmp/truth" >/dev/null &
	pid=$!
	exec 9>"$tmp/go"
}

# run: it makes its calls, and has ended.
run()
{
	sleep 2
	printf x >&9
	exec 9>&-
	wait "$pid"
}

# line NAME SEEN LOST
line()
{
	jq -c --arg name "$1" --argjson seen "$2" --argjson lost "$3" --argjson wanted "$rate" \
		'{bench: "syscalls", observer: $name, wanted_per_second: $wanted, calls: .calls,
		  per_second: (.calls / .seconds | floor), seen: $seen, said_lost: $lost,
		  missing: (.calls - $seen - $lost)}' "$tmp/truth"
}

begin
run
line none 0 "$(jq .calls "$tmp/truth")"

begin
"$trapline" break syscall:close -p "$pid" --if 'arg0 == 0xffffffff' --max-rate 0 --budget none --json \
	>"$tmp/seen" 2>"$tmp/err" &
observer=$!
run
wait "$observer"
line trapline "$(grep -c '"type":"hit"' "$tmp/seen")" "$(jq -s 'map(select(.type == "summary"))[0] |
	([.lost[]] | add) + .unread' "$tmp/seen")"

begin
strace -f -e trace=close -o "$tmp/seen" -p "$pid" 2>"$tmp/err" &
observer=$!
run
wait "$observer"
line strace "$(grep -c 'close(-1)' "$tmp/seen")" 0

# It has no raw tracepoints before version 0.22, and some kernels no other of system calls.
program='tracepoint:raw_syscalls:sys_enter /pid == TARGET && args->id == 3/ { printf("close %d\\n", tid); }'
begin
bpftrace -e "$(echo "$program" | sed "s/TARGET/$pid/")" >"$tmp/seen" 2>"$tmp/err" &
observer=$!
sleep 3
run
if kill -INT "$observer" 2>/dev/null; then
	wait "$observer"
	line bpftrace "$(grep -c '^close ' "$tmp/seen")" "$(sed -n 's/^Lost \([0-9]*\) events.*/\1/p' "$tmp/err" \
		"$tmp/seen" | awk '{ n += $1 } END { print n + 0 }')"
else
	jq -nc --arg why "$(grep -m1 -o 'ERROR: tracepoint.*' "$tmp/err")" \
		'{bench: "syscalls", observer: "bpftrace", cannot: $why}'
fi
