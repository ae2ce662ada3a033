/* SPDX-License-Identifier: MIT */
/*
 * race_api.c - public entry points of the race detector, for programs that search for races
 * in themselves.
 *
 * Handlers write records into a region; a thread of the library (search_reader.h) reads them and
 * reports the races.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <trapline/tools.h>

#include "base/atomic.h"
#include "base/memory.h"
#include "base/sys.h"
#include "core/explain.h"
#include "core/opts_copy.h"
#include "core/target.h"
#include "race/race.h"
#include "race/race_line.h"
#include "race/race_start.h"
#include "record/race_judge.h"
#include "record/race_region.h"
#include "record/race_words.h"
#include "search/search_reader.h"

#define BUDGET_PPM 20000u
#define BUDGET_PPM_MAX 10000000u

struct trapline_race {
	struct trapline_race_opts opts;
	struct race_region *region;
	pid_t pid; /* a forked child has a copy of Trapline, and no search */
	struct search_reader reader;
	uint64_t below_grade;
	uint64_t told[(RACE_PAIRS + 63) / 64]; /* a bit for each pair */
};

static int check_opts(const struct trapline *t, const struct trapline_race_opts *o)
{
	const char *wrong = NULL;

	if (t->pid != t->owner_pid || t->owner_pid != sys_getpid())
		wrong = "races are searched in the calling process only: t must be that process";
	else if (o->flags)
		wrong = "unknown flag";
	else if (o->budget_ppm > BUDGET_PPM_MAX)
		wrong = "budget_ppm is over 10000000, which is 1000 %";
	else if (o->grade > TRAPLINE_RACE_C)
		wrong = "grade must be A, B or C";
	else if (!o->report && o->fd <= 0)
		wrong = "neither report nor fd is set: a race could not be reported";
	return wrong ? failed(-EINVAL, FAILED_ARGUMENT, wrong) : 0;
}

static void fill_side(const struct race_region *region, const struct race_side *from,
		      struct trapline_race_frame *frames, struct trapline_race_side *out)
{
	*out = (struct trapline_race_side){
		.tid = from->tid,
		.access = (from->access & RACE_READ ? TRAPLINE_READ : 0) |
			  (from->access & RACE_WRITE ? TRAPLINE_WRITE : 0),
		.size = from->size,
		.address = from->address,
		.ip = from->ip,
		.thread = from->thread,
		.frames = frames,
	};
	for (uint32_t i = race_first_frame(from); i < from->frame_count && i < RACE_FRAMES; i++) {
		struct trapline_race_frame *f = &frames[out->frame_count++];

		f->module = race_file_of(region, from->frames[i], &f->offset);
	}
}

static void api_tell(struct trapline_race *r, const struct race_record *record,
		     struct race_judgement judgement)
{
	struct trapline_race_frame frames[2][RACE_FRAMES];
	struct trapline_race_side first;
	struct trapline_race_side second;
	struct trapline_race_report report = {
		.size = sizeof(report),
		.grade = TRAPLINE_RACE_A + judgement.grade,
		.len = record->len,
		.address = record->address,
		.old_value = record->old_value,
		.new_value = record->new_value,
		.time_ns = record->time_ns,
		.stalled_ns = record->stalled_ns,
		.first = &first,
		.json = r->reader.line,
	};

	fill_side(r->region, &record->first, frames[0], &first);
	if (!(record->flags & RACE_UNKNOWN_ORIGIN)) {
		fill_side(r->region, &record->second, frames[1], &second);
		report.second = &second;
	}
	report.json_length = race_report_line(r->region, record, judgement, r->reader.line,
					      sizeof(r->reader.line) - 1);
	if (r->opts.report)
		r->opts.report(r->opts.arg, &report);
	search_reader_report(&r->reader, report.json_length);
}

/*
 * Each pair of locations once; the grade may become another one, so only what is reported counts.
 */
static void take(struct trapline_race *r, const struct race_record *record)
{
	struct race_judgement judgement =
		race_judge_again(race_judge(record, NULL, NULL), r->region, record);
	uint64_t *word = &r->told[record->pair % RACE_PAIRS / 64];
	uint64_t bit = 1ull << record->pair % 64;

	if (TRAPLINE_RACE_A + judgement.grade > r->opts.grade) {
		counter_add(&r->below_grade, 1u);
		return;
	}
	if (record->pair < RACE_PAIRS && *word & bit)
		return;
	if (record->pair < RACE_PAIRS)
		*word |= bit;
	api_tell(r, record, judgement);
}

static int take_next(void *arg)
{
	struct trapline_race *r = arg;
	struct race_record record;

	if (!race_read(r->region, &record, &r->reader.torn))
		return 0;
	take(r, &record);
	return 1;
}

static int explain_refusal(const struct race_process *row, int err)
{
	/* trapline_explain() explains the others better by the number. */
	int is_explained = row->step == RACE_STEP_TIMER || row->step >= RACE_STEP_RUNTIME;

	if (err == -EBUSY && row->step != RACE_STEP_SIGNAL)
		return failed(err, FAILED_EVENT, "a search for races runs in this process already");
	return failed(err, FAILED_EVENT, is_explained ? race_step_name(row->step) : NULL);
}

static void forget_in_child(void)
{
	race_forget();
}

static void add_fork_handler(void)
{
	pthread_atfork(NULL, NULL, forget_in_child);
}

static struct race_region *new_region(const struct trapline_race_opts *o)
{
	struct race_region *region = memory_map(sizeof(*region));

	if (memory_failed(region))
		return NULL;
	region->share.bytes = sizeof(*region);
	region->settings.budget_ppm = o->budget_ppm ? o->budget_ppm : BUDGET_PPM;
	region->settings.delay_ns = o->delay_ns;
	region->share.magic = RACE_MAGIC;
	return region;
}

static int start(struct trapline_race *r)
{
	r->region = new_region(&r->opts);
	if (!r->region)
		return -ENOMEM;
	int err = race_start(r->region, RACE_IS_LATE | RACE_HAS_READER);
	if (err) {
		err = explain_refusal(&r->region->processes[0], err);
		memory_unmap(r->region, sizeof(*r->region));
		return err;
	}
	r->reader.told = &r->region->told;
	r->reader.write_at = &r->region->write_at;
	r->reader.read_at = &r->region->read_at;
	r->reader.take = take_next;
	r->reader.arg = r;
	r->reader.fd = r->opts.fd;
	err = search_reader_start(&r->reader);
	if (err && !race_stop(RACE_STEP_NONE))
		memory_unmap(r->region, sizeof(*r->region));
	return err;
}

TRAPLINE_API int trapline_race_start(struct trapline *t, const struct trapline_race_opts *opts,
				     struct trapline_race **out)
{
	static pthread_once_t fork_handler = PTHREAD_ONCE_INIT;
	struct trapline_race_opts o;
	int err = opts_copy(&o, sizeof(o), opts);

	if (err)
		return err;
	if (!t || !out)
		return failed(-EINVAL, FAILED_ARGUMENT, "target or out is NULL");
	err = check_opts(t, &o);
	if (err)
		return err;
	struct trapline_race *r = calloc(1, sizeof(*r));
	if (!r)
		return failed(-ENOMEM, FAILED_EVENT, NULL);
	r->opts = o;
	r->opts.grade = o.grade ? o.grade : TRAPLINE_RACE_A;
	r->pid = sys_getpid();
	pthread_once(&fork_handler, add_fork_handler);
	err = start(r);
	if (err) {
		free(r);
		return err;
	}
	*out = r;
	return 0;
}

TRAPLINE_API int trapline_race_stats(struct trapline_race *r, struct trapline_race_stats *out)
{
	const struct race_process *row = &r->region->processes[0];
	size_t size = out->size;
	struct trapline_race_stats s = {
		.size = size,
		.stalls = counter_get(&row->counters[RACE_STALLS]),
		.sites = counter_get(&r->region->sites_covered),
		.stalled_ns = counter_get(&row->stalled_ns),
		.spent_ns = counter_get(&row->spent_ns),
		.run_ns = counter_get(&row->run_ns),
		.found = counter_get(&row->counters[RACE_FOUND]),
		.reported = counter_get(&r->reader.reported),
		.below_grade = counter_get(&r->below_grade),
		.lost = counter_get(&row->counters[RACE_LOST_FULL]) + counter_get(&r->reader.torn) +
			counter_get(&r->reader.unwritten),
		.threads = counter_get(&row->most_threads),
	};

	if (size < sizeof(size_t) || size > sizeof(s))
		return -EINVAL;
	memcpy(out, &s, size);
	return 0;
}

TRAPLINE_API void trapline_race_stop(struct trapline_race *r)
{
	if (!r)
		return;
	if (r->pid != sys_getpid()) {
		memory_unmap(r->region, sizeof(*r->region));
		free(r);
		return;
	}
	int err = race_stop(RACE_STEP_NONE);
	search_reader_end(&r->reader);
	/* A thread that left a callback without a word may write there at any time. */
	if (!err)
		memory_unmap(r->region, sizeof(*r->region));
	free(r);
}
