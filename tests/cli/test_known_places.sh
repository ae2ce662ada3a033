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
int main(void) { return first() + second() < 0; }
END
gcc -O1 -D_FILE_OFFSET_BITS=64 -o "$tmp/short" "$tmp/short.c"
watch --follow libc.so.6:open64 --json -- sh -c "for i in 1 2 3 4 5 6 7 8; do '$tmp/short'; done"
[ $? = 0 ] && hits 'map(select(.thread == "short")) | length == 16 and
	all(.caller.module != "libc.so.6" and (.caller.function | IN(null, "first", "second")))'
ok "an_address_in_another_object_gets_no_name_of_this_one" $?
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
