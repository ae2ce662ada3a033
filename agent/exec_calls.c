/* SPDX-License-Identifier: MIT */
/*
 * exec_calls.c - calls that start a program, which gets from this one what the program believes
 * that it has: signals that are ignored, and those that are blocked (guest/signals.c). In each
 * object that keeps signals.
 *
 * In a process that ran before, the jump in execve() is also reached by libc's own calls.
 */
#include <alloca.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/guard/guard_next.h"
#include "guest/exec_begins.h"
#include "guest/signals.h"

GUARD(int, execve, (const char *path, char *const argv[], char *const envp[]))
{
	struct signals_exec before;

	NEXT(execve);
	EXEC_BEGINS("execve", next_execve, argv, envp, 1);
	signals_before_exec(&before);
	int result = next_execve(path, argv, envp);
	signals_after_exec(&before);
	return result;
}

GUARD(int, execveat, (int fd, const char *path, char *const argv[], char *const envp[], int flags))
{
	struct signals_exec before;

	NEXT(execveat);
	EXEC_BEGINS("execveat", next_execveat, argv, envp, 1);
	signals_before_exec(&before);
	int result = next_execveat(fd, path, argv, envp, flags);
	signals_after_exec(&before);
	return result;
}

GUARD(int, fexecve, (int fd, char *const argv[], char *const envp[]))
{
	struct signals_exec before;

	NEXT(fexecve);
	EXEC_BEGINS("fexecve", next_fexecve, argv, envp, 1);
	signals_before_exec(&before);
	int result = next_fexecve(fd, argv, envp);
	signals_after_exec(&before);
	return result;
}

#ifndef GUARD_ATTACHED

GUARD(int, execvpe, (const char *file, char *const argv[], char *const envp[]))
{
	struct signals_exec before;

	NEXT(execvpe);
	EXEC_BEGINS("execvpe", next_execvpe, NULL, envp, 1);
	signals_before_exec(&before);
	int result = next_execvpe(file, argv, envp);
	signals_after_exec(&before);
	return result;
}

GUARD(int, execv, (const char *path, char *const argv[]))
{
	return execve(path, argv, environ);
}

GUARD(int, execvp, (const char *file, char *const argv[]))
{
	return execvpe(file, argv, environ);
}

/* The arguments from first to NULL, as an array of the caller's. */
static size_t count_list(va_list *args)
{
	size_t n = 2;

	while (va_arg(*args, char *))
		n++;
	return n;
}

static void fill_list(char **argv, const char *first, va_list *args)
{
	*argv = (char *)(uintptr_t)first;
	while (*argv)
		*++argv = va_arg(*args, char *);
}

#define LIST(argv, first, args)                      \
	va_list args;                                \
	va_start(args, first);                       \
	size_t count = count_list(&args);            \
	va_end(args);                                \
	char **argv = alloca(count * sizeof(*argv)); \
	va_start(args, first);                       \
	fill_list(argv, first, &args)

GUARD(int, execl, (const char *path, const char *first, ...))
{
	LIST(argv, first, args);
	va_end(args);
	return execve(path, argv, environ);
}

GUARD(int, execlp, (const char *file, const char *first, ...))
{
	LIST(argv, first, args);
	va_end(args);
	return execvpe(file, argv, environ);
}

GUARD(int, execle, (const char *path, const char *first, ...))
{
	LIST(argv, first, args);
	char **envp = va_arg(args, char **);
	va_end(args);
	return execve(path, argv, envp);
}

GUARD(int, posix_spawn,
      (pid_t * pid, const char *path, const posix_spawn_file_actions_t *files,
       const posix_spawnattr_t *attributes, char *const argv[], char *const envp[]))
{
	struct signals_exec before;

	NEXT(posix_spawn);
	EXEC_BEGINS("posix_spawn", next_posix_spawn, NULL, envp, 0);
	signals_before_spawn(&before);
	int result = next_posix_spawn(pid, path, files, attributes, argv, envp);
	signals_after_exec(&before);
	return result;
}

GUARD(int, posix_spawnp,
      (pid_t * pid, const char *file, const posix_spawn_file_actions_t *files,
       const posix_spawnattr_t *attributes, char *const argv[], char *const envp[]))
{
	struct signals_exec before;

	NEXT(posix_spawnp);
	EXEC_BEGINS("posix_spawnp", next_posix_spawnp, NULL, envp, 0);
	signals_before_spawn(&before);
	int result = next_posix_spawnp(pid, file, files, attributes, argv, envp);
	signals_after_exec(&before);
	return result;
}

GUARD(int, system, (const char *command))
{
	struct signals_exec before;

	NEXT(system);
	EXEC_BEGINS("system", next_system, NULL, environ, 0);
	signals_before_spawn(&before);
	int result = next_system(command);
	signals_after_exec(&before);
	return result;
}

GUARD(FILE *, popen, (const char *command, const char *mode))
{
	struct signals_exec before;

	NEXT(popen);
	EXEC_BEGINS("popen", next_popen, NULL, environ, 0);
	signals_before_spawn(&before);
	FILE *result = next_popen(command, mode);
	signals_after_exec(&before);
	return result;
}

#endif
