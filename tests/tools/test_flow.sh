#!/bin/sh
# SPDX-License-Identifier: MIT
# test_flow.sh TRAPLINE VICTIMS - `trapline flow`: what bytes reach, what is computed from them, and where
# they stay; nothing else is told, and the program does what it does. TAP.

# shellcheck source=tests/cli/tap.sh disable=SC1091,SC2034,SC2154 # shared with it
. "$(dirname "$0")/../cli/tap.sh"
command=flow
victim=$victims/flow_victim
need jq
secret=the-text-that-is-watched

# flow OPTION... -- MODE: with the text as its input; JSON lines in $tmp/report.
flow()
{
	rm -f "$tmp/report"
	echo "$secret" | timeout -k 5 60 "$trapline" flow --as jsonl -o "$tmp/report" "$@" >"$tmp/out" 2>"$tmp/err"
}

# holds EXPRESSION: of jq, over the array of the flows.
holds()
{
	jq -e -s "map(select(.type == \"flow\")) | $1" "$tmp/report" >/dev/null 2>>"$tmp/err"
}
sinks='map(select(.kind != "residue"))'

flow -- "$victim" shell && holds "$sinks | length == 1 and (.[0] | .to.name == \"system\" and .grade == \"A\" and
	.kind == \"copy\" and .bytes == 24 and .offset == 0 and .to.via == \"__libc_system\" and
	.to.function == \"shell\" and .from.name == \"read\" and .from.fd == 0 and .from.function == \"take_text\" and
	([.steps[].kind] | all(. == \"copy\")) and (.steps | length) >= 2)"
ok 'what is read gets into a shell, by its copies' $?
flow -- "$victim" good && holds "$sinks == []"
ok 'a line without it is not told' $?
flow -- "$victim" path && holds "$sinks | length == 1 and (.[0] | .to.name == \"fopen64\" and .bytes == 24 and
	any(.steps[]; .function == \"copy_by_loop\"))"
ok 'a path is told once, with the function that copied it' $?
flow -- "$victim" program && holds "$sinks | length == 1 and (.[0] | .to.name == \"execlp\" and .bytes == 24)"
ok 'an argument of a program' $?
flow -- "$victim" exported && holds "$sinks | length == 1 and (.[0] | .to.name == \"environment of execve\" and .bytes == 24 and
	.to.function == \"become_true\" and .to.via == \"execve\" and any(.steps[]; .function == \"exported\"))"
ok 'the environment of a program' $?
flow -- "$victim" not-exported && holds "$sinks == []"
ok 'but not one that the program does not get' $?
flow -- "$victim" spawned && holds "$sinks | length == 1 and (.[0] | .to.name == \"environment of posix_spawn\" and .bytes == 24)" &&
	flow -- "$victim" forked && holds "$sinks | length == 2 and (map(.to.name) | sort == [\"environment of execve\", \"execve\"]) and
	all(.[]; .bytes == 24 and .to.function == \"forked\")"
ok 'of one that is started, also by vfork' $?
flow -- "$victim" computed && holds "$sinks | length == 1 and (.[0] | .kind == \"computed\" and .grade == \"B\" and
	.to.name == \"write\" and .to.fd == 2 and .bytes == 4 and .steps[-1].function == \"compute\")"
ok 'what is computed from it has grade B' $?
flow -- "$victim" in-register && holds "$sinks | length >= 1 and all(.[]; .grade == \"B\" and
	([.steps[] | select(.kind == \"computed\") | .via == null and .function == \"in_register\"] | length == 1 and all) and
	all(.steps[]; .via // \"\" | test(\"_dl_\") | not))"
ok 'a value is computed where it was, not where its register was saved' $?
flow -- "$victim" by-result && holds "$sinks | length == 1 and (.[0].steps | map([.kind, .function]) |
	.[-2:] == [[\"computed\", \"hash_of\"], [\"copy\", \"by_result\"]])" &&
	flow --to note:arg1 -- "$victim" number && holds "$sinks | length == 1 and (.[0].steps[-1] | .function == \"compute\")"
ok 'nor where its result was stored' $?
flow -- "$victim" table && holds "$sinks == []" && flow --tables -- "$victim" table &&
	holds "$sinks | length == 1 and (.[0] | .grade == \"C\" and .bytes == 24)"
ok 'what is looked up with it is told with --tables, and has grade C' $?
flow -- "$victim" cleared && holds "$sinks == []"
ok 'what was overwritten does not get out' $?
flow -- "$victim" residue && holds 'map(select(.kind == "residue" and .bytes == 24)) |
	any(.to.memory == "data" and .steps[-1].function == "copy_by_string") and
	any(.to.memory == "heap" and .to.block.size >= 25)'
ok 'copies that stay are told with their memory and their writer' $?
flow -- "$victim" residue && holds 'map(select(.to.memory == "data" and .steps == [])) == []'
ok 'a buffer that was cleared has none' $?
stays='any(.kind == "residue" and .to.memory == "data" and .bytes == 24 and .steps[-1].function == "copy_by_loop")'
flow -- "$victim" end-_exit && holds "$stays" && flow -- "$victim" end-quick && holds "$stays" && {
	flow -- "$victim" end-abort
	holds "$stays"
} && flow -- "$victim" end-exec && holds "$stays"
ok 'copies that stay are told by _exit, quick_exit, abort and exec too' $?
flow -- "$victim" end-vfork && holds "($stays) and ($sinks | any(.to.name == \"write\" and .bytes == 24))"
ok 'a child by vfork that ends does not end the following of its parent' $?
flow -- "$victim" end-kill
jq -e -s '.[-1] | .residues == null and .counters.followed == 1 and .counters.searched == 0' "$tmp/report" >/dev/null &&
	echo "$secret" | "$trapline" flow -- "$victim" end-kill 2>&1 | grep -q 'residues not searched; 1 source' &&
	flow -- "$victim" end-_exit && jq -e -s '.[-1].residues >= 1' "$tmp/report" >/dev/null
ok 'after a signal that kills they are said not to be searched' $?
flow -- "$victim" moved && holds "$sinks | length == 1 and (.[0] | .to.name == \"write\" and .bytes == 24 and .count == 1 and
	any(.steps[]; .function == \"copy_by_loop\"))"
ok 'a block that the kernel moves keeps its marks, until it is overwritten' $?
flow --overhead 100 -- "$victim" many && holds "$sinks | map(.steps[-1].function | select(startswith(\"copy_\"))) | unique |
	length == 400" && jq -e -s '.[-1].counters.lost_steps == 0' "$tmp/report" >/dev/null
ok 'a window has room for the steps of many functions' $?
flow -- "$victim" sockets && holds "$sinks | any(.to.name == \"writev\" and .bytes == 24) and
	any(.from.name == \"recv\" and .to.name == \"write\" and .bytes == 24)"
ok 'by a socket to another thread' $?
flow -- "$victim" child && holds "$sinks | length == 1 and (.[0] | .to.name == \"write\" and .pid != .from.pid)"
ok 'in a forked child' $?
flow --to note:arg2 --overhead 100 --window 20s -- "$victim" worker && holds "$sinks | length == 1 and all(.[]; .to.name == \"note:arg2\")" &&
	jq -e -s '.[-1].unfinished == 0' "$tmp/report" >/dev/null
ok 'a worker that lives on ends its window before the report' $?
flow -- "$victim" signals && holds "$sinks | any(.to.name == \"write\" and .bytes == 24)"
ok 'a signal meets its handler, and the bytes are followed' $?
flow -- "$victim" crash
status=$?
[ $status = 139 ]
ok 'a fault is that of the program' $?

export FLOW_SECRET=a-value-of-the-environment
flow --from env:FLOW_SECRET -- "$victim" environment && holds "$sinks | length == 1 and
	(.[0] | .from.origin == \"environment\" and .to.name == \"write\" and .bytes == 26)"
ok 'a variable of the environment' $?
flow --from make:ret --to note:arg2 -- "$victim" functions && holds "$sinks | length == 1 and
	(.[0] | .from.origin == \"result\" and .to.name == \"note:arg2\" and .bytes == 11)"
ok 'the result of a function gets into the argument of another' $?
flow --from note:arg2 -- "$victim" functions && holds "$sinks == []"
ok 'an argument that gets nowhere' $?

flow --to note:arg1 -- "$victim" number && holds "$sinks | length == 1 and (.[0] | .to.name == \"note:arg1\" and
	.grade == \"B\" and .bytes == 4)"
ok 'a number that was computed is followed over a system call' $?
flow --to memcpy:arg2 -- "$victim" residue && ! flow --from memcpy:arg2 -- "$victim" shell &&
	grep -q 'several implementations' "$tmp/err"
ok 'memcpy is a sink in windows, where no trap can kill, and no source' $?
flow --from note:arg2 --to note:arg2 -- "$victim" functions && holds "$sinks | any(.to.name == \"note:arg2\" and
	.from.origin == \"argument\")"
ok 'a function can be source and sink' $?
flow --match "$secret" -- "$victim" busy-child && jq -e -s '.[-1].counters.rested == 1' "$tmp/report" >/dev/null
ok 'a child that reads much ends its traps, and continues' $?
flow --match text-that -- "$victim" residue && "$trapline" report "$tmp/report" >"$tmp/text" &&
	grep -q 'A residue: 9 bytes' "$tmp/text" && ! grep -q "$secret" "$tmp/text" &&
	"$trapline" report --as json "$tmp/report" | cmp -s - "$tmp/report" &&
	"$trapline" report --as html -o "$tmp/page" "$tmp/report" && grep -q '^pages.flow' "$tmp/page"
ok 'trapline report shows the JSON lines as text and as a page' $?
"$trapline" report --as folded "$tmp/report" 2>"$tmp/err"
[ $? = 2 ] && grep -q 'has flows' "$tmp/err" && head -c 900 "$tmp/report" >"$tmp/cut" &&
	! "$trapline" report "$tmp/cut" >"$tmp/out" 2>"$tmp/err"
ok 'and refuses other forms, and a file without a whole line' $?

flow --match "$secret" -- "$victim" unseen && holds "$sinks | (map(select(.grade == \"found\")) | length == 2 and
	all(.[]; .kind == \"copy\" and .bytes == 24 and .from.function == \"take_text\" and .to.fd == 2) and
	.[0].steps == [] and .[1].steps[-1].function == \"unseen\") and length == 2" && holds 'any(.kind == "residue" and
	.to.memory == "data" and .steps[-1].function == "unseen")'
ok 'a text that came unseen is found in the buffer of a sink, and followed from there' $?
flow --match "$secret" -- "$victim" unseen-far && holds "$sinks | length == 1 and (.[0] | .grade == \"found\" and .bytes == 24)"
ok 'also behind much else' $?
flow --match "$secret" -- "$victim" unseen-other && holds "$sinks == []" &&
	flow -- "$victim" unseen && holds "$sinks == []"
ok 'what differs in a byte is not, and without a match nothing is searched' $?
flow --match "$secret" -- "$victim" unseen && "$trapline" report "$tmp/report" >"$tmp/text" &&
	grep -q 'found in sink: write to descriptor 2 (.*): 24 bytes, in tell' "$tmp/text" &&
	"$trapline" report --as json "$tmp/report" | cmp -s - "$tmp/report"
ok 'its grade is a word' $?

flow --match text-that -- "$victim" shell && holds "$sinks | length == 1 and (.[0] | .bytes == 9 and .from.offset == 4)"
ok '--match follows these bytes alone' $?
printf 'text-that\n' >"$tmp/match"
flow --match "@$tmp/match" -- "$victim" shell && holds "$sinks | .[0].bytes == 9"
ok '--match @FILE' $?
flow --match 25-bytes -- "$victim" shell && holds "$sinks | .[0].bytes == 24"
ok '--match N-bytes' $?
! flow --match not-there -- "$victim" shell && grep -q 'never had the bytes' "$tmp/err"
ok 'bytes that never come are said, with status 1' $?
! "$trapline" flow -- "$victim" functions 2>"$tmp/err" >"$tmp/out" && grep -q 'never reached' "$tmp/err"
ok 'a source that is never reached is said, with status 1' $?
# shellcheck disable=SC2016 # for the inner shell
"$trapline" flow --from read -- sh -c 'kill -SEGV $$' 2>"$tmp/err" >"$tmp/out"
grep -q 'note: .*sh was killed by SIGSEGV' "$tmp/err" && grep -q 'ended before it reached the source' "$tmp/err"
ok 'a program that was killed before the source is said to be' $?

flow --match "$secret" -- "$victim" bytes && holds "$sinks | length == 1 and (.[0] | .to.name == \"write\" and
	.bytes == 24 and .from.bytes == 24)" && ! flow --match not-there -- "$victim" bytes
ok 'what is read byte by byte is joined to a match' $?
flow -- "$victim" bytes && holds "$sinks | length == 1 and (.[0] | .bytes == 24)" &&
	holds 'map(.from.source) | unique | length == 1'
ok 'and without one to one source' $?
flow -- "$victim" small-stack && holds "$sinks | any(.to.name == \"write\" and .bytes == 24)"
ok 'a small stack for signals is not overrun' $?
echo "$secret" >"$tmp/passed"
timeout 60 "$trapline" flow --match "$secret" --as jsonl -o "$tmp/report" -- "$victim" pass <"$tmp/passed" >"$tmp/out" \
	2>"$tmp/err"
if [ $? = 77 ]; then
	skip 'what the kernel copies is told' 'copy_file_range(2) does not work here'
else
	holds "$sinks | length == 1 and (.[0] | .to.name == \"copy_file_range\" and .bytes == 24)"
	ok 'what the kernel copies is told' $?
fi
flow --from env:FLOW_SECRET -- "$victim" functions
jq -e -s '.[-1].counters.registers' "$tmp/report" >"$tmp/registers"
if [ "$(cat "$tmp/registers")" = 0 ]; then
	skip 'a copy is followed when it is touched long after' 'a debug register is missing'
else
	flow -- "$victim" later && holds "$sinks | any(.bytes == 24 and any(.steps[]; .function == \"copy_by_loop\"))" &&
		flow -- "$victim" later-thread &&
		holds "$sinks | any(.bytes == 24 and any(.steps[]; .function == \"copy_by_loop\"))"
	ok 'a copy is followed when it is touched long after, by another thread too' $?
	flow --from variable -- "$victim" variable && holds "$sinks | length == 1 and (.[0] | .bytes == 24 and
		.from.origin == \"variable\" and .from.name == \"variable\")"
	ok 'a variable is a source from when it is set' $?
fi
# Bash marks each character as quoted: between the bytes of a copy are others, and the next reader is far off.
name='a copy with other bytes between is followed'
if ! command -v bash >/dev/null || [ "$(cat "$tmp/registers")" = 0 ]; then
	skip "$name" 'bash, or a debug register, is missing'
else
	printf '%0500d%s%0500d\n' 0 "$secret" 0 >"$tmp/long"
	# shellcheck disable=SC2016 # for bash
	flow --match "$secret" -- bash -c 'x=$(<"$0"); echo "$x"' "$tmp/long" &&
		holds "$sinks | any(.to.name == \"write\" and .bytes == 24)"
	ok "$name" $?
fi
"$trapline" flow --from no.such.variable -- "$victim" variable 2>"$tmp/err"
[ $? = 2 ] && grep -q 'cannot find' "$tmp/err"
ok 'a variable that is not there is refused' $?

# refused TEXT OPTION...
refused()
{
	text=$1
	shift
	"$trapline" flow "$@" >"$tmp/out" 2>"$tmp/err"
	[ $? = 2 ] && grep -q -- "$text" "$tmp/err"
}
refused 'at least 4' --match abc -- "$victim" shell && refused 'below 4' --match 3-bytes -- "$victim" shell &&
	refused 'invalid --from' --from 'not a name' -- "$victim" shell && refused 'invalid --to' --to note -- "$victim" shell &&
	refused 'no such symbol' --from not_there:arg1 -- "$victim" shell && refused 'no program' --match text &&
	refused 'linked statically' -- "$victims/static_victim"
ok 'what cannot work is refused' $?

: >"$tmp/empty"
head -c 5000 /dev/zero >"$tmp/huge"
refused 'cannot read' --match "@$tmp/none" -- "$victim" shell && refused 'has 0 bytes' --match "@$tmp/empty" -- "$victim" shell &&
	refused 'longer than 4096' --match "@$tmp/huge" -- "$victim" shell
ok 'a file of --match that is missing, empty or too long is refused' $?

echo "$secret" | "$trapline" flow -- "$victim" shell 2>"$tmp/err" && grep -q 'A sink: system: 24 bytes' "$tmp/err" &&
	grep -q '1 flow into sinks' "$tmp/err" && ! grep -q "$secret" "$tmp/err"
ok 'the text has the sink, and never the bytes' $?
echo "$secret" | "$trapline" flow --as dot -- "$victim" shell >"$tmp/out" 2>"$tmp/err" && grep -q '^digraph' "$tmp/out" &&
	grep -q 'doubleoctagon' "$tmp/out"
ok 'a graph' $?
echo "$secret" | "$trapline" flow --as html -o "$tmp/page" -- "$victim" shell 2>"$tmp/err" &&
	grep -q '^pages.flow' "$tmp/page" && ! grep -q "$secret" "$tmp/page" &&
	sed -n 's|.*id="data">\(.*\)</script>.*|\1|p' "$tmp/page" | jq -e '.kind == "flow" and .flows[0].to.name == "system"' >/dev/null
ok 'a page' $?

# ---- a process that runs ----

mkfifo "$tmp/in"
"$victim" wait <"$tmp/in" >"$tmp/answers" 2>/dev/null &
pid=$!
started=$pid
exec 7>"$tmp/in"
echo first >&7
until grep -q 6 "$tmp/answers"; do sleep 0.05; done
"$trapline" flow -p $pid --match "$secret" --as jsonl -o "$tmp/report" 2>"$tmp/err" &
flow=$!
until grep -q trapline-agent /proc/$pid/maps; do sleep 0.05; done
sleep 1.5
# It ends the call that was there before: glibc 2.41 has it where no jump has room, which is counted.
echo second >&7
until [ "$(wc -l <"$tmp/answers")" = 2 ]; do sleep 0.05; done
echo "$secret" >&7
until [ "$(wc -l <"$tmp/answers")" = 3 ]; do sleep 0.05; done
kill -INT $flow
wait $flow && holds 'map(select(.kind == "residue" and .to.memory == "data")) | length >= 1 and
	any(.steps[-1].function == "copy_by_loop")'
ok '-p finds what stays in a running process' $?
echo after >&7
for _ in 1 2 3 4 5 6 7 8 9 10; do
	[ "$(tail -n 1 "$tmp/answers")" = 6 ] && break
	sleep 0.1
done
[ "$(wc -l <"$tmp/answers")" = 4 ] && kill -0 $pid
ok 'which then continues' $?
exec 7>&-
wait $pid
ok 'and ends by itself' $?

# Once for each process: what a run has left is still looked at by its threads.
mkfifo "$tmp/again"
"$victim" wait <"$tmp/again" >"$tmp/answers" 2>/dev/null &
pid=$!
started=$pid
exec 7>"$tmp/again"
timeout 30 "$trapline" flow -p $pid --for 0.3s 2>"$tmp/err"
refused 'followed in process .* before' -p $pid --for 0.3s
ok 'a process is followed once with -p' $?
exec 7>&-
wait $pid
finished
