/* SPDX-License-Identifier: MIT */
/*
 * waits.c - one thread that waits in one system call, and tells what came of it.
 *
 *     waits CALL SECONDS [interrupted | moved]
 *
 * Prints `CALL RESULT ERRNO MILLISECONDS`. With "interrupted" a handler without SA_RESTART runs
 * after three quarters of the time. With "moved" a child waits that has moved to another CPU since it
 * began to; its process ID is printed before, or "none". Without arguments the names of the calls are
 * printed.
 */
#include <errno.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct timespec span;	 /* for how long to wait */
static struct timespec deadline; /* by CLOCK_MONOTONIC */
static struct timespec real_deadline;

static struct timespec later(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	t.tv_sec += span.tv_sec + (t.tv_nsec + span.tv_nsec) / 1000000000;
	t.tv_nsec = (t.tv_nsec + span.tv_nsec) % 1000000000;
	return t;
}

static int milliseconds(void)
{
	return (int)(span.tv_sec * 1000 + span.tv_nsec / 1000000);
}

static void on_signal(int number)
{
}

/* A handler, without SA_RESTART, after these milliseconds. */
static void be_interrupted(int number, int ms)
{
	struct sigaction action = { .sa_handler = on_signal };
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = number };
	struct itimerspec when = { { 0, 0 }, { ms / 1000, ms % 1000 * 1000000L } };
	timer_t timer;

	sigaction(number, &action, NULL);
	timer_create(CLOCK_MONOTONIC, &event, &timer);
	timer_settime(timer, 0, &when, NULL);
}

static int timer_descriptor(void)
{
	struct itimerspec when = { { 0, 0 }, span };
	int fd = timerfd_create(CLOCK_MONOTONIC, 0);

	timerfd_settime(fd, 0, &when, NULL);
	return fd;
}

static int one_pair[2];

static int socket_with_timeout(int option)
{
	struct timeval timeout = { span.tv_sec, span.tv_nsec / 1000 };

	socketpair(AF_UNIX, SOCK_STREAM, 0, one_pair);
	setsockopt(one_pair[0], SOL_SOCKET, option, &timeout, sizeof(timeout));
	return one_pair[0];
}

static long wait_nanosleep(void)
{
	return nanosleep(&span, NULL);
}

static long wait_nanosleep_rest(void)
{
	struct timespec rest;

	return nanosleep(&span, &rest);
}

static long wait_sleep(void)
{
	return sleep((unsigned int)span.tv_sec) != 0;
}

static long wait_clock_nanosleep(void)
{
	return clock_nanosleep(CLOCK_MONOTONIC, 0, &span, NULL);
}

static long wait_clock_nanosleep_until(void)
{
	return clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &real_deadline, NULL);
}

static long wait_poll(void)
{
	return poll(NULL, 0, milliseconds());
}

static long wait_ppoll(void)
{
	sigset_t none;

	sigemptyset(&none);
	return ppoll(NULL, 0, &span, &none);
}

static long wait_select(void)
{
	struct timeval timeout = { span.tv_sec, span.tv_nsec / 1000 };

	return select(0, NULL, NULL, NULL, &timeout);
}

static long wait_pselect(void)
{
	return pselect(0, NULL, NULL, NULL, &span, NULL);
}

static long wait_futex(void)
{
	static uint32_t word;

	return syscall(SYS_futex, &word, FUTEX_WAIT, 0, &span, NULL, 0);
}

static long wait_futex_until(void)
{
	static uint32_t word;

	return syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, 0, &deadline, NULL, -1);
}

static long wait_sem_timedwait(void)
{
	sem_t sem;

	sem_init(&sem, 0, 0);
	return sem_timedwait(&sem, &real_deadline);
}

static long wait_condition(void)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t condition = PTHREAD_COND_INITIALIZER;

	pthread_mutex_lock(&mutex);
	return pthread_cond_timedwait(&condition, &mutex, &real_deadline);
}

static long wait_epoll(void)
{
	struct epoll_event event;

	return epoll_wait(epoll_create1(0), &event, 1, milliseconds());
}

static long wait_epoll_pwait2(void)
{
	struct epoll_event event;

	return syscall(SYS_epoll_pwait2, epoll_create1(0), &event, 1, &span, NULL, 0);
}

static long wait_epoll_for_ever(void)
{
	struct epoll_event event = { .events = EPOLLIN };
	int fd = epoll_create1(0);

	epoll_ctl(fd, EPOLL_CTL_ADD, timer_descriptor(), &event);
	return epoll_wait(fd, &event, 1, -1);
}

static long wait_recv(void)
{
	char byte;

	return recv(socket_with_timeout(SO_RCVTIMEO), &byte, 1, 0);
}

static long wait_recvmsg(void)
{
	char byte;
	struct iovec part = { &byte, 1 };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };

	return recvmsg(socket_with_timeout(SO_RCVTIMEO), &message, 0);
}

static long wait_accept(void)
{
	struct timeval timeout = { span.tv_sec, span.tv_nsec / 1000 };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	sa_family_t unnamed = AF_UNIX;

	bind(fd, (struct sockaddr *)&unnamed, sizeof(unnamed));
	listen(fd, 1);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	return accept(fd, NULL, NULL);
}

static long wait_send(void)
{
	int fd = socket_with_timeout(SO_SNDTIMEO);
	static char bytes[4096];

	while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	return send(fd, bytes, sizeof(bytes), 0);
}

static long wait_semtimedop(void)
{
	struct sembuf down = { 0, -1, 0 };
	int id = semget(IPC_PRIVATE, 1, 0600);
	long result = semtimedop(id, &down, 1, &span);
	int err = errno;

	semctl(id, 0, IPC_RMID);
	errno = err;
	return result;
}

static long wait_msgrcv(void)
{
	struct {
		long type;
		char byte;
	} message;
	int id = msgget(IPC_PRIVATE, 0600);

	be_interrupted(SIGALRM, milliseconds());
	long result = msgrcv(id, &message, 1, 0, 0);
	int err = errno;

	msgctl(id, IPC_RMID, NULL);
	errno = err;
	return result;
}

static long wait_sigtimedwait(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return sigtimedwait(&set, NULL, &span);
}

static long wait_sigsuspend(void)
{
	sigset_t set;

	sigfillset(&set);
	sigprocmask(SIG_BLOCK, &set, NULL);
	be_interrupted(SIGALRM, milliseconds());
	sigemptyset(&set);
	return sigsuspend(&set);
}

static void *stand_by(void *arg)
{
	for (;;)
		pause();
	return arg;
}

/* An attach takes long in it, so that a check of the budget meets a thread that has all signals blocked. */
static long wait_sigsuspend_crowd(void)
{
	sigset_t set;
	pthread_t thread;

	sigfillset(&set);
	sigprocmask(SIG_BLOCK, &set, NULL);
	for (int i = 0; i < 200; i++)
		if (pthread_create(&thread, NULL, stand_by, NULL))
			return -2;
	return wait_sigsuspend();
}

static long wait_pause(void)
{
	be_interrupted(SIGALRM, milliseconds());
	return pause();
}

static long wait_mq_timedreceive(void)
{
	struct mq_attr attr = { .mq_maxmsg = 1, .mq_msgsize = 1 };
	char name[32];
	char byte;

	snprintf(name, sizeof(name), "/waits.%d", getpid());
	mqd_t queue = mq_open(name, O_RDWR | O_CREAT, 0600, &attr);
	mq_unlink(name);
	return mq_timedreceive(queue, &byte, 1, NULL, &real_deadline);
}

static long wait_io_getevents(void)
{
	aio_context_t context = 0;
	struct io_event event;

	syscall(SYS_io_setup, 1, &context);
	return syscall(SYS_io_getevents, context, 1, 1, &event, &span);
}

/* A ring in which nothing happens. Some kernels have none. */
static int open_ring(void)
{
	struct io_uring_params parameters = { 0 };

	return (int)syscall(SYS_io_uring_setup, 4, &parameters);
}

static long wait_ring(void)
{
	const int64_t timeout[2] = { span.tv_sec, span.tv_nsec };
	const uint64_t argument[3] = { 0, 0, (uintptr_t)timeout };
	int ring = open_ring();

	if (ring < 0)
		return wait_nanosleep();
	return syscall(SYS_io_uring_enter, ring, 0, 1,
		       IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, argument, sizeof(argument));
}

static long wait_read(void)
{
	uint64_t count;

	return read(timer_descriptor(), &count, sizeof(count));
}

static long wait_inotify(void)
{
	char bytes[64];

	be_interrupted(SIGALRM, milliseconds());
	return read(inotify_init(), bytes, sizeof(bytes));
}

static long wait_child(void)
{
	int status;

	pid_t child = fork();
	if (!child) {
		nanosleep(&span, NULL);
		_exit(0);
	}
	return waitpid(child, &status, 0) == child ? 0 : -1;
}

static long wait_write(void)
{
	static char bytes[3 * 65536];
	int fds[2];

	if (pipe(fds))
		return -2;
	if (!fork()) {
		close(fds[1]);
		nanosleep(&span, NULL);
		while (read(fds[0], bytes, sizeof(bytes)) > 0)
			;
		_exit(0);
	}
	return write(fds[1], bytes, sizeof(bytes));
}

static const struct {
	const char *name;
	long (*wait)(void);
} calls[] = {
	{ "nanosleep", wait_nanosleep },
	{ "nanosleep_rest", wait_nanosleep_rest },
	{ "sleep", wait_sleep },
	{ "clock_nanosleep", wait_clock_nanosleep },
	{ "clock_nanosleep_until", wait_clock_nanosleep_until },
	{ "poll", wait_poll },
	{ "ppoll", wait_ppoll },
	{ "select", wait_select },
	{ "pselect", wait_pselect },
	{ "futex", wait_futex },
	{ "futex_until", wait_futex_until },
	{ "sem_timedwait", wait_sem_timedwait },
	{ "condition", wait_condition },
	{ "epoll_wait", wait_epoll },
	{ "epoll_pwait2", wait_epoll_pwait2 },
	{ "epoll_for_ever", wait_epoll_for_ever },
	{ "recv", wait_recv },
	{ "recvmsg", wait_recvmsg },
	{ "accept", wait_accept },
	{ "send", wait_send },
	{ "semtimedop", wait_semtimedop },
	{ "msgrcv", wait_msgrcv },
	{ "sigtimedwait", wait_sigtimedwait },
	{ "sigsuspend", wait_sigsuspend },
	{ "sigsuspend_crowd", wait_sigsuspend_crowd },
	{ "pause", wait_pause },
	{ "mq_timedreceive", wait_mq_timedreceive },
	{ "io_getevents", wait_io_getevents },
	{ "io_uring_enter", wait_ring },
	{ "read", wait_read },
	{ "inotify", wait_inotify },
	{ "child", wait_child },
	{ "write", wait_write },
};

#define CALLS (sizeof(calls) / sizeof(calls[0]))

static int run(const char *name, int is_interrupted)
{
	size_t i = 0;
	struct timespec start;
	struct timespec end;

	while (i < CALLS && strcmp(calls[i].name, name) != 0)
		i++;
	if (i == CALLS)
		return 2;
	deadline = later(CLOCK_MONOTONIC);
	real_deadline = later(CLOCK_REALTIME);
	if (is_interrupted)
		be_interrupted(SIGUSR1, milliseconds() / 4 * 3);
	clock_gettime(CLOCK_MONOTONIC, &start);
	errno = 0;
	long result = calls[i].wait();
	int err = errno;
	clock_gettime(CLOCK_MONOTONIC, &end);
	long ms = (end.tv_sec - start.tv_sec) * 1000 + (end.tv_nsec - start.tv_nsec) / 1000000;
	printf("%s %ld %d %ld\n", name, result, err, ms);
	return 0;
}

static bool has_moved(pid_t pid)
{
	char path[32];
	char text[8192];

	snprintf(path, sizeof(path), "/proc/%d/sched", pid);
	FILE *f = fopen(path, "r");
	if (!f)
		return false;
	text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
	fclose(f);
	const char *at = strstr(text, "se.exec_start");
	double since = 1;
	return at && sscanf(at, "se.exec_start : %lf", &since) == 1 && since == 0;
}

static void use_some_cpu(pid_t seed)
{
	const clock_t begin = clock();
	const clock_t some = CLOCKS_PER_SEC / 1000000 * (seed * 7919 % 5000);

	while (clock() - begin < some)
		;
}

/*
 * A thread that used more than its share stays in the queue of its CPU for a moment when it sleeps
 * (Linux 6.12: DELAY_DEQUEUE), and balancing may move it. Many have to try.
 */
static int run_moved(const char *name)
{
	pid_t children[200];
	const size_t count = sizeof(children) / sizeof(children[0]);
	pid_t moved = 0;
	int start[2];

	for (int tries = 0; !moved && tries < 10; tries++) {
		if (pipe(start))
			return 2;
		for (size_t i = 0; i < count; i++) {
			if ((children[i] = fork()))
				continue;
			close(start[1]);
			read(start[0], &(char){ 0 }, 1);
			use_some_cpu(getpid());
			_exit(run(name, 0) + fflush(stdout));
		}
		close(start[0]);
		close(start[1]);
		usleep(1500000);
		for (size_t i = 0; i < count; i++)
			if (!moved && has_moved(children[i]))
				moved = children[i];
			else
				kill(children[i], SIGKILL);
		for (size_t i = 0; i < count; i++)
			if (children[i] != moved)
				waitpid(children[i], NULL, 0);
	}
	printf(moved ? "%d\n" : "none\n", moved);
	fflush(stdout);
	return !moved || waitpid(moved, NULL, 0) != moved;
}

int main(int argc, char **argv)
{
	for (size_t i = 0; argc < 3 && i < CALLS; i++)
		puts(calls[i].name);
	if (argc < 3)
		return 0;
	alarm(0);
	double seconds = atof(argv[2]);
	span.tv_sec = (time_t)seconds;
	span.tv_nsec = (long)((seconds - (double)span.tv_sec) * 1e9);
	if (argc > 3 && strcmp(argv[3], "moved") == 0)
		return run_moved(argv[1]);
	return run(argv[1], argc > 3);
}
