#!/bin/sh
# SPDX-License-Identifier: MIT
#
# one.sh FOLDER TEST... - run one test for scripts/test, as the wrapper of meson.
#
# FOLDER gets a file during the test: its name is the process id, its text the time of the start and
# the command. cmocka reports a skipped test as "not ok N # SKIP", which meson counts as a failure:
# it becomes "ok N # SKIP" here.
folder=$1
shift
echo "$(date +%s) $*" >"$folder/$$"
[ -n "${CMOCKA_MESSAGE_OUTPUT:-}" ] || exec "$@"

{
	"$@"
	echo $? >"$folder/$$.status"
} | sed -u 's/^not ok \(.*# SKIP\)/ok \1/'
read -r status <"$folder/$$.status"
exit "$status"
