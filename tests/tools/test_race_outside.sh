#!/bin/sh
# SPDX-License-Identifier: MIT
# test_race_outside.sh TRAPLINE VICTIMS - `trapline race --outside`: races that are found with nothing inside the
# process, right programs, and what is refused. TAP.

# shellcheck source=tests/tools/outside_lib.sh disable=SC1091,SC2034,SC2154 # shared with it
. "$(dirname "$0")/outside_lib.sh"

while read -r mode kind grades one two; do
	case $by_probes-$mode in
	1-memset | 1-locked_and_update)
		skip "$mode" "a debug register that works: the C library and locked instructions have no probe"
		continue
		;;
	esac
	sides='([.first.function, .second.function // "-"] | sort)'
	found_outside "$mode: $kind of grade $grades by $one and $two" \
		"(.kind | test(\"$kind\")) and (.grade | test(\"[$grades]\")) and
		$sides == ([\"$one\", \"$two\"] | sort)" "$victims/race_racy" "$mode"
done <<LIST
$(some <<MODES
read_modify_write	write-write	A	word_increment	word_increment
read_write		read-write	B	word_read	word_write
heap			read-write	B	node_set	node_get
write_write		write-write	B	word_write	word_write
partial_overlap		read-write	A	split_read	split_write
unaligned		read-write	A	packed_read	packed_write
memset			read-write	A	block_clear	block_byte
struct_copy		read-write	AB	struct_copy	whole_write
stack_escape		read-write	B	stack_escape	escaped_read
two_locks		write-write	A	word_increment	word_increment
plain_flag		read-write	B	is_stop_asked	ask_stop
floating_point		read-write	B	temperature_get	temperature_set
locked_and_update	write-write	A	requests_add	requests_bump
MODES
)
LIST
found_outside "both sides have threads" '.first.tid != .second.tid and .first.tid != null' "$victims/race_racy" \
	read_modify_write
holds 'any(.[]; .type == "race" and (.first.stack | length) > 2 and (.second.stack | length) > 2) and
	any(.[]; .type == "race" and .old != .new and .old != null)'
ok "a race has the values, and the stacks of both threads" $?

for mode in $("$victims/race_right" --list | some); do
	silent_outside "$mode" "$victims/race_right" "$mode" 0.5
done

# The process that is attached to.
state()
{
	echo "descriptors $(find "/proc/$pid/fd" -type l | wc -l)"
	echo "threads $(find "/proc/$pid/task" -mindepth 1 -maxdepth 1 | wc -l)"
	grep -h SigCgt "/proc/$pid/status"
	awk '{ print $2, $3, $6 }' "/proc/$pid/maps" | grep -v -e '\[heap\]' -e '\[uprobes\]' | sort | uniq -c
}

start race_racy read_modify_write 60
state >"$tmp/before"
race --outside --overhead 20% --for 4 -p "$pid"
state >"$tmp/after"
diff "$tmp/before" "$tmp/after" >"$tmp/out"
ok "a process that was attached to has the same descriptors, threads, handlers and files" $?
grep -q 'nothing of the search is in it' "$tmp/err"
ok "the command states that it has left" $?
kill "$pid"

# Processes that the detector could not enter. found_in NAME: the race of $pid, which then ends by itself.
found_in()
{
	for seconds in 2 4 8; do
		race --outside --overhead 20% --for $seconds -p "$pid"
		holds 'any(.[]; .type == "race" and .first.function == "word_increment")' && break
	done
	ok "$1: the race is found" $?
}

"$victims/race_obstacle" sealed "$victims/race_racy" read_modify_write 20 >"$tmp/victim" 2>&1 &
pid=$!
eventually runs "$pid" race_racy
found_in "a seccomp filter that kills for bpf, perf_event_open, ptrace"
wait "$pid"
ok "... and the filter has killed nothing" $?
cp "$victims/race_racy" "$tmp/setuid" && chown nobody "$tmp/setuid" && chmod 4755 "$tmp/setuid"
"$tmp/setuid" read_modify_write 16 >"$tmp/victim" 2>&1 &
pid=$!
eventually runs "$pid" setuid
found_in "a setuid program"
kill "$pid"
if unshare -pf true 2>/dev/null; then
	unshare -pf "$victims/race_racy" read_modify_write 16 >"$tmp/victim" 2>&1 &
	outer=$!
	eventually pgrep -P "$outer" race_racy >"$tmp/pids"
	pid=$(pgrep -P "$outer" race_racy)
	found_in "a process in another pid namespace"
	kill -KILL "$pid"
else
	skip "a process in another pid namespace" "the right to make one"
fi

"$trapline" race --outside -- "$victims/race_right" mutex 1 2>"$tmp/err" >/dev/null
grep -q '^searched from outside: [0-9]* of [0-9]* functions had their turn' "$tmp/err"
ok "the summary states how much code had its turn" $?
"$trapline" race -- "$victims/race_static" 2>"$tmp/err" >/dev/null
note='note: the detector cannot enter the program: it is linked statically; searching as --outside does'
grep -q "^trapline race: $note\$" "$tmp/err" && grep -q '^searched from outside' "$tmp/err"
ok "a program that the detector cannot enter is searched from outside" $?
"$trapline" race --inside -- "$victims/race_static" 0.3 2>"$tmp/err" >/dev/null
[ $? = 2 ] && grep -q 'linked statically' "$tmp/err"
ok "... and with --inside it is refused" $?
"$trapline" race -- "$victims/race_right" mutex 0.3 2>"$tmp/err" >/dev/null
[ $by_probes = "$(grep -c '^searched from outside' "$tmp/err")" ]
ok "a search without --outside is one inside, if a debug register works" $?
[ $by_probes = "$(grep -c '^trapline race: note: no hardware breakpoint is available' "$tmp/err")" ]
ok "... and it states why it is not" $?

command=race
wrong "inside and outside at once" 'both --inside and --outside' --inside --outside -- true
wrong "a sweep from outside" 'cannot combine --outside with --sweep' --outside --sweep -- true
wrong "allocations from outside" 'cannot combine --outside with --heap' --outside --heap -- true
wrong "a process that does not exist" 'there is no process 4194303' --outside -p 4194303
finished
