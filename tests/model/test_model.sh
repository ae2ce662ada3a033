#!/bin/sh
# SPDX-License-Identifier: MIT
# test_model.sh - the models of poke and traps hold, and each piece taken away breaks them.
# $1: the directory of the models.
set -u
models=$1

command -v spin >/dev/null || { echo '1..0 # SKIP spin is not installed'; exit 0; }
command -v "${CC:-cc}" >/dev/null || { echo '1..0 # SKIP no C compiler'; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cases='
poke -
poke +LOGGED
poke NO_SYNC_1
poke NO_SYNC_2
poke LOGGED_WITHOUT_SYNC
poke NO_REFCOUNT
poke NO_ORPHAN_RULE
poke NO_GENERATION
poke GENERATION_FIRST
traps -
traps NO_SYNC_SET
traps NO_SYNC_REMOVE
traps EARLY_WITHDRAWAL
traps LATE_PUBLICATION
traps NO_REFCOUNT
traps NO_RUNNING
traps NO_GENERATION
'
# shellcheck disable=SC2086 # words, two to a case
set -- $cases
echo "1..$(($# / 2))"

check() { # model, what is taken away, or added with a plus; prints spin's summary
	define=
	[ "$2" = - ] || define=-D${2#+}
	# shellcheck disable=SC2086 # nothing when empty
	(cd "$work" && rm -f pan* && spin -a $define "$models/$1.pml" >/dev/null &&
		"${CC:-cc}" -O2 -w -DSAFETY -DVECTORSZ=2048 -o pan pan.c && ./pan -m1000000) 2>&1
}

n=0
while [ $# -gt 0 ]; do
	n=$((n + 1))
	out=$(check "$1" "$2")
	errors=$(printf '%s\n' "$out" | sed -n 's/.*errors: \([0-9]*\).*/\1/p')
	states=$(printf '%s\n' "$out" | sed -n 's/ *\([0-9]*\) states, stored.*/\1/p')
	reason=$(printf '%s\n' "$out" | sed -n 's/^pan:[0-9]*: //p' | head -1)
	cut=$(printf '%s\n' "$out" | grep -c 'max search depth too small\|out of memory')
	verdict='not ok'
	case $2 in
	- | +*)
		[ "$errors" = 0 ] && [ "$cut" = 0 ] && verdict=ok
		echo "$verdict $n - $1 $2 holds in all $states states"
		;;
	*)
		case $errors:$reason in
		1:assertion*) verdict=ok ;;
		esac
		echo "$verdict $n - $1 fails with $2 # $reason"
		;;
	esac
	[ "$verdict" = ok ] || printf '%s\n' "$out" | sed 's/^/# /'
	shift 2
done
