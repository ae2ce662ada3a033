#!/bin/sh
# SPDX-License-Identifier: MIT
# test_coverage.sh TRAPLINE VICTIMS - who is seen and who is not: one table, every cell as promised.
# TAP. Each actor of tests/victims/actors.c touches one variable ten times; see there.
# Needs the right to watch another process (root, or perf_event_paranoid <= 2 for one's own).

# shellcheck source=tests/cli/tap.sh disable=SC2154 # trapline, victims and tmp come from there
. "$(dirname "$0")/tap.sh"
# shellcheck source=tests/other_user.sh
. "$(dirname "$0")/../other_user.sh"

actors="main_writes old_thread_writes new_thread_writes thread_of_thread_writes \
same_value_writes kernel_writes child_writes reader_reads"
# By actor, in the order above: of a watch on writes, and on reads and writes.
writes='10 10 10 10 10 0 0 0'
both='10 10 10 10 10 0 0 10'

# counts: of the hits in $tmp/out by function, in that order, on one line.
counts()
{
	jq -r 'select(.type == "hit") | .function' "$tmp/out" | sort | uniq -c >"$tmp/counts"
	for actor in $actors; do
		awk -v a="$actor" '$2 == a { n = $1 } END { printf "%d ", n }' "$tmp/counts"
	done
}

# cells COLUMN EXPECTED: one test for each cell; what came is in $tmp/cells.
cells()
{
	column=$1
	n=0
	for actor in $actors; do
		n=$((n + 1))
		expected=$(echo "$2" | cut -d' ' -f$n)
		came=$(cut -d' ' -f$n "$tmp/cells")
		[ "$came" = "$expected" ] || echo "# $column, $actor: $came hits, not $expected"
		[ "$came" = "$expected" ]
		ok "${column}: $actor $expected" $?
	done
}

# Which thread did it: the name of each actor's thread, and the process that was asked for.
threads_are_right()
{
	hits "all(.pid == $1 and .thread == ({old_thread_writes: \"old\", new_thread_writes: \"new\",
		thread_of_thread_writes: \"nested\"}[.function] // \"actors\")) and
		(map(select(.function == \"old_thread_writes\") | .tid) | unique | length) == 1 and
		(map(.tid) | unique | length) == 4"
}

# What is not looked at is said.
kernel_is_named()
{
	grep -Eq '^not seen: .* by a system call \(--kernel reports those\), DMA' "$tmp/text"
}

# attached COLUMN EXPECTED USER ARG...: `trapline watch -p`, of a process that goes on.
attached()
{
	column=$1
	expected=$2
	user=$3
	shift 3
	rm -f "$tmp/in" "$tmp/text" "$tmp/err" "$tmp/victim"
	mkfifo "$tmp/in"
	# shellcheck disable=SC2086 # a command and its arguments, or nothing
	$user "$home/actors" watch <"$tmp/in" >"$tmp/victim" 2>&1 &
	pid=$!
	started="$started $pid"
	exec 8>"$tmp/in"
	until_is "$tmp/victim" ready
	# shellcheck disable=SC2086
	$user "$tool" watch -p "$pid" acted_on --max-rate 0 -v -o "$tmp/json" "$@" >"$tmp/text" 2>"$tmp/err" &
	watcher=$!
	until_is "$tmp/err" '^watching'
	echo act >&8
	until_is "$tmp/victim" 'done'
	kill -TERM $watcher
	wait $watcher
	status=$?
	echo end >&8
	exec 8>&-
	wait "$pid"
	[ $? = 0 ] && [ $status = 0 ]
	ok "$column: the_process_goes_on_and_its_values_are_right" $?
	mv "$tmp/json" "$tmp/out"
	counts >"$tmp/cells"
	cells "$column" "$expected"
	threads_are_right "$pid"
	ok "$column: each_hit_has_its_thread" $?
	summary '.taken == .rejected + .delivered + ([.lost[]] | add) and ([.lost[]] | add) == 0' && kernel_is_named
	ok "$column: nothing_is_lost_and_what_is_not_seen_is_said" $?
}

# until_is FILE PATTERN
until_is()
{
	eventually grep -q "$2" "$1" || echo "# $1 has no '$2' after a minute"
}

home=$victims
tool=$trapline
attached 'watch -p' "$writes" ''
attached 'watch -p --on rw' "$both" '' --on rw
attached 'watch -p --no-bpf' "$writes" '' --no-bpf

# Of a command the threads are all new; it ends by itself.
started_command()
{
	column=$1
	expected=$2
	shift 2
	timeout -k 2 60 "$trapline" watch acted_on --max-rate 0 -v -o "$tmp/json" "$@" -- \
		"$victims/actors" now >"$tmp/text" 2>"$tmp/err"
	[ $? = 0 ] && mv "$tmp/json" "$tmp/out" && summary '.command == null and .ended == "the process ended"'
	ok "$column: the_command_ends_well" $?
	counts >"$tmp/cells"
	cells "$column" "$expected"
	threads_are_right "$(jq -r 'select(.type == "hit") | .pid' "$tmp/out" | sort -u)"
	ok "$column: each_hit_has_its_thread" $?
	summary '.taken == .rejected + .delivered + ([.lost[]] | add) and ([.lost[]] | add) == 0' && kernel_is_named
	ok "$column: nothing_is_lost_and_what_is_not_seen_is_said" $?
}
started_command 'watch --' "$writes"
started_command 'watch -- --on rw' "$both" --on rw

# The library, by callbacks in the threads.
myself()
{
	column=$1
	expected=$2
	shift 2
	timeout -k 2 20 "$victims/actors" self "$@" >"$tmp/out" 2>"$tmp/err"
	ok "$column: the_program_ends_well" $?
	for actor in $actors; do
		awk -v a="$actor" '$1 == a { printf "%s ", $2 }' "$tmp/out"
	done >"$tmp/cells"
	cells "$column" "$expected"
	grep -qx 'wrong_thread 0' "$tmp/out" && grep -qx 'lost 0' "$tmp/out"
	ok "$column: each_callback_runs_in_its_thread_and_none_is_lost" $?
}
myself 'library' "$writes"
myself 'library, reads too' "$both" rw
myself 'library without BPF' "$writes" no-bpf

# One's own process without any privilege.
paranoid=$(cat /proc/sys/kernel/perf_event_paranoid)
if [ "$paranoid" -gt 2 ] || ! lend "$victims/actors"; then
	skip 'watch -p, unprivileged' "${not_lent:-perf_event_paranoid of 2 at most}"
else
	home=$lent
	tool=$lent/trapline
	: >"$tmp/json"
	chmod 666 "$tmp/json"
	attached 'watch -p, unprivileged' "$writes" "$as_user"
fi

finished
