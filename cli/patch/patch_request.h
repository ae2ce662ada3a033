/* SPDX-License-Identifier: MIT */
/* patch_request.h - what is asked of the agent in the process, and its answer. */
#ifndef CLI_PATCH_PATCH_REQUEST_H
#define CLI_PATCH_PATCH_REQUEST_H

#include "cli/launch/agent_start.h"
#include "cli/patch/patch_plan.h"
#include "record/patch_region.h"

/*
 * The answer, as it was copied from memory that the process can write: counts and texts are in
 * bounds.
 */
struct patch_answer {
	uint64_t took_ns;
	uint64_t pending;
	size_t kept_count;
	struct patch_kept kept[PATCH_KEPT];
	size_t listed_count;
	struct patch_listed listed[PATCH_LISTED];
};

/*
 * Asks, and waits for the answer. plan is NULL except for PATCH_APPLY. 0 or an exit status, line
 * printed. A patch that was begun continues in the process without this command, and ends within
 * its time-out.
 */
int patch_request(const struct patch_settings *set, enum patch_action action,
		  const struct patch_plan *plan, struct patch_answer *out);

const char *patch_consistency_name(uint64_t number);

#endif
