/* SPDX-License-Identifier: MIT */
/*
 * heap_growth_pprof.c - growth in the format of pprof: profile.proto of github.com/google/pprof, a
 * message of Protocol Buffers. It is not compressed, which pprof reads as well.
 *
 * Members of a message may come in any order, and a list is its members one by one. So each string,
 * function and location is written when it is first needed, and nothing is kept.
 */
#include "report/heap/heap_growth_priv.h"

#include <errno.h>
#include <string.h>
#include <time.h>

/* Numbers of members, by message. */
enum profile {
	SAMPLE_TYPE = 1,
	SAMPLE = 2,
	LOCATION = 4,
	FUNCTION = 5,
	STRING = 6,
	TIME = 9,
	DURATION = 10,
	DEFAULT_TYPE = 14
};
enum sample {
	SAMPLE_LOCATION = 1,
	SAMPLE_VALUE = 2
};
enum location {
	LOCATION_ID = 1,
	LOCATION_ADDRESS = 3,
	LOCATION_LINE = 4
};
enum line {
	LINE_FUNCTION = 1,
	LINE_LINE = 2
};
enum function {
	FUNCTION_ID = 1,
	FUNCTION_NAME = 2,
	FUNCTION_SYMBOL = 3,
	FUNCTION_FILE = 4
};

#define BY_VALUE 0u
#define BY_LENGTH 2u
#define MESSAGE_BYTES 8192u

struct message {
	size_t n;
	unsigned char bytes[MESSAGE_BYTES];
};

struct pprof {
	FILE *f;
	uint64_t strings; /* that are written: the next one has this number */
	uint64_t locations;
	bool is_short; /* a message had no room */
};

static void put_number(struct message *m, uint64_t n)
{
	for (; n >= 0x80 && m->n < MESSAGE_BYTES; n >>= 7)
		m->bytes[m->n++] = (unsigned char)(n | 0x80);
	if (m->n < MESSAGE_BYTES)
		m->bytes[m->n++] = (unsigned char)n;
}

static void put_value(struct message *m, unsigned int member, uint64_t value)
{
	put_number(m, member << 3 | BY_VALUE);
	put_number(m, value);
}

static void put_inner(struct message *m, unsigned int member, const struct message *inner)
{
	put_number(m, member << 3 | BY_LENGTH);
	put_number(m, inner->n);
	if (inner->n > MESSAGE_BYTES - m->n)
		m->n = MESSAGE_BYTES;
	else {
		memcpy(m->bytes + m->n, inner->bytes, inner->n);
		m->n += inner->n;
	}
}

static void write_bytes(struct pprof *p, unsigned int member, const void *bytes, size_t n)
{
	struct message head = { .n = 0 };

	put_number(&head, member << 3 | BY_LENGTH);
	put_number(&head, n);
	fwrite(head.bytes, head.n, 1, p->f);
	fwrite(bytes, n, 1, p->f);
}

static void write_message(struct pprof *p, unsigned int member, const struct message *m)
{
	p->is_short |= m->n == MESSAGE_BYTES;
	write_bytes(p, member, m->bytes, m->n);
}

static void write_value(struct pprof *p, unsigned int member, uint64_t value)
{
	struct message m = { .n = 0 };

	put_value(&m, member, value);
	fwrite(m.bytes, m.n, 1, p->f);
}

/* The first string is empty. */
static uint64_t write_string(struct pprof *p, const char *text)
{
	if (p->strings && (!text || !*text))
		return 0;
	write_bytes(p, STRING, text, strlen(text));
	return p->strings++;
}

static void write_type(struct pprof *p, const char *type, const char *unit)
{
	struct message m = { .n = 0 };

	put_value(&m, 1, write_string(p, type));
	put_value(&m, 2, write_string(p, unit));
	write_message(p, SAMPLE_TYPE, &m);
}

static void write_function(struct pprof *p, const struct run_frame *frame, uint64_t id)
{
	struct message m = { .n = 0 };
	char name[300];

	if (frame->place.function)
		snprintf(name, sizeof(name), "%s", frame->place.function);
	else
		run_place_text(&frame->place, frame->ip, name, sizeof(name));
	put_value(&m, FUNCTION_ID, id);
	put_value(&m, FUNCTION_NAME, write_string(p, name));
	put_value(&m, FUNCTION_SYMBOL,
		  write_string(p, frame->place.symbol ? frame->place.symbol : name));
	put_value(&m, FUNCTION_FILE, write_string(p, frame->place.file));
	write_message(p, FUNCTION, &m);
}

/* Each frame has its own, an inlined one as well. */
static uint64_t write_location(struct pprof *p, const struct run_frame *frame)
{
	const uint64_t id = ++p->locations;
	struct message m = { .n = 0 };
	struct message line = { .n = 0 };

	write_function(p, frame, id);
	put_value(&line, LINE_FUNCTION, id);
	put_value(&line, LINE_LINE, frame->place.line > 0 ? (uint64_t)frame->place.line : 0);
	put_value(&m, LOCATION_ID, id);
	put_value(&m, LOCATION_ADDRESS, frame->ip);
	put_inner(&m, LOCATION_LINE, &line);
	write_message(p, LOCATION, &m);
	return id;
}

static void write_sample(struct pprof *p, struct heap_report *r, const struct heap_growth_row *row)
{
	struct run_frame frames[HEAP_STACK_MAX];
	const size_t n = heap_report_frames(r, &row->alloc, false, frames);
	struct message m = { .n = 0 };

	for (size_t i = 0; i < n; i++)
		put_value(&m, SAMPLE_LOCATION, write_location(p, &frames[i]));
	put_value(&m, SAMPLE_VALUE, row->blocks);
	put_value(&m, SAMPLE_VALUE, row->bytes);
	put_value(&m, SAMPLE_VALUE, row->grown);
	write_message(p, SAMPLE, &m);
}

int heap_growth_pprof(struct heap_report *r, const struct heap_growth *g, FILE *f)
{
	struct pprof p = { .f = f };
	struct timespec now;

	write_string(&p, "");
	write_type(&p, "inuse_objects", "count");
	write_type(&p, "inuse_space", "bytes");
	write_type(&p, "grown_space", "bytes");
	write_value(&p, DEFAULT_TYPE, write_string(&p, "inuse_space"));
	clock_gettime(CLOCK_REALTIME, &now);
	write_value(&p, TIME, (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
	write_value(&p, DURATION, g->all.run_ns);
	for (size_t i = 0; i < g->count; i++)
		write_sample(&p, r, &g->rows[i]);
	return p.is_short ? -ENOBUFS : 0;
}
