#!/bin/sh
# SPDX-License-Identifier: MIT
# test_report.sh TRAPLINE VICTIMS - `trapline record` and `trapline report`. TAP.
# Needs the right to watch another process (root, or perf_event_paranoid <= 2 for one's own).

# shellcheck source=tests/cli/tap.sh disable=SC2154 # trapline, victims and tmp come from there
. "$(dirname "$0")/tap.sh"

file=$tmp/hits.trapline
report()
{
	timeout -k 2 60 "$trapline" report "$@" >"$tmp/out" 2>"$tmp/err"
}

# has_hits FILE N: a recording that is still written.
has_hits()
{
	report "$1" --as json
	[ "$(grep -c '"type":"hit"' "$tmp/out")" -ge "$2" ]
}

start names
names=$pid
start counter
counter=$pid

timeout 60 "$trapline" record -o "$file" -p "$names" 'conn->state' --limit 20 >"$tmp/out" 2>"$tmp/err"
[ $? = 0 ] && [ "$(grep -c ' -> ' "$tmp/out")" = 0 ] && grep -q '^20 hits in [0-9.]* s, none lost$' "$tmp/out" &&
	grep -q "^recorded in $file" "$tmp/out"
ok "record_writes_a_file_and_prints_only_the_summary" $?

# What `watch` prints for this run is what the report prints of it.
grep -v '^recorded\|^$' "$tmp/out" >"$tmp/summary"
report "$file"
[ $? = 0 ] && [ "$(grep -c 'OPEN\|CLOSED' "$tmp/out")" = 20 ] &&
	[ "$(grep -c '    #1 .*main+0x.*in names' "$tmp/out")" = 20 ] &&
	! grep -vxFf "$tmp/out" "$tmp/summary"
ok "report_as_text_has_hits_stacks_and_the_summary" $?

report "$file" --as json
[ $? = 0 ] && hits 'length == 20 and all(.value.type == "enum state") and
	all(.stack | length >= 2) and all(.function == "write_conn" and .line > 0)' &&
	summary '.delivered == 20 and .taken == .rejected + .delivered + ([.lost[]] | add)' &&
	summary '.what == "conn->state" and .value_type == "enum state"'
ok "report_as_jsonl_is_what_watch_prints" $?

# The same run twice over: live and recorded.
"$trapline" watch -p "$names" 'conn->as_int' --limit 3 --json 2>/dev/null |
	jq -S 'select(.type == "hit") | keys' >"$tmp/live"
"$trapline" record -o "$tmp/again" -p "$names" 'conn->as_int' --limit 3 >/dev/null 2>&1
"$trapline" report "$tmp/again" --as json | jq -S 'select(.type == "hit") | keys' >"$tmp/recorded"
[ -s "$tmp/live" ] && cmp -s "$tmp/live" "$tmp/recorded"
ok "a_recorded_hit_has_the_members_of_a_live_one" $?

report "$file" --as folded
[ $? = 0 ] && awk '{ n += $NF } END { exit n != 20 }' "$tmp/out" &&
	grep -Eq '^names;(.*;)?main;write_conn [0-9]+$' "$tmp/out"
ok "folded_stacks_count_every_hit" $?

report "$file" --as trace
[ $? = 0 ] && jq -e '[.traceEvents[] | select(.ph == "i")] | length == 20 and
	all(.ts >= 0 and .tid > 0 and (.args.stack | length >= 2))' "$tmp/out" >/dev/null &&
	jq -e '[.traceEvents[] | select(.ph == "C")] | length == 20' "$tmp/out" >/dev/null &&
	jq -e '.traceEvents | any(.name == "process_name" and .args.name == "names") and
		any(.name == "thread_name" and .args.name == "names")' "$tmp/out" >/dev/null
ok "trace_events_are_json_with_names_of_process_and_threads" $?

"$trapline" record -o "$tmp/two" -p "$counter" shared_counter --limit 30 >/dev/null 2>&1
report "$tmp/two" --as html -o "$tmp/page.html"
[ $? = 0 ] && [ ! -s "$tmp/out" ] && grep -q '^</html>' "$tmp/page.html" &&
	! grep -Eq '(src|href)=|https?://|@import|url\(' "$tmp/page.html"
ok "the_page_is_one_file_that_asks_for_nothing" $?

sed -n 's/^<script type="application\/json" id="data">\(.*\)<\/script>$/\1/p' "$tmp/page.html" >"$tmp/data"
jq -e '.kind == "run" and (.columns.time | length == 30) and (.threads | length == 2) and (.run.what == "shared_counter")
	and (.stacks | length >= 2)' "$tmp/data" >/dev/null
ok "the_page_holds_the_data" $?

browser=$(command -v chromium || command -v google-chrome)
if [ -n "$browser" ]; then
	timeout 60 "$browser" --headless=new --no-sandbox --disable-gpu --user-data-dir="$tmp/browser" \
		--dump-dom "file://$tmp/page.html#hit=7" >"$tmp/dom" 2>"$tmp/err"
	grep -q '<h1 id="what">shared_counter</h1>' "$tmp/dom" &&
		grep -q 'bump_worker+0x' "$tmp/dom" && grep -q '<ol class="stack mono"' "$tmp/dom" &&
		[ "$(grep -o '<div class="row on"' "$tmp/dom" | wc -l)" = 1 ]
	ok "a_browser_shows_tables_and_the_stack_of_the_hit_that_is_asked_for" $?
else
	skip "a_browser_shows_the_page" "chromium is not installed"
fi

"$trapline" record -o "$tmp/inlined" -p "$names" inlined_value --limit 2 >/dev/null 2>&1
report "$tmp/inlined" --as json
[ $? = 0 ] && hits 'all((.stack[0] | .inlined and .function == "set_inlined" and .line > 0) and
	(.stack[1] | (has("inlined") | not) and .function == "write_globals") and
	.stack[0].line != .stack[1].line and .stack[0].ip == .stack[1].ip)'
ok "inlined_functions_have_frames_with_their_own_lines" $?
report "$tmp/inlined" --as folded
[ $? = 0 ] && grep -q ';main;write_globals;set_inlined_\[i\] 2$' "$tmp/out"
ok "folded_stacks_mark_inlined_functions" $?

# --- calls ---
if [ "$(id -u)" = 0 ] && [ -r /sys/bus/event_source/devices/uprobe/type ]; then
	start calls
	calls=$pid
	timeout 60 "$trapline" record --break -o "$tmp/calls" -p "$calls" lookup depth next_color \
		--args --ret --limit 40 >"$tmp/out" 2>"$tmp/err"
	[ $? = 0 ] && [ "$(grep -c ' from .*calls\.c' "$tmp/out")" -lt 20 ] && grep -q '^40 hits in [0-9.]* s, none lost$' "$tmp/out" &&
		grep -q "^recorded in $tmp/calls" "$tmp/out"
	ok "calls_are_recorded_and_only_the_summary_is_printed" $?

	# What `break` prints for this run is what the report prints of it.
	grep -v '^recorded\|^$' "$tmp/out" >"$tmp/summary"
	report "$tmp/calls"
	[ $? = 0 ] && [ "$(grep -c '^[0-9:.]*  .*) = .*  from ' "$tmp/out")" = 40 ] &&
		grep -q '    #1 .*in calls' "$tmp/out" && ! grep -vxFf "$tmp/out" "$tmp/summary"
	ok "report_of_calls_as_text_has_calls_stacks_and_the_summary" $?

	report "$tmp/calls" --as json
	[ $? = 0 ] && hits 'length == 40 and all(.duration_ns > 0 and .caller.module == "calls" and
			(.stack | length >= 2))' &&
		hits 'map(select(.function == "lookup")) | length > 0 and all(.ret == .args.n + 10 +
			(if .args.key.string == "zebra" then 1 else 0 end))' &&
		hits 'map(select(.function == "next_color")) | length > 0 and all(.ret == "GREEN")' &&
		summary '.hits == 40 and .what == ["lookup", "depth", "next_color"] and
			([.functions[].hits] | add) == 40 and ([.functions[].durations[].calls] | add) == 40 and
			.taken == .rejected + .delivered + ([.lost[]] | add)'
	ok "report_of_calls_as_jsonl_is_what_break_prints" $?

	"$trapline" break -p "$calls" lookup --args --ret --stack --limit 3 --json 2>/dev/null |
		jq -S 'if .type == "hit" then keys else (del(.cost_emulated_ns) | keys) end' >"$tmp/live"
	"$trapline" record --break -o "$tmp/again" -p "$calls" lookup --args --ret --limit 3 >/dev/null 2>&1
	"$trapline" report "$tmp/again" --as json |
		jq -S 'if .type == "hit" then keys else (del(.cost_emulated_ns) | keys) end' >"$tmp/recorded"
	[ -s "$tmp/live" ] && cmp -s "$tmp/live" "$tmp/recorded"
	ok "a_recorded_call_has_the_members_of_a_live_one" $?

	report "$tmp/calls" --as folded
	[ $? = 0 ] && awk '{ n += $NF } END { exit n != 40 }' "$tmp/out" &&
		grep -q ';round_of_calls;depth;depth;depth;depth;depth [0-9]*$' "$tmp/out"
	ok "folded_stacks_count_every_call" $?

	# A slice as long as the call: those of a recursion lie in each other.
	report "$tmp/calls" --as trace
	[ $? = 0 ] && jq -e '[.traceEvents[] | select(.ph == "X")] | length == 40 and
		all(.dur > 0 and .ts >= 0 and (.args.from | length > 0) and (.args.args | length > 0)) and
		(map(select(.name == "depth")) | (map(select(.args.args == "n=4")) | .[0]) as $outer |
			any(.args.args == "n=0" and .ts > $outer.ts and .ts + .dur <= $outer.ts + $outer.dur))' \
		"$tmp/out" >/dev/null
	ok "trace_has_calls_as_slices_that_nest" $?

	report "$tmp/calls" --as html -o "$tmp/calls.html"
	[ $? = 0 ] && sed -n 's/^<script type="application\/json" id="data">\(.*\)<\/script>$/\1/p' \
		"$tmp/calls.html" >"$tmp/data" &&
		jq -e '(.columns.number | length == 40 and all(. > 0)) and .run.is_calls and
			.run.what == "lookup depth next_color"' "$tmp/data" >/dev/null
	ok "the_page_of_calls_holds_the_data" $?
	if [ -n "$browser" ]; then
		timeout 60 "$browser" --headless=new --no-sandbox --disable-gpu --user-data-dir="$tmp/browser" \
			--dump-dom "file://$tmp/calls.html#hit=3" >"$tmp/dom" 2>"$tmp/err"
		grep -q '<h2>Callers<small>' "$tmp/dom" && grep -q 'round_of_calls+0x' "$tmp/dom" &&
			grep -q 'next_color = GREEN' "$tmp/dom" && [ "$(grep -o '<div class="row on"' "$tmp/dom" | wc -l)" = 1 ]
		ok "a_browser_shows_callers_and_results" $?
	fi

	"$trapline" record --break -o "$tmp/killed" -p "$calls" lookup --ret >/dev/null 2>&1 &
	recorder=$!
	eventually has_hits "$tmp/killed" 1
	kill -KILL $recorder
	wait $recorder 2>/dev/null
	report "$tmp/killed" -v
	[ $? = 0 ] && grep -q 'has no end' "$tmp/err" && grep -q 'lookup = ' "$tmp/out" &&
		grep -q '^mechanism: not recorded' "$tmp/out" && kill -0 "$calls"
	ok "a_killed_recorder_of_calls_leaves_what_it_had_written" $?
	kill "$calls" 2>/dev/null
else
	skip "calls" "uprobes (root and CONFIG_UPROBE_EVENTS)"
fi

# --- either side dies ---
rm -f "$tmp/killed"
"$trapline" record -o "$tmp/killed" -p "$counter" shared_counter >/dev/null 2>&1 &
recorder=$!
eventually has_hits "$tmp/killed" 10
kill -KILL $recorder
wait $recorder 2>/dev/null
report "$tmp/killed" --as json
[ $? = 0 ] && grep -q 'has no end' "$tmp/err" && hits 'length >= 10' &&
	summary '.ended | test("no end")' && kill -0 "$counter"
ok "a_killed_recorder_leaves_what_it_had_written" $?

"$trapline" record -o "$tmp/ended" shared_counter -- "$victims/counter" 5 1000 >/dev/null 2>&1
report "$tmp/ended" --as json
[ $? = 0 ] && hits 'length == 10' && summary '.ended == "the process ended"'
ok "the_end_of_the_process_ends_the_recording" $?

head -c $(($(wc -c <"$file") - 100)) "$file" >"$tmp/cut"
report "$tmp/cut" --as json
[ $? = 0 ] && grep -q 'damaged or not complete' "$tmp/err" && hits 'length == 20'
ok "a_cut_file_gives_what_is_complete_and_says_so" $?

cp "$file" "$tmp/changed"
printf 'XXXX' | dd of="$tmp/changed" bs=1 seek=1500 conv=notrunc 2>/dev/null
report "$tmp/changed" --as json
[ $? = 0 ] && grep -q 'damaged or not complete after byte' "$tmp/err" && hits 'length < 20'
ok "a_changed_file_gives_what_is_before" $?

# wrong_report NAME PATTERN ARG...
wrong_report()
{
	name=$1
	pattern=$2
	shift 2
	report "$@"
	[ $? = 2 ] && [ "$(wc -l <"$tmp/err")" = 1 ] && grep -q "^trapline report: .*$pattern" "$tmp/err"
	ok "$name" $?
}
wrong_report "a_file_that_is_no_recording_is_refused" "no recording of trapline" "$victims/counter"
wrong_report "a_file_that_is_not_there_is_said" "No such file" "$tmp/nothing"
wrong_report "an_unknown_form_is_refused" "invalid --as 'pdf': expected text|json|folded|trace|html$" "$file" --as pdf
wrong_report "no_file_is_said" "FILE is missing: give a recording of trapline record$" --as text
wrong_report "two_files_are_refused" "more than one FILE" "$file" "$file"
"$trapline" record -p "$counter" shared_counter >"$tmp/out" 2>"$tmp/err"
[ $? = 2 ] && grep -q '^trapline record: -o FILE is missing' "$tmp/err"
ok "record_wants_a_file" $?
"$trapline" record --break -p "$counter" main >"$tmp/out" 2>"$tmp/err"
[ $? = 2 ] && grep -q '^trapline record: -o FILE is missing' "$tmp/err"
ok "record_of_breakpoints_wants_a_file" $?
"$trapline" record -o "$tmp/x" -p "$counter" shared_cuonter >"$tmp/out" 2>"$tmp/err"
[ $? = 2 ] && grep -q '^trapline record: .*did you mean shared_counter' "$tmp/err"
ok "record_looks_names_up_as_watch_does" $?

# --- colour: on a terminal, unless NO_COLOR is set ---
bold=$(printf '\033[1m')
if command -v script >/dev/null; then
	TERM=xterm script -qec "'$trapline' report '$file'" /dev/null >"$tmp/out" </dev/null
	grep -qF "${bold}20 hits in" "$tmp/out"
	ok "the_headline_is_bold_on_a_terminal" $?
	TERM=xterm script -qec "'$trapline' report" /dev/null >"$tmp/out" </dev/null
	grep -q '\[1;31mtrapline report: .*\[0mFILE is missing' "$tmp/out"
	ok "an_error_is_coloured_on_a_terminal" $?
	NO_COLOR=1 TERM=xterm script -qec "'$trapline' report '$file'; '$trapline' report" /dev/null >"$tmp/out" </dev/null
	grep -q '^20 hits in' "$tmp/out" && grep -q '^trapline report: FILE is missing' "$tmp/out" &&
		! grep -q "$(printf '\033')" "$tmp/out"
	ok "no_color_is_honoured" $?
else
	echo "# not tried: colour on a terminal (script is not installed)"
fi
report "$file"
! grep -q "$(printf '\033')" "$tmp/out"
ok "piped_output_has_no_colour" $?

# --- options: one table of both kinds ---
# wrong_record NAME LINE ARG...
wrong_record()
{
	name=$1
	line=$2
	shift 2
	"$trapline" record "$@" >"$tmp/out" 2>"$tmp/err"
	[ $? = 2 ] && [ "$(cat "$tmp/err")" = "trapline record: $line" ]
	ok "$name" $?
}
"$trapline" record --help >"$tmp/out" 2>"$tmp/err"
[ $? = 0 ] && for option in '-b, --break' '-a, --args' '-r, --ret' '--inlined' '--from FUNC' '--multiplex TIME'; do
	grep -Fq -e "$option" "$tmp/out" || echo "# no $option"
done >"$tmp/err" && [ ! -s "$tmp/err" ]
ok "record_help_shows_the_options_of_both_kinds" $?
wrong_record "args_need_break" "--args needs --break" -o "$tmp/x" -p "$counter" shared_counter --args
wrong_record "from_is_not_for_calls" "--from cannot be combined with --break" -o "$tmp/x" -p "$counter" \
	--break main --from main

finished
