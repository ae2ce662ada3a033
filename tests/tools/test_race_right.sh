#!/bin/sh
# SPDX-License-Identifier: MIT
# test_race_right.sh TRAPLINE VICTIMS - nothing is reported in programs that are right. TAP.

# shellcheck source=tests/tools/race_lib.sh disable=SC1091,SC2034,SC2154 # shared with it
. "$(dirname "$0")/race_lib.sh"

for mode in $("$victims/race_right" --list); do
	silent "$mode" "$victims/race_right" "$mode"
done
for mode in $("$victims/race_seeming" --list); do
	silent "seeming: $mode" "$victims/race_seeming" "$mode"
done
for mode in $("$victims/race_openmp" --list | grep '^right_'); do
	silent "OpenMP $mode" "$victims/race_openmp" "$mode"
done

# What looks like a race to the processor is told when asked for, with the reason.
for seconds in 1 2 4 8 16 32; do
	race --overhead 50% --grade C -- "$victims/race_right" release_acquire $seconds
	holds 'any(.[]; .type == "race")' && break
done
holds 'any(.[]; .type == "race" and .grade == "C" and (.why | length > 0))'
ok "acquire and release by plain mov are of grade C, with the reason" $?
holds 'all(.[]; .type != "race" or .grade == "C")'
ok "and of no better grade" $?
for seconds in 1 2 4 8 16 32; do
	race --overhead 50% --grade C -- "$victims/race_right" same_value $seconds
	holds 'any(.[]; .type == "race" and .first.access == "write" and .second.access == "read")' && break
done
holds 'any(.[]; .type == "race" and .first.access == "write" and .second.access == "read" and
	.grade == "C" and .why == "the value stayed the same")'
ok "a store of what is there beside a read is of grade C" $?
for _ in 1 2 3 4 5 6; do
	race --overhead 50% --grade C -- "$victims/race_dispatch"
	holds 'any(.[]; .grade == "C" and .kind == "read-write") and any(.[]; .grade == "B")' && break
done
holds 'any(.[]; .grade == "C" and .kind == "read-write" and
	.why == "a function that was called through the pointer replaces it")'
ok "a function that replaces the pointer it was called by is of grade C" $?
holds 'any(.[]; .grade == "B" and .why == "plain aligned accesses") and all(.[]; .grade != "B" or
	.first.function == "begin_anew" or .second.function == "begin_anew")'
ok "and a store from elsewhere is of grade B" $?
finished
