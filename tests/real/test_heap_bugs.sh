#!/bin/sh
# SPDX-License-Identifier: MIT
# test_heap_bugs.sh TRAPLINE VICTIMS - known heap errors of real programs, with the default budget. TAP.
#
# It runs only with TRAPLINE_DOWNLOADS=DIR, where OurBugbenchs is a checkout of UTSASRG/OurBugbenchs,
# and keeps the programs that it builds there.
#	bc 1.06			two overflows, in more_arrays() and in lookup(): both in one run
#	memcached 1.4.25	CVE-2016-8706, the length of a key by SASL: in at most three runs
# and, where DIR has clones of madler/zlib, yaml/libyaml and DaveGamble/cJSON, in one run each
#	zlib 1.2.12		CVE-2022-37434, an extra field that comes in pieces
#	libyaml 0.1.4		CVE-2014-2525, escapes in a long tag
#	cJSON 1.7.10		CVE-2019-11834 and -11835, a text that ends in a comment or a string

# shellcheck source=tests/cli/tap.sh disable=SC1091,SC2154 # its variables come from there
. "$(dirname "$0")/../cli/tap.sh"
[ -n "$TRAPLINE_DOWNLOADS" ] || skip_all "TRAPLINE_DOWNLOADS=DIR is not set: it builds programs there"
bugs=$TRAPLINE_DOWNLOADS/OurBugbenchs
[ -d "$bugs" ] || skip_all "$bugs is missing: git clone https://github.com/UTSASRG/OurBugbenchs"
need jq cc make python3
built=$TRAPLINE_DOWNLOADS/heap-bugs
mkdir -p "$built"

# heap NAME ARG...: the report in $tmp/NAME.json.
heap()
{
	name=$1
	shift
	timeout -k 5 120 "$trapline" heap --json -o "$tmp/$name.json" "$@" >"$tmp/out" 2>"$tmp/err"
}
# tells NAME FUNCTION ALLOCATOR: an overflow by the one, of a block that the other allocated.
tells()
{
	jq -e -s --arg by "$2" --arg from "$3" 'any(.[]; .type == "heap" and .kind == "overflow" and
		any(.first.stack[]?; .function == $by) and any(.block.allocated.stack[]?; .function == $from))' "$tmp/$1.json" >/dev/null
}
report()
{
	jq -r 'select(.type == "heap") | "# \(.kind) \(.grade) \(.first.stack[0].function) \(.block.size) + \(.block.offset - .block.size)"' "$1"
}

# --- bc ---

source=$bugs/bugbench/bc-1.06/src
if [ ! -x "$built/bc" ]; then
	# shellcheck disable=SC2046 # names of files
	${CC:-cc} -g -O1 -w -funsigned-char -DHAVE_CONFIG_H -I"$source" -I"$source/bc" -I"$source/h" -o "$built/bc.new" \
		$(printf "$source/bc/%s.c " main bc scan execute load storage util global) \
		$(printf "$source/lib/%s.c " number getopt getopt1) 2>"$tmp/err" && mv "$built/bc.new" "$built/bc"
	ok 'bc is built' $?
fi
heap bc -- "$built/bc" "$bugs/bugbench/bc-1.06/script/bad.b" </dev/null
report "$tmp/bc.json"
tells bc more_arrays more_arrays
ok 'bc: the overflow in more_arrays() is found in the first run' $?
tells bc lookup more_arrays
ok 'bc: and that in lookup()' $?
reports=$(jq -s '[.[] | select(.type == "heap")] | length' "$tmp/bc.json")
[ "$reports" = 2 ]
ok "bc: and no other ($reports)" $?
heap primes -- "$built/bc" "$bugs/bugbench/bc-1.06/inputs/Test/array.b" </dev/null
jq -e -s 'all(.[]; .type != "heap") and .[-1].type == "summary"' "$tmp/primes.json" >/dev/null
ok 'bc: a script that is right has none' $?

# --- memcached ---

if [ ! -x "$built/memcached" ]; then
	tar -C "$tmp" -xf "$bugs/memcached/memcached-1.4.25.tar"
	if (cd "$tmp/memcached-1.4.25" && CFLAGS='-g -O2 -w -fcommon' ./configure --enable-sasl && make memcached) >"$tmp/err" 2>&1; then
		mv "$tmp/memcached-1.4.25/memcached" "$built/memcached"
	else
		skip 'memcached' "it cannot be built; it needs libevent-dev and libsasl2-dev"
	fi
fi
# ask PORT LENGTH: authenticates with a key of 32 bytes, in a body of LENGTH bytes.
ask()
{
	python3 - "$1" "$2" <<'END'
import socket, struct, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1])), 10) as s:
    s.sendall(b"\x80\x21" + struct.pack("!HIII", 32, 0, int(sys.argv[2]), 1) + b"A" * 1000)
    s.settimeout(2)
    try:
        s.recv(1024)
    except OSError:
        pass
END
}
# serve NAME LENGTH: a server for one request, under trapline.
serve()
{
	port=$((10000 + ($$ + 7 * count + 13 * run) % 20000))
	user=
	[ "$(id -u)" != 0 ] || user='-u root'
	# shellcheck disable=SC2086 # two words
	heap "$1" -- "$built/memcached" -S -l 127.0.0.1 -p $port -U 0 $user &
	server=$!
	started="$started $server"
	eventually python3 -c "import socket; socket.create_connection(('127.0.0.1', $port), 1)"
	ask $port "$2"
	for child in $(pgrep -f "memcached -S -l 127.0.0.1 -p $port "); do
		case $(readlink "/proc/$child/exe") in */memcached) kill -TERM "$child" ;; esac
	done
	wait $server
}
if [ -x "$built/memcached" ]; then
	found=
	for run in 1 2 3; do
		serve "memcached$run" 1
		report "$tmp/memcached$run.json"
		[ -z "$found" ] && tells "memcached$run" process_bin_sasl_auth do_slabs_newslab && found=$run
	done
	[ -n "$found" ]
	ok "memcached: CVE-2016-8706 is found within three runs (${found:-not})" $?
	serve right 40
	jq -e -s 'all(.[]; .type != "heap") and .[-1].type == "summary"' "$tmp/right.json" >/dev/null
	ok 'memcached: a request that is right has none' $?
fi

# --- libraries, in programs of a few lines ---

# library NAME TAG FLAG...: a program of standard input, and the sources of the library at that tag: $built/NAME.
library()
{
	name=$1 tag=$2
	shift 2
	[ ! -x "$built/$name" ] || return 0
	rm -rf "${tmp:?}/lib" && mkdir "$tmp/lib" && git -C "$TRAPLINE_DOWNLOADS/$name" archive "$tag" | tar -C "$tmp/lib" -x || return 1
	cat >"$tmp/lib/bug.c"
	(cd "$tmp/lib" && sh -c "${CC:-cc} -g -O2 -w -o '$built/$name' bug.c $*") 2>"$tmp/err"
}
# finds NAME FUNCTION WHAT ARG...: an overflow by the function, in the first run.
finds()
{
	name=$1 function=$2 what=$3
	shift 3
	heap "$name" -- "$built/$name" "$@"
	report "$tmp/$name.json"
	jq -e -s --arg by "$function" 'any(.[]; .type == "heap" and .kind == "overflow" and
		any(.first.stack[]?; .function == $by))' "$tmp/$name.json" >/dev/null
	ok "$what is found in the first run" $?
}

if [ -d "$TRAPLINE_DOWNLOADS/zlib" ] && library zlib v1.2.12 -I. adler32.c crc32.c inflate.c inffast.c inftrees.c zutil.c <<'END'
#include <stdlib.h>
#include <string.h>
#include "zlib.h"
int main(void)
{
	unsigned char head[12] = { 0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 3, 64, 0 }, *data = calloc(64, 1), *out = malloc(100);
	gz_header header = { .extra = malloc(20), .extra_max = 20 };
	z_stream s = { .next_in = head, .avail_in = sizeof(head), .next_out = out, .avail_out = 100 };
	inflateInit2(&s, 47);
	inflateGetHeader(&s, &header);
	inflate(&s, 0);
	for (int i = 0; i < 8; i++) {
		s.next_in = data;
		s.avail_in = 8;
		inflate(&s, 0);
	}
	return 0;
}
END
then
	finds zlib inflate 'zlib: CVE-2022-37434, of which the program dies,'
fi
if [ -d "$TRAPLINE_DOWNLOADS/libyaml" ] && library libyaml 0.1.4 -Iinclude -DYAML_VERSION_STRING='\"0.1.4\"' -DYAML_VERSION_MAJOR=0 \
	-DYAML_VERSION_MINOR=1 -DYAML_VERSION_PATCH=4 'src/*.c' <<'END'
#include <stdio.h>
#include <yaml.h>
int main(void)
{
	yaml_parser_t parser;
	yaml_event_t event;
	yaml_parser_initialize(&parser);
	yaml_parser_set_input_file(&parser, stdin);
	for (int is_over = 0; !is_over && yaml_parser_parse(&parser, &event); yaml_event_delete(&event))
		is_over = event.type == YAML_STREAM_END_EVENT;
	yaml_parser_delete(&parser);
	return 0;
}
END
then
	awk 'BEGIN { printf "%%TAG ! tag:x,2000:"; for (i = 0; i < 200; i++) printf "%%41"; print "\n--- !<tag:a> b" }' >"$tmp/yaml"
	finds libyaml yaml_parser_scan_uri_escapes 'libyaml: CVE-2014-2525' <"$tmp/yaml"
fi
if [ -d "$TRAPLINE_DOWNLOADS/cJSON" ] && library cJSON v1.7.10 -I. cJSON.c -lm <<'END'
#include <stdlib.h>
#include <string.h>
#include "cJSON.h"
int main(int argc, char **argv)
{
	char *text = strcpy(malloc(strlen(argv[1]) + 1), argv[1]);
	cJSON_Minify(text);
	return 0;
}
END
then
	finds cJSON cJSON_Minify 'cJSON: CVE-2019-11834' '/* abc'
	finds cJSON cJSON_Minify 'cJSON: CVE-2019-11835' "\"abc\\"
fi
finished
