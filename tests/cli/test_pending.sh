#!/bin/sh
# SPDX-License-Identifier: MIT
# test_pending.sh TRAPLINE VICTIMS - locations in a library that the process has not loaded yet. TAP.
# Needs root: uprobes are for it alone.

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/tap.sh"
need_uprobes
command='break'
plugin=$victims/plugin.so

# The first call is that of the constructor, inside dlopen().
watch --pending plugin_func --args -- "$victims/plugin_host" "$plugin" 300 5
[ $? = 0 ] && [ "$(grep -c 'plugin_func(n=' "$tmp/out")" = 6 ] && grep -q 'plugin_func(n=1000)' "$tmp/out" &&
	grep -q "^1005$" "$tmp/out" && grep -q '^6 hits in ' "$tmp/out" && grep -q 'armed before its code ran' "$tmp/err"
ok "a_function_is_armed_before_the_library_runs" $?

grep -q "^trapline break: note: no function is named 'plugin_func' in plugin_host.*; waiting for a library that has 'plugin_func'$" "$tmp/err"
ok "the_wait_is_said_with_its_reason" $?

watch --pending plugin.c:12 -- "$victims/plugin_host" "$plugin" 100 2
[ $? = 0 ] && grep -q '^3 hits in ' "$tmp/out"
ok "a_line_of_the_library_is_armed" $?

# Two threads are born and end within the moment in which the process is let go.
held=0
for _ in $(seq "$(share 20)"); do
	watch --pending plugin_func -- "$victims/plugin_host" "$plugin" 1 0
	[ $? = 0 ] || held=$((held + 1))
done
[ $held = 0 ]
ok "a_process_that_ends_at_once_is_not_held_by_its_threads" $?

watch --pending plugin.so:plugin_func --ret --if 'ret > 1000' -- "$victims/plugin_host" "$plugin" 100 2
[ $? = 0 ] && grep -q '^2 hits in ' "$tmp/out" && grep -q '= 1001' "$tmp/out"
ok "conditions_and_results_are_those_of_the_library" $?

start plugin_host "$plugin" 1500 3
watch --pending plugin_func -p "$pid"
[ $? = 0 ] && grep -q '^4 hits in ' "$tmp/out" && wait "$pid" && grep -q '^1003$' "$tmp/victim"
ok "a_running_process_is_waited_for" $?

# A thread that waits in vfork() for its child stops for no tracer until then.
watch --pending plugin_func --for 60 -- "$victims/plugin_host" "$plugin" 300 2 3000
[ $? = 0 ] && grep -q '^3 hits in .*; the process ended' "$tmp/out" && grep -q '^1002$' "$tmp/out"
ok "a_thread_that_waits_in_vfork_goes_on_after_it" $?
watch --pending plugin_func --limit 1 -- "$victims/plugin_host" "$plugin" 300 2 3000
[ $? = 0 ] && grep -q '^1 hit in ' "$tmp/out" && grep -q '^1002$' "$tmp/out"
ok "also_when_the_observation_ends_before" $?
start plugin_host "$plugin" 1500 2 4000
watch --pending plugin_func --for 60 -p "$pid"
[ $? = 0 ] && grep -q '^3 hits in .*; the process ended' "$tmp/out" && grep -q '^1002$' "$tmp/victim"
ok "also_in_a_running_process" $?

# host_func is called before the load and after it.
watch --pending host_func plugin_func -- "$victims/plugin_host" "$plugin" 100 2
[ $? = 0 ] && grep -q '^4 hits in ' "$tmp/out" && grep -q 'and all locations are observed from then on' "$tmp/err"
ok "locations_beside_it_are_armed_with_it" $?

watch --pending host_func -- "$victims/plugin_host" "$plugin" 10 1
[ $? = 0 ] && grep -q '^2 hits in ' "$tmp/out" && ! grep -q 'waiting' "$tmp/err"
ok "what_is_there_is_not_waited_for" $?

watch --pending plugin_fnuc -- "$victims/plugin_host" "$plugin" 10 2
[ $? = 1 ] && grep -q "waiting for a library that has 'plugin_fnuc'" "$tmp/err" &&
	grep -q "no library that has 'plugin_fnuc' was loaded: the process ended" "$tmp/err" && grep -q '^1002$' "$tmp/out"
ok "a_name_that_never_comes_ends_with_the_process" $?

start plugin_host "$plugin" 20000 1
watch --pending plugin_func --for 0.5 -p "$pid"
[ $? = 1 ] && grep -q "no library that has 'plugin_func' was loaded: the time is over" "$tmp/err" &&
	[ "$(sed -n 's/^TracerPid:[^0-9]*//p' "/proc/$pid/status")" = 0 ]
ok "the_time_includes_the_wait_and_nothing_traces_afterwards" $?

# Killed while it waits: the process loads its library and ends as usual.
start plugin_host "$plugin" 5000 2
"$trapline" break --pending plugin_func -p "$pid" >"$tmp/out" 2>"$tmp/err" &
observer=$!
eventually grep -q waiting "$tmp/err"
sleep 0.3
kill -KILL $observer && wait "$pid" && grep -q '^1002$' "$tmp/victim"
ok "the_process_goes_on_when_the_command_is_killed" $?

"$trapline" record -o "$tmp/calls" --break --pending plugin_func -- "$victims/plugin_host" "$plugin" 100 2 >"$tmp/out" 2>"$tmp/err" &&
	"$trapline" report "$tmp/calls" >"$tmp/out" 2>"$tmp/err" && grep -q '^3 hits in ' "$tmp/out"
ok "a_recording_waits_too" $?

wrong "a_static_program_is_refused" "cannot wait for 'plugin_func': .* is linked statically" \
	--pending plugin_func -- "$victims/calls_static" 1
wrong "probes_are_refused" '--pending cannot be combined with --mechanism probe' \
	--pending plugin_func --mechanism probe -- "$victims/plugin_host" "$plugin" 1 1
wrong "without_the_option_it_is_an_error_that_names_it" 'try again when the library is loaded, or let --pending wait for it$' \
	plugin.so:plugin_func -- "$victims/plugin_host" "$plugin" 1 1

if [ -e /lib/ld-musl-x86_64.so.1 ] && command -v musl-gcc >/dev/null; then
	source=$(dirname "$0")/../victims
	musl-gcc -g -O1 -shared -fPIC "$source/plugin.c" -o "$tmp/musl.so" &&
		musl-gcc -g -O1 "$source/plugin_host.c" -o "$tmp/musl_host" 2>/dev/null
	watch --pending plugin_func -- "$tmp/musl_host" "$tmp/musl.so" 300 3
	[ $? = 0 ] && grep -q '^4 hits in ' "$tmp/out"
	ok "a_program_of_musl_is_waited_for" $?
else
	skip "a_program_of_musl_is_waited_for" musl-gcc
fi

finished
