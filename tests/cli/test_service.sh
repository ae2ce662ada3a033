#!/bin/sh
# SPDX-License-Identifier: MIT
# test_service.sh TRAPLINE VICTIMS - several processes in one run: -p A,B, --name and --follow. TAP.
# Needs root: uprobes are for it alone.

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/tap.sh"
need_uprobes
# shellcheck source=tests/other_user.sh
. "$(dirname "$0")/../other_user.sh"
need jq
command='break'

FORKS=3000
forker=$victims/forker

watch serve_one --follow --max-rate 0 --output "$tmp/lines" -- "$forker" "$FORKS"
status=$?
mv "$tmp/lines" "$tmp/out.json"
[ $status = 0 ] && [ "$(grep -c '"type":"hit"' "$tmp/out.json")" = "$(grep -x '[0-9]*' "$tmp/out")" ] &&
	grep -qx "$FORKS" "$tmp/out" &&
	tail -n 1 "$tmp/out.json" | jq -e "(.processes | length) == $FORKS and (.lost | add) == 0 and
		.unread == 0" >/dev/null
ok "no_child_of_many_is_lost" $?

jq -e -s 'map(select(.type == "hit")) | all(.pid == .tid and .function == "serve_one") and
	(map(.pid) | unique | length) == '$FORKS "$tmp/out.json" >/dev/null
ok "each_line_has_its_process" $?

watch serve_one -- "$forker" 5 && [ "$(grep -c '  serve_one' "$tmp/out")" = 0 ]
ok "without_follow_children_give_no_hit" $?

# The address of a variable is another one in each process: the kernel does not copy it.
watch serve_one --print 'sum is {sum}' --follow -- "$forker" 5 &&
	[ "$(grep -cE '  sum is ([0-9]+|<unreadable>)  \(memory read later\)' "$tmp/out")" = 5 ]
ok "a_global_variable_is_read_in_each_process" $?

watch serve_one --args --follow --json -- "$forker" exec "$forker"
[ $? = 0 ] && hits 'length == 2 and (map(.pid) | unique | length) == 2 and all(.function == "serve_one")'
ok "what_a_child_executes_is_followed" $?

start forker loop
first=$pid
start forker loop
second=$pid
start forker loop
third=$pid

watch serve_one --args -p "$first,$second" --limit 12 --json
[ $? = 0 ] && hits "length == 12 and all(.args.number == .pid) and
	(map(.pid) | unique | sort) == ([$first, $second] | sort) and all(.caller.function == \"main\")"
ok "two_processes_are_one_stream_and_each_has_its_own_layout" $?

watch serve_one -p "$first" -p "$second" --limit 12
[ $? = 0 ] && grep -q "forker/$first  serve_one" "$tmp/out" && grep -q "forker/$second  serve_one" "$tmp/out" &&
	grep -q '^ *hits  share  process$' "$tmp/out" && ! grep -q "$third" "$tmp/out" &&
	grep -q "in 2 processes ($first, $second), by uprobes" "$tmp/err"
ok "the_summary_has_a_table_of_processes" $?

watch serve_one -p "$first" --limit 3
[ $? = 0 ] && ! grep -q 'share  process' "$tmp/out"
ok "one_process_has_no_such_table" $?

cp "$forker" "$tmp/namesake"
"$tmp/namesake" loop &
early=$!
started="$started $early"
eventually runs "$early" namesake
: >"$tmp/out"
timeout -k 2 60 "$trapline" break serve_one --name namesake --json >"$tmp/out" 2>"$tmp/err" &
observer=$!
started="$started $observer"
eventually grep -q '"type":"hit"' "$tmp/out"
"$tmp/namesake" once &
late=$!
wait "$late"
"$forker" once
eventually grep -q "\"pid\":$late," "$tmp/out"
ok "a_process_that_begins_later_under_the_name_is_covered" $?
kill -INT "$observer"
wait "$observer"
hits "map(.pid) | unique | sort == ([$early, $late] | sort)"
ok "and_a_process_of_another_name_is_not" $?

start forker serve
server=$pid
watch serve_one -p "$server" --follow --limit 5 --json
[ $? = 0 ] && hits "length == 5 and all(.pid != $server) and all(.caller.module == \"forker\")"
ok "children_of_a_running_server_are_followed" $?

command=record
watch -o "$tmp/recording" --break serve_one --args -p "$first,$second" --limit 8
"$trapline" report "$tmp/recording" >"$tmp/out" 2>"$tmp/err"
[ $? = 0 ] && grep -q "^ *[0-9]* .*  forker/$first$" "$tmp/out" && grep -q 'share  process$' "$tmp/out"
ok "a_recording_has_the_process_of_each_hit" $?
command='break'

cp "$forker" "$tmp/other"
"$tmp/other" loop &
other=$!
started="$started $other"
eventually runs "$other" other
watch serve_one -p "$first,$other" --limit 3
[ $? = 0 ] && grep -q "note: 1 of the 2 processes runs another program than process $first, such as .*/other" "$tmp/err"
ok "a_process_of_another_program_is_reported" $?

kill -STOP "$first"
"$trapline" break serve_one -p "$second" --follow >"$tmp/killed" 2>&1 &
observer=$!
eventually grep -q 'serve_one' "$tmp/killed"
kill -KILL "$observer"
wait "$observer" 2>/dev/null
kill -CONT "$first"
watch serve_one -p "$second,$first" --limit 6
ok "a_command_that_was_killed_leaves_nothing_behind" $?

exactly "a_process_that_is_given_twice_is_refused" "process $first is given twice" x -p "$first,$first"
wrong "a_process_that_has_ended_is_refused" 'there is no process' x -p "$first,$late"
if lend; then
	timeout 30 $as_user "$lent/trapline" break serve_one --name no-such-name >"$tmp/out" 2>"$tmp/err"
	[ $? = 2 ] && [ "$(wc -l <"$tmp/err")" = 1 ] &&
		grep -q 'cannot break in several processes (--name): uprobes are needed, and' "$tmp/err"
	ok "a_user_without_uprobes_does_not_wait_for_a_name" $?
else
	skip "a_user_without_uprobes_does_not_wait_for_a_name" "$not_lent"
fi
# A pid namespace has none: there 2 is another process, or no process.
if [ "$(cat /proc/2/comm 2>/dev/null)" = kthreadd ]; then
	wrong "a_thread_of_the_kernel_is_refused" 'process 2 is a kernel thread' x -p "$first,2"
else
	skip "a_thread_of_the_kernel_is_refused" "a kernel thread in this pid namespace"
fi
wrong "what_is_no_process_id_is_refused" 'expected process ids' x -p "$first,y"
wrong "an_empty_id_is_refused" 'expected process ids' x -p "$first,"
wrong "a_list_without_process_is_refused" "no process is named 'no-such-name'" x --name no-such-name --list
watch serve_one --name no-such-name --for 0.3
[ $? = 1 ] && grep -q "no process named 'no-such-name' ran long enough to be seen within --for" "$tmp/err"
ok "a_name_is_awaited_no_longer_than_told" $?
cp "$victims/calls" "$tmp/later-name"
: >"$tmp/err"
"$trapline" break lookup --name later-name --limit 3 --json >"$tmp/out" 2>"$tmp/err" &
observer=$!
eventually grep -q "waiting for a process named 'later-name'" "$tmp/err"
"$tmp/later-name" 100000 1000 &
started="$started $!"
wait $observer && hits 'length == 3'
ok "a_process_that_begins_under_the_name_is_awaited" $?
wrong "a_name_and_a_process_are_refused" 'cannot be combined' x --name forker -p "$first"
wrong "several_need_uprobes" 'needs uprobes' x -p "$first,$second" --no-bpf
wrong "follow_needs_uprobes" 'needs uprobes' x --follow -p "$first" --mechanism probe
# --- wrappers: the program that has the location is run by another one ---

watch serve_one --follow --json -- sh -c '"$0" once; "$0" once; exit 3' "$forker"
[ $? = 0 ] && hits 'length == 2 and (map(.pid) | unique | length) == 2 and .[0].caller.function == "main"' &&
	tail -n 1 "$tmp/out" | jq -e '.command == "exited with status 3"' >/dev/null
ok "what_a_shell_runs_is_found_and_followed" $?

# Threads of the shell that run meanwhile, signals and jobs are as without the search.
watch serve_one --follow --output "$tmp/lines" -- sh -c 'sleep 0.3 && echo slept &
	trap "echo caught" USR1; kill -USR1 $$; "$0" once & wait; wait; "$0" 40; echo done' "$forker"
status=$?
[ $status = 0 ] && [ "$(grep -c '"type":"hit"' "$tmp/lines")" = 41 ] && grep -qx caught "$tmp/out" &&
	grep -qx slept "$tmp/out" && grep -qx 'done' "$tmp/out"
ok "the_rest_of_the_script_runs_as_before" $?

if command -v make >/dev/null && command -v python3 >/dev/null; then
	printf 'all: a b c\na b c:\n\t@%s once\n' "$forker" >"$tmp/Makefile"
	watch serve_one --follow --output "$tmp/lines" -- make -s -j2 -f "$tmp/Makefile"
	[ $? = 0 ] && [ "$(grep -c '"type":"hit"' "$tmp/lines")" = 3 ]
	ok "make_is_followed" $?
	# python3 may be a script that runs twenty programs until it is the interpreter.
	watch serve_one --follow --output "$tmp/lines" -- python3 -c 'import subprocess, sys, threading
def run():
    subprocess.run([sys.argv[1], "once"], check=True)
threads = [threading.Thread(target=run) for _ in range(6)]
for t in threads: t.start()
for t in threads: t.join()
print("all well")' "$forker"
	[ $? = 0 ] && [ "$(grep -c '"type":"hit"' "$tmp/lines")" = 6 ] && grep -qx 'all well' "$tmp/out"
	ok "threads_that_start_programs_are_followed" $?
else
	skip "make_is_followed" "make or python3 is not installed"
	skip "threads_that_start_programs_are_followed" "make or python3 is not installed"
fi

watch no_such_function --follow -- sh -c '"$0" once; echo "ran to its end"' "$forker"
[ $? = 2 ] && grep -qx 'ran to its end' "$tmp/out" &&
	grep -q "cannot find 'no_such_function': sh has ended, and it ran no program that has it" "$tmp/err"
ok "a_name_that_no_program_has_is_reported" $?

watch serve_one -- sh -c '"$0" once' "$forker"
[ $? = 2 ] && grep -q "give --follow" "$tmp/err"
ok "without_follow_the_remedy_is_named" $?

# A child in vfork() cannot be resumed; the run does not wait for it.
rm -f "$tmp/lines"
"$trapline" break lookup --follow --limit 3 --output "$tmp/lines" -- "$victims/vforker" "$tmp/let_go" \
	"$tmp/let_it_go" "$victims/calls" 200 1000 >"$tmp/out" 2>"$tmp/err" &
observer=$!
eventually grep -q '"type":"summary"' "$tmp/lines"
[ ! -e "$tmp/let_go" ] && [ "$(grep -c '"type":"hit"' "$tmp/lines")" = 3 ]
ok "a_child_in_vfork_does_not_hold_up_the_run" $?
touch "$tmp/let_it_go"
wait $observer && [ -e "$tmp/let_go" ]
ok "it_is_let_go_in_the_end" $?

# A kill before the program begins ends all, after it nothing.
"$trapline" break serve_one --follow -- sh -c 'sleep 3; "$0" once; touch "$1"' "$forker" "$tmp/ran" \
	>"$tmp/out" 2>&1 &
observer=$!
sleep 1
kill -KILL "$observer"
wait "$observer" 2>/dev/null
sleep 3
[ ! -e "$tmp/ran" ]
ok "a_kill_during_the_search_ends_the_command" $?
: >"$tmp/out"
"$trapline" break serve_one --follow -- sh -c '"$0" once; sleep 1; "$0" once; touch "$1"' "$forker" \
	"$tmp/ran" >"$tmp/out" 2>&1 &
observer=$!
eventually grep -q '  serve_one' "$tmp/out"
kill -KILL "$observer"
wait "$observer" 2>/dev/null
eventually test -e "$tmp/ran"
ok "a_kill_after_it_leaves_the_command" $?

command=watch
wrong "a_watch_of_a_service_is_refused_with_the_remedy" "cannot use --follow: an address is a variable of one process only; run a watch for each process, or break --follow" x --follow -p "$first"
wrong "a_watch_by_name_is_refused_with_the_remedy" "cannot use --name: .*, or break --name on a function" x --name=forker
wrong "several_processes_cannot_be_watched" 'several processes are for calls' x -p "$first,$second"

echo "1..$count"
[ "$failed" = 0 ]
