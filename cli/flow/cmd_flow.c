/* SPDX-License-Identifier: MIT */
/*
 * cmd_flow.c - `trapline flow`: where do these bytes go?
 *
 * The agent in the process follows them, and writes what it finds into memory that is shared with
 * this command. This command finds the functions that the user named, waits, and explains. The
 * agent ends when it gets the lock that this command holds.
 */
#include "base/atomic.h"
#include "base/clock.h"
#include "base/marker.h"
#include "cli/cmd.h"
#include "cli/flow/flow_settings.h"
#include "cli/inject/inject.h"
#include "cli/launch/agent_start.h"
#include "cli/launch/death_log.h"
#include "cli/launch/program.h"
#include "cli/launch/run_state.h"
#include "cli/message.h"
#include "cli/output.h"
#include "cli/search/known_errors.h"
#include "cli/search/search_end.h"
#include "cli/search/search_out.h"
#include "cli/terminal.h"
#include "cli/watchdog.h"
#include "report/code/code_sites.h"
#include "report/flow/flow_report.h"
#include "report/lang/expression.h"
#include "report/plural.h"
#include "report/safe/private_file.h"
#include "report/safe/target_file.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COMMAND "flow"
#define REGION_NAME "trapline-flow"
#define LOOK_EVERY_NS 10000000
#define READY_NS 10000000000u
#define END_NS 5000000000u
#define WINDOWS_NS 1000000000u
#define UNBLOCK_NS 20000000u
#define UNBLOCK_EVERY 50 /* looks */

struct flow_cli {
	struct flow_cli_settings set;
	struct known_errors known;
	struct agent_region memory;
	struct flow_region *region;
	int lock_fd;
	pid_t pid;
	uint64_t started_ns;
	struct inject_masked *blocked; /* threads that had SIGTRAP blocked */
	size_t blocked_count;
	bool is_over; /* the program has ended */
	int status;
	struct death_log deaths;
	struct search_out out;
	struct output terminal;
};

static bool flow_has_ended(struct flow_cli *c)
{
	if (!c->is_over && c->set.command)
		c->is_over = waitpid(c->pid, &c->status, WNOHANG) == c->pid;
	else if (!c->is_over)
		c->is_over = program_has_ended(c->pid);
	return c->is_over;
}

static void flow_nap(long ns)
{
	const struct timespec step = { 0, ns };

	nanosleep(&step, NULL);
}

/* Also looks whether the process has ended. */
static bool wait_for_change(struct flow_cli *c, uint32_t state, uint64_t most_ns)
{
	const bool has_changed = run_state_left(&c->region->run, state, c->pid, most_ns);

	flow_has_ended(c);
	return has_changed;
}

/* ---- the begin ---- */

static int make_flow_region(struct flow_cli *c)
{
	const int status =
		agent_region_open(COMMAND, REGION_NAME, FLOW_MAGIC, sizeof(*c->region), &c->memory);

	if (status)
		return status;
	c->region = (struct flow_region *)c->memory.head;
	c->region->settings = c->set.flow;
	return CLI_OK;
}

/* A function has one address; where there are several of the name, the user states which. */
static int find_function(struct symbols *symbols, struct flow_place *p)
{
	struct variable found;
	struct variable other;
	char name[sizeof(p->name) + 16];
	const int err = symbols_find(symbols, p->name, &found);

	/* The loader has its own memcpy() and malloc(), which no program calls. */
	if (!err && found.module && !strncmp(found.module, "ld-", 3)) {
		snprintf(name, sizeof(name), "libc.so.6:%s", p->name);
		if (!symbols_find(symbols, name, &other))
			found = other;
	}
	if (!err && found.is_function) {
		p->address = found.address;
		p->bytes = found.size;
		return CLI_OK;
	}
	if (!err)
		return cli_wrong(COMMAND, "%s is not a function", p->name);
	if (err == -ENOTUNIQ)
		return cli_wrong(COMMAND,
				 "there are several functions %s: name the object too, as in "
				 "program:%s",
				 p->name, p->name);
	return cli_wrong(COMMAND, "cannot find function %s in %s: it has no such symbol", p->name,
			 symbols_program(symbols));
}

/* By the names that the program has now. */
static int find_variable(struct symbols *symbols, struct flow_place *p)
{
	const struct expression_options options = { .thread = NULL };
	struct expression_error error = { 0 };
	struct expression_place found;
	struct expression *e = NULL;
	int err = expression_parse(p->name, &e, &error);

	if (!err)
		err = expression_resolve(symbols, e, &options, &found, &error);
	if (err) {
		expression_free(e);
		return cli_wrong(COMMAND, "cannot find %s in %s: %s", p->name,
				 symbols_program(symbols),
				 error.text[0] ? error.text : "it has no such variable");
	}
	const uint64_t length = expression_length(e);
	p->address = found.address;
	p->bytes = length ? length : found.size ? found.size : sizeof(uint64_t);
	expression_free(e);
	return CLI_OK;
}

static int find_place(struct symbols *symbols, struct flow_place *p)
{
	return p->origin == FLOW_FROM_VARIABLE ? find_variable(symbols, p) :
						 find_function(symbols, p);
}

static int find_functions(struct flow_cli *c)
{
	struct symbols *symbols = NULL;
	int status = CLI_OK;

	if (!c->region->settings.place_count)
		return CLI_OK;
	int err = symbols_open(c->pid, &symbols);
	if (err)
		return cli_wrong(COMMAND, "cannot read the symbols of process %d: %s", c->pid,
				 strerror(-err));
	for (uint32_t i = 0; i < c->set.flow.place_count && !status; i++)
		status = find_place(symbols, &c->region->settings.places[i]);
	symbols_close(symbols);
	return status;
}

static int start_flow_command(struct flow_cli *c)
{
	/* The command's own: the child's copies of it are closed by its exec. */
	c->lock_fd = c->memory.data_fd;
	if (flock(c->lock_fd, LOCK_EX))
		return cli_wrong(COMMAND, "cannot lock the shared memory: %s", strerror(errno));
	death_log_start(&c->deaths);
	int status = agent_command_start(COMMAND, c->set.command, "flow", &c->memory, &c->pid);
	death_log_started(&c->deaths);
	if (status)
		return status;
	if (wait_for_change(c, RUN_NEW, READY_NS))
		return CLI_OK;
	if (c->is_over)
		return cli_wrong(COMMAND, "%s ended before the agent was loaded", c->set.program);
	kill(c->pid, SIGKILL);
	return cli_wrong(COMMAND, "%s did not load the agent", c->set.program);
}

/*
 * A trap in a thread that has SIGTRAP blocked would end the process. Allocators start such threads
 * at any time, so this is done again and again.
 */
static void unblock_flow(struct flow_cli *c)
{
	const size_t most = INJECT_THREADS_MAX;
	struct inject_masked *more;

	if (c->set.command)
		return;
	if (!c->blocked)
		c->blocked = calloc(most, sizeof(*c->blocked));
	if (!c->blocked || c->blocked_count == most)
		return;
	more = c->blocked + c->blocked_count;
	inject_mask_of(SIGTRAP, MARKER_OF_SIGTRAP);
	const size_t n = inject_find_blocked(c->pid, more, most - c->blocked_count);
	atomic_set(&c->region->are_masks_open, 1u);
	c->blocked_count += inject_unblock_trap(c->pid, more, n);
}

static void block_flow_again(struct flow_cli *c)
{
	inject_mask_of(SIGTRAP, MARKER_OF_SIGTRAP);
	if (c->blocked && !c->is_over)
		inject_block_trap(c->pid, c->blocked, c->blocked_count);
	atomic_set(&c->region->are_masks_open, 0u);
	free(c->blocked);
	c->blocked = NULL;
}

static int attach_flow(struct flow_cli *c)
{
	const struct agent_share share = { .region = c->region,
					   .bytes = sizeof(*c->region),
					   .filled = SHARE_HEAD_BYTES,
					   .data_fd = c->memory.data_fd,
					   .lock_fd = &c->lock_fd,
					   .has_own_files = true };
	int result = 0;

	death_log_attach(&c->deaths, c->pid);
	agent_call_until(&asked_by, c->started_ns, c->set.for_ns);
	output_progress(&c->terminal, "loading the agent into process %d", c->pid);
	/* The head is copied with the call: the locations are known before. */
	int status = find_functions(c);
	if (!status)
		status = agent_call(COMMAND, c->pid, "flow", &share, &result);
	output_clear_status(&c->terminal);
	if (!status && !result)
		unblock_flow(c);
	if (status || !result)
		return status;
	if (result == -EBUSY)
		return cli_wrong(
			COMMAND,
			"bytes were followed in process %d before, and its threads may still be in code "
			"of that run; start it again, best by trapline flow ... -- CMD",
			c->pid);
	return cli_wrong(COMMAND, "cannot follow bytes in process %d: %s", c->pid,
			 strerror(-result));
}

static int arm_flow(struct flow_cli *c)
{
	char why[RUN_WHY];
	const uint32_t before = atomic_get(&c->region->run.state);
	const uint64_t start = clock_now_ns();

	atomic_set(&c->region->run.state, (uint32_t)RUN_ARM);
	while (!wait_for_change(c, RUN_ARM, UNBLOCK_NS) && !c->is_over && !asked_by &&
	       clock_now_ns() - start < READY_NS)
		unblock_flow(c);
	/* It may have ended again by now, for the program's own SIGTRAP. */
	const uint32_t now = atomic_get(&c->region->run.state);
	if (now == RUN_ARMED || now == RUN_ENDED || (c->is_over && before == RUN_READY))
		return CLI_OK;
	run_state_why(&c->region->run, why);
	return cli_wrong(COMMAND, "cannot follow bytes in process %d: %s", c->pid,
			 *why ? why : "the agent does not answer");
}

static int flow_begin(struct flow_cli *c)
{
	int status;

	c->started_ns = clock_now_ns();
	c->pid = c->set.pid;
	death_log_open(&c->deaths, COMMAND);
	status = c->set.command ? start_flow_command(c) : attach_flow(c);
	if (!status && c->set.command)
		status = find_functions(c);
	if (!status)
		status = arm_flow(c);
	if (status && c->set.command && c->pid && !flow_has_ended(c))
		kill(c->pid, SIGKILL);
	return status;
}

/* ---- the run and its end ---- */

static bool is_flow_over(const struct flow_cli *c)
{
	if (atomic_get(&c->region->run.stop))
		return true;
	return c->set.for_ns && clock_now_ns() - c->started_ns >= c->set.for_ns;
}

/* As in cmd_heap.c. */
static void show_sources(struct flow_cli *c)
{
	uint64_t now = clock_now_ns();

	if (!c->set.pid || !output_progress_is_due(&c->terminal))
		return;
	uint64_t seen = counter_get(&c->region->counters[FLOW_SEEN]);
	uint64_t windows = counter_get(&c->region->counters[FLOW_WINDOWS]);
	output_progress(&c->terminal,
			"%.0f s: source reached %" PRIu64 " time%s, %" PRIu64
			" window%s; Ctrl-C ends",
			(double)(now - c->started_ns) / 1e9, seen, plural(seen), windows,
			plural(windows));
}

static void say_why_it_ended(const struct flow_cli *c)
{
	char why[RUN_WHY];

	run_state_why(&c->region->run, why);
	if (*why && atomic_get(&c->region->run.stop))
		cli_note(COMMAND, "following ends in process %d: %s", c->pid, why);
}

static void flow_wait(struct flow_cli *c)
{
	for (unsigned int n = 1; !flow_has_ended(c) && !is_flow_over(c); n++) {
		if (asked_by && !c->set.command)
			break;
		if (c->set.command)
			watchdog_forward(c->pid);
		if (n % UNBLOCK_EVERY == 0)
			unblock_flow(c);
		show_sources(c);
		death_log_look(&c->deaths, false, NULL);
		flow_nap(LOOK_EVERY_NS);
	}
	output_clear_status(&c->terminal);
	say_why_it_ended(c);
}

/* The numbers are from processes of the run: they only decide how long this waits. */
static bool is_at_work(uint32_t ready, int32_t pid)
{
	return !ready && pid > 0 && !kill(pid, 0);
}

/* A process that lives is about to finish these: its window ends at once now. */
static bool has_unfinished(const struct flow_cli *c)
{
	const struct flow_region *r = c->region;
	const uint32_t records = atomic_get(&r->records_used);
	const uint32_t sources = atomic_get(&r->sources_used);

	for (uint32_t i = 0; i < records && i < FLOW_RECORDS; i++)
		if (is_at_work(atomic_get(&r->records[i].ready), r->records[i].pid))
			return true;
	for (uint32_t i = 1; i <= sources && i < FLOW_SOURCES; i++)
		if (is_at_work(atomic_get(&r->sources[i].ready), r->sources[i].pid))
			return true;
	return false;
}

static void wait_for_windows(struct flow_cli *c)
{
	const uint64_t start = clock_now_ns();

	atomic_set(&c->region->run.stop, 1u);
	while (has_unfinished(c) && clock_now_ns() - start < WINDOWS_NS)
		flow_nap(LOOK_EVERY_NS);
}

/* The agent gets the lock: it knows what is in memory, and restores the instructions. */
static void flow_leave(struct flow_cli *c)
{
	if (c->lock_fd == c->memory.data_fd)
		flock(c->lock_fd, LOCK_UN);
	else if (c->lock_fd >= 0)
		close(c->lock_fd);
	c->lock_fd = -1;
	if (!flow_has_ended(c) && !wait_for_change(c, RUN_ARMED, END_NS) && !c->is_over)
		cli_note(COMMAND, "process %d did not answer at the end: residues are missing",
			 c->pid);
	wait_for_windows(c);
}

static void flow_print(struct flow_cli *c, struct flow_report *report)
{
	const bool has_color = c->terminal.text.has_color && c->out.is_terminal;

	if (!strcmp(c->set.as, "jsonl"))
		flow_print_json(report, c->out.f);
	else if (!strcmp(c->set.as, "dot"))
		flow_print_dot(report, c->out.f);
	else if (!strcmp(c->set.as, "html"))
		flow_print_html(report, c->set.program, c->out.f);
	else
		flow_print_text(report, c->set.verbose != 0, has_color, c->out.f);
}

/* Silence must not look like safety. */
static int say_unreached(const struct flow_cli *c, const struct flow_report *report)
{
	struct flow_totals t;

	flow_report_totals(report, &t);
	if (t.sources)
		return CLI_OK;
	if (t.counters[FLOW_SEEN])
		return cli_wrong(COMMAND,
				 "the source was reached %" PRIu64
				 " time%s, but never had the bytes "
				 "that were asked for: nothing was followed",
				 t.counters[FLOW_SEEN], t.counters[FLOW_SEEN] == 1 ? "" : "s");
	if (WIFSIGNALED(c->status))
		return cli_wrong(
			COMMAND,
			"the program ended before it reached the source: nothing was followed");
	return cli_wrong(COMMAND, "the source was never reached: nothing was followed");
}

static void flow_wait_for_program(struct flow_cli *c)
{
	if (!c->set.command || flow_has_ended(c))
		return;
	search_wait_for_program(COMMAND, "following", c->set.program, c->pid, &c->status);
	c->is_over = true;
}

/* A page and a graph have no location for it: then it is printed as text. */
static void flow_report_end(struct flow_cli *c)
{
	const bool is_json = !strcmp(c->set.as, "jsonl");
	const bool is_text = !strcmp(c->set.as, "text");
	const struct death_end end = {
		.program = c->set.program,
		.pid = c->pid,
		.is_attached = c->set.pid != 0,
		.status = c->status,
		.has_ended = c->set.command != NULL,
		.is_asked = asked_times != 0,
		.is_json = is_json,
		.has_color = is_text && c->terminal.text.has_color && c->out.is_terminal,
		.out = is_json || is_text ? c->out.f : stderr,
	};

	death_log_end(&c->deaths, &end);
}

static int write_flow_sarif(struct flow_cli *c, struct flow_report *report, bool is_blind)
{
	const struct death *deaths[DEATH_LOG_MAX];
	char process[32];
	struct sarif_run run = {
		.program = c->set.program ? c->set.program : process,
		.blind = is_blind ? "nothing was followed" : NULL,
		.is_running = !c->set.command || !c->is_over,
		.deaths = deaths,
		.death_count = death_log_list(&c->deaths, deaths),
	};
	FILE *f = private_file(c->set.known.sarif);

	snprintf(process, sizeof(process), "process %d", c->pid);
	search_sarif_run(&run, clock_now_ns() - c->started_ns, c->status);
	int err = f ? flow_print_sarif(report, &run, c->known.baseline != NULL, f) : -errno;
	return search_file_end(COMMAND, c->set.known.sarif, f, err);
}

static int keep_flow_baseline(struct flow_cli *c, struct flow_report *report)
{
	const char *path = c->set.known.baseline;
	size_t added;

	if (!known_is_written(&c->set.known))
		return CLI_OK;
	int err = flow_baseline_write(c->known.baseline, report, path, &added);
	if (err)
		return search_file_end(COMMAND, path, NULL, err);
	cli_note(COMMAND, "%zu flow%s written to the baseline %s", added, plural(added), path);
	return CLI_OK;
}

/* Each part of the end may fail by itself. */
static int flow_report_all(struct flow_cli *c, struct flow_report *report)
{
	flow_report_end(c);
	flow_print(c, report);
	search_out_flush(&c->out);
	const int blind = say_unreached(c, report);
	int failed = c->set.known.sarif ? write_flow_sarif(c, report, blind != CLI_OK) : CLI_OK;
	failed |= keep_flow_baseline(c, report);
	if (c->out.err)
		failed |= cli_wrong(COMMAND, "cannot write %s: %s", c->out.name,
				    strerror(c->out.err));
	return blind || failed ? CLI_NO : CLI_OK;
}

static int flow_finish(struct flow_cli *c)
{
	const struct flow_report_options options = {
		.root = c->set.pid && target_file_is_foreign(c->set.pid) ? c->set.pid : 0,
		.kept = c->deaths.kept,
		.suppressions = c->known.suppressions,
		.baseline = c->known.baseline,
	};
	struct flow_report *report = NULL;

	output_clear_status(&c->terminal);
	if (flow_report_open(c->region, &options, &report))
		return cli_wrong(COMMAND, "out of memory");
	const size_t shown = flow_report_count(report);
	const int failed = flow_report_all(c, report);
	flow_report_close(report);
	flow_wait_for_program(c);
	const struct search_exit e = {
		.has_found = shown != 0,
		.error_exitcode = c->set.error_exitcode,
		.is_baseline_written = c->set.known.write_baseline,
		.child = failed ? 0 : c->status, /* what was not found out comes first */
		.failed = failed,
	};
	return search_exit_status(&e);
}

int cmd_flow(int argc, char **argv)
{
	static struct flow_cli c = { .memory = AGENT_REGION_NONE,
				     .lock_fd = -1,
				     .deaths = DEATH_LOG_NONE };
	int status = flow_settings_read(&c.set, argc, argv);

	if (status)
		return status < 0 ? CLI_OK : status;
	status = agent_is_for_this(COMMAND);
	if (!status)
		status = known_open(COMMAND, &c.set.known, &c.known);
	if (!status)
		status = search_out_open(&c.out, COMMAND, c.set.output, !strcmp(c.set.as, "text"));
	if (!status)
		status = make_flow_region(&c);
	output_open(&c.terminal, COMMAND, NULL, 0);
	watchdog_start(COMMAND, true);
	if (!status)
		status = flow_begin(&c);
	if (!status) {
		flow_wait(&c);
		flow_leave(&c);
	}
	if (c.region)
		block_flow_again(&c);
	if (!status)
		status = flow_finish(&c);
	else if (c.pid)
		flow_report_end(&c); /* it may have died in the meantime */
	death_log_close(&c.deaths);
	known_close(&c.known);
	agent_region_close(&c.memory);
	search_out_close(&c.out);
	return status;
}
