/* SPDX-License-Identifier: MIT */
/*
 * race_report.c - records become races: locations, names, fingerprints, and which records belong
 * together.
 */
#include "report/race/race_report.h"

#include "base/hash.h"
#include "record/race_judge.h"
#include "record/race_words.h"
#include "report/files/files.h"
#include "report/files/headline.h"
#include "report/finding/baseline.h"
#include "report/finding/finding_place.h"
#include "report/run/run.h"
#include "report/safe/clean.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define VIEWS_MAX 8192u /* a view has some KiB; what is beyond is counted as unlisted */

struct race_report {
	const struct race_region *region;
	struct file_places *places;
	struct race_view **views;
	size_t count;
	size_t capacity;
	struct race_policy policy;
};

static bool path_in(const void *table, uint32_t row, char *path, size_t n)
{
	const struct race_file *file = &((const struct race_region *)table)->files[row];

	if (!file->ready)
		return false;
	snprintf(path, n, "%.*s", (int)sizeof(file->path) - 1, file->path);
	return true;
}

int race_report_open(const struct race_region *region, struct race_report **out)
{
	struct race_report *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->region = region;
	if (file_places_open(path_in, region, RACE_FILES, &r->places)) {
		free(r);
		return -ENOMEM;
	}
	*out = r;
	return 0;
}

void race_report_close(struct race_report *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->count; i++)
		free(r->views[i]);
	free(r->views);
	file_places_close(r->places);
	free(r);
}

void race_report_set_policy(struct race_report *r, const struct race_policy *policy)
{
	r->policy = *policy;
}

const struct race_policy *race_report_policy(const struct race_report *r)
{
	return &r->policy;
}

bool race_report_has_heap(const struct race_report *r)
{
	return r->region->settings.is_heap != 0;
}

bool race_heap_is_new(const struct race_record *record)
{
	return record->heap.allocated.time_ns > record->held_since_ns;
}

enum race_verdict race_verdict(const struct race_view *v, enum race_grade grade_max)
{
	if (v->grade > grade_max)
		return RACE_BELOW_GRADE;
	if (v->suppressed)
		return RACE_SUPPRESSED;
	return v->is_baselined ? RACE_BASELINED : RACE_SHOWN;
}

void race_report_verdicts(struct race_report *r, enum race_grade grade_max,
			  size_t counts[RACE_VERDICTS])
{
	memset(counts, 0, RACE_VERDICTS * sizeof(*counts));
	for (size_t i = 0; i < r->count; i++) {
		enum race_verdict verdict = race_verdict(r->views[i], grade_max);
		bool is_counted_there = verdict == RACE_SHOWN && r->views[i]->head;

		counts[verdict] += !is_counted_there;
	}
}

static void words_of(const struct race_view *v, char *text, size_t n)
{
	snprintf(text, n, "%c %s %s%s%s / %s", "ABC"[v->grade], race_kind(&v->record),
		 v -> variable, v -> variable[0] ? " in " : "",
		 v->first.head[0] ? v->first.head : "?", v->second.head[0] ? v->second.head : "?");
}

int race_baseline_write(struct baseline *b, struct race_report *r, enum race_grade grade_max,
			const char *path, size_t *added)
{
	char text[900];
	int err = 0;

	*added = 0;
	for (size_t i = 0; i < r->count && !err; i++) {
		if (race_verdict(r->views[i], grade_max) != RACE_SHOWN)
			continue;
		words_of(r->views[i], text, sizeof(text));
		err = baseline_add(b, r->views[i]->fingerprint, text, added);
	}
	return err ? err : baseline_save(b, "races", "race", path);
}

size_t race_report_count(const struct race_report *r)
{
	return r->count;
}

void race_report_set_root(struct race_report *r, pid_t root)
{
	file_places_set_root(r->places, root);
}

void race_report_set_kept(struct race_report *r, const struct kept_files *kept)
{
	file_places_set_kept(r->places, kept);
}

struct race_view *race_report_view(struct race_report *r, size_t i)
{
	return r->views[i];
}

bool race_source(struct race_report *r, uint64_t at, bool after, char *path, size_t n)
{
	uint64_t address;
	struct symbols *s = race_symbols(r, at, &address);

	return s && files_source(s, address - after, path, n);
}

struct symbols *race_symbols(struct race_report *r, uint64_t at, uint64_t *address)
{
	return file_places_symbols(r->places, at, address);
}

void race_place(struct race_report *r, uint64_t at, bool after, struct place *out)
{
	file_places_find(r->places, at, after, out);
}

size_t race_frames(struct race_report *r, uint64_t at, bool after, struct place *out, size_t n)
{
	return file_places_frames(r->places, at, after, out, n);
}

size_t race_run_frames(struct race_report *r, uint64_t at, bool after, struct run_frame *out,
		       size_t n)
{
	struct place places[RACE_INLINED];
	size_t count = race_frames(r, at, after, places, RACE_INLINED);

	count = count < n ? count : n;
	for (size_t k = 0; k < count; k++)
		out[k] = (struct run_frame){
			.ip = at & RACE_PLACE_MASK,
			.place = places[k],
			.is_inlined = k + 1 < count,
		};
	return count;
}

struct file_places *race_places(struct race_report *r)
{
	return r->places;
}

uint64_t race_frame(const struct race_side *side, uint32_t i, bool *after)
{
	*after = i > 0 || !(side->flags & RACE_DECODED);
	return side->frames[i];
}

/* Without what compilers add to a name when they make variants of a function. */
static void copy_plain_name(const char *name, char *buf, size_t n)
{
	snprintf(buf, n, "%.*s", name ? (int)suppress_plain_length(name) : 0, name ? name : "");
}

static void find_access(struct race_report *r, const struct race_side *side,
			struct race_access_place *out)
{
	struct headline head;
	struct place block;
	bool after;

	memset(out, 0, sizeof(*out));
	if (!side->frame_count)
		return;
	out->frame = race_first_frame(side);
	if (out->frame) {
		uint64_t at = race_frame(side, out->frame - 1, &after);
		race_place(r, at, after, &block);
		out->via = block.function ? block.function : "a function of libc";
	}
	out->at = race_frame(side, out->frame, &out->after);
	race_place(r, out->at, out->after, &out->place);
	copy_plain_name(out->place.function, out->function, sizeof(out->function));
	headline_find(r->places, side->frames + out->frame, side->frame_count - out->frame,
		      !out->after, &head);
	copy_plain_name(head.place.function, out->head, sizeof(out->head));
	size_t used = strlen(out->head);
	if (used)
		run_same_code_text(&head.place, out->head + used, sizeof(out->head) - used);
}

static void race_find_variable(struct race_report *r, struct race_view *v)
{
	struct place p;
	uint64_t address;
	struct symbols *s = race_symbols(r, v->record.place, &address);

	if (!s)
		return;
	symbols_data_place(s, address, &p);
	if (p.function && p.offset)
		snprintf(v->variable, sizeof(v->variable), "%s+0x%" PRIx64, p.function, p.offset);
	else if (p.function)
		snprintf(v->variable, sizeof(v->variable), "%s", p.function);
}

/* One side for the fingerprint: the line counts from the function's first one. */
static void side_print(struct race_report *r, const struct race_access_place *a, char *buf,
		       size_t n)
{
	struct files_scope scope = { 0 };
	const char *module = a->place.module ? a->place.module : "?";
	uint64_t address;
	struct symbols *s = race_symbols(r, a->at, &address);

	/* Without a name only the address identifies the code, in this build. */
	if (!a->function[0]) {
		snprintf(buf, n, "%s:@%" PRIx64, module,
			 a->place.module ? a->place.module_offset : a->at);
		return;
	}
	if (s && a->place.line)
		files_scope(s, address - a->after, &scope);
	snprintf(buf, n, "%s:%s:%d", module, a->function,
		 scope.function_line ? a->place.line - scope.function_line : 0);
}

static void name_race(struct race_report *r, struct race_view *v)
{
	char sides[2][384];
	char variable[sizeof(v->variable)] = "";

	/*
	 * The same lines may race on many variables: that is one race. Without lines the
	 * variable helps to distinguish races. Both sides must use the same rule, or the
	 * name would depend on which side was found first.
	 */
	if (!v->first.place.line || !v->second.place.line)
		snprintf(variable, sizeof(variable), "%s", v->variable);
	variable[strcspn(variable, "+")] = '\0';
	side_print(r, &v->first, sides[0], sizeof(sides[0]));
	side_print(r, &v->second, sides[1], sizeof(sides[1]));
	int swap = strcmp(sides[0], sides[1]) > 0;
	uint64_t hash = finding_hash(HASH_START, sides[swap]);
	hash = finding_hash(finding_hash(hash, sides[!swap]), variable);
	finding_fingerprint(hash, v->fingerprint);
}

/*
 * One race for baselines and suppressions is reported as one, whichever instructions it
 * has.
 */
static struct race_view *find_view(struct race_report *r, const char *fingerprint)
{
	for (size_t i = 0; i < r->count; i++)
		if (!strcmp(r->views[i]->fingerprint, fingerprint))
			return r->views[i];
	return NULL;
}

static int append(struct race_report *r, struct race_view *v)
{
	if (r->count == r->capacity) {
		size_t capacity = r->capacity ? 2 * r->capacity : 64;
		void *views = capacity > VIEWS_MAX ?
				      NULL :
				      realloc(r->views, capacity * sizeof(*r->views));
		if (!views)
			return -ENOMEM;
		r->views = views;
		r->capacity = capacity;
	}
	r->views[r->count++] = v;
	return 0;
}

static void note_pair(struct race_view *v, uint32_t pair)
{
	for (uint32_t i = 0; i < v->pair_count; i++)
		if (v->pairs[i] == pair)
			return;
	if (pair >= RACE_PAIRS || v->pair_count == sizeof(v->pairs) / sizeof(v->pairs[0]))
		v->unpaired++;
	else
		v->pairs[v->pair_count++] = pair;
}

uint64_t race_report_times(const struct race_report *r, const struct race_view *v)
{
	uint64_t times = v->unpaired;

	for (uint32_t i = 0; i < v->pair_count; i++)
		times += r->region->pairs[v->pairs[i]].count;
	return times;
}

/* The record with the best evidence represents its race. */
static void take_better(struct race_view *old, const struct race_view *new)
{
	/* The record that is not suppressed is shown. */
	bool is_better = !new->suppressed && old->suppressed;

	if (new->suppressed && !old->suppressed)
		return;
	is_better = is_better || new->grade < old->grade ||
		    (new->grade == old->grade && !(old->record.flags & RACE_CHANGED) &&
		     new->record.flags &RACE_CHANGED);

	if (!is_better)
		return;
	old->record = new->record;
	old->first = new->first;
	old->second = new->second;
	old->grade = new->grade;
	old->why = new->why;
	old->suppressed = new->suppressed;
	memcpy(old->variable, new->variable, sizeof(old->variable));
}

static void make_valid_event(struct race_heap_event *event)
{
	if (event->frame_count > RACE_HEAP_FRAMES)
		event->frame_count = RACE_HEAP_FRAMES;
	event->thread[sizeof(event->thread) - 1] = '\0';
	clean_text(event->thread);
}

/* What was read may be anything: the target can write there. */
static void make_valid(struct race_record *record)
{
	struct race_side *sides[] = { &record->first, &record->second };

	for (int i = 0; i < 2; i++) {
		struct race_side *s = sides[i];

		if (s->frame_count > RACE_FRAMES)
			s->frame_count = RACE_FRAMES;
		if (s->code_bytes > RACE_CODE)
			s->code_bytes = RACE_CODE;
		if (s->code_before > s->code_bytes)
			s->code_before = s->code_bytes;
		s->thread[sizeof(s->thread) - 1] = '\0';
		clean_text(s->thread);
	}
	if (record->len > 8)
		record->len = 8;
	make_valid_event(&record->heap.allocated);
	make_valid_event(&record->heap.freed);
}

void race_describe(struct race_report *r, const struct race_record *record, struct race_view *v)
{
	v->record = *record;
	make_valid(&v->record);
	find_access(r, &v->record.first, &v->first);
	find_access(r, &v->record.second, &v->second);
	race_find_variable(r, v);
	name_race(r, v);
	race_grade(r, v);
}

int race_report_add(struct race_report *r, const struct race_record *record, struct race_view **out)
{
	struct race_view *v = calloc(1, sizeof(*v));

	if (!v)
		return -ENOMEM;
	race_describe(r, record, v);
	v->suppressed = race_suppressed(r, v);
	v->is_baselined = baseline_see(r->policy.baseline, v->fingerprint);
	struct race_view *old = find_view(r, v->fingerprint);
	if (old) {
		take_better(old, v);
		free(v);
		v = old;
	} else {
		int err = append(r, v);
		if (err) {
			free(v);
			return err;
		}
	}
	note_pair(v, record->pair);
	if (!v->seen_ns)
		v->seen_ns = record->time_ns;
	v->is_new = !old;
	*out = v;
	return 0;
}

void race_report_settle(struct race_report *r)
{
	for (size_t i = 0; i < r->count; i++) {
		struct race_view *v = r->views[i];
		struct race_judgement now = race_judge_again(
			(struct race_judgement){ v->grade, v->why }, r->region, &v->record);

		v->grade = now.grade;
		v->why = now.why;
	}
}
