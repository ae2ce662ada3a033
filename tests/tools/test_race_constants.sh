#!/bin/sh
# SPDX-License-Identifier: MIT
# test_race_constants.sh TRAPLINE VICTIMS - functions that hold constants, tables and signatures among
# their instructions: a sweep traps the instructions and changes nothing else. TAP.

# shellcheck disable=SC2034,SC2154 # shared with race_lib.sh
trapline=$1
victims=$2
# shellcheck source=tests/tools/race_lib.sh disable=SC1091
. "$(dirname "$0")/race_lib.sh"

shortly=0.6
[ "$stress" -lt 100 ] && shortly=0.3
for mode in $("$victims/race_constants" --list); do
	race --sweep --for $shortly -- "$victims/race_constants" "$mode" 0.2
	ok "$mode: the bytes stay as they are" $?
	holds '.[-1] | .sites_total > 0 and .sites_unproven > 20 and .stalls > 0'
	ok "$mode: sites are trapped, and what is not code is counted" $?
done
timeout 60 "$trapline" race --sweep --for 0.2 -v -- "$victims/race_constants" table 0.1 >"$tmp/out" 2>"$tmp/err"
grep -qxE 'left out: about [1-9][0-9]* sites in bytes that are not known to be code' "$tmp/err"
ok "and the text says it" $?

finish
