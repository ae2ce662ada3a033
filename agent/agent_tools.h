/* SPDX-License-Identifier: MIT */
/* agent_tools.h - the tools of the agent, each with its life (guest/run.h). */
#ifndef AGENT_AGENT_TOOLS_H
#define AGENT_AGENT_TOOLS_H

#include "guest/run.h"

extern struct run agent_race;
extern struct run agent_throttle;
extern struct run agent_patch;
extern struct run agent_patch_go;
extern struct run agent_probe;
extern struct run agent_flow;

/*
 * In SIGTRAP: the program blocks it, and a signal has come that shall wait. 0, -EAGAIN or
 * -EINPROGRESS.
 */
int agent_end_for_program(void);
/*
 * The program takes a signal by itself that it has blocked: 0: there is no flow here; -EINPROGRESS:
 * it ends, and then signals_tool_has_ended() follows. AS-Safe.
 */
int agent_flow_let_go(void);

/* The budgets of this process and its children end; trapline prints why. */
void agent_throttle_let_go(const char *why);
/* The same in SIGTRAP: no event of theirs comes any more. */
void agent_throttle_rest(const char *why);

#endif
