/* SPDX-License-Identifier: MIT */
/* search_check.c - see search_check.h. */
#include "cli/search/search_check.h"

#include "cli/launch/agent_start.h"
#include "cli/launch/program.h"
#include "cli/message.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

int search_check_command(const struct search_kind *kind, char *const *command)
{
	char path[PATH_MAX];

	if (!program_find(command[0], path, sizeof(path)) && program_is_go(path))
		return cli_wrong(kind->command, "cannot %s %s: it is a Go program, %s", kind->verb,
				 path, kind->why_not_go);
	if (program_seccomp(getpid(), getpid()))
		return cli_wrong(kind->command,
				 "%s would inherit this seccomp filter, which may kill it for a "
				 "system call of the %s; run without the filter (containers: "
				 "--security-opt seccomp=unconfined)",
				 command[0], kind->loaded);
	return agent_command_check(kind->command, command);
}

int search_check_process(const struct search_kind *kind, pid_t pid)
{
	char path[64];

	if (kill(pid, 0) && errno == ESRCH)
		return cli_wrong(kind->command, "there is no process %d", pid);
	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	if (program_is_go(path))
		return cli_wrong(kind->command, "cannot %s process %d: it is a Go program, %s",
				 kind->verb, pid, kind->why_not_go);
	return CLI_OK;
}

int search_check_overhead(const struct search_kind *kind, double percent, double most)
{
	if (percent <= most)
		return CLI_OK;
	return cli_wrong(kind->command,
			 "invalid --overhead '%g%%': expected a share of the CPU time, at most "
			 "%g%% (example: 2%%)",
			 percent, most);
}

int search_check_exitcode(const struct search_kind *kind, uint64_t code)
{
	if (code <= 255)
		return CLI_OK;
	return cli_wrong(kind->command,
			 "invalid --error-exitcode '%llu': expected 1 to 255 (example: 3)",
			 (unsigned long long)code);
}
