# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# shellcheck source=tests/tools/race_lib.sh disable=SC2034,SC2154 # shared with it
# outside_lib.sh - what the tests of `trapline race --outside` share beside race_lib.sh.
. "$(dirname "$0")/race_lib.sh"

[ "$(uname -m)" = x86_64 ] || skip_all "a search from outside is for x86-64"
need_uprobes
why=$("$trapline" race --outside -- "$victims/race_racy" read_modify_write 0.2 2>&1)
case $why in
*'cannot search process '*) skip_all "$why" ;;
esac
# Without a debug register two accesses meet at probes alone.
! "$trapline" race --outside --json -- "$victims/race_racy" read_modify_write 0.2 2>/dev/null |
	grep -q '"watched_by":"probes"'
by_probes=$?

# found_outside NAME EXPRESSION PROGRAM ARG...: as found(), but nothing is in the process. The time is the last argument.
found_outside()
{
	name=$1 expression=$2
	shift 2
	for seconds in 1 2 4 8 16; do
		race --outside --overhead 20% -- "$@" $seconds
		if holds "any(.[]; .type == \"race\" and $expression)"; then
			ok "$name" 0
			return
		fi
	done
	ok "$name" 1
}

# silent_outside NAME PROGRAM ARG...
silent_outside()
{
	name=$1
	shift
	race --outside --overhead 20% -- "$@"
	ok "$name ends as it does alone" $?
	holds 'all(.[]; .type != "race") and .[-1].type == "summary" and .[-1].searched_from == "outside" and
		.[-1].stalls > 0'
	ok "$name: nothing is reported, and something was stalled" $?
}
