#!/bin/sh
# SPDX-License-Identifier: MIT
# test_probe.sh TRAPLINE VICTIMS - `trapline break --mechanism probe`: hits, counts, limits, forks, a
# process that writes over the shared memory, and a command that is killed. TAP. Needs no debug
# register and no BPF. TRAPLINE_STRESS=5000 kills the command 2000 times. TRAPLINE_SEED repeats the moments.

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/tap.sh"
# shellcheck source=tests/other_user.sh
. "$(dirname "$0")/../other_user.sh"
if [ "$(uname -m)" != x86_64 ]; then
	echo "1..0 # SKIP probes are for x86-64"
	exit 0
fi
seed=${TRAPLINE_SEED:-$(od -An -N2 -tu2 /dev/urandom | tr -d ' ')}
state=$seed
echo "# seed $seed"

# probe ARG...: JSON lines in $tmp/out.
probe()
{
	timeout 60 "$trapline" break --mechanism probe --max-rate 0 --json "$@" >"$tmp/out" 2>"$tmp/err"
}

# summary EXPRESSION: true of the summary, with the hits as $hits.
summary()
{
	jq -es '([.[] | select(.type? == "hit")]) as $hits | .[] | select(.type? == "summary") | '"$1" \
		<"$tmp/out" >/dev/null
}
balanced='.taken == .rejected + .delivered + ([.lost[]] | add) + .unread'

# says TEXT: the one line of the error.
says()
{
	grep -q "$1" "$tmp/err" && [ "$(grep -c . "$tmp/err")" = 1 ]
}

begin()
{
	"$@" >"$tmp/victim" 2>&1 &
	pid=$!
	started="$started $pid"
	eventually grep -q ' r-xp .*/probed$' "/proc/$pid/maps"
	sleep 0.1
}

end()
{
	kill "$pid" 2>/dev/null
	wait "$pid" 2>/dev/null
}

# The text of the program, in memory.
text()
{
	awk '$2 ~ /x/ && $6 ~ /\/probed$/ { print $1 }' "/proc/$1/maps" | while read -r range; do
		start=$((0x${range%-*}))
		dd if="/proc/$1/mem" bs=4096 skip=$((start / 4096)) \
			count=$(((0x${range#*-} - start) / 4096)) iflag=fullblock 2>/dev/null
	done | cksum
}
text_is()
{
	[ "$(text "$pid")" = "$1" ]
}
threads_are()
{
	[ "$(cat "/proc/$pid/task/"*/comm | sort | tr '\n' ' ')" = "$1" ]
}

probe work --if 'arg0 % 1000 == 7' -- "$victims/probed" 8 20000 &&
	summary "\$hits | length == 160 and all(.site == \"work\" and .function == \"work\" and .caller.function == \"worker\")" &&
	summary '([$hits[].tid] | unique | length) == 8' && summary "$balanced"
ok each_hit_of_8_threads_is_reported $?

summary '.mechanism == "probe" and .sites_probe + .sites_trap == 1 and .command == null and .ended == "the process ended"'
ok the_summary_has_the_mechanism $?

probe work --if 'arg0 == -1' -- "$victims/probed" 4 20000 &&
	summary '$hits == [] and .evaluated_in == "code" and .rejected_by.condition == null and .taken == 0 and .cost_probe_ns < 1000'
ok hits_that_machine_code_rejects_are_not_counted_as_0 $?

probe work --if 'hits > 0 && box->n == 5 && arg0 % 100 == 1' -- "$victims/probed" 2 2000 &&
	summary '($hits | length) == 40 and .evaluated_in == "handler" and .taken == 4000 and .rejected_by.condition == 3960' &&
	summary "$balanced"
ok the_interpreter_counts_what_it_rejects $?

# The process may end before the command reads the last hit.
probe work --limit 1000 -- "$victims/probed" 8 20000
summary '($hits | length) == 1000 and .delivered == 1000 and .beyond_limit == 0 and (.ended == "the limit was reached" or .ended == "the process ended")' &&
	summary "$balanced"
ok a_limit_is_exact_over_8_threads $?

probe work -- "$victims/probed" 8 50000
summary '.taken == 400000 and .delivered == ($hits | length) and .delivered + .lost.ring_full == 400000' &&
	summary "$balanced"
ok what_a_full_ring_loses_is_counted $?

probe work --args --stack --limit 3 -- "$victims/probed" 1 10 &&
	summary '$hits | length == 3 and ([.[].args.n] == [0, 1, 2]) and all(.stack[0].function == "work" and .stack[1].function == "worker" and .thread == "probed")'
ok arguments_stack_and_thread_are_those_of_the_hit $?

timeout 60 "$trapline" record -o "$tmp/file" --break work --mechanism probe --args --limit 5 -- "$victims/probed" 1 1000 >"$tmp/out" 2>"$tmp/err" &&
	"$trapline" report "$tmp/file" --as json >"$tmp/out" 2>"$tmp/err" &&
	summary '($hits | length) == 5 and [$hits[].args.n] == [0, 1, 2, 3, 4] and .mechanism == "probe" and .sites_probe + .sites_trap == 1'
ok a_recording_has_the_same_hits $?

timeout 60 "$trapline" break work --mechanism probe --if 'arg0 == 3' -- "$victims/probed" 1 10 >"$tmp/out" 2>"$tmp/err" &&
	grep -q '^mechanism: 1 probe.* ns per rejected hit; rejected hits are not counted$' "$tmp/out" &&
	grep -q '^[0-9:.]*  probed/[0-9]*  work  from worker+0x' "$tmp/out"
ok the_text_has_the_price $?

probe work -- "$victims/probed" 2 500 fork
summary '($hits | length) == 1000 and ([$hits[].pid] | unique | length) == 1 and .command == null'
ok a_forked_child_runs_right_and_without_probes $?

probe work --if 'arg0 == 7' -- "$victims/probed" 2 10 setuid
summary '($hits | length) == 2 and .command == null'
ok a_process_may_change_its_user $?

probe work --if 'arg0 % 100 == 7' -- "$victims/probed" 2 1000 exec
# The other program ends at once: its end may be all that is seen.
summary '($hits | length) == 20 and .command == null and
	(.ended == "the process ran another program (exec)" or .ended == "the process ended")' && summary "$balanced"
ok a_program_that_the_process_becomes_has_no_probes $?

# The command cannot read meanwhile, and the process waits for nothing.
: >"$tmp/out"
timeout 240 "$trapline" break work --mechanism probe --max-rate 0 --json -- "$victims/probed" 4 1000000 >"$tmp/out" 2>"$tmp/err" &
timer=$!
eventually grep -q '"hit"' "$tmp/out"
command=$(pgrep -P $timer)
target=$(pgrep -P "$command")
kill -STOP "$command"
eventually grep -q '^State:.Z' "/proc/$target/status"
finished_alone=$?
kill -CONT "$command"
wait $timer
[ $finished_alone = 0 ] && summary '.taken == 4000000 and .lost.ring_full > 0 and .command == null' && summary "$balanced"
ok a_stopped_command_holds_no_thread_and_its_losses_are_counted $?

probe work --if 'arg0 == 7' -- "$victims/probed_locals" 2 10
summary '($hits | length) == 2 and .command == null'
ok a_program_may_have_a_megabyte_of_thread_locals $?

probe libc.so.6:malloc --max-rate 0 -- sh -c '/bin/ls / >/dev/null; /bin/ls / >/dev/null; true'
summary '([$hits[].pid] | unique | length) <= 1 and .command == null'
ok a_program_that_the_command_starts_is_not_observed $?

# chosen ARG...: as probe, without --mechanism.
chosen()
{
	timeout 60 "$trapline" break --max-rate 0 --json "$@" >"$tmp/out" 2>"$tmp/err"
}

chosen work --if 'arg0 == 7' -- "$victims/probed" 2 10
summary '($hits | length) == 2 and .mechanism == "probe" and .no_probe == null' &&
	says 'by probes, which cost least$'
ok a_command_is_probed_by_default $?

# It has the variables as the command's user has them, in the process and in what that starts.
LD_PRELOAD='' TRAPLINE_OPTIONS=keep=1 timeout 60 "$trapline" break malloc --limit 1 -- sh -c \
	'env | grep "^LD_PRELOAD\|^TRAPLINE_OPTIONS"' >"$tmp/out" 2>"$tmp/err"
[ "$(grep '^LD_PRELOAD\|^TRAPLINE_OPTIONS' "$tmp/out")" = TRAPLINE_OPTIONS=keep=1 ]
ok what_a_probed_command_starts_has_no_agent $?

chosen libc.so.6:malloc libc.so.6:calloc libc.so.6:free -- sh -c true
summary '.mechanism == "probe" and ($hits | length) > 0' && ! grep -q 'agent\|_dl_open' "$tmp/out"
ok what_the_agent_itself_calls_is_no_hit $?

# not_chosen REASON ARG...: without probes, and with the reason.
not_chosen()
{
	reason=$1
	shift
	chosen "$@"
	summary '.mechanism != "probe" and .sites_probe == 0 and (.no_probe | test("'"$reason"'"))' &&
		grep -q "by uprobes, not by probes: .*$reason" "$tmp/err"
}
if [ "$(id -u)" = 0 ] && [ -r /sys/bus/event_source/devices/uprobe/type ]; then
	not_chosen '--ret' work --ret -- "$victims/probed" 2 10 && summary '($hits | length) == 20 and ($hits | all(.ret != null))'
	ok returns_choose_uprobes $?
	not_chosen 'counts hits' work worker --if 'hits == 3' -- "$victims/probed" 2 10 && summary '($hits | length) == 1'
	ok counted_hits_of_two_sites_choose_uprobes_before_the_first_call $?
	not_chosen 'linked statically' main -- "$victims/static_victim" 0
	ok a_static_program_chooses_uprobes $?
	printf '#!/bin/sh\nexit 3\n' >"$tmp/script"
	chmod +x "$tmp/script"
	not_chosen 'a script' malloc -- "$tmp/script" && summary '.command == "exited with status 3"'
	ok a_script_chooses_uprobes $?
else
	skip what_a_probe_cannot_do_chooses_uprobes "uprobes (root, CONFIG_UPROBE_EVENTS)"
fi

begin "$victims/probed" 4 0
before=$(text "$pid")
threads=$(cat "/proc/$pid/task/"*/comm | sort | tr '\n' ' ')
probe -p "$pid" work --limit 100 && summary '($hits | length) == 100' && summary "$balanced" &&
	text_is "$before" && threads_are "$threads"
ok after_an_attach_text_and_threads_are_as_before $?

"$trapline" break -p "$pid" work --mechanism probe --json >"$tmp/first" 2>&1 &
first=$!
eventually grep -q '"hit"' "$tmp/first"
! probe -p "$pid" work --limit 1 && says 'has probes of another trapline' && ! text_is "$before"
ok a_second_command_is_refused $?
kill -INT $first
wait $first 2>/dev/null
text_is "$before" && probe -p "$pid" work --limit 1 && summary '($hits | length) == 1'
ok after_the_first_has_ended_it_is_not $?

# kills TIMES: after each, the text is soon as it was.
kills()
{
	for _ in $(seq "$1"); do
		state=$(((state * 1103515245 + 12345) % 2147483648))
		"$trapline" break -p "$pid" work --mechanism probe --json >/dev/null 2>"$tmp/err" &
		killed=$!
		sleep "0.$(printf '%03d' $((state / 65536 % 250)))"
		kill -9 $killed
		wait $killed 2>/dev/null
		eventually text_is "$before" && eventually threads_are "$threads" && kill -0 "$pid" || return 1
	done
}
kills "$(share 40)"
ok a_killed_command_leaves_the_text_as_it_was $?
probe -p "$pid" work --limit 10 && summary '($hits | length) == 10'
ok and_the_next_one_works $?
end

"$victims/probed" 1 0 reload &
pid=$!
started="$started $pid"
reloads=0
for _ in 1 2 3 4 5; do
	eventually grep -q 'libm.so' "/proc/$pid/maps"
	probe -p "$pid" libm.so.6:cbrt --for 0.4 && summary '($hits | length) > 0' && summary "$balanced" &&
		reloads=$((reloads + 1))
	kill -0 "$pid" || break
done
[ $reloads -ge 3 ] && kill -0 "$pid"
ok a_library_may_be_unloaded_with_its_probes_and_come_again $?
end

begin "$victims/probed" 4 0 scribble
probe -p "$pid" work --for 2 --stack --args
[ $? -lt 124 ] && kill -0 "$pid"
ok a_process_that_writes_over_the_ring_harms_only_its_own_hits $?
sed 's/^/# victim: /' "$tmp/victim"
end

# The program closes the agent's descriptor, and has a file of its own at that number.
start closer
: >"$tmp/out"
"$trapline" break -p "$pid" usleep --mechanism probe --json >"$tmp/out" 2>"$tmp/err" &
observer=$!
eventually grep -q '"type":"hit"' "$tmp/out"
kill -USR1 "$pid"
sleep 0.3
kill -INT $observer
wait $observer
sleep 0.3
kill -TERM "$pid"
wait "$pid"
grep -qx ok "$tmp/victim"
ok a_file_at_the_number_of_a_closed_descriptor_stays_open $?

# closed_under_probes SIGNAL...: the agent waits for the command on a descriptor that the program closed.
closed_under_probes()
{
	start closer
	: >"$tmp/err"
	"$trapline" break -p "$pid" usleep --mechanism probe --summary --json --limit 300 >"$tmp/out" 2>"$tmp/err" &
	observer=$!
	eventually grep -q '^breaking on ' "$tmp/err"
	kill -USR1 "$pid"
	eventually [ -e "/proc/$pid/fd/40" ]
	for signal in "$@"; do
		kill -"$signal" "$pid"
		sleep 0.1
	done
	wait $observer
	status=$?
	kill -TERM "$pid"
	wait "$pid"
	[ $status = 0 ] && grep -qx ok "$tmp/victim" && summary "$balanced"
}

# The agent's descriptors are in a table of its own, which the program does not close. A stop makes its wait begin again.
closed_under_probes STOP CONT && summary '.ended == "the limit was reached" and .hits == 300'
ok closed_descriptors_and_a_stop_are_no_end $?
closed_under_probes && summary '.ended == "the limit was reached" and .hits == 300'
ok closed_descriptors_are_no_end $?

# Also of a program that is started: not one number of it is taken.
: >"$tmp/err"
"$trapline" break usleep --mechanism probe --summary --limit 100 -- "$victims/closer" >"$tmp/out" 2>"$tmp/err" &
observer=$!
eventually grep -q '^breaking on ' "$tmp/err"
pid=$(sed -n 's/^breaking on .* in process \([0-9]*\),.*/\1/p' "$tmp/err")
! find "/proc/$pid/fd" -lname '*trapline*' | grep -q .
none_is_ours=$?
kill -USR1 "$pid"
eventually grep -q '^ *100 hits' "$tmp/out"
kill -TERM "$pid"
wait $observer
[ $none_is_ours = 0 ] && grep -qx ok "$tmp/out"
ok a_started_program_has_its_descriptors_to_itself $?

! probe work --ret -- "$victims/probed" 1 1 && says 'ret cannot be combined with --mechanism probe.*use --mechanism uprobe'
ok returns_are_refused $?
! probe work --no-bpf -- "$victims/probed" 1 1 && says 'no-bpf cannot be combined'
ok no_bpf_is_refused $?
! probe work --mechanism kprobe -- "$victims/probed" 1 1 && says 'uprobe'
ok an_unknown_mechanism_is_refused $?
! probe main -- "$victims/calls_static" && says 'linked statically'
ok a_static_program_is_refused $?
! probe work worker --if 'hits == 3' -- "$victims/probed" 1 1 && grep -q 'have a probe of their own.*use --mechanism uprobe' "$tmp/err"
ok counted_hits_of_two_sites_are_refused $?

if lend "$victims/probed"; then
	timeout 60 $as_user "$lent/trapline" break work --mechanism probe --json --if 'arg0 == 2' -- \
		"$lent/probed" 2 100 >"$tmp/out" 2>"$tmp/err" && summary '($hits | length) == 2'
	ok an_ordinary_user_needs_no_privilege $?
else
	skip an_ordinary_user_needs_no_privilege "$not_lent"
fi

finished
