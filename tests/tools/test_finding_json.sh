#!/bin/sh
# SPDX-License-Identifier: MIT
# test_finding_json.sh TRAPLINE VICTIMS - the findings of race, heap and flow, and deaths, have the same members in JSON. TAP.

# shellcheck source=tests/cli/tap.sh disable=SC1091,SC2034,SC2154 # shared with it
. "$(dirname "$0")/../cli/tap.sh"
need jq
end_by=KILL

# What all have, in the words of jq. An object of a moment has its own members before or behind these.
words='
def head: ["type", "kind", "grade", "fingerprint", "count", "pid", "time_ns"];
def moment: ["tid", "thread", "time_ns", "function", "module", "module_path", "file", "line", "via", "stack"];
def frame: ["ip", "function", "offset", "module", "module_offset", "file", "line"];
def is_moment: (moment - keys) == [] and all(.stack[]; (frame - keys) == []);
def is_block: . == null or ((["address", "size", "offset", "allocated", "freed"] - keys) == [] and
	all(.allocated, .freed; . == null or is_moment));
def is_finding: keys_unsorted[:7] == head and (.fingerprint | test("^[0-9a-f]{16}$")) and .count >= 1 and
	.pid > 0 and .time_ns > 0 and (.block | is_block);
'

# found TOOL MODE TYPE MOMENTS EXPRESSION: a finding of this type, in whose MOMENTS one thread does something.
found()
{
	tool=$1
	[ "$tool" = race ] && tool='race --grade C'
	for seconds in 1 2 4 8; do
		# shellcheck disable=SC2086 # several words
		timeout -k 20 100 "$trapline" $tool --json --overhead 20% -o "$tmp/races.json" -- "$victims/shouter" "$2" $seconds \
			>"$tmp/out" 2>/dev/null
		jq -e -s "$words"'map(select(.type == "'"$3"'")) | length > 0 and all(.[]; is_finding and all('"$4"'; is_moment)) and
			any(.[]; '"$5"')' "$tmp/races.json" >/dev/null 2>"$tmp/err" && break
	done
	ok "$3: the members that all findings have" $?
}

found race race race '.first, .second' '(.kind | test("write")) and .first.function == "count_up" and
	.variable == "shared_count"'
found heap heap heap '.first, .block.allocated, .block.freed' '.kind == "use-after-free" and .grade == "A" and
	.first.function == "read_freed" and .first.access == "read" and .block.size == 40 and .block.freed.function == "read_freed"'
found flow flow flow '.from, .to, .steps[]' '.kind == "copy" and .grade == "A" and .from.via == "read" and
	.to.function == "pass_bytes" and .to.name == "write" and .to.via != null'
if [ "$(id -u)" = 0 ]; then
	found heap death death .first '.kind == "SIGSEGV" and .grade == null and .first.function == "die" and .address == "0x8"'
else
	skip 'death: the members that all findings have' root
fi

# The same flow has the same fingerprint, another one has not.
flow_of()
{
	timeout -k 20 60 "$trapline" flow --json --limit 1 -- "$victims/shouter" flow 1 2>/dev/null |
		jq -r 'select(.type == "flow" and .kind != "residue").fingerprint' | sort -u
}
one=$(flow_of)
[ -n "$one" ] && [ "$one" = "$(flow_of)" ]
ok "the same flow has the same fingerprint in another run" $?

finished
