#!/bin/sh
# SPDX-License-Identifier: MIT
# test_check.sh TRAPLINE - what `trapline check` promises, as this user and as nobody. TAP.
# No test asserts a time, nor that this machine has a feature.

# shellcheck source=tests/cli/tap.sh disable=SC2154 # trapline and tmp come from there
. "$(dirname "$0")/tap.sh"
# shellcheck source=tests/other_user.sh
. "$(dirname "$0")/../other_user.sh"

# json_ok NAME FILE FILTER: the filter gives true.
json_ok()
{
	jq -e "$3" "$2" >/dev/null 2>"$tmp/jq"
	status=$?
	ok "$1" $status
	if [ $status != 0 ]; then
		sed 's/^/# /' "$tmp/jq"
		jq -c '.features[] | [.name, .ok, .evidence, .remedy]' "$2" | sed 's/^/# /'
	fi
}

# check_json NAME FILE STATUS: what must hold in every output, whoever runs it.
check_json()
{
	json_ok "$1: one object with five members" "$2" \
		'keys == ["arch", "costs_ns", "features", "kernel", "version"]'
	test "$(jq -s length "$2")" = 1
	ok "$1: nothing else is printed" $?
	json_ok "$1: each feature has name, ok, known, evidence and remedy" "$2" \
		'all(.features[]; keys == ["evidence", "known", "name", "ok", "remedy"]
			and (.known or (.ok | not)) and (.ok | type) == "boolean" and (.evidence | length) > 0)'
	json_ok "$1: names are unique" "$2" \
		'[.features[].name] | length == (unique | length) and length > 25'
	json_ok "$1: every no has a remedy, no yes has one" "$2" \
		'all(.features[]; (.remedy == "") == .ok)'
	json_ok "$1: evidence and remedy are not cut off" "$2" \
		'all(.features[]; (.evidence | length) < 159 and (.remedy | length) < 159)'
	json_ok "$1: costs are positive" "$2" 'all(.costs_ns[]; . > 0)'
	json_ok "$1: no probe dies" "$2" \
		'all(.features[]; .evidence | test("died") | not)'
	json_ok "$1: the exit status says whether watching works" "$2" \
		"[.features[] | select(.name == \"sigtrap\" or .name == \"watch_write\").ok]
			| all == ($3 == 0)"
}

"$trapline" check --json >"$tmp/own.json" 2>"$tmp/own.err"
own=$?
test $own -le 1 && test ! -s "$tmp/own.err"
ok "check --json ends with 0 or 1 and no complaint" $?
check_json "own user" "$tmp/own.json" $own

# Costs come last: a machine so slow that the last is missing may miss others.
json_ok "a cost is given for what works" "$tmp/own.json" \
	'([.features[] | select(.ok).name]) as $yes
	| (.costs_ns | keys) as $priced
	| [["sigtrap", "signal"], ["watch_write", "hardware_trap"], ["bpf_veto", "bpf_reject"],
		["bpf_ringbuf", "bpf_record"], ["uprobe", "uprobe"], ["move", "move"],
		["inherit_thread", "arm_per_thread"]]
	| ("arm_per_thread" | IN($priced[]) | not) or all(.[]; (.[0] | IN($yes[]) | not) or (.[1] | IN($priced[])))'

"$trapline" check >"$tmp/own.txt" 2>&1
test $? = $own
ok "the text ends with the same status" $?
"$trapline" check -v >"$tmp/all.txt" 2>&1
test $? = $own
ok "with -v too" $?
test "$(cat "$tmp/own.txt" "$tmp/all.txt" | wc -L)" -le 90
ok "the text fits 90 columns" $?
jq -r '.features[].name' "$tmp/own.json" | while read -r name; do
	grep -Eq "^$name +(yes|no |\?  ) " "$tmp/all.txt" || exit 1
done
ok "-v has a row for each feature" $?
grep -Eq '^clock +[0-9]+  read CLOCK_MONOTONIC$' "$tmp/all.txt" && grep -Eq '^cost +ns$' "$tmp/all.txt"
ok "-v has what the mechanisms cost" $?
for command in watch break record race heap flow at throttle patch dap; do
	grep -Eq "^$command +(yes|no |\?  ) " "$tmp/own.txt"
	ok "the text reports whether $command works" $?
done
jq -r '.features[] | select(.ok | not) | .name' "$tmp/own.json" | while read -r name; do
	sed -n '/^not available here:$/,$p' "$tmp/own.txt" | grep -Eq "^  (.*, )?$name(,.*)?$" || exit 1
done
ok "the text names each feature that does not work" $?
test "$(grep -c '^    why:    ' "$tmp/own.txt")" = "$(grep -c '^    remedy: ' "$tmp/own.txt")"
ok "with a reason and a remedy for each" $?
! grep -Eq '^(sigtrap|watch_write) ' "$tmp/own.txt" && ! grep -q CLOCK_MONOTONIC "$tmp/own.txt"
ok "the text leaves out what works, and costs" $?
grep -Eq '^[0-9]+ of [0-9]+ features work(, [0-9]+ not known)?; trapline check -v prints all, and what they cost$' "$tmp/own.txt"
ok "the text ends with a verdict" $?

# Where a virtual machine has no PMU each counter of it gives that reason, and no other.
if grep -qw hypervisor /proc/cpuinfo && jq -e '.features[] | select(.name == "pmu_cycles").ok | not' \
	"$tmp/own.json" >/dev/null && [ "$(id -u)" = 0 ]; then
	json_ok "a missing PMU is the reason" "$tmp/own.json" \
		'all(.features[] | select(.name == ("pmu_cycles", "pmu_branches", "point_branches"));
			.evidence == "this virtual machine has no hardware counters (PMU)")'
	grep -q '^  pmu_instructions, pmu_cycles, pmu_branches, pmu_overflow$' "$tmp/own.txt"
	ok "features with the same reason are one entry" $?
else
	skip "a missing PMU is the reason" "a virtual machine without a PMU, and root"
	skip "features with the same reason are one entry" "a virtual machine without a PMU, and root"
fi

"$trapline" check nonsense >"$tmp/wrong" 2>"$tmp/wrong.err"
test $? = 2 && test ! -s "$tmp/wrong" && test "$(wc -l <"$tmp/wrong.err")" = 1
ok "an argument is refused with one line and status 2" $?
"$trapline" check --nonsense >"$tmp/wrong" 2>"$tmp/wrong.err"
test $? = 2 && test "$(wc -l <"$tmp/wrong.err")" = 1
ok "an unknown option is refused with one line and status 2" $?
"$trapline" check --help | grep -q -- --json
ok "--help names the option" $?

"$trapline" check --code --for 300ms --json >"$tmp/code.json"
status=$?
jq -e '.rounds > 0 and .calls > 0 and .stale == 0 and .failures == 0 and (.processor | length) > 0' \
	"$tmp/code.json" >/dev/null && test $status = 0
ok "--code: threads run what was put there" $?
(
	ulimit -f 0
	"$trapline" check --code --for 300ms 2>&1
	echo "status $?"
) | cat >"$tmp/code"
test "$(wc -l <"$tmp/code")" = 2 && grep -q 'cannot change code: ' "$tmp/code" &&
	grep -q '^status 1$' "$tmp/code"
ok "--code: where code cannot be changed, one line has the reason" $?
"$trapline" check --for 1s >"$tmp/wrong" 2>&1
test $? = 2 && test "$(wc -l <"$tmp/wrong")" = 1
ok "--for without --code is refused with one line and status 2" $?
"$trapline" check --code --pid $$ >"$tmp/wrong" 2>&1
test $? = 2 && test "$(wc -l <"$tmp/wrong")" = 1
ok "--code with --pid is refused with one line and status 2" $?

if lend; then
	$as_user --bounding-set=-all --inh-caps=-all "$lent/trapline" check --json \
		>"$tmp/nobody.json" 2>"$tmp/nobody.err"
	status=$?
	sed 's/^/# /' "$tmp/nobody.err"
	check_json "nobody" "$tmp/nobody.json" $status
	json_ok "nobody: BPF is refused and the remedy names the capabilities" \
		"$tmp/nobody.json" \
		'all(.features[] | select(.name | startswith("bpf_"));
			(.ok | not) and (.remedy | test("CAP_BPF|seccomp")))'
	json_ok "nobody: uprobes are refused and the remedy says who may" \
		"$tmp/nobody.json" \
		'.features[] | select(.name == "uprobe")
			| (.ok | not) and (.remedy | test("CAP_SYS_ADMIN|seccomp|CONFIG"))'
else
	skip "nobody" "$not_lent"
fi

finished
