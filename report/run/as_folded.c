/* SPDX-License-Identifier: MIT */
/*
 * as_folded.c - stacks with counts, one a line: `thread;main;loop;bump 12`.
 *
 * Flame graph tools read this format. They colour inlined functions, which end in _[i], and the
 * system call of an access by the kernel, which ends in _[k]. One of several expressions is named
 * after the thread. An object is not named, since there are too many.
 */
#include "report/run/run_file.h"

#include <inttypes.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

struct folded {
	uint64_t count;
	char text[];
};

static int folded_compare(const void *a, const void *b)
{
	const struct folded *x = a;
	const struct folded *y = b;

	return strcmp(x->text, y->text);
}

/* A ';' separates frames and a line break separates stacks: a name must not contain them. */
static void put_name(FILE *f, const char *name)
{
	for (; *name; name++)
		fputc(*name == ';' ? ':' : *name == '\n' ? ' ' : *name, f);
}

void run_folded_frame(FILE *f, const struct run_frame *frame)
{
	char name[300];

	if (frame->place.function)
		snprintf(name, sizeof(name), "%s", frame->place.function);
	else
		run_place_text(&frame->place, frame->ip, name, sizeof(name));
	fputc(';', f);
	put_name(f, name);
	if (frame->is_inlined)
		fputs("_[i]", f);
}

/* The stack as one text, to be freed; NULL: no memory. */
static struct folded *fold(const struct run_hit *hit)
{
	struct run_frame site = { .ip = hit->ip, .place = hit->place };
	struct folded head = { .count = 1 };
	char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);

	if (!f)
		return NULL;
	fwrite(&head, offsetof(struct folded, text), 1, f);
	put_name(f, hit->thread[0] ? hit->thread : "?");
	if (hit->of && !hit->is_object) {
		fputc(';', f);
		put_name(f, hit->of);
	}
	for (size_t i = hit->frame_count; i > 0; i--)
		run_folded_frame(f, &hit->frames[i - 1]);
	if (!hit->frame_count)
		run_folded_frame(f, &site);
	if (hit->is_by_kernel) {
		fputc(';', f);
		put_name(f, hit->syscall ? hit->syscall : "kernel");
		fputs("_[k]", f);
	}
	fputc(0, f);
	if (fclose(f)) {
		free(text);
		return NULL;
	}
	return (struct folded *)(void *)text;
}

struct print {
	FILE *f;
};

static void print_visit(const void *node, VISIT which, void *arg)
{
	const struct print *p = arg;
	const struct folded *stack = *(struct folded *const *)node;

	if (which == postorder || which == leaf)
		fprintf(p->f, "%s %" PRIu64 "\n", stack->text, stack->count);
}

void run_folded(FILE *f, const struct run_session *s)
{
	struct print p = { f };
	void *stacks = NULL;

	for (size_t i = 0; i < s->hit_count; i++) {
		struct folded *stack = fold(&s->hits[i]);
		struct folded **kept = stack ? tsearch(stack, &stacks, folded_compare) : NULL;
		if (kept && *kept != stack)
			(*kept)->count++;
		if (!kept || *kept != stack)
			free(stack);
	}
	twalk_r(stacks, print_visit, &p);
	tdestroy(stacks, free);
}
