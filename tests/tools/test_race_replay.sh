#!/bin/sh
# SPDX-License-Identifier: MIT
# test_race_replay.sh TRAPLINE VICTIMS - --replay: a race of an earlier run is seen again, in the same
# build and in another; where it is mended it is not; what cannot be found again is refused. TAP.

# shellcheck source=tests/tools/race_lib.sh disable=SC1091,SC2034,SC2154 # shared with it
. "$(dirname "$0")/race_lib.sh"

prog=$tmp/prog
known=$tmp/known.jsonl
ours='([.first.function, .second.function] | sort) == ["level_load", "level_store"]'

# find EXPRESSION PROGRAM MODE: its race into $known, by a sweep.
find_race()
{
	for seconds in 2 4 8 16 32; do
		race --sweep --for $seconds -- "$2" "$3" 0.3
		cp "$tmp/races.json" "$known"
		fingerprint=$(jq -r "select(.type == \"race\" and ($1)) | .fingerprint" "$known" |
			head -n 1)
		[ -z "$fingerprint" ] || return
	done
}

# replay ARG...: of $fingerprint, in JSON.
replay()
{
	race --replay "$fingerprint" --input "$known" "$@"
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

replay --for 30 -- "$prog" seldom 0.5
holds "any(.[]; .type == \"race\" and .fingerprint == \"$fingerprint\" and $ours)"
ok 'the same build: it is seen again' $?
holds '.[-2] | .type == "replay" and .seen > 0 and .runs_seen == 1 and .occurrences > 0 and
	all(.locations[]; .sites == 1 and (.rebuilt | not))'
ok 'how often, and its two places' $?
holds '.[-1].sites_total == 2 and .[-1].counters.samples == 0 and
	all(.[]; .type != "race" or .fingerprint == "'"$fingerprint"'")'
ok 'nothing else is stalled, and no other race reported' $?
full=$fingerprint
fingerprint=$(echo "$full" | cut -c1-6)
race --replay "$fingerprint" --input "$known" --for 30 -- "$prog" seldom 0.5
holds ".[-2].fingerprint == \"$full\" and .[-2].seen > 0"
ok 'the beginning of a fingerprint will do' $?
fingerprint=$full
timeout 60 "$trapline" race --replay "$fingerprint" --input "$known" -- "$prog" seldom 0.5 >"$tmp/out" \
	2>"$tmp/err"
grep -Eq "^replay of $fingerprint: seen [0-9]+ times?, in 1 of [0-9]+ runs?; its locations were reached [0-9]+ times?$" "$tmp/err" &&
	[ "$(grep -Ec '^  level_(load|store) \(race_replay.c:[0-9]+\): stalled [0-9]+ times?$' "$tmp/err")" = 2 ]
ok 'the text tells it too' $?
replay --error-exitcode 7 -- "$prog" seldom 0.5
[ $? = 7 ]
ok 'a race that is seen: --error-exitcode' $?

cp "$victims/race_replay_moved" "$prog"
replay --for 30 -- "$prog" seldom 0.5
holds "(.[-2] | .seen > 0 and all(.locations[]; .rebuilt and (.whole_function | not))) and
	any(.[]; .type == \"race\" and .fingerprint == \"$fingerprint\" and $ours)"
ok 'another build: the same lines of the functions, and the same fingerprint' $?
grep -q 'prog was rebuilt after .*: the accesses in the same line of the function of level_.* are stalled' "$tmp/err"
ok 'which is said' $?
cp "$victims/race_replay_plain" "$prog"
replay --for 5 -- "$prog" seldom 0.5
holds '.[-2].locations | all(.[]; .rebuilt and .whole_function and .sites >= 1)'
ok 'a build without lines: all of the functions' $?
grep -q 'prog was rebuilt after .*: all accesses in the function of level_.* are stalled' "$tmp/err"
ok 'which is said too' $?
cp "$victims/race_replay_mended" "$prog"
for seconds in 2 8 30; do
	replay --for $seconds --error-exitcode 7 -- "$prog" seldom 0.5
	status=$?
	holds '.[-2] | .runs > 1 and all(.locations[]; .stalls > 0)' && break
done
[ $status = 0 ] && holds '(.[-2] | .seen == 0 and .runs > 1 and .occurrences > 0 and
	all(.locations[]; .stalls > 0)) and all(.[]; .type != "race")'
ok 'fixed: not seen, though both locations were stalled, run after run' $?
grep -q 'no access was trapped in that line' "$tmp/err"
ok 'a line that is another one now: all of the function instead, and that is said' $?
cp "$victims/race_replay" "$prog"
replay --for 1 -- "$prog" elsewhere 0.3
holds '.[-2] | .seen == 0 and all(.locations[]; .sites == 1 and .sites_reached == 0 and .stalls == 0)'
ok 'a run that does not come there: that is said' $?

strip -o "$prog" "$victims/race_replay_moved"
refused 'another build without names is refused' 'was rebuilt.*search for the race again$' \
	--replay "$fingerprint" --input "$known"
rm "$prog"
prog=$victims/race_replay
refused 'a module that is gone' 'which does not exist any more$' --replay "$fingerprint" --input "$known"
refused 'no such race: those that are there are named' "has no race 0123; it has .*$(echo "$full" | cut -c1-16)" \
	--replay 0123 --input "$known"
refused 'not a fingerprint' "invalid --replay 'level_load': expected a fingerprint" --replay level_load --input "$known"
refused 'without --input' '--replay needs --input FILE' --replay "$fingerprint"
refused '--input alone' '--input needs --replay FINGERPRINT$' --input "$known"
refused 'with --sweep' 'cannot combine --replay with --sweep' --sweep --replay "$fingerprint" --input "$known"
echo "$full  B read-write" >"$tmp/baseline"
refused 'a baseline has no places' 'baseline:1: not a line of trapline race --json' \
	--replay "$fingerprint" --input "$tmp/baseline"
refused 'no such file' 'No such file' --replay "$fingerprint" --input "$tmp/none"

refused '--vary without values' 'variable of the environment and its values' --sweep --vary WORKERS
refused '--vary of no variable' 'variable of the environment and its values' --sweep --vary =1,2
refused '--vary with more than a report holds' 'a report has room for 255;' --sweep \
	--vary "WORKERS=1,$(printf '%0250d' 2)"
refused '--vary with one run' '^trapline race: --vary needs --sweep or --replay, which run CMD repeatedly$' --vary WORKERS=1,2

# A race that one setting has and another has not.
race --sweep --for 1 --vary WORKERS=,1 --vary OTHER=a,b -- "$prog" asked 0.05
holds 'all(.[]; .type != "race") and ([.[] | select(.type == "varied") | .variable] == ["WORKERS", "OTHER"])
	and all(.[] | select(.type == "varied").values[]; .runs > 0 and .wall_ns > 0)'
ok '--vary: all values have their turn; no race where no setting has one' $?
timeout 60 "$trapline" race --sweep --for 1 --vary WORKERS=,1 -- "$prog" asked 0.05 >"$tmp/out" 2>"$tmp/err"
grep -q 'varied: WORKERS "" in [1-9][0-9]* runs*, 1 in' "$tmp/err"
ok '--vary: an empty value is seen in the text' $?
race --sweep --until-covered 1 --for 60 --vary WORKERS=1,,1,,1,,1 -- "$prog" elsewhere 0.05
holds 'all(.[] | select(.type == "varied").values[]; .runs > 0)'
ok '--vary: nothing is covered before each value had its turn' $?
for seconds in 1 3 9 27; do
	race --sweep --for $seconds --vary WORKERS=1,2 -- "$prog" asked 0.05
	holds 'any(.[]; .type == "race")' && break
done
holds 'any(.[]; .type == "race") and all(.[] | select(.type == "race"); .varied == {"WORKERS": "2"})'
ok '--vary: a race of one setting is found, and says which' $?
cp "$tmp/races.json" "$known"
fingerprint=$(jq -r 'select(.type == "race") | .fingerprint' "$known" | head -n 1)
replay --for 30 -- "$prog" asked 0.05
holds '.[-2] | .type == "replay" and .seen > 0'
ok 'a replay takes the setting that the race was seen with' $?
replay --for 1 --vary WORKERS=1 -- "$prog" asked 0.05
holds '.[-2] | .type == "replay" and .seen == 0'
ok '... unless another one is given' $?
race --sweep --for 0.2 -- "$prog" seldom 0.1
holds 'all(.[]; .type != "varied" and (.type != "race" or .varied == null))'
ok 'nothing is said of settings where none varies' $?

# libc is not trapped: one side has to do.
find_race '[.first.via, .second.via] | sort == [null, "memset"] or any(.[]; . != null)' \
	"$victims/race_racy" memset
replay --for 30 -- "$victims/race_racy" memset 0.3
holds '.[-2] | .seen > 0 and ([.locations[].sites] | sort) == [0, 1]'
ok 'a side inside a memory function: the other one is held' $?
finished
