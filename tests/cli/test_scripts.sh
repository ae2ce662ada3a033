#!/bin/sh
# SPDX-License-Identifier: MIT
# test_scripts.sh SOURCE - the scripts: steps and their logs, missing packages, the count of tests, and
# a build without the packages of the tests. Nothing is installed and nothing needs privilege. TAP.

source=$1
# shellcheck source=tests/cli/tap.sh
. "$(dirname "$0")/tap.sh"
cd "$source" || exit 1
mkdir "$tmp/temporary" "$tmp/bin"

# --- steps ---
# stepped COMMANDS: a script that sources lib.sh, without a terminal.
stepped()
{
	printf 'set -eu\nme=demo\n. scripts/lib.sh\n%s\n' "$1" >"$tmp/script"
	TMPDIR=$tmp/temporary sh "$tmp/script" >"$tmp/out" 2>"$tmp/err"
}
stepped "logs_in '$tmp/logs'
step first sh -c 'seq 40; echo cause >&2; exit 3'
echo later"
[ $? = 1 ] && [ ! -s "$tmp/out" ] && [ "$(wc -l <"$tmp/err")" = 22 ] &&
	grep -q '^first \.\.\. failed after [0-9]* s$' "$tmp/err" &&
	[ "$(sed -n 21p "$tmp/err")" = '    cause' ] &&
	[ "$(sed -n 22p "$tmp/err")" = "demo: step 'first' failed with status 3; its log is $tmp/logs/first.log" ] &&
	[ "$(wc -l <"$tmp/logs/first.log")" = 41 ]
ok "a_failed_step_ends_the_script_with_its_last_lines_and_its_log" $?
stepped 'step "first: of two" echo detail
try second sh -c "exit 4" || echo "status $?"
step third true'
[ $? = 0 ] && [ "$(cat "$tmp/out")" = 'status 4' ] && ! grep -q detail "$tmp/err" &&
	[ "$(grep -c '^[a-z: ]* \.\.\. [0-9]* s$' "$tmp/err")" = 2 ]
ok "a_good_step_is_one_line_and_a_tried_one_returns_its_status" $?
[ "$(find "$tmp/temporary" -name '*.log')" = "$(sed -n 's/.*its log is //p' "$tmp/err")" ]
ok "of_temporary_logs_only_the_failed_one_remains" $?
! grep -q "$(printf '\033')" "$tmp/err"
ok "without_a_terminal_no_control_sequence_is_printed" $?

# --- packages ---
# The only programs: those that install-deps runs, and stubs of a system where little is installed.
for program in sh dirname grep sed sort tr cat awk date mkdir mktemp rm rmdir tail wc; do
	ln -s "$(command -v $program)" "$tmp/bin/$program"
done
stub()
{
	printf '#!/bin/sh\n%s\n' "$2" >"$tmp/bin/$1"
	chmod 755 "$tmp/bin/$1"
}
install_deps()
{
	PATH=$tmp/bin TMPDIR=$tmp/temporary sh scripts/install-deps "$@" >"$tmp/out" 2>"$tmp/err"
}
says()
{
	[ ! -s "$tmp/out" ] && [ "$(cat "$tmp/err")" = "$1" ]
}
stub id 'echo 1000'
stub apt-get "echo called >'$tmp/called'"
# shellcheck disable=SC2016 # for the stub
stub dpkg-query 'for name; do :; done
case $name in debootstrap | gdb | bpftrace | pigz | valgrind) exit 1 ;; esac
echo "install ok installed"'
install_deps build
[ $? = 0 ] && says ''
ok "nothing_is_said_if_nothing_is_missing" $?
install_deps build fresh
[ $? = 1 ] && says 'install-deps: cannot install 1 package: neither root nor sudo; run as root: apt-get install --no-install-recommends debootstrap'
ok "a_user_without_sudo_gets_the_missing_packages_and_the_command" $?
install_deps bench fresh
[ $? = 1 ] && says 'install-deps: cannot install 5 packages: neither root nor sudo; run as root: apt-get install --no-install-recommends bpftrace debootstrap gdb pigz valgrind'
ok "the_packages_of_several_purposes_are_in_one_command" $?
install_deps bench
[ $? = 0 ] && [ "$(wc -l <"$tmp/err")" = 1 ]
ok "packages_that_are_only_wished_for_are_no_failure" $?
install_deps build nosuch
[ $? = 2 ] && says "install-deps: invalid purpose 'nosuch': expected build, test, vm, bench, cross, demo, fleet, fuzz, fresh, values or peers"
ok "an_unknown_purpose_is_refused" $?
[ ! -e "$tmp/called" ]
ok "apt_was_not_called" $?
# shellcheck disable=SC2016 # for the stub
stub sudo 'case $* in *apt-get*install*) echo "E: no network"; exit 100 ;; esac'
install_deps build fresh
[ $? = 1 ] && [ ! -s "$tmp/out" ] && grep -qx '    E: no network' "$tmp/err" &&
	grep -q '^package lists \.\.\. [0-9]* s$' "$tmp/err" &&
	tail -n 1 "$tmp/err" | grep -q "^install-deps: step 'fresh: 1 package' failed with status 100; its log is $tmp/temporary/.*/fresh.log$"
ok "if_apt_fails_its_last_lines_and_its_log_are_named" $?

# --- the count of tests ---
cat >"$tmp/log.json" <<'END'
{"name": "p:unit / one", "result": "FAIL", "stdout": "1..3\nok 1 - a\nnot ok 2 - b\n# 1 != 2\nok 3 - c # SKIP gcc\n"}
{"name": "p:unit / two", "result": "OK", "stdout": "1..2\n# no objdump\nok 1 # SKIP d\nok 2 - e\n"}
{"name": "p:unit / three", "result": "SKIP", "stdout": "1..0 # SKIP spin\n"}
{"name": "p:unit / four", "result": "TIMEOUT", "stdout": "1..2\nok 1 - f\n"}
END
printf 'ok - check-style\nnot ok - check-api\n' >"$tmp/checks"
scripts/tally "$tmp/log.json" 1 "$tmp/checks" >"$tmp/out"
[ $? = 1 ] && cat >"$tmp/expected" <<'END' && diff "$tmp/expected" "$tmp/out" >"$tmp/err"
SKIPPED: p:unit / one: c # SKIP gcc
SKIPPED: p:unit / two: # SKIP d: no objdump
SKIPPED: p:unit / three: spin
FAILED: check: check-api
FAILED: p:unit / one: b
  # 1 != 2
FAILED: p:unit / four: TIMEOUT
  the last line before: ok 1 - f
4 passed, 3 failed, 3 skipped
END
ok "tally_names_what_failed_and_what_was_skipped_with_the_reason" $?
sed -n 2,3p "$tmp/log.json" >"$tmp/good.json"
scripts/tally "$tmp/good.json" 0 >"$tmp/out" && [ "$(tail -n 1 "$tmp/out")" = '1 passed, 0 failed, 2 skipped' ]
ok "tally_succeeds_if_nothing_failed" $?
printf '%s\n' '{"name": "p:guest / five", "result": "OK", "stdout": "1..2\nnot ok 1 - g # TODO h\nok 2 - i\n"}' >"$tmp/known.json"
scripts/tally "$tmp/known.json" 0 >"$tmp/out" && grep -qx 'KNOWN: p:guest / five: g # TODO h' "$tmp/out" &&
	[ "$(tail -n 1 "$tmp/out")" = '1 passed, 0 failed, 1 skipped' ]
ok "a_failure_that_is_known_is_named_and_counts_as_skipped" $?
scripts/tally "$tmp/good.json" 1 >"$tmp/out"
[ $? = 1 ] && grep -qx 'FAILED: meson test ended with status 1' "$tmp/out"
ok "a_status_of_meson_that_no_test_accounts_for_is_a_failure" $?
: >"$tmp/empty.json"
printf 'ok - check-style\n' >"$tmp/checks"
scripts/tally "$tmp/empty.json" 0 "$tmp/checks" >"$tmp/out"
[ $? = 1 ] && [ "$(tail -n 1 "$tmp/out")" = '1 passed, 1 failed, 0 skipped' ]
ok "a_run_without_tests_is_a_failure" $?

# --- results of another system ---
printf 'one\tsh one.sh\ntwo\t./two\nthree\t./three\nfive\t./five\nsix\t./six\n' >"$tmp/chosen"
cat "$tmp/log.json" - >"$tmp/other.json" <<'END'
{"name": "p:unit / five", "result": "OK", "stdout": "1..1\nok 1 - skips_nothing\n# no SKIP\n"}
END
scripts/test-after "$tmp/other.json" "$tmp/chosen" "$tmp/settled" &&
	[ "$(cut -f 1 "$tmp/chosen" | tr '\n' ' ')" = 'two three six ' ]
ok "what_was_skipped_or_not_run_elsewhere_runs_here" $?
[ "$(jq -r .name "$tmp/settled" | tr '\n' ,)" = 'p:unit / one,p:unit / four,p:unit / five,' ]
ok "what_failed_or_passed_as_a_whole_elsewhere_is_counted" $?
cat >"$tmp/registers.json" <<'END'
{"name": "p:cli / one", "result": "SKIP", "stdout": "1..0 # SKIP debug registers that fire (trapline check: watch_write)\n"}
{"name": "p:cli / two", "result": "OK", "stdout": "1..2\nok 1 - a # SKIP debug registers that fire (trapline check: watch_write)\nok 2 - b\n"}
{"name": "p:cli / three", "result": "OK", "stdout": "ok 1 - a # SKIP debug registers that fire (trapline check: break)\nok 2 - b # SKIP root\n"}
{"name": "p:cli / five", "result": "SKIP", "stdout": ""}
END
after_registers()
{
	printf 'one\tsh one.sh\ntwo\t./two\nthree\t./three\nfive\t./five\n' >"$tmp/chosen.registers"
	NO_DEBUG_REGISTERS=$1 scripts/test-after "$tmp/registers.json" "$tmp/chosen.registers" "$tmp/settled" &&
		[ "$(cut -f 1 "$tmp/chosen.registers" | tr '\n' ' ')" = "$2" ]
}
after_registers '' 'one two three five ' && after_registers 1 'three five '
ok "what_was_skipped_for_want_of_debug_registers_runs_where_they_fire" $?
cp "$tmp/chosen" "$tmp/before" && : >"$tmp/nothing.json" &&
	scripts/test-after "$tmp/nothing.json" "$tmp/chosen" "$tmp/settled" &&
	cmp "$tmp/before" "$tmp/chosen" && [ ! -s "$tmp/settled" ]
ok "after_a_run_without_results_all_run_here" $?
sh scripts/test --after "$tmp/nosuch" >"$tmp/out" 2>"$tmp/err"
[ $? = 2 ] && grep -q "^test: invalid --after '$tmp/nosuch': expected a folder of scripts/fresh" "$tmp/err"
ok "results_that_are_not_there_are_refused" $?

# --- progress ---
printf 'one\t10\ntwo\t100\nthree\t20\n@parallel\t0.5\n' >"$tmp/durations"
printf 'one\tsh one.sh\ntwo\t./two\nthree\t./three\n' >"$tmp/chosen"
echo '1/3 p:unit / one             OK                1.00s   3 subtests passed' >"$tmp/output"
echo '1000 ./two' >"$tmp/running"
progress()
{
	awk -v now=1040 -f scripts/test-progress.awk kind=durations "$1" kind=chosen "$tmp/chosen" \
		kind=output "$tmp/output" kind=running "$tmp/running" >"$tmp/out"
}
progress "$tmp/durations" && [ "$(cat "$tmp/out")" = '[######..............] 1/3, 40 s left; two 40 s' ]
ok "the_status_has_the_count_the_time_left_and_the_running_tests" $?
progress /dev/null && [ "$(cat "$tmp/out")" = '[######..............] 1/3; two 40 s' ]
ok "without_durations_no_time_left_is_printed" $?

# cmocka's form of a skip is none of meson's; a failure stays one.
# shellcheck disable=SC2016 # for the inner shell
CMOCKA_MESSAGE_OUTPUT=TAP sh tests/one.sh "$tmp" sh -c \
	'echo "not ok 1 # SKIP a"; echo "not ok 2 - b"; exit 5' >"$tmp/out"
[ $? = 5 ] && [ "$(cat "$tmp/out")" = "$(printf 'ok 1 # SKIP a\nnot ok 2 - b')" ]
ok "a_skip_of_cmocka_is_no_failure_for_meson" $?

# One case that needs what the machine lacks is no failure, any other one still is; so is one that ends
# too early. On another machine nothing is skipped.
cat >"$tmp/test_install.sh" <<'END'
echo 'not ok 1 - it_finds_its_agents_below_the_prefix'
[ -z "$1" ] || echo "not ok 2 - $1"
[ -n "$2" ] || echo 1..2
exit 1
END
one()
{
	sh tests/one.sh "$tmp" sh "$tmp/test_install.sh" "$@" >"$tmp/out"
}
NO_DEBUG_REGISTERS=1 one && grep -q '^ok 1 - it_finds.* # SKIP debug registers that fire' "$tmp/out" &&
	! NO_DEBUG_REGISTERS=1 one another && grep -qx 'not ok 2 - another' "$tmp/out" &&
	! NO_DEBUG_REGISTERS=1 one '' early && ! NO_DEBUG_REGISTERS='' one
ok "only_listed_cases_are_skipped_without_debug_registers" $?
cat >"$tmp/test_said.sh" <<'END'
echo 'not ok 1 - a'
echo '# err: cannot watch x: the debug registers of this machine do not work: see `trapline check`'
echo '# err: b'
[ -z "$1" ] || printf 'not ok 2 - c\n# err: d\n'
echo 1..2
exit 1
END
said()
{
	sh tests/one.sh "$tmp" sh "$tmp/test_said.sh" "$@" >"$tmp/out"
}
NO_DEBUG_REGISTERS=1 said && grep -q '^ok 1 - a # SKIP debug registers that fire' "$tmp/out" &&
	[ "$(grep -c '^# err' "$tmp/out")" = 2 ] &&
	! NO_DEBUG_REGISTERS=1 said too && grep -qx 'not ok 2 - c' "$tmp/out" && grep -qx '# err: d' "$tmp/out" &&
	! NO_DEBUG_REGISTERS='' said && grep -qx 'not ok 1 - a' "$tmp/out"
ok "a_case_whose_message_names_debug_registers_is_skipped_without_them" $?
NO_DEBUG_REGISTERS=1 sh tests/one.sh "$tmp" build/tests/test_watch >"$tmp/out"
[ $? = 0 ] && [ "$(cat "$tmp/out")" = '1..0 # SKIP debug registers that fire (trapline check: watch_write)' ]
ok "a_listed_program_is_not_run_without_debug_registers" $?

# --- a build without the packages of the tests ---
# shellcheck disable=SC2016 # for the stub
stub pkg-config "case \$* in *cmocka*) exit 1 ;; esac
exec $(command -v pkg-config) \"\$@\""
configure()
{
	rm -rf "$tmp/build"
	PKG_CONFIG=$tmp/bin/pkg-config meson setup "$tmp/build" "$@" >"$tmp/out" 2>&1
}
configure
[ $? = 0 ] && grep -qx 'Message: tests: off, install libcmocka-dev' "$tmp/out" &&
	[ "$(meson introspect "$tmp/build" --tests)" = '[]' ] &&
	meson introspect "$tmp/build" --targets | jq -e 'map(.name) | index("trapline") and
		index("trapline-agent") and (index("test_watch") | not)' >/dev/null
ok "without_cmocka_the_tests_are_off_and_the_rest_is_built" $?
configure -Dtests=enabled
[ $? != 0 ] && grep -q 'cannot build the tests: libcmocka-dev missing; run scripts/install-deps test$' "$tmp/out"
ok "tests_that_are_demanded_are_refused_with_the_remedy" $?
CXX=false configure
[ $? = 0 ] && grep -qx 'Message: tests: off, install libcmocka-dev g++' "$tmp/out"
ok "without_a_compiler_for_C++_the_message_names_it_too" $?
# --- check-doors ---
mkdir "$tmp/tree"
cp -r src agent report cli man README.md SECURITY.md CONTRIBUTING.md scripts "$tmp/tree"
for folder in bench completions debian editors examples fuzz include/trapline tests; do
	mkdir -p "$tmp/tree/$folder"
done
(cd tests && find . -mindepth 1 -maxdepth 1 -type d) | while read -r folder; do
	mkdir "$tmp/tree/tests/$folder"
done
doors()
{
	sh scripts/check-doors "$tmp/tree" >"$tmp/out" 2>"$tmp/err"
}
doors && [ ! -s "$tmp/err" ]
ok "the_doors_name_all_that_is_there" $?
mkdir "$tmp/tree/src/cellar"
touch "$tmp/tree/src/cellar/wine.c"
doors
[ $? = 1 ] && says "check-doors: CONTRIBUTING.md: src/cellar/ has no row in 'Where a line belongs'"
ok "a_new_folder_needs_a_row" $?
rm -r "$tmp/tree/src/cellar" "$tmp/tree/report/page"
doors
[ $? = 1 ] && says "check-doors: CONTRIBUTING.md: report/page/ does not exist"
ok "a_row_needs_a_folder" $?
cp -r report/page "$tmp/tree/report"
sed -i 's/`race`, `throttle`, `heap`, `flow`, `patch`, `break --trace`/`race`, `throttle`, `heap`, `patch`, `break --trace`/' "$tmp/tree/SECURITY.md"
sed -i '/^| `dap` |/d' "$tmp/tree/README.md"
sed -i 's/race, heap, flow, throttle, patch, point, safepoint/race, heap, throttle, patch, point, safepoint/' "$tmp/tree/man/trapline-glossary.7"
doors
[ $? = 1 ] && says "check-doors: README.md: dap has no row in the table of commands
check-doors: man/trapline-glossary.7: the term 'tool' does not name flow
check-doors: SECURITY.md: flow loads code into a process, and is not in that list"
ok "each_command_tool_and_loader_is_named" $?
finished
