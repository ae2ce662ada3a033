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
finished
