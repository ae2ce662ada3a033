/* SPDX-License-Identifier: MIT */
/*
 * attach.c - what a server pays while somebody looks at it and finds nothing.
 *
 *   bench_attach [--rounds N] [--only TOOL]     one JSON object a line
 *
 * redis-server, with (watch) four words watched that nobody writes, and (break) a function broken
 * on whose condition never holds. Two loads: redis-benchmark as fast as it goes, and requests at a
 * fixed pace, 10,000 a second, of a client in here; each calls the function once.
 *
 * A round is the load without and with the tool, or the other way round, in turns. What is
 * compared is the CPU time of the server for each request, as the scheduler counts it, which
 * includes every trap taken in it; wall time and latencies are told beside. On a shared machine
 * these are noise mostly. Figures are medians over the rounds, of ratios within a round, with their
 * quartiles, and beside them the ratio of the lowest tenths, which neighbours disturb least; the tool
 * "none" attaches nothing and shows how far to trust the others.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "child.h"

#define ROUNDS_MAX 101
#define CONNECTIONS 4
#define PACE_PER_S 10000
#define PACED_REQUESTS 6000
#define FULL_REQUESTS 40000
#define WATCHED 4
#define NEVER "77777777"
#define FUNCTION "call" /* once for each command */
#define VARIABLE "server"

static char folder[PATH_MAX]; /* of this program: the command is one above */
static int port;
static struct child server;
static uint64_t requests_made;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static _Noreturn void give_up(const char *why)
{
	fprintf(stderr, "bench_attach: %s\n", why);
	child_end(&server, 0);
	exit(1);
}

/* --- the server --- */

static int connect_to_server(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int yes = 1;

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof(to))) {
		close(fd);
		return -1;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	return fd;
}

static void start_server(void)
{
	char text[16];
	char *argv[] = { "/usr/bin/env", "redis-server", "--save", "", "--bind", "127.0.0.1",
			 "--port", text, "--daemonize", "no", "--loglevel", "warning", NULL };

	port = 10000 + getpid() % 20000; /* none that connections are given */
	snprintf(text, sizeof(text), "%d", port);
	if (child_start(&server, argv, CHILD_ANY_CPU))
		give_up("redis-server does not start");
	for (int i = 0; i < 100; i++) {
		int fd = connect_to_server();
		if (fd >= 0) {
			close(fd);
			return;
		}
		usleep(50000);
	}
	give_up("redis-server does not answer: is it installed? (scripts/install-deps bench)");
}

/* CPU time of all its threads, to the nanosecond once they sleep. */
static uint64_t server_cpu_ns(void)
{
	char path[300];
	uint64_t sum = 0;

	usleep(3000);
	snprintf(path, sizeof(path), "/proc/%d/task", server.pid);
	DIR *dir = opendir(path);
	for (struct dirent *d; dir && (d = readdir(dir));) {
		uint64_t ns = 0;
		snprintf(path, sizeof(path), "/proc/%d/task/%.20s/schedstat", server.pid, d->d_name);
		FILE *f = fopen(path, "re");
		if (f && fscanf(f, "%" SCNu64, &ns) == 1)
			sum += ns;
		if (f)
			fclose(f);
	}
	if (dir)
		closedir(dir);
	return sum;
}

/* What the server says it counted; all that were sent, unless some were lost. */
static uint64_t counted_requests(void)
{
	static const char get[] = "*2\r\n$3\r\nGET\r\n$5\r\npaced\r\n";
	char answer[64] = "";
	int fd = connect_to_server();

	if (fd < 0 || write(fd, get, sizeof(get) - 1) < 0)
		return 0;
	ssize_t n = read(fd, answer, sizeof(answer) - 1);
	close(fd);
	char *number = n > 0 ? strchr(answer, '\n') : NULL;
	return number ? strtoull(number + 1, NULL, 10) : 0;
}

/* --- loads --- */

struct measured {
	uint64_t requests;
	uint64_t cpu_ns;
	uint64_t wall_ns;
	double p50_us;
	double p99_us;
	bool failed;
};

struct connection {
	int fd;
	size_t waiting; /* answers to come */
	uint64_t sent_ns[64];
	size_t first;
};

static int by_size(const void *a, const void *b)
{
	const double *x = a;
	const double *y = b;

	return (*x > *y) - (*x < *y);
}

static double quantile(double *values, size_t n, double at)
{
	if (!n)
		return 0;
	qsort(values, n, sizeof(*values), by_size);
	double place = at * (double)(n - 1);
	size_t low = (size_t)place;
	size_t high = low + 1 < n ? low + 1 : low;
	return values[low] + (place - (double)low) * (values[high] - values[low]);
}

static bool send_one(struct connection *c)
{
	static const char incr[] = "*2\r\n$4\r\nINCR\r\n$5\r\npaced\r\n";

	if (c->waiting == 64)
		return false; /* it does not keep up: the next connection, or later */
	c->sent_ns[(c->first + c->waiting) % 64] = now_ns();
	c->waiting++;
	return write(c->fd, incr, sizeof(incr) - 1) == sizeof(incr) - 1;
}

/* The answers that are there: their latencies. Returns how many; -1: an error came. */
static int take_answers(struct connection *c, double *latency_us, size_t room)
{
	char text[4096];
	ssize_t n = recv(c->fd, text, sizeof(text), MSG_DONTWAIT);
	int taken = 0;
	uint64_t now = now_ns();

	if (n <= 0)
		return n < 0 && errno == EAGAIN ? 0 : -1;
	for (ssize_t i = 0; i < n; i++) {
		if (text[i] == '-')
			return -1;
		if (text[i] != '\n' || !c->waiting || (size_t)taken >= room)
			continue;
		latency_us[taken++] = (double)(now - c->sent_ns[c->first]) / 1e3;
		c->first = (c->first + 1) % 64;
		c->waiting--;
	}
	return taken;
}

static void paced_load(struct measured *m)
{
	static double latency[PACED_REQUESTS];
	struct connection c[CONNECTIONS] = { 0 };
	struct pollfd fds[CONNECTIONS];
	size_t sent = 0;
	size_t got = 0;

	for (int i = 0; i < CONNECTIONS; i++) {
		c[i].fd = connect_to_server();
		fds[i] = (struct pollfd){ .fd = c[i].fd, .events = POLLIN };
	}
	uint64_t start = now_ns();
	uint64_t deadline = start + 60000000000u;
	while (got < PACED_REQUESTS && !m->failed && now_ns() < deadline) {
		uint64_t due = (now_ns() - start) * PACE_PER_S / 1000000000u + 1;
		while (sent < PACED_REQUESTS && sent < due && send_one(&c[sent % CONNECTIONS]))
			sent++;
		if (poll(fds, CONNECTIONS, 0) <= 0)
			continue;
		for (int i = 0; i < CONNECTIONS; i++) {
			int n = fds[i].revents ? take_answers(&c[i], latency + got, PACED_REQUESTS - got) : 0;
			m->failed = m->failed || n < 0;
			got += n > 0 ? (size_t)n : 0;
		}
	}
	m->wall_ns = now_ns() - start;
	m->requests = got;
	m->failed = m->failed || got < PACED_REQUESTS;
	requests_made += got;
	m->p50_us = quantile(latency, got, 0.5);
	m->p99_us = quantile(latency, got, 0.99);
	for (int i = 0; i < CONNECTIONS; i++)
		close(c[i].fd);
}

static void full_load(struct measured *m)
{
	char port_text[16];
	char count[16];
	char *argv[] = { "/usr/bin/env", "redis-benchmark", "-p", port_text, "-n", count, "-t",
			 "incr", "-c", "20", "--csv", NULL };
	struct child load;
	double rps = 0;

	snprintf(port_text, sizeof(port_text), "%d", port);
	snprintf(count, sizeof(count), "%d", FULL_REQUESTS);
	if (child_start(&load, argv, CHILD_ANY_CPU))
		give_up("redis-benchmark does not start");
	for (const char *line; (line = child_line(&load, 120000));)
		if (sscanf(line, "\"INCR\",\"%lf\",\"%*f\",\"%*f\",\"%lf\",\"%*f\",\"%lf\"", &rps,
			   &m->p50_us, &m->p99_us) == 3) {
			m->p50_us *= 1e3;
			m->p99_us *= 1e3;
		}
	m->failed = child_end(&load, 1000) != 0 || rps <= 0;
	m->requests = FULL_REQUESTS;
	m->wall_ns = rps > 0 ? (uint64_t)(FULL_REQUESTS * 1e9 / rps) : 0;
}

static struct measured measure(bool is_full)
{
	struct measured m = { 0 };
	uint64_t before = server_cpu_ns();

	if (is_full)
		full_load(&m);
	else
		paced_load(&m);
	m.cpu_ns = server_cpu_ns() - before;
	return m;
}

/* --- who looks --- */

static const char *const tools[] = { "none", "trapline", "perf", "bpftrace", "gdb" };
#define TOOLS (sizeof(tools) / sizeof(tools[0]))

struct looker {
	struct child child[WATCHED];
	size_t count;
	char skipped[256];
	uint64_t taken; /* as it tells at the end; trapline does */
};

static void command_path(char *path)
{
	snprintf(path, PATH_MAX, "%.*s/../trapline", PATH_MAX - 16, folder);
}

/* An address of the server that trapline tells: of a place in code, or of data. */
static uint64_t ask_address(bool is_code)
{
	char path[PATH_MAX];
	char pid[16];
	char *code[] = { path, "break", "-p", pid, FUNCTION, "--list", "--json", NULL };
	char *data[] = { path, "watch", "-p", pid, VARIABLE ":8", "--for", "0.05", "--json", NULL };
	const char *key = is_code ? "\"ip\":\"" : "\"address\":\"";
	struct child child;
	uint64_t address = 0;

	command_path(path);
	snprintf(pid, sizeof(pid), "%d", server.pid);
	if (child_start(&child, is_code ? code : data, CHILD_ANY_CPU))
		return 0;
	for (const char *line; (line = child_line(&child, 20000));) {
		const char *at = strstr(line, key);
		if (at)
			address = strtoull(at + strlen(key), NULL, 16);
	}
	child_end(&child, 1000);
	return address;
}

/* True when it is armed; else why not. */
static bool wait_until_armed(struct looker *l, struct child *child)
{
	char last[200] = "";

	for (const char *line; (line = child_line(child, 20000));) {
		snprintf(last, sizeof(last), "%.190s", line);
		last[strcspn(last, "\"\\")] = 0; /* it goes into JSON as it is */
		if (!strncmp(line, "armed", 5) || !strncmp(line, "watching", 8) ||
		    !strncmp(line, "breaking", 8))
			return true;
		if (!strncmp(line, "skip ", 5)) {
			snprintf(l->skipped, sizeof(l->skipped), "%.250s", line + 5);
			return false;
		}
	}
	snprintf(l->skipped, sizeof(l->skipped), "it ended before it was armed: %s", last);
	return false;
}

static bool start_one(struct looker *l, char *const argv[])
{
	struct child *child = &l->child[l->count];

	if (child_start(child, argv, CHILD_ANY_CPU)) {
		snprintf(l->skipped, sizeof(l->skipped), "it does not start");
		return false;
	}
	l->count++;
	return wait_until_armed(l, child);
}

static bool start_trapline(struct looker *l, bool is_watch, uint64_t address)
{
	char path[PATH_MAX];
	char pid[16];
	char what[40];
	char *watch[] = { path, "watch", "-p", pid, what, "--json", NULL };
	char *code[] = { path, "break", "-p", pid, FUNCTION, "--if", "arg1 == " NEVER, "--json", NULL };
	bool is_armed = true;

	command_path(path);
	snprintf(pid, sizeof(pid), "%d", server.pid);
	for (int i = 0; is_armed && i < (is_watch ? WATCHED : 1); i++) {
		snprintf(what, sizeof(what), "0x%" PRIx64 ":8", address + 8 * (uint64_t)i);
		is_armed = start_one(l, is_watch ? watch : code);
	}
	return is_armed;
}

static bool start_peer(struct looker *l, const char *tool, bool is_watch, uint64_t address)
{
	char path[PATH_MAX];
	char pid[16];
	char at[24];
	char *argv[] = { "/bin/sh", path, (char *)(uintptr_t)tool, is_watch ? "watch" : "break", pid,
			 at, NULL };

	snprintf(path, sizeof(path), "%.*s/attach.sh", PATH_MAX - 16, folder);
	snprintf(pid, sizeof(pid), "%d", server.pid);
	snprintf(at, sizeof(at), "0x%" PRIx64, address);
	return start_one(l, argv);
}

static bool look(struct looker *l, const char *tool, bool is_watch, uint64_t address)
{
	*l = (struct looker){ 0 };
	if (!strcmp(tool, "none"))
		return true;
	if (!strcmp(tool, "trapline"))
		return start_trapline(l, is_watch, address);
	return start_peer(l, tool, is_watch, address);
}

static void look_away(struct looker *l)
{
	for (size_t i = 0; i < l->count; i++)
		kill(l->child[i].pid, SIGTERM);
	for (size_t i = 0; i < l->count; i++) {
		for (const char *line; (line = child_line(&l->child[i], 5000));) {
			const char *at = strstr(line, "\"taken\":");
			if (at)
				l->taken += strtoull(at + 8, NULL, 10);
		}
		child_end(&l->child[i], 5000);
	}
	l->count = 0;
}

/* --- rounds --- */

struct series {
	double cpu[ROUNDS_MAX]; /* ratios */
	double wall[ROUNDS_MAX];
	double cpu_off[ROUNDS_MAX]; /* ns a request */
	double cpu_on[ROUNDS_MAX];
	double p99_off[ROUNDS_MAX];
	double p99_on[ROUNDS_MAX];
	double taken; /* of all rounds */
	double requests_on;
	size_t n;
	size_t failed;
	char skipped[256];
};

static void add(struct series *s, const struct measured *off, const struct measured *on)
{
	size_t i = s->n++;

	s->cpu_off[i] = (double)off->cpu_ns / (double)off->requests;
	s->cpu_on[i] = (double)on->cpu_ns / (double)on->requests;
	s->cpu[i] = s->cpu_on[i] / s->cpu_off[i];
	s->wall[i] = (double)on->wall_ns / (double)off->wall_ns;
	s->p99_off[i] = off->p99_us;
	s->p99_on[i] = on->p99_us;
	s->requests_on += (double)on->requests;
}

static void run_round(struct series *s, const char *tool, bool is_watch, bool is_full,
		      uint64_t address, bool on_first)
{
	struct measured m[2] = { { 0 } };
	struct looker looker;

	for (int i = 0; i < 2; i++) {
		bool is_on = (i == 0) == on_first;
		if (is_on && !look(&looker, tool, is_watch, address)) {
			snprintf(s->skipped, sizeof(s->skipped), "%s", looker.skipped);
			look_away(&looker);
			return;
		}
		m[is_on] = measure(is_full);
		if (is_on)
			look_away(&looker);
		if (is_on)
			s->taken += (double)looker.taken;
	}
	if (m[0].failed || m[1].failed)
		s->failed++;
	if (m[0].requests && m[1].requests)
		add(s, &m[0], &m[1]);
}

static void print(struct series *s, const char *tool, bool is_watch, bool is_full)
{
	printf("{\"what\":\"%s\",\"load\":\"%s\",\"tool\":\"%s\"", is_watch ? "watch4_cold" : "break_false",
	       is_full ? "redis-benchmark" : "paced", tool);
	if (!s->n) {
		printf(",\"skipped\":\"%s\"}\n", s->skipped);
		return;
	}
	printf(",\"rounds\":%zu,\"cpu_ratio\":%.4f,\"cpu_ratio_quartiles\":[%.4f,%.4f]", s->n,
	       quantile(s->cpu, s->n, 0.5), quantile(s->cpu, s->n, 0.25), quantile(s->cpu, s->n, 0.75));
	printf(",\"cpu_ratio_of_lowest\":%.4f",
	       quantile(s->cpu_on, s->n, 0.1) / quantile(s->cpu_off, s->n, 0.1));
	printf(",\"cpu_us_per_request\":[%.2f,%.2f]", quantile(s->cpu_off, s->n, 0.5) / 1e3,
	       quantile(s->cpu_on, s->n, 0.5) / 1e3);
	printf(",\"wall_ratio\":%.4f,\"wall_ratio_quartiles\":[%.4f,%.4f]", quantile(s->wall, s->n, 0.5),
	       quantile(s->wall, s->n, 0.25), quantile(s->wall, s->n, 0.75));
	printf(",\"p99_us\":[%.0f,%.0f]", quantile(s->p99_off, s->n, 0.5), quantile(s->p99_on, s->n, 0.5));
	if (s->taken > 0)
		printf(",\"taken_per_request\":%.3f", s->taken / s->requests_on);
	printf(",\"rounds_with_failed_requests\":%zu}\n", s->failed);
}

static void run_all(size_t rounds, const char *only)
{
	static struct series series[TOOLS];
	uint64_t address[2] = { ask_address(true), ask_address(false) };

	if (!address[0] || !address[1])
		give_up("trapline does not find " FUNCTION " and " VARIABLE " in redis-server");
	for (int kind = 0; kind < 4; kind++) {
		bool is_watch = kind < 2;
		bool is_full = kind % 2 == 0;
		memset(series, 0, sizeof(series));
		measure(is_full); /* warm */
		for (size_t round = 0; round < rounds; round++)
			for (size_t i = 0; i < TOOLS; i++)
				if ((!only || !i || !strcmp(only, tools[i])) && !series[i].skipped[0])
					run_round(&series[i], tools[i], is_watch, is_full, address[is_watch],
						  (round + i) % 2);
		for (size_t i = 0; i < TOOLS; i++)
			if (series[i].n || series[i].skipped[0])
				print(&series[i], tools[i], is_watch, is_full);
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	static const struct option options[] = { { "rounds", required_argument, NULL, 'r' },
						 { "only", required_argument, NULL, 'o' },
						 { 0 } };
	const char *only = NULL;
	size_t rounds = 15;

	for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
		if (c == 'r')
			rounds = strtoul(optarg, NULL, 10);
		else if (c == 'o')
			only = optarg;
		else
			return 2;
	}
	if (!rounds || rounds > ROUNDS_MAX)
		return fprintf(stderr, "bench_attach: --rounds wants 1 to %d\n", ROUNDS_MAX), 2;
	ssize_t n = readlink("/proc/self/exe", folder, sizeof(folder) - 1);
	folder[n > 0 ? n : 0] = 0;
	*strrchr(folder, '/') = 0;
	signal(SIGPIPE, SIG_IGN);
	start_server();
	run_all(rounds, only);
	uint64_t counted = counted_requests();
	printf("{\"what\":\"requests\",\"sent\":%" PRIu64 ",\"counted_by_the_server\":%" PRIu64 "}\n",
	       requests_made, counted);
	kill(server.pid, SIGTERM);
	child_end(&server, 2000);
	return counted == requests_made ? 0 : 1;
}
