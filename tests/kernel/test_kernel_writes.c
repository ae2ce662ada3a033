/* SPDX-License-Identifier: MIT */
/*
 * test_kernel_writes.c - accesses that the kernel makes for a thread: one hit a copy, with
 * TRAPLINE_KERNEL; without it none, and the change is found by looking.
 */
#include "common.h"

#include <sys/syscall.h>

#include <trapline/condition.h>

static volatile union {
	uint64_t words[8];
	unsigned char bytes[64];
} memory __attribute__((aligned(64)));

static int ends[2];

static void feed(const void *data, size_t n)
{
	assert_int_equal(write(ends[1], data, n), n);
}

/* read(2) of n bytes into memory at an offset. */
static NOINLINE void take(size_t at, const void *data, size_t n)
{
	feed(data, n);
	assert_int_equal(syscall(SYS_read, ends[0], &memory.bytes[at], n), n);
}

/* What the kernel counts of a read, and no program decides. */
static uint64_t bare_count(size_t at, size_t n)
{
	unsigned char data[64] = { 1 };
	struct perf_event_attr attr = {
		.type = PERF_TYPE_BREAKPOINT,
		.size = sizeof(attr),
		.sample_period = 1,
		.bp_type = HW_BREAKPOINT_W,
		.bp_addr = ADDR(&memory),
		.bp_len = 8,
		.exclude_hv = 1,
	};
	uint64_t count = 0;
	int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);

	if (fd < 0)
		skip_because("hits inside the kernel (perf_event_paranoid <= 1 or CAP_PERFMON)");
	take(at, data, n);
	assert_int_equal(read(fd, &count, sizeof(count)), sizeof(count));
	close(fd);
	return count;
}

static void require_kernel_hits(void)
{
	if (!bare_count(0, 8))
		skip_because("an architecture that reports the kernel's accesses");
}

/* QEMU reports stores near the watched bytes too. */
static void require_exact_hits(void)
{
	for (size_t at = 8; at < 12; at++)
		if (bare_count(at, 26))
			skip_because("a processor that reports only what touches the word");
}

static void open_pipe(void)
{
	assert_int_equal(pipe(ends), 0);
	memset((void *)(uintptr_t)&memory, 0, sizeof(memory));
}

static void rig_begin(struct rig *rig, size_t len, uint32_t flags, struct trapline_event_opts *opts)
{
	open_pipe();
	rig_open(rig, BY_BPF);
	require_kernel_hits();
	memset((void *)(uintptr_t)&memory, 0, sizeof(memory));
	opts->flags = flags;
	rig_watch_range(rig, &memory, len, TRAPLINE_WRITE, opts);
}

static void rig_end(struct rig *rig)
{
	rig_close(rig);
	close(ends[0]);
	close(ends[1]);
}

static void expect_by_kernel(const struct trapline_hit *hit, uint64_t before, uint64_t value)
{
	assert_int_equal(hit->value_when, TRAPLINE_VALUE_AT_HIT);
	assert_int_equal(hit->old_known, 1);
	assert_int_equal(hit->old_value, before);
	assert_int_equal(hit->new_value, value);
	assert_true(hit->kernel_ip >> 63);
	assert_int_equal(hit->ip >> 63, 0);
	assert_int_equal(hit->tid, gettid());
}

static void a_read_into_the_word_is_one_hit(void **state)
{
	uint64_t value = 0x1122334455667788;
	TRAPLINE_OPTS(event, opts);
	struct rig rig;

	rig_begin(&rig, 8, TRAPLINE_KERNEL, &opts);
	take(0, &value, 8);
	expect_hits(&rig, 1);
	expect_by_kernel(&rig.seen[0], 0, value);
	assert_int_equal(rig.seen[0].syscall, SYS_read);
	rig_end(&rig);
}

static void equal_system_calls_are_a_hit_each(void **state)
{
	uint64_t values[20];
	TRAPLINE_OPTS(event, opts);
	struct rig rig;

	rig_begin(&rig, 8, TRAPLINE_KERNEL, &opts);
	for (uint64_t i = 0; i < 20; i++)
		values[i] = ~(i << 40 | i);
	feed(values, sizeof(values));
	for (int i = 0; i < 20; i++)
		syscall(SYS_read, ends[0], &memory, 8);
	expect_hits(&rig, 20);
	for (int i = 0; i < 20; i++)
		expect_by_kernel(&rig.seen[i], i ? values[i - 1] : 0, values[i]);
	rig_end(&rig);
}

static void a_read_over_four_registers_is_a_hit_for_each(void **state)
{
	uint64_t values[8] = { 11, 22, 33, 44, 55, 66, 77, 88 };
	TRAPLINE_OPTS(event, opts);
	struct rig rig;

	rig_begin(&rig, 32, TRAPLINE_KERNEL, &opts);
	take(0, values, sizeof(values));
	expect_hits(&rig, 4);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(rig.seen[i].address, ADDR(&memory.words[i]));
		expect_by_kernel(&rig.seen[i], 0, values[i]);
	}
	rig_end(&rig);
}

static void print_reads(const struct rig *rig, int i, size_t at, size_t n)
{
	print_message("# read %d, of %zu bytes at %zu\n", i, n, at);
	for (uint64_t k = rig->hits < 3 ? 0 : rig->hits - 3; k < rig->hits && k < SEEN_MAX; k++)
		print_message("# hit %lu: 0x%lx -> 0x%lx, in the kernel at 0x%lx\n", k,
			      rig->seen[k].old_value, rig->seen[k].new_value,
			      rig->seen[k].kernel_ip);
}

/* Any place and length: a hit when it touches the word, and the values are those of a model. */
static void reads_of_any_place_and_length_are_one_hit(void **state)
{
	unsigned char model[64] = { 0 };
	unsigned char data[64];
	TRAPLINE_OPTS(event, opts);
	struct rig rig;
	uint64_t hits = 0;

	srand(test_seed());
	open_pipe();
	require(BY_BPF);
	require_exact_hits();
	close(ends[0]);
	close(ends[1]);
	rig_begin(&rig, 8, TRAPLINE_KERNEL, &opts);
	for (int i = 0; i < 100; i++) {
		size_t at = (size_t)rand() % 12;
		size_t n = 1 + (size_t)rand() % 48;
		uint64_t before;
		uint64_t after;

		for (size_t k = 0; k < n; k++)
			data[k] = (unsigned char)rand();
		memcpy(&before, model, 8);
		memcpy(model + at, data, n);
		memcpy(&after, model, 8);
		take(at, data, n);
		hits += at < 8;
		if (rig_hits(&rig) != hits)
			print_reads(&rig, i, at, n);
		assert_int_equal(rig_hits(&rig), hits);
		if (at < 8)
			expect_by_kernel(&rig.seen[hits - 1], before, after);
	}
	expect_hits(&rig, hits);
	rig_end(&rig);
}

struct reader {
	int ends[2];
	unsigned int times;
};

static void *read_often(void *arg)
{
	struct reader *r = arg;
	uint64_t value = (uint64_t)gettid() * 0x0001000100010001;

	for (unsigned int i = 0; i < r->times; i++) {
		value++;
		if (write(r->ends[1], &value, 8) != 8 ||
		    read(r->ends[0], (void *)(uintptr_t)&memory, 8) != 8)
			return r->ends;
	}
	return NULL;
}

/*
 * A trap inside the kernel is an NMI to it, and there bpf_ringbuf_reserve() does not wait while
 * another CPU holds the ring, before kernels had resilient spin locks (v6.15). The library tries
 * many times, but an emulated CPU may stand still with the ring while the other one takes a hundred
 * hits. So a hit may be lost there, but not without being counted.
 */
static bool ring_is_waited_for(void)
{
	FILE *symbols = fopen("/proc/kallsyms", "r");
	bool is_found = false;
	char line[256];

	while (symbols && !is_found && fgets(line, sizeof(line), symbols))
		is_found = strstr(line, " resilient_queued_spin_lock_slowpath");
	if (symbols)
		fclose(symbols);
	return is_found;
}

static void reads_of_two_threads_at_once_are_hits_or_counted_as_lost(void **state)
{
	struct reader readers[2] = { { .times = 2000 }, { .times = 2000 } };
	TRAPLINE_OPTS(event, opts);
	pthread_t threads[2];
	struct rig rig;
	void *failed;

	rig_begin(&rig, 8, TRAPLINE_KERNEL, &opts);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(pipe(readers[i].ends), 0);
		pthread_create(&threads[i], NULL, read_often, &readers[i]);
	}
	for (int i = 0; i < 2; i++) {
		pthread_join(threads[i], &failed);
		assert_null(failed);
		close(readers[i].ends[0]);
		close(readers[i].ends[1]);
	}
	uint64_t hits = rig_hits(&rig);
	struct trapline_stats stats = rig_stats(&rig);

	assert_int_equal(stats.taken - stats.rejected_partial, 4000);
	print_message("# %lu of 4000 found no room in the ring\n", stats.lost_ring_full);
	assert_int_equal(hits + stats.lost_ring_full, 4000);
	if (ring_is_waited_for())
		assert_int_equal(hits, 4000);
	rig_end(&rig);
}

static void a_single_store_by_the_kernel_is_one_hit(void **state)
{
#ifdef SYS_time
	TRAPLINE_OPTS(event, opts);
	struct rig rig;

	rig_begin(&rig, 8, TRAPLINE_KERNEL, &opts);
	syscall(SYS_time, &memory);
	expect_hits(&rig, 1);
	expect_by_kernel(&rig.seen[0], 0, memory.words[0]);
	assert_int_equal(rig.seen[0].syscall, SYS_time);
	rig_end(&rig);
#else
	skip_because("time(2)");
#endif
}

static void stores_of_the_thread_itself_are_hits_as_before(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct rig rig;

	rig_begin(&rig, 8, TRAPLINE_KERNEL, &opts);
	store_many(&memory.words[0], 10);
	expect_hits(&rig, 10);
	for (int i = 0; i < 10; i++) {
		assert_in_range(rig.seen[i].ip, ADDR(store), ADDR(store) + 64);
		assert_int_equal(rig.seen[i].kernel_ip, 0);
		assert_int_equal(rig.seen[i].syscall, -1);
		assert_int_equal(rig.seen[i].new_value, i);
	}
	rig_end(&rig);
}

static void a_write_from_a_word_that_is_read_watched_is_one_hit(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct rig rig;

	open_pipe();
	rig_open(&rig, BY_BPF);
	require_kernel_hits();
	opts.flags = TRAPLINE_KERNEL;
	rig_watch_range(&rig, &memory, 8, TRAPLINE_READ_WRITE, &opts);
	feed((const void *)(uintptr_t)&memory, 8);
	expect_hits(&rig, 1);
	assert_int_equal(rig.seen[0].syscall, SYS_write);
	assert_int_equal(rig.seen[0].new_value, rig.seen[0].old_value);
	rig_end(&rig);
}

static void a_condition_is_about_the_whole_write(void **state)
{
	uint64_t values[3] = { 0x0101010101010101, 0x0101010101010102, 0x0202020202020202 };
	struct trapline_condition *condition;
	TRAPLINE_OPTS(event, opts);
	struct rig rig;

	assert_int_equal(trapline_condition_parse("new == 0x0101010101010102", NULL, &condition),
			 0);
	opts.condition = condition;
	rig_begin(&rig, 8, TRAPLINE_KERNEL, &opts);
	for (int i = 0; i < 3; i++)
		take(0, &values[i], 8);
	expect_hits(&rig, 1);
	expect_by_kernel(&rig.seen[0], values[0], values[1]);
	assert_int_equal(stats_of(rig.event).rejected_condition, 2);
	rig_end(&rig);
	trapline_condition_free(condition);
}

static void a_callback_with_a_condition_runs_once_for_a_write(void **state)
{
	uint64_t values[2] = { 0x0101010101010101, 0x0101010101010102 };
	struct trapline_condition *condition;
	TRAPLINE_OPTS(event, opts);
	struct rig rig;

	open_pipe();
	require(BY_BPF);
	require_kernel_hits();
	memset((void *)(uintptr_t)&memory, 0, sizeof(memory));
	assert_int_equal(trapline_condition_parse("new == 0x0101010101010102", NULL, &condition),
			 0);
	rig_open(&rig, BY_CALLBACK);
	opts.condition = condition;
	opts.flags = TRAPLINE_KERNEL;
	rig_watch_range(&rig, &memory, 8, TRAPLINE_WRITE, &opts);
	if (stats_of(rig.event).evaluated_in != TRAPLINE_EVALUATED_IN_KERNEL)
		skip_because("a kernel that holds back signals (Linux 6.10)");
	for (int i = 0; i < 2; i++)
		take(0, &values[i], 8);
	expect_hits(&rig, 1);
	assert_int_equal(rig.seen[0].old_value, values[0]);
	assert_int_equal(rig.seen[0].new_value, values[1]);
	rig_end(&rig);
	trapline_condition_free(condition);
}

static void a_limit_counts_whole_writes(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct rig rig;

	opts.limit = 3;
	rig_begin(&rig, 8, TRAPLINE_KERNEL, &opts);
	for (uint64_t i = 1; i <= 5; i++)
		take(0, &i, 8);
	expect_hits(&rig, 3);
	rig_end(&rig);
}

static void look(struct rig *rig, unsigned int ms)
{
	for (unsigned int i = 0; i < ms / 20; i++)
		trapline_poll(rig->target, 20, rig_note);
}

static void without_the_flag_there_is_no_hit_and_the_change_is_found(void **state)
{
	uint64_t value = 77;
	TRAPLINE_OPTS(event, opts);
	struct rig rig;

	rig_begin(&rig, 8, 0, &opts);
	if (!ACCESS_DONE)
		skip_because("an architecture that reports an access after it");
	take(0, &value, 8);
	look(&rig, 300);
	expect_hits(&rig, 0);
	assert_int_equal(stats_of(rig.event).unseen_changes, 1);
	store(&memory.words[0], 78);
	expect_hits(&rig, 1);
	assert_int_equal(rig.seen[0].old_value, 77);
	rig_end(&rig);
}

/* Between a read(2) and a store there is no time for a look. */
static void without_the_flag_the_old_value_is_what_the_kernel_wrote(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct rig rig;

	rig_begin(&rig, 8, 0, &opts);
	if (!ACCESS_DONE)
		skip_because("an architecture that reports an access after it");
	for (uint64_t i = 0; i < 100; i++) {
		uint64_t value = 1000 + i;

		take(0, &value, 8);
		store(&memory.words[0], i);
	}
	expect_hits(&rig, 100);
	for (uint64_t i = 0; i < 100; i++) {
		assert_int_equal(rig.seen[i].old_known, 1);
		assert_int_equal(rig.seen[i].old_value, 1000 + i);
		assert_int_equal(rig.seen[i].new_value, i);
		assert_int_equal(rig.seen[i].kernel_ip, 0);
	}
	assert_int_equal(stats_of(rig.event).taken, 100);
	assert_int_equal(stats_of(rig.event).rejected_partial, 0);
	assert_in_range(stats_of(rig.event).unseen_changes, 1, 100);
	expect_identity(rig.event);
	rig_end(&rig);
}

static void *store_on(void *arg)
{
	volatile int *stop = arg;

	for (uint64_t i = 0; !*stop; i++)
		store(&memory.words[0], i);
	return NULL;
}

static void stores_that_are_hits_are_no_unseen_changes(void **state)
{
	TRAPLINE_OPTS(event, opts);
	volatile int stop = 0;
	pthread_t thread;
	struct rig rig;

	rig_begin(&rig, 8, 0, &opts);
	pthread_create(&thread, NULL, store_on, (void *)(uintptr_t)&stop);
	look(&rig, 500);
	stop = 1;
	pthread_join(thread, NULL);
	look(&rig, 300);
	assert_true(rig.hits > 0);
	assert_int_equal(stats_of(rig.event).unseen_changes, 0);
	rig_end(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_read_into_the_word_is_one_hit),
		TEST(equal_system_calls_are_a_hit_each),
		TEST(a_read_over_four_registers_is_a_hit_for_each),
		TEST(reads_of_any_place_and_length_are_one_hit),
		TEST(reads_of_two_threads_at_once_are_hits_or_counted_as_lost),
		TEST(a_single_store_by_the_kernel_is_one_hit),
		TEST(stores_of_the_thread_itself_are_hits_as_before),
		TEST(a_write_from_a_word_that_is_read_watched_is_one_hit),
		TEST(a_condition_is_about_the_whole_write),
		TEST(a_callback_with_a_condition_runs_once_for_a_write),
		TEST(a_limit_counts_whole_writes),
		TEST(without_the_flag_there_is_no_hit_and_the_change_is_found),
		TEST(without_the_flag_the_old_value_is_what_the_kernel_wrote),
		TEST(stores_that_are_hits_are_no_unseen_changes),
	};

	return run_group(tests);
}
