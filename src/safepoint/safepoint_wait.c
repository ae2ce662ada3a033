/* SPDX-License-Identifier: MIT */
/*
 * safepoint_wait.c - how a thread reaches a stop, waits and continues: its side of
 * safepoint_domain.h.
 *
 * It may run inside SIGTRAP (watch) or inside another signal.
 */
#include "safepoint/safepoint_wait.h"

#include <errno.h>

#define RED_ZONE_BYTES 128u

__thread uint32_t trapline_safepoint_wanted __attribute__((tls_model("initial-exec")));
__thread struct safepoint_self safepoint_self __attribute__((tls_model("initial-exec")));

pid_t safepoint_tid(void)
{
	if (!safepoint_self.tid)
		safepoint_self.tid = sys_gettid();
	return safepoint_self.tid;
}

int safepoint_is_closed(const struct safepoint_thread *thread)
{
	return atomic_get(&thread->domain->gate) & 1 || atomic_get(&thread->held);
}

int32_t safepoint_count(struct trapline_safepoint *domain, int32_t change, pid_t tid)
{
	uint64_t old = atomic_get(&domain->arrivals);
	uint64_t last;
	int32_t missing;

	do {
		missing = (int32_t)((uint32_t)old + (uint32_t)change);
		last = tid ? (uint64_t)tid : old >> 32;
	} while (!atomic_cas(&domain->arrivals, &old, last << 32 | (uint32_t)missing));
	return missing;
}

static void come(const struct safepoint_thread *thread)
{
	struct trapline_safepoint *domain = thread->domain;

	if (!safepoint_count(domain, -1, thread->tid) && atomic_get(&domain->is_sleeping))
		futex_wake(&domain->arrivals, 1);
}

void safepoint_rest(struct safepoint_thread *thread, enum safepoint_state state)
{
	if (atomic_swap(thread->state, (uint32_t)state) == SAFEPOINT_ASKED)
		come(thread);
}

static void wait_while_closed(const struct safepoint_thread *thread)
{
	const uint32_t *gate = &thread->domain->gate;
	uint32_t value = atomic_get(gate);

	if (value & 1)
		futex_wait_until(gate, value, NO_DEADLINE);
	else if (atomic_get(&thread->held))
		futex_wait_until(&thread->held, 1, NO_DEADLINE);
}

void safepoint_end_function(struct safepoint_thread *thread)
{
	thread->is_in_function = 0;
	atomic_set(&thread->claim, CLAIM_DONE);
	futex_wake(&thread->claim, 1);
}

/* The function of a handshake, before the thread counts as stopped. */
static void run_function(struct safepoint_thread *thread)
{
	uint32_t open = CLAIM_OPEN;

	if (!atomic_cas(&thread->claim, &open, CLAIM_RUNNING))
		return;
	thread->is_in_function = 1;
	thread->function(thread->arg);
	safepoint_end_function(thread);
}

void safepoint_wait(struct safepoint_thread *thread, enum safepoint_state state,
		    const struct safepoint_at *at)
{
	do {
		/* A handler that interrupted this may have set another one. */
		atomic_set(&thread->at, at);
		safepoint_rest(thread, state);
		while (safepoint_is_closed(thread))
			wait_while_closed(thread);
		atomic_set(thread->state, SAFEPOINT_RUNNING);
	} while (safepoint_is_closed(thread));
}

static void arrive(struct safepoint_thread *thread, const struct safepoint_at *at)
{
	safepoint_self.inside++;
	if (atomic_get(&thread->held))
		run_function(thread);
	safepoint_wait(thread, SAFEPOINT_STOPPED, at);
	safepoint_self.inside--;
}

/*
 * A thread that is stopped, native or the one that stops can come here by a handler of the program.
 */
static int has_to_wait(const struct safepoint_thread *thread)
{
	if (!thread || thread->is_in_function)
		return 0;
	uint32_t state = atomic_get(thread->state);

	return state == SAFEPOINT_ASKED ||
	       (state == SAFEPOINT_RUNNING && safepoint_is_closed(thread));
}

void safepoint_arrive(const struct safepoint_frame *frame)
{
	struct safepoint_thread *thread = safepoint_self.thread;
	struct safepoint_at at;

	if (!has_to_wait(thread))
		return;
	safepoint_take_frame(&at, frame);
	arrive(thread, &at);
}

static void take_context(struct safepoint_at *at, ucontext_t *context)
{
	/* By DWARF number. */
	static const uint8_t order[SAFEPOINT_REGS] = {
		REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8,
		REG_R9,	 REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP,
	};

	for (int i = 0; i < SAFEPOINT_REGS; i++)
		at->regs[i] = (uint64_t)context->uc_mcontext.gregs[order[i]];
	at->known = (1u << SAFEPOINT_REGS) - 1;
	at->sp = at->regs[7] - RED_ZONE_BYTES;
	at->context = context;
}

void safepoint_arrive_by(ucontext_t *context)
{
	struct safepoint_thread *thread = safepoint_self.thread;
	struct safepoint_at at;

	if (!has_to_wait(thread))
		return;
	take_context(&at, context);
	arrive(thread, &at);
}

void safepoint_take_frame(struct safepoint_at *at, const struct safepoint_frame *frame)
{
	at->regs[3] = frame->rbx;
	at->regs[6] = frame->rbp;
	at->regs[7] = (uint64_t)(uintptr_t)(frame + 1);
	at->regs[12] = frame->r12;
	at->regs[13] = frame->r13;
	at->regs[14] = frame->r14;
	at->regs[15] = frame->r15;
	at->regs[16] = frame->pc;
	at->known = 1u << 3 | 1u << 6 | 1u << 7 | 0xfu << 12 | 1u << 16;
	at->sp = at->regs[7];
	at->context = NULL;
}

int safepoint_enter_native(const struct safepoint_frame *frame)
{
	struct safepoint_thread *thread = safepoint_self.thread;

	if (!thread)
		return -EPERM;
	uint32_t state = atomic_get(thread->state);
	if (state != SAFEPOINT_RUNNING && state != SAFEPOINT_ASKED)
		return -EALREADY;
	safepoint_take_frame(&thread->native, frame);
	atomic_set(&thread->at, &thread->native);
	safepoint_rest(thread, SAFEPOINT_NATIVE);
	return 0;
}

TRAPLINE_API int trapline_safepoint_leave_native(void)
{
	struct safepoint_thread *thread = safepoint_self.thread;

	if (!thread)
		return -EPERM;
	if (atomic_get(thread->state) != SAFEPOINT_NATIVE)
		return -EALREADY;
	safepoint_self.inside++;
	safepoint_wait(thread, SAFEPOINT_NATIVE, &thread->native);
	safepoint_self.inside--;
	return 0;
}
