/* SPDX-License-Identifier: MIT */
/* dap_find.c - see dap_find.h. What cannot be is decided here, so that the answer has the cause. */
#include "cli/dap/dap_find.h"

#include "cli/dap/dap_point.h"
#include "cli/message.h"
#include "report/lang/condition_names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMMAND "dap"

static bool find_sites(struct dap *d, struct dap_point *p, struct code_lines *lines)
{
	char why[DAP_WHY] = "";
	int err = lines ? code_lines_at(lines, p->line, &p->sites, why, sizeof(why)) :
			  code_sites_find(d->symbols, p->name, &p->sites, why, sizeof(why));

	if (err || !p->sites.count) {
		dap_point_refuse(p, "%s", why[0] ? why : "no code is there");
		return false;
	}
	p->real_line = p->sites.other_line ? p->sites.other_line : p->line;
	if (p->sites.other_line)
		snprintf(p->why, sizeof(p->why),
			 "line %d has no code: line %d is used, the next with code", p->line,
			 p->sites.other_line);
	else if (p->sites.elsewhere[0])
		snprintf(p->why, sizeof(p->why),
			 "only the program's own %.100s is chosen; object:name is one of %.200s",
			 p->name, p->sites.elsewhere);
	return true;
}

/* Types of arguments are looked up where they are printed or compared. */
static bool find_signatures(struct dap *d, struct dap_point *p)
{
	bool prints = p->template ? hit_template_has_names(p->template) : p->kind == DAP_FUNCTION;

	p->signature = calloc(p->sites.count, sizeof(struct signature *));
	if (!p->signature) {
		dap_point_refuse(p, "out of memory");
		return false;
	}
	if ((!prints && !p->condition[0]) || symbols_is_32bit(d->symbols))
		return true;
	for (size_t i = 0; i < p->sites.count; i++)
		signature_find(d->symbols, &p->sites.site[i], &p->signature[i]);
	return true;
}

static bool bind_template(struct dap *d, struct dap_point *p)
{
	char why[DAP_WHY] = "";
	int err = 0;

	if (!p->template)
		return true;
	p->bound = calloc(p->sites.count, sizeof(struct hit_bound *));
	for (size_t i = 0; p->bound && i < p->sites.count && !err; i++)
		err = hit_template_bind(p->template, d->symbols, &p->sites.site[i], p->signature[i],
					&p->bound[i], why, sizeof(why));
	if (p->bound && !err)
		return true;
	dap_point_refuse(p, "%s", why[0] ? why : "out of memory");
	return false;
}

static bool make_one(const struct condition_names *names, struct dap_point *p)
{
	struct condition_parts parts = { 0 };
	struct expression_error error = { 0 };
	int err = condition_make(names, p->condition[0] ? p->condition : NULL, &parts, &error);

	p->made = parts.entry;
	if (err == -ENOMEM)
		dap_point_refuse(p, "out of memory");
	else if (err && error.column)
		dap_point_refuse(p, "condition, column %d: %s", error.column, error.text);
	else if (err)
		dap_point_refuse(p, "condition: %s", error.text);
	return !err;
}

static bool make_code_condition(struct dap *d, struct dap_point *p)
{
	struct condition_names names = { .symbols = d->symbols,
					 .signature = p->signature[0],
					 .site = &p->sites.site[0] };

	if (!p->condition[0])
		return true;
	if (!make_one(&names, p))
		return false;
	for (size_t i = 1; i < p->sites.count; i++) {
		struct condition_names other = names;
		other.signature = p->signature[i];
		other.site = &p->sites.site[i];
		int differs = condition_compare(&names, &other, p->condition);
		if (differs < 0)
			break;
		if (!differs)
			continue;
		dap_point_refuse(p,
				 "the condition means different things in %s and in %s, because "
				 "their parameters differ; break on one at a time",
				 p->sites.site[0].name, p->sites.site[i].name);
		return false;
	}
	return true;
}

static bool can_be_found(struct dap *d, struct dap_point *p)
{
	if (d->is_terminated)
		dap_point_refuse(p, DAP_HAS_ENDED);
	else if (d->first_has_gone)
		dap_point_refuse(p,
				 "the first process has ended, in which locations are looked up");
	else if (p->kind == DAP_LINE && p->line <= 0)
		dap_point_refuse(p, "a breakpoint needs line, the number of a line");
	else
		return true;
	return false;
}

bool dap_find_code(struct dap *d, struct dap_point *p, struct code_lines *lines)
{
	char why[DAP_WHY] = "out of memory";

	if (!dap_point_limits(p) || !can_be_found(d, p))
		return false;
	if (p->log[0] && hit_template_parse(p->log, &p->template, why, sizeof(why))) {
		dap_point_refuse(p, "invalid logMessage '%.100s': %s", p->log, why);
		return false;
	}
	return find_sites(d, p, lines) && find_signatures(d, p) && bind_template(d, p) &&
	       make_code_condition(d, p);
}

/* What the command would print: the last line about an error. */
static void keep_wrong(void *arg, bool is_note, const char *line)
{
	char *why = arg;

	if (!is_note)
		snprintf(why, DAP_WHY, "%s", line);
}

int dap_find_expr(struct dap *d, const char *text, const char *access, struct watch_expr *out,
		  char *why, size_t n)
{
	struct observe_settings set = { .name = COMMAND, .expr = text };
	char said[DAP_WHY] = "";

	set.on = !strcmp(access, "read") ? "r" : !strcmp(access, "readWrite") ? "rw" : "w";
	cli_set_listener(keep_wrong, said);
	int status = watch_expr_check(&set);
	if (!status)
		status = watch_expr_resolve(d->symbols, &set, out);
	cli_set_listener(NULL, NULL);
	if (!status)
		return 0;
	snprintf(why, n, "%s", said);
	return -1;
}

bool dap_find_data(struct dap *d, struct dap_point *p)
{
	struct condition_names names = { .symbols = d->symbols };
	char why[DAP_WHY];

	if (!dap_point_limits(p) || !can_be_found(d, p))
		return false;
	if (dap_find_expr(d, p->name, p->access, &p->expr, why, sizeof(why))) {
		dap_point_refuse(p, "%s", why);
		return false;
	}
	unsigned char byte;
	if (symbols_read(d->symbols, p->expr.address, &byte, 1) == -EFAULT) {
		dap_point_refuse(p,
				 "cannot watch %.200s: no memory is mapped at 0x%llx now; give the "
				 "address of a variable, or its name",
				 p->name, (unsigned long long)p->expr.address);
		return false;
	}
	names.view = p->expr.view;
	names.len = p->expr.len;
	return make_one(&names, p);
}
