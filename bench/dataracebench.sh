#!/bin/sh
# SPDX-License-Identifier: MIT
# dataracebench.sh FOLDER [BUILD] - how many of DataRaceBench's racy programs `trapline race --sweep`
# finds, and how many right ones it reports; beside gcc's ThreadSanitizer and valgrind's Helgrind in
# the same run. JSON lines, one a program and a summary for each tool.
#
# FOLDER is a checkout of https://github.com/LLNL/dataracebench (BSD; not part of this project).
# A report counts as located when both of its lines are among those that the program's head names.
#
#	TRAPLINE_BENCH_SECONDS	time of each sweep; 2
#	TRAPLINE_BENCH_ONLY	a pattern of names; *
#	TRAPLINE_BENCH_TOOLS	"trapline tsan helgrind"
#	TRAPLINE_BENCH_FLAGS	of the compiler; -O0
#	OMP_NUM_THREADS		4
#	TRAPLINE_BENCH_VARY	"4,180": runs of a sweep differ in that number; as its own harness does it
set -eu
die()
{
	echo "dataracebench.sh: $*" >&2
	exit 2
}

programs=${1:+$1/micro-benchmarks}
[ -d "${programs:-}" ] ||
	die "give a checkout: git clone https://github.com/LLNL/dataracebench"
programs=$(cd "$programs" && pwd)
build=$(cd "${2:-build}" && pwd)
seconds=${TRAPLINE_BENCH_SECONDS:-2}
tools=${TRAPLINE_BENCH_TOOLS:-trapline tsan helgrind}
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-4}"
vary=${TRAPLINE_BENCH_VARY:+--vary OMP_NUM_THREADS=$TRAPLINE_BENCH_VARY}
export TSAN_OPTIONS='exitcode=66 report_bugs=1'
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"

# compiled SOURCE OUTPUT FLAG...: one program, as its harness builds it but for the optimisation.
compiled()
{
	source=$1 output=$2
	shift 2
	case $source in
	*.cpp) set -- g++ "$@" ;;
	*) set -- gcc -std=gnu99 "$@" ;;
	esac
	if grep -q PolyBench "$source"; then
		set -- "$@" -I"$programs" -I"$programs/utilities" "$programs/utilities/polybench.c" \
			-DPOLYBENCH_NO_FLUSH_CACHE -D_POSIX_C_SOURCE=200112L
	fi
	# shellcheck disable=SC2086 # several flags
	"$@" -g ${TRAPLINE_BENCH_FLAGS:--O0} -fopenmp "$source" -o "$output" -lm 2>/dev/null
}

# by_trapline NAME SOURCE: one line of JSON.
by_trapline()
{
	rm -f races
	# shellcheck disable=SC2086 # an option and its value
	timeout -s INT -k 5 $((seconds + 20)) "$build/trapline" race --sweep --for "$seconds" $vary \
		--json -o races -- "$tmp/plain" </dev/null >/dev/null 2>&1 || true
	touch races
	lines=$(grep -o '@[0-9]*:[0-9]*:[RW]' "$2" | cut -d: -f1 | tr -d @ | sort -u | tr '\n' ' ')
	jq -c -s --arg name "$1" --arg lines "$lines" '
		($lines | split(" ") | map(select(. != "") | tonumber)) as $lines |
		map(select(.type == "race")) as $races | (map(select(.type == "summary"))[0] // {}) as $s |
		{tool: "trapline", name: $name, is_racy: ($name | test("-yes")), reports: ($races | length),
		 is_located: ($races | any(.first.line as $a | .second.line as $b |
			($lines | index($a)) != null and ($lines | index($b)) != null)),
		 first_ms: (($s.first_race_ns // 0) / 1e6), runs: $s.runs, stalls: $s.stalls,
		 sites_covered: $s.sites_covered, sites_total: $s.sites_total}' races
}

# by_status NAME TOOL COMMAND...: a tool that ends with 66 when it has found something.
by_status()
{
	name=$1 tool=$2 status=0
	shift 2
	timeout -k 2 8 "$@" </dev/null >/dev/null 2>&1 || status=$?
	jq -cn --arg name "$name" --arg tool "$tool" --argjson status $status '
		{tool: $tool, name: $name, is_racy: ($name | test("-yes")),
		 reports: (if $status == 66 then 1 else 0 end)}'
}

one()
{
	name=$(basename "$1" | sed 's/\.[cp]*$//')
	compiled "$1" plain || return 0
	for tool in $tools; do
		case $tool in
		trapline) by_trapline "$name" "$1" ;;
		tsan) compiled "$1" tsan -fsanitize=thread &&
			by_status "$name" tsan setarch -R "$tmp/tsan" ;;
		helgrind) by_status "$name" helgrind valgrind --tool=helgrind --error-exitcode=66 \
			"$tmp/plain" ;;
		*) die "no tool is called $tool" ;;
		esac
	done
}

for source in "$programs"/DRB*-yes.c "$programs"/DRB*-yes.cpp "$programs"/DRB*-no.c "$programs"/DRB*-no.cpp; do
	# shellcheck disable=SC2254 # a pattern
	case $(basename "$source") in
	${TRAPLINE_BENCH_ONLY:-*}) [ -f "$source" ] && one "$source" ;;
	esac
done | tee results

threads=$OMP_NUM_THREADS
[ -z "$vary" ] || threads="[$TRAPLINE_BENCH_VARY]"
jq -c -s --argjson threads "$threads" 'group_by(.tool)[] | map(select(.is_racy)) as $racy |
	map(select(.is_racy | not)) as $right | ($racy | map(select(.reports > 0))) as $found |
	{tool: .[0].tool, threads: $threads, racy: ($racy | length), found: ($found | length),
	 located: ($found | map(select(.is_located)) | length), right: ($right | length),
	 false: ($right | map(select(.reports > 0)) | length),
	 median_first_ms: ($found | map(.first_ms // empty) | sort | .[length / 2 | floor])}' results
