#!/bin/sh
# SPDX-License-Identifier: MIT
# test_code_log.sh - record --code writes what a command changes in its code, and report --code shows it.
# $1: path of trapline. $2: path of tests/victims/self_poke.
set -u
trapline=$1
victim=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
log=$work/code.log

echo 1..12
n=0
report() { # status name output
	n=$((n + 1))
	verdict=ok
	[ "$1" = 0 ] || verdict='not ok'
	echo "$verdict $n - $2"
	[ "$1" = 0 ] || printf '%s\n' "$3" | sed 's/^/# /'
}

out=$("$trapline" record -o "$log" --code -- "$victim" 2>&1)
recorded=$(printf '%s\n' "$out" | tail -1)
text=$("$trapline" report --code "$log" 2>&1)
sites=$(printf '%s\n' "$text" | grep -c ' site ')
[ "$sites" -gt 1 ] && [ "$recorded" = "$sites changes of code recorded in $log" ] &&
	! printf '%s\n' "$text" | grep 'no change' >/dev/null
report $? the_recorder_says_how_many_changes_there_are "$out"
first=$(printf '%s\n' "$text" | grep -m 1 ' site ')
printf '%s\n' "$text" | grep -q ' stage batch [0-9]* done$' && [ -n "$first" ]
report $? changes_have_sites_and_stages "$out
$text"

"$trapline" report --code "$log" --as json | grep '"kind":"site".*"before":"[0-9a-f]' >/dev/null
report $? json_has_the_bytes "$text"

# Before the first change of a site its bytes are the old ones; within it, one of two.
address=$(printf '%s\n' "$first" | sed 's/.* \(0x[0-9a-f]*\) .*/\1/')
old=$(printf '%s\n' "$first" | sed 's/.* \([0-9a-f]*\) -> .*/\1/')
time=${first%% *}
start=$(printf '%s\n' "$text" | sed -n '1s/ .*//p')
answer=$("$trapline" report --code "$log" --at "$address@$start" 2>&1)
case $answer in "$old"*) false ;; *) true ;; esac
[ $? = 1 ]
report $? old_bytes_before_the_change "$answer is not $old of: $first"
answer=$("$trapline" report --code "$log" --at "$address@$time" 2>&1)
case $answer in 'ambiguous until '*) status=0 ;; *) status=1 ;; esac
report $status ambiguous_while_it_changes "$answer at: $first"

out=$("$trapline" record -o "$work/none.log" --code -- true 2>&1 && "$trapline" report --code \
	"$work/none.log" 2>&1)
[ $? = 0 ] && [ "$out" = "0 changes of code recorded in $work/none.log
no change of code was recorded" ]
report $? a_command_that_changes_nothing_is_said "$out"
out=$("$trapline" report --code "$work/none.log" --as json 2>&1)
[ $? = 0 ] && [ -z "$out" ]
report $? json_of_no_change_has_no_line "$out"

out=$("$trapline" record -o /dev/full --code -- true 2>&1)
[ $? = 1 ] && case $out in *'No space left'*) true ;; *) false ;; esac
report $? a_full_disk_is_reported "$out"

# The recorder is killed: the command continues to its end, and the file is good.
(
	"$trapline" record -o "$work/killed.log" --code -- sh -c "'$victim'; sleep 1; '$victim'
		echo \$? >'$work/status'" >"$work/out" 2>&1 &
	echo $! >"$work/pid"
	wait
) 2>/dev/null &
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
	sleep 0.2
	[ -s "$work/killed.log" ] && [ "$(wc -c <"$work/killed.log")" -gt 1000 ] && break
done
kill -9 "$(cat "$work/pid")"
wait
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
	[ -s "$work/status" ] && break
	sleep 0.5
done
text=$("$trapline" report --code "$work/killed.log" 2>&1)
[ "$(cat "$work/status")" = 0 ] && printf '%s\n' "$text" | grep -q ' site '
report $? a_killed_recorder_leaves_command_and_file "$(cat "$work/out") $text"

out=$("$trapline" record -o "$log" --code -p $$ 2>&1)
[ $? = 2 ] && case $out in *'runs already'*) true ;; *) false ;; esac &&
	! "$trapline" report --code "$trapline" >/dev/null 2>&1 &&
	! "$trapline" report --code "$log" --at nonsense >/dev/null 2>&1
report $? wrong_use_is_refused "$out"

# Without a command the kernel's record has its begin and its end; Ctrl-C ends it.
out=$("$trapline" record -o "$work/kernel.log" --code --kernel --for 300ms 2>&1)
status=$?
text=$("$trapline" report --code "$work/kernel.log" 2>&1)
case $status$out in
*ermission*) [ $status = 1 ] || [ $status = 2 ] ;;
*) [ $status = 0 ] && printf '%s\n' "$text" | grep -q ' 0/0 start' &&
	printf '%s\n' "$text" | grep -q ' 0/0 end' ;;
esac
report $? the_kernel_is_recorded_without_a_command "$out $text"

out=$("$trapline" record -o "$work/both.log" --code --kernel -- "$victim" 2>&1)
text=$("$trapline" report --code "$work/both.log" 2>&1)
case $out in
*ermission*) true ;;
*) printf '%s\n' "$text" | grep -q ' 0/0 start' && printf '%s\n' "$text" | grep -q ' site ' ;;
esac
report $? kernel_and_command_are_in_one_log "$out $text"
