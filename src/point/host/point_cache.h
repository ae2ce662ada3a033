/* SPDX-License-Identifier: MIT */
/*
 * point_cache.h - the code of a window in another process: see point_window.h.
 *
 * Both processes have it at the same address. Here it is written, there it is executed, and each
 * piece is copied when it is done. Its data are there: the members of struct window_area that code
 * uses, and the table of indirect branches.
 */
#ifndef POINT_HOST_POINT_CACHE_H
#define POINT_HOST_POINT_CACHE_H

#include "code/window/window.h"
#include "point/host/point_tracee.h"

#define POINT_SITE_REPEATED UINT32_MAX
#define POINT_PAGES 64

/* What the code in the cache leaves there for Trapline: a prefix of struct window_area. */
struct point_values {
	uint64_t spill_rax, spill_rcx, spill_rdx, spill_other;
	int64_t left;
	uint64_t target;
	uint32_t site;
	/* Kept by the gate, whose system call needs the registers. */
	uint64_t rax, rcx, r11;
};

struct point_cache {
	struct window_area *area; /* NULL: it is not made yet */
	struct point_tracee *tracee;
	uint64_t behind_gate; /* pc in the stop of its system call */
	uint32_t repeated;    /* offset of a location for a string instruction */
	uint32_t epoch;
	bool is_there; /* the target has the mapping */
	struct {
		uint64_t address; /* 1: none */
		size_t bytes;
		uint8_t text[4096];
	} pages[POINT_PAGES]; /* of the target's text, as read */
};

/* 0 or -errno; 1: the tracee's status states why the thread is gone. */
int point_cache_open(struct point_cache *c);
/* Without the thread, when it is gone. */
void point_cache_close(struct point_cache *c);
/* The target has no mapping of Trapline until point_cache_open(). The same results. */
int point_cache_remove(struct point_cache *c);
bool point_cache_overlaps(const struct point_cache *c, uint64_t start, uint64_t bytes);
/* Empties it. 0 or -errno. */
int point_cache_flush(struct point_cache *c);
/* What was read of the target's text may have changed. */
void point_cache_forget_text(struct point_cache *c);

int point_cache_values(const struct point_cache *c, struct point_values *out);
int point_cache_set_left(const struct point_cache *c, int64_t left);

/* The block at pc, with those that it leads to. Its number or -errno. */
int point_cache_block(struct point_cache *c, uint64_t pc);
/* One of at most `most` instructions, which is not found again. */
int point_cache_short_block(struct point_cache *c, uint64_t pc, unsigned int most);
/* The branch at this offset goes to the block. 0 or -errno. */
int point_cache_link(struct point_cache *c, uint32_t at, uint32_t block);
/* So does an indirect one to its pc. */
int point_cache_link_indirect(struct point_cache *c, uint32_t block);
/* What jumps to the old block continues to the new one. */
int point_cache_replace(struct point_cache *c, uint32_t old, uint32_t block);
/* Its location has this string instruction. */
int point_cache_put_repeated(struct point_cache *c, const uint8_t *bytes, unsigned int length);

static inline uint64_t point_cache_address(const struct point_cache *c, uint32_t offset)
{
	return (uint64_t)(uintptr_t)c->area->code + offset;
}

#endif
