/* SPDX-License-Identifier: MIT */
/*
 * test_poke_stress.c - sites at all offsets of a line, flipped by the million under running threads.
 *
 * First it is shown that this host punishes mistakes at all: plain stores, and the protocol with
 * its syncs taken away, crash. A host that does not proves nothing below, and says so as a skip.
 *
 * TRAPLINE_FLIPS: how many in all (default 10 million). TRAPLINE_SEED: what was printed.
 */
#include "sites.h"

#include <time.h>

#define SITES (2 * OFFSETS * LENGTHS) /* within pages, and at their ends */
#define CODE_BYTES (SITES * BLOCK_BYTES + 4096)
#define THREADS_MAX 16
#define CONTROL_MS 40000 /* until it crashes; with others on the CPUs that takes a while */
#define SURVIVAL_MS 6000
#define EXIT_TORN 3
#define EXIT_SURVIVED 4
#define EXIT_CANNOT 5

static struct site sites[SITES];
static uint32_t site_result[SITES]; /* what a pass returns while no batch is on */
static uint64_t batch_count;	    /* odd: a batch is on */
static bool stop;
static struct runner {
	pthread_t thread;
	uint64_t passes[SITES];
	uint64_t torn;
	uint64_t stale;
	uint64_t exact;
	uint64_t seed;
	bool is_running;
	char pad[64];
} runners[THREADS_MAX];

/* ---- code to change ---- */

/* In the second half offsets 60 to 63 stand at the end of a page: where blocks are 15 mod 16. */
static size_t place_of(size_t i)
{
	size_t offset = i % OFFSETS;

	if (i < SITES / 2)
		return i * BLOCK_BYTES + 64 + offset;
	return i * BLOCK_BYTES + 192 + (offset % 16 * 4 + offset / 16);
}

static void make_all(uint8_t *code, uint8_t *into)
{
	for (size_t i = 0; i < SITES; i++) {
		size_t length = i / OFFSETS % LENGTHS;

		make_site(&sites[i], code + place_of(i), into + place_of(i), length);
		site_result[i] = site_results[length][0];
	}
}

static uint8_t *make_private(void)
{
	uint8_t *code = mmap(NULL, CODE_BYTES, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(code, MAP_FAILED);
	memset(code, 0xcc, CODE_BYTES);
	assert_true(map_fars(code));
	make_all(code, code);
	mprotect(code, CODE_BYTES, PROT_READ | PROT_EXEC);
	return code;
}

static uint8_t *make_aliased(void)
{
	static uint8_t image[CODE_BYTES];
	uint8_t *code = code_or_skip(CODE_BYTES);

	memset(image, 0xcc, CODE_BYTES);
	assert_true(map_fars(code));
	make_all(code, image);
	assert_int_equal(trapline_code_write(code, image, CODE_BYTES), 0);
	return code;
}

static void unmap_fars(void)
{
	munmap(far_a - 0x123, 4096);
	munmap(far_b - 0x123, 4096);
	munmap(far_c - 0x123, 4096);
	far_a = far_b = far_c = NULL;
}

/* ---- threads that run it ---- */

static void run_one(struct runner *me, size_t i)
{
	uint64_t before = __atomic_load_n(&batch_count, __ATOMIC_ACQUIRE);
	uint32_t expected = __atomic_load_n(&site_result[i], __ATOMIC_RELAXED);
	uint32_t result = run_site(sites[i].code);

	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	me->passes[i]++;
	if (!is_result(sites[i].length, result))
		me->torn++;
	if (before & 1 || __atomic_load_n(&batch_count, __ATOMIC_RELAXED) != before)
		return;
	me->exact++;
	me->stale += result != expected;
}

static void *run(void *arg)
{
	struct runner *me = arg;
	uint64_t random = me->seed;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		size_t first = next_random(&random) % SITES;

		for (size_t n = 0; n < 64; n++)
			run_one(me, (first + n * 5) % SITES);
		__atomic_store_n(&me->is_running, true, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void start_runners(int n, uint64_t *random)
{
	stop = false;
	memset(runners, 0, sizeof(runners));
	for (int i = 0; i < n; i++) {
		runners[i].seed = next_random(random);
		assert_int_equal(
			pthread_create(&runners[i].thread, NULL, run, &runners[i]), 0);
	}
	for (int i = 0; i < n; i++) {
		while (!__atomic_load_n(&runners[i].is_running, __ATOMIC_RELAXED))
			usleep(100);
	}
}

static uint64_t stop_runners(int n)
{
	uint64_t passes = 0;

	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (int i = 0; i < n; i++) {
		pthread_join(runners[i].thread, NULL);
		for (size_t s = 0; s < SITES; s++)
			passes += runners[i].passes[s];
	}
	return passes;
}

/* ---- negative controls: in a child, which is expected to crash ---- */

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static struct site *hot;

static void *run_hot(void *arg)
{
	for (;;) {
		struct site *site = __atomic_load_n(&hot, __ATOMIC_RELAXED);

		for (int n = 0; n < 1000; n++)
			if (!is_result(site->length, run_site(site->code)))
				_exit(EXIT_TORN);
	}
	return NULL;
}

static uint8_t *alias_of_test;

/* As a patcher that knows of no other thread does it. */
static void flip_naively(struct site *site, int variant)
{
	volatile uint8_t *at = alias_of_test + (site->code - sites[0].code);

	for (size_t b = 0; b < site_lengths[site->length]; b++)
		at[b] = site->variants[variant][b];
}

static void flip_by_library(struct site *site, int variant)
{
	struct trapline_poke_site change = { ADDR(site->code), site->variants[site->now],
					     site->variants[variant],
					     site_lengths[site->length] };

	if (trapline_poke(&change, 1, NULL))
		_exit(EXIT_CANNOT);
	site->now = variant;
}

/* The stages of the protocol in their order, and nothing between them. */
static void flip_without_sync(struct site *site, int variant)
{
	volatile uint8_t *at = alias_of_test + (site->code - sites[0].code);

	at[0] = 0xcc;
	for (size_t b = 1; b < site_lengths[site->length]; b++)
		at[b] = site->variants[variant][b];
	at[0] = site->variants[variant][0];
}

/* The int3 stands for nanoseconds: run it again until it has gone. */
static void run_again(int sig, siginfo_t *info, void *context)
{
	((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP]--;
}

static void catch_int3(void)
{
	struct sigaction action = { .sa_sigaction = run_again, .sa_flags = SA_SIGINFO };

	sigaction(SIGTRAP, &action, NULL);
}

static void make_naive(void)
{
	int fd = memfd_create("naive", MFD_CLOEXEC);
	uint8_t *code;

	if (fd < 0 || ftruncate(fd, CODE_BYTES))
		_exit(EXIT_CANNOT);
	alias_of_test = mmap(NULL, CODE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	code = mmap(NULL, CODE_BYTES, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
	if (!map_fars(code))
		_exit(EXIT_CANNOT);
	make_all(code, alias_of_test);
	alias_of_test += sites[0].code - code;
}

static void crash(int sig)
{
	_exit(128 + sig);
}

/* Sites of 5 bytes over the end of a line. */
static void provoke(void (*flip)(struct site *, int), unsigned int for_ms)
{
	double end = seconds() + scaled(for_ms) / 1e3;
	pthread_t thread;

	signal(SIGSEGV, crash);
	signal(SIGILL, crash);
	signal(SIGBUS, crash);
	hot = &sites[2 * OFFSETS + 61];
	pthread_create(&thread, NULL, run_hot, NULL);
	for (int round = 0; seconds() < end; round++) {
		/* Over the end of a line, after 1, 2 or 3 bytes. */
		__atomic_store_n(&hot, &sites[2 * OFFSETS + 61 + round % 3],
				 __ATOMIC_RELAXED);
		for (int n = 1; n <= 3000; n++)
			flip(hot, n % 3);
	}
	_exit(EXIT_SURVIVED);
}

static int wait_for(pid_t child)
{
	int status;

	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void expect_crash(pid_t child, const char *what)
{
	int status = wait_for(child);

	print_message("# %s: %s %d\n", what,
		      status == EXIT_TORN ? "torn instruction," : "status", status);
	if (status == EXIT_SURVIVED) {
		print_message(
			"# SKIP %s did not crash on this host in %u ms: nothing below is proved "
			"by the absence of crashes\n",
			what, scaled(CONTROL_MS));
		skip();
	}
	assert_int_not_equal(status, EXIT_CANNOT);
	assert_int_not_equal(status, 0);
}

static void plain_stores_crash(void **state)
{
	fflush(NULL);
	pid_t child = fork();

	if (!child) {
		signal(SIGTRAP, crash);
		make_naive();
		provoke(flip_naively, CONTROL_MS);
	}
	expect_crash(child, "plain stores");
}

static void protocol_without_sync_crashes(void **state)
{
	fflush(NULL);
	pid_t child = fork();

	if (!child) {
		catch_int3();
		make_naive();
		provoke(flip_without_sync, CONTROL_MS);
	}
	expect_crash(child, "the protocol without sync");
}

/* The same as above with its syncs: what the others must be compared with. */
static void protocol_with_sync_survives(void **state)
{
	fflush(NULL);
	pid_t child = fork();

	if (!child) {
		signal(SIGTRAP, crash);
		make_aliased();
		provoke(flip_by_library, SURVIVAL_MS);
	}
	assert_int_equal(wait_for(child), EXIT_SURVIVED);
}

/* ---- stress ---- */

struct way {
	const char *name;
	uint32_t writers;
	uint32_t flags;
};
static const struct way ways[] = {
	{ "alias", TRAPLINE_WRITE_ALIAS, 0 },
	{ "/proc/thread-self/mem", TRAPLINE_WRITE_MEM, 0 },
	{ "mprotect", TRAPLINE_WRITE_MPROTECT, 0 },
	{ "spin, alias", TRAPLINE_WRITE_ALIAS, TRAPLINE_POKE_SPIN },
	{ "spin, mprotect", TRAPLINE_WRITE_MPROTECT, TRAPLINE_POKE_SPIN },
	{ "single store, alias", TRAPLINE_WRITE_ALIAS, TRAPLINE_POKE_SINGLE_STORE },
	{ "exchange", TRAPLINE_WRITE_EXCHANGE, TRAPLINE_POKE_SINGLE_STORE },
};
#define WAYS (sizeof(ways) / sizeof(ways[0]))

static bool may_flip(const struct site *site, uint32_t flags, uint32_t writers)
{
	size_t in_word = ADDR(site->code) & 7;

	if (writers == TRAPLINE_WRITE_EXCHANGE)
		return true;
	if (flags & TRAPLINE_POKE_SPIN)
		return site->length > 0 && in_word < 7;
	if (flags & TRAPLINE_POKE_SINGLE_STORE)
		return in_word + site_lengths[site->length] <= 8;
	return true;
}

/* One batch over a random part of the sites. Number of flips, or -errno. */
static int flip_some(const struct way *way, uint64_t *random)
{
	static struct trapline_poke_site changes[SITES];
	static size_t which[SITES];
	static int to[SITES];
	TRAPLINE_OPTS(poke, opts);
	size_t n = 0;
	/* Mostly all; else one in 16, or few. */
	uint64_t kind = next_random(random) % 8;
	uint64_t part = kind > 1 ? 1 : kind ? 16 : 128;

	for (size_t i = 0; i < SITES; i++) {
		struct site *site = &sites[i];

		if (!may_flip(site, way->flags, way->writers) || next_random(random) % part)
			continue;
		to[n] = (site->now + 1 + (int)(next_random(random) % 3)) % VARIANTS;
		which[n] = i;
		changes[n] = (struct trapline_poke_site){ ADDR(site->code),
							  site->variants[site->now],
							  site->variants[to[n]],
							  site_lengths[site->length] };
		n++;
	}
	if (!n)
		return 0;
	opts.flags = way->flags;
	opts.writers = way->writers;
	__atomic_store_n(&batch_count, batch_count + 1, __ATOMIC_SEQ_CST);
	int err = trapline_poke(changes, n, &opts);
	for (size_t i = 0; i < n && !err; i++) {
		sites[which[i]].now = to[i];
		__atomic_store_n(&site_result[which[i]],
				 site_results[sites[which[i]].length][to[i]],
				 __ATOMIC_RELAXED);
	}
	__atomic_store_n(&batch_count, batch_count + 1, __ATOMIC_SEQ_CST);
	return err ? err : (int)n;
}

static uint64_t traps_seen;
static uint64_t orphans_seen;

static void stress(const struct way *way, int threads, uint64_t flips, uint64_t *random)
{
	struct trapline_code_stats before = read_stats();
	uint64_t done = 0;
	uint64_t torn = 0;
	uint64_t stale = 0;
	uint64_t exact = 0;
	int err = 0;

	start_runners(threads, random);
	while (done < flips && err >= 0) {
		err = flip_some(way, random);
		done += err > 0 ? (uint64_t)err : 0;
	}
	uint64_t passes = stop_runners(threads);
	struct trapline_code_stats after = read_stats();
	for (int i = 0; i < threads; i++) {
		torn += runners[i].torn;
		stale += runners[i].stale;
		exact += runners[i].exact;
	}
	if (err < 0)
		fail_with(err, way->name);
	print_message(
		"# %s, %d threads: %llu flips, %llu passes, %llu checked exactly, %llu traps, "
		"%llu orphans\n",
		way->name, threads, (unsigned long long)done, (unsigned long long)passes,
		(unsigned long long)exact,
		(unsigned long long)(after.emulated - before.emulated),
		(unsigned long long)(after.orphans - before.orphans));
	assert_true(err >= 0);
	assert_int_equal(torn, 0);
	assert_int_equal(stale, 0);
	assert_true(passes > 0);
	assert_int_equal(after.foreign, before.foreign);
	if (!way->flags)
		assert_int_equal(after.sites - before.sites, done);
	traps_seen += after.emulated - before.emulated;
	orphans_seen += after.orphans - before.orphans;
}

static bool is_amd(void)
{
	char text[4096] = "";
	FILE *info = fopen("/proc/cpuinfo", "r");
	size_t n = info ? fread(text, 1, sizeof(text) - 1, info) : 0;

	if (info)
		fclose(info);
	return n && strstr(text, "AuthenticAMD");
}

static void flips_tear_nothing_stress(void **state)
{
	static const int crews[] = { 1, 4, 16 };
	const char *text = getenv("TRAPLINE_FLIPS");
	uint64_t flips = text ? strtoull(text, NULL, 0) : scaled(10000000);
	uint64_t random = seed_from_environment();
	bool single_stores = is_amd();

	if (!single_stores)
		print_message(
			"# spin and single stores left out: not an AMD processor\n");
	for (size_t w = 0; w < WAYS; w++) {
		const struct way *way = &ways[w];

		if (way->flags && way->writers != TRAPLINE_WRITE_EXCHANGE && !single_stores)
			continue;
		uint8_t *code = way->writers == TRAPLINE_WRITE_ALIAS ? make_aliased() :
								       make_private();
		for (size_t c = 0; c < 3; c++)
			stress(way, crews[c], flips / WAYS / 3 + 1, &random);
		unmap_fars();
		if (way->writers == TRAPLINE_WRITE_ALIAS)
			assert_int_equal(trapline_code_free(code), 0);
		else
			munmap(code, CODE_BYTES);
	}
	assert_true(traps_seen > 0);
	assert_true(orphans_seen > 0);
}

/* ---- traps that come and go while sites are flipped elsewhere ---- */

#define SETS 4

static struct set {
	struct trapline_traps *traps;
	bool is_removed;
	uint64_t hits;
	uint64_t late;
} sets[SETS];

static void on_trap(const struct trapline_trap_hit *hit)
{
	struct set *set = hit->arg;

	__atomic_fetch_add(&set->hits, 1, __ATOMIC_RELAXED);
	if (__atomic_load_n(&set->is_removed, __ATOMIC_RELAXED))
		__atomic_fetch_add(&set->late, 1, __ATOMIC_RELAXED);
}

/* Each set has every fourth site. Hits counted by the library, added up. */
static uint64_t replace_set(size_t number)
{
	static uint64_t addresses[SITES];
	struct set *set = &sets[number];
	TRAPLINE_OPTS(traps, opts);
	uint64_t sum = 0;
	size_t n = 0;

	if (set->traps) {
		/* Threads still come by: the last counts are those after the removal. */
		struct trapline_traps *traps = set->traps;
		uint64_t before = __atomic_load_n(&set->hits, __ATOMIC_RELAXED);

		for (size_t i = 0; i < SITES / SETS; i++) {
			uint64_t hits = 0;

			trapline_traps_hits(traps, i, NULL, &hits);
			sum += hits;
		}
		/* Counted in the handler first, in the callback after. */
		assert_true(sum >= before);
		assert_int_equal(trapline_traps_remove(traps), 0);
		__atomic_store_n(&set->is_removed, true, __ATOMIC_SEQ_CST);
		set->traps = NULL;
		return sum;
	}
	for (size_t i = number; i < SITES; i += SETS)
		addresses[n++] = ADDR(sites[i].code);
	opts.callback = on_trap;
	opts.arg = set;
	set->hits = 0;
	__atomic_store_n(&set->is_removed, false, __ATOMIC_SEQ_CST);
	assert_int_equal(trapline_traps_set(addresses, n, &opts, &set->traps), 0);
	return 0;
}

static void traps_come_and_go_under_threads_stress(void **state)
{
	struct trapline_code_stats before = read_stats();
	uint64_t random = seed_from_environment();
	uint8_t *code = make_private();
	uint64_t torn = 0;
	uint64_t stale = 0;

	start_runners(8, &random);
	double end = seconds() + 10;
	uint64_t rounds = 0;
	for (; seconds() < end; rounds++) {
		replace_set(next_random(&random) % SETS);
		/* Sites without a trap are flipped meanwhile; the others must stay as they are. */
		size_t i = next_random(&random) % SITES;
		struct trapline_poke_site change = { ADDR(sites[i].code),
						     sites[i].variants[sites[i].now],
						     sites[i].variants[sites[i].now],
						     site_lengths[sites[i].length] };
		int err = trapline_poke(&change, 1, NULL);
		assert_int_equal(err, sets[i % SETS].traps ? -EBUSY : 0);
	}
	for (size_t s = 0; s < SETS; s++)
		if (sets[s].traps)
			replace_set(s);
	stop_runners(8);
	for (int i = 0; i < 8; i++) {
		torn += runners[i].torn;
		stale += runners[i].stale;
	}
	struct trapline_code_stats after = read_stats();
	print_message("# %llu sets placed or removed, %llu passes, %llu orphans\n",
		      (unsigned long long)rounds,
		      (unsigned long long)(after.trap_passes - before.trap_passes),
		      (unsigned long long)(after.orphans - before.orphans));
	assert_int_equal(torn, 0);
	assert_int_equal(stale, 0);
	for (size_t s = 0; s < SETS; s++)
		assert_int_equal(sets[s].late, 0);
	assert_true(after.trap_passes > before.trap_passes);
	assert_int_equal(after.foreign, before.foreign);
	assert_int_equal(after.gone, before.gone);
	unmap_fars();
	munmap(code, CODE_BYTES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_stores_crash),
		cmocka_unit_test(protocol_without_sync_crashes),
		cmocka_unit_test(protocol_with_sync_survives),
		cmocka_unit_test(flips_tear_nothing_stress),
		cmocka_unit_test(traps_come_and_go_under_threads_stress),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
