/* SPDX-License-Identifier: MIT */
/* seccomp.h - see seccomp.c. */
#ifndef AGENT_SECCOMP_H
#define AGENT_SECCOMP_H

/*
 * The program has asked for a filter: from then on, and in children that it forks, a system call of
 * the agent may kill the process.
 */
int seccomp_may_forbid(void);

#endif
