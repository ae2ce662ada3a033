/* SPDX-License-Identifier: MIT */
/* patch_settings.h - the options of `trapline patch`. */
#ifndef CLI_PATCH_PATCH_SETTINGS_H
#define CLI_PATCH_PATCH_SETTINGS_H

#include <stdint.h>
#include <sys/types.h>

#define PATCH_COMMAND "patch"

struct patch_settings {
	pid_t pid;
	const char *object; /* the path of the shared object; NULL: --undo or --list */
	const char *undo;   /* NULL: none */
	const char *consistency;
	uint64_t timeout_ns;
	int list;
	int dry_run;
	int leave_copies;
	int folded;
	int json;
};

#endif
