#!/bin/sh
# SPDX-License-Identifier: MIT
# test_kernel_events.sh TRAPLINE VICTIMS - system calls, descriptors, signals, and the begin and end of
# processes as locations of break. TAP. Needs root: a BPF program at a tracepoint sees them.

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/tap.sh"
[ "$(id -u)" = 0 ] || skip_all "tracepoints need root"
[ -r /sys/kernel/btf/vmlinux ] || skip_all "the kernel has no description of itself (BTF)"
need jq
command='break'
end_by=KILL # SIGTERM is what it waits for
victim=$victims/kernel_events

# A container has numbers of its own for its processes.
has_first_numbers()
{
	[ "$(readlink /proc/self/ns/pid)" = 'pid:[4026531836]' ]
}

# none_lost: the summary's account is right, and complete.
none_lost()
{
	summary '(.lost | add) == 0 and .unread == 0 and
		.taken == .delivered + (.rejected_by | add) and (.mechanism // "tracepoint") == "tracepoint"'
}

# ---- one thread closes the descriptor of another ----

watch syscall:close --if 'arg0 == 77' --stack --json -- "$victim" closes
[ $? = 0 ] && hits 'length == 2 and .[0].caller.function == "pool_evict" and
	.[1].caller.function == "conn_finish" and .[0].tid != .[1].tid and
	(.[0].stack | map(.function) | index("evictor")) and all(.site == "close")' && none_lost
ok "the_code_that_closed_the_descriptor_is_named_with_its_stack" $?
summary '.rejected_by.condition > 0'
ok "other_descriptors_are_rejected_in_the_kernel" $?

watch fd:77 --ret --json -- "$victim" closes
[ $? = 0 ] && hits 'map(.site) == ["dup2", "read", "close", "close"] and
	map(.ret) == [77, 1, 0, -9] and (.[2].caller.function == "pool_evict") and
	.[0].args == {oldfd: .[0].args.oldfd, newfd: 77}' && none_lost
ok "a_descriptor_has_the_story_of_its_life" $?

watch fd:78 --json -- "$victim" closes
[ $? = 0 ] && hits 'length == 0'
ok "another_descriptor_has_no_hit" $?

low=$("$victim" pipes 2>/dev/null | head -n 1)
watch "fd:$low" --output "$tmp/lines" -- "$victim" pipes
status=$?
mv "$tmp/lines" "$tmp/out"
[ $status = 0 ] && hits 'map(.site | if . == "pipe" then "pipe2" else . end) == ["dup", "close", "pipe2",
	"close", "socketpair", "close", "epoll_create1", "close", "fcntl", "close", "dup3", "close",
	"close_range"] and .[0].ret == '"$low"' and .[0].duration_ns == null and .[1].ret == null' && none_lost

ok "each_way_to_make_a_descriptor_is_seen" $?

# ---- arguments and results ----

watch syscall:openat --args --ret -- "$victim" opens
[ $? = 0 ] || [ $? = 1 ]
grep -q 'openat(dirfd=AT_FDCWD, path="/dev/null", flags=O_RDWR|O_CLOEXEC) = [0-9]* ' "$tmp/out" &&
	grep -q 'path="/nonexistent/file", flags=O_WRONLY|O_CREAT|O_TRUNC, mode=0640) = -ENOENT ' "$tmp/out"
ok "arguments_have_names_flags_and_text_and_results_their_error" $?

watch syscall:openat --if 'ret < 0' --ret --json -- "$victim" opens
hits 'length == 1 and .[0].ret == -2' && summary '.other_results >= 1'
ok "a_condition_on_the_result_chooses_the_calls_that_failed" $?

watch syscall:openat --if 'str(arg1) == "/nonexistent/file"' --json -- "$victim" opens
hits 'length == 1 and .[0].args == null'
ok "a_condition_compares_the_text_of_an_argument" $?

watch 'syscall:*' --summary --json --output "$tmp/lines" -- "$victim" calls 100
[ "$(wc -l <"$tmp/lines")" = 1 ] && mv "$tmp/lines" "$tmp/out" &&
	summary '.hits > 100 and any(.functions[]; .function == "close" and .hits >= 100) and
		any(.functions[]; .function == "exit_group" and .hits == 1)'
ok "a_pattern_counts_all_system_calls" $?

# ---- nothing is lost in silence ----

calls=$(share 100000)
watch syscall:close --if 'arg0 >= 1000' --summary --budget none --max-rate 0 --json --output "$tmp/lines" -- \
	"$victim" calls "$calls"
mv "$tmp/lines" "$tmp/out"
summary ".taken == .delivered + (.rejected_by | add) + (.lost | add) + .unread and
	.delivered + (.lost | add) >= $calls"
ok "each_call_is_a_hit_or_a_count_of_a_loss" $?

watch syscall:close --if 'arg0 == 1000' --limit 7 --json -- "$victim" calls 1000
[ $? = 0 ] && hits 'length == 7'
ok "a_limit_is_exact" $?

# ---- any program, any process ----

watch syscall:close --if 'arg0 >= 1000' --json -- "$victims/kernel_events_static" calls 3
hits 'length == 3 and all(.caller.function == "calls")'
ok "a_static_program_is_observed" $?

watch syscall:close --if 'arg0 >= 1000' --json -- sh -c "'$victim' calls 3; :"
hits 'length == 0'
ok "children_are_not_observed" $?
watch syscall:close --if 'arg0 >= 1000' --follow --json -- sh -c "'$victim' calls 3; :"
hits 'length == 3 and all(.caller.function == "calls")'
ok "with_follow_children_are_observed_and_what_they_execute" $?

start kernel_events loops
first=$pid
start kernel_events loops
watch syscall:openat -p "$first" --limit 5 --json
[ $? = 0 ] && hits "length == 5 and all(.pid == $first)" && none_lost
ok "a_running_process_is_observed_and_another_one_is_not" $?
watch syscall:openat -p "$first,$pid" --limit 20 --json
[ $? = 0 ] && hits "(map(.pid) | unique | length) == 2"
ok "two_processes_are_one_stream" $?
watch syscall:close -p "$first" --limit 1 --then 'exec true'
[ $? = 0 ]
ok "an_action_follows_a_hit" $?

# The observer is killed: the kernel takes its programs away, and the process goes on.
has_programs()
{
	for id in $programs; do
		bpftool prog show id "$id" >/dev/null 2>&1 && return
	done
	return 1
}
has_none()
{
	! has_programs
}
if command -v bpftool >/dev/null; then
	"$trapline" break syscall:openat -p "$first" --json >"$tmp/out" 2>/dev/null &
	observer=$!
	eventually test -s "$tmp/out"
	programs=$(sed -n 's/^prog_id:[[:space:]]*//p' /proc/$observer/fdinfo/* 2>/dev/null)
	has_programs
	had=$?
	kill -KILL $observer
	wait $observer 2>/dev/null
	[ $had = 0 ] && eventually has_none && kill -0 "$first"
	ok "a_killed_observer_leaves_no_program" $?
else
	skip "a_killed_observer_leaves_no_program" "bpftool"
fi

# ---- signals ----

start kernel_events waits
target=$pid
cat >"$tmp/stop.sh" <<'S'
stop_service() { kill -TERM "$1"; }
stop_service "$1"
sleep 1
S
if has_first_numbers; then
	(sleep 1; sh "$tmp/stop.sh" "$target") &
	sender=$!
	watch signal:SIGTERM -p "$target" --stack --limit 1 --json
	[ $? = 0 ] && hits "length == 1 and .[0].args.to == $target and .[0].args.code == 0 and
		.[0].pid != $target and .[0].thread == \"sh\" and (.[0].stack | length) > 2 and
		(.[0].stack[0].function | test(\"kill\"))"
	ok "the_process_that_sent_the_signal_is_named_with_its_stack" $?
	wait "$sender"

	(sleep 1; kill -USR2 $$ ; kill -CONT "$target"; kill -TERM "$target") &
	sender=$!
	trap : USR2
	watch 'signal:*' -p "$target" --limit 2 --for 20 --json
	hits "map(.site) == [\"SIGCONT\", \"SIGTERM\"] and all(.args.to == $target)"
	ok "signals_to_other_processes_are_no_hits" $?
	wait "$sender"

	(sleep 1; kill -TERM "$target") &
	sender=$!
	watch signal:TERM --if 'pid != 1' --limit 1 --for 20 --json
	hits "length == 1 and .[0].args.to == $target"
	ok "without_a_process_the_whole_system_is_observed" $?
	wait "$sender"
else
	skip "the_process_that_sent_the_signal_is_named_with_its_stack" "the first pid namespace"
	command='break'
	wrong "a_signal_in_a_container_is_refused" "first pid namespace" signal:TERM -p "$target"
	wrong "a_fork_in_a_container_is_refused" "first pid namespace" fork -p "$target"
fi

# ---- programs begin and end ----

if has_first_numbers; then
	watch exec fork exit --follow --json -- "$victim" children
	[ $? = 0 ] && hits 'map(select(.site == "fork")) | length == 3 and all(.caller.function == "children")' &&
		hits 'map(select(.site == "exit")) | length == 4 and (map(.args.status) | contains([5, 0])) and
			(map(.args.signal) | index(9))' &&
		hits 'map(select(.site == "execve")) | length == 1 and (.[0].args.path.pointer | startswith("0x")) and
			.[0].caller.function == "children"'
	ok "forks_execs_and_ends_have_the_code_and_the_status" $?
	hits 'map(select(.site == "fork") | .args.child) == (map(select(.site == "exit")) | map(.pid) | .[:3])'
	ok "the_child_of_a_fork_is_the_process_that_ends" $?
else
	skip "forks_execs_and_ends_have_the_code_and_the_status" "the first pid namespace"
fi

watch exit --json -- "$victim" threads
hits 'length == 1 and .[0].args.status == 0'
ok "a_process_whose_threads_end_one_by_one_ends_once" $?
if has_first_numbers; then
	watch fork --json -- "$victim" closes
	hits 'length == 0'
	ok "a_new_thread_is_no_fork" $?
	watch oom --json -- "$victim" calls 3
	[ $? = 0 ] && hits 'length == 0'
	ok "without_an_out_of_memory_kill_there_is_no_hit" $?
else
	skip "a_new_thread_is_no_fork" "the first pid namespace"
fi

# ---- what cannot be ----

wrong "an_unknown_system_call_has_near_names" "no system call 'opennat'.*did you mean openat" \
	syscall:opennat -- "$victim" calls 1
wrong "an_unknown_signal_is_refused" "invalid signal 'SIGFOO'" signal:SIGFOO -p "$target"
wrong "a_descriptor_is_a_number" "invalid fd 'seven'" fd:seven -p "$target"
wrong "code_and_kernel_do_not_mix" "main is a location in the code" syscall:close main -p "$target"
wrong "a_mechanism_is_refused" "mechanism cannot be combined" syscall:close --mechanism uprobe -p "$target"
wrong "a_text_is_refused" "print cannot be combined" syscall:close --print '{arg0}' -p "$target"
wrong "a_signal_has_no_result" "ret is for system calls" signal:TERM --ret -p "$target"
wrong "caller_is_no_term_there" "caller has no meaning" syscall:close --if 'caller == 3' -p "$target"
wrong "watch_has_no_such_location" "." syscall:close --on rw -p "$target"
cat >"$tmp/own.c" <<'S'
__attribute__((noinline)) int exec(int n) { return n + 1; }
int main(int argc, char **argv) { return exec(argc) == 0; }
S
if cc -g -o "$tmp/own" "$tmp/own.c" 2>/dev/null; then
	wrong "a_function_of_that_name_is_asked_about" "write own:exec or kernel:exec" exec -- "$tmp/own"
	watch own:exec --json -- "$tmp/own" && hits 'length == 1 and .[0].function == "exec"'
	ok "a_function_is_chosen_with_its_object" $?
	watch kernel:exec --json -- "$tmp/own" && hits 'length == 0'
	ok "the_event_is_chosen_with_its_word" $?
	# Both programs have a text at the same address: it was that of the second one in 2 of 3 runs.
	printf '%s\n' '#include <unistd.h>' 'int main(int c, char **v) { return execl(v[1], "", NULL); }' >"$tmp/one.c"
	printf '%s\n' '#include <unistd.h>' 'int main(void) { return access("other", 0) == 0 || usleep(100000); }' \
		>"$tmp/two.c"
	cc -no-pie -o "$tmp/two" "$tmp/two.c"
	sed -i "s|v\[1\]|\"$tmp/two\"|" "$tmp/one.c" && cc -no-pie -o "$tmp/one" "$tmp/one.c"
	wrong=0
	for _ in 1 2 3 4 5; do
		watch exec --json -- "$tmp/one"
		hits "length == 1 and (.[0].args.path.string | . == null or . == \"$tmp/two\")" || wrong=$((wrong + 1))
	done
	[ $wrong = 0 ]
	ok "what_is_executed_has_no_text_of_the_new_program" $?
else
	skip "a_function_of_that_name_is_asked_about" "a C compiler"
fi
if has_32_bit; then
	start narrow
	wrong "a_32_bit_program_is_refused" "is a 32-bit program" syscall:close -p "$pid"
else
	skip "a_32_bit_program_is_refused" "32-bit programs"
fi

# ---- a static Go program closes a descriptor twice ----

if command -v go >/dev/null; then
	mkdir "$tmp/go"
	cat >"$tmp/go/main.go" <<'S'
package main

import (
	"os"
	"syscall"
)

//go:noinline
func ownerCloses(f *os.File) { f.Close() }

//go:noinline
func leakCloses(fd int) { syscall.Close(fd) }

func main() {
	f, _ := os.Open("/dev/null")
	fd := int(f.Fd())
	syscall.Dup3(fd, 99, 0)
	g := os.NewFile(99, "shared")
	leakCloses(99)
	ownerCloses(g)
	ownerCloses(f)
}
S
	(cd "$tmp/go" && HOME=$tmp CGO_ENABLED=0 GOFLAGS=-mod=mod GO111MODULE=off go build -o "$tmp/twice" main.go) 2>"$tmp/err"
	watch fd:99 --ret --json --stack -- "$tmp/twice"
	hits '[.[] | select(.site == "close")] | length == 2 and .[0].caller.function == "main.leakCloses" and
		.[0].ret == 0 and .[1].ret == -9 and
		(.[1].stack | map(.function) | index("main.ownerCloses"))'
	ok "a_go_program_shows_both_that_close_the_descriptor" $?
else
	skip "a_go_program_shows_both_that_close_the_descriptor" "go"
fi

if command -v musl-gcc >/dev/null && musl-gcc -g -O1 -o "$tmp/musl" \
	"$(dirname "$0")/../victims/kernel_events.c" 2>"$tmp/err"; then
	watch syscall:close --if 'arg0 >= 1000' --json -- "$tmp/musl" calls 3
	hits 'length == 3 and all(.args == null and .site == "close")'
	ok "a_musl_program_is_observed" $?
else
	skip "a_musl_program_is_observed" "musl-gcc"
fi
finished
