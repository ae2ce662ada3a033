/* SPDX-License-Identifier: MIT */
/*
 * test_poke_arm64_many.c - arm64: batches of thousands of sites under threads that run them, one-store
 * flips, new threads, signals and forks.
 *
 * A pass that lies between two returned pokes runs the new instruction; one beside a poke the old
 * or the new one, and no third. It is run where several processors share memory. An emulated one
 * fetches what was stored last, so a missing sync is not seen here: tests/model/poke_arm64.pml.
 */
#include "words_arm64.h"

#define SITES 2000
#define FEW 48
#define RUNNERS 3

static uint32_t *text;
static uint32_t site_count;
static uint32_t state; /* see state_of() */
static uint32_t is_over;
static uint32_t wrong;
static uint32_t stale;
static uint64_t passes;

#define get(p) __atomic_load_n(p, __ATOMIC_SEQ_CST)
#define set(p, v) __atomic_store_n(p, v, __ATOMIC_SEQ_CST)
#define add(p, v) __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST)

static uint32_t *site_of(uint32_t i)
{
	return text + i * FUNCTION_WORDS;
}

/* A number that counts up; the variants before and after; is a poke running? */
static uint32_t state_of(uint32_t number, uint32_t from, uint32_t to, uint32_t is_running)
{
	return number << 8 | from << 5 | to << 2 | is_running;
}

static int allows(uint32_t s, uint32_t got)
{
	return got == results[s >> 2 & 7] || (s & 1 && got == results[s >> 5 & 7]);
}

/* All sites are changed by one poke. */
static void run_one(uint32_t i)
{
	uint32_t before = get(&state);
	uint32_t got = run_at(site_of(i), 0);
	uint32_t word = *(volatile uint32_t *)site_of(i);
	uint32_t after = get(&state);

	add(&passes, 1);
	/* The word is right, and what ran is not: the emulator has an old translation of it. */
	if (before == after && !(after & 1) && !allows(after, got) && word == variants[after >> 2 & 7]) {
		add(&stale, 1);
		return;
	}
	/* When several pokes have passed, anything is right. */
	if ((after >> 8) - (before >> 8) < 2 && !allows(before, got) && !allows(after, got))
		add(&wrong, 1);
}

static void *run_until_over(void *arg)
{
	uint32_t random = 12345 + (uint32_t)(uintptr_t)arg * 7919;

	while (!get(&is_over)) {
		random = random * 1664525 + 1013904223;
		run_one(random >> 8 & 1 ? (random >> 9) % site_count : (random >> 9) % 4);
	}
	return NULL;
}

/* Emulated processors translate a page again after each store to it: threads that only run would
 * leave the one that stores no time. */
static void *run_calmly(void *arg)
{
	for (uint32_t i = 0; !get(&is_over); i += 97) {
		run_one(i % site_count);
		if (i % 8 == 0)
			usleep(1000);
	}
	return NULL;
}

static struct trapline_poke_site changes[SITES];

static int poke_all(uint32_t from, uint32_t to, uint32_t flags)
{
	uint32_t number = (get(&state) >> 8) + 1;
	TRAPLINE_OPTS(poke, opts);

	opts.flags = flags;
	for (uint32_t i = 0; i < site_count; i++)
		changes[i] = (struct trapline_poke_site){ ADDR(site_of(i)), &variants[from],
							  &variants[to], 4 };
	set(&state, state_of(number, from, to, 1));
	int err = trapline_poke(changes, site_count, &opts);
	set(&state, state_of(number, from, to, 0));
	return err;
}

struct helpers {
	pthread_t threads[RUNNERS + 1];
	int count;
};

static void start(struct helpers *h, int n, void *(*run)(void *))
{
	for (int i = 0; i < n; i++, h->count++)
		assert_int_equal(pthread_create(&h->threads[h->count], NULL, run,
						(void *)(uintptr_t)h->count),
				 0);
}

static void end(struct helpers *h)
{
	uint32_t at = get(&state) >> 2 & 7;

	set(&is_over, 1);
	/* A store ends an old translation, of a brk too. */
	assert_int_equal(poke_all(at, at, at < 2 ? TRAPLINE_POKE_SINGLE_STORE : 0), 0);
	for (int i = 0; i < h->count; i++)
		pthread_join(h->threads[i], NULL);
	assert_int_equal(get(&wrong), 0);
	if (get(&stale))
		print_message("# %d passes ran what memory no longer had: see run_arm64\n",
			      (int)get(&stale));
}

static int begin(void **unused)
{
	site_count = FEW;
	text = map_functions(SITES);
	set(&is_over, 0);
	set(&wrong, 0);
	set(&stale, 0);
	set(&state, state_of(0, 0, 0, 0));
	return 0;
}

static int unmap(void **unused)
{
	return munmap(text, SITES * sizeof(function_words));
}

static void change_under_threads(unsigned int rounds, void *(*run)(void *))
{
	struct helpers helpers = { 0 };
	struct trapline_code_stats before = read_stats();
	uint32_t at = 0;

	start(&helpers, RUNNERS, run);
	for (unsigned int i = 0; i < rounds; i++) {
		uint32_t to = (at + 1 + i % (VARIANTS - 1)) % VARIANTS;

		assert_int_equal(poke_all(at, to, 0), 0);
		at = to;
	}
	end(&helpers);
	struct trapline_code_stats after = read_stats();
	assert_int_equal(after.sites - before.sites, (rounds + 1) * site_count);
	assert_int_not_equal(after.emulated, before.emulated);
	assert_int_equal(after.foreign, before.foreign);
	print_message("# %d passes, %d traps taken past, %d of them by a copy, %d orphans\n",
		      (int)get(&passes), (int)(after.emulated - before.emulated),
		      (int)(after.copied - before.copied), (int)(after.orphans - before.orphans));
}

static void batches_change_under_threads(void **unused)
{
	struct trapline_code_stats before = read_stats();

	change_under_threads(scaled(1000), run_until_over);
	assert_int_not_equal(read_stats().copied, before.copied);
}

static void a_batch_of_thousands_of_sites_is_one_change(void **unused)
{
	site_count = SITES;
	change_under_threads(2, run_calmly);
}

static void one_store_flips_need_no_trap(void **unused)
{
	struct helpers helpers = { 0 };
	struct trapline_code_stats before = read_stats();

	start(&helpers, RUNNERS, run_until_over);
	for (unsigned int i = 0; i < scaled(500); i++)
		assert_int_equal(poke_all(i & 1, !(i & 1), TRAPLINE_POKE_SINGLE_STORE), 0);
	end(&helpers);
	assert_int_equal(read_stats().emulated, before.emulated);
	assert_int_equal(read_stats().orphans, before.orphans);
}

/* Threads begin and end, with all signals blocked for a moment in libc, while sites change. */
static void *run_some(void *arg)
{
	for (uint32_t i = 0; i < 20; i++)
		run_one(i % 4);
	return NULL;
}

static void *bear(void *arg)
{
	while (!get(&is_over)) {
		pthread_t thread;

		if (!pthread_create(&thread, NULL, run_some, NULL))
			pthread_join(thread, NULL);
	}
	return NULL;
}

static void threads_that_begin_and_end_run_the_new_code(void **unused)
{
	struct helpers helpers = { 0 };

	start(&helpers, 2, bear);
	for (unsigned int i = 0; i < scaled(500); i++)
		assert_int_equal(poke_all(i & 1, !(i & 1), 0), 0);
	end(&helpers);
}

/* A handler of the program runs sites, also when it comes into the copy of an instruction. */
static void on_alarm(int number)
{
	run_one(1);
	run_one(2);
}

static void signals_come_into_sites_and_copies(void **unused)
{
	struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
	struct itimerspec interval = { { 0, 500000 }, { 0, 500000 } };
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM };
	struct helpers helpers = { 0 };
	timer_t timer;

	assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
	assert_int_equal(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
	assert_int_equal(timer_settime(timer, 0, &interval, NULL), 0);
	start(&helpers, RUNNERS, run_until_over);
	for (unsigned int i = 0; i < scaled(500); i++)
		assert_int_equal(poke_all(i & 1 ? 3 : 0, i & 1 ? 0 : 3, 0), 0);
	timer_delete(timer);
	end(&helpers);
}

/* A child finds each site as it was at some moment of the parent's, and changes its own. */
static int run_child(void)
{
	uint32_t word = *site_of(0);
	uint32_t at = word == variants[0] ? 0 : 1;
	struct trapline_code_stats stats = { .size = sizeof(stats) };

	for (uint32_t i = 0; i < site_count; i++)
		if (run_at(site_of(i), 0) != results[at])
			return 1;
	if (poke(site_of(0), word, variants[2], 0) || run_at(site_of(0), 0) != results[2])
		return 2;
	return trapline_code_stats(&stats) ? 3 : 0;
}

static void *fork_children(void *arg)
{
	while (!get(&is_over)) {
		int status = -1;
		pid_t child = fork();

		if (!child)
			_exit(run_child());
		if (child < 0 || waitpid(child, &status, 0) != child || status)
			add(&wrong, 1);
	}
	return NULL;
}

static void children_have_code_of_their_own(void **unused)
{
	struct helpers helpers = { 0 };

	start(&helpers, 1, fork_children);
	for (unsigned int i = 0; i < scaled(500); i++)
		assert_int_equal(poke_all(i & 1, !(i & 1), 0), 0);
	end(&helpers);
}

/* Set and removed under threads: each call is counted, or came before or after. */
#define CALLS 400u

static void *call_often(void *arg)
{
	for (uint32_t i = 0; i < CALLS; i++)
		run_at(site_of(5), 0);
	return NULL;
}

static uint32_t called;

static void on_trap(const struct trapline_trap_hit *hit)
{
	add(&called, 1);
}

static void traps_count_each_call_of_each_thread(void **unused)
{
	const uint64_t sites[3] = { ADDR(site_of(5)), ADDR(site_of(5) + 1), ADDR(site_of(5) + 2) };
	struct helpers helpers = { 0 };
	struct trapline_traps *traps;
	TRAPLINE_OPTS(traps, opts);

	opts.callback = on_trap;
	for (int round = 0; round < 3; round++) {
		assert_int_equal(trapline_traps_set(sites, 3, &opts, &traps), 0);
		set(&called, 0);
		helpers.count = 0;
		start(&helpers, RUNNERS, call_often);
		for (int i = 0; i < RUNNERS; i++)
			pthread_join(helpers.threads[i], NULL);
		for (size_t i = 0; i < 3; i++) {
			uint64_t hits;

			assert_int_equal(trapline_traps_hits(traps, i, NULL, &hits), 0);
			assert_int_equal(hits, CALLS * RUNNERS);
		}
		assert_int_equal(get(&called), 3 * CALLS * RUNNERS);
		assert_int_equal(trapline_traps_remove(traps), 0);
		call_often(NULL);
		assert_int_equal(get(&called), 3 * CALLS * RUNNERS);
	}
}

static void traps_come_and_go_under_threads(void **unused)
{
	uint64_t sites[16];
	struct helpers helpers = { 0 };
	struct trapline_traps *traps;

	for (uint32_t i = 0; i < 16; i++)
		sites[i] = ADDR(site_of(i));
	start(&helpers, RUNNERS, run_until_over);
	for (unsigned int i = 0; i < scaled(300); i++) {
		assert_int_equal(trapline_traps_set(sites, 16, NULL, &traps), 0);
		assert_int_equal(trapline_traps_remove(traps), 0);
	}
	end(&helpers);
	for (uint32_t i = 0; i < 16; i++)
		assert_int_equal(*site_of(i), NOP);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, begin, unmap)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(batches_change_under_threads),
		TEST(a_batch_of_thousands_of_sites_is_one_change),
		TEST(one_store_flips_need_no_trap),
		TEST(threads_that_begin_and_end_run_the_new_code),
		TEST(signals_come_into_sites_and_copies),
		TEST(children_have_code_of_their_own),
		TEST(traps_count_each_call_of_each_thread),
		TEST(traps_come_and_go_under_threads),
	};

	cmocka_set_test_filter(getenv("TRAPLINE_TEST"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
