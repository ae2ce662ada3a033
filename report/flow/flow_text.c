/* SPDX-License-Identifier: MIT */
/*
 * flow_text.c - flows as a tree for people: sources, the steps of their bytes, and what got them.
 */
#include "report/flow/flow_report.h"

#include "report/plural.h"
#include "report/run/run_text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 64
#define RESIDUES_MAX 8u /* of one step, without --verbose */

struct tree {
	struct flow_report *report;
	bool *is_used; /* steps that lead to a flow */
	bool is_verbose;
	bool has_color;
	FILE *f;
};

static void indent(const struct tree *t, unsigned int depth)
{
	for (unsigned int i = 0; i < depth; i++)
		fputs("  ", t->f);
}

static void print_in(const struct tree *t, const struct flow_where *w)
{
	const struct place *p = &w->in.place;
	char same[600];

	run_same_code_text(p, same, sizeof(same));
	fprintf(t->f, "%s%s", w->name, same);
	if (p->file)
		fprintf(t->f, " (%s:%d)", p->file, p->line);
}

static void print_where(const struct tree *t, const struct flow_where *w)
{
	if (w->via[0])
		fprintf(t->f, "%s, called in ", w->via);
	print_in(t, w);
}

static void print_stack(const struct tree *t, const struct flow_stack *stack)
{
	struct run_frame frames[FLOW_STACK_MAX];

	if (t->is_verbose)
		run_text_frames(t->f, frames, flow_report_frames(t->report, stack, frames));
}

static void print_amount(const struct tree *t, const struct flow_record *r)
{
	const struct flow_source *source = flow_report_source(t->report, r->source);

	fprintf(t->f, "%" PRIu64 " byte%s", r->bytes, plural(r->bytes));
	if (r->kind != FLOW_COMPUTED && source && r->offset)
		fprintf(t->f, " from offset %" PRIu64, r->offset);
}

static bool is_same_residue(const struct flow_record *a, const struct flow_record *b)
{
	return a->kind == FLOW_RESIDUE && b->kind == FLOW_RESIDUE && a->source == b->source &&
	       a->step == b->step && a->address == b->address && a->bytes == b->bytes;
}

/* Forked children have the copies of their parent: printed once. */
static bool is_told(const struct tree *t, size_t i)
{
	const struct flow_record *r = &flow_report_view(t->report, i)->record;

	for (size_t k = 0; k < i && r->kind == FLOW_RESIDUE; k++)
		if (is_same_residue(&flow_report_view(t->report, k)->record, r))
			return true;
	return false;
}

static uint64_t count_processes(const struct tree *t, const struct flow_record *r)
{
	uint64_t n = 0;

	for (size_t i = 0; i < flow_report_count(t->report); i++)
		n += is_same_residue(&flow_report_view(t->report, i)->record, r);
	return n;
}

static void print_residue(const struct tree *t, const struct flow_record *r)
{
	fprintf(t->f, "%s residue: ", flow_grade_names[r->grade]);
	print_amount(t, r);
	fprintf(t->f, " at 0x%" PRIx64, r->address);
	if (r->block)
		fprintf(t->f, ", at offset %" PRIu64 " of a block of %" PRIu64 " bytes",
			r->address - r->block, r->block_size);
	else if (r->memory != FLOW_MEMORY_OTHER)
		fprintf(t->f, ", in the %s", flow_memory_names[r->memory]);
	const uint64_t processes = count_processes(t, r);
	if (processes > 1)
		fprintf(t->f, ", in %" PRIu64 " processes", processes);
	fputc('\n', t->f);
}

static void print_record(const struct tree *t, const struct flow_view *v, unsigned int depth)
{
	const struct flow_record *r = &v->record;

	indent(t, depth);
	if (t->has_color)
		fputs("\033[1m", t->f);
	if (r->kind == FLOW_RESIDUE) {
		print_residue(t, r);
	} else {
		fprintf(t->f, "%s %s: %s", flow_grade_names[r->grade],
			r->kind != FLOW_COPY	     ? "sink of what was computed" :
			r->grade == FLOW_GRADE_FOUND ? "in sink" :
						       "sink",
			r->name);
		if (r->fd >= 0)
			fprintf(t->f, " to descriptor %d", r->fd);
		if (r->open.path[0])
			fprintf(t->f, " (%s)", r->open.path);
		fputs(": ", t->f);
		print_amount(t, r);
		fputs(", in ", t->f);
		print_in(t, &v->where);
		if (r->count > 1)
			fprintf(t->f, ", %" PRIu64 " times", r->count);
		fputc('\n', t->f);
	}
	if (t->has_color)
		fputs("\033[0m", t->f);
	print_stack(t, &r->stack);
}

/* How many there are; at most `most` of them are printed. */
static uint32_t print_some(const struct tree *t, uint32_t source, uint32_t step, bool is_residue,
			   uint32_t most, unsigned int depth)
{
	uint32_t n = 0;

	for (size_t i = 0; i < flow_report_count(t->report); i++) {
		const struct flow_view *v = flow_report_view(t->report, i);

		if (v->record.source == source && v->record.step == step &&
		    (v->record.kind == FLOW_RESIDUE) == is_residue && !is_told(t, i) && n++ < most)
			print_record(t, v, depth);
	}
	return n;
}

/* A file that was taken apart leaves many pieces. */
static void print_records(const struct tree *t, uint32_t source, uint32_t step, unsigned int depth)
{
	const uint32_t most = t->is_verbose ? UINT32_MAX : RESIDUES_MAX;

	print_some(t, source, step, false, UINT32_MAX, depth);
	const uint32_t n = print_some(t, source, step, true, most, depth);
	if (n <= most)
		return;
	indent(t, depth);
	fprintf(t->f, "A residue: %" PRIu32 " more pieces, which --verbose prints\n", n - most);
}

static void print_steps(const struct tree *t, uint32_t source, uint32_t parent, unsigned int depth)
{
	if (depth > DEPTH_MAX)
		return;
	for (uint32_t i = parent + 1; i < flow_report_steps(t->report); i++) {
		const struct flow_step *s = flow_report_step(t->report, i);
		struct flow_where where;

		if (!s || !t->is_used[i] || s->parent != parent || (!parent && s->source != source))
			continue;
		flow_report_where(t->report, &s->stack, &where);
		indent(t, depth);
		fputs(flow_step_is_computed(s) ? "computed by " : "copied by ", t->f);
		print_where(t, &where);
		fputc('\n', t->f);
		print_stack(t, &s->stack);
		print_records(t, source, i, depth + 1);
		print_steps(t, source, i, depth + 1);
	}
}

static void print_source(const struct tree *t, uint32_t number)
{
	const struct flow_source *s = flow_report_source(t->report, number);
	struct flow_where where;

	flow_report_where(t->report, &s->stack, &where);
	fprintf(t->f, "%" PRIu64 " byte%s of ", s->bytes, plural(s->bytes));
	if (s->origin == FLOW_FROM_ENVIRONMENT)
		fprintf(t->f, "the environment variable %s", s->name);
	else if (s->origin == FLOW_FROM_VARIABLE)
		fprintf(t->f, "the variable %s", s->name);
	else if (s->origin == FLOW_FROM_READ)
		fprintf(t->f, "%s from descriptor %d", s->name, s->fd);
	else
		fprintf(t->f, "%s %s", s->name, flow_origin_names[s->origin]);
	if (s->open.path[0])
		fprintf(t->f, " (%s)", s->open.path);
	if (s->offset)
		fprintf(t->f, ", from offset %" PRIu64, s->offset);
	fputs(", in ", t->f);
	print_in(t, &where);
	fputc('\n', t->f);
	print_stack(t, &s->stack);
	print_records(t, number, 0, 1);
	print_steps(t, number, 0, 1);
	fputc('\n', t->f);
}

static bool has_flow(const struct tree *t, uint32_t source)
{
	for (size_t i = 0; i < flow_report_count(t->report); i++)
		if (flow_report_view(t->report, i)->record.source == source)
			return true;
	return false;
}

static void use_steps(const struct tree *t)
{
	uint32_t path[DEPTH_MAX];

	for (size_t i = 0; i < flow_report_count(t->report); i++) {
		const uint32_t step = flow_report_view(t->report, i)->record.step;
		const uint32_t n = flow_report_path(t->report, step, path, DEPTH_MAX);

		for (uint32_t k = 0; k < n; k++)
			t->is_used[path[k]] = true;
	}
}

static void print_lost(const struct flow_totals *totals, FILE *f)
{
	static const struct {
		enum flow_counter counter;
		const char *one;
		const char *several;
	} rows[] = {
		{ FLOW_RESTED, "forked process was followed no more: the budget was used up",
		  "forked processes were followed no more: the budget was used up" },
		{ FLOW_LOST_BUDGET, "window did not begin: the budget was used up",
		  "windows did not begin: the budget was used up" },
		{ FLOW_LEFT_OUT, "location in libc has no room for a jump: flow does not see it",
		  "locations in libc have no room for a jump: flow does not see them" },
		{ FLOW_LOST_WINDOW, "window could not begin", "windows could not begin" },
		{ FLOW_CUT_TIME, "window ended at its limit of time",
		  "windows ended at their limit of time" },
		{ FLOW_CUT_INSTRUCTION, "window ended at an instruction that cannot run in one",
		  "windows ended at an instruction that cannot run in one" },
		{ FLOW_CUT_CALL, "window ended at a system call that blocks or makes a thread",
		  "windows ended at a system call that blocks or makes a thread" },
		{ FLOW_INDEXED,
		  "look-up in a table with a followed byte was not followed: see --tables",
		  "look-ups in tables with followed bytes were not followed: see --tables" },
		{ FLOW_IN_KERNEL, "byte was passed on by the kernel and not compared",
		  "bytes were passed on by the kernel and not compared" },
		{ FLOW_LATE, "signal of a touched copy came too late to follow what was done",
		  "signals of touched copies came too late to follow what was done" },
		{ FLOW_LOST_MARKS, "page without marks: no room", "pages without marks: no room" },
		{ FLOW_LOST_SOURCES, "source not followed: no room",
		  "sources not followed: no room" },
		{ FLOW_LOST_STEPS, "step not kept, so paths are shorter: no room",
		  "steps not kept, so paths are shorter: no room" },
		{ FLOW_LOST_RECORDS, "flow not reported: no room", "flows not reported: no room" },
		{ FLOW_LOST_LONG, "call of a sink had more than 1 MiB: the rest was not inspected",
		  "calls of sinks had more than 1 MiB: the rest was not inspected" },
		{ FLOW_LOST_MAPPED, "mapped file was not seen: no room",
		  "mapped files were not seen: no room" },
		{ FLOW_LOST_TEXTS, "text not searched in sinks: no room",
		  "texts not searched in sinks: no room" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const uint64_t n = totals->counters[rows[i].counter];

		if (n)
			fprintf(f, "  %" PRIu64 " %s\n", n, n == 1 ? rows[i].one : rows[i].several);
	}
	if (totals->unfinished)
		fprintf(f,
			"  %" PRIu64
			" flow%s not reported: the process or the command ended in between\n",
			totals->unfinished, plural(totals->unfinished));
}

/* How much of what lies there between windows would have been noticed. */
static void print_watched(const uint64_t *c, FILE *f)
{
	if (!c[FLOW_WINDOWS])
		return;
	if (!c[FLOW_REGISTERS])
		fprintf(f, "  no debug register was free, or none fires: copies were not watched "
			   "between windows\n");
	else if (c[FLOW_KEPT])
		fprintf(f,
			"  %" PRIu64 "%% of the copies were watched between windows; threads "
			"touched them %" PRIu64 " time%s\n",
			c[FLOW_KEPT_WATCHED] * 100 / c[FLOW_KEPT], c[FLOW_TOUCHED],
			plural(c[FLOW_TOUCHED]));
}

/* A signal leaves no time to look; children of a process that runs have no thread for it. */
static void print_unsearched(const uint64_t *c, FILE *f)
{
	const uint64_t n =
		c[FLOW_FOLLOWED] > c[FLOW_SEARCHED] ? c[FLOW_FOLLOWED] - c[FLOW_SEARCHED] : 0;

	if (n)
		fprintf(f,
			"  residues: not searched in %" PRIu64 " process%s, because %s by a signal "
			"or a system call of its own, or still runs\n",
			n, n == 1 ? "" : "es", n == 1 ? "it ended" : "each ended");
}

static void print_cost(const uint64_t *c, FILE *f)
{
	if (!c[FLOW_TRAP_NS])
		return;
	fprintf(f, "  %.1f ms in traps at sources and sinks", (double)c[FLOW_TRAP_NS] / 1e6);
	if (c[FLOW_OFF_NS])
		fprintf(f, ", which rested for %.1f s: the budget was used up",
			(double)c[FLOW_OFF_NS] / 1e9);
	fputc('\n', f);
}

static void print_totals(const struct tree *t)
{
	struct flow_totals totals;
	const uint64_t *c = totals.counters;

	flow_report_totals(t->report, &totals);
	fprintf(t->f, "trapline flow: %" PRIu64 " flow%s into sinks, ", totals.flows,
		plural(totals.flows));
	if (flow_is_unsearched(&totals))
		fprintf(t->f, "residues not searched");
	else
		fprintf(t->f, "%" PRIu64 " residue%s", totals.residues, plural(totals.residues));
	fprintf(t->f, "; %" PRIu64 " source%s of %" PRIu64 " seen\n", totals.sources,
		plural(totals.sources), c[FLOW_SEEN]);
	fprintf(t->f,
		"  %" PRIu64 " instructions in %" PRIu64 " window%s, %.1f ms; what runs between "
		"windows is not seen\n",
		c[FLOW_INSTRUCTIONS], c[FLOW_WINDOWS], plural(c[FLOW_WINDOWS]),
		(double)c[FLOW_WINDOW_NS] / 1e6);
	if (totals.suppressed || totals.baselined)
		fprintf(t->f, "  %" PRIu64 " suppressed, %" PRIu64 " in the baseline\n",
			totals.suppressed, totals.baselined);
	print_unsearched(c, t->f);
	print_cost(c, t->f);
	print_watched(c, t->f);
	print_lost(&totals, t->f);
	for (int i = 0; t->is_verbose && i < FLOW_COUNTERS; i++)
		fprintf(t->f, "  %s: %" PRIu64 "\n", flow_counter_names[i], c[i]);
}

void flow_print_text(struct flow_report *r, bool is_verbose, bool has_color, FILE *f)
{
	struct tree t = { .report = r, .is_verbose = is_verbose, .has_color = has_color, .f = f };

	t.is_used = calloc(flow_report_steps(r) + 1, sizeof(*t.is_used));
	if (!t.is_used)
		return;
	use_steps(&t);
	for (uint32_t i = 1; i < flow_report_sources(r); i++)
		if (flow_report_source(r, i) && (is_verbose || has_flow(&t, i)))
			print_source(&t, i);
	print_totals(&t);
	free(t.is_used);
}
