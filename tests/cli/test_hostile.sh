#!/bin/sh
# SPDX-License-Identifier: MIT
# test_hostile.sh TRAPLINE VICTIMS SOURCES PROBE - programs with debug information, tables and names of
# files that were made to harm their reader: it comes to an end, and says what it does not know. TAP.

# shellcheck source=tests/cli/tap.sh disable=SC2154,SC2034 # trapline, victims and tmp are of there
. "$(dirname "$0")/tap.sh"

sources=$3
probe=$4
bound=20 # seconds; each run takes less than one
victims=$tmp # where start looks

need cc

# build NAME OPTION...: the program with $tmp/dwarf.s, if there is one.
build()
{
	name=$1
	shift
	dwarf=
	[ ! -s "$tmp/dwarf.s" ] || dwarf=$tmp/dwarf.s
	# shellcheck disable=SC2086 # nothing, or a name
	cc -w -O1 "$@" "$sources/hostile.c" $dwarf -pthread -o "$tmp/$name" 2>"$tmp/err"
}

# begin NAME ARG...: started, and ready.
begin()
{
	start "$@"
	eventually grep -q ready "$tmp/victim"
}

end()
{
	kill -9 "$pid" 2>/dev/null
	wait "$pid" 2>/dev/null
	rm -f "$tmp/dwarf.s"
}

# bounded COMMAND ARG...: its status, in $tmp/out and $tmp/err. 124 and 137: it did not end.
bounded()
{
	command=$1
	shift
	timeout -k 1 $bound "$trapline" "$command" "$@" >"$tmp/out" 2>"$tmp/err"
}

# ended STATUS: by itself, not by a signal.
ended()
{
	[ "$1" -lt 124 ] && return
	echo "# status $1"
	return 1
}

# ---- debug information by hand ----

# The numbers are those of DWARF 4: tag, children, then attributes and their forms.
abbreviations()
{
	cat <<-'END'
	.section .debug_abbrev,"",@progbits
	.uleb128 1,0x11; .byte 1; .uleb128 0x03,0x08,0x13,0x0b,0x11,0x01,0x12,0x07,0,0
	.uleb128 2,0x34; .byte 0; .uleb128 0x03,0x08,0x49,0x13,0x02,0x18,0x3f,0x19,0,0
	.uleb128 3,0x04; .byte 0; .uleb128 0x03,0x08,0x0b,0x0b,0x49,0x13,0,0
	.uleb128 4,0x13; .byte 1; .uleb128 0x03,0x08,0x0b,0x0b,0,0
	.uleb128 5,0x1c; .byte 0; .uleb128 0x49,0x13,0x38,0x0b,0,0
	.uleb128 6,0x2e; .byte 1; .uleb128 0x03,0x08,0x11,0x01,0x12,0x07,0,0
	.uleb128 7,0x0b; .byte 1; .uleb128 0x11,0x01,0x12,0x07,0,0
	.uleb128 8,0x24; .byte 0; .uleb128 0x03,0x08,0x0b,0x0b,0x3e,0x0b,0,0
	.uleb128 9,0x0d; .byte 0; .uleb128 0x03,0x08,0x49,0x13,0x38,0x0b,0,0
	.uleb128 10,0x2e; .byte 0; .uleb128 0x55,0x17,0,0
	.byte 0
	.section .debug_info,"",@progbits
	.Lstart: .long .Lend - .Lbegin
	.Lbegin: .short 4; .long .debug_abbrev; .byte 8
	.uleb128 1; .asciz "hostile.c"; .byte 0x1d; .quad hostile_spin; .quad 64
	.uleb128 2; .asciz "hostile_value"; .long .Ltype - .Lstart
	.uleb128 9; .byte 3; .quad hostile_value
	END
}

units_end()
{
	echo '.byte 0'
	echo '.Lend:'
}

# ---- types ----

{
	abbreviations
	echo '.Ltype: .uleb128 3; .asciz "hostile_type"; .byte 4; .long .Ltype - .Lstart'
	units_end
} >"$tmp/dwarf.s"
build circle && begin circle
bounded watch -p "$pid" hostile_value --limit 1 --for 3 --json
status=$?
ended $status && hits 'length == 1'
ok an_enum_whose_type_is_itself_is_a_type $?
end

{
	abbreviations
	echo '.Lint: .uleb128 8; .asciz "int"; .byte 4,5'
	echo '.Lbase0: .uleb128 4; .asciz "base0"; .byte 4; .uleb128 9; .asciz "deep"; .long .Lint - .Lstart; .byte 0,0'
	for i in $(seq 30); do
		echo ".Lbase$i: .uleb128 4; .asciz \"base$i\"; .byte 4"
		for _ in 1 2; do
			echo ".uleb128 5; .long .Lbase$((i - 1)) - .Lstart; .byte 0"
		done
		echo '.byte 0'
	done
	echo '.Ltype = .Lbase30'
	units_end
} >"$tmp/dwarf.s"
build bases && begin bases
bounded watch -p "$pid" hostile_value.nothing --limit 1 --for 3
status=$?
[ $status = 2 ] && grep -q "nothing" "$tmp/err"
ok a_member_that_2_to_the_30_bases_lack_is_refused $?
bounded watch -p "$pid" hostile_value.deep --limit 1 --for 3
status=$?
[ $status = 2 ] && grep -q "deep" "$tmp/err"
ok a_member_that_2_to_the_30_bases_have_is_refused $?
bounded watch -p "$pid" hostile_value --limit 1 --for 3 --json
status=$?
ended $status && hits 'length == 1'
ok a_value_of_2_to_the_30_bases_is_shown $?
end

# ---- blocks ----

{
	abbreviations
	echo '.Ltype: .uleb128 8; .asciz "int"; .byte 4,5'
	echo '.uleb128 6; .asciz "hostile_spin"; .quad hostile_spin; .quad 64'
	echo '.rept 60000; .uleb128 7; .quad hostile_spin; .quad 64; .endr'
	echo '.rept 60001; .byte 0; .endr'
	units_end
} >"$tmp/dwarf.s"
build blocks && begin blocks
bounded break -p "$pid" hostile_spin --stack --limit 1 --for 5 --json
status=$?
ended $status && hits 'length == 1 and (.[0].stack | tostring | contains("hostile_spin"))'
ok sixty_thousand_blocks_in_each_other_have_a_stack $?
bounded watch -p "$pid" hostile_value --stack --limit 1 --for 5 --json
status=$?
ended $status && hits 'length == 1'
ok sixty_thousand_blocks_in_each_other_have_a_watch $?
end

# 50,000 functions, each of 500,000 pieces of code: whether one of them holds an address takes hours.
{
	abbreviations
	echo '.Ltype: .uleb128 8; .asciz "int"; .byte 4,5'
	echo '.rept 50000; .uleb128 10; .long .Lranges; .endr'
	units_end
	echo '.section .debug_ranges,"",@progbits'
	echo '.Lranges: .rept 500000; .quad 0x10000000,0x10000001; .endr; .quad 0,0'
} >"$tmp/dwarf.s"
build ranges && begin ranges

# ends SECONDS PID: its status in $status, when it has ended.
ends()
{
	for _ in $(seq "${1}0"); do
		kill -0 "$2" 2>/dev/null || break
		sleep 0.1
	done
	kill -9 "$2" 2>/dev/null && echo "# it did not end"
	wait "$2" 2>/dev/null
	status=$?
}

"$trapline" watch -p "$pid" hostile_value --stack --limit 5 >"$tmp/out" 2>"$tmp/err" &
first=$!
"$trapline" watch -p "$pid" hostile_value --stack --for 1 >"$tmp/out2" 2>"$tmp/err2" &
second=$!
started="$started $first $second"
sleep 3
kill -0 "$first"
ok names_that_take_hours_keep_a_command_busy $?
kill -TERM "$first"
kill -TERM "$first"
ends 20 "$first"
[ "$status" = 1 ] && grep -q 'cannot read the debug information' "$tmp/err" &&
	grep -qxE 'trapline watch: the run was cut off, without a summary: [0-9]+ hits were printed, and any later ones were not' "$tmp/err"
ok two_signals_end_a_command_that_is_busy $?
ends 40 "$second"
[ "$status" = 1 ] && grep -q 'cannot read the debug information' "$tmp/err2"
ok the_time_ends_a_command_that_is_busy $?
kill -0 "$pid"
ok the_program_runs_on $?
end

# ---- mangled names ----

# pair<int, int>, a pair of two of these, and so on 33 times; and one with as many references, but short.
bomb=_Z1fSt4pairIiiE
for i in 0 1 2 3 4 5 6 7 8 9 A B C D E F G H I J K L M N O P Q R S T U V W; do
	bomb="${bomb}S_IS${i}_S${i}_E"
done
short=_Z6costlyPi$(seq -s '' 40 | tr -c '' ' ' | sed 's/ /S_/g; s/\(.\{60\}\).*/\1/')
{
	echo .text
	for symbol in "$bomb" "$short"; do
		echo ".globl $symbol"
		echo ".type $symbol, @function"
		echo "$symbol: ret"
		echo ".size $symbol, 1"
	done
} >"$tmp/dwarf.s"
build mangled && begin mangled
# What takes more without end shall not take it from others. AddressSanitizer reserves more itself.
limit="prlimit --as=4000000000"
[ -z "${ASAN_OPTIONS:-}" ] || limit=
# shellcheck disable=SC2086 # words of a command, or none
timeout -k 1 $bound $limit "$trapline" break -p "$pid" nothing_like_it --limit 1 \
	--for 3 >"$tmp/out" 2>"$tmp/err"
status=$?
[ $status = 2 ] && grep -q "nothing_like_it" "$tmp/err"
ok a_name_of_100_gigabytes_is_not_read $?
bounded break -p "$pid" --list 'costly*'
status=$?
ended $status && grep -q ' costly .*mangled' "$tmp/out"
ok a_name_with_many_references_is_read $?
end

# ---- tables of threads ----

for kind in 1 2; do
	case $kind in
	1) test=a_list_of_threads_without_end_is_refused ;;
	2) test=a_thread_of_16_megabytes_is_refused ;;
	esac
	build tables -DHOSTILE_TABLES=$kind && begin tables
	bounded watch -p "$pid" hostile_local --thread "$pid" --limit 1 --for 3
	status=$?
	[ $status = 2 ] && grep -q libthread_db "$tmp/err"
	ok $test $?
	end
done
build tables && begin tables
bounded watch -p "$pid" hostile_local --thread "$pid" --limit 1 --for 5 --json
status=$?
[ $status = 0 ] && hits 'length == 1'
ok a_true_thread_local_variable_is_found $?
end

# ---- files that debug information names ----

build split -g -gsplit-dwarf -dumpdir "$tmp/" -dumpbase hostile && begin split
for dwo in "$tmp"/*.dwo; do
	rm "$dwo"
	mkfifo "$dwo"
done
bounded watch -p "$pid" hostile_value --limit 1 --for 3 --json
status=$?
ended $status && hits 'length == 1'
ok a_split_unit_that_is_a_fifo_is_not_opened $?
end
rm -f "$tmp"/*.dwo

for thing in fifo zero; do
	build linked -g -Wl,--build-id=none &&
		objcopy --only-keep-debug "$tmp/linked" "$tmp/linked.debug" &&
		strip -g "$tmp/linked" && objcopy --add-gnu-debuglink="$tmp/linked.debug" "$tmp/linked"
	begin linked
	bounded watch -p "$pid" hostile_value --limit 1 --for 3 --json
	hits 'length == 1 and .[0].value.type != null'
	ok "a_linked_debug_file_is_read_before_$thing" $?
	rm "$tmp/linked.debug"
	case $thing in
	fifo) mkfifo "$tmp/linked.debug" ;;
	zero) ln -s /dev/zero "$tmp/linked.debug" ;;
	esac
	bounded watch -p "$pid" hostile_value --limit 1 --for 3 --json
	status=$?
	ended $status && hits 'length == 1 and .[0].value.type == null'
	ok "a_linked_debug_file_that_is_a_${thing}_is_not_opened" $?
	end
	rm -f "$tmp/linked.debug"
done

mkfifo "$tmp/shared.fifo"
{
	abbreviations
	echo '.Ltype: .uleb128 8; .asciz "int"; .byte 4,5'
	units_end
	echo '.section .gnu_debugaltlink,"",@progbits'
	echo '.asciz "shared.fifo"'
	echo '.ascii "01234567890123456789"'
} >"$tmp/dwarf.s"
build shared -Wl,--build-id=none && begin shared
bounded watch -p "$pid" hostile_value --limit 1 --for 3 --json
status=$?
ended $status && hits 'length == 1'
ok shared_debug_information_that_is_a_fifo_is_not_opened $?
end

# ---- files that are mapped ----

build mapped
cp "$tmp/mapped" "$tmp/copy"
cp "$tmp/mapped" "$tmp/object"
mkfifo "$tmp/other"
begin mapped swap "$tmp/object" "$tmp/other"
bad=0
for _ in 1 2 3 4 5; do
	timeout -k 1 5 "$trapline" watch -p "$pid" no_such_name --limit 1 --for 3 >"$tmp/out" 2>"$tmp/err"
	[ $? = 2 ] || bad=$((bad + 1))
done
[ $bad = 0 ] || echo "# $bad of 5 did not end"
[ $bad = 0 ]
ok a_mapped_file_that_becomes_a_fifo_is_not_opened $?
end

# Deleted files have no name to be opened by: they are not searched for one by one.
bounded_map()
{
	begin mapped map "$tmp/many" 1400 "$@"
	from=$(date +%s%N)
	bounded watch -p "$pid" no_such_name --limit 1 --for 3
	status=$?
	took=$((($(date +%s%N) - from) / 1000000))
	end
	rm -f "$tmp"/many.*
}
cc -shared -fPIC -nostdlib -x c /dev/null -o "$tmp/many"
bounded_map
present=$took
bounded_map deleted
echo "# 1400 mapped files: $present ms, deleted: $took ms"
[ $status = 2 ] && [ "$took" -lt $((2 * present + 1000)) ]
ok deleted_files_take_as_long_as_others $?

# ---- files that are named ----

# probe NAME PATTERN ARG...
probe()
{
	name=$1
	pattern=$2
	shift 2
	timeout -k 1 $bound "$probe" "$@" >"$tmp/out" 2>"$tmp/err" && grep -q "$pattern" "$tmp/out"
	ok "$name" $?
}

echo 'a file' >"$tmp/plain"
ln -sf plain "$tmp/link"
mkfifo "$tmp/fifo"
ln -sf /dev/zero "$tmp/zero"
truncate -s 1T "$tmp/sparse"
echo '#!' | dd of="$tmp/sparse" conv=notrunc status=none
probe a_regular_file_is_opened 'opened: 1' open "$tmp/plain"
probe a_link_to_a_regular_file_is_opened 'opened: 1' open "$tmp/link"
probe a_fifo_is_refused refused open "$tmp/fifo"
probe a_link_to_a_device_is_refused refused open "$tmp/zero"
probe a_terminal_is_refused refused open /dev/tty
probe a_folder_is_refused refused open "$tmp"
probe a_file_of_proc_is_refused refused open /proc/kmsg
probe a_file_of_sys_is_refused refused open /sys/kernel/notes
probe a_file_of_holes_is_refused refused open "$tmp/sparse"
probe a_file_that_is_mapped_is_opened 'opened: 1' open /proc/self/exe
probe a_file_below_a_root_is_opened 'opened: 1' open "/proc/self/root$tmp/plain"

# A root of its own, in which absolute links and .. stay.
if mkdir -p "$tmp/jail$tmp" && unshare -r true 2>/dev/null; then
	ln -s "$tmp/plain" "$tmp/jail/out"
	cc -static -x c - -o "$tmp/jail/sleeper" <<-'END'
	#include <unistd.h>
	int main(void) { sleep(60); }
	END
	unshare -r chroot "$tmp/jail" /sleeper &
	jailed=$!
	started="$started $jailed"
	eventually runs "$jailed" sleeper
	probe a_link_out_of_a_root_stays_inside refused open "/proc/$jailed/root/out"
	probe a_name_with_dots_stays_inside_its_root refused open "/proc/$jailed/root/../..$tmp/plain"
	echo inside >"$tmp/jail$tmp/plain"
	probe a_link_inside_a_root_is_followed 'opened: 1' open "/proc/$jailed/root/out"
	kill "$jailed"
	wait "$jailed" 2>/dev/null
else
	skip a_link_out_of_a_root_stays_inside "unshare -r is not permitted"
	skip a_name_with_dots_stays_inside_its_root "unshare -r is not permitted"
	skip a_link_inside_a_root_is_followed "unshare -r is not permitted"
fi

# statement NAME PATTERN PATH: what is said of a function whose line table names the path.
statement()
{
	printf '#line 1 "%s"\nint hostile(int n) { return n * 3; }\n' "$3" >"$tmp/stated.c"
	cc -g -shared -fPIC "$tmp/stated.c" -o "$tmp/stated.so"
	probe "$1" "$2" statement "$tmp/stated.so" hostile
}

echo 'volatile int *p; return *p;' >"$tmp/text.c"
head -c 17000000 /dev/zero >"$tmp/zeros"
head -c 100000 /dev/zero | tr '\0' x >"$tmp/line"
yes 'a,' | head -n 3000000 >"$tmp/endless"
statement a_statement_is_read 'says 2' "$tmp/text.c"
statement a_source_that_is_a_fifo_is_not_opened 'no text' "$tmp/fifo"
statement a_source_that_is_a_device_is_not_opened 'no text' /dev/zero
statement a_source_that_is_a_link_to_a_device_is_not_opened 'no text' "$tmp/zero"
statement a_source_of_holes_is_not_read 'no text' "$tmp/sparse"
statement a_source_of_17_megabytes_is_not_read 'no text' "$tmp/zeros"
statement a_line_of_100000_characters_is_not_read 'no text' "$tmp/line"
printf '#line 2900000 "%s"\nint hostile(int n) { return n * 3; }\n' "$tmp/endless" >"$tmp/stated.c"
cc -g -shared -fPIC "$tmp/stated.c" -o "$tmp/stated.so"
probe a_statement_without_end_is_not_read 'no text' statement "$tmp/stated.so" hostile

probe the_code_of_a_file_is_counted 'objects 1, unread 0' sites "$tmp/mapped"
probe the_code_of_a_fifo_is_not_counted 'objects 0, unread 1' sites "$tmp/fifo"
probe an_object_that_is_a_fifo_is_not_opened 'no file' statement "$tmp/fifo" main

# ---- notes ----

cp "$tmp/mapped" "$tmp/notes"
truncate -s 1T "$tmp/notes"
# The first PT_NOTE, made as long as the file, is moved to where the file has only holes.
at=$(readelf -lW "$tmp/notes" | awk '/^  [A-Z]/ && $2 ~ /^0x/ { if ($1 == "NOTE") { print 64 + 56 * n; exit } n++ }')
printf '\0\0\2\0\0\0\0\0' | dd of="$tmp/notes" bs=1 seek=$((at + 8)) conv=notrunc status=none
printf '\0\0\0\0\200\0\0\0' | dd of="$tmp/notes" bs=1 seek=$((at + 32)) conv=notrunc status=none
chmod +x "$tmp/notes"
probe notes_of_a_terabyte_are_not_read 'not Go' go "$tmp/notes"
truncate -s 1M "$tmp/notes"
probe notes_without_an_end_are_not_read 'not Go' go "$tmp/notes"

finished
