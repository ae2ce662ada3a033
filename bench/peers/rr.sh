#!/bin/sh
# SPDX-License-Identifier: MIT
#
# rr.sh watch|break PID ADDR VALUE PROGRAM - whether rr can record here. It comes into no running process,
# so it has no row beside the others: its answer is why it cannot.
command -v rr >/dev/null || { echo 'skip rr is not installed: scripts/install-deps peers'; exit; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
if _RR_TRACE_DIR=$dir rr record -n true >"$dir/why" 2>&1; then
	echo 'skip rr records a process from its start, and enters no running one'
else
	echo "skip rr: $(grep -v '^rr: Saving' "$dir/why" | grep -m 1 . | sed 's/^\[FATAL [^]]*\] *//')"
fi
