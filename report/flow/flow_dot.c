/* SPDX-License-Identifier: MIT */
/* flow_dot.c - flows as a graph for dot(1). */
#include "report/flow/flow_report.h"

#include <inttypes.h>
#include <stdlib.h>

#define DEPTH_MAX 64

static void print_quoted(const char *text, FILE *f)
{
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fputc('\\', f);
		fputc(*text, f);
	}
}

static void print_node(const char *kind, uint32_t number, const char *shape, const char *line,
		       const struct flow_where *w, FILE *f)
{
	const struct place *p = &w->in.place;

	fprintf(f, "  %s%" PRIu32 " [shape=%s, label=\"", kind, number, shape);
	print_quoted(line, f);
	fputs("\\n", f);
	if (w->via[0]) {
		print_quoted(w->via, f);
		fputs(" in ", f);
	}
	print_quoted(w->name, f);
	if (p->file) {
		fputs("\\n", f);
		print_quoted(p->file, f);
		fprintf(f, ":%d", p->line);
	}
	fputs("\"];\n", f);
}

static void print_edge(const struct flow_record *r, uint32_t index, FILE *f)
{
	if (r->step)
		fprintf(f, "  step%" PRIu32, r->step);
	else
		fprintf(f, "  source%" PRIu32, r->source);
	fprintf(f, " -> flow%" PRIu32 " [label=\"%" PRIu64 "\"%s];\n", index, r->bytes,
		r->grade != FLOW_GRADE_A ? ", style=dashed" : "");
}

static void dot_record(struct flow_report *r, uint32_t index, FILE *f)
{
	const struct flow_view *v = flow_report_view(r, index);
	const struct flow_record *record = &v->record;
	char line[320];

	if (record->kind == FLOW_RESIDUE)
		snprintf(line, sizeof(line), "residue in %s", flow_memory_names[record->memory]);
	else
		snprintf(line, sizeof(line), "%s %s %s", flow_grade_names[record->grade],
			 record->name, record->open.path);
	print_node("flow", index, record->kind == FLOW_RESIDUE ? "note" : "doubleoctagon", line,
		   &v->where, f);
	print_edge(record, index, f);
}

static void dot_step(struct flow_report *r, uint32_t number, FILE *f)
{
	const struct flow_step *s = flow_report_step(r, number);
	struct flow_where where;

	flow_report_where(r, &s->stack, &where);
	print_node("step", number, "box", flow_step_is_computed(s) ? "computed" : "copied", &where,
		   f);
	if (s->parent)
		fprintf(f, "  step%" PRIu32, s->parent);
	else
		fprintf(f, "  source%" PRIu32, s->source);
	fprintf(f, " -> step%" PRIu32 "%s;\n", number,
		flow_step_is_computed(s) ? " [style=dashed]" : "");
}

static void dot_source(struct flow_report *r, uint32_t number, FILE *f)
{
	const struct flow_source *s = flow_report_source(r, number);
	struct flow_where where;
	char line[320];

	flow_report_where(r, &s->stack, &where);
	snprintf(line, sizeof(line), "%s %s: %" PRIu64 " bytes", s->name, s->open.path, s->bytes);
	print_node("source", number, "ellipse", line, &where, f);
}

void flow_print_dot(struct flow_report *r, FILE *f)
{
	bool *sources = calloc(flow_report_sources(r) + 1, sizeof(*sources));
	bool *steps = calloc(flow_report_steps(r) + 1, sizeof(*steps));
	uint32_t path[DEPTH_MAX];

	fputs("digraph flow {\n  rankdir=LR;\n  node [fontname=monospace];\n", f);
	for (uint32_t i = 0; sources && steps && i < flow_report_count(r); i++) {
		const struct flow_record *record = &flow_report_view(r, i)->record;
		const uint32_t n = flow_report_path(r, record->step, path, DEPTH_MAX);

		if (!sources[record->source])
			dot_source(r, record->source, f);
		sources[record->source] = true;
		for (uint32_t k = 0; k < n; k++) {
			if (!steps[path[k]])
				dot_step(r, path[k], f);
			steps[path[k]] = true;
		}
		dot_record(r, i, f);
	}
	fputs("}\n", f);
	free(sources);
	free(steps);
}
