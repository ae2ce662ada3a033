/* SPDX-License-Identifier: MIT */
/*
 * flow_text.c - see flow_text.h.
 *
 * In a row only the number of its source changes: a thread may be searching it.
 */
#include "base/general_regs.h"

#include "flow/flow_text.h"

#include "base/atomic.h"
#include "flow/flow_state.h"

#define SEARCHED 8u
#define LEAST 8u /* of a text that is not the match: shorter ones are in other data too */

static struct flow_searched searched[SEARCHED];
static uint32_t searched_count;
static uint32_t are_any;

static void fill(struct flow_searched *s, const uint8_t *bytes, uint32_t count)
{
	const uint32_t most = count < 255 ? count : 255;

	s->bytes = bytes;
	s->count = count;
	for (uint32_t i = 0; i < 256; i++)
		s->skip[i] = (uint8_t)most;
	for (uint32_t i = count - most; i + 1 < count; i++)
		s->skip[bytes[i]] = (uint8_t)(count - 1 - i);
	atomic_set(&s->is_ready, 1u);
}

static int is_text(const struct flow_searched *s, const struct flow_text *text)
{
	if (!atomic_get(&s->is_ready) || s->count != text->count)
		return 0;
	for (uint32_t i = 0; i < text->count; i++)
		if (s->bytes[i] != text->bytes[i])
			return 0;
	return 1;
}

static void set_source(struct flow_searched *s, uint32_t source)
{
	atomic_set(&s->source, source);
	atomic_set(&are_any, 1u);
}

void flow_text_start(void)
{
	const struct flow_settings *set = &flow_region->settings;
	const uint32_t used = atomic_get(&flow_region->sources_used);

	if (!set->match_bytes)
		return;
	fill(&searched[0], set->match, set->match_bytes);
	searched_count = 1;
	for (uint32_t i = used < FLOW_SOURCES ? used : FLOW_SOURCES - 1; i; i--) {
		if (!atomic_get(&flow_region->sources[i].ready))
			continue;
		flow_texts[i] = (struct flow_text){ set->match, set->match_bytes };
		set_source(&searched[0], i);
		return;
	}
}

void flow_text_add(uint32_t source)
{
	const struct flow_text *text = &flow_texts[source];
	uint32_t used = atomic_get(&searched_count);

	for (uint32_t i = 0; i < used; i++) {
		if (is_text(&searched[i], text)) {
			set_source(&searched[i], source);
			return;
		}
	}
	if (text->count < LEAST || text->count > FLOW_SEARCHED_MOST)
		return;
	do {
		if (used == SEARCHED) {
			flow_count(FLOW_LOST_TEXTS, 1);
			return;
		}
	} while (!atomic_cas(&searched_count, &used, used + 1));
	fill(&searched[used], text->bytes, text->count);
	set_source(&searched[used], source);
}

int flow_text_any(void)
{
	return atomic_get(&are_any) != 0;
}

const struct flow_searched *flow_text_at(uint32_t index)
{
	return index < atomic_get(&searched_count) ? &searched[index] : NULL;
}

size_t flow_text_find(const struct flow_searched *s, const uint8_t *bytes, size_t from, size_t n)
{
	const size_t count = s->count;
	const uint8_t last = s->bytes[count - 1];

	for (size_t end = from + count - 1; end < n; end += s->skip[bytes[end]]) {
		size_t k = 0;

		if (bytes[end] != last)
			continue;
		while (k < count && bytes[end + 1 - count + k] == s->bytes[k])
			k++;
		if (k == count)
			return end + 1 - count;
	}
	return n;
}
