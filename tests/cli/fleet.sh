#!/bin/sh
# SPDX-License-Identifier: MIT
# fleet.sh - a fleet of machines on this one, for test_fleet.sh and scripts/fleet-demo.
#
# A host is a network namespace with a host name, a process table and a machine ID of its own. It
# has two services and a patrol. A bridge leads to PostgreSQL outside of them. Needs root, and
# these variables: trapline, victims, sources, fleet (a folder), hosts (their number).
# shellcheck disable=SC2154

# The range that RFC 2544 keeps for measurements: no network of the machine has it.
net=198.18.$(($$ % 250))
mark=$(($$ % 100000))
bridge=tf$mark
connection="host=$net.254 user=postgres dbname=postgres connect_timeout=3"
roles="cached maild queued sessiond indexd printd"
fleet_pids=
server=

# shellcheck source=tests/cli/postgres.sh
. "$sources/tests/cli/postgres.sh"

# --- the database, which the bridge leads to ---

make_bridge()
{
	ip link add "$bridge" type bridge 2>/dev/null && ip addr add "$net.254/24" dev "$bridge" &&
		ip link set "$bridge" up
}

sql()
{
	psql -qAt "$connection" -c "$1" 2>/dev/null
}

start_server()
{
	# Not by a function: the number is that of the server.
	setpriv --reuid=postgres --regid=postgres --clear-groups env -C / "$postgres" -D "$fleet/pg/data" \
		-k "$fleet/pg" -h "$net.254" -c max_connections=$((hosts + 20)) >>"$fleet/postgres" 2>&1 &
	server=$!
}

# As by kill -9, with a recovery at the next start.
kill_server()
{
	kill -QUIT "$server" 2>/dev/null
	wait "$server" 2>/dev/null
	server=
}

make_database()
{
	make_bridge || return
	chmod 711 "$fleet"
	mkdir "$fleet/pg"
	chown postgres "$fleet/pg"
	make_data "$fleet/pg/data" >"$fleet/initdb" 2>&1 || return
	echo "host all all $net.0/24 trust" >>"$fleet/pg/data/pg_hba.conf"
	start_server
	for _ in $(seq 300); do
		sql 'SELECT 1' >/dev/null && break
		sleep 0.1
	done
	psql -q -v ON_ERROR_STOP=1 "$connection" -f "$sources/cli/patrol/patrol.sql" >/dev/null 2>>"$fleet/initdb"
}

# --- hosts ---

# nth NUMBER WORD...: one of the words, by number.
nth()
{
	at=$(($1 % ($# - 1) + 2))
	eval "echo \"\${$at}\""
}

# rules NUMBER: of the patrol of a host, with its findings in a file of its own too.
rules()
{
	cat <<RULES
load = 1000
budget = "50%"
rule services {
  name = {"cached", "maild", "queued", "sessiond", "indexd"}
  for = "2s"
  every = "1s"
  overhead = "5%"
}
rule printers {
  name = {"printd"}
  for = "30s"
  every = "1s"
  overhead = "100%"
}
road db { kind = postgres
  to = "$connection" }
road file { to = "$fleet/h$1/findings.jsonl" }
RULES
}

# What runs as process 1 of a host. A service that dies is started again, as systemd does.
host_program()
{
	cat <<'HOST'
name=$1 folder=$2 trapline=$3
shift 3
hostname "$name"
cat /proc/sys/kernel/random/uuid | tr -d - >"$folder/machine-id"
[ ! -e /etc/machine-id ] || mount --bind "$folder/machine-id" /etc/machine-id
ip link set lo up
for command; do
	while :; do
		(cd "$folder" && $command)
		sleep 0.5
	done >"$folder/services" 2>&1 &
done
"$trapline" patrol --state "$folder/state" "$folder/rules" 2>"$folder/patrol"
HOST
}

# make_host NAME NUMBER COMMAND...: with the rules in its folder.
make_host()
{
	name=$1
	number=$2
	shift 2
	ip netns add "$bridge-$name" && ip link add "$bridge-$number" type veth peer name eth0 netns "$bridge-$name" &&
		ip link set "$bridge-$number" master "$bridge" up &&
		ip -n "$bridge-$name" addr add "$net.$number/24" dev eth0 && ip -n "$bridge-$name" link set eth0 up || return
	nsenter --net="/run/netns/$bridge-$name" unshare --uts --pid --mount --fork --mount-proc --kill-child \
		sh -c "$(host_program)" host "$name" "$fleet/$name" "$trapline" "$@" >>"$fleet/$name/out" 2>&1 &
	fleet_pids="$fleet_pids $!"
}

# Each service is on two hosts of six, so that a bug is seen on several.
make_hosts()
{
	for role in $roles client; do
		cp "$victims/fleet_service" "$fleet/$role"
	done
	for i in $(seq "$hosts"); do
		mkdir "$fleet/h$i"
		rules "$i" >"$fleet/h$i/rules"
		# shellcheck disable=SC2086 # words
		one=$(nth "$i" $roles) other=$(nth $((i + 1)) $roles)
		make_host "h$i" "$i" "$fleet/$one $one" "$fleet/client $one $fleet/failed" \
			"$fleet/$other $other" "$fleet/client $other $fleet/failed" || return
	done
}

# status NAME EXPRESSION: of the patrol of a host.
status()
{
	# jq 1.6 succeeds without input.
	now=$("$trapline" patrol status --json --state "$fleet/$1/state" 2>/dev/null) && [ -n "$now" ] && echo "$now" | jq -e "$2"
}

# pid_of HOST SERVICE: its number outside of the host.
pid_of()
{
	for pid in $(pgrep -x "$2"); do
		[ "$(readlink "/proc/$pid/ns/net")" != "net:[$(stat -Lc %i "/run/netns/$bridge-$1")]" ] || echo "$pid"
	done
}

# The bug that happens once in the fleet: on the first host that visits a server with it. It has been loaded
# into when its code is in the process. The visit is long enough for what comes then, on a busy machine too.
ask_once()
{
	for _ in $(seq 600); do
		once=$(grep -l '"visiting":{[^}]*/printd"' "$fleet"/h*/state/state.json 2>/dev/null | head -n 1)
		once=${once#"$fleet"/}
		once=${once%%/*}
		printd=$([ -z "$once" ] || pid_of "$once" printd)
		[ -z "$printd" ] || ! grep -qs trapline "/proc/$printd/maps" || break
		sleep 0.1
	done
	sleep 3
	kill -USR1 "$printd"
}

# Each host sent or counted all that it found.
has_sent_all()
{
	for i in $(seq "$hosts"); do
		status "h$i" '.roads[0].waiting == 0' >/dev/null || return
	done
}

stop_hosts()
{
	for i in $(seq "$hosts"); do
		"$trapline" patrol stop --state "$fleet/h$i/state" >/dev/null 2>&1 &
		stops="${stops:-} $!"
	done
	# shellcheck disable=SC2086 # words
	wait $stops
}

end_fleet()
{
	# shellcheck disable=SC2086 # words
	[ -z "$fleet_pids" ] || kill -KILL $fleet_pids 2>/dev/null
	[ -z "$server" ] || kill_server
	for name in $(ip netns list 2>/dev/null | sed -n "s/^\($bridge-[^ ]*\).*/\1/p"); do
		ip netns del "$name"
	done
	ip link del "$bridge" 2>/dev/null
	fleet_pids=
}
