#!/bin/sh
# SPDX-License-Identifier: MIT
# test_writers.sh TRAPLINE VICTIMS - watch --at-writers: the stores that write a variable get probes, with the
# same condition. TAP. Needs debug registers, and an agent in the process.

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/tap.sh"
need jq
[ -x "$victims/writers" ] || skip_all "stores are understood on x86-64 only"
start writers
writers=$pid

# same NAME CONDITION FUNCTION: the value is 7 once a round, whoever decides it: as often with as without.
once()
{
	watch -p "$writers" "w_$1" --if "$2" --at-writers --limit 20 --for 20 --json --budget none --max-rate 0
	[ $? = 0 ] && hits 'length == 20 and all(.thread == "writers")' &&
		# Rounds take 2 ms and more: no two hits are of one.
		hits '[.[].time_ns] | [.[1:], .[:-1]] | transpose | all(.[0] - .[1] > 1000000)' &&
		grep -q 'writers known so far: [12], from ' "$tmp/err"
	ok "$1_is_seven_once_a_round" $?
}

once register 'new == 7'
once signed 'new == -7'
once byte 'new == 7 && changed'
once number 'new == old && w_register == 6'
once add 'new == 7'
once sub 'new < old && new == 7'
once locked 'old == 6'
once xadd 'new == 7'
once decrement 'new == 7'
once state 'new == CLOSED && old == OPEN'
once two 'new == 7'
once array[8] 'new == 7 && addr == &w_array + 64'

# The same hits as the debug register has.
watch -p "$writers" w_xor --if 'new == 7' --limit 8 --for 20 --json
[ $? = 0 ] && hits 'length == 8' && watch -p "$writers" w_xor --if 'new == 7' --at-writers --limit 8 --for 20 --json &&
	hits 'length == 8'
ok "a_value_that_depends_on_the_old_one_is_known" $?

watch -p "$writers" w_two --at-writers --for 0.3
[ $? = 0 ] && grep -q '^writers known so far: 2; a store by other code was not seen$' "$tmp/out" &&
	grep -q 'first (.*, second (\|second (.*, first (' "$tmp/err"
ok "without_a_condition_all_writers_are_probed" $?

refused()
{
	name=$1
	why=$2
	shift 2
	watch -p "$writers" "$@" --at-writers --for 0.3
	[ $? = 2 ] && [ "$(wc -l <"$tmp/err")" = 1 ] && grep -q "^trapline watch: .*$why" "$tmp/err"
	ok "$name" $?
}

refused "a_string_instruction_is_refused" "there is no probe for the store before .*: the value that it writes is not known" w_string
refused "a_vector_is_refused" "it writes more or fewer bytes" w_wide
refused "a_wider_or_narrower_store_is_refused" "it writes more or fewer bytes" w_high
refused "counts_of_hits_are_refused" "\-\-if counts hits" w_register --if 'hits == 3'
refused "other_accesses_are_refused" "cannot be combined with --on" w_register --on rw
refused "several_are_refused" "needs one EXPR" w_register w_word
watch -p "$writers" w_silent --at-writers --for 0.2
[ $? = 1 ] && grep -q 'no thread wrote w_silent in 0.2 s' "$tmp/err"
ok "a_variable_that_is_not_written_has_no_writers" $?
wrong "a_command_is_refused" "needs -p PID" w_two --at-writers -- "$victims/writers"
watch -p "$writers" w_register --if 'new ==' --at-writers
[ $? = 2 ] && grep -q -e '--if, column 7' "$tmp/err"
ok "a_wrong_condition_is_told_as_it_was_written" $?

# The code is as it was, and the process lives.
kill -0 "$writers" && watch -p "$writers" w_two --limit 2 --json && hits 'length == 2'
ok "the_process_continues" $?

# A killed command leaves no probe behind.
: >"$tmp/err"
"$trapline" watch -p "$writers" w_two --if 'new == 1000' --at-writers >"$tmp/out" 2>"$tmp/err" &
observer=$!
eventually grep -q '^breaking on' "$tmp/err"
kill -KILL $observer
wait $observer 2>/dev/null
gone()
{
	! pgrep -f "trapline break --pid=$writers "
}
eventually gone && kill -0 "$writers" && sleep 0.3 && watch -p "$writers" w_two --at-writers --if 'new == 7' --limit 3 --json &&
	hits 'length == 3'
ok "a_killed_command_ends_its_probes" $?

: >"$tmp/err"
"$trapline" watch -p "$writers" w_two --if 'new == 1000' --at-writers >"$tmp/out" 2>"$tmp/err" &
observer=$!
eventually grep -q '^breaking on' "$tmp/err"
kill -TERM $observer
wait $observer
[ $? = 0 ] && grep -q '^writers known so far: 2' "$tmp/out" && grep -q '^0 hits in' "$tmp/out"
ok "SIGTERM_ends_it_with_a_summary" $?

finished
