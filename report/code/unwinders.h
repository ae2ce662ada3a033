/* SPDX-License-Identifier: MIT */
/* unwinders.h - functions by which a thread leaves frames without their return instructions. */
#ifndef UNWINDERS_H
#define UNWINDERS_H

#include "report/dwarf/symbols.h"

enum unwinder_kind {
	/* longjmp, an exception, pthread_exit: frames of the thread end after this call */
	UNWINDER_BEGINS,
	UNWINDER_OTHER,	 /* pthread_cancel: the same in another thread */
	UNWINDER_CAUGHT, /* __cxa_begin_catch: the thread is in the frame that continues */
};

struct unwinder {
	uint64_t address;
	enum unwinder_kind kind;
};

/* Those of all objects that are loaded, at most max, each address once. Returns how many. */
size_t unwinders_find(struct symbols *s, struct unwinder *out, size_t max);

#endif
