/* SPDX-License-Identifier: MIT */
/*
 * test_patrol_share.c - where many hosts begin: with which process, tool, point, code and block. The code that
 * chooses is that of the product.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "cli/heap/heap_settings.h"
#include "cli/patrol/patrol_process.h"
#include "cli/patrol/patrol_share.h"
#include "outside/outside_priv.h"
#include "race/race_modules.h"
#include "race/race_state.h"
#include "race/race_walk.h"
#include "random.h"
#include "rates.h"

#define HOSTS 1000
#define THINGS 1000 /* that they share */
#define DAY_S 86400.0
#define NO_FILE "/no-such-file"

static double today;
static struct patrol_rules rules;
static char rules_path[] = "/tmp/test_patrol_share.XXXXXX";

/* THINGS points in one rule, and two tools in another. */
static int start(void **state)
{
	int fd = mkstemp(rules_path);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w");

	random_seed();
	today = DAY_S * (double)(20000 + random_below(10000)) + 43200;
	assert_non_null(f);
	fprintf(f, "rule points { name = {\"a\"}\n tool = {points}\n point = {");
	for (int i = 0; i < THINGS; i++)
		fprintf(f, "%s\"f%d\"", i ? ", " : "", i);
	fprintf(f, "} }\nrule tools { name = {\"b\"}\n tool = {heap, race} }\n");
	assert_int_equal(fclose(f), 0);
	return patrol_rules_read(rules_path, &rules);
}

static int end(void **state)
{
	patrol_rules_free(&rules);
	return unlink(rules_path);
}

static uint64_t host_of(int number)
{
	char name[32];

	snprintf(name, sizeof(name), "host%d", number);
	return patrol_share_host(NO_FILE, name);
}

/* So many different ones of THINGS are expected, if each host chooses one by chance. */
static void assert_spread(const uint8_t *seen, const char *what)
{
	double share = 1 - exp(-(double)HOSTS / THINGS);
	int n = 0;

	for (int i = 0; i < THINGS; i++)
		n += seen[i];
	print_message("# %d hosts begin with %d of %d %s\n", HOSTS, n, THINGS, what);
	assert_true(rates_fits(n, THINGS, share, 0));
}

/* ---- the number of a host ---- */

static void write_id(const char *path, const char *id)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(id, f);
	assert_int_equal(fclose(f), 0);
}

static void number_is_of_the_machine_and_its_name(void **state)
{
	char path[] = "/tmp/test_patrol_id.XXXXXX";
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);
	write_id(path, "0123456789abcdef0123456789abcdef\n");
	uint64_t one = patrol_share_host(path, "web");
	assert_true(one == patrol_share_host(path, "web"));
	assert_true(one != patrol_share_host(path, "db"));
	assert_true(one != patrol_share_host(NO_FILE, "web"));
	write_id(path, "0123456789abcdef0123456789abcdee\n");
	assert_true(one != patrol_share_host(path, "web"));
	assert_true(patrol_share_host(NO_FILE, "web") == patrol_share_host(NO_FILE, "web"));
	unlink(path);
}

static void day_begins_at_midnight_utc(void **state)
{
	double midnight = today - 43200;
	uint64_t host = host_of(1);

	assert_true(patrol_share(host, midnight, 7) == patrol_share(host, midnight + 86399, 7));
	assert_true(patrol_share(host, midnight, 7) != patrol_share(host, midnight - 1, 7));
	assert_true(patrol_share(host, midnight, 7) != patrol_share(host, midnight, 8));
	assert_true(patrol_share(host, midnight, 7) != patrol_share(host_of(2), midnight, 7));
	assert_true(patrol_share(host, -5, 7) == patrol_share(host, 0, 7));
}

/* ---- processes, tools and points ---- */

static char program[] = "/usr/bin/a";

/* At a boot the start grows with the number. */
static struct patrol_process process(int number, size_t rule, double seen)
{
	return (struct patrol_process){ .pid = 1000 + number,
					.start = 5000 + number,
					.program = program,
					.program_id = 1,
					.rule = rule,
					.waits_from = seen };
}

static struct patrol_turn first_turn(int host, struct patrol_process *one)
{
	struct patrol_processes all = {
		.row = one, .count = 1, .capacity = 1, .host = host_of(host)
	};
	struct patrol_turn turn;

	patrol_process_begin(&all, &rules, one);
	assert_true(patrol_processes_next(&all, &rules, today, &turn));
	return turn;
}

static int point_of(int host, int pid, double seen)
{
	struct patrol_process one = process(pid, 0, seen);

	return atoi(first_turn(host, &one).point + 1);
}

static void hosts_begin_with_different_points(void **state)
{
	uint8_t seen[THINGS] = { 0 };

	for (int i = 0; i < HOSTS; i++)
		seen[point_of(i, 1, today)] = 1;
	assert_spread(seen, "points");
}

static void same_host_and_day_begin_with_the_same_point(void **state)
{
	int hosts = 0;
	int days = 0;

	for (int pid = 0; pid < THINGS; pid++) {
		int point = point_of(1, pid, today);

		assert_int_equal(point, point_of(1, pid, today + 3600));
		hosts += point == point_of(2, pid, today);
		days += point == point_of(1, pid, today + DAY_S);
	}
	/* One of THINGS is the same by chance. */
	assert_in_range(hosts, 0, 10);
	assert_in_range(days, 0, 10);
}

static void half_of_the_hosts_begin_with_each_tool(void **state)
{
	int heap = 0;

	for (int i = 0; i < HOSTS; i++) {
		struct patrol_process one = process(1, 1, today);

		heap += first_turn(i, &one).tool == PATROL_HEAP;
	}
	assert_true(rates_fits(heap, HOSTS, 0.5, 0));
}

/* All points have their turn, one after the other, from the first on. */
static void host_goes_round_all_points(void **state)
{
	struct patrol_process one = process(1, 0, today);
	struct patrol_processes all = {
		.row = &one, .count = 1, .capacity = 1, .host = host_of(1)
	};
	uint8_t seen[THINGS] = { 0 };
	double now = today;

	patrol_process_begin(&all, &rules, &one);
	for (int i = 0; i < THINGS; i++) {
		struct patrol_turn turn;

		assert_true(patrol_processes_next(&all, &rules, now, &turn));
		assert_int_equal(seen[atoi(turn.point + 1)]++, 0);
		patrol_processes_visited(&all, &turn, now);
		now += 4000;
	}
}

/* In the order of /proc, as a look finds them. */
static void find_all(struct patrol_processes *all, struct patrol_process *row, int host)
{
	*all = (struct patrol_processes){
		.row = row, .count = THINGS, .capacity = THINGS, .host = host_of(host)
	};
	for (int i = 0; i < THINGS; i++)
		row[i] = process(i, 1, today);
}

static void hosts_begin_with_different_processes(void **state)
{
	static struct patrol_process row[THINGS];
	struct patrol_processes all;
	struct patrol_turn turn;
	uint8_t seen[THINGS] = { 0 };

	for (int i = 0; i < HOSTS; i++) {
		find_all(&all, row, i);
		assert_true(patrol_processes_next(&all, &rules, today, &turn));
		seen[turn.process->pid - 1000] = 1;
	}
	assert_spread(seen, "processes");
}

static void no_process_comes_twice_before_the_others(void **state)
{
	static struct patrol_process row[THINGS];
	struct patrol_processes all;
	uint8_t seen[THINGS] = { 0 };

	find_all(&all, row, 1);
	row[THINGS / 2].waits_from -= 60;
	for (int i = 0; i < THINGS; i++) {
		struct patrol_turn turn;

		assert_true(patrol_processes_next(&all, &rules, today, &turn));
		int number = turn.process->pid - 1000;
		assert_true(i || number == THINGS / 2);
		assert_int_equal(seen[number]++, 0);
		patrol_processes_visited(&all, &turn, today + i);
	}
}

/* ---- what a tool draws ---- */

#define PROCESSES 250

/* A host is a process: the numbers of one follow from how it began. */
static void on_each_host(void (*choose)(uint64_t *out, int count), uint64_t *out, int hosts,
			 int count)
{
	for (int i = 0; i < hosts; i++) {
		int status;
		pid_t child = fork();

		assert_true(child >= 0);
		if (!child) {
			choose(out + (size_t)i * (size_t)count, count);
			_exit(0);
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(status, 0);
	}
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a;
	uint64_t y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static int count_different(uint64_t *numbers, int n)
{
	int different = 0;

	qsort(numbers, (size_t)n, sizeof(*numbers), compare);
	for (int i = 0; i < n; i++)
		different += !i || numbers[i] != numbers[i - 1];
	return different;
}

static uint64_t *room(size_t count)
{
	void *memory = mmap(NULL, count * sizeof(uint64_t), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(memory, MAP_FAILED);
	return memory;
}

static uint64_t draw_seed(void)
{
	static char *words[] = { "heap", "-p", "1", NULL };
	struct heap_cli_settings set = { .seed = 0 };

	assert_int_equal(heap_settings_read(&set, 3, words), 0);
	return set.seed;
}

static void heap_draws_otherwise_in_each_run(void **state)
{
	uint64_t seeds[HOSTS];

	for (int i = 0; i < HOSTS; i++)
		seeds[i] = draw_seed();
	/* Two of 2^32 are the same once in 8,600 runs of this test. */
	assert_in_range(count_different(seeds, HOSTS), HOSTS - 1, HOSTS);
}

#define FUNCTIONS 25000u

static void choose_functions(uint64_t *out, int count)
{
	struct outside o = { .code = { .function_count = FUNCTIONS } };

	if (outside_begin_round(&o))
		_exit(1);
	for (int i = 0; i < count; i++)
		out[i] = o.order[i];
}

/* From outside: 100 of 25,000 functions have their turn on each host. */
static void race_outside_turns_to_other_code_on_each_host(void **state)
{
	const int most = 100;
	uint64_t *functions = room(PROCESSES * 100);

	on_each_host(choose_functions, functions, PROCESSES, most);
	assert_int_equal(count_different(functions, most), most);
	int n = count_different(functions, PROCESSES * most);
	print_message("# %d hosts: %d of %u functions had their turn\n", PROCESSES, n, FUNCTIONS);
	assert_true(rates_fits(n, FUNCTIONS, 1 - exp(-(double)PROCESSES * most / FUNCTIONS), 0));
}

static const struct race_module *module;

static void choose_places(uint64_t *out, int count)
{
	race_random_start();
	for (int i = 0; i < count; i++)
		while (race_walk_in(module, &out[i]))
			;
}

/* From inside, at a process that runs: a breakpoint at an access by chance. */
static void hosts_reach_as_much_code_as_one_in_their_time(void **state)
{
	uint64_t *many = room(PROCESSES);
	uint64_t *one = room(PROCESSES);

	race.pid = getpid();
	race.region = (struct race_region *)room(sizeof(*race.region) / sizeof(uint64_t) + 1);
	assert_int_equal(race_policy_of((uintptr_t)json_loadb, &module), RACE_CODE_INCLUDED);
	on_each_host(choose_places, many, PROCESSES, 1);
	on_each_host(choose_places, one, 1, PROCESSES);
	int by_many = count_different(many, PROCESSES);
	int by_one = count_different(one, PROCESSES);
	print_message("# %d hosts choose %d accesses, one host in their time %d\n", PROCESSES, by_many,
		      by_one);
	assert_true(by_many > 20 && by_one > 20);
	assert_in_range(by_many, by_one * 2 / 3, by_one * 3 / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(number_is_of_the_machine_and_its_name),
		cmocka_unit_test(day_begins_at_midnight_utc),
		cmocka_unit_test(hosts_begin_with_different_points),
		cmocka_unit_test(same_host_and_day_begin_with_the_same_point),
		cmocka_unit_test(half_of_the_hosts_begin_with_each_tool),
		cmocka_unit_test(host_goes_round_all_points),
		cmocka_unit_test(hosts_begin_with_different_processes),
		cmocka_unit_test(no_process_comes_twice_before_the_others),
		cmocka_unit_test(heap_draws_otherwise_in_each_run),
		cmocka_unit_test(race_outside_turns_to_other_code_on_each_host),
		cmocka_unit_test(hosts_reach_as_much_code_as_one_in_their_time),
	};

	return cmocka_run_group_tests(tests, start, end);
}
