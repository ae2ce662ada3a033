#!/bin/sh
# SPDX-License-Identifier: MIT
# test_peers_table.sh SOURCE - the page of the peers says where a peer is ahead, and what cannot run. TAP.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/tap.sh"
source=$(cd "$1" && pwd)
need python3 mandoc

cat >"$tmp/lines" <<'END'
{"bench":"peers_machine","date":"2026-11-28","kernel":"6.18.0-test","processor":"A \"B\"","cpus":2,"system":"Debian","rounds":3,"load":1.5,"versions":{"trapline":"0.1.0","gdb":"18.1","rr":null}}
{"bench":"break_false","contender":"alone","tool":"alone","ns":2.0,"lost":null,"made":10}
{"bench":"break_false","contender":"trapline, probe","tool":"trapline","ns":10.0,"lost":null,"made":10}
{"bench":"break_false","contender":"gdb","tool":"gdb","ns":250000.0,"lost":null,"made":10}
{"bench":"break_false","contender":"swift","tool":"swift","ns":5.0,"lost":2,"made":10}
{"bench":"break_false","contender":"near","tool":"near","ns":9.9,"lost":0,"made":10}
{"bench":"watch_true","contender":"trapline","tool":"trapline","skipped":"it saw 0 of 10 hits"}
{"bench":"trace","contender":"trapline, uprobe","tool":"trapline","skipped":"it is not over after 9 s"}
{"bench":"trace","contender":"tracer","tool":"tracer","ns":5.0,"extra_s":1.0,"lost":0,"made":10}
{"bench":"race","contender":"finder","tool":"finder","ratio":9.5,"first_s":1.0}
{"bench":"race","contender":"trapline race","tool":"trapline","ratio":1.5,"first_s":null,"note":"searching from outside"}
END
"$source/bench/peers/table.py" <"$tmp/lines" >"$tmp/page.7" 2>"$tmp/err"
ok the_page_is_made $?
mandoc -T lint -W warning "$tmp/page.7" >"$tmp/err" 2>&1
ok the_page_is_valid $?
# Bold letters are printed twice: col(1) is not everywhere.
mandoc -T utf8 "$tmp/page.7" | sed "s/.$(printf '\b')//g" >"$tmp/out"
section()
{
	sed -n "/^$1/,/^[A-Z]/p" "$tmp/out"
}
grep -q 'gdb 18.1' "$tmp/out" && ! grep -q 'rr ' "$tmp/out" && grep -q '6.18.0-test.*A "B"' "$tmp/out"
ok versions_kernel_and_processor_are_there $?
section 'WHERE A TOOL' | tr -s '\n ' ' ' | grep -q 'breakpoint, false swift takes 0.5 of the time of trapline, and loses 2 hits'
ok a_faster_peer_is_ahead $?
section 'WHERE A TOOL' | tr -s '\n ' ' ' | grep -q '20,000 functions tracer does it here, and trapline does not'
ok a_peer_that_does_what_trapline_does_not_is_ahead $?
section 'WHERE A TOOL' | tr -s '\n ' ' ' | grep -q 'data race finder reports the race here, and trapline does not'
ok a_peer_that_finds_what_trapline_does_not_is_ahead $?
! section 'WHERE A TOOL' | grep -q 'gdb\|alone\|near'
ok others_are_not_ahead $?
section 'WHAT CANNOT' >"$tmp/cannot"
grep -q 'trapline (watch, true)' "$tmp/cannot" && grep -q 'it saw 0 of 10 hits' "$tmp/cannot" && grep -q 'searching from outside' "$tmp/cannot"
ok what_cannot_run_is_named_by_its_words $?
grep -q 'gdb  *250 us  *25,000' "$tmp/out"
ok a_row_has_the_cost_and_the_ratio $?
finished
