#!/bin/sh
# SPDX-License-Identifier: MIT
# test_servers.sh TRAPLINE VICTIMS - break on the servers of Debian under load: the time to the first hit, and
# until thousands of functions have a breakpoint. TAP, with the figures as comments.
#
# It runs only with TRAPLINE_SERVERS=1, and tests what is installed:
#	apt-get install redis-server nginx-light haproxy postgresql mariadb-server nodejs apache2-bin apache2-utils golang-go
# No figure is asserted: they are of one run, on a machine that may do much else.

# shellcheck source=tests/cli/tap.sh disable=SC2154 # its variables come from there
. "$(dirname "$0")/../cli/tap.sh"
# shellcheck disable=SC2034 # of tap.sh
command='break'
[ -n "$TRAPLINE_SERVERS" ] || skip_all "TRAPLINE_SERVERS is not set: it starts the servers that are installed"
need_uprobes
need jq ab
chmod 755 "$tmp"
first=18800

now_ms()
{
	date +%s%3N
}

# load COMMAND...: again and again until the test ends.
load()
{
	(
		trap 'exit 0' TERM
		while :; do
			"$@" >/dev/null 2>&1
			sleep 0.002
		done
	) &
	loader=$!
	started="$started $loader"
}

serves()
{
	ab -q -n 1 "http://127.0.0.1:$1/" 2>/dev/null | grep -q '^Complete requests: *1$'
}

# measure NAME PID FUNCTION OBJECT: the first hit, then all functions of the object.
measure()
{
	begun=$(now_ms)
	watch -p "$2" "$3" --limit 1 --json --for 30
	[ $? = 0 ] && hits 'length == 1'
	status=$?
	echo "# $1: first hit of $3 after $(($(now_ms) - begun)) ms"
	ok "$1_first_hit" $status
	: >"$tmp/err"
	begun=$(now_ms)
	"$trapline" break -p "$2" "$4:*" --summary --for 0.5 >"$tmp/out" 2>"$tmp/err" &
	observer=$!
	eventually grep -q '^breaking on ' "$tmp/err"
	echo "# $1: $(grep -o '^breaking on [0-9]* functions*' "$tmp/err") after $(($(now_ms) - begun)) ms"
	wait $observer
	ok "$1_all_functions" $?
	kill -0 "$2"
	ok "$1_lives" $?
	kill "$loader" 2>/dev/null
}

of_redis()
{
	redis-server --port $first --save '' --dir "$tmp" >/dev/null 2>&1 &
	pid=$!
	started="$started $pid"
	eventually redis-cli -p $first ping
	load redis-cli -p $first set a b
	measure redis $pid libc.so.6:epoll_wait libc.so.6
}

of_nginx()
{
	cat >"$tmp/nginx.conf" <<-EOF
		daemon off; master_process off; pid $tmp/nginx.pid; error_log $tmp/nginx.log;
		events {} http { access_log off; server { listen 127.0.0.1:$((first + 1)); location / { return 200 x; } } }
	EOF
	nginx -c "$tmp/nginx.conf" >/dev/null 2>&1 &
	pid=$!
	started="$started $pid"
	eventually serves $((first + 1))
	load ab -q -n 100 "http://127.0.0.1:$((first + 1))/"
	measure nginx $pid ngx_http_process_request nginx
}

of_haproxy()
{
	cat >"$tmp/haproxy.cfg" <<-EOF
		defaults
		 mode http
		 timeout client 5s
		 timeout server 5s
		 timeout connect 5s
		frontend f
		 bind 127.0.0.1:$((first + 2))
		 http-request return status 200
	EOF
	haproxy -db -f "$tmp/haproxy.cfg" >/dev/null 2>&1 &
	pid=$!
	started="$started $pid"
	eventually serves $((first + 2))
	load ab -q -n 100 "http://127.0.0.1:$((first + 2))/"
	measure haproxy $pid libc.so.6:epoll_wait haproxy
}

of_node()
{
	node -e "require('http').createServer((q, r) => r.end('x')).listen($((first + 3)))" >/dev/null 2>&1 &
	pid=$!
	started="$started $pid"
	eventually serves $((first + 3))
	load ab -q -n 100 "http://127.0.0.1:$((first + 3))/"
	measure node $pid uv__read 'libc.so.6'
}

of_postgres()
{
	bin=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)
	mkdir "$tmp/pg" && chown postgres "$tmp/pg"
	su postgres -c "$bin/initdb -N -D $tmp/pg/data && $bin/pg_ctl -D $tmp/pg/data -w \
		-o '-k $tmp/pg -p $((first + 4))' -l $tmp/pg/log start" >/dev/null 2>&1
	started="$started $(head -n 1 "$tmp/pg/data/postmaster.pid")"
	mkfifo "$tmp/queries"
	su postgres -c "exec psql -q -h $tmp/pg -p $((first + 4))" <"$tmp/queries" >/dev/null 2>&1 &
	while sleep 0.002; do
		echo 'select 1;' || break
	done >"$tmp/queries" &
	loader=$!
	started="$started $loader"
	eventually pgrep -f '^postgres: .*postgres postgres'
	measure postgres "$(pgrep -f '^postgres: .*postgres postgres' | tail -n 1)" pq_getmessage postgres
}

of_mariadbd()
{
	mkdir "$tmp/my" && chown mysql "$tmp/my"
	mariadb-install-db --user=mysql --datadir="$tmp/my/data" --skip-test-db >/dev/null 2>&1
	mariadbd --no-defaults --user=mysql --datadir="$tmp/my/data" --socket="$tmp/my/s" --skip-networking \
		--pid-file="$tmp/my/pid" >/dev/null 2>&1 &
	pid=$!
	started="$started $pid"
	eventually mariadb-admin --socket="$tmp/my/s" ping
	load mariadb --socket="$tmp/my/s" -e 'select 1'
	measure mariadbd $pid mysql_parse mariadbd
}

of_go()
{
	cat >"$tmp/serve.go" <<-EOF
		package main
		import "net/http"
		func main() {
			http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("x")) })
			http.ListenAndServe("127.0.0.1:$((first + 5))", nil)
		}
	EOF
	(cd "$tmp" && HOME=$tmp GO111MODULE=off GOFLAGS="" go build -o serve serve.go) || return
	"$tmp/serve" >/dev/null 2>&1 &
	pid=$!
	started="$started $pid"
	eventually serves $((first + 5))
	load ab -q -n 100 "http://127.0.0.1:$((first + 5))/"
	measure go $pid 'net/http.(*conn).serve' serve
}

of_rust()
{
	cat >"$tmp/serve.rs" <<-EOF
		use std::io::{Read, Write};
		use std::net::{TcpListener, TcpStream};
		#[inline(never)]
		fn answer(mut s: TcpStream) {
		    let mut b = [0u8; 512];
		    let _ = s.read(&mut b);
		    let _ = s.write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx");
		}
		fn main() {
		    for s in TcpListener::bind("127.0.0.1:$((first + 6))").unwrap().incoming() {
		        answer(s.unwrap());
		    }
		}
	EOF
	rustc -g -o "$tmp/served" "$tmp/serve.rs" 2>/dev/null || return
	"$tmp/served" >/dev/null 2>&1 &
	pid=$!
	started="$started $pid"
	eventually serves $((first + 6))
	load ab -q -n 100 "http://127.0.0.1:$((first + 6))/"
	measure rust $pid answer served
}

# Each connection of a prefork server is served by a child that ends after it: no fork is lost.
of_apache()
{
	modules=$(find /usr/lib/apache2/modules -name mod_mpm_prefork.so | head -n 1)
	mkdir -p "$tmp/www"
	echo x >"$tmp/www/index.html"
	chmod -R a+rX "$tmp/www"
	cat >"$tmp/apache.conf" <<-EOF
		ServerRoot $tmp
		ServerName localhost
		PidFile $tmp/apache.pid
		Listen 127.0.0.1:$((first + 7))
		LoadModule mpm_prefork_module $modules
		LoadModule authz_core_module ${modules%/*}/mod_authz_core.so
		DocumentRoot $tmp/www
		User www-data
		Group www-data
		ErrorLog $tmp/apache.log
		StartServers 8
		MinSpareServers 8
		MaxSpareServers 16
		MaxRequestWorkers 32
		MaxConnectionsPerChild 1
	EOF
	apache2 -X -h >/dev/null 2>&1
	apache2 -f "$tmp/apache.conf" -DFOREGROUND >/dev/null 2>&1 &
	pid=$!
	started="$started $pid"
	eventually serves $((first + 7))
	requests=${FORKS:-10000}
	: >"$tmp/err"
	"$trapline" break -p $pid ap_process_connection --follow --max-rate 0 \
		--output "$tmp/lines" --summary >"$tmp/out" 2>"$tmp/err" &
	observer=$!
	eventually grep -q '^breaking on ' "$tmp/err"
	ab -q -c 4 -n "$requests" "http://127.0.0.1:$((first + 7))/" >"$tmp/ab" 2>&1
	kill -INT $observer
	wait $observer
	served=$(sed -n 's/^Complete requests: *//p' "$tmp/ab")
	lost=$(tail -n 1 "$tmp/lines" | jq '[.lost[]] | add')
	seen=$(tail -n 1 "$tmp/lines" | jq '.taken - .rejected')
	echo "# apache: $served connections, $seen hits, $lost lost"
	[ "${served:-0}" = "$requests" ] && [ "$lost" = 0 ] && [ "$seen" -ge "$requests" ] &&
		! grep -q 'threads of children were not observed' "$tmp/err"
	ok "a_prefork_server_loses_no_fork" $?
}

has()
{
	command -v "$1" >/dev/null
}

if has redis-server && has redis-cli; then of_redis; else skip redis "redis-server is not installed"; fi
if has nginx; then of_nginx; else skip nginx "nginx is not installed"; fi
if has haproxy; then of_haproxy; else skip haproxy "haproxy is not installed"; fi
if has node; then of_node; else skip node "node is not installed"; fi
if [ -n "$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null)" ]; then of_postgres; else skip postgres "postgresql is not installed"; fi
if has mariadbd; then of_mariadbd; else skip mariadbd "mariadb-server is not installed"; fi
if has go; then of_go; else skip go "go is not installed"; fi
if has rustc; then of_rust; else skip rust "rustc is not installed"; fi
if has apache2; then of_apache; else skip apache "apache2 is not installed"; fi

finished
