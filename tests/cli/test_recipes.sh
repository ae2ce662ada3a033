#!/bin/sh
# SPDX-License-Identifier: MIT
# test_recipes.sh TRAPLINE VICTIMS SOURCE - each command of trapline-recipes(7) prints what the page shows. TAP.
# Needs root: uprobes are for it alone.

# shellcheck source=tests/cli/tap.sh disable=SC2154 # trapline, victims and tmp come from there
. "$(dirname "$0")/tap.sh"
need_uprobes
page=$3/man/trapline-recipes.7
trapline=$(realpath "$trapline")
victims=$(realpath "$victims")

# titles: of the sections. block TITLE: what it shows, as a reader sees it.
titles()
{
	sed -n 's/^\.Ss //p' "$page"
}
block()
{
	awk -v title=".Ss $1" '
		/^\.S[sh] / { here = $0 == title }
		/^\.Ed/ { show = 0 }
		show { gsub(/\\-/, "-"); gsub(/\\e/, "\\"); print }
		/^\.Bd -literal/ { show = here }' "$page"
}

# Numbers and the units of times differ from run to run, and so do the blanks that align them.
shape()
{
	sed 's/0x[0-9a-f]*/N/g; s/[0-9][0-9:.]*/N/g; s/N [mun]*s\>/N s/g; s/  */ /g; s/^ //'
}

# Each line of the page is in the output, in any order: some rows are sorted by time.
is_shown()
{
	shape <"$tmp/out" >"$tmp/real"
	while IFS= read -r line; do
		grep -qxF -e "$line" "$tmp/real" || return 1
	done <"$tmp/expected"
}

# Commands may write files.
mkdir "$tmp/here"
ln -s "$victims/shop" "$victims/plugin.so" "$tmp/here"
titles >"$tmp/titles"
while IFS= read -r title; do
	block "$title" >"$tmp/block"
	# The command may be folded.
	awk 'NR == 1 || folded { folded = sub(/ *\\$/, " "); sub(/^ +/, ""); sub(/^# /, ""); printf "%s", $0; next }
		{ exit }' "$tmp/block" >"$tmp/command"
	awk 'NR == 1 || folded { folded = /\\$/; next } { print }' "$tmp/block" | shape >"$tmp/expected"
	(
		cd "$tmp/here" && PATH=$(dirname "$trapline"):$PATH &&
			eval "timeout -k 2 60 $(cat "$tmp/command")"
	) >"$tmp/out" 2>"$tmp/err" </dev/null
	status=$?
	if [ $status = 2 ] && grep -q 'known by their numbers in the first pid namespace' "$tmp/err"; then
		skip "$(echo "$title" | tr -d '?,' | tr ' ' _)" "the first pid namespace"
		continue
	fi
	[ $status = 0 ] && cat "$tmp/err" >>"$tmp/out" && [ -s "$tmp/expected" ] && is_shown
	ok "$(echo "$title" | tr -d '?,' | tr ' ' _)" $?
done <"$tmp/titles"
[ "$(wc -l <"$tmp/titles")" -ge 25 ]
ok "the_page_has_25_questions" $?

# A line that no command prints is not shown.
echo 'no such line' >"$tmp/expected"
! is_shown
ok "the_comparison_can_fail" $?
finished
