#!/bin/sh
# SPDX-License-Identifier: MIT
# test_redis.sh - 100 attach/detach cycles to redis-server under a small load: no failed request,
# no error in its log. $1: path of trapline.

# shellcheck source=tests/cli/tap.sh disable=SC2154 # trapline and tmp come from there
. "$(dirname "$0")/tap.sh"
need redis-server redis-cli redis-benchmark
cycles=${TRAPLINE_CYCLES:-$(share 100)}
port=$((10000 + $$ % 20000)) # none that connections are given
redis-server --save '' --bind 127.0.0.1 --port $port --logfile "$tmp/log" --dir "$tmp" &
server=$!
started=$server
until redis-cli -p $port ping >/dev/null 2>&1; do
	kill -0 $server || { echo 'Bail out! redis-server does not start'; exit 1; }
	sleep 0.1
done

# Bounded: ends by itself. redis-cli says on standard output what failed.
(
	i=0
	while [ ! -e "$tmp/stop" ] && [ $i -lt 100000 ]; do
		i=$((i + 1))
		echo "INCR requests"
		[ $((i % 20)) -ne 0 ] || sleep 0.01
	done | redis-cli -p $port >"$tmp/replies" 2>&1
) &
load=$!
started="$started $load"

bad=0
i=0
while [ $i -lt "$cycles" ]; do
	i=$((i + 1))
	timeout 60 "$trapline" watch -p $server server:8 --for 0.05 >"$tmp/out" 2>"$tmp/err" && continue
	bad=$((bad + 1))
	[ $bad -gt 3 ] || sed 's/^/# /' "$tmp/err"
done
touch "$tmp/stop"
wait $load

[ $bad = 0 ]
ok "each_of_${cycles}_cycles_ends_well" $?
# Each reply is the number after the one before.
awk '$1 != NR { print "# reply " NR ": " $0; bad = 1 } END { exit bad || !NR }' "$tmp/replies"
ok no_request_fails $?
[ "$(redis-cli -p $port ping)" = PONG ]
ok server_lives $?
! grep -iE 'error|crash|bug|trap|warning.*(fail|abort)' "$tmp/log" | grep -v overcommit
ok log_has_no_error $?
finished
