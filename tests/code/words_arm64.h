/* SPDX-License-Identifier: MIT */
/*
 * words_arm64.h - instructions of arm64 as words, and functions made of them. Where a program cannot
 * have its text changed by the kernel (qemu-aarch64 keeps translations of it), WRITERS names others.
 */
#ifndef TESTS_CODE_WORDS_ARM64_H
#define TESTS_CODE_WORDS_ARM64_H

#include "code_test.h"

#define NOP 0xd503201fu
#define RET 0xd65f03c0u
#define BRK 0xd4200000u
#define B(words) (0x14000000u | ((uint32_t)(words) & 0x3ffffffu))
#define MOV_W0(n) (0x52800000u | (uint32_t)(n) << 5)
#define CBZ_W0(words) (0x34000000u | (uint32_t)(words) << 5)

/* A function of 8 words: site; w0 = 1; ret; w0 = 2; ret. */
#define FUNCTION_WORDS 8
static const uint32_t function_words[FUNCTION_WORDS] = {
	NOP, MOV_W0(1), RET, MOV_W0(2), RET, BRK, BRK, BRK,
};

/* What a site may be, and what the function returns then. */
#define VARIANTS 4
static const uint32_t variants[VARIANTS] = { NOP, B(3), CBZ_W0(3), 0x910003ffu /* mov sp, sp */ };
static const uint32_t results[VARIANTS] = { 1, 2, 2, 1 };

static inline uint32_t run_at(const void *code, uint32_t argument)
{
	uint32_t (*function)(uint32_t);

	memcpy(&function, &code, sizeof(function));
	return function(argument);
}

static inline uint32_t writers(void)
{
	const char *text = getenv("WRITERS");

	return text ? (uint32_t)atoi(text) : 0;
}

static inline int poke(const void *at, uint32_t from, uint32_t to, uint32_t flags)
{
	const struct trapline_poke_site site = { ADDR(at), &from, &to, sizeof(from) };
	TRAPLINE_OPTS(poke, opts);

	opts.flags = flags;
	opts.writers = writers();
	return trapline_poke(&site, 1, &opts);
}

/* Private text with n functions in it. */
static inline uint32_t *map_functions(size_t n)
{
	uint32_t *text = mmap(NULL, n * sizeof(function_words), PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(text, MAP_FAILED);
	for (size_t i = 0; i < n; i++)
		memcpy(text + i * FUNCTION_WORDS, function_words, sizeof(function_words));
	__builtin___clear_cache((char *)text, (char *)(text + n * FUNCTION_WORDS));
	assert_int_equal(mprotect(text, n * sizeof(function_words), PROT_READ | PROT_EXEC), 0);
	return text;
}

#endif
