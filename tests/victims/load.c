/* SPDX-License-Identifier: MIT */
/*
 * load.c - requests to a real server, each answer checked: what it loses while it is looked at.
 *
 * load redis|memcached|http|rmi PORT SECONDS [PATH]
 *
 * Four clients, each a thread, one request after the other, for so long or until SIGTERM. Prints
 * `REQUESTS ERRORS`. redis and
 * memcached count: an answer that is not the number after the one before, seen by one client, is an
 * error, and so is a sum that is not that of all requests. http opens a connection for each request,
 * and wants status 200 and as many bytes as are announced.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define CLIENTS 4
#define ANSWER_S 20 /* later than this is an error */

static const char *protocol;
static const char *path = "/";
static int port;
static double end_s;
static volatile sig_atomic_t is_told_to_end;

struct client {
	pthread_t thread;
	int number;
	unsigned long requests;
	unsigned long errors;
};

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void on_signal(int number)
{
	is_told_to_end = number;
}

static bool goes_on(void)
{
	return !is_told_to_end && now_s() < end_s;
}

static int connect_once(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	struct timeval patience = { .tv_sec = ANSWER_S };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int yes = 1;

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0)
		return fd;
	close(fd);
	return -1;
}

/* Sends a request of one line and reads an answer of one line into buf. */
static bool ask(int fd, const char *request, char *buf, size_t n)
{
	size_t used = 0;

	if (write(fd, request, strlen(request)) != (ssize_t)strlen(request))
		return false;
	while (used < n - 1) {
		ssize_t got = read(fd, buf + used, n - 1 - used);
		if (got <= 0)
			return false;
		used += (size_t)got;
		buf[used] = 0;
		if (memchr(buf, '\n', used))
			return true;
	}
	return false;
}

/* Each client has a counter of its own: the answers are 1, 2, 3. */
static void count_up(struct client *c, const char *request, const char *before)
{
	char answer[100];
	int fd = connect_once();
	unsigned long number = 0;

	while (fd >= 0 && goes_on()) {
		bool is_right = ask(fd, request, answer, sizeof(answer)) &&
				!strncmp(answer, before, strlen(before));
		unsigned long is = is_right ? strtoul(answer + strlen(before), NULL, 10) : 0;
		c->requests++;
		c->errors += is != number + 1;
		number = is;
	}
	c->errors += fd < 0;
	if (fd >= 0)
		close(fd);
}

static void use_redis(struct client *c)
{
	char request[64];

	snprintf(request, sizeof(request), "INCR load:%d:%d\r\n", getpid(), c->number);
	count_up(c, request, ":");
}

static void use_memcached(struct client *c)
{
	char request[80];
	char answer[100];
	int fd = connect_once();

	snprintf(request, sizeof(request), "set load:%d:%d 0 0 1\r\n0\r\n", getpid(), c->number);
	c->errors += fd < 0 || !ask(fd, request, answer, sizeof(answer)) ||
		     strncmp(answer, "STORED", 6) != 0;
	if (fd >= 0)
		close(fd);
	snprintf(request, sizeof(request), "incr load:%d:%d 1\r\n", getpid(), c->number);
	count_up(c, request, "");
}

static bool get_once(int fd)
{
	static __thread char text[1 << 20];
	char request[300];
	size_t used = 0;
	ssize_t n;

	snprintf(request, sizeof(request), "GET %s HTTP/1.0\r\n\r\n", path);
	if (write(fd, request, strlen(request)) != (ssize_t)strlen(request))
		return false;
	while (used < sizeof(text) - 1 && (n = read(fd, text + used, sizeof(text) - 1 - used)) > 0)
		used += (size_t)n;
	text[used] = 0;
	const char *body = strstr(text, "\r\n\r\n");
	const char *length = strcasestr(text, "content-length:");
	bool is_200 = !strncmp(text + 8, " 200 ", 5);
	return is_200 && body && used > (size_t)(body + 4 - text) &&
	       (!length || length > body ||
		strtoul(length + 15, NULL, 10) == used - (size_t)(body + 4 - text));
}

/* A greeting of Java's remote method invocation, and what it says back. */
static bool greet_once(int fd)
{
	static const char hello[] = "JRMI\0\2K";
	char answer;

	return write(fd, hello, 7) == 7 && read(fd, &answer, 1) == 1 && answer == 'N';
}

static void connect_again_and_again(struct client *c, bool (*once)(int fd))
{
	while (goes_on()) {
		int fd = connect_once();
		c->requests++;
		c->errors += fd < 0 || !once(fd);
		if (fd >= 0)
			close(fd);
	}
}

static void *client(void *arg)
{
	struct client *c = arg;

	if (!strcmp(protocol, "redis"))
		use_redis(c);
	else if (!strcmp(protocol, "memcached"))
		use_memcached(c);
	else
		connect_again_and_again(c, strcmp(protocol, "rmi") ? get_once : greet_once);
	return NULL;
}

int main(int argc, char **argv)
{
	struct client clients[CLIENTS] = { 0 };
	unsigned long requests = 0;
	unsigned long errors = 0;

	if (argc < 4)
		return 2;
	signal(SIGTERM, on_signal); /* restarts system calls: no request is broken off */
	protocol = argv[1];
	port = atoi(argv[2]);
	end_s = now_s() + strtod(argv[3], NULL);
	if (argc > 4)
		path = argv[4];
	for (int i = 0; i < CLIENTS; i++) {
		clients[i].number = i;
		if (pthread_create(&clients[i].thread, NULL, client, &clients[i]))
			return 2;
	}
	for (int i = 0; i < CLIENTS; i++) {
		pthread_join(clients[i].thread, NULL);
		requests += clients[i].requests;
		errors += clients[i].errors;
	}
	printf("%lu %lu\n", requests, errors);
	return errors || !requests;
}
