// SPDX-License-Identifier: MIT
/*
 * watch_what.c - what the user wants watched: `counter`, `conn->state`, `libc.so.6:environ`,
 * `server+0x230:8`, `0x601040:4`; see report/expression.h.
 */
#include "cli/cmd.h"
#include "cli/watch.h"
#include "report/variables.h"

#include <string.h>

#define COMMAND watch_command
#define LEN_MAX 32	   /* at once */
#define ROTATED_MAX 4096 /* in turns */

#if defined(__x86_64__)
static const bool reads_alone = false;
#else
static const bool reads_alone = true;
#endif

/* One line for an error in WHAT: where it is, when that is not the first word. */
int watch_what_wrong(const char *what, const struct expression_error *error)
{
	if (error->column > 1)
		return cli_wrong(COMMAND, "'%.200s', column %d: %s", what, error->column, error->text);
	return cli_wrong(COMMAND, "%s", error->text);
}

int watch_what_parse(const char *what, struct expression **out)
{
	struct expression_error error;

	if (!expression_parse(what, out, &error))
		return 0;
	return cli_wrong(COMMAND, "'%.200s' is no place in memory: column %d: %s; see trapline-watch(1)",
			 what, error.column, error.text);
}

int watch_what_access(const char *on, enum trapline_access *out)
{
	if (!on || !strcmp(on, "w")) {
		*out = TRAPLINE_WRITE;
	} else if (!strcmp(on, "rw") || !strcmp(on, "wr")) {
		*out = TRAPLINE_READ_WRITE;
	} else if (!strcmp(on, "r")) {
		*out = TRAPLINE_READ;
		if (!reads_alone)
			return cli_wrong(COMMAND, "--on r: this processor cannot watch reads "
					 "alone; use --on rw");
	} else {
		return cli_wrong(COMMAND, "--on wants r, w or rw, not '%s'", on);
	}
	return 0;
}

int watch_what_check(const struct watch_settings *set)
{
	enum trapline_access access;
	struct expression *e = NULL;
	int status = watch_what_access(set->on, &access);

	if (!status)
		status = watch_what_parse(set->what, &e);
	if (!status && expression_length(e) > LEN_MAX && !set->rotate_ns)
		status = cli_wrong(COMMAND, "'%.200s': length %llu is not possible: 1 to %d bytes, or "
				   "more in turns, with --rotate 10ms", set->what,
				   (unsigned long long)expression_length(e), LEN_MAX);
	expression_free(e);
	return status;
}

/* How many debug registers the range takes: its naturally aligned parts. */
static unsigned int parts_of(uint64_t address, size_t len)
{
	unsigned int count = 0;

	while (len) {
		size_t part = 8;
		while (part > len || address % part)
			part /= 2;
		address += part;
		len -= part;
		count++;
	}
	return count;
}

static bool fits(const struct watch_settings *set, uint64_t address, uint64_t size)
{
	if (set->rotate_ns)
		return size && size <= ROTATED_MAX;
	return size && size <= LEN_MAX && parts_of(address, size) <= WATCH_REGISTERS;
}

/* Without :len: the whole where it fits, else what is aligned at that place. */
static size_t default_len(const struct watch_settings *set, const struct expression *e,
			  const struct expression_place *p)
{
	if (fits(set, p->address, p->size))
		return p->size;
	size_t len = 8;
	while (len > 1 && (p->address % len || (p->size && len > p->size)))
		len /= 2;
	if (expression_has_offset(e) || p->size <= len)
		return len;
	if (p->type && type_has_members(p->type))
		cli_note(COMMAND, "%s has %llu bytes: watching the first %zu; choose a member, "
			 "--list '%s.*' shows them", set->what, (unsigned long long)p->size, len,
			 set->what);
	else
		cli_note(COMMAND, "%s has %llu bytes: watching the first %zu; choose others by "
			 "%s+offset:len", set->what, (unsigned long long)p->size, len, set->what);
	return len;
}

static void say_place(struct symbols *s, const struct watch_settings *set,
		      const struct expression_place *p)
{
	if (p->is_first_of_several)
		cli_note(COMMAND, "several local symbols are named %s: watching the first, at 0x%llx; "
			 "give an address to choose another", set->what,
			 (unsigned long long)p->address);
	if (!p->type && !p->is_address && !variables_known(s, p->module))
		cli_note(COMMAND, "%s has no debug information (DWARF): types and members are not "
			 "known, values are shown as plain numbers",
			 p->module ? p->module : "the program");
}

static int resolve(struct symbols *s, const struct watch_settings *set,
		   const struct expression *e, struct expression_place *out)
{
	struct expression_options options = { .thread = set->thread };
	struct expression_error error;

	if (expression_resolve(s, e, &options, out, &error))
		return watch_what_wrong(set->what, &error);
	if (set->thread && !out->tid)
		return cli_wrong(COMMAND, "--thread is for thread-local variables, and %s is none",
				 set->what);
	return 0;
}

/* From a resolved place to what is armed. */
int watch_what_choose(struct symbols *s, const struct watch_settings *set,
			const struct expression *e, const struct expression_place *p,
			struct watch_what *out)
{
	uint64_t len = expression_length(e);
	struct place place;

	out->address = p->address;
	out->len = len ? len : default_len(set, e, p);
	if (!fits(set, out->address, out->len))
		return cli_wrong(COMMAND, "%zu bytes at 0x%llx take %u debug registers and there are "
				 "%d: choose fewer bytes or an aligned start, or --rotate 10ms", out->len,
				 (unsigned long long)out->address, parts_of(out->address, out->len),
				 WATCH_REGISTERS);
	/* A length of one's own choice says that the bytes are meant. */
	if (!len || !p->type || len == p->type->size)
		out->view = (struct value_view){ p->type, p->bit_offset, p->bit_size };
	out->tid = p->tid;
	snprintf(out->through, sizeof(out->through), "%s", p->through);
	symbols_data_place(s, out->address, &place);
	out->module = p->module ? p->module : place.module;
	if (p->is_address)
		run_place_text(&place, out->address, out->name, sizeof(out->name));
	else
		snprintf(out->name, sizeof(out->name), "%.*s", (int)strcspn(set->what, "\n"),
			 set->what);
	return 0;
}

int watch_what_resolve(struct symbols *s, const struct watch_settings *set,
		       struct watch_what *out)
{
	struct expression_place place;
	struct expression *e = NULL;
	int status = watch_what_access(set->on, &out->access);

	if (!status)
		status = watch_what_parse(set->what, &e);
	if (!status)
		status = resolve(s, set, e, &place);
	if (!status) {
		say_place(s, set, &place);
		status = watch_what_choose(s, set, e, &place, out);
	}
	expression_free(e);
	return status;
}

void watch_what_describe(const struct watch_what *what, char *buf, size_t n)
{
	const struct value_view *view = &what->view;
	char type[200] = "";

	if (view->type && view->bit_size)
		snprintf(type, sizeof(type), "%.160s, %u bit%s in ", view->type->name,
			 view->bit_size, view->bit_size == 1 ? "" : "s");
	else if (view->type)
		snprintf(type, sizeof(type), "%.190s, ", view->type->name);
	int used = snprintf(buf, n, "%s%zu byte%s at 0x%llx", type, what->len,
			    what->len == 1 ? "" : "s", (unsigned long long)what->address);
	if (what->tid && used < (int)n)
		used += snprintf(buf + used, n - (size_t)used, ", of thread %d", what->tid);
	if (what->through[0] && used < (int)n)
		snprintf(buf + used, n - (size_t)used, "; %s", what->through);
}
