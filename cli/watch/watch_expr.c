/* SPDX-License-Identifier: MIT */
/*
 * watch_expr.c - from EXPR to the bytes that are watched: `counter`, `conn->state`,
 * `libc.so.6:environ`, `server+0x230:8`, `0x601040:4`. See report/lang/expression.h.
 */
#include "cli/watch/watch_expr.h"

#include "base/aligned.h"
#include "cli/message.h"
#include "cli/observe/session.h"
#include "report/dwarf/missing.h"
#include "report/dwarf/variables.h"
#include "report/lang/expression_spot.h"
#include "report/run/run.h"

#include <errno.h>
#include <string.h>

#define LEN_MAX 32 /* without --multiplex */
#define MULTIPLEXED_MAX 4096

#if defined(__x86_64__)
static const bool reads_alone = false;
#else
static const bool reads_alone = true;
#endif

/* One line for an error in EXPR, with the column when that is not the first word. */
int watch_expr_wrong(const struct observe_settings *set, const struct expression_error *error)
{
	if (error->column > 1)
		return cli_wrong(set->name, "'%.200s', column %d: %s", set->expr, error->column,
				 error->text);
	return cli_wrong(set->name, "%s", error->text);
}

int watch_expr_parse(const struct observe_settings *set, struct expression **out)
{
	const char *expr = set->expr;
	struct expression_error error;

	if (!expression_parse(expr, out, &error))
		return 0;
	size_t n = strlen(expr);
	/* `head->state` without quotes: the shell takes the '>' and writes to a file. */
	if (n > 1 && expr[n - 1] == '-')
		return cli_wrong(set->name,
				 "invalid EXPR '%.200s': it ends in '-'; quote EXPR, as in "
				 "'%.200s>member', since the shell takes an unquoted '>'",
				 expr, expr);
	return cli_wrong(set->name, "invalid EXPR '%.200s', column %d: %s; see trapline %s --help",
			 expr, error.column, error.text, set->name);
}

int watch_expr_access(const struct observe_settings *set, enum trapline_access *out)
{
	const char *on = set->on;

	*out = !on || !strcmp(on, "w") ? TRAPLINE_WRITE :
	       !strcmp(on, "r")	       ? TRAPLINE_READ :
					 TRAPLINE_READ_WRITE;
	if (*out == TRAPLINE_READ && !reads_alone)
		return cli_wrong(set->name,
				 "invalid --on 'r': this processor cannot watch reads alone; "
				 "use --on rw");
	return 0;
}

int watch_expr_check(const struct observe_settings *set)
{
	enum trapline_access access;
	struct expression *e = NULL;
	int status = watch_expr_access(set, &access);

	if (!status)
		status = watch_expr_parse(set, &e);
	if (!status && expression_length(e) > LEN_MAX && !set->slice_ns)
		status = cli_wrong(set->name,
				   "invalid EXPR '%.200s': expected a length of 1 to %d, or up "
				   "to %d with --multiplex 10ms",
				   set->expr, LEN_MAX, MULTIPLEXED_MAX);
	expression_free(e);
	return status;
}

/* The number of debug registers that a range needs: one for each naturally aligned part. */
static unsigned int parts_of(uint64_t address, size_t len)
{
	unsigned int count = 0;

	while (len) {
		uint32_t part = aligned_part(address, len);

		address += part;
		len -= part;
		count++;
	}
	return count;
}

static bool is_scalar(const struct type *t)
{
	return t && t->size && !type_has_members(t) && t->kind != TYPE_ARRAY;
}

/*
 * A scalar is one value and one hit. Not aligned, it is watched like a bit-field, in the few bytes
 * around it that one register can watch. 0 or an exit status, line printed.
 */
static int keep_whole(const struct observe_settings *set, struct expression_place *p)
{
	struct spot spot = { .address = p->address, .path = p->path };

	if (p->bit_size || !is_scalar(p->type) || parts_of(p->address, p->size) < 2)
		return 0;
	spot.bit_size = (uint32_t)p->size * 8;
	uint64_t size = 0;
	if (p->size <= ALIGNED_PART_MAX)
		spot_cover_bits(&spot, &size);
	if (!size || size > ALIGNED_PART_MAX || parts_of(spot.address, size) > 1)
		return cli_wrong(set->name,
				 "cannot watch %s as one value: its %llu bytes need %u debug "
				 "registers, and a hit has one part; %s:%llu watches plain bytes",
				 set->expr, (unsigned long long)p->size,
				 parts_of(p->address, p->size), set->expr,
				 (unsigned long long)p->size);
	cli_note(set->name,
		 "%s is not aligned: a store beside it that changes nothing counts as one of it",
		 set->expr);
	p->address = spot.address;
	p->path = spot.path;
	p->size = size;
	p->bit_offset = spot.bit_offset;
	p->bit_size = spot.bit_size;
	return 0;
}

static bool fits(const struct observe_settings *set, uint64_t address, uint64_t size)
{
	if (set->slice_ns)
		return size && size <= MULTIPLEXED_MAX;
	return size && size <= LEN_MAX && parts_of(address, size) <= WATCH_REGISTERS;
}

/* Without :len: the whole if it fits, else the longest aligned part at its start. */
static size_t default_len(const struct observe_settings *set, const struct expression *e,
			  const struct expression_place *p)
{
	if (fits(set, p->address, p->size))
		return p->size;
	size_t len = aligned_part(p->address, p->size ? p->size : ALIGNED_PART_MAX);
	if (expression_has_offset(e) || p->size <= len)
		return len;
	if (p->type && type_has_members(p->type))
		cli_note(set->name,
			 "%s has %llu bytes: watching the first %zu; choose a member, "
			 "--list '%s.*' shows them",
			 set->expr, (unsigned long long)p->size, len, set->expr);
	else
		cli_note(set->name,
			 "%s has %llu bytes: watching the first %zu; choose other bytes by "
			 "%s+offset:len",
			 set->expr, (unsigned long long)p->size, len, set->expr);
	return len;
}

static void note_place(struct symbols *s, const struct observe_settings *set,
		       const struct expression_place *p)
{
	struct missing_dwarf missing;

	if (p->is_first_of_several)
		cli_note(set->name,
			 "several local symbols are named %s: watching the first, at 0x%llx; "
			 "give an address to choose another",
			 set->expr, (unsigned long long)p->address);
	if (!p->type && !p->is_address && missing_dwarf_of(s, p->module, &missing))
		cli_note(set->name,
			 "%s %s: types and members are not known, and values are plain numbers",
			 p->module ? p->module : symbols_program(s), missing.cause);
}

static int resolve(struct symbols *s, const struct observe_settings *set,
		   const struct expression *e, struct expression_place *out)
{
	struct expression_options options = { .thread = set->thread };
	struct expression_error error;

	int err = expression_resolve(s, e, &options, out, &error);
	int status = err == -ENOENT ? session_not_found(set->name, set->command, set->expr, false) :
				      0;
	if (err)
		return status ? status : watch_expr_wrong(set, &error);
	if (set->thread && !out->tid)
		return cli_wrong(set->name,
				 "--thread needs a thread-local variable, and %s is not "
				 "thread-local",
				 set->expr);
	return 0;
}

/* From a resolved expression to the bytes that are watched. */
int watch_expr_choose(struct symbols *s, const struct observe_settings *set,
		      const struct expression *e, const struct expression_place *resolved,
		      struct watch_expr *out)
{
	uint64_t len = expression_length(e);
	struct expression_place whole = *resolved;
	const struct expression_place *p = &whole;
	struct place place;
	int status = len ? 0 : keep_whole(set, &whole);

	if (status)
		return status;
	out->address = p->address;
	out->len = len ? len : default_len(set, e, p);
	if (!fits(set, out->address, out->len))
		return cli_wrong(
			set->name,
			"cannot watch %zu bytes at 0x%llx: they need %u debug registers "
			"and there are %d; choose fewer bytes, an aligned start, or --multiplex "
			"10ms",
			out->len, (unsigned long long)out->address,
			parts_of(out->address, out->len), WATCH_REGISTERS);
	out->is_shared = symbols_is_shared(s, out->address);
	out->is_in_parts = parts_of(out->address, out->len) > 1;
	/* Another length than that of the type means plain bytes, and so do parts of a number. */
	if (!len || !p->type || (len == p->type->size && !(out->is_in_parts && is_scalar(p->type))))
		out->view = (struct value_view){ p->type, p->bit_offset, p->bit_size };
	out->tid = p->tid;
	snprintf(out->through, sizeof(out->through), "%.199s", p->through);
	symbols_data_place(s, out->address, &place);
	out->module = p->module ? p->module : place.module;
	if (p->is_address)
		run_place_text(&place, out->address, out->name, sizeof(out->name));
	else
		snprintf(out->name, sizeof(out->name), "%.*s", (int)strcspn(set->expr, "\n"),
			 set->expr);
	return 0;
}

int watch_expr_resolve(struct symbols *s, const struct observe_settings *set,
		       struct watch_expr *out)
{
	struct expression_place place;
	struct expression *e = NULL;
	int status = watch_expr_access(set, &out->access);

	if (!status)
		status = watch_expr_parse(set, &e);
	if (!status)
		status = resolve(s, set, e, &place);
	if (!status) {
		note_place(s, set, &place);
		status = watch_expr_choose(s, set, e, &place, out);
	}
	expression_free(e);
	return status;
}

void watch_expr_describe(const struct watch_expr *expr, char *buf, size_t n)
{
	const struct value_view *view = &expr->view;
	char type[200] = "";

	if (view->type && view->bit_size)
		snprintf(type, sizeof(type), "%.160s, %u bit%s in ", view->type->name,
			 view->bit_size, view->bit_size == 1 ? "" : "s");
	else if (view->type)
		snprintf(type, sizeof(type), "%.190s, ", view->type->name);
	int used = snprintf(buf, n, "%s%zu byte%s at 0x%llx", type, expr->len,
			    expr->len == 1 ? "" : "s", (unsigned long long)expr->address);
	if (expr->tid && used < (int)n)
		used += snprintf(buf + used, n - (size_t)used, ", of thread %d", expr->tid);
	if (expr->through[0] && used < (int)n)
		snprintf(buf + used, n - (size_t)used, "; %s", expr->through);
}
