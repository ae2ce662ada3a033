/* SPDX-License-Identifier: MIT */
/*
 * shop.c - the program of trapline-recipes(7): a small server with a thread for sound, a lock, a
 * journal, a cache, a hook and a plugin. It ends by itself, and does the same in each run.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOINLINE __attribute__((noipa))
#define REQUESTS 12
#define PAGE_BYTES 300000

struct request {
	int id;
	const char *path;
	char *body;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char journal[64];
static char *volatile cache[REQUESTS]; /* it grows only */
static volatile double level;
static char *volatile mixed; /* volatile, so that the compiler keeps the calls of malloc() */

NOINLINE static void mix(int frame)
{
	mixed = malloc(256 + (size_t)frame);
	usleep(1000);
	free(mixed);
}

static void *audio(void *arg)
{
	(void)arg;
	pthread_setname_np(pthread_self(), "audio");
	for (int frame = 0; frame < 5; frame++)
		mix(frame);
	return NULL;
}

NOINLINE static void rotate(void)
{
	int fd = open(journal, O_RDWR | O_CREAT, 0600);

	if (fd >= 0 && !ftruncate(fd, 0))
		close(fd);
}

NOINLINE static int read_config(const char *path)
{
	int fd = open(path, O_RDONLY);

	if (fd >= 0)
		close(fd);
	return fd >= 0 ? 0 : -errno;
}

NOINLINE static void request_free(struct request *r)
{
	free(r->body);
	r->body = NULL;
}

NOINLINE static void journal_add(int id)
{
	pthread_mutex_lock(&lock);
	/* It holds the lock for long. */
	if (id % 4 == 0)
		usleep(20000);
	pthread_mutex_unlock(&lock);
}

NOINLINE static void report(void)
{
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
	usleep(1000);
}

static void *reporter(void *arg)
{
	(void)arg;
	pthread_setname_np(pthread_self(), "reporter");
	for (int i = 0; i < 20; i++)
		report();
	return NULL;
}

NOINLINE static int fail(int code)
{
	__asm__ volatile("");
	return code;
}

NOINLINE static int handle(struct request *r)
{
	r->body = strdup("body");
	if (!strcmp(r->path, "/search"))
		usleep(8000);
	journal_add(r->id);
	request_free(r);
	return strcmp(r->path, "/missing") ? 200 : fail(404);
}

static void serve(void)
{
	static const char *const paths[] = { "/", "/search", "/", "/cart" };

	for (int i = 0; i < REQUESTS; i++) {
		struct request r = { .id = i, .path = paths[i % 4] };
		if (i == 9)
			r.path = "/missing";
		handle(&r);
	}
}

NOINLINE static void show_level(void)
{
	__asm__ volatile("" ::: "memory");
}

/* The mean of no values is 0.0 / 0. */
NOINLINE static void measure(double sum, int count)
{
	level = sum / count;
	show_level();
}

NOINLINE static void cache_add(int at)
{
	cache[at] = malloc(PAGE_BYTES);
	usleep(2000);
}

NOINLINE static void greet(void)
{
	static const char text[] = "ready\n";

	if (write(STDOUT_FILENO, text, sizeof(text) - 1) < 0)
		perror("write");
}

/* Of UDP, so that there need be no server. */
NOINLINE static void join_cluster(void)
{
	const struct sockaddr_in to = { .sin_family = AF_INET,
					.sin_port = htons(5000),
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	if (fd >= 0 && !connect(fd, (const struct sockaddr *)&to, sizeof(to)))
		close(fd);
}

/* The child sends a signal and executes a program, whose name is in memory that was written. */
NOINLINE static void run_hook(void)
{
	const char program[] = "/bin/true";
	const pid_t child = fork();

	if (child < 0)
		return;
	if (!child) {
		kill(getppid(), SIGUSR1);
		execl(program, program, (char *)NULL);
		_exit(127);
	}
	waitpid(child, NULL, 0);
}

static void on_signal(int number)
{
	(void)number;
}

NOINLINE static void leave(int code)
{
	unlink(journal);
	exit(code);
}

int main(int argc, char **argv)
{
	pthread_t threads[2];

	signal(SIGUSR1, on_signal);

	snprintf(journal, sizeof(journal), "/tmp/shop.%d", getpid());
	pthread_create(&threads[0], NULL, audio, NULL);
	pthread_create(&threads[1], NULL, reporter, NULL);
	read_config("/etc/shop.conf");
	read_config("/etc/passwd");
	serve();
	rotate();
	for (int i = 0; i < 3; i++)
		measure(1.5 * (2 - i), 2 - i);
	for (int i = 0; i < REQUESTS; i++)
		cache_add(i);
	greet();
	join_cluster();
	run_hook();
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	if (argc > 1) {
		void *plugin = dlopen(argv[1], RTLD_NOW);
		int (*func)(int) = plugin ? (int (*)(int))dlsym(plugin, "plugin_func") : NULL;
		if (func)
			func(1);
	}
	leave(0);
}
