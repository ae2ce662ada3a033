#!/bin/sh
# SPDX-License-Identifier: MIT
# test_race_outside_harm.sh TRAPLINE VICTIMS - `trapline race --outside`, and the command or the process killed at any
# moment: no probe is left, and the text and the descriptors of the process are as before. TAP.

# shellcheck source=tests/tools/outside_lib.sh disable=SC1091,SC2034,SC2154 # shared with it
. "$(dirname "$0")/outside_lib.sh"
rounds=$(share 40)

# text: of the program, as the process has it.
text()
{
	grep 'r-xp.*/race_racy$' "/proc/$pid/maps" | while read -r range _; do
		from=$((0x${range%-*})) to=$((0x${range#*-}))
		dd if="/proc/$pid/mem" bs=4096 skip=$((from / 4096)) count=$(((to - from) / 4096)) 2>/dev/null
	done | cksum
}

state()
{
	echo "text $(text)"
	echo "descriptors $(find "/proc/$pid/fd" -type l | wc -l)"
	echo "threads $(find "/proc/$pid/task" -mindepth 1 -maxdepth 1 | wc -l)"
	grep -h -e SigCgt -e SigBlk -e TracerPid "/proc/$pid/status"
}

as_before()
{
	state >"$tmp/after"
	cmp -s "$tmp/before" "$tmp/after"
}

# pause N: a moment that differs from round to round.
pause()
{
	sleep "$(awk -v n="$1" 'BEGIN { srand(n * 7919); print rand() * 0.8 }')"
}

start race_racy read_modify_write 600
state >"$tmp/before"
wrong=0
for n in $(seq "$rounds"); do
	"$trapline" race --outside --overhead 50% -p "$pid" >/dev/null 2>&1 &
	search=$!
	pause "$n"
	kill -9 $search 2>/dev/null
	wait $search 2>/dev/null
	eventually as_before && kill -0 "$pid" || wrong=$((wrong + 1))
done
diff "$tmp/before" "$tmp/after" >"$tmp/out"
[ $wrong = 0 ]
ok "the command killed $rounds times: text, descriptors and threads are as before" $?
race --outside --overhead 20% --for 8 -p "$pid"
holds 'any(.[]; .type == "race" and .first.function == "word_increment")'
ok "the race is found in it after all that" $?
as_before
ok "and nothing is left" $?
kill -9 "$pid"

wrong=0
for n in $(seq "$rounds"); do
	"$victims/race_racy" read_modify_write 60 >/dev/null 2>&1 &
	pid=$!
	eventually runs "$pid" race_racy
	timeout -k 5 30 "$trapline" race --outside --overhead 50% -p "$pid" >"$tmp/out" 2>"$tmp/err" &
	search=$!
	pause "$n"
	kill -9 $pid
	wait $pid 2>/dev/null
	wait $search
	[ $? -lt 124 ] || wrong=$((wrong + 1))
done
[ $wrong = 0 ]
ok "the process killed $rounds times: the command ends each time" $?
finished
