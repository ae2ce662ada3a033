// SPDX-License-Identifier: MIT
/* race_start.c - the region that a run shares with its processes, and the command with the agent. */
#include "cli/agent_start.h"
#include "cli/cmd.h"
#include "cli/race.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define COMMAND "race"
#define HEAP "libtrapline-heap.so"

/* Ours is what the command inherits: what notes the heap's blocks is preloaded by that. */
static int preload_heap(void)
{
	const char *preload = getenv("LD_PRELOAD");
	char path[PATH_MAX + 64];
	char text[2 * PATH_MAX];

	if (agent_beside(HEAP, path, sizeof(path)))
		return cli_wrong(COMMAND, "--heap: no " HEAP " beside the agent");
	snprintf(text, sizeof(text), "%s%s%s", path, preload && *preload ? ":" : "",
		 preload ? preload : "");
	setenv("LD_PRELOAD", text, 1);
	return 0;
}

int race_region_open(const struct race_cli_settings *set, struct race_run *run)
{
	run->region = agent_region_open("trapline-race", sizeof(*run->region), &run->region_fd);
	if (!run->region)
		return cli_wrong(COMMAND, "no memory to share with the program: %s",
				 strerror(errno));
	run->region->bytes = sizeof(struct race_region);
	run->region->settings.budget_ppm = set->budget_ppm;
	run->region->settings.delay_ns = set->delay_ns;
	run->region->settings.is_sweep = (uint64_t)set->sweep;
	run->region->settings.is_heap = (uint64_t)set->heap;
	run->region->magic = RACE_MAGIC;
	return set->heap ? preload_heap() : 0;
}

void race_region_close(struct race_run *run)
{
	if (!run->region)
		return;
	/* Processes that go on without us hold nobody any more. */
	__atomic_store_n(&run->region->stop, 1u, __ATOMIC_SEQ_CST);
	agent_region_close(run->region, sizeof(*run->region), run->region_fd);
}

int race_command_start(const struct race_cli_settings *set, struct race_run *run)
{
	char options[PATH_MAX];

	agent_option("race", run->region_fd, options, sizeof(options));
	return agent_command_start(COMMAND, set->command, options, &run->pid);
}
