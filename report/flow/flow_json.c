/* SPDX-License-Identifier: MIT */
/* flow_json.c - flows as JSON lines, and in the page that flows.js fills. */
#include "report/finding/finding_json.h"
#include "report/flow/flow_report.h"
#include "report/page/page.h"

#define PATH_MAX_STEPS 64

static void add_moment(struct flow_report *r, const struct flow_stack *stack,
		       const struct flow_where *w, uint64_t time_ns, json_t *j)
{
	struct run_frame frames[FLOW_STACK_MAX];
	const struct finding_moment moment = {
		.tid = stack->tid,
		.time_ns = time_ns,
		.function = w->name,
		.place = &w->in.place,
		.via = w->via,
		.frames = frames,
		.frame_count = flow_report_frames(r, stack, frames),
	};

	finding_json_moment(j, &moment);
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
	json_object_set_new(j, "path", finding_json_text(s->open.path));
	json_object_set_new(j, "bytes", run_json_count(s->bytes));
	json_object_set_new(j, "offset", run_json_count(s->offset));
	json_object_set_new(j, "pid", json_integer(s->pid));
	add_moment(r, &s->stack, &where, s->time_ns, j);
	return j;
}

static json_t *steps_of(struct flow_report *r, const struct flow_record *record)
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
		json_object_set_new(j, "kind",
				    json_string(flow_step_is_computed(s) ? "computed" : "copy"));
		add_moment(r, &s->stack, &where, 0, j);
		json_array_append_new(list, j);
	}
	return list;
}

/* Memory that still has the bytes at the end; no thread passed them on. */
static json_t *residue_of(const struct flow_record *record)
{
	json_t *j = json_object();

	json_object_set_new(j, "memory", json_string(flow_memory_names[record->memory]));
	json_object_set_new(j, "address", run_json_hex(record->address));
	json_object_set_new(j, "block",
			    record->block ?
				    finding_json_block(record->block, record->block_size,
						       (int64_t)(record->address - record->block),
						       NULL, NULL) :
				    json_null());
	return j;
}

static json_t *to_of(struct flow_report *r, const struct flow_view *v)
{
	const struct flow_record *record = &v->record;

	if (record->kind == FLOW_RESIDUE)
		return residue_of(record);
	json_t *j = json_object();
	json_object_set_new(j, "name", run_json_text(record->name));
	json_object_set_new(j, "fd", record->fd >= 0 ? json_integer(record->fd) : json_null());
	json_object_set_new(j, "path", finding_json_text(record->open.path));
	json_object_set_new(j, "in_window", json_boolean(!record->was_native));
	add_moment(r, &record->stack, &v->where, record->time_ns, j);
	return j;
}

static json_t *flow_of(struct flow_report *r, const struct flow_view *v)
{
	const struct flow_record *record = &v->record;
	const struct finding head = {
		.type = "flow",
		.kind = flow_kind_names[record->kind],
		.grade = flow_grade_names[record->grade],
		.fingerprint = v->fingerprint,
		.count = record->count,
		.pid = record->pid,
		.time_ns = record->time_ns,
	};
	json_t *j = finding_json(&head);

	json_object_set_new(j, "from", from_of(r, record->source));
	json_object_set_new(j, "to", to_of(r, v));
	json_object_set_new(j, "bytes", run_json_count(record->bytes));
	json_object_set_new(j, "offset", run_json_count(record->offset));
	json_object_set_new(j, "steps", steps_of(r, record));
	return j;
}

json_t *flow_summary_object(struct flow_report *r)
{
	struct flow_totals totals;
	json_t *counters = json_object();
	json_t *j = json_object();

	flow_report_totals(r, &totals);
	for (int i = 0; i < FLOW_COUNTERS; i++)
		json_object_set_new(counters, flow_counter_names[i],
				    run_json_count(totals.counters[i]));
	json_object_set_new(j, "type", json_string("summary"));
	json_object_set_new(j, "flows", run_json_count(totals.flows));
	json_object_set_new(j, "residues",
			    flow_is_unsearched(&totals) ? json_null() :
							  run_json_count(totals.residues));
	json_object_set_new(j, "suppressed", run_json_count(totals.suppressed));
	json_object_set_new(j, "baselined", run_json_count(totals.baselined));
	json_object_set_new(j, "sources", run_json_count(totals.sources));
	json_object_set_new(j, "unfinished", run_json_count(totals.unfinished));
	json_object_set_new(j, "counters", counters);
	return j;
}

void flow_print_json(struct flow_report *r, FILE *f)
{
	for (size_t i = 0; i < flow_report_count(r); i++)
		run_jsonl_line(f, flow_of(r, flow_report_view(r, i)));
	run_jsonl_line(f, flow_summary_object(r));
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
	json_object_set_new(data, "summary", flow_summary_object(r));
	page_write(f, data);
}
