#!/bin/sh
# SPDX-License-Identifier: MIT
# test_watch_command.sh TRAPLINE VICTIMS - what `trapline watch` promises, on small programs. TAP.
# Needs the right to watch another process (root, or perf_event_paranoid <= 2 for one's own).

# shellcheck source=tests/cli/tap.sh disable=SC2154 # trapline, victims and tmp come from there
. "$(dirname "$0")/tap.sh"

start counter
counter=$pid
address=$(head -n 1 "$tmp/victim")

watch -p "$counter" shared_counter --limit 10
[ $? = 0 ] && [ "$(grep -c ' -> ' "$tmp/out")" = 10 ] &&
	grep -q 'bump_main+0x' "$tmp/out" && grep -q 'bump_worker+0x' "$tmp/out" &&
	grep -q '^10 hits in [0-9.]* s, none lost$' "$tmp/out" &&
	! grep -q '^taken\|^mechanism\|^not seen\|^ended' "$tmp/out"
ok "watch_prints_ten_hits_of_two_functions_and_a_short_summary" $?

watch -p "$counter" shared_counter --limit 4 -v
[ $? = 0 ] && grep -q '^4 hits in [0-9.]* s, none lost$' "$tmp/out" && grep -q '^taken .* delivered 4 ' "$tmp/out" &&
	grep -q '^mechanism: ' "$tmp/out" && grep -q '^ended: the limit was reached$' "$tmp/out" &&
	grep -q '^not seen: an access by a system call (--kernel reports those), DMA, another process or another mapping of the same memory$' "$tmp/out"
ok "verbose_adds_the_bookkeeping" $?

# Values that are read later are gone when the process has ended: what '?' means is printed once.
watch shared_counter --no-bpf -- "$victims/counter" 3 100
if grep -q ' ? -> ' "$tmp/out"; then
	[ "$(grep -c '  (?: value not known)$' "$tmp/out")" = 1 ] &&
		grep -m 1 ' ? -> ' "$tmp/out" | grep -q '(?: value not known)$'
	ok "an_unknown_old_value_is_explained_once" $?
else
	echo "# not tried: an unknown old value (none came)"
fi

watch -p "$counter" shared_counter --limit 10 --json
[ $? = 0 ] && [ "$(grep -c '"type":"hit"' "$tmp/out")" = 10 ] && summary '.delivered == 10' &&
	summary '.taken == .rejected + .delivered + ([.lost[]] | add)' &&
	summary '(.sites | length) == 2 and ([.sites[].hits] | add) == 10'
ok "json_has_a_hit_a_line_and_a_summary_that_balances" $?

jq -e -s '[.[] | select(.value_when == "hit")] | any(.old) and all(.old == null or .new == .old + 1)' "$tmp/out" >/dev/null
ok "values_read_at_the_hit_go_up_by_one" $?

jq -e -s 'map(select(.type == "hit")) | any(.thread == "worker" and .function == "bump_worker"
	and .line > 0) and any(.function == "bump_main")' "$tmp/out" >/dev/null
ok "each_hit_names_its_thread_function_and_line" $?

watch -p "$counter" "$address:8" --limit 2 --json
[ $? = 0 ] && summary ".delivered == 2 and .address == \"$address\""
ok "an_address_can_be_watched" $?

watch -p "$counter" shared_counter --limit 4 --stack --json
[ $? = 0 ] && jq -e -s 'map(select(.type == "hit")) | all(.stack | length >= 2) and
	any([.stack[].function] | index("loop") and index("worker")) and
	any([.stack[].function] | index("main"))' "$tmp/out" >/dev/null
ok "stack_goes_from_the_access_to_main_and_the_threads_start" $?

watch -p "$counter" shared_counter --limit 2 --frames 1 -o "$tmp/file"
[ $? = 0 ] && [ "$(grep -c '^    #0 ' "$tmp/out")" = 2 ] && ! grep -q '^    #1 ' "$tmp/out" &&
	jq -e -s 'map(select(.type == "hit")) | all(.stack | length >= 2)' "$tmp/file" >/dev/null
ok "frames_cuts_the_stacks_of_the_text_and_not_of_json" $?

watch -p "$counter" shared_counter --limit 3 -o "$tmp/file"
[ $? = 0 ] && [ "$(grep -c ' -> ' "$tmp/out")" = 3 ] && [ "$(grep -c '"hit"' "$tmp/file")" = 3 ]
ok "output_file_gets_json_while_text_is_printed" $?

watch -p "$counter" private_counter --for 0.5 -v
[ $? = 0 ] && grep -q '^ended: the time is over$' "$tmp/out"
ok "for_ends_after_its_seconds" $?

: >"$tmp/out"
"$trapline" watch -p "$counter" shared_counter -v >"$tmp/out" 2>"$tmp/err" &
watcher=$!
eventually grep -q ' -> ' "$tmp/out"
kill -TERM $watcher
wait $watcher
[ $? = 0 ] && grep -q '^ended: interrupted$' "$tmp/out" && kill -0 "$counter"
ok "a_signal_ends_with_a_summary_and_the_target_goes_on" $?

"$trapline" watch -p "$counter" shared_counter >"$tmp/out" 2>"$tmp/err" &
watcher=$!
sleep 0.5
kill -KILL $watcher
wait $watcher 2>/dev/null
sleep 0.3
watch -p "$counter" shared_counter --limit 4
[ $? = 0 ] && grep -q '^4 hits in [0-9.]* s, none lost$' "$tmp/out" && kill -0 "$counter"
ok "a_killed_watch_leaves_nothing_behind" $?

watch shared_counter --json -- "$victims/counter" 5 1000
[ $? = 0 ] && summary '.delivered == 10 and .ended == "the process ended" and .command == null' &&
	grep '"hit"' "$tmp/out" | head -n 1 | jq -e '.new == 1 or .value_when == "later"' >/dev/null
ok "a_started_command_is_seen_from_its_first_access" $?

watch shared_counter --json -- "$victims/counter" 2 1000 3
[ $? = 0 ] && summary '.delivered == 4 and .command == "exited with status 3"'
ok "the_status_of_a_started_command_is_told" $?

watch shared_counter -- "$victims/counter" 2 1000 3
[ $? = 0 ] && grep -q '^4 hits in [0-9.]* s, none lost; the process ended$' "$tmp/out" &&
	grep -q '^command: exited with status 3$' "$tmp/out"
ok "an_end_that_was_not_asked_for_is_in_the_first_line" $?

# --- output that cannot be written ---
watch -p "$counter" shared_counter --limit 20 -o /dev/full
[ $? = 1 ] && grep -q '^trapline watch: cannot write /dev/full: No space left on device; 0 hits were kept$' "$tmp/err"
ok "a_full_disk_is_an_error" $?

timeout 60 "$trapline" record -p "$counter" shared_counter --limit 20 -o /dev/full >"$tmp/out" 2>"$tmp/err"
[ $? = 1 ] && grep -q '^trapline record: cannot write /dev/full: No space left on device; 0 hits were kept$' "$tmp/err" &&
	! grep -q '^recorded in\|none lost' "$tmp/out"
ok "a_recording_on_a_full_disk_is_an_error" $?

timeout 60 "$trapline" watch -p "$counter" shared_counter --json --limit 20 >/dev/full 2>"$tmp/err"
[ $? = 1 ] && grep -q '^trapline watch: cannot write standard output: No space left on device; 0 hits were kept$' "$tmp/err"
ok "standard_output_on_a_full_disk_is_an_error" $?

rm -f "$tmp/status"
(timeout 60 "$trapline" watch -p "$counter" shared_counter 2>"$tmp/err"; echo $? >"$tmp/status") | head -n 1 >"$tmp/out"
eventually test -s "$tmp/status"
[ "$(cat "$tmp/status")" = 1 ] && grep -q ' -> ' "$tmp/out" &&
	grep -Eq '^trapline watch: cannot write standard output: Broken pipe; [0-9]+ hits? (was|were) kept$' "$tmp/err"
ok "a_closed_pipe_is_an_error" $?

# What was kept is what the report shows.
if unshare -m true 2>/dev/null; then
	start counter 0 200
	unshare -m sh -c 'mount -t tmpfs -o size=64k none "$1" && timeout 60 "$2" record -p "$3" shared_counter \
		--max-rate 0 -o "$1/hits" >"$4/out" 2>"$4/err"; echo $? >"$4/status"; "$2" report "$1/hits" --as json \
		2>/dev/null | grep -c "\"hit\"" >"$4/kept"' sh "$(mktemp -d -p "$tmp")" "$trapline" "$pid" "$tmp"
	kept=$(cat "$tmp/kept")
	[ "$(cat "$tmp/status")" = 1 ] && [ "$kept" -gt 10 ] &&
		grep -q "^trapline record: cannot write .*/hits: No space left on device; $kept hits were kept\$" "$tmp/err"
	ok "a_recording_that_fills_the_disk_says_what_is_in_it" $?
	kill "$pid" 2>/dev/null
else
	echo "# not tried: a full file system (unshare -m is not permitted)"
fi

# --- a process that is stopped ---
start counter
kill -STOP "$pid"
watch -p "$pid" shared_counter --for 1
[ $? = 0 ] && grep -q '^0 hits in [0-9.]* s; the process is stopped$' "$tmp/out" &&
	grep -qx "trapline watch: note: process $pid is stopped: it makes no hit until it continues; kill -CONT $pid continues it" "$tmp/err"
ok "a_stopped_process_is_noticed" $?
watch -p "$pid" shared_counter --for 1 --json
[ $? = 0 ] && summary '.stopped == true'
ok "a_stopped_process_is_noticed_in_json" $?
kill -CONT "$pid"
watch -p "$pid" shared_counter --limit 2
[ $? = 0 ] && ! grep -q stopped "$tmp/out" "$tmp/err"
ok "a_process_that_continues_is_not_called_stopped" $?
if command -v gdb >/dev/null; then
	gdb -batch -nx -p "$pid" -ex 'shell sleep 4' >/dev/null 2>&1 &
	debugger=$!
	started="$started $debugger"
	eventually grep -q 'tracing stop' "/proc/$pid/status"
	watch -p "$pid" shared_counter --for 1
	[ $? = 0 ] && grep -q '; the process is stopped$' "$tmp/out" &&
		grep -qx "trapline watch: note: process $pid is stopped by gdb (process $debugger): it makes no hit until it continues" "$tmp/err"
	ok "a_process_that_a_debugger_holds_is_noticed" $?
	wait $debugger
fi
kill "$pid" 2>/dev/null

# Most of it is not observed: the summary comes first, and the command's end is waited for.
watch shared_counter --for 0.3 -v -- "$victims/counter" 30 50000 3
[ $? = 0 ] && grep -q '^ended: the time is over$' "$tmp/out" &&
	note="^trapline watch: note: the observation has ended and $victims/counter continues: waiting for its end (kill \([0-9]*\) ends it)\$" &&
	victim=$(sed -n "s|$note|\1|p" "$tmp/err") && [ -n "$victim" ] && ! kill -0 "$victim" 2>/dev/null
ok "for_ends_the_observation_of_a_command_and_says_that_it_continues" $?

# --- lists and old names ---
watch -p "$counter" --list shared_counter private_counter --json
[ $? = 0 ] && [ "$(jq -r .name "$tmp/out" | tr '\n' ' ')" = "private_counter shared_counter " ] &&
	watch -p "$counter" -l shared_counter --json && [ "$(jq -r .name "$tmp/out")" = shared_counter ]
ok "list_is_a_flag_and_takes_several_patterns" $?

start execer
: >"$tmp/out"
watch -p "$pid" shared_counter --json &
observer=$!
eventually grep -q '"type":"hit"' "$tmp/out"
kill -USR1 "$pid"
wait $observer
[ $? = 0 ] && hits 'length > 0' && summary '.ended | test("exec")' && kill -0 "$pid"
ok "exec_of_the_target_ends_the_watch" $?

start counter 0 0
watch -p "$pid" shared_counter --for 1 --max-rate 200 --json
[ $? = 0 ] && summary '.pauses > 0 and .paused_ns > 0' && summary '.delivered < 20000'
ok "a_storm_is_paused_and_the_pause_is_told" $?
kill "$pid" 2>/dev/null

start bigstruct
watch -p "$pid" big_struct+64 --limit 2 --json
[ $? = 0 ] && jq -e -s 'map(select(.type == "hit")) | all(.function == "write_big")' \
	"$tmp/out" >/dev/null
ok "an_offset_into_a_structure_can_be_watched" $?

watch -p "$pid" small_pair --limit 2 --json
[ $? = 0 ] && jq -e -s 'map(select(.type == "hit")) | all(.len == 8 and (.address | test("8$")))' \
	"$tmp/out" >/dev/null
ok "a_pair_takes_two_registers_and_the_hit_says_which_half" $?

watch -p "$pid" big_struct --limit 1 --for 0.2
[ $? = 0 ] && grep -q 'note: big_struct has 368 bytes: watching the first 8' "$tmp/err"
ok "a_large_variable_is_watched_at_its_start_and_this_is_said" $?

watch shared_counter --if 'new % 5 == 0 && ip in bump_worker' -o "$tmp/json" -- \
	"$victims/counter" 40 1000
[ $? = 0 ] && mv "$tmp/json" "$tmp/out" && summary '.taken == 80 and .delivered + .rejected_by.condition == 80 and
	.condition_faults == 0 and (.evaluated_in | . == "kernel" or . == "reader")' &&
	jq -e -s 'map(select(.type == "hit")) | length > 0 and
		all(.function == "bump_worker" and (.new % 5 == 0 or .value_when != "hit"))' \
		"$tmp/out" >/dev/null
ok "a_condition_lets_only_its_hits_pass" $?

watch -p "$counter" shared_counter --if 'old == new' --for 0.3 -v
[ $? = 0 ] && grep -q '^0 hits in [0-9.]* s$' "$tmp/out" && grep -q '^the condition was evaluated ' "$tmp/out" &&
	grep -Eq '^--if rejected ([1-9][0-9]*) of \1 hits' "$tmp/out"
ok "a_false_condition_prints_no_hit_and_how_many_were_rejected" $?

# A condition that is seldom true costs the target much, and no hit shows it.
start counter 0 0
watch -p "$pid" shared_counter --if 'new == 0' --for 0.5
[ $? = 0 ] && grep -Eq '^--if rejected ([1-9][0-9]*) of \1 hits; each hit cost the target up to [0-9.]+ us, in all [0-9.]+% of one CPU$' "$tmp/out" &&
	watch -p "$counter" shared_counter --if 'new == 0' --limit 1 --for 0.3 &&
	! grep -q 'each hit cost' "$tmp/out"
ok "rejected_hits_that_cost_the_target_much_are_reported" $?
kill "$pid" 2>/dev/null

watch -p "$counter" shared_counter --if 'new == 3' --explain
[ $? = 0 ] && grep -q 'term new' "$tmp/out" && ! grep -q watching "$tmp/err"
ok "explain_prints_the_program_and_watches_nothing" $?

watch -p "$counter" shared_counter --if 'new % && 2'
[ $? = 2 ] && grep -q "^trapline watch: --if, column 7: expected a number" "$tmp/err" &&
	[ "$(sed -n 3p "$tmp/err")" = "        ^" ]
ok "a_wrong_condition_is_said_with_its_column" $?

# What the user typed is quoted, not what a name became.
# condition NAME COLUMN TEXT CONDITION
condition()
{
	watch -p "$counter" shared_counter --if "$4"
	[ $? = 2 ] && [ "$(head -n 1 "$tmp/err")" = "trapline watch: --if, column $2: $3" ]
	ok "$1" $?
}
condition or_is_written_as_a_sign 9 "unknown word 'or'; did you mean ||?" 'new < 5 or foo'
condition not_is_written_as_a_sign 1 "unknown word 'not'; did you mean !?" 'not new'
condition a_name_behind_a_value_is_quoted 9 "expected an operator or the end, not 'foo'" 'new < 5 foo'
condition a_name_instead_of_a_string_is_quoted 11 "expected a string in double quotes, not 'foo'" 'thread == foo'
condition an_unknown_name_is_quoted 1 "no variable is named 'qqzzxxyy' in counter; trapline watch --list shows the variables" 'qqzzxxyy == 1'

watch -p "$counter" shared_counter --if 'ip in nowhere'
[ $? = 2 ] && grep -q "no symbol is named 'nowhere'" "$tmp/err"
ok "a_condition_with_an_unknown_symbol_is_refused" $?

exactly explain_without_a_condition_is_refused "--explain needs --if" -p "$counter" x --explain
exactly unknown_symbol_gets_near_names "no variable is named 'shared_cuonter' in counter; did you mean shared_counter?" -p "$counter" shared_cuonter
wrong "thread_local_is_refused" "thread-local" -p "$counter" thread_counter
wrong "a_function_is_refused" "is a function" -p "$counter" bump_main
exactly no_such_process_is_said "there is no process 99999999" -p 99999999 x
exactly length_33_is_refused \
	"invalid EXPR 'shared_counter:33': expected a length of 1 to 32, or up to 4096 with --multiplex 10ms" -p "$counter" shared_counter:33
exactly reads_alone_are_refused "invalid --on 'r': this processor cannot watch reads alone; use --on rw" -p "$counter" shared_counter --on r
exactly a_missing_expression_is_said \
	"EXPR is missing: give a variable or an address, such as counter or 0x7ffe1000:8; see trapline watch --help" -p "$counter"
exactly pid_and_command_are_refused "give -p PID or -- CMD, not both" -p "$counter" x -- true
wrong "a_bad_number_is_refused" "invalid --limit .ten.: expected a whole number" -p "$counter" x --limit ten
exactly an_unknown_option_gets_a_near_one "unknown option '--limt'; did you mean --limit?" -p "$counter" x --limt 1
exactly a_shell_is_not_its_commands \
	"cannot find 'shared_counter' in sh: a program that sh runs is not observed; give that program after --, or use -p PID" \
	shared_counter -- sh -c "exec $victims/counter"
# Its parent is a program that does not wait.
# shellcheck disable=SC2016 # of the inner shell
sh -c 'sleep 0.1 & echo $! >"$0"; exec sleep 100' "$tmp/zombie" &
started="$started $!"
eventually test -s "$tmp/zombie"
zombie=$(cat "$tmp/zombie")
eventually grep -q '^State:.Z' "/proc/$zombie/status"
exactly a_zombie_is_said "process $zombie has ended: it is a zombie, which its parent has not waited for" -p "$zombie" x
flags=$(cut -d' ' -f9 /proc/2/stat 2>/dev/null)
if [ $((${flags:-0} & 0x200000)) != 0 ]; then
	exactly a_kernel_thread_is_said "process 2 is a kernel thread: it has no program to observe" -p 2 x
fi
wrong "a_command_that_does_not_exist_is_said" "cannot start ./nothing" x -- ./nothing
exactly ten_seconds_are_no_time_slice "invalid --multiplex '10': expected a time of at most 1s (example: 10ms)" \
	-p "$counter" shared_counter --multiplex 10
exactly an_unknown_access_is_refused "invalid --on 'x': expected r|w|rw" -p "$counter" x --on x
exactly a_missing_process_is_said "a process is missing: give -p PID, or -- CMD to start one" counter
exactly a_missing_command_is_said "CMD is missing after --" counter --
exactly too_many_parts_are_refused \
	"cannot watch 31 bytes at 0x1001: they need 6 debug registers and there are 4; choose fewer bytes, an aligned start, or --multiplex 10ms" -p "$counter" 0x1001:31

finished
