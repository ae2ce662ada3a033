#!/bin/sh
# SPDX-License-Identifier: MIT
#
# lldb.sh watch|break PID ADDR VALUE PROGRAM - lldb's own conditions of a watchpoint and a breakpoint.
#
# Speaks as bench/round.h says; the condition is that of peers/ptrace.c. PEER_TEST is another operator
# than ==.
set -eu
event=$1 pid=$2 addr=$3 value=$4 test=${PEER_TEST:-==}

command -v lldb >/dev/null || { echo 'skip lldb is not installed: scripts/install-deps bench'; exit; }

script=$(mktemp)
trap 'rm -f "$script"' EXIT
trap 'exit 1' HUP INT TERM
if [ "$event" = watch ]; then
	cat >"$script" <<EOF
watchpoint set expression -w write -s 8 -- $addr
watchpoint modify -c '*(unsigned long *)$addr $test $value'
watchpoint command add 1 -o 'memory read -s 8 -f u -c 1 $addr' -o 'continue'
EOF
else
	cat >"$script" <<EOF
breakpoint set -a $addr -c '\$rdi $test $value' -G true
breakpoint command add 1 -o 'register read -f u rdi'
EOF
fi
cat >>"$script" <<'EOF'
script print("armed", flush=True)
continue
EOF
# A batch of commands ends at the first that fails, and lldb leaves the process.
lldb -x -b -p "$pid" -s "$script" 2>&1 </dev/null |
	sed -u -n 's/^armed$/armed/p; s/^ *rdi = \([0-9]*\)$/true \1/p; s/^error: \(.*\)/skip lldb: \1/p
		s/^0x[0-9a-f]*: \([0-9]*\)$/true \1/p'
