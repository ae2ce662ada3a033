/* SPDX-License-Identifier: MIT */
/*
 * hostile.c - a program whose debug information, tables or mappings were made to harm what reads them.
 *
 * test_hostile.sh compiles it with assembler text that holds the debug information: of hostile_value,
 * of type hostile_type, and of hostile_spin().
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

long hostile_value[2];
__thread long hostile_local;

#ifdef HOSTILE_TABLES
/* What libthread_db reads: the length of a thread's block, and the lists of threads. */
static struct node {
	struct node *next[512];
} node;
static struct node *lists[4096];
static struct node **__nptl_rtld_global __attribute__((used)) = lists;
#if HOSTILE_TABLES > 1
static const unsigned int _thread_db_sizeof_pthread __attribute__((used)) = 0xfff000;
#endif
#endif

__attribute__((noinline)) void hostile_spin(void);
void hostile_spin(void)
{
	const struct timespec pause = { .tv_nsec = 5000000 };

	hostile_value[0]++;
	hostile_local++;
	clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

/* map FILE COUNT: so many copies, each mapped; with a third argument deleted. */
static void map_copies(const char *file, int count, int is_deleted)
{
	static char bytes[1 << 20];
	int from = open(file, O_RDONLY);
	ssize_t n = read(from, bytes, sizeof(bytes));
	char path[4096];

	for (int i = 0; i < count && n > 0; i++) {
		snprintf(path, sizeof(path), "%s.%d", file, i);
		int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0755);
		if (fd < 0 || write(fd, bytes, (size_t)n) != n)
			exit(1);
		if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
			exit(1);
		close(fd);
		if (is_deleted)
			unlink(path);
	}
}

/* swap FILE OTHER: FILE is mapped, and is one of the two by turns. */
static void swap(const char *file, const char *other)
{
	int fd = open(file, O_RDONLY);

	if (fd < 0 || mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
		exit(1);
	puts("ready");
	fflush(stdout);
	for (;;)
		syscall(SYS_renameat2, AT_FDCWD, file, AT_FDCWD, other, 2 /* RENAME_EXCHANGE */);
}

int main(int argc, char **argv)
{
#ifdef HOSTILE_TABLES
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		lists[i] = &node;
	for (size_t i = 0; i < sizeof(node.next) / sizeof(node.next[0]); i++)
		node.next[i] = &node;
#endif
	if (argc > 3 && !strcmp(argv[1], "map"))
		map_copies(argv[2], atoi(argv[3]), argc > 4);
	if (argc > 3 && !strcmp(argv[1], "swap"))
		swap(argv[2], argv[3]);
	puts("ready");
	fflush(stdout);
	for (;;)
		hostile_spin();
}
