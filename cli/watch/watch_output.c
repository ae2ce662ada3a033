// SPDX-License-Identifier: MIT
/* watch_output.c - a hit with all its names and values, for every output. */
#include "cli/cmd.h"
#include "cli/now.h"
#include "cli/observe/hit_frames.h"
#include "cli/watch/watch.h"
#include "report/run/syscall_names.h"
#include "report/safe/clean.h"

#include <jansson.h>
#include <string.h>

#define COMMAND watch_command

int watch_output_open(struct watch_output *o, const struct watch_settings *set)
{
	*o = (struct watch_output){ .stack = set->stack };
	int status = output_open(&o->to, COMMAND, set->output, set->json);
	o->to.is_quiet = set->record != NULL;
	o->to.text.is_verbose = set->verbose;
	o->to.text.frames_max = set->frames;
	return status;
}

void watch_output_close(struct watch_output *o)
{
	output_close(&o->to);
	tally_free(&o->tally);
}

/* The values of a hit and their offset in the expression. */
static struct value_part part_of_hit(const struct watch_expr *expr, const struct trapline_hit *hit)
{
	return (struct value_part){
		.offset = hit->address - expr->address,
		.len = hit->len,
		.old_known = hit->old_known,
		.new_known = hit->value_when != TRAPLINE_VALUE_NONE,
		.old_value = hit->old_value,
		.new_value = hit->new_value,
	};
}

static void describe_values(const struct watch_expr *expr, struct symbols *s,
			    const struct trapline_hit *hit, char *buf, size_t n)
{
	struct value_part part = part_of_hit(expr, hit);
	struct value_view view = expr->view;

	if (!view.type) {
		view.type = type_bytes(s, hit->len);
		part.offset = 0;
	}
	value_change(s, &view, &part, hit->access == TRAPLINE_READ_WRITE, buf, n);
}

/* The values by their type; NULL when that is not known. */
static json_t *typed_values(struct watch_output *o, const struct watch_expr *expr,
			    struct symbols *s, const struct trapline_hit *hit)
{
	const struct value_view *view = &expr->view;
	struct value_part part = part_of_hit(expr, hit);

	if (!view->type || (!o->to.json && !o->to.record))
		return NULL;
	json_t *j = json_object();
	json_object_set_new(j, "type", run_json_text(view->type->name));
	json_object_set_new(j, "old", value_json(s, view, &part, false));
	json_object_set_new(j, "new", value_json(s, view, &part, true));
	return j;
}

void watch_output_begin(struct watch_output *o, const struct watch_expr *expr,
			const struct watch_settings *set)
{
	o->to.started_ns = now_ns();
	o->info = (struct run_info){
		.what = expr->name,
		.value_type = expr->view.type ? expr->view.type->name : NULL,
		.pid = set->pid,
		.access = (uint8_t)expr->access,
		.address = expr->address,
		.len = expr->len,
		.is_bit_field = expr->view.bit_size != 0,
		.started_ns = o->to.started_ns,
		.clock_offset_ns = o->to.clock_offset_ns,
	};
}

void watch_output_hit(struct watch_output *o, struct symbols *s, const struct trapline_hit *hit,
		      const struct watch_which *which)
{
	struct run_frame frames[RUN_FRAMES_MAX];
	char change[400];
	struct run_hit run = {
		.time_ns = hit->time_ns,
		.pid = hit->pid,
		.tid = hit->tid,
		.ip = hit->ip,
		.address = hit->address,
		.len = hit->len,
		.access = hit->access,
		.value_when = hit->value_when,
		.is_async = hit->async,
		.old_known = hit->old_known,
		.old_value = hit->old_value,
		.new_value = hit->new_value,
		.change = change,
		.frames = frames,
	};

	memcpy(run.thread, hit->thread, sizeof(run.thread));
	clean_text(run.thread);
	run.is_by_kernel = hit->kernel_ip != 0;
	run.syscall = run.is_by_kernel ? syscall_name(hit->syscall) : NULL;
	hit_place(s, hit->ip, hit->done && !hit->async, &run.place);
	run.frame_count = o->stack ? hit_frames(s, hit, frames) : 0;
	describe_values(which->expr, s, hit, change, sizeof(change));
	run.is_typed = which->expr->view.type != NULL;
	run.value = typed_values(o, which->expr, s, hit);
	run.of = which->name;
	run.is_object = which->is_object;
	tally_add(&o->tally, &run);
	output_clear_status(&o->to);
	if (o->to.text.f && !o->to.is_quiet)
		run_text_hit(&o->to.text, &o->info, &run);
	if (o->to.json)
		run_jsonl_hit(o->to.json, &run);
	output_record_hit(&o->to, &run);
	json_decref(run.value);
}

void watch_output_end(struct watch_output *o, const struct run_end *end)
{
	output_clear_status(&o->to);
	if (o->to.text.f)
		run_text_end(&o->to.text, &o->info, end, &o->tally);
	if (o->to.json)
		run_jsonl_end(o->to.json, &o->info, end, &o->tally);
	output_record_end(&o->to, end, NULL);
}
