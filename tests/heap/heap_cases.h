/* SPDX-License-Identifier: MIT */
/*
 * heap_cases.h - the cases of the program heap_victim: an error, its good twin, and what a report of
 * the error must say.
 *
 * A case is a function, whose name is in the stacks. It makes the error if bad is set, and goes on.
 */
#ifndef HEAP_CASES_H
#define HEAP_CASES_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* For size, offset and block: whatever it is. */
#define ANY (-100000)

struct heap_case {
	const char *name;
	void (*run)(int bad);
	const char *kind;   /* NULL: it has no error, bad or not */
	const char *access; /* "read", "write"; NULL: a wrong free */
	const char *grades; /* "A", "B", or both */
	long size;	    /* of the access */
	long offset;	    /* in the block */
	long block;	    /* its size as it was asked for */
	/*
	 * 'r': only a debug register sees it. 'w': a register sees it at grade A, else free() does at
	 * grade B. 'k': not freed, so without a stack of free. 0: everywhere.
	 */
	char needs;
};

extern const struct heap_case heap_case_errors[];
extern const struct heap_case heap_case_calls[];
extern const struct heap_case heap_case_frees[];
extern const struct heap_case heap_case_right[];
extern const struct heap_case heap_case_cxx[];

/* The compiler must not see what becomes of a block. */
static inline void *hide(const void *p)
{
	__asm__ volatile("" : "+r"(p)::"memory");
	return (void *)p;
}

/* The accesses, which the compiler keeps. */
static inline char get(const void *p)
{
	return *(const volatile char *)hide(p);
}

static inline void put(void *p, char c)
{
	*(volatile char *)hide(p) = c;
}

static inline long get_long(const void *p)
{
	return *(const volatile long *)hide(p);
}

static inline void put_long(void *p, long v)
{
	*(volatile long *)hide(p) = v;
}

/* Says what a good twin must find, on standard error, and ends the program. */
void heap_require(int holds, const char *what);

#ifdef __cplusplus
}
#endif

#endif
