/* SPDX-License-Identifier: MIT */
/*
 * interrupted.c - calls that a signal ends, calls that go on after one, and calls that none reaches: in time,
 * with the error that the kernel gives. See guest.h.
 */
#include "guest.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static int pipes[2], full[2], sockets[2], listener, poller, queue, semaphores, locked;
static sem_t semaphore;
static pid_t child, leader;
static volatile int handled, is_back, handler;
static char name[] = "/tmp/trapline-guest-XXXXXX";

static void on_signal(int signal)
{
	(void)signal;
	handled++;
	handler = (int)syscall(SYS_gettid);
}

/* ---- the calls; each waits for ever ---- */

static long by_read(void)
{
	char c;

	return read(pipes[0], &c, 1);
}

static long by_write(void)
{
	return write(full[1], "x", 1);
}

static long by_recv(void)
{
	char c;

	return recv(sockets[0], &c, 1, 0);
}

static long by_accept(void)
{
	return accept(listener, NULL, NULL);
}

static long by_select(void)
{
	fd_set set;

	FD_ZERO(&set);
	FD_SET(pipes[0], &set);
	return select(pipes[0] + 1, &set, NULL, NULL, NULL);
}

static long by_poll(void)
{
	struct pollfd p = { .fd = pipes[0], .events = POLLIN };

	return poll(&p, 1, -1);
}

static long by_epoll(void)
{
	struct epoll_event event;

	return epoll_wait(poller, &event, 1, -1);
}

static long by_nanosleep(void)
{
	struct timespec t = { 1000, 0 };

	return nanosleep(&t, &t);
}

static long by_sem(void)
{
	return sem_wait(&semaphore);
}

static long by_msgrcv(void)
{
	char message[64];

	return msgrcv(queue, message, 8, 0, 0);
}

static long by_semop(void)
{
	struct sembuf op = { .sem_op = -1 };

	return semop(semaphores, &op, 1);
}

static long by_waitpid(void)
{
	return waitpid(child, NULL, 0);
}

static long by_pause(void)
{
	return pause();
}

static long by_flock(void)
{
	return flock(locked, LOCK_EX);
}

static long by_setlkw(void)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	return fcntl(locked, F_SETLKW, &lock);
}

static const struct {
	const char *name;
	long (*wait)(void);
	int number[2]; /* of the system call */
} calls[] = {
	{ "read", by_read, { SYS_read } },
	{ "write", by_write, { SYS_write } },
	{ "recv", by_recv, { SYS_recvfrom } },
	{ "accept", by_accept, { SYS_accept } },
	{ "select", by_select, { SYS_pselect6, SYS_select } },
	{ "poll", by_poll, { SYS_poll } },
	{ "epoll", by_epoll, { SYS_epoll_wait } },
	{ "nanosleep", by_nanosleep, { SYS_nanosleep, SYS_clock_nanosleep } },
	{ "sem", by_sem, { SYS_futex } },
	{ "msgrcv", by_msgrcv, { SYS_msgrcv } },
	{ "semop", by_semop, { SYS_semop, SYS_semtimedop } },
	{ "waitpid", by_waitpid, { SYS_wait4 } },
	{ "pause", by_pause, { SYS_pause } },
	{ "flock", by_flock, { SYS_flock } },
	{ "setlkw", by_setlkw, { SYS_fcntl } },
};

/* ---- a child that lives for ever, and keeps the locks ---- */

static void keep_locks(void)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	const int own = open(name, O_RDWR);

	flock(own, LOCK_EX);
	fcntl(own, F_SETLK, &lock);
	if (write(pipes[1], "x", 1) != 1)
		_exit(1);
	while (getppid() == leader)
		usleep(20000);
	_exit(0);
}

static int prepare(long which)
{
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sigaction action = { .sa_handler = on_signal };
	struct epoll_event event = { .events = EPOLLIN };
	const int file = mkstemp(name);
	char c;

	(void)which;
	leader = getpid();
	queue = msgget(IPC_PRIVATE, 0600);
	semaphores = semget(IPC_PRIVATE, 1, 0600);
	listener = socket(AF_INET, SOCK_STREAM, 0);
	poller = epoll_create1(0);
	if (file < 0 || queue < 0 || semaphores < 0 || listener < 0 || poller < 0 || pipe(pipes) ||
	    pipe(full) || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
		return 77;
	sem_init(&semaphore, 0, 0);
	bind(listener, (struct sockaddr *)&any, sizeof(any));
	listen(listener, 1);
	fcntl(full[1], F_SETFL, O_NONBLOCK);
	while (write(full[1], name, sizeof(name)) > 0)
		;
	while (write(full[1], name, 1) > 0)
		;
	fcntl(full[1], F_SETFL, 0);
	child = fork();
	if (!child)
		keep_locks();
	if (read(pipes[0], &c, 1) != 1)
		return 77;
	locked = open(name, O_RDWR);
	unlink(name);
	epoll_ctl(poller, EPOLL_CTL_ADD, pipes[0], &event);
	sigaction(SIGUSR1, &action, NULL);
	sigaction(SIGALRM, &action, NULL);
	return 0;
}

static void release(long which)
{
	(void)which;
	msgctl(queue, IPC_RMID, NULL);
	semctl(semaphores, 0, IPC_RMID);
	kill(child, SIGKILL);
}

/* ---- one signal, when the first thread waits in that call ---- */

static int waits_in(long which)
{
	char path[64], text[64] = "";

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", leader);
	const int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return 1;
	if (read(fd, text, sizeof(text) - 1) < 0)
		text[0] = 0;
	close(fd);
	const int number = atoi(text);

	return text[0] >= '0' && text[0] <= '9' &&
	       (number == calls[which].number[0] || (number && number == calls[which].number[1]));
}

static long which_call;

static void *send_one(void *arg)
{
	const pthread_t to = *(pthread_t *)arg;
	double end = now() + PATIENCE;
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	while (!waits_in(which_call) && now() < end)
		usleep(500);
	/* By turns to the process, which gives it to its first thread if that can take it. */
	if (control->rounds % 2)
		kill(leader, SIGUSR1);
	else
		pthread_kill(to, SIGUSR1);
	for (end = now() + PATIENCE; !is_back && now() < end;)
		usleep(500);
	if (is_back)
		return NULL;
	printf("%s\n", wrong("%s() goes on after the signal, which was handled %d times, %s",
			     calls[which_call].name, handled,
			     handler == leader ? "in its thread" : "in another thread"));
	fflush(stdout);
	release(0);
	_exit(1);
}

static const char *end_one(long which)
{
	pthread_t thread, self = pthread_self();

	is_back = 0;
	handled = 0;
	which_call = which;
	if (pthread_create(&thread, NULL, send_one, &self))
		return NULL;
	const long result = calls[which].wait();
	const int error = errno;

	is_back = 1;
	pthread_join(thread, NULL);
	EXPECT(result < 0 && error == EINTR, "%s() returned %ld, %s", calls[which].name, result, strerror(error));
	EXPECT(handled == 1, "%s(): the signal was handled %d times", calls[which].name, handled);
	return NULL;
}

static const char *end_by_signal(long first)
{
	const char *what = NULL;

	for (long which = first; which < first + 5 && !what; which++)
		what = end_one(which);
	return what;
}

/* ---- with SA_RESTART it goes on ---- */

static int prepare_restart(long which)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	const int status = prepare(which);

	sigaction(SIGUSR1, &action, NULL);
	return status;
}

static void *signal_and_write(void *arg)
{
	for (double end = now() + PATIENCE; !waits_in(0) && now() < end;)
		usleep(500);
	pthread_kill(*(pthread_t *)arg, SIGUSR1);
	usleep(3000);
	if (write(pipes[1], "y", 1) != 1)
		wrong("cannot write to a pipe");
	return NULL;
}

static const char *restart(long arg)
{
	pthread_t thread, self = pthread_self();
	char c = 0;

	(void)arg;
	handled = 0;
	if (pthread_create(&thread, NULL, signal_and_write, &self))
		return NULL;
	const ssize_t n = read(pipes[0], &c, 1);

	pthread_join(thread, NULL);
	EXPECT(n == 1 && c == 'y', "read() with SA_RESTART returned %zd", n);
	EXPECT(handled == 1, "the signal was handled %d times", handled);
	return NULL;
}

/* ---- without a signal: the whole time, and no EINTR ---- */

static const char *wait_whole(const char *call, long result, int error, double begun)
{
	/* The kernel rounds a timeout of some calls down to its clock. */
	EXPECT(now() - begun > 0.0099, "%s ended after %.4f of 0.01 s", call, now() - begun);
	EXPECT(result >= 0 || error == ETIMEDOUT || error == EAGAIN, "%s: %s", call, strerror(error));
	return NULL;
}

static const char *end_in_time(long arg)
{
	struct timespec t = { 0, 10000000 }, until;
	struct pollfd p = { .fd = pipes[0], .events = POLLIN };
	struct epoll_event event;
	struct sembuf op = { .sem_op = -1 };
	const char *what = NULL;
	sigset_t none;
	double begun = now();

	(void)arg;
	sigemptyset(&none);
	sigaddset(&none, SIGRTMIN);
	what = wait_whole("poll()", poll(&p, 1, 10), errno, begun);
	begun = now();
	what = what ? what : wait_whole("epoll_wait()", epoll_wait(poller, &event, 1, 10), errno, begun);
	begun = now();
	what = what ? what : wait_whole("nanosleep()", nanosleep(&t, NULL), errno, begun);
	begun = now();
	what = what ? what : wait_whole("sigtimedwait()", sigtimedwait(&none, NULL, &t), errno, begun);
	begun = now();
	what = what ? what : wait_whole("semtimedop()", semtimedop(semaphores, &op, 1, &t), errno, begun);
	begun = now();
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += 12000000;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	return what ? what : wait_whole("sem_timedwait()", sem_timedwait(&semaphore, &until), errno, begun);
}

#define ROW(name, index) { "eintr_" name, end_by_signal, index, 0, prepare, release }

const struct behaviour behaviours[] = {
	ROW("io", 0), ROW("wait", 5), ROW("ipc", 10),
	{ "restart", restart, 0, 0, prepare_restart, release },
	{ "timeouts", end_in_time, 0, 0, prepare, release },
	{},
};
