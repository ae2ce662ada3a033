// SPDX-License-Identifier: MIT
/*
 * run_write.c - write a run to a file.
 *
 * A place comes once, before the first hit at it, and is called by its number from then on.
 */
#include "run_chunk.h"
#include "run_file.h"

#include "record/file.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

struct run_writer {
	FILE *f;
	void *places; /* tsearch() tree of struct written_place */
	uint64_t place_count;
	struct record_bytes bytes; /* of the chunk that is being made, used again and again */
};

struct written_place {
	struct run_frame frame;
	uint64_t number;
};

static int place_compare(const void *a, const void *b)
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
	return chunk_end(w, RUN_PLACE);
}

/* The number of a place, which is written if it is new. 0 or -errno. */
static int place_number(struct run_writer *w, const struct run_frame *frame, uint64_t *out)
{
	struct written_place key = { .frame = *frame };
	struct written_place **found = tfind(&key, &w->places, place_compare);

	if (found) {
		*out = (*found)->number;
		return 0;
	}
	struct written_place *p = malloc(sizeof(*p));
	if (!p)
		return -ENOMEM;
	*p = key;
	p->number = w->place_count;
	if (!tsearch(p, &w->places, place_compare)) {
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
	w->f = fopen(path, "we");
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
		err = chunk_end(w, RUN_INFO);
	}
	if (err) {
		run_writer_close(w);
		return err;
	}
	*out = w;
	return 0;
}

/* The frames as numbers of places: those are written first, being chunks of their own. */
static int frame_numbers(struct run_writer *w, const struct run_hit *hit, uint64_t *numbers)
{
	int err = 0;

	for (size_t i = 0; i < hit->frame_count && !err; i++)
		err = place_number(w, &hit->frames[i], &numbers[i]);
	return err;
}

int run_writer_hit(struct run_writer *w, const struct run_hit *hit)
{
	struct run_frame site = { .ip = hit->ip, .place = hit->place };
	struct record_bytes *b = &w->bytes;
	uint64_t numbers[RUN_FRAMES_MAX];
	uint64_t number = 0;

	int err = place_number(w, &site, &number);
	if (!err)
		err = frame_numbers(w, hit, numbers);
	if (err)
		return err;
	char *value = hit->value ? json_dumps(hit->value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
	record_put_number(b, hit->time_ns);
	record_put_number(b, (uint64_t)hit->pid);
	record_put_number(b, (uint64_t)hit->tid);
	record_put_text(b, hit->thread);
	record_put_number(b, number);
	record_put_number(b, hit->address);
	record_put_number(b, hit->len);
	record_put_number(b, hit->access);
	record_put_number(b, hit->value_when);
	record_put_number(b, hit->is_async);
	record_put_number(b, hit->old_known);
	record_put_number(b, hit->old_value);
	record_put_number(b, hit->new_value);
	record_put_text(b, hit->change);
	record_put_text(b, value);
	record_put_number(b, hit->frame_count);
	for (size_t i = 0; i < hit->frame_count; i++)
		record_put_number(b, numbers[i]);
	free(value);
	return chunk_end(w, RUN_HIT);
}

int run_writer_end(struct run_writer *w, const struct run_end *end)
{
	struct record_bytes *b = &w->bytes;

	record_put_text(b, end->reason);
	record_put_text(b, end->command);
	record_put_text(b, end->mechanism);
	record_put_text(b, end->decided_in);
	record_put_number(b, end->condition_faults);
	record_put_number(b, end->taken);
	record_put_number(b, end->delivered);
	record_put_number(b, end->unread);
	record_put_number(b, end->price_ns < 0 ? UINT64_MAX : (uint64_t)end->price_ns);
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
	int err = chunk_end(w, RUN_END);
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
	free(w->bytes.data);
	free(w);
}
