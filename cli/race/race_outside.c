/* SPDX-License-Identifier: MIT */
/*
 * race_outside.c - see race_outside.h.
 *
 * The region that a search inside shares with its processes is the command's alone here. What the
 * engine (src/outside/outside.c) catches is written there as the detector writes it. So all that
 * follows is the same.
 */
#include "cli/race/race_outside.h"

#include "cli/launch/program.h"
#include "cli/launch/start.h"
#include "cli/message.h"
#include "cli/race/race_launch.h"
#include "cli/race/race_outside_record.h"
#include "outside/outside.h"
#include "report/dwarf/symbols.h"
#include "report/plural.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COMMAND "race"
#define THREADS_MOST 4096u
#define START_ATTACHED_NS 4000000u
#define START_COMMAND_NS 12000000u /* it may not run for long */

int race_outside_check(const struct race_cli_settings *set)
{
	if (!set->outside)
		return CLI_OK;
	if (set->inside)
		return cli_wrong(COMMAND, "cannot search both --inside and --outside: give one of "
					  "them");
	if (set->sweep || set->replay || set->heap)
		return cli_wrong(COMMAND,
				 "cannot combine --outside with --%s, which needs the detector in "
				 "the process; leave one of them out",
				 set->sweep  ? "sweep" :
				 set->replay ? "replay" :
					       "heap");
	if (geteuid())
		return cli_wrong(COMMAND, "cannot search from outside: probes in other processes "
					  "are for root; run as root, or without --outside");
	return CLI_OK;
}

static int outside_refuse(const struct race_outside *x, int err, const char *why)
{
	return cli_wrong(COMMAND, "cannot search process %d from outside: %s (%s)", x->pid, why,
			 strerror(-err));
}

static int open_engine(const struct race_cli_settings *set, struct race_run *run)
{
	struct race_outside *x = &run->outside;
	const struct outside_settings settings = {
		.pid = run->pid,
		.region = run->region,
		.budget_ppm = set->budget_ppm,
		.delay_ns = set->delay_ns,
		.start_ns = set->pid ? START_ATTACHED_NS : START_COMMAND_NS,
	};
	const char *why;

	x->pid = run->pid;
	x->region = run->region;
	x->row = race_add_process(run->region, run->pid);
	int err = outside_open(&settings, &x->engine, &why);
	if (!err) {
		why = "its symbols cannot be read";
		err = symbols_open(run->pid, &x->symbols);
	}
	if (!err)
		err = outside_start(x->engine, &why);
	if (err)
		return outside_refuse(x, err, why);
	struct outside_sums s;
	outside_sum_up(x->engine, &s);
	run->region->settings.is_by_sites = s.is_by_sites;
	x->row->watches = !s.is_by_sites;
	return CLI_OK;
}

int race_outside_attach(const struct race_cli_settings *set, struct race_run *run)
{
	uint64_t end;

	run->pid = set->pid;
	if (program_state(run->pid) == PROGRAM_IS_MISSING)
		return cli_wrong(COMMAND, "there is no process %d", run->pid);
	run->memory_fd = program_open_memory(run->pid);
	program_mapping(run->pid, NULL, 0, &run->probe, &end);
	int status = open_engine(set, run);
	if (!status)
		race_note_cpus(run->pid);
	return status;
}

int race_outside_command(const struct race_cli_settings *set, struct race_run *run)
{
	int status = start_command(COMMAND, set->command, &run->pid);

	if (status)
		return status;
	run->region->run++;
	run->memory_fd = -1;
	status = open_engine(set, run);
	if (status) {
		start_kill(run->pid);
		run->pid = 0;
		return status;
	}
	start_go(run->pid);
	return CLI_OK;
}

static void fill_row(struct race_outside *x)
{
	static const struct {
		enum race_counter to;
		enum outside_count from;
	} counts[] = {
		{ RACE_SITE_HITS, OUTSIDE_COUNT_HITS },
		{ RACE_SITE_HITS_EARLY, OUTSIDE_COUNT_EARLY },
		{ RACE_SITE_HITS_BUSY, OUTSIDE_COUNT_BUSY },
		{ RACE_SITE_HITS_SKIPPED, OUTSIDE_COUNT_SKIPPED },
		{ RACE_STALLS_STACK, OUTSIDE_COUNT_STACK },
		{ RACE_STALLS_CONSTANT, OUTSIDE_COUNT_NO_ADDRESS },
		{ RACE_STALLS_REFUSED, OUTSIDE_COUNT_UNARMED },
		{ RACE_STALLS, OUTSIDE_COUNT_STALLS },
		{ RACE_HITS, OUTSIDE_COUNT_WATCH_HITS },
		{ RACE_HITS_OWN, OUTSIDE_COUNT_WATCH_OWN },
		{ RACE_HITS_MORE, OUTSIDE_COUNT_WATCH_LATE },
	};
	struct outside_sums s;

	outside_sum_up(x->engine, &s);
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		x->row->counters[counts[i].to] = s.counts[counts[i].from];
	x->row->counters[RACE_CHANGES_UNSURE] = s.changed;
	x->row->stalled_ns = s.counts[OUTSIDE_COUNT_HELD_NS];
	x->row->spent_ns = s.spent_ns;
	x->row->run_ns = s.run_ns;
	x->row->is_on_cpus = s.is_on_cpus;
}

static void count_threads(struct race_outside *x)
{
	static pid_t tids[THREADS_MOST];
	size_t count = program_threads(x->pid, tids, THREADS_MOST);

	if (count > x->row->most_threads)
		x->row->most_threads = (uint32_t)count;
}

static void take_caught(struct race_outside *x)
{
	for (struct outside_caught *c; (c = outside_next(x->engine));) {
		race_outside_record(x, c);
		free(c);
	}
}

void race_outside_look(struct race_outside *x)
{
	if (!x->engine)
		return;
	count_threads(x);
	take_caught(x);
	fill_row(x);
}

void race_outside_end(struct race_outside *x)
{
	if (!x->engine)
		return;
	outside_stop(x->engine);
	take_caught(x);
	fill_row(x);
	x->row->state = RACE_PROCESS_ENDED;
}

void race_outside_detach(struct race_run *run)
{
	run->was_stopped |= program_is_stopped(run->pid);
	race_outside_end(&run->outside);
	if (program_is_gone(run->memory_fd, run->probe))
		cli_note(COMMAND, "process %d has ended, or has executed another program",
			 run->pid);
	else
		cli_note(COMMAND, "detached from process %d; nothing of the search is in it",
			 run->pid);
	if (run->memory_fd >= 0)
		close(run->memory_fd);
}

void race_outside_close(struct race_outside *x)
{
	outside_close(x->engine);
	symbols_close(x->symbols);
	x->engine = NULL;
	x->symbols = NULL;
}

/* ---- how far it came ---- */

static double share_of(uint64_t part, uint64_t all)
{
	return all ? 100.0 * (double)part / (double)all : 100.0;
}

static void print_losses(const struct outside_sums *s, FILE *f)
{
	const struct {
		uint64_t n;
		const char *what;
	} losses[] = {
		{ s->counts[OUTSIDE_COUNT_UNARMED], "stalls given up, as the watch came too late" },
		{ s->changed, "values changed by an access that was not seen" },
		{ s->lost, "pairs without room" },
		{ s->refused, "sites refused by the kernel" },
		{ s->no_room, "sites without room in their turn" },
		{ s->critical, "objects left out, for their restartable sequences" },
		{ s->nameless, "static programs without symbols" },
		{ s->unmapped, "mappings left out, with code made at run time" },
	};
	const char *comma = "not searched or lost: ";

	for (size_t i = 0; i < sizeof(losses) / sizeof(losses[0]); i++) {
		if (!losses[i].n)
			continue;
		fprintf(f, "%s%" PRIu64 " %s", comma, losses[i].n, losses[i].what);
		comma = ", ";
	}
	if (*comma == ',')
		fputc('\n', f);
}

void race_outside_text(struct race_outside *x, int is_verbose, FILE *f)
{
	struct outside_sums s;

	if (!x->engine)
		return;
	outside_sum_up(x->engine, &s);
	fprintf(f,
		"searched from outside: %" PRIu64 " of %" PRIu64
		" functions had their turn (%.0f%%), in %" PRIu64 " turn%s; cost %.2f%%\n",
		s.turned, s.functions, share_of(s.turned, s.functions), s.turns, plural(s.turns),
		share_of(s.spent_ns, s.run_ns));
	if (s.is_by_sites)
		fputs("no debug register of this machine works: accesses meet only where both have "
		      "a probe; the C library and locked instructions have none\n",
		      f);
	if (s.left_out)
		fprintf(f, "left out: %" PRIu64 " function%s of %s\n", s.left_out,
			plural(s.left_out),
			s.is_go ?
				"Go's runtime (packages runtime, sync, internal, reflect, syscall)" :
				"runtimes and the C library");
	print_losses(&s, f);
	if (is_verbose)
		fprintf(f,
			"probes: %" PRIu64 " set, %" PRIu64 " hits of %.1f us, %" PRIu64
			" turn%s ended early by hot code; CPUs were occupied for %.1f ms, %.1f ms of "
			"that until the watch was there\n",
			s.sites, s.counts[OUTSIDE_COUNT_HITS], (double)s.hit_ns / 1e3, s.turns_hot,
			plural(s.turns_hot), (double)s.counts[OUTSIDE_COUNT_HELD_NS] / 1e6,
			(double)s.counts[OUTSIDE_COUNT_ARM_NS] / 1e6);
}
