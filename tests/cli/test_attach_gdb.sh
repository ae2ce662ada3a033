#!/bin/sh
# SPDX-License-Identifier: MIT
# test_attach_gdb.sh TRAPLINE VICTIMS INCLUDE BUILD_INCLUDE - a debugger works on a process that a command has
# loaded something into: while it runs, and when it has ended. TAP.

# shellcheck source=tests/cli/tap.sh disable=SC2154 # its variables come from there
. "$(dirname "$0")/tap.sh"

# attach COMMAND ARG...: to a new program, and detach.
attach()
{
	start linkmap
	tool=$1
	shift
	timeout -k 2 60 "$trapline" "$tool" -p "$pid" "$@" >"$tmp/out" 2>"$tmp/err"
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

# has_good_names: no object has the name of a descriptor, which a debugger would open as one of its own.
has_good_names()
{
	: >"$tmp/victim"
	is_alive && grep -q memfd:trapline-agent "$tmp/victim" && ! grep -q '/proc/\|/fd/' "$tmp/victim"
}

cat >"$tmp/fix.c" <<'EOF'
#include <trapline/tools.h>
static unsigned other(unsigned n)
{
	return n + 1;
}
TRAPLINE_PATCH("work", other);
EOF
# shellcheck disable=SC2086 # two words
${CC:-cc} -O2 -shared -fPIC "-I$3" "-I$4" -o "$tmp/fix.so" "$tmp/fix.c" 2>"$tmp/err" ||
	ok "the_compiler_makes_fix.so" 1

for what in 'throttle --cpu 90% --for 0.2' 'race --overhead 5% --for 0.2' 'heap --for 0.2' 'flow --for 0.2' \
	'break work --mechanism probe --for 0.2' 'break work --trace --for 0.2' 'patch --list' "patch $tmp/fix.so"; do
	# shellcheck disable=SC2086 # words
	attach $what
	name=$(echo "$what" | sed "s,^patch .*/.*,patch,; s,^break .*--trace.*,trace,; s,^patch --list,list,; s, .*,,")
	has_good_names
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
