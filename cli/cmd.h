/* SPDX-License-Identifier: MIT */
/* cmd.h - the entry of each command, which main.c calls. */
#ifndef CLI_CMD_H
#define CLI_CMD_H

#include <sys/wait.h>

/* argv[0] is the command's name. Each returns the exit status. */
int cmd_break(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_dap(int argc, char **argv);
int cmd_flow(int argc, char **argv);
int cmd_heap(int argc, char **argv);
int cmd_race(int argc, char **argv);
int cmd_patch(int argc, char **argv);
int cmd_patrol(int argc, char **argv);
int cmd_point(int argc, char **argv);
int cmd_at(int argc, char **argv);
int cmd_throttle(int argc, char **argv);
int cmd_watch(int argc, char **argv);
int cmd_record(int argc, char **argv);
int cmd_report(int argc, char **argv);

/* The exit status as a shell has it, from the status that waitpid() gave. */
static inline int cli_status_of(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

#endif
