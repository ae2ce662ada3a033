/* SPDX-License-Identifier: MIT */
/* guard_late_jumps.c - see guard_late.h. */
#include "agent/guard/guard_late.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>

#include <trapline/code.h>

#include "agent/guard/guard.h"
#include "agent/heap/next_malloc.h"
#include "base/after_fork.h"
#include "base/atomic.h"
#include "code/poke/change.h"
#include "code/poke/text_mem.h"
#include "code/poke/traps.h"
#include "code/probe/code_probe.h"
#include "code/probe/probe_word.h"
#include "core/code_start.h"
#include "guest/kernel_action.h"
#include "guest/late_jump.h"
#include "trap/install.h"
#include "trap/probe_entry.h"

#define SITES_MAX 128u

extern const struct guard_entry __start_guard_entries[] __attribute__((visibility("hidden")));
extern const struct guard_entry __stop_guard_entries[] __attribute__((visibility("hidden")));

struct late_site {
	const struct guard_entry *entry;
	struct late_jump jump;
	bool is_kept; /* a sampled block may reach it as long as there is one */
};

static struct late_site sites[SITES_MAX];
static uint32_t site_count;

/* ---- which functions ---- */

static bool begins(const char *name, const char *with)
{
	return !strncmp(name, with, strlen(with));
}

static bool takes_blocks(const char *name)
{
	return !strcmp(name, "free") || !strcmp(name, "malloc_usable_size") ||
	       begins(name, "realloc") || begins(name, "_Zdl") || begins(name, "_Zda");
}

static bool is_of_libc(uint64_t address)
{
	Dl_info own;
	Dl_info other;

	return dladdr((void *)dlsym, &own) && dladdr((void *)(uintptr_t)address, &other) &&
	       own.dli_fbase == other.dli_fbase;
}

static bool is_of_cxx_library(uint64_t address)
{
	Dl_info info;

	if (!dladdr((void *)(uintptr_t)address, &info) || !info.dli_fname)
		return false;
	const char *slash = strrchr(info.dli_fname, '/');
	const char *file = slash ? slash + 1 : info.dli_fname;
	return begins(file, "libstdc++.so") || begins(file, "libc++.so") ||
	       begins(file, "libc++abi.so");
}

/* That of libc calls realloc(), which has a jump. The operators of the C++ library call free(). */
static bool is_needed(const struct late_site *site)
{
	const char *name = site->entry->name;

	if (!strcmp(name, "reallocarray") && is_of_libc(site->jump.address))
		return false;
	if (begins(name, "_Zd") && is_of_cxx_library(site->jump.address))
		return false;
	return takes_blocks(name) || !strcmp(name, "malloc") || !strcmp(name, "sigaction");
}

static struct late_site *site_of_address(uint64_t address)
{
	for (uint32_t i = 0; i < site_count; i++)
		if (sites[i].jump.address == address)
			return &sites[i];
	return NULL;
}

static struct late_site *site_of(const char *name)
{
	for (uint32_t i = 0; i < site_count; i++)
		if (!strcmp(sites[i].entry->name, name))
			return &sites[i];
	return NULL;
}

/* free() and operator delete may be one function. */
void *guard_next(const char *name)
{
	void *found = dlsym(RTLD_DEFAULT, name);
	const struct late_site *site = site_of(name);

	if (!site)
		site = site_of_address((uintptr_t)found);
	return site && site->jump.original ? (void *)(uintptr_t)site->jump.original : found;
}

/*
 * pread64() is pread(): one jump is enough. A row that is there may be of a library that came
 * again.
 */
static void find_sites_of(bool is_cxx)
{
	for (const struct guard_entry *e = __start_guard_entries; e < __stop_guard_entries; e++) {
		uint64_t address = (uintptr_t)dlsym(RTLD_DEFAULT, e->name);
		struct late_site *site = site_of(e->name);

		if (begins(e->name, "_Z") != is_cxx || !address ||
		    (!site && site_of_address(address)) || site_count == SITES_MAX)
			continue;
		if (!site)
			site = &sites[site_count++];
		site->entry = e;
		site->is_kept = takes_blocks(e->name);
		if (site->jump.address != address && !site->jump.is_open)
			site->jump = (struct late_jump){ .original = site->jump.original };
		site->jump.function = (uintptr_t)e->function;
		site->jump.address = address;
	}
}

void late_allocator(char *path, size_t n)
{
	const struct late_site *site = site_of("malloc");
	Dl_info info = { .dli_fname = NULL };

	if (site)
		dladdr((void *)(uintptr_t)site->jump.address, &info);
	snprintf(path, n, "%s", info.dli_fname ? info.dli_fname : "");
}

/* ---- jumps ---- */

static int open_site(struct late_site *site, struct code_problem *problem)
{
	int err = site->jump.is_open ? 0 : late_jump_open(&site->jump, problem);

	if (!late_jump_has_no_room(err) || strcmp(site->entry->name, "sigaction"))
		return err;
	err = trap_install();
	return err ? err : late_jump_open_trap(&site->jump, (uintptr_t)kernel_sigaction, problem);
}

static void set_next(void)
{
	const struct late_site *usable = site_of("malloc_usable_size");

	next.malloc = (void *(*)(size_t))guard_next("malloc");
	next.free = (void (*)(void *))guard_next("free");
	next.calloc = (void *(*)(size_t, size_t))guard_next("calloc");
	next.realloc = (void *(*)(void *, size_t))guard_next("realloc");
	next.memalign = (void *(*)(size_t, size_t))guard_next("memalign");
	next.aligned_alloc = (void *(*)(size_t, size_t))guard_next("aligned_alloc");
	next.posix_memalign = (int (*)(void **, size_t, size_t))guard_next("posix_memalign");
	next.valloc = (void *(*)(size_t))guard_next("valloc");
	next.pvalloc = (void *(*)(size_t))guard_next("pvalloc");
	next.usable_size = usable ? (size_t(*)(void *))guard_next("malloc_usable_size") : NULL;
	atomic_set(&next.is_complete, 1);
}

static void note_refused(struct late_refused *refused, const char *name)
{
	size_t used = strlen(refused->names);

	snprintf(refused->names + used, sizeof(refused->names) - used, "%s%s", used ? ", " : "",
		 name);
	refused->count++;
}

/* The objects of an allocator may come after the start, and its functions of C++ with it. */
void late_jumps_find(void)
{
	find_sites_of(false);
	find_sites_of(true);
}

int late_jumps_place(char *why, size_t n, struct late_refused *refused)
{
	struct code_problem problem = { NULL, 0 };
	int err = code_prepare();

	*refused = (struct late_refused){ 0, "" };
	if (err) {
		snprintf(why, n, "its code cannot be changed");
		return err;
	}
	trap_probe_prepare();
	text_mem_hold();
	for (uint32_t i = 0; i < site_count && !err; i++) {
		struct late_site *site = &sites[i];
		int one = open_site(site, &problem);

		if (one)
			note_refused(refused, site->entry->name);
		if (one && is_needed(site)) {
			snprintf(why, n, "%s() cannot have a jump: %s", site->entry->name,
				 problem.why ? problem.why : strerror(-one));
			err = one;
		}
	}
	text_mem_drop();
	if (!err && (!site_of("malloc") || !site_of("free"))) {
		snprintf(why, n, "it has no malloc() that others can call");
		err = -ENOENT;
	}
	if (!err)
		set_next();
	return err;
}

static bool is_allocation(const struct late_site *site)
{
	const char *name = site->entry->name;

	return strstr(name, "alloc") || strstr(name, "memalign") || begins(name, "_Znw") ||
	       begins(name, "_Zna");
}

void late_jumps_lead_first(void)
{
	for (uint32_t i = 0; i < site_count; i++)
		if (sites[i].is_kept || !is_allocation(&sites[i]))
			late_jump_lead(&sites[i].jump, true);
}

void late_jumps_lead(void)
{
	for (uint32_t i = 0; i < site_count; i++)
		late_jump_lead(&sites[i].jump, true);
}

bool late_jumps_have_trap(void)
{
	for (uint32_t i = 0; i < site_count; i++)
		if (sites[i].jump.traps)
			return true;
	return false;
}

void late_jumps_leave(void)
{
	text_mem_hold();
	for (uint32_t i = 0; i < site_count; i++)
		if (!sites[i].is_kept)
			late_jump_close(&sites[i].jump);
	text_mem_drop();
}

unsigned int late_jumps_end(void)
{
	unsigned int left = 0;

	text_mem_hold();
	for (uint32_t i = 0; i < site_count; i++)
		left += !late_jump_close(&sites[i].jump);
	text_mem_drop();
	return left;
}

AT_FORK void late_jumps_forked(void)
{
	for (uint32_t i = 0; i < site_count; i++)
		if (!sites[i].is_kept)
			late_jump_lead(&sites[i].jump, false);
}
