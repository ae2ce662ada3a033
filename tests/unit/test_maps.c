/* SPDX-License-Identifier: MIT */
/* test_maps.c - the rows of /proc/PID/maps: all of them, none besides, whatever names they have. */
#include "base/maps.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define PAGE 4096u
#define ROW "00001000-00002000 rwxs 00000000 00:00 0 "
#define FOLDERS 14 /* of 240 bytes: a path that fits open() when it is opened from inside */

static uint8_t *map_pages(size_t pages, int protection, int flags)
{
	uint8_t *at = mmap(NULL, pages * PAGE, protection, flags | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(at, MAP_FAILED);
	return at;
}

/* By libc, whose mappings change when it reads: so rows count of which both know. */
static size_t count_as_libc(const struct maps_row *rows, size_t n)
{
	char line[8192];
	size_t equal = 0;
	FILE *f = fopen("/proc/self/maps", "re");

	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		struct maps_row r = { 0 };
		char name[PATH_MAX] = "";

		assert_true(sscanf(line,
				   "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64
				   " %[^\n]",
				   &r.start, &r.end, r.mode, &r.offset, &r.major, &r.minor,
				   &r.inode, name) >= 7);
		for (size_t i = 0; i < n; i++)
			equal += r.start == rows[i].start && r.end == rows[i].end &&
				 !strcmp(r.mode, rows[i].mode) && r.offset == rows[i].offset &&
				 r.major == rows[i].major && r.minor == rows[i].minor &&
				 r.inode == rows[i].inode && !strcmp(name, rows[i].name);
	}
	fclose(f);
	return equal;
}

static void each_row_is_as_libc_reads_it(void **state)
{
	struct maps_row *rows = calloc(4096, sizeof(*rows));
	char name[MAPS_NAME];
	struct maps maps;
	size_t n = 0;

	assert_non_null(rows);
	for (int i = 0; i < 300; i++)
		map_pages(1, i & 1 ? PROT_NONE : PROT_READ | PROT_WRITE,
			  i & 2 ? MAP_SHARED : MAP_PRIVATE);
	errno = 42;
	assert_int_equal(maps_open(&maps, 0, name, sizeof(name)), 0);
	for (const struct maps_row *row; (row = maps_next(&maps)) && n < 4096; n++) {
		rows[n] = *row;
		rows[n].name = strdup(row->name);
	}
	assert_int_equal(maps_close(&maps), 0);
	assert_int_equal(errno, 42);
	assert_true(n > 200);
	/* What is between: the heap, and libc's own buffer. */
	assert_true(count_as_libc(rows, n) + 4 >= n);
	for (size_t i = 0; i < n; i++)
		free((void *)rows[i].name);
	free(rows);
}

static void an_address_has_its_row_and_a_hole_has_none(void **state)
{
	uint8_t *pages = map_pages(3, PROT_READ, MAP_PRIVATE);
	struct maps_row row;

	assert_int_equal(mprotect(pages, PAGE, PROT_READ | PROT_EXEC), 0);
	munmap(pages + PAGE, PAGE);
	assert_int_equal(maps_find(0, (uintptr_t)pages + PAGE - 1, NULL, 0, &row), 0);
	assert_int_equal(row.start, (uintptr_t)pages);
	assert_int_equal(row.end, (uintptr_t)pages + PAGE);
	assert_string_equal(row.mode, "r-xp");
	assert_int_equal(maps_protection(&row), PROT_READ | PROT_EXEC);
	assert_int_equal(maps_find(0, (uintptr_t)pages + PAGE, NULL, 0, &row), -ENOENT);
	assert_int_equal(maps_find(0, (uintptr_t)pages + 2 * PAGE, NULL, 0, &row), 0);
	assert_int_equal(maps_protection(&row), PROT_READ);
	assert_int_equal(maps_find(0, (uintptr_t)&row, NULL, 0, &row), 0);
	assert_string_equal(row.name, "");
}

static void go_into_folders(char *top)
{
	char folder[256] = "";

	for (int i = 0; i < 6; i++)
		strcat(folder, ROW);
	assert_non_null(mkdtemp(top));
	assert_int_equal(chdir(top), 0);
	for (int i = 0; i < FOLDERS; i++) {
		assert_int_equal(mkdir(folder, 0700), 0);
		assert_int_equal(chdir(folder), 0);
	}
}

static void go_out_of_folders(const char *top)
{
	char folder[256] = "";

	for (int i = 0; i < 6; i++)
		strcat(folder, ROW);
	unlink("file");
	for (int i = 0; i < FOLDERS; i++)
		if (chdir("..") || rmdir(folder))
			fail();
	assert_int_equal(chdir("/"), 0);
	assert_int_equal(rmdir(top), 0);
}

/* The name is longer than any buffer here, and each part of it looks like a row. */
static void the_end_of_a_long_name_is_not_a_row(void **state)
{
	char top[] = "/tmp/test_maps_XXXXXX";
	char name[16];
	struct maps maps;
	struct maps_row row;
	size_t short_names = 0;

	go_into_folders(top);
	int fd = open("file", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, PAGE), 0);
	uint8_t *page = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
	assert_ptr_not_equal(page, MAP_FAILED);

	maps_open(&maps, 0, name, sizeof(name));
	for (const struct maps_row *r; (r = maps_next(&maps));) {
		assert_int_not_equal(r->start, 0x1000);
		assert_true(strlen(r->name) < sizeof(name));
		short_names++;
	}
	assert_int_equal(maps_close(&maps), 0);
	assert_true(short_names > 5);
	assert_int_equal(maps_find(0, (uintptr_t)page, name, sizeof(name), &row), 0);
	assert_string_equal(row.name, "/tmp/test_maps_");
	/* What stands behind it is read too. */
	assert_int_equal(maps_find(0, (uintptr_t)&row, NULL, 0, &row), 0);
	munmap(page, PAGE);
	close(fd);
	go_out_of_folders(top);
}

static void *look_alone(void *first)
{
	struct maps_row row;

	pthread_join(*(pthread_t *)first, NULL);
	_exit(maps_find(0, (uintptr_t)&row, NULL, 0, &row) ? 1 : 0);
}

/* /proc/self/maps has nothing then. */
static void a_process_without_its_first_thread_has_rows(void **state)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		static pthread_t first;
		pthread_t second;

		first = pthread_self();
		pthread_create(&second, NULL, look_alone, &first);
		pthread_exit(NULL);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void another_process_has_its_own_rows(void **state)
{
	struct maps_row row;
	uint8_t *page = map_pages(1, PROT_NONE, MAP_PRIVATE);
	pid_t pid = fork();

	if (!pid) {
		pause();
		_exit(0);
	}
	munmap(page, PAGE);
	assert_int_equal(maps_find(pid, (uintptr_t)page, NULL, 0, &row), 0);
	assert_string_equal(row.mode, "---p");
	assert_int_equal(maps_find(0, (uintptr_t)page, NULL, 0, &row), -ENOENT);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	assert_int_equal(maps_find(pid, (uintptr_t)page, NULL, 0, &row), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_row_is_as_libc_reads_it),
		cmocka_unit_test(an_address_has_its_row_and_a_hole_has_none),
		cmocka_unit_test(the_end_of_a_long_name_is_not_a_row),
		cmocka_unit_test(a_process_without_its_first_thread_has_rows),
		cmocka_unit_test(another_process_has_its_own_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
