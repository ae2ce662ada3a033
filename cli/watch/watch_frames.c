/* SPDX-License-Identifier: MIT */
/* watch_frames.c - see watch_frames.h: the sites of the variable. */
#include "cli/watch/watch_frames.h"

#include "cli/message.h"
#include "report/dwarf/variables.h"
#include "report/lang/frame_variable.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * The location of the whole is not known before there is a frame; its alignment is: a CFA has 16.
 */
#define SOME_CFA 0x10000000u

static const struct tree_node *first_name(const struct expression *e)
{
	const struct tree_node *n = e->root;

	while (n && n->kind != TREE_NAME)
		n = n->left;
	return n;
}

bool watch_frames_named(struct symbols *s, const struct expression *e, const char **function,
			const char **name)
{
	const struct tree_node *n = first_name(e);
	struct variables_problem problem;
	struct named_variable v;

	if (!n || !n->scope || strchr(n->scope, '.'))
		return false;
	if (variables_find(s, n->scope, n->text, &v, &problem) != -ENOENT)
		return false;
	*function = n->scope;
	*name = n->text;
	return true;
}

struct frame_naming {
	const struct type *type;
	struct signature_value base; /* what the path counts from */
};

static int frame_named(void *arg, const char *scope, const char *name, struct expression_name *out,
		       char *why, size_t size)
{
	struct frame_naming *n = arg;

	(void)scope;
	(void)name;
	(void)why;
	(void)size;
	*out = (struct expression_name){ .type = n->type, .parameter = &n->base };
	return 0;
}

/* The watched part of one variable: its offset from the CFA. */
static int choose_part(struct watch_objects *o, const struct expression *e,
		       const struct frame_variable *v, int64_t *offset)
{
	struct frame_naming naming = { .type = v->type };
	struct expression_options options = { .path_only = true,
					      .name = frame_named,
					      .arg = &naming };
	struct watch_expr expr = { .access = o->expr.access };
	struct expression_place place;
	struct expression_error error;

	if (expression_resolve(o->symbols, e, &options, &place, &error))
		return watch_expr_wrong(o->set, &error);
	if (place.path.links)
		return cli_wrong(
			o->set->name,
			"cannot follow a pointer of '%s': it has no value yet when its frame "
			"begins; watch the object by --from FUNC 'arg0->member'",
			o->set->expr);
	*offset = v->offset + (int64_t)place.path.base;
	place.address = SOME_CFA + (uint64_t)*offset;
	int status = watch_expr_choose(o->symbols, o->set, e, &place, &expr);
	if (status)
		return status;
	if (o->expr.len && (expr.len != o->expr.len ||
			    expr.address % 32 % expr.len != o->expr.address % 32 % expr.len))
		return cli_wrong(o->set->name,
				 "several variables are named '%s', and they have different types; "
				 "build with -fno-inline, or rename one",
				 o->set->expr);
	o->expr = expr;
	return 0;
}

static int add_site(struct watch_objects *o, struct object_point *p, const struct frame_site *from,
		    bool is_anew, int64_t offset)
{
	const struct object_way way = { .reg = from->reg,
					.add = from->add,
					.is_anew = is_anew,
					.path = { .base = (uint64_t)offset } };
	struct code_sites *sites = &p->sites;

	struct code_site *more = reallocarray(sites->site, sites->count + 1, sizeof(*more));
	if (!more)
		return cli_wrong(o->set->name, "out of memory");
	sites->site = more;
	struct object_way *ways = reallocarray(p->way, sites->count + 1, sizeof(*ways));
	if (!ways)
		return cli_wrong(o->set->name, "out of memory");
	p->way = ways;
	/* In the order of addresses, as code_sites_at() wants them. */
	size_t i = sites->count;
	while (i && more[i - 1].address >= from->address)
		i--;
	if (i < sites->count && more[i].address == from->address)
		return 0;
	memmove(&more[i + 1], &more[i], (sites->count - i) * sizeof(*more));
	memmove(&ways[i + 1], &ways[i], (sites->count - i) * sizeof(*ways));
	more[i] = (struct code_site){ .kind = CODE_SITE_ADDRESS,
				      .address = from->address,
				      .name = strdup(p->where),
				      .is_certain = true };
	ways[i] = way;
	sites->count++;
	return 0;
}

static int add_variable(struct watch_objects *o, const struct expression *e,
			const struct frame_variable *v)
{
	int64_t offset = 0;
	int status = choose_part(o, e, v, &offset);

	for (size_t i = 0; !status && i < v->entries.count; i++)
		status = add_site(o, &o->at, &v->entries.site[i], v->is_whole, offset);
	for (size_t i = 0; !status && i < v->exits.count; i++)
		status = add_site(o, &o->until, &v->exits.site[i], false, offset);
	for (size_t i = 0; !status && v->is_whole && i < v->entries.count; i++)
		status = add_site(o, &o->frames.returns, &v->entries.site[i], v->is_whole, offset);
	return status;
}

/* Copies in which the variable is in a register are left out, and a note reports it. */
static int add_site_variables(struct watch_objects *o, const struct expression *e,
			      const struct code_site *site, const char *name, char *why, size_t n,
			      size_t *found)
{
	struct frame_variable *v = NULL;
	size_t count = 0;
	size_t in_doubt = 0;
	int status = 0;

	int err = frame_variable_find(o->symbols, site, name, &v, &count, why, n);
	for (size_t i = 0; !err && !status && i < count; i++) {
		status = add_variable(o, e, &v[i]);
		in_doubt += v[i].jumps_in_doubt;
	}
	frame_variables_free(v, count);
	if (err == -ENOMEM)
		return cli_wrong(o->set->name, "out of memory");
	*found += !err;
	if (in_doubt)
		cli_note(
			o->set->name,
			"%s has %zu jump%s with targets that are not known: a frame that is entered "
			"by one is not seen",
			site->name, in_doubt, in_doubt == 1 ? "" : "s");
	return status;
}

#if defined(__x86_64__)
static const bool is_for_this_processor = true;
#else
static const bool is_for_this_processor = false;
#endif

/* Where a frame is not found by the stack pointer, or moves. 0 or an exit status, line printed. */
static int check_program(const struct watch_objects *o, const struct code_site *site)
{
	const char *why = !is_for_this_processor       ? "this is possible on x86-64 alone" :
			  symbols_is_32bit(o->symbols) ? "it is a 32-bit program" :
			  symbols_is_go(o->symbols, site->address) ?
							 "Go moves the stacks of its goroutines" :
							 NULL;

	return why ? cli_wrong(o->set->name, "cannot watch '%s' in each frame: %s", o->set->expr,
			       why) :
		     0;
}

static int find_frame_sites(struct watch_objects *o, const struct expression *e,
			    const char *function, const char *name)
{
	struct code_sites sites = { 0 };
	char why[500] = "";
	char reason[500] = "";
	size_t found = 0;
	size_t left_out = 0;
	int status = 0;

	if (code_sites_find(o->symbols, function, &sites, why, sizeof(why)))
		return cli_wrong(o->set->name, "'%s': %s", o->set->expr, why);
	if (sites.count)
		status = check_program(o, &sites.site[0]);
	for (size_t i = 0; !status && i < sites.count; i++) {
		size_t before = found;
		status = add_site_variables(o, e, &sites.site[i], name, why, sizeof(why), &found);
		if (found > before)
			continue;
		left_out++;
		if (!reason[0])
			snprintf(reason, sizeof(reason), "%s", why);
	}
	code_sites_free(&sites);
	if (!status && !found)
		status = cli_wrong(o->set->name, "cannot watch '%s': %s", o->set->expr, reason);
	else if (!status && left_out)
		cli_note(o->set->name, "left out %zu cop%s of %s: %s", left_out,
			 left_out == 1 ? "y" : "ies", function, reason);
	return status;
}

int watch_frames_find(struct watch_objects *o, struct symbols *s,
		      const struct observe_settings *set)
{
	const char *function = "";
	const char *name = "";
	struct expression *e = NULL;

	o->set = set;
	o->symbols = s;
	o->frames.are = true;
	int status = watch_expr_access(set, &o->expr.access);
	if (!status)
		status = watch_expr_parse(set, &e);
	if (!status && watch_frames_named(s, e, &function, &name)) {
		snprintf(o->at.where, sizeof(o->at.where), "%s", function);
		snprintf(o->until.where, sizeof(o->until.where), "%s", function);
		snprintf(o->frames.returns.where, sizeof(o->frames.returns.where), "%s", function);
		o->frames.returns.is_return = true;
		status = find_frame_sites(o, e, function, name);
	}
	expression_free(e);
	o->frames.unwinder_count = unwinders_find(s, o->frames.unwinder, UNWINDERS_MAX);
	return status;
}
