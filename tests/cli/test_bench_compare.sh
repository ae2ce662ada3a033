#!/bin/sh
# SPDX-License-Identifier: MIT
# test_bench_compare.sh SOURCE - a slower build is found and named, and noise is not. TAP.
# The builds are scripts that print figures by a fixed series, so no time is measured.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/tap.sh"
source=$(cd "$1" && pwd)
need jq python3

# build NAME FACTOR NOISE: a build whose figures are FACTOR times the usual, NOISE percent up and down.
build()
{
	mkdir -p "$tmp/$1/bench"
	cat >"$tmp/$1/bench/bench_fake" <<END
#!/bin/sh
echo run >>"$tmp/$1/runs"
awk -v n="\$(wc -l <"$tmp/$1/runs")" -v factor=$2 -v noise=$3 -v seed=$(printf %s "$1" | wc -c) 'BEGIN {
	srand(n * 7919 + seed)
	printf "{\"bench\":\"steady\",\"threads\":1,\"ns\":%.3f,\"floor_ns\":%.3f}\n", 100 * (1 + (rand() - 0.5) / 50),
		50 * factor
	printf "{\"bench\":\"call\",\"threads\":1,\"ns\":%.3f,\"rounds\":9}\n", 40 * factor * (1 + (rand() - 0.5) * noise / 50)
	printf "{\"bench\":\"call\",\"threads\":1,\"calls_per_second\":%.3f}\n",
		1e6 / factor * (1 + (rand() - 0.5) * noise / 50)
}'
END
	chmod +x "$tmp/$1/bench/bench_fake"
}

# is NAME STATUS OLD NEW: the exit status.
is()
{
	"$source/scripts/bench-compare" "$tmp/$3" "$tmp/$4" fake >"$tmp/out" 2>"$tmp/err"
	[ $? = "$2" ]
	ok "$1" $?
}

build old 1 2
build new 1 2
build slow 1.25 2
build bit_slower 1.05 2
build fast 0.7 2
build noisy 1 60

is the_same_build_passes 0 old old
is an_equal_build_passes 0 old new
[ "$(jq -s length "$tmp/out")" = 3 ] && jq -se 'all(.is_regression | not)' "$tmp/out" >/dev/null
ok each_figure_has_a_line $?
is a_slow_build_fails 1 old slow
grep -q '^bench-compare: call 1: ns is 2[0-9] % worse' "$tmp/err" &&
	jq -se 'map(select(.is_regression)) | length == 2' "$tmp/out" >/dev/null
ok the_slow_figures_are_named $?
! grep -q 'steady\|floor' "$tmp/err"
ok other_figures_and_floors_are_not_named $?
grep -q 'calls_per_second is [23][0-9] % worse' "$tmp/err"
ok a_lower_rate_is_worse $?
is a_fast_build_passes 0 slow old
is less_than_ten_percent_pass 0 old bit_slower
is noise_passes 0 noisy new
is noise_passes_the_other_way_round 0 old noisy
is a_build_without_the_bench_is_refused 2 old nothing
grep -q 'cannot run .*nothing/bench/bench_fake: .*; build it' "$tmp/err"
ok the_missing_bench_is_named $?
printf '#!/bin/sh\nexit 3\n' >"$tmp/new/bench/bench_fake"
is a_bench_that_fails_is_refused 2 old new
finished
