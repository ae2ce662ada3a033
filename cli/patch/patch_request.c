/* SPDX-License-Identifier: MIT */
/* patch_request.c - see patch_request.h. */
#include "cli/patch/patch_request.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "cli/launch/program.h"
#include "cli/message.h"
#include "cli/watchdog.h"
#include "report/safe/clean.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <trapline/tools.h>

#define REGION_NAME "trapline-patch"
#define POLL_NS 200000
#define LATE_NS 10000000000u /* beside the time-out: to load the object on a busy machine */

struct asked {
	const struct patch_settings *set;
	struct agent_region memory;
	struct patch_region *region;
};

static const struct {
	const char *name;
	uint32_t number;
} consistencies[] = {
	{ "immediate", TRAPLINE_PATCH_IMMEDIATE },
	{ "no-thread-inside", TRAPLINE_PATCH_NO_THREAD_INSIDE },
	{ "per-thread", TRAPLINE_PATCH_PER_THREAD },
};

/* The number of --consistency; false: the name is unknown. */
static bool patch_consistency_number(const char *name, uint32_t *out)
{
	for (size_t i = 0; i < sizeof(consistencies) / sizeof(consistencies[0]); i++) {
		if (strcmp(name, consistencies[i].name) != 0)
			continue;
		*out = consistencies[i].number;
		return true;
	}
	return false;
}

const char *patch_consistency_name(uint64_t number)
{
	for (size_t i = 0; i < sizeof(consistencies) / sizeof(consistencies[0]); i++)
		if (consistencies[i].number == number)
			return consistencies[i].name;
	return "unknown";
}

static void place_fill(struct patch_place *place, const struct patch_step *step)
{
	const struct patch_found *f = &step->found;

	place->address = f->address;
	place->bytes = f->size;
	for (size_t i = 0; i < f->part_count && i < PATCH_PARTS; i++)
		place->parts[i] = (struct patch_part){ f->parts[i].address, f->parts[i].size };
	place->new_bytes = step->new_size;
	place->new_part = (struct patch_part){ step->new_part.address, step->new_part.size };
	if (step->record->name)
		snprintf(place->name, sizeof(place->name), "%s", step->record->name);
}

static void request_fill(struct asked *a, enum patch_action action, const struct patch_plan *plan)
{
	const struct patch_settings *set = a->set;
	struct patch_region *r = a->region;

	r->action = action;
	r->timeout_ns = set->timeout_ns;
	r->since_ns = clock_ns(CLOCK_REALTIME);
	patch_consistency_number(set->consistency, &r->consistency);
	if (set->undo)
		snprintf(r->name, sizeof(r->name), "%s", set->undo);
	if (!plan)
		return;
	snprintf(r->name, sizeof(r->name), "%s", patch_object_name(plan->object));
	r->section = patch_object_section(plan->object, &r->section_bytes);
	r->is_apart = plan->is_apart;
	r->init = plan->init.function;
	r->init_array = plan->init.array;
	r->init_count = plan->init.count;
	r->count = plan->count;
	for (size_t i = 0; i < plan->count && i < PATCH_PLACES; i++)
		place_fill(&r->places[i], &plan->steps[i]);
}

static int request_call(struct asked *a, const struct patch_plan *plan)
{
	const struct agent_share share = {
		.region = a->region,
		.bytes = sizeof(*a->region),
		.filled = sizeof(*a->region),
		.data_fd = a->memory.data_fd,
		.object_name = plan ? patch_object_name(plan->object) : NULL,
		.object_fd = plan ? patch_object_fd(plan->object) : -1,
		.has_own_files = true,
		.then = "patch-go=",
	};
	int result = 0;

	agent_call_within(&asked_by, a->set->timeout_ns);
	int status = agent_call(PATCH_COMMAND, a->set->pid, "patch", &share, &result);
	if (status || !result)
		return status;
	if (result == -EBUSY)
		return cli_wrong(PATCH_COMMAND,
				 "cannot patch process %d: another change of it has not ended; "
				 "try trapline patch -p %d --list later",
				 a->set->pid, a->set->pid);
	return cli_wrong(PATCH_COMMAND, "cannot patch process %d: %s", a->set->pid,
			 strerror(-result));
}

static int refuse_late(const struct asked *a, uint32_t state)
{
	if (kill(a->set->pid, 0) && errno == ESRCH)
		return cli_wrong(PATCH_COMMAND, "process %d has ended", a->set->pid);
	if (asked_by)
		return cli_wrong(PATCH_COMMAND,
				 "ended by a signal; process %d finishes the change or undoes it "
				 "by itself: see trapline patch -p %d --list",
				 a->set->pid, a->set->pid);
	return cli_wrong(PATCH_COMMAND, "process %d does not answer: its agent is %s; %s",
			 a->set->pid,
			 state == PATCH_IS_ASKED   ? "not running yet" :
			 state == PATCH_IS_LOADING ? "loading the object" :
						     "changing the code",
			 program_is_stopped(a->set->pid) ? "the process is stopped, continue it" :
							   "try trapline patch --list later");
}

static int request_wait(const struct asked *a)
{
	const struct timespec step = { 0, POLL_NS };
	uint64_t end = clock_now_ns() + a->set->timeout_ns + LATE_NS;
	struct patch_region *r = a->region;
	uint32_t state;

	while ((state = atomic_get(&r->state)) != PATCH_IS_DONE && state != PATCH_HAS_FAILED) {
		if (asked_by || clock_now_ns() > end || (kill(a->set->pid, 0) && errno == ESRCH))
			return refuse_late(a, state);
		nanosleep(&step, NULL);
	}
	if (state == PATCH_IS_DONE)
		return CLI_OK;
	char why[sizeof(r->why)];
	memcpy(why, r->why, sizeof(why));
	why[sizeof(why) - 1] = 0;
	if (a->set->undo)
		cli_wrong(PATCH_COMMAND, "cannot undo %s in process %d: %s", a->set->undo,
			  a->set->pid, why);
	else
		cli_wrong(PATCH_COMMAND, "cannot patch process %d: %s", a->set->pid, why);
	return CLI_NO;
}

static void clean_name_of(char *name)
{
	name[PATCH_NAME_BYTES - 1] = 0;
	clean_text(name);
}

/* Each number is read once. */
static void request_copy(const struct patch_region *r, struct patch_answer *out)
{
	uint64_t kept = atomic_get(&r->kept_count);
	uint64_t listed = atomic_get(&r->listed_count);

	out->took_ns = r->took_ns;
	out->pending = r->pending;
	out->kept_count = kept < PATCH_KEPT ? kept : PATCH_KEPT;
	out->listed_count = listed < PATCH_LISTED ? listed : PATCH_LISTED;
	memcpy(out->kept, r->kept, sizeof(out->kept));
	memcpy(out->listed, r->listed, sizeof(out->listed));
	for (size_t i = 0; i < out->kept_count; i++)
		clean_name_of(out->kept[i].name);
	for (size_t i = 0; i < out->listed_count; i++)
		clean_name_of(out->listed[i].name);
}

int patch_request(const struct patch_settings *set, enum patch_action action,
		  const struct patch_plan *plan, struct patch_answer *out)
{
	struct asked a = { .set = set, .memory = AGENT_REGION_NONE };
	int status = agent_region_open(PATCH_COMMAND, REGION_NAME, PATCH_MAGIC, sizeof(*a.region),
				       &a.memory);

	if (status)
		return status;
	a.region = (struct patch_region *)a.memory.head;
	request_fill(&a, action, plan);
	status = request_call(&a, plan);
	if (!status)
		status = request_wait(&a);
	if (!status)
		request_copy(a.region, out);
	agent_region_close(&a.memory);
	return status;
}
