#!/bin/sh
# SPDX-License-Identifier: MIT
# test_unwinding.sh TRAPLINE VICTIMS - returns are observed in a program whose functions are left by
# exceptions, pthread_exit(), cancellation and longjmp() too, and it comes to no harm. TAP. Needs root.

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/tap.sh"
need_uprobes
command='break'
enough=$(share 6000)

# ended: the victim is told to end, and says that all was right.
ended()
{
	kill -TERM "$pid" 2>/dev/null
	wait "$pid"
	[ $? = 0 ] && grep -q ' rounds, none wrong$' "$tmp/victim"
}

# The results of a function, each once: numbers and hexadecimal texts as they are.
results()
{
	jq -r "select(.type == \"hit\" and .function == \"$1\") | .ret | tostring" "$tmp/out" | LC_ALL=C sort -u |
		tr '\n' ' '
}

functions='throws is_passed throws_again catches descends never_returns ends_thread outside_of_thread
	jumps_out passes_jump ends_with_call ends_with_pointer chooses has_data'
start unwinding
# shellcheck disable=SC2086 # several functions
watch -p "$pid" $functions --ret --budget none --max-rate 1000000 --limit "$enough" --json
[ $? = 0 ] && summary ".hits == $enough and .unpaired_returns == 0"
seen=$?
# Once more for what one run leaves behind.
watch -p "$pid" catches outside_of_thread --ret --limit 100 --json
[ $? = 0 ] && [ $seen = 0 ] && ended
ok "exceptions_exits_of_threads_and_longjmp_pass_functions_whose_returns_are_seen" $?

start unwinding
# shellcheck disable=SC2086
watch -p "$pid" $functions --ret --budget none --max-rate 1000000 --limit "$enough" --json
[ "$(results throws)" = "7 null " ] && [ "$(results is_passed)" = "8 null " ] &&
	[ "$(results throws_again)" = "9 null " ] && [ "$(results passes_jump)" = "2 null " ] &&
	[ "$(results never_returns)$(results outside_of_thread)$(results ends_thread)" = "null null null " ]
ok "a_call_that_an_exception_or_a_jump_ends_has_no_result" $?
[ "$(results catches)" = "-4 -6 -8 9 " ] &&
	[ "$(results descends)" = "10 11 12 13 14 15 null " ] && [ "$(results ends_with_call)" = "-6 " ] &&
	[ "$(results ends_with_pointer)" = "null " ] &&
	hits 'map(select(.function == "ends_with_pointer")) | all(.duration_ns > 0)' &&
	[ "$(results chooses)" = "-1 -6 0 11 24 33 44 55 77 " ]
ok "each_way_to_return_is_seen_with_its_result" $?
hits 'map(select(.function == "is_passed" and .ret == null)) | length > 10' &&
	hits 'map(select((.function == "catches" or .function == "chooses") and .ret == null)) | length < 3'
ok "no_result_is_taken_for_that_of_another_call" $?
ended
ok "the_program_did_not_notice" $?

start unwinding
command=watch
watch -p "$pid" --from finds:ret 'ret->count' -n 40 --json
[ $? = 0 ] && hits 'length == 40' && ended
ok "objects_are_watched_from_the_return_of_a_function_that_may_throw" $?

command='break'
# Constants behind calls that never return are no instructions to return.
for victim in after_calls after_calls_fixed; do
	[ -x "$victims/$victim" ] || continue
	start $victim
	watch -p "$pid" by_table by_word by_own_function --ret --limit 30 --json
	[ $? = 0 ] && hits 'length == 30 and all(.ret == "0x7" or .ret == 7)' && ended
	ok "${victim}_keeps_its_constants" $?
	start $victim
	watch -p "$pid" by_library by_library_deep by_library_word by_library_turns --ret --limit 40 --json
	[ $? = 0 ] && hits 'length == 40 and all(.ret == "0x7" or .ret == 7)' && ended
	ok "${victim}_keeps_them_behind_calls_into_a_library" $?
	start $victim
	watch -p "$pid" by_register by_word --ret --limit 20 --json
	[ $? = 0 ] && hits 'map(select(.function == "by_register")) | length > 5 and all(.ret == null)' && ended
	ok "${victim}_calls_what_is_not_known_and_is_seen_without_results" $?
done

start unwinding
before=$(sed -n '/x.*unwinding/p' "/proc/$pid/maps" | wc -l)
exactly a_function_whose_jumps_are_not_known_is_refused \
	"cannot use --ret: the function has a jump whose target is not known, so its return instructions are not known; observe it without returns" \
	-p "$pid" goes_anywhere --ret
exactly a_function_that_steps_over_data_is_refused \
	"cannot use --ret: the function has a jump whose target is not known, so its return instructions are not known; observe it without returns" \
	-p "$pid" steps_over_data --ret
watch -p "$pid" goes_anywhere steps_over_data has_data --ret --limit 40 --json
[ $? = 0 ] && grep -q '^trapline break: note: 2 functions without results and durations, because their return instructions cannot be found: \(goes_anywhere, steps_over_data\|steps_over_data, goes_anywhere\)$' "$tmp/err" &&
	hits 'map(select(.function == "has_data")) | length > 5 and all(.ret == "0xc3c3c3c3c3c3c3c3")' &&
	hits 'map(select(.function != "has_data")) | length > 10 and all(.ret == null)'
ok "beside_others_it_is_seen_without_results" $?
watch -p "$pid" goes_anywhere --limit 9 --json && hits 'length == 9' &&
	[ "$(sed -n '/x.*unwinding/p' "/proc/$pid/maps" | wc -l)" = "$before" ] && ended
ok "data_in_a_function_is_not_written" $?

finished
