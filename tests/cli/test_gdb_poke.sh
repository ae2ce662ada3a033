#!/bin/sh
# SPDX-License-Identifier: MIT
# test_gdb_poke.sh - code is changed under gdb, and gdb's own breakpoints are left alone.
# $1: path of tests/victims/self_poke.
set -u
victim=$1

command -v gdb >/dev/null || { echo '1..0 # SKIP gdb is not installed'; exit 0; }
echo 1..3

n=0
report() { # verdict name output
	n=$((n + 1))
	echo "$1 $n - $2"
	[ "$1" = ok ] || printf '%s\n' "$3" | sed 's/^/# /'
}

under_gdb() { # a gdb command to run before the start, and arguments
	first=$1
	shift
	timeout 60 gdb -nx -batch -ex 'set startup-with-shell off' -ex 'set confirm off' \
		-ex 'tbreak main' -ex run -ex 'handle SIGTRAP nostop noprint pass' -ex "$first" \
		-ex 'signal 0' --args "$victim" "$@" 2>&1 </dev/null
}

out=$("$victim" 2>&1)
verdict='not ok'
case $out in
*'100 flips: done, 0 wrong'*'100 hits, sum 100'*) verdict=ok ;;
esac
report "$verdict" alone_all_is_done "$out"

out=$(under_gdb 'info signals SIGTRAP')
verdict='not ok'
case $out in
*'100 flips: done, 0 wrong'*'100 hits, sum 100'*) verdict=ok ;;
esac
report "$verdict" code_is_changed_under_gdb "$out"

# The poke sees a byte that is not its own.
out=$(under_gdb 'break *poked' flips-only)
verdict='not ok'
case $out in
*'100 flips: EBUSY, 0 wrong'*) verdict=ok ;;
esac
report "$verdict" a_breakpoint_of_gdb_is_noticed "$out"
