#!/bin/sh
# SPDX-License-Identifier: MIT
# test_threads.sh TRAPLINE VICTIMS - --threads: only these threads are observed, those that begin later included.
# TAP. Needs root: uprobes are for it alone.

# shellcheck source=tests/cli/tap.sh disable=SC2154 # trapline, victims, command and tmp come from there
. "$(dirname "$0")/tap.sh"
need_uprobes
need jq
shop=$victims/shop
command='break'

# observed ARG...: as watch, without the line that the program prints.
observed()
{
	watch "$@"
	status=$?
	sed -i '/^ready$/d' "$tmp/out"
	return $status
}

observed libc.so.6:usleep --threads audio --json -- "$shop"
[ $? = 0 ] && hits 'length == 5 and all(.thread == "audio")' && summary '.rejected > 20'
ok "a_name_selects_threads_that_begin_later" $?
observed libc.so.6:usleep --threads 'rep*,audio' --json -- "$shop"
[ $? = 0 ] && hits 'map(.thread) | unique == ["audio", "reporter"]' && hits length==25
ok "several_names_and_the_beginning_of_a_name" $?
observed libc.so.6:usleep --threads 'audi,audios*,UDIO' --json -- "$shop"
[ $? = 0 ] && hits 'length == 0'
ok "another_name_is_not_selected" $?
observed libc.so.6:usleep --threads audio --if 'arg0 == 1000 || arg0 == 20000' --json -- "$shop"
[ $? = 0 ] && hits 'length == 5 and all(.thread == "audio")'
ok "a_condition_with_or_does_not_let_others_in" $?
observed libc.so.6:usleep --threads audio --if 'arg0 == 2' --json -- "$shop"
[ $? = 0 ] && hits 'length == 0'
ok "the_condition_holds_as_well" $?
observed libc.so.6:usleep --threads 'audio' --ret --if 'ret == 0' --json -- "$shop"
[ $? = 0 ] && hits 'length == 5 and all(.thread == "audio" and (.ret == 0 or .ret == "0x0"))'
ok "a_part_about_the_result_stays_one" $?
observed 'syscall:clock_nanosleep' --threads audio --json -- "$shop"
[ $? = 0 ] && hits 'length == 5 and all(.thread == "audio")'
ok "system_calls_of_these_threads" $?
observed 'syscall:clock_nanosleep' --if 'arg0 == 77' --threads audio --json -- "$shop"
[ $? = 0 ] && hits 'length == 0'
ok "system_calls_by_both_conditions" $?

command='record'
watch -o "$tmp/r" --break libc.so.6:usleep --threads 'audio' -- "$shop"
[ $? = 0 ] && "$trapline" report "$tmp/r" --as json >"$tmp/out" && hits 'length == 5 and all(.thread == "audio")'
ok "a_recording_has_these_threads_only" $?
command='break'

start calls
eventually grep -q worker "/proc/$pid"/task/*/comm
worker=$(grep -l '^worker' "/proc/$pid"/task/*/comm | head -n 1 | cut -d / -f 5)
watch -p "$pid" lookup --threads "$worker" --limit 5 --json
[ $? = 0 ] && hits "length == 5 and all(.tid == $worker)"
ok "a_number_selects_one_thread" $?
watch -p "$pid" lookup --threads "$pid,nothing" --limit 5 --json
[ $? = 0 ] && hits "length == 5 and all(.tid == $pid)" &&
	[ "$(grep -c "note: no thread of process $pid has the name 'nothing' yet" "$tmp/err")" = 1 ]
ok "a_name_that_no_thread_has_is_one_line" $?
grep -q "the names now are .*worker" "$tmp/err"
ok "the_line_has_the_names_of_the_threads" $?
wrong "a_number_of_another_process_is_refused" "process $pid has no such thread" -p "$pid" lookup --threads $$
wrong "a_name_that_is_too_long_is_refused" "names of 1 to 15 characters" -p "$pid" lookup --threads audio,sixteen-letters-
wrong "an_empty_name_is_refused" "invalid --threads ''" -p "$pid" lookup --threads a,,b
wrong "no_name_is_refused" "threads is empty" -p "$pid" lookup --threads ''
wrong "a_number_for_a_command_is_refused" "has not started" lookup --threads 4711 -- "$shop"
finished
