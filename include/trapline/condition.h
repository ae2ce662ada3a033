/* SPDX-License-Identifier: MIT */
/*
 * condition.h - expressions that must hold for a hit to count.
 *
 * The language is C's expression syntax on 64-bit numbers; trapline-condition(7) describes it. A
 * condition that is false has no side effect: no callback, no record, no use of a limit. It is
 * evaluated in the kernel where BPF is permitted (and, for callbacks, can hold back the signal),
 * else in the handler or by the reader, with the same result.
 */
#ifndef TRAPLINE_CONDITION_H
#define TRAPLINE_CONDITION_H

#include <trapline/trapline.h>

#ifdef __cplusplus
extern "C" {
#endif

struct trapline_condition;

/* Where and why a text is no condition. Lines and columns begin at 1. */
struct trapline_condition_error {
	int line;
	int column;
	char message[160]; /* what was expected, and what stood there */
};

struct trapline_condition_opts {
	size_t size;
	/* The range of a symbol for `ip in NAME` and `&NAME`; 0 or -errno. NULL: no symbols. */
	int (*find_symbol)(void *arg, const char *name, uint64_t *address, uint64_t *bytes);
	/* The event for `count(NAME)`, or NULL. It must stay open as long as the condition is used. */
	struct trapline_event *(*find_event)(void *arg, const char *name);
	void *arg;
	struct trapline_condition_error *error; /* may be NULL */
};

/*
 * trapline_condition_parse - make a condition of a text.
 *
 * *out is released by trapline_condition_free(); events opened with it keep what they need.
 * Errors: EINVAL the text is wrong, see opts->error; E2BIG it is too long or too deep; ENOMEM.
 * MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_condition_parse(const char *text,
					  const struct trapline_condition_opts *opts,
					  struct trapline_condition **out);

/* trapline_condition_free - NULL is allowed. MT-Safe. AS-Unsafe. */
TRAPLINE_API void trapline_condition_free(struct trapline_condition *condition);

/*
 * trapline_condition_explain - the program of a condition and what the kernel said of it.
 *
 * Writes at most n bytes, always NUL-terminated when n is not 0, and returns the length of the
 * whole text: the steps of the expression, the eBPF instructions, the verifier's log.
 * Errors: ENOMEM. MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_condition_explain(const struct trapline_condition *condition,
					    char *buf, size_t n);

#ifdef __cplusplus
}
#endif
#endif
