/* SPDX-License-Identifier: MIT */
/*
 * fleet_service.c - small servers for the tests of a fleet, each with a planted bug of the heap.
 *
 * fleet_service ROLE: serves one client, over TCP, for ever.
 * fleet_service ROLE FAILED: the client of ROLE. Each request without the right answer is a line of
 * the file FAILED. ROLE:
 *
 * cached    reads an entry that it has freed
 * maild     writes one byte behind a header
 * queued    frees a job twice after 400 requests, and dies by it
 * sessiond  writes to a session that it has freed
 * indexd    reads behind a key
 * printd    reads a job that it has freed, once, after SIGUSR1
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PAUSE_US 2000
#define FIRST_PORT 7100
#define QUEUED_REQUESTS 1000

static volatile sig_atomic_t is_asked;
static volatile char sum;

static void on_user(int sig)
{
	(void)sig;
	is_asked = 1;
}

__attribute__((noinline)) static void look_up(int request)
{
	char *volatile entry = malloc(64);

	memset(entry, request, 64);
	free(entry);
	sum += entry[40];
}

__attribute__((noinline)) static void parse_header(int request)
{
	char *volatile header = malloc(32);

	memset(header, request, 31);
	*(volatile char *)&header[32] = 0;
	free(header);
}

__attribute__((noinline)) static void retry_job(int request)
{
	char *volatile job = malloc(80);

	memset(job, request, 80);
	free(job);
	if (request % QUEUED_REQUESTS == 0)
		free(job);
}

__attribute__((noinline)) static void end_session(int request)
{
	char *volatile session = malloc(96);

	memset(session, request, 96);
	free(session);
	*(volatile char *)&session[48] = 1;
}

__attribute__((noinline)) static void compare_key(int request)
{
	char *volatile key = malloc(48);

	memset(key, request, 48);
	sum += key[49];
	free(key);
}

__attribute__((noinline)) static void abort_job(int request)
{
	char *volatile job = malloc(112);

	memset(job, request, 112);
	free(job);
	sum += job[60];
}

__attribute__((noinline)) static void print_job(int request)
{
	char *volatile job = malloc(128);

	memset(job, request, 128);
	free(job);
	if (is_asked)
		abort_job(request);
	is_asked = 0;
}

static const struct {
	const char *name;
	void (*handle)(int request);
} roles[] = {
	{ "cached", look_up },	     { "maild", parse_header },	 { "queued", retry_job },
	{ "sessiond", end_session }, { "indexd", compare_key }, { "printd", print_job },
};

#define ROLES (sizeof(roles) / sizeof(roles[0]))

static void fail(const char *path, const char *role, int request)
{
	FILE *f = fopen(path, "a");

	if (!f)
		return;
	fprintf(f, "%s %d\n", role, request);
	fclose(f);
}

/* Until the server ends; the request before is without its answer then. */
static void ask(const struct sockaddr_in *at, const char *role, const char *failed)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	int answer = 2;
	int is_connected = !connect(fd, (const struct sockaddr *)at, sizeof(*at));

	for (int i = 1; is_connected && answer == i + 1; i++) {
		int is_sent = write(fd, &i, sizeof(i)) == sizeof(i);
		int is_answered = is_sent && recv(fd, &answer, sizeof(answer), MSG_WAITALL) > 0;
		if (!is_answered || answer != i + 1)
			fail(failed, role, i);
		answer = is_answered && answer == i + 1 ? i + 2 : 0;
		usleep(PAUSE_US);
	}
	close(fd);
	usleep(100000);
}

static void serve(int listener, void (*handle)(int request))
{
	int fd = accept(listener, NULL, NULL);
	int request;

	while (recv(fd, &request, sizeof(request), MSG_WAITALL) == sizeof(request)) {
		handle(request);
		request++;
		if (write(fd, &request, sizeof(request)) != sizeof(request))
			break;
	}
	close(fd);
}

int main(int argc, char **argv)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int yes = 1;
	size_t role = 0;

	while (role < ROLES && argc > 1 && strcmp(argv[1], roles[role].name) != 0)
		role++;
	if (argc < 2 || role == ROLES)
		return 1;
	at.sin_port = htons((uint16_t)(FIRST_PORT + role));
	while (argc > 2)
		ask(&at, argv[1], argv[2]);
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	if (setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) ||
	    bind(listener, (struct sockaddr *)&at, sizeof(at)) || listen(listener, 1))
		return 1;
	signal(SIGUSR1, on_user);
	for (;;)
		serve(listener, roles[role].handle);
}
