#!/bin/sh
# SPDX-License-Identifier: MIT
# test_red_zone_command.sh TRAPLINE VICTIMS SOURCE - a program whose functions keep variables below their stack pointer computes
# right sums, whatever is set on the nops in these functions. TAP.

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/tap.sh"
need_uprobes
need jq python3
command='break'
source=$3/tests/victims/red_zone.c

# place TEXT: that line, as a location.
place()
{
	echo "red_zone.c:$(grep -n "/\* $1" "$source" | cut -d: -f1)"
}
branch=$(place 'a branch that is off')
loop=$(place 'a nop before a loop')

# unharmed NAME STATUS: the command did what it should, and the program, ended here, has no wrong sum.
unharmed()
{
	status=$2
	kill -TERM "$pid"
	wait "$pid"
	[ "$status" = 0 ] && [ "$(cat "$tmp/victim")" = "wrong sums: 0" ]
	ok "$1" $?
	cat "$tmp/victim" >"$tmp/err"
}

start red_zone
watch -p "$pid" "$branch" --mechanism uprobe --limit 3000 --json --summary
[ $? = 0 ] && summary '.hits == 3000'
unharmed a_line_with_a_nop $?

start red_zone
watch -p "$pid" debug_enabled --limit 3000 --json
[ $? = 0 ] && summary '.hits == 3000' && hits 'all(.function == "debug_enabled")'
unharmed an_inlined_function_by_name $?

start red_zone
watch -p "$pid" "$loop" --limit 200 --json
[ $? = 0 ] && summary '.hits == 200'
unharmed a_nop_before_a_loop $?

start red_zone
if watch -p "$pid" "$loop" --mechanism uprobe --limit 200 --json; then
	summary '.hits == 200'
else
	grep -q 'cannot use --mechanism uprobe: .*below the stack pointer' "$tmp/err" && [ "$(wc -l <"$tmp/err")" = 1 ]
fi
unharmed a_uprobe_that_is_forced_works_or_is_refused $?

start red_zone
watch -p "$pid" main --until-hit "$branch" --for 20 --json
[ $? = 0 ] && summary '.ended == "the location of --until-hit was reached"'
sleep 0.2
unharmed until_hit $?

start red_zone
command=watch
watch -p "$pid" debug_calls --until-hit "$branch" --for 20 --json
[ $? -le 1 ] && summary '.ended == "the location of --until-hit was reached"'
unharmed until_hit_of_watch $?
command='break'

start red_zone
command='at'
watch -p "$pid" "$branch#100" --json
[ $? = 0 ] && jq -e '.count == 100' "$tmp/out" >/dev/null
unharmed a_point_at_a_nop $?
command='break'

start red_zone
timeout 60 python3 - "$trapline" "$3" "$pid" "$source" "${branch##*:}" >"$tmp/out" <<'END'
import sys
sys.path.insert(0, sys.argv[2] + "/tests/dap")
from dap_client import Client
client = Client([sys.argv[1], "dap"])
assert client.attach(int(sys.argv[3]))["success"]
row = client.set_lines(sys.argv[4], [{"line": int(sys.argv[5]), "logMessage": "here it is"}])["body"]["breakpoints"][0]
assert row["verified"], row
client.listen(1)
assert any("here it is" in line["output"] for line in client.lines())
client.request("disconnect")
END
unharmed a_logpoint $?
finished
