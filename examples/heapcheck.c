/* SPDX-License-Identifier: MIT */
/*
 * heapcheck.c - a server that searches its own heap for errors while it serves. The search costs
 * about 1 % of its CPU time, so it can run in production. A request that is answered keeps a pointer to its
 * text, which is freed: that is the error. With the argument `right` it does not.
 *
 * The server ends after 20000 requests, or at the first error. Each error is one line of
 * JSON on the standard output; `addr2line -e MODULE MODULE_OFFSET` prints the source
 * line of a frame.
 *
 * Usage: heapcheck [right]
 * Build: cc -O2 -g heapcheck.c $(pkg-config --cflags --libs trapline) -o heapcheck
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <trapline/heap.h>

#define REQUESTS 20000

struct request {
	char *text;
};

static atomic_int errors;

static void on_error(void *arg, const struct trapline_heap_report *report)
{
	(void)arg;
	printf("%s\n", report->json);
	errors++;
}

static void answer(struct request *r)
{
	free(r->text);
}

/* The error is on purpose. */
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12
#pragma GCC diagnostic ignored "-Wanalyzer-use-after-free"
#pragma GCC diagnostic ignored "-Wanalyzer-use-of-uninitialized-value"
#endif

static unsigned int serve(int number, int is_right)
{
	struct request r = { malloc(32) };

	if (!r.text)
		return 0;
	snprintf(r.text, 32, "request %d", number);
	/* Through a variable that the compiler does not follow. */
	char *volatile text = r.text;
	unsigned int length = (unsigned int)strlen(text);
	answer(&r);
	return is_right ? length : length + (unsigned char)text[0];
}

int main(int argc, char **argv)
{
	int is_right = argc > 1 && !strcmp(argv[1], "right");
	struct trapline *self;
	struct trapline_heap *heap;
	unsigned int sum = 0;
	char why[400];
	TRAPLINE_OPTS(heap, opts);

	opts.budget_ppm = 10000;
	opts.report = on_error;
	int err = trapline_open(0, NULL, &self);
	if (!err)
		err = trapline_heap_start(self, &opts, &heap);
	if (err) {
		trapline_explain(err, why, sizeof(why));
		fprintf(stderr, "heapcheck: %s\n", why);
		return 2;
	}
	for (int i = 0; i < REQUESTS && !errors; i++)
		sum += serve(i, is_right);
	trapline_heap_stop(heap);
	trapline_close(self);
	fprintf(stderr, "served, %u bytes\n", sum);
	return errors != 0;
}
