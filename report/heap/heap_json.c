/* SPDX-License-Identifier: MIT */
/* heap_json.c - heap errors as JSON lines. */
#include "report/heap/heap_report.h"

#include <limits.h>

static void add_moment(struct heap_report *r, const struct heap_moment *m,
		       const struct finding_place *p, bool is_access, json_t *j)
{
	struct run_frame frames[HEAP_STACK_MAX];
	char path[PATH_MAX];
	const struct finding_moment moment = {
		.tid = m->tid,
		.thread = m->thread,
		.time_ns = m->time_ns,
		.function = p->function,
		.place = &p->place,
		.module_path = path,
		.via = p->via,
		.frames = frames,
		.frame_count = heap_report_frames(r, m, is_access, frames),
	};

	file_places_name(heap_report_places(r), p->at, path, sizeof(path));
	finding_json_moment(j, &moment);
}

/* NULL: it did not happen, or is not known. */
static json_t *moment_of(struct heap_report *r, const struct heap_moment *m,
			 const struct finding_place *p)
{
	json_t *j = m->time_ns ? json_object() : NULL;

	if (j)
		add_moment(r, m, p, false, j);
	return j;
}

/* If a trace was found later, no more of its moment is known than the kind of the access. */
static json_t *first_of(struct heap_report *r, const struct heap_view *v)
{
	const struct heap_record *record = &v->record;
	json_t *j = json_object();

	json_object_set_new(j, "access", json_string(heap_access_names[record->access]));
	json_object_set_new(j, "in_system_call", json_boolean(record->in_system_call));
	add_moment(r, &record->first, &v->first, record->ip != 0, j);
	return j;
}

static json_t *type_object(const struct heap_view *v)
{
	const struct block_type *t = &v->type;
	json_t *j;

	if (!t->type)
		return json_null();
	j = json_object();
	json_object_set_new(j, "name", finding_json_text(t->type->name));
	json_object_set_new(j, "count", run_json_count(t->count));
	json_object_set_new(j, "pointer", finding_json_text(t->pointer));
	json_object_set_new(j, "function", finding_json_text(t->function));
	json_object_set_new(j, "member", finding_json_text(v->member));
	return j;
}

/* As hexadecimal digits. NULL: not read. */
static json_t *bytes_of(const struct heap_record *record)
{
	char text[2 * HEAP_NEAR + 1] = "";

	for (uint32_t i = 0; i < record->near_bytes; i++)
		snprintf(text + 2 * i, 3, "%02x", record->near[i]);
	return finding_json_text(text);
}

static json_t *block_of(struct heap_report *r, const struct heap_view *v)
{
	const struct heap_record *record = &v->record;
	json_t *allocated = moment_of(r, &record->alloc, &v->alloc);
	json_t *freed = moment_of(r, &record->freed, &v->freed);

	if (!record->block && !allocated && !freed)
		return json_null();
	json_t *j = finding_json_block(record->block, record->block_size,
				       (int64_t)(record->address - record->block), allocated,
				       freed);
	json_object_set_new(j, "bytes_at",
			    record->near_bytes ? run_json_hex(record->near_at) : json_null());
	json_object_set_new(j, "bytes", bytes_of(record));
	json_object_set_new(j, "in_use",
			    record->block ? run_json_count(record->in_use) : json_null());
	json_object_set_new(j, "type", type_object(v));
	return j;
}

static const char *memory_name(uint8_t memory)
{
	static const char *const names[HEAP_MEMORIES] = {
		[HEAP_MEMORY_BLOCK] = "block",
		[HEAP_MEMORY_STACK] = "stack",
		[HEAP_MEMORY_DATA] = "data",
		[HEAP_MEMORY_UNALIGNED] = "unaligned",
		[HEAP_MEMORY_MISMATCHED] = "mismatched",
	};

	return memory < HEAP_MEMORIES ? names[memory] : NULL;
}

void heap_print_json(struct heap_report *r, const struct heap_view *v, FILE *f)
{
	const struct heap_record *record = &v->record;
	const bool has_message = record->message[0] != '\0';
	const struct finding head = {
		.type = "heap",
		.kind = heap_kind_names[record->kind],
		.grade = (const char[]){ "AB"[record->grade], '\0' },
		.fingerprint = v->fingerprint,
		.count = v->count,
		.pid = record->pid,
		.time_ns = record->first.time_ns ? record->first.time_ns : record->freed.time_ns,
	};
	json_t *j = finding_json(&head);

	json_object_set_new(j, "first", first_of(r, v));
	json_object_set_new(j, "address",
			    has_message ? json_null() : run_json_hex(record->address));
	json_object_set_new(j, "size", v->size ? run_json_count(v->size) : json_null());
	json_object_set_new(j, "memory",
			    run_json_text(has_message ? NULL : memory_name(record->memory)));
	json_object_set_new(j, "block", block_of(r, v));
	json_object_set_new(j, "message", finding_json_text(record->message));
	run_jsonl_line(f, j);
}

json_t *heap_summary_object(const struct heap_totals *t)
{
	json_t *counters = json_object();
	json_t *j = json_object();
	const uint64_t *c = t->counters;

	for (int i = 0; i < HEAP_COUNTERS; i++)
		json_object_set_new(counters, heap_counter_names[i], run_json_count(c[i]));
	json_object_set_new(j, "type", json_string("summary"));
	json_object_set_new(j, "errors", run_json_count(t->errors));
	json_object_set_new(j, "suppressed", run_json_count(t->suppressed));
	json_object_set_new(j, "baselined", run_json_count(t->baselined));
	json_object_set_new(j, "sampled", run_json_count(c[HEAP_SAMPLED]));
	json_object_set_new(j, "drawn", run_json_count(c[HEAP_DRAWN_BLOCKS]));
	json_object_set_new(j, "allocations", run_json_count(c[HEAP_CALLS]));
	json_object_set_new(j, "seed", run_json_count(t->seed));
	json_object_set_new(j, "reused", run_json_count(c[HEAP_REUSED]));
	json_object_set_new(j, "lost",
			    run_json_count(c[HEAP_LOST_FULL] + c[HEAP_LOST_LARGE] +
					   c[HEAP_LOST_MEMORY] + c[HEAP_LOST_RECORDS] + t->torn));
	json_object_set_new(j, "cost_ns", run_json_count(c[HEAP_COST_NS]));
	json_object_set_new(j, "cost_most_ns", run_json_count((uint64_t)heap_cost_most(t)));
	json_object_set_new(j, "cpu_ns",
			    c[HEAP_CPU_NS] ? run_json_count(c[HEAP_CPU_NS]) : json_null());
	json_object_set_new(j, "wall_ns", run_json_count(t->wall_ns));
	json_object_set_new(j, "pool_bytes", run_json_count(t->pool_bytes));
	json_object_set_new(j, "guards", json_string(t->has_regions ? "regions" : "mprotect"));
	json_object_set_new(j, "underreads", json_boolean(!c[HEAP_UNWATCHED]));
	json_object_set_new(j, "processes", run_json_count(c[HEAP_PROCESSES]));
	json_object_set_new(j, "lost_torn", run_json_count(t->torn));
	json_object_set_new(j, "counters", counters);
	return j;
}

void heap_summary_json(const struct heap_totals *t, FILE *f)
{
	run_jsonl_line(f, heap_summary_object(t));
}
