#!/bin/sh
# SPDX-License-Identifier: MIT
#
# bpftrace.sh watch|break PID ADDR VALUE PROGRAM hardware|uprobe - bpftrace with a filter.
#
# Speaks as bench/round.h says; the condition is that of peers/ptrace.c. PEER_TEST is another operator
# than ==. What BEGIN prints comes out once all probes are attached: bpftrace reads its output only then.
set -eu
event=$1 pid=$2 addr=$3 value=$4 program=$5 mechanism=$6

command -v bpftrace >/dev/null || {
	echo 'skip bpftrace is not installed: scripts/install-deps bench'
	exit
}

case $mechanism-$event in
hardware-watch)
	probe="watchpoint:$addr:8:w"
	what="*(uint64 *)uptr($addr)"
	;;
hardware-break)
	probe="watchpoint:$addr:8:x"
	what='reg("di")'
	;;
uprobe-break)
	probe="uprobe:$program:condition_site"
	what=arg0
	;;
*)
	echo 'skip a uprobe watches no memory'
	exit
	;;
esac
# Brackets: a filter that begins with * would begin a comment.
bpftrace -B line -p "$pid" -e "
	BEGIN { printf(\"armed\\n\"); }
	$probe /($what) ${PEER_TEST:-==} $value/ { printf(\"true %lu\\n\", $what); }" 2>&1 </dev/null && exit
why=$(bpftrace -e 'BEGIN { exit(); }' 2>&1 </dev/null) ||
	echo "skip bpftrace does not run here: $(echo "$why" | tail -n 1)"
