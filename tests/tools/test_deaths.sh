#!/bin/sh
# SPDX-License-Identifier: MIT
# test_deaths.sh TRAPLINE VICTIMS - a program that a signal ends is told by heap, race and flow, with the
# signal, the address and the stack. TAP.

# shellcheck source=tests/cli/tap.sh disable=SC1091,SC2154 # shared with it
. "$(dirname "$0")/../cli/tap.sh"
# shellcheck source=tests/other_user.sh disable=SC1091
. "$(dirname "$0")/../other_user.sh"
need jq
victim=$victims/deaths
copy=
options=
[ "$(id -u)" = 0 ] || skip_all "the stack of a death needs root"

# In a further pid namespace the sender of what no thread took is not known: trapline(7).
further=true
[ "$(readlink /proc/self/ns/pid)" != 'pid:[4026531836]' ] || further=false

# of TOOL: what it needs to begin with.
of()
{
	case $1 in flow) echo "flow --from read" ;; *) echo "$1" ;; esac
}

# run TOOL ARG...: as JSON lines, in $tmp/out.
run()
{
	tool=$1
	shift
	# shellcheck disable=SC2046 # two words
	timeout -k 5 60 "$trapline" $(of "$tool") --json -o "$tmp/out" "$@" >"$tmp/stdout" 2>"$tmp/err" </dev/null
}

# deaths EXPRESSION: holds for the array of deaths.
deaths()
{
	jq -e -s "map(select(.type == \"death\")) | $1" "$tmp/out" >/dev/null 2>>"$tmp/err"
}

# attached TOOL WAY [CALL]: to a program that waits, and continues by the call. Once more where it came before the
# attach was done.
attached()
{
	for _ in 1 2 3 4 5; do
		attach "$@"
		grep -q 'trapline [a-z]*: cannot' "$tmp/err" || return 0
	done
}
attach()
{
	tool=$1
	rm -f "$tmp/in" "$tmp/number" "$tmp/out"
	[ -z "$copy" ] || cp "$victim" "$copy"
	mkfifo "$tmp/in"
	"${copy:-$victim}" "$2" wait <"$tmp/in" >"$tmp/number" 2>/dev/null &
	pid=$!
	started="$started $pid"
	exec 3>"$tmp/in"
	eventually test -s "$tmp/number"
	# shellcheck disable=SC2046,SC2086 # several words
	timeout -k 5 60 "$trapline" $(of "$tool") $options --json -o "$tmp/out" -p $pid --for 20 >"$tmp/stdout" 2>"$tmp/err" &
	observer=$!
	eventually is_searched $pid
	sleep 0.5
	${3:-let_go}
	exec 3>&-
	wait $observer
}
# From outside there is nothing in it.
is_searched()
{
	grep -q 'trapline' "/proc/$1/maps" || grep -q 'searching as --outside does' "$tmp/err"
}
let_go()
{
	echo go >&3
}

by_store='length == 1 and (.[0] | .kind == "SIGSEGV" and .code == "SEGV_MAPERR" and .address == "0xea60" and
	.sender == null and (.fingerprint | length == 16) and .first.stack[0].function == "store" and
	.first.stack[0].line > 0 and .first.stack[1].function == "die_by_store" and .first.function == "store")'

for tool in heap race flow; do
	run $tool -- "$victim" store
	deaths "$by_store and (.[0] | .first.tid == .pid and any(.first.stack[]; .function == \"main\"))"
	ok "$tool: an access to memory that is not mapped, with its address and stack" $?
	grep -q "^trapline $tool: note: .*deaths was killed by SIGSEGV\$" "$tmp/err"
	ok "$tool: and one line says what ended the program" $?
	run $tool -- "$victim" thread
	deaths "$by_store and (.[0] | .first.tid != .pid and .first.thread == \"worker\" and any(.first.stack[]; .function == \"thread_of\"))"
	ok "$tool: a thread that is not the first" $?
	run $tool -- "$victim" handled
	[ $? != 139 ] && grep -qx 'went on' "$tmp/stdout" && deaths '. == []' && ! grep -q killed "$tmp/err"
	ok "$tool: a fault that the program handles is not a death" $?
	run $tool -- "$victim" exit
	deaths '. == []' && ! grep -q killed "$tmp/err"
	ok "$tool: neither is an exit" $?
	attached $tool store
	deaths "$by_store" && grep -q "note: process $pid was killed by SIGSEGV\$" "$tmp/err"
	ok "$tool -p: a process that runs" $?
	attached $tool handled
	deaths '. == []' && ! grep -q killed "$tmp/err"
	ok "$tool -p: and one that handles it is not dead" $?
done

# ends WAY EXPRESSION: of the one death.
ends()
{
	for tool in heap race flow; do
		run $tool -- "$victim" "$1"
		deaths "length == 1 and (.[0] | $2)" || return 1
	done
}
ends divide '.kind == "SIGFPE" and .code == "FPE_INTDIV" and .first.function == "divide" and .first.stack[0].function == "divide"'
ok 'a division by zero' $?
ends bus '.kind == "SIGBUS" and .code == "BUS_ADRERR" and any(.first.stack[]; .function == "past_the_end_of_a_file")'
ok 'an access behind the end of a file' $?
ends abort '.kind == "SIGABRT" and .address == null and .sender == .pid and .first.function == "main"'
ok 'abort(), in its caller' $?
ends jump '.kind == "SIGSEGV" and .address == "0x0" and .first.stack[0].ip == "0x0" and .first.stack[1].function == "jump" and
	.first.function == "jump" and any(.first.stack[]; .function == "main")'
ok 'a call of a null pointer, with its caller' $?
ends room '.first.function == "store" and any(.first.stack[]; .function == "with_much_room") and any(.first.stack[]; .function == "main")'
ok 'a stack with much in it' $?
ends overflow '.kind == "SIGSEGV" and .first.function == "recurse" and (.first.stack | length > 10) and
	all(.first.stack[0:9][]; .function == "recurse")'
ok 'a stack that overflows' $?
ends reported '.kind == "SIGSEGV" and .sender == .pid and .first.stack[0].function == "store" and
	any(.first.stack[]; .function == "reported")'
ok 'a handler that raises the signal again, which comes when it returns' $?
ends child '.kind == "SIGSEGV" and .first.function == "store" and any(.first.stack[]; .function == "in_a_child")' &&
	! grep -q killed "$tmp/err"
ok 'a child' $?
ends itself ".kind == \"SIGTERM\" and .first.stack == [] and (.sender == .pid or $further)"
ok 'a SIGTERM of its own, without a stack' $?

# sent SIGNAL: a process sends it to one that was attached to.
sent()
{
	sh -c "kill -$1 $pid; sleep 0.1"
}
by_sh=', sent by process [0-9]* \(sh\)'
[ $further = false ] || by_sh=
kill_it() { sent KILL; }
end_it() { sent TERM; }
for tool in heap race flow; do
	attached $tool forever kill_it
	deaths "length == 1 and (.[0] | .kind == \"SIGKILL\" and .first.stack == [] and
		($further or .sender != null and .sender_name == \"sh\"))" &&
		grep -Eq "note: process $pid was killed by SIGKILL($by_sh)\$" "$tmp/err"
	ok "$tool -p: a SIGKILL has its sender" $?
	attached $tool forever end_it
	deaths "length == 1 and (.[0] | .kind == \"SIGTERM\" and .first.stack == [] and ($further or .sender_name == \"sh\"))" &&
		[ "$(grep -c SIGTERM "$tmp/err")" = 1 ]
	ok "$tool -p: a SIGTERM is one line" $?
done

by_itself=', sent by the process itself'
[ $further = false ] || by_itself=
# As text, where the report is.
timeout -k 5 60 "$trapline" heap -- "$victim" store >"$tmp/out" 2>"$tmp/err"
[ $? = 139 ] && grep -q '^death: SIGSEGV: access to 0xea60, which is not mapped, in store \[[0-9a-f]*\]$' "$tmp/err" &&
	grep -q '^    #0  store\(+0x[0-9a-f]*\)* (deaths.c:[0-9]*) in deaths$' "$tmp/err"
ok 'the text has the same' $?
timeout -k 5 60 "$trapline" heap -- "$victim" itself >"$tmp/out" 2>"$tmp/err"
[ $? = 143 ] && ! grep -q '^death' "$tmp/err" &&
	grep -Eq "deaths was killed by SIGTERM($by_itself)\$" "$tmp/err"
ok 'a SIGTERM is no more than a line there' $?

# What the command does itself, the user knows.
timeout -k 5 60 "$trapline" heap --for 1 -- "$victim" forever >"$tmp/out" 2>"$tmp/err"
[ $? = 143 ] && ! grep -q killed "$tmp/err"
ok 'the SIGTERM of --for is not told' $?

copy=$tmp/deaths
for tool in heap race flow; do
	attached $tool deleted
	deaths "length == 1 and (.[0] | .kind == \"SIGSEGV\" and .first.stack[0].function == \"store\" and .first.stack[0].line > 0)"
	ok "$tool -p: a program whose file was removed meanwhile has names and lines" $?
done

options='--overhead 50%'
attached heap freed
jq -e -s 'any(.[]; .type == "heap" and .kind == "use-after-free" and .first.function == "read_freed" and .first.line > 0 and
	.block.allocated.function == "freed" and .block.allocated.line > 0)' "$tmp/out" >/dev/null
ok 'heap -p: an error of a program that has no file by then has names and lines' $?
[ "$(jq -r 'select(.type == "heap") | .fingerprint' "$tmp/out" | sort -u | wc -l)" = "$(grep -c '"type":"heap"' "$tmp/out")" ]
ok 'heap -p: and a fingerprint of its own' $?
options='--stop --overhead 50%'
attached heap freed
jq -e -s 'any(.[]; .type == "heap" and .first.function == "read_freed" and .block.allocated.line > 0) and
	all(.[]; .type != "death")' "$tmp/out" >/dev/null
ok 'heap -p: one that ends at its error, too' $?
options=

cp "$victim" "$copy"
run heap -- "$copy" replaced
# Its file is opened as soon as its mapping is known, which may be too late.
deaths 'length == 1 and (.[0] | .kind == "SIGSEGV" and .address == "0xea60" and
	((.first.stack[0].function == null and all(.first.stack[]; .module != "deaths")) or
	(.first.stack[0].function == "store" and .first.stack[0].line > 0)))'
ok 'heap: names are not those of another program that has the name by then' $?

# A stall may be what the program dies of.
stall='any(.[]; .type == "stall_before_death" and .kind == "killed by SIGSEGV" and .first.stalled_ns > 0 and
	any(.first.stack[]; .function == "steps"))'
in_some()
{
	for _ in $(seq 10); do
		"$@"
		jq -e -s "$stall" "$tmp/out" >/dev/null && return
	done
	return 1
}
copy=
in_some run race --overhead 50% -- "$victim" stalled
ok 'race: the stall right before a death' $?
options='--overhead 50%'
in_some attached race stalled
ok 'race -p: the stall right before a death' $?
options=
run race --overhead 50% -- "$victim" later
deaths 'length == 1 and .[0].kind == "SIGABRT"' && jq -e -s 'all(.[]; .type != "stall_before_death")' "$tmp/out" >/dev/null
ok 'race: none before a death that comes later' $?

# What flow has written is printed as the run itself would.
run flow -- "$victim" room
cp "$tmp/out" "$tmp/lines"
timeout 20 "$trapline" report "$tmp/lines" >"$tmp/out" 2>"$tmp/err"
grep -q '^death: SIGSEGV: access to 0xea60, which is not mapped, in store \[[0-9a-f]*\]$' "$tmp/out" &&
	grep -q '^    #[0-9]*  with_much_room+0x[0-9a-f]* (deaths.c:[0-9]*) in deaths$' "$tmp/out" &&
	grep -q '^  process [0-9]*, thread [0-9]* (deaths):$' "$tmp/out"
ok "report: the deaths of flow's lines are printed" $?
timeout 20 "$trapline" report "$tmp/lines" --as json | cmp -s - "$tmp/lines"
ok 'report: as lines they are what they were' $?
sed 's/"SIGSEGV"/"SIGNONE"/; s/"function":"main"/"function":"\\u001b[2J"/' "$tmp/lines" >"$tmp/forged"
timeout 20 "$trapline" report "$tmp/forged" >"$tmp/out" 2>"$tmp/err"
! grep -q '^death' "$tmp/out"
ok 'report: a signal that does not exist is no death' $?
sed 's/"function":"main"/"function":"\\u001b[2J"/' "$tmp/lines" >"$tmp/forged"
timeout 20 "$trapline" report "$tmp/forged" >"$tmp/out" 2>"$tmp/err"
grep -q '^death' "$tmp/out" && ! grep -q "$(printf '\033')" "$tmp/out"
ok 'report: a name controls no terminal' $?
run flow -- true
cp "$tmp/out" "$tmp/lines"
timeout 20 "$trapline" report "$tmp/lines" >"$tmp/out" 2>"$tmp/err"
! grep -q '^death' "$tmp/out"
ok 'report: no death where none was' $?

for tool in heap race; do
	timeout 60 "$trapline" $tool --sarif "$tmp/sarif" -- "$victim" store >/dev/null 2>"$tmp/err" </dev/null
	jq -e '.runs[0] | (.results | map(select(.ruleId == "death"))) as $d | ($d | length) == 1 and
		.tool.driver.rules[$d[0].ruleIndex].id == "death" and $d[0].level == "error" and
		$d[0].locations[0].physicalLocation.region.startLine > 0 and
		$d[0].locations[0].logicalLocations[0].name == "store" and
		($d[0].stacks[0].frames | length) > 2 and ($d[0].message.text | startswith("SIGSEGV at 0xea60 in store"))' "$tmp/sarif" >/dev/null
	ok "$tool: SARIF has the death" $?
	timeout 60 "$trapline" $tool --sarif "$tmp/sarif" -- true >/dev/null 2>"$tmp/err" </dev/null
	jq -e '.runs[0] | all(.results[]; .ruleId != "death") and all(.tool.driver.rules[]; .id != "death")' "$tmp/sarif" >/dev/null
	ok "$tool: SARIF without a death has no rule of it" $?
done

if lend "$victim"; then
	for tool in heap race flow; do
		# shellcheck disable=SC2046,SC2086 # several words
		timeout -k 5 60 $as_user "$lent/trapline" $(of $tool) -- "$lent/deaths" store >"$tmp/out" 2>"$tmp/err" </dev/null
		grep -q 'deaths was killed by SIGSEGV$' "$tmp/err" &&
			grep -q 'note: the address and the stack of this death are not known: it needs CAP_BPF' "$tmp/err"
		ok "$tool: without rights the reason is said" $?
	done
else
	skip 'without rights the reason is said' "$not_lent"
fi
finished
