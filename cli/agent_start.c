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

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
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

/* As execvp() will. */
static int find_program(const char *name, char *path, size_t n)
{
	const char *dirs = getenv("PATH");

	if (strchr(name, '/')) {
		snprintf(path, n, "%s", name);
		return access(path, X_OK);
	}
	for (const char *dir = dirs ? dirs : "/bin:/usr/bin"; dir; dir = strchr(dir, ':')) {
		dir += *dir == ':';
		snprintf(path, n, "%.*s/%s", (int)strcspn(dir, ":"), dir, name);
		if (!access(path, X_OK))
			return 0;
	}
	return -1;
}

/* A program without a loader cannot be given the agent. */
static bool is_static(const char *path)
{
	Elf64_Ehdr ehdr;
	Elf64_Phdr ph;
	bool has_loader = false;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	bool is_elf = read(fd, &ehdr, sizeof(ehdr)) == sizeof(ehdr) &&
		      !memcmp(ehdr.e_ident, ELFMAG, SELFMAG) &&
		      ehdr.e_ident[EI_CLASS] == ELFCLASS64;
	for (int i = 0; is_elf && i < ehdr.e_phnum; i++) {
		off_t at = (off_t)(ehdr.e_phoff + (uint64_t)i * sizeof(ph));
		if (pread(fd, &ph, sizeof(ph), at) == sizeof(ph) && ph.p_type == PT_INTERP)
			has_loader = true;
	}
	close(fd);
	return is_elf && !has_loader;
}

int agent_command_check(const char *command, char *const *argv)
{
	char path[PATH_MAX];
	struct stat st;

	if (find_program(argv[0], path, sizeof(path)))
		return CLI_OK; /* starting it says why */
	if (is_static(path))
		return cli_wrong(command, "%s is linked statically: the agent cannot be loaded into "
				 "it. Link it dynamically", path);
	if (!stat(path, &st) && st.st_mode & (S_ISUID | S_ISGID) && geteuid() != 0)
		return cli_wrong(command, "%s is setuid or setgid: the loader does not preload into "
				 "it. Run it as its owner", path);
	return CLI_OK;
}

int agent_call(const char *command, pid_t pid, const char *options)
{
	char agent[PATH_MAX + 64];
	char why[512] = "";
	int result = 0;

	if (find_agent(agent, sizeof(agent)))
		return wrong_agent(command);
	int err = inject(pid, agent, "trapline_agent_call", options, &result, why, sizeof(why));
	if (err)
		return cli_wrong(command, "process %d: %s", pid, why);
	if (result)
		return cli_wrong(command, "process %d: the agent could not begin: %s", pid,
				 strerror(-result));
	return CLI_OK;
}
