#!/bin/sh
# SPDX-License-Identifier: MIT
# test_flow_known.sh TRAPLINE VICTIMS - flows of `trapline flow` as findings of a project's checks: an exit status,
# a baseline, suppressions and SARIF. TAP.

# shellcheck source=tests/cli/tap.sh disable=SC1091,SC2034,SC2154 # shared with it
. "$(dirname "$0")/../cli/tap.sh"
command=flow
victim=$victims/flow_victim
need jq
secret=the-text-that-is-watched

# flow OPTION... -- MODE: with the text as its input; JSON lines in $tmp/report.
flow()
{
	rm -f "$tmp/report"
	echo "$secret" | timeout -k 5 60 "$trapline" flow --as jsonl -o "$tmp/report" "$@" >"$tmp/out" 2>"$tmp/err"
}

# all EXPRESSION: of jq, over all lines of the report. of_sarif EXPRESSION: over the only run.
all()
{
	jq -e -s "$1" "$tmp/report" >/dev/null 2>>"$tmp/err"
}
of_sarif()
{
	jq -e ".runs[0] | $1" "$tmp/sarif" >/dev/null 2>>"$tmp/err"
}
sinks='map(select(.type == "flow" and .kind != "residue"))'

flow --error-exitcode 9 -- "$victim" shell
[ $? = 9 ] && all "$sinks | length == 1"
ok 'a flow is an exit status, if one is asked for' $?
flow -- "$victim" shell
ok 'and none if not' $?
flow --match text-that --error-exitcode 9 --suppressions /dev/null -- "$victim" good
status=$?
all "$sinks == []" && { [ $status = 0 ] || all 'any(.kind == "residue")'; }
ok 'a run without a flow has the status of the program' $?

# ---- suppressions ----

# suppressed LINE: nothing but the summary is reported. counted LINE: this one does not suppress the sink.
suppressed()
{
	printf '%s\n' "$1" >"$tmp/suppressions"
	flow --suppressions "$tmp/suppressions" --error-exitcode 9 -- "$victim" path &&
		all 'map(select(.type == "flow")) == [] and .[-1].suppressed >= 1 and .[-1].flows == 0'
}
counted()
{
	printf '%s\n' "$1" >"$tmp/suppressions"
	flow --suppressions "$tmp/suppressions" --error-exitcode 9 -- "$victim" path
	[ $? = 9 ] && all "($sinks | length == 1) and .[-1].suppressed == 0"
}
suppressed 'flow:^take_text$'
ok '--suppressions: by a function at the source' $?
suppressed 'flow_top:^take_text$'
ok '--suppressions: by the function that reads the bytes' $?
suppressed "flow_from_lib:$(basename "$victim")\$"
ok '--suppressions: by the object of that function' $?
printf 'flow:^copy_by_loop$\n' >"$tmp/suppressions"
flow --suppressions "$tmp/suppressions" -- "$victim" path && all "$sinks == [] and .[-1].suppressed >= 1"
ok '--suppressions: by a function on the way' $?
printf 'flow:^fopen64$\n' >"$tmp/suppressions"
flow --suppressions "$tmp/suppressions" -- "$victim" path && all "$sinks == []"
ok '--suppressions: by the name of the sink' $?
counted 'race:take_text' && counted 'heap:take_text' && counted 'flow_top:^main$'
ok '--suppressions: lines for other tools, and other functions, suppress nothing' $?
TRAPLINE_SUPPRESSIONS=$tmp/of-all flow -- "$victim" path
[ $? = 2 ] && grep -q 'of-all' "$tmp/err"
ok 'TRAPLINE_SUPPRESSIONS: a file that is missing is refused before the program starts' $?

# ---- a baseline ----

flow --baseline "$tmp/known" --error-exitcode 9 -- "$victim" path
[ $? = 9 ] && grep -q 'written to the baseline' "$tmp/err" && grep -q '^# Known flows' "$tmp/known" &&
	grep -q 'A copy: read in take_text, fopen64 in path' "$tmp/known" && ! grep -q "$secret" "$tmp/known"
ok '--baseline: the first run makes it, without the bytes, and fails' $?
flow --baseline "$tmp/known" --error-exitcode 9 -- "$victim" path &&
	all 'map(select(.type == "flow")) == [] and .[-1].baselined >= 1 and .[-1].flows == 0'
ok '--baseline: the next run reports none of them' $?
flow --baseline "$tmp/known" --error-exitcode 9 -- "$victim" shell
[ $? = 9 ] && all "$sinks | length == 1 and .[0].to.name == \"system\""
ok '--baseline: another flow is reported' $?
flow --baseline "$tmp/known" --write-baseline --error-exitcode 9 -- "$victim" shell &&
	flow --baseline "$tmp/known" --error-exitcode 9 -- "$victim" shell &&
	flow --baseline "$tmp/known" --error-exitcode 9 -- "$victim" path
ok '--write-baseline adds it, and does not fail' $?
echo "$secret" | "$trapline" flow --baseline "$tmp/known" -- "$victim" shell >"$tmp/out" 2>"$tmp/err" &&
	grep -q '0 flows into sinks' "$tmp/err" && grep -q '0 suppressed, [1-9][0-9]* in the baseline' "$tmp/err" &&
	! grep -q 'sink: system' "$tmp/err"
ok 'the text has how many are known, and none of them' $?

# ---- SARIF ----

flow --sarif "$tmp/sarif" -- "$victim" path && of_sarif '(.results | map(select(.ruleId == "flow/copy")) | length == 1 and
	(.[0] | .level == "warning" and .properties.grade == "A" and .occurrenceCount == 1 and
	.locations[0].physicalLocation.artifactLocation.uri != null and
	(.locations[0].physicalLocation.artifactLocation.uri | test("flow_victim.c$")) and
	.locations[0].logicalLocations[0].name == "path" and
	(.codeFlows[0].threadFlows[0].locations | .[0].location.logicalLocations[0].name == "take_text" and
	.[-1].location.message.text == "sink: fopen64" and
	any(.location.logicalLocations[0].name == "copy_by_loop")) and
	(.message.text | test("read in take_text: fopen64 gets them in path")) and (has("baselineState") | not)))'
ok '--sarif: a result at the sink, with a code flow from the source by the copies' $?
jq -e -s 'map(select(.type == "flow" and .kind == "copy"))[0].fingerprint' "$tmp/report" >"$tmp/print"
of_sarif ".results | map(select(.ruleId == \"flow/copy\"))[0].partialFingerprints.\"traplineFlow/v1\" == $(cat "$tmp/print")"
ok '--sarif: the fingerprint of the other outputs' $?
of_sarif '.tool.driver.rules | map(.id) == ["flow/copy", "flow/computed", "flow/residue"]' && ! grep -q "$secret" "$tmp/sarif"
ok '--sarif: the rules, and never the bytes' $?
flow --sarif "$tmp/sarif" -- "$victim" computed && of_sarif '.results | map(select(.ruleId == "flow/computed")) |
	length == 1 and .[0].level == "note"' && ! of_sarif 'any(.results[]; .ruleId == "flow/copy")'
ok '--sarif: what was computed is a note' $?
flow --sarif "$tmp/sarif" -- "$victim" residue && of_sarif 'any(.results[]; .ruleId == "flow/residue" and
	.locations[0].logicalLocations[0].name == "copy_by_string")' &&
	of_sarif '.results | map(.partialFingerprints."traplineFlow/v1") | length == (unique | length)'
ok '--sarif: a residue is at what wrote it, and is there once' $?
printf 'flow:^system$\n' >"$tmp/suppressions"
flow --sarif "$tmp/sarif" --suppressions "$tmp/suppressions" --baseline "$tmp/known" -- "$victim" shell &&
	of_sarif '.results | map(select(.ruleId == "flow/copy")) | length == 1 and .[0].baselineState == "unchanged" and
	(.[0].suppressions[0].justification | test("flow:.system"))'
ok '--sarif: known and suppressed flows are there, marked as such' $?
"$trapline" flow --sarif "$tmp/sarif" -- "$victim" functions >"$tmp/out" 2>"$tmp/err"
[ $? = 1 ] && of_sarif '.results == [] and (.invocations[0].executionSuccessful | not)'
ok '--sarif: a run that followed nothing was not successful' $?
cp "$tmp/report" "$tmp/lines" && flow --baseline "$tmp/known" -- "$victim" shell && cp "$tmp/report" "$tmp/lines" &&
	"$trapline" report "$tmp/lines" >"$tmp/text" 2>"$tmp/err" && grep -q 'in the baseline' "$tmp/text" &&
	"$trapline" report --as json "$tmp/lines" | cmp -s - "$tmp/lines"
ok 'trapline report keeps how many were known' $?

# ---- what cannot work ----

# refused TEXT OPTION...: before the program starts.
refused()
{
	text=$1
	shift
	rm -f "$tmp/started"
	"$trapline" flow "$@" -- sh -c ": >$tmp/started" >"$tmp/out" 2>"$tmp/err"
	[ $? = 2 ] && grep -q -- "$text" "$tmp/err" && ! [ -e "$tmp/started" ]
}
printf 'flow\n' >"$tmp/bad"
refused 'needs --baseline' --write-baseline && refused '/no/such' --baseline /no/such/file &&
	refused 'cannot write /no/such/sarif' --sarif /no/such/sarif && refused 'invalid suppression' --suppressions "$tmp/bad" &&
	refused "invalid --error-exitcode '300'" --error-exitcode 300
ok 'files and numbers that cannot be used are refused before the program starts' $?

finished
