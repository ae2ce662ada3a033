/* SPDX-License-Identifier: MIT */
/* probe_word.c - see probe_word.h. */
#include "code/probe/probe_word.h"

#include <stddef.h>
#include <sys/mman.h>

#include "base/memory.h"
#include "code/poke/region.h"

#define WORD_ARENAS_MAX 256
#define WORDS (PAGE_BYTES / sizeof(uint64_t))
#define WORD_REACH 0x30000000ll

/* Words are near to the code that jumps through them. */
struct word_arena {
	uint64_t *words;
	uint32_t used;
};
static struct word_arena word_arenas[WORD_ARENAS_MAX];
static uint32_t word_arena_count;

uint64_t *probe_word_near(uint64_t near)
{
	for (uint32_t i = 0; i < word_arena_count; i++) {
		int64_t distance = (int64_t)((uintptr_t)word_arenas[i].words - near);

		if (distance < WORD_REACH && distance > -WORD_REACH && word_arenas[i].used < WORDS)
			return &word_arenas[i].words[word_arenas[i].used++];
	}
	if (word_arena_count == WORD_ARENAS_MAX)
		return NULL;
	int64_t start = region_find(near, PAGE_BYTES, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1);
	if (start < 0)
		return NULL;
	word_arenas[word_arena_count] = (struct word_arena){ (uint64_t *)(uintptr_t)start, 1 };
	return word_arenas[word_arena_count++].words;
}
