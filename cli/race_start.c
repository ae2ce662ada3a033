// SPDX-License-Identifier: MIT
/*
 * race_start.c - start a command with the agent in it.
 *
 * The shared region is an anonymous file that the target opens by our descriptor's name in /proc:
 * nothing stays behind, however we end. The loader takes the agent into every program that the
 * command runs; those that it cannot (static, setuid) are told of.
 */
#include "cli/cmd.h"
#include "cli/race.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define COMMAND "race"
#define AGENT "libtrapline-agent.so"

int race_region_open(const struct race_cli_settings *set, struct race_run *run)
{
	run->region_fd = memfd_create("trapline-race", MFD_CLOEXEC);
	if (run->region_fd < 0 || ftruncate(run->region_fd, sizeof(struct race_region)))
		return cli_wrong(COMMAND, "no memory to share with the program: %s",
				 strerror(errno));
	run->region = mmap(NULL, sizeof(struct race_region), PROT_READ | PROT_WRITE, MAP_SHARED,
			   run->region_fd, 0);
	if (run->region == MAP_FAILED) {
		run->region = NULL;
		return cli_wrong(COMMAND, "no memory to share with the program: %s",
				 strerror(errno));
	}
	run->region->bytes = sizeof(struct race_region);
	run->region->settings.budget_ppm = set->budget_ppm;
	run->region->settings.delay_ns = set->delay_ns;
	run->region->magic = RACE_MAGIC;
	return 0;
}

void race_region_close(struct race_run *run)
{
	if (run->region) {
		/* Processes that go on without us hold nobody any more. */
		__atomic_store_n(&run->region->stop, 1u, __ATOMIC_SEQ_CST);
		munmap(run->region, sizeof(struct race_region));
	}
	if (run->region_fd >= 0)
		close(run->region_fd);
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

static void set_environment(const char *agent, int region_fd)
{
	const char *preload = getenv("LD_PRELOAD");
	const char *options = getenv("TRAPLINE_OPTIONS");
	char text[PATH_MAX + 4096];

	snprintf(text, sizeof(text), "%s%s%s", agent, preload && *preload ? ":" : "",
		 preload ? preload : "");
	setenv("LD_PRELOAD", text, 1);
	snprintf(text, sizeof(text), "race=/proc/%d/fd/%d%s%s", getppid(), region_fd,
		 options && *options ? ":" : "", options ? options : "");
	setenv("TRAPLINE_OPTIONS", text, 1);
}

static void run_child(char **command, const char *agent, int region_fd, int report_fd)
{
	set_environment(agent, region_fd);
	execvp(command[0], command);
	int err = errno;
	ssize_t unused = write(report_fd, &err, sizeof(err));
	(void)unused;
	_exit(127);
}

int race_command_start(const struct race_cli_settings *set, struct race_run *run)
{
	char agent[PATH_MAX + 64];
	int fds[2];
	int err = 0;

	if (find_agent(agent, sizeof(agent)))
		return cli_wrong(COMMAND, "no " AGENT " beside this command nor in %s; name it in "
				 "TRAPLINE_AGENT", TRAPLINE_AGENT_DIR);
	if (pipe2(fds, O_CLOEXEC))
		return cli_wrong(COMMAND, "cannot start %s: %s", set->command[0], strerror(errno));
	fflush(NULL);
	pid_t child = fork();
	if (child == 0)
		run_child(set->command, agent, run->region_fd, fds[1]);
	close(fds[1]);
	if (child < 0)
		err = errno;
	else if (read(fds[0], &err, sizeof(err)) != sizeof(err))
		err = 0;
	close(fds[0]);
	if (err)
		return cli_wrong(COMMAND, "cannot start %s: %s", set->command[0], strerror(err));
	run->pid = child;
	return 0;
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

int race_command_check(const struct race_cli_settings *set)
{
	char path[PATH_MAX];
	struct stat st;

	if (find_program(set->command[0], path, sizeof(path)))
		return 0; /* starting it says why */
	if (is_static(path))
		return cli_wrong(COMMAND, "%s is linked statically: the agent cannot be loaded into "
				 "it, so no race could be found. Link it dynamically", path);
	if (!stat(path, &st) && st.st_mode & (S_ISUID | S_ISGID) && geteuid() != 0)
		return cli_wrong(COMMAND, "%s is setuid or setgid: the loader does not preload into "
				 "it. Run it as its owner", path);
	return 0;
}
