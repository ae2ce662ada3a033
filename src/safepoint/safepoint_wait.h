/* SPDX-License-Identifier: MIT */
/* safepoint_wait.h - the thread's side: see safepoint_wait.c. */
#ifndef SAFEPOINT_SAFEPOINT_WAIT_H
#define SAFEPOINT_SAFEPOINT_WAIT_H

#include <ucontext.h>

#include "safepoint/safepoint_domain.h"

/* What belongs to the calling thread. */
struct safepoint_self {
	struct safepoint_thread *thread; /* NULL: it is not registered */
	uint32_t inside;		 /* so many functions of this room are running */
	pid_t tid;			 /* 0: not asked for yet */
};
extern __thread struct safepoint_self safepoint_self
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

pid_t safepoint_tid(void);

/* Stopped in the way that state states, until nothing wants that any more. Then it is running. */
void safepoint_wait(struct safepoint_thread *thread, enum safepoint_state state,
		    const struct safepoint_at *at);

/* No more running, in the way that state states. */
void safepoint_rest(struct safepoint_thread *thread, enum safepoint_state state);

/* Missing, after so many more. tid came last; 0: the one of before did. */
int32_t safepoint_count(struct trapline_safepoint *domain, int32_t change, pid_t tid);

/* 1: the thread may not run. */
int safepoint_is_closed(const struct safepoint_thread *thread);

void safepoint_take_frame(struct safepoint_at *at, const struct safepoint_frame *frame);

/* The function of a handshake has ended in this thread. */
void safepoint_end_function(struct safepoint_thread *thread);

/* A signal or a trap made the thread come. */
void safepoint_arrive_by(ucontext_t *context);

/* The entries behind the public functions of these names. */
void safepoint_arrive(const struct safepoint_frame *frame) __attribute__((visibility("hidden")));
int safepoint_enter_native(const struct safepoint_frame *frame)
	__attribute__((visibility("hidden")));

#endif
