#!/bin/sh
# SPDX-License-Identifier: MIT
# test_answers.sh TRAPLINE VICTIMS - --summary, --by and --top, live and of recordings, and the time of
# day in JSON. TAP. Needs root: uprobes are for it alone.

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/tap.sh"
need_uprobes
need jq
command='break'

start calls
calls=$pid

before=$(date -u +%Y-%m-%dT%H:%M:%S)
watch -p "$calls" lookup --limit 5 --json
status=$?
after=$(date -u +%Y-%m-%dT%H:%M:%S)
[ $status = 0 ] && hits 'length == 5 and all(.time | test("^[0-9-]{10}T[0-9:]{8}[.][0-9]{9}Z$"))' &&
	hits "all(.time[0:19] >= \"$before\" and .time[0:19] <= \"$after\")"
ok "json_has_the_time_of_day" $?

watch -p "$calls" lookup --summary --limit 40
[ $? = 0 ] && grep -q '^40 hits in ' "$tmp/out" && grep -q ' lookup in calls$' "$tmp/out" &&
	! grep -q '^[0-9][0-9]:[0-9][0-9]:' "$tmp/out"
ok "summary_prints_tables_and_no_hits" $?

watch -p "$calls" lookup --summary --json --limit 40
[ $? = 0 ] && [ "$(wc -l <"$tmp/out")" = 1 ] && summary '.hits == 40 and .groups == null'
ok "summary_in_json_is_one_line" $?

# The results of lookup are 11, 12 and 16; the worker's is 12.
watch -p "$calls" lookup --ret --summary --by value --limit 40 --json
[ $? = 0 ] && summary '.groups.by == "value" and (.groups.rows | map(.hits) | add) == 40 and
	(.groups.rows | map(.key) | sort) == ["11", "12", "16"] and .groups.numbers.count == 40 and
	.groups.numbers.least == 11 and .groups.numbers.most == 16 and
	(.groups.numbers.histogram | map([.from, .hits])[0][0]) == 8 and
	(.groups.numbers.histogram | map(.hits) | add) == 40'
ok "values_of_results_are_counted" $?

watch -p "$calls" lookup --ret --summary --by value --top 2 --limit 40
[ $? = 0 ] && grep -q 'and 1 more$' "$tmp/out" && grep -q '^values: 40 numbers, least 11, mean 1[1-5].*, most 16$' "$tmp/out" &&
	grep -q '^ *8 or more ' "$tmp/out" && ! grep -q 'threads  from$' "$tmp/out"
ok "more_values_than_rows_get_a_histogram" $?

watch -p "$calls" lookup --summary --by value --limit 3
[ $? = 2 ] && grep -q -- '--by value needs --ret (results) or --args' "$tmp/err"
ok "values_need_results_or_arguments" $?

watch -p "$calls" lookup --summary --by caller --limit 40 --json
[ $? = 0 ] && summary '(.groups.rows | length) == 3 and all(.groups.rows[]; .key | test("^(worker|round_of_calls)[+]0x")) and
	.groups.numbers == null'
ok "calls_are_grouped_by_caller" $?

watch -p "$calls" lookup --summary --by thread --limit 40
[ $? = 0 ] && grep -q '^ .*  worker/[0-9]*$' "$tmp/out" && grep -q "^ .*  calls/$calls\$" "$tmp/out"
ok "calls_are_grouped_by_thread" $?

watch -p "$calls" lookup --summary --by stack --limit 40
[ $? = 0 ] && [ "$(grep -c '    #0  lookup ' "$tmp/out")" = 3 ] && grep -q '    #2  main' "$tmp/out" &&
	! grep -q ' $' "$tmp/out"
ok "calls_are_grouped_by_stack" $?

command=record
watch --break -p "$calls" lookup --ret --limit 40 -o "$tmp/rec"
command=report
watch "$tmp/rec" --summary --by value --as json
[ $? = 0 ] && [ "$(wc -l <"$tmp/out")" = 1 ] &&
	summary '(.groups.rows | map(.hits) | add) == 40 and (.groups.rows | map(.key) | sort) == ["11", "12", "16"]'
ok "a_recording_gives_the_same_tables" $?

watch "$tmp/rec" --by thread --top 1
[ $? = 0 ] && grep -q 'and 1 more$' "$tmp/out" && [ "$(grep -c '^[0-9][0-9]:' "$tmp/out")" = 40 ]
ok "a_recording_has_hits_and_the_table" $?

watch "$tmp/rec" --as json
hits 'length == 40 and all(.time > "2020")'
ok "a_recording_has_the_time_of_day" $?

wrong "tables_need_text_or_json" "--summary cannot be combined with --as folded" "$tmp/rec" --summary --as folded
wrong "unknown_groups_are_refused" "invalid --by 'size'" "$tmp/rec" --by size

command='break'
watch -p "$calls" lookup --last 3 --for 1
[ $? = 0 ] && [ "$(grep -c '^[0-9][0-9]:' "$tmp/out")" = 3 ] &&
	[ "$(sed -n 's/^\([0-9]*\) hits in .*/\1/p' "$tmp/out")" -gt 3 ]
ok "last_prints_the_last_hits_at_the_end" $?

watch -p "$calls" lookup --last 2 --for 1 --json
[ $? = 0 ] && hits 'length == 2' && summary '.hits > 2 and .ended == "the time is over"'
ok "last_in_json" $?

watch lookup --last 2 -- "$victims/calls" 3 1000
[ $? = 0 ] && [ "$(grep -c '^[0-9][0-9]:' "$tmp/out")" = 2 ] && grep -q '; the process ended$' "$tmp/out"
ok "last_prints_when_the_process_ends" $?

: >"$tmp/err"
"$trapline" break -p "$calls" lookup --last 2 >"$tmp/out" 2>"$tmp/err" &
recorder=$!
eventually grep -q breaking "$tmp/err"
sleep 0.5
[ "$(wc -l <"$tmp/out")" = 0 ]
quiet=$?
kill -INT $recorder
wait $recorder
[ $quiet = 0 ] && [ "$(grep -c '^[0-9][0-9]:' "$tmp/out")" = 2 ]
ok "last_prints_at_an_interrupt_and_not_before" $?

# A round calls lookup twice in main, and later greeting once.
watch -p "$calls" lookup --if 'thread == "calls"' --last 100 --until-hit greeting --json
[ $? = 0 ] && summary '.ended == "the location of --until-hit was reached"' && hits 'length >= 1 and length <= 4'
ok "until_hit_ends_the_run" $?

watch lookup --until-hit 'depth if arg0 == 0' --last 2 -- "$victims/calls" 1000 1000
[ $? = 0 ] && grep -q 'the location of --until-hit was reached' "$tmp/out" && grep -q 'not by probes: --until-hit' "$tmp/err"
ok "until_hit_ends_the_run_of_a_command" $?

watch -p "$calls" lookup --last 5 --until-hit 'lookup if arg2 == 77' --for 1
[ $? = 0 ] && grep -q '^[0-9]* hits in 1\.' "$tmp/out" && ! grep -q 'until-hit' "$tmp/out"
ok "until_hit_obeys_its_condition" $?

watch -p "$calls" lookup --print 'n={n} key={key} of {t->name} \{x\} {thread}' --limit 40
[ $? = 0 ] && [ "$(grep -c '^[0-9:.]*  *[a-z]*/[0-9]*  *n=[0-9] key=0x[0-9a-f]* "[a-z0-9]*" of 0x[0-9a-f]* "things" {x} [a-z]*$' "$tmp/out")" = 40 ] &&
	! grep -q 'n=5 key=0x[0-9a-f]* "worker"' "$tmp/out" && grep -q 'n=5 key=0x[0-9a-f]* "zebra"' "$tmp/out"
ok "a_text_has_the_values_of_its_hit" $?
watch -p "$calls" lookup --print '{n}' --ret --json --limit 20
[ $? = 0 ] && jq -es 'map(select(.type == "hit")) | length == 20 and all(.printed | IN("1", "2", "5"))' "$tmp/out" >/dev/null
ok "json_has_the_text" $?
watch -p "$calls" lookup --by n --ret --limit 60
[ $? = 0 ] && grep -q '^ *hits  share *total *mean *longest  n$' "$tmp/out" && grep -Eq '^ +[0-9]+ .* 5$' "$tmp/out" &&
	! grep -q 'lookup(' "$tmp/out" && ! grep -q '  from$' "$tmp/out"
ok "hits_are_counted_by_a_value_and_not_printed" $?
watch -p "$calls" lookup --by 't->size' --json --limit 30
[ $? = 0 ] && summary '.groups.by == "t->size" and (.groups.rows | length == 1 and .[0].hits == 30 and .[0].last_unix_ns >= .[0].first_unix_ns)' &&
	[ "$(wc -l <"$tmp/out")" = 1 ]
ok "a_member_is_a_key_and_json_has_the_table" $?
wrong "an_unknown_name_is_no_key" "invalid --by in lookup: cannot print {nosuch}" -p "$calls" lookup --by nosuch
wrong "an_open_brace_is_refused" "invalid --print '{n': expected a name between { and }" -p "$calls" lookup --print '{n'
wrong "last_and_summary_exclude_each_other" "--last cannot be combined with --summary" -p "$calls" lookup --last 3 --summary
wrong "a_place_that_is_not_there_is_refused" "no function is named 'nosuch'" -p "$calls" lookup --until-hit nosuch
wrong "last_has_a_limit" "invalid --last: expected at most 1000000" -p "$calls" lookup --last 1000001

# A busy function: none of its calls is left out by a pause.
start calls 100000 0
command='break'
watch -p "$pid" lookup --summary --for 1
[ $? = 0 ] && grep -q '^[0-9]* hits in ' "$tmp/out" && ! grep -q paused "$tmp/out"
ok "a_summary_of_calls_does_not_pause" $?
watch -p "$pid" lookup --summary --for 1 --max-rate 100
[ $? = 0 ] && grep -q ', paused for [0-9]*% of the time' "$tmp/out"
ok "a_summary_pauses_where_it_is_told_to" $?

# hits_and_lines: how many hits the last run counted, and how many it printed.
hits_and_lines()
{
	counted=$(grep -o '[0-9]* hits in [0-9.]* s' "$tmp/out" | tail -n 1 | sed 's/ .*//; s/^1m//')
	printed=$(grep -c 'lookup(t=' "$tmp/out")
}
busy_calls=$pid
if command -v script >/dev/null; then
	timeout -k 2 60 script -qec "$trapline break -p $busy_calls lookup --args --for 1" /dev/null >"$tmp/out" 2>"$tmp/err" </dev/null
	hits_and_lines
	[ "$printed" -gt 0 ] && [ "$counted" -gt "$printed" ] && ! grep -q paused "$tmp/out" &&
		grep -q "$((counted - printed)) of the hits were only counted: a terminal gets at most 1000 lines a second" "$tmp/out"
	ok "a_terminal_gets_some_lines_and_the_tables_count_all" $?
else
	skip "a_terminal_gets_some_lines_and_the_tables_count_all" script
fi
watch -p "$busy_calls" lookup --args --for 1
hits_and_lines
[ "$printed" -gt 0 ] && [ "$counted" = "$printed" ] && ! grep -q 'only counted' "$tmp/out"
ok "a_pipe_gets_all_lines" $?
"$trapline" record -o "$tmp/fast" --break -p "$busy_calls" lookup --no-stack --for 1 >"$tmp/out" 2>"$tmp/err"
[ $? = 0 ] && ! grep -q paused "$tmp/out" && "$trapline" report "$tmp/fast" --as json | tail -n 1 | jq -e '.hits > 1000 and .pauses == 0' >/dev/null
ok "a_recording_does_not_pause" $?

# Calls that cost the process more than the budget permits, but not for long.
watch lookup --mechanism uprobe --budget 0.1% --summary -- "$victims/calls" 1000 0
[ $? = 0 ] && ! grep -q rested "$tmp/out" && ! grep -q 'in turns' "$tmp/err"
ok "a_short_command_is_observed_as_a_whole" $?
watch -p "$busy_calls" lookup --budget 0.1% --summary --for 1
[ $? = 0 ] && grep -q 'rested' "$tmp/out"
ok "a_process_that_runs_has_the_budget_from_the_start" $?

"$trapline" "$calls" things --list >"$tmp/out" 2>"$tmp/err"
[ $? = 0 ] && grep -q '^things  *struct table ' "$tmp/out"
ok "a_process_and_a_variable_are_short_for_watch" $?
"$trapline" 99999999 things >"$tmp/out" 2>"$tmp/err"
[ $? = 2 ] && grep -q '^trapline watch: there is no process 99999999$' "$tmp/err"
ok "the_short_form_names_the_command_in_errors" $?

finished
