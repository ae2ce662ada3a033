/* SPDX-License-Identifier: MIT */
/* flow_report.c - see flow_report.h. */
#include "report/flow/flow_report_priv.h"

#include "report/finding/finding_place.h"
#include "report/safe/clean.h"
#include "report/suppress/suppress.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

const char *const flow_kind_names[FLOW_KINDS] = {
	[FLOW_COPY] = "copy",
	[FLOW_COMPUTED] = "computed",
	[FLOW_RESIDUE] = "residue",
};
const char *const flow_origin_names[FLOW_ORIGINS] = {
	[FLOW_FROM_READ] = "read",	   [FLOW_FROM_ARGUMENT] = "argument",
	[FLOW_FROM_RESULT] = "result",	   [FLOW_FROM_ENVIRONMENT] = "environment",
	[FLOW_FROM_VARIABLE] = "variable",
};
const char *const flow_memory_names[FLOW_MEMORIES] = {
	[FLOW_MEMORY_OTHER] = "other",
	[FLOW_MEMORY_HEAP] = "heap",
	[FLOW_MEMORY_STACK] = "stack",
	[FLOW_MEMORY_DATA] = "data",
};
const char *const flow_grade_names[FLOW_GRADES] = {
	[FLOW_GRADE_A] = "A",
	[FLOW_GRADE_B] = "B",
	[FLOW_GRADE_C] = "C",
	[FLOW_GRADE_FOUND] = "found",
};

const char *const flow_counter_names[FLOW_COUNTERS] = {
	[FLOW_SEEN] = "seen",
	[FLOW_MATCHED] = "matched",
	[FLOW_WINDOWS] = "windows",
	[FLOW_INSTRUCTIONS] = "instructions",
	[FLOW_TRANSLATED] = "translated",
	[FLOW_WINDOW_NS] = "window_ns",
	[FLOW_TRAP_NS] = "trap_ns",
	[FLOW_OFF_NS] = "off_ns",
	[FLOW_RESTED] = "rested",
	[FLOW_CPU_NS] = "cpu_ns",
	[FLOW_LOST_BUDGET] = "lost_budget",
	[FLOW_LOST_WINDOW] = "lost_window",
	[FLOW_CUT_TIME] = "cut_time",
	[FLOW_CUT_INSTRUCTION] = "cut_instruction",
	[FLOW_CUT_CALL] = "cut_call",
	[FLOW_LOST_MARKS] = "lost_marks",
	[FLOW_LOST_SOURCES] = "lost_sources",
	[FLOW_LOST_STEPS] = "lost_steps",
	[FLOW_LOST_RECORDS] = "lost_records",
	[FLOW_LOST_LONG] = "lost_long",
	[FLOW_LOST_MAPPED] = "lost_mapped",
	[FLOW_LOST_TEXTS] = "lost_texts",
	[FLOW_STALE] = "stale",
	[FLOW_CHANGED] = "changed",
	[FLOW_IN_KERNEL] = "in_kernel",
	[FLOW_INDEXED] = "indexed",
	[FLOW_REGISTERS] = "registers",
	[FLOW_KEPT] = "kept",
	[FLOW_KEPT_WATCHED] = "kept_watched",
	[FLOW_TOUCHED] = "touched",
	[FLOW_LATE] = "late",
	[FLOW_PROCESSES] = "processes",
	[FLOW_FOLLOWED] = "followed",
	[FLOW_SEARCHED] = "searched",
	[FLOW_LEFT_OUT] = "left_out",
	[FLOW_REFUSED] = "refused",
};

static bool flow_path_in(const void *table, uint32_t row, char *path, size_t n)
{
	const struct file_row *file = &((const struct flow_region *)table)->files[row];

	if (!file->ready)
		return false;
	snprintf(path, n, "%.*s", (int)sizeof(file->path) - 1, file->path);
	return true;
}

static void make_stack_valid(struct flow_stack *stack)
{
	if (stack->count > FLOW_FRAMES)
		stack->count = FLOW_FRAMES;
}

static void make_text_valid(char *text, size_t n)
{
	text[n - 1] = '\0';
	clean_text(text);
}

/* The text of an address; 0: it has none. */
static int name_peer(const uint8_t *peer, char *out, size_t n)
{
	char text[INET6_ADDRSTRLEN];
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	struct sockaddr_un local;
	sa_family_t family;

	memcpy(&family, peer, sizeof(family));
	memcpy(&v4, peer, sizeof(v4));
	memcpy(&v6, peer, sizeof(v6));
	memcpy(&local, peer, sizeof(local));
	if (family == AF_INET && inet_ntop(family, &v4.sin_addr, text, sizeof(text)))
		return snprintf(out, n, "%s:%u", text, ntohs(v4.sin_port));
	if (family == AF_INET6 && inet_ntop(family, &v6.sin6_addr, text, sizeof(text)))
		return snprintf(out, n, "[%s]:%u", text, ntohs(v6.sin6_port));
	if (family != AF_UNIX || (!local.sun_path[0] && !local.sun_path[1]))
		return 0;
	/* Linux has names without a file, which begin with a zero. */
	const int is_abstract = !local.sun_path[0];
	return snprintf(out, n, "unix:%s%.*s", is_abstract ? "@" : "",
			(int)sizeof(local.sun_path) - is_abstract, local.sun_path + is_abstract);
}

/* The peer of a socket is what a user knows, not the number of the socket. */
static void flow_open_name(struct flow_open *open)
{
	char text[sizeof(open->path)];

	make_text_valid(open->path, sizeof(open->path));
	if (name_peer(open->peer, text, sizeof(text)))
		memcpy(open->path, text, sizeof(text));
	make_text_valid(open->path, sizeof(open->path));
	memset(open->peer, 0, sizeof(open->peer));
}

/* Not ready: a process began it and did not finish. */
static void copy_sources(struct flow_report *r)
{
	for (uint32_t i = 1; i < r->source_end; i++) {
		struct flow_source *s = &r->sources[i];

		memcpy(s, &r->region->sources[i], sizeof(*s));
		s->ready = s->ready && s->origin < FLOW_ORIGINS;
		make_stack_valid(&s->stack);
		make_text_valid(s->name, sizeof(s->name));
		flow_open_name(&s->open);
	}
}

static void copy_steps(struct flow_report *r)
{
	for (uint32_t i = 1; i < r->step_end; i++) {
		struct flow_step *s = &r->steps[i];

		memcpy(s, &r->region->steps[i], sizeof(*s));
		s->ready = s->ready && s->parent < i && s->grade < FLOW_GRADES;
		make_stack_valid(&s->stack);
	}
}

static bool is_record_valid(const struct flow_report *r, struct flow_record *record)
{
	if (!record->ready || record->kind >= FLOW_KINDS || record->grade >= FLOW_GRADES ||
	    record->memory >= FLOW_MEMORIES || !flow_report_source(r, record->source))
		return false;
	if (record->step && !flow_report_step(r, record->step))
		record->step = 0;
	make_stack_valid(&record->stack);
	make_text_valid(record->name, sizeof(record->name));
	flow_open_name(&record->open);
	return true;
}

static int copy_records(struct flow_report *r)
{
	uint32_t used = __atomic_load_n(&r->region->records_used, __ATOMIC_SEQ_CST);

	if (used > FLOW_RECORDS)
		used = FLOW_RECORDS;
	r->views = calloc(used + 1, sizeof(*r->views));
	if (!r->views)
		return -ENOMEM;
	for (uint32_t i = 0; i < used; i++) {
		struct flow_view *v = &r->views[r->count];

		memcpy(&v->record, &r->region->records[i], sizeof(v->record));
		if (is_record_valid(r, &v->record))
			r->count++;
		else
			r->unfinished++;
	}
	return 0;
}

static uint32_t end_of(const uint32_t *used, uint32_t most)
{
	const uint32_t n = __atomic_load_n(used, __ATOMIC_SEQ_CST);

	return n + 1 < most ? n + 1 : most;
}

/*
 * The agent is before the calls that start a program, and makes one of another: the first is meant.
 */
static void name_as_called(struct flow_report *r, struct flow_record *record)
{
	const struct flow_stack *stack = &record->stack;
	struct place p;

	for (uint32_t i = 1; i < stack->count && record->kind != FLOW_RESIDUE; i++) {
		file_places_find(r->places, stack->frames[i], true, &p);
		if (!symbols_is_agent(p.module))
			return;
		if (p.function)
			snprintf(record->name, sizeof(record->name), "%s", p.function);
	}
}

/* Not the function of a library that was called there: that is another one on another processor. */
static uint64_t hash_stack(uint64_t hash, struct flow_report *r, const struct flow_stack *stack)
{
	struct flow_where where;

	flow_report_where(r, stack, &where);
	return finding_hash_place(hash, &where.in);
}

static void name_flow(struct flow_report *r, struct flow_view *v)
{
	const struct flow_record *record = &v->record;
	const struct flow_source *source = flow_report_source(r, record->source);
	const struct flow_stack *last = flow_report_last(r, record);
	uint64_t hash = finding_hash(HASH_START, flow_kind_names[record->kind]);

	hash = hash_stack(finding_hash(hash, source->name), r, &source->stack);
	hash = finding_hash(hash, record->kind == FLOW_RESIDUE ? flow_memory_names[record->memory] :
								 record->name);
	if (last)
		hash = hash_stack(hash, r, last);
	finding_fingerprint(hash, v->fingerprint);
}

static int copy_region(struct flow_report *r, const struct flow_report_options *o)
{
	const struct flow_region *region = r->region;

	r->source_end = end_of(&region->sources_used, FLOW_SOURCES);
	r->step_end = end_of(&region->steps_used, FLOW_STEPS);
	r->sources = calloc(r->source_end, sizeof(*r->sources));
	r->steps = calloc(r->step_end, sizeof(*r->steps));
	if (!r->sources || !r->steps ||
	    file_places_open(flow_path_in, region, FLOW_FILES, &r->places))
		return -ENOMEM;
	file_places_set_root(r->places, o->root);
	file_places_set_kept(r->places, o->kept);
	copy_sources(r);
	copy_steps(r);
	return copy_records(r);
}

int flow_report_open(const struct flow_region *region, const struct flow_report_options *options,
		     struct flow_report **out)
{
	struct flow_report *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->region = region;
	int err = copy_region(r, options);
	for (size_t i = 0; i < r->count && !err; i++) {
		name_as_called(r, &r->views[i].record);
		flow_report_where(r, &r->views[i].record.stack, &r->views[i].where);
		name_flow(r, &r->views[i]);
	}
	if (!err)
		err = flow_report_policy(r, options->suppressions, options->baseline);
	if (err)
		flow_report_close(r);
	else
		*out = r;
	return err;
}

void flow_report_close(struct flow_report *r)
{
	if (!r)
		return;
	if (r->places)
		file_places_close(r->places);
	for (size_t i = 0; i < r->known_count; i++)
		free(r->known[i].frames);
	free(r->known);
	json_decref(r->lines);
	json_decref(r->summary);
	free(r->sources);
	free(r->steps);
	free(r->views);
	free(r);
}

void flow_report_totals(const struct flow_report *r, struct flow_totals *out)
{
	if (!r->region) {
		flow_report_totals_read(r, out);
		return;
	}
	*out = (struct flow_totals){ .unfinished = r->unfinished };
	for (int i = 0; i < FLOW_COUNTERS; i++)
		out->counters[i] = __atomic_load_n(&r->region->counters[i], __ATOMIC_RELAXED);
	for (size_t i = 0; i < r->shown; i++) {
		out->flows += r->views[i].record.kind != FLOW_RESIDUE;
		out->residues += r->views[i].record.kind == FLOW_RESIDUE;
	}
	for (size_t i = r->shown; i < r->count; i++) {
		out->suppressed += r->views[i].suppressed != NULL;
		out->baselined += !r->views[i].suppressed;
	}
	for (uint32_t i = 1; i < r->source_end; i++)
		out->sources += r->sources[i].ready != 0;
}

size_t flow_report_count(const struct flow_report *r)
{
	return r->shown;
}

size_t flow_report_count_all(const struct flow_report *r)
{
	return r->count;
}

struct flow_view *flow_report_view(struct flow_report *r, size_t i)
{
	return &r->views[i];
}

uint32_t flow_report_sources(const struct flow_report *r)
{
	return r->source_end;
}

const struct flow_source *flow_report_source(const struct flow_report *r, uint32_t number)
{
	return number && number < r->source_end && r->sources[number].ready ? &r->sources[number] :
									      NULL;
}

uint32_t flow_report_steps(const struct flow_report *r)
{
	return r->step_end;
}

const struct flow_step *flow_report_step(const struct flow_report *r, uint32_t number)
{
	return number && number < r->step_end && r->steps[number].ready ? &r->steps[number] : NULL;
}

uint32_t flow_report_path(const struct flow_report *r, uint32_t step, uint32_t *out, uint32_t most)
{
	uint32_t n = 0;

	for (const struct flow_step *s = flow_report_step(r, step); s && n < most;
	     s = flow_report_step(r, step)) {
		out[n++] = step;
		step = s->parent;
	}
	for (uint32_t i = 0; i < n / 2; i++) {
		const uint32_t last = out[n - 1 - i];

		out[n - 1 - i] = out[i];
		out[i] = last;
	}
	return n;
}

const struct flow_stack *flow_report_last(const struct flow_report *r,
					  const struct flow_record *record)
{
	const struct flow_step *step = flow_report_step(r, record->step);

	if (record->kind != FLOW_RESIDUE)
		return &record->stack;
	return step ? &step->stack : NULL;
}

/* ---- where ---- */

struct file_places *flow_report_places(struct flow_report *r)
{
	return r->places;
}

size_t flow_report_frames(struct flow_report *r, const struct flow_stack *stack,
			  struct run_frame *out)
{
	struct place places[FLOW_INLINED];
	size_t n = 0;

	if (!r->region && stack->count) {
		const struct flow_known *known = &r->known[stack->frames[0]];

		memcpy(out, known->frames, known->count * sizeof(*out));
		return known->count;
	}
	for (uint32_t i = 0; i < stack->count; i++) {
		const size_t count = file_places_frames(r->places, stack->frames[i], i > 0, places,
							FLOW_INLINED);

		if (symbols_is_agent(places[0].module))
			continue;
		for (size_t k = 0; k < count; k++)
			out[n++] = (struct run_frame){
				.ip = stack->frames[i] & FILE_PLACE_MASK,
				.place = places[k],
				.is_inlined = k + 1 < count,
			};
	}
	return n;
}

static void name_of(const struct place *p, uint64_t at, char *out, size_t n)
{
	if (p->function)
		snprintf(out, n, "%.*s", (int)suppress_plain_length(p->function), p->function);
	else if (p->module)
		snprintf(out, n, "%s+0x%llx", p->module, (unsigned long long)p->module_offset);
	else
		snprintf(out, n, "0x%llx", (unsigned long long)(at & FILE_PLACE_MASK));
}

void flow_report_where(struct flow_report *r, const struct flow_stack *stack,
		       struct flow_where *out)
{
	struct place innermost;

	memset(out, 0, sizeof(*out));
	if (!stack->count) {
		snprintf(out->name, sizeof(out->name), "?");
		return;
	}
	if (!r->region) {
		*out = r->known[stack->frames[0]].where;
		return;
	}
	finding_place_find(r->places, stack->frames, stack->count, true, &out->in);
	name_of(&out->in.place, out->in.at, out->name, sizeof(out->name));
	if (!out->in.is_after)
		return;
	file_places_find(r->places, stack->frames[0], false, &innermost);
	name_of(&innermost, stack->frames[0], out->via, sizeof(out->via));
}
