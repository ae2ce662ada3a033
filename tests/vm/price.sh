#!/bin/sh
# SPDX-License-Identifier: MIT
#
# price.sh - runs inside a test machine, where there is nothing but the shell: a busy variable is watched in
# turns, and a running process is stopped at a point and continues. TAP.
count=0
failed=0

ok() { # status, name
	count=$((count + 1))
	if [ "$1" = 0 ]; then
		echo "ok $count - $2"
		return
	fi
	failed=1
	echo "not ok $count - $2"
	for file in /tmp/out /tmp/err; do
		while read -r line; do
			echo "# $line"
		done <$file
	done
}

trapline() {
	/bin/trapline "$@" >/tmp/out 2>/tmp/err
}

says() { # text
	for file in /tmp/out /tmp/err; do
		while read -r line; do
			case $line in *"$1"*) return ;; esac
		done <$file
	done
	return 1
}

# The letter of proc(5).
is_in() { # pid, letters
	while read -r field letter _; do
		[ "$field" = State: ] || continue
		case $letter in [$2]) return ;; esac
	done <"/proc/$1/status"
	return 1
}

/bin/busy &
busy=$!
/bin/calls &
calls=$!
/bin/sleep 1

trapline watch -p $busy total --if 'new == 5' --for 4 --json
says '"budget_percent":10.0' && ! says '"rests":0,' && ! says '"rejected":0,' && says 'note: hits cost the target about '
ok $? "a busy variable is watched in turns"
trapline watch -p $busy total --if 'new == 5' --for 4
says ' of the time' && says 'so that hits cost at most 10% of a CPU'
ok $? "the summary has the share"
trapline watch -p $busy total --if 'new == 5' --for 2 --json --budget none
says '"rests":0,' && ! says '"rejected":0,' && ! says 'hits cost the target'
ok $? "without a budget it does not rest"
trapline watch -p $calls rounds_done --limit 5 --json
says '"hits":5,' && says '"rests":0,'
ok $? "a variable that is seldom written is watched all the time"
kill $busy

trapline at -p $calls 'lookup#3' --json --snapshot
ok $? "at: the third call from now on"
says '"count":3' && says lookup
ok $? "at: its state"
is_in $calls RSD
ok $? "at: the process continues"
trapline at -p $calls 'lookup#2 if arg2 == 1' --snapshot
ok $? "at: occurrences with a condition count"
trapline at -p $calls 'lookup#1' --stop && is_in $calls T
ok $? "at: it is left stopped"
trapline at -p $calls 'lookup#1'
[ $? = 2 ] && says 'is stopped already' && is_in $calls T
ok $? "at: a stopped process is refused"
kill -CONT $calls
/bin/trapline at -p $calls 'lookup#1 if arg2 == 77' >/tmp/out 2>/tmp/err &
waiter=$!
/bin/sleep 3
is_in $calls RSD
ok $? "at: the process runs while the point is awaited"
kill -KILL $waiter
/bin/sleep 1
is_in $calls RSD
ok $? "at: a killed command leaves it running"
trapline at -p $calls 'lookup#1' --signal KILL && wait $calls
[ $? = 137 ]
ok $? "at: a signal is delivered there"

echo "1..$count"
exit $failed
