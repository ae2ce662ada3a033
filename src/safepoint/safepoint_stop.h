/* SPDX-License-Identifier: MIT */
/* safepoint_stop.h - the side of the thread that stops others: see safepoint_stop.c. */
#ifndef SAFEPOINT_SAFEPOINT_STOP_H
#define SAFEPOINT_SAFEPOINT_STOP_H

#include "safepoint/safepoint_domain.h"

/* The thread that stops: its registered thread (NULL: none), and where it is. */
struct safepoint_caller {
	struct safepoint_thread *thread;
	struct safepoint_at at;
	int timeout_ms;
	uint64_t deadline_ns;
	uint64_t start_ns;
};

/* Take turn; the caller counts as stopped from then on. 0 or -errno, recorded. */
int stop_begin(struct trapline_safepoint *domain, struct safepoint_caller *caller, int timeout_ms,
	       const struct safepoint_frame *frame);

/* The caller is what it was before, and others may have their turn. */
void stop_end(struct trapline_safepoint *domain);

/* Ask a thread. 1: it has to come. The list is locked. */
int stop_ask(struct trapline_safepoint *domain, struct safepoint_thread *thread);

/*
 * Make the asked threads come, and wait for them. On failure none of them is asked any more.
 */
int stop_wait(struct trapline_safepoint *domain, const struct safepoint_caller *caller, int asked);

/* Its name, as long as the thread cannot go away. The list is locked. */
void stop_note_last(struct trapline_safepoint *domain);

/* The entry behind trapline_safepoint_stop(). */
int safepoint_stop(struct trapline_safepoint *domain, int timeout_ms,
		   trapline_safepoint_visitor visitor, void *arg,
		   const struct safepoint_frame *frame) __attribute__((visibility("hidden")));

#endif
