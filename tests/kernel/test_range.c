/* SPDX-License-Identifier: MIT */
/* test_range.c - which bytes a watch covers, what registers it takes, and moving it. */
#include "crew.h"

#define ROW_BYTES 64

static volatile uint8_t row[ROW_BYTES] __attribute__((aligned(64)));
static volatile uint64_t words[6] __attribute__((aligned(64)));

/* Registers for len bytes at offset: naturally aligned parts of at most 8 bytes. */
static unsigned int parts_of(unsigned int offset, unsigned int len)
{
	unsigned int parts = 0;

	while (len) {
		unsigned int part = 8;

		while (part > len || offset % part)
			part /= 2;
		offset += part;
		len -= part;
		parts++;
	}
	return parts;
}

/* Writes each byte of the row: exactly those of the range hit, once each. */
static void expect_covered(struct rig *rig, unsigned int offset, unsigned int len)
{
	uint64_t hits = rig_hits(rig);

	for (unsigned int i = 0; i < ROW_BYTES; i++) {
		bool is_inside = i >= offset && i < offset + len;

		row[i] = (uint8_t)i;
		hits += is_inside;
		if (rig_hits(rig) != hits)
			print_message("# range %u+%u, byte %u\n", offset, len, i);
		assert_int_equal(rig_hits(rig), hits);
		if (!is_inside || hits > SEEN_MAX)
			continue;

		const struct trapline_hit *hit = &rig->seen[hits - 1];

		assert_in_range(ADDR(&row[i]), hit->address, hit->address + hit->len - 1);
	}
}

static void expect_range(enum mode mode, unsigned int offset, unsigned int len)
{
	struct rig rig;

	rig_open(&rig, mode);
	rig_watch_range(&rig, &row[offset], len, TRAPLINE_WRITE, NULL);
	assert_int_equal(stats_of(rig.event).registers, parts_of(offset, len));
	expect_covered(&rig, offset, len);
	expect_hits(&rig, len);
	rig_close(&rig);
}

static void sixteen_bytes_take_two_registers(void **state)
{
	assert_int_equal(parts_of(16, 16), 2);
	expect_range(MODE(state), 16, 16);
}

static void unaligned_range_is_covered_exactly(void **state)
{
	assert_int_equal(parts_of(17, 6), 4);
	expect_range(MODE(state), 17, 6);
	expect_range(MODE(state), 23, 2);
	expect_range(MODE(state), 20, 20);
	expect_range(MODE(state), 16, 32);
}

static void every_range_is_covered_or_refused(void **state)
{
	struct trapline_event *event = NULL;
	struct rig rig;

	for (unsigned int offset = 16; offset < 24; offset++)
		for (unsigned int len = 1; len <= 32; len++) {
			if (parts_of(offset, len) <= 4) {
				expect_range(BY_CALLBACK, offset, len);
				continue;
			}
			rig_open(&rig, BY_CALLBACK);
			assert_int_equal(trapline_watch(rig.target, ADDR(&row[offset]), len,
							TRAPLINE_WRITE, NULL, &event),
					 -E2BIG);
			assert_null(event);
			close_target(rig.target);
		}
}

static void wide_store_over_two_parts_loses_nothing_silently(void **state)
{
#if defined(__x86_64__)
	struct rig rig;

	rig_open(&rig, MODE(state));
	require_each_watch_reported();
	rig_watch_range(&rig, &row[16], 16, TRAPLINE_WRITE, NULL);
	for (int i = 0; i < 10; i++)
		__asm__ volatile("movdqa %%xmm0, %0" : "=m"(row[16])::"memory");

	struct trapline_stats s = rig_stats(&rig);

	assert_int_equal(s.taken, 20);
	assert_true(s.delivered >= 10);
	assert_int_equal(s.delivered + s.lost_merged, 20);
	if (rig.mode != BY_CALLBACK)
		assert_int_equal(s.delivered, 20);
	rig_close(&rig);
#else
	skip_because("a 16-byte store of this architecture");
#endif
}

static void open_four(struct rig *rig, enum mode mode, struct trapline_event *events[4])
{
	rig_open(rig, mode);
	for (int i = 0; i < 4; i++) {
		rig_watch(rig, &words[i], NULL);
		events[i] = rig->event;
	}
}

static void fifth_register_is_refused_naming_the_holder(void **state)
{
	struct trapline_event *events[4];
	struct trapline_event *fifth = NULL;
	char why[1024] = "";
	struct rig rig;

	open_four(&rig, MODE(state), events);

	int err = trapline_watch(rig.target, ADDR(&words[4]), 8, TRAPLINE_WRITE, NULL, &fifth);
	int len = trapline_explain(err, why, sizeof(why));

	assert_int_equal(err, -ENOSPC);
	assert_null(fifth);
	assert_int_equal(len, strlen(why));
	if (!strstr(why, "this program's own events use 4 ("))
		print_message("# it says: %s\n", why);
	assert_non_null(strstr(why, "this program's own events use 4 ("));
	store(&words[4], 1);
	for (int i = 0; i < 4; i++)
		store(&words[i], 1);
	assert_int_equal(rig_hits(&rig), 4);
	trapline_event_close(events[2]);
	expect_ok(trapline_watch(rig.target, ADDR(&words[4]), 8, TRAPLINE_WRITE, NULL, &fifth));
	close_target(rig.target);
}

static void range_needs_all_its_registers(void **state)
{
	struct trapline_event *event = NULL;
	struct rig rig;

	rig_open(&rig, MODE(state));
	rig_watch_range(&rig, &row[0], 24, TRAPLINE_WRITE, NULL);
	assert_int_equal(trapline_watch(rig.target, ADDR(&row[32]), 16, TRAPLINE_WRITE, NULL,
					&event),
			 -ENOSPC);
	assert_null(event);
	/* What the failed call took it gave back. */
	expect_ok(trapline_watch(rig.target, ADDR(&row[32]), 8, TRAPLINE_WRITE, NULL, &event));
	trapline_event_close(event);
	expect_covered(&rig, 0, 24);
	rig_close(&rig);
}

static void explanation_is_cut_and_terminated(void **state)
{
	struct trapline_event *event;
	char whole[1024];
	char part[8];
	struct rig rig;

	rig_open(&rig, BY_CALLBACK);

	int err = trapline_watch(rig.target, ADDR(&words[0]), 0, TRAPLINE_WRITE, NULL, &event);
	int len = trapline_explain(err, whole, sizeof(whole));

	assert_in_range(len, 8, sizeof(whole) - 1);
	assert_int_equal(trapline_explain(err, part, sizeof(part)), len);
	assert_int_equal(part[7], '\0');
	assert_memory_equal(part, whole, 7);
	assert_int_equal(trapline_explain(err, NULL, 0), len);
	close_target(rig.target);
}

static void moved_watch_hits_at_the_new_address_only(void **state)
{
	struct rig rig;

	rig_open(&rig, MODE(state));
	words[1] = 70;
	rig_watch(&rig, &words[0], NULL);
	store(&words[0], 1);
	assert_int_equal(trapline_event_move(rig.event, ADDR(&words[1])), 0);
	store(&words[0], 2);
	store(&words[1], 3);
	expect_hits(&rig, 2);
	assert_int_equal(rig.seen[0].address, ADDR(&words[0]));
	assert_int_equal(rig.seen[1].address, ADDR(&words[1]));
	if (rig.mode != BY_RING) {
		assert_int_equal(rig.seen[1].new_value, ACCESS_DONE ? 3 : 70);
		/* The old value is the new word's, or said to be unknown. */
		assert_true(!rig.seen[1].old_known || rig.seen[1].old_value == 70);
	}
	rig_close(&rig);
}

static void moved_range_hits_at_the_new_address_only(void **state)
{
	struct rig rig;

	rig_open(&rig, MODE(state));
	rig_watch_range(&rig, &row[0], 16, TRAPLINE_WRITE, NULL);
	assert_int_equal(trapline_event_move(rig.event, ADDR(&row[24])), 0);
	expect_covered(&rig, 24, 16);
	expect_hits(&rig, 16);
	rig_close(&rig);
}

static void aimed_event_hits_with_the_new_length(void **state)
{
	struct rig rig;

	rig_open(&rig, MODE(state));
	memset((void *)(uintptr_t)row, 0, sizeof(row));
	row[18] = 7;
	rig_watch_range(&rig, &row[0], 8, TRAPLINE_WRITE, NULL);
	row[0] = 1;
	/* What the ring holds of the old place is read before its length is forgotten. */
	assert_int_equal(rig_hits(&rig), 1);
	assert_int_equal(trapline_event_aim(rig.event, ADDR(&row[18]), 2), 0);
	expect_covered(&rig, 18, 2);
	assert_int_equal(rig_hits(&rig), 3);
	assert_int_equal(rig.seen[0].len, 8);
	assert_int_equal(rig.seen[1].len, 2);
	assert_int_equal(rig.seen[1].address, ADDR(&row[18]));
	if (rig.mode != BY_RING)
		assert_int_equal(rig.seen[1].old_value & 0xff, 7);
	rig_close(&rig);
}

static void each_place_of_two_keeps_its_values(void **state)
{
	struct rig rig;

	rig_open(&rig, MODE(state));
	words[0] = 100;
	words[1] = 200;
	rig_watch(&rig, &words[0], NULL);
	for (int i = 0; i < 20; i++) {
		volatile uint64_t *word = &words[i % 2];
		assert_int_equal(trapline_event_aim(rig.event, ADDR(word), 8), 0);
		store(word, *word + 1);
		assert_int_equal(rig_hits(&rig), i + 1);
		assert_int_equal(rig.seen[i].address, ADDR(word));
		/* A reader reads it later, after the access. */
		assert_int_equal(rig.seen[i].new_value,
				 *word - (!ACCESS_DONE && rig.mode != BY_RING));
		assert_int_equal(rig.seen[i].old_value, *word - 1);
	}
	rig_close(&rig);
}

/* Each byte of a word is the number of the word, whatever is stored. */
static void *store_own_number(void *arg)
{
	volatile int *stop = arg;

	for (unsigned int i = 0; !*stop; i++)
		store(&words[i % 4], 0x0101010101010101 * (i % 4));
	return NULL;
}

static const size_t aimed_lengths[] = {8, 4, 2, 1};

static void expect_hits_of_their_place(const struct rig *rig)
{
	for (uint64_t i = 0; i < SEEN_MAX && i < rig->hits; i++) {
		const struct trapline_hit *hit = &rig->seen[i];
		size_t at = (hit->address - ADDR(&words[0])) / 8;

		assert_true(at < 4);
		assert_int_equal(hit->len, aimed_lengths[at]);
		assert_int_equal(hit->new_value & 0xff, at);
		assert_int_equal(hit->new_value, hit->old_value);
	}
}

static void hits_while_an_event_is_aimed_are_of_their_place(void **state)
{
	volatile int stop = 0;
	pthread_t threads[3];
	struct rig rig;

	rig_open(&rig, MODE(state));
	for (uint64_t i = 0; i < 4; i++)
		words[i] = 0x0101010101010101 * i;
	rig_watch(&rig, &words[0], NULL);
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, store_own_number, (void *)(uintptr_t)&stop);
	for (unsigned int i = 0; i < scaled(400); i++) {
		unsigned int to = i % 4;

		rig.hits = 0;
		assert_int_equal(trapline_event_aim(rig.event, ADDR(&words[to]), aimed_lengths[to]),
				 0);
		for (int n = 0; n < 20 && rig_glance(&rig) < 3; n++)
			usleep(50);
		expect_hits_of_their_place(&rig);
	}
	stop = 1;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	rig_hits(&rig);
	expect_identity(rig.event);
	trapline_event_close(rig.event);
	close_target(rig.target);
}

static void aim_at_what_a_register_cannot_watch_is_refused(void **state)
{
	struct rig rig;

	rig_open(&rig, MODE(state));
	rig_watch(&rig, &words[0], NULL);
	assert_int_equal(trapline_event_aim(rig.event, ADDR(&words[1]), 0), -EINVAL);
	assert_int_equal(trapline_event_aim(rig.event, ADDR(&words[1]), 3), -EINVAL);
	assert_int_equal(trapline_event_aim(rig.event, ADDR(&words[1]), 16), -EINVAL);
	assert_int_equal(trapline_event_aim(rig.event, ADDR(&words[1]) + 2, 4), -EINVAL);
	store(&words[1], 1);
	store(&words[0], 1);
	expect_hits(&rig, 1);
	assert_int_equal(rig.seen[0].address, ADDR(&words[0]));
	trapline_event_close(rig.event);
	rig_watch_range(&rig, &row[0], 16, TRAPLINE_WRITE, NULL);
	assert_int_equal(trapline_event_aim(rig.event, ADDR(&row[24]), 8), -EINVAL);
	trapline_event_close(rig.event);
	close_target(rig.target);
}

static void misaligned_move_changes_nothing(void **state)
{
	struct rig rig;

	rig_open(&rig, MODE(state));
	rig_watch(&rig, &words[0], NULL);
	assert_int_equal(trapline_event_move(rig.event, ADDR(&words[1]) + 1), -EINVAL);
	store(&words[1], 1);
	expect_hits(&rig, 0);
	store(&words[0], 1);
	expect_hits(&rig, 1);
	assert_int_equal(rig.seen[0].address, ADDR(&words[0]));
	rig_close(&rig);
}

static void move_keeps_a_disabled_event_disabled(void **state)
{
	struct rig rig;

	rig_open(&rig, MODE(state));
	rig_watch(&rig, &words[0], NULL);
	assert_int_equal(trapline_event_disable(rig.event), 0);
	assert_int_equal(trapline_event_move(rig.event, ADDR(&words[1])), 0);
	store(&words[0], 1);
	store(&words[1], 1);
	expect_hits(&rig, 0);
	assert_int_equal(trapline_event_enable(rig.event), 0);
	store(&words[0], 2);
	store(&words[1], 2);
	expect_hits(&rig, 1);
	rig_close(&rig);
}

static void move_keeps_an_event_opened_disabled_enabled(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct rig rig;

	rig_open(&rig, MODE(state));
	opts.flags = TRAPLINE_DISABLED;
	rig_watch(&rig, &words[0], &opts);
	assert_int_equal(trapline_event_enable(rig.event), 0);
	assert_int_equal(trapline_event_move(rig.event, ADDR(&words[1])), 0);
	store(&words[1], 2);
	expect_hits(&rig, 1);
	rig_close(&rig);
}

/* A hit that waits behind a blocked SIGTRAP arrives after the move: it is of an older event. */
static void late_hit_of_the_old_address_is_counted_not_delivered(void **state)
{
	sigset_t trap;
	struct rig rig;

	sigemptyset(&trap);
	sigaddset(&trap, SIGTRAP);
	rig_open(&rig, BY_CALLBACK);
	rig_watch(&rig, &words[0], NULL);
	pthread_sigmask(SIG_BLOCK, &trap, NULL);
	store(&words[0], 1);
	assert_int_equal(trapline_event_move(rig.event, ADDR(&words[1])), 0);
	pthread_sigmask(SIG_UNBLOCK, &trap, NULL);

	struct trapline_stats s = rig_stats(&rig);

	assert_int_equal(s.taken, 1);
	assert_int_equal(s.delivered, 0);
	assert_int_equal(s.lost_late, 1);
	store(&words[1], 1);
	assert_int_equal(rig_hits(&rig), 1);
	rig_close(&rig);
}

static void late_hit_of_a_closed_event_is_dropped(void **state)
{
	sigset_t trap;
	struct rig rig;

	sigemptyset(&trap);
	sigaddset(&trap, SIGTRAP);
	rig_open(&rig, BY_CALLBACK);
	rig_watch(&rig, &words[0], NULL);
	pthread_sigmask(SIG_BLOCK, &trap, NULL);
	store(&words[0], 1);
	trapline_event_close(rig.event);
	rig_watch(&rig, &words[1], NULL); /* perhaps in the closed one's place */
	pthread_sigmask(SIG_UNBLOCK, &trap, NULL);
	assert_int_equal(rig_hits(&rig), 0);
	store(&words[1], 1);
	expect_hits(&rig, 1);
	rig_close(&rig);
}

struct counting {
	bool stop;
	_Atomic uint64_t known;
	_Atomic uint64_t wrong;
};

/* One more in each word, some 10,000 times a second. */
static void *count_on(void *arg)
{
	const struct counting *c = arg;

	while (!__atomic_load_n(&c->stop, __ATOMIC_RELAXED)) {
		for (int i = 0; i < 2; i++)
			store(&words[i], load(&words[i]) + 1);
		for (uint64_t end = now_ns() + 100000; now_ns() < end;)
			;
	}
	return NULL;
}

static enum trapline_action check_count(const struct trapline_hit *hit)
{
	struct counting *c = hit->arg;

	if (hit->old_known)
		c->known++;
	if (hit->old_known && hit->new_value != hit->old_value + 1 && !c->wrong++)
		print_message("# %lu -> %lu\n", hit->old_value, hit->new_value);
	return TRAPLINE_GO_ON;
}

/* Threads are armed one after the other: what is stored meanwhile is no hit, but no lie either. */
static void an_old_value_is_what_was_there_or_unknown(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct counting c = {0};
	struct crew idle;
	struct rig rig;
	pthread_t thread;

	if (!ACCESS_DONE)
		skip_because("a processor that reports an access after it");
	crew_muster(&idle, 16, &words[2]);
	assert_int_equal(pthread_create(&thread, NULL, count_on, &c), 0);
	rig_open(&rig, MODE(state));
	if (calls_back(rig.mode))
		opts.callback = check_count;
	opts.arg = &c;
	rig_watch(&rig, &words[0], &opts);
	for (unsigned int round = 0; round < scaled(1000); round++) {
		assert_int_equal(trapline_event_move(rig.event, ADDR(&words[round % 2])), 0);
		for (uint64_t known = c.known; c.known < known + 3;) {
			usleep(100); /* an emulated machine runs one processor at a time */
			if (!calls_back(rig.mode))
				trapline_poll(rig.target, 0, check_count);
		}
		if (round % 4 || trapline_event_disable(rig.event))
			continue;
		usleep(200);
		assert_int_equal(trapline_event_enable(rig.event), 0);
	}
	__atomic_store_n(&c.stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	assert_int_equal(c.wrong, 0);
	close_target(rig.target);
	crew_dismiss(&idle);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_EACH_MODE(sixteen_bytes_take_two_registers),
		TEST_EACH_MODE(unaligned_range_is_covered_exactly),
		TEST(every_range_is_covered_or_refused),
		TEST_EACH_MODE(wide_store_over_two_parts_loses_nothing_silently),
		TEST_EACH_MODE(fifth_register_is_refused_naming_the_holder),
		TEST_EACH_MODE(range_needs_all_its_registers),
		TEST(explanation_is_cut_and_terminated),
		TEST_EACH_MODE(moved_watch_hits_at_the_new_address_only),
		TEST_EACH_MODE(moved_range_hits_at_the_new_address_only),
		TEST_EACH_MODE(aimed_event_hits_with_the_new_length),
		TEST_EACH_MODE(each_place_of_two_keeps_its_values),
		TEST_IN(hits_while_an_event_is_aimed_are_of_their_place, bpf),
		TEST_EACH_MODE(aim_at_what_a_register_cannot_watch_is_refused),
		TEST_EACH_MODE(misaligned_move_changes_nothing),
		TEST_EACH_MODE(move_keeps_a_disabled_event_disabled),
		TEST_EACH_MODE(move_keeps_an_event_opened_disabled_enabled),
		TEST(late_hit_of_the_old_address_is_counted_not_delivered),
		TEST(late_hit_of_a_closed_event_is_dropped),
		TEST_IN(an_old_value_is_what_was_there_or_unknown, callback),
		TEST_IN(an_old_value_is_what_was_there_or_unknown, bpf),
		TEST_IN(an_old_value_is_what_was_there_or_unknown, handler),
	};

	return run_group(tests);
}
