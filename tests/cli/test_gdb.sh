#!/bin/sh
# SPDX-License-Identifier: MIT
# test_gdb.sh - a target under gdb gets its hits, once gdb is told to pass SIGTRAP on.
# $1: path of tests/victims/self_watch.

# shellcheck source=tests/cli/tap.sh disable=SC2154 # tmp comes from there
. "$(dirname "$0")/tap.sh"
victim=$1
need gdb
"$victim" >/dev/null 2>&1 || skip_all "watching is not permitted here"

under_gdb()
{
	timeout 30 gdb -nx -batch -ex 'set startup-with-shell off' "$@" "$victim" >"$tmp/out" 2>&1 </dev/null
}

# Not before the start (the exec's own SIGTRAP would kill it), and `continue` would send it again.
under_gdb -ex 'tbreak main' -ex run -ex 'handle SIGTRAP nostop noprint pass' -ex 'signal 0'
grep -q 'self_watch: 100 hits' "$tmp/out" && grep -q 'exited normally' "$tmp/out"
ok target_under_gdb_gets_its_hits $?

# Without it gdb stops at the first hit: the must-not case, which shows that gdb saw them.
under_gdb -ex run
! grep -q 'self_watch: 100 hits' "$tmp/out" && grep -q SIGTRAP "$tmp/out"
ok gdb_stops_at_hits_unless_told $?

finished
