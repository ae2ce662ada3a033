/* SPDX-License-Identifier: MIT */
/*
 * cmd_heap.c - `trapline heap`: heap errors of a program, caught in the act.
 *
 * The object that is preloaded gives some blocks guards, and writes errors into memory that the
 * processes share with this command. This command starts the program, reads them, and explains
 * them.
 */
#include "base/atomic.h"
#include "base/clock.h"
#include "base/own_proc.h"
#include "cli/cmd.h"
#include "cli/heap/heap_attach.h"
#include "cli/heap/heap_settings.h"
#include "cli/launch/agent_start.h"
#include "cli/launch/death_log.h"
#include "cli/message.h"
#include "cli/output.h"
#include "cli/search/known_errors.h"
#include "cli/search/search_end.h"
#include "cli/search/search_out.h"
#include "cli/terminal.h"
#include "cli/watchdog.h"
#include "report/heap/heap_report.h"
#include "report/plural.h"
#include "report/safe/private_file.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define COMMAND "heap"
#define REGION_NAME "trapline-heap"
#define OBJECT "libtrapline-guard.so"
#define ALLOWANCE_NS 10000000u
#define LOOK_EVERY_NS 10000000
#define LOOK_AT_FIRST_NS 1000000
#define LOOKS_AT_FIRST 100u

struct heap_cli {
	struct heap_cli_settings set;
	struct agent_region memory;
	struct heap_region *region;
	struct heap_report *report;
	struct known_errors known;
	struct search_out out;
	bool has_color;
	struct output terminal; /* the line of progress */
	uint64_t started_ns;
	uint64_t torn;
	uint64_t unlisted;
	struct heap_attach attach;
	struct death_log deaths;
	bool is_asked; /* the command, to end */
	pid_t pid;
	int status; /* of the child, as waitpid() gives it */
};

static int make_heap_region(struct heap_cli *c)
{
	const char *guards = getenv("TRAPLINE_GUARDS");
	const int status =
		agent_region_open(COMMAND, REGION_NAME, HEAP_MAGIC, sizeof(*c->region), &c->memory);

	if (status)
		return status;
	c->region = (struct heap_region *)c->memory.head;
	c->region->settings = (struct heap_settings){
		.budget_ppm = c->set.budget_ppm,
		.allowance_ns = ALLOWANCE_NS,
		.first = c->set.first,
		.seed = c->set.seed,
		.user = geteuid(),
		.has_family = c->set.pid != 0,
		.align = c->set.align,
		.does_stop = (uint64_t)c->set.stop,
		.growth = (uint64_t)c->set.growth,
		.no_regions = !strcmp(guards ? guards : "", "mprotect"),
	};
	if (heap_report_open(c->region, &c->report))
		return cli_wrong(COMMAND, "out of memory");
	if (c->set.pid)
		heap_report_set_root(c->report, c->set.pid);
	heap_report_set_policy(c->report, c->known.suppressions, c->known.baseline);
	return CLI_OK;
}

static int keep_heap_baseline(struct heap_cli *c)
{
	size_t added;

	if (!known_is_written(&c->set.known))
		return CLI_OK;
	int err = heap_baseline_write(c->known.baseline, c->report, c->set.known.baseline, &added);
	if (err)
		return search_file_end(COMMAND, c->set.known.baseline, NULL, err);
	cli_note(COMMAND, "%zu error%s written to the baseline %s", added, plural(added),
		 c->set.known.baseline);
	return CLI_OK;
}

static int write_heap_sarif(struct heap_cli *c, const struct heap_totals *t, bool is_blind)
{
	const struct death *deaths[DEATH_LOG_MAX];
	struct sarif_run run = {
		.program = c->set.command ? c->set.command[0] : c->set.program,
		.blind = is_blind ? "no block was sampled" : NULL,
		.is_running = c->set.pid != 0,
		.deaths = deaths,
		.death_count = death_log_list(&c->deaths, deaths),
	};
	FILE *f = private_file(c->set.known.sarif);

	search_sarif_run(&run, t->wall_ns, c->status);
	int err = f ? heap_print_sarif(c->report, t, &run, c->known.baseline != NULL, f) : -errno;
	return search_file_end(COMMAND, c->set.known.sarif, f, err);
}

/* ---- the run ---- */

static void read_errors(struct heap_cli *c)
{
	struct heap_record record;

	/* A program that makes errors without end must not keep the command from its end. */
	for (uint32_t n = 0; n < HEAP_RECORDS && heap_read(c->region, &record, &c->torn); n++)
		if (heap_report_add(c->report, &record))
			c->unlisted++;
}

/* Text as soon as it is there; JSON lines at the end, when it is known how often. */
static void tell_errors(struct heap_cli *c)
{
	for (size_t i = 0; !c->set.json && i < heap_report_count(c->report); i++) {
		struct heap_view *v = heap_report_view(c->report, i);

		if (v->is_told || !heap_is_shown(v))
			continue;
		v->is_told = true;
		output_clear_status(&c->terminal);
		heap_print_text(c->report, v, c->has_color, c->out.f);
		search_out_flush(&c->out);
	}
	/* An error ends the program by its fault, which is the error. */
	c->deaths.is_silent = c->set.stop && heap_report_count(c->report);
	death_log_look(&c->deaths, c->has_color, c->set.json ? NULL : c->out.f);
}

/*
 * On a terminal; elsewhere nothing is printed. A program that was started has the terminal for
 * itself.
 */
static void show_samples(struct heap_cli *c)
{
	uint64_t now = clock_now_ns();
	size_t errors = 0;

	if (!c->set.pid || !output_progress_is_due(&c->terminal))
		return;
	for (size_t i = 0; i < heap_report_count(c->report); i++)
		errors += heap_is_shown(heap_report_view(c->report, i));
	uint64_t blocks = counter_get(&c->region->counters[HEAP_SAMPLED]);
	output_progress(&c->terminal,
			"%.0f s: %" PRIu64 " block%s sampled, %zu error%s; Ctrl-C ends",
			(double)(now - c->started_ns) / 1e9, blocks, plural(blocks), errors,
			plural(errors));
}

static bool is_time_over(const struct heap_cli *c)
{
	return c->set.for_ns && clock_now_ns() - c->started_ns >= c->set.for_ns;
}

/* A command gets the signals; a process that ran before is left. */
static bool is_run_over(struct heap_cli *c, int pidfd)
{
	struct pollfd end = { .fd = pidfd, .events = POLLIN };

	if (c->set.pid)
		return asked_by || is_time_over(c) || poll(&end, 1, 0) > 0;
	watchdog_forward(c->pid);
	if (is_time_over(c) && !c->is_asked) {
		c->is_asked = true;
		kill(c->pid, SIGTERM);
	}
	return waitpid(c->pid, &c->status, WNOHANG) == c->pid;
}

static void heap_wait_for_end(struct heap_cli *c)
{
	int pidfd = search_pidfd(c->pid);

	for (uint64_t n = 0;; n++) {
		bool is_over = is_run_over(c, pidfd);
		read_errors(c);
		tell_errors(c);
		if (is_over)
			break;
		show_samples(c);
		search_pause(pidfd, n < LOOKS_AT_FIRST ? LOOK_AT_FIRST_NS : LOOK_EVERY_NS);
	}
	output_clear_status(&c->terminal);
	if (pidfd >= 0)
		close(pidfd);
	if (c->set.pid)
		heap_attach_end(&c->attach, c->region, c->pid);
	read_errors(c);
	tell_errors(c);
}

/* ---- the end ---- */

static void count_views(const struct heap_cli *c, struct heap_totals *t)
{
	for (size_t i = 0; i < heap_report_count(c->report); i++) {
		const struct heap_view *v = heap_report_view(c->report, i);

		t->errors += heap_is_shown(v);
		t->suppressed += v->suppressed != NULL;
		t->baselined += !v->suppressed && v->is_baselined;
	}
}

/* A run without a sample must not look like one without errors. */
static int heap_say_blindness(const struct heap_cli *c, const struct heap_totals *t)
{
	const char *why = c->region->run.why;

	if (t->counters[HEAP_SAMPLED] && t->counters[HEAP_REFUSED])
		cli_note(COMMAND, "%" PRIu64 " process%s not sampled: %.*s",
			 t->counters[HEAP_REFUSED],
			 t->counters[HEAP_REFUSED] == 1 ? " was" : "es were",
			 (int)strnlen(why, sizeof(c->region->run.why)), why);
	if (t->counters[HEAP_SAMPLED])
		return CLI_OK;
	if (t->counters[HEAP_REFUSED])
		return cli_wrong(COMMAND,
				 "cannot sample blocks of %s: %.*s; raise the limits of memory",
				 c->set.program, (int)strnlen(why, sizeof(c->region->run.why)),
				 why);
	if (t->counters[HEAP_LET_GO])
		return cli_wrong(COMMAND,
				 "nothing was sampled: a SIGSEGV was sent to %s, which blocks it",
				 c->set.program);
	if (!t->counters[HEAP_PROCESSES])
		return cli_wrong(
			COMMAND,
			"nothing was sampled: the detector was not loaded into any process (a "
			"static or setuid program, or one that clears its environment)");
	if (t->counters[HEAP_LOST_LARGE])
		return cli_wrong(COMMAND, "nothing was sampled: %llu block%s of %s %s too large",
				 (unsigned long long)t->counters[HEAP_LOST_LARGE],
				 plural(t->counters[HEAP_LOST_LARGE]), c->set.program,
				 t->counters[HEAP_LOST_LARGE] == 1 ? "was" : "were");
	if (c->set.pid)
		return cli_wrong(
			COMMAND,
			"nothing was sampled: %s did not call malloc() in this time, or has "
			"an allocator of its own",
			c->set.program);
	return cli_wrong(
		COMMAND,
		"nothing was sampled: %s did not call malloc(); it has an allocator of its "
		"own, or allocates nothing",
		c->set.program);
}

static void heap_tell_end(struct heap_cli *c)
{
	const struct death_end end = {
		.program = c->set.command ? c->set.command[0] : c->set.program,
		.pid = c->pid,
		.is_attached = c->set.pid != 0,
		.status = c->status,
		.has_ended = c->set.command != NULL,
		.is_asked = c->is_asked || asked_times,
		.is_json = c->set.json != 0,
		.has_color = c->has_color,
		.out = c->out.f,
	};

	death_log_end(&c->deaths, &end);
}

/* Its output has one format: other words go to standard error. */
static bool is_for_tools(const struct heap_cli_settings *set)
{
	return set->growth &&
	       (set->format == HEAP_GROWTH_FOLDED || set->format == HEAP_GROWTH_PPROF);
}

static void tell_growth(struct heap_cli *c, const struct heap_totals *t)
{
	int err = heap_growth_print(c->report, c->region, c->set.format, c->out.f);

	if (err)
		cli_note(COMMAND, "the growth is not complete: %s", strerror(-err));
	if (t->counters[HEAP_SAMPLED] && !counter_get(&c->region->growth_rows))
		cli_note(COMMAND, "no block that was sampled is in use at the end, or the program "
				  "was killed before it could report");
}

static int heap_finish(struct heap_cli *c)
{
	struct heap_totals totals = { .torn = c->torn };

	totals.wall_ns = clock_now_ns() - c->started_ns;
	heap_totals(c->region, &totals);
	count_views(c, &totals);
	for (size_t i = 0; c->set.json && i < heap_report_count(c->report); i++)
		if (heap_is_shown(heap_report_view(c->report, i))) {
			heap_print_json(c->report, heap_report_view(c->report, i), c->out.f);
			search_out_flush(&c->out);
		}
	heap_tell_end(c);
	if (c->set.growth)
		tell_growth(c, &totals);
	if (is_for_tools(&c->set))
		heap_summary_text(&totals, c->set.verbose != 0, stderr);
	else if (c->set.json)
		heap_summary_json(&totals, c->out.f);
	else
		heap_summary_text(&totals, c->set.verbose != 0, c->out.f);
	if (c->set.pid && !c->set.json && !is_for_tools(&c->set))
		heap_attach_summary(&c->attach, c->region, c->out.f);
	search_out_flush(&c->out);
	int blind = heap_say_blindness(c, &totals) ? CLI_NO : CLI_OK;
	int failed = c->set.known.sarif ? write_heap_sarif(c, &totals, blind != CLI_OK) : CLI_OK;
	failed |= keep_heap_baseline(c);
	if (c->out.err) {
		cli_wrong(COMMAND, "cannot write %s: %s", c->out.name, strerror(c->out.err));
		failed = CLI_NO;
	}
	const struct search_exit e = {
		.has_found = totals.errors,
		.error_exitcode = c->set.error_exitcode,
		.is_baseline_written = c->set.known.write_baseline,
		.child = c->status,
		.blind = blind,
		.failed = failed,
	};
	return search_exit_status(&e);
}

static int heap_begin(struct heap_cli *c)
{
	c->started_ns = clock_now_ns();
	if (c->set.pid) {
		c->pid = c->set.pid;
		death_log_attach(&c->deaths, c->pid);
		heap_report_set_kept(c->report, c->deaths.kept);
		output_progress(&c->terminal, "loading the detector into process %d", c->pid);
		int status = heap_attach(&c->attach, &c->memory, &c->set);
		output_clear_status(&c->terminal);
		c->started_ns = clock_now_ns();
		return status;
	}
	death_log_start(&c->deaths);
	int status =
		agent_object_start(COMMAND, c->set.command, OBJECT, "heap", &c->memory, &c->pid);
	death_log_started(&c->deaths);
	return status;
}

int cmd_heap(int argc, char **argv)
{
	struct heap_cli c = { .memory = AGENT_REGION_NONE,
			      .attach = { .lock_fd = -1 },
			      .deaths = DEATH_LOG_NONE };
	int status = heap_settings_read(&c.set, argc, argv);

	if (status)
		return status < 0 ? CLI_OK : status;
	status = agent_is_for_this(COMMAND);
	if (!status)
		status = known_open(COMMAND, &c.set.known, &c.known);
	if (!status)
		status = search_out_open(&c.out, COMMAND, c.set.output,
					 !c.set.json && !is_for_tools(&c.set));
	if (!status)
		status = make_heap_region(&c);
	output_open(&c.terminal, COMMAND, NULL, 0);
	c.has_color = !status && c.terminal.text.has_color && c.out.is_terminal;
	watchdog_start(COMMAND, true);
	if (!status)
		death_log_open(&c.deaths, COMMAND);
	if (!status)
		status = heap_begin(&c);
	if (!status) {
		heap_wait_for_end(&c);
		status = heap_finish(&c);
	} else if (c.pid) {
		heap_tell_end(&c); /* it may have died in the meantime */
	}
	heap_report_close(c.report);
	death_log_close(&c.deaths);
	known_close(&c.known);
	agent_region_close(&c.memory);
	search_out_close(&c.out);
	return status;
}
