/* SPDX-License-Identifier: MIT */
/*
 * test_insn_watch.c - in the handler of a real watchpoint the instruction that hit is found.
 *
 * Instructions with a label before them touch a watched word; the handler, with the signal's frame
 * alone, must name the label.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/sys.h"
#include "code/insn/insn_back.h"
#include "code/insn/insn_context.h"

#define HITS_MAX 16

/* The watched word is the middle one. */
static uint64_t words[64] __attribute__((aligned(64)));
#define WATCHED 32

struct hit {
	struct insn_back back;
	uint64_t pc;
};

static struct hit hits[HITS_MAX];
static volatile sig_atomic_t hit_count;
static uint8_t watch_access;

static void on_trap(int signal, siginfo_t *info, void *context)
{
	struct insn_regs regs;

	if (hit_count == HITS_MAX)
		return;
	struct hit *hit = &hits[hit_count++];
	insn_regs_from_context(context, &regs);
	hit->pc = regs.r[INSN_RIP];
	const struct insn_back_query query = {
		.text = (const uint8_t *)(uintptr_t)(hit->pc - 64),
		.text_address = hit->pc - 64,
		.text_bytes = 80,
		.watch = (uint64_t)(uintptr_t)&words[WATCHED],
		.watch_bytes = 8,
		.access = watch_access,
		.after = &regs,
	};
	insn_back_x86_64(&query, &hit->back);
}

/* Something long behind each place, so that no two are neighbours. */
extern void touch_all(uint64_t *watched);
__asm__(".text\n"
	".balign 64\n"
	".skip 64, 0x90\n"
	"touch_all:\n"
	"	push %rbx\n"
	"	mov %rdi, %rbx\n"
	"	mov %rdi, %rax\n"
	"place_0: mov %rbx, (%rbx)\n"
	"	nopl 0x11223344(%rax)\n"
	"place_1: mov (%rax), %rax\n"
	"	nopl 0x11223344(%rax)\n"
	"place_2: lock incl 4(%rbx)\n"
	"	nopl 0x11223344(%rax)\n"
	"	mov %rbx, %rdi\n"
	"	mov $3, %ecx\n"
	"	xor %eax, %eax\n"
	"place_3: rep stosq\n"
	"	nopl 0x11223344(%rax)\n"
	"	lea -8(%rbx), %rdi\n"
	"	mov $2, %ecx\n"
	"place_4: rep stosq\n"
	"	nopl 0x11223344(%rax)\n"
	"place_5: movups -4(%rbx), %xmm0\n"
	"	nopl 0x11223344(%rax)\n"
	"	mov %rsp, %rdx\n"
	"	lea 8(%rbx), %rsp\n"
	"place_6: push %rax\n"
	"	nopl 0x11223344(%rax)\n"
	"place_7: pop %rcx\n"
	"	nopl 0x11223344(%rax)\n"
	"	mov %rdx, %rsp\n"
	"	pop %rbx\n"
	"	ret\n");

extern const uint8_t place_0[], place_1[], place_2[], place_3[], place_4[], place_5[],
	place_6[], place_7[];

static int open_watch(uint32_t type)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_BREAKPOINT,
		.size = sizeof(attr),
		.bp_type = type,
		.bp_addr = (uint64_t)(uintptr_t)&words[WATCHED],
		.bp_len = 8,
		.sample_period = 1,
		.disabled = 1,
		.exclude_kernel = 1,
		.sigtrap = 1,
		.remove_on_exec = 1,
	};

	return sys_perf_event_open(&attr, 0, -1, -1, 0);
}

static void run_watched(uint32_t type, uint8_t access)
{
	const struct sigaction action = { .sa_sigaction = on_trap,
					  .sa_flags = SA_SIGINFO | SA_ONSTACK };
	/* The code under test has its stack pointer in the watched words. */
	static uint8_t stack[65536];
	const stack_t alternate = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction old;
	const int fd = open_watch(type);

	if (fd < 0) {
		printf("# no watchpoint: %s\n", strerror(-fd));
		skip();
	}
	hit_count = 0;
	watch_access = access;
	sigaltstack(&alternate, NULL);
	sigaction(SIGTRAP, &action, &old);
	ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
	touch_all(&words[WATCHED]);
	ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
	sys_close(fd);
	sigaction(SIGTRAP, &old, NULL);
}

static void assert_hits(const uint8_t *const places[], unsigned int n)
{
	assert_int_equal(hit_count, n);
	for (unsigned int i = 0; i < n; i++) {
		const struct insn_back_candidate *best = &hits[i].back.candidates[0];

		if (hits[i].back.found < INSN_BACK_LIKELY ||
		    best->address != (uint64_t)(uintptr_t)places[i])
			fail_msg("hit %u at pc %#lx: found %u, %#lx, should be %#lx", i,
				 (unsigned long)hits[i].pc, hits[i].back.found,
				 (unsigned long)best->address,
				 (unsigned long)(uintptr_t)places[i]);
	}
}

static void accesses_are_traced_to_their_instructions(void **state)
{
	const uint8_t *const places[] = { place_0, place_1, place_2, place_3, place_4,
					  place_5, place_6, place_7 };

	run_watched(HW_BREAKPOINT_RW, INSN_READ_WRITE);
	assert_hits(places, 8);
	assert_true(hits[2].back.candidates[0].flags & INSN_ATOMIC);
	assert_int_equal(hits[5].back.candidates[0].touched,
			 (uintptr_t)&words[WATCHED] - 4);
}

static void a_watch_on_writes_finds_writers(void **state)
{
	const uint8_t *const places[] = { place_0, place_2, place_3, place_4, place_6 };

	run_watched(HW_BREAKPOINT_W, INSN_WRITE);
	assert_hits(places, 5);
	for (unsigned int i = 0; i < 5; i++)
		assert_true(hits[i].back.candidates[0].access & INSN_WRITE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(accesses_are_traced_to_their_instructions),
		cmocka_unit_test(a_watch_on_writes_finds_writers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
