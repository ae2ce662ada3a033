/* SPDX-License-Identifier: MIT */
/*
 * outside.c - a search for races with nothing inside the process.
 *
 *	turn    Some functions of the process are chosen, by chance, and those that had no turn yet
 *		first. Their accesses to memory are its sites (outside_functions.c, outside_sites.c).
 *	probe   All sites of a turn are uprobes of one link. A BPF program runs in the thread that
 *		comes to one, before the access. It draws whether the thread is stalled here, as far
 *		as the budget goes, and computes the address from the registers (outside_program.c).
 *	slot    One thread is stalled at a time: it takes the slot by a compare-and-exchange, writes
 *		down what it is about to access, and wakes the command.
 *	watch   The command moves a watchpoint on each CPU there (outside_armer.c, outside_cpus.c),
 *		while the program waits in a loop. Then it reads the value and opens the stall.
 *	hit     A second program runs in any thread that accesses the watched bytes, after the
 *		access. It passes over other processes, the stalled thread, and code of runtimes.
 *	end     By one compare-and-exchange of the slot's state, of OPEN: by the stalled thread to
 *		OVER, or by the other one to HIT. So no access after a stall is taken for one in it.
 *		Who was second writes registers and stack, and the stalled thread does the same.
 *	finding The command finds the instruction of the second access and unwinds both stacks. The
 *		result is a record of record/race_region.h, as the detector in a process makes it.
 *
 * The stalled thread occupies its CPU, in the kernel: a millisecond at most, and by the budget a
 * small share of the time. The probes go when the command ends, however it ends
 * (event/uprobe/uprobe_owner.h).
 *
 * Where no debug register works there is no watch, and the stall opens at once. The hit is then
 * the program at another site, whose thread is about to access the same bytes.
 *
 * A thread that comes past a probe makes its access in a copy of the instruction, in a page of the
 * kernel's. So each thread has a note of its last site, by which such an access is known.
 */
#include "outside/outside.h"

#include "base/atomic.h"
#include "base/memory.h"
#include "base/sys.h"
#include "event/ids.h"
#include "event/uprobe/uprobe_filter.h"
#include "outside/outside_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RING_BYTES 65536u

static size_t pages(size_t bytes)
{
	return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

static int map_open(size_t bytes, int *fd, void **out)
{
	*fd = ebpf_map_create(BPF_MAP_TYPE_ARRAY, 4, (uint32_t)bytes, 1, BPF_F_MMAPABLE);
	if (*fd < 0)
		return *fd;
	*out = memory_map_shared(pages(bytes), 1, *fd, 0);
	return memory_failed(*out) ? memory_error(*out) : 0;
}

static int open_maps(struct outside *o)
{
	struct ids ids;
	void *shared = NULL;
	void *traps = NULL;

	ids_read(o->set.pid, &ids);
	o->maps.ids = ids.numbered_by;
	o->maps.inner_pid = ids_read_inner(o->set.pid, o->set.pid);
	if (!ids.numbered_by.inode)
		o->maps.inner_pid = o->set.pid;
	int err = map_open(sizeof(*o->shared), &o->maps.shared_fd, &shared);
	if (!err)
		err = map_open(sizeof(*o->traps), &o->maps.traps_fd, &traps);
	if (err)
		return err;
	o->shared = shared;
	o->traps = traps;
	err = ringbuf_open(&o->ring, RING_BYTES);
	if (err)
		return err;
	o->maps.ring_fd = o->ring.fd;
	o->maps.notes_fd = ebpf_task_storage_create(EBPF_TASK_BYTES);
	return o->maps.notes_fd < 0 ? o->maps.notes_fd : 0;
}

static int open_programs(struct outside *o, const char **why)
{
	*why = "this kernel has no uprobe-multi links (Linux 6.6)";
	if (!uprobe_has_multi())
		return -EOPNOTSUPP;
	*why = "BPF is not permitted (it needs CAP_BPF and CAP_PERFMON)";
	int err = open_maps(o);
	if (err)
		return err;
	*why = "the kernel refuses the BPF program that stalls (it needs Linux 6.9)";
	o->program = outside_load_site(&o->maps, NULL, 0);
	if (o->program < 0)
		return o->program;
	o->hit_ns = outside_hit_cost(o->program);
	*why = "the kernel refuses the BPF program of the watch";
	int watch = outside_load_watch(&o->maps, NULL, 0);
	if (watch < 0)
		return watch;
	*why = "no debug register is free, neither on all CPUs nor in all its threads; end the "
	       "debugger, trapline or perf that uses them";
	err = outside_cpus_open(&o->cpus, watch, o->set.pid);
	sys_close(watch); /* the events keep it */
	o->shared->is_by_sites = !o->cpus.fires;
	return err;
}

static int open_code(struct outside *o, const char **why)
{
	*why = "its code cannot be read";
	int err = outside_code_open(o->set.pid, &o->code);
	if (err)
		return err;
	*why = o->code.nameless ?
		       "it is static and has no symbols, so it is not known which code is "
		       "the C library's; do not strip it" :
		       "no code of it is searched";
	if (!o->code.included)
		return -ENOEXEC;
	*why = "out of memory";
	o->lister = outside_lister_open(&o->code);
	if (!o->lister)
		return -ENOMEM;
	for (uint32_t i = 0; i < o->code.module_count; i++) {
		struct outside_module *m = &o->code.modules[i];
		int row = race_add_file(o->set.region, m->path);

		m->row = row > 0 ? (uint32_t)row : 0;
		if (row > 0 && m->policy == OUTSIDE_INCLUDED)
			o->set.region->files[row].is_included = 1;
	}
	o->shared->range_count = outside_runtimes(&o->code, o->shared->ranges, OUTSIDE_RANGES);
	return 0;
}

bool outside_is_built(void)
{
	return true;
}

int outside_open(const struct outside_settings *settings, struct outside **out, const char **why)
{
	struct outside *o = calloc(1, sizeof(*o));
	pthread_condattr_t monotonic;

	*why = "out of memory";
	*out = o;
	if (!o)
		return -ENOMEM;
	o->set = *settings;
	o->program = o->ring.fd = -1;
	o->maps.shared_fd = o->maps.traps_fd = o->maps.notes_fd = -1;
	pthread_mutex_init(&o->lock, NULL);
	pthread_mutex_init(&o->armers_lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&o->over, &monotonic);
	pthread_condattr_destroy(&monotonic);
	int err = open_programs(o, why);
	return err ? err : open_code(o, why);
}

int outside_start(struct outside *o, const char **why)
{
	*why = "no thread for the watch can be had";
	int err = outside_armers_start(o);

	return err ? err : outside_turns_start(o, why);
}

struct outside_caught *outside_next(struct outside *o)
{
	struct outside_caught *c = NULL;

	pthread_mutex_lock(&o->lock);
	if (o->caught_count) {
		c = o->caught[0];
		o->caught_count--;
		memmove(o->caught, o->caught + 1, o->caught_count * sizeof(o->caught[0]));
	}
	pthread_mutex_unlock(&o->lock);
	return c;
}

void outside_sum_up(struct outside *o, struct outside_sums *out)
{
	*out = o->sums;
	for (int i = 0; i < OUTSIDE_COUNTS; i++)
		out->counts[i] = o->shared ? atomic_get(&o->shared->counts[i]) : 0;
	out->functions = o->code.included;
	out->left_out = o->code.left_out;
	out->nameless = o->code.nameless;
	out->critical = o->code.critical;
	out->unmapped = o->code.unmapped;
	out->is_go = o->code.is_go;
	out->hit_ns = o->hit_ns;
	out->is_on_cpus = o->cpus.is_on_cpus;
	out->is_by_sites = o->shared && o->shared->is_by_sites;
	for (uint32_t i = 0; i < o->code.module_count; i++)
		out->modules += o->code.modules[i].policy == OUTSIDE_INCLUDED;
	out->spent_ns = out->counts[OUTSIDE_COUNT_HELD_NS] +
			out->counts[OUTSIDE_COUNT_HITS] * o->hit_ns + o->own_ns;
}

void outside_stop(struct outside *o)
{
	pthread_mutex_lock(&o->lock);
	atomic_set(&o->is_stopping, 1u);
	pthread_cond_broadcast(&o->over);
	pthread_mutex_unlock(&o->lock);
	outside_turns_stop(o);
	outside_armers_stop(o);
	outside_cpus_close(&o->cpus);
}

static void close_map(int fd)
{
	if (fd >= 0)
		sys_close(fd);
}

void outside_close(struct outside *o)
{
	if (!o)
		return;
	outside_stop(o);
	for (struct outside_caught *c; (c = outside_next(o));)
		free(c);
	outside_lister_close(o->lister);
	outside_code_close(&o->code);
	free(o->order);
	close_map(o->program);
	if (o->shared)
		memory_unmap(o->shared, pages(sizeof(*o->shared)));
	if (o->traps)
		memory_unmap(o->traps, pages(sizeof(*o->traps)));
	ringbuf_close(&o->ring);
	close_map(o->maps.shared_fd);
	close_map(o->maps.traps_fd);
	close_map(o->maps.notes_fd);
	pthread_cond_destroy(&o->over);
	pthread_mutex_destroy(&o->lock);
	pthread_mutex_destroy(&o->armers_lock);
	free(o);
}
