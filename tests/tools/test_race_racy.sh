#!/bin/sh
# SPDX-License-Identifier: MIT
# test_race_racy.sh TRAPLINE VICTIMS - each kind of race is found, with both sides. TAP.

# shellcheck source=tests/tools/race_lib.sh disable=SC1091,SC2034,SC2154 # shared with it
. "$(dirname "$0")/race_lib.sh"

# MODE KIND GRADES FUNCTION FUNCTION: the two sides, in whatever order; - is nobody.
while read -r mode kind grades one two; do
	case $mode in '' | \#*) continue ;; esac
	sides='([.first.function, .second.function // "-"] | sort)'
	found "$mode: $kind of grade $grades by $one and $two" \
		"(.kind | test(\"$kind\")) and (.grade | test(\"[$grades]\")) and
		$sides == ([\"$one\", \"$two\"] | sort)" "$victims/race_racy" "$mode"
done <<LIST
read_write		read-write	B	word_read	word_write
read_write_beside_many	read-write	B	word_read	word_write
write_write		write-write	B	word_write	word_write
read_modify_write	write-write	A	word_increment	word_increment
volatile_update		write		B	common_increment common_increment
partial_overlap		read-write	A	split_read	split_write
unaligned		read-write	A	packed_read	packed_write
repeated_store		write-write	AB	fill		fill
memcpy			read-write	A	block_copy_in	block_copy_out
memset			read-write	A	block_clear	block_byte
struct_copy		read-write	AB	struct_copy	whole_write
syscall_buffer		unknown-origin	B	io_sum		-
heap			read-write	B	node_set	node_get
tls_escape		read-write	B	own_write	escaped_read
stack_escape		read-write	B	stack_escape	escaped_read
thread_pool		write		AB	pool_task	pool_task
two_locks		write-write	A	word_increment	word_increment
write_under_read_lock	write-write	A	word_increment	word_increment
bit_fields		write		AB	bits_set_a	bits_set_b
plain_flag		read-write	B	is_stop_asked	ask_stop
floating_point		read-write	B	temperature_get	temperature_set
locked_and_update	write-write	A	requests_add	requests_bump
locked_and_store	write-write	B	requests_add	requests_set
LIST

"$victims/race_racy" --list >"$tmp/modes"
[ "$(wc -l <"$tmp/modes")" = 23 ]
ok "all modes are in the list" $?

openmp_sleeps
# As clang builds it: where the units are is told by the units alone.
objcopy --remove-section=.debug_aranges "$victims/race_racy" "$tmp/no_aranges" &&
	! readelf -SW "$tmp/no_aranges" | grep -q aranges
ok "a program without .debug_aranges" $?
found "its lines and inlined functions are known all the same" \
	'(.first.file | endswith("race_racy.c")) and .first.line > 0 and .second.line > 0 and
	.first.line_in_function > 0' "$tmp/no_aranges" read_write

for mode in $("$victims/race_openmp" --list | grep '^wrong_' | grep -v -e edges -e own_frame); do
	found "OpenMP $mode" "(.second.function | startswith(\"$mode\"))" "$victims/race_openmp" \
		"$mode"
done
finished
