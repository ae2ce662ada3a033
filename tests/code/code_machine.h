/* SPDX-License-Identifier: MIT */
/*
 * code_machine.h - the simulated run of test_code_decoder.c: a program whose code changes, the threads
 * that interpret it, the poker, the trace that the threads leave and the log.
 */
#ifndef TESTS_CODE_CODE_MACHINE_H
#define TESTS_CODE_CODE_MACHINE_H

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
#include "code_program.h"

#define THREADS 4
#define SITES 4
#define BATCHES 6
#define STEPS 120 /* of one thread */
#define TEXT 0x400000u
#define PROGRAM_BYTES (BLOCK * (SITES + 1))
#define SLOT_BYTES 16u
#define TEXT_BYTES (PROGRAM_BYTES + SLOT_BYTES * SITES)
#define SPARE_BYTES 16 /* behind the text, for a decoder */
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

/* ---- the program ---- */

static uint8_t loaded[TEXT_BYTES + SPARE_BYTES];
static uint8_t text[TEXT_BYTES + SPARE_BYTES];
static int variant_of[SITES];
static int has_slot[SITES];

static uint64_t site_address(int site)
{
	return TEXT + BLOCK * (uint32_t)site + 8;
}

static void make_variant(int variant, uint8_t *out)
{
	memcpy(out, site_forms[variant], SITE_BYTES);
}

static void make_block(uint32_t block)
{
	uint8_t *at = loaded + BLOCK * block;

	memset(at, FILL_BYTE, BLOCK);
	put_block(at, block == SITES);
	if (block < SITES)
		make_variant(0, at + 8);
}

/* Where threads run the instruction of a site that is not emulated. */
static uint64_t slot_address(int site)
{
	return TEXT + PROGRAM_BYTES + SLOT_BYTES * (uint32_t)site;
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
	uint8_t fetched[TEXT_BYTES + SPARE_BYTES];
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

/* No thread has been there, so none has fetched what was there before. */
static void make_slot(int site)
{
	uint64_t at = slot_address(site);
	uint8_t *bytes = text + (at - TEXT);
	uint32_t len = SITE_BYTES * 2;
	struct code_record r;

	make_variant(COPIED, bytes);
	put_jump_back(bytes + SITE_BYTES, at + SITE_BYTES, site_address(site) + SITE_BYTES);
	for (int i = 0; i < THREADS; i++)
		memcpy(threads[i].fetched + (at - TEXT), bytes, len);
	code_open(&r.head, CODE_SLOT);
	code_put64(&r.head, now);
	code_put64(&r.head, at);
	code_put64(&r.head, site_address(site));
	code_put32(&r.head, len);
	code_put32(&r.head, 0);
	code_put(&r.head, bytes, len);
	log_close(&r);
	has_slot[site] = 1;
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
		if (variant_of[site] == COPIED && !has_slot[site])
			make_slot(site);
		struct two_events *pair = &pairs[pair_count++];
		*pair = (struct two_events){ .pre = now, .post = UINT64_MAX, .site = site };
		memcpy(pair->before, batch.before[i], SITE_BYTES);
		memcpy(pair->after, batch.after[i], SITE_BYTES);
	}
	code_open(&r.head, CODE_SITES);
	code_put64(&r.head, batch.number);
	code_put32(&r.head, LOG_FORM);
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
	case 1:
		memcpy(text_of(batch.sites[i]), trap_bytes, TRAP_LEN);
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
		memcpy(text_of(batch.sites[i]) + TRAP_LEN, batch.after[i] + TRAP_LEN,
		       SITE_BYTES - TRAP_LEN);
		if (++batch.done == batch.count) {
			fetch_all();
			batch.done = 0;
			batch.phase = 5;
		}
		return;
	case 5: /* first bytes */
		memcpy(text_of(batch.sites[i]), batch.after[i], TRAP_LEN);
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

static void take_past(struct thread *t, int site, const uint8_t *bytes)
{
	if (memcmp(bytes, site_forms[COPIED], SITE_BYTES))
		execute(t, bytes, SITE_BYTES, 0);
	else
		t->pc = slot_address(site);
}

/*
 * The handler: what was there, or what comes, as the batch is committed or not. Without a batch the
 * trap is gone, and the thread executes again.
 */
static void handle(struct thread *t)
{
	uint64_t address = t->pc;
	int i = find_site(address);

	t->trapped = 0;
	if (i >= 0)
		take_past(t, batch.sites[i], batch.committed ? batch.after[i] : batch.before[i]);
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
	if (!memcmp(bytes, trap_bytes, TRAP_LEN)) {
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
	memset(has_slot, 0, sizeof(has_slot));
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

#endif
