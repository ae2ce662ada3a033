/* SPDX-License-Identifier: MIT */
/* patch_api.c - the entry points for patches: what one is made of, and its end. */
#include "patch/patch_api.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/sys.h"
#include "code/poke/change.h"
#include "core/code_start.h"
#include "core/explain.h"
#include "core/opts_copy.h"
#include "core/target.h"
#include "patch/patch_change.h"
#include "patch/patch_check.h"
#include "patch/patch_site.h"
#include "trap/stack.h"

#define FUNCTIONS_MAX 4096u

/* Locked from the first search for a function until its patch is made, changed or gone. */
static pthread_mutex_t patch_lock = PTHREAD_MUTEX_INITIALIZER;
static struct trapline_patch *patches;

static void before_fork(void)
{
	pthread_mutex_lock(&patch_lock);
}

static void after_fork_in_parent(void)
{
	pthread_mutex_unlock(&patch_lock);
}

static void after_fork_in_child(void)
{
	for (struct trapline_patch *patch = patches; patch; patch = patch->next)
		patch_change_forked(patch);
	pthread_mutex_unlock(&patch_lock);
}

static void add_patch_fork_handlers(void)
{
	pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

static void add_to_list(struct trapline_patch *patch)
{
	patch->next = patches;
	patches = patch;
}

static void take_from_list(struct trapline_patch *patch)
{
	struct trapline_patch **at = &patches;

	while (*at && *at != patch)
		at = &(*at)->next;
	if (*at)
		*at = patch->next;
}

static void patch_free(struct trapline_patch *patch)
{
	if (!patch)
		return;
	for (size_t i = 0; i < patch->count && patch->names; i++)
		free((char *)patch->names[i]);
	free(patch->names);
	free(patch->sites);
	free(patch->new_addresses);
	free(patch->old_side.ranges);
	free(patch->new_side.ranges);
	free(patch);
}

static struct trapline_patch *patch_new(struct trapline *t,
					const struct trapline_patch_function *functions, size_t n)
{
	struct trapline_patch *patch = calloc(1, sizeof(*patch));
	size_t old_ranges = n;
	size_t new_ranges = n;

	if (!patch)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		old_ranges += functions[i].old_part_count;
		new_ranges += functions[i].new_part_count;
	}
	patch->target = t;
	patch->pid = sys_getpid();
	patch->count = n;
	patch->sites = calloc(n, sizeof(*patch->sites));
	patch->new_addresses = calloc(n, sizeof(*patch->new_addresses));
	patch->names = calloc(n, sizeof(*patch->names));
	patch->old_side.ranges = calloc(old_ranges, sizeof(*patch->old_side.ranges));
	patch->new_side.ranges = calloc(new_ranges, sizeof(*patch->new_side.ranges));
	if (patch->sites && patch->new_addresses && patch->names && patch->old_side.ranges &&
	    patch->new_side.ranges)
		return patch;
	patch_free(patch);
	return NULL;
}

static void add_range(struct patch_side *side, size_t function, uint64_t from, uint64_t to,
		      uint64_t entry)
{
	side->ranges[side->count++] = (struct patch_range){ from, to, entry, (uint32_t)function };
}

static void add_parts(struct patch_side *side, size_t function,
		      const struct trapline_patch_part *parts, size_t n)
{
	for (size_t i = 0; i < n; i++)
		add_range(side, function, parts[i].address, parts[i].address + parts[i].bytes,
			  parts[i].address);
}

/* Its jump, which leads to the old function until all is there. */
static int add_function(struct trapline_patch *patch, size_t i,
			const struct trapline_patch_function *function,
			struct code_problem *problem)
{
	int may_trap = patch->consistency == TRAPLINE_PATCH_IMMEDIATE;
	struct patch_plan plan;
	int err = patch_check(function, &plan, &problem->why);

	if (err)
		return err;
	err = patch_site_open(plan.site, may_trap, &patch->sites[i], problem);
	if (err)
		return err;
	if (function->name)
		patch->names[i] = strdup(function->name);
	patch->new_addresses[i] = plan.new_address;
	add_range(&patch->old_side, i, plan.site, plan.old_end, 0);
	add_range(&patch->new_side, i, plan.new_address, plan.new_end, plan.new_address);
	add_parts(&patch->old_side, i, function->old_parts, function->old_part_count);
	add_parts(&patch->new_side, i, function->new_parts, function->new_part_count);
	patch->sites[i]->index = (uint32_t)i;
	atomic_set(&patch->sites[i]->patch, patch);
	return 0;
}

/* All words lead to the old functions. The first error; what could not be closed stays. */
static int close_sites(struct trapline_patch *patch, struct code_problem *problem)
{
	int err = 0;

	for (size_t i = 0; i < patch->count; i++) {
		struct patch_site *site = patch->sites[i];

		if (!site)
			continue;
		int failure = patch_site_close(site, problem);
		if (failure) {
			err = err ? err : failure;
			continue;
		}
		atomic_set(&site->patch, (struct trapline_patch *)NULL);
	}
	return err;
}

/* A thread may be on its way through a gate: then its memory stays. */
static void patch_end(struct trapline_patch *patch)
{
	size_t count = patch->count;
	int is_in_use = 0;

	for (size_t i = 0; i < count && !is_in_use; i++)
		is_in_use = patch->sites[i] && patch_site_settle(patch->sites[i]);
	if (!is_in_use)
		patch_free(patch);
}

static int open_all(struct trapline_patch *patch, const struct trapline_patch_function *functions,
		    const struct trapline_patch_opts *o)
{
	struct code_problem problem = { NULL, 0 };

	for (size_t i = 0; i < patch->count; i++) {
		int err = add_function(patch, i, &functions[i], &problem);

		if (!err)
			continue;
		if (o->failed)
			*o->failed = i;
		return failed(err, FAILED_CODE, problem.why);
	}
	return 0;
}

static void report_after(struct trapline_patch *patch, int result)
{
	void (*after)(void *arg) = patch->after;

	if (result || !after)
		return;
	patch->after = NULL;
	after(patch->arg);
}

/* It may fork. No other call takes the sites: they are open. */
static int call_before(const struct trapline_patch_opts *o)
{
	pthread_mutex_unlock(&patch_lock);
	int result = o->before(o->arg);
	pthread_mutex_lock(&patch_lock);
	return result;
}

static int make(struct trapline_patch *patch, const struct trapline_patch_function *functions,
		const struct trapline_patch_opts *o, int *is_made)
{
	struct code_problem problem = { NULL, 0 };
	int result = open_all(patch, functions, o);

	if (!result && o->before)
		result = call_before(o);
	if (!result)
		result = patch_change(patch, 1, o->timeout_ns);
	if (result < 0 || PATCH_KIND(patch->phase) == TRAPLINE_PATCH_OLD) {
		*is_made = 0;
		if (!close_sites(patch, &problem))
			patch_end(patch);
		return result;
	}
	add_to_list(patch);
	return result;
}

static int check_patch_opts(const struct trapline *t,
			    const struct trapline_patch_function *functions, size_t n,
			    const struct trapline_patch_opts *o, struct trapline_patch **out)
{
	const char *wrong = NULL;

	if (!t || !functions || !n || !out)
		wrong = "target, functions or out is NULL, or n is 0";
	else if (t->pid != t->owner_pid)
		wrong = "only functions of this process can be replaced";
	else if (n > FUNCTIONS_MAX)
		wrong = "more than 4096 functions";
	else if (o->flags || o->consistency > TRAPLINE_PATCH_IMMEDIATE)
		wrong = "unknown flag or consistency";
	if (wrong)
		return failed(-EINVAL, FAILED_ARGUMENT, wrong);
	return 0;
}

TRAPLINE_API int trapline_patch(struct trapline *t, const struct trapline_patch_function *functions,
				size_t n, const struct trapline_patch_opts *opts,
				struct trapline_patch **out)
{
	static pthread_once_t fork_handlers = PTHREAD_ONCE_INIT;
	struct trapline_patch_opts o;
	int err = opts_copy(&o, sizeof(o), opts);

	if (!err)
		err = check_patch_opts(t, functions, n, &o, out);
	if (!err)
		err = code_start();
	if (err)
		return err;
	pthread_once(&fork_handlers, add_patch_fork_handlers);
	stack_warm_up();
	struct trapline_patch *patch = patch_new(t, functions, n);
	if (!patch)
		return failed(-ENOMEM, FAILED_CODE, "out of memory");
	patch->consistency = o.consistency;
	patch->restorer = change_find_restorer();
	patch->after = o.after;
	patch->arg = o.arg;
	pthread_mutex_lock(&patch_lock);
	int is_made = 1;
	int result = make(patch, functions, &o, &is_made);
	pthread_mutex_unlock(&patch_lock);
	if (!is_made)
		return result;
	*out = patch;
	report_after(patch, result);
	return result;
}

TRAPLINE_API int trapline_patch_wait(struct trapline_patch *patch, uint64_t timeout_ns)
{
	if (!patch)
		return failed(-EINVAL, FAILED_ARGUMENT, "patch is NULL");
	pthread_mutex_lock(&patch_lock);
	uint32_t kind = PATCH_KIND(patch->phase);
	int to_new = kind == TRAPLINE_PATCH_NEW || kind == TRAPLINE_PATCH_TO_NEW;
	int result = patch_change(patch, to_new, timeout_ns);
	pthread_mutex_unlock(&patch_lock);
	report_after(patch, to_new ? result : 1);
	return result;
}

TRAPLINE_API int trapline_patch_undo(struct trapline_patch *patch, uint64_t timeout_ns)
{
	struct code_problem problem = { NULL, 0 };

	if (!patch)
		return 0;
	pthread_mutex_lock(&patch_lock);
	int result = patch_change(patch, 0, timeout_ns);
	if (!result) {
		result = close_sites(patch, &problem);
		if (result)
			failed(result, FAILED_CODE, problem.why);
	}
	if (!result) {
		take_from_list(patch);
		patch_end(patch);
	}
	pthread_mutex_unlock(&patch_lock);
	return result;
}

TRAPLINE_API int trapline_patch_stats(struct trapline_patch *patch,
				      struct trapline_patch_stats *out)
{
	if (!patch || !out || out->size < sizeof(size_t) || out->size > sizeof(*out))
		return failed(-EINVAL, FAILED_ARGUMENT, "stats.size is not set");
	size_t size = out->size;
	struct trapline_patch_stats stats = {
		.size = size,
		.phase = PATCH_KIND(atomic_get(&patch->phase)),
		.threads_pending = patch->pending,
		.pending_tid = patch->pending_tid,
		.pending_function = patch->pending_function,
		.pending_syscall = patch->pending_syscall,
		.decided = counter_get(&patch->decided),
		.waits = counter_get(&patch->waits),
		.longest_wait_ns = counter_get(&patch->longest_wait_ns),
		.longest_held_ns = counter_get(&patch->longest_held_ns),
	};

	for (size_t i = 0; i < patch->count; i++)
		stats.traps += patch->sites[i]->traps != NULL;
	memcpy(out, &stats, size);
	return 0;
}
