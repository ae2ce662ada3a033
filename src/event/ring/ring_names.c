/* SPDX-License-Identifier: MIT */
/* ring_names.c - see ring_names.h. */
#include "event/ring/ring_names.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/own_fd.h"
#include "base/sys.h"
#include "base/tasks.h"

#define ROOM_FIRST 256u
#define ROOM_MAX (1u << 17) /* half of it is used; then all begins again */

static struct ring_name *slot_of(const struct ring_names *names, uint32_t tid)
{
	size_t at = tid * 2654435761u & (names->room - 1);

	while (names->slots[at].tid && names->slots[at].tid != tid)
		at = (at + 1) & (names->room - 1);
	return &names->slots[at];
}

/* Room for one more. 0: no memory. */
static int grow(struct ring_names *names)
{
	struct ring_names old = *names;

	if (names->room && 2 * names->count < names->room)
		return 1;
	if (names->room == ROOM_MAX) {
		memset(names->slots, 0, names->room * sizeof(*names->slots));
		names->count = 0;
		return 1;
	}
	size_t room = old.room ? 4 * old.room : ROOM_FIRST;
	struct ring_name *slots = calloc(room, sizeof(*slots));
	if (!slots)
		return 0;
	names->slots = slots;
	names->room = room;
	for (size_t i = 0; i < old.room; i++)
		if (old.slots[i].tid)
			*slot_of(names, old.slots[i].tid) = old.slots[i];
	free(old.slots);
	return 1;
}

void ring_names_set(struct ring_names *names, uint32_t tid, const char *name, uint64_t since_ns)
{
	if (!tid || !grow(names))
		return;
	struct ring_name *slot = slot_of(names, tid);
	if (slot->tid && slot->since_ns > since_ns)
		return;
	names->count += !slot->tid;
	slot->since_ns = since_ns;
	slot->tid = tid;
	memset(slot->name, 0, sizeof(slot->name));
	memcpy(slot->name, name, strnlen(name, sizeof(slot->name) - 1));
}

const char *ring_names_find(const struct ring_names *names, uint32_t tid)
{
	const struct ring_name *slot = names->room ? slot_of(names, tid) : NULL;

	return slot && slot->tid && slot->name[0] ? slot->name : NULL;
}

void ring_names_born(struct ring_names *names, uint32_t tid, uint32_t creator, uint64_t since_ns)
{
	const char *known = ring_names_find(names, creator);
	char name[RING_NAME_BYTES] = "";

	/* A copy: the table may move. Empty: an earlier thread of this number is not meant. */
	if (known)
		memcpy(name, known, sizeof(name));
	ring_names_set(names, tid, name, since_ns);
}

void ring_names_read_one(pid_t pid, pid_t tid, char name[RING_NAME_BYTES])
{
	char path[64];

	memset(name, 0, RING_NAME_BYTES);
	snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", pid, tid);
	int fd = own_fd_open(path, O_RDONLY);
	if (fd < 0)
		return;
	ssize_t n = sys_read(fd, name, RING_NAME_BYTES);
	name[n > 0 ? n - 1 : 0] = '\0'; /* over the newline */
	sys_close(fd);
}

void ring_names_read(struct ring_names *names, pid_t pid)
{
	struct task_list list = { 0 };
	char name[RING_NAME_BYTES];

	if (!tasks_read(pid, &list)) {
		for (size_t i = 0; i < list.count; i++) {
			uint64_t now = clock_now_ns();
			ring_names_read_one(pid, list.tids[i], name);
			ring_names_set(names, (uint32_t)list.tids[i], name, now);
		}
	}
	tasks_free(&list);
}

void ring_names_free(struct ring_names *names)
{
	free(names->slots);
	*names = (struct ring_names){ 0 };
}
