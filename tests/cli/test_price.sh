#!/bin/sh
# SPDX-License-Identifier: MIT
# test_price.sh TRAPLINE VICTIMS - what hits cost the target stays within --budget, or the user reads that
# it does not. TAP. Needs root: uprobes are for it alone.

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/tap.sh"
need_uprobes
need jq

# Income, and one turn beyond it.
within="(.taken + .while_off) * .cost_ns / .duration_ns"

start busy
busy=$pid
start calls
calls=$pid

command='break'
watch -p "$busy" pay --if 'cents == 5000' --for 2 --json
[ $? = 0 ] && summary '.hits == 0 and .rejected > 0 and .rests > 0 and .rested_ns > 0 and .budget_percent == 10'
ok "rejected_calls_of_a_busy_function_let_the_run_rest" $?
[ "$(grep -c '^trapline break: note: hits cost the target about [0-9]*% of a CPU, and the budget is 10%: from now on' "$tmp/err")" = 1 ]
ok "the_first_rest_is_reported_once" $?

watch -p "$busy" pay --if 'cents == 5000' --for 1 --json --budget 100000%
[ $? = 0 ] && summary '.rejected > 0 and .rests == 0 and .budget_percent == 100000' && ! grep -q note: "$tmp/err"
ok "within_the_budget_it_does_not_rest" $?

watch -p "$busy" pay --if 'cents == 5000' --for 1 --json --budget none
[ $? = 0 ] && summary '.rejected > 0 and .rests == 0 and .budget_percent == null' && ! grep -q note: "$tmp/err"
ok "none_lifts_the_budget" $?

watch -p "$busy" pay --for 1 --json --max-rate 0 --limit 3000
[ $? = 0 ] && summary '.hits == 3000 and .pauses == 0 and .rests == 0 and .budget_percent == null'
ok "without_pauses_there_are_no_rests" $?

watch -p "$busy" pay --for 2 --json --budget 1% --max-rate 1000
[ $? = 0 ] && summary '.pauses + .rests > 1 and .rests > 0 and .paused_ns + .rested_ns < .duration_ns * 1.01'
ok "pauses_and_rests_do_not_overlap" $?

watch -p "$busy" pay --if 'cents == 5000' --for 2
[ $? = 0 ] && grep -q '^0 hits in .*, observed [0-9]*% of the time$' "$tmp/out" &&
	grep -q '^rested [0-9]* times*, .* so that hits cost at most 10% of a CPU; .*(--budget none: no rests)$' "$tmp/out"
ok "the_summary_has_the_share_of_time" $?

watch -p "$calls" lookup --limit 1 --json
[ $? = 0 ] && summary ".hits == 1 and .rests == 0"
ok "the_first_hit_is_no_rest" $?
watch -p "$calls" lookup --limit 20 --json
[ $? = 0 ] && summary '.hits == 20 and .rests == 0 and .rested_ns == 0'
ok "a_function_that_is_seldom_called_is_observed_all_the_time" $?

watch -p "$busy" pay --if 'cents == 7' --for 2 --limit 5 --json --then snapshot
[ $? = 0 ] && summary '.hits == 5'
ok "a_limit_is_exact_between_rests" $?
jq -r 'select(.type == "action") | .snapshot_pid' "$tmp/out" | xargs kill -KILL

"$trapline" record -o "$tmp/file" --break -p "$busy" pay --if 'cents == 5000' --for 1 --budget 2% >"$tmp/out" 2>"$tmp/err" &&
	"$trapline" report "$tmp/file" --as json >"$tmp/out" && summary '.rests > 0 and .budget_percent == 2'
ok "a_recording_has_the_rests" $?

wrong "a_wrong_budget_is_refused" "invalid --budget 'much': expected a percentage or none (example: 10%)" -p "$busy" pay --budget much
kill -0 "$busy"
ok "the_target_lives" $?

command='watch'
watch -p "$busy" total --if 'new == 5' --for 2 --json
[ $? = 0 ] && summary ".delivered == 0 and .rejected > 0 and .rests > 0 and .budget_percent == 10 and $within < 0.5" &&
	grep -q '^trapline watch: note: hits cost the target about ' "$tmp/err"
ok "a_busy_variable_is_watched_in_turns" $?
watch -p "$busy" total --if 'new == 5' --for 1 --json --budget none
[ $? = 0 ] && summary '.rejected > 0 and .rests == 0' && ! grep -q 'hits cost' "$tmp/err"
ok "none_lifts_the_budget_of_a_watch" $?
watch -p "$calls" rounds_done --limit 5 --json
[ $? = 0 ] && summary '.delivered == 5 and .rests == 0'
ok "a_variable_that_is_seldom_written_is_watched_all_the_time" $?

finished
