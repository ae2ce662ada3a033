/* SPDX-License-Identifier: MIT */
/* race_failure.c - see race_failure.h. */
#include "report/race/race_failure.h"

#include "report/finding/baseline.h"
#include "report/finding/finding_place.h"
#include "report/plural.h"
#include "report/race/race_chance.h"
#include "report/race/race_json.h"
#include "report/run/run.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* Hundreds of sweeps of programs that fail by themselves blame hardly one stall. */
#define CHANCE_MAX 0.002

bool race_outcome(int status, bool is_hang, char *text, size_t n)
{
	*text = '\0';
	if (is_hang)
		snprintf(text, n, "a hang");
	else if (WIFSIGNALED(status) && sigabbrev_np(WTERMSIG(status)))
		snprintf(text, n, "killed by SIG%s", sigabbrev_np(WTERMSIG(status)));
	else if (WIFSIGNALED(status))
		snprintf(text, n, "killed by signal %d", WTERMSIG(status));
	else if (WEXITSTATUS(status))
		snprintf(text, n, "exit status %d", WEXITSTATUS(status));
	return *text;
}

/*
 * A copy of the row; false: it is being written, or of another run. The process may write it in the
 * meantime.
 */
static bool copy_row(const struct race_last_stall *row, uint64_t run, struct race_last_stall *out)
{
	uint64_t ready = __atomic_load_n(&row->ready, __ATOMIC_ACQUIRE);

	if (!ready)
		return false;
	memcpy(out, row, sizeof(*out));
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return __atomic_load_n(&row->ready, __ATOMIC_RELAXED) == ready && out->run == run;
}

static void name_failure(struct race_failure *failure)
{
	uint64_t hash = finding_hash(HASH_START, failure->outcome);

	hash = finding_hash(hash, failure->stall.fingerprint);
	finding_fingerprint(hash, failure->fingerprint);
}

void race_failure_name(struct race_failure *failure, const char *program)
{
	uint64_t hash = finding_hash(HASH_START, "failure");

	hash = finding_hash(hash, program);
	hash = finding_hash(hash, failure->outcome);
	finding_fingerprint(hash, failure->known_as);
}

/*
 * The rate of all runs with stalls counts, or that of the runs for the sites before it, whichever
 * shows more. These are two chances to be wrong.
 */
double race_failure_chance(const struct race_failures *all, const struct race_failure *failure)
{
	const struct race_rate without = { failure->undisturbed, all->undisturbed_runs };
	double any = race_chance((struct race_rate){ failure->runs, all->runs }, without);
	double aimed =
		race_chance((struct race_rate){ failure->aimed, failure->aimed_runs }, without);
	double least = any < aimed ? any : aimed;

	if (!failure->aimed_runs)
		return any;
	return least < 0.5 ? 2 * least : 1;
}

/* A program that fails so by itself, as often or nearly so, shows nothing new. */
bool race_failure_is_provoked(const struct race_failures *all, const struct race_failure *failure)
{
	return failure->stalls && race_failure_chance(all, failure) < CHANCE_MAX;
}

bool race_failure_is_new(const struct race_failures *all, const struct race_failure *failure)
{
	return race_failure_is_provoked(all, failure) && !failure->is_baselined;
}

void race_failures_settle(struct race_failures *all, struct baseline *b)
{
	for (size_t i = 0; i < all->count; i++)
		if (race_failure_is_provoked(all, &all->rows[i]))
			all->rows[i].is_baselined = baseline_see(b, all->rows[i].known_as);
}

int race_failures_add(const struct race_failures *all, struct baseline *b, size_t *added)
{
	char text[120];
	int err = 0;

	*added = 0;
	for (size_t i = 0; i < all->count && !err; i++) {
		const struct race_failure *failure = &all->rows[i];

		snprintf(text, sizeof(text), "failure: %s", failure->outcome);
		if (race_failure_is_provoked(all, failure))
			err = baseline_add(b, failure->known_as, text, added);
	}
	return err;
}

/* How long the stall was, until the end of the run at most. */
static uint64_t length_of(const struct race_last_stall *row, uint64_t ended_ns)
{
	bool has_ended = row->ended == row->ready && row->ended_ns < ended_ns &&
			 row->ended_ns > row->record.time_ns;

	return (has_ended ? row->ended_ns : ended_ns) - row->record.time_ns;
}

/* The last stall of the run; the longest one before it, at another site. They may be NULL. */
static void choose_stalls(const struct race_last_stall *rows, size_t n, uint64_t ended_ns,
			  const struct race_last_stall **last,
			  const struct race_last_stall **longest)
{
	*last = *longest = NULL;
	for (size_t i = 0; i < n; i++)
		if (!*last || rows[i].record.time_ns > (*last)->record.time_ns)
			*last = &rows[i];
	for (size_t i = 0; i < n; i++)
		if (rows[i].record.first.frames[0] != (*last)->record.first.frames[0] &&
		    (!*longest || length_of(&rows[i], ended_ns) > length_of(*longest, ended_ns)))
			*longest = &rows[i];
}

static void describe_stall(struct race_report *r, const struct race_last_stall *last,
			   const struct race_last_stall *longest, uint64_t ended_ns,
			   struct race_failure *out)
{
	struct race_record record = last->record;

	memset(&record.second, 0, sizeof(record.second));
	if (longest)
		record.second = longest->record.first;
	record.has_heap = 0;
	record.flags = longest ? 0 : RACE_UNKNOWN_ORIGIN;
	memset(&out->stall, 0, sizeof(out->stall));
	race_describe(r, &record, &out->stall);
	out->before_ns[0] = ended_ns - last->record.time_ns;
	out->stalled_ns[0] = length_of(last, ended_ns);
	if (longest) {
		out->before_ns[1] = ended_ns - longest->record.time_ns;
		out->stalled_ns[1] = length_of(longest, ended_ns);
	}
	out->stalls = longest ? 2 : 1;
	name_failure(out);
}

void race_failure_stalls(struct race_report *r, const struct race_region *region, uint64_t run,
			 uint64_t ended_ns, struct race_failure *out)
{
	struct race_last_stall *rows = calloc(RACE_LAST_STALLS, sizeof(*rows));
	const struct race_last_stall *longest;
	const struct race_last_stall *last;
	size_t n = 0;

	out->stalls = 0;
	for (uint32_t i = 0; rows && i < RACE_LAST_STALLS; i++)
		n += copy_row(&region->last_stalls[i], run, &rows[n]) &&
		     rows[n].record.time_ns <= ended_ns;
	choose_stalls(rows, n, ended_ns, &last, &longest);
	if (last)
		describe_stall(r, last, longest, ended_ns, out);
	free(rows);
}

static void print_stall(struct race_report *r, const struct race_failure *failure, unsigned int i,
			FILE *f)
{
	const struct race_view *v = &failure->stall;
	char when[160];

	snprintf(when, sizeof(when), "%s in run %" PRIu64 ": for %.1f ms, %.1f ms before the end",
		 i ? "the longest stall before it" : "the last stall", failure->first_run,
		 (double)failure->stalled_ns[i] / 1e6, (double)failure->before_ns[i] / 1e6);
	race_print_side(r, i ? &v->record.second : &v->record.first, i ? &v->second : &v->first,
			when, f);
}

void race_failure_text(struct race_report *r, const struct race_failures *all,
		       const struct race_failure *failure, FILE *f)
{
	fprintf(f, "failure: %s in %" PRIu64 " of %" PRIu64 " run%s with stalls, and in ",
		failure->outcome, failure->runs, all->runs, plural(all->runs));
	if (failure->undisturbed)
		fprintf(f, "%" PRIu64, failure->undisturbed);
	else
		fputs("none", f);
	fprintf(f, " of %" PRIu64 " without", all->undisturbed_runs);
	if (failure->fingerprint[0])
		fprintf(f, " [%s]", failure->fingerprint);
	if (failure->aimed_runs)
		fprintf(f, "\n  later runs for the sites below alone: %" PRIu64 " of %" PRIu64,
			failure->aimed, failure->aimed_runs);
	fprintf(f, "\n  chance alone gives such a difference with a probability of %.2g\n",
		race_failure_chance(all, failure));
	for (unsigned int i = 0; i < failure->stalls; i++)
		print_stall(r, failure, i, f);
	fputc('\n', f);
}

static json_t *stall_of(struct race_report *r, const struct race_failure *failure, unsigned int i)
{
	const struct race_record *record = &failure->stall.record;

	if (i >= failure->stalls)
		return json_null();
	json_t *j = race_json_side(r, &failure->stall, i ? &record->second : &record->first);
	json_object_set_new(j, "stalled_ns", json_integer((json_int_t)failure->stalled_ns[i]));
	json_object_set_new(j, "before_end_ns", json_integer((json_int_t)failure->before_ns[i]));
	return j;
}

void race_failure_json(struct race_report *r, const struct race_failures *all,
		       const struct race_failure *failure, FILE *f)
{
	const struct finding head = {
		.type = "failure",
		.kind = failure->outcome,
		.fingerprint = failure->fingerprint,
		.count = failure->runs,
		.pid = failure->stall.record.pid,
	};
	json_t *j = finding_json(&head);

	json_object_set_new(j, "first", stall_of(r, failure, 0));
	json_object_set_new(j, "second", stall_of(r, failure, 1));
	json_object_set_new(j, "known_as", json_string(failure->known_as));
	json_object_set_new(j, "runs", json_integer((json_int_t)all->runs));
	json_object_set_new(j, "first_run", json_integer((json_int_t)failure->first_run));
	json_object_set_new(j, "undisturbed_failed",
			    json_integer((json_int_t)failure->undisturbed));
	json_object_set_new(j, "undisturbed_runs", json_integer((json_int_t)all->undisturbed_runs));
	json_object_set_new(j, "aimed_runs", json_integer((json_int_t)failure->aimed_runs));
	json_object_set_new(j, "aimed_failed", json_integer((json_int_t)failure->aimed));
	json_object_set_new(j, "chance", json_real(race_failure_chance(all, failure)));
	json_object_set_new(j, "varied",
			    failure->stalls ? race_json_varied(&failure->stall) : json_null());
	run_jsonl_line(f, j);
}

void race_failure_death_text(struct race_report *r, const struct race_failure *failure, FILE *f)
{
	const struct race_view *v = &failure->stall;
	char when[160];

	fprintf(f,
		"%s right after a stall: a program with races can end otherwise than without "
		"stalls; run it alone to compare\n",
		failure->outcome);
	snprintf(when, sizeof(when), "stalled before it for %.1f ms, %.1f ms before the death",
		 (double)failure->stalled_ns[0] / 1e6, (double)failure->before_ns[0] / 1e6);
	race_print_side(r, &v->record.first, &v->first, when, f);
	fputc('\n', f);
}

void race_failure_death_json(struct race_report *r, const struct race_failure *failure, FILE *f)
{
	json_t *j = json_object();

	json_object_set_new(j, "type", json_string("stall_before_death"));
	json_object_set_new(j, "kind", json_string(failure->outcome));
	json_object_set_new(j, "pid", json_integer(failure->stall.record.pid));
	json_object_set_new(j, "first", stall_of(r, failure, 0));
	run_jsonl_line(f, j);
}
