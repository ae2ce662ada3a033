#!/bin/sh
# SPDX-License-Identifier: MIT
# test_narrow.sh TRAPLINE VICTIMS - a 32-bit program is refused in one line, by every command that starts
# one. It needs no machine that runs such a program: an ELF header is enough. TAP.

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/tap.sh"
[ "$(uname -m)" = x86_64 ] || skip_all "the header is made 32-bit on x86-64"

# ELFCLASS32 and EM_386 in the header of a whole program.
cp /bin/sleep "$tmp/narrow"
printf '\001' | dd of="$tmp/narrow" bs=1 seek=4 conv=notrunc 2>/dev/null
printf '\003' | dd of="$tmp/narrow" bs=1 seek=18 conv=notrunc 2>/dev/null

# refused NAME COMMAND ARG...
refused()
{
	name=$1
	command=$2
	shift 2
	watch "$@" -- "$tmp/narrow" 1
	[ $? = 2 ] && [ "$(wc -l <"$tmp/err")" = 1 ] && [ ! -s "$tmp/out" ] &&
		grep -q "^trapline $command: .*$tmp/narrow.*32-bit program" "$tmp/err"
	ok "$name" $?
}

refused watch_refuses_it watch counter
refused break_refuses_it break main
refused probes_refuse_it break main --mechanism probe
refused follow_refuses_it break main --follow
refused a_list_refuses_it break main --list
refused record_refuses_it record -o "$tmp/file" counter
refused record_of_calls_refuses_it record -o "$tmp/file" --break main
refused record_of_code_refuses_it record -o "$tmp/file" --code
refused at_refuses_it at 'main#1'
refused at_each_refuses_it at --each main --signal ALRM
refused race_refuses_it race
refused sweep_refuses_it race --sweep
refused throttle_refuses_it throttle --cpu 10%

# The same program as it was.
command='break'
watch main --list -- /bin/sleep 1
grep -q 32-bit "$tmp/err" "$tmp/out"
[ $? = 1 ]
ok "the_program_itself_is_not_called_32_bit" $?

finished
