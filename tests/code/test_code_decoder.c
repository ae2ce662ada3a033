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
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include <trapline/code.h>
#include <trapline/code_log.h>

#include "code/insn/insn.h"
#include "record/code_layout.h"

#define RUNS 10000
#define THREADS 4
#define SITES 4
#define BATCHES 6
#define STEPS 120 /* of one thread */
#define TEXT 0x400000u
#define BLOCK 64u
#define TEXT_BYTES (BLOCK * (SITES + 1))
#define VARIANTS 4
#define SITE_BYTES 5
#define PID 77
#define LOG_MAX (1u << 18)

static uint64_t random_state;

static uint32_t pick(uint32_t n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t)(random_state >> 20) % n;
}

/* ---- the program: a ring of blocks, each with a site of five bytes ---- */

static uint8_t loaded[TEXT_BYTES];
static uint8_t text[TEXT_BYTES];
static int variant_of[SITES];

static uint64_t site_address(int site)
{
	return TEXT + BLOCK * (uint32_t)site + 8;
}

/*
 * nop; jump; conditional jump with prefixes that do nothing; call. Where they lead is as long as
 * the way on, so that a wrong variant gives another path with the same number of bits.
 */
static void make_variant(int variant, uint8_t *out)
{
	static const uint8_t forms[VARIANTS][SITE_BYTES] = {
		{ 0x0f, 0x1f, 0x44, 0x00, 0x00 },
		{ 0xe9, 24 - 5, 0, 0, 0 },
		{ 0x2e, 0x2e, 0x2e, 0x74, 24 - 5 },
		{ 0xe8, 40 - 5, 0, 0, 0 },
	};

	memcpy(out, forms[variant], SITE_BYTES);
}

/*
 * +0 nop nop jz; +8 site; +13 nop jz, jmp to the next; +32 jnz, jmp to the next; +48 jz, ret.
 * The last block jumps back to the first by a register, and so has an indirect target.
 */
static void make_block(uint32_t block)
{
	uint8_t *at = loaded + BLOCK * block;
	int last = block == SITES;

	memset(at, 0xcc, BLOCK);
	memcpy(at, "\x90\x90\x74\x00\x90\x90\x66\x90", 8);
	if (last) {
		memcpy(at + 8, "\xff\xe0", 2); /* jmp *%rax */
		return;
	}
	make_variant(0, at + 8);
	memcpy(at + 13, "\x90\x74\x00\xeb", 4);
	at[17] = (uint8_t)(BLOCK - 18);
	memcpy(at + 32, "\x75\x00\xeb", 3);
	at[35] = (uint8_t)(BLOCK - 36);
	memcpy(at + 48, "\x74\x00\xc3", 3);
}

/* ---- what a thread leaves ---- */

enum event_kind {
	BIT,
	TARGET,
	TRAPPED,
	STAMP
};
struct event {
	uint8_t kind;
	uint8_t bit;
	uint64_t number; /* target, address of the trap, time */
};

struct thread {
	uint64_t pc;
	uint64_t stack[8];
	int depth;
	int trapped; /* in the handler, of the trap at pc */
	int steps;
	uint8_t fetched[TEXT_BYTES];
	struct event events[4 * STEPS];
	int event_count;
	uint64_t path[2 * STEPS];
	int path_count;
};
static struct thread threads[THREADS];
static uint32_t steps_per_stamp; /* on average */
static uint64_t now;

static void leave(struct thread *t, int kind, int bit, uint64_t number)
{
	t->events[t->event_count++] = (struct event){ (uint8_t)kind, (uint8_t)bit, number };
}

/* ---- an interpreter; the decoder has the same, with the trace in place of chance ---- */

struct step_out {
	uint64_t next;
	uint64_t pushed; /* 0: nothing */
	int kind;	 /* enum insn_kind */
};

static int decode_step(const uint8_t *bytes, size_t n, uint64_t pc, struct step_out *out)
{
	struct insn insn;

	if (insn_decode(bytes, n, &insn))
		return -1;
	*out = (struct step_out){ pc + insn.length, 0, insn.kind };
	if (insn.kind == INSN_JUMP || insn.kind == INSN_CALL)
		out->next = pc + (uint64_t)insn.target;
	if (insn.kind == INSN_CALL)
		out->pushed = pc + insn.length;
	return 0;
}

static uint64_t jump_of(const uint8_t *bytes, size_t n, uint64_t pc)
{
	struct insn insn;

	return insn_decode(bytes, n, &insn) ? 0 : pc + (uint64_t)insn.target;
}

/* One instruction of these bytes at pc. The handler's emulation leaves no trace. */
static void execute(struct thread *t, const uint8_t *bytes, size_t n, int is_traced)
{
	struct step_out out = { 0 };

	assert_int_equal(decode_step(bytes, n, t->pc, &out), 0);
	if (out.kind == INSN_JUMP_CONDITIONAL) {
		int taken = (int)pick(2);

		if (is_traced)
			leave(t, BIT, taken, 0);
		if (taken)
			out.next = jump_of(bytes, n, t->pc);
	} else if (out.kind == INSN_JUMP_INDIRECT) {
		out.next = TEXT;
		leave(t, TARGET, 0, out.next);
	} else if (out.kind == INSN_RETURN) {
		assert_true(t->depth > 0);
		out.next = t->stack[--t->depth];
		leave(t, TARGET, 0, out.next);
	}
	if (out.pushed)
		t->stack[t->depth++] = out.pushed;
	t->pc = out.next;
}

/* ---- the log, made of the records of the library ---- */

static uint8_t log_bytes[LOG_MAX];
static size_t log_size;

static void log_close(struct code_record *r)
{
	r->head.pid = PID;
	r->head.tid = PID;
	r->head.source = 1;
	r->head.time_ns = now;
	code_close(&r->head);
	assert_true(log_size + r->head.bytes <= LOG_MAX);
	memcpy(log_bytes + log_size, r, r->head.bytes);
	log_size += r->head.bytes;
}

static void log_begin(void)
{
	struct code_record r;

	log_size = 0;
	code_open(&r.head, CODE_FORMAT);
	code_put(&r.head, CODE_MAGIC, 8);
	code_put32(&r.head, CODE_VERSION);
	code_put32(&r.head, CODE_CLOCK_MONOTONIC);
	log_close(&r);
	code_open(&r.head, CODE_START);
	code_put64(&r.head, 1);
	code_put32(&r.head, 0);
	code_put32(&r.head, 0);
	code_put64(&r.head, 0);
	log_close(&r);
}

static void log_stage(uint64_t batch, uint32_t stage)
{
	struct code_record r;

	code_open(&r.head, CODE_STAGE);
	code_put64(&r.head, batch);
	code_put32(&r.head, stage);
	log_close(&r);
}

static void log_hit(int thread, uint64_t address, uint64_t resume, int is_orphan)
{
	struct code_record r;

	code_open(&r.head, CODE_HIT);
	code_put64(&r.head, address);
	code_put64(&r.head, resume);
	code_put32(&r.head, (uint32_t)is_orphan);
	log_close(&r);
	/* Of this thread: the head was closed with the poker's. */
	struct code_head *head = (struct code_head *)(log_bytes + log_size - r.head.bytes);
	head->tid = 100 + thread;
	head->sum = code_sum(head, head->bytes);
}

/* ---- the poker ---- */

struct batch {
	uint64_t number;
	int phase; /* 0: none in progress */
	int committed;
	int count;
	int done; /* sites written in this phase */
	int sites[SITES];
	uint8_t before[SITES][SITE_BYTES];
	uint8_t after[SITES][SITE_BYTES];
};
static struct batch batch;

/* The two events of the negative control. */
struct two_events {
	uint64_t pre;
	uint64_t post;
	int site;
	uint8_t before[SITE_BYTES];
	uint8_t after[SITE_BYTES];
};
static struct two_events pairs[BATCHES * SITES];
static int pair_count;

static uint8_t *text_of(int site)
{
	return text + (site_address(site) - TEXT);
}

static void fetch_all(void)
{
	for (int i = 0; i < THREADS; i++)
		memcpy(threads[i].fetched, text, sizeof(text));
}

static void begin_batch(void)
{
	struct code_record r;

	batch.number++;
	batch.count = 0;
	batch.committed = 0;
	batch.done = 0;
	for (int site = 0; site < SITES; site++) {
		if (!pick(3) && (batch.count || site < SITES - 1))
			continue;
		int i = batch.count++;
		batch.sites[i] = site;
		memcpy(batch.before[i], text_of(site), SITE_BYTES);
		variant_of[site] = (variant_of[site] + 1 + (int)pick(VARIANTS - 1)) % VARIANTS;
		make_variant(variant_of[site], batch.after[i]);
		struct two_events *pair = &pairs[pair_count++];
		*pair = (struct two_events){ .pre = now, .post = UINT64_MAX, .site = site };
		memcpy(pair->before, batch.before[i], SITE_BYTES);
		memcpy(pair->after, batch.after[i], SITE_BYTES);
	}
	code_open(&r.head, CODE_SITES);
	code_put64(&r.head, batch.number);
	code_put32(&r.head, CODE_FORM_TRAP);
	code_put32(&r.head, 0);
	code_put32(&r.head, (uint32_t)batch.count);
	code_put32(&r.head, (uint32_t)batch.count);
	for (int i = 0; i < batch.count; i++) {
		code_put64(&r.head, site_address(batch.sites[i]));
		code_put(&r.head, &(uint8_t){ SITE_BYTES }, 1);
		code_put(&r.head, batch.before[i], SITE_BYTES);
		code_put(&r.head, batch.after[i], SITE_BYTES);
	}
	log_close(&r);
	batch.phase = 1;
}

static int is_someone_trapped(void)
{
	for (int i = 0; i < THREADS; i++)
		if (threads[i].trapped)
			return 1;
	return 0;
}

static void end_batch(void)
{
	log_stage(batch.number, TRAPLINE_CODE_DONE);
	for (int i = pair_count - batch.count; i < pair_count; i++)
		pairs[i].post = now;
	batch.phase = 7;
}

/* One small step: one site, a sync, or a stage. */
static void poke_step(void)
{
	int i = batch.done;

	switch (batch.phase) {
	case 0:
		if (batch.number < BATCHES && !pick(12))
			begin_batch();
		return;
	case 1: /* int3 */
		text_of(batch.sites[i])[0] = 0xcc;
		break;
	case 2: /* sync, commit */
		fetch_all();
		batch.committed = 1;
		log_stage(batch.number, TRAPLINE_CODE_TRAP);
		batch.phase = 3;
		return;
	case 3:
		log_stage(batch.number, TRAPLINE_CODE_OPEN);
		batch.phase = 4;
		batch.done = 0;
		return;
	case 4: /* tails */
		memcpy(text_of(batch.sites[i]) + 1, batch.after[i] + 1, SITE_BYTES - 1);
		if (++batch.done == batch.count) {
			fetch_all();
			batch.done = 0;
			batch.phase = 5;
		}
		return;
	case 5: /* first bytes */
		text_of(batch.sites[i])[0] = batch.after[i][0];
		break;
	case 6:
		fetch_all();
		end_batch();
		return;
	default: /* withdrawn, often before a signal has reached its handler */
		batch.phase = is_someone_trapped() && pick(2) ? 7 : 0;
		return;
	}
	if (++batch.done == batch.count)
		batch.phase++;
}

/* ---- a thread ---- */

static int find_site(uint64_t address)
{
	for (int i = 0; batch.phase && i < batch.count; i++)
		if (site_address(batch.sites[i]) == address)
			return i;
	return -1;
}

/*
 * The handler: what was there, or what comes, as the batch is committed or not. Without a batch the
 * int3 is gone, and the thread executes again.
 */
static void handle(struct thread *t)
{
	uint64_t address = t->pc;
	int i = find_site(address);

	t->trapped = 0;
	if (i >= 0)
		execute(t, batch.committed ? batch.after[i] : batch.before[i], SITE_BYTES, 0);
	log_hit((int)(t - threads), address, t->pc, i < 0);
}

static void thread_step(struct thread *t)
{
	if (t->trapped) {
		handle(t);
		return;
	}
	if (t->steps == STEPS)
		return;
	if (!pick(4))
		memcpy(t->fetched, text, sizeof(text));
	const uint8_t *bytes = t->fetched + (t->pc - TEXT);
	t->steps++;
	t->path[t->path_count++] = t->pc;
	if (*bytes == 0xcc) {
		leave(t, TRAPPED, 0, t->pc);
		t->trapped = 1;
	} else {
		execute(t, bytes, 15, 1);
	}
	if (!pick(steps_per_stamp))
		leave(t, STAMP, 0, now);
}

static void run_once(void)
{
	now = 1000;
	memcpy(text, loaded, sizeof(text));
	memset(variant_of, 0, sizeof(variant_of));
	memset(&batch, 0, sizeof(batch));
	pair_count = 0;
	for (int i = 0; i < THREADS; i++) {
		memset(&threads[i], 0, offsetof(struct thread, fetched));
		threads[i].event_count = 0;
		threads[i].path_count = 0;
		threads[i].pc = TEXT;
		leave(&threads[i], STAMP, 0, now);
	}
	fetch_all();
	log_begin();
	for (int left = THREADS; left > 0 || batch.phase;) {
		now += 1 + pick(3);
		if (pick(3))
			thread_step(&threads[pick(THREADS)]);
		else
			poke_step();
		left = 0;
		for (int i = 0; i < THREADS; i++)
			left += threads[i].steps < STEPS || threads[i].trapped;
	}
	now++;
	struct code_record r;
	code_open(&r.head, CODE_END);
	log_close(&r);
	for (int i = 0; i < THREADS; i++)
		leave(&threads[i], STAMP, 0, now);
}

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
	if (bytes[0] == 0xcc) /* a trap would be in the trace */
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
	uint8_t all[TEXT_BYTES];
	uint64_t from;
	uint64_t until;

	find_times(d, &from, &until);
	memcpy(all, loaded, sizeof(all));
	for (int i = 0; i < pair_count; i++)
		if ((d->scheme == ONLY_POST ? pairs[i].post : pairs[i].pre) <= from)
			memcpy(all + (site_address(pairs[i].site) - TEXT), pairs[i].after,
			       SITE_BYTES);
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
	struct candidates c = { .len = offset % BLOCK == 8 && offset < BLOCK * SITES ? SITE_BYTES :
										       2 };

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
	for (int run = 0; run < RUNS; run++) {
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
