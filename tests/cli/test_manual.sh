#!/bin/sh
# SPDX-License-Identifier: MIT
# test_manual.sh TRAPLINE VICTIMS SOURCE BUILD - what the manual shows is what happens: the first
# program of trapline(3), and the examples of trapline-condition(7). TAP.

# shellcheck source=tests/cli/tap.sh disable=SC2154 # trapline, victims and tmp come from there
. "$(dirname "$0")/tap.sh"
need_uprobes
source=$3
build=$4

# block PAGE PATTERN [N]: the Nth literal block whose first line has the pattern, as a reader sees it.
block()
{
	awk -v pattern="$2" -v wanted="${3:-1}" '
		/^\.Bd -literal/ { first = 1; next }
		/^\.Ed/ { show = 0 }
		first { show = $0 ~ pattern && ++n == wanted; first = 0 }
		show { sub(/^\\&/, ""); gsub(/\\-/, "-"); gsub(/\\e/, "\\"); print }' \
		"$source/man/$1"
}

# Numbers differ from run to run, and a value before the first hit may be unknown.
without_numbers()
{
	sed 's/0x[0-9a-f]*/N/g; s/[0-9][0-9:.]*/N/g; s/[?] ->/N ->/'
}

block trapline.3 '^#include' >"$tmp/first.c"
block trapline.3 '^[$] cc' >"$tmp/shown"
grep '^[$]' "$tmp/shown" | sed 's/^[$] //' >"$tmp/commands"
grep -v '^[$]' "$tmp/shown" >"$tmp/expected"
(
	cd "$tmp" || exit 1
	PKG_CONFIG_PATH=$build/meson-uninstalled LD_LIBRARY_PATH=$build sh -e ./commands
) >"$tmp/out" 2>"$tmp/err"
status=$?
[ $status = 0 ] && [ -s "$tmp/expected" ] && cmp -s "$tmp/expected" "$tmp/out"
ok "the_first_program_prints_what_its_page_shows" $?

start accounts
for number in 1 2 3; do
	block trapline-condition.7 '^[$] trapline' $number >"$tmp/shown"
	sed -n '2,$p' "$tmp/shown" | grep -v '^[.][.][.]$' | without_numbers >"$tmp/expected"
	line=$(sed -n "1s/^[\$] trapline \(.*\) -p [0-9]*/\1 -p $pid/p" "$tmp/shown")
	# A hit that comes while threads are being armed has no known old value.
	for _ in 1 2 3 4 5; do
		eval "timeout -k 2 60 \"\$trapline\" $line --limit 2" >"$tmp/all" 2>"$tmp/err"
		grep -q 'value not known' "$tmp/all" || break
	done
	head -n 2 "$tmp/all" | without_numbers >"$tmp/out"
	[ "$(wc -l <"$tmp/expected")" = 2 ] && cmp -s "$tmp/expected" "$tmp/out"
	ok "example_${number}_of_conditions_prints_what_its_page_shows" $?
done

# The other conditions of the page, and those in its text, are conditions.
block trapline-condition.7 '^changed' | sed 's/   .*//' >"$tmp/conditions"
echo '(new & 1) == 0' >>"$tmp/conditions"
while read -r condition; do
	condition=$(printf '%s\n' "$condition" | sed 's/in cleanup/in withdraw/')
	"$trapline" watch -p "$pid" 'accounts[0].balance' --if "$condition" --explain >"$tmp/out" \
		2>"$tmp/err" || echo "$condition" >>"$tmp/refused"
done <"$tmp/conditions"
[ "$(wc -l <"$tmp/conditions")" -gt 5 ] && [ ! -e "$tmp/refused" ]
ok "the_other_conditions_of_the_page_are_accepted" $?
finished
