/* SPDX-License-Identifier: MIT */
/* dap_point.c - see dap_point.h. */
#include "cli/dap/dap_point.h"

#include "cli/dap/dap_arm.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HIT_CONDITION_FORM                                                                      \
	"expected a number of hits after which it ends, or > and the number of hits to ignore " \
	"(examples: 100, > 5, == 3)"

void dap_point_refuse(struct dap_point *p, const char *format, ...)
{
	va_list args;

	p->is_verified = false;
	va_start(args, format);
	vsnprintf(p->why, sizeof(p->why), format, args);
	va_end(args);
}

static const char *text_in(const json_t *row, const char *member)
{
	const char *text = json_string_value(json_object_get(row, member));

	return text ? text : "";
}

/* The member that names it. */
static const char *name_of(enum dap_kind kind, const json_t *row)
{
	return kind == DAP_DATA	    ? text_in(row, "dataId") :
	       kind == DAP_FUNCTION ? text_in(row, "name") :
				      "";
}

/* From 1; 0: the row has none. */
static int line_of(const struct dap *d, const json_t *row)
{
	const json_t *number = json_object_get(row, "line");
	json_int_t line = json_integer_value(number);

	if (!json_is_integer(number) || line < 0 || line > 10000000)
		return 0;
	return (int)line + (d->counts_lines_from_0 ? 1 : 0);
}

static bool is_of(const struct dap_point *p, enum dap_kind kind, const char *path)
{
	return p->kind == kind && (!path || (p->path && !strcmp(p->path, path)));
}

static bool is_same(const struct dap *d, const struct dap_point *p, enum dap_kind kind,
		    const char *path, const json_t *row)
{
	return is_of(p, kind, path) && p->line == line_of(d, row) &&
	       !strcmp(p->name, name_of(kind, row)) &&
	       !strcmp(p->condition, text_in(row, "condition")) &&
	       !strcmp(p->hit_condition, text_in(row, "hitCondition")) &&
	       !strcmp(p->log, text_in(row, "logMessage")) &&
	       !strcmp(p->access, text_in(row, "accessType"));
}

void dap_points_mark(struct dap *d, enum dap_kind kind, const char *path)
{
	for (struct dap_point *p = d->points; p; p = p->next)
		if (is_of(p, kind, path))
			p->is_kept = false;
}

static struct dap_point *point_new(struct dap *d, enum dap_kind kind, const char *path,
				   const json_t *row)
{
	struct dap_point *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->kind = kind;
	p->id = ++d->next_id;
	p->path = path ? strdup(path) : NULL;
	p->line = line_of(d, row);
	p->name = strdup(name_of(kind, row));
	p->condition = strdup(text_in(row, "condition"));
	p->hit_condition = strdup(text_in(row, "hitCondition"));
	p->log = strdup(text_in(row, "logMessage"));
	p->access = strdup(text_in(row, "accessType"));
	if ((path && !p->path) || !p->name || !p->condition || !p->hit_condition || !p->log ||
	    !p->access) {
		dap_point_free(p);
		return NULL;
	}
	return p;
}

struct dap_point *dap_point_take(struct dap *d, enum dap_kind kind, const char *path,
				 const json_t *row)
{
	struct dap_point **end = &d->points;

	/* One that could not be armed is tried again: its cause may have gone. */
	for (; *end; end = &(*end)->next) {
		struct dap_point *p = *end;
		if (p->is_kept || !p->is_verified || !is_same(d, p, kind, path, row))
			continue;
		p->is_kept = true;
		return p;
	}
	struct dap_point *p = point_new(d, kind, path, row);
	if (!p)
		return NULL;
	p->is_kept = true;
	*end = p;
	return p;
}

void dap_points_sweep(struct dap *d)
{
	for (struct dap_point **at = &d->points; *at;) {
		struct dap_point *p = *at;
		if (p->is_kept) {
			at = &p->next;
			continue;
		}
		*at = p->next;
		dap_arm_leave(d, p);
		dap_point_free(p);
	}
}

void dap_points_free(struct dap *d)
{
	for (struct dap_point *p = d->points; p; p = p->next)
		p->is_kept = false;
	dap_points_sweep(d);
}

void dap_point_free(struct dap_point *p)
{
	for (size_t i = 0; i < p->sites.count; i++) {
		if (p->bound)
			hit_bound_free(p->bound[i]);
		if (p->signature)
			signature_free(p->signature[i]);
	}
	free(p->bound);
	free(p->signature);
	code_sites_free(&p->sites);
	hit_template_free(p->template);
	trapline_condition_free(p->made);
	free(p->path);
	free(p->name);
	free(p->condition);
	free(p->hit_condition);
	free(p->log);
	free(p->access);
	free(p);
}

void dap_point_name(const struct dap_point *p, char *buf, size_t n)
{
	const char *slash = p->path ? strrchr(p->path, '/') : NULL;

	if (p->kind == DAP_LINE)
		snprintf(buf, n, "%s:%d", slash ? slash + 1 : p->path,
			 p->real_line ? p->real_line : p->line);
	else
		snprintf(buf, n, "%s", p->name);
}

json_t *dap_point_json(const struct dap *d, const struct dap_point *p)
{
	json_t *j = json_pack("{s:i, s:b}", "id", p->id, "verified", p->is_verified);
	int shift = d->counts_lines_from_0 ? 1 : 0;

	if (p->why[0])
		json_object_set_new(j, "message", json_string(p->why));
	if (!p->is_verified)
		json_object_set_new(j, "reason", json_string("failed"));
	if (p->kind == DAP_LINE && p->line > 0)
		json_object_set_new(j, "line",
				    json_integer((p->real_line ? p->real_line : p->line) - shift));
	if (p->kind == DAP_LINE)
		json_object_set_new(j, "source", json_pack("{s:s}", "path", p->path));
	return j;
}

static bool is_blank(const char *text)
{
	return !text[strspn(text, " \t")];
}

bool dap_point_limits(struct dap_point *p)
{
	static const struct {
		const char *sign;
		int64_t skip_more; /* than the number; -2: it is not a number to skip */
		bool is_one;
	} forms[] = { { ">=", -1, false },
		      { ">", 0, false },
		      { "==", -1, true },
		      { "=", -1, true },
		      { "<=", -2, false } };
	const char *text = p->hit_condition + strspn(p->hit_condition, " \t");
	int64_t skip = -2;
	bool is_one = false;
	char *end;

	if (is_blank(text))
		return true;
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		size_t n = strlen(forms[i].sign);
		if (strncmp(text, forms[i].sign, n) != 0)
			continue;
		skip = forms[i].skip_more;
		is_one = forms[i].is_one;
		text += n;
		break;
	}
	text += strspn(text, " \t");
	unsigned long long number = *text >= '0' && *text <= '9' ? strtoull(text, &end, 10) : 0;
	if (!number || number > INT64_MAX || !is_blank(end)) {
		dap_point_refuse(p, "invalid hitCondition '%.60s': " HIT_CONDITION_FORM,
				 p->hit_condition);
		return false;
	}
	p->limit = is_one ? 1 : skip == -2 ? number : 0;
	p->skip = skip == -2 ? 0 : number + (uint64_t)skip;
	return true;
}
