/* SPDX-License-Identifier: MIT */
/*
 * thread_names.c - names of threads for records that do not have one.
 *
 * A name is read from /proc soon after the hit. A thread that has ended by then has no name. Names
 * change and thread ids are reused, so a name is kept for a moment only.
 */
#include "cli/launch/thread_names.h"

#include "base/clock.h"
#include "report/safe/task_name.h"

#include <string.h>

#define GOOD_FOR_NS 500000000u

static void name_read(struct known_name *slot, pid_t pid, pid_t tid)
{
	char name[sizeof(slot->name)];

	task_name(pid, tid, name, sizeof(name));
	/* A thread that has just ended keeps its last name. */
	if (name[0] || slot->tid != tid)
		memcpy(slot->name, name, sizeof(name));
	slot->tid = tid;
}

void thread_names_fill(struct thread_names *names, struct trapline_hit *hit)
{
	struct known_name *slot = &names->slots[(unsigned int)hit->tid % THREAD_NAMES];
	uint64_t now = clock_now_ns();

	if (hit->thread[0])
		return;
	if (slot->tid != hit->tid || now - slot->read_ns > GOOD_FOR_NS) {
		name_read(slot, hit->pid, hit->tid);
		slot->read_ns = now;
	}
	memcpy(hit->thread, slot->name, sizeof(hit->thread));
}
