/* SPDX-License-Identifier: MIT */
/*
 * name.c - see name.h.
 *
 * An object that is loaded into a running process is opened as /proc/thread-self/fd/N. A debugger,
 * or code that prints a stack, opens the names in the list. This one would be a descriptor of its
 * own, or another file of the program, and to open a pipe can last for ever. So the name becomes
 * the one of /proc/PID/maps, which no file has.
 */
#include "guest/name.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/own_fd.h"
#include "base/sys.h"
#include "guest/own_table.h"

#define DESCRIPTORS "/proc/thread-self/fd/"
#define OF_THREADS "/proc/self/task/" /* own_table_folder() */
#define NAME_MAX_BYTES 128
#define PATH_BYTES 256

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

/* LD_PRELOAD has a path from the folder of the program up to the root: agent_preload(). */
static void shorten(char *name)
{
	char *rest = NULL;

	for (char *at = name; (at = strstr(at, "/../")); at += 3)
		rest = at + 3;
	if (rest)
		memmove(name, rest, strlen(rest) + 1);
}

static int begins_with(const char *name, const char *folder)
{
	return !strncmp(name, folder, strlen(folder));
}

static void mend(struct link_map *map)
{
	char name[NAME_MAX_BYTES];

	shorten(map->l_name);
	if (!begins_with(map->l_name, DESCRIPTORS) && !begins_with(map->l_name, OF_THREADS))
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

/*
 * Each object with this file corrects its own name before anything of it is called: cli/inject only
 * loads it.
 */
__attribute__((constructor)) static void mend_own(void)
{
	struct link_map *map = NULL;
	Dl_info info;

	if (dladdr1((void *)(uintptr_t)mend_own, &info, (void **)&map, RTLD_DL_LINKMAP) && map)
		mend(map);
}

/*
 * Long enough that the name fits. Another one each time: the loader does not load a second object
 * of a name.
 */
static void make_path(int fd, char path[PATH_BYTES])
{
	uint64_t bits = clock_now_ns();
	char folder[64] = DESCRIPTORS;

	if (fd >= OWN_FD_FAR)
		own_table_folder(folder, sizeof(folder));
	char *at = stpcpy(path, folder);

	/* These parts have no meaning in a path. */
	for (int i = 0; i < 80; i++)
		at = stpcpy(at, i < 64 && bits >> i & 1 ? "/." : "/");
	snprintf(at, (size_t)(path + PATH_BYTES - at), "/%d", fd & ~OWN_FD_FAR);
}

struct link_map *name_load(int fd, const char **why)
{
	char path[PATH_BYTES];

	make_path(fd, path);
	struct link_map *map = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (map) {
		mend(map);
		return map;
	}
	const char *text = dlerror();
	size_t n = text && !strncmp(text, path, strlen(path)) ? strlen(path) : 0;
	*why = text ? text + n : "";
	return NULL;
}
