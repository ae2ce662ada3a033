#!/bin/sh
# SPDX-License-Identifier: MIT
# test_heap_pages.sh TRAPLINE VICTIMS - pages lose their access by guard regions where the kernel has them, and by
# mprotect(2): a program sees the same bytes, and the same errors are found. TAP.

# shellcheck source=tests/cli/tap.sh disable=SC1091,SC2154 # trapline, victims and tmp are of there
. "$(dirname "$0")/../cli/tap.sh"
need jq python3
victim=$victims/heap_pages
kernel=$(python3 -c '
import ctypes
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
page = libc.mmap(None, ctypes.c_size_t(4096), 3, 0x22, -1, ctypes.c_long(0))
print("mprotect" if libc.madvise(ctypes.c_void_p(page), ctypes.c_size_t(4096), 102) else "regions")')
echo "# the kernel: $kernel"

# run_case CASE: its output in $tmp/out, the summary in $tmp/summary.
run_case()
{
	rm -f "$tmp/heap.json"
	timeout -k 2 60 "$trapline" heap --first 100000 --json -o "$tmp/heap.json" -- "$victim" "$1" >"$tmp/out" \
		2>"$tmp/err"
	status=$?
	jq -c 'select(.type == "summary")' "$tmp/heap.json" >"$tmp/summary"
	return $status
}

for guards in regions mprotect; do
	export TRAPLINE_GUARDS=$guards
	for case in read write copy call child locked beyond threads; do
		run_case $case
		ok "$guards: bytes_are_as_they_were_after_$case" $?
		[ $case = threads ] || jq -e '.errors > 0 and .counters.lost_full == 0' "$tmp/summary" >"$tmp/jq"
		ok "$guards: and_the_errors_of_${case}_are_found" $?
	done
	run_case mappings
	ok "$guards: blocks_in_use_beside_freed_ones" $?
	lines=$(sed -n 's/^mappings //p' "$tmp/out")
	echo "# $guards: $lines more mappings"
	expected=mprotect
	[ $guards = mprotect ] || expected=$kernel
	jq -e --arg guards $expected '.guards == $guards' "$tmp/summary" >"$tmp/jq" &&
		{ [ $expected = mprotect ] || [ "$lines" -lt 40 ]; }
	ok "$guards: the_summary_has_the_kind_of_guards" $?
	sh "$(dirname "$0")/test_heap_errors.sh" "$trapline" "$victims" >"$tmp/out" 2>&1
	ok "$guards: each_kind_of_error" $?
done
finished
