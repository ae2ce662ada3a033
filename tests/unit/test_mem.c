/* SPDX-License-Identifier: MIT */
/* test_mem.c - the memory that is opened is that of the caller, also where /proc has other numbers. */
#include "code/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define MISSING 77

static const uint64_t word = 0x7472617073656372;

/* 0: it is read by this descriptor. */
static int read_word(int fd)
{
	uint64_t found = 0;

	return pread(fd, &found, sizeof(found), (off_t)(uintptr_t)&word) != sizeof(found) ||
	       found != word;
}

/* 0, or 1 + what failed. */
static int check_both(void)
{
	struct mem mem = MEM_NONE;
	int plain = mem_open_plain();

	if (plain < 0 || read_word(plain))
		return 1;
	close(plain);
	if (mem_open_traced(&mem))
		return 2;
	int failed = read_word(mem.fd) ? 3 : 0;
	mem_close(&mem);
	return failed;
}

/* None is opened, and no helper is left. */
static int check_none(void)
{
	struct mem mem = MEM_NONE;

	if (mem_open_plain() >= 0 || mem_open_traced(&mem) == 0)
		return 1;
	return waitpid(-1, NULL, __WALL) < 0 && errno == ECHILD ? 0 : 2;
}

static int status_of(pid_t pid)
{
	int status = 0;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* Two processes on: of a new namespace, with a /proc of the old one. */
static int in_new_namespace(int (*check)(void))
{
	pid_t pid = fork();

	if (!pid) {
		if (unshare(CLONE_NEWPID))
			_exit(MISSING);
		pid = fork();
		if (!pid)
			_exit(check());
		_exit(status_of(pid));
	}
	return status_of(pid);
}

static void its_own_memory_is_opened(void **state)
{
	pid_t pid = fork();

	if (!pid)
		_exit(check_both());
	assert_int_equal(status_of(pid), 0);
}

static void its_own_memory_is_opened_where_proc_has_other_numbers(void **state)
{
	int status = in_new_namespace(check_both);

	if (status == MISSING)
		skip();
	assert_int_equal(status, 0);
}

/* The first process of a new namespace mounts the /proc of that; the caller has no number there. */
static int check_in_strange_proc(void)
{
	if (unshare(CLONE_NEWNS | CLONE_NEWPID))
		return MISSING;
	pid_t pid = fork();
	if (!pid) {
		int err = mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
			  mount("proc", "/proc", "proc", 0, NULL);

		_exit(err ? MISSING : 0);
	}
	int status = status_of(pid);
	return status ? status : check_none();
}

static void nothing_is_opened_where_proc_does_not_have_it(void **state)
{
	pid_t pid = fork();

	if (!pid)
		_exit(check_in_strange_proc());
	int status = status_of(pid);
	if (status == MISSING)
		skip();
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(its_own_memory_is_opened),
		cmocka_unit_test(its_own_memory_is_opened_where_proc_has_other_numbers),
		cmocka_unit_test(nothing_is_opened_where_proc_does_not_have_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
