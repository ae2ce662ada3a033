#!/bin/sh
# SPDX-License-Identifier: MIT
# test_race_trust.sh TRAPLINE VICTIMS - what a target writes into shared memory decides nothing that a
# command of another user, or another process of its run, does. TAP.

# shellcheck source=tests/tools/race_lib.sh disable=SC1091,SC2034,SC2154 # shared with it
. "$(dirname "$0")/race_lib.sh"
# shellcheck source=tests/other_user.sh
. "$(dirname "$0")/../other_user.sh"
agent=$(dirname "$trapline")/libtrapline-agent.so

if ! lend "$victims/race_hostile" "$victims/race_share"; then
	skip "a target decides nothing for others" "$not_lent"
	finished
	exit
fi

# says TEXT: the program did.
says()
{
	grep -qx -- "$1" "$tmp/out"
}

# A file of root's, held open by a process that is not searched, and asked for by a worker of nobody's.
echo secret >"$tmp/secret"
chmod 600 "$tmp/secret"
race -- "$lent/race_hostile" fds "$tmp/secret"
status=$?
[ $status = 0 ] && says "the worker could not change the settings"
ok "a worker of another user cannot change what the command wants" $?
says "the next worker has the file open: 0"
ok "no process of a run gets a descriptor of a process that is not the command" $?

race -- "$victims/race_hostile" cut
[ $? = 0 ] && says "files cut: 0 of 2"
ok "the shared memory cannot be truncated" $?

# unharmed ROUNDS NAME ARG...: whatever a worker of nobody's writes, the command ends, the workers of
# root's that are searched live, and a process that is not of the run gets no signal.
unharmed()
{
	rounds=$1
	name=$2
	shift 2
	: >"$tmp/all"
	failures=0
	for _ in $(seq "$rounds"); do
		race "$@"
		[ $? = 0 ] || failures=$((failures + 1))
		grep -q "^workers that died: " "$tmp/out" || failures=$((failures + 1))
		grep "died\|seed" "$tmp/out" >>"$tmp/all"
	done
	cp "$tmp/all" "$tmp/out"
	[ $failures = 0 ] && ! grep -q "died with\|canary died" "$tmp/out"
	ok "$name" $?
}

unharmed "$(share 5)" "anything that a worker writes harms no other worker and not the command" \
	-- "$lent/race_hostile" fuzz 700
unharmed "$(share 5)" "nor in a sweep" --sweep --for 2s -- "$lent/race_hostile" fuzz 400

# offer USER KIND: memory that is like a command's; $option names it, $server is its process.
offer()
{
	rm -f "$tmp/ask" "$tmp/option"
	mkfifo -m 666 "$tmp/ask" "$tmp/option"
	$1 "$lent/race_share" "$2" <"$tmp/ask" >"$tmp/option" &
	server=$!
	started="$started $server"
	exec 3>"$tmp/ask" 4<"$tmp/option"
	read -r option <&4
}

# used: has any process used it? The offer ends.
used()
{
	echo >&3
	read -r users <&4
	exec 3>&- 4<&-
	wait "$server"
	[ "$users" != 0 ]
}

# taken USER KIND: by programs that root starts.
taken()
{
	offer "$1" "$2"
	LD_PRELOAD=$agent TRAPLINE_OPTIONS=$option timeout 20 "$victims/race_hostile" >"$tmp/out" 2>"$tmp/err"
	used
}

is_taken()
{
	name=$1
	shift
	taken "$@"
	ok "$name" $?
}

is_not_taken()
{
	name=$1
	shift
	! taken "$@"
	ok "$name" $?
}

is_taken "memory of a command of the same user is used" "" right
is_not_taken "memory of another user is not used" "$as_user" right
is_not_taken "memory of another run is not used" "" nonce
is_not_taken "memory is not used if others can write what the command wants" "" head
is_not_taken "memory is not used if it can be truncated" "" size
is_not_taken "a file that is named by a path is not used" "" old
is_taken "a budget of a command of the same user is used" "" throttle
is_not_taken "a budget of another user is not used" "$as_user" throttle

# With the rights of the file's owner, the options of the one who starts it mean nothing. Its folder
# is below $tmp: it looks for the agent in the folder above, too.
secure=$tmp/secure/race_secure
mkdir -m 755 "$tmp/secure" && cp "$victims/race_secure" "$secure" && chmod 4755 "$secure"
$as_user "$secure"
if [ $? = 3 ]; then
	offer "" right
	TRAPLINE_OPTIONS=$option $as_user "$secure" >"$tmp/out" 2>"$tmp/err"
	! used
	ok "a setuid program takes no options" $?
	offer "" right
	TRAPLINE_OPTIONS=$option "$secure"
	used
	ok "and the same program takes them without the rights of another" $?
else
	skip "a setuid program takes no options" "a temporary folder with setuid programs"
fi

# is_ready: the victim runs its own code.
is_ready()
{
	case $(readlink "/proc/$1/exe") in */race_hostile) ;; *) return 1 ;; esac
}

# A process of root's that keeps bytes of nobody's where gates are.
head -c 4096 /dev/zero >"$tmp/gate"
chmod 666 "$tmp/gate"
"$lent/race_hostile" service "$tmp/gate" >"$tmp/service" &
service=$!
$as_user "$lent/race_hostile" gate "$tmp/gate" &
target=$!
started="$started $service $target"
for _ in $(seq 200); do
	is_ready $target && is_ready $service && break
	sleep 0.1
done
sleep 0.3
race --for 1500ms -p $target
status=$?
wait $service
cp "$tmp/service" "$tmp/out"
[ $status -le 1 ] && says "the service got no SIGTRAP"
ok "a process that was attached to cannot have a signal sent to a process of another user" $?
holds 'map(select(.type == "summary"))[0].stalls > 0'
ok "and is searched itself" $?

# A pipe with a name, which the target says is the one that tells it of the end of the command.
mkfifo -m 666 "$tmp/fifo"
$as_user "$lent/race_hostile" pipe "$tmp/fifo" >"$tmp/pipe" &
target=$!
started="$started $target"
for _ in $(seq 200); do
	is_ready $target && break
	sleep 0.1
done
sleep 0.3
race --for 1s -p $target
status=$?
for _ in $(seq 200); do
	[ -s "$tmp/pipe" ] && break
	sleep 0.1
done
cp "$tmp/pipe" "$tmp/out"
[ $status -le 1 ] && says "the pipe was opened 0 times"
ok "the command opens no file that the target names as its pipe" $?

finished
