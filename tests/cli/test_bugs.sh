#!/bin/sh
# SPDX-License-Identifier: MIT
# test_bugs.sh TRAPLINE VICTIMS SOURCES - one row for each bug of many hosts: trapline report --from. TAP.

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/tap.sh"
sources=$3
need jq python3
command=report
folder=$tmp/lines

# bugs ARG...: the rows in $tmp/out.
bugs()
{
	"$trapline" report --from "$folder" "$@" >"$tmp/out" 2>"$tmp/err"
}

# rows EXPRESSION: holds for the array of the rows.
rows()
{
	jq -e -s "$1" "$tmp/out" >/dev/null
}

mkdir "$folder"
# Hosts a and b, builds one (three days ago) and two (an hour ago) of a program.
python3 - "$folder" <<'END'
import datetime, json, random, sys
now = datetime.datetime.now(datetime.timezone.utc)
lines = []
def at(hours): return (now - datetime.timedelta(hours=hours)).strftime('%Y-%m-%dT%H:%M:%S.000Z')
def add(hours, host, build, **more):
    lines.append({'id': f'{host}-{len(lines)}', 'host': host, 'time': at(hours), 'rule': 'r',
        'program': '/usr/bin/server', 'build_id': build * 20, **more})
def bug(hours, host, build, fingerprint, count=1, line=7, type='heap', kind='overflow'):
    add(hours, host, build, type=type, kind=kind, grade='A', fingerprint=fingerprint, count=count,
        first={'function': 'serve', 'file': '/src/server.c', 'line': line})
def visit(hours, host, build, tool='heap'):
    add(hours, host, build, type='visit', tool=tool, end='time', findings=0)
bug(72, 'a', '11', 'old-and-new', line=7)
bug(1, 'b', '22', 'old-and-new', line=9, count=3)
bug(71, 'a', '11', 'mended')
bug(70, 'b', '11', 'mended', count=2)
bug(2, 'a', '11', 'fresh', kind='use-after-free')
bug(69, 'a', '11', 'not-asked', type='race', kind='write-write')
for host in 'ab': visit(73, host, '11'); visit(3, host, '22'); visit(2, host, '22'); visit(1, host, '22')
visit(75, 'a', '11', 'race')
bug(60, 'a', '11', 'evil\x1b[31m</script>')
random.shuffle(lines)
lines.append(lines[0])
with open(sys.argv[1] + '/one.jsonl', 'w') as f: f.writelines(json.dumps(l) + '\n' for l in lines[:7])
with open(sys.argv[1] + '/two.jsonl.1', 'w') as f: f.writelines(json.dumps(l) + '\n' for l in lines[7:])
with open(sys.argv[1] + '/other', 'w') as f: f.write('{"id":"x","time":"2026","type":"heap","fingerprint":"other"}\n')
END
bugs --as json
[ $? = 0 ] && rows 'map(.fingerprint) | sort == ["evil\u001b[31m</script>","fresh","mended","not-asked","old-and-new"]'
ok "a_bug_is_a_row" $?
rows 'map(select(.fingerprint == "old-and-new"))[0] | .state == "known" and .count == 4 and .hosts == 2 and .builds == 2 and
	.line == 9 and .function == "serve" and .first_seen < .last_seen'
ok "hosts_builds_and_counts_are_added" $?
rows 'map(select(.fingerprint == "mended"))[0] | .state == "gone" and .gone_since == ("22" * 20) and .count == 3'
ok "a_bug_is_gone_since_a_build_that_was_visited" $?
rows '.[0] | .fingerprint == "fresh" and .state == "new" and .later_visits == 6 and .chance > 0.05'
ok "a_few_visits_without_a_rare_bug_do_not_end_it" $?
rows 'map(select(.fingerprint == "not-asked"))[0].state == "known"'
ok "a_tool_that_did_not_visit_the_build_ends_no_bug" $?
bugs --as json --since 100h
rows 'map(select(.fingerprint == "not-asked"))[0].state == "new"'
ok "since_decides_what_is_new" $?
bugs
[ $? = 0 ] && head -n 1 "$tmp/out" | grep -q '^state  *fingerprint  *kind  *count  *hosts  *builds' &&
	grep -q '^gone   mended  .* serve (server.c:7) of /usr/bin/server, gone since build 222222222222: not in 6 visits, 0.001 by chance$' "$tmp/out" &&
	[ "$(tail -n 1 "$tmp/out")" = "5 bugs of 7 findings" ] && ! grep -q "$(printf '\033')" "$tmp/out"
ok "the_table_for_people" $?
mkdir "$tmp/damaged"
cat >"$tmp/damaged/one.jsonl" <<'END'
{"id":"1","host":"a","time":"2026-11-01T00:00:00.000Z","type":"heap","kind":"overflow","fingerprint":"damaged","program":"/usr/bin/maild","first":{"function":null,"file":null,"line":null,"stack":[]},"block":{"allocated":{"function":"parse","file":"/src/mail.c","line":50}}}
{"id":"2","host":"a","time":"2026-11-01T00:00:00.000Z","type":"heap","kind":"overflow","fingerprint":"stripped","program":"/usr/bin/maild","first":{"function":null,"file":null,"line":null,"stack":[{"ip":"0x1"}]},"block":{"allocated":{"function":"parse","file":"/src/mail.c","line":50}}}
END
"$trapline" report --from "$tmp/damaged" >"$tmp/out" 2>"$tmp/err" &&
	grep -q ' damaged  .* block of parse (mail.c:50) of /usr/bin/maild' "$tmp/out" &&
	grep -q ' stripped  .* ? of /usr/bin/maild' "$tmp/out"
ok "without_an_access_the_row_has_the_allocation" $?
printf 'not JSON\n{"type":"hit"}\n' >"$folder/bad.jsonl"
bugs
[ "$(tail -n 1 "$tmp/out")" = "5 bugs of 7 findings; 2 other lines left out" ]
ok "what_is_left_out_is_counted" $?
bugs --as html && grep -q '"kind":"bugs"' "$tmp/out" && [ "$(grep -c '</script>' "$tmp/out")" = 2 ]
ok "no_name_ends_the_element_of_the_page" $?
if command -v chromium >/dev/null; then
	cp "$tmp/out" "$tmp/bugs.html"
	timeout 60 chromium --headless --no-sandbox --disable-gpu --virtual-time-budget=5000 --dump-dom "file://$tmp/bugs.html" \
		>"$tmp/dom" 2>/dev/null
	[ "$(grep -o '<tr class="bug [a-z]*"' "$tmp/dom" | wc -l)" = 5 ] && grep -q 'gone since 222222222222' "$tmp/dom"
	ok "the_page_has_a_row_for_each" $?
else
	skip "the_page_has_a_row_for_each" "chromium"
fi

# The same source by several compilers and levels: one bug has one fingerprint.
compare()
{
	mkdir -p "$tmp/$1$2"
	"$1" "$2" -g -w -o "$tmp/$1$2/victim" "$sources/tests/victims/compiled.c" 2>/dev/null || return 0
	"$trapline" heap --first 100000 --json -- "$tmp/$1$2/victim" 2>/dev/null | jq -r 'select(.kind == "use-after-free") | .fingerprint' >>"$tmp/prints"
	compiled=$((compiled + 1))
}
compiled=0
: >"$tmp/prints"
for compiler in gcc clang g++; do
	for level in -O0 -O1 -O2 -O3; do
		command -v $compiler >/dev/null && compare $compiler $level
	done
done
if [ $compiled -gt 0 ]; then
	[ "$(wc -l <"$tmp/prints")" = $compiled ] && [ "$(sort -u "$tmp/prints" | wc -l)" = 1 ]
	ok "compilers_and_levels_change_no_fingerprint" $?
	echo "# $compiled builds"
else
	skip "compilers_and_levels_change_no_fingerprint" "a compiler"
fi

# A program without debug information on its host: the receiver has it, by the build ID.
debug=
leave()
{
	[ -z "$debug" ] || rm -f "$debug"
	finish
}
trap leave EXIT
stripped_finding()
{
	mkdir -p "$tmp/host" "$tmp/debug" "$tmp/stripped"
	cp "$victims/patrolled" "$tmp/debug/patrolled"
	objcopy --only-keep-debug "$tmp/debug/patrolled" "$tmp/debug/patrolled.debug" &&
		objcopy --strip-all "$tmp/debug/patrolled" "$tmp/host/patrolled" || return
	rm "$tmp/debug/patrolled"
	id=$(readelf -n "$tmp/host/patrolled" | sed -n 's/.*Build ID: //p')
	timeout -s INT 20 "$trapline" heap --first 1000 --for 1s --json -- "$tmp/host/patrolled" wrong 2>/dev/null |
		jq -c --arg id "$id" --arg program "$tmp/host/patrolled" 'select(.kind == "use-after-free") |
			{id: "s", host: "h", time: "2026-11-28T00:00:00Z", program: $program, build_id: $id} + .' >"$tmp/stripped/one.jsonl"
	[ -s "$tmp/stripped/one.jsonl" ] && jq -e '.first.file == null' "$tmp/stripped/one.jsonl" >/dev/null
}
folder=$tmp/stripped
if command -v objcopy >/dev/null && stripped_finding; then
	named='.[0] | .function == "handle_request" and (.file | test("patrolled.c$")) and .line > 0'
	bugs --as json
	rows '.[0] | .file == null and (.frames == null) and (.frames_of == null)'
	ok "without_the_debug_file_a_bug_has_no_line" $?
	if [ "$(id -u)" = 0 ] && [ ! -e "/usr/lib/debug/.build-id/$(echo "$id" | cut -c1-2)/${id#??}.debug" ]; then
		debug=/usr/lib/debug/.build-id/$(echo "$id" | cut -c1-2)/${id#??}.debug
		mkdir -p "${debug%/*}"
		cp "$tmp/debug/patrolled.debug" "$debug"
		bugs --as json
		rows "$named"
		ok "a_debug_file_names_function_and_line" $?
		rm "$debug"
		rmdir "${debug%/*}" 2>/dev/null
		debug=
	else
		skip "a_debug_file_names_function_and_line" "root"
	fi
	jq -c '.build_id = "../../../../etc/passwd"' "$tmp/stripped/one.jsonl" >"$tmp/evil"
	jq -c '.build_id = "zz" | .first.stack = 3' "$tmp/stripped/one.jsonl" >>"$tmp/evil"
	"$trapline" report --from "$tmp/evil" --as json >"$tmp/out" 2>"$tmp/err"
	rows 'length == 1 and .[0].file == null'
	ok "a_build_id_that_is_none_opens_no_file" $?
	if command -v debuginfod >/dev/null; then
		port=$((20000 + $$ % 20000))
		debuginfod -F -p $port -d :memory: "$tmp/debug" >"$tmp/debuginfod" 2>&1 &
		started="$started $!"
		chmod 755 "$tmp" "$tmp/stripped"
		chmod 644 "$tmp/stripped/one.jsonl"
		has_it()
		{
			curl -sf -o /dev/null "http://127.0.0.1:$port/buildid/$id/debuginfo"
		}
		# asked USER: what the report of a user gives, with the server.
		asked()
		{
			mkdir -p "$tmp/cache$1"
			[ "$1" = 0 ] || chown "$1" "$tmp/cache$1"
			setpriv --reuid="$1" --clear-groups env DEBUGINFOD_URLS="http://127.0.0.1:$port" DEBUGINFOD_CACHE_PATH="$tmp/cache$1" \
				"$trapline" report --from "$folder" --as json >"$tmp/out" 2>"$tmp/err"
		}
		if [ "$(id -u)" = 0 ]; then
			eventually has_it && asked "$(id -u nobody)" && rows "$named"
			ok "a_server_names_function_and_line" $?
			asked 0 && rows '.[0].file == null'
			ok "root_asks_no_server" $?
		fi
	else
		skip "a_server_names_function_and_line" "debuginfod"
	fi
else
	skip "without_the_debug_file_a_bug_has_no_line" "objcopy, or no finding"
fi
folder=$tmp/lines

wrong "a_missing_folder_is_reported" "cannot read $tmp/none: No such file" --from "$tmp/none"
wrong "what_is_not_a_file_is_reported" "cannot read /dev/null: it is not a file$" --from /dev/null
mkdir "$tmp/empty"
wrong "an_empty_folder_is_reported" "$tmp/empty has no file of JSON lines" --from "$tmp/empty"
wrong "from_takes_no_file" "\-\-from takes --since, --as and --output only" --from "$folder" x
wrong "a_form_of_hits_is_refused" "\-\-as folded cannot be combined with --from" --from "$folder" --as folded
wrong "since_is_for_from" "\-\-since needs --from" --since 3h x
if command -v psql >/dev/null; then
	wrong "a_database_that_is_not_there_is_reported" "cannot read the database: psql: error: " --from "postgres:host=$tmp"
else
	wrong "a_database_needs_psql" "psql is missing: install postgresql-client" --from "postgres:host=$tmp"
fi
finished
