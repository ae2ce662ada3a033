#!/bin/sh
# SPDX-License-Identifier: MIT
# test_known_places.sh TRAPLINE VICTIMS - names of places in processes that end at once, one row for the same
# place in several processes, and arrays without a fixed place. TAP.

# shellcheck source=tests/cli/tap.sh disable=SC2154,SC2034 # trapline, victims and tmp are of there
. "$(dirname "$0")/tap.sh"

command='break'
need_uprobes
need jq gcc

many='for i in 1 2 3 4 5 6 7 8; do sleep 0.01; done'
watch --follow libc.so.6:clock_nanosleep --json -- sh -c "$many"
[ $? = 0 ] && hits 'length == 8 and all(.caller.function != null and .caller.module == "libc.so.6")'
ok "callers_in_the_same_object_have_names_in_children_that_ended" $?

watch --follow libc.so.6:clock_nanosleep --summary -- sh -c "$many"
[ $? = 0 ] && [ "$(sed -n '/  from$/,/^$/p' "$tmp/out" | grep -c ' in libc.so.6$')" = 1 ] &&
	sed -n '/  from$/,/^$/p' "$tmp/out" | grep -q '^ *8 100.0%'
ok "the_same_caller_in_several_processes_is_one_row" $?
! grep -q 'same code' "$tmp/out"
ok "an_older_version_of_a_symbol_is_no_other_function" $?

cat >"$tmp/short.c" <<'END'
#include <fcntl.h>
__attribute__((noinline)) static int first(void) { int n = open("/dev/null", 0); return n + 1; }
__attribute__((noinline)) static int second(void) { int n = open("/dev/null", 0); return n + 2; }
#include <unistd.h>
int main(int n, char **a) { if (n > 1) sleep(3); return first() + second() < 0 || !a; }
END
gcc -O1 -D_FILE_OFFSET_BITS=64 -o "$tmp/short" "$tmp/short.c"
watch --follow libc.so.6:open64 --stack --json -- sh -c "for i in 1 2 3 4 5 6 7 8; do '$tmp/short'; done"
[ $? = 0 ] && hits 'map(select(.thread == "short")) | length == 16 and
	all(.caller.module == "short") and (map(.caller.function) | group_by(.) | map(length)) == [8, 8] and
	all(.stack | map(.function) | contains(["main"]))'
ok "callers_and_stacks_in_other_objects_have_names_in_children_that_ended" $?
! grep -q 'had ended before' "$tmp/err"
ok "nothing_is_said_of_missing_names" $?

watch --follow libc.so.6:open64 --json -- sh -c "cp '$tmp/short' '$tmp/once'; '$tmp/once'; sleep 1; rm '$tmp/once'"
[ $? = 0 ] && hits 'map(select(.thread == "once")) | length == 2 and
	all(.caller.function | IN("first", "second"))'
ok "a_program_that_was_removed_has_names" $?
watch --follow libc.so.6:open64 --json -- sh -c "for i in 1 2 3 4 5 6; do
	cp '$tmp/short' '$tmp/once'; '$tmp/once'; rm '$tmp/once'; done"
[ $? = 0 ] && hits 'map(select(.thread == "once")) | length == 12 and
	all(.caller.function | IN("first", "second", null))' &&
	{ hits 'map(select(.thread == "once")) | all(.caller.function != null)' ||
		grep -q 'had a file mapped that could not be read, such as .*/once: addresses' "$tmp/err"; }
ok "a_program_that_is_removed_at_once_has_names_or_a_note_says_so" $?

# Two programs at the same addresses, one after the other in one process and in several.
sed 's/first/third/g; s/second/fourth/g
	s/if (n > 1).*/third(); if (fourth() + n > 0) execv(a[1], a + 1); return 1; }/' \
	"$tmp/short.c" >"$tmp/other.c"
gcc -O1 -D_FILE_OFFSET_BITS=64 -o "$tmp/other" "$tmp/other.c"
watch --follow libc.so.6:open64 --json -- setarch -R sh -c "for i in 1 2 3 4; do
	'$tmp/other' '$tmp/short'; done"
[ $? = 0 ] && hits 'map(select(.thread == "short" or .thread == "other")) | length == 16 and
	all(.caller.module == .thread) and
	all(.caller.function | IN("first", "second", "third", "fourth")) and
	all((.caller.function | IN("first", "second")) == (.thread == "short"))'
ok "the_same_address_has_the_name_of_the_program_that_ran_then" $?

(
	eventually grep -q waiting "$tmp/err"
	"$tmp/other" "$tmp/short" stays
	for _ in 1 2 3 4 5; do
		"$tmp/other" "$tmp/short"
	done
) &
started="$started $!"
: >"$tmp/err"
watch --name short libc.so.6:open64 --json --limit 12
hits 'length == 12 and all(.caller.module == "short" and (.caller.function | IN("first", "second"))) and
	(map(.pid) | unique | length) == 6'
ok "processes_that_begin_under_the_name_have_names" $?
watch --follow libc.so.6:open64 --summary -- sh -c "'$tmp/short'; sleep 0.1; '$tmp/short'"
[ $? = 0 ] && [ "$(sed -n '/  from$/,/^$/p' "$tmp/out" | grep -c '^ *[0-9]* *[0-9.]*%')" -ge 2 ]
ok "two_callers_stay_two_rows" $?

cat >"$tmp/array.c" <<'END'
#include <unistd.h>
__attribute__((noinline)) int work(int n)
{
	int row[n];
	int fixed[4];
	for (int i = 0; i < n; i++)
		fixed[i % 4] = row[i] = i * n;
	return row[n - 1] + fixed[1];
}
int main(void)
{
	for (int i = 0;; i++) {
		work(5 + i % 3);
		usleep(5000);
	}
}
END
gcc -g -O0 -o "$tmp/array" "$tmp/array.c"
"$tmp/array" &
pid=$!
started="$started $pid"
eventually runs "$pid" array
command=watch
for what in row 'row[1]'; do
	exactly "the_length_of_an_array_is_chosen_at_run_time: $what" \
		"cannot watch 'work:$what': 'row' of work has a length that is chosen at run time, and no fixed location; give an address and a length, as in 0x...:4" \
		-p "$pid" "work:$what"
done
watch -p "$pid" 'work:fixed' --for 0.2
! grep -q 'chosen at run time' "$tmp/err"
ok "an_array_of_fixed_length_is_not_refused_for_that" $?
finished
