#!/bin/sh
# SPDX-License-Identifier: MIT
# test_watch_objects.sh TRAPLINE VICTIMS - what `trapline watch` promises of the kernel's writes, of
# objects that are found at run time, and of expressions that are multiplexed. TAP. Needs root.

# shellcheck source=tests/cli/tap.sh disable=SC2154 # trapline, victims and tmp come from there
. "$(dirname "$0")/tap.sh"

if [ "$(id -u)" != 0 ]; then
	echo "1..0 # SKIP uprobes and BPF (root)"
	exit 0
fi
file=$tmp/recording
# record OPTION...: as watch, into $file.
record()
{
	rm -f "$file"
	timeout -k 2 60 "$trapline" record -o "$file" "$@" >"$tmp/out" 2>"$tmp/err"
}

# as FORM: the report of $file.
as()
{
	timeout -k 2 60 "$trapline" report "$file" --as "$1" >"$tmp/out" 2>"$tmp/err"
}

# After record: the report as text, in $tmp/text, has each line of the summary, at least $1 (3).
report_has_the_summary()
{
	grep -v '^recorded\|^$' "$tmp/out" >"$tmp/summary"
	timeout -k 2 60 "$trapline" report "$file" -v >"$tmp/text" 2>"$tmp/err" &&
		[ "$(wc -l <"$tmp/summary")" -ge "${1:-3}" ] && ! grep -vxFf "$tmp/text" "$tmp/summary"
}

# The data of the page of $file, in $tmp/data.
page()
{
	as html && sed -n 's/^<script type="application\/json" id="data">\(.*\)<\/script>$/\1/p' \
		"$tmp/out" >"$tmp/data" && [ -s "$tmp/data" ]
}

# members: the names that a hit and the summary in the JSON output have.
members()
{
	jq -S -c 'if .type == "hit" then keys else [keys, (.objects, .places[0]?, .turns | keys?)] end' \
		"$tmp/out" | sort -u
}
balances='.taken == .rejected + .delivered + .unread + ([.lost[]] | add)'

# Each of them is eight stores. Until the watch is closed others may come, beyond the limit, and the
# last one may be cut short by its end.
whole='(.rejected_by.partial - 7 * (.delivered + .rejected_by.limit) | . >= 0 and . < 8)'

# The kernel's writes.
start objects --kernel
kernel=$pid
watch -p "$kernel" kernel_word --kernel --limit 10 --json
[ $? = 0 ] && summary ".delivered == 10 and $balances and $whole" &&
	hits 'all(.syscall == "read" and .value_when == "hit") and (.[1:] |
		all(.new != .old)) and ([.[].old][1:] == [.[].new][:-1])'
ok "a_read_into_the_word_is_one_hit_with_the_whole_value" $?

watch -p "$kernel" kernel_word --kernel --limit 2 --stack -v
[ $? = 0 ] && grep -q '  w  by the kernel in read' "$tmp/out" && grep -q ' read_into_word' "$tmp/out" &&
	grep -q '^partial: ' "$tmp/out" && ! grep -q 'system call ' "$tmp/out"
ok "the_system_call_and_the_stack_that_led_to_it_are_told" $?

# The same run live and recorded: what `record` prints of it is what the report prints of the file.
record -p "$kernel" kernel_word --kernel --limit 10 -v
[ $? = 0 ] && grep -q '^partial: ' "$tmp/out" && report_has_the_summary &&
	[ "$(grep -c '  w  by the kernel in read' "$tmp/text")" = 10 ] && ! grep -q 'system call ' "$tmp/text" &&
	as json && hits 'length == 10 and all(.syscall == "read")' &&
	summary ".delivered == 10 and $balances and $whole" &&
	as folded && grep -q 'read_into_word.*;read_\[k\] [0-9]*$' "$tmp/out" &&
	as trace && jq -e '[.traceEvents[] | select(.ph == "i")] | length == 10 and
		all(.args.by == "by the kernel in read")' "$tmp/out" >/dev/null &&
	page && jq -e '.texts as $t | .columns.by | length > 0 and all($t[.] == "by the kernel in read")' "$tmp/data" >/dev/null
ok "the_kernels_writes_are_kept_in_a_recording" $?

unseen='^not seen: the value changed at least [1-9][0-9]* times? without a hit, by a system call \(--kernel reports those\), DMA, another process or another mapping$'
record -p "$kernel" kernel_word --for 1.5
[ $? = 0 ] && report_has_the_summary 2 && grep -Eq "$unseen" "$tmp/text" &&
	as json && summary '.delivered == 0 and .unseen_changes > 0' &&
	page && jq -e '.run.notes | test("at least [1-9][0-9]* times? without a hit")' "$tmp/data" >/dev/null
ok "unseen_changes_are_kept_in_a_recording" $?

watch -p "$kernel" kernel_word --for 1.5
[ $? = 0 ] && grep -q '^0 hits in' "$tmp/out" && grep -Eq "$unseen" "$tmp/out"
ok "without_kernel_no_hit_but_the_change_is_told" $?

watch -p "$kernel" first_count --for 0.5 --json
[ $? = 0 ] && summary '.delivered == 0 and .unseen_changes == 0'
ok "a_value_that_stays_has_no_unseen_changes" $?

exactly kernel_without_bpf_is_refused "--kernel cannot be combined with --no-bpf: it needs BPF to merge the stores of one copy" -p "$kernel" kernel_word --kernel --no-bpf
kill "$kernel"

# Objects.
start objects 20000
objects=$pid
watch -p "$objects" --from object_create:ret 'ret->refcount' --until object_free -n 60 --json
[ $? = 0 ] && summary "$balances and .objects.seen > 2 and .objects.watched > 1 and
	.objects.watched + .objects.too_late <= .objects.seen and
	.objects.ended >= .objects.seen - 1 and .objects.share > 0 and .objects.share <= 1 and
	.objects.armed_after_median_ns > 0 and .objects.armed_after_max_ns >= .objects.armed_after_median_ns" &&
	hits 'length > 4 and all(.function == "take_reference" or .function == "drop_reference") and
		all(.object | test("^0x")) and any(.thread == "other") and any(.old) and
		all(.old == null or .new == .old + 1 or .new == .old - 1)'
ok "objects_of_a_constructor_are_watched_in_all_threads_until_their_end" $?

# What the allocator and others write there afterwards is not the object's.
hits 'all(.new > 0 and .new < 10)' && summary '.rejected_by.after_end > 0'
ok "writes_after_the_end_of_an_object_are_dropped_and_counted" $?

watch -p "$objects" --from object_begin 'o->payload->weight' --until object_free --limit 6 --json
[ $? = 0 ] && summary ".delivered == 6 and $balances" &&
	hits 'all(.function == "main" or .function == "live_on" or .function == "live") and
		all(.old == null or .new == .old + 1) and any(.old == 0)'
ok "a_parameter_by_name_leads_on_through_pointers" $?

watch -p "$objects" --from object_begin 'o->refcount' --until object_free --stack -n 4 -o "$tmp/file"
[ $? = 0 ] && grep -Eq '    #[12] .*live' "$tmp/out" && [ "$(grep -c '"object":"0x' "$tmp/file")" = 4 ]
ok "stacks_and_a_file_of_json_lines_are_as_for_other_hits" $?

watch -p "$objects" --from object_begin '*(uint32_t *)(arg1+20)' --until object_free:arg0 -n 4 --json
[ $? = 0 ] && summary '.delivered == 4 and .what == "*(uint32_t *)(arg1+20)"' &&
	hits 'all(.len == 4 and .new < 10)'
ok "an_argument_and_an_offset_need_no_types" $?

watch -p "$objects" --from object_begin 'arg1->refcount' --until object_free --if 'new < old' -n 4 --json
[ $? = 0 ] && summary '.delivered == 4 and .rejected_by.condition > 0' && hits 'any(.old) and all(.old == null or .new < .old)'
ok "conditions_and_limits_are_of_all_objects" $?

watch -p "$objects" --from object_begin 'arg1->refcount' --until object_free -n 30
[ $? = 0 ] && grep -Eq '^objects: [1-9][0-9]* seen at object_begin, [1-9][0-9]* watched, [0-9]* not watched \([1-4] debug registers?\); [0-9]+ ended, [0-9]+ of them still exist; objects that began earlier are not seen$' "$tmp/out" &&
	grep -Eq '^they were watched for [0-9.]+% of their lifetimes$' "$tmp/out" &&
	grep -Eq '^armed [0-9]+ us after object_begin was entered \(median; longest [0-9]+ us\); earlier accesses to (an object|those whose thread was not stalled) were not seen$' "$tmp/out" &&
	grep -Eq '  0x[0-9a-f]+: [0-9]+ -> [0-9]+ ' "$tmp/out"
ok "the_summary_says_how_many_and_for_how_long" $?

watch -p "$objects" --from object_begin 'arg1->refcount' --until object_free -n 5 --json
members >"$tmp/live"
record -p "$objects" --from object_begin 'arg1->refcount' --until object_free -n 30
[ $? = 0 ] && grep -Eq '^objects: [1-9][0-9]* seen at object_begin, [1-9][0-9]* watched' "$tmp/out" &&
	report_has_the_summary && [ "$(grep -Ec '  0x[0-9a-f]+: ([0-9]+|\?) -> [0-9]+ ' "$tmp/text")" = 30 ] &&
	as json && hits 'length == 30 and all(.object | test("^0x"))' &&
	summary "$balances and .delivered == 30 and .address == null and .objects.seen > 2 and
		.objects.at == \"object_begin\" and .objects.until == \"object_free\"" &&
	members >"$tmp/recorded" && cmp -s "$tmp/live" "$tmp/recorded" &&
	as trace && jq -e '[.traceEvents[] | select(.ph == "i")] | length == 30 and
		all(.args.object | test("^0x"))' "$tmp/out" >/dev/null &&
	as folded && awk '{ n += $NF } END { exit n != 30 }' "$tmp/out" && ! grep -Eq '(^|;)0x' "$tmp/out" &&
	page && jq -e '(.run.notes | test("objects: [0-9]+ seen at object_begin")) and
		(.places | length > 0 and all(test("^0x")))' "$tmp/data" >/dev/null
ok "objects_and_their_summary_are_kept_in_a_recording" $?

# Cut anywhere in its last chunks: no line is invented, and what is told of objects is whole.
cp "$file" "$tmp/whole"
cut_well=0
for less in 1 100 400 600; do
	head -c $(($(wc -c <"$tmp/whole") - less)) "$tmp/whole" >"$file"
	as json && grep -q 'not complete\|no end' "$tmp/err" && hits 'length >= 28 and all(.object)' &&
		summary '.ended | test("no end")' || cut_well=1
done
ok "a_recording_of_objects_that_is_cut_gives_its_hits" $cut_well

record -p "$objects" first_count --for 0.3
[ $? = 0 ] && report_has_the_summary 1 && ! grep -Eq '^(objects:|multiplexed:|they were|armed)|by the kernel|the value changed' "$tmp/text" &&
	as json && summary '(has("objects") or has("places") or has("turns") | not) and .unseen_changes == 0' &&
	page && jq -e '.run.is_several == false' "$tmp/data" >/dev/null
ok "a_recording_without_them_has_no_such_lines" $?

watch -p "$objects" --from object_create:ret 'ret->refcount' --until reuse -n 30 --json
[ $? = 0 ] && summary '.objects.seen > 1 and .objects.ended > 0'
ok "an_object_that_is_made_anew_has_ended" $?

exactly an_unknown_function_is_refused "--from: no function is named 'object_destroy' in objects" -p "$objects" --from object_destroy 'arg0->id'
exactly an_unknown_argument_gets_the_names "'x' is not known when object_begin is entered: it has arg0 to arg5, kind, o" -p "$objects" --from object_begin 'x->id'
exactly ret_at_an_entry_is_refused \
	"'ret' is not known when object_begin is entered: it has arg0 to arg5, kind, o; --from FUNC:ret waits for the return" -p "$objects" --from object_begin 'ret->id'
exactly an_argument_at_a_return_is_refused "after object_create returned, only its result 'ret' is known" -p "$objects" --from object_create:ret 'arg0->id'
wrong "an_unknown_member_is_refused" "has no member" -p "$objects" --from object_begin 'o->refcuont'
exactly an_argument_that_is_no_pointer_is_refused "'kind->id', column 5: '->' needs a pointer before it, but this is int" -p "$objects" --from object_begin 'kind->id'
exactly until_without_from_is_refused "--until needs --from FUNC" -p "$objects" first_count --until object_free
wrong "a_variable_is_no_argument" "when object_begin is entered" -p "$objects" --from object_begin first_count
exactly a_bad_until_is_refused "invalid --until 'object_free:ret': expected FUNC or FUNC:argN (example: conn_close:arg0)" \
	-p "$objects" --from object_begin 'o->id' --until object_free:ret
exactly bytes_without_a_type_need_a_length \
	"the type of '*(arg1+20)' is not known: give a length or a type, as in *(arg0+16):4 or *(uint32_t *)(arg0+16)" -p "$objects" --from object_begin '*(arg1+20)'
kill "$objects"

watch --from object_begin 'o->refcount' -o "$tmp/json" -- "$victims/objects" 1000 1
[ $? = 0 ] && mv "$tmp/json" "$tmp/out" && summary '.objects.seen == 2 and .objects.unmapped == 1 and .objects.alive == 1' &&
	hits 'map(.object) | unique | length == 2'
ok "an_object_whose_memory_is_unmapped_has_ended" $?

# More objects than registers: twelve that live at once.
start objects --crowd
crowd=$pid
watch -p "$crowd" --from object_begin 'o->refcount' -n 200 --json
[ $? = 0 ] && summary '.objects.seen == 12 and .objects.watched > 0 and .objects.watched <= .objects.registers and
	.objects.alive == 12 and .objects.share < 0.5' &&
	hits 'map(.object) | unique | length <= 4'
ok "objects_beyond_the_registers_go_unwatched_and_are_counted" $?

watch -p "$crowd" --from object_begin 'o->refcount' --multiplex 20ms --for 4 --json
[ $? = 0 ] && summary '.objects.seen == 12 and .objects.watched > 4 and .objects.share < 0.5' &&
	hits 'map(.object) | unique | length > 4'
ok "multiplexed_they_have_time_slices" $?
kill "$crowd"

# Turns.
start objects --many
many=$pid
watch -p "$many" first_count third_count --limit 100 --max-rate 0 --json
[ $? = 0 ] && summary ".delivered == 100 and $balances and ([.places[].share] | all(. > 0.5)) and
	([.places[].hits] | add) == 100" &&
	hits 'all((.what == "first_count" and .function == "bump_first" and .len == 4) or
		(.what == "third_count" and .function == "bump_third" and .len == 1)) and
		(map(.what) | unique | length == 2)'
ok "several_places_that_fit_are_watched_at_once" $?

six="first_count second_count third_count fourth_count fifth_count sixth_count"
# shellcheck disable=SC2086 # words
wrong "more_than_fit_must_be_multiplexed" \
	"cannot watch 6 expressions at once: 6 debug registers are needed and [1-4] are free; --multiplex 10ms shares them in time slices$" -p "$many" $six
# shellcheck disable=SC2086
watch -p "$many" $six --multiplex 10ms --max-rate 0 --for 3 --json
[ $? = 0 ] && summary "$balances and (.places | length) == 6 and .turns.count > 2 and
	([.places[].share] | all(. > 0 and . <= 1)) and ([.places[].share] | add) < 4.01 and
	([.places[].hits] | all(. > 0)) and ([.places[].hits] | add) == .delivered" &&
	hits 'all(("bump_" + (.what | sub("_count"; ""))) == .function) and
		all(.len == {first_count: 4, second_count: 8, third_count: 1, fourth_count: 2,
			fifth_count: 8, sixth_count: 4}[.what])'
ok "six_places_are_multiplexed_and_each_hit_is_of_its_own" $?

# Values chain within a turn: one more at each write, whichever place had the register before.
hits 'group_by(.what) | all([.[] | select(.len > 1)] | all(.new == .old + 1 or .new > .old))'
ok "old_values_are_those_of_the_same_place" $?

# shellcheck disable=SC2086
watch -p "$many" $six --multiplex 10ms --for 1
[ $? = 0 ] && grep -Eq '^ +[0-9]+ +[0-9.]+%  third_count, 1 byte$' "$tmp/out" &&
	grep -q '^multiplexed: 6 chunks shared [1-4] debug registers*, [0-9]* time slices of 10 ms, .*; hits outside the slices of a chunk were missed$' "$tmp/out"
ok "the_summary_has_the_share_of_each_place" $?

watch -p "$many" big_counts --multiplex 10ms --max-rate 0 --for 2 --json
[ $? = 0 ] && summary '(.places | length) == 1 and .places[0].words == 8 and .places[0].len == 64 and
	.places[0].share > 0 and .places[0].share < 0.6' && hits 'map(.address) | unique | length == 8'
ok "a_structure_longer_than_the_registers_is_multiplexed" $?

watch -p "$many" big_counts:64 --multiplex 10ms --no-bpf --for 1 --json
[ $? = 0 ] && summary "$balances and .mechanism == \"ring\" and .places[0].hits > 0" &&
	hits 'all(.len == 8)'
ok "turns_need_no_bpf" $?

watch -p "$many" first_count third_count --limit 5 --json
members >"$tmp/live"
record -p "$many" first_count third_count --limit 40 --no-stack
[ $? = 0 ] && report_has_the_summary && ! grep -q '^multiplexed' "$tmp/text" && as json &&
	members >"$tmp/recorded" && cmp -s "$tmp/live" "$tmp/recorded" &&
	as folded && awk '{ n += $NF } END { exit n != 40 }' "$tmp/out" &&
	grep -q ';first_count;bump_first ' "$tmp/out" && grep -q ';third_count;bump_third ' "$tmp/out" &&
	as trace && jq -e '[.traceEvents[] | select(.ph == "C") | .name] | unique ==
		["first_count", "third_count"]' "$tmp/out" >/dev/null
ok "several_places_are_kept_in_a_recording_each_hit_with_its_own" $?

# shellcheck disable=SC2086
record -p "$many" $six --multiplex 10ms --max-rate 0 --for 1
[ $? = 0 ] && grep -Eq '^ +[0-9]+ +[0-9.]+%  third_count, 1 byte$' "$tmp/out" &&
	grep -q '^multiplexed: 6 chunks shared 4 debug registers' "$tmp/out" && report_has_the_summary &&
	as json && summary "$balances and .value_type == null and (.places | length) == 6 and .turns.count > 2 and
		.address == null and ([.places[].hits] | add) == .delivered and
		([.places[].share] | add) < 4.01" &&
	page && jq -e '.run.is_several and (.run.notes | test("multiplexed: 6 chunks shared 4 debug registers"))' \
		"$tmp/data" >/dev/null
ok "turns_and_shares_are_kept_in_a_recording" $?

browser=$(command -v chromium || command -v google-chrome)
if [ -n "$browser" ]; then
	as html && cp "$tmp/out" "$tmp/page.html"
	timeout 60 "$browser" --headless=new --no-sandbox --disable-gpu --user-data-dir="$tmp/browser" \
		--dump-dom "file://$tmp/page.html#hit=2" >"$tmp/dom" 2>"$tmp/err"
	grep -q 'multiplexed: 6 chunks shared 4 debug registers.* were missed$' "$tmp/dom" &&
		grep -q '<span class="value mono">first_count: [0-9]* -&gt; [0-9]*</span>' "$tmp/dom" &&
		[ "$(grep -o '<div class="row on"' "$tmp/dom" | wc -l)" = 1 ]
	ok "a_browser_shows_places_and_turns" $?
else
	skip "a_browser_shows_places_and_turns" "chromium is not installed"
fi

# shellcheck disable=SC2086
watch -p "$many" $six --multiplex 10ms --limit 50 --json
[ $? = 0 ] && summary ".delivered == 50 and $balances" && [ "$(grep -c '"hit"' "$tmp/out")" = 50 ]
ok "a_limit_is_of_all_places_together" $?

exactly places_with_common_bytes_are_refused "first_count and first_count have bytes in common: give one of them" -p "$many" first_count first_count
exactly longer_than_the_registers_must_be_multiplexed \
	"invalid EXPR 'big_counts:64': expected a length of 1 to 32, or up to 4096 with --multiplex 10ms" -p "$many" big_counts:64
kill -0 "$many"
ok "the_process_goes_on" $?

finished
