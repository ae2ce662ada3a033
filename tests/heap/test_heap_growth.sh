#!/bin/sh
# SPDX-License-Identifier: MIT
# test_heap_growth.sh TRAPLINE VICTIMS - `trapline heap --growth`: what stays in use is estimated within its error,
# and what does not grow is not said to. TAP.

# shellcheck source=tests/cli/tap.sh disable=SC1091,SC2154 # trapline, victims and tmp are of there
. "$(dirname "$0")/../cli/tap.sh"
need jq python3
victim=$victims/heap_growth

# growth ARG...: of trapline heap --growth, with many samples, since the programs are short; the report in $tmp/report,
# the program's words in $tmp/out.
growth()
{
	rm -f "$tmp/report"
	timeout -k 2 100 "$trapline" heap --growth --overhead 50 -o "$tmp/report" "$@" >"$tmp/out" 2>"$tmp/err"
}

# rows EXPRESSION: of jq, over the rows; $told is what the program printed. Five sigmas are 2.6 times the error.
rows()
{
	jq -e -s --slurpfile told "$tmp/out" "map(select(.type == \"growth\")) | $1" "$tmp/report" >"$tmp/jq" 2>>"$tmp/err"
}

of_leak='map(select(.stack[0].function == "leak"))'
is_near='(.[0] | (.bytes - $told[0].leaked | fabs) <= 2.6 * .bytes_error + 1)'

# Few samples are of a leak of 1 percent where the machine is slow, and few have no Gaussian error.
estimates()
{
	for _ in 1 2 3; do
		growth --json -- "$victim" leaks "$1" &&
			rows "$of_leak | length == 1 and $is_near and .[0].bytes_per_s > 0" && return
	done
	return 1
}

for percent in 1 10 100; do
	estimates $percent
	ok "leaks_${percent}_percent_are_estimated_within_their_error" $?
done
# glibc has 8 bytes more for each block, and those that are sampled are not in it.
rows '(map(.bytes) | add * 112 / 104) as $all | (map(.bytes_error * .bytes_error) | add | sqrt) as $error |
	$told[0].in_use as $in_use | ($all - $in_use | fabs) <= 2.6 * 112 / 104 * $error + $in_use / 50'
ok 'the_sum_is_what_the_allocator_has_in_use' $?
growth --json -- "$victim" leaks 10 && rows 'map(select(.stack[0].function == "cached" and .bytes_per_s > 2.6 * .bytes_per_s_error)) | length == 0'
ok 'a_cache_does_not_grow' $?
growth --json -- "$victim" starts && rows 'map(select(.stack[0].function == "at_start")) | length == 1 and '"$is_near"' and .[0].bytes_per_s == 0'
ok 'what_a_start_allocates_is_in_use_and_does_not_grow' $?
growth --json -- "$victim" frees && rows 'map(select(.stack[0].function == "cached")) | length == 0'
ok 'nothing_is_in_use_where_all_is_freed' $?
growth --json -- "$victim" large && rows "$of_leak | length == 1 and .[0].bytes == 20971520 and .[0].bytes_error == 0 and .[0].blocks == 20"
ok 'large_blocks_are_exact' $?
growth --json -- "$victim" child && rows "$of_leak | (map(.bytes) | add) as \$b | (map(.bytes_error) | add) as \$e |
	(\$b - \$told[0].leaked | fabs) <= 2.6 * \$e"
ok 'a_child_has_its_own_blocks_alone' $?

# ---- formats ----

growth -- "$victim" leaks 10 && grep -q '^in use at the end: [0-9.]* [KM]iB +- [0-9.]* [KM]iB, by [0-9]* stacks*, grows by ' "$tmp/report" &&
	grep -q '^    #0  leak+' "$tmp/report" && grep -q '^trapline heap: [0-9]* blocks sampled in 1 process$' "$tmp/report"
ok 'text' $?
growth --growth-format folded -- "$victim" leaks 10 && grep -q '^in use;.*;leak [0-9]*$' "$tmp/report" &&
	! grep -q 'sampled' "$tmp/report" && grep -q 'blocks sampled' "$tmp/err"
ok 'folded' $?
cat >"$tmp/pprof.py" <<'END'
import sys

def members(data):
    at = 0
    def number():
        nonlocal at
        n = shift = 0
        while True:
            byte = data[at]
            at += 1
            n |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return n
    while at < len(data):
        key = number()
        value = number()
        if key & 7 == 2:
            value, at = data[at:at + value], at + value
        yield key >> 3, value

profile = list(members(open(sys.argv[1], "rb").read()))
strings = [v.decode() for k, v in profile if k == 6]
functions = {dict(members(v))[1]: strings[dict(members(v))[2]] for k, v in profile if k == 5}
lines = {dict(members(v))[1]: functions[dict(members(dict(members(v))[4]))[1]] for k, v in profile if k == 4}
types = [strings[dict(members(v))[1]] for k, v in profile if k == 1]
assert strings[0] == "" and types == ["inuse_objects", "inuse_space", "grown_space"], types
for kind, sample in profile:
    if kind == 2:
        places = [lines[v] for k, v in members(sample) if k == 1]
        values = [v for k, v in members(sample) if k == 2]
        if places and places[0] == "leak":
            print(values[1])
END
growth --growth-format pprof -- "$victim" leaks 10 && python3 "$tmp/pprof.py" "$tmp/report" >"$tmp/bytes" 2>>"$tmp/err" &&
	[ "$(cat "$tmp/bytes")" -gt 8000000 ] && [ "$(cat "$tmp/bytes")" -lt 13000000 ]
ok 'pprof' $?

# ---- a running process ----

"$victim" waits 10 >"$tmp/waits" &
started=$!
sleep 0.5
growth --json --for 2s -p $started && rows "$of_leak | length == 1 and .[0].bytes_per_s > 2.6 * .[0].bytes_per_s_error and .[0].bytes > 0"
ok 'a_running_process' $?
"$trapline" heap --for 200ms -p $started >"$tmp/out" 2>"$tmp/err"
[ $? != 0 ] && [ "$(wc -l <"$tmp/err")" = 1 ] && kill -0 $started
ok 'and_then_its_errors_are_refused_in_one_line' $?

# ---- refused ----

refused()
{
	why=$1
	shift
	"$trapline" heap "$@" -- /bin/true >"$tmp/out" 2>"$tmp/err"
	[ $? = 2 ] && grep -q "$why" "$tmp/err"
	ok "refused: $*" $?
}
refused 'omit --first' --growth --first 3
refused 'omit --stop' --growth --stop
refused 'needs --growth' --growth-format pprof
refused "invalid --growth-format 'svg': expected text, folded or pprof" --growth --growth-format svg
refused 'exclude each other' --growth --json --growth-format folded
finished
