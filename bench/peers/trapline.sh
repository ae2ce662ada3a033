#!/bin/sh
# SPDX-License-Identifier: MIT
#
# trapline.sh watch|break PID ADDR VALUE PROGRAM uprobe|probe|hardware - our command, as a user runs it.
#
# Speaks as bench/round.h says; the condition is that of peers/ptrace.c. PEER_TEST is another operator
# than ==. PEER_TRAPLINE is the command.
set -eu
event=$1 pid=$2 addr=$3 value=$4 mechanism=$6 test=${PEER_TEST:-==}

if [ "$event" = watch ]; then
	set -- watch -p "$pid" "$addr:8" --if "new $test $value"
else
	set -- break -p "$pid" "$addr" --budget none --mechanism "$mechanism" --if "arg0 $test $value"
fi
"${PEER_TRAPLINE:-trapline}" "$@" 2>&1 </dev/null | sed -u -n "
	s/^\(watching\|breaking\) .*/armed/p
	s/^[0-9][0-9]:[0-9:.]* .*/true $value/p
	s/^trapline [a-z]*: \(.*\)/skip trapline: \1/p"
