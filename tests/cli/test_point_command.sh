#!/bin/sh
# SPDX-License-Identifier: MIT
# test_point_command.sh TRAPLINE VICTIMS - points that outlive the terminal: trapline point. TAP.
# Needs root: uprobes are for it alone.

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/tap.sh"
need_uprobes
need jq python3
command=point
state=$tmp/state
called=pt$$
collector=

# point ACTION ARG...: with the folder of this test.
point()
{
	timeout -k 2 60 "$trapline" point "$@" --state "$state" >"$tmp/out" 2>"$tmp/err"
}

# add ARG...: its ID in $id.
add()
{
	point add --name "$called" "$@" && id=$(cat "$tmp/out")
}

# The lock of the collector is taken.
is_served()
{
	! "$trapline" point list --state "$state" 2>&1 | grep -q 'no collector runs'
}

serve()
{
	"$trapline" point serve --state "$state" "$@" 2>>"$tmp/serve" &
	collector=$!
	started="$started $collector"
	eventually is_served
}

# is ID EXPRESSION: holds for the point in the list.
is()
{
	"$trapline" point list --json --state "$state" 2>/dev/null |
		jq -e -s "map(select(.id == $1)) | length == 1 and (.[0] | $2)" >/dev/null
}

gone()
{
	"$trapline" point list --json --state "$state" 2>/dev/null |
		jq -e -s "map(select(.id == $1)) | length == 0" >/dev/null
}

# lines ID EXPRESSION: holds for the array of the hits of the point.
lines()
{
	cat "$state"/hits.jsonl* 2>/dev/null | jq -e -s "map(select(.point == $1 and .type == \"hit\")) | $2" >/dev/null
}

# run: the program, under the name of this test; its pid in $pid.
run()
{
	"$tmp/$called" 100000000 "${1:-10000}" >/dev/null 2>&1 &
	pid=$!
	started="$started $pid"
	eventually runs "$pid" "$called"
}

stop()
{
	kill -KILL "$1" 2>/dev/null
	wait "$1" 2>/dev/null
}

observers()
{
	ps -e -o pid= -o args= | awk -v name="--name=$called" '$2 == "trapline" && $3 == "break" && $5 == name { print $1 }'
}

no_observers()
{
	[ -z "$(observers)" ]
}

cat >"$tmp/as_in_file.py" <<'END'
import sys
pid, path = sys.argv[1:]
rows = [row.split() for row in open(f'/proc/{pid}/maps')]
row = next(r for r in rows if 'x' in r[1] and len(r) > 5)
start, end = (int(x, 16) for x in row[0].split('-'))
with open(f'/proc/{pid}/mem', 'rb') as mem, open(path, 'rb') as file:
    mem.seek(start)
    file.seek(int(row[2], 16))
    code = file.read(end - start)
    sys.exit(mem.read(len(code)) != code)
END

# as_in_file PID: the code of the program is that of its file.
as_in_file()
{
	python3 "$tmp/as_in_file.py" "$1" "$victims/calls"
}

cp "$victims/calls" "$tmp/$called"

# --- without a collector ---

add lookup 'key {key} n {n}'
[ $? = 0 ] && [ "$id" = 1 ] && [ "$(wc -l <"$tmp/err")" = 1 ] &&
	grep -q "^trapline point: note: no collector runs, .*'trapline point serve --state $state'$" "$tmp/err"
ok "a_point_is_added_and_what_is_missing_is_said" $?
first=$id
point list
[ $? = 0 ] && grep -q "^ *1  $called .* not collected .* lookup$" "$tmp/out"
ok "a_point_without_collector_is_not_collected" $?
[ "$(stat -c %a "$state")" = 700 ] && [ "$(stat -c %a "$state/1.point")" = 600 ]
ok "the_folder_is_for_its_user_alone" $?

# --- a program, and its restarts ---

serve
eventually is "$first" '.state == "waiting"'
ok "a_point_waits_for_a_process_of_its_name" $?
"$trapline" point serve --state "$state" >"$tmp/out" 2>"$tmp/err"
[ $? = 2 ] && grep -q "^trapline point: cannot collect: another 'trapline point serve' does so for $state" "$tmp/err"
ok "a_second_collector_of_a_folder_is_refused" $?

run
eventually is "$first" '.state == "armed" and .processes == 1 and .hits > 5'
ok "it_is_armed_when_one_begins" $?
! as_in_file "$pid"
ok "its_breakpoint_is_in_the_code" $?
eventually lines "$first" "length > 5 and all(.pid == $pid and (.printed | test(\"^key 0x[0-9a-f]+ .* n [0-9]$\")))"
ok "each_line_has_its_point_and_its_text" $?

stop "$pid"
run
eventually lines "$first" "any(.pid == $pid)"
ok "it_stays_armed_when_the_program_is_started_again" $?

stop "$pid"
rm "$tmp/$called"
cp "$victims/calls" "$tmp/$called"
run
eventually lines "$first" "any(.pid == $pid)"
ok "it_is_armed_anew_in_a_program_that_was_replaced" $?

# --- rate, refusals, observers that die ---

add lookup --rate 3/s
limited=$id
add no_such_function
refused=$id
add step_down 'x {no_such_name}'
worse=$id
eventually is "$limited" '.suppressed > 20'
is "$limited" '.hits == .sent + .suppressed + .failed and .sent * 5 < .hits' && is "$first" '.suppressed == 0'
ok "the_rate_limits_the_lines_of_its_point_alone" $?
eventually lines "$limited" 'any(.suppressed > 0) and (map(select(has("printed"))) | length == 0)'
ok "a_line_has_the_number_of_those_left_out_before" $?
eventually is "$refused" '.state == "refused" and (.reason | test("no_such_function"))' &&
	eventually is "$worse" '.state == "refused"'
ok "what_the_program_does_not_have_is_refused_with_the_reason" $?
point list
[ $? = 0 ] && grep -A1 " refused .* no_such_function$" "$tmp/out" | grep -q "^       .*no_such_function"
ok "the_list_has_the_reason" $?

# All points have their answers again before the collector dies.
# shellcheck disable=SC2046 # several processes
kill -KILL $(observers)
eventually is "$first" '.broken >= 1 and .state == "armed"' && eventually is "$limited" '.broken >= 1 and .state == "armed"' &&
	eventually is "$refused" '.state == "refused"' && kill -0 "$pid" && kill -0 $collector
ok "an_observer_that_is_killed_is_replaced" $?

before=$("$trapline" point list --json --state "$state" 2>/dev/null | jq "select(.id == $first) | .hits")
kill -KILL $collector
wait $collector 2>/dev/null
eventually no_observers && kill -0 "$pid" && as_in_file "$pid"
ok "a_collector_that_is_killed_leaves_the_program_as_it_was" $?
point list
[ $? = 0 ] && [ "$(grep -c ' not collected ' "$tmp/out")" = 2 ] && [ "$(grep -c ' refused ' "$tmp/out")" = 2 ]
ok "its_points_are_there" $?
serve
eventually is "$first" ".state == \"armed\" and .hits > $before"
ok "the_next_collector_goes_on_with_their_counts" $?

# --- redaction: the value appears nowhere ---

add lookup 'k {key} n {n} a {arg1}' --args --redact key
redacted=$id
add lookup --args --ret --redact arg1 --redact ret
numbered=$id
add lookup --args --redact keys
misspelt=$id
eventually lines "$redacted" 'length > 5 and all(.args.key == "<redacted>" and (.args.n | type) == "number" and
	(.printed | test("^k <redacted> n [0-9] a <redacted>$")))'
ok "what_is_redacted_by_name_is_not_printed" $?
eventually lines "$numbered" 'length > 5 and all(.args.key == "<redacted>" and .ret == "<redacted>" and .args.t.pointer)'
ok "a_number_is_the_same_argument" $?
cat "$state"/hits.jsonl* | jq -c "select(.point == $redacted or .point == $numbered)" >"$tmp/redacted"
lines "$first" 'any(.printed | test("zebra"))' && ! grep -q -e zebra -e '"string"' -e 'key[0-9]' "$tmp/redacted" &&
	! grep -rq -e zebra "$state"/*.status "$tmp/serve"
ok "the_text_is_nowhere_and_beside_it_is_the_point_without_redaction" $?
eventually is "$misspelt" ".state == \"refused\" and (.reason | test(\"cannot redact 'keys': lookup has no argument\"))"
ok "a_name_that_is_no_argument_is_refused" $?
point remove "$redacted" "$numbered" "$misspelt"

# --- an end ---

point remove "$limited" "$refused" "$worse"
[ $? = 0 ] && ! [ -s "$tmp/err" ] && eventually gone "$limited" && eventually is "$first" '.state == "armed"'
ok "points_are_removed" $?
wrong "a_point_that_is_gone_is_not_removed_again" "there is no point $refused: " remove "$refused" --state "$state"
add lookup --expire 3s
expiring=$id
is "$expiring" '.left_s > 0 and .left_s <= 3'
ok "the_time_until_it_expires_is_listed" $?
eventually gone "$expiring" && grep -q "^trapline point: note: point $expiring has expired, and is removed$" "$tmp/serve" &&
	jq -e -s "map(select(.point == $expiring)) | last | .type == \"point\" and .event == \"expired\"" "$state/hits.jsonl" >/dev/null
ok "a_point_expires_and_it_is_said" $?
is "$first" '.state == "armed"'
ok "a_point_without_expire_does_not" $?

kill -TERM $collector
wait $collector
status=$?
[ $status = 0 ] && eventually no_observers && as_in_file "$pid" && is "$first" '.state == "not collected" and .hits == .sent'
ok "the_collector_ends_by_a_signal" $?
stop "$pid"

# --- several clients at once ---

clients=
for client in 1 2; do
	for _ in $(seq 50); do
		"$trapline" point add --name "none$called" main --state "$state" 2>/dev/null || echo failed
	done >"$tmp/client$client" &
	clients="$clients $!"
done
serve
# shellcheck disable=SC2086 # several processes
wait $clients
[ "$(cat "$tmp/client1" "$tmp/client2" | sort -n | uniq | grep -c '^[0-9]*$')" = 100 ]
ok "two_clients_add_fifty_points_each_at_the_same_time" $?
listed()
{
	[ "$("$trapline" point list --json --state "$state" 2>/dev/null | jq -s 'map(select(.state == "waiting")) | length')" = "$1" ]
}
eventually listed 101
ok "the_collector_has_all_of_them" $?
# shellcheck disable=SC2046 # several points
point remove $(cat "$tmp/client1" "$tmp/client2") "$first"
[ $? = 0 ] && eventually listed 0 && [ -z "$(find "$state" -name '*.point' -o -name '*.status' -o -name '.new*')" ]
ok "nothing_of_them_is_left" $?
add main
[ "$id" -gt 107 ]
ok "an_id_is_not_used_again" $?

# --- what is in the folder is not trusted ---

echo '{"id":900,"name":3}' >"$state/900.point"
echo '{"id":901,"name":"x","location":"--state"}' >"$state/901.point"
head -c 100 /dev/urandom >"$state/902.point"
mkfifo "$state/903.point"
ln -s /etc/hostname "$state/904.point"
eventually is 904 '.state == "refused"'
for number in 900 901 902 903 904; do
	is $number '.state == "refused" and (.reason | test("cannot read"))' || break
done
ok "a_point_that_cannot_be_read_is_refused" $?
kill -0 $collector && is "$id" '.state == "waiting"'
ok "and_the_others_are_collected" $?
point remove 900 901 902 903 904
kill -TERM $collector
wait $collector

# --- receivers ---

serve --file-size 8K --keep 2
add lookup --args
rotated=$id
run 2000
eventually test -f "$state/hits.jsonl.2"
kill -STOP "$pid"
eventually is "$rotated" '.hits > 10 and .hits == .sent'
ok "no_line_is_lost_by_a_new_file" $?
sleep 1
[ ! -e "$state/hits.jsonl.3" ] && for file in "$state"/hits.jsonl*; do
	[ "$(stat -c %s "$file")" -le 8192 ] && jq -e -s 'length > 0' "$file" >/dev/null || break
done
ok "it_begins_by_size_at_the_end_of_a_line" $?
kill -CONT "$pid"
point remove "$rotated"

ln -s "$tmp/elsewhere" "$tmp/link"
add lookup --to "$tmp/link"
eventually is "$id" '.failed > 0 and (.reason | test("cannot write .*/link: "))' && [ ! -e "$tmp/elsewhere" ]
ok "a_link_is_not_followed" $?
point remove "$id"
mkfifo "$tmp/fifo"
add lookup --to "$tmp/fifo"
eventually is "$id" '.failed > 0'
ok "a_pipe_is_not_waited_for" $?
point remove "$id"
mkdir "$tmp/small"
if mount -t tmpfs -o size=16k none "$tmp/small" 2>/dev/null; then
	add lookup --args --to "$tmp/small/lines"
	eventually is "$id" '.failed > 0 and .sent > 5 and (.reason | test("No space left"))' &&
		cat "$tmp"/small/lines* | jq -e -s 'length > 5' >/dev/null
	ok "a_full_disk_is_counted_and_no_line_is_cut" $?
	rm "$tmp"/small/lines*
	sent=$("$trapline" point list --json --state "$state" 2>/dev/null | jq "select(.id == $id) | .sent")
	eventually is "$id" ".sent > $sent"
	ok "lines_are_written_again_when_there_is_room" $?
	point remove "$id"
	umount -l "$tmp/small"
else
	skip "a_full_disk_is_counted_and_no_line_is_cut" "a file system that can be mounted"
fi

# receive FILE: prints the entries of a journal of that name as JSON lines.
cat >"$tmp/receive.py" <<'END'
import json, os, socket, sys
path = sys.argv[1]
os.makedirs(os.path.dirname(path), exist_ok=True)
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(path)
while True:
	data = s.recv(1 << 20)
	entry = {}
	while data:
		name, data = data.split(b'\n', 1)
		if b'=' in name:
			key, value = name.split(b'=', 1)
		else:
			key, size = name, int.from_bytes(data[:8], 'little')
			value, end, data = data[8:8 + size], data[8 + size:9 + size], data[9 + size:]
			assert end == b'\n'
		entry[key.decode()] = value.decode()
	print(json.dumps(entry), flush=True)
END
journal=/run/systemd/journal.$called
receive()
{
	python3 "$tmp/receive.py" "$journal/socket" >>"$tmp/entries" 2>"$tmp/err" &
	receiver=$!
	started="$started $receiver"
}
add lookup 'key {key}' --args --stack --to "journal:$called"
eventually is "$id" '.failed > 3 and .sent == 0 and (.reason | test("cannot write journal:"))'
ok "a_journal_that_is_not_there_is_counted_and_said" $?
receive
eventually is "$id" '.sent > 3 and .reason == ""'
ok "it_is_found_when_it_begins" $?
eventually jq -e -s "length > 3 and all(.TRAPLINE_POINT == \"$id\" and .TRAPLINE_PID == \"$pid\" and
	.TRAPLINE_NAME == \"$called\" and .TRAPLINE_FUNCTION == \"lookup\" and .SYSLOG_IDENTIFIER == \"trapline\" and
	.MESSAGE == .TRAPLINE_PRINTED and (.MESSAGE | test(\"^key 0x\")) and (.TRAPLINE_ARGS | fromjson | has(\"key\")) and
	(.TRAPLINE_STACK | fromjson | length > 1))" "$tmp/entries"
ok "an_entry_has_fields" $?
kill -KILL $receiver
rm -f "$journal/socket"
failed_before=$("$trapline" point list --json --state "$state" 2>/dev/null | jq "select(.id == $id) | .failed")
eventually is "$id" ".failed > $failed_before + 3 and .hits == .sent + .failed" && kill -0 "$pid"
ok "a_journal_that_ends_stops_nothing" $?
rm -rf "$journal"
point remove "$id"

# --- what is given ---

x="--state $state"
# shellcheck disable=SC2086 # several words
{
wrong "an_action_is_needed" 'an action is missing: add, list, remove or serve'
wrong "an_unknown_action_is_refused" "unknown action 'show': expected add" show
wrong "a_name_is_needed" '--name is missing: ' add main $x
wrong "a_location_is_needed" 'LOCATION is missing: ' add --name a $x
wrong "a_point_has_one_location" "unexpected argument 'c': " add --name a main b c $x
wrong "a_wrong_rate_is_refused" "invalid --rate '10/d': expected N/s" add --name a main --rate 10/d $x
wrong "a_rate_of_0_is_refused" "invalid --rate '0'" add --name a main --rate 0 $x
wrong "a_wrong_text_is_refused" "invalid TEXT 'x {': " add --name a main 'x {' $x
wrong "a_wrong_receiver_is_refused" "invalid --to 'journal:../x': " add --name a main --to journal:../x $x
wrong "a_wrong_size_is_refused" "invalid --file-size '8Q': " serve --file-size 8Q $x
wrong "an_option_of_another_action_is_refused" "--rate is for 'trapline point add'" serve --rate 3/s $x
wrong "an_id_is_needed" 'ID is missing: ' remove $x
wrong "what_is_no_id_is_refused" "invalid ID 'x': " remove x $x
wrong "a_folder_that_others_can_write_is_refused" "cannot use /tmp: it belongs to another user, or others can write" list --state /tmp
}
point add --name a main --if 'arg0 =='
[ $? = 2 ] && grep -q '^trapline point: --if, column 8: expected a number' "$tmp/err"
ok "a_wrong_condition_is_refused" $?
point list --json
[ $? = 0 ] && jq -e -s 'length == 1' "$tmp/out" >/dev/null
ok "what_was_refused_is_no_point" $?
finished
