# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# shellcheck source=tests/cli/tap.sh disable=SC2034,SC2154 # shared with the tests, and with tap.sh
# race_lib.sh - what the tests of `trapline race` share beside tap.sh.
. "$(dirname "$0")/../cli/tap.sh"
end_by=KILL

# A run of scripts/test without --all is short. some: of lines, the first three in a short run.
is_short()
{
	[ "$stress" -lt 50 ]
}

some()
{
	if is_short; then
		head -n 3
	else
		cat
	fi
}

# race ARG...: the report in $tmp/races.json, the program's output in $tmp/out.
race()
{
	rm -f "$tmp/races.json"
	timeout -k 60 120 "$trapline" race --json -o "$tmp/races.json" "$@" >"$tmp/out" \
		2>"$tmp/err"
}

# holds EXPRESSION: of jq, over the array of all lines.
holds()
{
	jq -e -s "$1" "$tmp/races.json" >/dev/null 2>"$tmp/jq"
}

# OpenMP's threads wait for each other at the end of each loop. Where others want the processors as
# well, a thread that spins there takes the time away from the one it waits for: five of six
# searches of a second found nothing beside four busy loops, with this two of six.
openmp_sleeps()
{
	export OMP_WAIT_POLICY=passive
}

# found NAME EXPRESSION PROGRAM MODE: a race for which EXPRESSION holds. What is found in how long
# is a matter of chance: it may take some tries, each longer than the one before. The first one is
# mostly enough; the last ones are for a machine that does much else. A race that 40 % of its
# seconds miss is missed by all of them once in 10^25.
found()
{
	for seconds in 1 2 4 8 16 32; do
		race --overhead 20% -- "$3" "$4" $seconds
		if holds "any(.[]; .type == \"race\" and $2)"; then
			ok "$1" 0
			return
		fi
	done
	ok "$1" 1
}

# silent NAME PROGRAM MODE: nothing at the grades that are printed; and it was looked for.
silent()
{
	race --overhead 50% -- "$2" "$3" 0.5
	ok "$1" $?
	holds 'all(.[]; .type != "race") and .[-1].type == "summary"'
	ok "$1: nothing is reported" $?
}
