#!/bin/sh
# SPDX-License-Identifier: MIT
# test_check_process.sh TRAPLINE VICTIMS - `trapline check -p`: what is possible at a process, and why not. TAP.

# shellcheck source=tests/cli/tap.sh disable=SC2154 # trapline, tmp and pid come from there
. "$(dirname "$0")/tap.sh"
# shellcheck source=tests/other_user.sh
. "$(dirname "$0")/../other_user.sh"
need jq

# possible COMMAND VALUE [WHY]: in $tmp/out. What this machine does not permit, or is too busy for, is no.
possible()
{
	jq -e --arg command "$1" --arg why "${3:-}" ".commands[] | select(.command == \$command) |
		.possible == $2 and (.why | test(\$why)) or (.why | test(\"^(needs|not known)\"))" "$tmp/out" >/dev/null
}

# seen_as NAME: of $pid.
seen_as()
{
	"$trapline" check -p "$pid" --json >"$tmp/out" 2>"$tmp/err"
	[ $? = 0 ] && [ ! -s "$tmp/err" ] &&
		jq -e ".pid == $pid and (.commands | length) == 10 and
			all(.commands[]; keys == [\"command\", \"possible\", \"why\"])" "$tmp/out" >/dev/null
	ok "$1: each command has an answer and its reason" $?
}

state()
{
	ls "/proc/$pid/fd" "/proc/$pid/task"
	cat "/proc/$pid/maps"
	# SigQ counts the signals of all processes of the user.
	grep -E '^(Sig[PBIC]|ShdPnd|TracerPid)' "/proc/$pid/status"
}

# has_settled: its start is over.
has_settled()
{
	state >"$tmp/before" && sleep 0.3 && state >"$tmp/after" && cmp -s "$tmp/before" "$tmp/after"
}

start static_victim
eventually has_settled
seen_as "a static program"
state >"$tmp/after"
cmp -s "$tmp/before" "$tmp/after"
ok "nothing of the process is touched" $?
possible break true 'from outside' && possible heap false 'statically linked.*link it dynamically' &&
	possible patch false 'statically linked'
ok "a static program: what loads an agent is not possible" $?
if [ "$(id -u)" = 0 ]; then
	possible race true '^from outside'
	ok "a static program: race is, for root" $?
fi
if lend; then
	$as_user --bounding-set=-all --inh-caps=-all "$lent/trapline" check -p "$pid" --json >"$tmp/out" 2>"$tmp/err"
	possible break false 'not permitted|forbidden' && possible throttle false 'not permitted|forbidden'
	ok "another user's process is not observed, and the reason is the kernel's" $?
else
	skip "another user's process is not observed, and the reason is the kernel's" "$not_lent"
fi
"$trapline" check -p "$pid" >"$tmp/out" 2>"$tmp/err"
grep -q "^process $pid (static_victim), 1 thread$" "$tmp/out" && [ "$(wc -L <"$tmp/out")" -le 90 ] &&
	[ "$(grep -c 'statically linked' "$tmp/out")" = 1 ] && grep -q 'as for heap$' "$tmp/out"
ok "the text has each reason once" $?

start race_go 60
seen_as "a Go program"
possible heap false 'Go program' && possible flow false 'Go program' && possible break true 'from outside'
ok "a Go program: what needs malloc() or glibc is not possible" $?

"$victims/race_obstacle" sealed sleep 60 &
pid=$!
started="$started $pid"
eventually runs "$pid" sleep
seen_as "a process under a seccomp filter"
possible throttle false 'seccomp filter' && possible record true 'from outside'
ok "a process under a seccomp filter: no agent, and the reason" $?

command=check
wrong "a process that does not exist" 'there is no process 4194303' -p 4194303
finished
