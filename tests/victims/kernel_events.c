/* SPDX-License-Identifier: MIT */
/*
 * kernel_events.c WHAT - a program for events of the kernel.
 *
 *	closes		a thread closes the descriptor of another one, which closes it again
 *	calls N		N calls of close(2) with a wrong descriptor
 *	opens		opens a file that is there, and one that is not
 *	pipes		makes descriptors in all ways
 *	children	forks three children: one ends, one is killed, one executes a program
 *	threads		threads end one by one, the first one first
 *	loops		opens a file and closes it, until it is killed
 *	waits		ignores SIGTERM until it is killed
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))
#define SHARED 77

NOINLINE static int pool_evict(int fd)
{
	int err = close(fd);

	__asm__ volatile("" ::: "memory");
	return err;
}

NOINLINE static int conn_finish(int fd)
{
	int err = close(fd);

	__asm__ volatile("" ::: "memory");
	return err;
}

static void *evictor(void *arg)
{
	pool_evict(SHARED);
	return arg;
}

static int closes(void)
{
	char byte;
	pthread_t thread;
	int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);

	dup2(fd, SHARED);
	close(fd);
	if (read(SHARED, &byte, 1) != 1)
		return 1;
	pthread_create(&thread, NULL, evictor, NULL);
	pthread_join(thread, NULL);
	return conn_finish(SHARED) == 0;
}

NOINLINE static int calls(long n)
{
	for (long i = 0; i < n; i++)
		close(1000 + (int)(i % 4));
	return 0;
}

static int opens(void)
{
	static char path[] = "/nonexistent/file";

	if (open("/dev/null", O_RDWR | O_CLOEXEC) < 0)
		return 1;
	return open(path, O_WRONLY | O_CREAT | O_TRUNC, 0640) >= 0;
}

/* Each makes the lowest free number and the next one. */
static int pipes(void)
{
	int pair[2];
	int low = dup(0);

	close(low);
	printf("%d\n", low);
	fflush(stdout);
	if (pipe(pair))
		return 1;
	close(pair[0]);
	close(pair[1]);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		return 1;
	close(pair[0]);
	close(pair[1]);
	close(epoll_create1(0));
	close(fcntl(0, F_DUPFD, 0));
	close(dup3(0, low, O_CLOEXEC));
	return (int)syscall(SYS_close_range, low - 0u, low + 3u, 0);
}

NOINLINE static int children(void)
{
	int status;

	for (int i = 0; i < 3; i++) {
		pid_t pid = fork();

		if (pid == 0 && i == 0)
			exit(5);
		if (pid == 0 && i == 1)
			raise(SIGKILL);
		if (pid == 0)
			execl("/bin/true", "true", (char *)NULL);
		if (pid < 0 || waitpid(pid, &status, 0) != pid)
			return 1;
	}
	return 0;
}

static void *last(void *arg)
{
	usleep(50000);
	return arg;
}

__attribute__((noreturn)) static void threads(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, last, NULL);
	pthread_detach(thread);
	pthread_exit(NULL);
}

__attribute__((noreturn)) static void loops(void)
{
	for (;;) {
		close(open("/dev/null", O_RDONLY | O_CLOEXEC));
		usleep(2000);
	}
}

__attribute__((noreturn)) static void waits(void)
{
	signal(SIGTERM, SIG_IGN);
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "closes"))
		return closes();
	if (!strcmp(what, "calls"))
		return calls(argc > 2 ? atol(argv[2]) : 1);
	if (!strcmp(what, "opens"))
		return opens();
	if (!strcmp(what, "pipes"))
		return pipes();
	if (!strcmp(what, "children"))
		return children();
	if (!strcmp(what, "threads"))
		threads();
	if (!strcmp(what, "loops"))
		loops();
	waits();
}
