#!/bin/sh
# SPDX-License-Identifier: MIT
# test_report_whole.sh TRAPLINE VICTIMS - a program that writes on standard error all the time does not tear the
# reports of race, heap, flow and of deaths, which go to the same file. TAP.

# shellcheck source=tests/cli/tap.sh disable=SC1091,SC2034,SC2154 # shared with it
. "$(dirname "$0")/../cli/tap.sh"
end_by=KILL

# whole_in FILE HEAD: it has a paragraph that begins with HEAD, and no line of the program is in one.
# What the program had begun before a report may end after it: a line is written at once, so it has not.
whole_in()
{
	awk -v head="^$2" '
		!inside && $0 ~ head { inside = 1; reports++ }
		inside && /noise/ { torn++ }
		inside && /^$/ { inside = 0 }
		END { printf "%d reports, %d lines inside\n", reports, torn; exit !reports || torn || inside }
	' "$1" >"$tmp/err"
}

# searched COMMAND MODE ARG...: the report and the noise in one file.
searched()
{
	tool=$1
	mode=$2
	shift 2
	: >"$tmp/all"
	timeout -k 20 100 "$trapline" "$tool" "$@" -- "$victims/shouter" "$mode" 3 >"$tmp/out" 2>>"$tmp/all"
}

searched race race --overhead 20%
whole_in "$tmp/all" 'race [AB]:'
ok "race: a program that writes all the time does not tear a report" $?
tail -n 30 "$tmp/all" | grep -q noise && head -n 30 "$tmp/all" | grep -q noise
ok "and the program wrote before and after it" $?

searched heap heap --first 5
whole_in "$tmp/all" 'heap A:'
ok "heap: a program that writes all the time does not tear a report" $?

if [ "$(id -u)" = 0 ]; then
	for tool in race heap; do
		searched $tool death
		whole_in "$tmp/all" 'death: SIGSEGV'
		ok "$tool: nor the report of a death" $?
	done
	"$victims/shouter" flow 20 2>>"$tmp/flow" >"$tmp/out" &
	started=$!
	sleep 0.3
	timeout -k 20 60 "$trapline" flow -p "$started" --limit 20 --for 2 2>>"$tmp/flow" >"$tmp/out"
	whole_in "$tmp/flow" '[0-9]+ bytes of read'
	ok "flow: nor that of where bytes went" $?
	kill "$started"
else
	skip "reports of deaths and flows" root
fi

finished
