/* SPDX-License-Identifier: MIT */
/*
 * break_kernel.c - see break_kernel.h. The steps of a run are those of break_run.c. But there is no
 * code to look up, and the process may execute other programs.
 */
#include "cli/break/break_kernel.h"

#include "base/clock.h"
#include "cli/break/break_calls.h"
#include "cli/break/break_output.h"
#include "cli/break/kernel_args.h"
#include "cli/break/kernel_location.h"
#include "cli/break/kernel_symbols.h"
#include "cli/launch/program.h"
#include "cli/message.h"
#include "cli/observe/condition_option.h"
#include "cli/observe/event_stats.h"
#include "cli/observe/hit_frames.h"
#include "cli/observe/observe.h"
#include "report/code/code_sites.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ARGS_BYTES 1600
#define PATIENCE_NS 1000000000u /* for the last calls to return, as in break_run.c */
#define LOOK_NS 50000000u
#define RECORDS_BYTES (32u << 20) /* each has some of the stack: 0.6 s of 20,000 calls a second */

struct kernel_run {
	struct observe run;
	struct kernel_locations where;
	struct trapline_event *event[KERNEL_EVENTS_MAX];
	size_t event_count;
	struct kernel_symbols symbols;
	struct break_calls open;
	struct run_calls calls;
	struct run_calls_end end;
	char what[400];
	char description[200];
	bool is_everywhere;
	uint64_t other_results;
	uint64_t last_record_ns;
	uint64_t looked_ns;
	bool is_over;
	bool said_later;
};

bool break_kernel_is(const struct observe_settings *set)
{
	for (size_t i = 0; i < set->operand_count; i++)
		if (kernel_location_is(set->operands[i]))
			return true;
	return false;
}

bool break_kernel_is_everywhere(const struct observe_settings *set)
{
	return break_kernel_is(set) && !set->pids.count && !set->process_name && !set->command;
}

/* ---- before the run ---- */

static const char *option_against(const struct observe_settings *set)
{
	return set->no_bpf			       ? "--no-bpf" :
	       set->mechanism			       ? "--mechanism" :
	       set->trace			       ? "--trace" :
	       set->inlined			       ? "--inlined" :
	       set->pending			       ? "--pending" :
	       set->print			       ? "--print" :
	       set->redact.count		       ? "--redact" :
	       set->by && !run_groups_is_word(set->by) ? "--by with an expression" :
							 NULL;
}

static bool has_beyond_calls(const struct kernel_locations *l)
{
	for (size_t i = 0; i < l->count; i++)
		if (l->wish[i]->what > TRAPLINE_AT_DESCRIPTOR)
			return true;
	return false;
}

static int check_options(const struct observe_settings *set, const struct kernel_locations *l)
{
	const char *against = option_against(set);

	if (against)
		return cli_wrong(
			set->name,
			"%s cannot be combined with %s: an event of the kernel has no code in "
			"the program",
			against, set->operands[0]);
	if (set->ret && has_beyond_calls(l))
		return cli_wrong(set->name, "--ret is for system calls: %s has no result",
				 set->operands[0]);
	if (set->then && strncmp(set->then, "exec", 4) != 0 &&
	    (has_beyond_calls(l) || break_kernel_is_everywhere(set)))
		return cli_wrong(
			set->name,
			"--then %s needs system calls of one process; --then 'exec CMD' works",
			set->then);
	if (set->until_hit && break_kernel_is_everywhere(set))
		return cli_wrong(set->name, "--until-hit needs a process: give -p PID");
	if (geteuid())
		return cli_wrong(set->name,
				 "cannot observe %s: events of the kernel are for root (CAP_BPF, "
				 "CAP_PERFMON and CAP_SYS_ADMIN)",
				 set->operands[0]);
	return 0;
}

static int parse_locations(const struct observe_settings *set, struct kernel_locations *l)
{
	char why[400];

	for (size_t i = 0; i < set->operand_count; i++) {
		if (!kernel_location_is(set->operands[i]))
			return cli_wrong(
				set->name,
				"%.100s is a location in the code: give it to a command of its "
				"own, without events of the kernel",
				set->operands[i]);
		if (kernel_locations_add(l, set->operands[i], why, sizeof(why)))
			return cli_wrong(set->name, "%s", why);
	}
	return 0;
}

/* `exit` is the end of the process, unless the program has a function of that name. */
static int refuse_own_function(struct kernel_run *k)
{
	const char *bare = k->where.bare;
	struct code_sites sites = { 0 };
	char why[1];
	bool is_own;

	if (!bare || k->is_everywhere)
		return 0;
	is_own = !code_sites_find(k->run.symbols, bare, &sites, why, 0) && sites.count &&
		 sites.site[0].module &&
		 !strcmp(sites.site[0].module, symbols_program(k->run.symbols));
	code_sites_free(&sites);
	if (!is_own)
		return 0;
	return cli_wrong(
		k->run.set.name,
		"%s is a function of %s and an event of the kernel: write %s:%s or kernel:%s", bare,
		symbols_program(k->run.symbols), symbols_program(k->run.symbols), bare, bare);
}

static void print_list(struct kernel_run *k)
{
	FILE *f = k->run.to.text.f;

	for (size_t i = 0; f && i < k->where.site_count; i++)
		fprintf(f, "%4llu  %s\n", (unsigned long long)k->where.site[i].address,
			k->where.site[i].name);
	for (size_t i = 0; k->run.to.json && i < k->where.site_count; i++) {
		json_t *j = json_object();

		json_object_set_new(j, "type", json_string("site"));
		json_object_set_new(j, "kind", json_string("kernel"));
		json_object_set_new(j, "name", json_string(k->where.site[i].name));
		json_object_set_new(j, "number",
				    json_integer((json_int_t)k->where.site[i].address));
		run_jsonl_line(k->run.to.json, j);
	}
}

static int kernel_find(struct observe *o)
{
	struct kernel_run *k = (struct kernel_run *)o;
	const struct condition_names names = { .symbols = o->symbols,
					       .has_result = o->set.ret,
					       .threads = o->set.only_threads };
	struct condition_parts parts = { 0 };
	int status = 0;

	if (o->set.list) {
		print_list(k);
		return 0;
	}
	if (k->where.wish[0]->what <= TRAPLINE_AT_DESCRIPTOR)
		status = session_check_width(&o->session, o->symbols, o->set.operands[0]);
	if (!status)
		status = refuse_own_function(k);
	if (!status)
		status = cli_condition(o->set.name, o->set.condition, &names, &parts);
	o->condition = parts.entry;
	o->set.result = parts.result;
	return status;
}

/* The sender of a signal may be any. */
static bool has_any_process(const struct kernel_run *k)
{
	for (size_t i = 0; i < k->where.count; i++)
		if (k->where.wish[i]->what == TRAPLINE_AT_SIGNAL ||
		    k->where.wish[i]->what == TRAPLINE_AT_OOM)
			return true;
	return k->is_everywhere;
}

static int kernel_describe(struct observe *o)
{
	struct kernel_run *k = (struct kernel_run *)o;
	struct run_calls *calls = &k->calls;
	size_t used = 0;

	for (size_t i = 0; i < o->set.operand_count && used < sizeof(k->what); i++)
		used += (size_t)snprintf(k->what + used, sizeof(k->what) - used, "%s%s",
					 i ? " " : "", o->set.operands[i]);
	kernel_locations_describe(&k->where, k->description, sizeof(k->description));
	o->title = o->set.operands[0];
	o->info.what = k->what;
	o->info.access = TRAPLINE_EXECUTE;
	calls->locations = (const char *const *)o->set.operands;
	calls->location_count = o->set.operand_count;
	calls->description = k->description;
	calls->with_results = o->set.ret;
	calls->site = k->where.site;
	calls->site_count = calls->all_sites = k->where.site_count;
	if (run_calls_begin(calls) ||
	    kernel_symbols_begin(&k->symbols, o->symbols, o->session.pid, has_any_process(k)))
		return cli_wrong(o->set.name, "out of memory");
	return 0;
}

/* ---- arming ---- */

/* What a location is for shows in its arguments; those of a system call are asked for. */
static bool shows_args(const struct kernel_run *k, const struct kernel_wish *wish)
{
	return k->run.set.args || wish->what != TRAPLINE_AT_SYSCALL || wish->site[SYS_execve];
}

static uint32_t texts_of(const struct kernel_wish *wish)
{
	uint32_t texts = 0;

	for (uint32_t i = 0; i < KERNEL_NUMBERS_MAX; i++)
		if (wish->what <= TRAPLINE_AT_DESCRIPTOR && wish->site[i])
			texts |= kernel_args_texts(i);
	return texts;
}

static int arm_one(struct kernel_run *k, const struct kernel_wish *wish,
		   const struct trapline_event_opts *shared)
{
	struct trapline_event_opts opts = *shared;

	if (shows_args(k, wish))
		opts.texts = texts_of(wish);
	if (k->run.set.ret)
		opts.flags |= TRAPLINE_RETURNS;
	if (k->is_everywhere)
		opts.flags |= TRAPLINE_EVERYWHERE;
	int err = trapline_break_kernel(k->run.target, wish->what, wish->numbers, wish->count,
					&opts, &k->event[k->event_count]);
	if (err < 0)
		return session_explain(&k->run.session, "observe", k->run.title, err);
	k->event_count++;
	return 0;
}

static int kernel_arm(struct observe *o, struct trapline_event_opts *opts)
{
	struct kernel_run *k = (struct kernel_run *)o;
	int status = 0;

	/* A call counts only after its result has been compared. */
	opts->limit = o->set.result.count ? 0 : observe_limit(o);
	for (size_t i = 0; !status && i < k->where.count; i++)
		status = arm_one(k, k->where.wish[i], opts);
	o->events = k->event;
	o->event_count = k->event_count;
	k->end.tracepoints = k->event_count;
	return status;
}

static void kernel_print_start(struct observe *o)
{
	const struct kernel_run *k = (struct kernel_run *)o;
	char processes[200];

	snprintf(processes, sizeof(processes), "process %d", o->session.pid);
	if (targets_are_several(&o->set))
		targets_describe(&o->set, processes, sizeof(processes));
	fprintf(stderr, "breaking on %s in %s, by tracepoints\n", k->description,
		k->is_everywhere ? "all processes" : processes);
}

/* ---- hits ---- */

static bool has_other_processes(const struct kernel_run *k, const struct trapline_hit *hit)
{
	return k->is_everywhere || targets_are_several(&k->run.set) ||
	       hit->pid != k->run.session.pid;
}

/* What is at the address of an argument later is of the program that was executed. */
static bool replaces_memory(const struct trapline_hit *hit)
{
	return hit->syscall == SYS_execve || hit->syscall == SYS_execveat;
}

/* call->hidden: a text was not in memory; at the end of the call it is. */
static void read_args(struct kernel_run *k, const struct kernel_wish *wish,
		      const struct trapline_hit *hit, struct symbols *s, struct break_call *call)
{
	const struct observe *o = &k->run;
	struct kernel_values v = { .s = replaces_memory(hit) ? NULL : s,
				   .hit = hit,
				   .what = wish->what };
	char text[ARGS_BYTES];

	if (!shows_args(k, wish))
		return;
	free(call->args_text);
	call->args_text = NULL;
	if (o->to.record || o->set.by || (o->to.text.f && !o->to.is_quiet)) {
		kernel_args_text(&v, text, sizeof(text));
		call->args_text = strdup(text);
	}
	json_decref(call->args_json);
	call->args_json = o->to.json || o->to.record ? kernel_args_json(&v) : NULL;
	call->args_later = v.later;
	call->hidden = v.missed;
}

/* The thread that runs when a timer ends has nothing to do with its signal. */
static bool is_by_thread(const struct kernel_wish *wish, const struct trapline_hit *hit)
{
	const int32_t code = (int32_t)hit->old_value;

	return wish->what != TRAPLINE_AT_SIGNAL || (code != SI_KERNEL && code != SI_TIMER) ||
	       hit->new_value == (uint64_t)hit->pid;
}

static struct break_call *call_of(struct kernel_run *k, size_t index,
				  const struct trapline_hit *hit)
{
	struct break_call *call = calloc(1, sizeof(*call));
	struct kernel_wish *wish = k->where.wish[index];
	struct run_frame frames[RUN_FRAMES_MAX];

	if (!call)
		return NULL;
	call->hit = *hit;
	call->hit.stack_bytes = NULL;
	call->frame = (struct break_frame){ .owner = (uint64_t)hit->tid, .depth = index };
	struct symbols *s = kernel_symbols_of(&k->symbols, hit)->now;
	/* First: to find names takes time, in which the process continues. */
	read_args(k, wish, hit, s, call);
	if (!is_by_thread(wish, hit))
		return call;
	call->caller = kernel_symbols_caller(s, hit);
	if (call->caller)
		hit_place(s, call->caller, call->caller != hit->ip, &call->caller_place);
	size_t n = k->run.set.stack && !symbols_is_32bit(s) ? hit_frames(s, hit, frames) : 0;
	call->frames = n ? malloc(n * sizeof(*frames)) : NULL;
	if (call->frames) {
		call->frame_count = n;
		memcpy(call->frames, frames, n * sizeof(*frames));
	}
	return call;
}

static void fill_result(struct kernel_run *k, const struct trapline_hit *hit, uint64_t value,
			struct run_call *call, char *buf, size_t n)
{
	kernel_result_text(hit->syscall, value, buf, n);
	call->has_result = true;
	call->result = buf;
	if (k->run.to.json || k->run.to.record)
		call->result_json = json_integer((json_int_t)value);
}

/* The end of a system call that has made the descriptor: that is when it is seen. */
static bool is_made(const struct kernel_run *k, const struct break_call *call)
{
	const struct kernel_wish *wish = k->where.wish[call->frame.depth];

	return wish->what == TRAPLINE_AT_DESCRIPTOR && call->hit.old_value;
}

/* returned NULL: it is printed without a result. */
static void print_call(struct kernel_run *k, const struct break_call *call,
		       const struct trapline_hit *returned)
{
	struct observe *o = &k->run;
	struct run_hit hit = observe_hit_of(o, &call->hit);
	struct run_call more = break_output_call_of(call);
	char result[64];

	o->hits++;
	const struct kernel_process *process = kernel_symbols_of(&k->symbols, &call->hit);
	if (has_other_processes(k, &call->hit))
		hit.process = process->name;
	hit_place(process->now, hit.ip, false, &hit.place);
	if (returned) {
		fill_result(k, returned, returned->new_value, &more, result, sizeof(result));
		more.duration_ns = returned->time_ns - hit.time_ns;
	} else if (is_made(k, call)) {
		fill_result(k, &call->hit, call->hit.new_value, &more, result, sizeof(result));
		more.has_no_duration = true;
	}
	break_output_print(o, call, &hit, &more);
	if (call->args_later && !k->said_later)
		cli_note(
			o->set.name,
			"'memory read later': some text was not in memory at its hit, and was read "
			"after it");
	k->said_later |= call->args_later;
}

static void on_return(struct kernel_run *k, size_t index, const struct trapline_hit *hit)
{
	const struct break_frame frame = { .owner = (uint64_t)hit->tid, .depth = index };
	struct break_call *call = break_calls_return(&k->open, &frame, hit->address);

	if (!call)
		return;
	k->last_record_ns = clock_now_ns();
	if (call->hidden)
		read_args(k, k->where.wish[index], hit, NULL, call);
	if (k->run.set.result.count &&
	    !result_holds(&k->run.set.result, k->run.symbols, NULL, hit->new_value))
		k->other_results++;
	else if (!observe_has_enough(&k->run))
		print_call(k, call, hit);
	break_call_free(call);
}

static enum trapline_action kernel_on_hit(const struct trapline_hit *hit)
{
	struct kernel_run *k = hit->arg;
	size_t index = 0;

	while (index < k->event_count && k->event[index] != hit->event)
		index++;
	const struct run_site *site =
		index < k->event_count ? kernel_locations_site(&k->where, index, hit) : NULL;
	if (!site)
		return TRAPLINE_GO_ON;
	k->last_record_ns = clock_now_ns();
	if (hit->returned) {
		on_return(k, index, hit);
		return TRAPLINE_GO_ON;
	}
	if (!k->run.set.ret && observe_has_enough(&k->run))
		return TRAPLINE_GO_ON;
	struct break_call *call = call_of(k, index, hit);
	if (!call)
		return TRAPLINE_GO_ON;
	call->site = (size_t)(site - k->where.site);
	pace_hit(&k->run.pace);
	if (k->run.set.ret && !is_made(k, call)) {
		break_calls_enter(&k->open, call);
		return TRAPLINE_GO_ON;
	}
	print_call(k, call, NULL);
	break_call_free(call);
	return TRAPLINE_GO_ON;
}

/* ---- the end ---- */

static bool all_have_begun(void *arg)
{
	struct kernel_run *k = arg;

	return k->run.set.ret && k->run.set.limit && !k->run.set.result.count &&
	       k->run.hits + k->open.open >= k->run.set.limit &&
	       clock_now_ns() - k->last_record_ns > PATIENCE_NS;
}

/* A process that executes another program is the same process. */
static bool all_have_ended(void *arg)
{
	struct kernel_run *k = arg;
	const uint64_t now = clock_now_ns();
	char state;

	kernel_symbols_look(&k->symbols);
	if (targets_are_several(&k->run.set))
		return targets_have_ended(&k->run.targets, k->event, k->event_count);
	if (k->is_everywhere || now - k->looked_ns < LOOK_NS)
		return k->is_over;
	k->looked_ns = now;
	state = program_thread_state(k->run.session.pid, k->run.session.pid);
	if (!state || state == 'Z' || state == 'X')
		k->is_over = program_state(k->run.session.pid) != PROGRAM_LOST_FIRST;
	return k->is_over;
}

static void print_open_calls(struct kernel_run *k)
{
	struct break_call **call = NULL;
	size_t n = break_calls_take(&k->open, &call);

	for (size_t i = 0; i < n; i++) {
		if (!k->run.set.result.count && !observe_has_enough(&k->run))
			print_call(k, call[i], NULL);
		break_call_free(call[i]);
	}
	free(call);
}

/* What the events could not see, in all of them. */
static void note_compat(const struct kernel_run *k)
{
	uint64_t compat = 0;

	for (size_t i = 0; i < k->event_count; i++) {
		struct trapline_stats st = { .size = sizeof(st) };

		trapline_event_stats(k->event[i], &st);
		compat = st.compat > compat ? st.compat : compat;
	}
	if (compat)
		cli_note(
			k->run.set.name,
			"%llu system calls by the 32-bit interface, whose numbers are others, were "
			"not observed",
			(unsigned long long)compat);
}

static void kernel_sum_up(struct observe *o, struct run_end *end)
{
	struct kernel_run *k = (struct kernel_run *)o;
	struct run_calls_end *more = &k->end;

	print_open_calls(k);
	targets_end(&o->targets, k->event, k->event_count);
	for (size_t i = 0; i < k->event_count; i++)
		event_stats_add(k->event[i], end);
	note_compat(k);
	if (k->symbols.without_names)
		cli_note(o->set.name,
			 "%llu process%s had ended before the memory map was read: the addresses "
			 "have no names there",
			 (unsigned long long)k->symbols.without_names,
			 k->symbols.without_names == 1 ? "" : "es");
	more->beyond = o->beyond;
	more->not_returned = k->open.not_returned + k->open.dropped;
	more->unpaired = k->open.unpaired;
	more->other_results = k->other_results;
}

static void kernel_release(struct observe *o)
{
	struct kernel_run *k = (struct kernel_run *)o;

	break_calls_free(&k->open);
	run_calls_end_sums(&k->calls);
	kernel_symbols_end(&k->symbols);
	kernel_locations_free(&k->where);
}

int break_kernel_run(struct observe_settings *set)
{
	static const struct observe_kind kind = {
		.doing = "observe",
		.on_hit = kernel_on_hit,
		.find = kernel_find,
		.describe = kernel_describe,
		.arm = kernel_arm,
		.print_start = kernel_print_start,
		.sum_up = kernel_sum_up,
		.release = kernel_release,
	};
	struct kernel_run k = { .run.calls = &k.calls,
				.run.calls_end = &k.end,
				.run.records_bytes = RECORDS_BYTES,
				.run.session.is_enough = all_have_begun,
				.run.session.have_ended = all_have_ended,
				.run.session.arg = &k,
				.run.session.is_one = !targets_are_several(set),
				.is_everywhere = break_kernel_is_everywhere(set) };
	int status = parse_locations(set, &k.where);

	if (!status)
		status = check_options(set, &k.where);
	if (k.is_everywhere)
		set->pid = getpid();
	if (!status)
		return observe_run(&k.run, &kind, set);
	kernel_locations_free(&k.where);
	return status;
}
