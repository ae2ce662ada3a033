#!/bin/sh
# SPDX-License-Identifier: MIT
# test_watch.sh TRAPLINE VICTIMS - what `trapline watch` promises, on small programs. TAP.
# Needs the right to watch another process (root, or perf_event_paranoid <= 2 for one's own).

# shellcheck source=tests/cli/tap.sh disable=SC2154 # trapline, victims and tmp come from there
. "$(dirname "$0")/tap.sh"

start counter
counter=$pid
address=$(head -n 1 "$tmp/victim")

watch -p "$counter" shared_counter --limit 10
[ $? = 0 ] && [ "$(grep -c ' -> ' "$tmp/out")" = 10 ] &&
	grep -q 'bump_main+0x' "$tmp/out" && grep -q 'bump_worker+0x' "$tmp/out" &&
	grep -q '^taken .* delivered 10 ' "$tmp/out"
ok "watch_prints_ten_hits_of_two_functions_and_a_summary" $?

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

watch -p "$counter" shared_counter --limit 3 -o "$tmp/file"
[ $? = 0 ] && [ "$(grep -c ' -> ' "$tmp/out")" = 3 ] && [ "$(grep -c '"hit"' "$tmp/file")" = 3 ]
ok "output_file_gets_json_while_text_is_printed" $?

watch -p "$counter" private_counter --for 0.5
[ $? = 0 ] && grep -q 'the time is over' "$tmp/out"
ok "for_ends_after_its_seconds" $?

: >"$tmp/out"
"$trapline" watch -p "$counter" shared_counter >"$tmp/out" 2>"$tmp/err" &
watcher=$!
eventually grep -q ' -> ' "$tmp/out"
kill -TERM $watcher
wait $watcher
[ $? = 0 ] && grep -q 'interrupted' "$tmp/out" && kill -0 "$counter"
ok "a_signal_ends_with_a_summary_and_the_target_goes_on" $?

"$trapline" watch -p "$counter" shared_counter >"$tmp/out" 2>"$tmp/err" &
watcher=$!
sleep 0.5
kill -KILL $watcher
wait $watcher 2>/dev/null
sleep 0.3
watch -p "$counter" shared_counter --limit 4
[ $? = 0 ] && grep -q '^taken .* delivered 4 ' "$tmp/out" && kill -0 "$counter"
ok "a_killed_watch_leaves_nothing_behind" $?

watch shared_counter --json -- "$victims/counter" 5 1000
[ $? = 0 ] && summary '.delivered == 10 and .ended == "the process ended" and .command == null' &&
	grep '"hit"' "$tmp/out" | head -n 1 | jq -e '.new == 1 or .value_when == "later"' >/dev/null
ok "a_started_command_is_seen_from_its_first_access" $?

watch shared_counter --json -- "$victims/counter" 2 1000 3
[ $? = 0 ] && summary '.delivered == 4 and .command == "exited with status 3"'
ok "the_status_of_a_started_command_is_told" $?

start execer
watch -p "$pid" shared_counter --json
[ $? = 0 ] && summary '.ended | test("exec")' && kill -0 "$pid"
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
	.condition_faults == 0 and (.decided_in | . == "kernel" or . == "reader")' &&
	jq -e -s 'map(select(.type == "hit")) | length > 0 and
		all(.function == "bump_worker" and (.new % 5 == 0 or .value_when != "hit"))' \
		"$tmp/out" >/dev/null
ok "a_condition_lets_only_its_hits_pass" $?

watch -p "$counter" shared_counter --if 'old == new' --for 0.3
[ $? = 0 ] && grep -q ': 0 hits in' "$tmp/out" && grep -q '^decided ' "$tmp/out"
ok "a_false_condition_prints_no_hit_and_says_where_it_was_decided" $?

watch -p "$counter" shared_counter --if 'new == 3' --explain
[ $? = 0 ] && grep -q 'term new' "$tmp/out" && ! grep -q watching "$tmp/err"
ok "explain_prints_the_program_and_watches_nothing" $?

watch -p "$counter" shared_counter --if 'new % && 2'
[ $? = 2 ] && grep -q "^trapline watch: --if, column 7: expected a number" "$tmp/err" &&
	[ "$(sed -n 3p "$tmp/err")" = "        ^" ]
ok "a_wrong_condition_is_said_with_its_column" $?

watch -p "$counter" shared_counter --if 'ip in nowhere'
[ $? = 2 ] && grep -q "no symbol is named 'nowhere'" "$tmp/err"
ok "a_condition_with_an_unknown_symbol_is_refused" $?

wrong "explain_without_a_condition_is_refused" "there is none" -p "$counter" x --explain
wrong "unknown_symbol_gets_near_names" "did you mean shared_counter?" -p "$counter" shared_cuonter
wrong "thread_local_is_refused" "thread-local" -p "$counter" thread_counter
wrong "a_function_is_refused" "is a function" -p "$counter" bump_main
wrong "no_such_process_is_said" "no process 99999999" -p 99999999 x
wrong "length_33_is_refused" "1 to 32" -p "$counter" shared_counter:33
wrong "reads_alone_are_refused" "use --on rw" -p "$counter" shared_counter --on r
wrong "missing_what_is_said" "what is to be watched" -p "$counter"
wrong "pid_and_command_are_refused" "not both" -p "$counter" x -- true
wrong "a_bad_number_is_refused" "--limit wants a whole number" -p "$counter" x --limit ten
wrong "an_unknown_option_gets_a_near_one" "did you mean --limit" -p "$counter" x --limt 1
wrong "a_command_that_does_not_exist_is_said" "cannot start ./nothing" x -- ./nothing
wrong "too_many_parts_are_refused" "debug registers" -p "$counter" 0x1001:31

finished
