#!/bin/sh
# SPDX-License-Identifier: MIT
# test_gdb.sh - a target under gdb gets its hits, once gdb is told to pass SIGTRAP on.
# $1: path of tests/victims/self_watch.
set -u
victim=$1

command -v gdb >/dev/null || { echo '1..0 # SKIP gdb is not installed'; exit 0; }
"$victim" >/dev/null 2>&1 || { echo '1..0 # SKIP watching is not permitted here'; exit 0; }
echo 1..2

n=0
report() { # verdict name output
	n=$((n + 1))
	echo "$1 $n - $2"
	[ "$1" = ok ] || printf '%s\n' "$3" | sed 's/^/# /'
}

# Not before the start (the exec's own SIGTRAP would kill it), and `continue` would send it again.
out=$(timeout 30 gdb -nx -batch -ex 'set startup-with-shell off' \
	-ex 'tbreak main' -ex run -ex 'handle SIGTRAP nostop noprint pass' -ex 'signal 0' \
	"$victim" 2>&1 </dev/null)
verdict='not ok'
case $out in
*'self_watch: 100 hits'*'exited normally'*) verdict=ok ;;
esac
report "$verdict" target_under_gdb_gets_its_hits "$out"

# Without it gdb stops at the first hit: the must-not case, which shows that gdb saw them.
out=$(timeout 30 gdb -nx -batch -ex 'set startup-with-shell off' -ex run "$victim" 2>&1 </dev/null)
verdict='not ok'
case $out in
*'self_watch: 100 hits'*) ;;
*SIGTRAP*) verdict=ok ;;
esac
report "$verdict" gdb_stops_at_hits_unless_told "$out"
