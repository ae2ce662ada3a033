/* SPDX-License-Identifier: MIT */
/*
 * probed.c - probed THREADS CALLS [fork | scribble | setuid | exec | reload]: THREADS threads call work() CALLS times each, with
 * 0 and up, and compare each result; CALLS 0: until killed. Exits with 0 if all were right.
 *
 * fork: a child makes as many calls too, and must be right too. scribble: meanwhile random bytes
 * are written over all memory that trapline shares with this process, its seed is printed. setuid: the
 * user id is set meanwhile, which libc does in each thread, one by one. exec: then it starts itself, for
 * as many calls. reload: it loads libm, calls cbrt() and unloads it, again and again until killed.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef THREAD_LOCAL_BYTES
__thread volatile char locals[THREAD_LOCAL_BYTES];
#endif

struct box {
	uint64_t n;
	const char *name;
};

static uint64_t calls;
static int is_wrong;
static volatile int is_over;

static __attribute__((noipa)) uint64_t work(uint64_t n, struct box *box)
{
	/* So long that a jump takes its place wherever the program is loaded. */
	__asm__ volatile("nopl 8(%rax,%rax,1)");
	return n * 3 + box->n;
}

static void *worker(void *arg)
{
	struct box box = { 5, "box" };

	for (uint64_t i = 0; !calls || i < calls; i++) {
		if (work(i, &box) != i * 3 + 5)
			is_wrong = 1;
		if (!calls && i % 64 == 0)
			usleep(100);
	}
	return NULL;
}

/* By a call that tells of memory that is gone, or is only read by now. */
static void write_word(char *at, uint64_t word)
{
	struct iovec from = { &word, sizeof(word) };
	struct iovec to = { at, sizeof(word) };

	process_vm_writev(getpid(), &from, 1, &to, 1, 0);
}

static void write_over(char *start, size_t bytes)
{
	for (int i = 0; i < 1000; i++) {
		uint64_t word = (uint64_t)rand() << 32 ^ (uint64_t)rand() << 10 ^ (uint64_t)rand();

		if (rand() % 4 == 0)
			word &= 0xff;
		write_word(start + (size_t)rand() % (bytes / 8) * 8, word);
		/* The beginning has the words that both sides look at most. */
		write_word(start + (size_t)rand() % 1024 * 8, word);
	}
}

static void *scribble(void *arg)
{
	char line[512];

	while (!is_over) {
		FILE *f = fopen("/proc/self/maps", "r");

		while (f && fgets(line, sizeof(line), f)) {
			unsigned long start;
			unsigned long end;

			if (strstr(line, "memfd:trapline") && strstr(line, "rw-s") &&
			    sscanf(line, "%lx-%lx", &start, &end) == 2)
				write_over((char *)start, end - start);
		}
		if (f)
			fclose(f);
	}
	return NULL;
}

static void run(int threads)
{
	pthread_t thread[64];

	for (int i = 0; i < threads; i++)
		pthread_create(&thread[i], NULL, worker, NULL);
	for (int i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
}

/* Now and then it is not there for a moment. */
static int reload(void)
{
	double expected = 0;

	for (;;) {
		void *library = dlopen("libm.so.6", RTLD_NOW);
		double (*cbrt)(double) = library ? dlsym(library, "cbrt") : NULL;

		if (!cbrt)
			return 4;
		if (expected == 0)
			expected = cbrt(27);
		for (int i = 0; i < 3000; i++) {
			if (cbrt(27) != expected)
				return 5;
			usleep(50);
		}
		dlclose(library);
		usleep(2000);
	}
}

int main(int argc, char **argv)
{
	const char *how = argc > 3 ? argv[3] : "";
	int threads = argc > 1 ? atoi(argv[1]) : 1;
	int status = 0;
	pthread_t other;

	calls = argc > 2 ? strtoull(argv[2], NULL, 0) : 0;
	if (!strcmp(how, "reload"))
		return reload();
	if (!strcmp(how, "scribble")) {
		const char *seed = getenv("TRAPLINE_SEED");
		unsigned int value = seed ? (unsigned int)atoi(seed) : (unsigned int)time(NULL);

		printf("seed %u\n", value);
		fflush(stdout);
		srand(value);
		pthread_create(&other, NULL, scribble, NULL);
	}
	pid_t child = !strcmp(how, "fork") ? fork() : -1;
	run(threads > 64 ? 64 : threads);
	if (!strcmp(how, "setuid") && setuid(getuid()))
		return 3;
	if (!strcmp(how, "exec"))
		return is_wrong || execl("/proc/self/exe", "probed", argv[1], argv[2], NULL);
	is_over = 1;
	if (child == 0)
		_exit(is_wrong);
	if (child > 0 && waitpid(child, &status, 0) != child)
		return 2;
	return is_wrong || status;
}
