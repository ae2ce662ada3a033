/* SPDX-License-Identifier: MIT */
/*
 * test_code_decoder.c - a path is decoded from branch decisions and the code log alone.
 *
 * A simulation: four threads interpret a small program of real instructions, and a poker changes
 * sites of it by the protocol of poke.h. Each thread has fetched bytes of its own, which are stale
 * until it fetches again or a sync makes it. The interleaving is random. What a thread leaves behind
 * is what Intel PT would: a bit for each conditional branch, the target of each indirect one, the
 * address of each trap, and a time stamp now and then. The decoder gets these, the program as
 * loaded, and the log. It must find the path, or call it ambiguous; it must never be wrong.
 *
 * The same decoder with a log of two events a change, before and after it, is the negative control:
 * whichever of the two it takes for the change, it must be wrong in these runs.
 */
#include "../stress.h"
#include "code_machine.h"

#define RUNS 10000
#define RUNS_LEAST 1000

/* ---- the decoder ---- */

enum scheme {
	STAGES,
	ONLY_PRE,
	ONLY_POST,
	SCHEMES
};
enum result {
	EXACT,
	AMBIGUOUS,
	WRONG,
	RESULTS
};

struct decoder {
	const struct thread *t;
	const struct trapline_code_log *log;
	enum scheme scheme;
	int32_t tid;
	int event;     /* the next one that is no time stamp */
	size_t log_at; /* the next entry to look at for a hit */
	uint64_t pc;
};

static int skip_stamps(const struct thread *t, int event)
{
	while (event < t->event_count && t->events[event].kind == STAMP)
		event++;
	return event;
}

/* What is executed between two events lies between the stamps before the first and behind the second. */
static void find_times(const struct decoder *d, uint64_t *from, uint64_t *until)
{
	int last = d->event - 1;
	int next = d->event;

	while (last > 0 && d->t->events[last].kind == STAMP)
		last--;
	while (last > 0 && d->t->events[last].kind != STAMP)
		last--;
	while (next < d->t->event_count - 1 && d->t->events[next].kind != STAMP)
		next++;
	*from = d->t->events[last > 0 ? last : 0].number;
	*until = d->t->events[next < d->t->event_count ? next : d->t->event_count - 1].number;
}

/* The instruction at a pc as one candidate of several. 0: it is not the only one. */
struct candidates {
	int count;
	uint8_t bytes[15];
	size_t len;
};

static int add_candidate(struct candidates *c, const uint8_t *bytes)
{
	if (!memcmp(bytes, trap_bytes, TRAP_LEN)) /* a trap would be in the trace */
		return 1;
	if (c->count && memcmp(c->bytes, bytes, c->len) != 0)
		return 0;
	memcpy(c->bytes, bytes, c->len);
	c->count = 1;
	return 1;
}

/* At one time, which the log knows. */
static int add_at(const struct decoder *d, uint64_t time, struct candidates *c,
		  struct trapline_code_span *span)
{
	uint8_t bytes[15];

	memcpy(bytes, loaded + (d->pc - TEXT), c->len);
	int err = trapline_code_at(d->log, PID, d->pc, time, bytes, c->len, span);
	return err ? err : add_candidate(c, bytes) ? 0 : -ENOTUNIQ;
}

/* Ambiguous: what runs in this span is what one finds on either side of it. */
static int add_sides(const struct decoder *d, const struct trapline_code_span *span,
		     struct candidates *c)
{
	struct trapline_code_span side = { .size = sizeof(side) };
	int err = add_at(d, span->from_ns - 1, c, &side);

	return err ? err : add_at(d, span->until_ns, c, &side);
}

static int ask_stages(const struct decoder *d, struct candidates *c)
{
	struct trapline_code_span span = { .size = sizeof(span) };
	uint64_t until;
	uint64_t at;
	int err = 0;

	for (find_times(d, &at, &until); at <= until && !err; at = span.until_ns) {
		err = add_at(d, at, c, &span);
		if (err == -EAGAIN)
			err = add_sides(d, &span, c);
	}
	return !err && c->count;
}

/* The image changes at one of the two events, at the time known best. */
static int ask_pairs(const struct decoder *d, struct candidates *c)
{
	uint8_t all[sizeof(loaded)];
	uint64_t from;
	uint64_t until;

	find_times(d, &from, &until);
	memcpy(all, loaded, sizeof(all));
	for (int i = 0; i < pair_count; i++)
		if ((d->scheme == ONLY_POST ? pairs[i].post : pairs[i].pre) <= from)
			memcpy(all + (site_address(pairs[i].site) - TEXT), pairs[i].after,
			       SITE_BYTES);
	/* Copies are given to it. */
	memcpy(all + PROGRAM_BYTES, text + PROGRAM_BYTES, TEXT_BYTES - PROGRAM_BYTES);
	memcpy(c->bytes, all + (d->pc - TEXT), c->len);
	return 1;
}

/* Where the thread went on from the trap at address. -1: the log does not have it. */
static int pass_trap(struct decoder *d)
{
	struct trapline_code_entry e = { .size = sizeof(e) };

	d->event = skip_stamps(d->t, d->event + 1);
	while (!trapline_code_log_entry(d->log, d->log_at++, &e)) {
		if (e.kind != TRAPLINE_CODE_ENTRY_HIT || e.tid != d->tid)
			continue;
		if (e.address != d->pc)
			return -1;
		d->pc = e.other;
		return 0;
	}
	return -1;
}

/* One instruction of these bytes, with the trace in place of chance. */
static enum result follow(struct decoder *d, const struct candidates *c)
{
	const struct event *e = d->event < d->t->event_count ? &d->t->events[d->event] : NULL;
	struct step_out out = { 0 };

	if (decode_step(c->bytes, c->len, d->pc, &out))
		return WRONG;
	int is_bit = out.kind == INSN_JUMP_CONDITIONAL;
	int is_target = out.kind == INSN_JUMP_INDIRECT || out.kind == INSN_RETURN;

	if (is_bit || is_target) {
		if (!e || e->kind != (is_bit ? BIT : TARGET))
			return WRONG;
		if (is_target)
			out.next = e->number;
		else if (e->bit)
			out.next = jump_of(c->bytes, c->len, d->pc);
		d->event = skip_stamps(d->t, d->event + 1);
	}
	d->pc = out.next;
	return EXACT;
}

static enum result decode_one(struct decoder *d)
{
	const struct event *e = d->event < d->t->event_count ? &d->t->events[d->event] : NULL;
	uint64_t offset = d->pc - TEXT;
	int is_site = offset % BLOCK == 8 && offset < BLOCK * SITES;
	struct candidates c = { .len = is_site || offset >= PROGRAM_BYTES ? SITE_BYTES :
									    OTHER_BYTES };

	if (offset >= TEXT_BYTES)
		return WRONG;
	if (e && e->kind == TRAPPED && e->number == d->pc)
		return pass_trap(d) ? AMBIGUOUS : EXACT;
	if (!(d->scheme == STAGES ? ask_stages(d, &c) : ask_pairs(d, &c)))
		return AMBIGUOUS;
	return follow(d, &c);
}

static enum result decode(const struct thread *t, const struct trapline_code_log *log,
			  enum scheme scheme)
{
	struct decoder d = { .t = t,
			     .log = log,
			     .scheme = scheme,
			     .tid = 100 + (int32_t)(t - threads),
			     .event = skip_stamps(t, 0),
			     .pc = TEXT };

	for (int i = 0; i < t->path_count; i++) {
		if (d.pc != t->path[i])
			return WRONG;
		enum result result = decode_one(&d);
		if (result != EXACT)
			return result;
	}
	return EXACT;
}

static void check(const char *stamps, uint64_t counts[SCHEMES][RESULTS])
{
	static const char *const names[] = { "the log", "two events, by the first",
					     "two events, by the second" };

	for (int scheme = 0; scheme < SCHEMES; scheme++)
		printf("# %s, %s: %llu exact, %llu ambiguous, %llu wrong\n", stamps, names[scheme],
		       (unsigned long long)counts[scheme][EXACT],
		       (unsigned long long)counts[scheme][AMBIGUOUS],
		       (unsigned long long)counts[scheme][WRONG]);
	assert_int_equal(counts[STAGES][WRONG], 0);
	assert_true(counts[STAGES][EXACT] > 0);
	assert_true(counts[ONLY_PRE][WRONG] > 0);
	assert_true(counts[ONLY_POST][WRONG] > 0);
}

static void a_path_is_exact_or_ambiguous_and_never_wrong(void **state)
{
	const char *given = getenv("TRAPLINE_SEED");
	uint64_t seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
	uint64_t counts[SCHEMES][RESULTS] = { { 0 } };
	uint64_t fine[SCHEMES][RESULTS] = { { 0 } };

	printf("# TRAPLINE_SEED=%llu\n", (unsigned long long)seed);
	random_state = seed * 0x9e3779b97f4a7c15u | 1;
	for (uint32_t block = 0; block <= SITES; block++)
		make_block(block);
	for (unsigned int run = 0; run < scaled(RUNS) || run < RUNS_LEAST; run++) {
		struct trapline_code_log *log = NULL;
		uint64_t(*to)[RESULTS] = run % 2 ? counts : fine;

		steps_per_stamp = run % 2 ? 6 : 1;
		run_once();
		assert_int_equal(trapline_code_log_parse(log_bytes, log_size, &log), 0);
		for (int scheme = 0; scheme < SCHEMES; scheme++)
			for (int i = 0; i < THREADS; i++)
				to[scheme][decode(&threads[i], log, (enum scheme)scheme)]++;
		trapline_code_log_close(log);
	}
	check("a time stamp at each step", fine);
	check("one in 6 steps", counts);
	/* What is ambiguous is so for want of time stamps: with more of them more is exact. */
	assert_true(fine[STAGES][EXACT] > 2 * counts[STAGES][EXACT]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_path_is_exact_or_ambiguous_and_never_wrong),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
