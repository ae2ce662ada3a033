#!/bin/sh
# SPDX-License-Identifier: MIT
# test_race_stacks.sh TRAPLINE VICTIMS - threads that have little of their stack left are not harmed, by
# the timer of a command, by a search of a process and by a sweep; and what is not done is counted. TAP.

# shellcheck source=tests/tools/race_lib.sh disable=SC1091,SC2034,SC2154 # shared with it
. "$(dirname "$0")/race_lib.sh"
trap '[ -n "$pid" ] && kill -9 "$pid" 2>/dev/null; rm -rf "$tmp"' EXIT
pid=

times=$(share 3)

# What the kernel takes for a signal in such a thread. Its account for all threads (AT_MINSIGSTKSZ) can be more.
signal=$("$victims/race_stacks" signal 0)
ours='[.[-1].counters | .skipped_small_stack, .hits_small_stack] | add'

# attached ARG...: the victim with them, searched from outside. Its exit status.
attached()
{
	"$victims/race_stacks" "$@" 60 >"$tmp/victim" 2>&1 &
	pid=$!
	sleep 0.3
	race --overhead 100% -p $pid --for 0.7
	kill -TERM $pid 2>/dev/null
	wait $pid
	status=$?
	pid=
	return $status
}

# many NAME EXPRESSION COMMAND...: again and again, and each time that holds.
many()
{
	name=$1
	expression=$2
	shift 2
	bad=0
	for _ in $(seq $times); do
		"$@" && holds "$expression" || bad=$((bad + 1))
	done
	[ $bad = 0 ]
	ok "$name: $times times" $?
}

# One signal finds room and nothing else; two; a tick's work; nearly all of a stall.
for room in $((signal + 1536)) $((signal + 2048)) $((signal + 4096)) $((2 * signal + 3000)); do
	many "$room bytes left" "$ours > 0" \
		race --overhead 100% -- "$victims/race_stacks" room $room 0.5
	many "$room bytes left, searched from outside" "$ours > 0" attached room $room
done
many "$((signal + 4096)) bytes left, in a sweep" '.[-1].type == "summary"' \
	race --sweep --for 1 -- "$victims/race_stacks" room $((signal + 4096)) 0.3

# Just enough to be held, but not for a handler of the program on top of that.
many "signals of the program, where there is just room for a stall" '.[-1].stalls > 0' \
	race --overhead 100% -- "$victims/race_stacks" guests $((2 * signal + 4400)) 1
many "the same from outside" '.[-1].type == "summary"' attached guests $((2 * signal + 4400))

timeout 60 "$trapline" race --overhead 100% -- "$victims/race_stacks" room $((signal + 2048)) 0.5 \
	>"$tmp/out" 2>"$tmp/err"
grep -qE '^small stacks: [1-9][0-9]* stalls? and [0-9]+ hits? were skipped, because less than about 11 KiB ' "$tmp/err"
ok "and that is said" $?

# Room enough: nothing is left out, and no more is used than is asked for.
found_all()
{
	for seconds in 1 2 4 8 16 32; do
		race --overhead 100% -- "$victims/race_stacks" "$1" $seconds
		status=$?
		holds 'any(.[]; .type == "race" and .first.function == "increment")' && break
	done
	[ $status = 0 ] && holds "any(.[]; .type == \"race\") and ($ours) == 0"
}
found_all used
ok "with room enough nobody is left alone" $?
used=$(sed -n 's/ bytes$//p' "$tmp/out")
echo "# $used bytes used, of which a signal takes $signal"
[ "$used" -gt 2000 ] && [ "$used" -lt $((2 * signal + 4400)) ]
ok "and no more is used than was asked for" $?
found_all first
ok "nor the first thread, whose stack grows when it is needed" $?

finished
