#!/bin/sh
# SPDX-License-Identifier: MIT
# test_heap_told.sh TRAPLINE VICTIMS - the summary of heap says what was not looked at and what is not in its cost;
# and nothing of that where it is not so. TAP.

# shellcheck source=tests/cli/tap.sh disable=SC1091,SC2154 # trapline, victims and tmp are of there
. "$(dirname "$0")/../cli/tap.sh"
need jq gcc
victim=$victims/heap_chance

# run ARG...: the summary as text in $tmp/out.
run()
{
	timeout -k 2 60 "$trapline" heap -o "$tmp/out" "$@" >/dev/null 2>"$tmp/err"
}

user='processes changed their user: programs that they execute then are not sampled'
if [ "$(id -u)" = 0 ] && command -v setpriv >"$tmp/which"; then
	run -- setpriv --reuid 65534 --clear-groups /bin/true
	grep -q "^  1 $user; run trapline as that user\$" "$tmp/out"
	ok 'a_program_of_another_user_is_not_sampled_and_told' $?
	run -- setpriv --reuid 0 --clear-groups "$victim" hot 100 200
	! grep -q "$user" "$tmp/out"
	ok 'one_of_the_same_user_is' $?
else
	skip 'a_program_of_another_user_is_not_sampled_and_told' 'root and setpriv'
fi

run -- "$victim" hot 100 200
! grep -q '%' "$tmp/out" && grep -q '^  sampling cost [0-9.]* ms; a process' "$tmp/out"
ok 'a_short_run_has_no_share' $?
! grep -q 'what a fork costs' "$tmp/out"
ok 'without_a_fork_none_is_told' $?
run -- "$victim" hot 40000000 100000000
grep -q '^  sampling cost [0-9.]* ms, [0-9]\{1,2\}\.[0-9]% of [0-9.]* m\{0,1\}s of CPU time; a process' "$tmp/out"
ok 'a_longer_one_has' $?
run -- "$victim" forks 5 10
grep -q '^  that is without what a fork costs more, for the memory of the detector: 5 forked children$' "$tmp/out"
ok 'the_cost_of_forks_is_not_in_it' $?

# Blocks that stay do not end the search.
cat >"$tmp/stay.c" <<'END'
#include <stdlib.h>
#include <string.h>
__attribute__((noinline)) static char *stay(void) { return memset(malloc(40), 1, 40); }
__attribute__((noinline)) static char *go(void) { return memset(malloc(50), 1, 50); }
static volatile char sink;
static char *blocks[200000];
int main(int argc, char **argv)
{
	long kept = atol(argv[1]), errors = atol(argv[2]);
	for (long i = 0; i < kept; i++)
		blocks[i] = stay();
	for (long i = 0; i < errors; i++) {
		char *p = go();
		free(p);
		sink = p[1];
	}
	return argc > 3;
}
END
gcc -w -O1 -fno-builtin -o "$tmp/stay" "$tmp/stay.c"
full='blocks not sampled: too many sampled ones are still in use, and fill the pool'
for kept in 1000 200000; do
	run --overhead 90 --json -- "$tmp/stay" $kept 400000
	jq -e -s '.[-1] | .type == "summary" and .counters.found > 50' "$tmp/out" >"$tmp/jq"
	ok "errors_are_found_behind_${kept}_blocks_that_stay" $?
done
run --overhead 90 -- "$tmp/stay" 200000 1
grep -q "^  [1-9][0-9]* $full\$" "$tmp/out"
ok 'a_pool_that_fills_is_told' $?
run --overhead 90 -- "$tmp/stay" 1000 1
! grep -q "$full" "$tmp/out"
ok 'one_that_does_not_is_not' $?
finished
