#!/bin/sh
# SPDX-License-Identifier: MIT
#
# race.sh PART - runs inside a test machine, where there is nothing but the shell: races are found, with
# watches on the CPUs and by traps in the text, and right programs are left alone. TAP. PART is
# race: of programs that the command starts; attach: of a process that runs, and that a throttle then
# holds back; sweep: cold code too.
#
# That a race is found is asked, not how its second side reads: an emulated processor does not leave
# after an access what silicon does.
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
	while read -r line; do
		echo "# $line"
	done </tmp/out
}

# found MODE ARG...: within some tries, each longer than the one before.
found() {
	mode=$1
	shift
	for seconds in 2 4 8 16 32; do
		/bin/trapline race -v --error-exitcode 66 -o /tmp/out "$@" -- /bin/race_racy "$mode" $seconds \
			>/tmp/program 2>&1
		[ $? = 66 ] && return
	done
	return 1
}

says() { # text
	while read -r line; do
		case $line in *"$1"*) return ;; esac
	done </tmp/out
	return 1
}

started_programs() {
	for mode in write_write read_modify_write unaligned; do
		found $mode --overhead 30%
		ok $? "$mode is found"
		says 'watchpoints on the CPUs'
		ok $? "$mode: by watches of the CPUs"
	done
	found write_write --sweep --for 4
	ok $? "write_write is found by a sweep"
	for mode in mutex release_acquire lock_free_stack; do
		for seconds in 4 8 16; do
			/bin/trapline race --error-exitcode 66 --overhead 30% -o /tmp/out -- \
				/bin/race_right $mode $seconds >/tmp/program 2>&1
			status=$?
			if [ $status != 0 ] || ! says ' s: 0 stalls '; then break; fi
		done
		ok "$status" "$mode: nothing is reported, and the program ends well"
		says ' s: ' && ! says ' s: 0 stalls '
		ok $? "$mode: it was looked for"
	done
}

# The first search has the events of the CPUs: the second opens watches for each stall.
second_search() {
	/bin/trapline race --overhead 5% -o /tmp/first -- /bin/race_right mutex 600 >/tmp/program 2>&1 &
	first=$!
	sleep 2
	found write_write --overhead 30%
	ok $? "write_write is found beside another search"
	! says 'watchpoints on the CPUs'
	ok $? "write_write: by watches of its own"
	kill -TERM $first
	wait $first
}

# The victim ends with 0 only if nothing disturbed it.
ends_well() {
	kill -TERM "$pid"
	wait "$pid"
	ok $? "$1: the process notices nothing"
}

running_programs() {
	/bin/race_attached busy 600 >/tmp/program 2>&1 &
	pid=$!
	sleep 1
	for seconds in 2 4 8 16 32; do
		/bin/trapline race -v --error-exitcode 66 --overhead 30% --for $seconds -o /tmp/out -p $pid \
			>/tmp/err 2>&1
		status=$?
		[ "$status" != 66 ] || break
	done
	[ "$status" = 66 ]
	ok $? "race -p finds the race of a running process"
	/bin/trapline throttle --cpu 30% --for 3 -p $pid >/tmp/out 2>&1
	ok $? "throttle -p holds the process back and leaves it"
	says 'CPU '
	ok $? "throttle -p says how much it used"
	ends_well "race -p, throttle -p"
}

cold_code() {
	for mode in once_a_second once_a_run by_sleep; do
		for seconds in 2 4 8 16; do
			/bin/trapline race --sweep --error-exitcode 66 --for $seconds -o /tmp/out -- \
				/bin/race_cold $mode $seconds >/tmp/program 2>&1
			status=$?
			[ "$status" != 66 ] || break
		done
		[ "$status" = 66 ]
		ok $? "$mode is found by a sweep"
	done
	/bin/trapline race --sweep --error-exitcode 66 --for 4 -o /tmp/out -- /bin/race_right mutex 4 \
		>/tmp/program 2>&1
	ok $? "mutex: a sweep reports nothing, and the program ends well"
}

# What a stall provokes is told, with the stall; what the program does by itself is not.
provoked() {
	for mode in assertion hang; do
		for seconds in 5 10 20 40; do
			/bin/trapline race --sweep --error-exitcode 66 --for $seconds -o /tmp/out -- \
				/bin/race_provoked $mode >/tmp/program 2>&1
			says 'failure: ' && break
		done
		case $mode in
		assertion) says 'failure: killed by SIGABRT in ' && says ', and in none of ' ;;
		hang) says 'failure: a hang in ' && says ', and in none of ' && says 'considered hung' ;;
		esac
		ok $? "$mode: a failure that stalls provoke is told"
		says ' in race_provoked'
		ok $? "$mode: with the stall before it"
	done
	for seconds in 10 20 40; do
		/bin/trapline race --sweep --for $seconds --json -o /tmp/known -- /bin/race_provoked hang \
			>/tmp/program 2>&1
		fingerprint=
		while read -r line; do
			case $line in '{"type":"failure"'*)
				fingerprint=${line#*'"fingerprint":"'}
				fingerprint=${fingerprint%%'"'*}
				;;
			esac
		done </tmp/known
		[ -z "$fingerprint" ] || break
	done
	/bin/trapline race --replay "$fingerprint" --input /tmp/known --for 60 -o /tmp/out -- \
		/bin/race_provoked hang >/tmp/program 2>&1
	says "replay of $fingerprint: seen 1 time, in 1 of "
	ok $? "hang: a replay shows the failure again"
	/bin/trapline race --replay "$fingerprint" --input /tmp/known --for 5 -o /tmp/out -- \
		/bin/race_provoked mended >/tmp/program 2>&1
	says "replay of $fingerprint: not seen in "
	ok $? "mended: a replay does not show it"
	for mode in mended woken; do
		/bin/trapline race --sweep --for 5 -o /tmp/out -- /bin/race_provoked $mode >/tmp/program 2>&1
		ok $? "$mode: no run fails or hangs"
		! says 'failure: ' && ! says 'considered hung'
		ok $? "$mode: no failure is told"
	done
	/bin/trapline race --sweep --for 1 -o /tmp/out -- /bin/race_provoked broken >/tmp/program 2>&1
	[ $? = 3 ] && ! says 'failure: ' && says 'exit status 3 in '
	ok $? "broken: it fails without stalls too"
}

# Functions with constants behind calls that never come back, into libraries too.
constants() {
	for mode in after_abort after_library after_library_deep after_library_word; do
		/bin/trapline race --sweep --for 3 -o /tmp/out -- /bin/race_constants $mode 2 >/tmp/program 2>&1
		ok $? "$mode: the bytes stay as they are"
		says ' stalls at '
		ok $? "$mode: there were traps"
	done
}

case $1 in
race)
	started_programs
	second_search
	;;
attach) running_programs ;;
sweep) cold_code ;;
constants) constants ;;
provoked) provoked ;;
esac
echo "1..$count"
exit $failed
