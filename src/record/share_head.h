/* SPDX-License-Identifier: MIT */
/*
 * share_head.h - how the memory begins that trapline shares with the processes of a run.
 *
 * These processes may belong to several users, and the command may have more rights than they have.
 * So the memory has two parts. The head says what trapline wants. Only trapline writes it: it is a
 * sealed file of its own, which a process can map for reading only, or, in a process that was
 * attached to, a private copy. All other bytes are data, which each process can write at any moment.
 * A reader copies a number from there once and checks the copy. It never is a path that is trusted, a
 * process to signal or a descriptor to take.
 */
#ifndef RECORD_SHARE_HEAD_H
#define RECORD_SHARE_HEAD_H

#include <stdint.h>

#define SHARE_HEAD_BYTES 65536u /* a multiple of the size of a page, on each architecture */

struct share_head {
	uint64_t magic;
	uint64_t bytes;	   /* of head and data: both sides are the same version */
	uint64_t nonce[2]; /* as in the option that names the memory: it is of the same run */
	int32_t observer;  /* trapline: the run ends when it has ended; 0: the process itself */
	uint32_t reserved;
};

#endif
