/* SPDX-License-Identifier: MIT */
/*
 * agent.c - the object that is preloaded into a target, or loaded into a process that runs.
 *
 * TRAPLINE_OPTIONS, or the text of a call, names the memory of a run (guest/share.h); guest/run.h
 * has the rest. Programs that are started by exec load the agent again. A program that runs with
 * the rights of its file takes no options.
 */
#include <errno.h>

#include "agent/agent_tools.h"
#include "race/race.h"
#include "throttle/throttle_open.h"

static struct run *const tools[] = {
	&agent_race, &agent_throttle, &agent_flow, &agent_probe, &agent_patch, &agent_patch_go,
};

#define TOOLS (sizeof(tools) / sizeof(tools[0]))

int agent_end_for_program(void)
{
	if (race_stop(RACE_STEP_OWN_TRAP) == -EAGAIN)
		return -EAGAIN;
	agent_throttle_rest("the program takes SIGTRAP itself, while it has the signal blocked");
	return agent_flow_let_go();
}

/*
 * For a process that runs already: called from outside, with the options that a started one finds
 * in its environment. What it begins ends with the region's word that it is over.
 */
int trapline_agent_call(const char *options);

__attribute__((visibility("default"))) int trapline_agent_call(const char *options)
{
	throttle_spare(1);
	const int result = run_call(tools, TOOLS, options, agent_end_for_program);
	throttle_spare(0);
	return result;
}

__attribute__((constructor)) static void agent_start(void)
{
	run_start(tools, TOOLS, agent_end_for_program);
}
