/* SPDX-License-Identifier: MIT */
/* tally.c - counts hits by site and thread, in memory that is limited. */
#include "report/run/run.h"

#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * A server that lives for weeks makes many threads, and a JIT compiler ever new code. Beyond the
 * first number the threads of a location are counted together, beyond the second new locations are.
 */
#define PAIRS_MAX 65536u
#define PLACES_MAX (2 * PAIRS_MAX)
#define OTHER_PLACES "(other places)"

static int pair_compare(const void *a, const void *b)
{
	const struct tally_pair *x = a;
	const struct tally_pair *y = b;

	if (x->ip != y->ip)
		return x->ip < y->ip ? -1 : 1;
	return (x->tid > y->tid) - (x->tid < y->tid);
}

static struct tally_pair *pair_get(struct tally *t, uint64_t ip, pid_t tid)
{
	struct tally_pair key = { .ip = ip, .tid = tid };
	struct tally_pair **found = tfind(&key, &t->pairs, pair_compare);

	if (found)
		return *found;
	if (t->count >= PAIRS_MAX && tid)
		return pair_get(t, ip, 0);
	if (t->count >= PLACES_MAX && ip)
		return pair_get(t, 0, 0);
	struct tally_pair *p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	*p = key;
	if (!tsearch(p, &t->pairs, pair_compare)) {
		free(p);
		return NULL;
	}
	t->count++;
	return p;
}

void tally_add(struct tally *t, const struct run_hit *hit)
{
	struct tally_pair *p = pair_get(t, hit->ip, hit->tid);

	if (!p)
		return;
	p->hits++;
	p->place = p->ip == hit->ip ? hit->place : (struct place){ .function = OTHER_PLACES };
	if (p->tid && hit->thread[0])
		memcpy(p->thread, hit->thread, sizeof(p->thread));
}

/* A recording has no name of the process: that of its first thread is the same. */
void tally_add_process(struct tally *t, const struct run_hit *hit)
{
	struct run_hit by = { .tid = hit->pid };

	if (hit->process)
		snprintf(by.thread, sizeof(by.thread), "%s", hit->process);
	else if (hit->pid == hit->tid)
		memcpy(by.thread, hit->thread, sizeof(by.thread));
	tally_add(t, &by);
}

struct collect {
	struct tally_pair *pairs;
	size_t n;
};

static void collect_visit(const void *node, VISIT which, void *arg)
{
	struct collect *c = arg;

	if (which == postorder || which == leaf)
		c->pairs[c->n++] = **(struct tally_pair *const *)node;
}

/* All pairs in an array to be freed. */
static struct tally_pair *tally_pairs(const struct tally *t, size_t *n)
{
	struct collect c = { 0 };

	if (t->count)
		c.pairs = calloc(t->count, sizeof(*c.pairs));
	if (c.pairs)
		twalk_r(t->pairs, collect_visit, &c);
	*n = c.n;
	return c.pairs;
}

void tally_free(struct tally *t)
{
	tdestroy(t->pairs, free);
	t->pairs = NULL;
	t->count = 0;
}

static int by_thread_compare(const void *a, const void *b)
{
	const struct tally_pair *x = a;
	const struct tally_pair *y = b;

	return (x->tid > y->tid) - (x->tid < y->tid);
}

static int most_hits_first(const void *a, const void *b)
{
	const struct tally_sum *x = a;
	const struct tally_sum *y = b;

	if (x->hits != y->hits)
		return x->hits < y->hits ? 1 : -1;
	if (x->ip != y->ip)
		return x->ip < y->ip ? -1 : 1;
	return (x->tid > y->tid) - (x->tid < y->tid);
}

static struct tally_sum *sum_up(struct tally_pair *pairs, size_t n, bool by_thread, size_t *out_n)
{
	struct tally_sum *sums = calloc(n ? n : 1, sizeof(*sums));
	size_t count = 0;

	*out_n = 0;
	if (!sums)
		return NULL;
	if (n)
		qsort(pairs, n, sizeof(*pairs), by_thread ? by_thread_compare : pair_compare);
	for (size_t i = 0; i < n; i++) {
		const struct tally_pair *p = &pairs[i];
		struct tally_sum *last = count ? &sums[count - 1] : NULL;
		if (!last || (by_thread ? last->tid != p->tid : last->ip != p->ip)) {
			last = &sums[count++];
			last->ip = p->ip;
			last->tid = p->tid;
			last->place = p->place;
		}
		last->hits += p->hits;
		last->others++;
		if (p->thread[0])
			memcpy(last->thread, p->thread, sizeof(last->thread));
	}
	if (count)
		qsort(sums, count, sizeof(*sums), most_hits_first);
	*out_n = count;
	return sums;
}

static int text_compare(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "");
}

/* Other processes have the same code at other addresses. */
static int by_place(const void *a, const void *b)
{
	const struct tally_sum *x = a;
	const struct tally_sum *y = b;
	int order = text_compare(x->place.module, y->place.module);

	if (!order && x->place.module_offset != y->place.module_offset)
		order = x->place.module_offset < y->place.module_offset ? -1 : 1;
	if (!order)
		order = text_compare(x->place.function, y->place.function);
	return order ? order : (x->ip > y->ip) - (x->ip < y->ip);
}

static bool is_same_place(const struct tally_sum *x, const struct tally_sum *y)
{
	return x->place.module && y->place.module && !strcmp(x->place.module, y->place.module) &&
	       x->place.module_offset == y->place.module_offset &&
	       !text_compare(x->place.function, y->place.function);
}

static void merge_places(struct tally_sum *sums, size_t *count)
{
	size_t kept = 0;

	if (*count)
		qsort(sums, *count, sizeof(*sums), by_place);
	for (size_t i = 0; i < *count; i++) {
		if (kept && is_same_place(&sums[kept - 1], &sums[i])) {
			sums[kept - 1].hits += sums[i].hits;
			sums[kept - 1].others += sums[i].others;
		} else {
			sums[kept++] = sums[i];
		}
	}
	*count = kept;
	if (kept)
		qsort(sums, kept, sizeof(*sums), most_hits_first);
}

struct tally_sum *tally_sums(const struct tally *t, bool by_thread, size_t *n)
{
	size_t count;
	struct tally_pair *pairs = tally_pairs(t, &count);
	struct tally_sum *sums = sum_up(pairs, count, by_thread, n);

	free(pairs);
	if (sums && !by_thread)
		merge_places(sums, n);
	return sums;
}
