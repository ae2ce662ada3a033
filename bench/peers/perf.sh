#!/bin/sh
# SPDX-License-Identifier: MIT
#
# perf.sh watch|break PID ADDR VALUE PROGRAM - perf record with a filter, where it has one.
#
# Speaks as bench/round.h says; the condition is that of peers/ptrace.c. PEER_TEST is another operator
# than ==. A break is a uprobe
# that `perf probe` makes, filtered as a tracepoint is; for a mem: event perf says itself why not.
set -eu
event=$1 pid=$2 addr=$3 value=$4 program=$5

command -v perf >/dev/null || { echo 'skip perf is not installed: scripts/install-deps bench'; exit; }

dir=$(mktemp -d)
reason() {
	grep -m 1 . "$dir/why" || echo 'it does not say why'
}

probe=trapline_bench_$$:site
made=
cleanup() {
	[ -z "$made" ] || perf probe -q -d "$probe" 2>/dev/null || :
	rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 1' HUP INT TERM

if [ "$event" = watch ]; then
	perf record -q -o "$dir/data" -e "mem:$addr/8:w:u" --filter "new ${PEER_TEST:-==} $value" -p "$pid" \
		-- true >"$dir/why" 2>&1 </dev/null || :
	echo "skip perf record -e mem: --filter: $(reason)"
	exit
fi

perf probe -q -x "$program" -a "$probe=condition_site value=%di:u64" >"$dir/why" 2>&1 || {
	echo "skip perf probe: $(reason)"
	exit
}
made=1
mkfifo "$dir/control" "$dir/ack"
exec 7<>"$dir/control" 8<>"$dir/ack"
perf record -q -o "$dir/data" -D -1 --control fd:7,8 -e "$probe" --filter "value ${PEER_TEST:-==} $value" \
	-p "$pid" >"$dir/why" 2>&1 </dev/null &
recorder=$!
echo enable >&7
# The answer of a perf that has died would be waited for in vain; its end is not.
(
	while kill -0 "$recorder" 2>/dev/null; do
		sleep 0.1
	done
	echo gone >&8
) &
read -r answer <&8
case $answer in
ack*) echo armed ;;
*)
	echo "skip perf record: $(reason)"
	exit
	;;
esac
wait "$recorder" || :
perf script -i "$dir/data" -F trace 2>/dev/null | sed -n 's/.*value=\([0-9]*\).*/true \1/p'
wait
