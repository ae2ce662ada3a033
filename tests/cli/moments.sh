#!/bin/sh
# SPDX-License-Identifier: MIT
# moments.sh - for tests that kill a command at random moments; read after tap.sh. TRAPLINE_SEED repeats them.

# shellcheck disable=SC2154 # tmp is of tap.sh
seed=${TRAPLINE_SEED:-$(od -An -N2 -tu2 /dev/urandom | tr -d ' ')}
state=$seed

# draw_moment FROM TO: another number of milliseconds each time, as seconds in $moment. It is not printed,
# since a subshell would draw the same one each time.
draw_moment()
{
	state=$(((state * 1103515245 + 12345) % 2147483648))
	ms=$(($1 + state / 65536 % ($2 - $1)))
	# shellcheck disable=SC2034 # of the test
	moment=$(printf '%d.%03d' $((ms / 1000)) $((ms % 1000)))
}

# text_is_of_file PID NAME: the mappings of the code of programs that are named so, as bytes of the memory
# and of the file.
text_is_of_file()
{
	awk -v name="/$2" '$2 ~ /x/ && index($6, name) { print $1, $3, $6 }' "/proc/$1/maps" | while read -r range offset file; do
		start=$((0x${range%-*}))
		pages=$(((0x${range#*-} - start) / 4096))
		dd if="/proc/$1/mem" bs=4096 skip=$((start / 4096)) count=$pages iflag=fullblock 2>/dev/null >"$tmp/memory"
		dd if="$file" bs=4096 skip=$((0x$offset / 4096)) count=$pages iflag=fullblock 2>/dev/null >"$tmp/file"
		[ -s "$tmp/memory" ] && cmp -s "$tmp/memory" "$tmp/file" || echo differs
	done | grep -q differs && return 1
	return 0
}
