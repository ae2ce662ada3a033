/* SPDX-License-Identifier: MIT */
/* finding_json.c - see finding_json.h. */
#include "report/finding/finding_json.h"

json_t *finding_json_text(const char *text)
{
	return run_json_text(text && *text ? text : NULL);
}

static json_t *time_or_null(uint64_t time_ns)
{
	return time_ns ? run_json_count(time_ns) : json_null();
}

static json_t *id_or_null(pid_t id)
{
	return id ? json_integer(id) : json_null();
}

json_t *finding_json(const struct finding *f)
{
	json_t *j = json_object();

	json_object_set_new(j, "type", json_string(f->type));
	json_object_set_new(j, "kind", finding_json_text(f->kind));
	json_object_set_new(j, "grade", finding_json_text(f->grade));
	json_object_set_new(j, "fingerprint", finding_json_text(f->fingerprint));
	json_object_set_new(j, "count", run_json_count(f->count));
	json_object_set_new(j, "pid", id_or_null(f->pid));
	json_object_set_new(j, "time_ns", time_or_null(f->time_ns));
	return j;
}

void finding_json_moment(json_t *j, const struct finding_moment *m)
{
	static const struct place nowhere;
	const struct place *p = m->place ? m->place : &nowhere;

	json_object_set_new(j, "tid", id_or_null(m->tid));
	json_object_set_new(j, "thread", finding_json_text(m->thread));
	json_object_set_new(j, "time_ns", time_or_null(m->time_ns));
	json_object_set_new(j, "function", finding_json_text(m->function));
	json_object_set_new(j, "module", finding_json_text(p->module));
	json_object_set_new(j, "module_path", finding_json_text(m->module_path));
	json_object_set_new(j, "file", finding_json_text(p->file));
	json_object_set_new(j, "line", p->line > 0 ? json_integer(p->line) : json_null());
	json_object_set_new(j, "via", finding_json_text(m->via));
	json_object_set_new(j, "stack", run_jsonl_frames(m->frames, m->frame_count));
}

json_t *finding_json_block(uint64_t address, uint64_t size, int64_t offset, json_t *allocated,
			   json_t *freed)
{
	json_t *j = json_object();

	json_object_set_new(j, "address", address ? run_json_hex(address) : json_null());
	json_object_set_new(j, "size", address ? run_json_count(size) : json_null());
	json_object_set_new(j, "offset", address ? json_integer(offset) : json_null());
	json_object_set_new(j, "allocated", allocated ? allocated : json_null());
	json_object_set_new(j, "freed", freed ? freed : json_null());
	return j;
}

const json_t *finding_json_place(const json_t *finding, bool *is_allocation)
{
	const json_t *first = json_object_get(finding, "first");
	const json_t *block = json_object_get(finding, "block");
	const json_t *allocated = json_object_get(block, "allocated");

	*is_allocation = !json_array_size(json_object_get(first, "stack")) &&
			 !json_string_length(json_object_get(first, "function")) &&
			 json_is_object(allocated);
	return *is_allocation ? allocated : first;
}
