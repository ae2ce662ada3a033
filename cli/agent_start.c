// SPDX-License-Identifier: MIT
/*
 * agent_start.c - see agent_start.h.
 *
 * The loader takes the agent into every program that the command runs; those that it cannot
 * (static, setuid) are told of.
 */
#include "cli/agent_start.h"

#include "cli/cmd.h"
#include "cli/inject.h"
#include "cli/program.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define AGENT "libtrapline-agent.so"

void *agent_region_open(const char *name, size_t bytes, int *fd)
{
	*fd = memfd_create(name, MFD_CLOEXEC);
	if (*fd < 0 || ftruncate(*fd, (off_t)bytes))
		return NULL;
	void *region = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	return region == MAP_FAILED ? NULL : region;
}

void agent_region_close(void *region, size_t bytes, int fd)
{
	if (region)
		munmap(region, bytes);
	if (fd >= 0)
		close(fd);
}

void agent_option(const char *option, int region_fd, char *text, size_t size)
{
	snprintf(text, size, "%s=/proc/%d/fd/%d", option, getpid(), region_fd);
}

/* Beside the command where it was built, else where it is installed. */
static int find_agent(char *path, size_t n)
{
	const char *given = getenv("TRAPLINE_AGENT");
	char exe[PATH_MAX];

	if (given && *given) {
		snprintf(path, n, "%s", given);
		return access(path, R_OK);
	}
	ssize_t len = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	exe[len > 0 ? len : 0] = '\0';
	char *slash = strrchr(exe, '/');
	if (slash) {
		*slash = '\0';
		snprintf(path, n, "%s/" AGENT, exe);
		if (!access(path, R_OK))
			return 0;
	}
	snprintf(path, n, "%s/" AGENT, TRAPLINE_AGENT_DIR);
	return access(path, R_OK);
}

int agent_beside(const char *name, char *path, size_t n)
{
	char agent[PATH_MAX + 64];

	if (find_agent(agent, sizeof(agent)))
		return -1;
	char *slash = strrchr(agent, '/');
	snprintf(path, n, "%.*s%s", slash ? (int)(slash + 1 - agent) : 0, agent, name);
	return access(path, R_OK);
}

static void set_environment(const char *agent, const char *added)
{
	const char *preload = getenv("LD_PRELOAD");
	const char *options = getenv("TRAPLINE_OPTIONS");
	char text[PATH_MAX + 4096];

	snprintf(text, sizeof(text), "%s%s%s", agent, preload && *preload ? ":" : "",
		 preload ? preload : "");
	setenv("LD_PRELOAD", text, 1);
	snprintf(text, sizeof(text), "%s%s%s", added, options && *options ? ":" : "",
		 options ? options : "");
	setenv("TRAPLINE_OPTIONS", text, 1);
}

static void run_child(char *const *argv, const char *agent, const char *options, int report_fd)
{
	set_environment(agent, options);
	execvp(argv[0], argv);
	int err = errno;
	ssize_t unused = write(report_fd, &err, sizeof(err));
	(void)unused;
	_exit(127);
}

static int wrong_agent(const char *command)
{
	return cli_wrong(command, "no " AGENT " beside this command nor in %s; name it in "
			 "TRAPLINE_AGENT", TRAPLINE_AGENT_DIR);
}

int agent_command_start(const char *command, char *const *argv, const char *options, pid_t *pid)
{
	char agent[PATH_MAX + 64];
	int fds[2];
	int err = 0;

	if (find_agent(agent, sizeof(agent)))
		return wrong_agent(command);
	if (pipe2(fds, O_CLOEXEC))
		return cli_wrong(command, "cannot start %s: %s", argv[0], strerror(errno));
	fflush(NULL);
	*pid = fork();
	if (*pid == 0)
		run_child(argv, agent, options, fds[1]);
	close(fds[1]);
	if (*pid < 0)
		err = errno;
	else if (read(fds[0], &err, sizeof(err)) != sizeof(err))
		err = 0;
	close(fds[0]);
	return err ? cli_wrong(command, "cannot start %s: %s", argv[0], strerror(err)) : CLI_OK;
}

int agent_command_check(const char *command, char *const *argv)
{
	char path[PATH_MAX];

	if (program_find(argv[0], path, sizeof(path)))
		return CLI_OK; /* starting it says why */
	if (program_is_static(path))
		return cli_wrong(command, "%s is linked statically: the agent cannot be loaded into "
				 "it. Link it dynamically", path);
	if (program_is_secure(path))
		return cli_wrong(command, "%s is setuid or setgid, or has capabilities: the loader does "
				 "not preload into it. Run it as its owner", path);
	return CLI_OK;
}

/* The mapping that we have, with what is in it, becomes one of that file. */
static int share_region(void *arg, int fd)
{
	const struct agent_share *share = arg;
	int err = 0;

	if (ftruncate(fd, (off_t)share->bytes) ||
	    pwrite(fd, share->region, share->filled, 0) != (ssize_t)share->filled ||
	    mmap(share->region, share->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
		 0) == MAP_FAILED)
		err = errno ? -errno : -EIO;
	close(fd);
	return err;
}

int agent_call(const char *command, pid_t pid, const char *option, const struct agent_share *share,
	       int *result)
{
	const struct inject_shared shared = {
		.name = "trapline-region",
		.take = share_region,
		.arg = (void *)(uintptr_t)share,
	};
	char agent[PATH_MAX + 64];
	char why[512] = "";
	char text[64];

	if (find_agent(agent, sizeof(agent)))
		return wrong_agent(command);
	snprintf(text, sizeof(text), "%s=", option);
	int err = inject(pid, agent, "trapline_agent_call", text, share ? &shared : NULL, result,
			 why, sizeof(why));
	return err ? cli_wrong(command, "process %d: %s", pid, why) : CLI_OK;
}
