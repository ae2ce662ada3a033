/* SPDX-License-Identifier: MIT */
/* break_run.c - see break_run.h. A call whose return is wanted is printed when it has returned. */
#include "cli/break/break_run.h"

#include "base/clock.h"
#include "cli/break/break_args.h"
#include "cli/break/break_arm.h"
#include "cli/break/break_calls.h"
#include "cli/break/break_find.h"
#include "cli/break/break_go.h"
#include "cli/break/break_output.h"
#include "cli/break/break_pending.h"
#include "cli/break/break_print.h"
#include "cli/break/break_probe.h"
#include "cli/break/break_redact.h"
#include "cli/break/break_result.h"
#include "cli/break/break_trace.h"
#include "cli/message.h"
#include "cli/observe/condition_option.h"
#include "cli/observe/event_stats.h"
#include "cli/observe/hit_copies.h"
#include "cli/observe/hit_frames.h"
#include "cli/observe/hit_memory.h"

#include <stdlib.h>
#include <string.h>

#define ARGS_BYTES 1600

/* The signature of a site, which is looked up at the first use. */
struct site_signature {
	struct signature *signature; /* NULL: not looked up, or unknown */
	bool looked_for;
};

struct breaking {
	struct observe run;
	struct code_sites sites;
	struct site_signature *signature; /* by index of sites */
	struct break_armed armed;
	struct break_probe probe;
	struct break_pending pending;
	struct break_print print;
	struct break_calls calls;
	struct break_go go;
	struct break_output output;
	uint64_t other_results;
	bool said_later;
	uint64_t last_record_ns;
};

/* Called at the first hit of a site, or before arming to know which arguments are text. */
static const struct signature *signature_at(struct breaking *b, size_t index)
{
	struct site_signature *site = &b->signature[index];

	bool is_wanted = b->run.set.args || b->run.set.ret || b->run.set.condition ||
			 b->run.set.redact.count || break_print_is_wanted(&b->print);

	if (!site->looked_for && is_wanted && !symbols_is_32bit(b->run.symbols))
		signature_find(b->run.symbols, &b->sites.site[index], &site->signature);
	site->looked_for = true;
	return site->signature;
}

static uint32_t texts_of_all(struct breaking *b)
{
	uint32_t texts = 0;

	for (size_t i = 0; i < b->sites.count; i++) {
		const struct signature *signature = signature_at(b, i);
		if (i % 64 == 0)
			output_progress(&b->run.to, "arguments of %zu of %zu functions", i,
					b->sites.count);
		if (signature && b->run.set.args)
			texts |= break_texts(signature, false);
		if (signature && b->run.set.ret)
			texts |= break_texts(signature, true);
	}
	output_clear_status(&b->run.to);
	return texts;
}

/*
 * A parameter's name may mean another thing in each function, and there is one condition for all.
 */
static int make_condition(struct breaking *b)
{
	struct condition_names names = { .symbols = b->run.symbols,
					 .has_result = b->run.set.ret,
					 .has_vectors = break_probe_has_vectors(&b->probe),
					 .threads = b->run.set.only_threads };
	struct condition_parts parts = { 0 };

	if (!b->run.set.condition && !names.threads)
		return 0;
	for (size_t i = 0; i < b->sites.count; i++)
		if (break_names_argument(b->run.set.condition) &&
		    symbols_is_go(b->run.symbols, b->sites.site[i].address))
			return cli_wrong(
				b->run.set.name,
				"cannot use arg0 to arg5 in --if: %s is Go, whose arguments are "
				"in other registers; give its parameters by name",
				b->sites.site[i].name);
	names.signature = signature_at(b, 0);
	names.site = &b->sites.site[0];
	int status = cli_condition(b->run.set.name, b->run.set.condition, &names, &parts);
	b->run.condition = parts.entry;
	for (size_t i = 1; !status && i < b->sites.count; i++) {
		struct condition_names other = names;
		other.signature = signature_at(b, i);
		other.site = &b->sites.site[i];
		int differs = condition_compare(&names, &other, b->run.set.condition);
		if (differs < 0)
			break;
		if (differs)
			return cli_wrong(
				b->run.set.name,
				"--if means different things in %s and in %s, because their "
				"parameters differ; break on one at a time",
				b->sites.site[0].name, b->sites.site[i].name);
	}
	return status;
}

/* A name that is misspelt would not redact. */
static int check_redacted(struct breaking *b)
{
	const struct observe_settings *set = &b->run.set;

	for (size_t k = 0; k < set->redact.count; k++) {
		const char *name = set->redact.texts[k];
		bool is_known = false;
		for (size_t i = 0; !is_known && i < b->sites.count; i++)
			is_known = break_redact_is_known(name, signature_at(b, i), set->ret,
							 set->print, set->by);
		if (!is_known)
			return cli_wrong(set->name,
					 "cannot redact '%.100s': %s has no argument of that name, "
					 "and no text to print has it",
					 name, b->sites.site[0].name);
	}
	return 0;
}

static int break_find_sites(struct observe *o)
{
	struct breaking *b = (struct breaking *)o;
	int status = o->set.pending ? break_pending_wait(&b->pending, o) : 0;

	if (!status)
		status = break_find(o->symbols, &o->set, &o->to, &b->sites);
	if (!status && o->set.list)
		break_print_list(o->symbols, &b->sites, &o->to);
	if (status || o->set.list)
		return status;
	status = session_check_width(&o->session, o->symbols, break_needs_64bit(&o->set));
	if (status)
		return status;
	b->signature = calloc(b->sites.count, sizeof(*b->signature));
	if (!b->signature)
		return cli_wrong(o->set.name, "out of memory");
	status = check_redacted(b);
	if (!status)
		status = make_condition(b);
	for (size_t i = 0; !status && i < b->sites.count; i++)
		status = break_print_bind(&b->print, &o->set, o->symbols, &b->sites, i,
					  signature_at(b, i));
	for (size_t i = 0; !status && o->set.result.count && i < b->sites.count; i++)
		status = break_result_check(&o->set, o->symbols, signature_at(b, i),
					    b->sites.site[i].name);
	return status;
}

/* Go uses other registers than C, and only debug information shows for what. */
static int refuse_unknown_go(struct breaking *b)
{
	for (size_t i = 0; i < b->sites.count; i++)
		if (!symbols_is_go(b->run.symbols, b->sites.site[i].address) || signature_at(b, i))
			return 0;
	return cli_wrong(
		b->run.set.name,
		"cannot print arguments of %s: it is Go, and there is no debug information "
		"about them; leave out --args",
		b->sites.site[0].name);
}

static int break_begin(struct observe *o)
{
	struct breaking *b = (struct breaking *)o;
	int status = break_go_find(&b->go, o, &b->sites);

	if (!status && o->set.args)
		status = refuse_unknown_go(b);
	o->title = o->set.operands[0];
	o->session.probe = b->sites.site[0].address;
	return status ? status : break_output_begin(o, &b->output, &b->sites);
}

/* How many vector registers have values that are to be shown. */
static uint32_t vectors_of_all(struct breaking *b)
{
	uint32_t most = 0;

	for (size_t i = 0; i < b->sites.count; i++) {
		const struct signature *signature = signature_at(b, i);
		uint32_t n = break_print_vectors(&b->print, i);
		most = n > most ? n : most;
		n = signature && b->run.set.args ? break_vectors(signature) : 0;
		most = n > most ? n : most;
	}
	return most;
}

static void note_vectors(struct breaking *b)
{
	bool is_wanted = b->probe.vectors > 0;

	for (size_t i = 0; b->run.set.ret && i < b->sites.count && !is_wanted; i++) {
		const struct signature *signature = signature_at(b, i);
		is_wanted = signature && signature->result.where == SIGNATURE_VECTOR;
	}
	if (is_wanted)
		cli_note(b->run.set.name,
			 "a value <in xmm0> is in a floating-point register, which a uprobe does "
			 "not read; %s",
			 b->run.set.ret ? "for arguments, use --mechanism probe without --ret" :
					  "use --mechanism probe");
}

/* A process that was started waits until its breakpoints are there, whichever kind they are. */
static int arm_probes_or_others(struct breaking *b, const struct trapline_event_opts *opts)
{
	int status = BREAK_PROBE_UNFIT;

	if (b->probe.region)
		status = break_probe_arm(&b->probe, &b->run, &b->sites, opts, &b->armed.sites);
	if (status != BREAK_PROBE_UNFIT)
		return status;
	if (condition_reads_vectors(b->run.condition))
		return cli_wrong(b->run.set.name,
				 "--if compares what is in a floating-point register, which only a "
				 "probe reads, and a probe is not possible: %s",
				 b->probe.why_not);
	note_vectors(b);
	status = break_arm(&b->run, &b->sites, opts, &b->armed);
	if (status || !b->probe.region)
		return status;
	break_probe_decline(&b->probe);
	b->run.session.poll = NULL;
	return 0;
}

static bool is_on_stack(const struct signature_value *v)
{
	if (v->where == SIGNATURE_STACK || v->where == SIGNATURE_MEMORY ||
	    v->where == SIGNATURE_FRAME)
		return true;
	for (size_t i = 0; v->where == SIGNATURE_PIECES && i < v->piece_count; i++)
		if (v->piece[i].kind == SIGNATURE_PIECE_STACK)
			return true;
	return false;
}

static bool any_value_on_stack(struct breaking *b)
{
	for (size_t i = 0; i < b->sites.count; i++) {
		const struct signature *signature = b->signature[i].signature;
		if (!signature)
			continue;
		for (size_t k = 0; b->run.set.args && k < signature->count; k++)
			if (is_on_stack(&signature->parameter[k]))
				return true;
		if (b->run.set.ret && is_on_stack(&signature->result))
			return true;
		for (size_t k = 0; b->run.set.ret && k < signature->more_count; k++)
			if (is_on_stack(&signature->more[k]))
				return true;
	}
	return false;
}

/* Returns of Go are hits at locations of their own. */
static void copies_of_go(struct breaking *b, struct hit_copies *c)
{
	c->at = HIT_COPIES_EXIT;
	for (size_t i = 0; i < b->go.count; i++) {
		const struct break_exit *exit = &b->go.exit[i];
		const struct signature *signature =
			exit->site == BREAK_GO_UNWINDS ? NULL : signature_at(b, exit->site);
		c->site = exit->address;
		if (signature)
			hit_copies_signature(c, signature);
	}
}

static bool any_is_go(const struct breaking *b)
{
	for (size_t i = 0; i < b->sites.count; i++)
		if (symbols_is_go(b->run.symbols, b->sites.site[i].address))
			return true;
	return false;
}

static void copies_of_all(struct breaking *b, struct hit_copies *c,
			  struct trapline_event_opts *opts)
{
	bool wants_stack = false;

	if (any_is_go(b))
		break_go_copies(&b->go, b->run.symbols, c);
	for (size_t i = 0; i < b->sites.count; i++) {
		const struct signature *signature = signature_at(b, i);
		c->site = b->sites.site[i].address;
		c->at = HIT_COPIES_CALL;
		if (signature && b->run.set.args)
			hit_copies_signature(c, signature);
		break_print_needs(&b->print, i, c, &opts->texts, &wants_stack);
		c->at = HIT_COPIES_RETURN;
		if (signature && b->run.set.ret && !b->go.count)
			hit_copies_signature(c, signature);
	}
	if (b->run.set.ret)
		copies_of_go(b, c);
	if (wants_stack)
		opts->flags |= TRAPLINE_STACK_BYTES;
}

static int break_arm_sites(struct observe *o, struct trapline_event_opts *opts)
{
	struct breaking *b = (struct breaking *)o;
	struct hit_copies copies = { .is_several = targets_are_several(&o->set) };

	/* A call counts only after its result has been compared. */
	opts->limit = o->set.result.count ? 0 : observe_limit(o);
	opts->flags |= o->set.ret && !b->go.count ? TRAPLINE_RETURNS : 0;
	if (o->set.args || o->set.ret)
		opts->texts = texts_of_all(b);
	/* A value on the stack that is read later may be another by then. */
	if (any_value_on_stack(b))
		opts->flags |= TRAPLINE_STACK_BYTES;
	copies.texts = opts->texts;
	copies_of_all(b, &copies, opts);
	opts->memory = copies.row;
	opts->memory_count = copies.count;
	b->probe.vectors = vectors_of_all(b);
	output_progress(&o->to, "placing %zu breakpoints", b->sites.count);
	int status = b->go.count ? break_go_arm(&b->go, o, opts) : 0;
	if (!status)
		status = arm_probes_or_others(b, opts);
	if (!status && b->go.event)
		break_go_join(&b->go, &b->sites, &b->armed);
	output_clear_status(&o->to);
	o->counts = b->probe.region ? &b->probe.region->counts : NULL;
	o->events = b->armed.event;
	o->event_count = b->armed.count;
	if (!status)
		break_pending_armed(&b->pending, o);
	return status;
}

static void break_print_start(struct observe *o)
{
	struct breaking *b = (struct breaking *)o;
	const struct run_calls_end *sites = &b->armed.sites;
	char processes[200];

	break_describe(&b->sites, b->armed.left_out, b->output.description,
		       sizeof(b->output.description));
	for (size_t i = 0; b->armed.no_return && i < b->output.calls.site_count; i++)
		b->output.calls.site[i].has_no_return = b->armed.no_return[i];
	snprintf(processes, sizeof(processes), "process %d", o->session.pid);
	if (targets_are_several(&o->set))
		targets_describe(&o->set, processes, sizeof(processes));
	fprintf(stderr, "breaking on %s in %s, by %s", b->output.description, processes,
		b->probe.region			 ? "probes" :
		!sites->hardware		 ? "uprobes" :
		sites->emulated + sites->stepped ? "uprobes and hardware breakpoints" :
						   "hardware breakpoints");
	if (b->probe.is_chosen && b->probe.region)
		fputs(", which cost least", stderr);
	else if (b->probe.why_not[0])
		fprintf(stderr, ", not by probes: %s", b->probe.why_not);
	fputs("\n", stderr);
	if (b->armed.count && !o->set.no_bpf &&
	    trapline_event_mechanism(b->armed.event[0]) == TRAPLINE_BY_RING)
		session_note_without_bpf(&o->session);
}

/* Those of the process that the hit is of. */
static struct symbols *symbols_of(struct observe *o, const struct trapline_hit *hit)
{
	return o->targets.set ? targets_symbols(&o->targets, hit) : o->symbols;
}

static void read_args(struct breaking *b, const struct trapline_hit *hit, struct break_call *call,
		      const struct signature *signature)
{
	struct break_values values = { .s = symbols_of(&b->run, hit),
				       .hit = hit,
				       .redact = &b->run.set.redact };
	char text[ARGS_BYTES];

	if (b->run.to.record || b->run.set.by || (b->run.to.text.f && !b->run.to.is_quiet)) {
		break_args_text(&values, signature, text, sizeof(text));
		call->args_text = strdup(text);
	}
	if (b->run.to.json || b->run.to.record)
		call->args_json = break_args_json(&values, signature);
	call->args_later = values.later;
	if (values.later && !b->said_later)
		cli_note(
			b->run.set.name,
			"%s: some memory was read after its hit, when the program may have changed it: %s",
			"'memory read later'", hit_memory_remedy(hit));
	b->said_later = b->said_later || values.later;
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
	struct run_frame frames[RUN_FRAMES_MAX];

	if (!call)
		return NULL;
	call->site = (size_t)(site - b->sites.site);
	call->hit = *hit;
	call->frame = symbols_is_go(b->run.symbols, site->address) ?
			      break_go_frame(b->run.symbols, hit) :
			      break_calls_frame(hit);
	trapline_hit_register(hit, (unsigned int)signature_argument_register(0), &call->hidden);
	if (site->kind == CODE_SITE_FUNCTION)
		call->caller = hit->caller;
	size_t n = b->run.set.stack ? hit_frames(symbols_of(&b->run, hit), hit, frames) : 0;
	call->frames = n ? malloc(n * sizeof(*frames)) : NULL;
	if (call->frames) {
		call->frame_count = n;
		memcpy(call->frames, frames, n * sizeof(*frames));
	}
	if (!call->caller && site->kind == CODE_SITE_FUNCTION)
		call->caller = caller_on_stack(hit);
	/* A return address of a 32-bit program has 4 bytes, and 8 were read. */
	if (symbols_is_32bit(b->run.symbols))
		call->caller = 0;
	if (call->caller)
		hit_place(symbols_of(&b->run, hit), call->caller, true, &call->caller_place);
	if (b->run.set.args)
		read_args(b, hit, call, signature_at(b, call->site));
	break_print_call(&b->print, symbols_of(&b->run, hit), hit, call);
	return call;
}

static void print_call(struct breaking *b, const struct break_call *call,
		       const struct trapline_hit *returned)
{
	b->run.hits++;
	break_output_call(&b->run, symbols_of(&b->run, &call->hit), call, returned,
			  signature_at(b, call->site));
}

static void on_return(struct breaking *b, const struct trapline_hit *hit,
		      const struct break_exit *exit)
{
	struct break_frame frame = exit ? break_go_frame(b->run.symbols, hit) :
					  break_calls_frame(hit);
	struct break_call *call = break_calls_return(
		&b->calls, &frame, exit ? b->sites.site[exit->site].address : hit->address);

	/* Returns of Go are seen even where --if or --limit left out the call. */
	if (!call && exit)
		b->calls.unpaired--;
	if (!call)
		return;
	b->last_record_ns = clock_now_ns();
	if (b->run.set.result.count && hit->returned == TRAPLINE_LEFT)
		b->calls.not_returned++;
	else if (b->run.set.result.count &&
		 !break_result_holds(&b->run.set, symbols_of(&b->run, hit),
				     signature_at(b, call->site), hit, call->caller))
		b->other_results++;
	else if (!observe_has_enough(&b->run))
		print_call(b, call, hit);
	break_call_free(call);
}

static enum trapline_action break_on_hit(const struct trapline_hit *record)
{
	struct breaking *b = record->arg;
	struct trapline_hit hit = *record;
	const struct break_exit *exit = break_go_exit(&b->go, &b->run, &b->calls, record);
	const struct code_site *site = code_sites_at(&b->sites, hit.address);

	if (!site && !exit)
		return TRAPLINE_GO_ON;
	/* Returns in Go are seen even of calls that are left out. */
	if (!exit)
		b->last_record_ns = clock_now_ns();
	if (exit || hit.returned) {
		if (!exit || exit->site != BREAK_GO_UNWINDS)
			on_return(b, &hit, exit);
		return TRAPLINE_GO_ON;
	}
	bool returns = b->run.set.ret && !b->armed.no_return[site - b->sites.site] &&
		       trapline_event_mechanism(hit.event) == TRAPLINE_BY_UPROBE;
	if (!returns && (b->run.set.result.count || observe_has_enough(&b->run)))
		return TRAPLINE_GO_ON;
	thread_names_fill(&b->run.names, &hit);
	if (symbols_is_go(b->run.symbols, site->address))
		break_go_name(&b->go, b->run.symbols, &hit);
	struct break_call *call = call_of(b, &hit, site);
	if (!call)
		return TRAPLINE_GO_ON;
	pace_hit(&b->run.pace);
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

/*
 * With --ret a call counts when it has returned. A call that never returns must not delay the end.
 */
static bool all_have_begun(void *arg)
{
	struct breaking *b = arg;

	if (b->probe.region && break_trace_is_done(b->probe.region))
		return true;
	return b->run.set.ret && b->run.set.limit && !b->run.set.result.count &&
	       b->run.hits + b->calls.open >= b->run.set.limit &&
	       clock_now_ns() - b->last_record_ns > PATIENCE_NS;
}

static bool all_have_ended(void *arg)
{
	struct breaking *b = arg;

	return targets_have_ended(&b->run.targets, b->armed.event, b->armed.count);
}

static void print_open_calls(struct breaking *b)
{
	struct break_call **call = NULL;
	size_t n = break_calls_take(&b->calls, &call);

	for (size_t i = 0; i < n; i++) {
		if (!b->run.set.result.count && !observe_has_enough(&b->run))
			print_call(b, call[i], NULL);
		break_call_free(call[i]);
	}
	free(call);
}

static void break_sum_up(struct observe *o, struct run_end *end)
{
	struct breaking *b = (struct breaking *)o;
	struct run_calls_end *more = &b->armed.sites;

	print_open_calls(b);
	targets_end(&o->targets, b->armed.event, b->armed.count);
	for (size_t i = 0; i < b->armed.count; i++)
		event_stats_add(b->armed.event[i], end);
	if (b->probe.region) {
		break_probe_end(&b->probe, o, break_on_hit, end);
		break_trace_print(b->probe.region, o);
	}
	more->refused_names = b->probe.region ? b->probe.refused_names : b->armed.refused_names;
	more->no_probe = b->probe.why_not[0] ? b->probe.why_not : NULL;
	more->beyond = o->beyond;
	more->not_returned = b->calls.not_returned + b->calls.dropped;
	more->unpaired = b->calls.unpaired;
	more->other_results = b->other_results;
}

static void break_release(struct observe *o)
{
	struct breaking *b = (struct breaking *)o;

	break_probe_release(&b->probe);
	break_pending_release(&b->pending, &o->session);
	break_print_free(&b->print);
	break_output_end(&b->output);
	break_calls_free(&b->calls);
	break_go_free(&b->go);
	for (size_t i = 0; b->signature && i < b->sites.count; i++)
		signature_free(b->signature[i].signature);
	free(b->signature);
	free(b->armed.no_return);
	free(b->armed.left_out);
	code_sites_free(&b->sites);
}

static int check_condition(struct observe_settings *set)
{
	const struct condition_names names = { .has_result = set->ret };
	struct condition_parts parts = { 0 };
	int status = cli_condition(set->name, set->condition, &names, &parts);
	bool has_entry = parts.entry;

	trapline_condition_free(parts.entry);
	set->result = parts.result;
	if (!status && set->explain && !has_entry)
		return cli_wrong(set->name,
				 "--explain prints what the kernel evaluates, and trapline itself "
				 "compares results");
	return status;
}

static int break_check_options(struct observe_settings *set)
{
	if (set->ret && set->no_bpf)
		return cli_wrong(set->name,
				 "--ret cannot be combined with --no-bpf: it needs uprobes and "
				 "BPF");
	int status = break_trace_check(set);

	if (!status)
		status = break_pending_check(set);
	if (!status)
		status = break_probe_check(set);
	if (!status)
		status = check_condition(set);
	return status ? status : break_check(set);
}

static int hold_for_probes(void *arg)
{
	struct breaking *b = arg;

	return break_probe_hold(&b->probe, &b->run.session);
}

static int poll_probes(void *arg, int timeout_ms, trapline_callback fn)
{
	struct breaking *b = arg;

	return break_probe_poll(&b->probe, &b->run, timeout_ms, fn);
}

static int use_probes(struct breaking *b, const struct observe_settings *set)
{
	if (!break_probe_is_wanted(set, &b->probe))
		return 0;
	b->run.session.hold = hold_for_probes;
	b->run.session.poll = poll_probes;
	return break_probe_begin(set, &b->probe);
}

int break_run(struct observe_settings *set)
{
	static const struct observe_kind kind = {
		.doing = "break on",
		.on_hit = break_on_hit,
		.has = break_has,
		.find = break_find_sites,
		.describe = break_begin,
		.arm = break_arm_sites,
		.print_start = break_print_start,
		.sum_up = break_sum_up,
		.release = break_release,
	};
	struct breaking b = { .run.calls = &b.output.calls,
			      .run.calls_end = &b.armed.sites,
			      .run.session.is_enough = all_have_begun,
			      .run.session.arg = &b };
	int status = break_check_options(set);

	if (!status)
		status = break_print_begin(&b.print, set);
	b.run.session.enough = set->trace ? "the call was traced" : NULL;
	if (targets_are_several(set))
		b.run.session.have_ended = all_have_ended;
	if (!status)
		status = use_probes(&b, set);
	if (status)
		break_print_free(&b.print);
	return status ? status : observe_run(&b.run, &kind, set);
}
