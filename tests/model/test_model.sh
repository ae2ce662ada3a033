#!/bin/sh
# SPDX-License-Identifier: MIT
# test_model.sh - the models of poke, on x86-64 and arm64, and of traps hold, and each piece taken away
# breaks them.
# $1: the directory of the models.

# shellcheck source=tests/cli/tap.sh disable=SC2154 # tmp comes from there
. "$(dirname "$0")/../cli/tap.sh"
models=$1
need spin "${CC:-cc}"

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
poke_arm64 -
poke_arm64 +LOGGED
poke_arm64 +FLIP
poke_arm64 NO_MAINTENANCE
poke_arm64 NO_SYNC
poke_arm64 NO_LAST_SYNC
poke_arm64 DIRECT
poke_arm64 NO_WHOLE_WORDS
poke_arm64 NO_ORPHAN_RULE
poke_arm64 NO_GENERATION
poke_arm64 GENERATION_FIRST
poke_arm64 NO_REFCOUNT
poke_arm64 EMULATE_ALL
poke_arm64 ONE_ADDRESS
poke_arm64 HIDDEN_SLOT
poke_arm64 FLIP_LOGGED
'
# shellcheck disable=SC2086 # words, two to a case
set -- $cases

check() { # model, what is taken away, or added with a plus; prints spin's summary
	define=
	[ "$2" = - ] || define=-D${2#+}
	# A model that fails does so soon: its compilation takes longer than its run.
	case $2 in - | +*) level=-O2 ;; *) level=-O0 ;; esac
	# shellcheck disable=SC2086 # nothing when empty
	(cd "$tmp" && rm -f pan* && spin -a $define "$models/$1.pml" >/dev/null &&
		"${CC:-cc}" $level -w -DSAFETY -DVECTORSZ=2048 -o pan pan.c && ./pan -m1000000) 2>&1
}

while [ $# -gt 0 ]; do
	check "$1" "$2" >"$tmp/out"
	errors=$(sed -n 's/.*errors: \([0-9]*\).*/\1/p' "$tmp/out")
	states=$(sed -n 's/ *\([0-9]*\) states, stored.*/\1/p' "$tmp/out")
	reason=$(sed -n 's/^pan:[0-9]*: //p' "$tmp/out" | head -1)
	cut=$(grep -c 'max search depth too small\|out of memory' "$tmp/out")
	case $2 in
	- | +*)
		[ "$errors" = 0 ] && [ "$cut" = 0 ]
		ok "$1 $2 holds in all $states states" $?
		;;
	*)
		case $errors:$reason in 1:assertion*) true ;; *) false ;; esac
		ok "$1 fails with $2 # $reason" $?
		;;
	esac
	shift 2
done
finished
