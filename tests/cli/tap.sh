#!/bin/sh
# SPDX-License-Identifier: MIT
# tap.sh - what the tests in shell share; read by them with TRAPLINE and VICTIMS as $1 and $2. TAP.
# Ends what it started, whatever happens.

trapline=$1
victims=$2
tmp=$(mktemp -d)
started=
end_by=TERM # what ends them
count=0
failed=0
command=watch # of trapline

# TRAPLINE_STRESS is the share of its work that a test does, in percent: 100 if not set, 50 for
# scripts/test --all, 20 for scripts/test. share N: that share of N, at least 1.
stress=${TRAPLINE_STRESS:-100}

share()
{
	echo $(($1 * stress / 100 > 0 ? $1 * stress / 100 : 1))
}

finish()
{
	for pid in $started; do
		kill -$end_by "$pid" 2>/dev/null
	done
	rm -rf "$tmp"
}
trap finish EXIT
trap 'exit 1' INT TERM

# Without input jq 1.6 succeeds with -e: what prints nothing would pass each check.
if command -v jq >/dev/null; then
	jq()
	{
		case " $* " in
		*" -e "* | *" -es "*) ;;
		*)
			command jq "$@"
			return
			;;
		esac
		jq_answer=$(command jq "$@") || return
		[ -n "$jq_answer" ] || return 4
		printf '%s\n' "$jq_answer"
	}
fi

# ok NAME STATUS: the last command's status decides. A failure shows the output that is there.
ok()
{
	count=$((count + 1))
	if [ "$2" = 0 ]; then
		echo "ok $count - $1"
		return
	fi
	echo "not ok $count - $1"
	failed=$((failed + 1))
	for f in races.json out err; do
		[ -s "$tmp/$f" ] && cut -c1-600 "$tmp/$f" | sed "s/^/# $f: /" | tail -n 40
	done
}

# skip NAME WHAT: what is missing.
skip()
{
	count=$((count + 1))
	echo "ok $count - $1 # SKIP $2"
}

# skip_all WHAT: ends the test. need PROGRAM...: each is installed, or all is skipped.
skip_all()
{
	echo "1..0 # SKIP $1"
	exit 0
}

need()
{
	for program in "$@"; do
		command -v "$program" >/dev/null || skip_all "$program is not installed"
	done
}

need_uprobes()
{
	[ "$(id -u)" = 0 ] && [ -r /sys/bus/event_source/devices/uprobe/type ] ||
		skip_all "uprobes need root and CONFIG_UPROBE_EVENTS"
}

# Whether the compiler can make a 32-bit program and the kernel runs it; it does not end by itself.
has_32_bit()
{
	timeout 0.3 "$victims/narrow" >/dev/null 2>&1
	[ $? = 124 ]
}

# eventually COMMAND...: waits until it is true, for a minute at most, on a machine that does much else.
eventually()
{
	for _ in $(seq 600); do
		"$@" >/dev/null 2>&1 && return
		sleep 0.1
	done
	return 1
}

# runs PID PROGRAM: it is no longer the copy of a shell.
runs()
{
	case $(readlink "/proc/$1/exe") in */"$2") ;; *) return 1 ;; esac
}

# start PROGRAM ARG...: in the background; its pid in $pid.
start()
{
	program=$victims/$1
	shift
	"$program" "$@" >"$tmp/victim" 2>&1 &
	pid=$!
	started="$started $pid"
	eventually runs "$pid" "${program##*/}"
	sleep 0.1
}

watch()
{
	timeout -k 2 60 "$trapline" "$command" "$@" >"$tmp/out" 2>"$tmp/err"
}

# wrong NAME PATTERN ARG...: exit 2 and one line that holds the pattern.
wrong()
{
	name=$1
	pattern=$2
	shift 2
	watch "$@"
	[ $? = 2 ] && [ "$(wc -l <"$tmp/err")" = 1 ] && grep -q "^trapline $command: .*$pattern" "$tmp/err"
	ok "$name" $?
}

# exactly NAME LINE ARG...: exit 2 and this one line.
exactly()
{
	name=$1
	line=$2
	shift 2
	watch "$@"
	[ $? = 2 ] && [ "$(cat "$tmp/err")" = "trapline $command: $line" ]
	ok "$name" $?
}

# summary EXPRESSION: holds for the summary in the JSON output.
summary()
{
	tail -n 1 "$tmp/out" | jq -e "select(.type == \"summary\") | $1" >/dev/null
}

# hits EXPRESSION: holds for the array of hits in the JSON output.
hits()
{
	jq -e -s "map(select(.type == \"hit\")) | $1" "$tmp/out" >/dev/null
}

finished()
{
	echo "1..$count"
	[ "$failed" = 0 ]
}
