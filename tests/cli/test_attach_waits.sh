#!/bin/sh
# SPDX-License-Identifier: MIT
# test_attach_waits.sh TRAPLINE VICTIMS - a system call that the only thread of a program waits in goes
# on after an attach as if nothing had been: same result, and neither sooner nor later. TAP.

# shellcheck source=tests/cli/tap.sh disable=SC2154 # its variables come from there
. "$(dirname "$0")/tap.sh"
waits=$victims/waits
seconds=14

# begin NAME CALL [interrupted]: a victim; a file of that name gets its line. One whose name begins with
# starved gives way to all others.
begin()
{
	what=$1
	shift
	case $what in starved*) niceness=19 ;; *) niceness=0 ;; esac
	# shellcheck disable=SC2086
	nice -n $niceness "$waits" "$1" $seconds ${2:-} >"$tmp/end.$what" &
	echo $! >"$tmp/pid.$what"
	started="$started $!"
}

# throttle_soon NAME, search_soon NAME: attach, and detach at once.
throttle_soon()
{
	grep -h 'se.exec_start' "/proc/$(cat "$tmp/pid.$1")/sched" >"$tmp/fell_asleep.$1" 2>/dev/null
	timeout -k 2 60 "$trapline" throttle -p "$(cat "$tmp/pid.$1")" --cpu 90% --for 0.01 2>"$tmp/say.$1"
}

search_soon()
{
	timeout -k 2 60 "$trapline" race -p "$(cat "$tmp/pid.$1")" --for 0.1 >"$tmp/say.$1" 2>&1
}

# A command that is killed at a random moment of the attach, which takes some hundredths of a second.
# Unit tests aim at the first steps (test_inject.c).
be_killed()
{
	"$trapline" throttle -p "$(cat "$tmp/pid.$1")" --cpu 90% >/dev/null 2>&1 &
	sleep "$2"
	kill -9 $!
	wait $! 2>/dev/null
}

# A victim that gets no CPU for long, in the middle of the attach, too.
attach_starved()
{
	spinners=
	for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do
		while :; do :; done &
		spinners="$spinners $!"
	done
	for call in $starved; do
		throttle_soon "starved_$call"
	done
	# shellcheck disable=SC2086
	kill $spinners
}

# What an attach takes of the target's own CPU time. It gets 0.2 % of a CPU beside the spinners, and cannot
# go on before that is done: some hypervisors make a page fault ten times as long.
is_cheap()
{
	begin cost recv
	sleep 0.5
	read -r before _ <"/proc/$(cat "$tmp/pid.cost")/schedstat"
	throttle_soon cost
	read -r after _ <"/proc/$(cat "$tmp/pid.cost")/schedstat"
	kill "$(cat "$tmp/pid.cost")"
	cost=$(((after - before) / 1000))
	[ "$cost" -lt 500 ]
}

# goes_on_moved CALL: a thread that sleeps moves to another CPU, and the kernel no longer tells when it ran.
goes_on_moved()
{
	"$waits" "$1" 6 moved >"$tmp/moved.$1" &
	while [ ! -s "$tmp/moved.$1" ]; do
		sleep 0.1
	done
	read -r moved <"$tmp/moved.$1"
	if [ "$moved" = none ]; then
		wait $!
		skip "moved_$1_goes_on" "a kernel that moves sleeping threads to another CPU"
		return
	fi
	before=$(stolen)
	timeout -k 2 60 "$trapline" throttle -p "$moved" --cpu 90% --for 0.01 2>"$tmp/say.moved"
	wait $!
	awk -v more=$((1000 + $(stolen) - before)) 'NR == 2 && $4 >= 5998 && $4 < 6000 + more { good = 1 }
		END { exit !good }' "$tmp/moved.$1"
	good=$?
	cat "$tmp/moved.$1" "$tmp/say.moved" >"$tmp/out"
	ok "moved_$1_goes_on" $good
}

# stolen: how many ms a hypervisor has taken from the CPU that lost most. trapline(7): a timeout that is
# computed again ends later by what was taken since the call began.
stolen()
{
	awk -v per_second="$(getconf CLK_TCK)" '/^cpu[0-9]/ && $9 > most { most = $9 }
		END { print int(most * 1000 / per_second) }' /proc/stat
}

# goes_on NAME CALL [interrupted]: the same result as without an attach. It waits no less than it has
# to, and not a second longer than that other one, but for what was stolen.
goes_on()
{
	control=control.$2${3:+.$3}
	least=$((seconds * (${3:+-1}+4) * 250 - 2))
	paste "$tmp/end.$control" "$tmp/end.$1" 2>"$tmp/err" |
		awk -v least="$least" -v more="$more" \
			'{ good = $2 == $6 && $3 == $7 && $8 >= least && $8 < $4 + more; n++ }
			END { exit !(n == 1 && good) }'
	good=$?
	[ $good = 0 ] || cat "$tmp/end.$control" "$tmp/end.$1" "$tmp/say.$1" >>"$tmp/out" 2>/dev/null
	return $good
}

as_alone()
{
	: >"$tmp/out"
	goes_on "$@"
	ok "${1}_goes_on" $?
}

all=$("$waits")
some='nanosleep poll select futex epoll_wait recv sigsuspend semtimedop'
searched='nanosleep poll futex epoll_wait recv'
killed='nanosleep poll futex'
kills='1 2 3 4 5 6'
crowds='1 2 3 4 5 6'
seed=${TRAPLINE_SEED:-$(date +%s)}
echo "# TRAPLINE_SEED=$seed"
# Seconds.
delays=$(awk -v seed="$seed" 'BEGIN { srand(seed); while (n++ < 18) print (5 + 95 * rand()) / 1000 }')
starved='recv accept'

stolen_before=$(stolen)
for call in $all; do
	begin "control.$call" "$call"
	begin "$call" "$call"
done
for call in $some; do
	begin "control.$call.interrupted" "$call" interrupted
	begin "interrupted_$call" "$call" interrupted
done
for call in $searched; do
	begin "searched_$call" "$call"
done
for call in $killed; do
	for kill in $kills; do
		begin "killed_${call}_$kill" "$call"
	done
done
for n in $crowds; do
	begin "crowd_$n" sigsuspend_crowd
done
sleep 1

{
	for n in $crowds; do
		throttle_soon "crowd_$n"
	done
	for call in $searched; do
		search_soon "searched_$call"
	done
} &
{
	# shellcheck disable=SC2086 # one for each kill
	set -- $delays
	for call in $killed; do
		for kill in $kills; do
			be_killed "killed_${call}_$kill" "$1"
			shift
		done
	done
	for call in $some; do
		throttle_soon "interrupted_$call"
	done
} &
# Nothing could undo that they end with a part.
for call in write send; do
	throttle_soon "$call"
	grep -q 'each of its threads writes or sends data' "$tmp/say.$call"
	ok "${call}_is_not_interrupted_at_all" $?
done
for call in $all; do
	case $call in write | send) ;; *) throttle_soon "$call" ;; esac
done
wait
# At the end, for it can last longer than the calls of the others.
if is_cheap; then
	for call in $starved; do
		begin "starved_$call" "$call"
	done
	sleep 1
	attach_starved
	wait
fi
# Alone, since many threads take turns to make one move.
for call in epoll_wait recv; do
	goes_on_moved $call
done
more=$((1000 + $(stolen) - stolen_before))
echo "# a call may end $more ms later"

# The result of each is the same. One may end late on a busy machine; the test prints it.
late=0
strict=$more
in_time()
{
	goes_on "$@" && return
	late=$((late + 1))
	echo "# late: $1: $(cat "$tmp/end.$1") $(cat "$tmp/fell_asleep.$1" 2>/dev/null)"
}
may_be_late()
{
	more=$strict
	in_time "$@"
	more=60000
	as_alone "$@"
	more=$strict
}
for call in $all; do
	may_be_late "$call" "$call"
done
for call in $some; do
	may_be_late "interrupted_$call" "$call" interrupted
done
for n in $crowds; do
	as_alone "crowd_$n" sigsuspend_crowd
done
# A sample of the search may meet a thread that is about to wait, and ends the call as signals do.
ended=0
for call in $searched; do
	goes_on "searched_$call" "$call" || ended=$((ended + 1))
done
[ $ended -le 1 ]
ok "calls_go_on_beside_a_search" $?
for call in $killed; do
	for kill in $kills; do
		may_be_late "killed_${call}_$kill" "$call"
	done
done
[ $late -le 1 ]
ok "calls_end_in_time" $?
for call in $starved; do
	if [ -s "$tmp/end.starved_$call" ]; then
		as_alone "starved_$call" "$call"
	else
		skip "starved_${call}_goes_on" "a machine where an attach takes under 0.5 ms of the target (here: $cost us)"
	fi
done

finished
