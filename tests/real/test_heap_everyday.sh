#!/bin/sh
# SPDX-License-Identifier: MIT
# test_heap_everyday.sh TRAPLINE VICTIMS - everyday programs of Debian do under `trapline heap` what they do
# without it, and none is reported. Only with TRAPLINE_DOWNLOADS, since it takes minutes. TAP.

# shellcheck source=tests/cli/tap.sh disable=SC1091,SC2154 # its variables come from there
. "$(dirname "$0")/../cli/tap.sh"
[ -n "$TRAPLINE_DOWNLOADS" ] || skip_all "TRAPLINE_DOWNLOADS=DIR is not set: it takes minutes"
need python3 jq
python3 "$(dirname "$0")/heap_everyday.py" "$trapline" >"$tmp/out" 2>"$tmp/err"
tail -n 1 "$tmp/out" | jq -r '"# \(.ran) programs; not installed: \(.missing | join(" "))"'
sed 's/^/# /' "$tmp/err"
tail -n 1 "$tmp/out" | jq -e '.ran > 50 and .wrong == []' >/dev/null
ok 'all do the same, and none is reported' $?
finished
