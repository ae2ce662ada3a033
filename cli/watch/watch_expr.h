/* SPDX-License-Identifier: MIT */
/*
 * watch_expr.h - an EXPR of `trapline watch`: its form, and the bytes that it means in the target.
 */
#ifndef CLI_WATCH_WATCH_EXPR_H
#define CLI_WATCH_WATCH_EXPR_H

#include "cli/observe/observe_settings.h"
#include "report/dwarf/symbols.h"
#include "report/lang/expression.h"
#include "report/lang/value.h"

#include <trapline/trapline.h>

#define WATCH_REGISTERS 4

/* An expression after its look-up. */
struct watch_expr {
	uint64_t address;
	size_t len;
	enum trapline_access access;
	char name[128];		/* for the user: `server+0x230` or the address */
	const char *module;	/* NULL: unknown */
	struct value_view view; /* type NULL: not known */
	bool is_shared;		/* other processes may write it, so an old value is not known */
	bool is_in_parts;	/* in several debug registers: a hit has one part */
	pid_t tid;		/* whose thread-local variable it is; 0: it is not one */
	char through[200];	/* the pointers of the path with their values; empty: none */
};

/*
 * Checks --on and the form of set->expr, before there is a target. 0 or an exit status, line
 * printed.
 */
int watch_expr_check(const struct observe_settings *set);
/* Parses set->expr, finds it in the target and checks it. 0 or an exit status, line printed. */
int watch_expr_resolve(struct symbols *s, const struct observe_settings *set,
		       struct watch_expr *out);
/* The steps of these. Each returns 0 or an exit status, line printed. */
int watch_expr_access(const struct observe_settings *set, enum trapline_access *out);
int watch_expr_parse(const struct observe_settings *set, struct expression **out);
int watch_expr_choose(struct symbols *s, const struct observe_settings *set,
		      const struct expression *e, const struct expression_place *p,
		      struct watch_expr *out);
/* Prints an error of set->expr with its column. Returns an exit status. */
int watch_expr_wrong(const struct observe_settings *set, const struct expression_error *error);
/* `enum state, 4 bytes at 0x5581...` */
void watch_expr_describe(const struct watch_expr *expr, char *buf, size_t n);

#endif
