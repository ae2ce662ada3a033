/* SPDX-License-Identifier: MIT */
/*
 * share_head.h - how the memory begins that trapline shares with the processes of a run.
 *
 * These processes may belong to several users, and the command may have more rights than they have.
 * So the memory has two parts. The head states what trapline wants. Only trapline writes it. It is
 * a sealed file of its own, which a process can map for reading only, or, in a process that was
 * attached to, a private copy. All other bytes are data, which each process can write at any
 * moment. A reader copies a number from there once and checks the copy. It never is a path that is
 * trusted, a process to signal or a descriptor to take.
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

/*
 * Where a run is that ends with its command's lock (guest/run.h). RUN_READY is of a program that
 * was started with it.
 */
enum run_state {
	RUN_NEW,      /* no process has the region yet */
	RUN_READY,    /* the process waits, before its first own code */
	RUN_ARM,      /* the command has written what to arm */
	RUN_TAKEN,    /* heap: SIGSEGV is taken, and nothing is sampled before may_sample */
	RUN_ARMED,    /* the process runs */
	RUN_STOPPED,  /* heap: nothing is sampled, and SIGSEGV is taken still */
	RUN_FAILED,   /* error and why */
	RUN_DECLINED, /* the command does without what failed: the process runs */
	RUN_ENDED,    /* the process is as it was */
};

/* Why one ends by itself, as `why` and as a step of race state it. */
#define RUN_REPLACED_TRAP "the program replaced the handler of SIGTRAP by a system call of its own"

/* The first data behind the head of such a run. */
struct run_words {
	uint32_t state; /* enum run_state */
	uint32_t stop;
	int32_t error;
	uint32_t reserved;
	char why[200]; /* of the first process that could not, or that ended it */
};

#endif
