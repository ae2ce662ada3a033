#!/bin/sh
# SPDX-License-Identifier: MIT
#
# gdb.sh watch|break PID ADDR VALUE PROGRAM - gdb's own `watch ... if` and `break ... if`.
#
# Speaks as bench/round.h says; the condition is that of peers/ptrace.c. PEER_TEST is another operator
# than ==. A failing command ends gdb's script, so that "armed" means that it is.
set -eu
event=$1 pid=$2 addr=$3 value=$4

command -v gdb >/dev/null || { echo 'skip gdb is not installed: scripts/install-deps bench'; exit; }

if [ "$event" = watch ]; then
	what="*(unsigned long *)$addr"
	stop="watch $what"
else
	what=\$rdi
	stop="break *$addr"
fi
script=$(mktemp)
trap 'rm -f "$script"' EXIT
trap 'exit 1' HUP INT TERM
cat >"$script" <<EOF
set pagination off
attach $pid
$stop if $what ${PEER_TEST:-==} $value
commands
silent
printf "true %lu\n", $what
continue
end
printf "armed\n"
continue
EOF
gdb -nx -batch -x "$script" 2>&1 </dev/null && exit
why=$(gdb -nx -batch -p "$pid" 2>&1 </dev/null | grep -m 1 'not permitted') &&
	echo "skip gdb may not attach: $why"
