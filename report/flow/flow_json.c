/* SPDX-License-Identifier: MIT */
/* flow_json.c - flows as JSON lines, and in the page that flows.js fills. */
#include "report/flow/flow_report.h"
#include "report/page/page.h"

#define PATH_MAX_STEPS 64

static json_t *flow_number(uint64_t value)
{
	return value <= INT64_MAX ? json_integer((json_int_t)value) : run_json_hex(value);
}

static void set_place(json_t *j, const char *function, const struct place *p)
{
	json_object_set_new(j, "function", run_json_text(function[0] ? function : NULL));
	json_object_set_new(j, "file", run_json_text(p->file));
	json_object_set_new(j, "line", p->line ? json_integer(p->line) : json_null());
}

static void set_where(json_t *j, const struct flow_where *w)
{
	set_place(j, w->function, &w->place);
	json_object_set_new(j, "caller", run_json_text(w->caller[0] ? w->caller : NULL));
	if (w->caller[0]) {
		json_object_set_new(j, "caller_file", run_json_text(w->caller_place.file));
		json_object_set_new(j, "caller_line",
				    w->caller_place.line ? json_integer(w->caller_place.line) :
							   json_null());
	}
}

static json_t *stack_of(struct flow_report *r, const struct flow_stack *stack)
{
	struct run_frame frames[FLOW_STACK_MAX];

	return run_jsonl_frames(frames, flow_report_frames(r, stack, frames));
}

static json_t *from_of(struct flow_report *r, uint32_t number)
{
	const struct flow_source *s = flow_report_source(r, number);
	struct flow_where where;
	json_t *j = json_object();

	flow_report_where(r, &s->stack, &where);
	json_object_set_new(j, "source", json_integer(number));
	json_object_set_new(j, "origin", json_string(flow_origin_names[s->origin]));
	json_object_set_new(j, "name", run_json_text(s->name));
	json_object_set_new(j, "fd", s->fd >= 0 ? json_integer(s->fd) : json_null());
	json_object_set_new(j, "path", run_json_text(s->path[0] ? s->path : NULL));
	json_object_set_new(j, "bytes", flow_number(s->bytes));
	json_object_set_new(j, "offset", flow_number(s->offset));
	json_object_set_new(j, "pid", json_integer(s->pid));
	json_object_set_new(j, "tid", json_integer(s->stack.tid));
	set_where(j, &where);
	json_object_set_new(j, "stack", stack_of(r, &s->stack));
	return j;
}

static json_t *path_of_record(struct flow_report *r, const struct flow_record *record)
{
	uint32_t path[PATH_MAX_STEPS];
	const uint32_t n = flow_report_path(r, record->step, path, PATH_MAX_STEPS);
	json_t *list = json_array();

	for (uint32_t i = 0; i < n; i++) {
		const struct flow_step *s = flow_report_step(r, path[i]);
		struct flow_where where;
		json_t *j = json_object();

		flow_report_where(r, &s->stack, &where);
		json_object_set_new(j, "step", json_integer(path[i]));
		json_object_set_new(j, "kind", json_string(s->grade ? "computed" : "copy"));
		set_where(j, &where);
		json_object_set_new(j, "stack", stack_of(r, &s->stack));
		json_array_append_new(list, j);
	}
	return list;
}

static json_t *to_of(struct flow_report *r, const struct flow_view *v)
{
	const struct flow_record *record = &v->record;
	json_t *j = json_object();

	if (record->kind == FLOW_RESIDUE) {
		json_object_set_new(j, "memory", json_string(flow_memory_names[record->memory]));
		json_object_set_new(j, "address", run_json_hex(record->address));
		json_object_set_new(j, "block",
				    record->block ? run_json_hex(record->block) : json_null());
		json_object_set_new(j, "block_size",
				    record->block ? flow_number(record->block_size) : json_null());
		return j;
	}
	json_object_set_new(j, "name", run_json_text(record->name));
	json_object_set_new(j, "fd", record->fd >= 0 ? json_integer(record->fd) : json_null());
	json_object_set_new(j, "tid", json_integer(record->stack.tid));
	json_object_set_new(j, "in_window", json_boolean(!record->was_native));
	set_where(j, &v->where);
	json_object_set_new(j, "stack", stack_of(r, &record->stack));
	return j;
}

static json_t *flow_of(struct flow_report *r, const struct flow_view *v)
{
	static const char *const grades[FLOW_GRADES] = { "A", "B", "C" };
	const struct flow_record *record = &v->record;
	json_t *j = json_object();

	json_object_set_new(j, "type", json_string("flow"));
	json_object_set_new(j, "from", from_of(r, record->source));
	json_object_set_new(j, "to", to_of(r, v));
	json_object_set_new(j, "bytes", flow_number(record->bytes));
	json_object_set_new(j, "offset", flow_number(record->offset));
	json_object_set_new(j, "kind", json_string(flow_kind_names[record->kind]));
	json_object_set_new(j, "grade", json_string(grades[record->grade]));
	json_object_set_new(j, "path", path_of_record(r, record));
	json_object_set_new(j, "pid", json_integer(record->pid));
	json_object_set_new(j, "time_ns", flow_number(record->time_ns));
	json_object_set_new(j, "count", flow_number(record->count));
	return j;
}

static json_t *summary_of(struct flow_report *r)
{
	struct flow_totals totals;
	json_t *counters = json_object();
	json_t *j = json_object();

	flow_report_totals(r, &totals);
	for (int i = 0; i < FLOW_COUNTERS; i++)
		json_object_set_new(counters, flow_counter_names[i],
				    flow_number(totals.counters[i]));
	json_object_set_new(j, "type", json_string("summary"));
	json_object_set_new(j, "flows", flow_number(totals.flows));
	json_object_set_new(j, "residues", flow_number(totals.residues));
	json_object_set_new(j, "sources", flow_number(totals.sources));
	json_object_set_new(j, "unfinished", flow_number(totals.unfinished));
	json_object_set_new(j, "counters", counters);
	return j;
}

void flow_print_json(struct flow_report *r, FILE *f)
{
	for (size_t i = 0; i < flow_report_count(r); i++)
		run_jsonl_line(f, flow_of(r, flow_report_view(r, i)));
	run_jsonl_line(f, summary_of(r));
}

void flow_print_html(struct flow_report *r, const char *name, FILE *f)
{
	json_t *data = json_object();
	json_t *flows = json_array();

	for (size_t i = 0; i < flow_report_count(r); i++)
		json_array_append_new(flows, flow_of(r, flow_report_view(r, i)));
	json_object_set_new(data, "kind", json_string("flow"));
	json_object_set_new(data, "name", run_json_text(name));
	json_object_set_new(data, "flows", flows);
	json_object_set_new(data, "summary", summary_of(r));
	page_write(f, data);
}
