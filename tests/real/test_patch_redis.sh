#!/bin/sh
# SPDX-License-Identifier: MIT
# test_patch_redis.sh TRAPLINE VICTIMS INCLUDE BUILD_INCLUDE - a security update of Debian comes into the redis-server of
# Debian while clients use it, as a patch, and no request fails. TAP.
#
# It downloads 6 MB, so it runs only with TRAPLINE_DOWNLOADS=DIR, where the files stay.
#	the server	redis 5:7.0.15-1~deb12u7 as Debian built it; it is stripped and exports its functions
#	the update	CVE-2026-25243 and CVE-2026-66373 of 5:7.0.15-1~deb12u10, three functions of three files

# shellcheck source=tests/cli/tap.sh disable=SC2154 # its variables come from there
. "$(dirname "$0")/../cli/tap.sh"
# shellcheck disable=SC2034 # of tap.sh
command="patch"
swaps=$(share 20)
[ -n "$TRAPLINE_DOWNLOADS" ] || skip_all "TRAPLINE_DOWNLOADS=DIR is not set: it downloads packages of Debian"
need redis-cli redis-benchmark curl dpkg-deb patch sha256sum cc
[ "$(uname -m)" = x86_64 ] || skip_all "the package is for x86-64"

main=http://deb.debian.org/debian/pool/main
security=http://deb.debian.org/debian-security/pool/updates/main
# download URL SHA256: into the folder of downloads, as its last name.
download()
{
	file=$TRAPLINE_DOWNLOADS/${1##*/}
	echo "$2  $file" | sha256sum --check --status 2>/dev/null && return
	curl -fsSL --max-time 120 -o "$file" "$1" 2>/dev/null && echo "$2  $file" | sha256sum --check --status && return
	skip_all "cannot download ${1##*/} as it was"
}
mkdir -p "$TRAPLINE_DOWNLOADS"
download "$main/r/redis/redis-tools_7.0.15-1~deb12u7_amd64.deb" 3c8cd27847c6a06b6f6c29e7415a9057462a89661e3a8e2eb8dd5b2d7830bb40
download "$main/r/redis/redis_7.0.15.orig.tar.gz" 4b1dc4ee6d622a09fff9c6777191209750fb5e5a725ef78ea012d6eef4c22982
download "$security/r/redis/redis_7.0.15-1~deb12u10.debian.tar.xz" 77d8423c427657bb2f5b635f51184e8064a51c93fcbd7519146da587a8361bbc
download "$main/j/jemalloc/libjemalloc-dev_5.3.0-1_amd64.deb" 1a883483ac9cb9adb62e1359438fa49a84bfe0b526fb62c64285031530672665

# --- the source with the update, and the functions that it changes ---

source=$tmp/redis-7.0.15
tar -C "$tmp" -xf "$TRAPLINE_DOWNLOADS/redis_7.0.15.orig.tar.gz"
tar -C "$source" -xf "$TRAPLINE_DOWNLOADS/redis_7.0.15-1~deb12u10.debian.tar.xz"
sed '/CVE-2026-66373/q' "$source/debian/patches/series" | while read -r update; do
	patch -d "$source" -sp1 <"$source/debian/patches/$update" || echo "# $update does not apply"
done
dpkg-deb -x "$TRAPLINE_DOWNLOADS/redis-tools_7.0.15-1~deb12u7_amd64.deb" "$tmp/package"
dpkg-deb -x "$TRAPLINE_DOWNLOADS/libjemalloc-dev_5.3.0-1_amd64.deb" "$tmp/package"
cp "$tmp/package/usr/bin/redis-check-rdb" "$tmp/redis-server" # by its name it is one or the other

# functions FILE NAME...: their definitions.
functions()
{
	file=$source/src/$1
	shift
	for name in "$@"; do
		awk -v "name=$name" '!on && $0 ~ "^[a-z].*[ *]" name "\\(.*\\{$" { on = 1 } on { print } on && /^}/ { exit }' "$file"
	done
}
# head FILE: what is included, macros of one line, and declarations of what the server exports.
head_of()
{
	grep -E '^#include|^extern|^#define [A-Za-z_]+(\([^)]*\))? .*[^\\]$' "$source/src/$1"
	sed -n '/^static/!s/^\([a-z].*)\) {$/\1;/p' "$source/src/$1"
}
# replaces NAME: a copy of the name in the object would be bound to the program's.
replaces()
{
	sed "/^static/!s/^\([a-z].*[ *]\)$1(/static \1fixed_$1(/"
	echo '#include <trapline/tools.h>'
	echo "TRAPLINE_PATCH(\"$1\", fixed_$1);"
}
{
	head_of rdb.c
	functions rdb.c _ziplistPairsEntryConvertAndValidate _ziplistEntryConvertAndValidate \
		_listZiplistEntryConvertAndValidate _lpPairsEntryValidation rdbLoadObject | replaces rdbLoadObject
} >"$tmp/fix_rdb.c"
{
	head_of sds.c
	functions sds.c sdsHdrSize sdsReqType sdsTypeMaxSize _sdsnewlen | replaces _sdsnewlen
} >"$tmp/fix_sds.c"
{
	head_of zipmap.c
	functions zipmap.c zipmapDecodeLength zipmapGetEncodedLengthSize zipmapValidateIntegrity | replaces zipmapValidateIntegrity
} >"$tmp/fix_zipmap.c"
deps=$source/deps
${CC:-cc} -std=c11 -O2 -shared -fPIC -Wall -Wno-unused-function -Werror=implicit-function-declaration -DUSE_JEMALLOC \
	-DUSE_OPENSSL -I"$source/src" -I"$deps/hiredis" -I"$deps/lua/src" -I"$deps/linenoise" -I"$deps/hdr_histogram" \
	-I"$tmp/package/usr/include" -I"$3" -I"$4" -o "$tmp/update.so" "$tmp"/fix_*.c 2>"$tmp/err"
ok the_functions_of_the_update_are_built_from_the_source_of_debian $?

# --- what the flaws do ---

port=$((10000 + $$ % 20000)) # none that connections are given
# serve PORT: its id in $server.
serve()
{
	(cd "$tmp" && exec ./redis-server --save '' --bind 127.0.0.1 --port "$1" --io-threads 2 --logfile "$tmp/log.$1" >"$tmp/printed" 2>&1) &
	server=$!
	started="$started $server"
	eventually redis-cli -p "$1" ping || { echo 'Bail out! redis-server does not start'; exit 1; }
}
# restores KEY PAYLOAD ANSWER
restores()
{
	# shellcheck disable=SC2059 # the bytes are escapes
	answer=$(printf "$2" | redis-cli -p $port -x RESTORE "$1" 0 2>&1 | head -n 1)
	[ "$answer" = "$3" ] || {
		echo "# $1: $answer"
		return 1
	}
}
# Of the tests in the update. A stream, an entry of which two consumers have: deleting it would free memory twice.
shared='\017\001\020\000\000\000\000\000\000\000\001\000\000\000\000\000\000\000\000\045\045\000\000\000\012\000\001\001\000\001\001\001\205\146\151\145\154\144\006\000\001\002\001\000\001\000\001\205\166\141\154\165\145\006\004\001\377\001\001\000\001\007\155\171\147\162\157\165\160\001\000\001\000\000\000\000\000\000\000\001\000\000\000\000\000\000\000\000\112\171\211\217\237\001\000\000\001\002\011\143\157\156\163\165\155\145\162\101\112\171\211\217\237\001\000\000\001\000\000\000\000\000\000\000\001\000\000\000\000\000\000\000\000\011\143\157\156\163\165\155\145\162\102\124\171\211\217\237\001\000\000\001\000\000\000\000\000\000\000\001\000\000\000\000\000\000\000\000\011\000\366\352\173\154\270\270\330\264'
# A hash with a short name whose length is written in 5 bytes.
long='\011\021\001\376\004\000\000\000\001\000\377\000\004\000\166\141\154\061\377\011\000\371\325\244\367\175\000\077\033'
# A string of 2^64 - 9 bytes, none of which follow.
huge='\000\201\377\377\377\377\377\377\377\367\012\000\006\321\206\045\300\140\002\047'

refused='ERR Bad data format'
serve "$port"
restores huge "$huge" 'Error: Server closed the connection'
for _ in $(seq 100); do
	kill -0 $server 2>/dev/null || break
	sleep 0.1
done
! kill -0 $server 2>/dev/null
ok "without_the_update_one_request_ends_the_server" $?

port=$((port + 1))
serve "$port"
restores shared1 "$shared" OK && restores long1 "$long" OK
ok without_the_update_wrong_data_is_taken $?

# --- the update under load ---

redis-cli -p $port XADD stream '*' field value >/dev/null
redis-cli -p $port XGROUP CREATE stream group 0 >/dev/null
redis-cli -p $port XREADGROUP GROUP group one STREAMS stream '>' >/dev/null
redis-cli -p $port --raw DUMP stream | head -c -1 | redis-cli -p $port -x SET good >/dev/null
# load NAME ARGUMENT...: again and again, until it is over. It says which run failed, or had a reply with an error.
load()
{
	name=$1
	shift
	while [ ! -e "$tmp/stop" ]; do
		redis-benchmark -p $port --csv "$@" >"$tmp/run.$name" 2>&1 && ! grep -qi error "$tmp/run.$name" ||
			cp "$tmp/run.$name" "$tmp/failed.$name"
		grep -h '^".*","[0-9]' "$tmp/run.$name" >>"$tmp/latencies"
	done
}
load common -c 50 -n 20000 -r 1000 -t set,get,incr,lpush,lrange_100 &
loads=$!
load restores -c 4 -n 5000 -r 100 EVAL "return redis.call('RESTORE', KEYS[1], 0, redis.call('GET', 'good'), 'REPLACE')" 1 restored:__rand_int__ &
loads="$loads $!"
started="$started $loads"
served()
{
	redis-cli -p $port INFO stats | tr -d '\r' | sed -n "s/^$1://p"
}
most_ms()
{
	sed 's/"//g' "$tmp/latencies" | awk -F, '$8 > most { most = $8 } END { print most + 0 }'
}
sleep 10
before_ms=$(most_ms)
before=$(served total_commands_processed)

watch -p $server "$tmp/update.so" && grep -q '^applied update.so .*3 functions' "$tmp/out" && sed 's/^/# /' "$tmp/out" &&
	restores huge "$huge" "$refused" && restores long2 "$long" "$refused" && restores shared2 "$shared" "$refused" &&
	[ "$(redis-cli -p $port ping)" = PONG ]
ok the_update_is_applied_under_load_and_the_flaws_are_gone $?
watch -p $server --undo update.so && sed 's/^/# /' "$tmp/out" && restores shared2 "$shared" OK && restores long2 "$long" OK
ok undone_the_flaws_are_back $?
bad=0
for _ in $(seq $swaps); do
	for mode in immediate per-thread no-thread-inside; do
		watch -p $server "$tmp/update.so" --consistency $mode && watch -p $server --undo update.so || bad=$((bad + 1))
	done
done
[ $bad = 0 ]
ok "it_is_applied_and_undone_$((3 * swaps))_times_under_load" $?
watch -p $server "$tmp/update.so" && restores huge "$huge" "$refused"
ok applied_again_the_flaws_are_gone_again $?
watch -p $server --list && sed 's/^/# /' "$tmp/out"

touch "$tmp/stop"
wait $loads
echo "# $(($(served total_commands_processed) - before)) requests meanwhile; the longest took $(most_ms) ms, and $before_ms ms in 10 s before"
sed 's/^/# /' "$tmp"/failed.* 2>/dev/null
! ls "$tmp"/failed.* >/dev/null 2>&1
ok no_client_lost_a_request $?
# The four that were to be refused.
[ "$(served total_error_replies)" = 4 ] && [ "$(served rejected_connections)" = 0 ] && kill -0 $server
ok the_server_counts_no_other_error $?
! grep -iE 'crash|bug report|assert' "$tmp/log.$port"
ok its_log_has_no_error $?
kill -9 $server
wait $server 2>/dev/null
finished
