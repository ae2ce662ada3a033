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
! grep -q 'forks alone\|forked child' "$tmp/out"
ok 'without_a_fork_none_is_told' $?
run -- "$victim" hot 40000000 100000000
grep -q '^  sampling cost [0-9.]* ms, [0-9]\{1,2\}\.[0-9]% of [0-9.]* m\{0,1\}s of CPU time as estimated, at most some [0-9.]*%\(; the calls alone.*\)\{0,1\}; a process' "$tmp/out"
ok 'a_longer_one_has' $?
# A child that lives for a moment is mostly its fork. When the allowance is used up, it does not read its copies.
run -v -- "$victim" forks 300 3
forks=$(sed -n 's/^  forks_ns: //p' "$tmp/out")
[ "$(sed -n 's/^  cost_ns: //p' "$tmp/out")" -ge "$forks" ] && [ "$forks" -gt 0 ] &&
	grep -q 'forks alone are [0-9.]*%, for the kernel copies the detector too;' "$tmp/out"
ok 'the_cost_of_forks_is_in_it' $?
grep -q '^  [0-9]* forked children ended with copies of their parent.s blocks not inspected: the budget was used up' "$tmp/out"
ok 'what_a_child_does_not_inspect_is_told' $?
run --first 1 -- "$victim" forks 20 3
! grep -q 'ended with copies' "$tmp/out"
ok 'a_child_inspects_what_the_budget_allows' $?

# Each operator new is one allocation, although it calls malloc().
cat >"$tmp/new.cc" <<'END'
#include <cstdlib>
#include <new>
int main(int argc, char **argv)
{
	for (long i = std::atol(argv[1]); i; i--) {
		void *volatile p = argc > 2 ? std::malloc(24) : operator new(24);
		argc > 2 ? std::free(p) : operator delete(p);
	}
}
END
if command -v g++ >"$tmp/which"; then
	g++ -w -O1 -fno-builtin -o "$tmp/new" "$tmp/new.cc"
	run --json -- "$tmp/new" 3000000
	jq -e -s '.[-1].allocations | . >= 3000000 and . < 3200000' "$tmp/out" >"$tmp/jq"
	ok 'each_operator_new_is_counted_once' $?
	run --json -- "$tmp/new" 3000000 malloc
	jq -e -s '.[-1].allocations | . >= 3000000 and . < 3200000' "$tmp/out" >"$tmp/jq"
	ok 'and_each_malloc' $?
	# What only allocates pays more for its calls than the budget: contexts are looked up in rows.
	run --json -- "$tmp/new" 100000000 malloc
	jq -e -s '.[-1].counters | .asked < .allocations / 4 and .asked > 10000' "$tmp/out" >"$tmp/jq"
	ok 'a_program_that_allocates_often_has_naps' $?
	run -- "$tmp/new" 100000000 malloc
	grep -q '; the calls alone are [0-9.]*%, for the program allocates often; a process' "$tmp/out"
	ok 'and_its_price_is_told' $?
	run --first 10 --json -- "$tmp/new" 3000000 malloc
	jq -e -s '.[-1].counters | .asked > .allocations * 0.99' "$tmp/out" >"$tmp/jq"
	ok 'first_has_no_naps' $?
	run --json -- "$tmp/new" 20000 malloc
	jq -e -s '.[-1].counters | .asked > .allocations * 0.9' "$tmp/out" >"$tmp/jq"
	ok 'a_program_that_allocates_seldom_has_none' $?
else
	skip 'each_operator_new_is_counted_once' 'g++ is not installed'
fi

# A block that stays while many newer ones are sampled: what is written behind it is found all the same.
cat >"$tmp/old.c" <<'END'
#include <stdlib.h>
#include <string.h>
__attribute__((noinline)) static char *stay(void) { return memset(malloc(64), 1, 64); }
__attribute__((noinline)) static void newer(void) { free(memset(malloc(48), 1, 48)); }
int main(int argc, char **argv)
{
	char *volatile p = stay();

	for (long i = 0; i < 3000000; i++)
		newer();
	if (argc > 1)
		p[64] = 1;
	free(p);
	return 0;
}
END
gcc -w -O1 -fno-builtin -o "$tmp/old" "$tmp/old.c"
run --overhead 50 --json -- "$tmp/old" wrong
jq -e -s 'map(select(.type == "heap")) | length == 1 and (.[0] | .kind == "overflow" and .block.size == 64)' \
	"$tmp/out" >"$tmp/jq"
ok 'a_write_behind_an_old_block_is_found' $?
run --overhead 50 --json -- "$tmp/old"
jq -e -s 'map(select(.type == "heap")) | length == 0' "$tmp/out" >"$tmp/jq"
ok 'and_none_where_nothing_is_written' $?

# Blocks that stay do not end the search.
cat >"$tmp/stay.c" <<'END'
#include <stdlib.h>
#include <string.h>
__attribute__((noinline)) static char *stay(void) { return memset(malloc(40), 1, 40); }
__attribute__((noinline)) static char *go(void) { return memset(malloc(50), 1, 50); }
static volatile char sink;
static char *blocks[900000];
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
run --overhead 90 -- "$tmp/stay" 900000 1
grep -q "^  [1-9][0-9]* $full\$" "$tmp/out"
ok 'a_pool_that_fills_is_told' $?
run --overhead 90 -- "$tmp/stay" 1000 1
! grep -q "$full" "$tmp/out"
ok 'one_that_does_not_is_not' $?
finished
