#!/bin/sh
# SPDX-License-Identifier: MIT
# race.sh BUILD - what a search for races costs, and how long it takes to find one: trapline race at
# several budgets, gcc's ThreadSanitizer and valgrind's Helgrind on the same programs. JSON lines.
#	TRAPLINE_BENCH_TRIES	of each; 5
#	TRAPLINE_BENCH_TOOLS	"trapline tsan helgrind"
set -eu
source=$(cd "$(dirname "$0")" && pwd)/race_target.c
build=$(cd "${1:-build}" && pwd)
tries=${TRAPLINE_BENCH_TRIES:-5}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
target=$build/bench/race_target
export TSAN_OPTIONS='halt_on_error=1 exitcode=66 report_bugs=1'

tools=${TRAPLINE_BENCH_TOOLS:-trapline tsan helgrind}
case $tools in *tsan*)
	if ! gcc -g -O2 -pthread -fsanitize=thread "$source" -o "$tmp/tsan" 2>/dev/null ||
		! setarch -R "$tmp/tsan" table 2 1000 2>/dev/null; then
		rm -f "$tmp/tsan"
	fi
	;;
esac
no_valgrind=" "
case $tools in *helgrind*) command -v valgrind >/dev/null && no_valgrind= ;; esac

# timed COMMAND...: seconds of wall time and of CPU time; the status is that of the command, mostly ignored.
timed()
{
	times >"$tmp/before"
	start=$(date +%s%N)
	"$@" >/dev/null 2>&1 || true
	end=$(date +%s%N)
	times >"$tmp/after"
	# The second line is of the shell's children: 0m1.23s 0m0.45s.
	cat "$tmp/before" "$tmp/after" | tr 'ms' '  ' | awk -v wall=$(((end - start) / 1000)) '
		NR == 2 { before = $1 * 60 + $2 + $3 * 60 + $4 }
		NR == 4 { printf "%.4f %.2f\n", wall / 1e6, $1 * 60 + $2 + $3 * 60 + $4 - before }'
}

# under TOOL PROGRAM THREADS AMOUNT: times of the program under it; none: of the program alone.
under()
{
	tool=$1
	shift
	case $tool in
	none) timed "$target" "$@" ;;
	trapline-*) timed "$build/trapline" race --overhead "${tool#*-}" -- "$target" "$@" ;;
	tsan) timed setarch -R "$tmp/tsan" "$@" ;;
	helgrind) timed valgrind --tool=helgrind -q "$target" "$@" ;;
	esac
}

# cost PROGRAM THREADS AMOUNT TOOL...: each beside the program alone, in turns; medians of ratios.
cost()
{
	program="$1 $2 $3"
	shift 3
	for _ in $(seq "$tries"); do
		for tool in none "$@"; do
			# shellcheck disable=SC2086 # words
			echo "$tool $(under "$tool" $program)"
		done
	done | awk '$1 == "none" { plain = $2; cpu = $3 > 0 ? $3 : 0.01 } { print $1, $2, $2 / plain, $3 / cpu }' |
		sort -k1,1 -k3,3n |
		awk -v program="$program" '
		function sort_cpu(  i, k, v) {
			for (i = 2; i <= n; i++) {
				v = cpu[i]
				for (k = i - 1; k && cpu[k] > v; k--)
					cpu[k + 1] = cpu[k]
				cpu[k + 1] = v
			}
		}
		function tell(  middle) {
			split(program, p, " ")
			middle = int((n + 1) / 2)
			sort_cpu()
			printf "{\"what\":\"cost\",\"program\":\"%s\",\"threads\":%d,\"tool\":\"%s\",", p[1], p[2], last
			printf "\"ratio\":%.3f,\"best\":%.3f,\"worst\":%.3f,\"cpu_ratio\":%.3f,\"wall_s\":%.4f}\n",
				ratio[middle], ratio[1], ratio[n], cpu[middle], wall[middle]
		}
		n && $1 != last { tell(); n = 0 }
		{ last = $1; n++; ratio[n] = $3; wall[n] = $2; cpu[n] = $4 }
		END { tell() }'
}

# first PROGRAM SECONDS TOOL COMMAND...: until the first report, if there is one in that time.
first()
{
	name=$1 seconds=$2 tool=$3
	shift 3
	for _ in $(seq "$tries"); do
		case $tool in
		trapline*)
			"$@" "$target" "$name" 2 "$seconds" >"$tmp/out" 2>/dev/null || true
			took=$(jq -r 'select(.type == "summary") | (.first_race_ns // 0) / 1e9' "$tmp/out")
			;;
		*)
			start=$(date +%s%N)
			status=0
			"$@" "$name" 2 "$seconds" >/dev/null 2>&1 || status=$?
			took=$(awk -v a="$start" -v b="$(date +%s%N)" -v s=$status 'BEGIN {
				print s == 66 ? (b - a) / 1e9 : 0 }')
			;;
		esac
		awk -v n="$name" -v tool="$tool" -v s="$took" -v limit="$seconds" 'BEGIN {
			printf("{\"what\":\"first\",\"program\":\"%s\",\"tool\":\"%s\",\"within_s\":%s,\"found\":%s,\"seconds\":%s}\n",
				n, tool, limit, (s > 0 ? "true" : "false"), (s > 0 ? s : "null")) }'
	done
}

slow=
[ -x "$tmp/tsan" ] && slow=tsan
for threads in 2 8 64; do
	for pair in stencil:36000 table:120000000 handover:150000; do
		name=${pair%:*} amount=${pair#*:}
		cost "$name" $threads "$amount" trapline-1% trapline-2% trapline-5%
		# Those that take many times as long get less to do.
		# shellcheck disable=SC2086 # none or one
		[ "$slow${no_valgrind:-helgrind}" = " " ] ||
			cost "$name" $threads $((amount / 60)) $slow ${no_valgrind:-helgrind}
	done
done
for pair in hot:5 cold:10; do
	name=${pair%:*} seconds=${pair#*:}
	for budget in 1 2 5; do
		first "$name" "$seconds" trapline-$budget% "$build/trapline" race --json --overhead $budget% --
	done
	first "$name" "$seconds" trapline-sweep "$build/trapline" race --json --sweep --for 0.01 --
	[ -x "$tmp/tsan" ] && first "$name" "$seconds" tsan setarch -R "$tmp/tsan"
	[ "${no_valgrind:-}" ] || first "$name" "$seconds" helgrind valgrind --tool=helgrind -q \
		--error-exitcode=66 --exit-on-first-error=yes "$target"
done
