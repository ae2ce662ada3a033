/* SPDX-License-Identifier: MIT */
/* cmd.h - the commands, one file each, and how they speak to the user. */
#ifndef CLI_CMD_H
#define CLI_CMD_H

#include <stdbool.h>
#include <sys/wait.h>

/* What every command ends with. */
enum cli_exit {
	CLI_OK = 0,
	CLI_NO = 1,    /* the answer is no, or something broke on the way */
	CLI_USAGE = 2, /* wrong input: one line said what and how to put it right */
};

/* argv[0] is the command's name. Each returns the exit status. */
int cmd_break(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_dap(int argc, char **argv);
int cmd_flow(int argc, char **argv);
int cmd_heap(int argc, char **argv);
int cmd_race(int argc, char **argv);
int cmd_patch(int argc, char **argv);
int cmd_at(int argc, char **argv);
int cmd_throttle(int argc, char **argv);
int cmd_watch(int argc, char **argv);
int cmd_record(int argc, char **argv);
int cmd_report(int argc, char **argv);

/* As a shell has it, from what waitpid() gave. */
static inline int cli_status_of(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* One line on stderr, `trapline watch: ...`. Returns CLI_USAGE, to be returned by the caller. */
int cli_wrong(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Until false is given, cli_wrong() keeps its line. With is_told the kept one is printed then, else it is dropped. */
void cli_keep_wrong(bool keeps, bool is_told);

/* The same for what is worth knowing and no error. */
void cli_note(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* These lines, without the command's name, go to a function from now on; NULL: to stderr again. */
typedef void (*cli_listener)(void *arg, bool is_note, const char *line);
void cli_tell(cli_listener to, void *arg);

#endif
