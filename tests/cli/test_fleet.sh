#!/bin/sh
# SPDX-License-Identifier: MIT
# test_fleet.sh TRAPLINE VICTIMS SOURCES - planted bugs on many hosts are one row each. TAP.
# FLEET_HOSTS is the number of hosts, 6 if not set. The database is dead for FLEET_DEAD seconds, 5 if
# not set. Needs root, as namespaces do.

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/tap.sh"
sources=$3
hosts=${FLEET_HOSTS:-6}
[ "$(id -u)" = 0 ] || skip_all "a fleet needs root"
need jq ip nsenter psql
fleet=$tmp/fleet
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/fleet.sh"
has_database || skip_all "postgresql is not installed"
leave()
{
	end_fleet
	finish
}
trap leave EXIT
chmod 711 "$tmp"
mkdir -p "$fleet" /run/netns
make_database || skip_all "the database does not start here"

# patient COMMAND...: as eventually, for a number of hosts.
patient()
{
	for _ in $(seq $((40 + hosts * 4))); do
		"$@" >/dev/null 2>&1 && return
		sleep 1
	done
	return 1
}

# The hosts report what they find, and a bug is the same on all of them.
began=$(date +%s)
make_hosts
ok "the_hosts_start" $?

# rows: KIND FUNCTION of each bug. A block that is found damaged when it is freed (grade B) is a row of its
# own, with the function that allocated it, and a double free that libc proves is one without a block.
rows()
{
	sql "SELECT DISTINCT kind || ' ' || function FROM trapline_bugs WHERE type = 'heap' ORDER BY 1"
}
frequent='double-free retry_job
overflow compare_key
overflow parse_header
use-after-free end_session
use-after-free look_up'
all="$frequent
use-after-free abort_job"
is_found()
{
	[ "$(rows | sort)" = "$(echo "$1" | sort)" ]
}
patient is_found "$frequent"
ok "each_frequent_bug_is_one_row" $?
rows | sed 's/^/# /'
echo "# after $(($(date +%s) - began)) s"
ask_once
ok "a_request_is_wrong_once" $?
patient is_found "$all"
ok "what_happens_once_is_one_row" $?
several()
{
	[ "$(sql "SELECT count(DISTINCT function) FROM trapline_bugs WHERE type = 'heap' AND hosts >= $1 AND builds = 1 AND
		function <> 'abort_job'")" = 5 ]
}
patient several $((hosts < 12 ? 2 : hosts / 6))
ok "the_same_bug_on_other_hosts_is_the_same_row" $?
[ "$(sql "SELECT count, hosts FROM trapline_bugs WHERE function = 'abort_job'")" = "1|1" ]
ok "what_happens_once_has_one_host" $?

# The receiver dies.
kill_server
sleep "${FLEET_DEAD:-5}"
waits()
{
	status h1 '.roads[0] | .waiting > 0 and .reason != ""'
}
patient waits
ok "findings_wait_for_a_dead_receiver" $?
start_server
patient sql 'SELECT 1'
stop_hosts
patient has_sent_all
ok "a_new_receiver_gets_them" $?
cat "$fleet"/h*/findings.jsonl* | jq -r .id | sort >"$tmp/sent"
sql 'SELECT id FROM trapline_findings ORDER BY id' | sort >"$tmp/taken"
[ -s "$tmp/sent" ] && cmp -s "$tmp/sent" "$tmp/taken"
ok "nothing_is_lost" $?
counted=$(for i in $(seq "$hosts"); do status "h$i" '.roads | map(.dropped + .refused) | add'; done | jq -s add)
[ "$counted" = 0 ]
ok "nothing_is_counted_as_lost" $?
echo "# $(wc -l <"$tmp/taken") lines of $(sql 'SELECT count(*) FROM trapline_visits') visits"

# The services worked all the time. One of them dies by its own bug.
[ ! -e "$fleet/failed" ] || [ "$(grep -vc '^queued ' "$fleet/failed")" = 0 ]
ok "no_request_failed" $?
"$trapline" report --from "postgres:$connection" >"$tmp/out" 2>"$tmp/err" &&
	[ "$(sed -n 's/^new .* \([a-z_]*\) (fleet_service.c:.*/\1/p' "$tmp/out" | sort -u | wc -l)" = 6 ] &&
	grep -q '^new .* SIGABRT .* retry_job ' "$tmp/out" && [ "$(wc -l <"$tmp/out")" -le 11 ]
ok "the_report_has_the_six_bugs_and_a_death" $?
sed "s,$fleet/,,; s/^/# /" "$tmp/out"

# A target that floods: each finding is another bug.
if [ -x "$victims/fleet_flood" ]; then
	hostile=$((hosts + 1))
	mkdir "$fleet/evil"
	cp "$victims/fleet_flood" "$fleet/flood"
	cat >"$fleet/evil/rules" <<-RULES
		load = 1000
		budget = "50%"
		rule flood {
		  name = {"flood"}
		  for = "2s"
		  every = "1s"
		  overhead = "50%"
		}
		road db { kind = postgres
		  to = "$connection"
		  values = yes
		  room = "256K" }
	RULES
	make_host evil $hostile "$fleet/flood flood"
	flooded()
	{
		status evil '.visits.heap.time > 0 and .findings_lost > 0 and (.roads[0] | .dropped > 0 and .waiting_bytes <= 262144)'
	}
	patient flooded
	ok "a_flood_is_counted" $?
	"$trapline" patrol stop --state "$fleet/evil/state" >/dev/null 2>&1
	drained()
	{
		status evil '.roads[0].waiting == 0'
	}
	patient drained
	limit=$(($(status evil '[.visits[][]] | add') * 1001))
	lines=$(sql "SELECT count(*) FROM trapline_findings WHERE line->>'host' = 'evil'")
	bytes=$(sql "SELECT sum(length(line::text)) FROM trapline_findings WHERE line->>'host' = 'evil'")
	[ "$lines" -gt 0 ] && [ "$lines" -le $limit ]
	ok "its_rows_are_bounded" $?
	[ "$bytes" -lt $((limit * 20000)) ]
	ok "its_bytes_are_bounded" $?
	status evil '.spent_percent < 60' >/dev/null
	ok "its_cpu_time_is_bounded" $?
	echo "# $lines rows, $bytes bytes, $(status evil '.findings_lost, .roads[0].dropped, .spent_percent' | paste -sd ' ')" \
		"lost, dropped, percent"
	is_found_still()
	{
		[ "$(sql "SELECT count(DISTINCT function) FROM trapline_bugs WHERE function IN ('look_up', 'parse_header', 'retry_job',
			'end_session', 'compare_key', 'abort_job') AND type = 'heap'")" = 6 ]
	}
	is_found_still
	ok "the_rows_of_the_others_stay" $?
else
	skip "a_flood_is_counted" "x86-64"
fi
finished
