/* SPDX-License-Identifier: MIT */
/*
 * flow_join.c - bytes that are read in parts, as shells read a line byte by byte.
 *
 * With --match, a begin of it at the end of a read is marked at once. It is a source that is
 * reported only when the next reads of the descriptor have completed it. Without, reads of a few
 * bytes are one source, which grows.
 */
#include "base/general_regs.h"

#include "base/atomic.h"
#include "flow/flow_peek.h"
#include "flow/flow_source.h"
#include "flow/flow_state.h"
#include "flow/flow_text.h"

#define STREAMS 64u
#define SMALL 8u /* bytes of a read */
#define GROWS_TO 4096u
#define BEGINS_WINDOW 4u
#define PART 256u

struct stream {
	uint32_t is_taken; /* fd + 1; 0: it is free */
	uint32_t source;   /* 0: none */
	uint32_t done;	   /* bytes of it */
	uint8_t *bytes;	   /* of a source that grows */
};

static struct stream streams[STREAMS];

static struct stream *stream_of(int fd)
{
	const uint32_t wanted = (uint32_t)fd + 1;

	for (uint32_t i = 0; i < STREAMS; i++) {
		struct stream *s = &streams[(wanted + i) % STREAMS];
		uint32_t taken = atomic_get(&s->is_taken);

		if (taken == wanted || (!taken && atomic_cas(&s->is_taken, &taken, wanted)))
			return s;
	}
	return NULL;
}

/* The longest begin of the match, but not all of it, that n bytes end with. */
static uint32_t begin_at_end(const uint8_t *bytes, uint32_t n)
{
	const struct flow_settings *set = &flow_region->settings;

	for (uint32_t from = n < set->match_bytes ? 0 : n - set->match_bytes + 1; from < n;
	     from++) {
		uint32_t k = from;

		while (k < n && bytes[k] == set->match[k - from])
			k++;
		if (k == n)
			return n - from;
	}
	return 0;
}

/* How many of n bytes the match has from `done` on. */
static uint32_t equal_from(uint32_t done, const uint8_t *bytes, uint32_t n)
{
	const struct flow_settings *set = &flow_region->settings;
	uint32_t k = 0;

	while (k < n && done + k < set->match_bytes && bytes[k] == set->match[done + k])
		k++;
	return k;
}

/* A part that is dropped leaves its row to the next one. */
static int begin_part(const struct flow_moment *m, struct stream *s, const char *name, int fd)
{
	const struct flow_settings *set = &flow_region->settings;
	uint8_t *none;

	if (!s->source) {
		s->source = flow_source_add(0, &none);
		if (!s->source)
			return 0;
		flow_texts[s->source] = (struct flow_text){ set->match, set->match_bytes };
	}
	flow_source_fill(m, s->source, FLOW_FROM_READ, name, fd);
	flow_region->sources[s->source].bytes = set->match_bytes;
	return 1;
}

/* 1: the bytes continue with what came before. *used: so many of them. */
static int go_on(const struct flow_moment *m, struct stream *s, uint64_t at, uint64_t bytes,
		 uint32_t *used)
{
	const struct flow_settings *set = &flow_region->settings;
	const uint32_t left = set->match_bytes - s->done;
	const uint32_t want = bytes < left ? (uint32_t)bytes : left;
	uint8_t part[PART];
	uint32_t n = 0;

	while (n < want) {
		const uint32_t some = want - n < PART ? want - n : PART;

		if (flow_peek(m, part, at + n, some) != some ||
		    equal_from(s->done + n, part, some) != some) {
			s->done = 0;
			return 0;
		}
		n += some;
	}
	flow_source_mark(m->thread, s->source, s->done, at, n);
	s->done += n;
	*used = n;
	if (s->done == set->match_bytes) {
		flow_text_add(s->source);
		flow_source_ready(m, s->source);
		s->source = s->done = 0;
	}
	return 1;
}

static int join_match(const struct flow_moment *m, struct stream *s, const char *name, int fd,
		      uint64_t at, uint64_t bytes)
{
	const uint32_t most = flow_region->settings.match_bytes - 1;
	uint8_t end[PART];
	uint32_t used = 0;
	int is_met = 0;

	if (s->done)
		is_met = go_on(m, s, at, bytes, &used);
	if (used == bytes)
		return 1;
	if (bytes - used > most)
		is_met |= flow_source_memory(m, FLOW_FROM_READ, name, fd, at + used, bytes - used);
	/* Only a begin that fits here is found of a longer match. */
	uint32_t n = bytes - used < most ? (uint32_t)(bytes - used) : most;
	n = n < PART ? n : PART;
	if (flow_peek(m, end, at + bytes - n, n) != n)
		return is_met;
	const uint32_t begun = begin_at_end(end, n);
	if (!begun || !begin_part(m, s, name, fd))
		return is_met;
	flow_source_mark(m->thread, s->source, 0, at + bytes - begun, begun);
	s->done = begun;
	return is_met || bytes < PART || begun >= BEGINS_WINDOW;
}

/* Without a match: the source grows, as long as the reads are small. */
static int join_small(const struct flow_moment *m, struct stream *s, const char *name, int fd,
		      uint64_t at, uint64_t bytes)
{
	if (bytes >= SMALL) {
		s->source = 0;
		return 0;
	}
	if (s->source && s->done + bytes > GROWS_TO)
		s->source = 0;
	if (!s->source) {
		s->source = flow_source_add(GROWS_TO, &s->bytes);
		s->done = 0;
		if (!s->source)
			return 0;
		flow_texts[s->source] = (struct flow_text){ s->bytes, 0 };
		flow_source_fill(m, s->source, FLOW_FROM_READ, name, fd);
		flow_region->sources[s->source].address = at;
		flow_source_ready(m, s->source);
	}
	if (flow_peek(m, s->bytes + s->done, at, bytes) != bytes)
		return 0;
	flow_texts[s->source].count = s->done + (uint32_t)bytes;
	flow_region->sources[s->source].bytes = s->done + bytes;
	flow_source_mark(m->thread, s->source, s->done, at, bytes);
	s->done += (uint32_t)bytes;
	return 1;
}

int flow_join(const struct flow_moment *m, const char *name, int fd, uint64_t at, uint64_t bytes)
{
	const struct flow_settings *set = &flow_region->settings;
	struct stream *s;

	if (set->match_length)
		return 0;
	s = stream_of(fd);
	if (!s)
		return 0;
	return set->match_bytes ? join_match(m, s, name, fd, at, bytes) :
				  join_small(m, s, name, fd, at, bytes);
}
