#!/bin/sh
# SPDX-License-Identifier: MIT
# test_born_blocked.sh TRAPLINE VICTIMS - threads that block every signal, and are born after a command has
# come in: an int3 would end them. No tool leaves one where they come by, and each says what it left out. TAP.

# shellcheck source=tests/cli/tap.sh disable=SC1091,SC2034,SC2154 # shared with it
. "$(dirname "$0")/../cli/tap.sh"
command=flow
need jq

# unharmed MODE COMMAND...: the command, with -p, on a program that is right to its end.
unharmed()
{
	"$victims/born_blocked" "$1" 4 >"$tmp/target" &
	target=$!
	started="$started $target"
	shift
	sleep 0.3
	timeout -k 5 30 "$trapline" "$@" -p "$target" >"$tmp/out" 2>"$tmp/err"
	status=$?
	wait $target && grep -q 'calls, right' "$tmp/target"
}

for mode in libc raw mask handler; do
	unharmed $mode flow --overhead 100% --for 2 --as jsonl && jq -e -s '.[-1].counters |
		.windows > 0 and .left_out <= 3' "$tmp/out" >/dev/null
	ok "flow follows threads that block signals: $mode" $?
	unharmed $mode break work --mechanism probe --summary --for 2 && [ $status = 0 ]
	ok "a probe by a jump: $mode" $?
	unharmed $mode break work --trace --for 2 && [ $status = 0 ]
	ok "a trace: $mode" $?
	unharmed $mode break tiny --mechanism probe --for 2
	[ $status = 2 ] && grep -q 'an int3 would end a thread that blocks SIGTRAP; use --mechanism uprobe' "$tmp/err"
	ok "a probe where only an int3 fits is refused, and says what helps: $mode" $?
	unharmed $mode flow --from tiny:arg1 --for 2
	[ $status = 2 ] && grep -q 'tiny.* has no room for a jump' "$tmp/err"
	ok "and so is a source of flow: $mode" $?
done

timeout 30 "$trapline" flow --from tiny:arg1 --to work:arg1 -- "$victims/born_blocked" libc 1 >"$tmp/out" 2>"$tmp/err"
grep -q 'calls, right' "$tmp/out"
ok 'a program that the command has started has its int3, and its masks are known' $?
finished
