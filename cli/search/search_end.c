/* SPDX-License-Identifier: MIT */
/* search_end.c - see search_end.h. */
#include "cli/search/search_end.h"

#include "cli/cmd.h"
#include "cli/message.h"
#include "cli/watchdog.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS 1000000000u

int search_pidfd(pid_t pid)
{
	return (int)syscall(SYS_pidfd_open, pid, 0);
}

void search_pause(int pidfd, uint64_t ns)
{
	const struct timespec pause = { (time_t)(ns / SECOND_NS), (long)(ns % SECOND_NS) };
	struct pollfd end = { .fd = pidfd, .events = POLLIN };

	ppoll(&end, 1, &pause, NULL);
}

bool search_wait_for_program(const char *command, const char *what, const char *program, pid_t pid,
			     int *status)
{
	const int pidfd = search_pidfd(pid);
	bool is_asked = false;

	cli_note(command, "%s has ended; waiting for %s (process %d) to end", what, program, pid);
	while (waitpid(pid, status, WNOHANG) != pid) {
		is_asked |= watchdog_forward(pid) != 0;
		search_pause(pidfd, SECOND_NS); /* a signal may come just before the wait */
	}
	if (pidfd >= 0)
		close(pidfd);
	return is_asked;
}

void search_sarif_run(struct sarif_run *run, uint64_t wall_ns, int status)
{
	run->ended_s = (uint64_t)time(NULL);
	run->started_s = run->ended_s - wall_ns / SECOND_NS;
	if (WIFSIGNALED(status))
		run->signal = WTERMSIG(status);
	else
		run->exit_code = WEXITSTATUS(status);
}

int search_file_end(const char *command, const char *path, FILE *f, int err)
{
	if (f && fclose(f) && !err)
		err = -errno;
	if (!err)
		return CLI_OK;
	cli_note(command, "cannot write %s: %s", path, strerror(-err));
	return CLI_NO;
}

int search_exit_status(const struct search_exit *e)
{
	if (e->has_found && e->error_exitcode && !e->is_baseline_written)
		return (int)e->error_exitcode;
	if (e->child)
		return cli_status_of(e->child);
	return e->blind ? e->blind : e->failed;
}
