#!/bin/sh
# SPDX-License-Identifier: MIT
# test_race_sweep.sh TRAPLINE VICTIMS - a sweep: each race is found by the sites, cold ones too, and
# nothing in programs that are right; coverage is told; what cannot be trapped is said. TAP.

# shellcheck source=tests/tools/race_lib.sh disable=SC1091,SC2034,SC2154 # shared with it
. "$(dirname "$0")/race_lib.sh"

# sweeps NAME EXPRESSION RUN PROGRAM MODE: as found(), by a sweep over runs of RUN seconds.
sweeps()
{
	for seconds in 0.4 1 3 9 27 27; do
		race --sweep --for $seconds -- "$4" "$5" "$3"
		if holds "any(.[]; .type == \"race\" and $2)"; then
			ok "$1" 0
			return
		fi
	done
	ok "$1" 1
}

shortly=0.3
is_short && shortly=0.2
# quiet NAME RUN PROGRAM MODE: nothing at the grades that are printed; and sites were held.
quiet()
{
	for seconds in $shortly 0.6 5 25; do
		race --sweep --for $seconds -- "$3" "$4" "$2"
		status=$?
		holds '.[-1] | .stalls > 0 and .sites_covered > 0' && break
	done
	ok "$1" $status
	holds 'all(.[]; .type != "race") and .[-1].stalls > 0 and .[-1].sites_covered > 0 and
		.[-1].sites_refused == 0'
	ok "$1: sites were held, and nothing is reported" $?
}

for mode in $("$victims/race_racy" --list); do
	sweeps "$mode" true 0.3 "$victims/race_racy" "$mode"
done
sweeps "each thread has a megabyte of its own" true 0.3 "$victims/race_racy_locals" read_write
holds '.[-1].sites_refused == 0'
ok "each thread has a megabyte of its own: sites are trapped" $?
openmp_sleeps
# The others are found by the timer too (test_race_racy.sh).
for mode in $("$victims/race_openmp" --list | grep '^wrong_.*\(edges\|own_frame\)'); do
	sweeps "OpenMP $mode" "(.second.function | startswith(\"$mode\"))" 0.05 \
		"$victims/race_openmp" "$mode"
done
unset OMP_WAIT_POLICY
cold='.variable == "level"'
sweeps "a store executed once a second" "$cold" 1.9 "$victims/race_cold" once_a_second
for mode in once_a_run both_rare at_the_end by_sleep by_second by_select; do
	sweeps "$mode" "$cold" 0.2 "$victims/race_cold" $mode
done
sweeps "copies by libc, once a run" \
	'(.first.function == "image_store" and .second.function == "image_store")' 0.1 \
	"$victims/race_cold" copies

# Others store between the arming and the wait: what was there before is no later value than the new,
# and the time until they came is none.
seen=0
later=0
for i in 1 2 3 4 5 6 7 8 9 10; do
	race --sweep --for 0.1 -- "$victims/race_racy" read_write_beside_many 0.05
	holds 'any(.[]; .type == "race")' && seen=$((seen + 1))
	holds 'any(.[]; .type == "race" and (.old > .new or .stalled_ns > 1e11))' && later=$((later + 1)) && break
done
[ $seen -gt 2 ] && [ $later = 0 ]
ok "the old value of what only grows, and the time, are not beyond the new ones ($later of $seen)" $?

sweeps "a variable of the caller, through rbp" '(.first.function == "rbp_store")' 0 "$victims/race_rbp" free
race --sweep --for 1 -- "$victims/race_rbp" frame
[ $? = 0 ] && holds '.[-1] | .runs > 0 and .sites_total > 0 and .sites_reached <= 1'
ok "the own frame through rbp is not stalled" $?

for mode in $("$victims/race_right" --list); do
	quiet "$mode" 0.3 "$victims/race_right" "$mode"
done
for mode in $("$victims/race_openmp" --list | grep '^right_' | some); do
	quiet "OpenMP $mode" 0.05 "$victims/race_openmp" "$mode"
done
for mode in right_copies right_once_a_run right_both_rare right_by_sleep right_waits right_vfork; do
	quiet "$mode" 0.2 "$victims/race_cold" $mode
done

for mode in $("$victims/race_short" --list | grep '^wrong_'); do
	sweeps "$mode" true 0 "$victims/race_short" "$mode"
done
for seconds in 1 3 9 27; do
	race --sweep --for $seconds -- "$victims/race_short" wrong_left 0
	holds '.[-1].counters.exits_delayed > 0' && break
done
holds '.[-1].counters.exits_delayed > 0'
ok "wrong_left: some ends wait for the threads that nobody joined" $?
for mode in wrong_timer wrong_timer_beside_threads; do
	race --sweep --for 0.3 -- "$victims/race_short" $mode 0
	ok "$mode: the threads that libc creates survive the traps" $?
done
for mode in $("$victims/race_short" --list | grep '^right_'); do
	quiet "$mode" 0 "$victims/race_short" "$mode"
done

for mode in own_sigtrap blocked_signals interrupted_calls closed_descriptors forks fork_storm exec \
	locks many_threads small_stacks signal_stacks jumps; do
	race --sweep --for 0.01 -- "$victims/race_guest" $mode
	ok "$mode: the program notices nothing" $?
	holds '.[-1] | .sites_total > 0 and .runs == 1 and .processes_failed == 0'
	ok "$mode: its sites were trapped" $?
done

counted='.[-1] | .runs > 1 and .sites_covered > 0 and .sites_total > .sites_covered and
	.sites_reached >= .sites_covered and .counters.sites_renewed > 0'
for seconds in 1 3 9 27; do
	race --sweep --for $seconds -- "$victims/race_racy" read_write 0.2
	holds "$counted" && break
done
holds "$counted"
ok "the summary counts runs and sites: held, reached, all" $?
race --sweep --until-covered 20 -- "$victims/race_right" mutex 0.2
holds '.[-1] | .runs >= 3 and .sites_covered == .sites_reached and .stalls >= 20'
ok "--until-covered ends when all that is reached was held" $?

timeout 60 "$trapline" race --sweep --for 0.5 -v -- "$victims/race_right" mutex 0.2 >"$tmp/out" 2>"$tmp/err"
grep -qxE 'no race found in [0-9.]+ s: [1-9][0-9]* stalls? at [1-9][0-9]* of [1-9][0-9]* sites in [1-9][0-9]* runs?, none lost' \
	"$tmp/err"
ok "the text sums up: stalls, sites, runs" $?
grep -qxE 'coverage: [1-9][0-9]* of [1-9][0-9]* sites stalled in [1-9][0-9]* runs?; [1-9][0-9]* (was|were) reached while several threads ran' \
	"$tmp/err" && grep -q '^chance: each tested site was stalled ' "$tmp/err"
ok "and --verbose adds the coverage" $?

race --sweep --for 0.5 -- "$victims/race_cold" blocked_raw 0.2
[ $? = 0 ] && holds '.[-1] | .sites_refused == .processes and .runs > 0' &&
	grep -q 'cannot trap all sites in .*SIGTRAP blocked.*there the samples choose what is stalled$' "$tmp/err"
ok "a thread with SIGTRAP blocked: no traps, the reason is said, the timer searches" $?
good=0
for _ in 1 2 3 4 5; do
	# It takes long when the library is searched each time, and may be ended for that.
	timeout 60 "$trapline" race --sweep --for 0.01 -- "$victims/race_reopen" >"$tmp/out" 2>"$tmp/err" &&
		! grep -Eq 'were written|^failure' "$tmp/out" &&
		grep -Eq '^done$|run 1 is ended,' "$tmp/out" "$tmp/err" &&
		good=$((good + 1))
done
[ $good = 5 ]
ok "a library that is opened and closed over and over: the program goes on" $?

race --sweep --for 0.5 -- sh -c 'exit 3'
[ $? = 3 ]
ok "a test that fails: its exit status is ours" $?

timeout 20 "$trapline" race --until-covered 3 -- true >"$tmp/out" 2>"$tmp/err"
[ $? = 2 ] && grep -qx 'trapline race: --until-covered needs --sweep' "$tmp/err"
ok "--until-covered alone is refused" $?
timeout 20 "$trapline" race --sweep --for x -- true >"$tmp/out" 2>"$tmp/err"
[ $? = 2 ] && grep -q "^trapline race: invalid --for 'x': expected a time" "$tmp/err"
ok "a time that is not one" $?
# A run that hangs on is cut off, with what it has started; others are not.
race --sweep --for 0.5 -- sh -c "trap '' TERM; sleep 300.0417 & sleep 300.0417; sleep 301.0417"
[ $? = 0 ] && holds '.[-1].runs == 1 and .[-1].runs_cut == 1' && grep -q 'run 1 is ended, [0-9]* s after --for: its processes get SIGTERM' "$tmp/err"
ok "a run that hangs on is cut off, and that is told" $?
! pgrep -x -f 'sleep 30[01]\.0417' >/dev/null
ok "nothing of it runs on" $?
race --sweep --for 0.5 -- sleep 3
[ $? = 0 ] && holds '.[-1].runs == 1 and .[-1].runs_cut == 0'
ok "a run that ends soon is not" $?

# Each run notes the files that it inherits; the first race makes the command read debug information.
cat >"$tmp/inherits" <<'END'
#!/bin/sh
for fd in /proc/self/fd/*; do
	case $(readlink "$fd") in *.debug | *.so* | */race_racy) echo "$$ $fd $(readlink "$fd")" ;; esac
done >>"$INHERITED"
exec "$@"
END
chmod +x "$tmp/inherits"
INHERITED=$tmp/inherited race --sweep --for 3 -- "$tmp/inherits" "$victims/race_racy" read_write 0.3
cp "$tmp/inherited" "$tmp/out"
holds 'any(.[]; .type == "race") and .[-1].runs > 2' && [ -e "$tmp/inherited" ] && [ ! -s "$tmp/inherited" ]
ok "no run inherits a file of the command" $?

finished
