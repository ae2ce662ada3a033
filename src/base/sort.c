/* SPDX-License-Identifier: MIT */
/* sort.c - see sort.h. A heap, in place. */
#include "base/sort.h"

#include <stdint.h>

struct sort {
	uint8_t *rows;
	size_t bytes;
	int (*compare)(const void *, const void *);
};

static uint8_t *row_at(const struct sort *s, size_t i)
{
	return s->rows + i * s->bytes;
}

static void exchange_rows(const struct sort *s, size_t a, size_t b)
{
	uint8_t *x = row_at(s, a);
	uint8_t *y = row_at(s, b);

	for (size_t i = 0; i < s->bytes; i++) {
		const uint8_t kept = x[i];

		x[i] = y[i];
		y[i] = kept;
	}
}

/* Row i goes down until none below it is greater. */
static void sift(const struct sort *s, size_t i, size_t count)
{
	for (size_t child; (child = 2 * i + 1) < count; i = child) {
		if (child + 1 < count && s->compare(row_at(s, child), row_at(s, child + 1)) < 0)
			child++;
		if (s->compare(row_at(s, i), row_at(s, child)) >= 0)
			return;
		exchange_rows(s, i, child);
	}
}

void sort_rows(void *rows, size_t count, size_t bytes, int (*compare)(const void *, const void *))
{
	const struct sort s = { rows, bytes, compare };

	for (size_t i = count / 2; i-- > 0;)
		sift(&s, i, count);
	for (size_t left = count; left-- > 1;) {
		exchange_rows(&s, 0, left);
		sift(&s, 0, left);
	}
}
