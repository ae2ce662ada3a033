#!/bin/sh
# SPDX-License-Identifier: MIT
# test_spelled.sh TRAPLINE VICTIMS SOURCES - names of functions as each language spells them, and as people
# shorten them. TAP.

# shellcheck source=tests/cli/tap.sh disable=SC2154,SC2034 # trapline, victims and tmp are of there
. "$(dirname "$0")/tap.sh"

sources=$3
command='break'
need_uprobes
need jq gcc

begin()
{
	program=$1
	"$tmp/$program" >"$tmp/$program.out" &
	pid=$!
	started="$started $pid"
	eventually runs "$pid" "$program"
	eventually test -s "$tmp/$program.out"
}

# means NAME LOCATION FUNCTION...: these functions of the program, and no other.
means()
{
	question=$1
	location=$2
	shift 2
	printf '%s\n' "$@" | sort >"$tmp/expected"
	watch -p "$pid" --list "$location" --json
	jq -r --arg program "$program" 'select(.type == "site" and .module == $program) | .name' \
		"$tmp/out" | sort >"$tmp/names"
	cmp -s "$tmp/expected" "$tmp/names"
	ok "$program: $question" $?
}

not_there()
{
	watch -p "$pid" --list "$2"
	[ $? = 2 ] && grep -Eq "no function (is named|matches) " "$tmp/err"
	ok "$program: $1" $?
}

go_names()
{
	map=$1 # stripped programs have not the arguments of types
	means a_method_by_its_name 'main.(*Acc).Add' 'main.(*Acc).Add'
	means a_pattern_reaches_methods_of_pointers '*Acc*' 'main.(*Acc).Add' 'main.(*BigAcc).Add'
	means a_pattern_with_a_pointer_in_it 'main.(*Acc).*' 'main.(*Acc).Add'
	means the_package_may_be_left_out '(*Acc).Add' 'main.(*Acc).Add'
	means the_pointer_may_be_left_out 'main.Acc.Add' 'main.(*Acc).Add'
	means both_may_be_left_out 'Acc.Add' 'main.(*Acc).Add'
	means a_method_of_a_value 'Value.Next' main.Value.Next
	means arguments_of_types_may_be_left_out main.Map "main.Map[$map]"
	means arguments_of_types_as_the_runtime_has_them '(*Box[...]).Set' "main.(*Box[$map]).Set"
	means the_path_of_a_package_may_be_left_out 'debug.SetTraceback' runtime/debug.SetTraceback
	not_there a_part_of_a_type_is_another_type 'main.(*cc).Add'
	not_there a_package_is_no_function main
	not_there a_pattern_of_a_package_is_no_method 'Acc*'
	watch -p "$pid" 'main.(*Acc).Add' --ret --limit 5 --json
	[ $? = 0 ] && hits 'length == 5 and all(.function == "main.(*Acc).Add" and .duration_ns > 0)'
	ok "$program: returns_are_seen" $?
}

rust_names()
{
	means a_function_in_modules er::work ring::deep::er::work
	means a_method_without_the_arguments_of_its_type Ring::push 'ring::Ring<u64>::push'
	means a_method_with_them 'Ring<u64>::push' 'ring::Ring<u64>::push'
	means a_method_of_a_type Sq::area '<ring::Sq as ring::Shape>::area'
	means a_method_of_a_trait Shape::area '<ring::Sq as ring::Shape>::area' \
		'<ring::Disc as ring::Shape>::area'
	means a_method_of_both '<Disc as Shape>::area' '<ring::Disc as ring::Shape>::area'
	means arguments_of_a_function_may_be_left_out apply 'ring::apply<ring::main::{closure#0}>'
	means the_arrow_of_a_type_closes_nothing call_once \
		'<fn() as core::ops::function::FnOnce<()>>::call_once'
	means a_symbol_of_c_stays _Really _Really
	means a_name_that_refers_to_itself_stays _RNvB_4work _RNvB_4work
	not_there another_type_has_no_such_method Squ::area
	not_there another_trait_has_no_such_method '<Sq as Form>::area'
}

gcc -O1 -g -o "$tmp/spelled" "$sources/spelled.c" 2>"$tmp/err"
begin spelled
rust_names
watch -p "$pid" er::work --limit 2 --stack
[ $? = 0 ] && grep -q '#0  ring::deep::er::work' "$tmp/out"
ok "spelled: frames_have_readable_names" $?
command=watch
watch -p "$pid" touched --limit 2 --stack
[ $? = 0 ] && grep -q '#0  touch (.*) inlined' "$tmp/out" && grep -q '#1  inner\.0+' "$tmp/out"
ok "spelled: a_function_in_a_function_has_its_inlined_frames" $?
command='break'
kill "$pid"

if command -v rustc >/dev/null; then
	rustc -O -g -o "$tmp/spelled_rs" "$sources/spelled.rs" 2>"$tmp/err"
	begin spelled_rs
	command=watch
	watch -p "$pid" TOTAL --limit 2 --stack
	[ $? = 0 ] && grep -q '#0 .*write_volatile' "$tmp/out" &&
		grep -q '#.  spelled::Sum::add (spelled.rs:[0-9]*) inlined' "$tmp/out" &&
		grep -q '#.  spelled::main+' "$tmp/out"
	ok "rust: a_function_in_a_namespace_has_its_inlined_frames" $?
	command='break'
	kill "$pid"
else
	skip 'rust: all' 'rustc is not installed'
fi

if command -v go >/dev/null; then
	(cd "$tmp" && export HOME="$tmp" GOFLAGS=-mod=mod && go build -o go "$sources/spelled.go" &&
		go build -ldflags '-s -w' -o go_stripped "$sources/spelled.go") 2>"$tmp/err"
	begin go
	go_names "$(go tool nm "$tmp/go" | sed -n 's/.*main\.Map\[\(.*\)\]$/\1/p')"
	hits 'all(.ret | type == "number")'
	ok 'go: results_are_known' $?
	kill "$pid"
	begin go_stripped
	go_names ...
	hits 'all(.ret | type != "number")'
	ok 'go_stripped: results_are_not_guessed' $?
	exactly a_name_that_is_not_there_gets_near_names \
		"no function is named 'main.(*Acc).Ad' in go_stripped; did you mean main.(*Acc).Add?" \
		-p "$pid" 'main.(*Acc).Ad' --list
	kill "$pid"
else
	skip 'go: all' 'go is not installed'
fi
finished
