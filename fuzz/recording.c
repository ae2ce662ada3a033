/* SPDX-License-Identifier: MIT */
/*
 * recording.c - any bytes as a recording, and as the payloads of chunks whose checksums are right;
 * whatever comes out of it is printed in every form.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "record/file.h"
#include "report/run/run_file.h"

static FILE *nowhere;

static void print_all(const struct run_session *s)
{
	struct run_text text = { .f = nowhere };
	struct tally tally = { 0 };

	for (size_t i = 0; i < s->hit_count; i++) {
		if (s->hits[i].call) {
			run_text_call(&text, &s->info, s->calls, &s->hits[i]);
			run_jsonl_call(nowhere, s->calls, &s->hits[i]);
		} else {
			run_text_hit(&text, &s->info, &s->hits[i]);
			run_jsonl_hit(nowhere, &s->hits[i]);
		}
		tally_add(&tally, &s->hits[i]);
	}
	if (s->calls) {
		run_text_calls_end(&text, s->calls, &s->end, &s->calls_end);
		run_jsonl_calls_end(nowhere, s->calls, &s->end, &s->calls_end);
	}
	run_text_end(&text, &s->info, &s->end, &tally);
	run_jsonl_end(nowhere, &s->info, &s->end, &tally);
	run_folded(nowhere, s);
	run_trace(nowhere, s);
	run_html(nowhere, s);
	tally_free(&tally);
}

static void try_file(const void *data, size_t size)
{
	struct run_session *s;
	char why[100];
	unsigned char *copy = malloc(size ? size : 1);

	if (!copy)
		abort();
	memcpy(copy, data, size);
	if (!run_session_parse(copy, size, &s, why, sizeof(why))) {
		print_all(s);
		run_session_free(s);
	}
	free(copy);
}

/* kind, length in two bytes, payload; again and again. */
static void try_chunks(const uint8_t *data, size_t size)
{
	char *file = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&file, &n);

	if (!f)
		abort();
	record_write_header(f);
	while (size >= 3) {
		size_t len = data[1] | (size_t)data[2] << 8;
		uint32_t kind = data[0] % 12;
		data += 3;
		size -= 3;
		len = len < size ? len : size;
		struct record_bytes b = { .data = (unsigned char *)(uintptr_t)data, .len = len };
		record_write_chunk(f, kind, &b);
		data += len;
		size -= len;
	}
	fclose(f);
	try_file(file, n);
	free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!nowhere)
		nowhere = fopen("/dev/null", "we");
	if (!nowhere)
		abort();
	try_file(data, size);
	try_chunks(data, size);
	return 0;
}
