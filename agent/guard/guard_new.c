/* SPDX-License-Identifier: MIT */
/*
 * guard_new.c - the operators new and delete of C++: which of them a thread came by.
 *
 * The operators of the C++ library call malloc() and free(), where blocks are sampled. A program
 * with operators of its own does not come here. Where the C++ library is not among the objects that
 * all others see, as one that a plug-in needs, these do the work.
 */
#include <stdbool.h>
#include <stdlib.h>

#include "agent/guard/guard.h"
#include "base/atomic.h"

typedef void *(*operator_new)(size_t bytes, size_t alignment);
typedef void (*operator_delete)(void *p, size_t a, size_t b);

/* The symbol of the C++ library, looked for once. */
struct operator
{
	const char *name;
	void *found;
	bool is_tried;
};

static void *next_of(struct operator* o)
{
	if (!counter_get(&o->is_tried)) {
		atomic_set(&o->found, guard_next(o->name));
		atomic_set(&o->is_tried, true);
	}
	return o->found;
}

/*
 * new[] calls new, and both may leave by an exception: the outer one counts, and takes its mark
 * away.
 */
static enum heap_family begin(enum heap_family family)
{
	enum heap_family was = guard_family;

	if (!was)
		guard_family = family;
	return was;
}

static void end(const enum heap_family *was)
{
	guard_family = *was;
}

#define FAMILY(family) \
	__attribute__((cleanup(end))) enum heap_family was __attribute__((unused)) = begin(family)

/*
 * It passes without a look, and so does the malloc() that it may call. Where it calls none, it
 * counts itself. false: its block may be one to sample.
 */
static inline bool passes(struct operator* o, size_t bytes, size_t second, void **out)
{
	const uint32_t until = heap_self.until;

	if (__builtin_expect(!until || !o->found || bytes >= HEAP_LARGE_BYTES, 0))
		return false;
	*out = ((operator_new)o->found)(bytes, second);
	if (__builtin_expect(heap_self.until == until, 0))
		heap_self.until = until - 1;
	return true;
}

static void rest(const uint32_t *busy)
{
	heap_self.busy -= *busy;
}

/*
 * Sampled here: not each allocator's operators call its malloc(). Where they do, it is asked no
 * more. second: 0, or what is passed as the second argument, which may be a std::nothrow_t.
 */
static __attribute__((noinline)) void *allocate(struct operator* o, const struct heap_request *r,
						size_t second, bool is_aligned)
{
	operator_new next_new = (operator_new)next_of(o);
	size_t bytes = r->bytes;
	void *p = guard_find_next() ? heap_take(r) : NULL;

	if (p)
		return p;
	FAMILY(r->family);
	if (next_new) {
		__attribute__((cleanup(rest))) uint32_t busy = 1;

		heap_self.busy += busy;
		return next_new(bytes, second);
	}
	p = is_aligned ? aligned_alloc(second, bytes) : malloc(bytes ? bytes : 1);
	if (!p && !second)
		abort(); /* as an exception that is not caught */
	return p;
}

static __attribute__((noinline)) void release(struct operator* o, enum heap_family family, void *p,
					      size_t a, size_t b, const uint64_t *frame)
{
	operator_delete next_delete = (operator_delete)next_of(o);

	if (heap_has(p)) {
		heap_give(p, family, frame);
		return;
	}
	if (next_delete)
		next_delete(p, a, b);
	else
		free(p);
}

/* The names are those of the C++ ABI. What an operator does not take is passed on and ignored. */
#define NEW(symbol, of_family, is_aligned)                                                    \
	GUARD(void *, symbol, (size_t bytes, size_t second))                                  \
	{                                                                                     \
		static struct operator o = { .name = #symbol };                               \
		const struct heap_request request = { .bytes = bytes,                         \
						      .alignment = (is_aligned) ? second : 0, \
						      .family = of_family,                    \
						      .frame = GUARD_HERE };                  \
		void *p;                                                                      \
                                                                                              \
		if (passes(&o, bytes, second, &p))                                            \
			return p;                                                             \
		return allocate(&o, &request, second, is_aligned);                            \
	}

#define NEW_PLAIN(symbol, of_family)                                         \
	GUARD(void *, symbol, (size_t bytes))                                \
	{                                                                    \
		static struct operator o = { .name = #symbol };              \
		const struct heap_request request = { .bytes = bytes,        \
						      .family = of_family,   \
						      .frame = GUARD_HERE }; \
		void *p;                                                     \
                                                                             \
		if (passes(&o, bytes, 0, &p))                                \
			return p;                                            \
		return allocate(&o, &request, 0, false);                     \
	}

#define DELETE(symbol, family)                                    \
	GUARD(void, symbol, (void *p, size_t a, size_t b))        \
	{                                                         \
		static struct operator o = { .name = #symbol };   \
                                                                  \
		if (o.found && heap_is_plain(p))                  \
			((operator_delete)o.found)(p, a, b);      \
		else                                              \
			release(&o, family, p, a, b, GUARD_HERE); \
	}

/* clang-format off */
NEW_PLAIN(_Znwm, HEAP_OF_NEW)
NEW_PLAIN(_Znam, HEAP_OF_NEW_ARRAY)
NEW(_ZnwmRKSt9nothrow_t, HEAP_OF_NEW, false)
NEW(_ZnamRKSt9nothrow_t, HEAP_OF_NEW_ARRAY, false)
NEW(_ZnwmSt11align_val_t, HEAP_OF_NEW, true)
NEW(_ZnamSt11align_val_t, HEAP_OF_NEW_ARRAY, true)
DELETE(_ZdlPv, HEAP_OF_NEW)
DELETE(_ZdaPv, HEAP_OF_NEW_ARRAY)
DELETE(_ZdlPvm, HEAP_OF_NEW)
DELETE(_ZdaPvm, HEAP_OF_NEW_ARRAY)
DELETE(_ZdlPvRKSt9nothrow_t, HEAP_OF_NEW)
DELETE(_ZdaPvRKSt9nothrow_t, HEAP_OF_NEW_ARRAY)
DELETE(_ZdlPvSt11align_val_t, HEAP_OF_NEW)
DELETE(_ZdaPvSt11align_val_t, HEAP_OF_NEW_ARRAY)
DELETE(_ZdlPvmSt11align_val_t, HEAP_OF_NEW)
DELETE(_ZdaPvmSt11align_val_t, HEAP_OF_NEW_ARRAY)
/* clang-format on */
