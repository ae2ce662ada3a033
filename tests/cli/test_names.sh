#!/bin/sh
# SPDX-License-Identifier: MIT
# test_names.sh TRAPLINE VICTIMS - `trapline watch` by name, with values by type. TAP.
# Needs the right to watch another process (root, or perf_event_paranoid <= 2 for one's own).

# shellcheck source=tests/cli/tap.sh disable=SC2154 # trapline, victims and tmp come from there
. "$(dirname "$0")/tap.sh"

start names
c=$pid
start names_cpp
cpp=$pid

# place NAME WHAT TYPE EXPRESSION: four hits of WHAT, whose type is TYPE, and EXPRESSION holds for
# the array of the last three. The old value of the first was read when we came, and may be that of
# another write since.
place()
{
	watch -p "$c" "$2" --limit 4 --json
	[ $? = 0 ] && hits "length == 4 and all(.value.type == \"$3\") and (.[1:] | $4)"
	ok "$1" $?
}
# An old value is unknown while threads are being armed, which is over soon.
by_one='any(.old != null) and all(.old == null or .value.new == .value.old + 1)'

place "an_enum_is_shown_by_name" 'conn->state' 'enum state' \
	'all(.value.new == "OPEN" or .value.new == "CLOSED") and all(.function == "write_conn")'
place "a_plain_number_stays_beside_the_typed_value" 'conn->state' 'enum state' \
	'all(.new == 1 or .new == 10) and all(.len == 4)'
place "flags_are_shown_by_name" flags 'enum flags' \
	'all(.value.new == "FLAG_READ|FLAG_SYNC" or .value.new == "FLAG_WRITE")'
place "a_typedef_keeps_its_name" color color_t 'all(.value.new == "RED" or .value.new == "GREEN")'
place "a_nested_member_is_found" 'conn->meta.load' double 'all(.value.new * 4 | floor == .)'
place "a_float_is_a_number" ratio float 'all(.value.new > 0)'
place "an_anonymous_union_is_looked_into" 'conn->as_int' int 'all(.value.new == .new)'
place "an_element_of_an_array_is_found" 'table[3].next' 'struct conn *' \
	'all(.value.new.symbol | test("^table(\\+0x[0-9a-f]+)?$"))'
place "arrays_of_arrays_are_indexed" 'matrix[1][2]' int "$by_one"
place "an_index_may_be_a_variable" 'matrix[1][current]' int "$by_one"
place "a_pointer_to_a_function_has_its_name" callback 'void (*)()' \
	'all(.value.new.symbol == "on_read" or .value.new.symbol == "on_write")'
place "a_string_is_read" 'conn->peer' 'const char *' \
	'all(.value.new.string == "alpha" or .value.new.string == "beta")'
place "a_null_pointer_is_null" message 'const char *' \
	'any(.value.new == null) and any(.value.new.string == "hello")'
# A compiler may store the number first and mask the byte in place: that is two writes, and a byte that is
# neither 0 nor 1 is shown as the number it is.
place "a_boolean_is_true_or_false" 'conn->is_ready' bool \
	'all(.value.new == (if .new == 0 then false elif .new == 1 then true else .new end)) and
	any(.value.new | type == "boolean")'
place "text_is_text" text 'char[8]' 'all(.value.new | test("^[A-Z]$"))'
place "a_small_struct_is_shown_by_member" position 'struct point' \
	'any(.old != null) and
	all(.value.new.x == 0 and (.old == null or .value.new.y == .value.old.y + 1))'
place "a_negative_number_has_its_sign" small_number short 'all(.value.new < .value.old or .value.old < 0)'
place "what_another_file_defines_has_its_members" 'conn->hidden->secret' long "$by_one"
place "a_static_variable_is_chosen_by_its_file" names_other.c:same_name long \
	'all(.function == "other_round")'
place "the_other_of_the_same_name_too" names.c:same_name long \
	'any(.old != null) and
	all(.function == "write_globals" and (.old == null or .value.new == .value.old + 2))'
place "a_static_variable_in_a_function_is_found" count_calls::calls int \
	'all(.function == "count_calls")'
place "a_pointer_to_a_pointer_is_followed" '(*conn_list)->as_int' int 'all(.function == "write_conn")'
place "an_offset_finds_the_member_that_is_there" position+4 int "$by_one"

address=$("$trapline" watch -p "$c" --list conn --json |
	jq -r 'select(.name == "first_conn") | .address')
place "an_address_can_be_given_a_type" "((struct conn *)$address)->as_int" int \
	'all(.function == "write_conn")'

# --- bit-fields: the bytes are shared with other fields ---
watch -p "$c" 'conn->mode' --limit 6 --json
[ $? = 0 ] && hits 'length == 6 and all(.value.new >= 0 and .value.new < 4) and
	all(.value.old != .value.new or .old == .new) and any(.function == "write_mode")' &&
	hits '.[1:] | all(.function == "write_mode" or .old == .new)' &&
	summary '.rejected_by.condition > 0'
ok "a_bit_field_hits_when_it_changes_and_not_when_its_neighbours_do" $?

watch -p "$c" 'conn->mode' --limit 4 --json --no-bpf
[ $? = 0 ] && hits 'length == 4 and all(.value.new >= 0 and .value.new < 4)'
ok "a_bit_field_is_shown_without_bpf_too" $?

watch -p "$c" 'conn->delta' --limit 8 --json
[ $? = 0 ] && hits 'all(.value.new >= -7 and .value.new <= 0) and any(.value.new < 0)'
ok "a_signed_bit_field_has_its_sign" $?

watch -p "$c" 'conn->wide' --limit 2 --json
[ $? = 0 ] && hits 'all(.value.new % 1048576 == 0)'
ok "a_wide_bit_field_takes_several_bytes" $?

# --- text as people see it ---
watch -p "$c" 'conn->state' --limit 2
[ $? = 0 ] && grep -Eq ' (OPEN|CLOSED) -> (OPEN|CLOSED) +w( |$)' "$tmp/out" &&
	grep -q '^watching writes of conn->state (enum state, 4 bytes at 0x[0-9a-f]*; conn = 0x' "$tmp/err"
ok "the_text_has_the_names_too_and_says_which_pointers_were_read" $?

# Of the first hit the old value may be unknown: then all is shown.
watch -p "$c" position --limit 4
[ $? = 0 ] && [ "$(grep -Ec '  \.y [0-9]+ -> [0-9]+ +w( |$)' "$tmp/out")" -ge 2 ] &&
	! grep -F .x "$tmp/out" | grep -Evq '  \.x \? -> 0, \.y \? -> [0-9]+ +w( |$)'
ok "of_a_struct_only_what_changed_is_shown" $?

# --- threads ---
watch -p "$c" thread_count --thread worker --limit 3 --json
[ $? = 0 ] && hits 'all(.thread == "worker" and .value.new % 1000 == 0)'
ok "a_thread_local_variable_of_a_thread_by_name" $?

watch -p "$c" thread_count --thread "$c" --limit 3 --json
[ $? = 0 ] && hits "all(.tid == $c) and (.[1:] | $by_one)"
ok "a_thread_local_variable_of_a_thread_by_id" $?

watch -p "$cpp" local_depth --limit 2 --json
[ $? = 0 ] && hits 'all(.value.type == "int")'
ok "of_the_only_thread_without_being_asked" $?

wrong "of_several_threads_one_must_be_chosen" \
	"'thread_count' is thread-local: choose a thread with --thread TID or NAME (names/$c, worker/[0-9]*)$" -p "$c" thread_count
wrong "a_thread_that_is_not_there_is_said" "'thread_count' is thread-local: no thread is named 'nobody' (there are names/$c, worker/[0-9]*)$" -p "$c" thread_count --thread nobody
exactly thread_is_for_thread_local_variables "--thread needs a thread-local variable, and conn is not thread-local" -p "$c" conn --thread worker

# --- C++ ---
for what in 'net::Session::total' 'Session::total' 'net::Session::inline_total' \
	'net::session.mode' 'net::current->is_open' 'net::current->base_count' \
	'net::current->Left::common' 'net::current->net::Right::common' 'net::inner::depth' \
	'net::hidden' 'net::reference' 'net::current->alias' 'net::Box<long>::content' \
	'net::box.value' 'step::step_count'; do
	watch -p "$cpp" "$what" --limit 2 --json
	[ $? = 0 ] && hits 'length == 2 and all(.function == "step(int)") and all(.value.type != null)'
	ok "cpp: $what" $?
done
watch -p "$cpp" 'net::session.mode' --limit 3 --json
[ $? = 0 ] && hits 'all(.value.new == "Slow" or .value.new == "Fast")'
ok "an_enum_class_of_one_byte_is_shown_by_name" $?

# --- from the start of a command ---
watch 'conn->state' --limit 4 --json -- "$victims/names" 20
[ $? = 0 ] && hits '.[0].value == {"type": "enum state", "old": "IDLE", "new": "OPEN"}'
ok "a_command_is_watched_by_name_from_its_first_write" $?

# --- lists ---
watch -p "$c" --list 'conn->*' --json
[ $? = 0 ] && jq -e -s 'any(.name == "conn->state" and .value_type == "enum state" and .len == 4)
	and any(.name == "conn->low" and .value_type == "unsigned int : 3")
	and all(.type == "variable")' "$tmp/out" >/dev/null
ok "the_members_of_a_struct_are_listed" $?

watch -p "$c" --list 'same' --json
[ $? = 0 ] && jq -e -s '[.[].where] | sort | (.[0] | test("^names.c:[0-9]+$")) and
	(.[1] | test("^names_other.c:[0-9]+$"))' "$tmp/out" >/dev/null
ok "variables_are_listed_with_file_and_line" $?

watch -p "$cpp" --list 'net::*'
[ $? = 0 ] && grep -Eq '^net::Session::total +long +8  names_cpp.cc:[0-9]+ +0x[0-9a-f]+$' "$tmp/out"
ok "the_list_is_a_table" $?

watch --list 'table' -- "$victims/names"
[ $? = 0 ] && grep -q '^table .*struct conn\[4\]' "$tmp/out"
ok "what_a_command_has_is_listed_before_it_runs" $?

exactly a_list_of_nothing_is_said "no variable matches 'zzz'" -p "$c" --list zzz

# --- conditions ---
watch -p "$c" 'conn->state' --if 'new == CLOSED && conn->as_int % 2 == 1' --limit 2 --json
[ $? = 0 ] && hits 'all(.value.new == "CLOSED")' && summary '.rejected_by.condition > 0'
ok "constants_and_members_stand_in_conditions" $?

watch -p "$c" big_number --if 'str(conn->peer) == "beta" && names.c:same_name > 0' --limit 2 --json
[ $? = 0 ] && hits 'length == 2 and all(.new == null | not)' && summary '.rejected_by.condition > 0'
ok "strings_and_files_stand_in_conditions" $?

watch -p "$c" 'conn->delta' --if 'new < -3 && changed' --limit 3 --json
[ $? = 0 ] && hits 'all(.value.new < -3 and .value.new != .value.old)'
ok "new_is_the_field_with_its_sign" $?

watch -p "$c" big_number --if 'no_conn->state == OPEN' --for 0.3 --json
[ $? = 0 ] && summary '.delivered == 0 and .condition_faults > 0'
ok "a_null_pointer_in_a_condition_is_counted" $?

watch -p "$c" big_number --if 'conn->stat == 1'
[ $? = 2 ] && head -n 1 "$tmp/err" | grep -q 'column 5: struct conn has no member .stat.; did you mean state, tag?$' &&
	tail -n 1 "$tmp/err" | grep -q '^      ^$'
ok "an_unknown_member_in_a_condition_is_shown" $?

watch -p "$c" ratio --if 'new > .25f && -1.5 < new' --limit 3 --json
[ $? = 0 ] && hits 'length == 3 and all(.value.new > 0.25)'
ok "a_float_is_compared_with_constants" $?

watch -p "$c" ratio --if 'new <= 0 || new > 1e30f' --for 0.3 --json
[ $? = 0 ] && summary '.delivered == 0 and .rejected_by.condition > 0'
ok "a_float_outside_of_a_range_is_rejected" $?

watch -p "$c" temperature --if 'new > old && conn->meta.load >= 0' --limit 3 --json
[ $? = 0 ] && hits 'length == 3 and all(.value.new > .value.old)'
ok "doubles_are_compared_with_each_other" $?

watch -p "$c" temperature --if 'new != new' --for 0.3 --json
[ $? = 0 ] && summary '.delivered == 0 and .rejected_by.condition > 0 and .condition_faults == 0'
ok "no_number_differs_from_itself" $?

watch -p "$c" temperature --if 'new * 2 - old + conn->meta.load >= (double)new' --limit 3 --json
[ $? = 0 ] && hits 'length == 3 and all(.value.new * 2 > .value.old)'
ok "doubles_are_added_and_multiplied" $?

watch -p "$c" big_number --if 'conn->meta.load % 2 > 1'
[ $? = 2 ] && head -n 1 "$tmp/err" |
	grep -q 'column 1: a whole number is needed here, and this is a floating-point number; (s64) before it cuts it$'
ok "a_remainder_of_doubles_is_refused" $?

# --- names of other languages, and 32-bit programs ---
start foreign
foreign=$pid
watch -p "$foreign" main.counter --limit 2 --json
[ $? = 0 ] && hits 'length == 2 and all(.function == "r::Acc::pay")'
ok "a_variable_of_go_is_found_although_its_package_is_a_function" $?
wrong a_member_of_a_function_is_refused "'main' is a function: use trapline break, or give its address 0x[0-9a-f]* to watch its bytes$" \
	-p "$foreign" main.nothing
kill "$foreign"

if has_32_bit; then
	"$victims/narrow" &
	narrow=$!
	started="$started $narrow"
	eventually runs "$narrow" narrow
	watch -p "$narrow" narrow_count --limit 3 --json
	[ $? = 0 ] && hits 'length == 3 and all(.value.type == "int" and .function == "add_item") and (.[1:] | '"$by_one"')'
	ok "a_variable_of_a_32_bit_program_can_be_watched" $?
	exactly a_pointer_of_a_32_bit_program_is_refused \
		"cannot follow the pointer head: narrow is a 32-bit program; give the address that it points to" -p "$narrow" 'head->number'
	exactly a_stack_of_a_32_bit_program_is_refused \
		"cannot use --stack: narrow is a 32-bit program, whose registers and stack would be read wrong" -p "$narrow" narrow_count --stack
	watch -p "$narrow" narrow_count --if 'head->number == 2'
	[ $? = 2 ] && grep -q 'column 1: a condition cannot follow a pointer of a 32-bit program$' "$tmp/err"
	ok "a_condition_on_a_pointer_of_a_32_bit_program_is_refused" $?
else
	skip "32_bit_programs" "a compiler and a kernel for 32-bit programs"
fi

# --- what cannot be watched ---
exactly two_of_the_same_name_are_told_apart \
	"2 variables are named 'same_name': give one of names.c:same_name, names_other.c:same_name" -p "$c" same_name
exactly an_unknown_member_gets_near_names "'conn->stat', column 5: struct conn has no member 'stat'; did you mean state, tag?" \
	-p "$c" 'conn->stat'
exactly an_unknown_variable_gets_near_names "no variable is named 'cnon' in names; did you mean conn?" -p "$c" 'cnon->state'
exactly an_unknown_variable_without_near_names "no variable is named 'zzzzqqq' in names; trapline watch --list shows the variables" \
	-p "$c" zzzzqqq
exactly a_null_pointer_is_said "the pointer no_conn is NULL now: there is nothing to watch" -p "$c" 'no_conn->state'
exactly an_element_that_is_not_there_is_said "'table[4].fd', column 6: struct conn[4] has no element 4: expected 0 to 3" -p "$c" 'table[4].fd'
exactly a_dot_behind_a_pointer_is_said \
	"'conn.state', column 5: '.' needs a struct before it, but this is struct conn *, a pointer: use ->" -p "$c" 'conn.state'
exactly an_arrow_behind_a_struct_is_said \
	"'position->x', column 9: '->' needs a pointer before it, but this is struct point: use ." -p "$c" 'position->x'
exactly a_constant_is_said "'fixed_number' has no address: the compiler put its value, 42, into the code" -p "$c" fixed_number
exactly an_optimised_out_variable_is_said "'never_used' has no address: the compiler optimised it away" -p "$c" never_used
exactly a_local_variable_is_said \
	"'main::rounds' is a local variable, so it has no fixed address; watch it in each frame: FUNCTION:rounds" -p "$c" rounds
wrong "a_function_is_said" "'write_conn' is a function: use trapline break, or give its address 0x[0-9a-f]* to watch its bytes$" -p "$c" write_conn
exactly an_unknown_type_is_said "'*(struct foo *)0x1000', column 2: no type is named 'struct foo' in names" -p "$c" '*(struct foo *)0x1000'
exactly an_address_without_a_type_is_said \
	"the type at that address is not known: give it, as in *(type *)0x..., or give the address and a length, as in 0x...:8" -p "$c" '*0x1000'
exactly two_bases_with_the_member_are_told_apart \
	"'net::current->common', column 13: two base classes of net::Session have a member 'common': give Base::common" \
	-p "$cpp" 'net::current->common'
exactly an_error_has_its_column \
	"invalid EXPR 'conn ->', column 8: expected a member's name after '->', but the text ends; see trapline watch --help" -p "$c" 'conn ->'
wrong "an_assignment_is_refused" "invalid EXPR 'conn = 1', column 6: expected " -p "$c" 'conn = 1'
exactly what_the_shell_took_is_guessed \
	"invalid EXPR 'conn-': it ends in '-'; quote EXPR, as in 'conn->member', since the shell takes an unquoted '>'" -p "$c" conn-

# --- without debug information, and with it in another place ---
cp "$victims/names" "$tmp/names"
mkdir "$tmp/apart" "$tmp/.debug"
objcopy --only-keep-debug "$tmp/names" "$tmp/apart/names.debug"
cp "$tmp/names" "$tmp/full"
strip "$tmp/names"
victims=$tmp
start names
watch -p "$pid" 'conn->state'
[ $? = 2 ] && grep -q "^trapline watch: names is stripped: it names no variable 'conn'; install its debug symbols (.*), or give an address$" "$tmp/err"
ok "a_stripped_program_has_no_names" $?

cp "$tmp/full" "$tmp/symbols"
strip -g "$tmp/symbols"
start symbols
symbols=$pid
wrong "members_need_debug_information" "symbols has no debug information (DWARF)" \
	-p "$symbols" 'first_conn.state'
watch -p "$symbols" big_number --limit 2 --json
[ $? = 0 ] && grep -q 'note: symbols has no debug information (DWARF)' "$tmp/err" &&
	hits 'all(.value == null and .len == 8)'
ok "symbols_serve_without_debug_information_and_this_is_said" $?

id=$(readelf -n "$tmp/full" | sed -n 's/.*Build ID: //p')
objcopy --add-gnu-debuglink="$tmp/apart/names.debug" "$tmp/names" "$tmp/linked"
cp "$tmp/apart/names.debug" "$tmp/.debug/names.debug"
start linked
watch -p "$pid" 'conn->state' --limit 2 --json
[ $? = 0 ] && hits 'all(.value.type == "enum state")'
ok "a_debug_file_beside_the_program_is_used" $?

build_id_dir=/usr/lib/debug/.build-id/$(echo "$id" | cut -c 1-2)
build_id_file=$build_id_dir/$(echo "$id" | cut -c 3-).debug
if [ -n "$id" ] && [ ! -e "$build_id_file" ] && mkdir -p "$build_id_dir" 2>/dev/null &&
	mv "$tmp/.debug/names.debug" "$build_id_file" 2>/dev/null; then
	start names
	watch -p "$pid" 'conn->state' --limit 2 --json
	[ $? = 0 ] && hits 'all(.value.type == "enum state")'
	ok "a_debug_file_by_build_id_is_used" $?
	rm -f "$build_id_file"
	rmdir "$build_id_dir" 2>/dev/null
else
	skip "a_debug_file_by_build_id_is_used" "/usr/lib/debug cannot be written"
fi

# Two programs whose common debug information dwz moved to a third file.
if command -v dwz >/dev/null; then
	cp "$tmp/full" "$tmp/dwz1"
	cp "$tmp/full" "$tmp/dwz2"
	dwz -m "$tmp/common" "$tmp/dwz1" "$tmp/dwz2" 2>"$tmp/err" &&
		readelf -S "$tmp/dwz1" | grep -q gnu_debugaltlink && start dwz1 &&
		watch -p "$pid" 'conn->hidden->secret' --limit 2 --json &&
		hits 'all(.value.type == "long")' &&
		watch -p "$pid" "((struct conn *)$address)->state" --for 0.1
	ok "debug_information_that_programs_share_is_used" $?
else
	skip "debug_information_that_programs_share_is_used" "dwz is not installed"
fi

if command -v redis-server >/dev/null; then
	redis-server --port 0 --save '' --unixsocket "$tmp/redis.sock" >/dev/null 2>&1 &
	pid=$!
	started="$started $pid"
	sleep 0.5
	wrong "redis_of_debian_has_no_debug_information" "redis-server has no debug information (DWARF)" \
		-p "$pid" server.stat_numcommands
else
	skip "redis_of_debian_has_no_debug_information" "redis-server is not installed"
fi

finished
