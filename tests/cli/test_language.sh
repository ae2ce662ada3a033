#!/bin/sh
# SPDX-License-Identifier: MIT
# test_language.sh TRAPLINE VICTIMS SOURCES - languages x questions. Each program prints its calls, and
# each value that is reported is one that it printed, or is refused by name. TAP.

# shellcheck source=tests/cli/tap.sh disable=SC2154,SC2034 # trapline, victims and tmp are of there
. "$(dirname "$0")/tap.sh"

sources=$3
command='break'
need_uprobes
need jq

# begins NAME: the program in $tmp runs and prints its calls to $tmp/NAME.truth.
begins()
{
	"$tmp/$1" >"$tmp/$1.truth" &
	pid=$!
	started="$started $pid"
	eventually runs "$pid" "$1"
	eventually test -s "$tmp/$1.truth"
}

# What was read later is marked, and is what was there by then. later=true compares it all the same.
later='.args_when == null'

# truth QUESTION FUNCTION JQ [OPTION...]: 20 calls, each as jq prints it is a line of the program.
truth()
{
	question=$1
	function=$2
	form=$3
	shift 3
	timeout 60 "$trapline" break -p "$pid" "$function" --args --ret --limit 20 --json "$@" \
		>"$tmp/out" 2>"$tmp/err"
	# The last call prints its line when it has returned.
	sleep 0.2
	jq -r "select(.type == \"hit\" and .duration_ns != null) | select($later) | $form" "$tmp/out" |
		sort -u >"$tmp/reported"
	sort -u "$tmp/$program.truth" >"$tmp/printed"
	comm -23 "$tmp/reported" "$tmp/printed" | sed 's/^/# not printed by the program: /' |
		tee "$tmp/wrong"
	[ -s "$tmp/reported" ] && [ ! -s "$tmp/wrong" ]
	ok "$program: $question" $?
}

# refused QUESTION FUNCTION JQ: each of the hits fulfils it.
refused()
{
	timeout 60 "$trapline" break -p "$pid" "$2" --args --ret --limit 5 --json >"$tmp/out" \
		2>"$tmp/err"
	jq -es "map(select(.type == \"hit\")) | length > 0 and all($3)" "$tmp/out" >/dev/null
	ok "$program: $1" $?
}

go_language()
{
	program=go
	if ! command -v go >/dev/null; then
		skip 'go: all' 'go is not installed'
		return
	fi
	(cd "$tmp" && HOME=$tmp GOFLAGS=-mod=mod go build -o go "$sources/language_go.go" 2>"$tmp/err")
	begins go
	truth numbers main.plain '"plain \(.args.n) \(.args.b) \(.args.c) \(.ret)"'
	later=true # each round has memory of its own
	truth strings_and_slices main.text \
		'"text \(.args.s) \(.args.list | gsub(","; "")) \(.ret[0]) \(.ret[1])"'
	later='.args_when == null'
	# shellcheck disable=SC2016 # names of jq
	truth structs_and_interfaces main.member '(.args.p + .ret[0] | [scan("-?[0-9]+")] | join(" ")) as $n |
		"member \($n) \(.ret[1] != "nil")"'
	truth more_arguments_than_registers main.many '"many \(.args.a) \(.ret[0]) \(.ret[1])"'
	truth a_condition_by_names main.plain '"plain \(.args.n) \(.args.b) \(.args.c) \(.ret)"' \
		--if 'n == 302 && c == 7'
	[ "$(jq -s 'map(select(.type == "hit")) | length > 0 and all(.args.n == 302)' "$tmp/out")" = true ]
	ok 'go: a_condition_rejects_other_values' $?
	truth a_package_variable_in_a_condition main.plain \
		'"plain \(.args.n) \(.args.b) \(.args.c) \(.ret)"' --if 'main.counter > 0'
	"$trapline" watch -p "$pid" --list main.counter main.corner.Y >"$tmp/out" 2>"$tmp/err"
	grep -q '^main.counter *int64 *8' "$tmp/out" && grep -q '^main.corner.Y *int32 *4' "$tmp/out"
	ok 'go: package_variables_and_their_members_have_types' $?
	truth a_call_that_panics_has_no_result_of_another main.fails '"fails \(.args.n) \(.ret)"'
	refused a_float_is_refused_and_not_wrong main.number \
		'.args.f == null and .ret == null and .args.n >= 300'
	refused a_goroutine_is_named main.plain '.thread | test("^goroutine [0-9]+$")'
	refused the_caller_is_known main.plain '.caller.function == "main.line"'
	timeout 60 "$trapline" break -p "$pid" main.plain --if 'arg0 == 1' 2>"$tmp/err"
	[ $? = 2 ] && grep -q 'cannot use arg0 to arg5 in --if: main.plain is Go' "$tmp/err"
	ok 'go: registers_of_C_are_refused' $?
	kill "$pid"
	"$tmp/go" moves &
	pid=$!
	started="$started $pid"
	eventually runs "$pid" go
	refused a_result_belongs_to_its_call_while_stacks_move main.recurse \
		'.ret == null or .ret == .args.n'
	kill "$pid"
}

# rust NAME OPTION...
rust_language()
{
	program=$1
	shift
	if ! command -v rustc >/dev/null; then
		skip "$program: all" 'rustc is not installed'
		return
	fi
	(cd "$tmp" && rustc -g "$@" -o "$program" "$sources/language_rust.rs" 2>"$tmp/err")
	begins "$program"
	truth an_enum_by_variant kind '"kind \(.args.n) \(.ret)"'
	truth a_result_by_variant Account::pay '"paid \(.ret)"'
	refused an_argument_behind_a_result_that_may_have_an_address three '.args.n == null or (.args.n >= 300 and .args.n < 305)'
	if [ "$program" = rust ]; then
		truth results_of_arguments Account::pay '"pay \(.args.cents) \(.ret)"'
		truth numbers_and_options language_rust::plain \
			'"plain \(.args.n) \(.args.b) \(.args.o) \(.ret)"'
		truth strings_and_slices text '"text \(.args.s) \(.args.v) \(.ret)"'
		truth structs member '"member \(.args.p) \(.args.d) \(.ret)"'
		refused a_float_is_refused_and_not_wrong number '.args.f == null and .ret == null'
	fi
	kill "$pid"
}

# A condition reads a container at each hit; the same value is in the result of the call.
holds()
{
	timeout 60 "$trapline" break -p "$pid" plain --args --ret --limit 10 --json --if "$1" \
		>"$tmp/out" 2>"$tmp/err"
	jq -es 'map(select(.type == "hit" and .ret != null)) |
		length > 0 and all(.args.n % 5 == 3)' "$tmp/out" >/dev/null
	ok "$program: $1" $?
}

# says NAME REGEX VARIABLE: the variable is not watched, for this reason.
says()
{
	timeout 60 "$trapline" watch -p "$pid" --list "$3" >"$tmp/out" 2>"$tmp/err"
	grep -q "$2" "$tmp/err"
	ok "$program: $1" $?
}

# cpp NAME COMPILER...
cpp_language()
{
	program=$1
	shift
	if ! command -v "$1" >/dev/null; then
		skip "$program: all" "$1 is not installed"
		return
	fi
	if ! "$@" -std=c++17 -g -O1 -o "$tmp/$program" "$sources/language_cpp.cc" 2>"$tmp/err"; then
		skip "$program: all" "the headers of $* are not installed"
		return
	fi
	begins "$program"
	truth numbers plain '"plain \(.args.n) \(.args.b) \(.ret)"'
	truth long_doubles_and_pairs_on_the_stack wide '"wide \(.args.f) \(.args.p) \(.ret)"'
	# LLVM leaves out where an optional argument is, and its library has a string of another form.
	if [ "$program" = cpp_llvm ]; then
		refused an_optional_by_its_value_or_not_known maybe \
			'.args.o == null or .args.o == "nullopt" or (.args.o | tostring) == (.args.n | tostring)'
	else
		truth an_optional_by_its_value maybe '"maybe \(.args.o) \(.args.n) \(.ret)"'
		holds "name[0] == 'd'"
	fi
	refused a_name_without_its_tag_is_found tagged \
		'.function | test("tagged$")'
	# The class goes by its address; the library of LLVM has a string of another form.
	[ "$program" = cpp_llvm ] ||
		refused classes_go_by_their_addresses tagged '.args.s == "\"a\"" and .args.n < 60'
	holds 'numbers[1] == 3'
	holds 'fixed[2] == 3'
	holds 'owner->next->value == 3'
	holds '(*shared).value == 3'
	says an_element_behind_the_last_is_refused 'has 3 elements now, and none is 3' 'numbers[3].*'
	says what_is_no_pointer_is_refused "'->' needs a pointer before it" 'numbers->x.*'
	refused a_float_is_refused_and_not_wrong number '.args.f == null and .ret == null'
	kill "$pid"
}

# abi NAME COMPILER...: values that the calling convention of C treats in ways of their own.
abi_language()
{
	program=$1
	shift
	if ! command -v "$1" >/dev/null; then
		skip "$program: all" "$1 is not installed"
		return
	fi
	"$@" -g -o "$tmp/$program" "$sources/language_abi.c" 2>"$tmp/err"
	begins "$program"
	refused a_vector_is_refused_and_not_wrong vector '.args.v == null and .args.n >= 100'
	truth numbers_behind_a_vector vector '"vector \(.args.n) \(.ret)"'
	truth numbers_behind_complex_ones complexes '"complexes \(.args.n) \(.ret)"'
	truth a_struct_in_registers_of_two_kinds halves \
		'"halves \(.args.m | gsub("<[^>]*>"; "null")) \(.args.n) \(.ret)"'
	truth a_struct_without_alignment unaligned '"unaligned \(.args.p) \(.args.n) \(.ret)"'
	truth a_packed_result_has_an_address packed_result '"packed_result \(.args.n)"'
	truth a_result_in_registers_of_two_kinds mixed_result \
		'"mixed_result \(.args.n) \(.ret | gsub("<[^>]*>"; "null"))"'
	truth control_characters_are_themselves text_result '"text_result \(.args.n) \(.ret)"'
	# jq 1.7 keeps the digits of a number until it computes with it: 24.0 is 24 after that.
	truth the_ninth_float_is_on_the_stack nine \
		'"nine \(.args.i + 0) \(.args.n) \(.args.j) \(.ret)"'
	case $1 in
	clang)
		# It puts some of these where the convention has no place for them.
		refused a_split_number_is_refused_and_not_wrong wide_pairs \
			'.args.f == null and .args.g == null and .args.e == 5'
		;;
	*)
		truth alignment_on_the_stack on_the_stack \
			'"stack \(.args.a) \(.args.g) \(.args.h) \(.args.i) \(.args.k) \(.args.l) \(.ret)"'
		truth numbers_of_16_bytes_on_the_stack wide_pairs \
			'"wide_pairs \(.args.a) \(.args.e) \(.args.f) \(.args.g) \(.args.h) \(.args.i) \(.ret)"'
		;;
	esac
	refused a_result_that_was_left_out_is_not_made_up ignored \
		'.ret == null or .ret == 3 * .args.n'
	truth numbers_of_16_bytes wide '"wide \(.args.a) \(.args.n) \(.ret)"'
	kill "$pid"
}

# Frames of code that a runtime made, by the file that it writes for perf.
jit_language()
{
	if ! command -v node >/dev/null; then
		skip 'javascript: all' 'node is not installed'
		return
	fi
	cat >"$tmp/program.js" <<'END'
const fs = require('fs');
const fd = fs.openSync('/dev/null', 'w');
function named_in_the_map(fd) { fs.writeSync(fd, 'x'); }
function outer(fd) { named_in_the_map(fd); }
for (let i = 0; i < 20000; i++) outer(fd);
setInterval(() => { for (let i = 0; i < 50; i++) outer(fd); }, 20);
END
	node --perf-basic-prof "$tmp/program.js" &
	pid=$!
	started="$started $pid"
	map=/tmp/perf-$pid.map
	eventually grep -q 'named_in_the_map' "$map"
	# The engine puts one function into another as it likes: both are in this file.
	eventually jit_frames 'any(.stack[]; .function // "" | test("program\\.js"))'
	ok 'javascript: frames_have_the_names_of_the_map' $?
	chown nobody "$map"
	jit_frames 'all(.stack[]; .function // "" | test("program\\.js") | not)'
	ok 'javascript: a_map_of_another_user_is_not_read' $?
	kill "$pid"
	rm -f "$map"
}

# The same by what runtimes have for gdb.
jit_of_gdb()
{
	cc -g -O1 -o "$tmp/jit_gdb" "$sources/jit_gdb.c"
	for how in '' lies; do
		"$tmp/jit_gdb" $how &
		pid=$!
		started="$started $pid"
		eventually grep -q jit_gdb "/proc/$pid/maps"
		timeout 60 "$trapline" watch -p "$pid" made --limit 3 --json >"$tmp/out" 2>"$tmp/err"
		if [ -z "$how" ]; then
			hits 'length == 3 and all(.function == "runtime::made(long volatile*, long)" and .offset <= 4)'
			ok 'runtime: code_has_the_names_that_are_kept_for_gdb' $?
		else
			hits 'length == 3 and all(.function == null)'
			ok 'runtime: a_list_without_end_is_read_up_to_its_bound' $?
		fi
		kill "$pid"
	done
}

jit_frames()
{
	timeout 60 "$trapline" break -p "$pid" libc.so.6:write --stack --limit 5 --json >"$tmp/out" \
		2>"$tmp/err"
	jq -es "map(select(.type == \"hit\")) | length > 0 and all(.[]; $1)" "$tmp/out" >/dev/null
}

go_language
jit_language
jit_of_gdb
cpp_language cpp g++
cpp_language cpp_llvm clang++ -stdlib=libc++
abi_language abi gcc -O0
abi_language abi_optimised gcc -O2
abi_language abi_llvm clang -O1
rust_language rust
rust_language rust_optimised -O
finished
