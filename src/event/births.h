/* SPDX-License-Identifier: MIT */
/* births.h - wait for the thread creations that are under way in a process. */
#ifndef EVENT_BIRTHS_H
#define EVENT_BIRTHS_H

#include "base/tasks.h"

struct births {
	struct task_list lists[2];
	int now; /* the index of the newest */
	struct task_list elders;
	uint32_t born;	 /* found for the first time, by the last call */
	uint32_t others; /* threads besides the caller, by the last call */
};

enum births_of {
	BIRTHS_OF_ALL,
	BIRTHS_OF_YOUNG,
	BIRTHS_OF_NEW, /* that no reading of the list found before */
};

/*
 * Until no thread has a thread creation under way that was begun before the call; of the young: no
 * thread but the elders. 0, or -errno: that cannot be known of all. AS-Safe.
 */
int births_wait(struct births *births, pid_t pid, enum births_of of);
/* The elders are those that the last call found. */
void births_note_elders(struct births *births);
void births_free(struct births *births);

#endif
