// SPDX-License-Identifier: MIT
/*
 * heap_calls.c - errors that the kernel makes for the program, in its system calls, which succeed all
 * the same; and errors in signal handlers, threads and forked children.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "heap_cases.h"

static int zero_fd(void)
{
	static int fd = -1;

	if (fd < 0)
		fd = open("/dev/zero", O_RDWR | O_CLOEXEC);
	return fd;
}

static int null_fd(void)
{
	static int fd = -1;

	if (fd < 0)
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	return fd;
}

static void socket_pair(int fds[2])
{
	heap_require(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), "socketpair");
}

static void call_read_over(int bad)
{
	char *p = malloc(32);
	int want = 32 + 8 * bad;

	heap_require(read(zero_fd(), hide(p), want) == want, "read gives all");
	free(p);
}

static void call_write_over(int bad)
{
	int pipes[2];
	char *p = calloc(1, 32);
	int want = 32 + 8 * bad;

	heap_require(!pipe(pipes), "pipe");
	heap_require(write(pipes[1], hide(p), want) == want, "write takes all");
	close(pipes[0]);
	close(pipes[1]);
	free(p);
}

static void call_read_freed(int bad)
{
	char *p = malloc(40);

	if (bad)
		free(p);
	heap_require(read(zero_fd(), hide(p), 40) == 40, "read into a freed block gives all");
	if (!bad)
		free(p);
}

static void call_write_freed(int bad)
{
	int pipes[2];
	char *p = calloc(1, 40);

	heap_require(!pipe(pipes), "pipe");
	if (bad)
		free(p);
	heap_require(write(pipes[1], hide(p), 40) == 40, "write of a freed block takes all");
	if (!bad)
		free(p);
	close(pipes[0]);
	close(pipes[1]);
}

static void call_pread_over(int bad)
{
	char *p = malloc(64);

	heap_require(pread(zero_fd(), hide(p), 64 + bad, 0) == 64 + bad, "pread gives all");
	free(p);
}

static void call_writev_freed(int bad)
{
	char *p = calloc(1, 40);
	char other[8] = "";
	struct iovec parts[2] = { { other, sizeof(other) }, { p, 40 } };

	if (bad)
		free(p);
	int pipes[2];
	heap_require(!pipe(pipes), "pipe");
	heap_require(writev(pipes[1], hide(parts), 2) == 48, "writev takes all");
	close(pipes[0]);
	close(pipes[1]);
	if (!bad)
		free(p);
}

static void call_send_freed(int bad)
{
	int fds[2];
	char *p = calloc(1, 40);

	socket_pair(fds);
	if (bad)
		free(p);
	heap_require(send(fds[0], hide(p), 40, 0) == 40, "send takes all");
	if (!bad)
		free(p);
	close(fds[0]);
	close(fds[1]);
}

static void call_recv_over(int bad)
{
	int fds[2];
	char bytes[48] = "";
	char *p = malloc(32);
	int want = 32 + 16 * bad;

	socket_pair(fds);
	heap_require(send(fds[0], bytes, want, 0) == want, "send takes all");
	heap_require(recv(fds[1], hide(p), want, 0) == want, "recv gives all");
	free(p);
	close(fds[0]);
	close(fds[1]);
}

/* A path. */
static void call_stat_freed(int bad)
{
	struct stat st;
	char *p = malloc(40);

	strcpy(p, "/dev/null");
	if (bad)
		free(p);
	heap_require(!stat(hide(p), &st), "stat of a path that is freed");
	if (!bad)
		free(p);
}

static void call_open_freed(int bad)
{
	char *p = malloc(40);

	strcpy(p, "/dev/null");
	if (bad)
		free(p);
	int fd = open(hide(p), O_RDONLY | O_CLOEXEC);

	heap_require(fd >= 0, "open of a path that is freed");
	close(fd);
	if (!bad)
		free(p);
}

/* A result. */
static void call_fstat_freed(int bad)
{
	struct stat *p = malloc(sizeof(*p));

	if (bad)
		free(p);
	heap_require(!fstat(null_fd(), hide(p)), "fstat into a freed block");
	if (!bad)
		free(p);
}

/* Buffered: stdio writes a large block by itself. */
static void call_fwrite_freed(int bad)
{
	FILE *f = fopen("/dev/null", "w");
	char *p = calloc(1, 6000);

	if (bad)
		free(p);
	heap_require(fwrite(hide(p), 1, 6000, f) == 6000, "fwrite takes all");
	if (!bad)
		free(p);
	fclose(f);
}

/* A call that fails, fails as before: no memory is there, whatever the heap is. */
static void call_faults(int bad)
{
	(void)bad;
	errno = 0;
	heap_require(write(-1, "x", 1) == -1 && errno == EBADF, "a wrong descriptor is told");
	int pipes[2];
	heap_require(!pipe(pipes), "pipe");
	errno = 0;
	heap_require(write(pipes[1], hide((void *)8), 8) == -1 && errno == EFAULT,
		     "a wild pointer is told");
	close(pipes[0]);
	close(pipes[1]);
}

/* --- in a handler, a thread, a child --- */

static char *volatile handled;

static void signal_read(int number)
{
	(void)number;
	get((char *)handled + 4);
}

static void signal_freed(int bad)
{
	struct sigaction action = { .sa_handler = signal_read };
	struct sigaction before;
	char *p = calloc(1, 40);

	sigaction(SIGUSR1, &action, &before);
	handled = p;
	if (bad)
		free(p);
	raise(SIGUSR1);
	if (!bad)
		free(p);
	sigaction(SIGUSR1, &before, NULL);
}

/* On a stack of its own, with all signals blocked: what reports must not need either. */
static void signal_stack(int bad)
{
	struct sigaction action = { .sa_handler = signal_read, .sa_flags = SA_ONSTACK };
	struct sigaction before;
	stack_t old;
	stack_t own = { .ss_size = 64 << 10 };
	char *p = calloc(1, 40);

	own.ss_sp = malloc(own.ss_size);
	sigfillset(&action.sa_mask);
	sigaltstack(&own, &old);
	sigaction(SIGUSR1, &action, &before);
	handled = p;
	if (bad)
		free(p);
	raise(SIGUSR1);
	if (!bad)
		free(p);
	sigaction(SIGUSR1, &before, NULL);
	sigaltstack(&old, NULL);
	free(own.ss_sp);
}

/* All signals of the thread are blocked, SIGSEGV too. */
static void signal_blocked(int bad)
{
	sigset_t all;
	sigset_t before;
	char *p = calloc(1, 40);

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	if (bad)
		free(p);
	get(p + 12);
	if (!bad)
		free(p);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void *thread_write(void *p)
{
	put_long((char *)p + 8, 1);
	return NULL;
}

static void thread_freed(int bad)
{
	pthread_t thread;
	char *p = calloc(1, 40);

	if (bad)
		free(p);
	pthread_create(&thread, NULL, thread_write, p);
	pthread_join(thread, NULL);
	if (!bad)
		free(p);
}

static void *thread_small_in(void *bad)
{
	char *p = malloc(48);

	put(p + 47 + (bad != NULL), 'x');
	free(p);
	return NULL;
}

/* The smallest stack that a thread can have. */
static void thread_small(int bad)
{
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 16384);
	heap_require(!pthread_create(&thread, &attr, thread_small_in, bad ? &thread : NULL),
		     "pthread_create");
	pthread_join(thread, NULL);
	pthread_attr_destroy(&attr);
}

static void child_freed(int bad)
{
	char *p = calloc(1, 40);
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		if (bad)
			free(p);
		get(p + 8);
		_exit(3);
	}
	heap_require(waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
			     WEXITSTATUS(status) == 3,
		     "the child goes on after its error");
	get(p + 8); /* the parent's block is there still */
	free(p);
}

/* What the parent freed before. */
static void child_freed_before(int bad)
{
	char *p = calloc(1, 40);
	int status = -1;

	if (bad)
		free(p);
	pid_t pid = fork();
	if (pid == 0) {
		get(p + 8);
		_exit(3);
	}
	heap_require(waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
			     WEXITSTATUS(status) == 3,
		     "the child goes on after its error");
	if (!bad)
		free(p);
}

#define CALL(n, k, a, o, b)                    \
	{                                      \
#n, n, k, a, "A", ANY, o, b, 0 \
	}

const struct heap_case heap_case_calls[] = {
	CALL(call_read_over, "overflow", "write", ANY, 32),
	CALL(call_write_over, "overflow", "read", ANY, 32),
	CALL(call_read_freed, "use-after-free", "write", ANY, 40),
	CALL(call_write_freed, "use-after-free", "read", ANY, 40),
	CALL(call_pread_over, "overflow", "write", ANY, 64),
	CALL(call_writev_freed, "use-after-free", "read", ANY, 40),
	CALL(call_send_freed, "use-after-free", "read", ANY, 40),
	CALL(call_recv_over, "overflow", "write", ANY, 32),
	CALL(call_stat_freed, "use-after-free", "read", ANY, 40),
	CALL(call_open_freed, "use-after-free", "read", ANY, 40),
	CALL(call_fstat_freed, "use-after-free", "write", ANY, sizeof(struct stat)),
	CALL(call_fwrite_freed, "use-after-free", "read", ANY, 6000),
	{ "call_faults", call_faults, NULL, NULL, NULL, 0, 0, 0, 0 },
	CALL(signal_freed, "use-after-free", "read", 4, 40),
	CALL(signal_stack, "use-after-free", "read", 4, 40),
	CALL(signal_blocked, "use-after-free", "read", 12, 40),
	CALL(thread_freed, "use-after-free", "write", 8, 40),
	CALL(thread_small, "overflow", "write", 48, 48),
	CALL(child_freed, "use-after-free", "read", 8, 40),
	CALL(child_freed_before, "use-after-free", "read", 8, 40),
	{ NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0 },
};
