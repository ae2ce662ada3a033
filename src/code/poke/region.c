/* SPDX-License-Identifier: MIT */
/*
 * region.c - memory for generated code, mapped twice: executable here, and there writable while
 * something is written.
 *
 * Between writes the second mapping is read-only, so that a stray or forged pointer into it changes
 * no code. poke_lock is taken from the first byte written until region_seal(), and by fork.
 *
 * A change of protection has to reach all processors, and costs more than the writing. So the
 * kernel writes, by a descriptor of that memory, what needs no stores of Trapline's own.
 *
 * The mapping is shared, so a forked child would see what its parent pokes. Before the fork the
 * contents are copied; in the child they become a region of its own at the same address. Between
 * the two a child may run into its parent's int3: it runs the pc again until that is over.
 */
#include <errno.h>
#include <sys/mman.h>

#include "base/after_fork.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/memory_file.h"
#include "base/sys.h"
#include "code/kept_fd.h"
#include "code/log/code_stream.h"
#include "code/poke/change.h"
#include "code/poke/poke.h"
#include "code/poke/poke_view.h"
#include "code/poke/region.h"
#include "record/code_layout.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

struct region {
	uint64_t start; /* 0: free */
	uint8_t *alias;
	int is_open; /* the alias is writable */
	struct kept_fd memory;
	int is_known_ours; /* the descriptor, until region_seal() */
	size_t bytes;
	void *snapshot; /* while forking */
	int is_lost;	/* still the parent's: must not be written */
};

static struct region regions[REGION_MAX];
static size_t region_top; /* none at or behind it has ever been used */

int64_t region_find(uint64_t near, size_t bytes, int protection, int flags, int fd)
{
	long at;

	if (!near)
		return sys_mmap(NULL, bytes, protection, flags, fd, 0);
	near &= ~(uint64_t)(CODE_REACH_STEP - 1);
	for (int64_t away = CODE_REACH_STEP; away < CODE_REACH; away += CODE_REACH_STEP) {
		at = sys_mmap((void *)(uintptr_t)(near - away), bytes, protection,
			      flags | MAP_FIXED_NOREPLACE, fd, 0);
		if (at == (long)(near - away))
			return at;
		at = sys_mmap((void *)(uintptr_t)(near + away), bytes, protection,
			      flags | MAP_FIXED_NOREPLACE, fd, 0);
		if (at == (long)(near + away))
			return at;
		if (at == -EACCES || at == -EPERM || at == -ENOMEM)
			return at;
	}
	return -ENOSPC;
}

static struct region *region_of(uint64_t address)
{
	for (size_t i = 0; i < region_top; i++)
		if (regions[i].start && address - regions[i].start < regions[i].bytes)
			return &regions[i];
	return NULL;
}

uint8_t *region_alias(uint64_t address, size_t len)
{
	struct region *region = region_of(address);

	if (!region || region->is_lost || address + len > region->start + region->bytes)
		return NULL;
	if (!region->is_open &&
	    sys3(SYS_mprotect, (uintptr_t)region->alias, region->bytes, PROT_READ | PROT_WRITE))
		return NULL;
	region->is_open = 1;
	return region->alias + (address - region->start);
}

int region_store(uint64_t address, const void *bytes, size_t len)
{
	struct region *region = region_of(address);

	if (!region || region->is_lost || address + len > region->start + region->bytes)
		return -ENXIO;
	if (!region->is_known_ours)
		region->is_known_ours = kept_fd_is_ours(&region->memory);
	if (!region->is_known_ours)
		return -EBADF;
	long n = sys_of_fd(SYS_pwrite64, region->memory.fd, bytes, len, address - region->start, 0);
	return n == (long)len ? 0 : n < 0 ? (int)n : -EIO;
}

static void seal(struct region *region)
{
	sys3(SYS_mprotect, (uintptr_t)region->alias, region->bytes, PROT_READ);
	region->is_open = 0;
}

void region_seal(void)
{
	for (size_t i = 0; i < region_top; i++) {
		regions[i].is_known_ours = 0;
		if (regions[i].start && regions[i].is_open)
			seal(&regions[i]);
	}
}

int region_is_lost(uint64_t address)
{
	const struct region *region = region_of(address);

	return region && region->is_lost;
}

static void report_handler(void)
{
	for (size_t i = 0; i < REGION_MAX; i++) {
		atomic_set(&region_ranges[i].start, regions[i].start);
		atomic_set(&region_ranges[i].bytes, regions[i].start ? regions[i].bytes : 0);
	}
}

static struct region *take_free(void)
{
	for (size_t i = 0; i < REGION_MAX; i++)
		if (!regions[i].start) {
			region_top = i >= region_top ? i + 1 : region_top;
			return &regions[i];
		}
	return NULL;
}

static int map_new(struct region *region, uint64_t near, size_t bytes)
{
	int fd = memory_file("trapline-code", bytes);

	if (fd < 0)
		return fd;
	uint8_t *alias = memory_map_shared(bytes, 1, fd, 0);
	int64_t start = memory_failed(alias) ?
				memory_error(alias) :
				region_find(near, bytes, PROT_READ | PROT_EXEC, MAP_SHARED, fd);

	if (start < 0) {
		sys_close(fd);
		if (!memory_failed(alias))
			memory_unmap(alias, bytes);
		return (int)start;
	}
	for (size_t i = 0; i < bytes; i++)
		alias[i] = TRAP_FILL;
	kept_fd_take(&region->memory, fd);
	region->alias = alias;
	region->bytes = bytes;
	region->is_lost = 0;
	region->start = (uint64_t)start;
	seal(region);
	report_handler();
	return 0;
}

int region_alloc(uint64_t near, size_t bytes, void **out, struct code_problem *problem)
{
	int err = poke_lock_take(problem);

	if (err)
		return err;
	bytes = (bytes + PAGE_BYTES - 1) & ~(size_t)(PAGE_BYTES - 1);
	uint64_t begin_ns = clock_now_ns();
	struct region *region = take_free();
	err = region ? map_new(region, near, bytes) : -ENOMEM;
	if (!err)
		code_stream_fill(begin_ns, region->start, region->bytes, TRAP_FILL);
	if (!err)
		*out = (void *)(uintptr_t)region->start;
	else if (err == -ENOSPC)
		problem->why = "no free memory within 2 GiB of the address";
	else if (err == -EFBIG)
		problem->why = "the limit of file sizes (RLIMIT_FSIZE, ulimit -f) is less than the "
			       "memory for code";
	else
		problem->why = region ? "cannot allocate memory for code: memfd_create() or a "
					"shared executable mapping of it is refused "
					"(vm.memfd_noexec, SELinux)" :
					"too many regions of code";
	poke_lock_give();
	return err;
}

int region_free(void *code)
{
	struct code_problem problem;
	int err = poke_lock_take(&problem);

	if (err)
		return err;
	struct region *region = region_of((uintptr_t)code);
	if (!region || region->start != (uintptr_t)code) {
		poke_lock_give();
		return -EINVAL;
	}
	uint64_t begin_ns = clock_now_ns();
	memory_unmap(code, region->bytes);
	memory_unmap(region->alias, region->bytes);
	kept_fd_close(&region->memory);
	code_stream_fill(begin_ns, region->start, region->bytes, CODE_NOTHING);
	region->start = 0;
	region->bytes = 0;
	report_handler();
	poke_lock_give();
	return 0;
}

int region_write(void *code, const void *bytes, size_t n, struct code_problem *problem)
{
	int err = poke_lock_take(problem);

	if (err)
		return err;
	int is_stored = !region_store((uintptr_t)code, bytes, n);
	uint8_t *alias = is_stored ? NULL : region_alias((uintptr_t)code, n);
	if (is_stored || alias) {
		struct code_fresh fresh = {
			.begin_ns = clock_now_ns(),
			.address = (uintptr_t)code,
			.bytes = bytes,
			.len = n,
		};

		if (alias)
			code_copy(alias, bytes, n);
		code_sync_caches((uintptr_t)code, n);
		region_seal();
		poke_sync();
		code_stream_slot(&fresh);
	} else {
		struct region *region = region_of((uintptr_t)code);
		int is_inside = region && (uintptr_t)code + n <= region->start + region->bytes;
		err = region_is_lost((uintptr_t)code) ? -EACCES : is_inside ? -EPERM : -EINVAL;
		problem->why =
			err == -EPERM ?
				"mprotect() is refused, and the memory is writable only while it "
				"is written" :
			err == -EACCES ? "this child of fork() could not get a copy of its own" :
					 "not inside memory from trapline_code_alloc()";
	}
	poke_lock_give();
	return err;
}

/* Memory that is to replace a region's. */
struct region_copy {
	struct region *region;
	uint8_t *alias;
	int fd;
};

static int make_copy(struct region_copy *out, const void *contents)
{
	size_t bytes = out->region->bytes;
	int fd = memory_file("trapline-code", bytes);

	if (fd < 0)
		return fd;
	uint8_t *alias = memory_map_shared(bytes, 1, fd, 0);
	if (memory_failed(alias)) {
		sys_close(fd);
		return memory_error(alias);
	}
	code_copy(alias, contents, bytes);
	out->alias = alias;
	out->fd = fd;
	return 0;
}

/* Over the old mapping at once. */
static int put_copy(const struct region_copy *own)
{
	struct region *region = own->region;
	long at = sys_mmap((void *)(uintptr_t)region->start, region->bytes, PROT_READ | PROT_EXEC,
			   MAP_SHARED | MAP_FIXED, own->fd, 0);

	if (at < 0) {
		memory_unmap(own->alias, region->bytes);
		sys_close(own->fd);
		return (int)at;
	}
	memory_unmap(region->alias, region->bytes);
	kept_fd_close(&region->memory);
	kept_fd_take(&region->memory, own->fd);
	region->alias = own->alias;
	region->is_known_ours = 0;
	seal(region);
	return 0;
}

int region_has(uint64_t address)
{
	return region_of(address) != NULL;
}

static struct region_copy pending;

uint8_t *region_copy_begin(uint64_t address, size_t len)
{
	pending.region = region_of(address);
	if (!pending.region || pending.region->is_lost ||
	    address + len > pending.region->start + pending.region->bytes ||
	    make_copy(&pending, pending.region->alias))
		return NULL;
	return pending.alias + (address - pending.region->start);
}

int region_copy_end(void)
{
	return put_copy(&pending);
}

/* Lock held: nothing changes until both handlers have run. */
AT_FORK void region_before_fork(void)
{
	for (size_t i = 0; i < REGION_MAX; i++) {
		if (!regions[i].start || regions[i].is_lost)
			continue;
		regions[i].snapshot = memory_map(regions[i].bytes);
		if (memory_failed(regions[i].snapshot))
			regions[i].snapshot = NULL;
		else
			code_copy(regions[i].snapshot, regions[i].alias, regions[i].bytes);
	}
	atomic_set(&region_is_forking, 1);
}

AT_FORK static void drop_snapshots(void)
{
	for (size_t i = 0; i < REGION_MAX; i++) {
		if (regions[i].snapshot)
			memory_unmap(regions[i].snapshot, regions[i].bytes);
		atomic_set_if_other(&regions[i].snapshot, (void *)NULL);
	}
	atomic_set(&region_is_forking, 0);
}

AT_FORK void region_after_fork_in_parent(void)
{
	drop_snapshots();
}

/* It is that of the parent's memory. */
static int make_own(struct region *region)
{
	struct region_copy own = { .region = region };

	kept_fd_close(&region->memory);
	int err = region->snapshot ? make_copy(&own, region->snapshot) : -ENOMEM;
	return err ? err : put_copy(&own);
}

AT_FORK void region_after_fork_in_child(void)
{
	for (size_t i = 0; i < REGION_MAX; i++)
		if (regions[i].start && !regions[i].is_lost)
			regions[i].is_lost = make_own(&regions[i]) != 0;
	drop_snapshots();
}
