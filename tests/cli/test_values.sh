#!/bin/sh
# SPDX-License-Identifier: MIT
# test_values.sh TRAPLINE VICTIMS SOURCES VALUES - what an object says of its values is read, or the value
# is refused by name. VALUES: how many of random programs are compared; 0: none. TAP.

# shellcheck source=tests/cli/tap.sh disable=SC2154,SC2034 # trapline, victims and tmp are of there
. "$(dirname "$0")/tap.sh"

folder=$3/values
values=$4
command='break'
need_uprobes
need gcc

# make_c NAME COMPILER FLAG...: $folder/NAME.c becomes $tmp/NAME. False: that compiler cannot.
make_c()
{
	name=$1
	shift
	command -v "$1" >/dev/null && "$@" -w -g "$folder/${name%_*}.c" -o "$tmp/$name" 2>"$tmp/err"
}

# begins NAME: the program prints what is true to $tmp/NAME.truth.
begins()
{
	"$tmp/$1" >"$tmp/$1.truth" &
	pid=$!
	started="$started $pid"
	eventually test -s "$tmp/$1.truth"
}

# Each hit is a line of the truth: `fn a b`.
hits_are_true()
{
	sed -n "s/.*$1(a=\([^,]*\), b=\([^,)]*\)).*/$1 \1 \2/p" "$tmp/out" | sort -u >"$tmp/reported"
	sort -u "$tmp/$2.truth" | comm -23 "$tmp/reported" - >"$tmp/wrong"
	[ -s "$tmp/reported" ] && ! grep -v 'not known\|optimized out' "$tmp/wrong"
}

conventions()
{
	for compiler in gcc clang; do
		for level in -O0 -O2; do
			make_c "convention_$compiler" "$compiler" "$level" ||
				{ skip "$compiler $level" "$compiler"; continue; }
			begins "convention_$compiler"
			for f in plain other; do
				watch -p "$pid" "$f" --args --limit 3
				hits_are_true "$f" "convention_$compiler"
				ok "$compiler $level: ${f}_function_has_true_values_or_none" $?
			done
			watch -p "$pid" plain --if 'a > 0 && b == 1000 + a' --limit 2 --for 20
			grep -q 'plain' "$tmp/out"
			ok "$compiler $level: a_condition_reads_a_plain_function" $?
			kill "$pid"
		done
	done
	if make_c convention_lto clang -O2 -flto -fuse-ld=lld; then
		begins convention_lto
		watch -p "$pid" unused --args --ret --limit 3
		grep -q 'unused(a=<optimized out>, b=[0-9]*) = <not known>' "$tmp/out"
		ok link_time_optimisation_takes_arguments_away $?
		watch -p "$pid" fixed --args --limit 3
		[ "$(grep -c 'fixed(length=[^,]*, is_set=true)' "$tmp/out")" = 3 ]
		ok link_time_optimisation_gives_an_argument_one_value $?
		kill "$pid"
	else
		skip link_time_optimisation_takes_arguments_away 'clang with lld'
		skip link_time_optimisation_gives_an_argument_one_value 'clang with lld'
	fi
}

dynamic()
{
	command=watch
	gcc -g -O1 -shared -fPIC "$folder/copied.c" -o "$tmp/libcopied.so" &&
		gcc -g -DPROGRAM "$folder/copied.c" -L"$tmp" -lcopied -Wl,-rpath,"$tmp" -o "$tmp/copied"
	begins copied
	address=$(sed -n 's/.* at \(0x[0-9a-f]*\).*/\1/p;q' "$tmp/copied.truth")
	watch -p "$pid" shared_total --limit 2 --for 20
	grep -q "$address" "$tmp/err" && grep -q ' -> ' "$tmp/out"
	ok the_copy_that_the_program_uses_is_watched $?
	watch -p "$pid" libcopied.so:shared_total --limit 1 --for 20
	grep -q "$address" "$tmp/err" && grep -q ' -> ' "$tmp/out"
	ok so_it_is_when_the_library_is_named $?
	watch -p "$pid" libcopied.so:only_there --limit 1 --for 20
	grep -q ' -> ' "$tmp/out"
	ok a_variable_without_a_copy_stays_where_it_is $?
	kill "$pid"
	gcc -g -DLOADER "$folder/copied.c" -o "$tmp/loader" -ldl
	(cd "$tmp" && exec ./loader >"$tmp/loader.truth") &
	pid=$!
	started="$started $pid"
	eventually test -s "$tmp/loader.truth"
	wrong a_variable_of_a_file_that_is_loaded_twice_is_several 'is loaded 2 times' -p "$pid" only_there
	command='break'
	watch -p "$pid" bump --args --limit 4 --for 20
	[ "$(grep -c 'bump(n=1)' "$tmp/out")" = 2 ] && [ "$(grep -c 'bump(n=100)' "$tmp/out")" = 2 ]
	ok a_call_in_one_of_two_copies_is_one_hit $?
	kill "$pid"
}

# of_versions FUNCTION ARGUMENT: its calls have that argument; none: it is not called.
of_versions()
{
	watch -p "$pid" "$1" --args --limit 4 --for 2
	[ -z "$2" ] || grep -q "(n=$2)" "$tmp/out" || return 1
	! grep '(n=' "$tmp/out" | grep -qv "(n=${2:-none})"
}

# place_of VARIABLE: where it is watched, and with how many bytes.
place_of()
{
	command=watch
	watch -p "$pid" "$1" --limit 1 --for 1
	command='break'
	sed -n 's/^watching.* (\(.*, \)*\([0-9]* bytes at 0x[0-9a-f]*\)).*/\2/p' "$tmp/err"
}

# versions_of HOW STRIP: the program, and whether the library has its symbols.
versions_of()
{
	rm -f "$tmp/versions.truth" # that of the one before is no answer
	"$tmp/versions_$1" >"$tmp/versions.truth" &
	pid=$!
	started="$started $pid"
	eventually test -s "$tmp/versions.truth"
	copy=$(sed -n 's/total at //p;q' "$tmp/versions.truth")
	watch -p "$pid" libversions.so:step --args --limit 20 --for 2
	case $1 in
	new) ! grep -q 'step@V1' "$tmp/out" && grep -q ' step@@V2(' "$tmp/out" ;;
	old) ! grep -q 'step@@V2' "$tmp/out" && grep -q ' step@V1(' "$tmp/out" ;;
	both) grep -q ' step@@V2(' "$tmp/out" && grep -q ' step@V1(' "$tmp/out" ;;
	esac
	ok "$1, $2: a_call_says_which_version_it_is" $?
	case $1 in new) old='' new=5 ;; old) old=5 new='' ;; both) old=7 new=5 ;; esac
	if [ "$2" = whole ]; then
		of_versions step@V1 "$old" && of_versions libversions.so:step@V2 "$new"
		ok "$1, $2: a_version_that_is_named_is_meant" $?
	fi
	wrong "$1, $2: a_version_that_is_not_there_is_said" "no function is named 'step@V9'" -p "$pid" step@V9
	case $1 in old) bound=total@V1 other=total@@V2 size=4 ;; *) bound=total@V2 other=total@V1 size=8 ;; esac
	[ "$(place_of total)" = "$size bytes at $copy" ] && [ "$(place_of "$bound")" = "$size bytes at $copy" ]
	ok "$1, $2: a_variable_without_version_is_that_of_the_program" $?
	place=$(place_of "$other")
	[ -n "$place" ] && [ "${place#* at }" != "$copy" ]
	ok "$1, $2: the_other_version_is_not_the_copy_of_the_program" $?
	kill "$pid"
}

versions()
{
	command='break'
	printf 'V1 { global: step; total; local: *; };\nV2 { global: step; total; } V1;\n' >"$tmp/versions.map"
	gcc -g -O1 -shared -fPIC "$folder/versions.c" -Wl,--version-script="$tmp/versions.map" \
		-o "$tmp/libversions.so" 2>"$tmp/err"
	for how in new old both; do
		case $how in old) macros='-DPROGRAM -DOLD' ;; both) macros='-DPROGRAM -DBOTH' ;; *) macros=-DPROGRAM ;; esac
		# shellcheck disable=SC2086 # several words
		gcc -g -O1 $macros "$folder/versions.c" -L"$tmp" -lversions -Wl,-rpath,"$tmp" -ldl \
			-o "$tmp/versions_$how" 2>"$tmp/err"
	done
	for how in new old both; do
		versions_of $how whole
	done
	rm -f "$tmp/versions.truth"
	"$tmp/versions_new" >"$tmp/versions.truth" &
	pid=$!
	started="$started $pid"
	eventually test -s "$tmp/versions.truth"
	place=$(place_of total_new)
	[ "${place%% at *}" = '8 bytes' ] && [ "${place#* at }" != "$(sed -n 's/total at //p;q' "$tmp/versions.truth")" ]
	ok a_name_that_the_library_keeps_to_itself_is_its_own_memory $?
	kill "$pid"
	strip "$tmp/libversions.so"
	versions_of both stripped
}

memory()
{
	command=watch
	gcc -g -O1 "$folder/memory.c" -o "$tmp/memory"
	begins memory
	watch -p "$pid" h.len --if 'new > 1000' --limit 3 --for 20
	# What it was before the first one is not known where it changed while the watch was armed.
	[ "$(grep -cE ' (1[0-9]*|\?) -> 1[0-9]* ' "$tmp/out")" = 3 ]
	ok a_packed_member_is_one_value $?
	wrong a_double_in_two_registers_is_refused 'as one value' -p "$pid" h.gain
	wrong a_number_of_16_bytes_is_refused 'as one value' -p "$pid" big
	watch -p "$pid" shared_count --limit 2 --for 20
	watch -p "$pid" '*shared' --limit 2 --for 20
	grep -q ' ? -> ' "$tmp/out"
	ok the_old_value_of_shared_memory_is_not_told $?
	watch -p "$pid" '*shared' --if changed --limit 3 --for 20
	[ "$(grep -c ' ? -> ' "$tmp/out")" = 3 ]
	ok changed_is_not_decided_by_it $?
	watch -p "$pid" own --limit 2 --for 20
	grep -q ' [0-9]* -> [0-9]* ' "$tmp/out"
	ok the_old_value_of_own_memory_is_told $?
	watch -p "$pid" wire.be --limit 1 --for 20
	grep -q '<not read: big-endian, DW_AT_endianity>' "$tmp/out"
	ok a_number_in_another_byte_order_is_refused_by_name $?
	watch -p "$pid" wire.be --if 'new == 1' --limit 1 --for 5
	grep -q 'DW_AT_endianity' "$tmp/err"
	ok a_condition_does_not_read_it $?
	watch -p "$pid" wire.le --if 'new > 0' --limit 1 --for 20
	grep -q ' -> [0-9]' "$tmp/out"
	ok a_number_beside_it_is_read $?
	kill "$pid"
}

narrow()
{
	command=watch
	if ! has_32_bit || ! gcc -m32 -g -O0 "$folder/narrow.c" -o "$tmp/narrow"; then
		skip a_32_bit_program_has_pointers_of_4_bytes 'a 32-bit compiler'
		return
	fi
	begins narrow
	watch -p "$pid" a.next --limit 2 --for 20
	grep -q '4 bytes at' "$tmp/err" && ! grep -q 'main+.* 0x[1-9a-f][0-9a-f]\{8,\}' "$tmp/out"
	ok a_32_bit_program_has_pointers_of_4_bytes $?
	watch -p "$pid" 'words[2]' --limit 1 --for 20
	grep -q '"odd"\|"even"\|0x' "$tmp/out"
	ok an_array_of_them_has_steps_of_4_bytes $?
	kill "$pid"
}

fortran()
{
	command=watch
	if ! command -v gfortran >/dev/null ||
		! gfortran -g -O0 -J "$tmp" "$folder/arrays.f90" -o "$tmp/arrays" 2>"$tmp/err"; then
		skip an_array_begins_where_its_language_says gfortran
		return
	fi
	"$tmp/arrays" >"$tmp/arrays.truth" &
	pid=$!
	started="$started $pid"
	eventually test -s "$tmp/arrays.truth"
	watch -p "$pid" 'row[2]' --limit 2 --for 20
	grep -q ' -> 2[0-9]*' "$tmp/out"
	ok an_array_begins_where_its_language_says $?
	wrong an_index_before_its_begin_is_refused 'expected 1 to 4' -p "$pid" 'row[0]'
	wrong an_array_by_column_is_refused 'DW_AT_ordering' -p "$pid" 'table[1]'
	command='break'
	watch -p "$pid" __data_MOD_step --args --limit 1 --for 20
	grep -q '(n=<not known>)' "$tmp/out"
	ok an_argument_by_reference_is_not_taken_for_the_number $?
	kill "$pid"
}

# Each call of library.cc in turn, without addresses.
library_calls()
{
	cat <<'END'
text(s=@ "hello", v="view", by_value="a text of more than forty bytes, which i...")
wide(w=@ "wïde", u=@ "u16 😀")
sequence(v=@ [1, 2, 3], l=@ [4, 5])
points(p=@ [{.x 1, .y 2, .name "one"}, {.x 3, .y 4, .name "two"}], a=@ [7, 8])
maps(m=@ {"a": 1, "b": 2}, s=@ {5, 6, 7})
hashes(u=@ {7: "seven"})
maybe(p=@ {.x 1, .y 2, .name "inside"}, l=@ {.text "large", .last ...}, n=@ 5)
alternative(c=@ {.index 0, 3})
alternative(c=@ {.index 1, "chosen"})
others(t=@ (4, "tuple"), a=@ 9, b=@ {"base", .more 6})
owners(u=@ @, s=@ @)
lookalikes(o=@, l=@)
text(s=@ "", v="", by_value="")
wide(w=@ "", u=@ "")
sequence(v=@ [], l=@ [])
points(p=@ [], a=@ [0, 0])
maps(m=@ {}, s=@ {})
hashes(u=@ {})
maybe(p=@ nullopt, l=@ nullopt, n=@ nullopt)
owners(u=@ NULL, s=@ NULL)
text(s=@ "", v="", by_value="a text that is long enough for the heap")
maps(m=@ {}, s=@ {1})
sequence(v=@ [2, 2, 2, 2, 2, 2, 2, 2, ... 100000 in all], l=@ [1, 1, 1, 1, 1, 1, 1, 1, ... 1000 in all])
maps(m=@ {"10000": 0, ... 5000 in all}, s=@ {0, ... 100 in all})
text(s=@ <not valid: 6510615555426900570 bytes of text>, v="", by_value="")
sequence(v=@ <not valid: it ends before it begins>, l=@ <not valid: 6510615555426900570 elements>)
maps(m=@ <not valid: 6510615555426900570 elements>, s=@ <not valid: 6510615555426900570 elements>)
hashes(u=@ <not valid: 6510615555426900570 elements>)
alternative(c=@ <no alternative 90 of const choice>)
maybe(p=@ nullopt, l=@ nullopt, n=@ <not valid: engaged is 90>)
sequence(v=@ [], l=@ [77, 77, 77])
maps(m=@ {}, s=@ {88, <no node>, ... 1000 in all})
END
}

# of_library NAME COMPILER...: strings, maps and the like, good and broken, as people read them.
of_library()
{
	name=$1
	shift
	if ! command -v "$1" >/dev/null || ! "$@" -g -O1 "$folder/library.cc" -o "$tmp/$name" 2>"$tmp/err"
	then
		skip "$name: all" "$1"
		return
	fi
	command='break'
	watch text wide sequence points maps hashes maybe alternative others owners lookalikes --args \
		-- "$tmp/$name"
	# The program may have ended before the nodes of a large map are read.
	sed -n 's/^[0-9:.]* *[^ ]* *\([a-z]*(.*)\) .*from .*/\1/p' "$tmp/out" |
		sed 's/0x[0-9a-f]*/@/g
			s/{"10000": 0\(, "1000[1-7]": [1-7]\)*\(, <unreadable>\)*, \.\.\. /{"10000": 0, ... /
			s/{0\(, [1-7]\)*\(, <unreadable>\)*, \.\.\. /{0, ... /' >"$tmp/calls"
	library_calls | diff - "$tmp/calls" >"$tmp/races.json"
	ok "$name: values_of_the_library_are_as_in_the_source_or_not_valid" $?
	watch maybe alternative owners --args --json -- "$tmp/$name"
	grep -q '"p": *{[^}]*"value": *"{\.x 1, \.y 2, \.name \\"inside\\"}"' "$tmp/out" &&
		grep -q '"c": *{[^}]*"value": *"{\.index 1, \\"chosen\\"}"' "$tmp/out"
	ok "$name: json_has_them_beside_the_pointer" $?
}

# chooses NAME CONDITION FUNCTION LINE: the hits of a condition are the call of that function alone.
chooses()
{
	watch "$3" --if "$2" -- "$tmp/$1"
	[ "$(grep -c "^[0-9:.]* .* from " "$tmp/out")" = 1 ] && grep -q " from $4+" "$tmp/out"
	ok "$1: --if '$2'" $?
}

# Smart pointers and strings in conditions; what is no number is refused.
conditions_of_library()
{
	[ -x "$tmp/$1" ] || { skip "$1: conditions" "$1"; return; }
	command='break'
	chooses "$1" 'u == 0' owners 'empty()'
	chooses "$1" 'u && u->x == 11' owners 'good()'
	chooses "$1" 's->y == 22' owners 'good()'
	chooses "$1" 'str(s) == "hello"' text 'good()'
	chooses "$1" 'str(v) == "view"' text 'good()'
	chooses "$1" 'str(u->name) == "unique"' owners 'good()'
	watch owners --if 'str(s->name) == "other"' -- "$tmp/$1"
	! grep -q ' from ' "$tmp/out" && grep -q 'rejected 2 of 2' "$tmp/out" "$tmp/err"
	ok "$1: another_text_is_rejected" $?
	for test in 'v == 5' 's == 5'; do
		watch text --if "$test" -- "$tmp/$1"
		[ $? = 2 ] && grep -q 'a condition compares numbers, but this is' "$tmp/err"
		ok "$1: --if '$test' is refused" $?
	done
}

# Values lead to memory, so that uprobes are used instead of the probes for which the program waits.
always_starts()
{
	[ -x "$tmp/$1" ] || { skip "$1: starts" "$1"; return; }
	command='break'
	for _ in $(seq "$(share 60)"); do
		watch text owners --args -- "$tmp/$1"
		grep -q '^command: exited' "$tmp/out" && break
	done
	! grep -q '^command: exited' "$tmp/out"
	ok "$1: the_program_runs_when_its_probes_are_declined" $?
}

generated()
{
	[ "$values" = 0 ] && return
	python3 "$(dirname "$0")/values.py" "$trapline" "$values" >"$tmp/random" 2>&1
	sed -n 's/^# /# /p' "$tmp/random"
	grep -q '^ok 1 - ' "$tmp/random"
	ok each_value_of_random_programs_is_right_or_refused $?
	grep -q '^ok 2 - ' "$tmp/random"
	ok random_programs_have_values $?
}

conventions
dynamic
versions
memory
narrow
fortran
of_library library_gcc g++ -std=c++17
of_library library_clang clang++ -std=c++20
conditions_of_library library_gcc
always_starts library_gcc
generated
echo "1..$count"
exit $((failed > 0))
