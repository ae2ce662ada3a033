#!/bin/sh
# SPDX-License-Identifier: MIT
#
# test_readme SOURCE BUILD - the README's commands do what it says.
#
# `sh scripts/test` is what runs this test, so only its presence is looked at.
source=$1
build=$2
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
count=0
failed=0

check() { # name, status
	count=$((count + 1))
	if [ "$2" = 0 ]; then
		echo "ok $count - $1"
	else
		echo "not ok $count - $1"
		failed=1
		sed 's/^/# /' "$tmp/out" 2>/dev/null | tail -n 30
	fi
}

sed -n '/^```sh$/,/^```$/p' "$source/README.md" | grep -v '^```' >"$tmp/commands"
printf 'sh scripts/demo\nsh scripts/test\n' | cmp -s - "$tmp/commands"
check 'the README names the two commands' $?
[ -f "$source/scripts/test" ]
check 'scripts/test is there' $?

(cd "$source" && BUILD=$build sh scripts/demo) >"$tmp/out" 2>&1
check 'scripts/demo succeeds' $?
grep -Eq '^[0-9:.]+  redis-server/[0-9]+ +handleClients[A-Za-z]+\+0x[0-9a-f]+ +0 -> [0-9]+  w$' "$tmp/out"
check 'the main thread is named, with old and new value' $?
grep -Eq 'io_thd_1/[0-9]+ +IOThreadMain\+0x[0-9a-f]+ +[0-9]+ -> 0  w$' "$tmp/out"
check 'the other thread is named, with old and new value' $?
grep -Eq '^    #1  ' "$tmp/out"
check 'stacks are shown' $?
grep -Eq '^taken [0-9]+ = rejected .* delivered 20 .*lost 0' "$tmp/out"
check 'twenty hits, and nothing is lost' $?
grep -q 'no error in its log, no failed request' "$tmp/out"
check 'the server came to no harm' $?
grep -q '^race A: .*ap_copy_scoreboard_worker' "$tmp/out"
check 'a race in Apache is caught, graded and named' $?
[ "$(grep -Ec '^  (read|write|read-modify-write) of [0-9]+ bytes at 0x[0-9a-f]+ by thread [0-9]+' \
	"$tmp/out")" = 2 ]
check 'with both sides' $?
grep -q "no error in the server's log" "$tmp/out"
check 'Apache came to no harm' $?
echo "1..$count"
exit $failed
