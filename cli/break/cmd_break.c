// SPDX-License-Identifier: MIT
/*
 * cmd_break.c - `trapline break`: reports calls of functions, with arguments, results and callers.
 *
 * It looks up, arms, and prints until the first of these: Ctrl-C or SIGTERM, the limit, the time, the
 * end of the target, or its exec. A call whose return is wanted is printed when it has returned.
 */
#include "cli/break/break.h"
#include "cli/cmd.h"
#include "cli/launch/thread_names.h"
#include "cli/now.h"
#include "cli/observe/condition_option.h"
#include "cli/observe/event_stats.h"
#include "cli/observe/hit_frames.h"
#include "cli/observe/session.h"
#include "cli/opts.h"

#include <stdlib.h>
#include <string.h>

#define COMMAND break_command

const char *break_command;

#define ARGS_BYTES 1600

/* The signature of a site, which is looked up at the first use. */
struct site_signature {
	struct signature *signature; /* NULL: not looked up, or unknown */
	bool looked_for;
};

struct breaking {
	struct break_settings set;
	struct session session;
	struct symbols *symbols;
	struct trapline_condition *condition;
	struct trapline *target;
	struct code_sites sites;
	struct site_signature *signature; /* by index of sites */
	struct break_armed armed;
	struct break_calls calls;
	struct break_output output;
	struct pace pace;
	struct thread_names names;
	uint64_t hits; /* that were printed */
	uint64_t beyond;
	uint64_t other_results;
	uint64_t last_record_ns;
};

/* Called at the first hit of a site, or before arming to know which arguments are text. */
static const struct signature *signature_at(struct breaking *b, size_t index)
{
	struct site_signature *site = &b->signature[index];

	if (!site->looked_for && (b->set.args || b->set.ret || b->set.condition) &&
	    !symbols_is_go(b->symbols, b->sites.site[index].address) &&
	    !symbols_is_32bit(b->symbols))
		signature_find(b->symbols, &b->sites.site[index], &site->signature);
	site->looked_for = true;
	return site->signature;
}

static uint32_t texts_of_all(struct breaking *b)
{
	uint32_t texts = 0;

	for (size_t i = 0; i < b->sites.count; i++) {
		const struct signature *signature = signature_at(b, i);
		if (i % 64 == 0)
			output_progress(&b->output.to, "arguments of %zu of %zu functions", i,
					b->sites.count);
		if (signature && b->set.args)
			texts |= break_texts(signature, false);
		if (signature && b->set.ret)
			texts |= break_texts(signature, true);
	}
	output_clear_status(&b->output.to);
	return texts;
}

static int break_arm_all(struct breaking *b)
{
	TRAPLINE_OPTS(open, open_opts);
	TRAPLINE_OPTS(event, opts);

	open_opts.flags = b->set.no_bpf ? TRAPLINE_NO_BPF : 0;
	int err = trapline_open(b->session.pid, &open_opts, &b->target);
	if (err < 0)
		return session_explain(&b->session, "break on", b->set.locations[0], err);
	opts.arg = b;
	/* A call counts only after its result has been compared. */
	opts.limit = b->set.result.count ? 0 : b->set.limit;
	opts.condition = b->condition;
	opts.flags = (b->set.stack ? TRAPLINE_STACK_BYTES : 0) |
		     (b->set.ret ? TRAPLINE_RETURNS : 0);
	if (b->set.args || b->set.ret)
		opts.texts = texts_of_all(b);
	output_progress(&b->output.to, "placing %zu breakpoints", b->sites.count);
	int status = break_arm(b->target, &b->session, &b->set, &b->sites, &opts, &b->armed);
	output_clear_status(&b->output.to);
	return status;
}

/* The name of a Go function among the sites; NULL: there is none. */
static const char *find_go(struct breaking *b)
{
	for (size_t i = 0; i < b->sites.count; i++)
		if (b->sites.site[i].kind == CODE_SITE_FUNCTION &&
		    symbols_is_go(b->symbols, b->sites.site[i].address))
			return b->sites.site[i].name;
	return NULL;
}

/*
 * Go's compiler writes no unwind table, and its runtime moves stacks, so that a call is not known by the
 * place of its return address. Its functions use other registers for arguments than C does.
 */
static int refuse_go(struct breaking *b)
{
	const char *name = b->set.ret || b->set.args ? find_go(b) : NULL;

	if (name && b->set.ret)
		return cli_wrong(COMMAND,
				 "cannot use --ret: %s is a Go function, and there is no unwind "
				 "table to find its return instructions by; leave out --ret",
				 name);
	if (name)
		return cli_wrong(COMMAND,
				 "cannot print arguments of %s: Go functions get them in other "
				 "registers; leave out --args",
				 name);
	return 0;
}

/* The first option that reads registers or the stack; NULL: there is none. */
static const char *break_needs_64bit(const struct break_settings *set)
{
	if (set->args || set->ret)
		return set->args ? "--args" : "--ret";
	if (set->stack)
		return set->record ? "call stacks (add --no-stack)" : "--stack";
	return set->condition && strstr(set->condition, "arg") ? "arguments in --if" : NULL;
}

/* A parameter's name may mean another thing in each function, and there is one condition for all. */
static int make_condition(struct breaking *b)
{
	struct condition_names names = { .symbols = b->symbols, .has_result = b->set.ret };
	struct condition_parts parts = { 0 };

	if (!b->set.condition)
		return 0;
	names.signature = signature_at(b, 0);
	int status = cli_condition(COMMAND, b->set.condition, &names, &parts);
	b->condition = parts.entry;
	for (size_t i = 1; !status && i < b->sites.count; i++) {
		struct condition_names other = names;
		other.signature = signature_at(b, i);
		int differs = condition_compare(&names, &other, b->set.condition);
		if (differs < 0)
			break;
		if (differs)
			return cli_wrong(
				COMMAND,
				"--if means different things in %s and in %s, because their "
				"parameters differ; break on one at a time",
				b->sites.site[0].name, b->sites.site[i].name);
	}
	return status;
}

static int break_find_and_arm(struct breaking *b)
{
	int status = session_open_symbols(&b->session, &b->symbols);

	if (!status)
		status = break_find(b->symbols, &b->set, &b->output.to, &b->sites);
	if (!status && !b->set.list)
		status = session_check_width(&b->session, b->symbols, break_needs_64bit(&b->set));
	if (status)
		return status;
	if (b->set.list) {
		break_print_list(b->symbols, &b->sites, &b->output.to);
		return 0;
	}
	b->signature = calloc(b->sites.count, sizeof(*b->signature));
	if (!b->signature)
		return cli_wrong(COMMAND, "out of memory");
	status = make_condition(b);
	for (size_t i = 0; !status && b->set.result.count && i < b->sites.count; i++)
		status = break_result_check(&b->set, b->symbols, signature_at(b, i),
					    b->sites.site[i].name);
	if (status || b->set.explain)
		return status;
	status = break_output_begin(&b->output, &b->set, b->session.pid, &b->sites);
	if (status)
		return status;
	status = refuse_go(b);
	if (status)
		return status;
	b->session.probe = b->sites.site[0].address;
	session_open_memory(&b->session);
	return break_arm_all(b);
}

static bool is_dry(const struct breaking *b)
{
	return b->set.explain || b->set.list;
}

static int break_start(struct breaking *b)
{
	int status = session_hold(&b->session);

	if (status)
		return status;
	status = break_find_and_arm(b);
	session_release(&b->session, !status && !is_dry(b));
	return status;
}

static void break_print_start(const struct breaking *b)
{
	const struct break_armed *a = &b->armed;
	char what[200];

	break_describe(&b->sites, what, sizeof(what));
	fprintf(stderr, "breaking on %s in process %d, by %s\n", what, b->session.pid,
		!a->hardware		 ? "uprobes" :
		a->emulated + a->stepped ? "uprobes and hardware breakpoints" :
					   "hardware breakpoints");
	if (!b->set.no_bpf && trapline_event_mechanism(a->event[0]) == TRAPLINE_BY_RING)
		session_note_without_bpf(&b->session);
}

static void read_stack(struct breaking *b, const struct trapline_hit *hit, struct break_call *call)
{
	struct run_frame frames[RUN_FRAMES_MAX];
	size_t n = hit_frames(b->symbols, hit, frames);

	call->frames = n ? malloc(n * sizeof(*frames)) : NULL;
	call->frame_count = call->frames ? n : 0;
	if (call->frames)
		memcpy(call->frames, frames, n * sizeof(*frames));
}

static void read_args(struct breaking *b, const struct trapline_hit *hit, struct break_call *call,
		      const struct signature *signature)
{
	struct break_values values = { .s = b->symbols, .hit = hit };
	char text[ARGS_BYTES];

	if (b->output.to.record || (b->output.to.text.f && !b->output.to.is_quiet)) {
		break_args_text(&values, signature, text, sizeof(text));
		call->args_text = strdup(text);
	}
	if (b->output.to.json || b->output.to.record)
		call->args_json = break_args_json(&values, signature);
	call->args_later = values.later;
}

/* Without BPF the copy of the stack in the record begins with the return address. */
static uint64_t caller_on_stack(const struct trapline_hit *hit)
{
	uint64_t word = 0;

#if defined(__x86_64__)
	if (hit->stack_bytes_len >= sizeof(word))
		memcpy(&word, hit->stack_bytes, sizeof(word));
#else
	trapline_hit_register(hit, 30, &word);
#endif
	return word;
}

static struct break_call *call_of(struct breaking *b, const struct trapline_hit *hit,
				  const struct code_site *site)
{
	struct break_call *call = calloc(1, sizeof(*call));

	if (!call)
		return NULL;
	call->site = (size_t)(site - b->sites.site);
	call->hit = *hit;
	if (site->kind == CODE_SITE_FUNCTION)
		call->caller = hit->caller;
	if (b->set.stack)
		read_stack(b, hit, call);
	if (!call->caller && site->kind == CODE_SITE_FUNCTION)
		call->caller = caller_on_stack(hit);
	/* A return address of a 32-bit program has 4 bytes, and 8 were read. */
	if (symbols_is_32bit(b->symbols))
		call->caller = 0;
	if (b->set.args)
		read_args(b, hit, call, signature_at(b, call->site));
	return call;
}

static bool is_enough(struct breaking *b)
{
	if (!b->set.limit || b->hits < b->set.limit)
		return false;
	b->beyond++;
	return true;
}

static void print_call(struct breaking *b, const struct break_call *call,
		       const struct trapline_hit *returned)
{
	b->hits++;
	break_output_call(&b->output, b->symbols, call, returned, signature_at(b, call->site));
}

static void on_return(struct breaking *b, const struct trapline_hit *hit)
{
	struct break_call *call = break_calls_return(&b->calls, hit);

	if (!call)
		return;
	if (b->set.result.count && hit->returned == TRAPLINE_LEFT)
		b->calls.not_returned++;
	else if (b->set.result.count &&
		 !break_result_holds(&b->set, b->symbols, signature_at(b, call->site), hit))
		b->other_results++;
	else if (!is_enough(b))
		print_call(b, call, hit);
	break_call_free(call);
}

static bool will_return(const struct breaking *b, const struct trapline_hit *hit,
			const struct code_site *site)
{
	return b->set.ret && !b->armed.no_return[site - b->sites.site] &&
	       trapline_event_mechanism(hit->event) == TRAPLINE_BY_UPROBE;
}

static enum trapline_action break_on_hit(const struct trapline_hit *record)
{
	struct breaking *b = record->arg;
	struct trapline_hit hit = *record;
	const struct code_site *site = code_sites_at(&b->sites, hit.address);

	if (!site)
		return TRAPLINE_GO_ON;
	b->last_record_ns = now_ns();
	if (hit.returned) {
		on_return(b, &hit);
		return TRAPLINE_GO_ON;
	}
	bool returns = will_return(b, &hit, site);
	if (!returns && (b->set.result.count || is_enough(b)))
		return TRAPLINE_GO_ON;
	thread_names_fill(&b->names, &hit);
	struct break_call *call = call_of(b, &hit, site);
	if (!call)
		return TRAPLINE_GO_ON;
	pace_hit(&b->pace);
	if (returns) {
		break_calls_enter(&b->calls, call);
		return TRAPLINE_GO_ON;
	}
	print_call(b, call, NULL);
	break_call_free(call);
	return TRAPLINE_GO_ON;
}

/* How long the last calls may take to return when as many as the limit have begun. */
#define PATIENCE_NS 1000000000u

/* With --ret a call counts when it has returned. A call that never returns must not delay the end. */
static bool all_have_begun(void *arg)
{
	struct breaking *b = arg;

	return b->set.ret && b->set.limit && !b->set.result.count &&
	       b->hits + b->calls.open >= b->set.limit &&
	       now_ns() - b->last_record_ns > PATIENCE_NS;
}

static void print_open_calls(struct breaking *b)
{
	struct break_call **call = NULL;
	size_t n = break_calls_take(&b->calls, &call);

	for (size_t i = 0; i < n; i++) {
		if (!b->set.result.count && !is_enough(b))
			print_call(b, call[i], NULL);
		break_call_free(call[i]);
	}
	free(call);
}

static double cost(const struct breaking *b, enum break_cost_kind kind, size_t places)
{
	return places ? break_cost_ns(&b->set, kind) : -1;
}

/* The summary. An exit status: what could not be written is an error. */
static int break_finish(struct breaking *b, const char *reason)
{
	char command[64];
	struct run_end end = { .reason = reason,
			       .pauses = b->pace.pauses,
			       .cost_ns = -1,
			       .paused_ns = b->pace.paused_ns,
			       .max_rate = b->set.max_rate };
	struct run_calls_end more = { .emulated = b->armed.emulated,
				      .stepped = b->armed.stepped,
				      .hardware = b->armed.hardware,
				      .refused = b->armed.refused,
				      .refused_names = b->armed.refused_names,
				      .beyond = b->beyond,
				      .not_returned = b->calls.not_returned + b->calls.dropped,
				      .unpaired = b->calls.unpaired,
				      .other_results = b->other_results };

	end.duration_ns = now_ns() - b->session.started_ns;
	for (size_t i = 0; i < b->armed.count; i++)
		event_stats_add(b->armed.event[i], &end);
	output_progress(&b->output.to, "taking %zu breakpoints out", b->sites.count);
	trapline_close(b->target);
	b->target = NULL;
	more.emulated_ns = cost(b, BREAK_COST_EMULATED, b->armed.emulated);
	more.stepped_ns = cost(b, BREAK_COST_STEPPED, b->armed.stepped);
	more.hardware_ns = cost(b, BREAK_COST_HARDWARE, b->armed.hardware);
	session_describe_command(&b->session, command, sizeof(command));
	end.command = command[0] ? command : NULL;
	end.is_stopped = b->session.is_stopped;
	break_output_end(&b->output, &end, &more);
	if (b->set.record && !b->output.to.failed_path)
		printf("recorded in %s: trapline report %s\n", b->set.record, b->set.record);
	return output_finish(&b->output.to, b->hits);
}

static void break_release(struct breaking *b)
{
	trapline_close(b->target);
	break_output_close(&b->output);
	break_calls_free(&b->calls);
	for (size_t i = 0; b->signature && i < b->sites.count; i++)
		signature_free(b->signature[i].signature);
	free(b->signature);
	free(b->armed.no_return);
	code_sites_free(&b->sites);
	symbols_close(b->symbols);
	trapline_condition_free(b->condition);
	session_close(&b->session);
}

int break_run(const struct break_settings *set)
{
	struct breaking b = { .set = *set };
	bool has_run = false;

	b.session = (struct session){ .name = COMMAND,
				      .pid = b.set.pid,
				      .command = b.set.command,
				      .limit = b.set.limit,
				      .for_ns = b.set.for_ns,
				      .memory_fd = -1 };
	int status = break_output_open(&b.output, &b.set);
	if (!status)
		status = break_start(&b);
	if (!status && b.set.explain && !b.set.list) {
		status = cli_condition_explain(COMMAND, b.condition);
	} else if (!status && !is_dry(&b)) {
		has_run = true;
		break_print_start(&b);
		b.session.is_enough = all_have_begun;
		b.session.arg = &b;
		pace_start(&b.pace, b.armed.event, b.armed.count, b.set.max_rate);
		const char *reason = session_loop(&b.session, b.target, &b.pace, &b.output.to,
						  break_on_hit, &b.hits);
		print_open_calls(&b);
		status = break_finish(&b, reason);
	}
	struct session end = b.session;
	break_release(&b);
	if (has_run)
		session_wait_for_command(&end);
	return status;
}

int cmd_break(int argc, char **argv)
{
	struct break_settings set;
	int status = break_settings_read(&set, argc, argv);

	if (status)
		return status < 0 ? CLI_OK : status;
	return break_run(&set);
}
