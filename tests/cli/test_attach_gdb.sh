#!/bin/sh
# SPDX-License-Identifier: MIT
# test_attach_gdb.sh TRAPLINE VICTIMS - a debugger works on a process that an attach has left. TAP.

# shellcheck source=tests/cli/tap.sh disable=SC2154 # its variables come from there
. "$(dirname "$0")/tap.sh"

# attach COMMAND ARG...: to a new program, and detach.
attach()
{
	start linkmap
	timeout -k 2 60 "$trapline" "$1" -p "$pid" "$2" "$3" --for 0.2 >"$tmp/out" 2>"$tmp/err"
}

# is_alive: it answers a signal with the names of its objects, as those of dl_iterate_phdr().
is_alive()
{
	kill -USR1 "$pid"
	eventually grep -q '^end$' "$tmp/victim"
}

# end: stops the victim.
end()
{
	kill "$pid"
	wait "$pid" 2>/dev/null
}

for what in 'throttle --cpu 90%' 'race --overhead 5%'; do
	# shellcheck disable=SC2086 # words
	attach $what
	name=${what%% *}
	is_alive && grep -q trapline-agent "$tmp/victim" && ! grep -q '/proc/\|/fd/' "$tmp/victim"
	ok "no_name_of_a_descriptor_is_in_the_list_after_$name" $?
	cp "$tmp/victim" "$tmp/out"
	if command -v gdb >/dev/null; then
		timeout -k 2 60 gdb -nx -batch -p "$pid" -ex 'info sharedlibrary' -ex bt -ex detach \
			>"$tmp/out" 2>"$tmp/err" </dev/null
		[ $? = 0 ] && grep -q ' main (' "$tmp/out"
		ok "gdb_attaches_after_$name" $?
		timeout -k 2 60 gcore -o "$tmp/core" "$pid" >"$tmp/out" 2>&1 </dev/null
		[ $? = 0 ] && [ -s "$tmp/core.$pid" ]
		ok "gcore_works_after_$name" $?
		rm -f "$tmp/core.$pid"
	else
		skip "gdb_attaches_after_$name" gdb
		skip "gcore_works_after_$name" gdb
	fi
	: >"$tmp/victim"
	is_alive
	ok "the_program_runs_on_after_$name" $?
	end
done

finished
