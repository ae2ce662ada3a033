#!/bin/sh
# SPDX-License-Identifier: MIT
# test_gdb_poke.sh - code is changed under gdb, and gdb's own breakpoints are left alone.
# $1: path of tests/victims/self_poke.

# shellcheck source=tests/cli/tap.sh disable=SC2154 # tmp comes from there
. "$(dirname "$0")/tap.sh"
victim=$1
need gdb

under_gdb() # a gdb command to run before the start, and arguments
{
	first=$1
	shift
	timeout 60 gdb -nx -batch -ex 'set startup-with-shell off' -ex 'set confirm off' \
		-ex 'tbreak main' -ex run -ex 'handle SIGTRAP nostop noprint pass' -ex "$first" \
		-ex 'signal 0' --args "$victim" "$@" >"$tmp/out" 2>&1 </dev/null
}

all_is_done()
{
	grep -q '100 flips: done, 0 wrong' "$tmp/out" && grep -q '100 hits, sum 100' "$tmp/out"
}

"$victim" >"$tmp/out" 2>&1
all_is_done
ok alone_all_is_done $?

under_gdb 'info signals SIGTRAP'
all_is_done
ok code_is_changed_under_gdb $?

# The poke sees a byte that is not its own.
under_gdb 'break *poked' flips-only
grep -q '100 flips: EBUSY, 0 wrong' "$tmp/out"
ok a_breakpoint_of_gdb_is_noticed $?

finished
