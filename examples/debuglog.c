/* SPDX-License-Identifier: MIT */
/*
 * debuglog.c - a server whose debug lines cost one instruction each while they are off,
 * and are switched while it works.
 *
 * Two threads serve requests. Lines of standard input are commands: "debug on", "debug
 * off", "trace on", "trace off". SIGUSR1 switches the debug lines, too: the main thread
 * takes the signal, because a handler must not call trapline_branch_enable(). The
 * program ends with its input, and prints what it did.
 *
 * Usage: debuglog
 * Build: cc -O2 debuglog.c $(pkg-config --cflags --libs trapline) -pthread -o debuglog
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <trapline/code.h>

#define SERVERS 2

static struct trapline_branch_key debug = TRAPLINE_BRANCH_OFF;
static struct trapline_branch_key trace = TRAPLINE_BRANCH_OFF;
static int is_on[2];
static int is_over;

struct server {
	pthread_t thread;
	int number;
	unsigned long requests;
	unsigned long lines;
};

static void say(struct server *me, const char *what)
{
	/* Not every line: a terminal is slower than this server. */
	if (me->lines++ % 100000 == 0)
		printf("server %d: %s, request %lu\n", me->number, what, me->requests);
}

static unsigned long answer(struct server *me, unsigned long request)
{
	if (trapline_branch(&trace))
		say(me, "answers");
	return request * 2654435761u;
}

static void *serve(void *arg)
{
	struct server *me = arg;
	unsigned long sum = 1;

	while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
		if (trapline_branch(&debug))
			say(me, "takes a request");
		sum += answer(me, sum);
		me->requests++;
	}
	return NULL;
}

static void set(struct trapline_branch_key *key, int *state, int on, const char *name)
{
	char why[300];
	int err = 0;

	if (*state != on)
		err = on ? trapline_branch_enable(key) : trapline_branch_disable(key);
	if (err) {
		trapline_explain(err, why, sizeof(why));
		printf("cannot switch %s: %s\n", name, why);
		return;
	}
	*state = on;
	printf("%s is %s\n", name, on ? "on" : "off");
}

static void obey(const char *command)
{
	if (!strcmp(command, "debug on\n") || !strcmp(command, "debug off\n"))
		set(&debug, &is_on[0], command[7] == 'n', "debug");
	else if (!strcmp(command, "trace on\n") || !strcmp(command, "trace off\n"))
		set(&trace, &is_on[1], command[7] == 'n', "trace");
	else
		printf("unknown command: %s", command);
}

/* Until the end of the input. */
static void obey_all(int signals)
{
	struct pollfd files[2] = { { .fd = STDIN_FILENO, .events = POLLIN },
				   { .fd = signals, .events = POLLIN } };
	struct signalfd_siginfo info;
	char command[80];

	setvbuf(stdin, NULL, _IONBF, 0);
	for (;;) {
		poll(files, 2, -1);
		if (files[1].revents && read(signals, &info, sizeof(info)) > 0)
			set(&debug, &is_on[0], !is_on[0], "debug");
		if (!files[0].revents)
			continue;
		if (!fgets(command, sizeof(command), stdin))
			return;
		obey(command);
	}
}

int main(void)
{
	struct server servers[SERVERS] = { { .number = 1 }, { .number = 2 } };
	unsigned long requests = 0;
	unsigned long lines = 0;
	sigset_t usr1;

	setvbuf(stdout, NULL, _IOLBF, 0);
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &usr1, NULL);
	for (int i = 0; i < SERVERS; i++)
		if (pthread_create(&servers[i].thread, NULL, serve, &servers[i]))
			return 1;
	printf("ready\n");
	obey_all(signalfd(-1, &usr1, SFD_CLOEXEC));
	__atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < SERVERS; i++) {
		pthread_join(servers[i].thread, NULL);
		requests += servers[i].requests;
		lines += servers[i].lines;
	}
	printf("served %lu requests, %lu debug lines\n", requests, lines);
	return 0;
}
