#!/bin/sh
# SPDX-License-Identifier: MIT
# test_race_tables.sh TRAPLINE VICTIMS - a command and an agent whose tables are tiny, and so full at
# once: the program goes on with right answers, and the loss is counted where the user sees it. TAP.

# shellcheck disable=SC2034,SC2154 # shared with race_lib.sh
trapline=$1
victims=$2
# shellcheck source=tests/tools/race_lib.sh disable=SC1091
. "$(dirname "$0")/race_lib.sh"

# lives NAME EXPRESSION ARG...: exit status 0, and what EXPRESSION says of the summary.
lives()
{
	name=$1
	expression=$2
	shift 2
	race "$@"
	ok "$name: the program goes on" $?
	holds ".[-1] | .type == \"summary\" and ($expression)"
	ok "$name: the loss is counted" $?
}

lives "sites, traps and objects, in a sweep" '.sites_lost > 0 and .stalls > 0 and
	.counters.lost_tables_full > 0 and .counters.lost_traps > 0 and .counters.lost_objects > 0' \
	--sweep --for 0.5 -- "$victims/race_right" mutex 0.2
timeout 60 "$trapline" race --sweep --for 0.2 -- "$victims/race_right" mutex 0.1 >"$tmp/out" 2>"$tmp/err"
grep -qE '^[1-9][0-9]* sites? (was|were) not searched \(table full\)$' "$tmp/err" &&
	grep -qE '^[1-9][0-9]* sites? and [1-9][0-9]* objects? got no traps \(table full\)$' "$tmp/err"
ok "sites, traps and objects: the text says so" $?
lives "sites, by samples" '.stalls > 0 and .counters.lost_tables_full > 0' \
	--overhead 50% -- "$victims/race_right" mutex 2
lives "pairs and records" '.counters.lost_ring_full > 0 and .counters.found > 0' \
	--sweep --for 1 -- "$victims/race_racy" read_modify_write 0.3
lives "processes" '.lost_processes > 0' --sweep --for 0.01 -- "$victims/race_guest" forks
lives "processes that come and go" '.lost_processes > 0' \
	--sweep --for 0.01 -- "$victims/race_guest" fork_storm
lives "descriptors that the program may not close" '.stalls > 0' \
	--sweep --for 0.01 -- "$victims/race_guest" closed_descriptors
lives "threads in callbacks" '.stalls > 0' \
	--sweep --for 0.01 -- "$victims/race_guest" many_threads
good=0
for _ in 1 2 3; do
	timeout 60 "$trapline" race --sweep --for 0.01 -- "$victims/race_reopen" >"$tmp/out" 2>"$tmp/err" &&
		grep -q '^done$' "$tmp/out" && good=$((good + 1))
done
[ $good = 3 ]
ok "notes, and modules that come and go: the program goes on" $?

finish
