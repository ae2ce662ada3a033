// SPDX-License-Identifier: MIT
/*
 * cmd_break.c - `trapline break`: who calls this, with what, and what comes of it?
 *
 * Look up, arm, print until one of these: Ctrl-C or SIGTERM, the limit, the time, the end of the
 * target, or its exec. See run.h. A call whose return is wanted is printed when it has returned.
 */
#include "cli/break.h"
#include "cli/clock.h"
#include "cli/cmd.h"
#include "cli/condition.h"
#include "cli/event_stats.h"
#include "cli/hit_frames.h"
#include "cli/opts.h"
#include "cli/session.h"
#include "cli/thread_names.h"

#include <stdlib.h>
#include <string.h>

#define COMMAND break_command

const char *break_command;

#define ARGS_BYTES 1600

/* Looked for when it is needed first. */
struct site_signature {
	struct signature *signature; /* NULL: not looked for, or none */
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
	uint64_t hits; /* that were told */
	uint64_t beyond;
	uint64_t other_results;
	uint64_t last_record_ns;
};

/* Looked for when a site is hit first, or before arming to know which arguments are text. */
static const struct signature *signature_at(struct breaking *b, size_t index)
{
	struct site_signature *site = &b->signature[index];

	if (!site->looked_for && (b->set.args || b->set.ret || b->set.condition))
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
			output_progress(&b->output.to,
					"arguments of %zu of %zu functions", i,
					b->sites.count);
		if (signature && b->set.args)
			texts |= break_texts(signature, false);
		if (signature && b->set.ret)
			texts |= break_texts(signature, true);
	}
	output_clear_status(&b->output.to);
	return texts;
}

static int arm(struct breaking *b)
{
	TRAPLINE_OPTS(open, open_opts);
	TRAPLINE_OPTS(event, opts);

	open_opts.flags = b->set.no_bpf ? TRAPLINE_NO_BPF : 0;
	int err = trapline_open(b->session.pid, &open_opts, &b->target);
	if (err < 0)
		return session_explain(&b->session, "break on", b->set.where[0], err);
	opts.arg = b;
	/* Which calls count is known when they have returned. */
	opts.limit = b->set.result_tests ? 0 : b->set.limit;
	opts.condition = b->condition;
	opts.flags = (b->set.stack ? TRAPLINE_STACK_BYTES : 0) |
		     (b->set.ret ? TRAPLINE_RETURNS : 0);
	if (b->set.args || b->set.ret)
		opts.texts = texts_of_all(b);
	output_progress(&b->output.to, "placing %zu breakpoints", b->sites.count);
	int status =
		break_arm(b->target, &b->session, &b->set, &b->sites, &opts, &b->armed);
	output_clear_status(&b->output.to);
	return status;
}

/* The runtime of Go moves stacks and walks them: a return address that is not its own ends it. */
static int refuse_go(struct breaking *b)
{
	for (size_t i = 0; i < b->sites.count; i++)
		if (b->sites.site[i].kind == CODE_SITE_FUNCTION &&
		    symbols_is_go(b->symbols, b->sites.site[i].address))
			return cli_wrong(
				COMMAND,
				"--ret would crash the process: %s is Go, whose runtime does not "
				"know the return addresses that the kernel puts in; without "
				"--ret it can be broken on",
				b->sites.site[i].name);
	return 0;
}

/* Names of parameters are those of each function; one condition must do for all. */
static int make_condition(struct breaking *b)
{
	struct condition_names names = { .symbols = b->symbols };

	if (!b->set.condition)
		return 0;
	names.signature = signature_at(b, 0);
	int status = cli_condition(COMMAND, b->set.condition, &names, &b->condition);
	for (size_t i = 1; !status && i < b->sites.count; i++) {
		struct condition_names other = { .symbols = b->symbols,
						 .signature = signature_at(b, i) };
		int differs = cli_condition_compare(b->set.condition, &names, &other);
		if (differs < 0)
			break;
		if (differs)
			return cli_wrong(COMMAND,
					 "--if means one thing in %s and another in %s, whose "
					 "parameters are others: break on one at a time",
					 b->sites.site[0].name, b->sites.site[i].name);
	}
	return status;
}

static int find_and_arm(struct breaking *b)
{
	int status = session_open_symbols(&b->session, &b->symbols);

	if (!status)
		status = break_find(b->symbols, &b->set, &b->output.to, &b->sites);
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
	for (size_t i = 0; !status && b->set.result_tests && i < b->sites.count; i++)
		status = break_result_check(&b->set, b->symbols, signature_at(b, i),
					    b->sites.site[i].name);
	if (status || b->set.explain)
		return status;
	status = break_output_begin(&b->output, &b->set, b->session.pid, &b->sites);
	if (status)
		return status;
	status = b->set.ret ? refuse_go(b) : 0;
	if (status)
		return status;
	b->session.probe = b->sites.site[0].address;
	session_open_memory(&b->session);
	return arm(b);
}

static bool is_dry(const struct breaking *b)
{
	return b->set.explain || b->set.list;
}

static int start(struct breaking *b)
{
	int status = session_hold(&b->session);

	if (status)
		return status;
	status = find_and_arm(b);
	session_release(&b->session, !status && !is_dry(b));
	return status;
}

static void say_start(const struct breaking *b)
{
	const struct break_armed *a = &b->armed;
	char what[200];

	break_describe(&b->sites, what, sizeof(what));
	fprintf(stderr, "breaking on %s in process %d", what, b->session.pid);
	if (a->emulated + a->stepped)
		fprintf(stderr, ", by uprobes: %zu cheap, %zu single-stepped",
			a->emulated, a->stepped);
	if (a->hardware)
		fprintf(stderr, ", %zu by hardware breakpoint", a->hardware);
	fputc('\n', stderr);
	if (!b->set.no_bpf && trapline_event_mechanism(a->event[0]) == TRAPLINE_BY_RING)
		session_note_without_bpf(&b->session);
}

/* The unwinder goes through a copy of the stack in which return addresses are the real ones. */
static void read_stack(struct breaking *b, const struct trapline_hit *hit,
		       struct break_call *call)
{
	struct trapline_hit mended = *hit;
	void *stack = hit->stack_bytes_len ? malloc(hit->stack_bytes_len) : NULL;

	if (stack) {
		memcpy(stack, hit->stack_bytes, hit->stack_bytes_len);
		break_calls_mend_stack(&b->calls, hit, stack);
		mended.stack_bytes = stack;
	}
	struct run_frame frames[RUN_FRAMES_MAX];
	size_t n = hit_frames(b->symbols, &mended, frames);
	call->frames = n ? malloc(n * sizeof(*frames)) : NULL;
	call->frame_count = call->frames ? n : 0;
	if (call->frames)
		memcpy(call->frames, frames, n * sizeof(*frames));
	free(stack);
}

static void read_args(struct breaking *b, const struct trapline_hit *hit,
		      struct break_call *call, const struct signature *signature)
{
	struct break_values values = { .s = b->symbols, .hit = hit };
	char text[ARGS_BYTES];

	if (b->output.record || (b->output.to.text.f && !b->output.is_quiet)) {
		break_args_text(&values, signature, text, sizeof(text));
		call->args_text = strdup(text);
	}
	if (b->output.to.json || b->output.record)
		call->args_json = break_args_json(&values, signature);
	call->args_later = values.later;
}

/* Where BPF is not permitted: what the record has of the stack begins with the return address. */
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
		call->caller = break_calls_real_caller(&b->calls, hit);
	if (b->set.stack)
		read_stack(b, hit, call);
	if (!call->caller && site->kind == CODE_SITE_FUNCTION)
		call->caller = caller_on_stack(hit);
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

static void tell(struct breaking *b, const struct break_call *call,
		 const struct trapline_hit *returned)
{
	b->hits++;
	break_output_call(&b->output, b->symbols, call, returned,
			  signature_at(b, call->site));
}

static void on_return(struct breaking *b, const struct trapline_hit *hit)
{
	struct break_call *call = break_calls_return(&b->calls, hit);

	if (!call)
		return;
	if (b->set.result_tests && !break_result_holds(&b->set, b->symbols,
						       signature_at(b, call->site), hit))
		b->other_results++;
	else if (!is_enough(b))
		tell(b, call, hit);
	break_call_free(call);
}

static bool will_return(const struct breaking *b, const struct trapline_hit *hit,
			const struct code_site *site)
{
	return b->set.ret && site->kind == CODE_SITE_FUNCTION &&
	       trapline_event_mechanism(hit->event) == TRAPLINE_BY_UPROBE;
}

static enum trapline_action on_hit(const struct trapline_hit *record)
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
	if (!returns && (b->set.result_tests || is_enough(b)))
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
	tell(b, call, NULL);
	break_call_free(call);
	return TRAPLINE_GO_ON;
}

/* All calls that were wanted have begun: how long the last of them may take to return. */
#define PATIENCE_NS 1000000000u

/* With --ret a call counts when it has returned; one that never does must not hold us up. */
static bool all_have_begun(void *arg)
{
	struct breaking *b = arg;

	return b->set.ret && b->set.limit && !b->set.result_tests && b->hits + b->calls.open >= b->set.limit &&
	       now_ns() - b->last_record_ns > PATIENCE_NS;
}

static void tell_open_calls(struct breaking *b)
{
	struct break_call **call = NULL;
	size_t n = break_calls_take(&b->calls, &call);

	for (size_t i = 0; i < n; i++) {
		if (!b->set.result_tests && !is_enough(b))
			tell(b, call[i], NULL);
		break_call_free(call[i]);
	}
	free(call);
}

static double price(const struct breaking *b, enum break_price_kind kind, size_t places)
{
	return places ? break_price_ns(&b->set, kind) : -1;
}

static void finish(struct breaking *b, const char *reason)
{
	char command[64];
	struct run_end end = { .reason = reason,
			       .pauses = b->pace.pauses,
			       .price_ns = -1,
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
	more.emulated_ns = price(b, BREAK_PRICE_EMULATED, b->armed.emulated);
	more.stepped_ns = price(b, BREAK_PRICE_STEPPED, b->armed.stepped);
	more.hardware_ns = price(b, BREAK_PRICE_HARDWARE, b->armed.hardware);
	session_describe_command(&b->session, command, sizeof(command));
	end.command = command[0] ? command : NULL;
	break_output_end(&b->output, &end, &more);
	if (b->set.record && !b->output.is_broken)
		printf("recorded in %s: trapline report %s\n", b->set.record, b->set.record);
}

static void release(struct breaking *b)
{
	trapline_close(b->target);
	break_output_close(&b->output);
	break_calls_free(&b->calls);
	for (size_t i = 0; b->signature && i < b->sites.count; i++)
		signature_free(b->signature[i].signature);
	free(b->signature);
	free(b->set.entry_text);
	code_sites_free(&b->sites);
	symbols_close(b->symbols);
	trapline_condition_free(b->condition);
	session_close(&b->session);
}

static int command_run(const char *command, int argc, char **argv)
{
	struct breaking b = { 0 };

	break_command = command;
	int status = break_settings_read(&b.set, argc, argv);

	if (status)
		return status < 0 ? CLI_OK : status;
	b.session = (struct session){ .name = COMMAND,
				      .pid = b.set.pid,
				      .command = b.set.command,
				      .limit = b.set.limit,
				      .for_ns = b.set.for_ns,
				      .memory_fd = -1 };
	status = break_output_open(&b.output, &b.set);
	if (!status)
		status = start(&b);
	if (!status && b.set.explain && !b.set.list) {
		status = cli_condition_explain(COMMAND, b.condition);
	} else if (!status && !is_dry(&b)) {
		say_start(&b);
		b.session.is_enough = all_have_begun;
		b.session.arg = &b;
		pace_start(&b.pace, b.armed.event, b.armed.count, b.set.max_rate);
		const char *reason = session_loop(&b.session, b.target, &b.pace,
						  &b.output.to, on_hit, &b.hits);
		tell_open_calls(&b);
		finish(&b, reason);
	}
	bool wait = !status && !is_dry(&b);
	struct session end = b.session;
	release(&b);
	if (wait)
		session_wait_for_command(&end);
	return status;
}

int cmd_break(int argc, char **argv)
{
	return command_run("break", argc, argv);
}

int cmd_record_break(int argc, char **argv)
{
	return command_run("record", argc, argv);
}
