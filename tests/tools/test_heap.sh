#!/bin/sh
# SPDX-License-Identifier: MIT
# test_heap.sh TRAPLINE VICTIMS - `trapline heap`: each kind of error with its stacks, none in programs
# without errors, and the program goes on. TAP.

# shellcheck source=tests/cli/tap.sh disable=SC1091,SC2034,SC2154 # shared with it
. "$(dirname "$0")/../cli/tap.sh"
command=heap
errors=$victims/heap_errors
life=$victims/heap_life
need jq

# heap ARG...: JSON lines in $tmp/report, the program's output in $tmp/out. On a busy machine a few samples may
# take the whole allowance, which the summary counts: then once more.
heap()
{
	for _ in 1 2 3 4 5; do
		rm -f "$tmp/report"
		timeout -k 5 60 "$trapline" heap --json -o "$tmp/report" "$@" >"$tmp/out" 2>"$tmp/err"
		status=$?
		[ "$(tail -n 1 "$tmp/report" 2>/dev/null | jq '.counters.lost_budget // 0' 2>/dev/null)" != 0 ] || break
	done
	return $status
}

# all EXPRESSION: of jq, over the array of all lines.
all()
{
	jq -e -s "$1" "$tmp/report" >/dev/null 2>>"$tmp/err"
}

# one KIND MODE EXPRESSION: one error of this kind for which it holds, after which the program went on.
one()
{
	heap -- "$errors" "$2" && grep -q 'went on' "$tmp/out" &&
		all "map(select(.type == \"heap\")) | length == 1 and (.[0] | .kind == \"$1\" and $3)"
	ok "$2: $1" $?
}

allocated='.block.allocated.function == "make" and .block.allocated.stack[0].line > 0'
freed='.block.freed.function == "drop"'

one use-after-free use_after_free ".grade == \"A\" and .first.access == \"write\" and .size == 1 and .block.offset == 7 and
	.block.size == 40 and .first.function == \"put\" and $allocated and $freed"
one use-after-free read_after_free ".grade == \"A\" and .first.access == \"read\" and .first.function == \"get\""
one double-free double_free ".grade == \"A\" and .first.function == \"drop\" and $allocated and $freed"
one overflow overflow ".grade == \"A\" and .first.access == \"write\" and .block.offset == 48 and .block.size == 48 and
	.first.function == \"put\" and $allocated and .block.freed == null"
one overflow overread '.grade == "A" and .first.access == "read" and .block.offset == 49'
# With debug registers the write itself is caught; without, its trace is found later.
written='.grade == "A" and .first.access == "write" and .first.tid != null and .block.freed == null'
one underflow underflow ".block.offset == -1 and $allocated and
	(($written) or (.grade == \"B\" and .first.tid == null and $freed))"
one underflow underflow_kept ".block.freed == null and $allocated and (($written) or .grade == \"B\")"
one underflow underread '.grade == "A" and .first.access == "read" and .block.offset == -1 and .first.function == "get"'
one invalid-free free_stack '.grade == "A" and .memory == "stack" and .block.allocated == null'
one invalid-free free_data '.grade == "A" and .memory == "data"'
one invalid-free free_middle ".grade == \"A\" and .memory == \"block\" and .block.offset == 8 and $allocated"
one invalid-free free_unaligned '.grade == "A" and .memory == "unaligned"'
one double-free realloc_freed '.grade == "A" and .first.function == "realloc_freed()"'
one invalid-free new_and_free_array '.grade == "A" and .memory == "mismatched" and
	.first.function == "new_and_free_array()" and .block.allocated.function == "new_and_free_array()"'
one overflow kernel_reads '.grade == "A" and .first.in_system_call and .first.access == "read" and .size == 4 and .block.offset == 100'
one use-after-free kernel_writes_freed '.grade == "A" and .first.in_system_call and .first.access == "write" and .size == 1'

# none PROGRAM MODE OPTION...: no error, and the program went on.
none()
{
	program=$1
	mode=$2
	shift 2
	heap "$@" -- "$program" "$mode" && grep -q 'went on' "$tmp/out" &&
		all '(map(select(.type == "heap")) | length == 0) and .[-1].sampled > 0'
	ok "$mode $*: no error" $?
}

for mode in kernel_fits resizes aligned; do
	none "$errors" $mode --first 100000
done
none "$errors" resizes --align 1
for mode in threads tiny_stacks in_handlers children own_faults own_stack; do
	none "$life" $mode
	none "$life" $mode --first 100000
done
all '.[-1].reused == 0 and .[-1].counters.lost_records == 0'
ok 'own_stack: nothing was lost' $?

heap -- "$life" blocked && grep -q 'went on' "$tmp/out" &&
	all '[.[] | select(.type == "heap")] | length == 1 and .[0].first.function == "use_blocked"'
ok 'blocked: an error is reported although all signals are blocked' $?

heap --first 100000 -- "$life" many_errors && grep -q 'went on' "$tmp/out" &&
	all '(map(select(.type == "heap")) | length == 1) and
	(.[-1].counters | .found + .lost_records + .late >= 1600 and .found_again > 1500)'
ok 'many_errors: each is counted, one is reported' $?

# 512 blocks and those of libc.
lost=0
for _ in $(seq "$(share 20)"); do
	heap --first 100000 -- "$life" at_once &&
		all '.[-1].counters | .sampled >= 512 and .lost_full + .lost_memory == 0' || lost=1
done
[ $lost = 0 ]
ok 'at_once: 64 threads begin at one moment, and none goes without a sample' $?

"$life" dies >/dev/null 2>&1
natively=$?
heap -- "$life" dies
[ $? = "$natively" ] && all 'map(select(.type == "heap")) | length == 0'
ok 'dies: by its own fault, as without heap' $?
heap -- "$life" is_killed
[ $? = "$natively" ]
ok 'is_killed: by SIGSEGV that was sent' $?

heap --stop -- "$errors" use_after_free
[ $? = 139 ] && ! grep -q 'went on' "$tmp/out" && all 'map(select(.kind == "use-after-free")) | length == 1'
ok '--stop: the access ends the program' $?
heap --stop -- "$errors" double_free
[ $? = 134 ] && ! grep -q 'went on' "$tmp/out"
ok '--stop: a wrong free ends the program' $?
heap --error-exitcode 9 -- "$errors" overflow
[ $? = 9 ]
ok '--error-exitcode: an error' $?
heap --error-exitcode 9 -- "$errors" resizes
ok '--error-exitcode: no error' $?

heap --first 100000 -- "$errors" resizes &&
	all '.[-1] | .sampled > 10 and .pool_bytes == 33554432 and
	.underreads == (.counters.unwatched == 0) and
	.counters.processes == 1 and .cost_ns > 0'
ok 'the summary says what was sampled, and what it cost' $?

heap -- "$errors" overflow_odd && all '.[0] | .kind == "overflow" and .block.offset == 13' &&
	all '(.[-1].underreads and .[0].grade == "A") or .[0].grade == "B"'
ok 'the bytes between a block and the page behind it are watched, or checked when it is freed' $?
heap --align 1 -- "$errors" overflow_odd &&
	all '.[0] | .kind == "overflow" and .grade == "A" and .block.offset == 13 and .first.function == "put"'
ok '--align 1: there are none' $?

watch -- "$errors" use_after_free
grep -q '^heap A: use-after-free: write of 1 byte at offset 7 of a block of 40 bytes, in put \[[0-9a-f]*\]$' "$tmp/err" &&
	grep -q '^  allocated by thread [0-9]*, [0-9.]* [num]*s before the access:$' "$tmp/err" &&
	grep -q '^  freed by thread [0-9]*, [0-9.]* [num]*s before the access:$' "$tmp/err" &&
	grep -q '^trapline heap: 1 error; ' "$tmp/err"
ok 'the text has the stacks and the summary' $?

printf 'heap_top:^put$\n' >"$tmp/suppressions"
heap --suppressions "$tmp/suppressions" --error-exitcode 9 -- "$errors" overflow && all '.[-1].suppressed == 1 and length == 1'
ok '--suppressions: by the function of the access' $?
printf 'race_top:^put$\nheap_top:^get$\n' >"$tmp/suppressions"
heap --suppressions "$tmp/suppressions" --error-exitcode 9 -- "$errors" overflow
[ $? = 9 ] && heap --suppressions "$tmp/suppressions" --error-exitcode 9 -- "$errors" overread
ok '--suppressions: one of races does not count, one of the heap does' $?
printf 'heap_from_lib:%s$\n' "$(readlink -f "$errors")" >"$tmp/suppressions"
heap --suppressions "$tmp/suppressions" --error-exitcode 9 -- "$errors" overflow
[ $? = 0 ] && printf 'heap_from_lib:/elsewhere/%s$\n' "$(basename "$errors")" >"$tmp/suppressions" &&
	! heap --suppressions "$tmp/suppressions" --error-exitcode 9 -- "$errors" overflow
ok '--suppressions: the path of the object that makes the access, and no other path' $?
heap --baseline "$tmp/known" --error-exitcode 9 -- "$errors" overflow
[ $? = 9 ] && grep -q '^[0-9a-f]\{16\}  A overflow: 0 bytes after a block of 48 bytes in put$' "$tmp/known" &&
	heap --baseline "$tmp/known" --error-exitcode 9 -- "$errors" overflow && all '.[-1].baselined == 1' &&
	! heap --baseline "$tmp/known" --error-exitcode 9 -- "$errors" overread
ok '--baseline: the first run makes it, the next one reports others only' $?

wrong 'no command' 'no program' --first 2
wrong 'an overhead of 0' "invalid --overhead '0'" --overhead 0 -- true
wrong 'an overhead above 100%' "invalid --overhead '101%'" --overhead 101% -- true
wrong 'an alignment that is not a power of two' "invalid --align '3'" --align 3 -- true
wrong 'a command that does not exist' 'cannot start' -- /nonexistent
wrong 'a static program' 'is linked statically' -- "$victims/race_static"

timeout 60 "$trapline" heap -- prlimit --as=50000000 "$life" own_faults >"$tmp/out" 2>"$tmp/err"
status=$?
[ $status = 0 ] || { [ $status = 1 ] && grep -q 'cannot sample' "$tmp/err"; }
ok 'a limit of memory: it works, or says why not' $?

finished
