#!/bin/sh
# SPDX-License-Identifier: MIT
# test_race_length.sh TRAPLINE VICTIMS - a sweep of a program that does not end by itself ends, and has many
# runs; a program that ends is not cut off. TAP.

# shellcheck source=tests/tools/race_lib.sh disable=SC1091,SC2034,SC2154 # shared with it
. "$(dirname "$0")/race_lib.sh"

ended='.[-1] | .type == "summary" and .runs > 1 and .runs_cut == .runs and .runs_hung == 0 and
	.failures == 0'

race --sweep -- "$victims/race_length" endless
[ $? = 0 ] && holds "$ended" && holds 'any(.[]; .type == "race")'
ok "without --for a sweep of an endless program ends, after several runs" $?
grep -q ' the program does not end by itself within ' "$tmp/err"
ok "and it is told that the program does not end" $?
race --sweep --for 1 -- "$victims/race_length" endless
[ $? = 0 ] && holds '.[-1] | .runs_cut > 0 and .runs_hung == 0'
ok "with --for too" $?
race --sweep --until-covered 5 -- "$victims/race_length" endless
[ $? = 0 ] && holds "$ended"
ok "with --until-covered too" $?
for seconds in 5 10 20; do
	race --sweep --for $seconds -- "$victims/race_length" endless_once
	holds 'any(.[]; .type == "race")' && break
done
holds 'any(.[]; .type == "race")'
ok "a race at the beginning of an endless program is found" $?
race --sweep --for 12 -- "$victims/race_length" endless_right
[ $? = 0 ] && holds "$ended" && holds 'all(.[]; .type != "race")'
ok "nothing is reported of an endless program that is right" $?

race --sweep --for 10 -- "$victims/race_length" ends
[ $? = 0 ] && holds '.[-1] | .runs_cut <= 1 and .runs_hung == 0 and .runs > 2'
ok "a program that ends by itself is not cut off once it is known how long it takes" $?
holds '.[-1] | .runs - .runs_cut > 1' && [ "$(grep -c '^the end$' "$tmp/out")" -gt 1 ]
ok "its runs come to their end" $?

# The agent is in the environment of all runs but the undisturbed ones.
cat >"$tmp/alone" <<'END'
#!/bin/sh
case $LD_PRELOAD in *trapline*) exec "$@" ;; esac
echo alone
exec sleep 20
END
chmod +x "$tmp/alone"
"$trapline" race --sweep --for 100 --json -o "$tmp/races.json" -- "$tmp/alone" "$victims/race_length" ends \
	>"$tmp/out" 2>"$tmp/err" &
pid=$!
for _ in $(seq 200); do
	grep -q '^alone$' "$tmp/out" && break
	sleep 0.1
done
kill -INT $pid
wait $pid
holds '.[-1] | .type == "summary" and .runs == 1 and .wall_ns < 2.5e10'
ok "a signal during an undisturbed run ends the sweep" $?

# One register is left: the search cannot start, and what it had mapped is not asked for afterwards.
timeout -k 60 120 "$victims/race_obstacle" some 3 "$trapline" race --sweep --for 0.5 --json -o "$tmp/races.json" -- \
	"$victims/race_length" ends >"$tmp/out" 2>"$tmp/err"
[ $? = 1 ] && grep -q '^the end$' "$tmp/out" && holds '.[-1] | .processes_failed == .processes'
ok "one debug register is left: no search, and the program comes to its end" $?

# One object without a lock, in eight functions, is one report; another object is another.
for seconds in 2 4 8 16; do
	race --sweep --for $seconds -- "$victims/race_many"
	holds 'any(.[]; .type == "race" and (.also | length) >= 3)' &&
		holds 'any(.[]; .type == "race" and .variable == "other")' && break
done
holds '[.[] | select(.type == "race")] | length == 2 and any(.[]; .variable == "other") and
	any(.[]; (.variable | startswith("object")) and (.also | length) >= 3)'
ok "races of one object in many functions of two threads are one report" $?
race --sweep --for 4 --each -- "$victims/race_many"
holds '[.[] | select(.type == "race")] | length > 3'
ok "and with --each they are many" $?
finished
