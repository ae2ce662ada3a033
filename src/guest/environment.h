/* SPDX-License-Identifier: MIT */
/* environment.h - what the command added to the environment for this process alone. */
#ifndef GUEST_ENVIRONMENT_H
#define GUEST_ENVIRONMENT_H

#include <stddef.h>

/*
 * Programs that this one starts do without the agent, and without option, which begins the options.
 */
void environment_forget(const char *option);

/*
 * Copies the value of an option ("race=") of TRAPLINE_OPTIONS, which may be NULL; 0: it is not
 * there.
 */
int environment_option(const char *all, const char *option, char *path, size_t n);

#endif
