# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# shellcheck source=tests/cli/tap.sh disable=SC2034,SC2154 # shared with the tests, and with tap.sh
# race_lib.sh - what the tests of `trapline race` share beside tap.sh.
. "$(dirname "$0")/../cli/tap.sh"
end_by=KILL

# TRAPLINE_STRESS is the share of its work that a test does, in percent: 100 if not set, 20 for
# scripts/test. share N: that share of N, at least 1. some: of lines, the first three in a short run.
stress=${TRAPLINE_STRESS:-100}

share()
{
	echo $(($1 * stress / 100 > 0 ? $1 * stress / 100 : 1))
}

some()
{
	if [ "$stress" -lt 100 ]; then
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
	race --overhead 50% -- "$2" "$3" "$([ "$stress" -lt 100 ] && echo 0.5 || echo 1)"
	ok "$1" $?
	holds 'all(.[]; .type != "race") and .[-1].type == "summary"'
	ok "$1: nothing is reported" $?
}
