#!/bin/sh
# SPDX-License-Identifier: MIT
# test_said.sh TRAPLINE VICTIMS - what a message, a summary or a help text says is so: small things that newcomers
# met. TAP.

# shellcheck source=tests/cli/tap.sh disable=SC1091,SC2154,SC2034 # trapline, victims and tmp are of there
. "$(dirname "$0")/../cli/tap.sh"
need_uprobes
need jq gcc

for command in watch break heap race flow patch; do
	case $command in watch | break) of=main ;; patch) of=/dev/null ;; *) of= ;; esac
	# shellcheck disable=SC2086 # may be empty
	watch -p 999999999 $of
	[ $? = 2 ] && grep -q 'there is no process 999999999' "$tmp/err"
	ok "$command: a_process_that_is_not_there" $?
done
"$trapline" watch --help | grep -q -- '--pid PID  ' && "$trapline" break --help | grep -q -- '--pid PID\[,PID...\]'
ok 'the_help_of_watch_names_one_process' $?

mkdir "$tmp/build" "$tmp/lib"
cat >"$tmp/lib/work.c" <<'END'
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
uint64_t list[4];
static inline __attribute__((always_inline)) void put(int n) { list[1] = (uint64_t)n; }
__attribute__((noinline)) void handle(int n) { put(n); }
int main(void)
{
	for (int i = 0;; i++) {
		handle(i);
		usleep(5000);
	}
}
END
(cd "$tmp/build" && gcc -gdwarf-4 -O1 -o work ../lib/work.c && cp work plain && strip --strip-debug plain)
"$tmp/build/work" &
pid=$!
started="$started $pid"
eventually runs "$pid" work
command=watch
watch -p "$pid" 'list[1]' --stack --limit 2 --json
hits "length == 2 and ([.[].stack[:3][].file] | all(. == \"$tmp/build/../lib/work.c\"))"
ok 'a_relative_source_has_its_folder' $?
command='break'
watch -p "$pid" handle --by stack --frames 1 --summary --limit 5
[ $? = 0 ] && grep -q '#0  ' "$tmp/out" && ! grep -q '#1 ' "$tmp/out"
ok 'a_table_of_stacks_has_as_many_frames_as_asked' $?
watch -p "$pid" handle --by stack --summary --limit 5
[ $? = 0 ] && grep -q '#2  main' "$tmp/out"
ok 'and_all_of_them_otherwise' $?
kill "$pid"
"$tmp/build/plain" &
pid=$!
started="$started $pid"
eventually runs "$pid" plain
command=watch
watch -p "$pid" '((u64*)list)+1' --for 0.2
[ $? = 2 ] && grep -q 'C counts elements from a pointer, and +offset counts bytes' "$tmp/err"
ok 'an_offset_behind_a_pointer_is_refused' $?
watch -p "$pid" 'list+8:8' --limit 2
[ $? = 0 ] && grep -q 'watching writes of list+8:8 (8 bytes' "$tmp/err"
ok 'an_offset_behind_a_name_is_one_of_bytes' $?
kill "$pid"

# --name: a process that ends at once is no reason to end.
cat >"$tmp/brief.c" <<'END'
#include <unistd.h>
__attribute__((noinline)) int handle(int n) { __asm__ volatile(""); return n; }
int main(void) { usleep(45000); return handle(0); }
END
gcc -O1 -o "$tmp/brief_name" "$tmp/brief.c"
(for _ in $(seq 400); do "$tmp/brief_name"; sleep 0.01; done) &
started="$started $!"
command='break'
failures=0
for _ in 1 2 3; do
	watch --name brief_name handle --limit 2 --for 20
	[ $? = 0 ] && ! grep -q 'has ended\|cannot break' "$tmp/err" || failures=$((failures + 1))
done
ok 'a_process_of_a_name_that_ends_at_once_is_followed_by_the_next' $failures
"$tmp/build/work" &
pid=$!
started="$started $pid"
eventually runs "$pid" work
watch --name work no_such_function --for 20
[ $? = 2 ] && grep -q "no function is named 'no_such_function'" "$tmp/err"
ok 'a_wrong_name_of_a_function_is_told_still' $?
kill "$pid"

# What the budget has taken is said without -v.
cat >"$tmp/blocks.c" <<'END'
#include <stdlib.h>
#include <string.h>
static void walk(int depth, int way)
{
	if (!depth) {
		volatile char *p = malloc(40);
		p[0] = 1;
		free((void *)p);
	} else if (way & 1) {
		walk(depth - 1, way >> 1);
	} else {
		walk(depth - 1, way >> 1);
	}
}
int main(void)
{
	for (int i = 0; i < 4000000; i++)
		walk(14, i);
}
END
gcc -O0 -o "$tmp/blocks" "$tmp/blocks.c"
command=heap
watch -- "$tmp/blocks"
grep -q '^  [1-9][0-9]* blocks not sampled that were due: the budget was used up (--overhead)' "$tmp/err"
ok 'heap: what_the_budget_has_taken' $?
cat >"$tmp/large.c" <<'END'
#include <stdlib.h>
#include <unistd.h>
int main(void)
{
	for (;;) {
		volatile char *p = malloc(100u << 20);
		p[0] = 1;
		free((void *)p);
		usleep(10000);
	}
}
END
gcc -O0 -o "$tmp/large" "$tmp/large.c"
"$tmp/large" &
pid=$!
started="$started $pid"
eventually runs "$pid" large
watch -p "$pid" --for 2
grep -Eq 'nothing was sampled: [0-9]+ blocks? of .* too large' "$tmp/err" && ! grep -q 'did not call malloc' "$tmp/err"
ok 'heap: blocks_that_are_too_large_are_no_missing_calls' $?
kill "$pid"
cat >"$tmp/racing.c" <<'END'
#include <pthread.h>
volatile long n;
static void *count(void *unused)
{
	for (long i = 0; i < 300000000; i++)
		n++;
	return unused;
}
int main(void)
{
	pthread_t t;
	pthread_create(&t, 0, count, 0);
	count(0);
	return pthread_join(t, 0);
}
END
gcc -O1 -pthread -o "$tmp/racing" "$tmp/racing.c"
command=race
# By chance a run has a sample when there is budget for each.
for _ in 1 2 3 4 5 6; do
	watch --overhead 0.1% -- "$tmp/racing"
	grep -q '^budget: [0-9]* of [0-9]* samples w[a-z]* not used (--overhead)' "$tmp/err" && break
done
ok 'race: what_the_budget_has_taken' $?
watch --overhead 100% -- "$tmp/racing"
grep -q '^race ' "$tmp/err" || grep -q 'shows\|tested' "$tmp/err"
ok 'race: a_run_without_that' $?

# ends OPTION...: a search of a program with two threads that ends by itself, or is ended.
cat >"$tmp/quiet.c" <<'END'
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
volatile int n;
static void *count(void *unused)
{
	for (int i = 0; i < 20; i++) {
		n++;
		usleep(1000);
	}
	return unused;
}
int main(int argc, char **argv)
{
	pthread_t t;
	if (argc > 1 && *argv[1] == 'd' && daemon(1, 0))
		return 1;
	pthread_create(&t, 0, count, 0);
	if (argc > 1)
		sleep(5);
	return pthread_join(t, 0);
}
END
gcc -O1 -pthread -o "$tmp/quiet" "$tmp/quiet.c"
watch --for 1 -- "$tmp/quiet" stays
! grep -q 'try: trapline race --sweep' "$tmp/err"
ok 'race: no_sweep_of_a_program_that_does_not_end' $?
watch -- "$tmp/quiet"
! grep -q '^try:' "$tmp/err" || grep -q 'try: trapline race --sweep -- .*quiet$' "$tmp/err"
ok 'race: a_sweep_of_one_that_ends' $?
for command in race heap flow; do
	watch -- "$tmp/quiet" daemon </dev/null
	left=$(sed -n 's/.*quiet has ended, and process \([0-9]*\), which it left behind, was observed until then only.*/\1/p' "$tmp/err")
	[ -n "$left" ] && grep -q "trapline $command -p $left\$" "$tmp/err" && ! grep -q 'too short' "$tmp/err"
	ok "$command: a_daemon_was_not_looked_at" $?
	[ -z "$left" ] || kill "$left"
	watch -- "$tmp/quiet" </dev/null
	! grep -q 'left behind' "$tmp/err"
	ok "$command: a_program_that_ends_leaves_nothing_behind" $?
done

cat >"$tmp/store.c" <<'END'
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>
volatile uint64_t total;
__attribute__((noinline)) void tick(uint64_t n) { total = n; }
__attribute__((noinline)) int twice(int n) { volatile int v = n; return 2 * v; }
int main(void)
{
	for (uint64_t i = 0;; i++) {
		tick(i);
		twice((int)i);
		usleep(2000);
	}
}
END
gcc -g -O1 -o "$tmp/store" "$tmp/store.c"
"$tmp/store" &
pid=$!
started="$started $pid"
eventually runs "$pid" store
command=watch
if grep -q hypervisor /proc/cpuinfo && ! timeout 20 "$trapline" watch -p "$pid" total --limit 1 >/dev/null 2>&1; then
	skip 'watch: writers_have_names' 'debug registers that fire'
else
	watch -p "$pid" --at-writers total --limit 3 --for 5
	grep -Eq '^ +3 100.0% +1  tick in store$' "$tmp/out"
	ok 'watch: writers_have_names' $?
fi
command=record
watch -p "$pid" -b twice --for 1 -o "$tmp/twice.trapline"
{ timeout 20 "$trapline" report "$tmp/twice.trapline" 2>"$tmp/err"; } | head -n 1 >"$tmp/out"
[ "$(wc -l <"$tmp/out")" = 1 ] && ! [ -s "$tmp/err" ]
ok 'report: a_reader_that_has_seen_enough_needs_no_message' $?
timeout 20 "$trapline" report "$tmp/twice.trapline" >/dev/full 2>"$tmp/err"
[ $? != 0 ] && [ "$(grep -c 'cannot write standard output: No space left' "$tmp/err")" = 1 ]
ok 'report: a_full_disk_is_said' $?
kill "$pid"

if command -v valgrind >/dev/null; then
	cat >"$tmp/fix.c" <<'END'
#include <trapline/tools.h>
static int thrice(int n) { volatile int v = n; return 3 * v; }
TRAPLINE_PATCH("twice", thrice);
END
	sources=$(cd "$(dirname "$0")/../.." && pwd)
	gcc -shared -fPIC -O2 -I"$sources/include" -I"$(dirname "$trapline")/include" -o "$tmp/fix.so" "$tmp/fix.c"
	valgrind -q "$tmp/store" &
	pid=$!
	started="$started $pid"
	eventually grep -q store "/proc/$pid/maps"
	sleep 1
	for command in 'patch --dry-run' patch heap race flow break; do
		case $command in patch*) of=$tmp/fix.so ;; break) of=twice ;; *) of= ;; esac
		# shellcheck disable=SC2086 # words; one may be empty
		timeout 30 "$trapline" $command -p "$pid" $of >"$tmp/out" 2>"$tmp/err" </dev/null
		[ $? = 2 ] && [ "$(wc -l <"$tmp/err")" = 1 ] && grep -q 'it runs under valgrind, which executes a translation' "$tmp/err"
		ok "$command: valgrind_is_said" $?
	done
	kill "$pid"
else
	skip 'valgrind_is_said' valgrind
fi

# A limit of descriptors that is too low looked like processes and libraries that are not there.
"$tmp/store" &
pid=$!
started="$started $pid"
eventually runs "$pid" store
for soft in 12 18 28 40; do
	prlimit --nofile=$soft: timeout 30 "$trapline" break -p "$pid" tick --limit 1 >"$tmp/out" 2>"$tmp/err" &&
		grep -q 'tick' "$tmp/out"
	ok "a soft limit of $soft descriptors is raised for the command" $?
done
[ "$(prlimit --nofile=100: timeout 30 "$trapline" heap -- sh -c 'ulimit -Sn' 2>/dev/null)" = 100 ]
ok 'a_program_that_is_started_has_the_limit_that_was' $?
for hard in 12 18 28 40; do
	setpriv --bounding-set=-sys_resource --inh-caps=-sys_resource prlimit --nofile=$hard \
		timeout 30 "$trapline" heap -p "$pid" --for 0.2 >"$tmp/out" 2>"$tmp/err"
	! grep -q 'no such process\|statically\|process [0-9]*: $\|system call instruction' "$tmp/err"
	ok "a hard limit of $hard descriptors is no missing process" $?
done
finished
