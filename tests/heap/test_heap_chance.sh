#!/bin/sh
# SPDX-License-Identifier: MIT
# test_heap_chance.sh TRAPLINE VICTIMS - errors are found as often as trapline-heap(1) says. TAP.
#
# The number that is found lies within 5.2 standard deviations of what the page says: a right tool misses that once
# in five million runs. TRAPLINE_SEED gives the seed of a run again.

# shellcheck source=tests/cli/tap.sh disable=SC1091,SC2154 # trapline, victims and tmp are of there
. "$(dirname "$0")/../cli/tap.sh"
need jq
victim=$victims/heap_chance
seed=${TRAPLINE_SEED:-$(($(od -An -N3 -tu4 /dev/urandom)))}
seed=$((seed > 0 ? seed : 1))
echo "# seed $seed"

# chance ARG... -- MODE NUMBER...: $errors are made; the summary is in $tmp/summary.
chance()
{
	rm -f "$tmp/heap.json"
	errors=$(timeout -k 2 100 "$trapline" heap --json -o "$tmp/heap.json" "$@" 2>"$tmp/err")
	jq -c 'select(.type == "summary")' "$tmp/heap.json" >"$tmp/summary" && cp "$tmp/summary" "$tmp/out"
}
# is_near CHANCE: of each error. The number of samples of contexts is not drawn.
is_near()
{
	jq -e --argjson errors "$errors" --argjson more "${more:-0}" "
		(.drawn / .allocations) as \$drawn |
		($1) as \$p | (5.2 * (\$errors * \$p * (1 - \$p) | sqrt) + 1 + \$more) as \$most |
		(.counters.found - \$errors * \$p) | . <= \$most and . >= -\$most" "$tmp/summary" >"$tmp/jq" 2>&1
}

# shellcheck disable=SC2016 # of jq
alike='$drawn'
# A slow machine draws fewer of them.
for blocks in 6000000 30000000 100000000; do
	chance --seed $seed --overhead 20 -- "$victim" hot $blocks 10
	[ "$(jq .drawn "$tmp/summary")" -lt 200 ] || break
done
more=22 # samples of the context, one for each power of two
is_near "$alike"
ok 'of_all_blocks_alike_as_many_errors_are_found_as_the_drawn_share_says' $?
jq -e --argjson n $blocks '.drawn >= 200 and .allocations >= $n - 10000 and .allocations <= $n + 10000' "$tmp/summary" >"$tmp/jq"
ok 'and_the_share_is_large_enough_to_tell' $?
jq -e --argjson seed $seed '.seed == $seed' "$tmp/summary" >"$tmp/jq"
ok 'the_summary_has_the_seed' $?

for nth in 5 11; do
	part=$((nth < 8 ? 4 : 8))
	chance --seed $((seed + nth)) --overhead 6 -- "$victim" deep 400 $nth 200
	more=$(jq .counters.lost_budget "$tmp/summary")
	is_near "1 / $part + (1 - 1 / $part) * $alike"
	ok "block_${nth}_of_a_context_is_sampled_once_in_$part" $?
done
chance --seed $seed --overhead 6 -- "$victim" deep 400 1 200
jq -e --argjson errors "$errors" '.counters.found <= $errors and .counters.found + .counters.lost_budget >= $errors' \
	"$tmp/summary" >"$tmp/jq"
ok 'and_the_first_one_always' $?

# A seed is drawn where none is given: two runs in a row are not the same.
chance -- "$victim" hot 1000 2000
first=$(jq .seed "$tmp/summary")
chance -- "$victim" hot 1000 2000
[ "$first" -gt 0 ] && [ "$(jq .seed "$tmp/summary")" != "$first" ]
ok 'each_run_has_a_seed_of_its_own' $?
jq -e '.counters.found == 0' "$tmp/summary" >"$tmp/jq"
ok 'no_error_is_found_where_there_is_none' $?

for expressions in 0 40 64; do
	found=0
	for _ in 1 2 3 4 5; do
		chance -- "$victim" start $expressions
		found=$((found + $(jq .counters.found "$tmp/summary")))
	done
	echo "# $expressions expressions: $found of 5"
	[ $found = 5 ]
	ok "a_start_of_${expressions}_expressions_leaves_samples_to_the_first_request" $?
done

chance --seed $seed --overhead 100 -- "$victim" forks 300 3
jq -e '.counters.found > 0' "$tmp/summary" >"$tmp/jq"
ok 'children_that_live_for_a_moment_are_sampled' $?
for bad in -1 x 4294967296; do
	"$trapline" heap --seed $bad -- "$victim" hot 1 1 >"$tmp/out" 2>"$tmp/err"
	[ $? = 2 ] && grep -q "^trapline heap: invalid --seed '$bad'" "$tmp/err"
	ok "the_seed_${bad}_is_refused" $?
done
finished
