/* SPDX-License-Identifier: MIT */
/*
 * break_calls.c - pairs calls with their returns, by thread or goroutine, function and depth of
 * stack.
 *
 * A call that ends by longjmp() or with its thread never returns. It stays in the table without
 * harm, since a return belongs to the newest call of the same key. Beyond a maximum the oldest are
 * dropped. Stacks of coroutines may be in any order, so the depth of a call proves nothing.
 */
#include "cli/break/break_calls.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#define OPEN_MAX 65536u /* over all threads */

struct thread_calls {
	uint64_t owner;
	struct break_call *newest;
};

#if defined(__x86_64__)
#define RETURN_POPS 8 /* the return address */
#else
#define RETURN_POPS 0
#endif

void break_call_free(struct break_call *call)
{
	if (!call)
		return;
	free(call->args_text);
	free(call->printed);
	free(call->key);
	free(call->frames);
	json_decref(call->args_json);
	free(call);
}

static int thread_compare(const void *a, const void *b)
{
	const struct thread_calls *x = a;
	const struct thread_calls *y = b;

	return (x->owner > y->owner) - (x->owner < y->owner);
}

static struct thread_calls *thread_of(struct break_calls *calls, uint64_t owner, bool make)
{
	struct thread_calls key = { .owner = owner };
	struct thread_calls **found = tfind(&key, &calls->threads, thread_compare);

	if (found || !make)
		return found ? *found : NULL;
	struct thread_calls *t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->owner = owner;
	if (tsearch(t, &calls->threads, thread_compare))
		return t;
	free(t);
	return NULL;
}

static void drop_oldest(struct break_calls *calls, struct thread_calls *t)
{
	struct break_call **last = &t->newest;

	while (*last && (*last)->older)
		last = &(*last)->older;
	if (!*last)
		return;
	break_call_free(*last);
	*last = NULL;
	calls->open--;
	calls->dropped++;
}

void break_calls_enter(struct break_calls *calls, struct break_call *call)
{
	struct thread_calls *t = thread_of(calls, call->frame.owner, true);

	if (t && calls->open >= OPEN_MAX)
		drop_oldest(calls, t);
	if (!t || calls->open >= OPEN_MAX) {
		calls->dropped++;
		break_call_free(call);
		return;
	}
	call->older = t->newest;
	t->newest = call;
	calls->open++;
}

struct break_frame break_calls_frame(const struct trapline_hit *hit)
{
	/* A jump that leaves the function: the return address is still there. */
	uint64_t popped = hit->returned == TRAPLINE_RETURNED ? RETURN_POPS : 0;

	return (struct break_frame){ .owner = (uint64_t)hit->tid, .depth = hit->sp - popped };
}

struct break_call *break_calls_return(struct break_calls *calls, const struct break_frame *frame,
				      uint64_t function)
{
	struct thread_calls *t = thread_of(calls, frame->owner, false);

	for (struct break_call **at = t ? &t->newest : NULL; at && *at; at = &(*at)->older) {
		struct break_call *call = *at;
		if (call->hit.address != function || call->frame.depth != frame->depth)
			continue;
		*at = call->older;
		calls->open--;
		return call;
	}
	calls->unpaired++;
	return NULL;
}

#define OWNER_GONE UINT64_MAX /* no return is looked for there */

static void forget(struct break_calls *calls, struct thread_calls *t)
{
	struct thread_calls *gone = thread_of(calls, OWNER_GONE, true);

	while (gone && gone != t && t->newest) {
		struct break_call *call = t->newest;
		t->newest = call->older;
		call->older = gone->newest;
		gone->newest = call;
	}
}

static void forget_visit(const void *node, VISIT which, void *arg)
{
	if (which == postorder || which == leaf)
		forget(arg, *(struct thread_calls *const *)node);
}

void break_calls_forget(struct break_calls *calls, uint64_t owner)
{
	struct thread_calls *t = owner ? thread_of(calls, owner, false) : NULL;

	if (t)
		forget(calls, t);
	else if (!owner && thread_of(calls, OWNER_GONE, true))
		twalk_r(calls->threads, forget_visit, calls);
}

struct taken {
	struct break_call **call;
	size_t count;
};

static void take_visit(const void *node, VISIT which, void *arg)
{
	struct thread_calls *t = *(struct thread_calls *const *)node;
	struct taken *taken = arg;

	if (which != postorder && which != leaf)
		return;
	for (; t->newest; t->newest = t->newest->older)
		taken->call[taken->count++] = t->newest;
}

static int by_time(const void *a, const void *b)
{
	const struct break_call *const *x = a;
	const struct break_call *const *y = b;

	return ((*x)->hit.time_ns > (*y)->hit.time_ns) - ((*x)->hit.time_ns < (*y)->hit.time_ns);
}

size_t break_calls_take(struct break_calls *calls, struct break_call ***out)
{
	struct taken taken = { .call = calloc(calls->open + 1, sizeof(*taken.call)) };

	if (!taken.call)
		return 0;
	twalk_r(calls->threads, take_visit, &taken);
	qsort(taken.call, taken.count, sizeof(*taken.call), by_time);
	calls->open = 0;
	calls->not_returned += taken.count;
	*out = taken.call;
	return taken.count;
}

static void thread_free(void *node)
{
	struct thread_calls *t = node;

	while (t->newest) {
		struct break_call *call = t->newest;
		t->newest = call->older;
		break_call_free(call);
	}
	free(t);
}

void break_calls_free(struct break_calls *calls)
{
	tdestroy(calls->threads, thread_free);
	calls->threads = NULL;
	calls->open = 0;
}
