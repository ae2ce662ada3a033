/* SPDX-License-Identifier: MIT */
/* race_side.c - see race_side.h. */
#include "cli/race/race_side.h"

#include "cli/inject/inject.h"
#include "cli/launch/preloadable.h"
#include "cli/launch/program.h"
#include "cli/message.h"
#include "outside/outside.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#define COMMAND "race"
#define IS_GO "it is a Go program"

bool race_side_may_be_outside(const struct race_cli_settings *set)
{
	return outside_is_built() && !geteuid() && !set->inside && !set->sweep && !set->replay &&
	       !set->heap;
}

/* NULL: it can, as far as the file states. */
static const char *why_not_into_file(const char *path)
{
	if (program_is_go(path))
		return IS_GO;
	if (program_is_static(path))
		return "it is linked statically";
	return preloadable_hindrance(path);
}

/* What passes, as a debugger, is left to the attach, which refuses with the remedy. */
static const char *why_not_into_process(pid_t pid, char *why, size_t n)
{
	char path[64];

	if (program_tracer(pid, pid))
		return NULL;
	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	if (program_is_go(path))
		return IS_GO;
	int err = inject_check(pid, why, n);
	return err == -ENOEXEC || err == -EPERM ? why : NULL;
}

static const char *why_not_into_command(const char *name)
{
	char path[PATH_MAX];

	if (program_find(name, path, sizeof(path)))
		return NULL; /* the start reports the reason */
	if (program_seccomp(getpid(), getpid()))
		return "it would inherit a seccomp filter";
	if (program_is_secure(path))
		return "it is setuid or setgid, or has capabilities";
	return why_not_into_file(path);
}

void race_side_choose(struct race_cli_settings *set)
{
	const char *why = NULL;
	char text[512];

	if (set->outside || !race_side_may_be_outside(set))
		return;
	if (set->pid)
		why = why_not_into_process(set->pid, text, sizeof(text));
	else if (set->command)
		why = why_not_into_command(set->command[0]);
	if (!why)
		return;
	cli_note(COMMAND, "the detector cannot enter the program: %s; searching as --outside does",
		 why);
	set->outside = 1;
}
