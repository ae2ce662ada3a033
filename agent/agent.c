/* SPDX-License-Identifier: MIT */
/*
 * agent.c - the object that is preloaded into a target.
 *
 * Reads TRAPLINE_OPTIONS (race=PATH of the shared region), starts what it asks for, and takes care
 * that it goes on in forked children; programs started by exec load the agent anew.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/signals.h"
#include "agent/zydis.h"
#include "base/memory.h"
#include "base/sys.h"
#include "tools/race.h"

#define OPTION "race="

/* Copies the value of the option; 0: there is none. */
static int read_option(char *path, size_t n)
{
	const char *all = getenv("TRAPLINE_OPTIONS");
	const char *at = all ? strstr(all, OPTION) : NULL;

	if (!at || (at != all && at[-1] != ':'))
		return 0;
	at += strlen(OPTION);
	size_t len = strcspn(at, ":");
	if (len == 0 || len >= n)
		return 0;
	memcpy(path, at, len);
	path[len] = '\0';
	return 1;
}

static struct race_region *map_region(const char *path)
{
	struct stat st;
	void *region = NULL;
	int fd = (int)sys4(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);

	if (fd < 0)
		return NULL;
	if (sys4(SYS_newfstatat, fd, "", &st, AT_EMPTY_PATH) == 0 &&
	    (size_t)st.st_size == sizeof(struct race_region))
		region = memory_map_shared(sizeof(struct race_region), 1, fd, 0);
	sys_close(fd);
	return region && !memory_failed(region) ? region : NULL;
}

typedef int (*create_function)(pthread_t *, const pthread_attr_t *, void *(*)(void *),
			       void *);

/*
 * A thread that is born while a watch is being armed may not be covered by it, and the kernel does
 * not tell. So births are noted; nothing else is done to them.
 */
__attribute__((visibility("default"))) int pthread_create(pthread_t *thread,
							  const pthread_attr_t *attr,
							  void *(*start)(void *),
							  void *arg)
{
	static create_function next;

	if (!next)
		next = (create_function)dlsym(RTLD_NEXT, "pthread_create");
	race_birth_begins();
	int err = next(thread, attr, start, arg);
	race_birth_ends();
	return err;
}

static void forked(void)
{
	signals_are_ours(0);
	if (race_forked() == 0)
		signals_are_ours(1);
}

__attribute__((constructor)) static void agent_start(void)
{
	char path[256];

	if (!read_option(path, sizeof(path)))
		return;
	struct race_region *region = map_region(path);
	if (!region || region->magic != RACE_MAGIC)
		return;
	if (zydis_open()) {
		race_refuse(region, RACE_STEP_DECODER, -ENOENT);
		return;
	}
	pthread_atfork(NULL, NULL, forked);
	signals_prepare();
	if (race_start(region) == 0)
		signals_are_ours(1);
}
