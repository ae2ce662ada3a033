#!/bin/sh
# SPDX-License-Identifier: MIT
# test_test_again.sh SOURCE - what the test command does with a program that fails at times. TAP.

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/tap.sh"
need meson ninja jq
source=$(cd "$1" && pwd)

mkdir "$tmp/project"
cat >"$tmp/project/meson.build" <<'TEXT'
project('again')
foreach name : get_option('names')
	test(name, find_program('program'), args : name, protocol : 'tap')
endforeach
TEXT
echo "option('names', type : 'array', value : [])" >"$tmp/project/meson_options.txt"
cat >"$tmp/project/program" <<TEXT
#!/bin/sh
echo "ok 1 - first"
case \$1 in
good*) echo "ok 2 - second" ;;
once*) [ -e "$tmp/\$1" ] && echo "ok 2 - second" || printf 'not ok 2 - second\n# it was busy\n' ;;
dies*) [ -e "$tmp/\$1" ] || { : >"$tmp/\$1"; kill -SEGV \$\$; }; echo "ok 2 - second" ;;
# By chance: the first draw finds the defect, the next one would not.
found*) seed=\${TRAPLINE_SEED:-\$([ -e "$tmp/\$1" ] && echo 8 || echo 7)}
	echo "# seed \$seed"
	[ "\$seed" = 7 ] && echo "not ok 2 - second" || echo "ok 2 - second" ;;
never*) printf 'not ok 2 - second\n# a defect\n' ;;
esac
: >"$tmp/\$1"
echo "1..2"
TEXT
chmod 755 "$tmp/project/program"

# run NAMES: as scripts/test does. The output of the tally is in $tmp/out, its status is returned.
run()
{
	rm -rf "$tmp/build" "$tmp/running"
	mkdir "$tmp/running"
	log=$tmp/build/meson-logs/testlog-sh.json
	meson setup "$tmp/build" "$tmp/project" -Dnames="$1" >"$tmp/err" 2>&1 || return
	status=0
	meson test -C "$tmp/build" --wrapper "sh '$source/tests/one.sh' '$tmp/running'" >"$tmp/err" 2>&1 || status=$?
	[ $status = 0 ] || ! (cd "$source" && scripts/test-again "$log" "$tmp/build" "$tmp/running") >>"$tmp/err" 2>&1 ||
		status=0
	"$source/scripts/tally" "$log" $status >"$tmp/out.as_meson"
	tallied=$?
	# From 1.9 on meson names the project too.
	sed 's/: again:/: /' "$tmp/out.as_meson" >"$tmp/out"
	return $tallied
}

run good,once
[ $? = 0 ] && printf '%s\n' 'UNSTABLE: once: second' '  # it was busy' \
	'1 unstable: failed at first, and passed when the program ran again alone' \
	'4 passed, 0 failed, 0 skipped' | cmp -s - "$tmp/out"
ok what_passes_alone_is_named_with_its_cause $?

run good,dies
[ $? = 0 ] && grep -q '^UNSTABLE: dies: ERROR' "$tmp/out"
ok a_death_is_named_too $?

run good,once_more,never
[ $? = 1 ] && grep -qx 'FAILED: never: second' "$tmp/out" && grep -qx '  # a defect' "$tmp/out" &&
	grep -q '^UNSTABLE: once_more' "$tmp/out" && tail -n 1 "$tmp/out" | grep -qx '5 passed, 1 failed, 0 skipped'
ok what_fails_twice_has_failed $?

run good,found
[ $? = 1 ] && grep -qx 'FAILED: found: second' "$tmp/out" && ! grep -q UNSTABLE "$tmp/out"
ok what_a_seed_finds_is_found_again $?

run good,once1,once2,once3,once4,once5,once6
[ $? = 1 ] && ! grep -q UNSTABLE "$tmp/out" && tail -n 1 "$tmp/out" | grep -qx '8 passed, 6 failed, 0 skipped'
ok six_failures_are_no_chance $?

run good
[ $? = 0 ] && printf '2 passed, 0 failed, 0 skipped\n' | cmp -s - "$tmp/out"
ok what_passes_is_run_once $?

finished
