#!/bin/sh
# SPDX-License-Identifier: MIT
# test_heap_errors.sh TRAPLINE VICTIMS - each kind of heap error is told as what it is, and the program
# goes on; its good twin is not. TAP.
#
# All cases run in one process, since it goes on after each; a case that misses runs alone once more,
# so that the message tells which of both it is.

# shellcheck source=tests/cli/tap.sh disable=SC1091,SC2154 # shared with the others
. "$(dirname "$0")/../cli/tap.sh"
need jq
victim=$victims/heap_victim

# heap ARG...: the report in $tmp/heap.json, the program's output in $tmp/out.
heap()
{
	rm -f "$tmp/heap.json"
	timeout -k 2 100 "$trapline" heap --json -o "$tmp/heap.json" "$@" >"$tmp/out" 2>"$tmp/err"
}
# holds EXPRESSION: of jq, over the array of all lines.
holds()
{
	jq -e -s "$1" "$tmp/heap.json" >/dev/null 2>"$tmp/jq"
}
# judge FILE: for each row of it, what a report of the file says of its case, as a line "NAME ok" or
# "NAME WHAT". A stack of the case holds the function that has its name.
judge()
{
	jq -r -s --rawfile rows "$1" --arg any "$any" --arg registers "$registers" '
	def in_case($name): any(.stack[]?.function; . != null and test("(^|::)" + $name + "(_in)?(\\(|$)"));
	def is($value; $wanted): $wanted == $any or ($wanted | tonumber) == $value;
	[.[] | select(.type == "heap")] as $all |
	$rows | split("\n")[] | select(. != "") | split(" ") |
	{name: .[0], kind: .[1], access: .[2], grades: .[3], size: .[4], offset: .[5], block: .[6], needs: .[7]} |
	select(.needs != "r" or $registers == "yes") |
	. as $row |
	(if .needs == "w" and $registers != "yes" then "B" else .grades end) as $grades |
	[$all[] | select([.first, .block.allocated, .block.freed] | any(. != null and in_case($row.name)))] as $mine |
	$row.name + " " + (
	if ($mine | length) == 0 then "is not reported"
	elif ($mine | length) > 1 then "is reported \($mine | length) times: \([$mine[].kind])"
	else $mine[0] |
		(if .kind != $row.kind then "kind \(.kind) for \($row.kind)"
		elif (.grade as $g | $grades | contains($g) | not) then "grade \(.grade) for \($grades)"
		elif .grade == "A" and $row.access != "-" and .first.access != $row.access then "access \(.first.access) for \($row.access)"
		elif .grade == "A" and (is(.size; $row.size) | not) then "size \(.size) for \($row.size)"
		elif .grade == "A" and (is(.block.offset; $row.offset) | not) then "offset \(.block.offset) for \($row.offset)"
		elif is(.block.size; $row.block) | not then "block_size \(.block.size) for \($row.block)"
		elif $row.block != $any and (.block.allocated == null or (.block.allocated.stack | length) == 0) then "no stack of the allocation"
		elif ($row.kind | test("free$")) and $row.needs != "k" and
			(.block.freed == null or (.block.freed.stack | length) == 0) then "no stack of the first free"
		elif .grade == "A" and (.first.stack | length) == 0 then "no stack of the error"
		else "ok" end)
	end)' "$tmp/heap.json"
}

any=-100000
registers=yes
[ -z "$NO_DEBUG_REGISTERS" ] || registers=no
"$victim" list >"$tmp/list" || echo 'Bail out! no list of cases'

# --- what is wrong ---

heap --first 64 -- "$victim" bad
status=$?
[ $status = 0 ] && [ "$(cat "$tmp/out")" = 'went on' ]
ok 'a program with all errors goes on to its end, and its status is its own' $?
holds '.[-1].type == "summary"' || {
	cat "$tmp/err"
	echo 'Bail out! no report'
	exit 1
}
judge "$tmp/list" >"$tmp/verdicts"
while read -r name verdict <&3; do
	if [ "$verdict" != ok ]; then
		together=$verdict
		heap --first 64 -- "$victim" bad "$name"
		grep "^$name " "$tmp/list" >"$tmp/row"
		verdict=$(judge "$tmp/row" | cut -d ' ' -f 2-)
		echo "# $name: with the others: $together; alone: $verdict"
		verdict=$together
	fi
	[ "$verdict" = ok ]
	ok "$name" $?
done 3<"$tmp/verdicts"
[ -s "$tmp/verdicts" ] || ok 'the reports are read' 1
[ $registers = yes ] || skip 'reads before a block' 'no debug registers (NO_DEBUG_REGISTERS)'

# --- an end without destructors ---

# dies WAY STATUS: what is beside a block that was never freed is told, and the status is its own.
dies()
{
	heap -- "$victim" die "$1"
	status=$?
	[ $status = "$2" ] && holds '[.[] | select(.type == "heap")] | length == 1 and .[0].kind == "overflow" and
		.[0].grade == "B" and .[0].block.offset == 24 and any(.[0].block.allocated.stack[]; .function == "die")'
	ok "a program that ends by $1 is looked at before" $?
}
dies _exit 3
dies abort 134
dies assert 134
dies illegal 132
dies fault 139

# noticed WAY KIND: by the C library, which ends the program; the block is not sampled.
noticed()
{
	heap -- "$victim" die "$1"
	[ $? = 134 ] && holds "[.[] | select(.type == \"heap\" and .kind == \"$2\" and .message != null and .address == null and
		.first.via == \"free\" and any(.first.stack[]; .function == \"die_of_libc\"))] | length == 1"
	ok "$2: what the C library ends the program for is told, with the stack" $?
}
noticed double double-free
noticed invalid corruption

# --- for code scanning ---

rm -f "$tmp/heap.sarif"
heap --first 64 --sarif "$tmp/heap.sarif" -- "$victim" bad
jq -e '.version == "2.1.0" and (.runs[0].results | map(select(.ruleId != "death")) | length > 20) and
	all(.runs[0].results[] | select(.ruleId != "death"); (.locations | length == 1) and (.ruleId | startswith("heap/")) and
		(.stacks | length > 0) and (.level == "error" or .level == "warning"))' \
	"$tmp/heap.sarif" >/dev/null
ok 'SARIF has a result for each error, with stacks' $?
jq -r 'select(.type == "heap") | .fingerprint' "$tmp/heap.json" | sort >"$tmp/prints"
jq -r '.runs[0].results[] | select(.ruleId != "death") | .partialFingerprints."traplineHeap/v1"' "$tmp/heap.sarif" | sort |
	cmp -s - "$tmp/prints"
ok 'and the fingerprints of the JSON lines' $?
jq -r 'select(.type == "death") | .fingerprint' "$tmp/heap.json" | sort >"$tmp/prints"
jq -r '.runs[0].results[] | select(.ruleId == "death") | .partialFingerprints."traplineDeath/v1"' "$tmp/heap.sarif" | sort |
	cmp -s - "$tmp/prints"
ok 'deaths too, and their fingerprints' $?

# --- what is right ---

heap --first 64 -- "$victim" good
[ $? = 0 ] && [ "$(cat "$tmp/out")" = 'went on' ]
ok 'a right program does what it does without' $?
holds 'all(.[]; .type != "heap") and .[-1].type == "summary" and .[-1].sampled > 50'
ok 'and is not reported, though its blocks are sampled' $?
LD_BIND_NOW=1 heap -- "$victim" good
[ $? = 0 ] && holds 'all(.[]; .type != "heap") and .[-1].sampled > 0'
ok 'nor at the default budget' $?
# shellcheck disable=SC2016 # for the inner shell
heap -- sh -c 'kill -SEGV $$'
[ $? = 139 ] && grep -qx 'trapline heap: note: sh was killed by SIGSEGV' "$tmp/err"
ok 'a program that a signal ends is not one that ended well' $?
# shellcheck disable=SC2016 # for the inner shell
heap -- sh -c 'exit 3'
[ $? = 3 ] && ! grep -q killed "$tmp/err"
ok 'and one that exits is not said to be killed' $?
if command -v gdb >/dev/null; then
	heap -- gdb -nx -batch -ex run --args /bin/echo "went on"
	grep -q 'went on' "$tmp/out" && grep -q 'exited normally' "$tmp/out"
	ok 'it ends as usual in a debugger that runs it' $?
else
	skip 'it ends as usual in a debugger that runs it' gdb
fi
finished
