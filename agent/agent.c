/* SPDX-License-Identifier: MIT */
/*
 * agent.c - the object that is preloaded into a target.
 *
 * Reads TRAPLINE_OPTIONS, which names the memory of a run (share.h), starts what that asks
 * for, and continues it in forked children. Programs that are started by exec load the
 * agent again. A program that runs with the rights of its file takes no options.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "agent/agent_flow.h"
#include "agent/agent_patch.h"
#include "agent/agent_probe.h"
#include "agent/agent_throttle.h"
#include "agent/heap/heap.h"
#include "agent/seccomp.h"
#include "agent/zydis.h"
#include "base/atomic.h"
#include "base/memory.h"
#include "base/sys.h"
#include "event/aim.h"
#include "guest/environment.h"
#include "guest/late_calls.h"
#include "guest/sanitizer.h"
#include "guest/share.h"
#include "guest/signals.h"
#include "race/race.h"
#include "throttle/throttle_open.h"
#include "trap/install.h"

#define RACE_OPTION "race="
#define RACE_END_OPTION "race-end="
#define PROBE_OPTION "probe="
#define FLOW_OPTION "flow="
#define FLOW_LOWEST_FD 900
#define THROTTLE_OPTION "throttle="
#define THROTTLE_END_OPTION "throttle-end="
#define THROTTLE_AGAIN_OPTION "throttle-again="
#define PATCH_OPTION "patch="
#define CALL_STEP_NS 1000000
#define CALL_STEPS 1000

/*
 * A thread that is born while a watch is being armed may not be covered by it, and the kernel does
 * not tell. So births are noted, and some are taken for ticks; nothing else is done to them.
 */
__attribute__((visibility("default"))) int
pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg)
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

/* Without our handler the program has SIGTRAP for itself: the search or the budget was refused. */
static void keep_signals(void)
{
	if (is_preloaded && trap_is_installed())
		signals_are_ours(1);
	else if (is_preloaded)
		signals_give_back();
}

/* Of a forked child. were_ours: in its parent. */
static void keep_signals_as(int were_ours)
{
	if (seccomp_may_forbid()) /* the handler is as it was: the kernel is not asked */
		signals_are_ours(were_ours);
	else
		keep_signals();
}

static void race_agent_forked(void)
{
	int were_ours = signals_are_ours(0);

	race_forked();
	keep_signals_as(were_ours);
	use_heap();
}

/* In SIGTRAP: the program blocks it, and a signal has come that shall wait. */
static int end_for_program(void)
{
	if (race_stop(RACE_STEP_OWN_TRAP) == -EAGAIN)
		return -EAGAIN;
	agent_throttle_rest("the program takes SIGTRAP itself, while it has the signal blocked");
	return agent_flow_let_go();
}

static void follow_forks(void)
{
	static int follows;

	if (!follows)
		pthread_atfork(race_fork_begins, race_fork_ended, race_agent_forked);
	follows = 1;
}

static void throttle_agent_forked(void)
{
	int were_ours = signals_are_ours(0);

	agent_throttle_forked();
	keep_signals_as(were_ours);
}

static void start_throttle(const char *path)
{
	struct throttle_region *region = share_map(path, THROTTLE_MAGIC, sizeof(*region));

	if (!region)
		return;
	is_preloaded = 1;
	signals_are_ours(0);
	signals_prepare(end_for_program);
	signals_spare_stacks(1);
	if (agent_throttle_start(region) == 0)
		pthread_atfork(NULL, NULL, throttle_agent_forked);
	keep_signals();
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
	struct race_region *region = share_map_own(path, RACE_MAGIC, sizeof(*region));

	if (!region)
		return -ENOENT;
	int err = zydis_open() ? -ELIBACC : 0;
	if (err)
		race_refuse(region, RACE_STEP_DECODER, err);
	else
		err = race_start(region, RACE_IS_LATE | RACE_OWNS_REGION);
	if (err) {
		memory_unmap(region, sizeof(*region));
		return err;
	}
	/* The list is of this search: another one that runs is refused above, and keeps its own. */
	signals_will_be_unblocked(region->masked, region->masked_count, end_for_program);
	follow_forks();
	return 0;
}

static int attach_throttle(const char *path)
{
	struct throttle_region *region = share_map_own(path, THROTTLE_MAGIC, sizeof(*region));

	return region ? agent_throttle_start(region) : -ENOENT;
}

/* Or -errno, and the region is unmapped. */
static int open_lock(const char *path, void *region, size_t bytes)
{
	int lock = region ? share_open(path) : -ENOENT;

	if (lock < 0 && region)
		memory_unmap(region, bytes);
	return lock;
}

/*
 * The decoder is opened here, in the thread that was borrowed: in one of ours the loader's malloc() would make
 * an arena, of 64 MiB of address space, which stays.
 */
static int attach_probe(const char *path)
{
	struct probe_region *region = share_map_own(path, PROBE_MAGIC, sizeof(*region));
	int lock = open_lock(path, region, sizeof(*region));

	zydis_open(); /* tells later whether it failed */
	if (lock < 0)
		return lock;
	late_calls_begin(end_for_program, false);
	int err = agent_probe_attach(region, lock);
	if (err)
		late_calls_end(false);
	return err;
}

static int attach_flow(const char *path)
{
	if (!event_lowest_fd)
		event_lowest_fd = FLOW_LOWEST_FD;
	struct flow_region *region = share_map_own(path, FLOW_MAGIC, sizeof(*region));
	int lock = open_lock(path, region, sizeof(*region));

	if (lock < 0)
		return lock;
	zydis_open(); /* as for a probe */
	/* Before the command unblocks SIGTRAP in threads: one that is sent to them waits as before. */
	late_calls_begin(end_for_program, true);
	int err = agent_flow_attach(region, lock);
	if (err)
		late_calls_end(false);
	return err;
}

static int do_call(const char *options)
{
	char path[256];

	if (environment_option(options, RACE_OPTION, path, sizeof(path)))
		return attach_race(path);
	if (!strcmp(options, RACE_END_OPTION)) {
		race_stop(RACE_STEP_NONE);
		return 0;
	}
	if (!strcmp(options, THROTTLE_END_OPTION))
		return agent_throttle_end();
	if (!strcmp(options, THROTTLE_AGAIN_OPTION))
		return agent_throttle_again();
	if (environment_option(options, THROTTLE_OPTION, path, sizeof(path)))
		return attach_throttle(path);
	if (!strncmp(options, PATCH_OPTION, strlen(PATCH_OPTION)))
		return agent_patch_call(options + strlen(PATCH_OPTION));
	if (environment_option(options, PROBE_OPTION, path, sizeof(path)))
		return attach_probe(path);
	if (environment_option(options, FLOW_OPTION, path, sizeof(path)))
		return attach_flow(path);
	return -EINVAL;
}

static int take_call(pid_t *caller, pid_t self)
{
	pid_t before = 0;

	if (atomic_cas(caller, &before, self))
		return 1;
	/* A thread that has ended is in no call. */
	return sys_tgkill(sys_getpid(), before, 0) == -ESRCH && atomic_cas(caller, &before, self);
}

/* One call at a time: there are several commands, and each gives up a call that takes long. */
__attribute__((visibility("default"))) int trapline_agent_call(const char *options)
{
	static pid_t caller;
	struct timespec step = { 0, CALL_STEP_NS };
	pid_t self = sys_gettid();

	for (int i = 0; !take_call(&caller, self); i++) {
		if (i == CALL_STEPS)
			return -EALREADY;
		sys_nap(&step);
	}
	throttle_spare(1);
	int result = do_call(options);
	throttle_spare(0);
	atomic_set(&caller, 0);
	return result;
}

static void start_race(const char *path)
{
	struct race_region *region = share_map(path, RACE_MAGIC, sizeof(*region));

	if (!region)
		return;
	if (zydis_open()) {
		race_refuse(region, RACE_STEP_DECODER, -ENOENT);
		return;
	}
	is_preloaded = 1;
	follow_forks();
	signals_prepare(end_for_program);
	race_start(region, 0);
	keep_signals();
	use_heap();
}

/* Of a tool that changes code: there are int3 for a while. */
static void take_signals(void)
{
	is_preloaded = 1;
	signals_are_ours(0);
	signals_prepare(end_for_program);
	signals_spare_stacks(1);
	signals_libc_is_changed();
}

static void start_probe(const char *path)
{
	struct probe_region *region = share_map(path, PROBE_MAGIC, sizeof(*region));
	int lock = region ? share_open(path) : -ENOENT;

	if (lock < 0)
		return;
	take_signals();
	agent_probe_start(region, lock);
	keep_signals();
}

static void start_flow(const char *path)
{
	if (!event_lowest_fd)
		event_lowest_fd = FLOW_LOWEST_FD;
	struct flow_region *region = share_map(path, FLOW_MAGIC, sizeof(*region));
	int lock = region ? share_open(path) : -ENOENT;

	if (lock < 0)
		return;
	take_signals();
	agent_flow_start(region, lock);
	keep_signals();
}

__attribute__((constructor)) static void agent_start(void)
{
	const char *options = getenv("TRAPLINE_OPTIONS");
	char path[256];

	if (getauxval(AT_SECURE) || sanitizer_is_here())
		return;
	if (environment_option(options, RACE_OPTION, path, sizeof(path)))
		start_race(path);
	if (environment_option(options, THROTTLE_OPTION, path, sizeof(path)))
		start_throttle(path);
	if (environment_option(options, FLOW_OPTION, path, sizeof(path)))
		start_flow(path);
	if (environment_option(options, PROBE_OPTION, path, sizeof(path))) {
		environment_forget(PROBE_OPTION);
		start_probe(path);
	}
}
