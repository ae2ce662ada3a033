/* SPDX-License-Identifier: MIT */
/*
 * safepoint_domain.h - domains, threads, and the protocol between a thread and the thread that
 * stops it.
 *
 * S1. The gate of a domain is closed (odd) before a thread is asked. A thread that becomes running
 *     inspects the gate afterwards, and goes back if it is closed. Both sides do so in one total
 *     order (sequentially consistent), so a thread that was seen as stopped never slips out.
 * S2. The thread that stops changes a state from running to asked, and counts how often that
 *     succeeded. A thread that leaves the state asked subtracts one from missing, exactly once. So
 *     missing is 0 when all have come, however the two interleave. The same word has the thread
 *     that came last.
 * S3. turn is locked from the closing of the gate to its opening, and during a handshake. list is
 *     locked for moments, by threads whose state is not running.
 * S4. A thread is removed from the list only while the gate is open and nothing keeps the thread.
 *     So a thread that was asked stays in memory until it is released.
 */
#ifndef SAFEPOINT_SAFEPOINT_DOMAIN_H
#define SAFEPOINT_SAFEPOINT_DOMAIN_H

#include <stdint.h>
#include <sys/types.h>

#define TRAPLINE_SAFEPOINT_NO_SITES
#include <trapline/safepoint.h>

#include "safepoint/safepoint_lock.h"

#define SAFEPOINT_REGS 17
#define SAFEPOINT_NAME 16

enum safepoint_state {
	SAFEPOINT_RUNNING, /* 0: what TRAPLINE_SAFEPOINT_POLL() compares with */
	SAFEPOINT_ASKED,
	SAFEPOINT_STOPPED,
	SAFEPOINT_NATIVE,
	SAFEPOINT_STOPPING, /* it has turn */
	SAFEPOINT_GONE,	    /* it ended without a word; the list still has it */
};

enum safepoint_claim {
	CLAIM_NONE,
	CLAIM_OPEN,
	CLAIM_RUNNING, /* by the thread or by the thread that asked for it */
	CLAIM_DONE,
};

/* Where a thread is. */
struct safepoint_at {
	uint64_t regs[SAFEPOINT_REGS];
	uint64_t known;
	uint64_t sp;
	void *context;
};

/* What the entries in safepoint_entry_x86_64.c save, from the stack pointer up. */
struct safepoint_frame {
	uint64_t unused;
	uint64_t r15;
	uint64_t r14;
	uint64_t r13;
	uint64_t r12;
	uint64_t rbx;
	uint64_t rbp;
	uint64_t pc;
};

struct safepoint_thread {
	struct safepoint_thread *next;
	struct trapline_safepoint *domain;
	/* enum safepoint_state: for poll it is the word that the thread reads, else own_state. */
	uint32_t *state;
	uint32_t own_state;
	uint32_t held;	/* 1: a handshake is about it. A futex. */
	uint32_t claim; /* enum safepoint_claim of the handshake. A futex. */
	uint32_t is_in_function;
	uint32_t is_unsent; /* its signal queue was full */
	trapline_safepoint_function function;
	void *arg;
	const struct safepoint_at *at; /* valid while it is not running */
	struct safepoint_at native;
	pid_t tid;
	void *user;
	uint64_t stack_start;
	uint64_t stack_end;
	char name[SAFEPOINT_NAME];
};

struct trapline_safepoint {
	/* What threads touch that come, in a cache line of its own. */
	uint64_t arrivals; /* the last one's tid << 32 | missing; missing is a futex */
	uint32_t gate;	   /* odd: closed. A futex. */
	uint32_t is_sleeping;
	uint64_t unused[6];
	struct safepoint_lock turn;
	uint32_t backend;
	struct safepoint_lock list;
	struct safepoint_thread *threads;
	uint32_t state_before; /* of the registered thread that stops */
	uint32_t is_armed;
	uint32_t flags;
	int signal;
	uint64_t address;
	uint32_t length;
	struct trapline *target;      /* of the watch */
	struct trapline_event *event; /* NULL in a forked child that did not need it yet */
	struct trapline_safepoint_stats stats;
	struct trapline_safepoint *next; /* of all, for fork() */
};

#endif
