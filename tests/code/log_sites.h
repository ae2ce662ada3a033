/* SPDX-License-Identifier: MIT */
/* log_sites.h - the sites of tests of the code log: on x86-64 five bytes, on arm64 a word. */
#ifndef TESTS_CODE_LOG_SITES_H
#define TESTS_CODE_LOG_SITES_H

#if defined(__x86_64__)
#include "sites.h"

#define SITE_LEN 5
#define TRAP_LEN 1
static const uint8_t trap_bytes[TRAP_LEN] = { 0xcc };
static const uint8_t fill_byte = 0xcc;
static const uint8_t some_code[] = { 0x90, 0xc3 };

/* The variants 0 to 3: a nop, a jump, a call, and one that a copy runs. */
static inline void make_log_site(struct site *site, uint8_t *at, uint8_t *far)
{
	far_a = far_b = far_c = far;
	make_site(site, at, at, 2);
}
#else
#include "words_arm64.h"

#define SITE_LEN 4
#define TRAP_LEN 4
static const uint8_t trap_bytes[TRAP_LEN] = { 0x00, 0x8e, 0x2a, 0xd4 };
static const uint8_t fill_byte;
static const uint8_t some_code[] = { 0x1f, 0x20, 0x03, 0xd5, 0xc0, 0x03, 0x5f, 0xd6 };

struct site {
	uint8_t *code;
	uint8_t variants[VARIANTS][8];
};

static inline void make_log_site(struct site *site, uint8_t *at, uint8_t *far)
{
	memcpy(at, function_words, sizeof(function_words));
	__builtin___clear_cache((char *)at, (char *)at + sizeof(function_words));
	site->code = at;
	for (int v = 0; v < VARIANTS; v++)
		memcpy(site->variants[v], &variants[v], SITE_LEN);
}

static inline uint32_t run_site(const uint8_t *code)
{
	return run_at(code, 0);
}
#endif

#endif
