/* SPDX-License-Identifier: MIT */
/*
 * flow_text.h - texts that are searched in what sinks get.
 *
 * What runs between windows is not seen. A text that the user has named is in the buffer of a sink
 * all the same.
 */
#ifndef FLOW_FLOW_TEXT_H
#define FLOW_FLOW_TEXT_H

#include "flow/flow_state.h"

#define FLOW_SEARCHED_MOST FLOW_MATCH_BYTES /* bytes of a text */

struct flow_searched {
	const uint8_t *bytes;
	uint32_t count;
	uint32_t source;   /* the newest that has this text; 0: none yet */
	uint32_t is_ready; /* all of the above, and skip */
	uint8_t skip[256]; /* by the byte where it would end: how far on it can */
};

/* The match is the first. One that another process of the run has read is a source here too. */
void flow_text_start(void);
/* The bytes of a source become one of the texts, or it becomes the source of one. */
void flow_text_add(uint32_t source);
/* 1: there is one that is searched now. */
int flow_text_any(void);
/* NULL: no more. */
const struct flow_searched *flow_text_at(uint32_t index);
/* Where it begins in n bytes, from `from` on; n: nowhere. */
size_t flow_text_find(const struct flow_searched *s, const uint8_t *bytes, size_t from, size_t n);

#endif
