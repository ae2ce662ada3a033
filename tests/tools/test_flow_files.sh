#!/bin/sh
# SPDX-License-Identifier: MIT
# test_flow_files.sh TRAPLINE VICTIMS - `trapline flow`: which file or socket gets the bytes, by a descriptor or
# by memory that is shared with a file. TAP.

# shellcheck source=tests/cli/tap.sh disable=SC1091,SC2034,SC2154 # shared with it
. "$(dirname "$0")/../cli/tap.sh"
command=flow
victim=$victims/flow_file_victim
need jq
secret=the-text-that-is-watched
FLOW_FILE=$tmp/file
export FLOW_FILE

# flow OPTION... -- MODE: with the text as its input; JSON lines in $tmp/report.
flow()
{
	rm -f "$tmp/report" "$FLOW_FILE"
	[ -z "$had" ] || printf '%s' "$had" >"$FLOW_FILE"
	echo "$secret" | timeout -k 5 60 "$trapline" flow --as jsonl -o "$tmp/report" "$@" >"$tmp/out" 2>"$tmp/err"
}

# sinks EXPRESSION: of jq, over the array of the flows that are no residues.
sinks()
{
	jq -e -s "map(select(.type == \"flow\" and .kind != \"residue\")) | $1" "$tmp/report" >/dev/null 2>>"$tmp/err"
}
had=

flow -- "$victim" mapped-munmap && sinks 'length == 1 and (.[0] | .to.name == "munmap" and .grade == "A" and .bytes == 24 and
	.to.path == env.FLOW_FILE and .to.fd == null and .to.function == "unmap" and any(.steps[]; .function == "copy_by_loop"))' &&
	grep -q "$secret" "$FLOW_FILE"
ok 'munmap of a file that the text was copied into, with its path' $?
flow -- "$victim" mapped-msync && sinks 'length == 1 and (.[0] | .to.name == "msync" and .bytes == 24 and
	.to.path == env.FLOW_FILE and .to.function == "mapped_msync")'
ok 'msync of it; at the munmap it is overwritten' $?
for mode in mapped-end mapped-end-at-once; do
	flow -- "$victim" $mode && sinks 'length == 1 and (.[0] | .to.name == "shared mapping" and .bytes == 24 and
		.to.path == env.FLOW_FILE and .to.function == "copy_by_loop")'
	ok "$mode: the end of the process, with what stored it there" $?
done
jq -e -s 'map(select(.kind == "residue" and .to.memory == "data" and .steps[-1].function == "copy_by_loop")) == []' \
	"$tmp/report" >/dev/null
ok 'and it is no residue too' $?
flow --match "$secret" -- "$victim" mapped-unseen && sinks 'length == 1 and (.[0] | .grade == "found" and .bytes == 24 and
	.to.name == "munmap" and .to.path == env.FLOW_FILE)'
ok 'a text that came there unseen is found' $?
for mode in private cleared replaced unseen; do
	flow -- "$victim" mapped-$mode && sinks '. == []'
	ok "mapped-$mode: the file does not get it, or no text is searched" $?
done
had=$secret
flow --match "$secret" -- "$victim" mapped-source && sinks '. == []' &&
	flow --match "$secret" --from "read:$FLOW_FILE" -- "$victim" mapped-source && sinks '. == []' &&
	jq -e -s '.[-1].sources >= 1' "$tmp/report" >/dev/null
ok 'a file that had the text does not get it' $?
flow --match "$secret" -- "$victim" mapped-munmap && sinks 'length == 1 and (.[0] | .to.name == "munmap" and .grade == "A" and .bytes == 24)'
ok 'but a second copy in it is told' $?
flow --from "read:$FLOW_FILE" -- "$victim" rewritten && sinks 'length == 1 and (.[0] | .grade == "found" and .to.name == "write" and
	.bytes == 24 and .from.path == env.FLOW_FILE)'
ok 'the text of a file that the user named is found where it is written again' $?
flow -- "$victim" rewritten && sinks '. == []' && flow --from "read:$tmp/report" -- "$victim" rewritten
sinks '. == []'
ok 'but not that of another file' $?
had=

flow -- "$victim" files && sinks 'length == 2 and all(.[]; .to.name == "write" and .bytes == 24 and .to.fd >= 3) and
	(map(.to.path) | sort == [env.FLOW_FILE + ".0", env.FLOW_FILE + ".1"])'
ok 'each file of one call is named as it was at the call' $?
"$trapline" report "$tmp/report" >"$tmp/text" && grep -q "A sink: write to descriptor [0-9]* ($FLOW_FILE.1): 24 bytes" "$tmp/text" &&
	"$trapline" report --as json "$tmp/report" | cmp -s - "$tmp/report"
ok 'in the text too, and read again' $?
flow --match "$secret" -- "$victim" named && ! grep -q "$secret" "$tmp/report" &&
	sinks 'any(.to.name == "write" and (.to.path | test("hidden")))' && flow -- "$victim" named && ! grep -q "$secret" "$tmp/report"
ok 'a path that has the text is not printed' $?
flow -- "$victim" peers && sinks "(map(select(.to.name == \"send\" and .to.path == \"127.0.0.1:$(cat "$tmp/out")\")) | length == 1) and
	(map(select(.to.name == \"sendto\" and .to.path == \"127.0.0.1:9\")) | length == 1) and length == 2"
ok 'a socket is named by its peer, or by the one of the call' $?
finished
