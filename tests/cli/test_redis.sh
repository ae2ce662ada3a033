#!/bin/sh
# SPDX-License-Identifier: MIT
# test_redis.sh - 100 attach/detach cycles to redis-server under a small load: no failed request,
# no error in its log. $1: path of trapline.
set -u
trapline=$1
cycles=${TRAPLINE_CYCLES:-${TRAPLINE_STRESS:-100}} # the share of 100, in percent

for tool in redis-server redis-cli redis-benchmark; do
	command -v $tool >/dev/null || { echo "1..0 # SKIP $tool is not installed"; exit 0; }
done
echo 1..4

dir=$(mktemp -d)
port=$((10000 + $$ % 20000)) # none that connections are given
redis-server --save '' --bind 127.0.0.1 --port $port --logfile "$dir/log" --dir "$dir" &
server=$!
load=
trap '[ -z "$load" ] || kill $load 2>/dev/null; kill $server 2>/dev/null; wait; rm -rf "$dir"' EXIT
until redis-cli -p $port ping >/dev/null 2>&1; do
	kill -0 $server || { echo 'Bail out! redis-server does not start'; exit 1; }
	sleep 0.1
done

# Bounded: ends by itself. redis-cli says on standard output what failed.
(
	i=0
	while [ ! -e "$dir/stop" ] && [ $i -lt 100000 ]; do
		i=$((i + 1))
		echo "INCR requests"
		[ $((i % 20)) -ne 0 ] || sleep 0.01
	done | redis-cli -p $port >"$dir/replies" 2>&1
) &
load=$!

failed=0
i=0
while [ $i -lt "$cycles" ]; do
	i=$((i + 1))
	timeout 60 "$trapline" watch -p $server server:8 --for 0.05 >"$dir/out" 2>"$dir/err" && continue
	failed=$((failed + 1))
	[ $failed -gt 3 ] || sed 's/^/# /' "$dir/err"
done
touch "$dir/stop"
wait $load
load=

n=0
report() { # name, then a command that must succeed
	n=$((n + 1))
	name=$1
	shift
	if "$@"; then echo "ok $n - $name"; else echo "not ok $n - $name"; fi
}
all_counted() { # each reply is the number after the one before
	awk '$1 != NR { print "# reply " NR ": " $0; bad = 1 } END { exit bad || !NR }' "$dir/replies"
}
report "each_of_${cycles}_cycles_ends_well" [ $failed -eq 0 ]
report no_request_fails all_counted
report server_lives [ "$(redis-cli -p $port ping)" = PONG ]
report log_has_no_error sh -c "! grep -iE 'error|crash|bug|trap|warning.*(fail|abort)' '$dir/log' | grep -v overcommit"
