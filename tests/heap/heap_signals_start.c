/* SPDX-License-Identifier: MIT */
/* heap_signals_start.c - what a program that is started gets of masks and of signals that are ignored. */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "heap_signals.h"

static int is_ignored(int signal)
{
	struct sigaction action;

	sigaction(signal, NULL, &action);
	return action.sa_handler == SIG_IGN;
}

/* The new program, which is sampled too: what it got, as its exit status. */
int show(void)
{
	const int all[] = { SIGSEGV, SIGTRAP, SIGRTMAX, SIGSTKFLT };
	int seen = is_ignored(SIGSEGV) | is_ignored(SIGTRAP) << 1;

	for (int i = 0; i < 4; i++)
		seen |= is_blocked(all[i]) << (i + 2);
	return seen + 10;
}

enum way {
	EXECV,
	EXECVP,
	EXECL,
	EXECLE,
	FEXECVE,
	VFORK,
	SPAWN,
	SPAWNP,
	SYSTEM,
	POPEN,
	WAYS
};

static void exec_by(enum way way)
{
	char *const argv[] = { (char *)(uintptr_t)self, (char *)(uintptr_t) "show", NULL };

	if (way == EXECV || way == VFORK)
		execv(self, argv);
	else if (way == EXECVP)
		execvp(self, argv);
	else if (way == EXECL)
		execl(self, self, "show", NULL);
	else if (way == EXECLE)
		execle(self, self, "show", NULL, environ);
	else
		fexecve(open(self, O_RDONLY), argv, environ);
	_exit(1);
}

static int show_by(enum way way)
{
	char *const argv[] = { (char *)(uintptr_t)self, (char *)(uintptr_t) "show", NULL };
	char line[4200];
	pid_t child = -1;
	int status = -1;

	snprintf(line, sizeof(line), "exec %s show", self);
	if (way == SYSTEM)
		return WEXITSTATUS(system(line));
	if (way == POPEN)
		return WEXITSTATUS(pclose(popen(line, "r")));
	if (way == SPAWN)
		posix_spawn(&child, self, NULL, NULL, argv, environ);
	else if (way == SPAWNP)
		posix_spawnp(&child, self, NULL, NULL, argv, environ);
	else if (!(child = way == VFORK ? vfork() : fork()))
		exec_by(way);
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -status;
}

static void show_all(int expected)
{
	fflush(stdout);
	for (enum way way = 0; way < WAYS; way++) {
		int got = show_by(way);

		if (got != expected + 10) {
			printf("wrong: way %d: %#x instead of %#x\n", way, got - 10, expected);
			failed = 1;
		}
	}
}

void start_handlers(void)
{
	act(SIGSEGV, on_any, 0);
	act(SIGTRAP, on_any, 0);
	show_all(0);
	raise(SIGSEGV);
	raise(SIGTRAP);
	CHECK(entered == 2);
}

void start_ignored(void)
{
	signal(SIGSEGV, SIG_IGN);
	show_all(1);
	signal(SIGTRAP, SIG_IGN);
	show_all(3);
	kill(getpid(), SIGSEGV);
	kill(getpid(), SIGTRAP);
	act(SIGSEGV, on_any, 0);
	show_all(2);
	raise(SIGSEGV);
	CHECK(entered == 1);
}

void start_blocked(void)
{
	change(SIG_BLOCK, SIGSEGV);
	show_all(4);
	change(SIG_BLOCK, SIGTRAP);
	show_all(4 + 8);
	CHECK(is_blocked(SIGSEGV) && is_blocked(SIGTRAP) && !is_blocked(SIGRTMAX));
	change(SIG_UNBLOCK, SIGSEGV);
	show_all(8);
	block_all();
	show_all(4 + 8 + 16 + 32);
	read_freed();
}

void start_failed(void)
{
	char *const argv[] = { (char *)(uintptr_t) "x", NULL };

	signal(SIGTRAP, SIG_IGN);
	block_all();
	CHECK(execv("/nowhere/x", argv) == -1 && errno == ENOENT);
	CHECK(is_blocked(SIGSEGV) && is_blocked(SIGTRAP));
	read_freed();
	for (int i = 0; i < 20; i++)
		beside(20, i & 1 ? 20 : -1);
}
