/* SPDX-License-Identifier: MIT */
/* patch_threads.h - which threads are outside of the functions that are being left. */
#ifndef PATCH_PATCH_THREADS_H
#define PATCH_PATCH_THREADS_H

#include "patch/patch_gate.h"

/* Memory for what is found out about threads, and the stacks as they are now. 0 or -errno. */
int patch_threads_begin(struct trapline_patch *patch);
/* is_in_use: a thread may still read it, so it stays mapped for ever. */
void patch_threads_end(struct trapline_patch *patch, int is_in_use);
/*
 * Wait until all threads have been outside in this phase. 0, -ETIMEDOUT at the patch's deadline
 * with what is pending recorded in the patch, or -errno.
 */
int patch_threads_wait(struct trapline_patch *patch, uint32_t phase);

#endif
