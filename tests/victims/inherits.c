/* SPDX-License-Identifier: MIT */
/*
 * inherits.c - starts itself in each way that libc has, with SIGTRAP blocked and ignored, and with neither. The started
 * one prints what it has.
 */
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int tell_inherited(const char *way)
{
	struct sigaction action;
	sigset_t set;

	sigprocmask(SIG_SETMASK, NULL, &set);
	sigaction(SIGTRAP, NULL, &action);
	printf("by %s: blocked %d, ignored %d\n", way, sigismember(&set, SIGTRAP),
	       action.sa_handler == SIG_IGN);
	return 0;
}

static const char *const starts[] = { "execve", "execv", "execvp", "execl", "execlp", "fexecve", "vfork",
				      "posix_spawn", "posix_spawnp", "system", "popen" };
static char own_path[256];

static void start(size_t way)
{
	char *const argv[] = { own_path, "inherited", (char *)starts[way], NULL };
	char command[512];
	pid_t child;
	FILE *file;

	snprintf(command, sizeof(command), "exec %s inherited %s", own_path, starts[way]);
	switch (way) {
	case 0:
		execve(own_path, argv, environ);
		break;
	case 1:
		execv(own_path, argv);
		break;
	case 2:
		execvp(own_path, argv);
		break;
	case 3:
		execl(own_path, own_path, "inherited", starts[way], NULL);
		break;
	case 4:
		execlp(own_path, own_path, "inherited", starts[way], NULL);
		break;
	case 5:
		fexecve(open(own_path, O_RDONLY), argv, environ);
		break;
	case 6:
		child = vfork();
		if (!child)
			execve(own_path, argv, environ);
		waitpid(child, NULL, 0);
		break;
	case 7:
	case 8:
		if (!(way == 7 ? posix_spawn : posix_spawnp)(&child, own_path, NULL, NULL, argv, environ))
			waitpid(child, NULL, 0);
		break;
	case 9:
		system(command);
		break;
	default:
		file = popen(command, "w");
		if (file)
			pclose(file);
	}
}

int main(int argc, char **argv)
{
	sigset_t trap;

	if (argc == 3)
		return tell_inherited(argv[2]);
	sigemptyset(&trap);
	sigaddset(&trap, SIGTRAP);
	const ssize_t n = readlink("/proc/self/exe", own_path, sizeof(own_path) - 1);

	own_path[n < 0 ? 0 : n] = '\0';
	for (size_t way = 0; way < 2 * sizeof(starts) / sizeof(starts[0]); way++) {
		const pid_t child = fork();

		if (child) {
			waitpid(child, NULL, 0);
			continue;
		}
		/* First with both, then with none. */
		if (way < sizeof(starts) / sizeof(starts[0])) {
			signal(SIGTRAP, SIG_IGN);
			sigprocmask(SIG_BLOCK, &trap, NULL);
		}
		start(way % (sizeof(starts) / sizeof(starts[0])));
		_exit(0);
	}
	return 0;
}
