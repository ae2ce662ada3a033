/* SPDX-License-Identifier: MIT */
/*
 * condition.h - expressions that must be true for a hit to count.
 *
 * The language is C's expression syntax on 64-bit numbers; trapline-condition(7)
 * describes it. A hit for which the condition is false has no side effect: no callback,
 * no record, no use of a limit. The kernel evaluates a condition where BPF is permitted
 * (and, for callbacks, can suppress the signal). Elsewhere the handler or the reader
 * evaluates it, by the same rules. But the reader sees the values of memory when it reads.
 * `new` is the value in memory at the trap, not the operand of the store: with several
 * writers it can be that of another thread.
 */
#ifndef TRAPLINE_CONDITION_H
#define TRAPLINE_CONDITION_H

#include <trapline/trapline.h>

#ifdef __cplusplus
extern "C" {
#endif

struct trapline_condition;

/* It describes where and why a text is wrong. Lines and columns begin at 1. */
struct trapline_condition_error {
	int line;
	int column;
	/* It names what was expected, and what was there instead. */
	char message[160];
};

struct trapline_condition_opts {
	size_t size;
	/*
	 * It stores the address and the bytes of a symbol, for `in NAME` and `&NAME`. It
	 * returns 0 or -errno. NULL means that there are no symbols.
	 */
	int (*find_symbol)(void *arg, const char *name, uint64_t *address, uint64_t *bytes);
	/*
	 * It returns the event of `count(NAME)`, or NULL. The event must stay open as
	 * long as the condition is used.
	 */
	struct trapline_event *(*find_event)(void *arg, const char *name);
	/* Both functions receive it. */
	void *arg;
	/* It receives the reason if the text is wrong. It may be NULL. */
	struct trapline_condition_error *error;
};

/*
 * trapline_condition_parse - make a condition of a text.
 *
 * trapline_condition_free() releases *out. Events that were opened with it keep what they
 * need.
 * Errors: E2BIG the text is too long or too deep, or opts are of a newer version; EINVAL
 * the text is wrong, see opts->error; ENOMEM. MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_condition_parse(const char *text,
					  const struct trapline_condition_opts *opts,
					  struct trapline_condition **out);

/*
 * trapline_condition_free - release a condition.
 *
 * NULL is permitted. MT-Safe. AS-Unsafe.
 */
TRAPLINE_API void trapline_condition_free(struct trapline_condition *condition);

/*
 * trapline_condition_explain - show what a condition was compiled to.
 *
 * The text has the steps of the expression, the eBPF instructions, and the report of the
 * verifier. At most n bytes are written, with a NUL if n is not 0. The call returns the
 * length of the whole text.
 * Errors: ENOMEM. MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_condition_explain(const struct trapline_condition *condition, char *buf,
					    size_t n);

#ifdef __cplusplus
}
#endif
#endif
