#!/bin/sh
# SPDX-License-Identifier: MIT
# test_race_ci.sh TRAPLINE VICTIMS - in a project's checks: what fails a run and what does not. TAP.
#
# A race is caught by chance: a run that was to catch one and did not is made again, longer.

# shellcheck source=tests/tools/race_lib.sh disable=SC1091,SC2034,SC2154 # shared with it
. "$(dirname "$0")/race_lib.sh"
unset TRAPLINE_SUPPRESSIONS

# caught MODE EXPRESSION OPTION...: until the summary says so; $status is that of the run. With
# $afresh, that file is removed before each try.
afresh=
caught()
{
	mode=$1
	expression=$2
	shift 2
	for seconds in 1 2 4 8 16 32; do
		rm -f ${afresh:+"$afresh"}
		race --overhead 20% --error-exitcode 7 "$@" -- "$victims/race_racy" "$mode" $seconds
		status=$?
		holds ".[-1].type == \"summary\" and (.[-1] | $expression)" && return 0
	done
	return 1
}

# Suppressions.
echo 'race_top:^word_increment$' >"$tmp/one"
caught read_modify_write '.suppressed == 1 and .races == 0' --suppressions "$tmp/one"
ok "a race is suppressed" $?
[ "$status" = 0 ] && holds 'all(.[]; .type != "race")'
ok "it is not told and does not fail the run" $?
holds '.[-1].suppressions == [{"suppression": "race_top:^word_increment$", "file": "'"$tmp"'/one",
	"line": 1, "races": 1, "count": .[-1].suppressions[0].count, "is_used": true}] and
	.[-1].suppressions[0].count > 0'
ok "the summary tells by which, and how often" $?

echo "race:^read_modify_write$" >"$tmp/frame"
caught read_modify_write '.suppressed == 1 and .races == 0' --suppressions "$tmp/frame"
[ $? = 0 ] && [ "$status" = 0 ]
ok "so by any frame of a stack" $?

caught unaligned '.races == 1 and .suppressed == 0' --suppressions "$tmp/one" \
	--suppressions "$tmp/frame"
ok "a race that no suppression is for is told" $?
[ "$status" = 7 ]
ok "and fails the run" $?
holds '.[-1].suppressions | length == 2 and all(.[]; .races == 0 and .is_used == false)'
ok "those that were not used are named, from each file given" $?

for seconds in 1 2 4 8 16 32; do
	TRAPLINE_SUPPRESSIONS="$tmp/frame:$tmp/one" timeout 60 "$trapline" race --overhead 20% -- \
		"$victims/race_racy" read_modify_write $seconds >"$tmp/out" 2>"$tmp/err"
	grep -q '^1 race suppressed:' "$tmp/err" && break
done
grep -q "^  1 race, [0-9]* times: race:^read_modify_write$ ($tmp/frame:1)" "$tmp/err"
ok "TRAPLINE_SUPPRESSIONS; the text tells how much each was used" $?
grep -A1 '^1 suppression was not used' "$tmp/err" | grep -q "race_top:^word_increment.*/one:1"
ok "and which was not" $?
! grep -q '^race ' "$tmp/err"
ok "and tells no race" $?

# Made by ourselves.
caught read_modify_write '.races == 1' --gen-suppressions
jq -r 'select(.type == "race") | .suppression' "$tmp/races.json" >"$tmp/made"
[ "$(cat "$tmp/made")" = 'race_top:^word_increment$' ]
ok "--gen-suppressions makes a line of ThreadSanitizer's" $?
caught memcpy '.races == 1' --gen-suppressions
jq -r 'select(.type == "race") | .suppression' "$tmp/races.json" >"$tmp/made"
[ "$(cat "$tmp/made")" = 'race_top:^block_copy_in$' ]
ok "of the caller, where a function of libc makes the access" $?
caught memcpy '.suppressed == 1 and .races == 0' --suppressions "$tmp/made"
[ $? = 0 ] && [ "$status" = 0 ]
ok "which suppresses that race in the next run" $?
caught floating_point '.races == 1' --suppressions "$tmp/made"
[ $? = 0 ] && [ "$status" = 7 ]
ok "and no other" $?
for seconds in 1 2 4 8 16 32; do
	timeout 60 "$trapline" race --overhead 20% --gen-suppressions -- "$victims/race_racy" \
		read_modify_write $seconds >"$tmp/out" 2>"$tmp/err"
	grep -q '^race A' "$tmp/err" && break
done
grep -qxF 'race_top:^word_increment$' "$tmp/err"
ok "in text it stands on lines of its own" $?

# A baseline.
afresh=$tmp/base
caught read_modify_write '.races == 1' --baseline "$tmp/base"
[ $? = 0 ] && [ "$status" = 7 ] && grep -q '1 race written to the baseline' "$tmp/err"
ok "the first run makes the baseline, and tells its races as new" $?
afresh=
[ "$(grep -c '^[0-9a-f]\{16\}  A write-write shared_word in word_increment' "$tmp/base")" = 1 ]
ok "it has the race's fingerprint, and words for a reader" $?
cp "$tmp/base" "$tmp/base.kept"
caught read_modify_write '.baselined == 1 and .races == 0' --baseline "$tmp/base"
[ $? = 0 ] && [ "$status" = 0 ] && holds 'all(.[]; .type != "race")'
ok "a race that is in it is not told and does not fail the run" $?
caught unaligned '.races == 1 and .baselined == 0' --baseline "$tmp/base"
[ $? = 0 ] && [ "$status" = 7 ] && holds 'any(.[]; .type == "race")'
ok "a new one is and does" $?
known=$(grep -v '^#' "$tmp/base" | cut -c1-16)
holds ".[-1].baseline_gone == [\"$known\"]"
ok "what is in it and was not seen is told" $?
cmp -s "$tmp/base" "$tmp/base.kept"
ok "runs leave it alone" $?
caught unaligned '.races == 1' --baseline "$tmp/base" --write-baseline
[ $? = 0 ] && [ "$status" = 0 ] && [ "$(grep -vc '^#' "$tmp/base")" = 2 ] &&
	grep -q "^$known" "$tmp/base" && [ -z "$(find "$tmp" -name 'base.[0-9]*')" ]
ok "--write-baseline adds it, keeps what was there, and does not fail" $?
caught unaligned '.baselined == 1 and .races == 0' --baseline "$tmp/base"
[ $? = 0 ] && [ "$status" = 0 ]
ok "and then it is known" $?
for seconds in 1 2 4 8 16 32; do
	timeout 60 "$trapline" race --overhead 20% --baseline "$tmp/base" -- \
		"$victims/race_racy" unaligned $seconds >"$tmp/out" 2>"$tmp/err"
	grep -q '^1 race in the baseline$' "$tmp/err" && break
done
grep -A1 '^1 of the 2 entries of the baseline was not seen' "$tmp/err" | grep -q "\[$known\]"
ok "the text tells what is known and what is gone" $?
grep -qx '1 of the 2 entries of the baseline was not seen this time (fixed, or just not hit):' "$tmp/err"
ok "in these words" $?
grep -q '^no new race found in [0-9.]* s: [1-9][0-9]* stalls at [0-9]* sites*, none lost$' "$tmp/err"
ok "and does not say that there is no race" $?

# Only what is told fails a run: an acquire and its release are of grade C.
race --overhead 20% --error-exitcode 7 -- "$victims/race_right" release_acquire 1
[ $? = 0 ] && holds '.[-1].races == 0'
ok "a race below --grade does not fail the run" $?

# SARIF, for GitHub, GitLab and editors.
afresh=$tmp/sarif
caught read_write '.races == 1' --sarif "$tmp/sarif"
ok "a run with SARIF beside its report" $?
afresh=
# valid EXPRESSION: of jq, over the file.
valid()
{
	jq -e "$1" "$tmp/sarif" >/dev/null 2>"$tmp/jq"
}
valid '.version == "2.1.0" and (."$schema" | test("sarif-2.1.0")) and (.runs | length == 1) and
	(.runs[0].tool.driver | .name == "trapline" and (.rules | length > 0) and
		all(.rules[]; (.id | length > 0) and (.shortDescription.text | length > 0))) and
	all(.runs[0].invocations[]; .executionSuccessful == true and .exitCode == 0)'
ok "SARIF has what the format requires of a run" $?
valid '.runs[0] as $run | $run.results | length == 1 and all(.[];
	(.message.text | test("shared_word")) and $run.tool.driver.rules[.ruleIndex].id == .ruleId
	and .ruleId == "race/read-write" and .level == "warning" and .occurrenceCount >= 1)'
ok "a result with its rule, level and message" $?
valid 'def placed: .physicalLocation | (.artifactLocation.uri | endswith("race_racy.c")) and
		.region.startLine > 0;
	.runs[0].results[0] | (.locations | length == 1 and all(.[]; placed)) and
	(.relatedLocations | length == 2 and all(.[]; placed) and ([.[].id] == [1, 2]) and
		([.[].logicalLocations[0].name] | sort == ["word_read", "word_write"]))'
ok "both accesses with file and line" $?
valid '.runs[0].results[0].codeFlows[0].threadFlows | length == 2 and .[0].id != .[1].id and
	all(.[]; (.locations | length > 2) and (.locations[-1].location.message.text |
		test("^(read|write) of 8 bytes by thread")))'
ok "and a code flow of each thread" $?
print=$(jq -r 'select(.type == "race") | .fingerprint' "$tmp/races.json")
valid ".runs[0].results[0].partialFingerprints[\"traplineRace/v1\"] == \"$print\""
ok "and our fingerprint" $?

echo 'race:word_' >"$tmp/word"
caught read_write '.suppressed == 1' --sarif "$tmp/sarif" --suppressions "$tmp/word"
valid '.runs[0].results | length == 1 and (.[0].suppressions[0] | .kind == "external" and
	(.justification | test("race:word_")))'
ok "what is suppressed is marked so" $?
afresh=$tmp/base
caught read_write '.races == 1' --sarif "$tmp/sarif" --baseline "$tmp/base"
valid '.runs[0].results[0].baselineState == "new"'
one=$?
afresh=
caught read_write '.baselined == 1' --sarif "$tmp/sarif" --baseline "$tmp/base"
valid '.runs[0].results[0].baselineState == "unchanged"'
[ $? = 0 ] && [ $one = 0 ]
ok "and what the baseline knows" $?
timeout 20 "$trapline" race --as sarif -o "$tmp/sarif" -- sh -c 'echo out; exit 3' >"$tmp/out" \
	2>"$tmp/err"
[ $? = 3 ] && [ "$(cat "$tmp/out")" = out ] && valid '.runs[0] | .results == [] and
	.invocations[0].exitCode == 3'
ok "--as sarif is the report itself, with no result where nothing was found" $?
! grep -q 'exit 3' "$tmp/sarif"
ok "and without the program's arguments, which may be secret" $?

# Sent to the command alone, as by kill(1); what the terminal sends reaches the program by itself.
for signal in INT TERM; do
	timeout --foreground --preserve-status -k 20 -s $signal 1 "$trapline" race -o "$tmp/out" -- \
		sh -c "trap 'kill \$!; exit 7' $signal; sleep 30.0418 & wait" 2>"$tmp/err"
	[ $? = 7 ]
	ok "SIG$signal that is sent to the command reaches the program" $?
done

# wrong NAME PATTERN OPTION...: one line that holds the pattern, and nothing was run.
wrong()
{
	name=$1
	pattern=$2
	shift 2
	rm -f "$tmp/ran"
	timeout 20 "$trapline" race "$@" -- touch "$tmp/ran" >"$tmp/out" 2>"$tmp/err"
	[ $? = 2 ] && [ "$(wc -l <"$tmp/err")" = 1 ] && grep -q -- "$pattern" "$tmp/err" &&
		[ ! -e "$tmp/ran" ]
	ok "$name" $?
}
printf 'race:a\n\nnonsense\n' >"$tmp/bad"
wrong "a suppression that is not valid: its line" "$tmp/bad:3: invalid suppression 'nonsense': expected race:" --suppressions "$tmp/bad"
wrong "a file that is not there" '/no/such: No such file' --suppressions /no/such
TRAPLINE_SUPPRESSIONS=/no/env
export TRAPLINE_SUPPRESSIONS
wrong "nor in the environment" '/no/env: No such file'
unset TRAPLINE_SUPPRESSIONS
wrong "a file that is not a baseline: its line" \
	"$tmp/bad:1: not a line of a baseline: expected a fingerprint of 16 hexadecimal digits first$" --baseline "$tmp/bad"
wrong "a baseline that cannot be written" '/no/such/base' --baseline /no/such/base
wrong "--write-baseline alone" '^trapline race: --write-baseline needs --baseline FILE$' --write-baseline
wrong "SARIF that cannot be written" '/no/such/sarif' --sarif /no/such/sarif
wrong "a syntax is not chosen" '^trapline race: --gen-suppressions takes no value$' --gen-suppressions=gcc
wrong "a form that does not exist" "^trapline race: invalid --as 'xml': expected text|json|sarif$" --as xml
wrong "two forms" '^trapline race: cannot print both --json and --as text: give one of them$' \
	--json --as text
finished
