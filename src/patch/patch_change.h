/* SPDX-License-Identifier: MIT */
/*
 * patch_change.h - from the old functions to the new ones, and back. All of it holds the lock of
 * patches.
 */
#ifndef PATCH_PATCH_CHANGE_H
#define PATCH_PATCH_CHANGE_H

#include "patch/patch_gate.h"

/*
 * Let all threads go to the new functions, or to the old ones. 0; -ETIMEDOUT: all is as before;
 * above 0: so many threads have not changed, PER_THREAD. It continues from there when it is called
 * again.
 */
int patch_change(struct trapline_patch *patch, int to_new, uint64_t timeout_ns);
/* Forked: no thread waits any more, and none is there to end a change. */
void patch_change_forked(struct trapline_patch *patch);

#endif
