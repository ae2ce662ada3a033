/* SPDX-License-Identifier: MIT */
/* install.h - becoming the process's action for SIGTRAP. */
#ifndef TRAP_INSTALL_H
#define TRAP_INSTALL_H

#include <signal.h>

/*
 * Make SIGTRAP Trapline's, keeping the action that was there for what is not Trapline's. 0 or
 * -errno.
 */
int trap_install(void);

/* 1 while Trapline's handler is the process's action for SIGTRAP. */
int trap_is_installed(void);

/*
 * The action of the program is the kernel's again: what trap_install() finds the next time is the
 * one before.
 */
void trap_was_taken_out(void);

/*
 * What the program asked sigaction() for, where that is not let through: it gets what is not
 * Trapline's, and reads back what it set. For the agent, which is before libc's sigaction().
 */
void trap_set_previous(const struct sigaction *action, struct sigaction *old);

#endif
