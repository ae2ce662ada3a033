/* SPDX-License-Identifier: MIT */
/* injection.h - what the steps of inject() share. */
#ifndef CLI_INJECT_INJECTION_H
#define CLI_INJECT_INJECTION_H

#include "cli/inject/inject.h"
#include "cli/inject/inject_thread.h"

struct symbols;

struct injection {
	pid_t pid;
	struct symbols *symbols;
	int memory_fd;
	uint64_t dlopen_at;
	uint64_t dlsym_at;
	uint64_t dlerror_at;
	uint64_t dladdr1_at;
	uint64_t errno_at;
	struct return_gadgets gadgets;
	char name[40]; /* of the object, made from its bytes */
	const char *function;
	const char *argument;
	const struct inject_shared *shared;
	int *result;
	char *why;
	size_t why_size;
	int object;	/* its descriptor */
	bool is_shared; /* the memory was taken, which is done once */
	int err;
};

/* The cause, as one line. Returns err. */
__attribute__((format(printf, 3, 4))) int injection_refuse(struct injection *in, int err,
							   const char *format, ...);
int injection_refuse_tracing(struct injection *in, int err);
int injection_refuse_filter(struct injection *in);

/*
 * inject_hold.c: stops a thread where the call is safe; the others are resumed at once. 0 or
 * -errno.
 */
int injection_hold(struct injection *in, struct held_thread *t);

#endif
