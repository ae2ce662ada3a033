#!/bin/sh
# SPDX-License-Identifier: MIT
# test_symbols.sh TRAPLINE VICTIMS - what is said of a name that a stripped program does not have, and symbols
# from a debuginfod server. TAP.

# shellcheck source=tests/cli/tap.sh disable=SC2154 # trapline, victims, pid and tmp come from there
. "$(dirname "$0")/tap.sh"
need strip objcopy readelf

# look COMMAND ARG...: rc, $tmp/out and $tmp/err.
look()
{
	timeout -k 2 60 "$trapline" "$@" >"$tmp/out" 2>"$tmp/err"
}

# says TEXT: the only line of the error, which begins so.
says()
{
	[ "$(wc -l <"$tmp/err")" = 1 ] && case $(cat "$tmp/err") in "$1"*) true ;; *) false ;; esac
}

cp "$victims/names" "$tmp/full"
cp "$victims/names" "$tmp/bare"
strip "$tmp/bare"
id=$(readelf -n "$tmp/bare" | sed -n 's/.*Build ID: //p')
rest=${id#??}
file=/usr/lib/debug/.build-id/${id%"$rest"}/$rest.debug
from=$victims
victims=$tmp
start bare
bare=$pid
look watch -p "$bare" shared_conn
[ $? = 2 ] && says "trapline watch: bare is stripped: it names no variable 'shared_conn'; install its debug symbols (a -dbgsym package, with $file), or give an address"
ok "watch_says_first_that_a_program_is_stripped_and_where_its_symbols_would_be" $?
look break -p "$bare" write_conn
[ $? = 2 ] && says "trapline break: bare is stripped: it names no function 'write_conn'; install its debug symbols (a -dbgsym package, with $file)"
ok "break_says_it_too" $?
# libc has malloc: it resembles the name, and is not the cause.
look break -p "$bare" mallok
[ $? = 2 ] && says "trapline break: bare is stripped: it names no function 'mallok'; " && ! grep -q 'did you mean' "$tmp/err"
ok "a_name_of_a_library_does_not_hide_the_cause" $?
look break -p "$bare" usleep -l
[ $? = 0 ] && grep -q usleep "$tmp/out"
ok "a_name_of_a_library_is_found_as_before" $?

start full
look watch -p "$pid" 'con->state'
[ $? = 2 ] && ! grep -q stripped "$tmp/err" && grep -q 'did you mean conn' "$tmp/err"
ok "a_mistyped_variable_of_a_program_with_symbols_gets_a_question" $?
look break -p "$pid" write_con
[ $? = 2 ] && ! grep -q stripped "$tmp/err" && grep -q 'did you mean write_conn' "$tmp/err"
ok "a_mistyped_function_of_a_program_with_symbols_gets_a_question" $?

victims=$from
if [ -x "$victims/patched_exports" ]; then
	start patched_exports
	look break -p "$pid" anwser
	[ $? = 2 ] && ! grep -q stripped "$tmp/err" && grep -q 'did you mean answer' "$tmp/err"
	ok "a_mistyped_name_that_a_stripped_program_exports_gets_a_question" $?
fi

if dpkg-query -L coreutils 2>/dev/null | grep -qx '/\(usr/\)\?bin/sleep' && [ ! -e /usr/lib/debug/.dwz ]; then
	sleep 60 &
	pid=$!
	started="$started $pid"
	eventually grep -q '^sleep$' "/proc/$pid/comm"
	look watch -p "$pid" no_such_variable
	[ $? = 2 ] && says "trapline watch: sleep is stripped: it names no variable 'no_such_variable'; install its debug symbols (coreutils-dbgsym, with /usr/lib/debug/.build-id/"
	ok "the_package_with_the_symbols_is_named" $?
else
	skip "the_package_with_the_symbols_is_named" "coreutils without debug symbols"
fi
# --- from a server ---
ask()
{
	DEBUGINFOD_URLS=http://127.0.0.1:$port DEBUGINFOD_CACHE_PATH=$tmp/cache look "$@"
}
is_served()
{
	ask break -l -p "$bare" write_conn --debuginfod && return
	rm -rf "$tmp/cache"
	return 1
}
if command -v debuginfod >/dev/null && [ -e /usr/lib/x86_64-linux-gnu/libdebuginfod.so.1 ]; then
	mkdir "$tmp/apart"
	objcopy --only-keep-debug "$tmp/full" "$tmp/apart/full.debug"
	port=$((20000 + $$ % 20000))
	debuginfod -d :memory: -p $port -F "$tmp/apart" >"$tmp/server" 2>&1 &
	server=$!
	started="$started $server"
	eventually grep -q 'fts traversed.* scanned=[1-9]' "$tmp/server"
	if [ "$(id -u)" = 0 ]; then
		ask break -l -p "$bare" write_conn
		[ $? = 2 ] && grep -q 'use --debuginfod to ask the servers of DEBUGINFOD_URLS' "$tmp/err" && [ ! -e "$tmp/cache" ]
		ok "root_asks_no_server_without_the_option" $?
	fi
	# What the server does not have yet is not asked for again, as the cache says.
	eventually is_served
	ask break -l -p "$bare" write_conn --debuginfod
	[ $? = 0 ] && grep -q 'write_conn  in bare$' "$tmp/out" && [ -d "$tmp/cache" ]
	ok "a_server_has_the_names_of_a_stripped_program" $?
	ask break -l -p "$bare" write_con --debuginfod
	[ $? = 2 ] && grep -q 'did you mean write_conn' "$tmp/err"
	ok "a_mistyped_name_gets_a_question_with_symbols_of_a_server" $?
	kill $server
	wait $server 2>/dev/null
	rm -rf "$tmp/cache"
	ask break -l -p "$bare" write_conn --debuginfod
	[ $? = 2 ] && says "trapline break: bare is stripped: it names no function 'write_conn'; install"
	ok "a_server_that_is_gone_leaves_the_cause" $?
else
	skip "a_server_has_the_names_of_a_stripped_program" "debuginfod is not installed"
fi
finished
