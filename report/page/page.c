/* SPDX-License-Identifier: MIT */
/*
 * page.c - see page.h. Every '<' in the data is escaped, so that no name of a target can end the
 * element.
 */
#include "report/page/page.h"
#include "report/run/run.h"

#include <string.h>

static const char page_parts[] =
#include "report/page.inc"
	;

#define PAGE_MARK "@DATA@"

struct page_pool page_pool_new(void)
{
	return (struct page_pool){ json_array(), json_object(), 0 };
}

bool page_pool_find(const struct page_pool *p, const char *key, size_t *out)
{
	const json_t *known = json_object_get(p->index, key);

	if (known)
		*out = (size_t)json_integer_value(known);
	return known != NULL;
}

size_t page_pool_put(struct page_pool *p, const char *key, json_t *item)
{
	size_t at = json_array_size(p->items);

	json_array_append_new(p->items, item);
	/* A key need not be UTF-8: it is a name of a target. */
	json_object_set_new_nocheck(p->index, key, json_integer((json_int_t)at));
	p->bytes += strlen(key);
	return at;
}

size_t page_pool_text(struct page_pool *p, const char *text)
{
	size_t at;

	return page_pool_find(p, text, &at) ? at : page_pool_put(p, text, run_json_text(text));
}

json_t *page_pool_take(struct page_pool *p)
{
	json_decref(p->index);
	return p->items;
}

static int page_put_escaped(const char *text, size_t n, void *arg)
{
	FILE *f = arg;

	while (n) {
		const char *mark = memchr(text, '<', n);
		size_t plain = mark ? (size_t)(mark - text) : n;

		fwrite(text, plain, 1, f);
		if (mark)
			fputs("\\u003c", f);
		text += plain + (mark != NULL);
		n -= plain + (mark != NULL);
	}
	return ferror(f) ? -1 : 0;
}

void page_write(FILE *f, json_t *data)
{
	const char *mark = strstr(page_parts, PAGE_MARK);

	fwrite(page_parts, (size_t)(mark - page_parts), 1, f);
	json_dump_callback(data, page_put_escaped, f, JSON_COMPACT | JSON_ENSURE_ASCII);
	fputs(mark + strlen(PAGE_MARK), f);
	json_decref(data);
}
