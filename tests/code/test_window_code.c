/* SPDX-License-Identifier: MIT */
/* test_window_code.c - code that changes while windows run it. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>

#include <trapline/window.h>

static struct trapline_window_stats stats;

static void read_stats(void)
{
	stats.size = sizeof(stats);
	assert_int_equal(trapline_window_stats(&stats), 0);
}

static struct trapline_window_opts plain(void)
{
	return (struct trapline_window_opts){ .size = sizeof(struct trapline_window_opts) };
}

static void changed_code_runs_as_it_is(void **state)
{
	/* mov $imm, %eax; ret */
	uint8_t *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int (*function)(void) = (int (*)(void))(uintptr_t)code;
	struct trapline_window_opts opts = plain();
	int wrong = 0;

	memcpy(code, "\xb8\0\0\0\0\xc3", 6);
	assert_int_equal(trapline_window(&opts), 0);
	for (int i = 0; i < 3000; i++) {
		memcpy(code + 1, &i, 4);
		wrong += function() != i;
	}
	/* Another length, then code at another place in the same block. */
	memcpy(code, "\x31\xc0\xff\xc0\xff\xc0\xc3", 7);
	wrong += function() != 2;
	/* It changes its own next instruction: movb $3, 4(%rip) to mov's operand. */
	memcpy(code, "\xc6\x05\x01\0\0\0\x03\xb8\x01\0\0\0\xc3", 13);
	wrong += function() != 3;
	trapline_window_end();
	read_stats();
	assert_int_equal(wrong, 0);
	assert_true(stats.changed >= 2999);
	munmap(code, 4096);
}

/* mov $value, %eax; ret */
static void write_function(uint8_t *code, int value)
{
	code[0] = 0xb8;
	memcpy(code + 1, &value, sizeof(value));
	code[5] = 0xc3;
}

static void code_written_through_another_mapping_runs_as_it_is(void **state)
{
	const int fd = memfd_create("code", 0);
	struct trapline_window_opts opts = plain();
	int wrong = 0;

	assert_int_equal(ftruncate(fd, 4096), 0);
	uint8_t *writable = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	uint8_t *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
	int (*volatile function)(void) = (int (*)(void))(uintptr_t)code;
	opts.flags = TRAPLINE_WINDOW_BLOCKS;
	assert_int_equal(trapline_window(&opts), 0);
	for (int i = 0; i < 500; i++) {
		write_function(writable, i);
		wrong += function() != i;
	}
	/* By the kernel. */
	uint8_t bytes[6];
	write_function(bytes, -5);
	wrong += pwrite(fd, bytes, sizeof(bytes), 0) != sizeof(bytes);
	wrong += function() != -5;
	const int ended = trapline_window_end();
	read_stats();
	assert_int_equal(wrong, 0);
	assert_int_equal(ended, 0);
	assert_true(stats.changed >= 499);
	munmap(writable, 4096);
	munmap(code, 4096);
	close(fd);
}

/* A store through `writable`, where it is `code` too, into the operand of the very next instruction. */
static int run_ahead(uint8_t *code, uint8_t *writable)
{
	/* mov %edi, (%rsi); mov $0, %eax; ret */
	static const uint8_t ahead[] = { 0x89, 0x3e, 0xb8, 0, 0, 0, 0, 0xc3 };
	int (*volatile function)(int, void *) = (int (*)(int, void *))(uintptr_t)code;
	struct trapline_window_opts opts = plain();
	int wrong = 0;

	memcpy(writable, ahead, sizeof(ahead));
	assert_int_equal(trapline_window(&opts), 0);
	for (int i = 1; i < 1000; i++)
		wrong += function(i, writable + 3) != i;
	const int ended = trapline_window_end();
	read_stats();
	assert_int_equal(ended, 0);
	return wrong;
}

static void a_store_into_the_next_instruction_is_seen(void **state)
{
	const int all = PROT_READ | PROT_WRITE | PROT_EXEC;
	uint8_t *code = mmap(NULL, 8192, all, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	static uint8_t text[16384] __attribute__((aligned(4096)));

	assert_int_equal(run_ahead(code, code), 0);
	/* The store lies in one page, what it changes in the next one. */
	assert_int_equal(run_ahead(code + 4094, code + 4094), 0);
	assert_int_equal(run_ahead(code + 4091, code + 4091), 0);
	/* Memory of an object that the loader knows, and that can be written to. */
	assert_int_equal(mprotect(text, sizeof(text), all), 0);
	assert_int_equal(run_ahead(text + 4096, text + 4096), 0);
	munmap(code, 8192);
}

static void and_so_is_one_through_another_mapping(void **state)
{
	const int fd = memfd_create("code", 0);

	assert_int_equal(ftruncate(fd, 4096), 0);
	uint8_t *writable = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	uint8_t *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);

	assert_int_equal(run_ahead(code, writable), 0);
	munmap(writable, 4096);
	munmap(code, 4096);
	close(fd);
}

static void code_mapped_again_runs_as_it_is(void **state)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
	uint8_t *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, flags, -1, 0);
	int (*volatile function)(void) = (int (*)(void))(uintptr_t)code;
	struct trapline_window_opts opts = plain();
	int wrong = 0;

	assert_int_equal(trapline_window(&opts), 0);
	for (int i = 0; i < 300; i++) {
		write_function(code, i);
		mprotect(code, 4096, PROT_READ | PROT_EXEC);
		wrong += function() != i;
		if (i % 3 == 0)
			mprotect(code, 4096, PROT_READ | PROT_WRITE);
		else {
			munmap(code, 4096);
			wrong += mmap(code, 4096, PROT_READ | PROT_WRITE, flags | MAP_FIXED, -1,
				      0) != code;
		}
	}
	const int ended = trapline_window_end();
	read_stats();
	assert_int_equal(wrong, 0);
	assert_int_equal(ended, 0);
	munmap(code, 4096);
}

/* The fault is the program's own when translated code is gone. */
static sigjmp_buf before_fault;
static volatile uint64_t fault_at;

static void on_gone(int sig, siginfo_t *info, void *context)
{
	fault_at = (uint64_t)((const ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
	siglongjmp(before_fault, 1);
}

static void unmapped_code_faults_at_its_place(void **state)
{
	uint8_t *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int (*volatile function)(void) = (int (*)(void))(uintptr_t)code;
	struct sigaction action = { .sa_sigaction = on_gone, .sa_flags = SA_SIGINFO };
	struct trapline_window_opts opts = plain();
	struct sigaction before;

	for (volatile int how = 0; how < 2; how++) {
		write_function(code, 1);
		sigaction(SIGSEGV, &action, &before);
		fault_at = 0;
		if (!sigsetjmp(before_fault, 1)) {
			assert_int_equal(trapline_window(&opts), 0);
			for (int i = 0; i < 5; i++)
				function();
			if (how)
				munmap(code, 4096);
			else
				mprotect(code, 4096, PROT_NONE);
			function();
		}
		trapline_window_end();
		sigaction(SIGSEGV, &before, NULL);
		assert_ptr_equal(fault_at, code);
		if (!how)
			mprotect(code, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(changed_code_runs_as_it_is),
		cmocka_unit_test(code_written_through_another_mapping_runs_as_it_is),
		cmocka_unit_test(a_store_into_the_next_instruction_is_seen),
		cmocka_unit_test(and_so_is_one_through_another_mapping),
		cmocka_unit_test(code_mapped_again_runs_as_it_is),
		cmocka_unit_test(unmapped_code_faults_at_its_place),
	};

	return cmocka_run_group_tests_name("window_code", tests, NULL, NULL);
}
