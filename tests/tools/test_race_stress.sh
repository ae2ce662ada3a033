#!/bin/sh
# SPDX-License-Identifier: MIT
# test_race_stress.sh TRAPLINE VICTIMS - locks held by threads that are held, storms of forks and more
# processes than the table has rows, again and again: no deadlock, and nothing goes wrong.
# TRAPLINE_STRESS=5000: a thousand runs, and some minutes. TAP.

# shellcheck source=tests/tools/race_lib.sh disable=SC1091,SC2034,SC2154 # shared with it
. "$(dirname "$0")/race_lib.sh"

runs=$(share 20)
storms=$(share 1)
forks=$(share 300)
if [ "$forks" -lt 300 ]; then # more than the table has rows
	forks=300
fi

# Stalls of a length that all others come to wait for it.
bad=0
stalls=0
for i in $(seq $runs); do
	race --overhead 100% --delay 0.00$((i % 5 + 1)) -- "$victims/race_right" mutex 0.2 || bad=$((bad + 1))
	stalls=$((stalls + $(jq -s '.[-1].stalls' "$tmp/races.json")))
done
echo "# $stalls stalls"
[ $bad = 0 ] && [ "$stalls" -gt "$runs" ]
ok "$runs runs with locks held by threads that are held: no deadlock" $?

bad=0
for _ in $(seq $storms); do
	race --overhead 50% -- "$victims/race_guest" fork_storm || bad=$((bad + 1))
done
[ $bad = 0 ]
ok "storms of forks beside threads that race" $?

timeout -k 5 900 "$trapline" race --overhead 5% --json -o "$tmp/races.json" -- \
	sh -c "i=0; while [ \$i -lt $forks ]; do (:) ; i=\$((i + 1)); done" >"$tmp/out" 2>"$tmp/err"
[ $? = 0 ] && holds ".[-1].processes > $forks and .[-1].lost_processes == 0 and
	.[-1].processes_failed == 0"
ok "$forks children, each of which is counted" $?

finished
