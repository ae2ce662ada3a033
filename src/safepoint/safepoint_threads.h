/* SPDX-License-Identifier: MIT */
/* safepoint_threads.h - which threads and domains there are: see safepoint_threads.c. */
#ifndef SAFEPOINT_SAFEPOINT_THREADS_H
#define SAFEPOINT_SAFEPOINT_THREADS_H

#include "safepoint/safepoint_domain.h"

int threads_start(void);
void threads_add_domain(struct trapline_safepoint *domain);
/* -EBUSY: it has threads, or a stop lasts. */
int threads_remove_domain(struct trapline_safepoint *domain);
/* 1: another domain has this signal. */
int threads_have_signal(int signal);
int threads_register(struct trapline_safepoint *domain, void *user);
int threads_unregister(void);
/* Free those that ended without a word. turn is locked and the gate is open. */
void threads_sweep(struct trapline_safepoint *domain);

#endif
