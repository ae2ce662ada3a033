#!/bin/sh
# SPDX-License-Identifier: MIT
# test_spelled.sh TRAPLINE VICTIMS SOURCES - names of functions as each language spells them, and as people
# shorten them. TAP.

# shellcheck source=tests/cli/tap.sh disable=SC2154,SC2034 # trapline, victims and tmp are of there
. "$(dirname "$0")/tap.sh"

sources=$3
command='break'
need_uprobes
need jq

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
