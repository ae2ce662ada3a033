#!/bin/sh
# SPDX-License-Identifier: MIT
#
# attach.sh TOOL watch|break PID ADDR - a peer looks at a running server, and finds nothing.
#
# watch: four words at ADDR and behind it, which nobody writes. break: the function at ADDR, with a
# condition on its second argument that never holds. Says "armed" when it is, or "skip WHY", and
# goes on until it is ended.
set -eu
tool=$1 event=$2 pid=$3 addr=$4
program=$(readlink "/proc/$pid/exe")
never=77777777

command -v "$tool" >/dev/null || { echo "skip $tool is not installed: scripts/install-deps bench"; exit; }
dir=$(mktemp -d)
made=
ended()
{
	# gdb that is started in the background takes no SIGINT; killed, it would leave its registers set.
	[ -z "${child:-}" ] || kill "-$([ "$tool" = gdb ] && echo TERM || echo INT)" "$child" 2>/dev/null || :
	[ -z "${child:-}" ] || wait "$child" || :
	[ -z "$made" ] || perf probe -q -d "$made" 2>/dev/null || :
	rm -rf "$dir"
}
trap ended EXIT
trap 'exit 0' HUP INT TERM

# word N: the address of the Nth.
word()
{
	printf '0x%x' $((addr + 8 * $1))
}
# As uprobes want it.
offset()
{
	while read -r range access start _; do
		low=$((0x${range%-*}))
		high=$((0x${range#*-}))
		case $access in *x*) ;; *) continue ;; esac
		[ $((addr)) -ge $low ] && [ $((addr)) -lt $high ] && printf '0x%x' $((addr - low + 0x$start))
	done <"/proc/$pid/maps"
}

case $tool-$event in
bpftrace-watch)
	for i in 0 1 2 3; do
		printf '%s\n' "watchpoint:$(word $i):8:w { printf(\"hit\\n\"); }"
	done >"$dir/script"
	printf '%s\n' 'BEGIN { printf("armed\n"); }' >>"$dir/script"
	bpftrace -B line -p "$pid" "$dir/script" 2>&1 </dev/null &
	;;
bpftrace-break)
	cat >"$dir/script" <<END
BEGIN { printf("armed\n"); }
uprobe:$program:$(offset) /arg1 == $never/ { printf("hit\n"); }
END
	bpftrace --unsafe -B line -p "$pid" "$dir/script" 2>&1 </dev/null &
	;;
perf-watch)
	perf record -q -o "$dir/data" -e "mem:$(word 0)/8:w:u" -e "mem:$(word 1)/8:w:u" \
		-e "mem:$(word 2)/8:w:u" -e "mem:$(word 3)/8:w:u" -p "$pid" >"$dir/why" 2>&1 </dev/null &
	;;
perf-break)
	made=trapline_bench_$$:site_$$
	perf probe -q -x "$program" -a "$made=$(offset) value=%si:u32" >"$dir/why" 2>&1 || {
		echo "skip perf probe: $(grep -m 1 . "$dir/why")"
		made=
		exit
	}
	perf record -q -o "$dir/data" -e "$made" --filter "value == $never" -p "$pid" \
		>"$dir/why" 2>&1 </dev/null &
	;;
gdb-*)
	{
		echo 'set pagination off'
		echo "attach $pid"
		if [ "$event" = watch ]; then
			for i in 0 1 2 3; do
				echo "watch *(unsigned long *)$(word $i)"
			done
		else
			echo "break *$addr if (int)\$rsi == $never"
		fi
		printf '%s\n' 'printf "armed\n"'
		echo continue
	} >"$dir/script"
	gdb -nx -batch -x "$dir/script" 2>&1 </dev/null &
	;;
esac
child=$!
# perf does not say when it is ready.
if [ "$tool" = perf ]; then
	sleep 0.7
	if kill -0 "$child" 2>/dev/null; then echo armed; else echo "skip perf: $(grep -m 1 . "$dir/why")"; fi
fi
wait "$child"
