#!/bin/sh
# SPDX-License-Identifier: MIT
# test_address_room.sh TRAPLINE VICTIMS - a process with a limit of its address space (RLIMIT_AS): a tool that
# has no room is refused before it touches anything, and one that has takes no more than it asks for. The same
# for limits of locked memory, of descriptors and of processes. TAP.

# shellcheck source=tests/cli/tap.sh disable=SC1091,SC2034,SC2154 # shared with it
. "$(dirname "$0")/../cli/tap.sh"
# shellcheck source=tests/other_user.sh disable=SC1091
. "$(dirname "$0")/../other_user.sh"
command=flow

# start KIB SECONDS: a program with that limit.
start()
{
	limit=$1
	[ "$limit" = unlimited ] || limit=$((limit * 1024))
	prlimit --as="$limit" "$victims/born_blocked" mask "$2" >"$tmp/target" &
	target=$!
	started="$started $target"
	sleep 0.5
}

# kib NAME: VmSize or VmPeak.
kib()
{
	sed -n "s/^$1:[^0-9]*\([0-9]*\).*/\1/p" "/proc/$target/status"
}

attach()
{
	timeout -k 5 60 "$trapline" "$@" -p "$target" >"$tmp/out" 2>"$tmp/err"
}

# each FUNCTION: with a name, MiB as in the table of cli/launch/process_room.c, and a command.
each()
{
	"$1" flow 330 flow --overhead 100% --for 1
	"$1" heap 150 heap --for 1
	"$1" growth 500 heap --growth --for 1
	"$1" race 160 race --for 1
	"$1" probe 60 break work --mechanism probe --summary --for 1
	"$1" trace 60 break work --trace --for 1
	"$1" throttle 36 throttle --cpu 50% --for 1
}

is_refused()
{
	what=$1
	shift 2
	attach "$@"
	[ $? = 2 ] && grep -q 'limit of address space (RLIMIT_AS) leaves [0-9]* MiB, and .* needs [0-9]* MiB' "$tmp/err" &&
		! grep -v born_blocked "/proc/$target/maps" | grep -q trapline
	ok "$what is refused, with the figures, and is not in the process" $?
}

is_within()
{
	what=$1
	most=$(($2 * 1024 + 131072)) # and what malloc() takes for a thread of ours
	shift 2
	start unlimited 60
	before=$(kib VmPeak)
	attach "$@"
	status=$?
	used=$(($(kib VmPeak) - before))
	kill -0 "$target" && [ $status -le 1 ] && [ $used -le $most ] || echo "# status $status, $used KiB of $most" >&2
	[ $status -le 1 ] && [ $used -le $most ]
	ok "$what takes no more than it asks for" $?
	kill "$target" 2>/dev/null
	wait "$target" 2>/dev/null
}

start 40000 60
each is_refused
kill -0 "$target"
ok 'the process runs on' $?
kill "$target"
wait "$target" 2>/dev/null
each is_within

# A limit of descriptors: the events of a tool would have the program's numbers.
few()
{
	attach "$@"
	[ $? = 2 ] && grep -q 'hard limit of descriptors (RLIMIT_NOFILE) is 32, and .* needs [3-9][0-9]; raise' "$tmp/err" &&
		! grep -v born_blocked "/proc/$target/maps" | grep -q trapline
	ok "$1 is refused where only 32 descriptors are allowed" $?
}

# start_locked [LITTLE]: a program that locks all, or little, with a limit of 8 MiB.
start_locked()
{
	prlimit --memlock=$((8 << 20)) "$victims/locks_all" "$@" >"$tmp/target" &
	target=$!
	started="$started $target"
	eventually grep -q . "$tmp/target"
	before=$(kib VmLck)
}

is_not_locked()
{
	attach "$@"
	[ $? = 2 ] && grep -q 'limit of locked memory (RLIMIT_MEMLOCK) leaves [0-9]* MiB, and .*prlimit .*--memlock=' "$tmp/err" &&
		! grep -v locks_all "/proc/$target/maps" | grep -q trapline && [ "$(kib VmLck)" = "$before" ]
	ok "$1 is refused where all is locked, and leaves no more of that" $?
}

start_locked
if grep -qx 1 "$tmp/target"; then
	is_not_locked flow --overhead 100% --for 1
	is_not_locked heap --for 1
	is_not_locked throttle --cpu 50% --for 1
else
	skip 'locked memory' 'mlockall(2) is refused'
fi
kill "$target"
wait "$target" 2>/dev/null
start_locked little
attach throttle --cpu 50% --for 0.5
[ $? -le 1 ] && [ "$(kib VmLck)" = "$before" ]
ok 'throttle attaches where little is locked' $?
kill "$target"
wait "$target" 2>/dev/null

start unlimited 60
prlimit --pid "$target" --nofile=32:32
few flow --overhead 100% --for 1
few heap --for 1
kill "$target"
wait "$target" 2>/dev/null
start unlimited 60
prlimit --pid "$target" --nofile=32:1024
attach heap --for 0.5
[ $? -le 1 ]
ok 'heap attaches where 1024 may be' $?
kill "$target"
wait "$target" 2>/dev/null

# A limit of processes: no thread of ours can be there.
if lend "$victims/born_blocked"; then
	# Of a user that has no other process: those of a user count together.
	prlimit --nproc=1:1 setpriv --reuid=64017 --regid=64017 --clear-groups "$lent/born_blocked" mask 60 >"$tmp/target" &
	target=$!
	started="$started $target"
	sleep 0.5
	attach heap --for 1
	[ $? = 2 ] && grep -q 'cannot start a thread in it: .*: raise it by prlimit --nproc$' "$tmp/err" &&
		! grep -v born_blocked "/proc/$target/maps" | grep -q trapline && kill -0 "$target"
	ok 'heap is refused where no thread may be added' $?
	kill "$target"
	wait "$target" 2>/dev/null
else
	skip 'heap is refused where no thread may be added' "$not_lent"
fi

start unlimited 60
attach break work --mechanism probe --summary --for 0.3
attach break work --mechanism probe --summary --for 0.3
first=$(kib VmSize)
for _ in 1 2 3 4 5 6; do
	attach break work --mechanism probe --summary --for 0.3
done
[ "$(kib VmSize)" -le $((first + 16384)) ]
ok 'attaches do not add up' $?
finished
