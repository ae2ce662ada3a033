#!/bin/sh
# SPDX-License-Identifier: MIT
# test_flow_juliet.sh TRAPLINE VICTIMS - flows of the Juliet suite, variant 01: CWE78 and CWE23. TAP.
#
# It runs only with TRAPLINE_DOWNLOADS=DIR, where juliet-test-suite-c is a checkout of
# arichardson/juliet-test-suite-c, and keeps programs there.

# shellcheck source=tests/cli/tap.sh disable=SC1091,SC2154 # its variables come from there
. "$(dirname "$0")/../cli/tap.sh"
[ -n "$TRAPLINE_DOWNLOADS" ] || skip_all "TRAPLINE_DOWNLOADS=DIR is not set: it builds programs there"
corpus=$TRAPLINE_DOWNLOADS/juliet-test-suite-c
[ -d "$corpus" ] || skip_all "$corpus is missing: git clone https://github.com/arichardson/juliet-test-suite-c"
need jq gcc g++ python3

python3 "$(dirname "$0")/flow_juliet.py" "$trapline" "$corpus" "$TRAPLINE_DOWNLOADS/juliet-flow" >"$tmp/out" 2>"$tmp/err"
sed 's/^/# /' "$tmp/err"
jq -e '.cases >= 40 and .failed == []' "$tmp/out" >/dev/null
ok 'each case has an answer' $?
jq -e '.found * 100 >= .cases * 95' "$tmp/out" >/dev/null
ok '95 % of the bad flows reach their sink' $?
jq -e '.false == []' "$tmp/out" >/dev/null
ok 'no good program has one' $?
finished
