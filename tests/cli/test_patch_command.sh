#!/bin/sh
# SPDX-License-Identifier: MIT
# test_patch.sh TRAPLINE VICTIMS INCLUDE BUILD_INCLUDE - functions of running programs are replaced, and the
# old ones come back. TAP. TRAPLINE_STRESS=2100 kills the command 500 times; TRAPLINE_SEED repeats the moments.

# shellcheck source=tests/cli/tap.sh disable=SC2154 # its variables come from there
. "$(dirname "$0")/tap.sh"
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/moments.sh"
# shellcheck disable=SC2034 # of tap.sh
command="patch"
include="-I$3 -I$4"
times=$(share 24)
echo "# seed $seed, killed $times times"

# make NAME FLAG...: an object from the source on standard input.
make()
{
	out=$tmp/$1.so
	shift
	{
		echo '#include <trapline/tools.h>'
		cat
	} >"$tmp/source.c"
	# shellcheck disable=SC2086 # several words
	${CC:-cc} -O2 -shared -fPIC $include "$@" -o "$out" "$tmp/source.c" 2>"$tmp/err" || {
		ok "the_compiler_makes_${out##*/}" 1
		finished
		exit
	}
}

make one <<'EOF'
static volatile int *counter;
TRAPLINE_PATCH_OLD(counter, "counter");
static int better_answer(int x)
{
	return 1000 + x + *counter;
}
TRAPLINE_PATCH("answer", better_answer);
EOF
make two <<'EOF'
static volatile int *hidden;
TRAPLINE_PATCH_OLD(hidden, "patched_more.c:hidden");
static int better_answer(int x)
{
	return 2000 + x;
}
TRAPLINE_PATCH("answer", better_answer);
static int better_helper(int x)
{
	return 5000 + x + *hidden;
}
TRAPLINE_PATCH("patched_more.c:helper", better_helper);
EOF

# printed LINE: the victim's last line is this one, within some time.
prints()
{
	[ "$(tail -n 1 "$tmp/victim")" = "$1" ]
}

printed()
{
	eventually prints "$1" || {
		tail -n 1 "$tmp/victim" >>"$tmp/err"
		return 1
	}
}
old='8 9 156 15 0'

# --- applied, listed, undone ---

start patched 4
printed "$old" && watch -p "$pid" "$tmp/one.so" --dry-run &&
	grep -q '^function answer (patched at patched.c:[0-9]*, [0-9]* bytes) -> better_answer$' "$tmp/out" &&
	grep -q "^old counter (patched) at 0x" "$tmp/out" &&
	grep -q "^one.so can be applied to process $pid (no-thread-inside, 1 function); nothing was changed$" "$tmp/out" &&
	! grep -q trapline-agent "/proc/$pid/maps" && text_is_of_file "$pid" patched
ok a_dry_run_tells_what_would_change_and_loads_nothing $?

watch -p "$pid" --list && [ "$(cat "$tmp/out")" = "process $pid has no patch" ]
ok a_process_without_patches_has_an_empty_list $?

watch -p "$pid" "$tmp/one.so" && grep -q "^applied one.so to process $pid in [0-9.]* ms (no-thread-inside, 1 function)$" "$tmp/out" &&
	printed '1008 9 156 15 0' && ! text_is_of_file "$pid" patched
ok a_function_is_replaced_and_reaches_old_data $?
watch -p "$pid" --list && grep -q '^one.so since .*, no-thread-inside' "$tmp/out" &&
	grep -q '^  answer at 0x[0-9a-f]* -> 0x[0-9a-f]*$' "$tmp/out"
ok the_patch_is_listed_by_another_command $?
watch -p "$pid" --list --json && jq -e '.type == "patch" and .object == "one.so" and .phase == "new" and .threads_pending == 0 and (.functions | map(.name)) == ["answer"]' "$tmp/out" >/dev/null
ok the_list_as_json_has_the_function $?
watch -p "$pid" "$tmp/two.so"
[ $? = 1 ] && grep -q "'answer' is replaced already, by one.so; undo that first, by --undo one.so, or put both changes into one object$" "$tmp/err" && printed '1008 9 156 15 0'
ok a_function_is_not_replaced_twice_and_the_other_function_stays_old $?
watch -p "$pid" --undo one.so && grep -q "^undid one.so in process $pid in [0-9.]* ms; the object stays loaded$" "$tmp/out" &&
	printed "$old" && text_is_of_file "$pid" patched
ok an_undone_patch_leaves_the_text_of_the_file $?
watch -p "$pid" --undo one.so
[ $? = 1 ] && grep -q "^trapline patch: cannot undo one.so in process $pid: it has no patch of this name; --list prints them$" "$tmp/err"
ok what_is_undone_cannot_be_undone_again $?

watch -p "$pid" "$tmp/two.so" --json && jq -e '.type == "applied" and (.functions | length) == 2 and (.old | length) == 1' "$tmp/out" >/dev/null &&
	printed '2001 9 5152 15 0'
ok two_functions_are_replaced_at_once_and_a_static_one_is_that_of_its_file $?
watch -p "$pid" --undo patched_more.c:helper && printed "$old" && text_is_of_file "$pid" patched
ok a_patch_is_undone_by_the_name_of_its_function $?

for mode in immediate per-thread no-thread-inside; do
	watch -p "$pid" "$tmp/one.so" --consistency $mode && printed '1008 9 156 15 0' &&
		watch -p "$pid" --undo one.so && printed "$old" && text_is_of_file "$pid" patched
	ok "a_patch_goes_and_comes_with_$mode" $?
done

make hooks <<'EOF'
static volatile int *counter;
TRAPLINE_PATCH_OLD(counter, "counter");
static int before(void)
{
	*counter += 10;
	return 0;
}
TRAPLINE_PATCH_BEFORE(before);
static void after(void)
{
	*counter += 100;
}
TRAPLINE_PATCH_AFTER(after);
static int better_answer(int x)
{
	return x + *counter;
}
TRAPLINE_PATCH("answer", better_answer);
EOF
watch -p "$pid" "$tmp/hooks.so" --dry-run && sleep 0.3 && printed "$old" &&
	watch -p "$pid" "$tmp/hooks.so" && printed '118 9 156 15 0' && watch -p "$pid" --undo hooks.so
ok hooks_run_once_each_and_only_when_it_is_applied $?
make refusing <<'EOF'
static int before(void)
{
	return 5;
}
TRAPLINE_PATCH_BEFORE(before);
static int better_answer(int x)
{
	return 9999;
}
TRAPLINE_PATCH("answer", better_answer);
EOF
watch -p "$pid" "$tmp/refusing.so"
[ $? = 1 ] && grep -q 'a function of TRAPLINE_PATCH_BEFORE() in refusing.so returned 5' "$tmp/err" &&
	printed '118 9 156 15 0' && text_is_of_file "$pid" patched
ok a_hook_that_refuses_leaves_all_as_it_was $?
kill "$pid"

# --- what is refused ---

start patched 2
# refused NAME PATTERN SOURCE
refused()
{
	echo "$3" >"$tmp/text.c"
	make refused <"$tmp/text.c"
	wrong "$1" "cannot apply refused.so: $2" -p "$pid" "$tmp/refused.so"
}
replace()
{
	echo "static int f(int x) { return x; }"
	echo "TRAPLINE_PATCH(\"$1\", f);"
}
refused an_unknown_name_is_refused "no function is named 'answr' in patched; did you mean answer?$" \
	"$(replace answr)"
refused a_name_of_several_functions_is_refused "'helper' names 2 functions: patched.*c:helper, patched.*c:helper; name one of them$" \
	"$(replace helper)"
refused inlined_copies_are_refused_by_name "'twice' has copies that stay old (.*main at patched.c:[0-9]*.*--leave-copies$" \
	"$(replace twice)"
refused a_function_that_is_only_inlined_is_refused "'twice_inline' has no code of its own: the compiler inlined it into twice at patched.c:[0-9]*" \
	"$(replace twice_inline)"
refused an_ifunc_is_refused_and_names_the_implementation "'chosen' has several implementations (ifunc); name the one in use: patched:choose_this$" \
	"$(replace chosen)"
refused a_name_in_an_object_is_refused "no function is named 'no_such_function' in libc.so.6" \
	"$(replace libc.so.6:no_such_function)"
refused a_line_is_not_a_function "invalid name 'patched.c:22': expected a function" \
	"$(replace patched.c:22)"
refused several_old_data_are_refused "'hidden' names 2 things: patched.*c:hidden, patched.*c:hidden; name one of them$" \
	"$(replace answer)
static int *p; TRAPLINE_PATCH_OLD(p, \"hidden\");"
refused thread_local_data_is_refused "'of_thread' is thread-local" \
	"$(replace answer)
static int *p; TRAPLINE_PATCH_OLD(p, \"of_thread\");"
refused unknown_old_data_is_refused "nothing is named 'conter' in patched; did you mean counter" \
	"$(replace answer)
static int *p; TRAPLINE_PATCH_OLD(p, \"conter\");"
refused another_build_is_refused "it is for build-id 0123456789abcdef0123456789abcdef01234567, and patched has [0-9a-f]*; build it" \
	"$(replace answer)
TRAPLINE_PATCH_FOR(\"patched\", \"0123456789abcdef0123456789abcdef01234567\");"
refused a_function_of_another_object_is_refused "it is for patched, and 'libc.so.6:abs' is in libc.so.6$" \
	"$(replace libc.so.6:abs)
TRAPLINE_PATCH_FOR(\"patched\", 0);"
refused a_name_that_the_program_does_not_export_is_refused "it uses 'counter', which patched has but does not export; reach it by TRAPLINE_PATCH_OLD()$" \
	'extern int counter; static int f(int x) { return counter; } TRAPLINE_PATCH("answer", f);'
refused a_name_that_nothing_has_is_refused "it uses 'nowhere', which no object of the process has" \
	'int nowhere(void); static int f(int x) { return nowhere(); } TRAPLINE_PATCH("answer", f);'
refused one_function_twice_is_refused "'answer' and 'answer' are the same function" \
	"$(replace answer)
static int g(int x) { return x; }
TRAPLINE_PATCH(\"answer\", g);"

echo 'int x;' >"$tmp/text.c"
make empty <"$tmp/text.c"
wrong an_object_without_replacements_is_refused 'empty.so replaces nothing; name a function by TRAPLINE_PATCH()' -p "$pid" "$tmp/empty.so"
wrong a_text_is_not_an_object "source.c is not a shared object; build it with cc -shared -fPIC$" -p "$pid" "$tmp/source.c"
wrong a_program_is_not_an_object 'patched is a program, not a shared object' -p "$pid" "$victims/patched"
wrong a_missing_file_is_said 'cannot read .*/missing.so: No such file or directory' -p "$pid" "$tmp/missing.so"
# The second half of the header says which machine it is for.
{
	dd if="$tmp/one.so" bs=1 count=18 2>/dev/null
	printf '\267\0'
	dd if="$tmp/one.so" bs=1 skip=20 2>/dev/null
} >"$tmp/other.so"
wrong an_object_for_another_processor_is_refused 'other.so is for another processor (64-bit, ELF machine 183)' -p "$pid" "$tmp/other.so"
head -c 3000 "$tmp/one.so" >"$tmp/cut.so"
watch -p "$pid" "$tmp/cut.so"
[ $? = 2 ] && [ "$(wc -l <"$tmp/err")" = 1 ]
ok an_object_that_was_cut_is_refused $?
replace twice >"$tmp/text.c"
make copies <"$tmp/text.c"
watch -p "$pid" "$tmp/copies.so" --leave-copies --dry-run && grep -q "note: these copies of 'twice' stay old: .*main at" "$tmp/err"
ok copies_can_be_left_and_are_named $?
printed "$old" && text_is_of_file "$pid" patched && ! grep -q trapline-agent "/proc/$pid/maps"
ok nothing_that_was_refused_has_touched_the_process $?

wrong nothing_to_do_is_said 'nothing to do: give a shared object, --undo NAME or --list' -p "$pid"
wrong no_process_is_said 'no process: give -p PID' "$tmp/one.so"
wrong two_actions_are_refused '\--list cannot be combined with a shared object' -p "$pid" "$tmp/one.so" --list
wrong an_unknown_consistency_is_refused "invalid --consistency 'now'" -p "$pid" "$tmp/one.so" --consistency now
wrong a_missing_process_is_said 'no process 99999999' -p 99999999 "$tmp/one.so"
kill "$pid"

# A replacement that has the name of a function that the program exports.
start patched_exports
make bound <<'EOF'
int answer(int x)
{
	return 3000 + x;
}
TRAPLINE_PATCH("answer", answer);
EOF
wrong a_replacement_that_the_loader_would_bind_to_the_old_one_is_refused \
	"the loader would bind its function 'answer' to the one of patched_exports; make it static" -p "$pid" "$tmp/bound.so"
watch -p "$pid" "$tmp/one.so" && printed '1008 9 156 15 0' &&
	grep -q "note: patched_exports has no debug information (DWARF): inlined copies of 'answer' are not known" "$tmp/err" &&
	watch -p "$pid" --undo one.so && printed "$old" && text_is_of_file "$pid" patched
ok a_stripped_program_is_patched_by_what_it_exports $?
kill "$pid"
start patched_stripped
wrong a_stripped_program_without_names_is_refused \
	"patched_stripped is stripped: it names no function 'answer'; install its debug symbols" -p "$pid" "$tmp/one.so"
kill "$pid"

# --- threads that no signal reaches ---

# The mask outlives exec. Each thread calls the function or sleeps, with all signals blocked.
env --block-signal "$victims/patched" 3 >"$tmp/victim" 2>&1 &
pid=$!
started="$started $pid"
eventually runs "$pid" patched
sleep 0.1
watch -p "$pid" "$tmp/one.so" --timeout 20 && printed '1008 9 156 15 0' && watch -p "$pid" --undo one.so --timeout 20 &&
	printed "$old" && text_is_of_file "$pid" patched
ok a_process_that_blocks_all_signals_is_patched $?
# SIGTERM is blocked too.
kill -KILL "$pid"

# --- threads that are inside, and a command that is killed ---

start patched 2 asleep
replace sleeper >"$tmp/text.c"
make sleeper <"$tmp/text.c"
watch -p "$pid" "$tmp/sleeper.so" --timeout 0.3
[ $? = 1 ] && [ "$(wc -l <"$tmp/err")" = 1 ] && grep -q "sleeper" "$tmp/err" && printed "$old" && text_is_of_file "$pid" patched
ok a_thread_asleep_inside_for_ever_ends_the_attempt_and_nothing_has_changed $?
watch -p "$pid" --list && [ "$(cat "$tmp/out")" = "process $pid has no patch" ] &&
	watch -p "$pid" "$tmp/one.so" && printed '1008 9 156 15 0' && watch -p "$pid" --undo one.so && printed "$old"
ok and_other_functions_can_be_replaced_then $?
kill "$pid"

start patched 4
now_ms()
{
	echo $(($(date +%s%N) / 1000000))
}
# How long a whole run takes here: the moments lie before and behind its end.
before=$(now_ms)
watch -p "$pid" "$tmp/two.so" && watch -p "$pid" --undo two.so
whole=$((($(now_ms) - before) * 2 / 3))
# The text is wholly old, or the patch is listed and wholly there. An undone one is neither to be seen.
settled()
{
	timeout 60 "$trapline" patch -p "$pid" --list >"$tmp/out" 2>"$tmp/err" || return 1
	if grep -q '^two.so ' "$tmp/out"; then
		printed '2001 9 5152 15 0'
	else
		text_is_of_file "$pid" patched && printed "$old"
	fi
}
bad=0
new=0
for _ in $(seq $times); do
	"$trapline" patch -p "$pid" "$tmp/two.so" >"$tmp/out" 2>"$tmp/err" &
	killed=$!
	draw_moment 0 $((whole + 1))
	sleep "$moment"
	kill -9 $killed 2>/dev/null
	wait $killed 2>/dev/null
	# The agent goes on without the command: it may change the code between the two looks.
	kill -0 "$pid" 2>/dev/null && { settled || { sleep 1; settled; }; } || bad=$((bad + 1))
	if grep -q '^two.so ' "$tmp/out"; then
		new=$((new + 1))
		watch -p "$pid" --undo two.so && printed "$old" && text_is_of_file "$pid" patched || bad=$((bad + 1))
	fi
done
echo "# $bad of $times came to harm, $new were patched"
[ $bad = 0 ]
ok "a_command_killed_at_any_moment_leaves_the_program_wholly_old_or_wholly_new" $?
kill "$pid"

# --- waits end ---

# freeze PID, thaw: by the control group that there is.
group=
freeze()
{
	for at in /sys/fs/cgroup/freezer /sys/fs/cgroup/unified /sys/fs/cgroup; do
		[ -e "$at/cgroup.procs" ] && mkdir "$at/trapline-test-$$" 2>/dev/null || continue
		group=$at/trapline-test-$$
		if [ -e "$group/freezer.state" ]; then
			echo "$1" >"$group/cgroup.procs" && echo FROZEN >"$group/freezer.state" && return
		elif [ -e "$group/cgroup.freeze" ]; then
			echo "$1" >"$group/cgroup.procs" && echo 1 >"$group/cgroup.freeze" && return
		fi
		rmdir "$group"
	done
	group=
	return 1
}

thaw()
{
	[ -e "$group/freezer.state" ] && echo THAWED >"$group/freezer.state"
	[ -e "$group/cgroup.freeze" ] && echo 0 >"$group/cgroup.freeze"
	echo "$1" >"${group%/*}/cgroup.procs"
	rmdir "$group"
}

start patched 4
printed "$old"
if freeze "$pid"; then
	timeout -k 2 30 "$trapline" patch -p "$pid" --list --timeout 1 >"$tmp/out" 2>"$tmp/err"
	[ $? = 2 ] && grep -q 'the attach was ended before anything was loaded, .*; thaw the process if it is frozen' "$tmp/err"
	ok a_frozen_process_is_given_up $?
	thaw "$pid"
	printed "$old" && watch -p "$pid" --list && grep -q 'has no patch' "$tmp/out"
	ok it_goes_on_and_can_be_patched_when_it_is_thawed $?
else
	skip a_frozen_process_is_given_up 'a control group that freezes'
fi
kill "$pid"

# In their order, before the hooks; what they open is the program's.
make opens <<END
#include <fcntl.h>
#include <unistd.h>
static int order;
static int changed(int x) { return order; }
static int is_ready(void) { return order != 12; }
TRAPLINE_PATCH("answer", changed);
TRAPLINE_PATCH_BEFORE(is_ready);
__attribute__((constructor(101))) static void first(void) { order = 1; }
__attribute__((constructor)) static void second(void)
{
	order = order * 10 + 2;
	dup2(open("$tmp/opens.so", O_RDONLY), 77);
}
END
start patched 4
printed "$old"
watch -p "$pid" "$tmp/opens.so" && [ "$(readlink "/proc/$pid/fd/77")" = "$tmp/opens.so" ] && printed '12 9 156 15 0'
ok constructors_run_in_the_table_of_the_program $?
kill "$pid"

make never <<'END'
#include <unistd.h>
static int changed(void) { return 1; }
TRAPLINE_PATCH("answer", changed);
__attribute__((constructor)) static void never(void)
{
	for (;;)
		pause();
}
END
start patched 4
printed "$old"
timeout -k 2 50 "$trapline" patch -p "$pid" "$tmp/never.so" --timeout 1 >"$tmp/out" 2>"$tmp/err"
[ $? = 2 ] && grep -q 'does not answer: its agent is loading the object' "$tmp/err"
ok a_constructor_that_never_ends_is_given_up $?
timeout -k 2 30 "$trapline" patch -p "$pid" --list --timeout 1 >"$tmp/out" 2>"$tmp/err"
[ $? = 2 ] && grep -q 'the attach was ended\|has a thread of another trapline ([0-9]*), .* that works' "$tmp/err"
ok so_is_the_list_behind_it $?
kill -9 "$pid"

finished
