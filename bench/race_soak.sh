#!/bin/sh
# SPDX-License-Identifier: MIT
# race_soak.sh BUILD - real programs that are right, under load, each searched for races in turn:
# nothing may be reported. JSON lines, one a program; fails if anything was.
#
#	TRAPLINE_BENCH_SECONDS	of each; 60
#	TRAPLINE_BENCH_ONLY	"redis memcached nginx apache pigz python sqlite go rust java"
#	TRAPLINE_BENCH_OVERHEAD	20%
set -eu
folder=$(cd "$(dirname "$0")" && pwd)
"$folder/../scripts/install-deps" test bench
build=$(cd "${1:-build}" && pwd)
seconds=${TRAPLINE_BENCH_SECONDS:-60}
overhead=${TRAPLINE_BENCH_OVERHEAD:-20%}
load=$build/tests/load
port=$((11000 + $$ % 20000)) # none that connections are given
tmp=$(mktemp -d)
chmod 755 "$tmp"
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$tmp"' EXIT
trap 'exit 1' INT TERM
reported=0

# race COMMAND...: searched, the report in $tmp/races.json. Becomes the command: in a shell of its own.
race()
{
	rm -f "$tmp/races.json"
	exec "$build/trapline" race --overhead "$overhead" --grade B --json -o "$tmp/races.json" -- "$@" \
		>"$tmp/out" 2>&1
}

# told NAME WORK: what the search says, as a line; WORK is what the program did meanwhile.
told()
{
	if [ ! -s "$tmp/races.json" ]; then
		jq -cn --arg name "$1" --arg said "$(head -n 1 "$tmp/out")" '
			{what: "soak", program: $name, refused: $said}'
		return
	fi
	jq -c -s --arg name "$1" --arg work "$2" '
		map(select(.type == "race")) as $races | (.[-1] // {}) as $s |
		{what: "soak", program: $name, work: $work, reports: ($races | length), stalls: $s.stalls,
		 held_s: (($s.stalled_ns // 0) / 1e9), run_s: (($s.run_ns // 0) / 1e9),
		 overhead: $s.overhead, threads: $s.threads_at_once, on_cpus: ($s.processes_on_cpus // 0),
		 suppressed: [$s.suppressions[]? | select(.count > 0) | .suppression],
		 unsure: $s.counters.changes_unsure}' "$tmp/races.json"
	jq -c 'select(.type == "race")' "$tmp/races.json" >"$tmp/these"
	[ -s "$tmp/these" ] || return 0
	cat "$tmp/these" >&2
	reported=$((reported + $(wc -l <"$tmp/these")))
}

# served NAME PROTOCOL PATH COMMAND...: a server at $port, asked by four clients until the time is over.
served()
{
	name=$1 protocol=$2 path=$3
	shift 3
	race "$@" &
	server=$!
	for _ in $(seq 240); do
		"$load" "$protocol" $port 0.05 "$path" >/dev/null 2>&1 && break
		kill -0 "$server" 2>/dev/null || break
		sleep 0.25
	done
	work=none
	if kill -0 "$server" 2>/dev/null; then
		work=$("$load" "$protocol" $port "$seconds" "$path" || true)
		# The server is the command's child, and it alone is told to end. Where this runs in the
		# background, a JVM ignores SIGINT.
		pkill -INT -P "$server" || true
		for _ in $(seq 40); do
			kill -0 "$server" 2>/dev/null || break
			sleep 0.25
		done
		pkill -TERM -P "$server" || true
	fi
	wait "$server" || true
	server=
	told "$name" "$work (requests, errors)"
	port=$((port + 1))
}

# repeated NAME COMMAND...: again and again until the time is over, as one search.
repeated()
{
	name=$1
	shift
	cat >"$tmp/repeat" <<'END'
end=$(($(date +%s) + $1)) n=0
shift
while [ "$(date +%s)" -lt "$end" ]; do
	"$@" >/dev/null || { echo "failed: $*"; exit 1; }
	n=$((n + 1))
done
echo "$n"
END
	(race sh "$tmp/repeat" "$seconds" "$@") || true
	told "$name" "$(tail -n 1 "$tmp/out") (runs)"
}

has()
{
	case " ${TRAPLINE_BENCH_ONLY:-redis memcached nginx apache pigz python sqlite go rust java} " in
	*" $1 "*) ;;
	*) return 1 ;;
	esac
	command -v "$2" >/dev/null && return
	echo "{\"what\":\"soak\",\"program\":\"$1\",\"skipped\":\"$2 is not installed\"}"
	return 1
}

cat >"$tmp/python.py" <<'END'
import collections, hashlib, queue, sys, threading, time, zlib
end = time.monotonic() + float(sys.argv[1])
todo, done = queue.Queue(50), collections.Counter()
lock = threading.Lock()
def worker():
    while (block := todo.get()) is not None:
        digest = hashlib.sha256(zlib.compress(block, 3)).hexdigest()
        with lock:
            done[digest[:2]] += 1
threads = [threading.Thread(target=worker) for _ in range(4)]
for t in threads: t.start()
n = 0
while time.monotonic() < end:
    todo.put(str(n).encode() * 4000)
    n += 1
for t in threads: todo.put(None)
for t in threads: t.join()
assert sum(done.values()) == n
print(n)
END
cat >"$tmp/sqlite.py" <<'END'
import os, random, sqlite3, sys, threading, time
end = time.monotonic() + float(sys.argv[1])
path = sys.argv[2]
sums = [0] * 4
def connect():
    c = sqlite3.connect(path, timeout=60, isolation_level=None)
    c.execute("pragma journal_mode=wal")
    c.execute("pragma synchronous=off")
    return c
connect().execute("create table t(id integer primary key, who int, n int, text)")
def work(who):
    c = connect()
    while time.monotonic() < end:
        c.execute("begin immediate")
        for _ in range(20):
            c.execute("insert into t(who, n, text) values(?, 1, ?)", (who, "x" * random.randrange(400)))
            sums[who] += 1
        c.execute("commit")
        c.execute("select who, sum(n), max(length(text)) from t group by who order by 2").fetchall()
        if random.random() < 0.05:
            c.execute("pragma wal_checkpoint")
        if sums[who] > 4000:
            c.execute("delete from t where who = ?", (who,))
            sums[who] = 0
threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
for t in threads: t.start()
for t in threads: t.join()
c = connect()
assert dict(c.execute("select who, sum(n) from t group by who")) == {i: n for i, n in enumerate(sums) if n}
assert c.execute("pragma integrity_check").fetchone() == ("ok",)
print(sum(sums))
END
head -c 100000 /dev/zero | tr "\0" x >"$tmp/page"
awk 'BEGIN { srand(1); for (i = 0; i < 400000; i++) print "line " i " " int(rand() * 1e6) "x" }' >"$tmp/lines"

has redis redis-server && served redis redis / redis-server --save '' --bind 127.0.0.1 --port $port \
	--dir "$tmp" --io-threads 4 --io-threads-do-reads yes
has memcached memcached && served memcached memcached / memcached -u nobody -l 127.0.0.1 -p $port -t 4
if has nginx nginx; then
	mkdir -p "$tmp/nginx/logs"
	echo "daemon off; master_process off; pid $tmp/nginx/pid; error_log $tmp/nginx/error;
		thread_pool default threads=4;
		events { worker_connections 200; }
		http { access_log off; aio threads; sendfile off;
			server { listen 127.0.0.1:$port; root $tmp; } }" >"$tmp/nginx/conf"
	served nginx http /page nginx -p "$tmp/nginx" -c "$tmp/nginx/conf"
fi
if has apache apache2; then
	modules=/usr/lib/apache2/modules
	mkdir -p "$tmp/apache"
	echo "ServerName localhost
		ServerRoot $tmp/apache
		PidFile $tmp/apache/pid
		ErrorLog $tmp/apache/error
		Mutex file:$tmp/apache default
		Listen 127.0.0.1:$port
		LoadModule mpm_event_module $modules/mod_mpm_event.so
		LoadModule authz_core_module $modules/mod_authz_core.so
		User nobody
		DocumentRoot $tmp
		StartServers 1
		ServerLimit 1
		ThreadsPerChild 8
		MaxRequestWorkers 8" >"$tmp/apache/conf"
	served apache http /python.py apache2 -X -f "$tmp/apache/conf"
fi
has pigz pigz && repeated pigz pigz -c -p 4 "$tmp/lines"
has python /usr/bin/python3 && { (race /usr/bin/python3 "$tmp/python.py" "$seconds") || true
	told python "$(tail -n 1 "$tmp/out") (blocks)"; }
has sqlite /usr/bin/python3 && { (race /usr/bin/python3 "$tmp/sqlite.py" "$seconds" "$tmp/db") || true
	told sqlite "$(tail -n 1 "$tmp/out") (rows)"; }
has go prometheus-node-exporter && served go http /metrics prometheus-node-exporter \
	--web.listen-address=127.0.0.1:$port
has rust rg && repeated rust rg -j 4 --no-mmap -c '9{3}[0-9]+x' "$tmp/lines" "$tmp/python.py" "$tmp/sqlite.py" /usr/include
has java rmiregistry && served java rmi / rmiregistry $port
[ "$reported" = 0 ]
