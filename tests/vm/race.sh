#!/bin/sh
# SPDX-License-Identifier: MIT
#
# race.sh - runs inside a test machine, where there is nothing but the shell: races are found, with
# watches on the CPUs and by traps in the text, and right programs are left alone. TAP.
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
		/bin/trapline race --error-exitcode 66 -o /tmp/out "$@" -- /bin/race_racy "$mode" $seconds \
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

for mode in write_write read_modify_write unaligned; do
	found $mode --overhead 30%
	ok $? "$mode is found"
	says 'watched on the CPUs'
	ok $? "$mode: by watches of the CPUs"
done
found write_write --sweep --time 4
ok $? "write_write is found by a sweep"
for mode in mutex release_acquire lock_free_stack; do
	/bin/trapline race --error-exitcode 66 --overhead 30% -o /tmp/out -- /bin/race_right $mode 4 \
		>/tmp/program 2>&1
	ok $? "$mode: nothing is reported, and the program ends well"
	says ' stalls at '
	ok $? "$mode: it was looked for"
done
echo "1..$count"
exit $failed
