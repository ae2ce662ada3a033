/* SPDX-License-Identifier: MIT */
/*
 * page.h - one page for a browser, which needs no network: its parts with the data put in.
 *
 * The data is JSON in an element that is not a script. Its member "kind" decides which view the
 * page has: see pages in page.js. A new kind is a script beside hits.js and findings.js.
 */
#ifndef REPORT_PAGE_PAGE_H
#define REPORT_PAGE_PAGE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* What is stored once and referred to by index: items, and the index of each by a key. */
struct page_pool {
	json_t *items;
	json_t *index;
	size_t bytes; /* of the keys */
};

struct page_pool page_pool_new(void);
/* Is there an item with this key? */
bool page_pool_find(const struct page_pool *p, const char *key, size_t *out);
/* Takes the item, whose key is new. Returns its index. */
size_t page_pool_put(struct page_pool *p, const char *key, json_t *item);
size_t page_pool_text(struct page_pool *p, const char *text);
/* The items, which become the caller's; the pool ends. */
json_t *page_pool_take(struct page_pool *p);

/* Takes the data. */
void page_write(FILE *f, json_t *data);

#endif
