#!/bin/sh
# SPDX-License-Identifier: MIT
# test_heap_juliet.sh TRAPLINE VICTIMS - heap errors of the Juliet suite, variant 01, against valgrind. TAP.
#
# It runs only with TRAPLINE_DOWNLOADS=DIR, where juliet-test-suite-c is a checkout of
# arichardson/juliet-test-suite-c, and keeps programs and valgrind's answers there: the first run takes long.

# shellcheck source=tests/cli/tap.sh disable=SC1091,SC2154 # its variables come from there
. "$(dirname "$0")/../cli/tap.sh"
[ -n "$TRAPLINE_DOWNLOADS" ] || skip_all "TRAPLINE_DOWNLOADS=DIR is not set: it builds programs there"
corpus=$TRAPLINE_DOWNLOADS/juliet-test-suite-c
[ -d "$corpus" ] || skip_all "$corpus is missing: git clone https://github.com/arichardson/juliet-test-suite-c"
need jq valgrind gcc g++ python3
folder=$(dirname "$0")
juliet()
{
	python3 "$folder/heap_juliet.py" "$1" "$corpus" "$TRAPLINE_DOWNLOADS/juliet-work" trapline >"$tmp/out" 2>"$tmp/err"
	sed 's/^/# /' "$tmp/err"
}
# result EXPRESSION: holds for what the last run says of trapline.
result()
{
	jq -e "select(.tool == \"trapline\") | $1" "$tmp/out" >/dev/null
}

juliet "$trapline"
result '.cases > 200 and .reachable > 150 and .failed == []'
ok 'each case has an answer' $?
# This one writes over a buffer on its stack, and what it reads then is of the heap by chance.
result '[.missed[] | select(test("CWE806_char_loop_01$") | not)] == []'
ok 'what valgrind finds is found, also reads before a block' $?
result '.false == []'
ok 'no good program is reported' $?

# The harness itself: a detector that says nothing, and one that says it of all.
cat >"$tmp/silent" <<'END'
#!/bin/sh
while [ "$1" != -o ]; do shift; done
echo '{"type":"summary"}' >"$2"
END
cat >"$tmp/loud" <<'END'
#!/bin/sh
while [ "$1" != -o ]; do shift; done
printf '{"type":"heap","kind":"overflow","grade":"A"}\n{"type":"summary"}\n' >"$2"
END
chmod +x "$tmp/silent" "$tmp/loud"
export TRAPLINE_JULIET_ONLY='CWE41[56]'
juliet "$tmp/silent"
result '.found == 0 and (.missed | length) == .reachable and .reachable > 30 and .false == []'
ok 'a detector that is silent misses each' $?
juliet "$tmp/loud"
result '.missed == [] and (.false | length) == .cases'
ok 'a detector that is loud is wrong for each good one' $?
juliet false
result '(.failed | length) == 2 * .cases'
ok 'a detector that gives no report fails' $?
finished
