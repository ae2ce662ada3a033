/* SPDX-License-Identifier: MIT */
/* guard_start.c - the object that is preloaded for `trapline heap` begins and ends. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "agent/environment.h"
#include "agent/guard/guard.h"
#include "agent/share.h"
#include "base/atomic.h"

#define HEAP_OPTION "heap="

void *guard_next(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

static void refuse(struct heap_region *region, int err)
{
	counter_add(&region->counters[HEAP_REFUSED], 1u);
	snprintf(region->why, sizeof(region->why), "%s", strerror(-err));
}

__attribute__((constructor)) static void guard_start(void)
{
	char path[256];

	guard_find_next();
	if (getauxval(AT_SECURE) ||
	    !environment_option(getenv("TRAPLINE_OPTIONS"), HEAP_OPTION, path, sizeof(path)))
		return;
	struct heap_region *region = share_map(path, HEAP_MAGIC, sizeof(*region));
	if (!region)
		return;
	pthread_atfork(NULL, NULL, heap_forked);
	int err = heap_start(region);
	if (err)
		refuse(region, err);
}

__attribute__((destructor)) static void guard_end(void)
{
	heap_end();
}
