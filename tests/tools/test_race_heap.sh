#!/bin/sh
# SPDX-License-Identifier: MIT
# test_race_heap.sh TRAPLINE VICTIMS - --heap: the block that is raced for, who allocated it and who
# freed it, whichever way it was allocated; nothing of it where it was not asked for. TAP.

# shellcheck source=tests/tools/race_lib.sh disable=SC1091,SC2034,SC2154 # shared with it
. "$(dirname "$0")/race_lib.sh"

victim=$victims/race_heap
ours='(.second.function | test("^word_(read|write)$"))'

# heap NAME EXPRESSION MODE [OPTION...]: a race between the two of the victim for which it holds.
heap()
{
	name=$1
	expression=$2
	mode=$3
	shift 3
	for seconds in 1 2 4 8 16 32; do
		race --overhead 20% "$@" -- "$victim" "$mode" $seconds
		if holds "any(.[]; .type == \"race\" and $expression)"; then
			ok "$name" 0
			return
		fi
	done
	ok "$name" 1
}

for mode in malloc calloc realloc aligned memalign new; do
	heap "$mode: the block, the offset, and who allocated it" \
		"$ours and .memory == \"heap\" and .block.size == 96 and .block.offset == 40 and
		.block.freed == null and .block.allocated.tid != .first.tid and
		any(.block.allocated.stack[]; .function == \"make_$mode\" and .file != null)" $mode --heap
done
heap 'large: a block of many pages' \
	"$ours and .block.size == 1000000 and .block.offset == 600000 and
	.block.allocated.stack[0].function == \"make_large\"" large --heap
heap 'child: a forked process has blocks of its own' \
	"$ours and .block.size == 96 and .block.allocated.stack[0].function == \"make_malloc\" and
	(.block.allocated.thread == null or .block.allocated.thread == \"gone\")" child --heap
heap 'use after free: both stacks, and the name of the thread' \
	'([.first.function, .second.function] | sort) == ["node_drop", "node_use"] and
	.block.allocated.stack[0].function == "make_malloc" and .block.freed.stack[0].function == "node_drop" and
	.block.freed.tid == .block.allocated.tid and .block.freed.thread == "first"' use_after_free --heap
heap 'mapped: no block is made up' \
	"$ours and .block == null and .memory == \"anonymous\"" mapped --heap
holds '.[-1].counters | .heap_unknown_block > 0 and .heap_lost_blocks == 0 and
	.heap_lost_stacks == 0'
ok 'mapped: the counter tells of it, and nothing was lost' $?
heap 'without --heap: no block' "$ours and .block == null" malloc
if [ -f /usr/lib/x86_64-linux-gnu/libjemalloc.so.2 ]; then
	export LD_PRELOAD=/usr/lib/x86_64-linux-gnu/libjemalloc.so.2
	heap 'another allocator below: jemalloc' "$ours and .block.size == 96 and .block.offset == 40 and
		.block.allocated.stack[0].function == \"make_malloc\"" malloc --heap
	unset LD_PRELOAD
else
	skip 'another allocator below: jemalloc' 'libjemalloc2 is not installed'
fi

# text NAME PATTERN MODE OPTION...: a line of the report.
text()
{
	name=$1
	pattern=$2
	mode=$3
	shift 3
	for seconds in 1 2 4 8 16 32; do
		timeout 60 "$trapline" race --overhead 20% "$@" -- "$victim" "$mode" $seconds \
			>"$tmp/out" 2>"$tmp/err"
		if grep -Eq "$pattern" "$tmp/err"; then
			ok "$name" 0
			return
		fi
	done
	ok "$name" 1
}

text 'text: the block' \
	'^  heap block of 96 bytes at 0x[0-9a-f]+, race at offset 40, allocated by thread [0-9]+' \
	malloc --heap
grep -A1 '^  heap block' "$tmp/err" | grep -q '^    #0  make_malloc'
ok 'text: its stack' $?
text 'text: who freed it' '^  freed by thread [0-9]+ \(first\):$' use_after_free --heap
text 'text: not in a block' \
	'^  not in a heap block that --heap recorded: allocated before the search, or not with malloc$' \
	mapped --heap
text 'text: without --heap, what to do' \
	'^  heap (or other anonymous )?memory; --heap reports where it was allocated$' malloc

# The place of the allocation is a related location, and the file is sound.
for seconds in 1 2 4 8 16 32; do
	timeout 60 "$trapline" race --overhead 20% --heap --as sarif -o "$tmp/races.sarif" -- "$victim" \
		malloc $seconds >"$tmp/out" 2>"$tmp/err"
	jq -e '.runs[0].results | length > 0' "$tmp/races.sarif" >/dev/null && break
done
jq -e '[.runs[0].results[].relatedLocations[] |
	select(.message.text | test("^heap block of 96 bytes, race at offset 40, allocated by thread"))] |
	length > 0 and all(.[]; .id == 3 and
	(.physicalLocation.artifactLocation.uri | endswith("race_heap.cc")) and
	.logicalLocations[0].name == "make_malloc")' "$tmp/races.sarif" >/dev/null
ok 'SARIF: a related location where it was allocated' $?

# Programs go on as they were, and whatever allocates a lot loses nothing.
race --heap -- "$victim" churn 1
[ $? = 0 ] && holds '.[-1] | .races == 0 and .counters.heap_lost_blocks == 0'
ok 'blocks of a thread of its own: nothing is reported, nothing lost' $?
race --heap --sweep --for 1 -- "$victims/race_right" mutex 0.2
[ $? = 0 ] && holds '.[-1] | .races == 0 and .sites_covered > 0'
ok 'with --sweep' $?
for mode in forks exec many_threads small_stacks jumps; do
	race --heap -- "$victims/race_guest" $mode
	ok "$mode: the program notices nothing" $?
done
race --heap -- sh -c 'exit 3'
[ $? = 3 ]
ok 'the exit status is that of the program' $?
race -- sh -c 'tr "\0" "\n" </proc/self/environ | grep -q heap && exit 9; exit 0'
ok 'nothing is preloaded where it was not asked for' $?
finished
