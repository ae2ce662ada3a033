#!/bin/sh
# SPDX-License-Identifier: MIT
# test_break.sh TRAPLINE VICTIMS - what `trapline break` promises, on small programs and on Redis.
# TAP. Needs root: uprobes are for it alone.

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/tap.sh"
need_uprobes
# shellcheck source=tests/other_user.sh
. "$(dirname "$0")/../other_user.sh"
command='break'

# look ARG...: `trapline break` with its output in $tmp/out and $tmp/err.
look()
{
	watch "$@"
}

# The code of the victim as it is in its memory.
text_of()
{
	range=$(awk '$2 ~ /x/ && $6 ~ /calls/ { print $1; exit }' "/proc/$1/maps")
	start=$((0x${range%-*}))
	dd if="/proc/$1/mem" bs=4096 skip=$((start / 4096)) \
		count=$(((0x${range#*-} - start) / 4096)) iflag=fullblock 2>/dev/null | sha256sum
}

start calls
calls=$pid
before=$(text_of "$calls")

look -p "$calls" lookup --limit 9
[ $? = 0 ] && [ "$(grep -c '  lookup  *from ' "$tmp/out")" = 9 ] && grep -q 'from worker+0x' "$tmp/out" &&
	grep -q 'from round_of_calls+0x.*calls\.c:' "$tmp/out" && grep -q '^9 hits in [0-9.]* s, none lost$' "$tmp/out" &&
	! grep -q '^taken\|^mechanism\|^not seen' "$tmp/out"
ok "each_call_is_a_line_with_its_caller" $?

look -p "$calls" lookup --args --limit 9 --json
[ $? = 0 ] && hits 'length == 9 and all(.function == "lookup" and .args.t.symbol == "things" and
	(.args.n | . == 1 or . == 2 or . == 5) and
	(.args.key.string | test("^(key[0-9]|worker|zebra)$")) and .ret == null and .args_when == null)' &&
	hits 'all((.args.n == 2) == (.thread == "worker") and (.args.n == 5) == (.args.key.string == "zebra"))'
ok "arguments_have_their_types_and_text_is_read_at_the_hit" $?

look -p "$calls" lookup next_color greeting turn eight scale nap --ret --args --limit 60 --json
[ $? = 0 ] && hits 'map(select(.function == "lookup")) | length > 0 and all(.ret == .args.n + 10 +
		(if .args.key.string == "zebra" then 1 else 0 end))' &&
	hits 'map(select(.function == "next_color")) | length > 0 and all(.args.c == "RED" and .ret == "GREEN")' &&
	hits 'map(select(.function == "greeting")) | length > 0 and all(.ret.string == "hello")' &&
	hits 'map(select(.function == "turn")) | length > 0 and all(.args.p == "{.x 1, .y -2}" and
		.args.r == "{.first 10, .last 20}" and .ret == "{.x 8, .y 1}")' &&
	hits 'map(select(.function == "eight")) | length > 0 and all(.args.f == 6 and .args_when == null and .ret == 20)' &&
	hits 'map(select(.function == "scale")) | length > 0 and all(.args.by == 3 and .args.flag == 9 and
		.args.x == null and .ret == null)'
ok "results_have_their_types" $?

hits 'map(select(.function == "nap")) | length > 0 and all(.duration_ns >= 1000000)'
ok "a_duration_is_not_shorter_than_what_the_function_slept" $?

summary '.hits == 60 and (.functions | map(.returns) | add) >= 60 and
	(.functions | all(.hits >= .returns and (.durations | map(.calls) | add) == .returns))' &&
	summary '.taken == .rejected + .delivered + ([.lost[]] | add)'
ok "the_histogram_counts_every_return" $?

look -p "$calls" eight --args --stack --limit 2 --json
[ $? = 0 ] && hits 'all(.args.g == 7 and .args.h == -8 and .args_when == null and
	([.stack[].function] | index("round_of_calls") and index("main")))'
ok "arguments_on_the_stack_come_with_the_stack" $?

look -p "$calls" depth --ret --args --limit 10 --json
[ $? = 0 ] && hits 'length == 10 and all(.ret == .args.n + 1)'
ok "each_call_of_a_recursion_has_its_own_return" $?

look -p "$calls" last_act lookup --ret --stack --limit 20 --json
[ $? = 0 ] && hits 'all(.caller.function == "round_of_calls" or .caller.function == "worker") and
	all(.stack | all(.module != "[uprobes]")) and
	any(.function == "last_act" and .ret == 16) and
	all([.stack[].function] | index("main") or index("worker"))'
ok "callers_and_stacks_are_real_while_returns_are_observed" $?

look -p "$calls" leap nap --ret --limit 6
[ $? = 0 ] && [ "$(grep -c 'leap  has not returned' "$tmp/out")" = 3 ] &&
	grep -q '^3 calls had not returned' "$tmp/out"
ok "a_call_that_never_returns_is_told_and_does_not_hold_up_the_limit" $?

look -p "$calls" add_inlined --limit 4 --json
[ $? = 0 ] && hits 'length == 4 and all(.function == "add_inlined" and .inlined)' && summary '.sites == 2'
ok "copies_of_an_inlined_function_are_hit" $?

line=$(grep -n 'a line to break on' "$(dirname "$0")/../victims/calls.c" | cut -d: -f1)
look -p "$calls" "calls.c:$line" --limit 2 --json
[ $? = 0 ] && hits "all(.site == \"calls.c:$line\" and .function == \"round_of_calls\" and .line == $line)"
ok "a_line_can_be_broken_on" $?

look -p "$calls" 'n*' --list --json
[ $? = 0 ] && [ "$(jq -r .name "$tmp/out" | sort | tr '\n' ' ')" = "nap next_color " ]
ok "a_pattern_means_the_functions_that_fit" $?

address=$(jq -r 'select(.name == "nap") | .ip' "$tmp/out")
look -p "$calls" "$address" --limit 2 --json
[ $? = 0 ] && hits "all(.address == \"$address\" and .caller.function == \"round_of_calls\")"
ok "an_address_can_be_broken_on" $?

# The second instruction of a function that begins with a push or sub: somewhere in 1 to 7.
found=
for offset in 1 2 3 4 5 6 7; do
	look -p "$calls" "round_of_calls+$offset" --limit 2 --json && hits 'length == 2' &&
		found=$found$offset
done
[ -n "$found" ] && [ ${#found} -lt 6 ] &&
	look -p "$calls" round_of_calls --limit 2 && kill -0 "$calls"
ok "an_offset_must_be_that_of_an_instruction" $?

look -p "$calls" libc.so.6:usleep --args --limit 3 --json
[ $? = 0 ] && hits 'length == 3 and all(.module == "libc.so.6" and (.args | length) >= 1)'
ok "a_function_of_a_library_can_be_broken_on" $?

look -p "$calls" 'libc*.6:usleep' --limit 1 --json
[ $? = 0 ] && hits 'length == 1 and all(.module == "libc.so.6")'
ok "an_object_may_be_a_pattern" $?

look -p "$calls" strlen --limit 2 --json
[ $? = 0 ] && hits 'all(.module == "libc.so.6")'
ok "of_several_implementations_the_one_in_use_is_broken_on" $?

look -p "$calls" 'libc.so.6:*' --for 0.5 --max-rate 0 --json
[ $? = 0 ] && summary '.sites > 1000 and .sites_emulated > 0 and .hits > 0 and
	.taken == .rejected + .delivered + .unread + ([.lost[]] | add)' && kill -0 "$calls"
ok "a_thousand_breakpoints_stand_at_once" $?

look -p "$calls" lookup --if 'arg2 == 5' --args --limit 4 --json
[ $? = 0 ] && hits 'length == 4 and all(.args.n == 5)' && summary '.rejected_by.condition >= 4 and
	.evaluated_in == "kernel"'
ok "a_condition_on_an_argument_lets_only_its_calls_pass" $?

look -p "$calls" lookup --if 'str(arg1) == "zebra"' --ret --args --limit 4 --json
[ $? = 0 ] && hits 'length == 4 and all(.args.key.string == "zebra" and .ret == 16)' &&
	summary '.unpaired_returns == 0'
ok "a_condition_on_text_and_the_returns_of_its_calls" $?

look -p "$calls" lookup --if 'n == 5 && t->size == 3 && str(key) == "zebra" && rounds_done >= 0' --args --limit 4 --json
[ $? = 0 ] && hits 'length == 4 and all(.args.n == 5)' && summary '.rejected_by.condition >= 4 and
	.condition_faults == 0'
ok "a_condition_names_parameters_and_follows_them" $?

look -p "$calls" turn --if 'p.x == 1 && p.y < 0 && r.last == 20' --args --limit 2 --json
[ $? = 0 ] && hits 'length == 2 and all(.args.p == "{.x 1, .y -2}")'
ok "parameters_that_are_structures_have_members" $?

look -p "$calls" eight --if 'g == 7 && h == -8 && a + b == 3' --limit 2 --json
[ $? = 0 ] && hits 'length == 2'
ok "parameters_on_the_stack_are_found" $?

look -p "$calls" next_color --if 'c == RED' --limit 2 --json && hits 'length == 2' &&
	look -p "$calls" next_color --if 'c == BLUE' --for 0.3 --json && hits 'length == 0'
ok "parameters_are_compared_with_constants_of_their_enum" $?

look -p "$calls" lookup --if 'ret > 11 && ret <= 15 && t->size == 3' --ret --args --limit 40 --json
[ $? = 0 ] && hits 'length == 40 and all(.ret == 12 and .thread == "worker")' && summary '.other_results > 0'
ok "a_condition_on_the_result_is_evaluated_when_there_is_one" $?

look -p "$calls" next_color --if 'ret == GREEN' --ret --limit 2 --json && hits 'length == 2' &&
	look -p "$calls" next_color --if 'c == RED && ret != GREEN' --ret --for 0.4 --json && hits 'length == 0' &&
	summary '.other_results > 0 and .not_returned <= 1'
ok "a_result_is_compared_with_constants_of_its_enum" $?

look -p "$calls" lookup --if 'arg2 == 77' --for 0.3 -v
[ $? = 0 ] && grep -q '^0 hits in' "$tmp/out" && grep -q '^the condition was evaluated in the kernel: ' "$tmp/out" &&
	grep -Eq '^--if rejected ([1-9][0-9]*) of \1 hits' "$tmp/out"
ok "a_false_condition_prints_nothing" $?

look -p "$calls" lookup nap -o "$tmp/file" --limit 3
[ $? = 0 ] && [ "$(grep -c ' from ' "$tmp/out")" -ge 3 ] && [ "$(grep -c '"hit"' "$tmp/file")" = 3 ]
ok "output_file_gets_json_while_text_is_printed" $?

look -p "$calls" lookup --no-bpf --limit 3 --stack --json
[ $? = 0 ] && hits 'length == 3 and all(.caller.function | . == "round_of_calls" or . == "worker")' &&
	summary '.sites_hardware == 1 and .sites_emulated + .sites_stepped == 0'
ok "without_bpf_a_hardware_breakpoint_does_it" $?

[ "$(text_of "$calls")" = "$before" ]
ok "the_code_is_byte_for_byte_what_it_was" $?

"$trapline" break -p "$calls" lookup --ret >"$tmp/out" 2>"$tmp/err" &
looker=$!
is_changed()
{
	[ "$(text_of "$calls")" != "$before" ]
}
is_as_before()
{
	[ "$(text_of "$calls")" = "$before" ]
}
eventually is_changed
changed=$?
kill -KILL $looker
wait $looker 2>/dev/null
[ $changed = 0 ] && eventually is_as_before && kill -0 "$calls"
ok "a_killed_break_leaves_nothing_in_the_code" $?

start calls 0 0
look -p "$pid" lookup depth --for 1 --max-rate 100 --ret --json
[ $? = 0 ] && summary '.pauses > 0 and .paused_ns > 0 and .hits < 1000 and .unpaired_returns == 0'
ok "a_storm_is_paused_and_the_pause_is_told" $?
kill "$pid" 2>/dev/null

look lookup --max-rate 0 --json -- "$victims/calls" 4 1000
[ $? = 0 ] && summary '.ended == "the process ended" and .command == null' &&
	hits 'map(select(.thread != "worker")) | length == 8'
ok "a_started_command_is_seen_from_its_first_call" $?

# What is above may be memory that was never used: the copy of the stack must not fail as a whole.
start hollow
look -p "$pid" leaf --stack --limit 64 --json
[ $? = 0 ] && hits 'length == 64 and all(.stack[0].function == "leaf" and .stack[1].function == "hollow")'
ok "the_caller_is_in_the_stack_wherever_in_a_page_it_ends" $?
kill "$pid" 2>/dev/null

start calls_cpp
look -p "$pid" 'shop::*' overloaded --args --ret --limit 24 --json
[ $? = 0 ] && hits 'map(.function) | unique == ["overloaded", "shop::Basket::add",
		"shop::Basket::has", "shop::Basket::operator()", "shop::most<long>"]' &&
	hits 'map(select(.function == "shop::Basket::add")) | all(.args.count == 2 and .ret % 6 == 0)'
ok "names_of_cpp_are_found_in_their_scopes" $?

look -p "$pid" 'overloaded(char const*)' --args --ret --limit 2 --json
[ $? = 0 ] && hits 'all(.args.a.string == "apple" and .ret == 97)' && look -p "$pid" Basket::has --limit 1
ok "one_of_several_of_the_same_name_can_be_chosen" $?
look -p "$pid" _ZL10overloadedi --list
[ $? = 0 ] && grep -c overloaded "$tmp/out" | grep -q "^1$"
ok "a_symbol_is_a_name_too" $?
wrong "a_symbol_that_is_not_there_is_not_found" "no function is named '_ZL10overloadedl' in calls_cpp" -p "$pid" _ZL10overloadedl
wrong "a_method_gets_near_names" "no function is named 'Basket::hsa' in calls_cpp; did you mean has" -p "$pid" Basket::hsa
kill "$pid" 2>/dev/null

for shape in fixed static; do
	start calls_$shape
	before=$(text_of "$pid")
	look -p "$pid" lookup usleep --args --limit 6 --json
	[ $? = 0 ] && hits 'any(.function == "lookup" and .args.t.symbol == "things") and
		any(.function == "usleep")' && [ "$(text_of "$pid")" = "$before" ]
	ok "a_${shape}_program_is_no_difference" $?
	kill "$pid" 2>/dev/null
done

if [ -x "$victims/calls_stripped" ]; then
	start calls_stripped
	look -p "$pid" usleep --ret --limit 4 --json
	[ $? = 0 ] && hits 'all((.ret == 0 or .ret == "0x0") and .caller.module == "calls_stripped")'
	ok "a_stripped_program_calls_its_libraries" $?
	look -p "$pid" round_of_calls
	[ $? = 2 ] && grep -Eq "^trapline break: calls_stripped is stripped: it names no function 'round_of_calls'; install its debug symbols" "$tmp/err"
	ok a_stripped_program_has_no_names $?
	kill "$pid" 2>/dev/null
fi

"$victims/leaderless" >/dev/null 2>&1 &
pid=$!
started="$started $pid"
eventually grep -q '^State:.*Z' "/proc/$pid/status"
look -p "$pid" tick --args --ret --stack --limit 5 --json
[ $? = 0 ] && hits 'length == 5 and all(.ret == 2 * .args.number and .caller.function == "count")' &&
	look -p "$pid" tick --no-bpf --limit 5 --json && hits 'length == 5 and all(.function == "tick")'
ok "a_process_whose_first_thread_has_ended_is_broken_on" $?
command=watch
watch -p "$pid" counted --limit 20 --json
[ $? = 0 ] && hits 'length == 20 and all(.function == "count")' &&
	hits 'map(select(.old)) | length > 0 and all(.new == .old + 1)'
ok "a_process_whose_first_thread_has_ended_is_watched" $?
kill "$pid" 2>/dev/null

# Where the debug registers do not fire, no hit would come: that is no silence.
start counter
watch -p "$pid" shared_counter --limit 2 --for 20 --json
status=$?
if "$trapline" check --json | jq -e '.features[] | select(.name == "watch_write") | .ok' >/dev/null; then
	[ $status = 0 ] && hits 'length == 2'
else
	[ $status = 2 ] && grep -q ': the debug registers of this machine do not work: a watchpoint missed a write' "$tmp/err"
fi
ok "watch_has_hits_or_says_that_none_can_come" $?
command='break'
kill "$pid" 2>/dev/null

start foreign
look -p "$pid" r::Acc::pay --limit 2 --json && hits 'length == 2 and all(.function == "r::Acc::pay")' &&
	look -p "$pid" pay --limit 2 --json && hits 'length == 2 and all(.function == "r::Acc::pay")'
ok "a_method_of_rust_is_found_without_its_hash" $?
exactly a_method_of_rust_is_a_near_name "no function is named 'r::Acc::payy' in foreign; did you mean pay?" -p "$pid" r::Acc::payy
kill "$pid" 2>/dev/null

if has_32_bit; then
	"$victims/narrow" &
	pid=$!
	started="$started $pid"
	eventually runs "$pid" narrow
	look -p "$pid" add_item --limit 2 --json
	[ $? = 0 ] && hits 'length == 2 and all(.function == "add_item" and .caller == null)'
	ok "a_function_of_a_32_bit_program_has_no_false_caller" $?
	for option in --args --ret --stack; do
		exactly "${option#--}_of_a_32_bit_program_is_refused" \
			"cannot use $option: narrow is a 32-bit program, whose registers and stack would be read wrong" \
			-p "$pid" add_item $option
	done
	exactly arguments_in_a_condition_on_a_32_bit_program_are_refused \
		"cannot use arguments in --if: narrow is a 32-bit program, whose registers and stack would be read wrong" \
		-p "$pid" add_item --if 'arg1 == 2'
	kill "$pid" 2>/dev/null
else
	skip "32_bit_programs" "a compiler and a kernel for 32-bit programs"
fi

mkdir -p "$tmp/mnt"
if unshare -m true 2>/dev/null; then
	unshare -m sh -c 'mount -t tmpfs none "$0" && cp "$1" "$0/hidden" && exec "$0/hidden"' \
		"$tmp/mnt" "$victims/calls" >/dev/null 2>&1 &
	pid=$!
	started="$started $pid"
	eventually runs "$pid" hidden
	look -p "$pid" lookup --args --ret --limit 3 --json
	[ $? = 0 ] && [ ! -e "$tmp/mnt/hidden" ] && hits 'all(.module == "hidden" and .ret == .args.n + 10 +
		(if .args.n == 5 then 1 else 0 end))'
	ok "a_program_in_another_mount_namespace_is_no_difference" $?
	kill "$pid" 2>/dev/null
else
	skip "a_program_in_another_mount_namespace_is_no_difference" "the right to unshare -m"
fi

# Without privilege: what the kernel lets users have.
paranoid=$(cat /proc/sys/kernel/perf_event_paranoid)
if [ "$paranoid" -le 2 ] && lend "$victims/calls"; then
	$as_user "$lent/calls" >/dev/null 2>&1 &
	pid=$!
	started="$started $pid"
	eventually runs "$pid" calls
	$as_user timeout 60 "$lent/trapline" break -p "$pid" lookup --args --limit 3 --json \
		>"$tmp/out" 2>"$tmp/err"
	[ $? = 0 ] && hits 'length == 3 and all(.caller.function | . == "round_of_calls" or . == "worker")' &&
		summary '.sites_hardware == 1 and .mechanism == "ring"'
	ok "without_privilege_four_hardware_breakpoints_do_it" $?
	$as_user timeout 20 "$lent/trapline" break -p "$pid" lookup --ret >"$tmp/out" 2>"$tmp/err"
	[ $? = 2 ] && grep -q 'needs uprobes: they are for root' "$tmp/err"
	ok "without_privilege_returns_are_refused_with_the_reason" $?
	kill "$pid" 2>/dev/null
else
	skip "without_privilege" "${not_lent:-perf_event_paranoid of 2 at most}"
fi

exactly an_unknown_function_gets_near_names "no function is named 'lokup' in calls; did you mean lookup?" -p "$calls" lokup
exactly a_missing_location_is_said \
	"LOCATION is missing: give a function, file:line or an address, such as main or server.c:120; see trapline break --help" -p "$calls"
exactly a_pattern_without_functions_is_said "no function matches 'zz_*' in calls" -p "$calls" 'zz_*'
exactly a_file_without_debug_information_is_said \
	"no source file is named 'nothing.c' in the debug information (DWARF) of the program and its libraries" -p "$calls" nothing.c:1
exactly an_address_that_is_not_mapped_is_said "no memory is mapped at 0x10" -p "$calls" 0x10
exactly a_bad_address_is_refused "invalid address '0x12zz': expected 0x and hexadecimal digits, or decimal digits" -p "$calls" 0x12zz
exactly returns_need_uprobes "--ret cannot be combined with --no-bpf: it needs uprobes and BPF" -p "$calls" lookup --ret --no-bpf
exactly more_than_four_need_uprobes \
	"cannot break on 5 sites: without uprobes there are 4 hardware breakpoints; uprobes are not possible: --no-bpf" -p "$calls" lookup nap leap depth eight --no-bpf
wrong "a_condition_on_values_is_refused" "event that watches data" -p "$calls" lookup --if 'new == 1'
wrong "a_parameter_of_one_function_is_none_of_another" \
	"--if means different things in [a-z]* and in [a-z]*, because their parameters differ; break on one at a time$" \
	-p "$calls" depth lookup --if 'n == 5'
look -p "$calls" scale --if 'x == 1'
[ $? = 2 ] && grep -q 'column 1: that parameter is in a floating-point register, which only a probe reads: use --mechanism probe$' "$tmp/err"
ok "a_floating_point_parameter_is_refused" $?
look -p "$calls" lookup --if 't->siz == 1'
[ $? = 2 ] && grep -q 'did you mean size' "$tmp/err"
ok "an_unknown_member_of_a_parameter_gets_near_ones" $?
exactly a_result_in_a_larger_expression_is_refused \
	"--if: cannot evaluate 'ret + 1 == 5': compare ret with a number or a constant, as in 'ret < 0 && ...'" -p "$calls" lookup --ret \
	--if 'ret + 1 == 5'
exactly a_function_without_a_result_has_none_to_compare "--if: cannot compare the result of nap: its type is void" -p "$calls" nap --ret --if 'ret < 0'
exactly a_constant_that_is_unknown_is_said "--if: unknown constant 'PURPLE'" -p "$calls" lookup --ret --if 'ret == PURPLE'
exactly no_such_process_is_said "there is no process 99999999" -p 99999999 x

# helper() is in two files. The stripped program has none of them.
start patched
watch -p "$pid" patched_more.c:helper --list
[ $? = 0 ] && [ "$(grep -c ' helper' "$tmp/out")" = 1 ]
ok a_function_of_one_source_file_is_found $?
more=$(sed -n 's/^\(0x[0-9a-f]*\) .* helper .*$/\1/p' "$tmp/out")
watch -p "$pid" patched.c:helper --list
[ $? = 0 ] && [ "$(grep -c ' helper' "$tmp/out")" = 1 ] && [ -n "$more" ] && ! grep -q "$more" "$tmp/out"
ok and_the_one_of_the_other_file_is_another $?
watch -p "$pid" helper --list
[ $? = 0 ] && [ "$(grep -c ' helper' "$tmp/out")" = 2 ]
ok without_a_file_both_are_found $?
wrong a_file_that_has_no_such_function_is_said "no function is named 'helping' in patched.c" -p "$pid" patched.c:helping
wrong a_file_that_is_not_there_is_said "no loaded object of .*, and no source file .*, is named 'other.c'" -p "$pid" other.c:helper
kill "$pid"

# The kernel's signal for a file that is too large ends no command without a word.
(
	ulimit -f 0
	exec timeout -k 2 60 "$trapline" heap -- true
) 2>&1 | cat >"$tmp/out"
[ "$(cat "$tmp/out")" = 'trapline heap: cannot share memory with the program: File too large; raise the limit of file sizes (ulimit -f)' ]
ok "a_limit_of_file_sizes_is_told" $?
(
	ulimit -f 1 # KiB in bash, 512 bytes in others
	exec timeout -k 2 60 "$trapline" break --mechanism uprobe -p "$calls" lookup --limit 200 >"$tmp/out" 2>"$tmp/err"
)
[ $? = 1 ] && grep -q 'cannot write standard output: File too large; [0-9]* hits were kept' "$tmp/err"
ok "an_output_that_reaches_it_is_an_error" $?

# Instructions that the kernel refuses are told by their bytes: the others are hit.
if [ -x "$victims/unprobed" ]; then
	start unprobed
	watch -p "$pid" 'refused_*' 'probed_*' --budget none --for 0.5 --json
	[ $? = 0 ] && hits 'map(.function) | unique == ["probed_plain"]' &&
		grep -q 'left out 6 sites where the kernel refuses ' "$tmp/err" && kill -0 "$pid"
	ok "functions_that_the_kernel_refuses_are_left_out_and_named" $?
	grep -q '^breaking on 1 function in' "$tmp/err"
	ok "functions_that_are_left_out_do_not_count" $?
	watch -p "$pid" refused_lock probed_plain --for 0.5 --json
	result=$?
	if grep -q 'hardware' "$tmp/err"; then
		[ $result = 0 ] && grep -q '^breaking on 2 functions in' "$tmp/err" &&
			hits 'map(.function) | unique == ["probed_plain", "refused_lock"]'
	else
		grep -q 'left out 1 site where the kernel refuses ' "$tmp/err"
	fi
	ok "a_refused_one_of_few_has_a_register_or_is_named" $?
	watch -p "$pid" refused_lock --for 0.2
	[ $? != 0 ] || grep -q 'hardware' "$tmp/err"
	ok "a_single_one_is_refused_or_has_a_register" $?
	kill "$pid"
fi

if command -v redis-server >/dev/null && command -v redis-benchmark >/dev/null; then
	port=$((10000 + $$ % 20000)) # none that connections are given
	redis-server --save '' --bind 127.0.0.1 --port $port --dir "$tmp" --logfile "$tmp/log" >/dev/null 2>&1 &
	pid=$!
	started="$started $pid"
	eventually redis-cli -p $port ping
	: >"$tmp/err"
	timeout -k 2 60 "$trapline" break -p "$pid" call libc.so.6:write '*Command' --args --ret --budget none --json \
		>"$tmp/out" 2>"$tmp/err" &
	looker=$!
	eventually grep -q '^breaking on' "$tmp/err"
	redis-benchmark -p $port -q -n 20000 -t incr --csv >"$tmp/load" 2>&1
	load=$?
	kill -TERM $looker
	wait $looker
	[ $? = 0 ] && [ $load = 0 ] && [ "$(redis-cli -p $port get counter:__rand_int__)" = 20000 ] &&
		summary '.hits > 100 and .sites > 50 and .taken == .rejected + .delivered + .unread + ([.lost[]] | add)' &&
		hits 'map(.function) | index("call") and index("incrCommand")' &&
		! grep -qi 'crash\|bug\|signal' "$tmp/log"
	ok "redis_under_load_loses_no_request" $?
	kill "$pid" 2>/dev/null
fi

finished
