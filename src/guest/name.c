/* SPDX-License-Identifier: MIT */
/*
 * name.c - see name.h.
 *
 * An agent that is loaded into a running process is opened as /proc/self/fd/N. A debugger, or code that
 * prints a stack, opens the names in the list: this one would be a descriptor of its own, or another
 * file of the program, and to open a pipe can last for ever. So the name becomes the one of
 * /proc/PID/maps, which no file has.
 */
#include "guest/name.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/sys.h"

#define DESCRIPTORS "/proc/self/fd/"
#define NAME_MAX_BYTES 128

/* The begin of glibc's own struct link_map (include/link.h there), the same since version 2.4. */
struct private_map {
	struct link_map map;
	struct private_map *real; /* itself */
	long space;
	struct {
		char *name; /* as it was opened, which dlopen() compares */
	} * first_name;
};

static void write_name(char *at, const char *name, size_t bytes)
{
	if (strlen(at) + 1 >= bytes)
		memcpy(at, name, bytes);
}

void agent_name_mend_object(struct link_map *map)
{
	char name[NAME_MAX_BYTES];

	if (strncmp(map->l_name, DESCRIPTORS, strlen(DESCRIPTORS)) != 0)
		return;
	long n = sys4(SYS_readlinkat, AT_FDCWD, map->l_name, name, sizeof(name) - 1);
	if (n <= 0)
		return;
	name[n] = '\0';
	const struct private_map *own = (const struct private_map *)map;
	if (own->real == own && own->first_name && own->first_name->name &&
	    !strcmp(own->first_name->name, map->l_name))
		write_name(own->first_name->name, name, (size_t)n + 1);
	write_name(map->l_name, name, (size_t)n + 1);
}

void agent_name_mend(void)
{
	struct link_map *map = NULL;
	Dl_info info;

	if (dladdr1((void *)(uintptr_t)agent_name_mend, &info, (void **)&map, RTLD_DL_LINKMAP) &&
	    map)
		agent_name_mend_object(map);
}

void agent_name_path(int fd, char path[AGENT_NAME_PATH])
{
	uint64_t bits = clock_now_ns();
	char *at = stpcpy(path, "/proc/self/fd");

	/* These parts have no meaning in a path. */
	for (int i = 0; i < 80; i++)
		at = stpcpy(at, i < 64 && bits >> i & 1 ? "/." : "/");
	snprintf(at, (size_t)(path + AGENT_NAME_PATH - at), "/%d", fd);
}
