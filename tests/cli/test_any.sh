#!/bin/sh
# SPDX-License-Identifier: MIT
# test_any.sh TRAPLINE VICTIMS - real programs under load, and processes in places of their own: their
# hits have the right threads and functions, no request is lost, and they go on. TAP.
# Programs are skipped by name where they are not installed (scripts/install-deps test).

# shellcheck source=tests/cli/tap.sh disable=SC2154 # trapline, victims and tmp come from there
. "$(dirname "$0")/tap.sh"
need_uprobes
# shellcheck source=tests/other_user.sh
. "$(dirname "$0")/../other_user.sh"

port=$((10000 + $$ % 20000)) # none that connections are given

run_for_limit()
{
	command=$1
	shift
	watch "$@" --stack --json --limit 8
}

balance='.taken == .rejected + .delivered + .unread + ([.lost[]] | add) and .delivered == 8'

# loaded NAME PROTOCOL PATH OBJECT WHERE THREADS STACK: the server with $pid at $port.
# A word that changes is watched, WHERE is broken on, under load; the threads' names fit THREADS
# and the stacks of the calls have a function that fits STACK.
loaded()
{
	name=$1 protocol=$2 path=$3 object=$4 where=$5 threads=$6 frames=$7
	if ! eventually "$victims/load" "$protocol" $port 0.05 "$path"; then
		echo "# $name does not answer"
		false
		ok "$name: answers" $?
		return
	fi
	before=$("$victims/load" "$protocol" $port 1 "$path" | cut -d' ' -f1)
	"$victims/load" "$protocol" $port 300 "$path" >"$tmp/load" 2>&1 &
	load=$!
	start_ns=$(date +%s%N)
	sleep 0.3
	# shellcheck disable=SC2086 # nothing, or one word
	word=$("$victims/changing" "$pid" $object)
	run_for_limit watch -p "$pid" "$word:8"
	[ $? = 0 ] && hits "length == 8 and all((.thread | test(\"$threads\")) and .value_when == \"hit\" and
		.pid == $pid and .module != null and (.stack | length >= 2))" && summary "$balance"
	ok "$name: a_word_that_changes_can_be_watched" $?
	# shellcheck disable=SC2086 # several places
	run_for_limit break -p "$pid" $where
	[ $? = 0 ] && hits "length == 8 and all((.thread | test(\"$threads\")) and .pid == $pid) and
		any(.stack[1:] | any((.function // .module // \"\") | test(\"$frames\")))" && summary "$balance"
	ok "$name: its_functions_can_be_broken_on" $?
	kill "$load"
	wait "$load"
	status=$?
	seconds=$((($(date +%s%N) - start_ns) / 1000000))
	during=$(cut -d' ' -f1 "$tmp/load")
	errors=$(cut -d' ' -f2 "$tmp/load")
	echo "# $name: $before requests a second without, $((during * 1000 / seconds)) with; $errors errors of $during"
	[ $status = 0 ] && [ "$during" -gt 0 ] && kill -0 "$pid" &&
		"$victims/load" "$protocol" $port 0.1 "$path" >/dev/null
	ok "$name: no_request_is_lost_and_it_goes_on" $?
	kill "$pid"
	port=$((port + 1))
}

# has NAME PROGRAM
has()
{
	command -v "$2" >/dev/null && return
	skip "$1" "$2 is not installed"
	return 1
}

launch()
{
	"$@" >"$tmp/server" 2>&1 &
	pid=$!
	started="$started $pid"
}

if has redis redis-server; then
	launch redis-server --save '' --bind 127.0.0.1 --port $port --dir "$tmp" --io-threads 4 \
		--io-threads-do-reads yes
	loaded 'redis with io-threads' redis / '' call '^(redis-server|io_thd_[0-9]|bio_|jemalloc)' '^processCommand$'
fi
if has memcached memcached; then
	launch memcached -u nobody -l 127.0.0.1 -p $port -t 4
	loaded memcached memcached / '' libc.so.6:read '^(mc-|memcached)' '^event_base_loop$'
fi
if has nginx nginx; then
	mkdir "$tmp/nginx" "$tmp/nginx/logs"
	echo "daemon off; master_process off; pid $tmp/nginx/pid; error_log $tmp/nginx/error;
		events { worker_connections 200; }
		http { access_log off; server { listen 127.0.0.1:$port; root $tmp/nginx; } }" >"$tmp/nginx/conf"
	echo 'a page' >"$tmp/nginx/page"
	chmod -R a+rX "$tmp"
	launch nginx -p "$tmp/nginx" -c "$tmp/nginx/conf"
	loaded nginx http /page '' ngx_http_process_request '^nginx$' '^ngx_process_events_and_timers$'
fi
if has python /usr/bin/python3; then
	cat >"$tmp/server.py" <<'END'
import http.server, sys, threading
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"x" * 1000
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Page).serve_forever()
END
	launch /usr/bin/python3 "$tmp/server.py" $port
	loaded python http / '' PyObject_Malloc '^python3' '^_?PyEval_|^_PyObject|_alloc$|^_Py'
fi
# Go, stripped as Debian does: functions by the table of its runtime, stacks by frame pointers.
if has Go prometheus-node-exporter; then
	launch prometheus-node-exporter --web.listen-address=127.0.0.1:$port --collector.disable-defaults \
		--collector.loadavg
	go=$pid
	eventually "$victims/load" http $port 0.05 /metrics
	command='break'
	watch -p "$go" runtime.mallocgc --ret --limit 3 --json
	[ $? = 0 ] && hits 'length == 3 and all(.duration_ns > 0 and (.ret | type) != "number")'
		runtime.mallocgc --ret
	wrong 'Go: arguments_are_refused_since_they_would_be_wrong' \
		'cannot print arguments of runtime.mallocgc: it is Go, and there is no debug information about them; leave out --args$' \
		-p "$go" runtime.mallocgc --args
	# Its stacks move while they are looked at.
	loaded Go http /metrics '' 'net/http.serverHandler.ServeHTTP' '^prometheus-node$' \
		'^net/http\\.\\(\\*conn\\)\\.serve$'
fi
if has Java rmiregistry; then
	launch rmiregistry $port
	loaded Java rmi / libjvm \
		'libjvm.so:JVM_SetNativeThreadName libjvm.so:JVM_FillInStackTrace' '.' 'libj|libn|^$'
fi

# Rust, stripped: a filter in a pipe. What it finds is what it finds unobserved.
if has Rust rg; then
	awk 'BEGIN { for (i = 0; i < 300000; i++) print "line " i "x" }' >"$tmp/lines"
	rg -n '9{3}[0-9]+x' "$tmp/lines" >"$tmp/wanted"
	mkfifo "$tmp/pipe"
	rg --line-buffered -n '9{3}[0-9]+x' - <"$tmp/pipe" >"$tmp/found" &
	pid=$!
	started="$started $pid"
	(
		for _ in 1 2 3 4 5 6; do
			head -n 1000 "$tmp/lines"
			sleep 0.2
		done
		while [ ! -e "$tmp/enough" ]; do
			head -n 1000 "$tmp/lines"
			sleep 0.05
		done
		cat "$tmp/lines"
	) >"$tmp/pipe" &
	feeder=$!
	started="$started $feeder"
	sleep 0.5
	run_for_limit break -p "$pid" libc.so.6:read --args
	[ $? = 0 ] && hits 'length == 8 and all(.thread == "rg" and .stack[1].module == "rg" and
		any(.stack[]; .function == "__libc_start_main" or .function == "__libc_start_call_main"))' && summary "$balance"
	ok "Rust: its_functions_can_be_broken_on" $?
	buffer=$(jq -r 'select(.type == "hit") | .args | .buf.pointer // .arg1' "$tmp/out" | head -n 1)
	run_for_limit watch -p "$pid" "$(printf '0x%x:8' $((buffer / 8 * 8)))" --on rw
	[ $? = 0 ] && hits 'length == 8 and all(.thread == "rg" and (.module | . == "rg" or . == "libc.so.6") and
		(.stack | length > 3))' && summary "$balance"
	ok "Rust: what_reads_a_buffer_can_be_seen" $?
	touch "$tmp/enough"
	wait $feeder
	wait "$pid"
	[ $? = 0 ] && tail -n "$(wc -l <"$tmp/wanted")" "$tmp/found" | cut -d: -f2 >"$tmp/last" &&
		cut -d: -f2 "$tmp/wanted" | cmp -s - "$tmp/last"
	ok "Rust: it_finds_what_it_finds_unobserved" $?
fi

# Without a loader.
start calls_static
run_for_limit watch -p "$pid" rounds_done
[ $? = 0 ] && hits 'length == 8 and all(.function == "round_of_calls" and (.stack | any(.function == "main")))'
ok "static: its_variables_can_be_watched" $?
kill "$pid"

# --- other namespaces ---
mkdir -p "$tmp/mnt"
if unshare -m true 2>/dev/null; then
	unshare -m sh -c 'mount -t tmpfs none "$0" && cp "$1" "$0/hidden" && exec "$0/hidden"' \
		"$tmp/mnt" "$victims/counter" >/dev/null 2>&1 &
	pid=$!
	started="$started $pid"
	eventually sh -c "readlink /proc/$pid/exe | grep -q hidden"
	sleep 0.3
	run_for_limit watch -p "$pid" shared_counter
	[ $? = 0 ] && [ ! -e "$tmp/mnt/hidden" ] && hits 'all(.module == "hidden" and .value.type == "unsigned long" and
		(.function | . == "bump_main" or . == "bump_worker") and .line > 0)'
	ok "mount namespace: names_come_from_the_targets_own_root" $?
	kill "$pid"
else
	skip "mount namespace" "the right to unshare -m"
fi

# Both lines of the victim: its main thread, and its worker.
inside='select(.type == "hit") | [.thread, .tid, .pid] | @tsv'
if unshare -pf --mount-proc true 2>/dev/null; then
	unshare -pf --mount-proc "$victims/calls" >/dev/null 2>&1 &
	parent=$!
	eventually pgrep -P $parent
	pid=$(pgrep -P $parent)
	started="$started $pid $parent"
	eventually sh -c "readlink /proc/$pid/exe | grep -q calls"
	sleep 0.3
	worker=$(grep -l worker /proc/"$pid"/task/*/comm | cut -d/ -f5)
	run_for_limit break -p "$pid" lookup --ret
	[ $? = 0 ] && hits "all(.pid == $pid and .tid == (if .thread == \"worker\" then $worker else $pid end)) and
		any(.thread == \"worker\") and any(.thread == \"calls\")" && summary '.unpaired_returns == 0'
	ok "pid namespace: hits_have_the_observers_numbers" $?
	run_for_limit watch -p "$pid" rounds_done --if "tid == $pid"
	[ $? = 0 ] && hits "length == 8 and all(.tid == $pid)"
	ok "pid namespace: and_conditions_too" $?
	kill -KILL "$pid"

	# A number there is another process than the one that kill() reaches.
	wrong=
	for form in "watch -p 1 x" "break -p 1 x" "race -p 1" "throttle -p 1 --cpu 50%" "at main#1 -- true" \
		"race -- true" "watch x -- true"; do
		# shellcheck disable=SC2086 # words
		unshare -pf "$trapline" $form >"$tmp/out" 2>"$tmp/err"
		[ $? = 2 ] && [ "$(wc -l <"$tmp/err")" = 1 ] &&
			grep -q '^trapline [a-z]*: cannot .*: /proc is missing or belongs to another PID namespace; mount proc at /proc$' "$tmp/err" ||
			wrong="$wrong ($form)"
	done
	[ -z "$wrong" ]
	ok "pid namespace: without_its_proc_it_refuses$wrong" $?
	unshare -pf "$trapline" check --json >"$tmp/out" 2>"$tmp/err"
	jq -e '.. | objects | select(.name? == "text_by_tracee") | .ok' "$tmp/out" >"$tmp/a" 2>&1 ||
		"$trapline" check --json | jq -e '.. | objects | select(.name? == "text_by_tracee") | .ok | not' >/dev/null
	ok "pid namespace: the_helper_that_writes_text_is_found_in_any_proc" $?

	# Observer and target in one, as in a container.
	cat >"$tmp/inside" <<'END'
"$2/calls" >/dev/null & pid=$!
sleep 0.5
worker=$(grep -l worker /proc/$pid/task/*/comm | cut -d/ -f5)
echo "$pid $worker" >"$3/ids"
timeout 10 "$1" break -p $pid lookup --ret --limit 8 --json >"$3/a"
timeout 10 "$1" watch -p $pid rounds_done --if "tid == $pid && pid == $pid" --limit 4 --json >"$3/b"
timeout 10 "$1" watch -p $pid rounds_done --no-bpf --limit 4 --json >"$3/c"
timeout 10 "$2/actors" self >"$3/d"
timeout 10 "$2/actors" self no-bpf >"$3/e"
kill $pid
END
	timeout 60 unshare -pf --mount-proc sh "$tmp/inside" "$trapline" "$victims" "$tmp" 2>"$tmp/err"
	read -r pid worker <"$tmp/ids"
	jq -r "$inside" "$tmp/a" | sort -u >"$tmp/out"
	printf 'calls\t%s\t%s\nworker\t%s\t%s\n' "$pid" "$pid" "$worker" "$pid" | cmp -s - "$tmp/out"
	ok "container: break_has_its_numbers" $?
	cat "$tmp/b" "$tmp/c" | jq -r "$inside" | sort >"$tmp/out"
	[ "$(grep -cx "$(printf 'calls\t%s\t%s' "$pid" "$pid")" "$tmp/out")" = 8 ]
	ok "container: watch_has_its_numbers_with_a_condition_and_without_BPF" $?
	cat "$tmp/d" "$tmp/e" >"$tmp/out"
	[ "$(grep -cE '^(main|old_thread|new_thread|thread_of_thread|same_value)_writes 10$' "$tmp/out")" = 10 ] &&
		[ "$(grep -cx 'wrong_thread 0' "$tmp/out")" = 2 ]
	ok "container: callbacks_of_the_library_run_in_their_threads" $?

	# A container in the observer's container.
	cat >"$tmp/inside" <<'END'
unshare -pf --mount-proc "$2/calls" >/dev/null 2>&1 & parent=$!
sleep 0.7
pid=$(pgrep -P $parent)
worker=$(grep -l worker /proc/$pid/task/*/comm | cut -d/ -f5)
echo "$pid $worker" >"$3/ids"
timeout 10 "$1" break -p $pid lookup --ret --limit 8 --json >"$3/a"
kill -KILL $pid
END
	timeout 60 unshare -pf --mount-proc sh "$tmp/inside" "$trapline" "$victims" "$tmp" 2>"$tmp/err"
	read -r pid worker <"$tmp/ids"
	jq -r "$inside" "$tmp/a" | sort -u >"$tmp/out"
	printf 'calls\t%s\t%s\nworker\t%s\t%s\n' "$pid" "$pid" "$worker" "$pid" | cmp -s - "$tmp/out"
	ok "container in a container: break_has_the_observers_numbers" $?
else
	skip "another pid namespace" "the right to unshare -pf --mount-proc"
fi

# --- 2,000 threads ---
mkfifo "$tmp/many"
"$victims/many" 2000 <"$tmp/many" >"$tmp/victim" 2>&1 &
pid=$!
started="$started $pid"
exec 8>"$tmp/many"
eventually grep -q ready "$tmp/victim"
# names ARG...: hits of many threads, each with its own name.
own_names='length == 1000 and (map(.tid) | unique | length) > 500 and
	all((.thread | test("^t[0-9]{4}$"))) and
	((map([.tid, .thread]) | unique | length) == (map(.tid) | unique | length))'
for way in '' --no-bpf; do
	command=watch
	# shellcheck disable=SC2086 # nothing, or one word
	watch -p "$pid" ticks $way --max-rate 0 --limit 1000 --json
	[ $? = 0 ] && hits "$own_names and all(.function == \"tick\")"
	ok "2000 threads: each_is_watched and has its name ${way:-with BPF}" $?
done
command='break'
watch -p "$pid" tick --max-rate 0 --limit 1000 --json
[ $? = 0 ] && hits "$own_names"
ok "2000 threads: each_is_broken_on" $?
exec 8>&-
wait "$pid"
ok "2000 threads: they_count_right" $?

# --- not permitted ---
if lend "$victims/counter"; then
	cp "$victims/counter" "$lent/setuid"
	chmod 4755 "$lent/setuid"
	$as_user "$lent/setuid" >/dev/null 2>&1 &
	pid=$!
	started="$started $pid"
	sleep 0.5
	for command in watch break; do
		what=shared_counter
		[ $command = break ] && what=bump_main
		$as_user timeout 20 "$lent/trapline" $command -p "$pid" $what >"$tmp/out" 2>"$tmp/err"
		[ $? = 2 ] && [ "$(wc -l <"$tmp/err")" = 1 ] && grep -q 'not permitted' "$tmp/err" &&
			grep -q "it is set-user-ID" "$tmp/err" && kill -0 "$pid"
		ok "setuid: $command is_refused_with_the_reason" $?
	done
	kill "$pid"
	$as_user "$lent/counter" >/dev/null 2>&1 &
	pid=$!
	started="$started $pid"
	sleep 0.3
	paranoid=$(cat /proc/sys/kernel/perf_event_paranoid)
	for level in 2 3; do
		echo $level 2>/dev/null >/proc/sys/kernel/perf_event_paranoid
		[ "$(cat /proc/sys/kernel/perf_event_paranoid)" = $level ] || continue
		$as_user timeout 20 "$lent/trapline" watch -p "$pid" shared_counter --limit 8 --json \
			>"$tmp/out" 2>"$tmp/err"
		status=$?
		echo "$paranoid" >/proc/sys/kernel/perf_event_paranoid
		if [ $status = 0 ]; then
			hits 'length == 8 and all(.thread | . == "counter" or . == "worker")' &&
				summary '.mechanism == "ring"' && grep -q 'without BPF' "$tmp/err"
			ok "unprivileged: at_$level works and says what is missing" $?
		else
			[ $status = 2 ] && grep -q 'perf_event_paranoid' "$tmp/err"
			ok "unprivileged: at_$level is refused with the reason" $?
		fi
	done
	kill "$pid"
else
	skip "without privilege" "$not_lent"
fi

finished
