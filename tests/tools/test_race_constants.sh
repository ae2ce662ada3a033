#!/bin/sh
# SPDX-License-Identifier: MIT
# test_race_constants.sh TRAPLINE VICTIMS - functions that hold constants, tables and signatures among
# their instructions: a sweep traps the instructions and changes nothing else. TAP.

# shellcheck source=tests/tools/race_lib.sh disable=SC1091,SC2034,SC2154 # shared with it
. "$(dirname "$0")/race_lib.sh"


# stays VICTIM MODE
stays()
{
	race --sweep --for 0.3 -- "$victims/$1" "$2" 0.2
	ok "$1 $2: the bytes stay as they are" $?
	holds '.[-1] | .sites_total > 0 and .sites_unproven > 20 and .stalls > 0'
	ok "$1 $2: sites are trapped, and what is not code is counted" $?
}

for mode in $("$victims/race_constants" --list); do
	stays race_constants "$mode"
done
# Compiled with -fno-plt.
for mode in after_last_call after_abort_slot after_own_slot after_jump_slot after_register \
	after_library after_library_deep after_library_word; do
	stays race_constants_noplt "$mode"
	stays race_constants_fixed "$mode"
done
timeout 60 "$trapline" race --sweep --for 0.2 -v -- "$victims/race_constants" table 0.1 >"$tmp/out" 2>"$tmp/err"
grep -qxE 'left out: about [1-9][0-9]* sites in bytes that are not known to be code' "$tmp/err"
ok "and the text says it" $?

finished
