/* SPDX-License-Identifier: MIT */
/* text.h - reading and writing text: see text.c. All of it needs poke_lock. */
#ifndef CODE_POKE_TEXT_H
#define CODE_POKE_TEXT_H

#include "code/mem.h"
#include "code/poke/poke_view.h"

/* Consecutive sites that are written at once: those that begin in one page. */
struct text_span {
	uint64_t start;
	uint32_t bytes;
	uint32_t image_bytes; /* also what lies before the next span, if that is in the next page */
	uint32_t first;	      /* entries [first, end) */
	uint32_t end;
	uint8_t writer; /* enum trapline_poke_writer, 0: not found yet */
	uint8_t is_open;
	uint8_t is_failed;
	uint8_t protection;    /* of opened_bytes from here's page, as it was */
	uint64_t opened_bytes; /* 0: not by this span */
	uint8_t *image;
};

struct text {
	struct mem *mem; /* NULL: not asked for yet */
	uint32_t writers;
	struct poke_entry *entries;
	struct text_span *spans;
	size_t span_count;
};

/* In the order of the protocol; from TEXT_SPIN on each needs single stores. */
enum text_phase {
	TEXT_INT3,  /* first byte: int3 */
	TEXT_TAIL,  /* the others: after */
	TEXT_FIRST, /* first byte: after */
	TEXT_BACK,  /* first byte: before */
	TEXT_SPIN,  /* first two: jump to itself */
	TEXT_SPIN_TAIL,
	TEXT_SPIN_FIRST,
	TEXT_SPIN_BACK,
	TEXT_WHOLE, /* the aligned word that differs */
};

/* Copy text without faulting. 0 or -EFAULT. */
int text_read(uint64_t address, void *out, size_t len);

/* Make spans of count sorted entries; spans has room for as many. Returns how many. */
size_t text_plan(struct text *text, size_t count);

/* Fill the images: of all spans, or of those that /proc writes. -EFAULT: *at is the entry. */
int text_read_spans(struct text *text, int all, uint64_t *at);

/*
 * Write one phase of spans that follow each other in memory, from first on, by one call of the
 * kernel. Returns how many; 0: text_write() has to do it.
 */
size_t text_write_run(struct text *text, size_t first, enum text_phase phase);

/* Write one phase of a span; the first call finds a writer. 0, or -errno with *why. */
int text_write(struct text *text, struct text_span *span, enum text_phase phase, const char **why);

/* Bytes that no thread runs yet, in pages that are executable and not writable. */
int text_write_fresh(uint64_t address, const void *bytes, size_t len);

/* Page protections as they were, descriptor closed. */
void text_close(struct text *text);

#endif
