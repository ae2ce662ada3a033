/* SPDX-License-Identifier: MIT */
/* safepoint_backend.h - what makes threads come: see safepoint_backend.c. */
#ifndef SAFEPOINT_SAFEPOINT_BACKEND_H
#define SAFEPOINT_SAFEPOINT_BACKEND_H

#include "safepoint/safepoint_domain.h"

/* 0 or -errno, recorded for trapline_explain(). */
int backend_open(struct trapline_safepoint *domain);
void backend_close(struct trapline_safepoint *domain);

/* For each thread that is asked; the list is locked. Then once for all. */
void backend_want(struct trapline_safepoint *domain, struct safepoint_thread *thread);
int backend_arm(struct trapline_safepoint *domain);

/* Again for a thread that has not come for a while; the list is locked. */
void backend_remind(struct trapline_safepoint *domain, struct safepoint_thread *thread);

void backend_disarm(struct trapline_safepoint *domain);
void backend_after_fork_in_child(struct trapline_safepoint *domain);

#endif
