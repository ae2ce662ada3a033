/* SPDX-License-Identifier: MIT */
/*
 * check_code.c - see check_code.h: a test of the processor, whose owner sends the output.
 *
 * Threads call functions whose first instruction is changed again and again. A call that begins and
 * ends between two changes has to return what the last one put there: another known value is stale,
 * and any other is a failure. Threads are created in the meantime.
 */
#include "cli/commands/check_code.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "cli/cmd.h"
#include "cli/commands/check_code_words.h"
#include "cli/message.h"

#include <trapline/code.h>
#include <trapline/trapline.h>

#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#define SITES 64
#define APART 64 /* bytes, of one function from the next */
#define RUNNERS_MAX 8
#define ROUNDS_PER_BIRTH 64
#define SETTLE_SPINS 100000

typedef unsigned int (*code_function)(void);

/* What all threads share. state: the number of changes begun * 2, and 1 while one is under way. */
static struct {
	uint8_t *code;
	uint64_t state;
	uint64_t is_over;
	uint64_t calls;
	uint64_t stale;
	uint64_t failures;
} test;

static void call_one(unsigned int site)
{
	const uint64_t before = atomic_get(&test.state);
	unsigned int got = ((code_function)(void *)(test.code + site * APART))();
	const uint64_t after = atomic_get(&test.state);

	atomic_add(&test.calls, 1u);
	if (got != 1 && got != 2)
		atomic_add(&test.failures, 1u);
	else if (before == after && !(after & 1) && got != (after >> 1 & 1 ? 1 : 2))
		atomic_add(&test.stale, 1u);
}

static void *call_all(void *arg)
{
	while (!atomic_get(&test.is_over))
		for (unsigned int i = 0; i < SITES; i++)
			call_one(i);
	return NULL;
}

static void *call_once(void *arg)
{
	for (unsigned int i = 0; i < SITES; i++)
		call_one(i);
	return NULL;
}

/* All at once, from what the number before left to what this one states. */
static int change(uint64_t number)
{
	struct trapline_poke_opts opts = { .size = sizeof(opts) };
	struct trapline_poke_site sites[SITES];

	for (unsigned int i = 0; i < SITES; i++)
		sites[i] = (struct trapline_poke_site){
			(uintptr_t)test.code + i * APART,
			words_of[(number - 1) & 1],
			words_of[number & 1],
			WORDS_CHANGED,
		};
	atomic_set(&test.state, number << 1 | 1);
	int err = trapline_poke(sites, SITES, &opts);
	atomic_set(&test.state, number << 1);
	return err;
}

/* Until each thread has called something between two changes, or has had the time to. */
static void let_calls_pass(unsigned int runners)
{
	const uint64_t enough = atomic_get(&test.calls) + (uint64_t)runners * SITES;

	for (int i = 0; i < SETTLE_SPINS && atomic_get(&test.calls) < enough; i++)
		if (i % 64 == 63)
			sched_yield();
}

static int change_for(uint64_t for_ns, unsigned int runners, uint64_t *rounds)
{
	const uint64_t end = clock_now_ns() + for_ns;
	int err = 0;

	for (*rounds = 0; !err && clock_now_ns() < end; ++*rounds) {
		pthread_t born;

		err = change(*rounds + 1);
		if (err)
			break;
		let_calls_pass(runners);
		if (*rounds % ROUNDS_PER_BIRTH == 0 &&
		    !pthread_create(&born, NULL, call_once, NULL))
			pthread_join(born, NULL);
	}
	return err;
}

static int prepare(void)
{
	void *code;
	int err = trapline_code_alloc(0, SITES * APART, &code);

	if (err)
		return err;
	test.code = code;
	for (unsigned int i = 0; !err && i < SITES; i++)
		err = trapline_code_write(test.code + i * APART, words_of[0], sizeof(words_of[0]));
	return err;
}

static int run(uint64_t for_ns, unsigned int runners, uint64_t *rounds)
{
	pthread_t threads[RUNNERS_MAX];
	unsigned int count = 0;

	int err = prepare();
	if (err)
		return err;
	while (count < runners && !pthread_create(&threads[count], NULL, call_all, NULL))
		count++;
	err = change_for(for_ns, count, rounds);
	atomic_set(&test.is_over, 1);
	while (count > 0)
		pthread_join(threads[--count], NULL);
	trapline_code_free(test.code);
	return err;
}

/* The lines of /proc/cpuinfo that identify the first processor, as `name: value; name: value`. */
static void read_processor(char *out, size_t size)
{
	static const char *const wanted[] = { "model name",	 "stepping",	"microcode",
					      "CPU implementer", "CPU variant", "CPU part",
					      "CPU revision" };
	FILE *file = fopen("/proc/cpuinfo", "re");
	char line[512];

	out[0] = '\0';
	while (file && fgets(line, sizeof(line), file) && line[0] != '\n')
		for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
			const char *value = strchr(line, ':');
			size_t used = strlen(out);

			if (!value || strncmp(line, wanted[i], strlen(wanted[i])) != 0)
				continue;
			snprintf(out + used, size - used, "%s%s %.*s", used ? ", " : "", wanted[i],
				 (int)strcspn(value + 1 + strspn(value + 1, " "), "\n"),
				 value + 1 + strspn(value + 1, " "));
		}
	if (file)
		fclose(file);
}

int check_code(uint64_t for_ns, int json)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	/* One is left for what changes them. */
	unsigned int runners = cpus > RUNNERS_MAX ? RUNNERS_MAX :
			       cpus < 2		  ? 1 :
						    (unsigned int)cpus - 1;
	char processor[512];
	char why[512];
	struct utsname u;
	uint64_t rounds = 0;

	if (uname(&u))
		memset(&u, 0, sizeof(u));
	read_processor(processor, sizeof(processor));
	int err = run(for_ns, runners, &rounds);
	if (err) {
		trapline_explain(err, why, sizeof(why));
		cli_wrong("check", "cannot change code: %s", why);
		return CLI_NO;
	}
	if (json) {
		json_t *root = json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I}",
					 "version", TRAPLINE_VERSION_STRING, "kernel", u.release,
					 "arch", u.machine, "processor", processor, "cpus",
					 (json_int_t)cpus, "threads", (json_int_t)runners, "rounds",
					 (json_int_t)rounds, "calls", (json_int_t)test.calls,
					 "stale", (json_int_t)test.stale, "failures",
					 (json_int_t)test.failures);
		json_dumpf(root, stdout, JSON_INDENT(2));
		printf("\n");
		json_decref(root);
	} else {
		printf("trapline %s, kernel %s, %s\n", TRAPLINE_VERSION_STRING, u.release,
		       u.machine);
		printf("processor   %s; %ld CPUs\n", processor, cpus);
		printf("rounds      %llu, each changes %d instructions under %u threads\n",
		       (unsigned long long)rounds, SITES, runners);
		printf("calls       %llu\n", (unsigned long long)test.calls);
		printf("stale       %llu\n", (unsigned long long)test.stale);
		printf("failures    %llu\n", (unsigned long long)test.failures);
	}
	return test.stale || test.failures ? CLI_NO : CLI_OK;
}
