#!/bin/sh
# SPDX-License-Identifier: MIT
#
# command.sh - runs inside a test machine with busybox: the command on a processor that the host cannot
# run it on. Watch, break, record, report and at give hits; race and throttle say why not. TAP.
count=0
failed=0

ok() { # status, name
	count=$((count + 1))
	if [ "$1" = 0 ]; then
		echo "ok $count - $2"
		return
	fi
	failed=1
	echo "not ok $count - $2"
	sed 's/^/# /' /tmp/out /tmp/err
}

trapline() {
	/bin/timeout 60 /bin/trapline "$@" >/tmp/out 2>/tmp/err
}

says() { # pattern
	grep -q -- "$1" /tmp/out /tmp/err
}

trapline check
ok $? "check: a watched variable raises a signal"
says 'watch  *yes' && says 'break  *yes'
ok $? "check: watch and break work"
says 'race  *no  *its agent, and its search from outside' && says 'heap  *no  *its agent' &&
	says 'flow  *no  *its agent, which translates' && says 'throttle  *no  *its agent' &&
	says 'patch  *no  *its agent.*trapline_patch'
ok $? "check: what needs the agent is refused with the reason"
says '^dap  *yes' && says '+K$'
ok $? "check: dap works, and at has no steps"
trapline check --code --for 200ms &&
	says '^rounds  *[1-9]' && says '^stale  *0$' && says '^failures  *0$' && says '^processor  *CPU implementer'
ok $? "check --code: threads run what was put there"

/bin/counter 2>/tmp/counter.err >/tmp/counter.out &
pid=$!
sleep 1

trapline watch -p $pid shared_counter --limit 5
says '^5 hits'
ok $? "watch: five hits"
says 'bump_[a-z]*+0x.*in counter'
ok $? "watch: with a call stack"
trapline watch -p $pid shared_counter --if 'shared_counter % 2 == 0' --limit 3
says '^3 hits'
ok $? "watch --if: three hits"
trapline break -p $pid bump_main --limit 3
says '^3 hits'
ok $? "break: three hits of a running program"
trapline break bump_worker --limit 3 -- /bin/counter 5
says '^3 hits'
ok $? "break: three hits of a started program"
trapline record -o /tmp/hits -p $pid shared_counter --limit 10
says '^10 hits'
ok $? "record: ten hits"
trapline report /tmp/hits
says '^10 hits' && says 'main+0x.*in counter'
ok $? "report: ten hits with stacks"
kill $pid

request() { # seq, command, arguments
	set -- "{\"seq\":$1,\"type\":\"request\",\"command\":\"$2\",\"arguments\":$3}"
	printf 'Content-Length: %d\r\n\r\n%s' ${#1} "$1"
}
{
	request 1 initialize '{"adapterID":"trapline"}'
	request 2 launch '{"program":"/bin/counter","args":["5"]}'
	sleep 2
	request 3 setFunctionBreakpoints '{"breakpoints":[{"name":"bump_main"}]}'
	request 4 configurationDone '{}'
	sleep 3
	request 5 disconnect '{"terminateDebuggee":true}'
} | trapline dap
says '"bump_main: 5 hits, 5 shown'
ok $? "dap: five hits of a function breakpoint"

for command in race throttle; do
	case $command in
	race) trapline race -- /bin/true ;;
	throttle) trapline throttle --cpu 30% -- /bin/true ;;
	esac
	[ "$(cat /tmp/out /tmp/err | wc -l)" = 1 ] && says 'x86-64 only'
	ok $? "$command: says in one line that it needs x86-64"
done

trapline at 'bump_main#3' --snapshot -- /bin/counter 5 100
says 'pc  *0x' && says '^at bump_main#3'
ok $? "at: the registers at the third call"
says 'main+0x'
ok $? "at: the stack too"
trapline at 'bump_main#3+5' --snapshot -- /bin/counter 5 100
[ "$(cat /tmp/out /tmp/err | wc -l)" = 1 ] && says 'x86-64'
ok $? "at +K: says in one line that it needs x86-64"
trapline at 'bump_main#3' -c syscalls --snapshot -- /bin/counter 5 100
calls=$(sed -n 's/^at bump_main#3, syscalls \([0-9]*\):$/\1/p' /tmp/out /tmp/err)
[ -n "$calls" ]
ok $? "at -c syscalls: the amount at the point"
trapline at --counter syscalls "bump_main@$calls" --snapshot -- /bin/counter 5 100
says "^at bump_main.*syscalls $calls:"
ok $? "at --counter syscalls: the point of this amount"
echo "1..$count"
exit $failed
