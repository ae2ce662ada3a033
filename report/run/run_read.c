/* SPDX-License-Identifier: MIT */
/*
 * run_read.c - reads a run from a file and trusts no byte of it.
 *
 * Texts point into the file's bytes. Numbers that are an index or an enum are checked here, so that
 * the functions that print the session do not check them.
 */
#include "report/run/run_chunk.h"
#include "report/run/run_file.h"
#include "report/run/run_watch.h"
#include "report/run/writer.h"
#include "report/safe/clean.h"

#include "record/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WHERE_MAX 4096 /* what a user can name */

struct run_session_rest {
	unsigned char *data; /* NULL: the caller's */
	struct run_frame *places;
	size_t place_count;
	size_t place_room;
	size_t hit_room;
	size_t site_room;
	struct run_objects objects;	/* at NULL: none */
	struct run_multiplex multiplex; /* expr NULL: none */
};

static void *grow(void *array, size_t count, size_t *room, size_t size)
{
	if (count < *room)
		return array;
	size_t more = *room ? 2 * *room : 64;
	void *bigger = realloc(array, more * size);
	if (bigger)
		*room = more;
	return bigger;
}

static int32_t get_int(struct record_view *v)
{
	uint64_t number = record_get_number(v);

	if (number > INT32_MAX)
		v->is_bad = true;
	return v->is_bad ? 0 : (int32_t)number;
}

/*
 * A text whose bytes a terminal can be given: the maker of the file must not be able to move the
 * cursor of its reader. The bytes are Trapline's.
 */
static const char *get_text(struct record_view *v)
{
	const char *text = record_get_text(v);

	if (text)
		clean_text((char *)(uintptr_t)text);
	return text;
}

static const char *get_or(struct record_view *v, const char *otherwise)
{
	const char *text = get_text(v);

	return text ? text : otherwise;
}

/* Fields that were added later are absent in an older file. */
static bool has_more(const struct record_view *v)
{
	return !v->is_bad && v->at != v->end;
}

static int read_info(struct run_session *s, struct record_view *v)
{
	struct run_info info = { 0 };

	info.what = get_or(v, "?");
	info.process = get_text(v);
	info.value_type = get_text(v);
	info.pid = get_int(v);
	info.access = record_get_number(v) & (3 | RUN_ACCESS_EXECUTE);
	info.address = record_get_number(v);
	info.len = record_get_number(v);
	info.is_bit_field = record_get_number(v) != 0;
	info.started_ns = record_get_number(v);
	info.clock_offset_ns = record_get_number(v);
	info.is_several = has_more(v) && record_get_number(v) != 0;
	if (v->is_bad)
		return -EBADMSG;
	s->info = info;
	return 0;
}

static int read_place(struct run_session *s, struct record_view *v)
{
	struct run_session_rest *r = s->rest;
	struct run_frame frame = { .ip = record_get_number(v) };

	frame.place.function = get_text(v);
	frame.place.offset = record_get_number(v);
	frame.place.module = get_text(v);
	frame.place.module_offset = record_get_number(v);
	frame.place.file = get_text(v);
	frame.place.line = get_int(v);
	frame.is_inlined = record_get_number(v) != 0;
	frame.place.same_code = has_more(v) ? get_text(v) : NULL;
	if (v->is_bad)
		return -EBADMSG;
	struct run_frame *places = grow(r->places, r->place_count, &r->place_room, sizeof(*places));
	if (!places)
		return -ENOMEM;
	r->places = places;
	places[r->place_count++] = frame;
	return 0;
}

static const struct run_frame *get_place(struct run_session *s, struct record_view *v)
{
	static const struct run_frame nowhere;
	uint64_t number = record_get_number(v);

	if (number >= s->rest->place_count)
		v->is_bad = true;
	return v->is_bad ? &nowhere : &s->rest->places[number];
}

static int get_frames(struct run_session *s, struct record_view *v, struct run_hit *hit)
{
	uint64_t count = record_get_number(v);

	if (v->is_bad || count > RUN_FRAMES_MAX)
		return -EBADMSG;
	if (!count)
		return 0;
	struct run_frame *frames = calloc(count, sizeof(*frames));
	if (!frames)
		return -ENOMEM;
	for (uint64_t i = 0; i < count; i++)
		frames[i] = *get_place(s, v);
	hit->frames = frames;
	hit->frame_count = count;
	return v->is_bad ? -EBADMSG : 0;
}

static json_t *get_json(struct record_view *v)
{
	const char *text = record_get_text(v);

	return text ? json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL) : NULL;
}

/* The thread and the location, with which every hit begins. */
static void get_beginning(struct run_session *s, struct record_view *v, struct run_hit *hit)
{
	hit->time_ns = record_get_number(v);
	hit->unix_ns = s->info.clock_offset_ns ? hit->time_ns + s->info.clock_offset_ns : 0;
	hit->pid = get_int(v);
	hit->tid = get_int(v);
	snprintf(hit->thread, sizeof(hit->thread), "%s", get_or(v, ""));
	const struct run_frame *site = get_place(s, v);
	hit->ip = site->ip;
	hit->place = site->place;
}

static void get_origin(struct record_view *v, struct run_hit *hit)
{
	hit->is_by_kernel = record_get_number(v) != 0;
	hit->syscall = get_text(v);
	hit->of = get_text(v);
	hit->is_object = record_get_number(v) != 0;
}

static int get_hit(struct run_session *s, struct record_view *v, struct run_hit *hit)
{
	get_beginning(s, v, hit);
	hit->address = record_get_number(v);
	hit->len = (uint32_t)record_get_number(v);
	hit->access = record_get_number(v) & 3;
	hit->value_when = record_get_number(v) % 3;
	hit->is_async = record_get_number(v) != 0;
	hit->old_known = record_get_number(v) != 0;
	hit->old_value = record_get_number(v);
	hit->new_value = record_get_number(v);
	hit->change = get_or(v, "?");
	const char *value = record_get_text(v);
	hit->is_typed = value != NULL;
	if (value)
		hit->value = json_loads(value, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
	int err = v->is_bad ? -EBADMSG : get_frames(s, v, hit);
	if (!err && has_more(v))
		get_origin(v, hit);
	if (!err)
		run_hit_set_writer(hit);
	return err || !v->is_bad ? err : -EBADMSG;
}

/* The rest of a call; its site is known, or the file is bad. */
static int get_call(struct run_session *s, struct record_view *v, struct run_hit *hit)
{
	struct run_call *call = calloc(1, sizeof(*call));

	if (!call)
		return -ENOMEM;
	hit->call = call;
	get_beginning(s, v, hit);
	call->site = record_get_number(v);
	const struct run_frame *caller = get_place(s, v);
	call->caller = caller->ip;
	call->caller_place = caller->place;
	call->args = get_text(v);
	call->args_json = get_json(v);
	call->args_later = record_get_number(v) != 0;
	call->has_result = record_get_number(v) != 0;
	call->duration_ns = record_get_number(v) & INT64_MAX;
	call->result = get_or(v, "");
	call->result_json = get_json(v);
	hit->access = RUN_ACCESS_EXECUTE;
	if (v->is_bad || !s->calls || call->site >= s->calls->site_count)
		return -EBADMSG;
	hit->address = s->calls->site[call->site].address;
	char text[RUN_CALL_TEXT];
	run_call_text(s->calls, call, text, sizeof(text));
	hit->change = strdup(text);
	return hit->change ? get_frames(s, v, hit) : -ENOMEM;
}

static void hit_release(struct run_hit *hit)
{
	json_decref(hit->value);
	free((void *)(uintptr_t)hit->frames);
	if (!hit->call)
		return;
	json_decref(hit->call->args_json);
	json_decref(hit->call->result_json);
	free((void *)(uintptr_t)hit->change);
	free((void *)(uintptr_t)hit->call);
}

static int read_hit(struct run_session *s, struct record_view *v,
		    int (*get)(struct run_session *s, struct record_view *v, struct run_hit *hit))
{
	struct run_hit hit = { 0 };
	int err = get(s, v, &hit);

	if (!err) {
		struct run_hit *hits =
			grow(s->hits, s->hit_count, &s->rest->hit_room, sizeof(*hits));
		if (hits)
			s->hits = hits;
		else
			err = -ENOMEM;
	}
	if (err)
		hit_release(&hit);
	else
		s->hits[s->hit_count++] = hit;
	return err;
}

static int read_calls(struct run_session *s, struct record_view *v)
{
	uint64_t count = record_get_number(v);

	if (s->calls || count > WHERE_MAX)
		return -EBADMSG;
	struct run_calls *calls = calloc(1, sizeof(*calls));
	const char **where = calloc(count + 1, sizeof(*where));
	if (!calls || !where) {
		free(calls);
		free(where);
		return -ENOMEM;
	}
	s->calls = calls;
	calls->locations = where;
	for (; calls->location_count < count; calls->location_count++)
		where[calls->location_count] = get_or(v, "?");
	calls->description = get_or(v, "?");
	calls->with_results = record_get_number(v) != 0;
	calls->all_sites = record_get_number(v);
	calls->unresolved = record_get_number(v);
	calls->copies_left_out = record_get_number(v);
	return v->is_bad ? -EBADMSG : 0;
}

static int read_site(struct run_session *s, struct record_view *v)
{
	struct run_site site = { .address = record_get_number(v) };

	site.name = get_or(v, "?");
	site.module = get_text(v);
	uint64_t kind = record_get_number(v);
	site.is_emulated = record_get_number(v) != 0;
	if (v->is_bad || !s->calls || kind >= RUN_SITE_KINDS)
		return -EBADMSG;
	site.kind = (enum run_site_kind)kind;
	struct run_site *sites =
		grow(s->calls->site, s->calls->site_count, &s->rest->site_room, sizeof(*sites));
	if (!sites)
		return -ENOMEM;
	s->calls->site = sites;
	sites[s->calls->site_count++] = site;
	return 0;
}

static double get_cost(struct record_view *v)
{
	uint64_t cost = record_get_number(v);

	return cost == UINT64_MAX ? -1 : (double)cost;
}

static int read_calls_end(struct run_session *s, struct record_view *v)
{
	struct run_calls_end end = { .emulated = record_get_number(v) };

	end.stepped = record_get_number(v);
	end.hardware = record_get_number(v);
	end.refused = record_get_number(v);
	end.refused_names = get_or(v, "?");
	end.emulated_ns = get_cost(v);
	end.stepped_ns = get_cost(v);
	end.hardware_ns = get_cost(v);
	end.beyond = record_get_number(v);
	end.not_returned = record_get_number(v);
	end.unpaired = record_get_number(v);
	end.other_results = record_get_number(v);
	end.probe_ns = -1;
	/* Recordings of earlier versions end here. */
	if (!v->is_bad && v->at < v->end) {
		end.probes = record_get_number(v);
		end.traps = record_get_number(v);
		end.probe_ns = get_cost(v);
		end.is_in_code = record_get_number(v) != 0;
	}
	if (v->is_bad)
		return -EBADMSG;
	s->calls_end = end;
	return 0;
}

/* What is printed as a signed number. */
static uint64_t get_count(struct record_view *v)
{
	return record_get_number(v) & INT64_MAX;
}

static int read_objects(struct run_session *s, struct record_view *v)
{
	struct run_objects o = { .at = get_or(v, "?"), .until = get_text(v) };
	uint64_t *const numbers[] = {
		&o.calls,	    &o.registers, &o.seen,	 &o.watched,  &o.ended,
		&o.unmapped,	    &o.alive,	  &o.too_late,	 &o.no_place, &o.nothing,
		&o.untracked,	    &o.life_ns,	  &o.watched_ns, &o.delays,   &o.delay_max_ns,
		&o.delay_median_ns, &o.after_end, &o.calls_lost,
	};

	o.function = get_or(v, "?");
	o.is_return = record_get_number(v) != 0;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		*numbers[i] = get_count(v);
	/* Recordings of earlier versions end here. */
	if (!v->is_bad && v->at < v->end) {
		o.stalled = get_count(v);
		o.stalled_ns = get_count(v);
		o.in_time = get_count(v);
		o.doubtful = get_count(v);
		o.is_frame = record_get_number(v) != 0;
	}
	if (v->is_bad)
		return -EBADMSG;
	s->rest->objects = o;
	return 0;
}

static int read_multiplex(struct run_session *s, struct record_view *v)
{
	struct run_multiplex t = { .chunks = get_count(v) };

	t.registers = get_count(v);
	t.slices = get_count(v);
	t.slice_ns = get_count(v);
	t.switching_ns = get_count(v);
	t.failures = get_count(v);
	t.duration_ns = get_count(v);
	uint64_t count = record_get_number(v);
	if (v->is_bad || s->rest->multiplex.expr || count > RUN_MULTIPLEX_EXPRS_MAX)
		return -EBADMSG;
	t.expr = calloc(count + 1, sizeof(*t.expr));
	if (!t.expr)
		return -ENOMEM;
	for (; t.expr_count < count; t.expr_count++) {
		struct run_multiplex_expr *p = &t.expr[t.expr_count];
		p->name = get_or(v, "?");
		p->address = record_get_number(v);
		p->len = get_count(v);
		p->chunks = get_count(v);
		p->hits = get_count(v);
		p->watched_ns = get_count(v);
	}
	if (v->at < v->end) /* earlier files end here */
		t.unplaced = get_count(v);
	if (v->is_bad) {
		free(t.expr);
		return -EBADMSG;
	}
	s->rest->multiplex = t;
	return 0;
}

static int read_end(struct run_session *s, struct record_view *v)
{
	struct run_end end = { .reason = get_or(v, "?"), .command = get_text(v) };

	end.mechanism = get_or(v, "?");
	end.evaluated_in = get_text(v);
	end.condition_faults = record_get_number(v);
	end.taken = record_get_number(v);
	end.delivered = record_get_number(v);
	end.unread = record_get_number(v);
	end.cost_ns = get_cost(v);
	end.duration_ns = record_get_number(v);
	end.pauses = record_get_number(v);
	end.paused_ns = record_get_number(v);
	end.max_rate = record_get_number(v);
	uint64_t count = record_get_number(v);
	if (v->is_bad || count > RUN_COUNTS_MAX)
		return -EBADMSG;
	for (end.count_count = 0; end.count_count < count; end.count_count++) {
		struct run_count *c = &end.counts[end.count_count];
		c->name = get_or(v, "?");
		c->value = record_get_number(v);
		c->is_lost = record_get_number(v) != 0;
	}
	if (has_more(v)) {
		end.sees_kernel = record_get_number(v) != 0;
		end.unseen_changes = get_count(v);
	}
	if (has_more(v))
		end.is_stopped = record_get_number(v) != 0;
	if (has_more(v)) {
		end.rests = record_get_number(v);
		end.rested_ns = record_get_number(v);
		end.budget_ppm = record_get_number(v);
		end.while_off = record_get_number(v);
	}
	if (v->is_bad)
		return -EBADMSG;
	s->end = end;
	s->has_end = true;
	return 0;
}

static int read_chunk(struct run_session *s, uint32_t kind, struct record_view *v)
{
	switch (kind) {
	case RUN_INFO:
		return read_info(s, v);
	case RUN_PLACE:
		return read_place(s, v);
	case RUN_HIT:
		return read_hit(s, v, get_hit);
	case RUN_END:
		return read_end(s, v);
	case RUN_CALLS:
		return read_calls(s, v);
	case RUN_SITE:
		return read_site(s, v);
	case RUN_CALL:
		return read_hit(s, v, get_call);
	case RUN_CALLS_END:
		return read_calls_end(s, v);
	case RUN_OBJECTS:
		return read_objects(s, v);
	case RUN_MULTIPLEX:
		return read_multiplex(s, v);
	default:
		return 0; /* of a newer trapline */
	}
}

/* A recorder that was killed wrote no end: it is made from the hits. */
static void make_end(struct run_session *s)
{
	const struct run_hit *last = s->hit_count ? &s->hits[s->hit_count - 1] : NULL;

	s->end = (struct run_end){
		.reason = "the recording has no end: its recorder was killed, or the "
			  "file is damaged",
		.mechanism = "not recorded",
		.cost_ns = -1
	};
	s->end.delivered = s->hit_count;
	s->end.taken = s->hit_count;
	if (last && last->time_ns > s->info.started_ns)
		s->end.duration_ns = last->time_ns - s->info.started_ns;
}

static int run_read_all(struct run_session *s, const unsigned char *data, size_t size)
{
	size_t at = RECORD_FILE_HEADER_BYTES;
	struct record_view payload;
	uint32_t kind;

	for (;;) {
		s->good_bytes = at;
		int more = record_next_chunk(data, size, &at, &kind, &payload);
		if (more <= 0)
			return 0;
		int err = read_chunk(s, kind, &payload);
		if (err == -EBADMSG)
			return 0; /* it ends before this one */
		if (err)
			return err;
	}
}

static int sum_calls(struct run_session *s)
{
	int err = run_calls_begin(s->calls);

	for (size_t i = 0; !err && i < s->hit_count; i++)
		if (s->hits[i].call)
			run_calls_add(s->calls, &s->hits[i]);
	return err;
}

static void calls_free(struct run_calls *calls)
{
	run_calls_end_sums(calls);
	free((void *)(uintptr_t)calls->locations);
	free(calls->site);
	free(calls);
}

static void say_why(int err, char *why, size_t n)
{
	snprintf(why, n, "%s",
		 err == -EPROTO	 ? "a recording of another version of trapline" :
		 err == -EBADMSG ? "no recording of trapline" :
		 err == -EINVAL	 ? "not a regular file" :
				   strerror(-err));
}

int run_session_parse(unsigned char *data, size_t size, struct run_session **out, char *why,
		      size_t n)
{
	int err = record_check_header(data, size);

	if (err) {
		say_why(err, why, n);
		return err;
	}
	struct run_session *s = calloc(1, sizeof(*s));
	struct run_session_rest *rest = calloc(1, sizeof(*rest));
	if (!s || !rest) {
		free(s);
		free(rest);
		snprintf(why, n, "out of memory");
		return -ENOMEM;
	}
	s->rest = rest;
	s->all_bytes = size;
	s->calls_end = (struct run_calls_end){ .refused_names = "",
					       .emulated_ns = -1,
					       .stepped_ns = -1,
					       .hardware_ns = -1,
					       .probe_ns = -1 };
	s->info.what = "?";
	err = run_read_all(s, data, size);
	if (err) {
		snprintf(why, n, "%s", strerror(-err));
		run_session_free(s);
		return err;
	}
	if (!s->has_end)
		make_end(s);
	s->end.objects = rest->objects.at ? &rest->objects : NULL;
	s->end.multiplex = rest->multiplex.expr ? &rest->multiplex : NULL;
	err = s->calls ? sum_calls(s) : 0;
	if (err) {
		snprintf(why, n, "%s", strerror(-err));
		run_session_free(s);
		return err;
	}
	*out = s;
	return 0;
}

/* A large file that is not a recording is not read as a whole. */
static int check_beginning(int fd)
{
	unsigned char header[RECORD_FILE_HEADER_BYTES];
	ssize_t n = pread(fd, header, sizeof(header), 0);

	return n < 0 ? -errno : record_check_header(header, (size_t)n);
}

static int run_read_file(const char *path, unsigned char **out, size_t *size)
{
	struct stat st;
	int err = 0;
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st))
		err = -errno;
	else if (!S_ISREG(st.st_mode))
		err = -EINVAL;
	else
		err = check_beginning(fd);
	unsigned char *data = err ? NULL : malloc((size_t)st.st_size + 1);
	size_t used = 0;
	if (!err && !data)
		err = -ENOMEM;
	/* It may still be growing: what is there now. */
	while (!err && used < (size_t)st.st_size) {
		ssize_t n = read(fd, data + used, (size_t)st.st_size - used);
		if (n < 0)
			err = -errno;
		if (n <= 0)
			break;
		used += (size_t)n;
	}
	close(fd);
	if (err) {
		free(data);
		return err;
	}
	*out = data;
	*size = used;
	return 0;
}

int run_session_read(const char *path, struct run_session **out, char *why, size_t n)
{
	unsigned char *data = NULL;
	size_t size = 0;
	int err = run_read_file(path, &data, &size);

	if (err) {
		say_why(err, why, n);
		return err;
	}
	err = run_session_parse(data, size, out, why, n);
	if (err)
		free(data);
	else
		(*out)->rest->data = data;
	return err;
}

void run_session_free(struct run_session *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->hit_count; i++)
		hit_release(&s->hits[i]);
	free(s->hits);
	if (s->calls)
		calls_free(s->calls);
	free(s->rest->places);
	free(s->rest->multiplex.expr);
	free(s->rest->data);
	free(s->rest);
	free(s);
}
