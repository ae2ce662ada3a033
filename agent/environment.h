/* SPDX-License-Identifier: MIT */
/* environment.h - what the command added to the environment for this process alone. */
#ifndef AGENT_ENVIRONMENT_H
#define AGENT_ENVIRONMENT_H

/* Programs that this one starts do without the agent, and without option, which begins the options. */
void environment_forget(const char *option);

#endif
