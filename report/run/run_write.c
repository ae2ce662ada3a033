/* SPDX-License-Identifier: MIT */
/*
 * run_write.c - writes a run to a file.
 *
 * Each location is written once, before its first hit. Later hits refer to it by number.
 */
#include "report/run/run_chunk.h"
#include "report/run/run_file.h"
#include "report/run/run_watch.h"
#include "report/safe/private_file.h"

#include "record/file.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

struct run_writer {
	FILE *f;
	void *places; /* tsearch() tree of struct written_place */
	uint64_t place_count;
	struct record_bytes bytes;     /* of the chunk that is being made, used again and again */
	const struct run_calls *calls; /* NULL: no breakpoints */
	uint64_t *site_numbers;	       /* of those that were written, + 1 */
	uint64_t site_count;
};

struct written_place {
	struct run_frame frame;
	uint64_t number;
};

static int written_place_compare(const void *a, const void *b)
{
	const struct written_place *x = a;
	const struct written_place *y = b;
	const struct run_frame *f = &x->frame;
	const struct run_frame *g = &y->frame;

	if (f->ip != g->ip)
		return f->ip < g->ip ? -1 : 1;
	if (f->place.offset != g->place.offset)
		return f->place.offset < g->place.offset ? -1 : 1;
	if (f->place.line != g->place.line)
		return f->place.line < g->place.line ? -1 : 1;
	if (f->is_inlined != g->is_inlined)
		return f->is_inlined ? 1 : -1;
	const char *fn = f->place.function ? f->place.function : "";
	const char *gn = g->place.function ? g->place.function : "";
	return strcmp(fn, gn);
}

static int chunk_end(struct run_writer *w, enum run_chunk kind)
{
	int err = record_write_chunk(w->f, kind, &w->bytes);

	w->bytes.len = 0;
	w->bytes.is_failed = false;
	return err;
}

static int place_write(struct run_writer *w, const struct run_frame *frame)
{
	struct record_bytes *b = &w->bytes;
	const struct place *p = &frame->place;

	record_put_number(b, frame->ip);
	record_put_text(b, p->function);
	record_put_number(b, p->offset);
	record_put_text(b, p->module);
	record_put_number(b, p->module_offset);
	record_put_text(b, p->file);
	record_put_number(b, (uint64_t)p->line);
	record_put_number(b, frame->is_inlined);
	record_put_text(b, p->same_code);
	return chunk_end(w, RUN_PLACE);
}

/* The number of a location, which is written if it is new. 0 or -errno. */
static int place_number(struct run_writer *w, const struct run_frame *frame, uint64_t *out)
{
	struct written_place key = { .frame = *frame };
	struct written_place **found = tfind(&key, &w->places, written_place_compare);

	if (found) {
		*out = (*found)->number;
		return 0;
	}
	struct written_place *p = malloc(sizeof(*p));
	if (!p)
		return -ENOMEM;
	*p = key;
	p->number = w->place_count;
	if (!tsearch(p, &w->places, written_place_compare)) {
		free(p);
		return -ENOMEM;
	}
	int err = place_write(w, frame);
	if (err)
		return err;
	*out = w->place_count++;
	return 0;
}

int run_writer_open(const char *path, const struct run_info *info, struct run_writer **out)
{
	struct run_writer *w = calloc(1, sizeof(*w));

	if (!w)
		return -ENOMEM;
	w->f = private_file(path);
	int err = w->f ? record_write_header(w->f) : -errno;
	if (!err) {
		struct record_bytes *b = &w->bytes;
		record_put_text(b, info->what);
		record_put_text(b, info->process);
		record_put_text(b, info->value_type);
		record_put_number(b, (uint64_t)info->pid);
		record_put_number(b, info->access);
		record_put_number(b, info->address);
		record_put_number(b, info->len);
		record_put_number(b, info->is_bit_field);
		record_put_number(b, info->started_ns);
		record_put_number(b, info->clock_offset_ns);
		record_put_number(b, info->is_several);
		err = chunk_end(w, RUN_INFO);
	}
	if (err) {
		run_writer_close(w);
		return err;
	}
	*out = w;
	return 0;
}

/* The frames as numbers of locations, which are written first as chunks of their own. */
static int frame_numbers(struct run_writer *w, const struct run_hit *hit, uint64_t *numbers)
{
	int err = 0;

	for (size_t i = 0; i < hit->frame_count && !err; i++)
		err = place_number(w, &hit->frames[i], &numbers[i]);
	return err;
}

int run_writer_calls(struct run_writer *w, const struct run_calls *calls)
{
	struct record_bytes *b = &w->bytes;

	w->calls = calls;
	w->site_numbers = calloc(calls->site_count + 1, sizeof(*w->site_numbers));
	if (!w->site_numbers)
		return -ENOMEM;
	record_put_number(b, calls->location_count);
	for (size_t i = 0; i < calls->location_count; i++)
		record_put_text(b, calls->locations[i]);
	record_put_text(b, calls->description);
	record_put_number(b, calls->with_results);
	record_put_number(b, calls->all_sites);
	record_put_number(b, calls->unresolved);
	record_put_number(b, calls->copies_left_out);
	return chunk_end(w, RUN_CALLS);
}

/* Few of thousands of sites are hit, so each is written before its first hit. */
static int site_number(struct run_writer *w, size_t index, uint64_t *out)
{
	const struct run_site *site = &w->calls->site[index];
	struct record_bytes *b = &w->bytes;

	if (!w->site_numbers[index]) {
		record_put_number(b, site->address);
		record_put_text(b, site->name);
		record_put_text(b, site->module);
		record_put_number(b, site->kind);
		record_put_number(b, site->is_emulated);
		int err = chunk_end(w, RUN_SITE);
		if (err)
			return err;
		w->site_numbers[index] = ++w->site_count;
	}
	*out = w->site_numbers[index] - 1;
	return 0;
}

/* What must be written before the hit, since these are chunks of their own. */
struct numbers {
	uint64_t place;
	uint64_t site;
	uint64_t caller;
	uint64_t frames[RUN_FRAMES_MAX];
};

static int write_before(struct run_writer *w, const struct run_hit *hit, struct numbers *n)
{
	struct run_frame place = { .ip = hit->ip, .place = hit->place };
	int err = place_number(w, &place, &n->place);

	if (!err)
		err = frame_numbers(w, hit, n->frames);
	if (err || !hit->call)
		return err;
	struct run_frame caller = { .ip = hit->call->caller, .place = hit->call->caller_place };
	err = place_number(w, &caller, &n->caller);
	return err ? err : site_number(w, hit->call->site, &n->site);
}

static void put_json(struct record_bytes *b, json_t *value)
{
	char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

	record_put_text(b, text);
	free(text);
}

static void write_value(struct record_bytes *b, const struct run_hit *hit)
{
	record_put_number(b, hit->address);
	record_put_number(b, hit->len);
	record_put_number(b, hit->access);
	record_put_number(b, hit->value_when);
	record_put_number(b, hit->is_async);
	record_put_number(b, hit->old_known);
	record_put_number(b, hit->old_value);
	record_put_number(b, hit->new_value);
	record_put_text(b, hit->change);
	put_json(b, hit->value);
}

static void write_call(struct record_bytes *b, const struct run_call *call, const struct numbers *n)
{
	record_put_number(b, n->site);
	record_put_number(b, n->caller);
	record_put_text(b, call->args);
	put_json(b, call->args_json);
	record_put_number(b, call->args_later);
	record_put_number(b, call->has_result);
	record_put_number(b, call->duration_ns);
	record_put_text(b, call->has_result ? call->result : NULL);
	put_json(b, call->result_json);
}

/* Puts what an access has behind its frames. */
static void put_origin(struct record_bytes *b, const struct run_hit *hit)
{
	record_put_number(b, hit->is_by_kernel);
	record_put_text(b, hit->syscall);
	record_put_text(b, hit->of);
	record_put_number(b, hit->is_object);
}

int run_writer_hit(struct run_writer *w, const struct run_hit *hit)
{
	struct record_bytes *b = &w->bytes;
	struct numbers n;
	int err = write_before(w, hit, &n);

	if (err)
		return err;
	record_put_number(b, hit->time_ns);
	record_put_number(b, (uint64_t)hit->pid);
	record_put_number(b, (uint64_t)hit->tid);
	record_put_text(b, hit->thread);
	record_put_number(b, n.place);
	if (hit->call)
		write_call(b, hit->call, &n);
	else
		write_value(b, hit);
	record_put_number(b, hit->frame_count);
	for (size_t i = 0; i < hit->frame_count; i++)
		record_put_number(b, n.frames[i]);
	if (!hit->call)
		put_origin(b, hit);
	return chunk_end(w, hit->call ? RUN_CALL : RUN_HIT);
}

static void put_cost(struct record_bytes *b, double ns)
{
	record_put_number(b, ns < 0 ? UINT64_MAX : (uint64_t)ns);
}

int run_writer_calls_end(struct run_writer *w, const struct run_calls_end *end)
{
	struct record_bytes *b = &w->bytes;

	record_put_number(b, end->emulated);
	record_put_number(b, end->stepped);
	record_put_number(b, end->hardware);
	record_put_number(b, end->refused);
	record_put_text(b, end->refused_names);
	put_cost(b, end->emulated_ns);
	put_cost(b, end->stepped_ns);
	put_cost(b, end->hardware_ns);
	record_put_number(b, end->beyond);
	record_put_number(b, end->not_returned);
	record_put_number(b, end->unpaired);
	record_put_number(b, end->other_results);
	record_put_number(b, end->probes);
	record_put_number(b, end->traps);
	put_cost(b, end->probe_ns);
	record_put_number(b, end->is_in_code);
	return chunk_end(w, RUN_CALLS_END);
}

static int objects_write(struct run_writer *w, const struct run_objects *o)
{
	struct record_bytes *b = &w->bytes;
	const uint64_t numbers[] = {
		o->is_return,	 o->calls,	     o->registers, o->seen,	  o->watched,
		o->ended,	 o->unmapped,	     o->alive,	   o->too_late,	  o->no_place,
		o->nothing,	 o->untracked,	     o->life_ns,   o->watched_ns, o->delays,
		o->delay_max_ns, o->delay_median_ns, o->after_end, o->calls_lost, o->stalled,
		o->stalled_ns,	 o->in_time,	     o->doubtful,  o->is_frame,
	};

	record_put_text(b, o->at);
	record_put_text(b, o->until);
	record_put_text(b, o->function);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		record_put_number(b, numbers[i]);
	return chunk_end(w, RUN_OBJECTS);
}

static int multiplex_write(struct run_writer *w, const struct run_multiplex *t)
{
	struct record_bytes *b = &w->bytes;

	record_put_number(b, t->chunks);
	record_put_number(b, t->registers);
	record_put_number(b, t->slices);
	record_put_number(b, t->slice_ns);
	record_put_number(b, t->switching_ns);
	record_put_number(b, t->failures);
	record_put_number(b, t->duration_ns);
	record_put_number(b, t->expr_count);
	for (size_t i = 0; i < t->expr_count; i++) {
		const struct run_multiplex_expr *p = &t->expr[i];
		record_put_text(b, p->name);
		record_put_number(b, p->address);
		record_put_number(b, p->len);
		record_put_number(b, p->chunks);
		record_put_number(b, p->hits);
		record_put_number(b, p->watched_ns);
	}
	record_put_number(b, t->unplaced);
	return chunk_end(w, RUN_MULTIPLEX);
}

int run_writer_end(struct run_writer *w, const struct run_end *end)
{
	struct record_bytes *b = &w->bytes;
	int err = end->objects ? objects_write(w, end->objects) : 0;

	if (!err && end->multiplex)
		err = multiplex_write(w, end->multiplex);
	if (err)
		return err;
	record_put_text(b, end->reason);
	record_put_text(b, end->command);
	record_put_text(b, end->mechanism);
	record_put_text(b, end->evaluated_in);
	record_put_number(b, end->condition_faults);
	record_put_number(b, end->taken);
	record_put_number(b, end->delivered);
	record_put_number(b, end->unread);
	put_cost(b, end->cost_ns);
	record_put_number(b, end->duration_ns);
	record_put_number(b, end->pauses);
	record_put_number(b, end->paused_ns);
	record_put_number(b, end->max_rate);
	record_put_number(b, end->count_count);
	for (size_t i = 0; i < end->count_count; i++) {
		record_put_text(b, end->counts[i].name);
		record_put_number(b, end->counts[i].value);
		record_put_number(b, end->counts[i].is_lost);
	}
	record_put_number(b, end->sees_kernel);
	record_put_number(b, end->unseen_changes);
	record_put_number(b, end->is_stopped);
	record_put_number(b, end->rests);
	record_put_number(b, end->rested_ns);
	record_put_number(b, end->budget_ppm);
	record_put_number(b, end->while_off);
	err = chunk_end(w, RUN_END);
	return err ? err : run_writer_flush(w);
}

int run_writer_flush(struct run_writer *w)
{
	return fflush(w->f) ? -errno : 0;
}

void run_writer_close(struct run_writer *w)
{
	if (!w)
		return;
	if (w->f)
		fclose(w->f);
	tdestroy(w->places, free);
	free(w->site_numbers);
	free(w->bytes.data);
	free(w);
}
