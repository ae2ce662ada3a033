#!/bin/sh
# SPDX-License-Identifier: MIT
# test_race_outside_languages.sh TRAPLINE VICTIMS - `trapline race --outside` of programs that the detector cannot enter,
# or knows little of: Go, musl, static, static-pie, Rust. A racy one and a right one each. TAP.

# shellcheck source=tests/tools/outside_lib.sh disable=SC1091,SC2034,SC2154 # shared with it
. "$(dirname "$0")/outside_lib.sh"
sources=$(dirname "$0")/../victims

# pair NAME COMPILER EXPRESSION COMMAND...: makes both with COMMAND -o FILE SOURCE, and searches them.
pair()
{
	kind=$1 compiler=$2 expression=$3 ending=$4
	shift 4
	if ! command -v "$compiler" >/dev/null; then
		skip "$kind: the race is found" "$compiler is not installed"
		skip "$kind: a right program has none" "$compiler is not installed"
		return
	fi
	for program in racy right; do
		"$@" -o "$tmp/$program.$kind" "$sources/outside_$program.$ending" >"$tmp/out" 2>&1
		ok "$kind: the $program program is made" $?
	done
	found_outside "$kind: the race is found" "$expression" "$tmp/racy.$kind"
	silent_outside "$kind: a right program" "$tmp/right.$kind" 2
}

c='.grade == "A" and .first.function == "bump" and .second.function == "bump" and .variable == "shared"'
export CGO_ENABLED=0 GOCACHE="$tmp/go" GOFLAGS=-mod=mod GOTOOLCHAIN=local
pair static cc "$c" c cc -g -O1 -pthread -static
pair static_pie cc "$c" c cc -g -O1 -pthread -static-pie
pair musl musl-gcc "$c" c musl-gcc -g -O1
pair musl_static musl-gcc "$c" c musl-gcc -g -O1 -static
pair go go '.first.function == "main.bump" and .second.function == "main.bump"' go go build
pair rust rustc '.grade == "A" and (.first.function | test("bump"))' rs rustc -g -O

if command -v go >/dev/null; then
	"$trapline" race --outside -- "$tmp/right.go" 1 >"$tmp/out" 2>"$tmp/err"
	grep -q "left out: [0-9]* functions of Go's runtime (packages runtime, sync" "$tmp/err"
	ok "the summary names the packages of Go that are left out" $?
fi
cp "$tmp/racy.static" "$tmp/stripped" && strip "$tmp/stripped"
"$trapline" race --outside -- "$tmp/stripped" 1 >"$tmp/out" 2>"$tmp/err"
[ $? = 2 ] && grep -q 'static and has no symbols' "$tmp/err"
ok "a static program without symbols is refused in one line" $?
finished
