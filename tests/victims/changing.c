/* SPDX-License-Identifier: MIT */
/*
 * changing.c - finds a word of a process that changes: something to watch where no name is known.
 *
 * changing PID [OBJECT]	OBJECT: part of a mapping's name; without it, the program itself
 *
 * Looks at the writable memory behind that object, its zeroed data included, five times within a
 * second, and prints the address of the 8-byte word that changed most often; of several the first.
 * Where none changed more than once it goes on for some seconds: a clock's word may be the fastest,
 * and what changes once a minute must not be taken for it.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LOOKS 6
#define LOOKS_MAX 30
#define AREAS_MAX 8
#define AREA_BYTES_MAX (4u << 20)

struct area {
	uint64_t start;
	size_t bytes;
	uint64_t *now;
	uint64_t *before;
	unsigned char *changes;
};

static struct area areas[AREAS_MAX];
static size_t area_count;

static void add_area(uint64_t start, uint64_t end)
{
	size_t bytes = end - start < AREA_BYTES_MAX ? end - start : AREA_BYTES_MAX;

	if (area_count == AREAS_MAX)
		return;
	areas[area_count++] = (struct area){ start, bytes, calloc(1, bytes), calloc(1, bytes),
					     calloc(1, bytes / 8) };
}

/* Mappings of the object, and a nameless one right behind them. */
static void find_areas(const char *pid, const char *object)
{
	char line[600];
	uint64_t last_end = 0;

	snprintf(line, sizeof(line), "/proc/%s/maps", pid);
	FILE *f = fopen(line, "re");
	while (f && fgets(line, sizeof(line), f)) {
		char access[5] = "";
		char name[500] = "";
		unsigned long start = 0;
		unsigned long end = 0;
		sscanf(line, "%lx-%lx %4s %*s %*s %*s %499s", &start, &end, access, name);
		int is_object = strstr(name, object) != NULL;
		if (access[1] == 'w' && (is_object || (!name[0] && start == last_end)))
			add_area(start, end);
		if (is_object || start == last_end)
			last_end = end;
	}
	if (f)
		fclose(f);
}

static void look(int memory, int is_first)
{
	for (size_t i = 0; i < area_count; i++) {
		struct area *a = &areas[i];
		if (pread(memory, a->now, a->bytes, (off_t)a->start) != (ssize_t)a->bytes)
			continue;
		for (size_t w = 0; w < a->bytes / 8 && !is_first; w++)
			a->changes[w] += a->now[w] != a->before[w];
		memcpy(a->before, a->now, a->bytes);
	}
}

static uint64_t fastest(unsigned char *most)
{
	uint64_t best = 0;

	*most = 0;
	for (size_t i = 0; i < area_count; i++) {
		for (size_t w = 0; w < areas[i].bytes / 8; w++) {
			if (areas[i].changes[w] <= *most)
				continue;
			*most = areas[i].changes[w];
			best = areas[i].start + 8 * w;
		}
	}
	return best;
}

int main(int argc, char **argv)
{
	struct timespec pause = { .tv_nsec = 150000000 };
	char path[64];
	char exe[500] = "";
	unsigned char most = 0;
	uint64_t best = 0;

	if (argc < 2)
		return 2;
	snprintf(path, sizeof(path), "/proc/%s/exe", argv[1]);
	if (readlink(path, exe, sizeof(exe) - 1) < 0)
		return 1;
	find_areas(argv[1], argc > 2 ? argv[2] : exe);
	snprintf(path, sizeof(path), "/proc/%s/mem", argv[1]);
	int memory = open(path, O_RDONLY | O_CLOEXEC);
	for (int i = 0; i < LOOKS || (i < LOOKS_MAX && most < 2); i++) {
		look(memory, i == 0);
		nanosleep(&pause, NULL);
		best = fastest(&most);
	}
	if (best)
		printf("0x%lx\n", best);
	return !best;
}
