/* SPDX-License-Identifier: MIT */
/*
 * ended_calls.c - a signal to the process ends a call that the first thread waits in, although other
 * threads run: with EINTR, or it begins again where the handler has SA_RESTART. ended_calls SIGNAL
 *
 * Exit status 0: each call ended as it must. A call that does not end is ended by SIGALRM, and told.
 */
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BUSY 2
#define SECONDS 20 /* then a call is ended in another way */

volatile long shared_word;
static volatile sig_atomic_t is_over, came, was_late, was_elsewhere;
static int ends[2];
static int sockets[2];
static int listener, poller, queue, semaphore;
static pid_t asleep;
static int of_futex;
static char byte;

static void on_signal(int number)
{
	came++;
	if (gettid() != getpid())
		was_elsewhere = 1;
}

static void on_alarm(int number)
{
	was_late = 1;
	came++;
}

/* For the call that begins again: there is something to read now. */
static void on_signal_write(int number)
{
	came++;
	if (write(ends[1], &byte, 1) != 1)
		_exit(3);
}

static void *run(void *arg)
{
	while (!is_over) {
		shared_word++;
		for (volatile int i = 0; i < 500; i++)
			;
	}
	return NULL;
}

static long call_read(void)
{
	return read(ends[0], &byte, 1);
}
static long call_recv(void)
{
	return recv(sockets[0], &byte, 1, 0);
}
static long call_accept(void)
{
	return accept(listener, NULL, NULL);
}
static long call_wait(void)
{
	return waitpid(asleep, NULL, 0);
}

static long call_nanosleep(void)
{
	return nanosleep(&(struct timespec){ 2 * SECONDS, 0 }, NULL);
}

static long call_poll(void)
{
	return poll(&(struct pollfd){ .fd = ends[0], .events = POLLIN }, 1, -1);
}

static long call_select(void)
{
	fd_set set;

	FD_ZERO(&set);
	FD_SET(ends[0], &set);
	return select(ends[0] + 1, &set, NULL, NULL, NULL);
}

static long call_epoll(void)
{
	struct epoll_event event;

	return epoll_wait(poller, &event, 1, -1);
}

static long call_futex(void)
{
	return syscall(SYS_futex, &of_futex, FUTEX_WAIT, 0, &(struct timespec){ 2 * SECONDS, 0 });
}

static long call_sigsuspend(void)
{
	sigset_t none;

	sigemptyset(&none);
	return sigsuspend(&none);
}

static long call_msgrcv(void)
{
	struct {
		long type;
		char text[1];
	} message;

	return msgrcv(queue, &message, sizeof(message.text), 0, 0);
}

static long call_semop(void)
{
	return semop(semaphore, &(struct sembuf){ .sem_op = -1 }, 1);
}

static const struct {
	const char *name;
	long (*call)(void);
} calls[] = {
	{ "read", call_read },		 { "recv", call_recv },
	{ "accept", call_accept },	 { "wait4", call_wait },
	{ "nanosleep", call_nanosleep }, { "poll", call_poll },
	{ "select", call_select },	 { "epoll_wait", call_epoll },
	{ "futex", call_futex },	 { "sigsuspend", call_sigsuspend },
	{ "msgrcv", call_msgrcv },	 { "semop", call_semop },
};

/* The call that a process waits in, with its arguments and its place; "": it runs, or may not be read. */
static void read_call(pid_t pid, char *text, size_t n)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/syscall", pid);
	FILE *f = fopen(path, "re");
	if (!f || !fgets(text, (int)n, f) || !strncmp(text, "running", 7))
		text[0] = '\0';
	if (f)
		fclose(f);
}

/* On a busy machine the first thread may not be in its call for long. A wait of ours is shorter. */
static void wait_until_it_waits(pid_t pid)
{
	char before[256] = "";
	char now[256];

	for (int i = 0; i < 10 * SECONDS; i++) {
		usleep(100000);
		read_call(pid, now, sizeof(now));
		if (*now && !strcmp(now, before))
			return;
		memcpy(before, now, sizeof(now));
	}
}

static void prepare(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	poller = epoll_create1(0);
	listener = socket(AF_UNIX, SOCK_STREAM, 0);
	queue = msgget(IPC_PRIVATE, 0600);
	semaphore = semget(IPC_PRIVATE, 1, 0600);
	if (pipe(ends) || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) || poller < 0 ||
	    bind(listener, (struct sockaddr *)&address, sizeof(address.sun_family)) ||
	    listen(listener, 1) || queue < 0 || semaphore < 0)
		exit(2);
	asleep = fork();
	if (!asleep) {
		pause();
		_exit(0);
	}
}

static pid_t send_later(int number)
{
	pid_t sender = fork();

	if (!sender) {
		wait_until_it_waits(getppid());
		kill(getppid(), number);
		_exit(0);
	}
	return sender;
}

/* 1: it ended as it must. */
static int is_right(int number, const char *name, long (*call)(void), long wanted)
{
	came = was_late = was_elsewhere = 0;
	pid_t sender = send_later(number);
	alarm(SECONDS);
	long result = call();
	int error = errno;
	alarm(0);
	while (waitpid(sender, NULL, 0) < 0 && errno == EINTR)
		;
	int right = result == wanted && (wanted >= 0 || error == EINTR) && !was_late && came == 1;
	if (!right)
		printf("%s: %ld, errno %d, %d signals%s%s\n", name, result, error, (int)came,
		       was_elsewhere ? ", in another thread" : "", was_late ? ", late" : "");
	return right;
}

int main(int argc, char **argv)
{
	int number = argc > 1 ? atoi(argv[1]) : SIGUSR1;
	struct sigaction ends_it = { .sa_handler = on_signal };
	struct sigaction again = { .sa_handler = on_signal_write, .sa_flags = SA_RESTART };
	struct sigaction late = { .sa_handler = on_alarm };
	pthread_t busy[BUSY];
	int wrong = 0;

	prepare();
	for (int i = 0; i < BUSY; i++)
		pthread_create(&busy[i], NULL, run, NULL);
	sigaction(number, &ends_it, NULL);
	sigaction(SIGALRM, &late, NULL);
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		wrong += !is_right(number, calls[i].name, calls[i].call, -1);
	sigaction(number, &again, NULL);
	wrong += !is_right(number, "read that begins again", call_read, 1);
	is_over = 1;
	for (int i = 0; i < BUSY; i++)
		pthread_join(busy[i], NULL);
	kill(asleep, SIGKILL);
	msgctl(queue, IPC_RMID, NULL);
	semctl(semaphore, 0, IPC_RMID);
	return wrong != 0;
}
