/* SPDX-License-Identifier: MIT */
/* watch_hit.c - see watch_hit.h. */
#include "cli/watch/watch_hit.h"

#include "cli/observe/hit_frames.h"
#include "cli/observe/hit_memory.h"
#include "report/code/syscall_names.h"

#include <jansson.h>
#include <string.h>

/* The values by their type. */
static json_t *typed_values(struct symbols *s, const struct value_view *view,
			    const struct value_part *part)
{
	json_t *j = json_object();

	json_object_set_new(j, "type", run_json_text(view->type->name));
	json_object_set_new(j, "old", value_json(s, view, part, false));
	json_object_set_new(j, "new", value_json(s, view, part, true));
	return j;
}

void watch_hit_print(struct observe *o, const struct trapline_hit *hit,
		     const struct watch_which *which)
{
	const struct watch_expr *expr = which->expr;
	struct run_hit run = observe_hit_of(o, hit);
	struct value_view view = expr->view;
	struct value_part part = { .offset = view.type ? hit->address - expr->address : 0,
				   .len = hit->len,
				   .old_known = hit->old_known && !expr->is_shared,
				   .new_known = hit->value_when != TRAPLINE_VALUE_NONE,
				   .old_value = hit->old_value,
				   .new_value = hit->new_value };
	struct run_frame frames[RUN_FRAMES_MAX];
	struct symbols_copies copies;
	char change[400];

	run.is_typed = view.type != NULL;
	hit_memory_begin(&copies, o->symbols, hit);
	if (run.is_typed && (o->to.json || o->to.record))
		run.value = typed_values(o->symbols, &view, &part);
	if (!view.type)
		view.type = type_bytes(o->symbols, hit->len);
	value_change(o->symbols, &view, &part, hit->access == TRAPLINE_READ_WRITE, change,
		     sizeof(change) - 20);
	if (hit_memory_end(&copies, o->symbols))
		strcat(change, " (text read later)");
	run.change = change;
	run.len = hit->len;
	run.value_when = hit->value_when;
	run.is_async = hit->async;
	run.old_known = part.old_known;
	run.old_value = hit->old_value;
	run.new_value = hit->new_value;
	run.is_by_kernel = hit->kernel_ip != 0;
	run.syscall = run.is_by_kernel ? syscall_name(hit->syscall) : NULL;
	hit_place(o->symbols, hit->ip, hit->done && !hit->async, &run.place);
	run.frames = frames;
	run.frame_count = o->set.stack ? hit_frames(o->symbols, hit, frames) : 0;
	run.of = which->name;
	run.is_object = which->is_object;
	observe_print(o, &run);
	json_decref(run.value);
}
