#!/bin/sh
# SPDX-License-Identifier: MIT
# test_race_replay.sh TRAPLINE VICTIMS - --replay: a race of an earlier run is seen again, in the same
# build and in another; where it is mended it is not; what cannot be found again is refused. TAP.

# shellcheck disable=SC2034,SC2154 # shared with race_lib.sh
trapline=$1
victims=$2
# shellcheck source=tests/tools/race_lib.sh disable=SC1091
. "$(dirname "$0")/race_lib.sh"

prog=$tmp/prog
known=$tmp/known.jsonl
ours='([.first.function, .second.function] | sort) == ["level_load", "level_store"]'

# find EXPRESSION PROGRAM MODE: its race into $known, by a sweep.
find_race()
{
	for seconds in 2 4 8 16 32; do
		race --sweep --time $seconds -- "$2" "$3" 0.3
		cp "$tmp/races.json" "$known"
		fingerprint=$(jq -r "select(.type == \"race\" and ($1)) | .fingerprint" "$known" |
			head -n 1)
		[ -z "$fingerprint" ] || return
	done
}

# replay ARG...: of $fingerprint, in JSON.
replay()
{
	race --replay "$fingerprint" --from "$known" "$@"
}

# refused NAME PATTERN ARG...: with one line that says why, before anything runs.
refused()
{
	name=$1
	pattern=$2
	shift 2
	timeout 20 "$trapline" race "$@" -- "$prog" seldom 0.1 >"$tmp/out" 2>"$tmp/err"
	[ $? = 2 ] && [ "$(wc -l <"$tmp/err")" = 1 ] && grep -q -- "$pattern" "$tmp/err"
	ok "$name" $?
}

cp "$victims/race_replay" "$prog"
find_race "$ours" "$prog" seldom
[ -n "$fingerprint" ]
ok 'the race is found by a sweep' $?

replay --time 30 -- "$prog" seldom 0.5
holds "any(.[]; .type == \"race\" and .fingerprint == \"$fingerprint\" and $ours)"
ok 'the same build: it is seen again' $?
holds '.[-2] | .type == "replay" and .seen > 0 and .runs_seen == 1 and .passes > 0 and
	all(.places[]; .sites == 1 and (.rebuilt | not))'
ok 'how often, and its two places' $?
holds '.[-1].sites_total == 2 and .[-1].counters.samples == 0 and
	all(.[]; .type != "race" or .fingerprint == "'"$fingerprint"'")'
ok 'nothing else is held, and no other race told' $?
full=$fingerprint
fingerprint=$(echo "$full" | cut -c1-6)
replay --time 30 -- "$prog" seldom 0.5
holds ".[-2].fingerprint == \"$full\" and .[-2].seen > 0"
ok 'the beginning of a fingerprint will do' $?
fingerprint=$full
timeout 60 "$trapline" race --replay "$fingerprint" --from "$known" -- "$prog" seldom 0.5 >"$tmp/out" \
	2>"$tmp/err"
grep -Eq "^replay of $fingerprint: seen [0-9]+ times?, in 1 of [0-9]+ runs?; threads came to" "$tmp/err" &&
	[ "$(grep -Ec '^  level_(load|store) at race_replay.c:[0-9]+: held [0-9]+ times' "$tmp/err")" = 2 ]
ok 'the text tells it too' $?
replay --error-exitcode 7 -- "$prog" seldom 0.5
[ $? = 7 ]
ok 'a race that is seen: --error-exitcode' $?

cp "$victims/race_replay_moved" "$prog"
replay --time 30 -- "$prog" seldom 0.5
holds "(.[-2] | .seen > 0 and all(.places[]; .rebuilt and (.whole_function | not))) and
	any(.[]; .type == \"race\" and .fingerprint == \"$fingerprint\" and $ours)"
ok 'another build: the same lines of the functions, and the same fingerprint' $?
grep -q 'was built anew .*the same line' "$tmp/err"
ok 'which is said' $?
cp "$victims/race_replay_plain" "$prog"
replay --time 5 -- "$prog" seldom 0.5
holds '.[-2].places | all(.[]; .rebuilt and .whole_function and .sites >= 1)'
ok 'a build without lines: all of the functions' $?
grep -q 'was built anew .*all accesses of the function' "$tmp/err"
ok 'which is said too' $?
cp "$victims/race_replay_mended" "$prog"
for seconds in 2 8 30; do
	replay --time $seconds --error-exitcode 7 -- "$prog" seldom 0.5
	status=$?
	holds '.[-2] | .runs > 1 and all(.places[]; .held > 0)' && break
done
[ $status = 0 ] && holds '(.[-2] | .seen == 0 and .runs > 1 and .passes > 0 and
	all(.places[]; .held > 0)) and all(.[]; .type != "race")'
ok 'mended: not seen, though both places were held, run after run' $?
grep -q 'no access was trapped in that line' "$tmp/err"
ok 'a line that is another one now: all of the function instead, and that is said' $?
cp "$victims/race_replay" "$prog"
replay --time 1 -- "$prog" elsewhere 0.3
holds '.[-2] | .seen == 0 and all(.places[]; .sites == 1 and .sites_reached == 0 and .held == 0)'
ok 'a run that does not come there: that is said' $?

strip -o "$prog" "$victims/race_replay_moved"
refused 'another build without names is refused' 'built anew.*look for the race anew' \
	--replay "$fingerprint" --from "$known"
rm "$prog"
prog=$victims/race_replay
refused 'a module that is gone' 'is not there any more' --replay "$fingerprint" --from "$known"
refused 'no such race: those that are there are named' "no race 0123.*$(echo "$full" | cut -c1-16)" \
	--replay 0123 --from "$known"
refused 'no fingerprint' 'a fingerprint' --replay level_load --from "$known"
refused 'without --from' 'Give --from FILE' --replay "$fingerprint"
refused '--from alone' 'goes with --replay' --from "$known"
refused 'with --sweep' 'without --sweep' --sweep --replay "$fingerprint" --from "$known"
echo "$full  B read-write" >"$tmp/baseline"
refused 'a baseline has no places' 'baseline:1: no line of trapline race --json' \
	--replay "$fingerprint" --from "$tmp/baseline"
refused 'no such file' 'No such file' --replay "$fingerprint" --from "$tmp/none"

refused '--vary without values' 'variable of the environment and its values' --sweep --vary WORKERS
refused '--vary of no variable' 'variable of the environment and its values' --sweep --vary =1,2
refused '--vary with more than a report holds' 'a report has room for 255' --sweep \
	--vary "WORKERS=1,$(printf '%0250d' 2)"
refused '--vary with one run' 'goes with --sweep or --replay' --vary WORKERS=1,2

# A race that one setting has and another has not.
race --sweep --time 1 --vary WORKERS=,1 --vary OTHER=a,b -- "$prog" asked 0.05
holds 'all(.[]; .type != "race") and ([.[] | select(.type == "varied") | .variable] == ["WORKERS", "OTHER"])
	and all(.[] | select(.type == "varied").values[]; .runs > 0 and .wall_ns > 0)'
ok '--vary: all values have their turn; no race where no setting has one' $?
timeout 60 "$trapline" race --sweep --time 1 --vary WORKERS=,1 -- "$prog" asked 0.05 >"$tmp/out" 2>"$tmp/err"
grep -q 'varied: WORKERS "" in [1-9][0-9]* runs*, 1 in' "$tmp/err"
ok '--vary: an empty value is seen in the text' $?
race --sweep --until-covered 1 --time 60 --vary WORKERS=1,,1,,1,,1 -- "$prog" elsewhere 0.05
holds 'all(.[] | select(.type == "varied").values[]; .runs > 0)'
ok '--vary: nothing is covered before each value had its turn' $?
for seconds in 1 3 9 27; do
	race --sweep --time $seconds --vary WORKERS=1,2 -- "$prog" asked 0.05
	holds 'any(.[]; .type == "race")' && break
done
holds 'any(.[]; .type == "race") and all(.[] | select(.type == "race"); .varied == {"WORKERS": "2"})'
ok '--vary: a race of one setting is found, and says which' $?
cp "$tmp/races.json" "$known"
fingerprint=$(jq -r 'select(.type == "race") | .fingerprint' "$known" | head -n 1)
replay --time 30 -- "$prog" asked 0.05
holds '.[-2] | .type == "replay" and .seen > 0'
ok 'a replay takes the setting that the race was seen with' $?
replay --time 1 --vary WORKERS=1 -- "$prog" asked 0.05
holds '.[-2] | .type == "replay" and .seen == 0'
ok '... unless another one is given' $?
race --sweep --time 0.2 -- "$prog" seldom 0.1
holds 'all(.[]; .type != "varied" and (.type != "race" or .varied == null))'
ok 'nothing is said of settings where none varies' $?

# libc is not trapped: one side has to do.
find_race '[.first.via, .second.via] | sort == [null, "memset"] or any(.[]; . != null)' \
	"$victims/race_racy" memset
replay --time 30 -- "$victims/race_racy" memset 0.3
holds '.[-2] | .seen > 0 and ([.places[].sites] | sort) == [0, 1]'
ok 'a side inside a memory function: the other one is held' $?
finish
