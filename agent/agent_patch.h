/* SPDX-License-Identifier: MIT */
/* agent_patch.h - see agent_patch.c. */
#ifndef AGENT_AGENT_PATCH_H
#define AGENT_AGENT_PATCH_H

/*
 * "fd:N,M": the region, and the object if one is applied. 0: the answer will be in the region; -EBUSY:
 * another request is at work; or another -errno.
 */
int agent_patch_call(const char *files);

#endif
