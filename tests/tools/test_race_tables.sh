#!/bin/sh
# SPDX-License-Identifier: MIT
# test_race_tables.sh TRAPLINE VICTIMS USUAL - a command and an agent whose tables are tiny, and so full at
# once: the program goes on with right answers, and the loss is counted where the user sees it. TAP.

# shellcheck source=tests/tools/race_lib.sh disable=SC1091,SC2034,SC2154 # shared with it
. "$(dirname "$0")/race_lib.sh"
usual=$3

# lives NAME EXPRESSION ARG...: exit status 0 each time, and what EXPRESSION says of the summary in one of
# $tries runs: chance decides which table is full, and whether a short run stalls a thread.
tries=5
lives()
{
	name=$1
	expression=".[-1] | .type == \"summary\" and ($2)"
	shift 2
	for _ in $(seq $tries); do
		race "$@"
		status=$?
		[ $status = 0 ] || break
		holds "$expression" && break
	done
	ok "$name: the program goes on" $status
	holds "$expression"
	ok "$name: the counters say what was lost" $?
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
for mode in after_abort table; do
	# Which of the sites have traps is by chance.
	good=0
	for _ in 1 2 3 4 5 6; do
		race --sweep --for 0.1 -- "$victims/race_constants" "$mode" 0.1 || break
		holds '.[-1].counters.lost_tables_full > 0' && good=$((good + 1))
	done
	[ $good = 6 ]
	ok "names of calls, $mode: no byte changes that is not code" $?
done
lives "locals that are given away" '.stalls > 0 and .counters.lost_locals > 0' \
	--sweep --for 0.3 -- "$victims/race_guest" given_locals
timeout 60 "$trapline" race --sweep --for 0.1 -- "$victims/race_guest" given_locals >"$tmp/out" 2>"$tmp/err"
grep -qE '^[1-9][0-9]* access(es)? to local variables got no traps \(table full\)$' "$tmp/err"
ok "locals that are given away: the text says so" $?
lives "heap blocks and stacks" '.stalls > 0 and .counters.heap_lost_blocks > 0 and
	.counters.heap_lost_stacks > 0' --heap --overhead 50% -- "$victims/race_heap" malloc 1
holds 'all(.[] | select(.type == "race") | .block; . == null or (.size == 96 and .freed == null))'
ok "heap blocks and stacks: no other block is taken for the lost one" $?
timeout 60 "$trapline" race --heap --for 0.3 -- "$victims/race_heap" malloc 0.2 >"$tmp/out" 2>"$tmp/err"
grep -qE '^heap: [1-9][0-9]* blocks? and [1-9][0-9]* stacks? were not recorded \(table full\)$' "$tmp/err"
ok "heap blocks and stacks: the text says so" $?
lives "pairs and records" '.counters.lost_ring_full > 0 and .counters.found > 0' \
	--sweep --for 1 -- "$victims/race_racy" read_modify_write 0.3
lives "processes" '.lost_processes > 0' --sweep --for 0.01 -- "$victims/race_guest" forks
lives "processes that come and go" '.lost_processes > 0' \
	--sweep --for 0.01 -- "$victims/race_guest" fork_storm
lives "descriptors that the program may not close" '.stalls > 0' \
	--sweep --for 0.01 -- "$victims/race_guest" closed_descriptors
lives "threads in callbacks" '.stalls > 0 and .threads_at_once > 2' \
	--sweep --for 0.01 -- "$victims/race_guest" many_threads
good=0
for _ in 1 2 3; do
	timeout 60 "$trapline" race --sweep --for 0.01 -- "$victims/race_reopen" >"$tmp/out" 2>"$tmp/err" &&
		grep -q '^done$' "$tmp/out" && good=$((good + 1))
done
[ $good = 3 ]
ok "notes, and modules that come and go: the program goes on" $?
"$victims/race_attached" blocked 600 >"$tmp/victim" 2>&1 &
pid=$!
sleep 0.5
race --overhead 20% --for 1 -p "$pid"
kill -TERM "$pid"
wait "$pid"
ok "threads that block SIGTRAP: the program goes on" $?

# A death whose names could be those of other files has none, and says so.
race -- "$victims/deaths" store
holds 'any(.[]; .type == "death" and .kind == "SIGSEGV" and .address == "0xea60" and .first.stack == [] and
	(.why | test("records were lost")))'
ok "mapped files of a process: a death says why it has no stack" $?

# The same programs with tables of the usual size: nothing is lost, in any run.
tries=1
trapline=$usual
for victim in "race_guest given_locals" "race_constants after_abort 0.2" "race_right mutex 0.2"; do
	# shellcheck disable=SC2086 # a program and its arguments
	lives "usual tables, $victim" '.sites_lost == 0 and .lost_processes == 0 and .stalls > 0 and
		([.counters | .lost_tables_full, .lost_objects, .lost_traps, .lost_locals] | add) == 0' \
		--sweep --for 0.3 -- "$victims/"$victim
done
race -- "$victims/deaths" store
holds 'any(.[]; .type == "death" and .kind == "SIGSEGV" and .first.stack[0].function == "store" and .why == null)'
ok "usual tables, mapped files: the stack is there" $?
lives "usual tables, heap" '.stalls > 0 and .counters.heap_lost_blocks == 0 and
	.counters.heap_lost_stacks == 0' --heap --overhead 50% -- "$victims/race_heap" malloc 1

finished
