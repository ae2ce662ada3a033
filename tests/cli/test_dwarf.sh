#!/bin/sh
# SPDX-License-Identifier: MIT
# test_dwarf.sh TRAPLINE VICTIMS SOURCES - names in what compilers make of the same sources: every
# version of DWARF and each of the ways to store it. TAP.

# shellcheck source=tests/cli/tap.sh disable=SC2154,SC2034 # trapline, victims and tmp are of there
. "$(dirname "$0")/tap.sh"

sources=$3

# places PLACE...: each gives two hits with a type; the names of those that do not are in $bad.
places()
{
	for place in "$@"; do
		thread=
		case $place in *@*) thread=${place#*@} ;; esac
		watch -p "$pid" "${place%@*}" ${thread:+--thread "$thread"} --limit 2 --for 3 --json &&
			hits 'length == 2 and all(.value.type != null)' || {
			bad="$bad $place"
			sed "s/^/# $place: /" "$tmp/err"
		}
	done
}

# variant NAME COMPILER SOURCE... -- PLACE...
variant()
{
	name=$1
	compiler=$2
	shift 2
	if ! command -v "${compiler%% *}" >/dev/null; then
		skip "$name" "${compiler%% *} is not installed"
		return
	fi
	language=$1
	shift
	case $language in
	c) files="$sources/names.c $sources/names_other.c -pthread" ;;
	*) files="$sources/names_cpp.cc" ;;
	esac
	# shellcheck disable=SC2086 # lists of words
	(cd "$tmp" && $compiler -w $files -o program 2>"$tmp/err")
	victims=$tmp # where start looks
	start program
	bad=
	if [ "$language" = c ]; then
		places 'conn->state' 'conn->mode' 'conn->wide' names.c:same_name count_calls::calls \
			'conn->hidden->secret' 'matrix[1][2]' flags thread_count@worker
	else
		places net::Session::total inline_total net::session.mode 'net::current->base_count' \
			'net::current->Left::common' net::hidden net::reference \
			'net::Box<long>::content' step::step_count
	fi
	kill "$pid"
	wait "$pid" 2>/dev/null
	[ -z "$bad" ] || echo "# not found:$bad"
	[ -z "$bad" ]
	ok "$name" $?
}

variant gcc_without_optimisation "gcc -g -O0" c
variant gcc_not_position_independent "gcc -g -O2 -no-pie" c
variant gcc_static "gcc -g -O1 -static" c
variant gcc_static_pie "gcc -g -O1 -static-pie" c
variant gcc_dwarf_2 "gcc -gdwarf-2 -gstrict-dwarf -O1" c
variant gcc_dwarf_3 "gcc -gdwarf-3 -gstrict-dwarf -O1" c
variant gcc_dwarf_4 "gcc -gdwarf-4 -O1" c
variant gcc_split "gcc -g -O1 -gsplit-dwarf" c
variant gcc_type_units "gcc -g -O1 -fdebug-types-section" c
variant gcc_compressed "gcc -g -O1 -gz" c
variant clang "clang -g -O1" c
variant clang_dwarf_4 "clang -gdwarf-4 -O0" c
variant gcc_cpp_without_optimisation "g++ -g -O0" cpp
variant gcc_cpp_dwarf_4 "g++ -gdwarf-4 -O2" cpp
variant gcc_cpp_type_units "g++ -g -O1 -fdebug-types-section" cpp
variant clang_cpp "clang++ -std=c++17 -g -O1" cpp
variant clang_cpp_split "clang++ -std=c++17 -g -O0 -gsplit-dwarf" cpp

# unreadable NAME PATTERN: debug information that is there and cannot be read is not "none".
command='watch'
unreadable()
{
	victims=$tmp
	start program
	wrong "$1" "$2" -p "$pid" 'conn->state'
	kill "$pid"
	wait "$pid" 2>/dev/null
}
gcc -w -g -O1 -pthread "$sources/names.c" "$sources/names_other.c" -o "$tmp/readable"
# A libelf that reads it gives hits; an objcopy that cannot write it is skipped.
if objcopy --compress-debug-sections=zstd "$tmp/readable" "$tmp/program" 2>"$tmp/err"; then
	start program
	watch -p "$pid" 'conn->state' --limit 1 --for 3
	if [ $? = 0 ]; then
		ok "zstd_is_read" 0
	else
		grep -q 'debug information that is compressed (zstd), which libelf cannot read here: .*objcopy --decompress' "$tmp/err"
		ok "zstd_that_cannot_be_read_is_named" $?
	fi
	kill "$pid"
	wait "$pid" 2>/dev/null
else
	skip "zstd_that_cannot_be_read_is_named" "an objcopy with zstd"
fi
for version in 4 5; do
	(cd "$tmp" && gcc -w -gdwarf-$version -gsplit-dwarf -O1 -pthread "$sources/names.c" "$sources/names_other.c" \
		-o program && rm -f ./*.dwo)
	unreadable "a_missing_dwo_file_is_named_dwarf_$version" 'its debug information in .*\.dwo, which is missing: .*bring that file back'
done
(cd "$tmp" && gcc -w -O1 -pthread "$sources/names.c" "$sources/names_other.c" -o program)
unreadable "none_is_named" 'has no debug information (DWARF): .*build it with -g'

finished
