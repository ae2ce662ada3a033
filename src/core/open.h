/* SPDX-License-Identifier: MIT */
/* open.h - from options to an armed event. */
#ifndef CORE_OPEN_H
#define CORE_OPEN_H

#include "event/event.h"

/* What the kinds of events ask for. */
struct wish {
	uint64_t addr;
	size_t len;
	enum trapline_access access;
	enum trapline_counter counter;
	uint64_t period;
	const uint64_t *sites; /* NULL: not by uprobes */
	size_t site_count;
	int in_code;	       /* a probe */
	int is_kernel;	       /* at tracepoints of the kernel: */
	uint32_t kernel_event; /* enum trapline_kernel_event */
	const uint32_t *numbers;
	size_t number_count;
	struct trapline_event *amount; /* NULL: at any; else only when it has counted so much */
	uint64_t amount_at;
};

/* What cannot be, no matter what the kernel allows. */
int check_event_opts(const struct trapline *t, const struct trapline_event_opts *o);

/* A row of the table, filled from options, or NULL: all are taken. */
struct trapline_event *event_new(struct trapline *t, const struct trapline_event_opts *o);

/* What it is, before another thread may see the row as an event. */
int event_describe(struct trapline_event *ev, const struct wish *wish);

/* Choose how it works here, and arm it. On failure event_release() is still due. */
int event_open(struct trapline *t, struct trapline_event *ev, const struct wish *wish,
	       const struct trapline_event_opts *o);
void event_release(struct trapline_event *ev);

#endif
