/* SPDX-License-Identifier: MIT */
/* heap_json.c - heap errors as JSON lines. */
#include "report/heap/heap_report.h"

#include <string.h>

static json_t *heap_number(uint64_t value)
{
	return value <= INT64_MAX ? json_integer((json_int_t)value) : run_json_hex(value);
}

static json_t *moment_of(struct heap_report *r, const struct heap_moment *m,
			 const struct heap_place *p, bool is_access)
{
	struct run_frame frames[HEAP_STACK_MAX];

	if (!m->time_ns)
		return json_null();
	json_t *j = json_object();
	json_object_set_new(j, "function", run_json_text(p->function[0] ? p->function : NULL));
	json_object_set_new(j, "file", run_json_text(p->place.file));
	json_object_set_new(j, "line", p->place.line ? json_integer(p->place.line) : json_null());
	json_object_set_new(j, "via", run_json_text(p->via[0] ? p->via : NULL));
	json_object_set_new(j, "tid", json_integer(m->tid));
	json_object_set_new(j, "thread", run_json_text(m->thread[0] ? m->thread : NULL));
	json_object_set_new(j, "time_ns", heap_number(m->time_ns));
	json_object_set_new(j, "stack",
			    run_jsonl_frames(frames, heap_report_frames(r, m, is_access, frames)));
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
	json_t *j = json_object();
	int64_t offset = (int64_t)(record->address - record->block);
	bool has_message = record->message[0] != '\0';

	json_object_set_new(j, "type", json_string("heap"));
	json_object_set_new(j, "kind", json_string(heap_kind_names[record->kind]));
	json_object_set_new(j, "grade", json_string(record->grade ? "B" : "A"));
	json_object_set_new(j, "access", json_string(heap_access_names[record->access]));
	json_object_set_new(j, "memory",
			    run_json_text(has_message ? NULL : memory_name(record->memory)));
	json_object_set_new(j, "message", run_json_text(has_message ? record->message : NULL));
	json_object_set_new(j, "in_system_call", json_boolean(record->in_system_call));
	json_object_set_new(j, "size", v->size ? heap_number(v->size) : json_null());
	json_object_set_new(j, "offset", record->block ? json_integer(offset) : json_null());
	json_object_set_new(j, "address",
			    has_message ? json_null() : run_json_hex(record->address));
	json_object_set_new(j, "block", record->block ? run_json_hex(record->block) : json_null());
	json_object_set_new(j, "block_size",
			    record->block ? heap_number(record->block_size) : json_null());
	json_object_set_new(j, "pid", json_integer(record->pid));
	json_object_set_new(j, "first", moment_of(r, &record->first, &v->first, record->ip != 0));
	json_object_set_new(j, "alloc", moment_of(r, &record->alloc, &v->alloc, false));
	json_object_set_new(j, "free", moment_of(r, &record->freed, &v->freed, false));
	json_object_set_new(j, "count", heap_number(v->count));
	json_object_set_new(j, "fingerprint", json_string(v->fingerprint));
	run_jsonl_line(f, j);
}

json_t *heap_summary_object(const struct heap_totals *t)
{
	json_t *counters = json_object();
	json_t *j = json_object();
	const uint64_t *c = t->counters;

	for (int i = 0; i < HEAP_COUNTERS; i++)
		json_object_set_new(counters, heap_counter_names[i], heap_number(c[i]));
	json_object_set_new(j, "type", json_string("summary"));
	json_object_set_new(j, "errors", heap_number(t->errors));
	json_object_set_new(j, "suppressed", heap_number(t->suppressed));
	json_object_set_new(j, "baselined", heap_number(t->baselined));
	json_object_set_new(j, "sampled", heap_number(c[HEAP_SAMPLED]));
	json_object_set_new(j, "drawn", heap_number(c[HEAP_DRAWN_BLOCKS]));
	json_object_set_new(j, "allocations", heap_number(c[HEAP_CALLS]));
	json_object_set_new(j, "seed", heap_number(t->seed));
	json_object_set_new(j, "reused", heap_number(c[HEAP_REUSED]));
	json_object_set_new(j, "lost",
			    heap_number(c[HEAP_LOST_FULL] + c[HEAP_LOST_LARGE] +
					c[HEAP_LOST_MEMORY] + c[HEAP_LOST_RECORDS] + t->torn));
	json_object_set_new(j, "cost_ns", heap_number(c[HEAP_COST_NS]));
	json_object_set_new(j, "cpu_ns",
			    c[HEAP_CPU_NS] ? heap_number(c[HEAP_CPU_NS]) : json_null());
	json_object_set_new(j, "wall_ns", heap_number(t->wall_ns));
	json_object_set_new(j, "pool_bytes", heap_number(t->pool_bytes));
	json_object_set_new(j, "underreads", json_boolean(!c[HEAP_UNWATCHED]));
	json_object_set_new(j, "processes", heap_number(c[HEAP_PROCESSES]));
	json_object_set_new(j, "lost_torn", heap_number(t->torn));
	json_object_set_new(j, "counters", counters);
	return j;
}

void heap_summary_json(const struct heap_totals *t, FILE *f)
{
	run_jsonl_line(f, heap_summary_object(t));
}
