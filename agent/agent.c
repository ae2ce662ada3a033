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

#include "agent/heap.h"
#include "agent/signals.h"
#include "agent/throttle.h"
#include "agent/zydis.h"
#include "base/memory.h"
#include "base/sys.h"
#include "tools/race.h"

#define RACE_OPTION "race="
#define RACE_END_OPTION "race-end="
#define THROTTLE_OPTION "throttle="

/* Copies the value of an option; 0: there is none. */
static int read_option(const char *all, const char *option, char *path, size_t n)
{
	const char *at = all ? strstr(all, option) : NULL;

	if (!at || (at != all && at[-1] != ':'))
		return 0;
	at += strlen(option);
	size_t len = strcspn(at, ":");
	if (!strncmp(at, "fd:", 3))
		len += strspn(at + len, ":0123456789");
	if (len == 0 || len >= n)
		return 0;
	memcpy(path, at, len);
	path[len] = '\0';
	return 1;
}

static void *map_fd(int fd, size_t bytes)
{
	struct stat st;
	void *region = NULL;

	if (sys4(SYS_newfstatat, fd, "", &st, AT_EMPTY_PATH) == 0 && (size_t)st.st_size == bytes)
		region = memory_map_shared(bytes, 1, fd, 0);
	return region && !memory_failed(region) ? region : NULL;
}

/* A path, or a descriptor that is open: "fd:N". */
static void *map_region(const char *path, size_t bytes)
{
	if (!strncmp(path, "fd:", 3))
		return map_fd(atoi(path + 3), bytes);
	int fd = (int)sys4(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
	if (fd < 0)
		return NULL;
	void *region = map_fd(fd, bytes);
	sys_close(fd);
	return region;
}

/*
 * A thread that is born while a watch is being armed may not be covered by it, and the kernel does
 * not tell. So births are noted, and some are taken for ticks; nothing else is done to them.
 */
__attribute__((visibility("default"))) int pthread_create(pthread_t *thread,
							  const pthread_attr_t *attr,
							  void *(*start)(void *),
							  void *arg)
{
	static race_create next;

	if (!next)
		next = (race_create)dlsym(RTLD_NEXT, "pthread_create");
	race_sites_begin(next);
	race_birth_begins((uintptr_t)start);
	int err = next(thread, attr, start, arg);
	race_birth_ends();
	return err;
}

/* The object that notes blocks is there only where --heap was asked for. */
#pragma weak trapline_heap_find
#pragma weak trapline_heap_count_into

static void use_heap(void)
{
	uint64_t *lost_blocks = race_counter_of(RACE_HEAP_LOST_BLOCKS);
	uint64_t *lost_stacks = race_counter_of(RACE_HEAP_LOST_STACKS);

	if (!trapline_heap_find || !trapline_heap_count_into || !lost_blocks)
		return;
	race_use_heap(trapline_heap_find);
	trapline_heap_count_into(lost_blocks, lost_stacks);
}

static int is_preloaded; /* so that the program's calls come through us */

static void race_agent_forked(void)
{
	signals_are_ours(0);
	if (race_forked() == 0)
		signals_are_ours(is_preloaded);
	use_heap();
}

static void follow_forks(void)
{
	static int follows;

	if (!follows)
		pthread_atfork(race_fork_begins, race_fork_ended, race_agent_forked);
	follows = 1;
}

static void start_throttle(const char *path)
{
	struct throttle_region *region = map_region(path, sizeof(*region));

	if (region && agent_throttle_start(region) == 0)
		pthread_atfork(NULL, NULL, agent_throttle_forked);
}

/*
 * For a process that runs already: called from outside, with the options that a started one finds
 * in its environment. What it begins ends with the region's word that it is over.
 */
int trapline_agent_call(const char *options);

/*
 * The threads run already, and nothing of theirs comes through us: they are looked at as they are.
 * All stays as it was when the search has ended, but for us and the handler of SIGTRAP.
 */
static int attach_race(const char *path)
{
	struct race_region *region = map_region(path, sizeof(*region));

	if (!region)
		return -ENOENT;
	int err = zydis_open() ? -ELIBACC : 0;
	if (err)
		race_refuse(region, RACE_STEP_DECODER, err);
	else
		err = race_start(region, RACE_IS_LATE | RACE_OWNS_REGION);
	if (err)
		memory_unmap(region, sizeof(*region));
	else
		follow_forks();
	return err;
}

static int attach_throttle(const char *path)
{
	struct throttle_region *region = map_region(path, sizeof(*region));

	return region ? agent_throttle_start(region) : -ENOENT;
}

__attribute__((visibility("default"))) int trapline_agent_call(const char *options)
{
	char path[256];

	if (read_option(options, RACE_OPTION, path, sizeof(path)))
		return attach_race(path);
	if (!strcmp(options, RACE_END_OPTION)) {
		race_stop(RACE_STEP_NONE);
		return 0;
	}
	if (read_option(options, THROTTLE_OPTION, path, sizeof(path)))
		return attach_throttle(path);
	return -EINVAL;
}

static void start_race(const char *path)
{
	struct race_region *region = map_region(path, sizeof(*region));

	if (!region || region->magic != RACE_MAGIC)
		return;
	if (zydis_open()) {
		race_refuse(region, RACE_STEP_DECODER, -ENOENT);
		return;
	}
	is_preloaded = 1;
	follow_forks();
	signals_prepare();
	if (race_start(region, 0) == 0)
		signals_are_ours(1);
	use_heap();
}

__attribute__((constructor)) static void agent_start(void)
{
	const char *options = getenv("TRAPLINE_OPTIONS");
	char path[256];

	if (read_option(options, RACE_OPTION, path, sizeof(path)))
		start_race(path);
	if (read_option(options, THROTTLE_OPTION, path, sizeof(path)))
		start_throttle(path);
}
