#!/bin/sh
# SPDX-License-Identifier: MIT
# test_folded.sh TRAPLINE VICTIMS SOURCE INCLUDE BUILD_INCLUDE - functions whose code is kept once, as compilers and
# linkers do: patch refuses one, and break has the names of all. Names of one function are no such case. TAP.

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/tap.sh"
need_uprobes
need jq gcc nm
source=$3/tests/victims/folded.c
include="-I$4 -I$5"

# object NAME FUNCTION: it replaces FUNCTION.
object()
{
	cat >"$tmp/$1.c" <<END
#include <trapline/tools.h>
static int changed(int a, int b) { return 0; }
TRAPLINE_PATCH("$2", changed);
END
	# shellcheck disable=SC2086
	gcc -O2 -shared -fPIC $include -o "$tmp/$1.so" "$tmp/$1.c"
}
object write may_write
object up round_up

address()
{
	nm "$program" | awk -v name="$1" '$3 == name { print $1 }'
}

begin()
{
	"$program" >"$tmp/victim" &
	pid=$!
	started="$started $pid"
	eventually grep -q 1 "$tmp/victim"
}

check_folded()
{
	begin
	command='break'
	watch -p "$pid" may_write --args --limit 4
	[ $? = 0 ] && [ "$(grep -c 'may_write and may_read (same code)(' "$tmp/out")" = 4 ] &&
		grep -q ' may_write and may_read (same code) in ' "$tmp/out"
	ok "break_has_all_names $build" $?
	watch -p "$pid" may_write --limit 4 --json
	[ $? = 0 ] && hits 'length == 4 and all(.function == "may_write" and .same_code == ["may_read"])' &&
		summary '.functions[0] | .function == "may_write" and .same_code == ["may_read"]'
	ok "json_has_all_names $build" $?
	command='patch'
	watch -p "$pid" "$tmp/write.so"
	[ $? = 2 ] && grep -q 'may_write and may_read have the same code, and all of them would change; give --folded' "$tmp/err"
	refused=$?
	sleep 0.1
	[ $refused = 0 ] && tail -n 1 "$tmp/victim" | grep -q '^1 '
	ok "patch_refuses_one_of_them $build" $?
	watch -p "$pid" "$tmp/write.so" --folded
	[ $? = 0 ] && grep -q 'may_write and may_read have the same code, and change together' "$tmp/err"
	applied=$?
	sleep 0.1
	[ $applied = 0 ] && tail -n 1 "$tmp/victim" | grep -q '^0 '
	ok "folded_replaces_them $build" $?
	kill "$pid"
}

# Names that were given to one function.
check_aliases()
{
	begin
	command='break'
	watch -p "$pid" round_up --limit 4 --json
	[ $? = 0 ] && hits 'length == 4 and all(.function == "round_up" and .same_code == null)'
	ok "an_alias_is_no_other_function $build" $?
	watch -p "$pid" libc.so.6:usleep --limit 2
	[ $? = 0 ] && ! grep -q 'same code' "$tmp/out"
	ok "nor_is_one_of_libc $build" $?
	command='patch'
	watch -p "$pid" "$tmp/up.so"
	ok "patch_replaces_a_function_with_aliases $build" $?
	kill "$pid"
}

# Errors and stacks name the others too. An alias that the source declares is not one of them.
check_errors()
{
	errors=$tmp/folded_errors
	# shellcheck disable=SC2086 # options
	$build -g -pthread -o "$errors" "${source%.c}_errors.c" 2>"$tmp/err" || return
	command='break'
	watch --follow libc.so.6:getppid --stack -- "$errors"
	[ $? = 0 ] && grep -Eq '#[01]  first_of\+0x[0-9a-f]+ \(same code as head_of\) |#[01]  head_of\+0x[0-9a-f]+ \(same code as first_of\) ' "$tmp/out" &&
		! grep -q 'second_of.*same code\|main.*same code' "$tmp/out" && grep -q second_of "$tmp/out"
	ok "a_stack_names_the_others $build" $?
	watch --follow libc.so.6:getppid --stack --json -- "$errors"
	hits '[.[].stack[] | select(.function == "first_of" or .function == "head_of") | .same_code | length == 1] |
		length > 30 and all' && hits '[.[].stack[] | select(.function == "second_of" or .function == "main") | .same_code] | length > 30 and all(. == null)'
	ok "and_so_does_json $build" $?
	"$trapline" record --break -o "$tmp/recording" --follow libc.so.6:getppid -- "$errors" >"$tmp/out" 2>"$tmp/err"
	"$trapline" report "$tmp/recording" >"$tmp/out" 2>"$tmp/err"
	grep -q '(same code as head_of)\|(same code as first_of)' "$tmp/out" && ! grep -q 'second_of.*same code' "$tmp/out"
	ok "and_so_does_a_recording $build" $?
	timeout -k 2 60 "$trapline" heap --first 1 -- "$errors" heap >"$tmp/out" 2>"$tmp/err"
	cat "$tmp/err" >>"$tmp/out"
	grep -Eq '^heap A: .* in (first_of \(same code as head_of\)|head_of \(same code as first_of\)) \[' "$tmp/out" &&
		grep -Eq '^heap A: .* in (second_of|next_to_first) \[' "$tmp/out"
	ok "a_headline_of_heap_names_the_others $build" $?
	for _ in 1 2 3 4 5 6; do
		timeout -k 2 100 "$trapline" race --overhead 20% -- "$errors" race >"$tmp/out" 2>"$tmp/err"
		grep -q '^race ' "$tmp/err" && break
	done
	grep -Eq '^race .* in (count_reads \(same code as count_writes\)|count_writes \(same code as count_reads\))' "$tmp/err"
	ok "a_headline_of_race_names_the_others $build" $?
}

tried=0
for build in "gcc -O2" "clang -O2 -ffunction-sections -fuse-ld=lld -Wl,--icf=all"; do
	program=$tmp/folded$tried
	# shellcheck disable=SC2086 # options
	$build -g -o "$program" "$source" 2>/dev/null || continue
	[ "$(address may_read)" = "$(address may_write)" ] || continue
	tried=$((tried + 1))
	check_folded
	check_aliases
	check_errors
done
[ $tried != 0 ] || skip a_program_with_folded_functions 'a compiler that folds equal functions'
finished
