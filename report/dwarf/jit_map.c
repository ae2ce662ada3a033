/* SPDX-License-Identifier: MIT */
/*
 * jit_map.c - see jit_map.h.
 *
 * The file is in the process's own /tmp, under its number in its own namespace. Anyone can put a
 * file there: one of another user than the process's is not read. It grows, so it is read again
 * when an address is new. Other runtimes have the same for gdb; see jit_gdb.h.
 */
#include "report/dwarf/jit_map.h"

#include "base/clock.h"
#include "report/dwarf/jit_gdb.h"
#include "report/safe/clean.h"
#include "report/safe/target_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROWS_MAX 2000000u
#define BACK_MAX 16 /* rows that begin at or before an address and may contain it */
#define READ_AGAIN_NS 500000000u

struct jit_row {
	uint64_t start;
	uint64_t size;
	size_t line; /* a later one wins */
	char *name;
};

struct jit_map {
	struct jit_row *row; /* by start, then line */
	size_t count;
	size_t room;
	off_t bytes; /* of the file, when it was read */
	uint64_t read_ns;
	struct jit_gdb gdb;
};

static void jit_forget(struct jit_map *map)
{
	for (size_t i = 0; i < map->count; i++)
		free(map->row[i].name);
	map->count = 0;
}

static void jit_map_free(struct symbols *s)
{
	jit_forget(s->jit);
	free(s->jit->row);
	free(s->jit);
}

/* The number that the process has in its own namespace, which is the last of its line. */
static int own_number(pid_t pid)
{
	char path[64];
	char line[256];
	int number = pid;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	FILE *f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		const char *last = strrchr(line, '\t');
		if (!strncmp(line, "NSpid:", 6) && last)
			number = atoi(last + 1);
	}
	if (f)
		fclose(f);
	return number;
}

/* -1: the file does not exist, or another user owns it. */
static int jit_open(const struct symbols *s)
{
	struct stat file;
	struct stat process;
	char name[64];
	char path[256];

	snprintf(path, sizeof(path), "/proc/%d", s->pid);
	if (stat(path, &process))
		return -1;
	snprintf(name, sizeof(name), "/tmp/perf-%d.map", own_number(s->pid));
	target_file_name(s->root, name, path, sizeof(path));
	int fd = target_file_open(path);
	if (fd >= 0 && !fstat(fd, &file) && file.st_uid == process.st_uid)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

static bool jit_add(struct jit_map *map, uint64_t start, uint64_t size, char *name)
{
	if (name && map->count == map->room) {
		size_t room = map->room ? 2 * map->room : 256;
		void *rows = room <= ROWS_MAX ? reallocarray(map->row, room, sizeof(*map->row)) :
						NULL;
		if (rows) {
			map->row = rows;
			map->room = room;
		}
	}
	if (!name || map->count == map->room) {
		free(name);
		return false;
	}
	clean_text(name);
	map->row[map->count] = (struct jit_row){ start, size, map->count, name };
	map->count++;
	return true;
}

static bool jit_add_line(struct jit_map *map, const char *line)
{
	uint64_t start;
	uint64_t size;
	int at = 0;

	if (sscanf(line, "%" SCNx64 " %" SCNx64 " %n", &start, &size, &at) != 2 || !at ||
	    !line[at] || !size)
		return true; /* not a row */
	return jit_add(map, start, size, strndup(line + at, strcspn(line + at, "\n")));
}

static bool jit_add_symbol(void *arg, uint64_t start, uint64_t size, const char *name)
{
	char *readable = symbols_demangle(name);

	return jit_add(arg, start, size, readable ? readable : strdup(name));
}

static int jit_by_start(const void *a, const void *b)
{
	const struct jit_row *x = a;
	const struct jit_row *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return (x->line > y->line) - (x->line < y->line);
}

static void jit_read_lines(struct jit_map *map, FILE *f)
{
	char *line = NULL;
	size_t length = 0;

	while (getline(&line, &length, f) > 0 && jit_add_line(map, line))
		;
	free(line);
}

static void jit_read(struct symbols *s)
{
	struct jit_map *map = s->jit;
	uint64_t now = clock_now_ns();
	struct stat file = { 0 };

	if (map->read_ns && now - map->read_ns < READ_AGAIN_NS)
		return;
	map->read_ns = now;
	int fd = jit_open(s);
	FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;
	if (fd >= 0 && !f)
		close(fd);
	bool has_grown = f && !fstat(fd, &file) && file.st_size != map->bytes;
	if (jit_gdb_has_changed(s, &map->gdb) || has_grown) {
		jit_forget(map);
		map->bytes = file.st_size;
		if (f)
			jit_read_lines(map, f);
		jit_gdb_read(s, &map->gdb, jit_add_symbol, map);
		if (map->count)
			qsort(map->row, map->count, sizeof(*map->row), jit_by_start);
	}
	if (f)
		fclose(f);
}

static const struct jit_row *jit_find(const struct jit_map *map, uint64_t address)
{
	size_t low = 0;
	size_t high = map->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (map->row[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	for (size_t i = low; i > 0 && low - i < BACK_MAX; i--)
		if (address - map->row[i - 1].start < map->row[i - 1].size)
			return &map->row[i - 1];
	return NULL;
}

bool jit_map_place(struct symbols *s, uint64_t address, struct place *out)
{
	if (!s->pid)
		return false;
	if (!s->jit) {
		s->jit = calloc(1, sizeof(*s->jit));
		if (!s->jit)
			return false;
		symbols_on_close(s, jit_map_free);
	}
	const struct jit_row *row = jit_find(s->jit, address);
	if (!row) {
		jit_read(s);
		row = jit_find(s->jit, address);
	}
	if (!row)
		return false;
	/* The rows are replaced when the file is read again, and a location lives longer. */
	out->function = clean_keep(row->name);
	out->symbol = out->function;
	out->offset = address - row->start;
	return true;
}
