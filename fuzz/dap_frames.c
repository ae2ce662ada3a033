/* SPDX-License-Identifier: MIT */
/*
 * dap_frames.c - any bytes from a client: messages are objects, an error has a reason and stays, and how the
 * bytes arrive makes no difference.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "cli/dap/dap_frames.h"
#include "fuzz.h"

#define LENGTH_MAX 4096

static void must(bool holds)
{
	if (!holds)
		abort();
}

/* How many messages there are, and the length of their texts; -1 in *end: it is broken. */
static size_t read_all(const uint8_t *data, size_t size, size_t piece, size_t *length, int *end)
{
	struct dap_frames f;
	size_t count = 0;

	dap_frames_begin(&f, LENGTH_MAX);
	*length = 0;
	*end = 0;
	for (size_t at = 0; at < size && !*end; at += piece) {
		size_t n = size - at < piece ? size - at : piece;
		json_t *j = NULL;
		int got;

		must(!dap_frames_add(&f, data + at, n));
		while ((got = dap_frames_next(&f, &j)) == 1) {
			must(json_is_object(j));
			*length += json_object_size(j);
			json_decref(j);
			count++;
		}
		must(got == 0 || (got == -EPROTO && f.why));
		must(got == 0 || dap_frames_next(&f, &j) == -EPROTO);
		*end = got ? -1 : 0;
	}
	dap_frames_end(&f);
	return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t piece = size ? 1 + data[0] % 7 : 1;
	size_t length[2];
	int end[2];
	size_t whole = read_all(data, size, size ? size : 1, &length[0], &end[0]);
	size_t parts = read_all(data, size, piece, &length[1], &end[1]);

	must(whole == parts && length[0] == length[1] && end[0] == end[1]);
	return 0;
}
