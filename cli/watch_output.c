// SPDX-License-Identifier: MIT
/*
 * watch_output.c - what is known of a hit at the moment it comes, for every output; and the
 * status line.
 *
 * Output is flushed once per batch of records, not per line; the status line is on stderr and
 * is taken away before anything is printed below it.
 */
#include "cli/cmd.h"
#include "cli/watch.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define COMMAND watch_command
#define STATUS_INTERVAL_NS 250000000u
#define REGISTERS 17

static void place_of(struct symbols *s, uint64_t ip, bool after, struct place *out)
{
	uint64_t back = after ? 1 : 0;

	/* It is the instruction before ip that is meant; the offset is ip's, as disassemblers show. */
	symbols_place(s, ip - back, out);
	out->offset += out->function ? back : 0;
	out->module_offset += out->module ? back : 0;
}

static uint64_t clock_offset(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec - watch_now_ns();
}

static bool has_color(int fd)
{
	const char *no = getenv("NO_COLOR");
	const char *term = getenv("TERM");

	return isatty(fd) && !(no && *no) && term && strcmp(term, "dumb") != 0;
}

int watch_output_open(struct watch_output *o, const struct watch_settings *set)
{
	const char *term = getenv("TERM");

	*o = (struct watch_output){ .stack = set->stack, .is_quiet = set->record != NULL,
				    .started_ns = watch_now_ns() };
	if (set->output) {
		o->json = fopen(set->output, "we");
		if (!o->json)
			return cli_wrong(COMMAND, "cannot write %s: %s", set->output,
					 strerror(errno));
	} else if (set->json) {
		o->json = stdout;
	}
	if (!set->json)
		o->text.f = stdout;
	o->text.has_color = has_color(STDOUT_FILENO);
	o->status = isatty(STDERR_FILENO) && !(term && !strcmp(term, "dumb"));
	return 0;
}

void watch_output_close(struct watch_output *o)
{
	watch_output_clear_status(o);
	if (o->json && o->json != stdout)
		fclose(o->json);
	run_writer_close(o->record);
	tally_free(&o->tally);
	fflush(stdout);
}

void watch_output_clear_status(struct watch_output *o)
{
	if (o->status_shown)
		fputs("\r\033[K", stderr);
	o->status_shown = false;
}

static void show_status(struct watch_output *o, uint64_t hits, bool paused)
{
	uint64_t now = watch_now_ns();
	uint64_t since = o->status_at_ns ? o->status_at_ns : o->started_ns;
	static uint64_t rate;

	if (now - since >= STATUS_INTERVAL_NS) {
		rate = (hits - o->status_hits) * 1000000000u / (now - since);
		o->status_at_ns = now;
		o->status_hits = hits;
	} else if (o->status_shown) {
		return;
	}
	fprintf(stderr, "\r\033[K%" PRIu64 " hits/s, %" PRIu64 " in %" PRIu64 " s%s; Ctrl-C ends",
		rate, hits, (now - o->started_ns) / 1000000000u, paused ? ", paused" : "");
	o->status_shown = true;
}

bool watch_output_flush(struct watch_output *o, uint64_t hits, bool paused)
{
	bool failed = o->is_broken;

	if (o->text.f)
		failed = fflush(o->text.f) != 0 || failed;
	if (o->json)
		failed = fflush(o->json) != 0 || failed;
	if (o->record)
		failed = run_writer_flush(o->record) != 0 || failed;
	if (o->status && !failed)
		show_status(o, hits, paused);
	return !failed;
}

struct value_part watch_part(const struct watch_what *what, const struct trapline_hit *hit)
{
	return (struct value_part){
		.offset = hit->address - what->address,
		.len = hit->len,
		.old_known = hit->old_known,
		.new_known = hit->value_when != TRAPLINE_VALUE_NONE,
		.old_value = hit->old_value,
		.new_value = hit->new_value,
	};
}

static void describe_values(struct watch_output *o, struct symbols *s,
			  const struct trapline_hit *hit, char *buf, size_t n)
{
	struct value_part part = watch_part(o->what, hit);
	struct value_view view = o->what->view;

	if (!view.type) {
		view.type = type_bytes(s, hit->len);
		part.offset = 0;
	}
	value_change(s, &view, &part, hit->access == TRAPLINE_READ_WRITE, buf, n);
}

/* The values by their type; NULL when that is not known. */
static json_t *typed_values(struct watch_output *o, struct symbols *s,
			    const struct trapline_hit *hit)
{
	const struct value_view *view = &o->what->view;
	struct value_part part = watch_part(o->what, hit);

	if (!view->type || (!o->json && !o->record))
		return NULL;
	json_t *j = json_object();
	json_object_set_new(j, "type", run_json_text(view->type->name));
	json_object_set_new(j, "old", value_json(s, view, &part, false));
	json_object_set_new(j, "new", value_json(s, view, &part, true));
	return j;
}

/* The frames of a record, or those a callback brought. */
static size_t hit_frames(struct symbols *s, const struct trapline_hit *hit, uint64_t *frames)
{
	uint64_t regs[REGISTERS];
	size_t n = hit->stack_count < WATCH_FRAMES_MAX ? hit->stack_count : WATCH_FRAMES_MAX;

	for (unsigned int i = 0; i < REGISTERS; i++) {
		if (trapline_hit_register(hit, i, &regs[i]) < 0) {
			memcpy(frames, hit->stack, n * sizeof(*frames));
			return n;
		}
	}
	return symbols_unwind(s, regs, REGISTERS, hit->stack_bytes, hit->stack_bytes_len, hit->sp,
			      frames, WATCH_FRAMES_MAX);
}

/* Each address with the functions that are inlined there. */
static size_t stack_frames(struct symbols *s, const struct trapline_hit *hit,
			   struct run_frame *out)
{
	uint64_t ips[WATCH_FRAMES_MAX];
	struct place places[RUN_FRAMES_MAX];
	size_t n = hit_frames(s, hit, ips);
	size_t count = 0;

	for (size_t i = 0; i < n && count < RUN_FRAMES_MAX; i++) {
		uint64_t back = i || (hit->done && !hit->async) ? 1 : 0;
		size_t found = symbols_frames(s, ips[i] - back, places, RUN_FRAMES_MAX - count);
		for (size_t k = 0; k < found; k++) {
			struct run_frame *f = &out[count++];
			*f = (struct run_frame){ .ip = ips[i], .place = places[k],
						 .is_inlined = k + 1 < found };
			f->place.offset += f->place.function && !f->is_inlined ? back : 0;
			f->place.module_offset += f->place.module ? back : 0;
		}
	}
	return count;
}

void watch_output_begin(struct watch_output *o, const struct watch_what *what,
			const struct watch_settings *set)
{
	o->what = what;
	o->started_ns = watch_now_ns();
	o->info = (struct run_info){
		.what = what->name,
		.value_type = what->view.type ? what->view.type->name : NULL,
		.pid = set->pid,
		.access = (uint8_t)what->access,
		.address = what->address,
		.len = what->len,
		.is_bit_field = what->view.bit_size != 0,
		.started_ns = o->started_ns,
		.clock_offset_ns = clock_offset(),
	};
}

/* The process's name stands in a recording, where there is no process to ask. */
int watch_output_record(struct watch_output *o, const char *path)
{
	char comm_path[64];
	char name[32] = "";

	snprintf(comm_path, sizeof(comm_path), "/proc/%d/comm", o->info.pid);
	FILE *f = fopen(comm_path, "re");
	if (f && fgets(name, sizeof(name), f))
		name[strcspn(name, "\n")] = 0;
	if (f)
		fclose(f);
	struct run_info info = o->info;
	info.process = name;
	int err = run_writer_open(path, &info, &o->record);
	return err ? cli_wrong(COMMAND, "cannot write %s: %s", path, strerror(-err)) : 0;
}

void watch_output_hit(struct watch_output *o, struct symbols *s, const struct trapline_hit *hit)
{
	struct run_frame frames[RUN_FRAMES_MAX];
	char change[400];
	struct run_hit run = {
		.time_ns = hit->time_ns, .pid = hit->pid, .tid = hit->tid, .ip = hit->ip,
		.address = hit->address, .len = hit->len, .access = hit->access,
		.value_when = hit->value_when, .is_async = hit->async,
		.old_known = hit->old_known, .old_value = hit->old_value,
		.new_value = hit->new_value, .change = change, .frames = frames,
	};

	memcpy(run.thread, hit->thread, sizeof(run.thread));
	run_clean_text(run.thread);
	place_of(s, hit->ip, hit->done && !hit->async, &run.place);
	run.frame_count = o->stack ? stack_frames(s, hit, frames) : 0;
	describe_values(o, s, hit, change, sizeof(change));
	run.is_typed = o->what->view.type != NULL;
	run.value = typed_values(o, s, hit);
	tally_add(&o->tally, &run);
	watch_output_clear_status(o);
	if (o->text.f && !o->is_quiet)
		run_text_hit(&o->text, &o->info, &run);
	if (o->json)
		run_jsonl_hit(o->json, &run);
	if (o->record && run_writer_hit(o->record, &run))
		o->is_broken = true;
	json_decref(run.value);
}

void watch_output_end(struct watch_output *o, const struct run_end *end)
{
	watch_output_clear_status(o);
	if (o->text.f)
		run_text_end(&o->text, &o->info, end, &o->tally);
	if (o->json)
		run_jsonl_end(o->json, &o->info, end, &o->tally);
	if (o->record && run_writer_end(o->record, end))
		o->is_broken = true;
}
