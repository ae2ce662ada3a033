/* SPDX-License-Identifier: MIT */
/*
 * observe.c - see observe.h.
 *
 * It looks up, arms, and prints until the first of these: Ctrl-C or SIGTERM, the limit, the time,
 * the end of the target, or its exec. See session.h.
 */
#include "cli/observe/observe.h"

#include "base/clock.h"
#include "base/tasks.h"
#include "cli/launch/program.h"
#include "cli/launch/start_search.h"
#include "cli/message.h"
#include "cli/observe/condition_option.h"
#include "cli/watchdog.h"
#include "report/run/writer.h"
#include "report/safe/clean.h"
#include "report/safe/stream_fd.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define PPM_PER_PERCENT 10000
#define SUMMARY_BYTES (32u << 20) /* of records that were not read yet */
#define NS_PER_SECOND 1000000000u
#define WINDOWS_PER_SECOND 20u
#define COMMAND_GRANT_NS 1000000000u

static int open_output(struct observe *o)
{
	/* The variables that --list prints go to standard output only. */
	if (o->set.list && !o->calls)
		return 0;
	int status = output_open(&o->to, o->set.name, o->set.output, o->set.json);
	o->to.is_quiet = o->set.record || o->set.summary;
	if (o->to.text.f && isatty(stream_fd(o->to.text.f)) && !o->to.is_quiet && !o->set.last)
		o->lines.most = o->set.lines_per_second / WINDOWS_PER_SECOND;
	o->to.text.rows_max = o->set.top;
	o->groups.by = o->set.by;
	o->groups.frames_max = o->set.frames;
	o->to.text.is_verbose = o->set.verbose;
	o->to.text.frames_max = o->set.frames;
	return status;
}

static int describe_and_arm(struct observe *o)
{
	TRAPLINE_OPTS(open, open_opts);
	TRAPLINE_OPTS(event, opts);

	o->to.started_ns = clock_now_ns();
	o->info = (struct run_info){ .pid = o->session.pid,
				     .started_ns = o->to.started_ns,
				     .clock_offset_ns = o->to.clock_offset_ns };
	int status = o->kind->describe(o);
	if (!status && o->set.record)
		status = output_record(&o->to, o->set.record, &o->info, o->calls);
	if (status)
		return status;
	session_open_memory(&o->session);
	status = then_start(&o->then, o->session.pid);
	if (status)
		return status;
	open_opts.flags = o->set.no_bpf ? TRAPLINE_NO_BPF : 0;
	/* What is not printed comes fast. */
	open_opts.records_bytes = o->to.is_quiet || o->set.last ? SUMMARY_BYTES : o->records_bytes;
	int err = trapline_open(o->session.pid, &open_opts, &o->target);
	if (err < 0)
		return session_explain(&o->session, o->kind->doing, o->title, err);
	opts.arg = o;
	opts.condition = o->condition;
	opts.flags = (o->set.stack ? TRAPLINE_STACK_BYTES : 0) |
		     (o->then.is_exact ? TRAPLINE_STOP : 0);
	targets_opts(&o->set, &opts);
	status = o->kind->arm(o, &opts);
	if (!status)
		status = targets_add(&o->targets, &o->set, o->symbols, o->events, o->event_count);
	if (status || !o->set.until_hit)
		return status;
	return last_arm_until(&o->last, o->set.name, o->symbols, o->target, o->set.until_hit, o);
}

static bool is_dry(const struct observe *o)
{
	return o->set.explain || o->set.list;
}

/* The names of the program that has the location are kept: to read them takes seconds. */
static bool is_wanted(pid_t pid, void *arg)
{
	struct observe *o = arg;

	if (symbols_open(pid, &o->symbols))
		return false;
	if (o->kind->has(&o->set, o->symbols))
		return true;
	symbols_close(o->symbols);
	o->symbols = NULL;
	return false;
}

/* With --follow the first program that has the location is the one, no matter what runs it. */
static int search_program(struct observe *o)
{
	struct session *r = &o->session;
	output_progress(&o->to, "looking for %s in what %s runs", o->set.operands[0],
			r->command[0]);
	int err = start_search(r->child, is_wanted, o, &r->pid);
	output_clear_status(&o->to);

	if (err == -ECHILD) {
		r->child_ended = true;
		return cli_wrong(o->set.name,
				 "cannot find '%.200s': %s has ended, and it ran no program that "
				 "has it",
				 o->set.operands[0], r->command[0]);
	}
	if (err)
		return cli_wrong(o->set.name, "cannot follow %s: %s", r->command[0],
				 strerror(-err));
	if (r->pid != r->child &&
	    (opts_pids_add(&o->set.pids, r->pid) || opts_pids_add(&o->set.pids, r->child)))
		return cli_wrong(o->set.name, "out of memory");
	return 0;
}

/* A command that is started for --list or --explain runs none of its own code. */
static int find_and_arm(struct observe *o)
{
	int status = session_hold(&o->session);

	if (status)
		return status;
	if (o->set.follow && o->set.command && !o->session.hold && o->kind->has && !is_dry(o))
		status = search_program(o);
	if (status) {
		session_release(&o->session, false);
		return status;
	}
	o->set.pid = o->session.pid;
	output_progress(&o->to, "reading the program of process %d", o->set.pid);
	if (!o->symbols)
		status = session_open_symbols(&o->session, &o->symbols);
	if (!status)
		status = o->kind->find(o);
	output_clear_status(&o->to);
	if (!status && !is_dry(o))
		status = describe_and_arm(o);
	session_release(&o->session, !status && !is_dry(o));
	return status;
}

static void print_end(struct observe *o, const struct run_end *end)
{
	struct output *to = &o->to;

	output_clear_status(to);
	if (to->text.f && o->calls)
		run_text_calls_end(&to->text, o->calls, end, o->calls_end);
	else if (to->text.f)
		run_text_end(&to->text, &o->info, end, &o->tally);
	if (to->json && o->calls)
		run_jsonl_calls_end(to->json, o->calls, end, o->calls_end);
	else if (to->json)
		run_jsonl_end(to->json, &o->info, end, &o->tally);
	output_record_end(to, end, o->calls_end);
}

static void measure_costs(struct observe *o, struct run_end *end)
{
	struct run_calls_end *more = o->calls_end;

	if (!more) {
		end->cost_ns = run_cost_ns(o, COST_WATCH);
		return;
	}
	more->emulated_ns = more->emulated ? run_cost_ns(o, COST_EMULATED) : -1;
	more->stepped_ns = more->stepped ? run_cost_ns(o, COST_STEPPED) : -1;
	more->probe_ns = (more->probes || more->traps) && o->condition ? run_cost_of_rejection(o) :
									 -1;
	more->hardware_ns = more->hardware ? run_cost_ns(o, COST_HARDWARE) : -1;
}

static int is_asked_to_end(void)
{
	return asked_times > 0;
}

/* The summary. An exit status: what could not be written is an error. */
static int finish(struct observe *o, const char *reason)
{
	struct run_end end = { .reason = reason,
			       .duration_ns = clock_now_ns() - o->session.started_ns,
			       .cost_ns = -1,
			       .pauses = o->pace.pauses,
			       .paused_ns = o->pace.paused_ns,
			       .max_rate = o->set.max_rate,
			       .not_printed = o->lines.left_out,
			       .lines_per_second = o->set.lines_per_second,
			       .rests = o->pace.rest.rests,
			       .rested_ns = o->pace.rest.rested_ns,
			       .budget_ppm = (uint64_t)(o->set.budget * PPM_PER_PERCENT),
			       .groups = o->set.by ? &o->groups : NULL,
			       .sees_kernel = o->set.kernel };
	char command[64];

	o->kind->sum_up(o, &end);
	if (o->calls)
		output_progress(&o->to, "taking %zu breakpoints out", o->calls->site_count);
	trapline_close(o->target);
	o->target = NULL;
	measure_costs(o, &end);
	session_describe_command(&o->session, command, sizeof(command));
	end.command = command[0] ? command : NULL;
	end.is_stopped = o->session.is_stopped;
	if (o->last.max)
		last_print(&o->last, &o->to);
	print_end(o, &end);
	bool is_done = then_end(&o->then, o->to.text.f, is_asked_to_end);
	if (o->set.record && !o->to.failed_path)
		printf("recorded in %s: trapline report %s\n", o->set.record, o->set.record);
	int status = output_finish(&o->to, o->hits);
	return status || is_done ? status : CLI_NO;
}

static void release(struct observe *o)
{
	trapline_close(o->target);
	act_guard_end(&o->then.guard);
	o->kind->release(o);
	output_close(&o->to);
	tally_free(&o->tally);
	run_groups_free(&o->groups);
	last_free(&o->last);
	targets_release(&o->targets);
	symbols_close(o->symbols);
	trapline_condition_free(o->condition);
	session_close(&o->session);
}

/*
 * One event whose records are hits, with BPF that can stop the process. Calls count at their
 * return, and objects and chunks after an inspection of their location.
 */
static bool is_exact(const struct observe *o)
{
	const struct observe_settings *set = &o->set;
	bool is_one_watch = !set->from && !set->slice_ns && set->operand_count == 1;
	bool is_call = !set->ret && (!set->mechanism || strcmp(set->mechanism, "probe") != 0);

	return o->then.kind && o->then.kind != THEN_EXEC && !set->no_bpf && !geteuid() &&
	       (set->is_break ? is_call : is_one_watch);
}

uint64_t observe_limit(const struct observe *o)
{
	return o->then.is_exact ? 1 : o->set.limit;
}

/*
 * At once, and before the look-ups for the line: the process is stopped. The location of
 * --until-hit ends the run.
 */
static enum trapline_action observe_record(const struct trapline_hit *record)
{
	struct observe *o = record->arg;
	bool is_wanted = !o->set.limit || o->hits < o->set.limit;

	/* What came after it does not push out what led to it. */
	o->beyond += o->session.is_reached;
	o->session.is_reached |= o->last.until && record->event == o->last.until;
	if (o->session.is_reached)
		return TRAPLINE_GO_ON;
	if (o->then.is_exact)
		then_at_hit(&o->then, record, is_wanted);
	if (o->then.is_exact && (!o->set.limit || o->hits + 1 < o->set.limit))
		trapline_event_rearm(record->event, 1);
	return o->kind->on_hit(record);
}

/* A watch that may become probes; see watch_writers.h. */
static bool is_for_writers(const struct observe *o)
{
	const struct observe_settings *set = &o->set;

	return !o->calls && set->condition && !set->command && !set->record &&
	       set->operand_count == 1 && !set->from && !set->kernel && !set->then && !set->on;
}

/*
 * The estimate is on the safe side: what was measured decides. The user reads of the first rest at
 * once.
 */
static bool observe_is_in_debt(void *arg)
{
	struct observe *o = arg;
	struct rest *r = &o->pace.rest;

	if (!o->cost.is_ready) {
		run_cost_measure(o);
		rest_cost_is_known(r);
	}
	if (r->debt_ns <= 0)
		return false;
	if (!r->rests) {
		output_clear_status(&o->to);
		cli_note(o->set.name,
			 "hits cost the target about %.0f%% of a CPU, and the budget is %g%%: from "
			 "now on they are observed in turns; --budget none lifts the budget%s",
			 100 * r->cost_share, o->set.budget,
			 is_for_writers(o) ? ", and --at-writers evaluates --if where the process "
					     "writes" :
					     "");
	}
	return true;
}

static void start_pace(struct observe *o)
{
	struct pace *p = &o->pace;

	pace_start(p, o->events, o->event_count, o->counts ? &o->counts->is_off : NULL,
		   o->set.max_rate);
	rest_start(&p->rest, o->set.budget / 100, run_cost_spent_ns, o);
	/* A short command is observed as a whole: it was started for that. */
	if (o->set.command)
		p->rest.grant_ns = COMMAND_GRANT_NS;
	p->is_in_debt = observe_is_in_debt;
	p->arg = o;
}

/* A process that ends has no memory for a while before it is a zombie. */
static bool has_gone(pid_t pid)
{
	char state = program_thread_state(pid, pid);
	uint8_t byte;

	return !state || state == 'Z' || state == 'X' ||
	       tasks_read_memory(pid, 0, &byte, sizeof(byte)) == -ESRCH;
}

int observe_run(struct observe *o, const struct observe_kind *kind,
		const struct observe_settings *set)
{
	bool has_run = false;

	o->kind = kind;
	o->set = *set;
	o->session.name = set->name;
	o->session.pid = set->pid;
	o->session.command = set->command;
	o->session.limit = set->limit;
	then_parse(set->name, set->then, &o->then);
	o->then.is_one = set->limit == 1;
	o->then.is_exact = is_exact(o);
	o->session.for_ns = set->for_ns;
	o->session.memory_fd = -1;
	int status = open_output(o);
	if (!status)
		status = last_begin(&o->last, set->name, set->last);
	cli_keep_wrong(set->process_name != NULL, false);
	if (!status)
		status = find_and_arm(o);
	bool is_gone = status && set->process_name && has_gone(o->session.pid);
	cli_keep_wrong(false, !is_gone);
	if (!status && set->explain && !set->list) {
		status = cli_condition_explain(set->name, o->condition);
	} else if (!status && !set->list) {
		has_run = true;
		o->kind->print_start(o);
		start_pace(o);
		status = finish(o, session_loop(&o->session, o->target, &o->pace, &o->to,
						observe_record, &o->hits));
	}
	release(o);
	/* With --pending it may have been released and not observed. */
	if (has_run || o->session.runs_on)
		session_wait_for_command(&o->session);
	return is_gone ? OBSERVE_AGAIN : status;
}

bool observe_has_enough(struct observe *o)
{
	if (!o->set.limit || o->hits < o->set.limit)
		return false;
	o->beyond++;
	return true;
}

struct run_hit observe_hit_of(const struct observe *o, const struct trapline_hit *hit)
{
	struct run_hit run = { .time_ns = hit->time_ns,
			       .unix_ns = hit->time_ns + o->info.clock_offset_ns,
			       .pid = hit->pid,
			       .tid = hit->tid,
			       .ip = hit->ip,
			       .address = hit->address,
			       .access = hit->access };

	memcpy(run.thread, hit->thread, sizeof(run.thread));
	clean_text(run.thread);
	return run;
}

/* A reader follows no more lines, and the tables have all hits. */
static bool has_line(struct observe_lines *l)
{
	uint64_t window = clock_now_ns() / (NS_PER_SECOND / WINDOWS_PER_SECOND);

	if (!l->most)
		return true;
	if (window != l->window)
		l->count = 0;
	l->window = window;
	if (l->count++ < l->most)
		return true;
	l->left_out++;
	return false;
}

void observe_print(struct observe *o, const struct run_hit *as_is)
{
	struct run_hit shown = *as_is;
	const struct run_hit *hit = &shown;
	struct output *to = &o->to;
	bool has_text = to->text.f && !to->is_quiet && has_line(&o->lines);
	bool has_json = to->json && !o->set.summary;

	run_hit_set_writer(&shown);
	if (o->then.kind && !o->then.is_exact)
		then_after(&o->then, hit);
	output_clear_status(to);
	if (o->last.max)
		last_open(&o->last, to);
	if (o->set.by)
		run_groups_add(&o->groups, o->calls, hit);
	if (o->calls) {
		run_calls_add(o->calls, hit);
		if (has_text)
			run_text_call(&to->text, &o->info, o->calls, hit);
		if (has_json)
			run_jsonl_call(to->json, o->calls, hit);
	} else {
		tally_add(&o->tally, hit);
		if (has_text)
			run_text_hit(&to->text, &o->info, hit);
		if (has_json)
			run_jsonl_hit(to->json, hit);
	}
	/* A recording has the access as it was, and its reader finds the writer again. */
	output_record_hit(to, as_is);
	if (o->then.kind)
		then_print(&o->then, has_text ? to->text.f : NULL, has_json ? to->json : NULL);
	if (o->last.max)
		last_keep(&o->last, to);
}
