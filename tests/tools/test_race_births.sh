#!/bin/sh
# SPDX-License-Identifier: MIT
# test_race_births.sh TRAPLINE VICTIMS - threads that live shorter than a clock's period: their races are
# found within the ordinary budget, and the same programs with locks stay silent. TAP.

# shellcheck source=tests/tools/race_lib.sh disable=SC1091,SC2034,SC2154 # shared with it
. "$(dirname "$0")/race_lib.sh"

# found_at_2 NAME EXPRESSION MODE: as found(), at the overhead that is the default.
found_at_2()
{
	for seconds in 1 2 4 8 16 32; do
		race -- "$victims/race_births" "$3" $seconds
		holds "any(.[]; .type == \"race\" and $2)" && break
	done
	holds "any(.[]; .type == \"race\" and $2) and .[-1].counters.samples_births > 0"
	ok "$1" $?
}

for mode in pairs short_pairs crews with_creator detached; do
	found_at_2 "$mode" '.first.function == "count_request" and .variable == "served"' $mode
done
found_at_2 "books" '.first.function == "book" and .variable[0:4] == "bank"' books

for mode in pairs short_pairs crews books errors with_creator detached joined; do
	silent "right_$mode" "$victims/race_births" right_$mode
	holds '.[-1].stalls > 0'
	ok "right_$mode: and it was looked for" $?
done

# The price of a birth that is taken is in the budget. Where the program gets little of the CPU, one stall is much
# of its time.
for seconds in 3 6 12; do
	race --overhead 2% -- "$victims/race_births" right_crews $seconds
	holds '.[-1].counters.samples_births > 0 and .[-1].overhead < 0.04' && break
done
holds '.[-1].counters.samples_births > 0 and .[-1].overhead < 0.04'
ok "births are paid from the budget" $?

# Without births none is taken.
race --overhead 20% -- "$victims/race_right" mutex 1
holds '.[-1].counters | .samples > 5 and .samples_births < 10'
ok "a program that creates a few threads gets its ticks by the clock" $?

finished
