#!/bin/sh
# SPDX-License-Identifier: MIT
# test_columns.sh TRAPLINE VICTIMS - what a command can bring into a process has a column in the matrix; what
# has none is named. TAP.

here=$(dirname "$0")
# shellcheck source=tests/cli/tap.sh disable=SC1091,SC2154 # trapline and tmp are of it
. "$here/../cli/tap.sh"
need python3
tab=$(printf '\t')

columns()
{
	python3 -B "$here/columns.py" "$1" >"$tmp/out" 2>"$tmp/err"
}

# missing NAME TEXT LINE...: with these lines more in the tables, that is named, and nothing else.
missing()
{
	name=$1
	text=$2
	shift 2
	{
		cat "$tmp/dump"
		printf '%s\n' "$@"
	} >"$tmp/more"
	columns "$tmp/more"
	[ $? = 1 ] && [ "$(wc -l <"$tmp/err")" = 1 ] && grep -q "$text" "$tmp/err"
	ok "$name" $?
}

columns "$trapline"
ok "each_command_and_each_option_has_its_place" $?

"$trapline" --dump-options >"$tmp/dump"
columns "$tmp/dump"
ok "the_tables_as_a_file_are_the_same" $?

missing a_command_without_a_column_is_named 'trapline lens has no column' \
	"command${tab}lens${tab}look" "option${tab}lens${tab}pid${tab}p${tab}pid${tab}PID${tab}attach"
missing an_option_without_a_place_is_named 'trapline heap --wrap is not in' \
	"option${tab}heap${tab}wrap${tab}-${tab}flag${tab}-${tab}wrap calls"
missing a_value_without_a_column_is_named 'trapline break --mechanism int3 has no column' \
	"option${tab}break${tab}mechanism${tab}-${tab}choice${tab}uprobe|probe|hardware|int3${tab}choose"

grep -v "^option${tab}race${tab}sweep" "$tmp/dump" >"$tmp/more"
columns "$tmp/more"
[ $? = 1 ] && grep -q 'trapline race has no --sweep any more' "$tmp/err"
ok "a_column_of_an_option_that_is_gone_is_named" $?

finished
