/* SPDX-License-Identifier: MIT */
/* road_counts.c - see road_counts.h. */
#include "cli/patrol/road_counts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>
#include <utlist.h>

#define FIRST_NUMBERS 64

struct road_count {
	uint64_t key;
	size_t number;
	struct road_count *prev;
	struct road_count *next;
	UT_hash_handle hh;
};

static struct road_count *find(const struct road_counts *c, uint64_t key)
{
	struct road_count *found;

	HASH_FIND(hh, c->keys, &key, sizeof(key), found);
	return found;
}

static int make_room(struct road_counts *c)
{
	size_t capacity = c->capacity ? 2 * c->capacity : FIRST_NUMBERS;

	if (c->most + 1 < c->capacity)
		return 0;
	struct road_count **with = realloc(c->with, capacity * sizeof(struct road_count *));
	if (!with)
		return -ENOMEM;
	memset(with + c->capacity, 0, (capacity - c->capacity) * sizeof(struct road_count *));
	c->with = with;
	c->capacity = capacity;
	return 0;
}

/* 0: it is in no list. */
static void set_number(struct road_counts *c, struct road_count *of, size_t number)
{
	if (of->number)
		DL_DELETE(c->with[of->number], of);
	of->number = number;
	if (number)
		DL_APPEND(c->with[number], of);
	if (number > c->most)
		c->most = number;
	while (c->most && !c->with[c->most])
		c->most--;
}

int road_counts_add(struct road_counts *c, uint64_t key)
{
	struct road_count *of = find(c, key);

	if (make_room(c))
		return -ENOMEM;
	if (!of) {
		of = calloc(1, sizeof(*of));
		if (!of)
			return -ENOMEM;
		of->key = key;
		HASH_ADD(hh, c->keys, key, sizeof(of->key), of);
	}
	set_number(c, of, of->number + 1);
	return 0;
}

void road_counts_remove(struct road_counts *c, uint64_t key)
{
	struct road_count *of = find(c, key);

	if (!of)
		return;
	set_number(c, of, of->number - 1);
	if (of->number)
		return;
	HASH_DEL(c->keys, of);
	free(of);
}

uint64_t road_counts_most(const struct road_counts *c)
{
	return c->with[c->most]->key;
}

void road_counts_free(struct road_counts *c)
{
	struct road_count *of;
	struct road_count *next;

	HASH_ITER(hh, c->keys, of, next)
	{
		HASH_DEL(c->keys, of);
		free(of);
	}
	free(c->with);
	*c = (struct road_counts){ .keys = NULL };
}
