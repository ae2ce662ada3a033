/* SPDX-License-Identifier: MIT */
/*
 * test_own_table.c - descriptors in a table that no thread of the program has: each thread may use them, none can
 * close them, and the lowest free number is the program's. TAP.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/own_fd.h"
#include "base/sys.h"
#include "guest/own_table.h"
#include "trap/foreign.h"

/* What the handler of SIGTRAP does with a sent one is not tested here. */
void foreign_keep_sent(int keeps)
{
	(void)keeps;
}

#define THREADS 8
#define ROUNDS 400
#define JUMPS 200

static int count;

static void say(int ok, const char *name)
{
	printf("%sok %d - %s\n", ok ? "" : "not ", ++count, name);
}

static int keep_file(void)
{
	return own_fd_keep(SYS_memfd_create, (long)(uintptr_t) "kept", 0, 0, 0, 0);
}

static int holds(int fd, const char *text)
{
	char found[16] = "";

	return sys_of_fd(SYS_pread64, fd, found, sizeof(found) - 1, 0, 0) == (long)strlen(text) &&
	       !strcmp(found, text);
}

static int lowest(void)
{
	const int fd = open("/", O_RDONLY);

	close(fd);
	return fd;
}

static void test_use(void)
{
	const int before = lowest();
	const int fd = keep_file();

	say(fd >= OWN_FD_FAR && lowest() == before, "the lowest free number is the program's");
	say(sys_of_fd(SYS_pwrite64, fd, "text", 4, 0, 0) == 4 && holds(fd, "text"), "any thread writes and reads");
	say(fcntl(fd, F_GETFD) < 0 && fcntl(fd & ~OWN_FD_FAR, F_GETFD) < 0, "the program has no such number");
	closefrom(3);
	say(holds(fd, "text"), "closefrom() does not close it");
	void *mapped = (void *)sys_mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	say(mapped != MAP_FAILED && !memcmp(mapped, "text", 4), "it is mapped");
	munmap(mapped, 4096);
	say(!sys_close(fd) && !holds(fd, "text"), "it is closed");
}

static void test_fork(void)
{
	const int fd = keep_file();
	int status = 1;
	const pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

	/* As a program forks that calls the kernel itself: nothing tells us. */
	if (!child) {
		const int own = own_fd_open("/proc/self/stat", O_RDONLY);
		char byte;
		const int is_right = sys_close(fd) == -EBADF && own >= 0 && own < OWN_FD_FAR &&
				     sys_read(own, &byte, 1) == 1;

		_exit(!is_right);
	}
	waitpid(child, &status, 0);
	say(child > 0 && !status, "a forked child has none of it, and waits for no server");
	sys_close(fd);
}

static uint32_t wrong;

static void *use_files(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		const int fd = own_fd_open("/proc/self/stat", O_RDONLY);
		char text[64] = "";

		if (fd < OWN_FD_FAR || sys_read(fd, text, sizeof(text) - 1) <= 0 || atoi(text) != getpid() ||
		    sys_close(fd))
			atomic_add(&wrong, 1u);
	}
	return arg;
}

static void test_threads(void)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, use_files, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	say(!wrong, "many threads ask at once");
}

static sigjmp_buf out;
static volatile sig_atomic_t jumps;

static void jump(int signal)
{
	(void)signal;
	jumps++;
	siglongjmp(out, 1);
}

static long ask_parent(void *arg)
{
	(void)arg;
	return getppid();
}

/* A request that was left behind would be answered into what lies on the stack by then. */
static void test_jumps(void)
{
	const struct itimerval often = { { 0, 300 }, { 0, 300 } }, never = { { 0, 0 }, { 0, 0 } };
	volatile uint32_t before = wrong;

	signal(SIGALRM, jump);
	setitimer(ITIMER_REAL, &often, NULL);
	sigsetjmp(out, 1);
	while (jumps < JUMPS) {
		volatile uint64_t around[64];

		for (int i = 0; i < 64; i++)
			around[i] = 7;
		own_fd_run(ask_parent, NULL);
		for (int i = 0; i < 64; i++)
			wrong += around[i] != 7;
	}
	setitimer(ITIMER_REAL, &never, NULL);
	say(wrong == before, "handlers leave by longjmp() at any moment");
}

static int own_threads(void)
{
	return system("test $(cat /proc/$PPID/task/*/comm | grep -c '^trapline-') = 1");
}

static void test_end(void)
{
	const struct timespec step = { 0, 1000000 };
	const int fd = keep_file();

	own_table_begin();
	own_table_end();
	say(!own_threads() && holds(fd, ""), "it lasts until its last user ends");
	own_table_end();
	for (int i = 0; i < 10000 && own_table_is_open(); i++)
		nanosleep(&step, NULL);
	for (int i = 0; i < 10000 && !own_threads(); i++)
		nanosleep(&step, NULL);
	say(own_threads() && sys_close(fd) == -EBADF, "then no thread and no descriptor is left");
	const int own = own_fd_open("/", O_RDONLY);
	say(own >= 0 && own < OWN_FD_FAR && !sys_close(own), "what is opened now is the program's");
	say(!own_table_begin() && keep_file() >= OWN_FD_FAR, "and it begins again");
	own_table_end();
}

int main(void)
{
	say(!own_table_begin(), "a server begins");
	test_use();
	test_fork();
	test_threads();
	test_jumps();
	test_end();
	printf("1..%d\n", count);
	return 0;
}
