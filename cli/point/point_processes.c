/* SPDX-License-Identifier: MIT */
/* point_processes.c - see point_processes.h. */
#include "cli/point/point_processes.h"

#include "base/grow.h"
#include "base/hash.h"
#include "base/maps.h"
#include "cli/observe/targets_find.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int add(struct point_processes *p, pid_t pid, size_t name)
{
	int err = grow_room(p->row, p->count, p->capacity);

	if (!err)
		p->row[p->count++] = (struct point_process){ .pid = pid, .name = name };
	return err;
}

int point_processes_read(struct point_processes *p, const char *const *names, size_t count)
{
	static char self[PATH_MAX];
	struct target_identity who;
	DIR *d = opendir("/proc");
	int err = 0;

	if (!self[0] && readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		self[0] = 0;
	p->count = 0;
	for (struct dirent *e; d && !err && (e = readdir(d));) {
		pid_t pid = atoi(e->d_name);

		if (pid <= 0 || !targets_identify(pid, &who) || !strcmp(who.exe, self))
			continue;
		for (size_t i = 0; i < count && !err; i++)
			if (targets_has_name(&who, names[i]))
				err = add(p, pid, i);
	}
	if (d)
		closedir(d);
	return err;
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
