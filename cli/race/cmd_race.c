/* SPDX-License-Identifier: MIT */
/*
 * cmd_race.c - `trapline race`: data races of an unmodified program.
 *
 * The agent, which is loaded into the program, does the search. This file reads its
 * records and prints the races while the program runs. The program keeps its terminal,
 * its output and its exit status. A process that was attached to continues after the
 * search.
 */
#include "base/clock.h"
#include "cli/cmd.h"
#include "cli/launch/agent_start.h"
#include "cli/launch/death_log.h"
#include "cli/message.h"
#include "cli/output.h"
#include "cli/race/race_attach.h"
#include "cli/race/race_blind.h"
#include "cli/race/race_focus.h"
#include "cli/race/race_hang.h"
#include "cli/race/race_launch.h"
#include "cli/race/race_length.h"
#include "cli/race/race_outside.h"
#include "cli/race/race_policy.h"
#include "cli/race/race_provoked.h"
#include "cli/race/race_replay.h"
#include "cli/race/race_settings.h"
#include "cli/race/race_undisturbed.h"
#include "cli/race/race_vary.h"
#include "cli/search/search_end.h"
#include "cli/search/search_out.h"
#include "cli/watchdog.h"
#include "host/probe_owner.h"
#include "report/race/race_group.h"
#include "report/race/race_totals.h"
#include "report/safe/target_file.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COMMAND "race"
#define LOOK_EVERY_NS 10000000u
#define LOOK_LATER_NS 50000000u /* each look takes some time from the program */
#define LOOKS_AT_FIRST 20u
#define SURE_AFTER_NS 2000000000u
#define GIVEN_NS 10000000000u /* to a run in progress when the time is over, at least */
#define KILL_AFTER_NS 2000000000u
/* Each inspection of the records takes at most this long, and so does the last one. */
#define READ_FOR_NS 200000000u
#define READ_AT_END_NS 600000000u
#define CATCH_UP_PART 4u
#define STILL_RUNS 3u /* without a new site: then no other will be reached */

struct race_cli {
	struct race_cli_settings set;
	struct race_run run;
	struct race_policy policy;
	struct race_replay_run replay;
	struct death_log deaths;
	struct race_report *report;
	pid_t root; /* whose names of files are meant; 0: those of this process */
	struct search_out out;
	bool has_color;
	struct output terminal; /* the line of progress */
	uint64_t torn;
	uint64_t unlisted; /* records that were too many to be read or kept */
	uint64_t started_ns;
	uint64_t first_ns; /* when the first race that is shown was caught; 0: none */
	uint64_t runs;
	uint64_t reached;    /* sites, at the end of the last run */
	uint64_t still_runs; /* since that was another number */
	struct race_vary vary;
	/* For each value of the first variable: which sites matter in a run depends on it. */
	struct race_focus focus[RACE_VALUES_MAX];
	uint64_t run_ns;     /* when this run began */
	uint64_t stalled_ns; /* that all runs with stalls took */
	struct race_hang hang;
	struct race_provoked provoked;
	struct race_undisturbed undisturbed;
	struct race_length length;
	uint64_t cut_ns; /* when this run got SIGTERM; 0: it did not */
	bool is_hang;	 /* ... since it is considered hung */
	uint64_t runs_cut;
	uint64_t runs_hung;	 /* of those */
	uint64_t rows_at;	 /* processes that had begun when rows were given back */
	struct race_totals gone; /* of processes whose rows were reused */
	bool is_ended;		 /* by a signal to trapline */
	pid_t left_behind;	 /* a process that runs although the program has ended; 0: none */
	bool is_left;		 /* --for: the search has ended, and the program runs on */
	int status;		 /* of the child, as waitpid() gives it; of the first that failed */
	uint64_t shown;		 /* races */
	int blind;		 /* an exit status: no process could be searched */
	int failed;		 /* an exit status: a file could not be written */
	int write_err;		 /* errno of the first write of the report that failed */
	size_t kept;		 /* races written before that */
};

static bool is_in_text(const struct race_cli *c)
{
	return !c->set.json && !c->set.is_sarif;
}

/* The table of processes is large, but a sweep of a shell script fills it. */
static void give_back_rows(struct race_cli *c)
{
	uint64_t count = __atomic_load_n(&c->run.region->process_count, __ATOMIC_RELAXED);

	if (count < RACE_PROCESSES / 2 || count - c->rows_at < RACE_PROCESSES / 16)
		return;
	c->rows_at = count;
	race_give_back_rows(c->run.region, &c->gone);
}

/*
 * For at most so long: a program that writes records without end must not keep the command from
 * its signals and its end.
 */
static void read_records(struct race_cli *c, uint64_t longest_ns)
{
	uint64_t until = clock_now_ns() + longest_ns;
	struct race_record record;
	struct race_view *v;

	race_look(&c->run);
	give_back_rows(c);
	while (clock_now_ns() < until && race_read(c->run.region, &record, &c->torn)) {
		if (race_report_add(c->report, &record, &v)) {
			c->unlisted++;
			continue;
		}
		if (v->is_new)
			snprintf(v->varied, sizeof(v->varied), "%s", c->vary.now);
		if (!c->first_ns && race_verdict(v, c->set.grade_max) == RACE_SHOWN)
			c->first_ns = record.time_ns;
	}
}

/* Counts the races that have arrived. Of the failures to write the first is reported. */
static void count_written(struct race_cli *c, size_t races)
{
	int err = search_out_flush(&c->out);

	c->write_err = c->write_err ? c->write_err : err;
	if (!c->write_err)
		c->kept += races;
}

/*
 * In text as soon as it is sure: what looks like a race at first sight may turn out to be atomic,
 * so grade B waits a moment. JSON lines come at the end, when it is known how often.
 */
static void tell(struct race_cli *c, bool is_over)
{
	uint64_t now = clock_now_ns();

	race_report_settle(c->report);
	race_group_release(c->report, c->set.grade_max);
	for (size_t i = 0; i < race_report_count(c->report); i++) {
		struct race_view *v = race_report_view(c->report, i);

		if (!is_in_text(c) || v->is_told ||
		    race_verdict(v, c->set.grade_max) != RACE_SHOWN ||
		    (!is_over && v->grade > RACE_GRADE_A && now - v->seen_ns < SURE_AFTER_NS))
			continue;
		if (race_group_join(c->report, v, c->set.grade_max))
			continue;
		output_clear_status(&c->terminal);
		race_print_text(c->report, v, c->has_color, c->out.f);
		count_written(c, 1);
	}
	death_log_look(&c->deaths, c->has_color, is_in_text(c) ? c->out.f : NULL);
}

static size_t shown_races(const struct race_cli *c)
{
	size_t verdicts[RACE_VERDICTS];

	race_report_verdicts(c->report, c->set.grade_max, verdicts);
	return verdicts[RACE_SHOWN];
}

/* On a terminal; elsewhere nothing is printed. */
static void show_progress(struct race_cli *c)
{
	uint64_t now = clock_now_ns();
	char run[32] = "";

	if (!output_progress_is_due(&c->terminal))
		return;
	uint64_t stalls = c->gone.counters[RACE_STALLS] + race_live_stalls(c->run.region);
	uint64_t sites = __atomic_load_n(&c->run.region->sites_covered, __ATOMIC_RELAXED);
	size_t races = shown_races(c);
	if (c->set.sweep)
		snprintf(run, sizeof(run), "run %" PRIu64 ", ", c->runs + 1);
	output_progress(&c->terminal,
			"%.0f s: %s%" PRIu64 " stall%s at %" PRIu64 " site%s, %zu race%s; "
			"Ctrl-C ends",
			(double)(now - c->started_ns) / 1e9, run, stalls, stalls == 1 ? "" : "s",
			sites, sites == 1 ? "" : "s", races, races == 1 ? "" : "s");
}

/* The focus of the run in progress. */
static struct race_focus *focus_of(struct race_cli *c)
{
	return &c->focus[c->vary.count ? c->vary.variables[0].at : 0];
}

/*
 * Is there to be another run? The time is compared between runs only: a test that is ended early
 * might look as if it failed.
 */
static bool sweep_continues(struct race_cli *c)
{
	struct race_coverage coverage;

	if (c->set.replay && race_replay_is_seen(&c->replay, c->report, c->runs))
		return false;
	output_clear_status(&c->terminal);
	if (c->set.replay)
		race_replay_widen(&c->replay, c->run.region);
	if (!c->set.sweep || c->is_ended || clock_now_ns() - c->started_ns >= c->set.time_ns)
		return false;
	if (!c->set.until_covered)
		return true;
	if (focus_of(c)->is_on) /* this run was not for sites that were never reached */
		return true;
	race_coverage(c->run.region, c->set.until_covered, &coverage);
	bool is_still = coverage.reached == c->reached && race_vary_all_ran(&c->vary);
	c->still_runs = is_still ? c->still_runs + 1 : 0;
	c->reached = coverage.reached;
	return c->still_runs < STILL_RUNS || coverage.held < coverage.reached;
}

/*
 * When no new run starts any more, a run is ended after twice the time of any before it. Its stalls
 * may make it slow, so it does not count as a hang.
 */
static bool is_late(const struct race_cli *c, uint64_t now, uint64_t *given)
{
	uint64_t over = c->started_ns + c->set.time_ns;

	*given = 2 * c->hang.longest_ns > GIVEN_NS ? 2 * c->hang.longest_ns : GIVEN_NS;
	return c->set.time_ns != UINT64_MAX && now > over &&
	       now - (c->run_ns > over ? c->run_ns : over) > *given;
}

/* Its processes get SIGTERM, and later SIGKILL. The first run of each kind gets a note. */
static void cut_run(struct race_cli *c, uint64_t now, const char *why)
{
	uint64_t before = c->is_hang ? c->runs_hung : c->runs_cut - c->runs_hung;

	c->cut_ns = now;
	output_clear_status(&c->terminal);
	if (!before)
		cli_note(COMMAND,
			 "run %" PRIu64 " is %s, %s: its processes get SIGTERM, and SIGKILL %.0f s "
			 "later",
			 c->runs + 1, c->is_hang ? "considered hung" : "ended", why,
			 (double)KILL_AFTER_NS / 1e9);
	c->runs_cut++;
	c->runs_hung += c->is_hang;
	race_others_signal(&c->run, SIGTERM);
	kill(c->run.pid, SIGTERM);
}

/* A replay is for its stalls alone: it is not ended before its time. */
static void end_if_due(struct race_cli *c)
{
	uint64_t now = clock_now_ns();
	char why[100] = "";
	uint64_t given;

	if (c->cut_ns && now - c->cut_ns > KILL_AFTER_NS) {
		/* A shell that outlives its child for a moment would start the next one. */
		kill(c->run.pid, SIGKILL);
		race_others_signal(&c->run, SIGKILL);
	}
	if (c->cut_ns || !c->set.sweep || c->is_ended)
		return;
	enum race_hang_why hung = race_hang_look(&c->hang, c->run.region, c->run.pid, now);
	c->is_hang = hung != RACE_HANG_NOT;
	if (hung)
		snprintf(why, sizeof(why), "since %s", race_hang_text(hung));
	else if (is_late(c, now, &given))
		snprintf(why, sizeof(why), "%.0f s after %s", (double)given / 1e9,
			 c->set.for_ns ? "--for" : "the last new run was due");
	else if (!c->set.replay && race_length_is_over(&c->length, c->run.region, now))
		snprintf(why, sizeof(why), "since it has reached no new site for long");
	if (*why)
		cut_run(c, now, why);
}

/* Twice: what a process of the run forked at its end is in the table a moment later. */
static void kill_left_behind(const struct race_cli *c)
{
	const struct timespec moment = { 0, 20000000 };

	race_others_signal(&c->run, SIGKILL);
	nanosleep(&moment, NULL);
	race_others_signal(&c->run, SIGKILL);
}

/* Until the next look, a signal, or the end of the process. */
static void wait_for_look(int pidfd, uint64_t looks)
{
	search_pause(pidfd, looks < LOOKS_AT_FIRST ? LOOK_EVERY_NS : LOOK_LATER_NS);
}

/* How the run ended. */
static void note_end(struct race_cli *c, int status)
{
	struct race_run_end end = {
		.run = c->run.region->run,
		.status = c->cut_ns ? 0 : status,
		.is_hang = c->is_hang,
		.ended_ns = c->cut_ns ? c->cut_ns : clock_now_ns(),
		.varied = c->vary.now,
	};

	if (!c->set.sweep || c->is_ended)
		return;
	race_provoked_note(&c->provoked, c->report, c->run.region, &end);
	if (c->set.replay)
		race_replay_ended(&c->replay, c->provoked.last, c->runs);
}

/* Until the program ends, or until the time is over: then is_left is set. */
static int race_wait_for_end(struct race_cli *c)
{
	int pidfd = search_pidfd(c->run.pid);
	bool is_over = false;
	int status = 0;

	c->run_ns = clock_now_ns();
	c->cut_ns = 0;
	c->is_hang = false;
	race_hang_begin(&c->hang, c->run_ns);
	race_length_begin(&c->length, c->run_ns);
	for (uint64_t n = 0; !is_over && !c->is_left; n++) {
		c->is_ended |= watchdog_forward(c->run.pid) != 0;
		is_over = waitpid(c->run.pid, &status, WNOHANG) == c->run.pid;
		c->is_left = !is_over && !c->set.sweep && c->set.for_ns &&
			     clock_now_ns() - c->started_ns >= c->set.for_ns; /* it runs once */
		if (!is_over && !c->is_left)
			end_if_due(c);
		race_pace(&c->set, &c->run);
		read_records(c, READ_FOR_NS);
		tell(c, false);
		show_progress(c);
		if (!is_over && !c->is_left)
			wait_for_look(pidfd, n);
	}
	if (c->is_left || c->set.outside)
		race_command_leave(&c->run);
	if (pidfd >= 0)
		close(pidfd);
	c->runs++;
	uint64_t took = clock_now_ns() - c->run_ns;
	c->stalled_ns += took;
	race_hang_ran(&c->hang, took, c->is_hang);
	note_end(c, status);
	if (c->cut_ns)
		kill_left_behind(c);
	if (c->is_hang)
		return 0;
	race_focus_ran(focus_of(c), took);
	race_vary_ran(&c->vary, took);
	return c->cut_ns ? 0 : status;
}

/* Until the process or the search ends. The process continues after the search. */
static void wait_attached(struct race_cli *c)
{
	uint64_t end_ns = c->set.for_ns ? clock_now_ns() + c->set.for_ns : UINT64_MAX;

	watchdog_printed(&c->shown, " races were printed, and any later ones were not\n");
	watchdog_time(c->set.for_ns);
	for (uint64_t n = 0;
	     !asked_by && !c->write_err && clock_now_ns() < end_ns && !race_attach_is_over(&c->run);
	     n++) {
		read_records(c, READ_FOR_NS);
		tell(c, false);
		show_progress(c);
		wait_for_look(-1, n);
	}
	output_clear_status(&c->terminal);
	c->runs++;
	race_attach_end(&c->run);
}

static int start_race_command(struct race_cli *c)
{
	if (c->set.outside)
		probe_owner_begin();
	death_log_start(&c->deaths);
	int status = race_command_start(&c->set, &c->run);
	death_log_started(&c->deaths);
	return status;
}

static int attach_race(struct race_cli *c)
{
	death_log_attach(&c->deaths, c->set.pid);
	race_report_set_kept(c->report, c->deaths.kept);
	return race_attach_start(&c->set, &c->run);
}

/* The first one shows how long the program takes by itself. */
static void learn_natural_run(struct race_cli *c, uint64_t limit_ns, bool is_cut)
{
	race_length_learn(&c->length, c->undisturbed.longest_ns);
	if (is_cut)
		cli_note(
			COMMAND,
			"the program does not end by itself within %.1f s: its runs are ended once "
			"the sites that they reach were stalled; a longer --for waits longer",
			(double)limit_ns / 1e9);
}

/* Some runs are without stalls: how long the program takes, and how it fails by itself. */
static void run_undisturbed(struct race_cli *c)
{
	bool is_first = !c->undisturbed.ended && !c->undisturbed.cut;
	uint64_t limit_ns =
		race_length_undisturbed_ns(&c->length, &c->undisturbed, c->hang.longest_ns);
	struct race_undisturbed_end end;

	if (c->set.replay || !c->set.sweep ||
	    !race_provoked_is_due(&c->provoked, &c->undisturbed, c->stalled_ns))
		return;
	bool has_run = race_undisturbed_run(&c->undisturbed, c->run.region, c->set.command,
					    limit_ns, &end);
	c->is_ended |= c->undisturbed.is_asked;
	if (!has_run)
		return;
	race_provoked_undisturbed(&c->provoked, &end);
	if (is_first)
		learn_natural_run(c, limit_ns, end.is_cut);
}

/* As many runs without stalls as with them, for at most a part of the time that these took. */
static void catch_up(struct race_cli *c)
{
	uint64_t until = clock_now_ns() + c->stalled_ns / CATCH_UP_PART;

	while (!c->is_ended && clock_now_ns() < until && c->undisturbed.ended &&
	       race_provoked_is_due(&c->provoked, &c->undisturbed, c->stalled_ns))
		run_undisturbed(c);
}

static void run(struct race_cli *c)
{
	struct timespec pause = { 0, LOOK_EVERY_NS };

	c->length.time_ns = c->set.time_ns;
	if (c->set.pid)
		wait_attached(c);
	else
		c->status = race_wait_for_end(c);
	while (sweep_continues(c)) {
		run_undisturbed(c);
		if (c->is_ended)
			break;
		race_vary_choose(&c->vary);
		if (!c->set.replay && !race_provoked_aim(&c->provoked, focus_of(c), c->run.region))
			race_focus_choose(focus_of(c), c->run.region);
		if (start_race_command(c) != CLI_OK)
			break;
		int status = race_wait_for_end(c);

		if (!c->status)
			c->status = status;
	}
	catch_up(c);
	output_clear_status(&c->terminal);
	/* Records that another process is writing just now. */
	if (race_others_search(&c->run))
		nanosleep(&pause, NULL);
	if (!c->set.pid && !c->is_left && !c->set.sweep)
		c->left_behind = death_log_left_behind(&c->deaths);
	read_records(c, READ_AT_END_NS);
	c->unlisted += race_unread(c->run.region);
	tell(c, true);
	race_replay_is_seen(&c->replay, c->report, c->runs);
}

static int exit_status(const struct race_cli *c)
{
	const struct search_exit e = {
		.has_found = c->shown || race_provoked_count(&c->provoked),
		.error_exitcode = c->set.error_exitcode,
		.is_baseline_written = c->set.known.write_baseline,
		.child = race_provoked_status(&c->provoked, c->status, c->set.known.write_baseline),
		.blind = c->blind,
		.failed = c->failed,
	};

	return search_exit_status(&e);
}

static void race_sum_up(struct race_cli *c, struct race_totals *t)
{
	*t = c->gone;
	t->torn = c->torn;
	t->unlisted = c->unlisted;
	t->runs = c->runs;
	t->runs_cut = c->runs_cut;
	t->runs_hung = c->runs_hung;
	t->is_varied = c->vary.count != 0;
	t->failures = race_provoked_count(&c->provoked);
	t->wall_ns = clock_now_ns() - c->started_ns;
	if (c->first_ns > c->started_ns)
		t->first_race_ns = c->first_ns - c->started_ns;
	if (c->run.was_stopped)
		t->stopped = "the process was stopped (SIGSTOP, or a debugger)";
	else if (c->left_behind)
		t->stopped = "the program continues in the background";
	race_totals(c->run.region, t);
	race_count_sites(c->run.region, c->root, t);
}

static void print_end(struct race_cli *c, const struct race_totals *t)
{
	const struct race_summary_options how = {
		.overhead = c->set.overhead,
		.grade_max = c->set.grade_max,
		.is_verbose = c->set.verbose != 0,
		.command = c->set.command,
		.is_endless = c->is_left || c->is_ended || c->left_behind,
	};

	if (c->set.json || c->set.is_sarif)
		race_group_all(c->report, c->set.grade_max);
	for (size_t i = 0; c->set.json && i < race_report_count(c->report); i++) {
		const struct race_view *v = race_report_view(c->report, i);

		if (v->head || race_verdict(v, c->set.grade_max) != RACE_SHOWN)
			continue;
		race_print_json(c->report, v, c->out.f);
		count_written(c, 1);
	}
	c->blind = race_say_blindness(t);
	race_say_refusal(c->run.region, t);
	if (c->set.is_sarif)
		return;
	(c->set.json ? race_provoked_json : race_provoked_text)(&c->provoked, c->report, c->out.f);
	(c->set.json ? race_vary_json : race_vary_text)(&c->vary, c->out.f);
	if (c->set.replay)
		(c->set.json ? race_replay_json : race_replay_text)(&c->replay, c->run.region, t,
								    c->out.f);
	if (c->set.json)
		race_summary_json(c->report, t, c->set.grade_max, c->out.f);
	else
		race_summary_text(c->report, t, &how, c->out.f);
	if (!c->set.json)
		race_outside_text(&c->run.outside, c->set.verbose, c->out.f);
	count_written(c, 0);
}

static int say_loss(const struct race_cli *c)
{
	cli_wrong(COMMAND, "cannot write %s: %s; %zu of %zu races were kept%s", c->out.name,
		  strerror(c->write_err), c->kept, c->shown,
		  c->set.is_sarif ? ", none in SARIF" : "");
	return CLI_NO;
}

/* A sweep states itself how its runs ended. Beside SARIF a death is printed as text. */
static void race_tell_end(struct race_cli *c)
{
	const struct death_end end = {
		.program = c->set.program,
		.pid = c->run.pid,
		.is_attached = c->set.pid != 0,
		.status = c->is_left || c->set.sweep ? 0 : c->status,
		.has_ended = c->left_behind != 0,
		.is_asked = asked_times || c->is_ended,
		.is_json = c->set.json != 0,
		.has_color = c->has_color,
		.out = c->set.is_sarif ? stderr : c->out.f,
	};

	death_log_end(&c->deaths, &end);
	struct race_death death = { .pid = end.pid };
	death.signal = death_log_fault(&c->deaths, end.pid, end.status, &death.time_ns);
	if (death.signal && !c->set.sweep)
		race_provoked_death(c->report, c->run.region, &death, end.is_json, end.out);
}

static void race_finish(struct race_cli *c)
{
	const struct death *deaths[DEATH_LOG_MAX];
	struct race_totals totals;
	struct race_end end = {
		.totals = &totals,
		.failures = &c->provoked.all,
		.child_status = c->status,
		.is_running = c->is_left,
	};

	end.deaths = deaths;
	end.death_count = death_log_list(&c->deaths, deaths);
	race_failures_settle(&c->provoked.all, c->policy.baseline);
	race_sum_up(c, &totals);
	c->shown = shown_races(c);
	race_tell_end(c);
	print_end(c, &totals);
	end.blind = c->blind ? "No process could be searched, so a missing report means nothing." :
			       NULL;
	int err = c->set.is_sarif ? race_policy_sarif(&c->set, c->report, &end, c->out.f) : 0;
	c->write_err = c->write_err ? c->write_err : -err;
	c->failed = race_policy_end(&c->set, c->report, &end);
	count_written(c, 0);
	if (c->write_err)
		c->failed = say_loss(c);
}

static void race_release(struct race_cli *c)
{
	race_report_close(c->report);
	death_log_close(&c->deaths);
	race_policy_close(&c->policy);
	race_vary_close(&c->vary);
	race_region_close(&c->run);
	search_out_close(&c->out);
	fflush(stdout);
}

int cmd_race(int argc, char **argv)
{
	struct race_cli c = { .run.memory = AGENT_REGION_NONE,
			      .run.ticks = RACE_TICKS_NONE,
			      .run.members.map_fd = -1,
			      .run.cpus = RACE_CPUS_NONE,
			      .deaths = DEATH_LOG_NONE };
	int status = race_settings_read(&c.set, argc, argv);

	if (status)
		return status < 0 ? CLI_OK : status;
	status = c.set.outside ? CLI_OK : agent_is_for_this(COMMAND);
	if (status)
		return status;
	c.provoked.program = basename(c.set.program);
	status = race_vary_open(&c.set.vary, &c.vary);
	if (!status)
		status = race_replay_open(&c.set, &c.replay);
	if (!status)
		status = race_vary_like(&c.vary, c.replay.race.varied);
	if (!status)
		status = race_policy_open(&c.set, &c.policy);
	if (!status)
		status = search_out_open(&c.out, COMMAND, c.set.output, is_in_text(&c));
	if (!status)
		status = race_region_open(&c.set, &c.run);
	if (!status)
		status = race_replay_arm(&c.set, &c.replay, c.run.region);
	if (!status && race_report_open(c.run.region, &c.report))
		status = cli_wrong(COMMAND, "out of memory");
	if (!status)
		race_report_set_policy(c.report, &c.policy);
	if (!status && c.set.pid && target_file_is_foreign(c.set.pid))
		c.root = c.set.pid;
	if (!status)
		race_report_set_root(c.report, c.root);
	output_open(&c.terminal, COMMAND, NULL, 0);
	c.has_color = !status && c.terminal.text.has_color && c.out.is_terminal;
	watchdog_start(COMMAND, true);
	race_vary_choose(&c.vary);
	if (!status)
		death_log_open(&c.deaths, COMMAND);
	c.started_ns = clock_now_ns();
	agent_call_until(&asked_by, c.started_ns, c.set.for_ns);
	if (c.set.pid && !c.set.outside)
		output_progress(&c.terminal, "loading the agent into process %d", c.set.pid);
	if (!status)
		status = c.set.pid ? attach_race(&c) : start_race_command(&c);
	if (!status) {
		run(&c);
		race_finish(&c);
		if (c.is_left)
			c.is_ended |= search_wait_for_program(COMMAND, "the search", c.set.program,
							      c.run.pid, &c.status);
		status = exit_status(&c);
	} else if (c.run.pid) {
		race_tell_end(&c); /* it may have died in the meantime */
	}
	race_release(&c);
	return status;
}
