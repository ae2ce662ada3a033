/* SPDX-License-Identifier: MIT */
/*
 * sites.h - generated functions with one instruction that is to be changed, at any offset in a
 * line, of length 1, 2, 5, 6 or 8.
 *
 * A function returns another number for each of its variants, so that every pass says what was
 * run. Branch targets are so far apart that a torn distance leads into int3 or nowhere; constants
 * differ in every byte.
 */
#ifndef TESTS_CODE_SITES_H
#define TESTS_CODE_SITES_H

#include "code_test.h"

#define OFFSETS 64
#define LENGTHS 5
#define VARIANTS 4
#define BLOCK_BYTES 256
#define NEAR_BYTES 24 /* where the short jumps go, counted from the end of a site */

static const size_t site_lengths[LENGTHS] = { 1, 2, 5, 6, 8 };

/* What a pass may return, by length and variant. */
static const uint32_t site_results[LENGTHS][VARIANTS] = {
	{ 1, 2, 7, 1 },
	{ 1, 12, 6, 12 },
	{ 1, 2, 4, 0x1a2b3c4e },
	{ 1, 3, 1, 0x5a6b7c8e },
	{ 1, 0x11223345, 3, 0x66778890 },
};

struct site {
	uint8_t *code;
	uint8_t variants[VARIANTS][8];
	size_t length; /* index */
	int now;       /* variant */
};

/* Whether the kernel writes protected text for a tracer. It may refuse (proc_mem.force_override=never). */
__attribute__((unused)) static bool is_text_forced(void)
{
	char *text = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int status = 1;
	pid_t child = fork();

	if (!child) {
		char path[64];

		snprintf(path, sizeof(path), "/proc/%d/mem", getppid());
		ptrace(PTRACE_SEIZE, getppid(), NULL, NULL);
		int fd = open(path, O_RDWR | O_CLOEXEC);
		_exit(pwrite(fd, "", 1, (off_t)ADDR(text)) != 1);
	}
	waitpid(child, &status, 0);
	munmap(text, 4096);
	return !status;
}

/* Far targets: each ends in a result of its own. */
static uint8_t *far_a;
static uint8_t *far_b;
static uint8_t *far_c;

static inline uint8_t *map_far(uint8_t *near, int64_t away, const void *code, size_t n)
{
	uint8_t *page = (uint8_t *)(((uintptr_t)near + (uintptr_t)away) & ~4095ul);
	uint8_t *at = mmap(page, 4096, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (at != page)
		return NULL;
	memset(at, 0xcc, 4096);
	memcpy(at + 0x123, code, n);
	mprotect(at, 4096, PROT_READ | PROT_EXEC);
	return at + 0x123;
}

/* 1, or 0 when no place was free. */
static inline int map_fars(uint8_t *near)
{
	static const uint8_t a[] = { 0xb8, 2, 0, 0, 0, 0xc3 }; /* mov $2, %eax; ret */
	static const uint8_t b[] = { 0xb8, 3, 0, 0, 0, 0xc3 };
	static const uint8_t c[] = { 0xba, 3, 0, 0, 0, 0xc3 }; /* mov $3, %edx; ret */

	for (int64_t shift = 0; shift < 0x8000000 && !far_a; shift += 0x1010000)
		far_a = map_far(near, -0x10325000 - shift, a, sizeof(a));
	for (int64_t shift = 0; shift < 0x8000000 && !far_b; shift += 0x1010000)
		far_b = map_far(near, -0x25476000 - shift, b, sizeof(b));
	for (int64_t shift = 0; shift < 0x8000000 && !far_c; shift += 0x1010000)
		far_c = map_far(near, -0x3a6b7000 - shift, c, sizeof(c));
	return far_a && far_b && far_c;
}

static void put_distance(uint8_t *at, const uint8_t *end, const uint8_t *target)
{
	int32_t distance = (int32_t)(target - end);

	memcpy(at, &distance, 4);
}

static void make_variants_1(struct site *site)
{
	site->variants[0][0] = 0xf8; /* clc */
	site->variants[1][0] = 0xf9; /* stc */
	site->variants[2][0] = 0xc3; /* ret */
	site->variants[3][0] = 0x90; /* nop */
}

static void make_variants_2(struct site *site)
{
	static const uint8_t bytes[VARIANTS][2] = {
		{ 0x66, 0x90 }, { 0xeb, NEAR_BYTES }, { 0xb2, 5 }, { 0x74, NEAR_BYTES }
	};

	for (int v = 0; v < VARIANTS; v++)
		memcpy(site->variants[v], bytes[v], 2);
}

static void make_variants_5(struct site *site)
{
	const uint8_t *end = site->code + 5;

	memcpy(site->variants[0], (uint8_t[]){ 0x0f, 0x1f, 0x44, 0, 0 }, 5);
	site->variants[1][0] = 0xe9;
	put_distance(&site->variants[1][1], end, far_a);
	site->variants[2][0] = 0xe8;
	put_distance(&site->variants[2][1], end, far_c);
	memcpy(site->variants[3], (uint8_t[]){ 0xba, 0x4d, 0x3c, 0x2b, 0x1a }, 5);
}

static void make_variants_6(struct site *site)
{
	const uint8_t *end = site->code + 6;

	memcpy(site->variants[0], (uint8_t[]){ 0x66, 0x0f, 0x1f, 0x44, 0, 0 }, 6);
	memcpy(site->variants[1], (uint8_t[]){ 0x0f, 0x84 }, 2); /* je, taken */
	put_distance(&site->variants[1][2], end, far_b);
	memcpy(site->variants[2], (uint8_t[]){ 0x0f, 0x85 }, 2); /* jne, not taken */
	put_distance(&site->variants[2][2], end, far_a);
	memcpy(site->variants[3], (uint8_t[]){ 0x81, 0xc2, 0x8d, 0x7c, 0x6b, 0x5a }, 6);
}

static void make_variants_8(struct site *site)
{
	memcpy(site->variants[0], (uint8_t[]){ 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0 }, 8);
	memcpy(site->variants[1],
	       (uint8_t[]){ 0x48, 0x8d, 0x94, 0x22, 0x44, 0x33, 0x22, 0x11 }, 8);
	memcpy(site->variants[2], (uint8_t[]){ 0xe9, 0, 0, 0, 0, 0xcc, 0xcc, 0xcc }, 8);
	put_distance(&site->variants[2][1], site->code + 5, far_b);
	memcpy(site->variants[3],
	       (uint8_t[]){ 0x48, 0x8d, 0x94, 0x22, 0x8f, 0x88, 0x77, 0x66 }, 8);
}

/* Where execution begins is in code; the same bytes are written at into. */
static inline void make_site(struct site *site, uint8_t *code, uint8_t *into,
			     size_t length)
{
	static void (*const make[])(struct site *) = { make_variants_1, make_variants_2,
						       make_variants_5, make_variants_6,
						       make_variants_8 };
	/* One byte: mov $1, %eax; adc $0, %eax; ret */
	static const uint8_t tail_1[] = { 0xb8, 1, 0, 0, 0, 0x83, 0xd0, 0, 0xc3 };
	/* Others: lea 1(%rdx), %eax; ret; and for short jumps: mov $12, %eax; ret */
	static const uint8_t tail[] = { 0x8d, 0x42, 1, 0xc3 };
	static const uint8_t near_target[] = { 0xb8, 12, 0, 0, 0, 0xc3 };

	memset(site, 0, sizeof(*site));
	site->code = code;
	site->length = length;
	make[length](site);
	size_t n = site_lengths[length];
	memcpy(into, site->variants[0], n);
	memcpy(into + n, length ? tail : tail_1, length ? sizeof(tail) : sizeof(tail_1));
	if (length == 1)
		memcpy(into + n + NEAR_BYTES, near_target, sizeof(near_target));
}

/* One pass: as a call with eax 7, edx 0, ZF set, CF clear. */
static inline uint32_t run_site(const uint8_t *code)
{
	uint32_t result = 7;

	__asm__ volatile("lea -128(%%rsp), %%rsp\n\t"
			 "xor %%edx, %%edx\n\t"
			 "call *%1\n\t"
			 "lea 128(%%rsp), %%rsp"
			 : "+a"(result)
			 : "r"(code)
			 : "rdx", "cc", "memory");
	return result;
}

static inline bool is_result(size_t length, uint32_t result)
{
	for (int v = 0; v < VARIANTS; v++)
		if (site_results[length][v] == result)
			return true;
	return false;
}

#endif
