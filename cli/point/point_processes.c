/* SPDX-License-Identifier: MIT */
/* point_processes.c - see point_processes.h. */
#include "cli/point/point_processes.h"

#include "base/grow.h"
#include "base/hash.h"
#include "base/maps.h"
#include "cli/observe/targets_find.h"

#include <stdlib.h>

static int add(struct point_processes *p, pid_t pid, size_t name)
{
	int err = grow_room(p->row, p->count, p->capacity);

	if (!err)
		p->row[p->count++] = (struct point_process){ .pid = pid, .name = name };
	return err;
}

/* The names that are wanted, and the processes that have them. */
struct wanted {
	struct point_processes *found;
	const char *const *names;
	size_t count;
};

static int add_named(void *arg, pid_t pid, const struct target_identity *who)
{
	const struct wanted *w = arg;
	int err = 0;

	for (size_t i = 0; i < w->count && !err; i++)
		if (targets_has_name(who, w->names[i]))
			err = add(w->found, pid, i);
	return err;
}

int point_processes_read(struct point_processes *p, const char *const *names, size_t count)
{
	struct wanted wanted = { p, names, count };

	p->count = 0;
	return targets_each(add_named, &wanted);
}

void point_processes_free(struct point_processes *p)
{
	free(p->row);
	*p = (struct point_processes){ 0 };
}

/* A sum, so that the order of the addresses does not matter. */
uint64_t point_process_files(pid_t pid)
{
	char name[MAPS_NAME];
	struct maps maps;
	uint64_t sum = 0;

	maps_open(&maps, pid, name, sizeof(name));
	for (const struct maps_row *row; (row = maps_next(&maps));)
		if (row->inode && row->mode[2] == 'x')
			sum += hash_text(hash_add(HASH_START, row->inode), name);
	maps_close(&maps);
	return sum;
}
