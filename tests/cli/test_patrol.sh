#!/bin/sh
# SPDX-License-Identifier: MIT
# test_patrol.sh TRAPLINE VICTIMS SOURCES - a patrol from process to process, and its roads. TAP.
# Needs root, as heap -p of other users' processes and uprobes do.

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/tap.sh"
sources=$3
[ "$(id -u)" = 0 ] || skip_all "a patrol needs root"
need jq python3 curl
command=patrol
rules=$tmp/rules
state=$tmp/state
wrong=pw$$
right=pr$$
patrol=
cp "$victims/patrolled" "$tmp/$wrong"
cp "$victims/patrolled" "$tmp/$right"

# run NAME [ARG]: its pid in $pid.
run()
{
	"$tmp/$1" ${2:+"$2"} >/dev/null 2>&1 &
	pid=$!
	started="$started $pid"
	eventually runs "$pid" "$1"
}

# patrol [LINE...]: with a state of its own and the rules on standard input, after these settings.
patrol()
{
	{
		printf 'load = 1000\nbudget = "50%%"\nstate = "%s"\n' "$state"
		cat
	} >"$rules"
	"$trapline" patrol "$rules" 2>"$tmp/err" >"$tmp/out" &
	patrol=$!
	started="$started $patrol"
}

end()
{
	kill -TERM "$patrol" 2>/dev/null
	wait "$patrol" 2>/dev/null
}

# again: the rules of the last patrol, for the next one.
again()
{
	tail -n +4 "$rules" >"$tmp/again"
}

anew()
{
	end
	rm -rf "$state"
}

# is EXPRESSION: holds for the status.
is()
{
	"$trapline" patrol status --json --state "$state" 2>/dev/null | jq -e "$1" >/dev/null
}

# visits EXPRESSION: holds for the array of the lines of the log.
visits()
{
	jq -e -s "$1" "$state/patrol.jsonl" >/dev/null 2>&1
}

# a_visit_begins: waits for the next one, which is not at its end then.
a_visit_begins()
{
	begun=$(jq -s 'map(select(.event == "begin")) | length' "$state/patrol.jsonl" 2>/dev/null)
	eventually visits "(map(select(.event == \"begin\")) | length) > ${begun:-0}"
}

# findings EXPRESSION: holds for the array of the findings in the file.
findings()
{
	cat "$tmp"/findings* 2>/dev/null | jq -e -s "map(select(.type != \"visit\")) | $1" >/dev/null
}

# no_child PID: no tool works there.
no_child()
{
	! ps -e -o args= | grep -q "^trapline heap --pid=$1 "
}

# --- visits ---

run $wrong wrong
wrong_pid=$pid
run $right
right_pid=$pid
patrol <<END
rule services {
  name = {"$wrong", "$right"}
  tool = {heap}
  for = "2s"
  every = "4s"
}
rule nothing { name = {"no-such-name"} }
road file { to = "$tmp/findings" }
road prometheus { to = "$tmp/metrics.prom" }
END
eventually visits 'map(select(.event == "end")) | length >= 4'
ok "processes_are_visited" $?
grep -q '^trapline patrol: note: rule nothing fits no process now: it waits for one$' "$tmp/err"
ok "a_rule_that_fits_nothing_is_reported" $?
visits "[range(0; length) as \$i | .[\$i] | select(.event == \"begin\")] |
	all(.tool == \"heap\" and .rule == \"services\") and
	(map(.pid) | .[0:2] | sort) == ([$wrong_pid, $right_pid] | sort) and .[2].pid == .[0].pid"
ok "no_process_comes_twice_before_the_other" $?
visits '[.[].event] as $e | all(range(0; $e | length); $e[.] == (if . % 2 == 0 then "begin" else "end" end))'
ok "one_visit_at_a_time" $?
eventually findings "length > 0 and all(.type == \"heap\" and .kind == \"use-after-free\" and .pid == $wrong_pid and
	.first.function == \"handle_request\" and .rule == \"services\" and .program == \"$tmp/$wrong\" and
	(.build_id | length) == 40 and (.host | length) > 0 and (.time | test(\"^20.*Z\$\")) and
	(.fingerprint | length) == 16) and (map(.id) | unique | length) == length"
ok "a_finding_names_host_rule_program_and_build" $?
is '.is_running and (.is_stopped | not) and .visits.heap.time > 0 and .found[0].kind == "use-after-free" and
	.spent_percent > 0 and .spent_percent <= 55 and (.rules | map(.processes)) == [2, 0] and .cpu_seconds > 0'
ok "the_status_has_visits_findings_and_cost" $?
# A finding may be on its way to the file at this moment.
reads_well()
{
	"$trapline" patrol status --state "$state" >"$tmp/out" && grep -q '^rule services: 2 processes$' "$tmp/out" &&
		grep -q '^findings: [0-9]* heap use-after-free$' "$tmp/out" &&
		grep -q '^road file: [0-9]* sent, 0 waiting' "$tmp/out"
}
eventually reads_well
ok "the_status_for_people" $?
eventually grep -q '^trapline_findings_total{type="heap",kind="use-after-free"} [1-9]' "$tmp/metrics.prom" &&
	! [ -e "$tmp/metrics.prom.new" ]
ok "metrics_are_written" $?
if command -v prometheus-node-exporter >/dev/null; then
	mkdir "$tmp/textfile" && cp "$tmp/metrics.prom" "$tmp/textfile"
	port=$((20000 + $$ % 20000))
	prometheus-node-exporter --collector.disable-defaults --collector.textfile \
		--collector.textfile.directory="$tmp/textfile" --web.listen-address="127.0.0.1:$port" >"$tmp/exporter" 2>&1 &
	exporter=$!
	started="$started $exporter"
	exported()
	{
		curl -s "http://127.0.0.1:$port/metrics" | tee "$tmp/exported" | grep -q '^trapline_visits_total{end="time",tool="heap"}'
	}
	eventually exported && grep -q '^node_textfile_scrape_error 0' "$tmp/exported"
	ok "the_exporter_of_prometheus_reads_them" $?
	kill $exporter
else
	skip "the_exporter_of_prometheus_reads_them" "prometheus-node-exporter"
fi

# --- stop ---

a_visit_begins
"$trapline" patrol stop --state "$state" >"$tmp/out" 2>&1 && [ "$(cat "$tmp/out")" = stopped ] &&
	is '.visiting == null and .is_stopped' && no_child "$wrong_pid" && no_child "$right_pid"
ok "a_stop_ends_the_visit" $?
visits '[.[] | select(.end == "stop")] | length == 1' && kill -0 "$wrong_pid" && kill -0 "$right_pid"
ok "the_log_has_the_stop_and_the_processes_live" $?
sleep 5
visits '.[-1].end == "stop"'
ok "no_visit_begins_until_it_is_resumed" $?
"$trapline" patrol resume --state "$state" && eventually visits '.[-1].end != "stop"'
ok "a_resume_permits_visits" $?
watch "$rules"
[ $? = 2 ] && grep -q "^trapline patrol: another patrol runs with the state $state; " "$tmp/err"
ok "a_second_patrol_is_refused" $?

# --- killed ---

a_visit_begins
kill -KILL "$patrol"
wait "$patrol" 2>/dev/null
eventually no_child "$wrong_pid" && eventually no_child "$right_pid" && kill -0 "$wrong_pid" && kill -0 "$right_pid"
ok "a_killed_patrol_leaves_the_processes" $?
before=$(jq -r .visit "$state/patrol.jsonl" | tail -n 1)
patrol <<END
rule services {
  name = {"$wrong", "$right"}
  for = "1s"
  every = "1s"
}
road file { to = "$tmp/findings" }
END
eventually visits "map(select(.event == \"end\" and .visit > $before)) | length > 1" && is '.visits.heap.time > 1'
ok "the_next_patrol_continues" $?
findings '(map(.id) | unique | length) == length'
ok "ids_are_unique_over_restarts" $?
if [ -s /etc/machine-id ]; then
	! grep -rqF "$(cat /etc/machine-id)" "$state" "$tmp"/findings*
	ok "the_id_of_the_machine_is_written_nowhere" $?
else
	skip "the_id_of_the_machine_is_written_nowhere" "/etc/machine-id"
fi
anew

# --- what ends or refuses a visit ---

run $right
short_pid=$pid
patrol <<END
rule one { name = {"$right"}
  for = "60s" }
END
a_visit_begins
[ "$(is ".visiting.pid == $short_pid" && echo yes)" = yes ] || kill "$right_pid"
kill "$(jq -r .visiting.pid "$state/state.json")"
eventually visits 'any(.end == "target" and .reason == null)'
ok "a_process_that_ends_is_no_failure" $?
anew
kill "$short_pid" "$right_pid" 2>/dev/null
cat >"$tmp/filtered.py" <<'END'
import ctypes, sys, time
libc = ctypes.CDLL(None, use_errno=True)
class filter(ctypes.Structure): _fields_ = [('code', ctypes.c_ushort), ('jt', ctypes.c_ubyte), ('jf', ctypes.c_ubyte), ('k', ctypes.c_uint)]
class program(ctypes.Structure): _fields_ = [('len', ctypes.c_ushort), ('filter', ctypes.POINTER(filter))]
allow = filter(6, 0, 0, 0x7fff0000)
libc.prctl(38, 1, 0, 0, 0)
libc.prctl(15, sys.argv[1].encode(), 0, 0, 0)
assert libc.prctl(22, 2, ctypes.byref(program(1, ctypes.pointer(allow))), 0, 0) == 0
time.sleep(1000)
END
python3 "$tmp/filtered.py" "pf$$" &
filtered=$!
started="$started $filtered"
eventually grep -q "^pf$$" "/proc/$filtered/comm"
patrol <<END
rule one { name = {"pf$$"}
  for = "1s" 
  every = "1s" }
END
eventually visits 'any(.end == "refused" and (.reason | test("seccomp")))'
ok "a_refusal_has_its_reason" $?
sleep 4
visits '[.[] | select(.event == "end")] | length == 1' && is '.seen.refusals[0] | .tool == "heap" and (.reason | test("seccomp"))'
ok "what_refuses_is_not_asked_again_at_once" $?
"$trapline" patrol status --state "$state" | grep -q ' refuses heap: .*seccomp'
ok "the_status_lists_it" $?
anew
kill $filtered

run $right
right_pid=$pid
patrol <<END
load = 0.0
rule one { name = {"$right"} }
END
eventually is '.idle == "the load is high"' && [ ! -s "$state/patrol.jsonl" ]
ok "no_visit_while_the_load_is_high" $?
anew
patrol <<END
budget = "0.001%"
rule one { name = {"$right"} }
END
eventually is '.idle == "the budget is used up for now"' && [ ! -s "$state/patrol.jsonl" ]
ok "no_visit_without_budget" $?
anew
hours=$(date -d '+3 hours' +%H:%M)-$(date -d '+4 hours' +%H:%M)
patrol <<END
rule one { name = {"$right"}
  hours = "$hours" }
rule other { name = {"$wrong"}
  hours = "00:00-24:00" 
  for = "1s" }
END
eventually visits "any(.pid == $wrong_pid) and all(.pid != $right_pid)" && is '.rules[0].processes == 1'
ok "no_visit_outside_of_its_hours" $?
anew

# --- points ---

if [ -r /sys/bus/event_source/devices/uprobe/type ]; then
	patrol <<END
rule one { name = {"$right"}
  tool = {points}
  point = {"handle_request request {number}"}
  for = "2s" }
road file { to = "$tmp/points" }
road hidden { kind = otlp
  to = "http://127.0.0.1:9/v1/logs" }
END
	eventually visits 'any(.end == "time")' && eventually is '.roads[0].waiting == 0' &&
		jq -e -s 'map(select(.type != "visit")) | length > 0 and length <= 1000 and all(.type == "hit" and (.printed | test("^request [0-9]+$")))' \
			"$tmp/points" >/dev/null
	ok "points_are_hit" $?
	grep -q '"printed":"<redacted>"' "$state/hidden.spool" && ! grep -q 'request [0-9]' "$state/hidden.spool"
	ok "no_value_waits_for_another_machine" $?
	anew

	# By name, on each road, where the values are sent too.
	patrol <<END
hide = {"PASS*", "token"}
rule one { name = {"$wrong"}
  tool = {points}
  point = {"log_in", "log_in {name} {passphrase}", "log_in {name} {*session}", "log_in {name} {session->number}"}
  for = "1s"
  every = "1s" }
road file { to = "$tmp/hidden" }
road db { kind = postgres
  to = "host=$tmp/none dbname=none"
  values = yes }
END
	eventually visits 'map(select(.end == "time")) | length > 3'
	end
	# Both have all that was found.
	cat "$tmp"/hidden* "$state/db.spool" >"$tmp/all"
	jq -e -s 'map(select(.args != null)) | length > 1 and all(.args.name.string == "alice" and .args.passphrase == "<redacted>" and
		(.args.session.pointer | test("^0x")))' "$tmp/all" >/dev/null
	ok "an_argument_is_hidden_by_its_name" $?
	jq -e -s '[.[].printed | strings] | (map(select(. == "<redacted>")) | length) > 3 and
		any(test("\"alice\" 7$")) and all(. == "<redacted>" or test("\"alice\" 7$"))' "$tmp/all" >/dev/null
	ok "what_prints_it_is_hidden_and_other_values_are_not" $?
	! grep -q 'hunter2\|s3cret' "$tmp/all" "$state/patrol.jsonl" "$state/state.json"
	ok "the_value_is_in_no_file" $?
	anew
else
	for name in points_are_hit no_value_waits_for_another_machine an_argument_is_hidden_by_its_name \
		what_prints_it_is_hidden_and_other_values_are_not the_value_is_in_no_file; do
		skip $name "uprobes"
	done
fi

# --- as the unit restricts it ---

unit=$sources/cli/patrol/trapline-patrol.service.in
bounds=$(sed -n 's/^CapabilityBoundingSet=//p' "$unit" | tr 'A-Z ' 'a-z,' | sed 's/cap_/+/g')
# As MemoryDenyWriteExecute= does, in a kernel that has it.
cat >"$tmp/restricted.py" <<'END'
import ctypes, os, sys
ctypes.CDLL(None).prctl(65, 1, 0, 0, 0)
os.execv(sys.argv[1], sys.argv[1:])
END
printf '#!/bin/sh\nexec setpriv --no-new-privs --inh-caps=-all --bounding-set=-all,%s python3 %s %s "$@"\n' \
	"$bounds" "$tmp/restricted.py" "$trapline" >"$tmp/restricted"
chmod +x "$tmp/restricted"
unrestricted=$trapline
trapline=$tmp/restricted
owned=$(id -u nobody)
chmod 755 "$tmp"
setpriv --reuid="$owned" --clear-groups "$tmp/$wrong" wrong &
other_pid=$!
started="$started $other_pid"
patrol <<END
rule one { user = {"nobody"}
  name = {"$wrong"}
  tool = {heap, points}
  point = {"handle_request request {number}"}
  for = "1s"
  every = "1s" }
road file { to = "$tmp/restricted-findings" }
END
trapline=$unrestricted
eventually visits 'any(.tool == "heap" and .end == "time") and any(.tool == "points" and .end == "time") and
	all(.end != "failed" and .end != "refused")' &&
	jq -e -s "any(.kind == \"use-after-free\" and .pid == $other_pid) and any(.type == \"hit\")" \
		"$tmp/restricted-findings" >/dev/null
ok "the_rights_of_the_unit_are_enough" $?
anew
kill "$other_pid"
if command -v systemd-analyze >/dev/null; then
	sed 's,@bindir@,/usr/bin,' "$unit" >"$tmp/trapline-patrol.service"
	systemd-analyze security --offline=true --threshold=50 --no-pager "$tmp/trapline-patrol.service" >"$tmp/out" 2>"$tmp/err"
	ok "systemd_analyze_finds_the_unit_ok" $?
else
	skip "systemd_analyze_finds_the_unit_ok" "systemd-analyze"
fi

# --- roads ---

# A collector of OTLP: codes in $tmp/code, what it took in $tmp/otlp.
port=$((40000 + $$ % 20000))
collect()
{
	echo "$1" >"$tmp/code"
	python3 "$sources/tests/cli/collector.py" $port "$tmp" >"$tmp/collector" 2>&1 &
	collector=$!
	started="$started $collector"
}
# otlp EXPRESSION: holds for the array of what the collector took.
otlp()
{
	jq -e -s "map(select(.[\"trapline.type\"] != \"visit\")) | $1" "$tmp/otlp" >/dev/null 2>&1
}
patrol <<END
rule one { name = {"$wrong"}
  for = "1s" 
  every = "1s" }
road collector { kind = otlp
  to = "http://127.0.0.1:$port/v1/logs" }
END
eventually is '.roads[0] | .waiting > 0 and .sent == 0 and (.reason | test("onnect"))' &&
	[ "$(grep -c 'road collector: ' "$tmp/err")" = 1 ]
ok "a_collector_that_is_not_there_is_one_line" $?
collect 503
eventually is '.roads[0].reason | test("answered with HTTP status 503$")' && is '.roads[0].refused == 0'
ok "one_that_is_too_busy_is_asked_again" $?
echo 200 >"$tmp/code"
eventually is '.roads[0] | .waiting == 0 and .sent > 0 and .reason == ""' &&
	otlp 'length > 0 and all(.["trapline.kind"] == "use-after-free" and .["code.function.name"] == "handle_request" and
		(.["trapline.finding"] | fromjson | .type == "heap"))'
ok "it_gets_all_when_it_takes" $?
[ "$(is ".roads[0].sent == $(jq -s length "$tmp/otlp")" && echo yes)" = yes ] &&
	otlp '(map(.["trapline.id"]) | unique | length) == length'
ok "nothing_is_sent_twice" $?
echo 0 >"$tmp/code"
before=$(jq -s 'map(select(.event == "end")) | length' "$state/patrol.jsonl")
eventually visits "map(select(.event == \"end\")) | length > $before + 2"
ok "a_collector_that_does_not_answer_delays_no_visit" $?
end
kill -KILL $collector
sent=$(jq -s 'map(select(.["trapline.type"] != "visit")) | length' "$tmp/otlp")
collect 200
again
patrol <"$tmp/again"
eventually is '.roads[0].waiting == 0' && eventually otlp "length > $sent and
	(map(.[\"trapline.id\"]) | unique | length) == length"
ok "what_waited_is_sent_by_the_next_patrol" $?
kill -KILL $collector
anew

# A spool that is full: the fingerprint that is there most often gives way.
mkdir -m 700 "$state"
python3 - "$state/full.spool" <<'END'
import json, sys
with open(sys.argv[1], 'w') as f:
    for i in range(600):
        f.write(json.dumps({'id': f'i{i}', 'time': '2026-11-28T00:00:00.000Z', 'type': 'heap', 'kind': 'overflow',
            'fingerprint': 'often' if i != 3 else 'once', 'text': 'x' * 200}) + '\n')
END
patrol <<END
rule one { name = {"no-such-name"} }
road full { kind = otlp
  to = "http://127.0.0.1:9/"
  room = "64K" }
END
eventually is '.roads[0] | .dropped > 100 and .dropped + .waiting == 600 and .waiting_bytes <= 65536'
ok "a_full_spool_counts_what_it_drops" $?
# The file is written again after the counters.
is_small()
{
	[ "$(stat -c %s "$state/full.spool")" -lt 80000 ]
}
eventually is_small && grep -q '"fingerprint":"once"' "$state/full.spool" &&
	! grep -q '"id":"i0"' "$state/full.spool" && grep -q '"id":"i599"' "$state/full.spool"
ok "what_was_seen_once_stays" $?
anew

if [ -x /usr/lib/systemd/systemd-journald ] && [ -s /etc/machine-id ] && command -v journalctl >/dev/null; then
	/usr/lib/systemd/systemd-journald "$wrong" >"$tmp/journald" 2>&1 &
	journald=$!
	started="$started $journald"
	eventually test -S "/run/systemd/journal.$wrong/socket"
	patrol <<-END
		rule one { name = {"$wrong"}
		  for = "1s" 
		  every = "1s" }
		road journal { to = "journal:$wrong" }
	END
	in_journal()
	{
		journalctl --namespace="$wrong" -o json 2>/dev/null |
			jq -e -s "map(select(.TRAPLINE_KIND == \"use-after-free\" and .TRAPLINE_FUNCTION == \"handle_request\" and
				.TRAPLINE_PID == \"$wrong_pid\" and (.TRAPLINE_BUILD_ID | length) == 40 and
				(.MESSAGE | test(\"^use-after-free in handle_request .patrolled.c:\")))) | length > 0"
	}
	eventually in_journal
	ok "the_journal_has_the_fields" $?
	anew
	kill $journald
	wait $journald 2>/dev/null
	rm -rf "/run/systemd/journal.$wrong" /var/log/journal/*."$wrong" /run/log/journal/*."$wrong"
else
	skip "the_journal_has_the_fields" "systemd-journald"
fi

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/postgres.sh"
if has_database; then
	mkdir "$tmp/pg" && chmod 711 "$tmp" && chown postgres "$tmp/pg"
	make_data "$tmp/pg/data" >"$tmp/initdb" 2>&1
	as_postgres "$postgres" -D "$tmp/pg/data" -k "$tmp/pg" -h '' >"$tmp/postgres" 2>&1 &
	server=$!
	started="$started $server"
	sql()
	{
		psql -qAt -h "$tmp/pg" -U postgres postgres -c "$1" 2>/dev/null
	}
	eventually sql 'SELECT 1'
	patrol <<-END
		rule one { name = {"$wrong"}
		  for = "1s" 
		  every = "1s" }
		road db { kind = postgres
		  to = "host=$tmp/pg user=postgres dbname=postgres" }
	END
	eventually is '.roads[0] | .waiting > 0 and (.reason | test("table trapline_findings is missing: make it by .psql -f"))'
	ok "a_missing_table_is_one_line_with_the_remedy" $?
	psql -q -v ON_ERROR_STOP=1 -h "$tmp/pg" -U postgres -f "$sources/cli/patrol/patrol.sql" postgres >/dev/null 2>"$tmp/sql"
	ok "the_tables_are_made" $?
	eventually is '.roads[0] | .waiting == 0 and .sent > 2 and .reason == ""'
	# sql_is RESULT QUERY: what the query gives.
	sql_is()
	{
		[ "$(sql "$2")" = "$1" ]
	}
	eventually sql_is 'use-after-free|handle_request|1|1|t' 'SELECT kind, function, hosts, builds, count >= 3 FROM trapline_bugs'
	ok "a_bug_is_one_row" $?
	eventually sql_is t "SELECT count(*) > 2 AND bool_and(tool = 'heap' AND seconds > 0 AND cpu_seconds > 0) FROM trapline_visits"
	ok "a_visit_is_a_row" $?
	rows=$(sql 'SELECT count(*) FROM trapline_bugs') && "$trapline" report --from "postgres:host=$tmp/pg user=postgres dbname=postgres" \
		>"$tmp/out" 2>"$tmp/err" && grep -q "^new    *[0-9a-f]* *use-after-free .* handle_request (patrolled.c:[0-9]*) of $tmp/$wrong\$" "$tmp/out" &&
		tail -n 1 "$tmp/out" | grep -q "^$rows bug of [0-9]* findings\$"
	ok "the_report_reads_the_database" $?
	sql_is 0 "SELECT count(*) FROM trapline_findings WHERE NOT (line ? 'build_id')" &&
		sql_is t 'SELECT count(*) > 2 FROM trapline_seen WHERE seen < now() AND line_number > 0'
	ok "the_members_are_columns" $?
	end
	# As after a crash: some that were sent are there again, and one that no database takes.
	sql 'SELECT line FROM trapline_findings LIMIT 2' >"$state/db.spool"
	twice=$(jq -r .id "$state/db.spool" | paste -sd '|' | sed "s/|/', '/")
	printf '%s\n' '{"id":"nul","type":"heap","fingerprint":"x","text":"a\u0000b"}' \
		'{"id":"tab\\","type":"heap","fingerprint":"y","text":"a\tb\\nc"}' >>"$state/db.spool"
	again
	sed -i 's/name = {.*}/name = {"no-such-name"}/' "$tmp/again"
	patrol <"$tmp/again"
	eventually is '.roads[0] | .waiting == 0 and .refused == 1' &&
		sql_is 3 "SELECT count(*) FROM trapline_findings WHERE id IN ('$twice', 'nul', 'tab\\')" &&
		sql_is "$(printf 'a\tb\\nc')" "SELECT line->>'text' FROM trapline_findings WHERE id = 'tab\\'"
	ok "what_is_sent_twice_is_there_once_and_what_is_refused_is_counted" $?
	anew
	kill $server
	wait $server 2>/dev/null
else
	for name in a_missing_table_is_one_line_with_the_remedy the_tables_are_made a_bug_is_one_row a_visit_is_a_row the_report_reads_the_database the_members_are_columns \
		what_is_sent_twice_is_there_once_and_what_is_refused_is_counted; do
		skip $name "postgresql"
	done
fi

# --- what is given ---

# rule NAME PATTERN TEXT: these rules are refused in one line.
refused()
{
	printf '%s\n' "$3" >"$rules"
	wrong "$1" "$2" check "$rules"
}
wrong "rules_are_needed" 'RULES is missing: '
wrong "a_missing_file_is_reported" "cannot read $tmp/none: No such file" "$tmp/none"
wrong "a_second_argument_is_refused" "unexpected argument 'x'" "$rules" x
wrong "json_is_for_the_status" "\-\-json is for 'trapline patrol status'" --json "$rules"
refused "an_empty_pattern_is_refused" "invalid hide ''" 'hide = {""}
rule x { name = {"y"} }'
printf 'rule x { name = {"y"} }\n' >"$rules"
chmod 666 "$rules"
wrong "rules_that_others_can_write_are_refused" "cannot use $rules: it belongs to another user, or others can write to it; give" check "$rules"
chmod 600 "$rules"
chown nobody "$rules"
wrong "rules_of_another_user_are_refused" "cannot use $rules: it belongs to another user" check "$rules"
rm "$rules"
refused "a_rule_is_needed" "a rule is missing" 'budget = "1%"'
refused "an_unknown_option_has_its_line" "rules:2: no such option 'nam'" 'rule x {
nam = {"y"} }'
refused "a_rule_names_something" "name, user and cgroup are missing" 'rule x { for = "1m" }'
refused "a_wrong_tool_is_refused" "invalid tool 'flow': expected heap, race or points" 'rule x { name = {"y"} tool = {flow} }'
refused "points_need_a_location" "invalid tool 'points': expected locations too" 'rule x { name = {"y"} tool = {points} }'
refused "a_wrong_user_is_refused" "invalid user 'no-such-user'" 'rule x { user = {"no-such-user"} }'
refused "wrong_hours_are_refused" "invalid hours '25:00-26:00': expected HH:MM-HH:MM" 'rule x { name = {"y"} hours = "25:00-26:00" }'
refused "a_wrong_time_is_refused" "invalid for 'long'" 'rule x { name = {"y"} for = "long" }'
refused "a_wrong_budget_is_refused" "invalid budget '200%'" 'budget = "200%"
rule x { name = {"y"} }'
refused "a_wrong_road_is_refused" "invalid kind 'kafka': expected journal, otlp" 'rule x { name = {"y"} }
road kafka { }'
refused "a_road_needs_its_receiver" "invalid to '': expected a URL" 'rule x { name = {"y"} }
road otlp { }'
refused "a_password_in_the_rules_is_refused" "invalid to .*~/.pgpass" 'rule x { name = {"y"} }
road postgres { to = "host=db password=x" }'
"$trapline" patrol check "$sources/cli/patrol/patrol.conf" >"$tmp/out" 2>"$tmp/err" && [ ! -s "$tmp/err" ] &&
	grep -q '^rule servers: [0-9]* process' "$tmp/out"
ok "the_example_is_right" $?
watch status --state "$tmp/none"
[ $? = 1 ] && grep -q "^trapline patrol: no patrol has run with the state $tmp/none; start it with" "$tmp/err"
ok "a_status_without_a_patrol" $?
finished
