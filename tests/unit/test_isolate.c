/* SPDX-License-Identifier: MIT */
/* test_isolate.c - what a limited copy of the command has: files to read, and nothing to act with. */
#include "report/safe/isolate.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#define FIRST 20
#define KINDS 9

enum kind { MEMORY, TEXT, MEMORY_WRITE, TEXT_WRITE, ANONYMOUS, PIPE, SOCKET, EVENT, PIDFD };

static int pipe_end(void)
{
	int ends[2] = { -1, -1 };

	return pipe2(ends, O_CLOEXEC) ? -1 : ends[1];
}

static int socket_end(void)
{
	int ends[2] = { -1, -1 };

	return socketpair(AF_UNIX, SOCK_STREAM, 0, ends) ? -1 : ends[1];
}

static int open_kind(enum kind kind)
{
	switch (kind) {
	case MEMORY:
		return open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	case TEXT:
		return open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	case MEMORY_WRITE:
		return open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	case TEXT_WRITE:
		return open("/tmp", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
	case ANONYMOUS:
		return memfd_create("region", MFD_CLOEXEC);
	case PIPE:
		return pipe_end();
	case SOCKET:
		return socket_end();
	case EVENT:
		return eventfd(0, EFD_CLOEXEC);
	default:
		return (int)syscall(SYS_pidfd_open, getpid(), 0);
	}
}

static int open_all(void **state)
{
	for (int i = 0; i < KINDS; i++) {
		int fd = open_kind((enum kind)i);

		assert_return_code(fd, errno);
		assert_return_code(dup2(fd, FIRST + i), errno);
		close(fd);
	}
	return 0;
}

struct seen {
	uint64_t kinds;
	uint64_t others; /* below FIRST, without the first three */
	uint64_t standard;
	char magic[4]; /* of the program, by its descriptor */
	uint64_t word; /* of memory, by its descriptor */
};

static uint64_t open_between(int first, int end)
{
	uint64_t found = 0;

	for (int fd = first; fd < end; fd++)
		found |= (uint64_t)(fcntl(fd, F_GETFD) >= 0) << (fd - first);
	return found;
}

static void look(void *arg, void *answer)
{
	struct seen seen = { .kinds = open_between(FIRST, FIRST + KINDS),
			     .others = open_between(3, FIRST),
			     .standard = open_between(0, 3) };

	if (pread(FIRST + TEXT, seen.magic, sizeof(seen.magic), 0) != sizeof(seen.magic) ||
	    pread(FIRST + MEMORY, &seen.word, sizeof(seen.word), (off_t)(uintptr_t)arg) !=
		    sizeof(seen.word))
		seen.word = 0;
	memcpy(answer, &seen, sizeof(seen));
}

static const uint64_t word = 0x1234567;

static void look_at_copy(struct seen *seen)
{
	assert_int_equal(isolate(look, (void *)(uintptr_t)&word, seen, sizeof(*seen)), 0);
}

static void a_copy_has_the_files_to_be_read(void **state)
{
	struct seen seen;

	look_at_copy(&seen);
	assert_int_equal(seen.kinds & (1u << MEMORY | 1u << TEXT), 1u << MEMORY | 1u << TEXT);
	assert_memory_equal(seen.magic, "\177ELF", 4);
	assert_int_equal(seen.word, word);
}

static void a_copy_has_nothing_to_act_with(void **state)
{
	struct seen seen;

	look_at_copy(&seen);
	assert_int_equal(seen.kinds & ~(uint64_t)(1u << MEMORY | 1u << TEXT), 0);
	/* One is for its answer. */
	assert_true(__builtin_popcountll(seen.others) <= 1);
	assert_int_equal(seen.standard, 0);
}

static void the_command_keeps_all(void **state)
{
	struct seen seen;

	look_at_copy(&seen);
	assert_int_equal(open_between(FIRST, FIRST + KINDS), (1u << KINDS) - 1);
	assert_int_equal(open_between(0, 3), 7);
}

static void crash(void *arg, void *answer)
{
	raise(SIGKILL);
}

static void a_copy_that_crashes_has_no_answer(void **state)
{
	struct seen seen = { .word = word };

	assert_int_equal(isolate(crash, NULL, &seen, sizeof(seen)), -ECHILD);
	assert_int_equal(seen.word, word);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_copy_has_the_files_to_be_read),
		cmocka_unit_test(a_copy_has_nothing_to_act_with),
		cmocka_unit_test(the_command_keeps_all),
		cmocka_unit_test(a_copy_that_crashes_has_no_answer),
	};

	return cmocka_run_group_tests(tests, open_all, NULL);
}
