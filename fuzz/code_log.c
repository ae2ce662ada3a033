/* SPDX-License-Identifier: MIT */
/*
 * code_log.c - any bytes as a code log, and as records whose sums are right; each address and time in
 * it is asked for.
 */
#include <stdlib.h>
#include <string.h>

#include <trapline/code_log.h>

#include "fuzz.h"
#include "record/code_layout.h"

#define QUESTIONS 64

static void ask_all(const struct trapline_code_log *log)
{
	struct trapline_code_entry e = { .size = sizeof(e) };
	struct trapline_code_span span = { .size = sizeof(span) };
	uint8_t bytes[32] = { 0 };

	for (size_t i = 0; i < QUESTIONS && !trapline_code_log_entry(log, i, &e); i++) {
		if (e.address > UINT64_MAX - sizeof(bytes))
			continue;
		for (int late = -1; late <= 1; late++) {
			int err = trapline_code_at(log, e.pid, e.address,
						   e.time_ns + (uint64_t)(int64_t)late, bytes,
						   sizeof(bytes), &span);

			if (!err && (span.known > sizeof(bytes) || span.from_ns > span.until_ns))
				abort();
		}
		for (size_t j = 0; e.after && e.kind != TRAPLINE_CODE_ENTRY_FILL && j < e.len; j++)
			bytes[j % sizeof(bytes)] ^= e.after[j];
		if (e.name && strlen(e.name) > CODE_RECORD_MAX)
			abort();
	}
}

static void try_log(const void *data, size_t size)
{
	struct trapline_code_log *log;

	if (trapline_code_log_parse(data, size, &log))
		return;
	ask_all(log);
	trapline_code_log_close(log);
}

static size_t add_record(uint8_t *to, struct code_record *r, uint64_t time_ns)
{
	r->head.pid = 1;
	r->head.tid = 1;
	r->head.source = 1;
	r->head.time_ns = time_ns;
	code_close(&r->head);
	memcpy(to, r, r->head.bytes);
	return r->head.bytes;
}

/* kind, length, payload; again and again, behind a good format. */
static void try_records(const uint8_t *data, size_t size)
{
	static uint8_t made[1 << 17];
	static struct code_record r;
	size_t n = 0;

	code_open(&r.head, CODE_FORMAT);
	code_put(&r.head, CODE_MAGIC, 8);
	code_put32(&r.head, CODE_VERSION);
	code_put32(&r.head, CODE_CLOCK_MONOTONIC);
	n += add_record(made, &r, 1);
	for (uint64_t time = 2; size >= 2 && n < sizeof(made) - 512; time++) {
		size_t len = data[1] < size - 2 ? data[1] : size - 2;

		code_open(&r.head, (enum code_kind)(data[0] % (CODE_KSYMBOL + 2)));
		code_put(&r.head, data + 2, len);
		n += add_record(made + n, &r, time);
		data += 2 + len;
		size -= 2 + len;
	}
	try_log(made, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	try_log(data, size);
	try_records(data, size);
	return 0;
}
