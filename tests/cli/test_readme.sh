#!/bin/sh
# SPDX-License-Identifier: MIT
#
# test_readme SOURCE BUILD - the README's commands, examples and names are right.
#
# Each block of commands is run, except what runs this test (scripts/test) or the same commands on a
# bare machine (scripts/fresh, scripts/check-packages): of these the presence is checked.

# shellcheck source=tests/cli/tap.sh disable=SC2154 # tmp comes from there
. "$(dirname "$0")/tap.sh"
source=$1
build=$2
readme=$source/README.md
: >"$tmp/out"

# block LANGUAGE N: the Nth block of a language.
block() {
	awk -v begin="\`\`\`$1" -v wanted="$2" '
	$0 == "```" { inside = 0 }
	inside && n == wanted
	$0 == begin { inside = 1; n++ }' "$readme"
}

# scene N: what the demo printed from the question of one scene to that of the next.
scene() {
	awk -v wanted="$1" '/^== / { n++ } n == wanted' "$tmp/out"
}

# The output of a scene: between its command and its explanation.
scene_output() {
	scene "$1" | awk '/^\$ / { inside = 1; continued = 1 } /^=> / { inside = 0 }
	{ is_command = continued; continued = continued && /\\$/ }
	inside && !is_command'
}

# --- the three commands to try first, on a program of the tests that runs already ---

sed -n '/^## Three to try first/,/^## All/p' "$readme" >"$tmp/first"
awk -F '`' '/^\| [^|]* \| `trapline / { print $2 }' "$tmp/first" >"$tmp/commands"
[ "$(wc -l <"$tmp/commands")" = 3 ] && [ "$(grep -c '^| .*https://github.com/.*/issues/[0-9]*)) |$' "$tmp/first")" = 3 ]
ok 'the README says which three commands to try first, and which old problem each ends' $?
"$build/tests/counter" 100000 2000 >"$tmp/victim" 2>&1 &
victim=$!
n=0
while [ $n -lt 100 ] && [ ! -s "$tmp/victim" ]; do
	sleep 0.1
	n=$((n + 1))
done
first() {
	sed -n "s/^trapline \($1 .*\)/\1/p" "$tmp/commands" |
		sed "s/ PID\>/ $victim/; s/ VARIABLE\>/ shared_counter/; s/--for [0-9]*m/--for 2/"
}
# shellcheck disable=SC2046 # the words of the command
timeout 20 "$build/trapline" $(first watch) --limit 3 >"$tmp/out" 2>&1 && grep -q '^3 hits in ' "$tmp/out"
ok 'the first of them prints the accesses' $?
kill $victim
wait $victim 2>/dev/null
# It reads a freed block again and again.
"$build/tests/heap_server" bad >"$tmp/victim" 2>&1 &
victim=$!
# shellcheck disable=SC2046
timeout 20 "$build/trapline" $(first heap) >"$tmp/out" 2>&1
grep -q '^heap A: use-after-free: ' "$tmp/out" && kill -0 $victim
ok 'the second reports the errors of a server, which continues' $?
kill $victim
wait $victim 2>/dev/null
body='{"seq":1,"type":"request","command":"initialize","arguments":{"adapterID":"trapline"}}'
printf 'Content-Length: %d\r\n\r\n%s' ${#body} "$body" | timeout 20 "$build/trapline" dap >"$tmp/out" 2>&1
grep -q '"supportsLogPoints":true' "$tmp/out"
ok 'the third speaks with an editor, and has logpoints' $?

# --- the two commands ---

block sh 1 >"$tmp/commands"
printf 'sh scripts/demo\nsh scripts/test\n' | cmp -s - "$tmp/commands"
ok 'the README names the two commands' $?
[ -f "$source/scripts/test" ]
ok 'scripts/test exists' $?

page=$build/demo.html
rm -f "$page"
(cd "$source" && BUILD=$build LONGEST=300 sh scripts/demo --keep) >"$tmp/out" 2>&1
ok 'scripts/demo succeeds' $?
echo "# $(sed -n 's/^== .*(\(the demo took .*\))$/\1/p' "$tmp/out")"
[ "$(grep -c '^== [123] of 3: .*?$' "$tmp/out")" = 3 ] &&
	for n in 1 2 3; do
		scene $n | sed -n 2p | grep -q '^\$ trapline ' || break
	done
ok 'each of three scenes begins with a question and a command' $?
for n in 1 2 3; do
	lines=$(scene_output $n | wc -l)
	[ "$lines" -gt 0 ] && [ "$lines" -le 25 ]
	ok "scene $n shows at most 25 lines" $?
	echo "# $lines lines"
done

scene 1 >"$tmp/scene"
# A variable that the main thread sets and the other sets back, or a counter of two other threads.
if grep -q 'io_threads_pending' "$tmp/scene"; then
	grep -Eq '^[0-9:.]+  redis-server/[0-9]+ +handleClients[A-Za-z]+\+0x[0-9a-f]+ +0 -> [0-9]+ +w$' "$tmp/scene" &&
		grep -Eq 'io_thd_1/[0-9]+ +IOThreadMain\+0x[0-9a-f]+ +[0-9]+ -> 0 +w$' "$tmp/scene"
else
	grep -Eq '^[0-9:.]+  io_thd_[12]/[0-9]+ +[A-Za-z]+\+0x[0-9a-f]+ +[0-9]+ -> [0-9]+ +w$' "$tmp/scene" &&
		[ "$(grep -Ec '^ +[0-9]+ +[0-9.]+% +[0-9]+ +io_thd_[12]/[0-9]+$' "$tmp/scene")" = 2 ]
fi
ok 'both threads are named, with old and new value' $?
[ "$(grep -Ec '^    #1  ' "$tmp/scene")" = 3 ]
ok 'each hit has a stack' $?
grep -Eq '(3|60) hits in [0-9.]+ m?s, none lost' "$tmp/scene"
ok 'as many hits as were asked for, and none is lost' $?
[ "$(grep -Ec '^=> Redis [0-9.]+ answers PING, and has served [1-9][0-9]* requests with no error\.$' \
	"$tmp/out")" = 2 ]
ok 'Redis comes to no harm in either scene' $?

scene 2 >"$tmp/scene"
grep -q '^race A: .*ap_copy_scoreboard_worker' "$tmp/scene"
ok 'a race in Apache is found, graded and named' $?
races=$(grep -c '^race A: ' "$tmp/scene")
[ "$(grep -Ec '^  (read|write|read-modify-write) of [0-9]+ bytes at 0x[0-9a-f]+ by thread [0-9]+' \
	"$tmp/scene")" = $((2 * races)) ]
ok 'with both sides' $?
grep -Eq 'Apache [0-9.]+ has served [1-9][0-9]* pages with no error' "$tmp/scene"
ok 'Apache comes to no harm' $?

scene 3 >"$tmp/scene"
hits=$(sed -n 's/.*\b\([1-9][0-9]*\) hits in 3\.[0-9]* s, none lost.*/\1/p' "$tmp/scene")
[ "${hits:-0}" -gt 3 ]
ok 'the recording has hits, and none is lost' $?
grep -Eq "^=> The page for a browser has [1-9][0-9]* KB: $page\$" "$tmp/scene" && [ -s "$page" ]
ok 'the page is where the demo says' $?
head -n 1 "$page" | grep -q '^<!DOCTYPE html>' && tail -n 1 "$page" | grep -q '^</html>' &&
	! grep -Eq '(src|href)=|https?://|@import|url\(' "$page"
ok 'the page is whole, and needs no network' $?
sed -n 's/^<script type="application\/json" id="data">\(.*\)<\/script>$/\1/p' "$page" |
	jq -e --argjson hits "${hits:-0}" '.total == $hits and ([.columns[] | length] | unique) == [$hits]' >/dev/null
ok 'and has all hits of the recording' $?
rm -f "$page"
sed -n '/^== Now/,$p' "$tmp/out" | grep -c "^$build/trapline [a-z]* .*  # " | grep -qx 3
ok 'the last lines are three commands to try' $?

demo() {
	(cd "$source" && BUILD=$build timeout 60 sh scripts/demo "$@") >"$tmp/out" 2>&1
}

demo --help && grep -q '^usage: scripts/demo \[--keep\]$' "$tmp/out" && ! grep -q '^==' "$tmp/out"
ok 'scripts/demo --help prints the usage, and runs nothing' $?
demo --keep --kepe
[ $? = 2 ] && printf "demo: invalid argument '--kepe': expected --keep or --help\n" | cmp -s - "$tmp/out"
ok 'a wrong argument of scripts/demo gives one line' $?

# --- install ---

block sh 2 >"$tmp/commands"
cat >"$tmp/expected" <<'TEXT'
sh scripts/install-deps build
meson setup build --buildtype=release
ninja -C build
sudo meson install -C build && sudo ldconfig
TEXT
cmp -s "$tmp/expected" "$tmp/commands" && [ -f "$source/scripts/install-deps" ]
ok 'the README installs by meson' $?
meson install -C "$build" --no-rebuild --destdir "$tmp/installed" >"$tmp/out" 2>&1 &&
	[ "$(find "$tmp/installed" -path '*/bin/trapline' -type f | wc -l)" = 1 ]
ok 'meson install installs the command' $?
grep -q '^`sh scripts/package` makes' "$readme" && [ -f "$source/scripts/package" ]
ok 'the README makes packages by scripts/package, which exists' $?

# --- the program ---

block c 1 >"$tmp/balance.c"
block sh 3 >"$tmp/commands"
grep -q 'pkg-config --cflags --libs trapline' "$tmp/commands" &&
	(cd "$tmp" && PKG_CONFIG_PATH=$build/meson-uninstalled LD_LIBRARY_PATH=$build \
		sh -e ./commands) >"$tmp/out" 2>&1
ok "the README's program compiles and runs" $?
grep -qx '3 writes; the last one changed 1 to 3' "$tmp/out"
ok 'and sees its own writes' $?

# --- names ---

# The options of each example: `trapline COMMAND ... --option`.
grep -o 'trapline [a-z]* [^`|]*' "$readme" | sed 's/ -- .*//' |
	grep -Eo '^trapline [a-z]+|[ [](-[a-z]|--[a-z-]+)\b' | awk '
	$1 == "trapline" { command = $2; next }
	{ sub(/^[ []*/, ""); print command, $0 }' | sort -u >"$tmp/options"
: >"$tmp/out"
while read -r command option; do
	"$build/trapline" "$command" --help 2>&1 |
		grep -Eq -- "^  (-[a-z], |    )?$option\b|^  $option," ||
		echo "trapline $command has no option $option" >>"$tmp/out"
done <"$tmp/options"
[ "$(wc -l <"$tmp/options")" -gt 10 ] && [ ! -s "$tmp/out" ]
ok 'each option in the README exists' $?

: >"$tmp/out"
grep -Eo 'trapline[a-z_-]*\([1-8]\)' "$readme" | sort -u | tr '()' '. ' | while read -r name; do
	[ -f "$source/man/$name" ] || echo "no man page $name" >>"$tmp/out"
done
[ ! -s "$tmp/out" ]
ok 'each man page in the README exists' $?
"$build/trapline" help | awk '/^commands:/ { inside = 1; next } !NF { inside = 0 } inside { print $1 }' |
	while read -r command; do
		[ "$command" = help ] || grep -q "trapline $command" "$readme" ||
			echo "the README lacks trapline $command"
	done >"$tmp/out"
[ ! -s "$tmp/out" ]
ok 'the README names each command' $?
[ "$(wc -l <"$readme")" -le 200 ]
ok 'the README has at most 200 lines' $?
finished
