#!/bin/sh
# SPDX-License-Identifier: MIT
# test_output.sh TRAPLINE VICTIMS - what a target's names can do to a terminal, the modes of files,
# and outputs that cannot be written. TAP. Needs the right to watch another process.

# shellcheck source=tests/cli/tap.sh disable=SC2154 # trapline, victims and tmp come from there
. "$(dirname "$0")/tap.sh"

escape=$(printf '\033')
c1=$(printf '\302\233')
hostile=$tmp/hostile
# The file stays as long as it was. A line break in sed's text is written as \n.
LC_ALL=C sed "s/qq/$escape\\n/g; s/zz/$c1/g" "$victims/hostile_names" >"$hostile"
chmod 755 "$hostile"
"$hostile" >"$tmp/victim" &
pid=$!
started="$started $pid"
functions="break" # as a word of its own it is a statement
eventually grep -q ready "$tmp/victim"

# clean: nothing that a terminal acts on was printed.
clean()
{
	! LC_ALL=C grep -aqP '[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]' "$tmp/out" "$tmp/err"
}

# has PATTERN: in what was printed.
has()
{
	LC_ALL=C grep -aq "$1" "$tmp/out" "$tmp/err"
}

run()
{
	timeout -k 2 60 "$trapline" "$@" >"$tmp/out" 2>"$tmp/err"
}

LC_ALL=C grep -aq "${escape}" "$hostile" && run watch -p "$pid" --list && clean && has '??variable' &&
	has 'enum ??state'
ok "a_list_of_variables_is_clean" $?

run watch -p "$pid" plain_state --stack -n 5 && clean && has 'STATE_ONE\|STATE_TWO' && has '??work' &&
	has '?\[2J?forged/'
ok "hits_are_clean_in_text" $?

run watch -p "$pid" plain_state --stack -n 5 --json && clean && has '"function":"??' &&
	[ "$(wc -l <"$tmp/out")" = 6 ]
ok "hits_are_clean_in_json" $?

run watch -p "$pid" plain_struct -n 3 && clean && has '??member'
ok "members_are_clean" $?

run "$functions" -p "$pid" '*work*' -n 3 --stack --args && clean && has '??work' && has '??argument'
ok "calls_and_arguments_are_clean" $?

run "$functions" -p "$pid" '*work*' --list && clean && has '??work'
ok "a_list_of_functions_is_clean" $?

run record -p "$pid" plain_counter -n 5 -o "$tmp/recording" && clean &&
	run report "$tmp/recording" && clean && has '?? *inlined\|??inlined\|??work' &&
	run report "$tmp/recording" --as trace && clean && run report "$tmp/recording" --as folded && clean
ok "recordings_are_clean" $?

run watch -p "$pid" no_such
[ $? = 2 ] && clean && run watch -p "$pid" "${escape}[2Jno_such"
[ $? = 2 ] && clean
ok "errors_are_clean" $?

for form in "" --json --gen-suppressions "--as sarif"; do
	# shellcheck disable=SC2086 # an empty form is no argument
	run race --sweep --for 2 $form -- timeout 1 "$hostile"
	clean && has '??\|?[^?]*file.c' || break
done
[ "$form" = "--as sarif" ] && clean
ok "reports_of_races_are_clean" $?

# A terminal gets values in ASCII, since a program's text may hold anything.
script -qec "timeout 60 '$trapline' watch -p $pid plain_text --json -n 4" /dev/null >"$tmp/out" 2>"$tmp/err" </dev/null
! LC_ALL=C grep -aqP '\xc2[\x80-\x9f]' "$tmp/out" && has '"type":"hit"'
ok "json_on_a_terminal_is_ascii" $?

umask 022
run record -p "$pid" plain_counter -n 3 -o "$tmp/recording.1" &&
	run watch -p "$pid" plain_counter -n 3 -o "$tmp/json.1" &&
	run report "$tmp/recording.1" --as html -o "$tmp/page.1" &&
	[ "$(stat -c %a "$tmp/recording.1" "$tmp/json.1" "$tmp/page.1" | sort -u)" = 600 ]
ok "new_files_are_for_their_owner_only" $?

chmod 644 "$tmp/json.1" && run watch -p "$pid" plain_counter -n 3 -o "$tmp/json.1" &&
	[ "$(stat -c %a "$tmp/json.1")" = 644 ]
ok "a_file_that_exists_keeps_its_mode" $?

# fails_to OUTPUT ARG...: exit 1, and the error names the output.
fails_to()
{
	output=$1
	shift
	to=/dev/full
	[ "$output" = /dev/full ] && to=$tmp/out
	timeout -k 2 60 "$trapline" "$@" >"$to" 2>"$tmp/err"
	[ $? = 1 ] && grep -Eq "cannot write $output(: No space left on device| as a whole)" "$tmp/err"
}

fails_to "standard output" watch -p "$pid" plain_counter -n 3 &&
	fails_to "standard output" watch -p "$pid" plain_counter -n 3 --json &&
	fails_to /dev/full watch -p "$pid" plain_counter -n 3 -o /dev/full &&
	fails_to /dev/full record -p "$pid" plain_counter -n 3 -o /dev/full &&
	fails_to "standard output" watch -p "$pid" --list &&
	fails_to "standard output" break -p "$pid" '*work*' -n 3 &&
	fails_to "standard output" report "$tmp/recording" &&
	fails_to "standard output" report "$tmp/recording" --as html &&
	fails_to /dev/full report "$tmp/recording" --as html -o /dev/full &&
	fails_to "standard output" break -p "$pid" '*work*' -n 3 --json &&
	fails_to /dev/full break -p "$pid" '*work*' -n 3 -o /dev/full &&
	fails_to "standard output" watch -p "$pid" --list --json &&
	fails_to "standard output" break -p "$pid" '*work*' --list &&
	fails_to "standard output" race --json --for 0.5 -- sleep 0.1 &&
	fails_to /dev/full race --for 0.5 -o /dev/full -- sleep 0.1 &&
	fails_to /dev/full race --json -o /dev/full -- sleep 0.1 &&
	fails_to "standard output" check --json &&
	fails_to "standard output" help watch
ok "a_full_disk_is_an_error" $?

wrong=
for as in json folded trace html text; do
	fails_to "standard output" report "$tmp/recording" --as $as &&
		fails_to /dev/full report "$tmp/recording" --as $as -o /dev/full || wrong="$wrong $as"
done
[ -z "$wrong" ]
ok "a_full_disk_is_an_error_of_a_report_in_each_form$wrong" $?

# Told once, with its cause.
fails_to /dev/full race --as sarif -o /dev/full -- sleep 0.1 && [ "$(grep -c 'cannot write' "$tmp/err")" = 1 ] &&
	fails_to "standard output" race --as sarif -- sleep 0.1 && [ "$(grep -c 'cannot write' "$tmp/err")" = 1 ] &&
	fails_to /dev/full race --sarif /dev/full -- sleep 0.1
ok "a_full_disk_is_an_error_of_sarif" $?

if [ "$(id -u)" = 0 ] && [ -e /sys/bus/event_source/devices/uprobe/type ]; then
	fails_to /dev/full at 'write#1' --json -o /dev/full -- echo &&
		fails_to /dev/full at 'write#1' -o /dev/full -- echo &&
		fails_to /dev/full at 'write#1' --snapshot -o /dev/full -- echo &&
		fails_to /dev/full at 'write#1+3' --snapshot -o /dev/full -- echo &&
		fails_to /dev/full at 'write#1' --json --signal SIGURG -o /dev/full -- echo &&
		fails_to "standard output" at 'write#1' --json -- sh -c 'echo >&2' &&
		fails_to /dev/full at --each write --signal SIGURG --limit 1 -o /dev/full -- echo &&
		fails_to "standard output" at --each write --signal SIGURG --limit 1 --json -- echo
	ok "a_full_disk_is_an_error_of_a_point" $?
	run at 'write#1' --json -o "$tmp/point" -- sh -c 'echo a; exit 3'
	[ $? = 3 ] && grep -q '"type":"point"' "$tmp/point" && [ "$(cat "$tmp/out")" = a ]
	ok "a_point_that_is_written_leaves_the_exit_status" $?
else
	skip "a_full_disk_is_an_error_of_a_point" "uprobes (root, CONFIG_UPROBE_EVENTS)"
fi

# The number of a closed descriptor must not become that of a file that is opened for the target.
closed_is_wrong()
{
	timeout -k 2 60 "$trapline" "$@" >&- 2>"$tmp/err"
	[ $? = 1 ] && grep -q 'cannot write standard output: Bad file descriptor' "$tmp/err"
}
closed_is_wrong watch -p "$pid" plain_counter -n 3 && closed_is_wrong break -p "$pid" '*work*' -n 3 &&
	closed_is_wrong break -p "$pid" '*work*' -n 3 --json && closed_is_wrong report "$tmp/recording" --as json &&
	closed_is_wrong check && closed_is_wrong race --json -- sleep 0.1
ok "a_closed_standard_output_is_an_error" $?

timeout 60 "$trapline" race -o "$tmp/races" -- sh -c '[ -e /proc/$$/fd/0 ] && [ ! -e /proc/$$/fd/1 ]' \
	>&- 2>"$tmp/err"
ok "a_started_program_has_what_was_closed_closed" $?

# The reader ends after a line; the command says how much it got.
(timeout -k 2 60 "$trapline" watch -p "$pid" plain_counter -n 100000 2>"$tmp/err"; echo $? >"$tmp/status") |
	head -n 1 >"$tmp/out"
[ "$(cat "$tmp/status")" = 1 ] && grep -q 'cannot write standard output: Broken pipe; [0-9]* hits* w' "$tmp/err"
ok "a_closed_pipe_is_an_error" $?

# A signal asks for the end while the pipe is full: each hit that was counted arrives, as a whole line.
mkfifo "$tmp/pipe"
(sleep 2; cat) <"$tmp/pipe" >"$tmp/late" &
reader=$!
"$trapline" watch -p "$pid" plain_counter --json --budget none >"$tmp/pipe" 2>"$tmp/err" &
observer=$!
sleep 1.5
kill -INT $observer
wait $observer
status=$?
wait $reader
[ $status = 0 ] && jq -se '.[-1].type == "summary" and .[-1].delivered == length - 1' "$tmp/late" >/dev/null
ok "a_signal_does_not_shorten_the_output" $?

# A program that is started has the signals of the shell.
# timeout(1) catches some itself.
timeout 60 sh -c 'grep SigIgn /proc/self/status' >"$tmp/alone"
timeout 60 "$trapline" race --for 1 -- sh -c 'grep SigIgn /proc/self/status; grep SigCgt /proc/$$/status' >"$tmp/out" 2>"$tmp/err"
[ "$(awk '/SigIgn/ { print substr($2, 13) }' "$tmp/out")" = "$(awk '/SigIgn/ { print substr($2, 13) }' "$tmp/alone")" ]
ok "a_started_program_does_not_ignore_sigpipe" $?

truncate -s 6G "$tmp/zeros"
run report "$tmp/zeros"
[ $? = 2 ] && grep -q 'no recording of trapline' "$tmp/err" && mkfifo "$tmp/fifo" && ! run report "$tmp/fifo" &&
	grep -q 'not a regular file' "$tmp/err" && ! run report /dev/zero && grep -q 'not a regular file' "$tmp/err"
ok "what_is_no_recording_is_refused_at_once" $?

finished
