#!/bin/sh
# SPDX-License-Identifier: MIT
# test_heap_types.sh TRAPLINE VICTIMS - an error of heap has the probable type of the block, the member, the ages,
# the bytes that were there and how many such blocks are in use; and no type where nothing shows it. TAP.

# shellcheck source=tests/cli/tap.sh disable=SC1091,SC2154 # trapline, victims and tmp are of there
. "$(dirname "$0")/../cli/tap.sh"
need jq g++
source=$3/heap_types.cc

# run MODE: the error in $tmp/report, the text in $tmp/out.
run()
{
	timeout -k 2 60 "$trapline" heap --first 100000 --json -o "$tmp/report" -- "$tmp/types" "$1" >"$tmp/out" 2>"$tmp/err" &&
		timeout -k 2 60 "$trapline" heap --first 100000 -o "$tmp/out" -- "$tmp/types" "$1" >/dev/null 2>>"$tmp/err"
}

# block NAME MODE EXPRESSION: of jq, over .block of the error.
block()
{
	run "$2" && jq -e -s "map(select(.type == \"heap\")) | length == 1 and (.[0].block | $3)" "$tmp/report" \
		>/dev/null 2>>"$tmp/err"
	ok "$level: $1" $?
}

for level in -O0 -O2; do
	g++ -g -w -fno-builtin $level "$source" -o "$tmp/types" 2>"$tmp/err" || continue
	block a_vector_is_an_array_of_its_elements vector \
		'.type.name == "point" and .type.count == 10 and .type.member == "[3].y"'
	block a_smart_pointer_names_what_it_owns unique '.type.name == "circle" and .type.member == "label[2]"'
	block a_wrapper_is_passed_over wrapper \
		'.type == {"name": "node", "count": 1, "pointer": "n", "function": "push", "member": "key"}'
	block the_blocks_in_use_are_counted wrapper '.in_use == 2 and .bytes == null'
	block the_result_of_a_function_is_a_pointer result \
		'.type.name == "node" and .type.pointer == null and .type.function == "make_later"'
	block the_line_of_the_call_has_numbers numbers '.type.name == "int" and .type.count == 40 and .type.member == null and
		.in_use == 1 and (.bytes | length) == 16'
	grep -q '^  bytes there: 00' "$tmp/out" && grep -q '^  in use: 1 sampled block with the same stack$' "$tmp/out"
	ok "$level: bytes_and_blocks_are_in_the_text" $?
	block two_types_of_a_size_are_none ambiguous '.type == null'
	! grep -q 'probably of type' "$tmp/out"
	ok "$level: nor_in_the_text" $?
	block a_string_is_an_array_of_characters text '.type.name == "char" and .type.count == 12 and .type.pointer == "s"'
	run wrapper
	grep -q '^  probably of type node, by its size and the pointer n of push; offset 8 is key$' "$tmp/out" &&
		grep -Eq '^  allocated by thread [0-9]+, [0-9.]+ [num]?s before the access:$' "$tmp/out" &&
		grep -Eq '^  freed by thread [0-9]+, [0-9.]+ [num]?s before the access:$' "$tmp/out"
	ok "$level: the_text_has_type_member_and_ages" $?
done
strip "$tmp/types" && block without_debug_information_there_is_no_type wrapper '.type == null'
echo "1..$count"
exit $((failed > 0))
