/* SPDX-License-Identifier: MIT */
/*
 * window_preload.c - preloaded: the whole program runs in windows, from before main() to its end.
 *
 * Threads and children made by pthread_create() and fork() get windows of their own, and their makers go
 * on in a window. At the end a line is appended to $WINDOW_REPORT: why the first thread's window ended, and
 * the sums over all threads.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <trapline/window.h>

#define REPORT_FD 300 /* beyond what a program opens and expects to be the lowest */

static unsigned long instructions, translated, changed, flushes, refused;
static int report = -1;

static void add(unsigned long *sum, unsigned long n)
{
	__atomic_fetch_add(sum, n, __ATOMIC_RELAXED);
}

static unsigned int gather(void)
{
	struct trapline_window_stats stats = { .size = sizeof(stats) };

	trapline_window_end();
	if (trapline_window_stats(&stats))
		return 0;
	add(&instructions, stats.instructions);
	add(&translated, stats.translated);
	add(&changed, stats.changed);
	add(&flushes, stats.flushes);
	if (stats.reason == TRAPLINE_WINDOW_INSTRUCTION)
		add(&refused, 1);
	return stats.reason;
}

static int on_block(uint64_t pc, uint32_t insns, const uint64_t *regs, void *arg)
{
	return 0;
}

static int on_access(uint64_t pc, uint64_t address, uint32_t bytes, uint32_t access,
		     const uint64_t *regs, void *arg)
{
	return 0;
}

static void start(void)
{
	const char *hook = getenv("WINDOW_HOOK");
	struct trapline_window_opts opts = {
		.size = sizeof(opts),
		.flags = TRAPLINE_WINDOW_BLOCKS | TRAPLINE_WINDOW_GENERAL,
	};

	if (hook && !strcmp(hook, "block"))
		opts.on_block = on_block;
	if (hook && !strcmp(hook, "access"))
		opts.on_access = on_access;
	trapline_window(&opts);
}

struct begin {
	void *(*run)(void *);
	void *arg;
};

static void *run_thread(void *arg)
{
	struct begin begin = *(struct begin *)arg;

	free(arg);
	start();
	void *result = begin.run(begin.arg);
	gather();
	return result;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
		(int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *),
			 void *))dlsym(RTLD_NEXT, "pthread_create");
	struct begin *begin = malloc(sizeof(*begin));

	begin->run = run;
	begin->arg = arg;
	gather();
	int err = next(thread, attr, run_thread, begin);
	start();
	return err;
}

pid_t fork(void)
{
	pid_t (*next)(void) = (pid_t(*)(void))dlsym(RTLD_NEXT, "fork");

	gather();
	pid_t pid = next();
	if (!pid)
		instructions = translated = changed = flushes = refused = 0;
	start();
	return pid;
}

/* Before the program may shut itself in, as xz does with Landlock: it opens no file after that. */
static void open_report(void)
{
	const char *path = getenv("WINDOW_REPORT");
	int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;

	report = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, REPORT_FD);
	close(fd);
}

static __attribute__((constructor)) void begin_program(void)
{
	open_report();
	start();
}

static __attribute__((destructor)) void end_program(void)
{
	char line[256];
	const unsigned int reason = gather();

	if (report < 0)
		return;
	int n = snprintf(
		line, sizeof(line),
		"%s reason=%u instructions=%lu translated=%lu changed=%lu flushes=%lu refused=%lu\n",
		program_invocation_short_name, reason, instructions, translated, changed, flushes,
		refused);
	if (write(report, line, (size_t)n) != n)
		_exit(99);
}
