/* SPDX-License-Identifier: MIT */
/* patch_plan.c - see patch_plan.h. */
#include "cli/patch/patch_plan.h"

#include "cli/message.h"
#include "report/patch/patch_scope.h"
#include "report/run/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <trapline/tools.h>

#define WHY_BYTES 600
#define BUILD_ID_TEXT 72

static int plan_wrong(const struct patch_plan *plan, const char *why)
{
	return cli_wrong(PATCH_COMMAND, "cannot apply %s: %s", patch_object_name(plan->object),
			 why);
}

static void plan_describe(struct symbols *s, struct patch_step *step)
{
	struct place p;

	symbols_place(s, step->found.address, &p);
	const char *slash = p.file ? strrchr(p.file, '/') : NULL;
	if (p.file && p.line)
		snprintf(step->where, sizeof(step->where), "%s at %s:%d",
			 step->found.module ? step->found.module : "?", slash ? slash + 1 : p.file,
			 p.line);
	else
		snprintf(step->where, sizeof(step->where), "%s",
			 step->found.module ? step->found.module : "?");
}

/* A function of the process may hide the new one: the loader binds names to the first. */
static int plan_check_binding(struct symbols *s, const struct patch_plan *plan,
			      const struct patch_step *step)
{
	const char *name = step->record->target_is;
	const char *exporter = name ? patch_scope_exporter(s, name) : NULL;

	if (!name)
		return CLI_OK;
	if (exporter)
		return cli_wrong(PATCH_COMMAND,
				 "cannot apply %s: the loader would bind its function '%s' to the "
				 "one of %s; make it static",
				 patch_object_name(plan->object), name, exporter);
	return step->record->target ?
		       CLI_OK :
		       cli_wrong(PATCH_COMMAND,
				 "cannot apply %s: the replacement '%s' of '%s' is "
				 "not in it",
				 patch_object_name(plan->object), name, step->record->name);
}

/* The linker found them to be equal, and keeps the code once. */
static int plan_check_folded(const struct patch_settings *set, const struct patch_plan *plan,
			     const struct patch_step *step)
{
	const char *folded = step->found.folded;

	if (folded[0] && !set->folded)
		return cli_wrong(
			PATCH_COMMAND,
			"cannot apply %s: %s have the same code, and all of them would "
			"change; give --folded to replace them, or build the program without "
			"folding (--icf=none, -fno-ipa-icf)",
			patch_object_name(plan->object), folded);
	if (folded[0])
		cli_note(PATCH_COMMAND, "%s have the same code, and change together", folded);
	return CLI_OK;
}

static int plan_check_copies(const struct patch_settings *set, const struct patch_plan *plan,
			     const struct patch_step *step)
{
	const struct patch_found *f = &step->found;

	if (f->copies[0] && !set->leave_copies)
		return cli_wrong(PATCH_COMMAND,
				 "cannot apply %s: '%s' has copies that stay old (%s); replace the "
				 "functions that contain them, or give --leave-copies",
				 patch_object_name(plan->object), step->record->name, f->copies);
	return CLI_OK;
}

static void plan_note_copies(const struct patch_step *step)
{
	const struct patch_found *f = &step->found;

	if (f->copies[0])
		cli_note(PATCH_COMMAND, "these copies of '%s' stay old: %s", step->record->name,
			 f->copies);
	if (f->is_unseen)
		cli_note(PATCH_COMMAND,
			 "%s has no debug information (DWARF): inlined copies of '%s' are not "
			 "known",
			 f->module ? f->module : "the object", step->record->name);
}

/* The object that the old functions are in, as the author states; NULL: any. */
static const char *plan_object(const struct patch_plan *plan)
{
	for (size_t i = 0; i < plan->count; i++) {
		const struct patch_record *r = patch_object_record(plan->object, i);
		const char *slash = r->kind == TRAPLINE_PATCH_RECORD_FOR ? strrchr(r->name, '/') :
									   NULL;
		if (r->kind == TRAPLINE_PATCH_RECORD_FOR)
			return slash ? slash + 1 : r->name;
	}
	return NULL;
}

/* `name` becomes `object:name` where the author states which object. */
static const char *plan_name(const struct patch_plan *plan, const struct patch_record *r, char *buf,
			     size_t n)
{
	const char *object = plan_object(plan);
	const char *colon = strchr(r->name, ':');

	if (!object || (colon && colon[1] != ':'))
		return r->name;
	snprintf(buf, n, "%s:%s", object, r->name);
	return buf;
}

static int plan_function(const struct patch_settings *set, struct symbols *s,
			 struct patch_plan *plan, struct patch_step *step)
{
	char why[WHY_BYTES];
	char name[2 * PATCH_OBJECT_NAME_MAX + 2];

	if (patch_find_function(s, plan_name(plan, step->record, name, sizeof(name)), &step->found,
				why, sizeof(why)))
		return plan_wrong(plan, why);
	for (const struct patch_step *other = plan->steps; other < step; other++)
		if (other->record->kind == TRAPLINE_PATCH_RECORD_FUNCTION &&
		    other->found.address == step->found.address)
			return cli_wrong(PATCH_COMMAND,
					 "cannot apply %s: '%s' and '%s' are the same function; "
					 "replace it once",
					 patch_object_name(plan->object), other->record->name,
					 step->record->name);
	if (patch_find_is_other_file(s, step->found.address))
		return cli_wrong(PATCH_COMMAND,
				 "cannot apply %s: the file of %s was replaced, and is another "
				 "build than the one in memory; restart process %d, or run as root",
				 patch_object_name(plan->object),
				 step->found.module ? step->found.module : "its object", set->pid);
	plan_describe(s, step);
	plan->functions++;
	int status = plan_check_binding(s, plan, step);
	if (!status)
		status = plan_check_folded(set, plan, step);
	return status ? status : plan_check_copies(set, plan, step);
}

static void plan_replacement(const struct patch_plan *plan, struct patch_step *step)
{
	const uint64_t target = step->record->target;

	if (!patch_object_function(plan->object, target, &step->by, &step->new_size))
		return;
	patch_object_part(plan->object, step->by, &step->new_part.address, &step->new_part.size);
}

/* The build that the author of the replacement had, against the one that runs. */
static int plan_check_build(struct symbols *s, const struct patch_plan *plan,
			    const struct patch_record *wanted)
{
	char found[BUILD_ID_TEXT] = "";
	const char *object = plan_object(plan);

	for (size_t i = 0; i < plan->count && object; i++) {
		const struct patch_step *step = &plan->steps[i];
		const char *module = step->found.module ? step->found.module : "?";
		if (step->record->kind != TRAPLINE_PATCH_RECORD_FUNCTION)
			continue;
		patch_find_build_id(s, step->found.address, found, sizeof(found));
		if (strcmp(module, object) != 0)
			return cli_wrong(PATCH_COMMAND,
					 "cannot apply %s: it is for %s, and '%s' is in %s",
					 patch_object_name(plan->object), object,
					 step->record->name, module);
		if (wanted->text && strcasecmp(found, wanted->text) != 0)
			return cli_wrong(PATCH_COMMAND,
					 "cannot apply %s: it is for build-id %s, and %s has %s; "
					 "build it for this version",
					 patch_object_name(plan->object), wanted->text, module,
					 found[0] ? found : "none");
	}
	return CLI_OK;
}

static int plan_old(struct symbols *s, const struct patch_plan *plan, struct patch_step *step)
{
	char why[WHY_BYTES];
	char name[2 * PATCH_OBJECT_NAME_MAX + 2];

	if (patch_find_old(s, plan_name(plan, step->record, name, sizeof(name)), &step->found, why,
			   sizeof(why)))
		return plan_wrong(plan, why);
	plan_describe(s, step);
	return CLI_OK;
}

static int plan_steps(const struct patch_settings *set, struct symbols *s, struct patch_plan *plan)
{
	int status = CLI_OK;

	for (size_t i = 0; i < plan->count && !status; i++) {
		struct patch_step *step = &plan->steps[i];
		step->record = patch_object_record(plan->object, i);
		if (step->record->kind == TRAPLINE_PATCH_RECORD_OLD)
			status = plan_old(s, plan, step);
		if (step->record->kind != TRAPLINE_PATCH_RECORD_FUNCTION)
			continue;
		plan_replacement(plan, step);
		status = plan_function(set, s, plan, step);
	}
	for (size_t i = 0; i < plan->count && !status; i++)
		if (plan->steps[i].record->kind == TRAPLINE_PATCH_RECORD_FOR)
			status = plan_check_build(s, plan, plan->steps[i].record);
	if (!status && !plan->functions)
		status = plan_wrong(plan, "it replaces no function");
	return status;
}

int patch_plan_make(const struct patch_settings *set, struct symbols *s, struct patch_plan *out)
{
	struct patch_plan plan = { 0 };
	char why[WHY_BYTES];

	if (patch_object_open(set->object, &plan.object, why, sizeof(why)))
		return cli_wrong(PATCH_COMMAND, "%s", why);
	plan.count = patch_object_count(plan.object);
	plan.steps = calloc(plan.count, sizeof(*plan.steps));
	int status = plan.steps ? plan_steps(set, s, &plan) : plan_wrong(&plan, "out of memory");
	if (!status && patch_scope_check(s, plan.object, why, sizeof(why)))
		status = plan_wrong(&plan, why);
	if (!status && patch_scope_has_needed(s, plan.object))
		plan.is_apart = !patch_object_take_init(plan.object, &plan.init);
	/* A plan that can be done has notes: a refusal is one line. */
	for (size_t i = 0; i < plan.count && !status; i++)
		if (plan.steps[i].record->kind == TRAPLINE_PATCH_RECORD_FUNCTION)
			plan_note_copies(&plan.steps[i]);
	if (status)
		patch_plan_free(&plan);
	else
		*out = plan;
	return status;
}

void patch_plan_free(struct patch_plan *plan)
{
	patch_object_close(plan->object);
	free(plan->steps);
	*plan = (struct patch_plan){ 0 };
}
