/* SPDX-License-Identifier: MIT */
/* watch_objects_find.c - --from, --until and EXPR: the functions, the registers and the offsets. */
#include "cli/message.h"
#include "cli/watch/watch_objects.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RESULT_REGISTER 0

/* Looks up names of values at one site. */
struct naming {
	const struct object_point *point;
	const struct signature *signature; /* NULL: no debug information */
	int reg;			   /* of the last name that was looked up */
};

static void list_names(const struct naming *n, char *buf, size_t size)
{
	size_t used = (size_t)snprintf(buf, size, "arg0 to arg5");

	for (size_t i = 0; n->signature && i < n->signature->count && used < size; i++)
		if (n->signature->parameter[i].name)
			used += (size_t)snprintf(buf + used, size - used, ", %s",
						 n->signature->parameter[i].name);
}

static int take_value(struct naming *n, const struct signature_value *v, const char *name,
		      struct expression_name *out, char *why, size_t size)
{
	if (v->where != SIGNATURE_REGISTERS || v->regs != 1) {
		snprintf(why, size,
			 "'%s' of %s is not in a register, so it is not a pointer to an object",
			 name, n->point->where);
		return -ENOENT;
	}
	n->reg = v->reg[0];
	out->type = v->type && v->type->kind != TYPE_UNKNOWN ? v->type : NULL;
	return 0;
}

/* 3 for arg3; -1: it has another form. */
static int argument_number(const char *name)
{
	if (strncmp(name, "arg", 3) != 0 || !isdigit((unsigned char)name[3]) || name[4])
		return -1;
	return name[3] - '0';
}

static int value_named(void *arg, const char *scope, const char *name, struct expression_name *out,
		       char *why, size_t size)
{
	struct naming *n = arg;
	const struct signature *s = n->signature;
	int number = argument_number(name);
	char names[300];

	if (scope) {
		snprintf(why, size, "an argument has no file or object before it");
		return -ENOENT;
	}
	if (n->point->is_return) {
		n->reg = RESULT_REGISTER;
		if (!strcmp(name, "ret"))
			return s ? take_value(n, &s->result, name, out, why, size) : 0;
		snprintf(why, size, "after %s returned, only its result 'ret' is known",
			 n->point->where);
		return -ENOENT;
	}
	if (number >= 0 && s && (size_t)number < s->count)
		return take_value(n, &s->parameter[number], name, out, why, size);
	if (number >= 0 && signature_argument_register((unsigned int)number) >= 0) {
		n->reg = signature_argument_register((unsigned int)number);
		return 0;
	}
	for (size_t i = 0; s && i < s->count; i++)
		if (s->parameter[i].name && !strcmp(s->parameter[i].name, name))
			return take_value(n, &s->parameter[i], name, out, why, size);
	list_names(n, names, sizeof(names));
	snprintf(why, size, "'%s' is not known when %s is entered: it has %s%s", name,
		 n->point->where, names,
		 strcmp(name, "ret") ? "" : "; --from FUNC:ret waits for the return");
	return -ENOENT;
}

/* What follows the last ':' of FUNC, when it is not a part of its name. */
static const char *cut_suffix(struct object_point *p, const char *text)
{
	char *colon;

	snprintf(p->where, sizeof(p->where), "%s", text);
	colon = strrchr(p->where, ':');
	if (!colon || colon == p->where || colon[-1] == ':')
		return NULL;
	if (strcmp(colon + 1, "ret") != 0 && argument_number(colon + 1) < 0)
		return NULL;
	*colon = 0;
	return colon + 1;
}

static int find_sites(struct watch_objects *o, struct object_point *p, const char *option)
{
	const struct observe_settings *set = o->set;
	char why[500];

	int err = code_sites_find(o->symbols, p->where, &p->sites, why, sizeof(why));
	int status = err == -ENOENT ? session_not_found(set->name, set->command, p->where, false) :
				      0;
	if (err)
		return status ? status : cli_wrong(set->name, "%s: %s", option, why);
	p->way = calloc(p->sites.count, sizeof(*p->way));
	return p->way ? 0 : cli_wrong(set->name, "out of memory");
}

static bool is_copy(const struct object_point *p, size_t i)
{
	return p->sites.site[i].kind == CODE_SITE_INLINED;
}

/* Reports inlined copies that do not have the argument. */
static int report_left_out(const struct watch_objects *o, const struct object_point *p,
			   const char *option)
{
	size_t n = 0;

	for (size_t i = 0; i < p->sites.count; i++)
		n += p->way[i].is_left_out;
	if (n == p->sites.count)
		return cli_wrong(
			o->set->name,
			"cannot use %s %s: it was inlined wherever it is called, and its values "
			"are not known there",
			option, p->where);
	if (n)
		cli_note(o->set->name,
			 "%s: left out %zu inlined cop%s of %s, where its values are not known",
			 option, n, n == 1 ? "y" : "ies", p->where);
	return 0;
}

/* Finds the path from a register to the watched part, at one site. */
static int find_way(struct watch_objects *o, const struct expression *e, size_t i,
		    struct expression_place *place)
{
	struct object_point *p = &o->at;
	struct signature *signature = NULL;
	struct naming naming = { .point = p };
	struct expression_options options = { .path_only = true,
					      .name = value_named,
					      .arg = &naming };
	struct expression_error error;

	signature_find(o->symbols, &p->sites.site[i], &signature);
	naming.signature = signature;
	int err = expression_resolve(o->symbols, e, &options, place, &error);
	signature_free(signature);
	p->way[i].is_left_out = is_copy(p, i) && (err || p->is_return);
	if (p->way[i].is_left_out)
		return 0;
	if (err)
		return watch_expr_wrong(o->set, &error);
	p->way[i] = (struct object_way){ .reg = (uint8_t)naming.reg, .path = place->path };
	return 0;
}

static int find_ways(struct watch_objects *o, const struct expression *e)
{
	struct expression_place place;

	for (size_t i = 0; i < o->at.sites.count; i++) {
		struct watch_expr expr = { .access = o->expr.access };
		int status = find_way(o, e, i, &place);
		if (!status && o->at.way[i].is_left_out)
			continue;
		if (!status && !place.type && !expression_length(e))
			status = cli_wrong(
				o->set->name,
				"the type of '%s' is not known: give a length or a type, as in "
				"*(arg0+16):4 or *(uint32_t *)(arg0+16)",
				o->set->expr);
		if (!status)
			status = watch_expr_choose(o->symbols, o->set, e, &place, &expr);
		if (status)
			return status;
		if (o->expr.len && expr.len != o->expr.len)
			return cli_wrong(
				o->set->name,
				"'%s' has %zu bytes at %s and %zu at %s: choose one of the "
				"functions",
				o->set->expr, o->expr.len, o->at.sites.site[0].name, expr.len,
				o->at.sites.site[i].name);
		o->expr = expr;
	}
	return 0;
}

static int find_at(struct watch_objects *o)
{
	const char *suffix = cut_suffix(&o->at, o->set->from);
	struct expression *e = NULL;

	if (suffix && strcmp(suffix, "ret") != 0)
		return cli_wrong(
			o->set->name,
			"invalid --from '%s': expected FUNC or FUNC:ret (example: conn_open:ret); EXPR "
			"names the argument",
			o->set->from);
	o->at.is_return = suffix != NULL;
	int status = find_sites(o, &o->at, "--from");
	if (!status)
		status = watch_expr_access(o->set, &o->expr.access);
	if (!status)
		status = watch_expr_parse(o->set, &e);
	if (!status)
		status = find_ways(o, e);
	expression_free(e);
	return status ? status : report_left_out(o, &o->at, "--from");
}

static void find_until_register(struct watch_objects *o, size_t i, int number)
{
	struct object_point *p = &o->until;
	struct signature *signature = NULL;
	const struct signature_value *v = NULL;

	p->way[i].reg = (uint8_t)signature_argument_register((unsigned int)number);
	if (!is_copy(p, i))
		return;
	signature_find(o->symbols, &p->sites.site[i], &signature);
	if (signature && (size_t)number < signature->count)
		v = &signature->parameter[number];
	p->way[i].is_left_out = !v || v->where != SIGNATURE_REGISTERS || v->regs != 1;
	if (!p->way[i].is_left_out)
		p->way[i].reg = v->reg[0];
	signature_free(signature);
}

static int find_until(struct watch_objects *o)
{
	const char *suffix = cut_suffix(&o->until, o->set->until);

	if (suffix && !strcmp(suffix, "ret"))
		return cli_wrong(
			o->set->name,
			"invalid --until '%s': expected FUNC or FUNC:argN (example: conn_close:arg0)",
			o->set->until);
	int number = suffix ? argument_number(suffix) : 0;
	if (signature_argument_register((unsigned int)number) < 0)
		return cli_wrong(o->set->name,
				 "invalid --until '%s': arg%d is not passed in a register",
				 o->set->until, number);
	int status = find_sites(o, &o->until, "--until");
	for (size_t i = 0; !status && i < o->until.sites.count; i++)
		find_until_register(o, i, number);
	return status ? status : report_left_out(o, &o->until, "--until");
}

int watch_objects_find(struct watch_objects *o, struct symbols *s,
		       const struct observe_settings *set)
{
	o->set = set;
	o->symbols = s;
	int status = find_at(o);
	return !status && set->until ? find_until(o) : status;
}
