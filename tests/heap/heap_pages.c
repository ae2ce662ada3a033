/* SPDX-License-Identifier: MIT */
/*
 * heap_pages.c - what a program sees of the memory of its freed blocks: the bytes that it had, as without a detector
 * that takes the page away. Each case makes its errors and goes on. heap_pages CASE; a line for what is wrong.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define HEAD 16 /* bytes that an allocator may use in a freed block */
#define BLOCKS 3000
#define THREADS 4
#define ROUNDS 20000

static int wrong;
static const size_t sizes[] = { 24, 40, 255, 256, 257, 1000, 4000, 4096, 9000 };
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static void check(int is_right, const char *what, size_t bytes)
{
	if (is_right)
		return;
	printf("%s: %zu bytes\n", what, bytes);
	wrong = 1;
}

static char *filled(size_t bytes)
{
	return memset(malloc(bytes), 0x5a, bytes);
}

/* Behind what an allocator uses. */
static int is_as_it_was(const volatile char *p, size_t bytes)
{
	for (size_t i = HEAD; i < bytes; i++)
		if (p[i] != 0x5a)
			return 0;
	return 1;
}

static void by_read(void)
{
	for (size_t i = 0; i < SIZES; i++) {
		char *p = filled(sizes[i]);

		free(p);
		check(is_as_it_was(p, sizes[i]), "read", sizes[i]);
	}
}

static void by_write(void)
{
	for (size_t i = 0; i < SIZES; i++) {
		volatile char *p = filled(sizes[i]);

		free((void *)p);
		p[20] = 1;
		check(p[20] == 1, "what was written", sizes[i]);
		p[20] = 0x5a;
		check(is_as_it_was(p, sizes[i]), "what was beside", sizes[i]);
	}
}

static void by_copy(void)
{
	static char to[9000];

	for (size_t i = 0; i < SIZES; i++) {
		char *p = filled(sizes[i]);

		free(p);
		memcpy(to, p, sizes[i]);
		check(is_as_it_was(to, sizes[i]), "copy", sizes[i]);
	}
}

static void by_system_call(void)
{
	char name[] = "/tmp/heap_pages_XXXXXX";
	int fd = mkstemp(name);
	static char back[9000];

	unlink(name);
	for (size_t i = 0; i < SIZES; i++) {
		char *p = filled(sizes[i]);

		free(p);
		check(pwrite(fd, p, sizes[i], 0) == (ssize_t)sizes[i], "write(2)", sizes[i]);
		check(pread(fd, back, sizes[i], 0) == (ssize_t)sizes[i], "read(2)", sizes[i]);
		check(is_as_it_was(back, sizes[i]), "what write(2) got", sizes[i]);
		check(pread(fd, p, sizes[i], 0) == (ssize_t)sizes[i], "read(2) into it", sizes[i]);
		check(is_as_it_was(p, sizes[i]), "what read(2) left", sizes[i]);
	}
	close(fd);
}

static void by_child(void)
{
	char *blocks[SIZES];
	int status = 0;

	for (size_t i = 0; i < SIZES; i++)
		free(blocks[i] = filled(sizes[i]));
	pid_t child = fork();
	if (!child) {
		for (size_t i = 0; i < SIZES; i++)
			check(is_as_it_was(blocks[i], sizes[i]), "read in a child", sizes[i]);
		fflush(stdout);
		_exit(wrong);
	}
	waitpid(child, &status, 0);
	check(!status, "child", 0);
	for (size_t i = 0; i < SIZES; i++)
		check(is_as_it_was(blocks[i], sizes[i]), "read in the parent", sizes[i]);
}

static void when_locked(void)
{
	by_read();
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		return;
	by_read();
	by_write();
	munlockall();
	by_read();
}

static void beyond(void)
{
	volatile char *p = filled(32);

	p[32] = 1;
	p[8192] = 1;
	free((void *)p);
	by_read();
}

static int lines_of_maps(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	int lines = 0;

	for (int c; (c = getc(f)) != EOF;)
		lines += c == '\n';
	fclose(f);
	return lines;
}

/* Prints how many mappings many blocks make. */
static void mappings(void)
{
	static char *blocks[BLOCKS];
	int before = lines_of_maps();

	for (int i = 0; i < BLOCKS; i++)
		blocks[i] = filled(100);
	for (int i = 0; i < BLOCKS; i += 2)
		free(blocks[i]);
	printf("mappings %d\n", lines_of_maps() - before);
	for (int i = 1; i < BLOCKS; i += 2)
		check(is_as_it_was(blocks[i], 100), "block", 100);
}

/* A block in use is never touched by what is done for others. */
static void *hammer(void *arg)
{
	char *stale = NULL;

	for (uintptr_t n = 0; n < ROUNDS; n++) {
		char value = (char)((uintptr_t)arg * 50 + n % 50);
		size_t bytes = 24 + n * 37 % 3000;
		char *p = memset(malloc(bytes), value, bytes);
		volatile char *old = stale;

		if (old && n % 64 == 0)
			(void)old[bytes % 24];
		for (size_t i = 0; i < bytes; i += 7)
			if (p[i] != value)
				check(0, "block of a thread", bytes);
		free(p);
		stale = p;
	}
	return NULL;
}

static void threads(void)
{
	pthread_t t[THREADS];

	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, hammer, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {
		{ "read", by_read },	     { "write", by_write },	 { "copy", by_copy },
		{ "call", by_system_call }, { "child", by_child },	 { "locked", when_locked },
		{ "beyond", beyond },	     { "mappings", mappings }, { "threads", threads },
	};

	for (size_t i = 0; argc > 1 && i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!strcmp(argv[1], cases[i].name)) {
			cases[i].run();
			return wrong;
		}
	return 2;
}
