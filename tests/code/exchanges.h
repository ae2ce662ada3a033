/* SPDX-License-Identifier: MIT */
/*
 * exchanges.h - what the tests of exchanged pages share: sites in two pages, on each processor. The library
 * is told that single stores are not promised.
 */
#ifndef TESTS_CODE_EXCHANGES_H
#define TESTS_CODE_EXCHANGES_H

#include "probes.h"

#include "code/poke/poke.h"

#define OLD 0x01010101
#define NEW 0x7e7e7e7e
#define FILE_PAGE 4096u

/*
 * crossing: an instruction in two pages. pausing: a system call with a site behind it, in the second. Each
 * byte of the constants differs.
 */
int crossing(void);
int pausing(long fd, void *byte, long n);
extern const uint8_t crossing_site[];
extern const uint8_t pausing_site[];
__asm__(".text\n.p2align 12\n.skip 4090, 0xcc\n.type crossing,@function\ncrossing: nop\nnop\nnop\n"
	"crossing_site: mov $0x01010101, %eax\nret\n"
	".type pausing,@function\npausing: xor %eax, %eax\nsyscall\n"
	"pausing_site: mov $0x01010101, %eax\nret\n.p2align 12\n");

static const uint8_t bytes_old[] = { 0xb8, 1, 1, 1, 1 };
static const uint8_t bytes_new[] = { 0xb8, 0x7e, 0x7e, 0x7e, 0x7e };

static int change(const void *at, int to_new, uint32_t flags, uint32_t writers)
{
	struct trapline_poke_site site = { ADDR(at), to_new ? bytes_old : bytes_new,
					   to_new ? bytes_new : bytes_old, sizeof(bytes_old) };
	TRAPLINE_OPTS(poke, opts);

	opts.flags = flags;
	opts.writers = writers;
	return trapline_poke(&site, 1, &opts);
}

static void flip(const void *at, int to_new)
{
	check(change(at, to_new, TRAPLINE_POKE_SINGLE_STORE, 0), "exchange");
}

__attribute__((unused)) static uint64_t exchanged(void)
{
	struct trapline_code_stats stats = { .size = sizeof(stats) };

	check(trapline_code_stats(&stats), "stats");
	return stats.by_exchange;
}

static int without_stores(void **state)
{
	poke_promise = PROMISE_NONE;
	return set_up(state);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, without_stores, tear_down)

#endif
