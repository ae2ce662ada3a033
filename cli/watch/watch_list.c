/* SPDX-License-Identifier: MIT */
/* watch_list.c - `trapline watch --list`: the variables and members that match patterns. */
#include "cli/watch/watch_list.h"

#include "base/grow.h"
#include "cli/message.h"
#include "report/dwarf/missing.h"
#include "report/dwarf/variables.h"
#include "report/lang/expression.h"
#include "report/run/run.h"

#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct row {
	char *name;
	char *type; /* NULL: unknown */
	uint64_t size;
	uint64_t address;
	bool has_address;
	char *where; /* file:line, or the object */
};

struct rows {
	struct row *row;
	size_t count;
	size_t room;
};

static int rows_add(struct rows *rows, struct row row)
{
	if (grow_room(rows->row, rows->count, rows->room))
		return -ENOMEM;
	if (!row.name || !row.where)
		return -ENOMEM;
	rows->row[rows->count++] = row;
	return 0;
}

static int row_compare(const void *a, const void *b)
{
	const struct row *x = a;
	const struct row *y = b;
	int names = strcmp(x->name, y->name);

	return names ? names : (x->address > y->address) - (x->address < y->address);
}

static char *where_text(const char *file, int line, const char *module)
{
	char buf[300];

	if (file)
		snprintf(buf, sizeof(buf), "%s:%d", basename(file), line);
	else
		snprintf(buf, sizeof(buf), "%s", module ? module : "");
	return strdup(buf);
}

static int variable_visit(const struct named_variable *v, void *arg)
{
	return rows_add(arg, (struct row){
				     .name = strdup(v->name),
				     .type = v->type ? strdup(v->type->name) : NULL,
				     .size = v->size,
				     .address = v->address,
				     .has_address = v->where == VARIABLE_STATIC,
				     .where = where_text(v->file, v->line, v->module),
			     });
}

/* `server.stat_*`, `conn->next->*`: cut before the last member. NULL: there is none. */
static char *cut_member(const char *pattern, const char **member)
{
	const char *cut = NULL;
	size_t len = 0;

	for (const char *p = pattern; *p; p++) {
		if (p[0] == '.' || (p[0] == '-' && p[1] == '>')) {
			cut = p;
			len = p[0] == '.' ? 1 : 2;
		}
	}
	if (!cut || cut == pattern)
		return NULL;
	*member = cut + len;
	/* After an arrow the members are those of the target of the pointer. */
	return strndup(pattern, (size_t)(cut - pattern) + (len == 2 ? 2 : 0));
}

struct member_list {
	struct rows *rows;
	const char *prefix; /* `server.` */
	const char *pattern;
	uint64_t address;
	const char *module;
};

static int members_add(const struct member_list *l, const struct type *t, uint64_t address,
		       int depth)
{
	size_t n;
	const struct type_member *m = type_members(t, &n);
	int err = 0;

	for (size_t i = 0; i < n && !err && depth < 32; i++) {
		char name[300];
		char type[300];
		if (!m[i].name || m[i].is_base) {
			if (!m[i].vtable_offset)
				err = members_add(l, m[i].type, address + m[i].offset, depth + 1);
			continue;
		}
		if (strpbrk(l->pattern, "*?[") ? fnmatch(l->pattern, m[i].name, 0) :
						 !strcasestr(m[i].name, l->pattern))
			continue;
		snprintf(name, sizeof(name), "%s%s", l->prefix, m[i].name);
		snprintf(type, sizeof(type), m[i].bit_size ? "%s : %u" : "%s", m[i].type->name,
			 m[i].bit_size);
		err = rows_add(l->rows,
			       (struct row){
				       .name = strdup(name),
				       .type = strdup(type),
				       .size = m[i].bit_size ?
						       (m[i].bit_offset + m[i].bit_size + 7) / 8 :
						       m[i].type->size,
				       .address = address + m[i].offset,
				       .has_address = true,
				       .where = where_text(NULL, 0, l->module),
			       });
	}
	return err;
}

/* Adds the members of an expression. An exit status; 0 with nothing added: it has no members. */
static int list_members(struct symbols *s, const struct observe_settings *set, const char *pattern,
			struct rows *rows)
{
	struct expression_options options = { .thread = set->thread };
	struct expression_place place;
	struct expression_error error;
	struct expression *e = NULL;
	const char *member;
	char *owner = cut_member(pattern, &member);
	char text[400];

	if (!owner)
		return 0;
	bool is_arrow = strlen(owner) > 2 && !strcmp(owner + strlen(owner) - 2, "->");
	snprintf(text, sizeof(text), is_arrow ? "*%.*s" : "%.*s",
		 (int)strlen(owner) - (is_arrow ? 2 : 0), owner);
	int err = expression_parse(text, &e, &error);
	if (!err)
		err = expression_resolve(s, e, &options, &place, &error);
	expression_free(e);
	if (!err && !place.type) {
		struct missing_dwarf missing;

		free(owner);
		missing_dwarf_of(s, place.module, &missing);
		return cli_wrong(set->name, "%s %s: its members are not known; %s",
				 place.module ? place.module : "the program", missing.cause,
				 missing.remedy);
	}
	char prefix[400];
	snprintf(prefix, sizeof(prefix), "%s%s", owner, is_arrow ? "" : ".");
	free(owner);
	if (err)
		return cli_wrong(set->name, "%s", error.text);
	struct member_list l = { rows, prefix, member, place.address, place.module };
	members_add(&l, place.type, place.address, 0);
	return 0;
}

static void list_print_text(const struct rows *rows)
{
	int name = 4;
	int type = 4;
	int where = 5;

	for (size_t i = 0; i < rows->count; i++) {
		const struct row *r = &rows->row[i];
		int widths[] = { (int)strlen(r->name), r->type ? (int)strlen(r->type) : 1,
				 (int)strlen(r->where) };
		name = widths[0] > name && widths[0] <= 48 ? widths[0] : name;
		type = widths[1] > type && widths[1] <= 32 ? widths[1] : type;
		where = widths[2] > where && widths[2] <= 28 ? widths[2] : where;
	}
	printf("%-*s  %-*s  %8s  %-*s  %s\n", name, "name", type, "type", "bytes", where, "where",
	       "address");
	for (size_t i = 0; i < rows->count; i++) {
		const struct row *r = &rows->row[i];
		printf("%-*s  %-*s  %8" PRIu64 "  %-*s  ", name, r->name, type,
		       r->type ? r->type : "?", r->size, where, r->where);
		if (r->has_address)
			printf("0x%" PRIx64 "\n", r->address);
		else
			puts("in each thread");
	}
}

static void list_print_json(const struct rows *rows)
{
	for (size_t i = 0; i < rows->count; i++) {
		const struct row *r = &rows->row[i];
		char address[24];
		snprintf(address, sizeof(address), "0x%" PRIx64, r->address);
		json_t *j = json_pack("{s:s, s:s, s:s?, s:I, s:s, s:s?}", "type", "variable",
				      "name", r->name, "value_type", r->type, "len",
				      (json_int_t)r->size, "where", r->where, "address",
				      r->has_address ? address : NULL);
		if (j)
			run_jsonl_line(stdout, j);
	}
}

/* Adds the variables that match one pattern. An exit status. */
static int list_pattern(struct symbols *s, const struct observe_settings *set, const char *pattern,
			struct rows *rows)
{
	size_t before = rows->count;
	int status = 0;
	int err = variables_list(s, pattern, false, variable_visit, rows);

	if (!err && rows->count == before)
		status = list_members(s, set, pattern, rows);
	if (!err && !status && rows->count == before)
		err = variables_list(s, pattern, true, variable_visit, rows);
	if (err)
		return cli_wrong(set->name, "out of memory");
	if (status || rows->count != before)
		return status;
	struct missing_dwarf missing;
	bool is_missing = missing_dwarf_of(s, NULL, &missing);
	return cli_wrong(set->name, "no variable matches '%s'%s%s%s", pattern,
			 is_missing ? "; the program " : "", is_missing ? missing.cause : "",
			 is_missing ? ", so only symbols are known" : "");
}

static void rows_free(struct rows *rows)
{
	for (size_t i = 0; i < rows->count; i++) {
		free(rows->row[i].name);
		free(rows->row[i].type);
		free(rows->row[i].where);
	}
	free(rows->row);
}

int watch_list(struct symbols *s, const struct observe_settings *set)
{
	struct rows rows = { 0 };
	bool is_typed = true;
	int status = set->operand_count ? 0 : list_pattern(s, set, "*", &rows);

	for (size_t i = 0; !status && i < set->operand_count; i++)
		status = list_pattern(s, set, set->operands[i], &rows);
	for (size_t i = 0; i < rows.count; i++)
		is_typed &= rows.row[i].type != NULL;
	if (!status && !is_typed)
		cli_note(set->name,
			 "there is no debug information (DWARF) where the type is '?': types, "
			 "members and lines of the source are not known");
	if (rows.count)
		qsort(rows.row, rows.count, sizeof(*rows.row), row_compare);
	if (!status && set->json)
		list_print_json(&rows);
	else if (!status)
		list_print_text(&rows);
	rows_free(&rows);
	return status;
}
