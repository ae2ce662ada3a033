#!/bin/sh
# SPDX-License-Identifier: MIT
# test_line_conditions.sh TRAPLINE VICTIMS SOURCE - conditions with local variables at a line, parameters there, and
# members of *this. What must hold is always true, and what must not never, with and without optimisation. TAP.

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/tap.sh"
need_uprobes
need jq g++
command='break'
source=$3/tests/victims/line_locals.cc

# line TEXT: its number.
line()
{
	grep -n "$1" "$source" | head -n 1 | cut -d: -f1
}

# holds NAME PLACE CONDITION: each hit has it, and none has the opposite. The compiler may have left no value there.
holds()
{
	watch -p "$pid" "$2" --if "$3" --limit 12 --json
	status=$?
	if [ $status != 0 ] && grep -q 'has no location at this instruction' "$tmp/err" && [ "$build" = "-O2" ]; then
		ok "$1 $build" 0
		return
	fi
	[ $status = 0 ] && summary '.rejected_by.condition == 0' &&
		watch -p "$pid" "$2" --if "!($3)" --for 0.3 --json && summary '.hits == 0 and .rejected_by.condition > 0'
	ok "$1 $build" $?
}

for build in "-O0" "-O0 -fomit-frame-pointer" "-O2"; do
	program="$tmp/line_locals$(echo "$build" | tr -d ' ')"
	# shellcheck disable=SC2086 # options
	g++ -g $build -o "$program" "$source"
	"$program" &
	pid=$!
	started="$started $pid"
	eventually grep -q line_locals "/proc/$pid/maps"
	file=line_locals.cc
	loop=$file:$(line 'in the loop')
	block=$file:$(line 'in the block')
	call=$file:$(line 'a call that is inlined')
	holds a_local_variable "$loop" 'twice == 2 * count'
	holds a_local_variable_named_like_a_word "$loop" 'hits == count + 1'
	holds the_innermost_block_counts "$block" 'twice == -count'
	holds a_member_behind_a_reference "$loop" 'item.price == count'
	holds a_member_of_this "$loop" 'rounds > 0 && rounds < 100000000'
	holds a_member_hides_a_word "$loop" 'tid == 7'
	holds a_line_that_begins_with_an_inlined_call "$call" 'twice == 2 * count && item.price == count'
	behind=$file:$(line 'behind the entry')
	holds a_double_at_a_line "$behind" 'weight > 1.0 && weight * 2.0 - half * 3 == half'
	watch -p "$pid" weigh --if 'weight > 1.2'
	[ $? = 2 ] && if [ "$build" = "-O2" ]; then
		grep -q 'in a floating-point register, which only a probe reads: use --mechanism probe$' "$tmp/err"
	else
		grep -q "use --mechanism probe; break on $file:[0-9]*, where 'weight' is in memory$" "$tmp/err"
	fi
	ok "a_double_at_the_entry_has_a_line_as_remedy $build" $?
	there=$(sed -n "s/.*break on \($file:[0-9]*\),.*/\1/p" "$tmp/err")
	[ "$build" = "-O2" ] || holds the_remedy_has_the_double "$there" 'weight > 1.0 && weight < 4.0 && share * 2.5 == weight'
	holds a_parameter_named_like_a_word add 'count > 0 && count < 4 && item.price == count'
	watch -p "$pid" "$call" --if 'i == 1'
	[ $? = 2 ] && grep -q -- "--if, column 1: no variable named 'i' has a value there: it belongs to other code" "$tmp/err"
	ok "a_local_of_another_block_is_unknown $build" $?
	watch -p "$pid" "$loop" --args --limit 6 --json
	[ $? = 0 ] && hits 'all(.args.count >= 1 and .args.count <= 3 and (.args.item == null or (.args.item | type == "object")))'
	ok "parameters_at_a_line_have_their_values $build" $?
	command='at'
	watch -p "$pid" "$loop#5 if count == 3 && i == 2" --json
	{ [ $? = 0 ] && jq -e '.count == 5' "$tmp/out" >/dev/null; } || { [ "$build" = "-O2" ] && grep -q 'has no location' "$tmp/err"; }
	ok "a_point_with_a_local_variable $build" $?
	command='break'
	kill "$pid"
done
finished
