#!/bin/sh
# SPDX-License-Identifier: MIT
#
# one.sh FOLDER TEST... - run one test for scripts/test, as the wrapper of meson.
#
# FOLDER gets a file during the test: its name is the process id, its text the time of the start and
# the command. cmocka reports a skipped test as "not ok N # SKIP", which meson counts as a failure:
# it becomes "ok N # SKIP" here.
#
# With NO_DEBUG_REGISTERS=1, what needs-debug-registers lists is skipped: whole programs are not run, and
# a listed case that fails becomes "ok N - CASE # SKIP". So does one whose diagnosis, the comments after
# it, has the command's own sentence about debug registers that do not work.
folder=$1
shift
missing='debug registers that fire (trapline check: watch_write)'
echo "$(date +%s) $*" >"$folder/$$"

# What fails is named by the file of the program, which a shell may run.
case $1 in */sh | sh) program=${2##*/} ;; *) program=${1##*/} ;; esac
list=
[ "${NO_DEBUG_REGISTERS:-}" != 1 ] || list=${0%/*}/needs-debug-registers
cases=
if [ -n "$list" ]; then
	if grep -qxF "$program" "$list"; then
		echo "1..0 # SKIP $missing"
		exit 0
	fi
	cases=$(sed -n "s/^$program: //p" "$list")
fi
[ -n "${CMOCKA_MESSAGE_OUTPUT:-}$list" ] || exec "$@"

printf '%s\n' "$cases" >"$folder/$$.cases"
{
	"$@"
	echo $? >"$folder/$$.status"
} | awk -v cases="$folder/$$.cases" -v result="$folder/$$.result" -v missing="$missing" -v have="$list" '
BEGIN {
	while ((getline name <cases) > 0)
		if (name != "")
			listed[name] = 1
}
# A failure is printed with its comments, which say why.
function end_failure() {
	if (held == "")
		return
	if (is_excused && sub(/not ok/, "ok", held)) {
		held = held " # SKIP " missing
		excused++
	} else
		failed++
	printf "%s\n%s", held, comments
	fflush()
	held = comments = ""
}
/^ *not ok .*# SKIP/ { sub(/not ok/, "ok") }
held != "" && /^ *#/ {
	is_excused = is_excused || (have != "" && /the debug registers of this machine do not work/)
	comments = comments $0 "\n"
	next
}
{ end_failure() }
/^ *not ok/ {
	held = $0
	name = $0
	sub(/^ *not ok [0-9]+ - /, "", name)
	is_excused = name in listed
	next
}
/^Bail out!/ { failed++ }
/^ *1\.\.[0-9]/ { planned = 1 }
{ print; fflush() }
END {
	end_failure()
	print (excused && planned && !failed ? "excused" : "as it is") >result
}'
read -r status <"$folder/$$.status"
read -r result <"$folder/$$.result"
[ "$result" != excused ] || status=0
exit "$status"
