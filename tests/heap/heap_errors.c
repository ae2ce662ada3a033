// SPDX-License-Identifier: MIT
/* heap_errors.c - accesses after the end, before the start and after free(), by the program's own code. */
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "heap_cases.h"

static volatile size_t heap_sink;

static size_t hide_size(size_t n)
{
	__asm__ volatile("" : "+r"(n));
	return n;
}

/* --- after the end --- */

static void over_write(int bad)
{
	char *p = malloc(32);

	put(p + 31 + bad, 'x');
	free(p);
}

static void over_write_long(int bad)
{
	char *p = malloc(48);

	put_long(p + 40 + 8 * bad, 1);
	free(p);
}

static void over_read(int bad)
{
	char *p = calloc(1, 64);

	get(p + 63 + bad);
	free(p);
}

/* Half of it is in the block. */
static void over_read_across(int bad)
{
	char *p = calloc(1, 32);

	get_long(p + 24 + 4 * bad);
	free(p);
}

/* No multiple of the alignment. */
static void over_write_odd(int bad)
{
	char *p = malloc(21);

	put(p + 20 + bad, 'x');
	free(p);
}

static void over_write_one(int bad)
{
	char *p = malloc(1);

	put(p + bad, 'x');
	free(p);
}

static void over_write_far(int bad)
{
	char *p = malloc(32);

	put(p + (bad ? 32 + 2000 : 31), 'x');
	free(p);
}

static void over_write_pages(int bad)
{
	char *p = malloc(3 * 4096);

	put(p + 3 * 4096 - 1 + bad, 'x');
	free(p);
}

static void over_calloc(int bad)
{
	char *p = calloc(4, 12);

	for (int i = 0; i < 48; i++)
		heap_require(get(p + i) == 0, "calloc gives zeros");
	put(p + 47 + bad, 'x');
	free(p);
}

static void over_realloc_grown(int bad)
{
	char *p = malloc(16);

	strcpy(p, "fifteen letters");
	p = realloc(hide(p), 80);
	heap_require(!strcmp(p, "fifteen letters"), "realloc keeps what was there");
	put(p + 79 + bad, 'x');
	free(p);
}

static void over_realloc_shrunk(int bad)
{
	char *p = malloc(112);

	strcpy(p, "fifteen letters");
	p = realloc(hide(p), 16);
	heap_require(!strcmp(p, "fifteen letters"), "realloc keeps what stays");
	put(p + 15 + bad, 'x');
	free(p);
}

static void over_aligned(int bad)
{
	char *p = aligned_alloc(64, 128);

	heap_require((uintptr_t)p % 64 == 0, "aligned_alloc aligns");
	put(p + 127 + bad, 'x');
	free(p);
}

static void over_posix_memalign(int bad)
{
	void *p = NULL;

	heap_require(!posix_memalign(&p, 256, 256) && (uintptr_t)p % 256 == 0,
		     "posix_memalign aligns");
	put((char *)p + 255 + bad, 'x');
	free(p);
}

static void over_memcpy(int bad)
{
	char from[48] = "";
	char *p = malloc(32);

	memcpy(p, hide(from), 32 + 8 * bad);
	free(p);
}

static void over_memcpy_from(int bad)
{
	char to[48];
	char *p = calloc(1, 32);

	memcpy(hide(to), p, 32 + 8 * bad);
	free(p);
}

static void over_memset(int bad)
{
	char *p = malloc(64);

	memset(p, 7, 64 + 64 * bad);
	free(p);
}

/* So far that its end, which is accessed first, may be beside other blocks. */
static void over_memset_far(int bad)
{
	char *p = malloc(48);

	memset(p, 7, hide_size(bad ? 48 + 1900 : 48));
	free(p);
}

static void over_memcpy_from_far(int bad)
{
	static char to[20000];
	char *p = calloc(1, 48);

	memcpy(hide(to), p, hide_size(bad ? 48 + 6000 : 48));
	free(p);
}

static void over_strcpy(int bad)
{
	char *p = malloc(16);

	strcpy(p, hide(bad ? "sixteen letters!" : "fifteen letters"));
	free(p);
}

static void over_strlen(int bad)
{
	char *p = malloc(32);

	memset(p, 'x', 32);
	if (!bad)
		p[31] = 0;
	heap_sink = strlen(hide(p));
	free(p);
}

static void over_wide(int bad)
{
	wchar_t *p = malloc(8 * sizeof(*p));

	wcscpy(p, hide(bad ? L"8 wide!!" : L"7 wide!"));
	free(p);
}

static void over_snprintf(int bad)
{
	char *p = malloc(16);

	snprintf(p, 32, "%s", (char *)hide(bad ? "sixteen letters!" : "fifteen letters"));
	free(p);
}

/* A structure whose last field is there no more. */
static void over_structure(int bad)
{
	struct node {
		long key;
		long value;
		long next;
		long last;
	};
	struct node *p = malloc(sizeof(*p) - 8 * bad);

	put_long(&p->last, 3);
	free(p);
}

/* Each iteration of a loop has the same stack, and the second block is the wrong one. */
static void over_second(int bad)
{
	for (int i = 0; i < 2; i++) {
		char *p = malloc(96);

		put(p + 95 + (bad && i == 1), 'x');
		free(p);
	}
}

/* --- before the start --- */

static void under_write(int bad)
{
	char *p = malloc(32);

	put(p - bad, 'x');
	free(p);
}

static void under_write_long(int bad)
{
	char *p = malloc(64);

	put_long(p - 8 * bad, 1);
	free(p);
}

static void under_read(int bad)
{
	char *p = calloc(1, 32);

	get(p - bad);
	free(p);
}

static void under_memcpy(int bad)
{
	char from[48] = "";
	char *p = malloc(48);

	memcpy(p - 8 * bad, hide(from), 16);
	free(p);
}

/* --- after free() --- */

static void freed_read(int bad)
{
	char *p = calloc(1, 40);

	if (bad)
		free(p);
	get(p + 8);
	if (!bad)
		free(p);
}

static void freed_write(int bad)
{
	char *p = malloc(40);

	if (bad)
		free(p);
	put_long(p + 16, 1);
	if (!bad)
		free(p);
}

static void freed_pages(int bad)
{
	char *p = calloc(1, 10000);

	if (bad)
		free(p);
	get(p + 6000);
	if (!bad)
		free(p);
}

static void freed_memcpy(int bad)
{
	char to[40];
	char *p = calloc(1, 40);

	if (bad)
		free(p);
	memcpy(hide(to), p, 40);
	if (!bad)
		free(p);
}

static void freed_strlen(int bad)
{
	char *p = malloc(20);

	strcpy(p, "a string");
	if (bad)
		free(p);
	heap_sink = strlen(hide(p));
	if (!bad)
		free(p);
}

static void freed_printf(int bad)
{
	char *p = malloc(20);
	char text[40];

	strcpy(p, "a string");
	if (bad)
		free(p);
	snprintf(text, sizeof(text), "%s.", (char *)hide(p));
	if (!bad)
		free(p);
}

/* The old block, when realloc() has moved it. */
static void freed_realloc(int bad)
{
	char *old = malloc(24);
	uintptr_t before = (uintptr_t)old;

	put(old, 'x');
	char *p = realloc(hide(old), 20000);

	heap_require(get(p) == 'x', "realloc keeps what was there");
	get(bad ? (char *)before + 8 : p + 8);
	free(p);
}

/* After other blocks of the same stack came and went. */
static void freed_later(int bad)
{
	char *first = NULL;

	for (int i = 0; i < 20; i++) {
		char *p = calloc(1, 56);

		if (!first)
			first = p;
		else
			free(p);
	}
	if (bad)
		free(first);
	for (int i = 0; i < 20; i++)
		free(malloc(56));
	get_long(first + 8);
	if (!bad)
		free(first);
}

static void *freed_by(void *p)
{
	free(p);
	return NULL;
}

static void freed_thread(int bad)
{
	pthread_t thread;
	char *p = calloc(1, 72);

	pthread_create(&thread, NULL, freed_by, bad ? p : NULL);
	pthread_join(thread, NULL);
	get(p + 71);
	if (!bad)
		free(p);
}

/* The function of a freed object, which would be called. */
static void freed_call(int bad)
{
	struct object {
		long state;
		int (*method)(const char *);
	} *p = malloc(sizeof(*p));

	p->method = puts;
	if (bad)
		free(p);
	get_long(&p->method);
	if (!bad)
		free(p);
}

#define OVER(n, a, s, o, b)                           \
	{                                             \
#n, n, "overflow", a, "A", s, o, b, 0 \
	}
#define FREED(n, a, s, o, b)                                \
	{                                                   \
#n, n, "use-after-free", a, "A", s, o, b, 0 \
	}

const struct heap_case heap_case_errors[] = {
	OVER(over_write, "write", 1, 32, 32),
	OVER(over_write_long, "write", 8, 48, 48),
	OVER(over_read, "read", 1, 64, 64),
	OVER(over_read_across, "read", 8, ANY, 32),
	{ "over_write_odd", over_write_odd, "overflow", "write", "AB", ANY, 21, 21, 0 },
	{ "over_write_one", over_write_one, "overflow", "write", "AB", ANY, 1, 1, 0 },
	OVER(over_write_far, "write", 1, 2032, 32),
	OVER(over_write_pages, "write", 1, 12288, 12288),
	OVER(over_calloc, "write", 1, 48, 48),
	OVER(over_realloc_grown, "write", 1, 80, 80),
	OVER(over_realloc_shrunk, "write", 1, 16, 16),
	OVER(over_aligned, "write", 1, 128, 128),
	OVER(over_posix_memalign, "write", 1, 256, 256),
	OVER(over_memcpy, "write", ANY, ANY, 32),
	OVER(over_memcpy_from, "read", ANY, ANY, 32),
	OVER(over_memset, "write", ANY, ANY, 64),
	OVER(over_memset_far, "write", ANY, 48, 48),
	OVER(over_memcpy_from_far, "read", ANY, 48, 48),
	OVER(over_strcpy, "write", ANY, ANY, 16),
	OVER(over_strlen, "read", ANY, 32, 32),
	OVER(over_wide, "write", ANY, ANY, 32),
	OVER(over_snprintf, "write", ANY, ANY, 16),
	{ "over_structure", over_structure, "overflow", "write", "AB", ANY, ANY, 24, 0 },
	OVER(over_second, "write", 1, 96, 96),
	{ "under_write", under_write, "underflow", "write", "A", ANY, ANY, 32, 'w' },
	{ "under_write_long", under_write_long, "underflow", "write", "A", ANY, ANY, 64, 'w' },
	{ "under_read", under_read, "underflow", "read", "A", 1, -1, 32, 'r' },
	{ "under_memcpy", under_memcpy, "underflow", "write", "A", ANY, ANY, 48, 'w' },
	FREED(freed_read, "read", 1, 8, 40),
	FREED(freed_write, "write", 8, 16, 40),
	FREED(freed_pages, "read", 1, 6000, 10000),
	FREED(freed_memcpy, "read", ANY, ANY, 40),
	FREED(freed_strlen, "read", ANY, ANY, 20),
	FREED(freed_printf, "read", ANY, ANY, 20),
	FREED(freed_realloc, "read", 1, 8, 24),
	FREED(freed_later, "read", 8, 8, 56),
	FREED(freed_thread, "read", 1, 71, 72),
	FREED(freed_call, "read", 8, 8, 16),
	{ NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0 },
};
