/* SPDX-License-Identifier: MIT */
/*
 * flow_step.c - what one instruction does to marks, just before it runs: see insn_flow.h for the
 * forms.
 *
 * Most instructions meet no mark: then what they write loses its marks, and that is all.
 */
#include "base/general_regs.h"

#include "flow/flow_step.h"

#include "base/atomic.h"
#include "flow/flow_calls.h"
#include "flow/flow_mapped.h"
#include "flow/flow_marks.h"
#include "flow/flow_sink.h"
#include "flow/flow_source.h"
#include "flow/flow_state.h"

#define IDLE_WITH_REGISTERS 20000u /* marks that stay in a register which nothing uses */
#define REPEAT_MAX (1u << 24)

uint32_t flow_idle_most;

struct step {
	struct flow_thread *t;
	struct window_area *area;
	const struct flow_form *form;
	uint64_t pc;
	uint64_t address[2];
	uint32_t bytes[2]; /* 0: the address is not known */
};

void flow_regs_forget(struct flow_thread *t)
{
	for (unsigned int i = 0; i < 16; i++)
		if (t->any & 1ull << i)
			for (unsigned int k = 0; k < 8; k++)
				t->general[i][k] = 0;
	for (unsigned int i = 0; i < 32; i++)
		if (t->any & 1ull << (16 + i))
			for (unsigned int k = 0; k < 64; k++)
				t->vector[i][k] = 0;
	t->any = 0;
}

/* ---- registers ---- */

static flow_mark *register_of(struct flow_thread *t, const struct insn_flow_part *part,
			      unsigned int *bit, unsigned int *bytes)
{
	*bit = part->file == INSN_FLOW_GENERAL ? part->reg : 16u + part->reg;
	*bytes = part->file == INSN_FLOW_GENERAL ? 8 : 64;
	return part->file == INSN_FLOW_GENERAL ? t->general[part->reg] : t->vector[part->reg];
}

static void put_register(struct flow_thread *t, const struct insn_flow_part *part,
			 unsigned int clears_to, const flow_mark *in)
{
	unsigned int bit, bytes;
	flow_mark *marks = register_of(t, part, &bit, &bytes);
	flow_mark any = 0;
	unsigned int end = part->at + part->bytes;

	for (unsigned int i = 0; i < part->bytes; i++)
		any |= marks[part->at + i] = in ? in[i] : 0;
	for (; end < clears_to; end++)
		marks[end] = 0;
	for (unsigned int i = 0; !any && i < bytes; i++)
		any = marks[i];
	t->any = any ? t->any | 1ull << bit : t->any & ~(1ull << bit);
}

/* ---- parts ---- */

/* part->bytes marks; 1: some are set. */
static int get(struct step *s, const struct insn_flow_part *part, flow_mark *out)
{
	struct flow_thread *t = s->t;
	unsigned int bit, bytes;
	flow_mark any = 0;

	for (unsigned int i = 0; i < part->bytes; i++)
		out[i] = 0;
	if (part->file == INSN_FLOW_MEMORY) {
		if (part->reg > 1 || !s->bytes[part->reg])
			return 0;
		const uint32_t n = part->bytes < s->bytes[part->reg] ? part->bytes :
								       s->bytes[part->reg];
		return flow_marks_load(t, s->address[part->reg], n, out);
	}
	if (part->file != INSN_FLOW_GENERAL && part->file != INSN_FLOW_VECTOR)
		return 0;
	const flow_mark *marks = register_of(t, part, &bit, &bytes);
	if (!(t->any & 1ull << bit))
		return 0;
	for (unsigned int i = 0; i < part->bytes; i++)
		any |= out[i] = marks[part->at + i];
	return any != 0;
}

/* The bytes are stored by this instruction: a step of their own. */
static void put_memory(struct step *s, uint64_t address, uint32_t bytes, flow_mark *in,
		       const struct flow_made *made)
{
	flow_mark last = 0;
	flow_mark stepped = 0;

	for (uint32_t i = 0; i < bytes; i++) {
		if (!in[i])
			continue;
		const flow_mark kind = in[i] & ~(flow_mark)((1u << FLOW_OFFSET_BITS) - 1);
		if (kind != last) {
			last = kind;
			stepped = flow_calls_step(s->t, in[i], s->pc, s->area->regs.r[INSN_RSP],
						  made);
		}
		in[i] = flow_with_step(in[i], (uint32_t)stepped);
	}
	flow_marks_store(s->t, address, bytes, in);
}

static const struct flow_made loaded;

/* Where the values of a part were computed. */
static struct flow_made made_of(const struct flow_thread *t, const struct insn_flow_part *part)
{
	if (part->file == INSN_FLOW_GENERAL)
		return t->made[part->reg];
	return part->file == INSN_FLOW_VECTOR ? t->made[16 + part->reg] : loaded;
}

static struct flow_made made_here(struct step *s)
{
	struct flow_made made;

	flow_calls_made(s->t, s->pc, s->area->regs.r[INSN_RSP], &made);
	return made;
}

static void put(struct step *s, unsigned int to, flow_mark *in, const struct flow_made *made)
{
	const struct insn_flow_part *part = &s->form->flow.to[to];

	if (part->file != INSN_FLOW_MEMORY) {
		put_register(s->t, part, s->form->flow.clears_to[to], in);
		s->t->made[part->file == INSN_FLOW_GENERAL ? part->reg : 16u + part->reg] = *made;
	} else if (part->reg < 2 && s->bytes[part->reg]) {
		const uint32_t bytes = part->bytes < s->bytes[part->reg] ? part->bytes :
									   s->bytes[part->reg];

		put_memory(s, s->address[part->reg], bytes, in, made);
	}
}

static void clear(struct step *s)
{
	const struct insn_flow *flow = &s->form->flow;

	for (unsigned int i = 0; i < flow->to_count; i++) {
		const struct insn_flow_part *part = &flow->to[i];

		if (part->file != INSN_FLOW_MEMORY) {
			if (s->t->any)
				put_register(s->t, part, flow->clears_to[i], NULL);
		} else if (part->reg < 2 &&
			   flow_marks_may(s->address[part->reg], s->bytes[part->reg])) {
			flow_marks_clear(s->address[part->reg], s->bytes[part->reg]);
		}
	}
}

/* ---- forms ---- */

static flow_mark computed(flow_mark mark)
{
	return mark ? mark | FLOW_IS_COMPUTED : 0;
}

static flow_mark first_of(const flow_mark *marks, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		if (marks[i])
			return marks[i];
	return 0;
}

static void move(struct step *s)
{
	const struct insn_flow *flow = &s->form->flow;
	const unsigned int n = flow->to[0].bytes;
	const unsigned int from = flow->from[0].bytes;
	flow_mark in[64];
	flow_mark out[64];

	const struct flow_made made = made_of(s->t, &flow->from[0]);

	get(s, &flow->from[0], in);
	for (unsigned int i = 0; i < n; i++) {
		int at = (int)i;

		if (flow->op == INSN_FLOW_REVERSE)
			at = (int)(n - 1 - i);
		else if (flow->op == INSN_FLOW_SHIFT)
			at = (int)i - flow->shift;
		out[i] = at >= 0 && (unsigned int)at < from ? in[at] : 0;
	}
	put(s, 0, out, &made);
}

static void exchange(struct step *s)
{
	flow_mark a[64];
	flow_mark b[64];

	const struct flow_made made_a = made_of(s->t, &s->form->flow.to[0]);
	const struct flow_made made_b = made_of(s->t, &s->form->flow.to[1]);

	get(s, &s->form->flow.to[0], a);
	get(s, &s->form->flow.to[1], b);
	put(s, 0, b, &made_b);
	put(s, 1, a, &made_a);
}

static void compute_lanes(struct step *s)
{
	const struct insn_flow *flow = &s->form->flow;
	const unsigned int n = flow->to[0].bytes;
	const struct flow_made made = made_here(s);
	flow_mark out[64];
	flow_mark in[64];

	for (unsigned int i = 0; i < n; i++)
		out[i] = 0;
	for (unsigned int k = 0; k < flow->from_count; k++) {
		if (!get(s, &flow->from[k], in))
			continue;
		for (unsigned int i = 0; i < n; i += flow->lane) {
			const flow_mark mark = computed(first_of(in + i, flow->lane));

			for (unsigned int j = i; mark && j < i + flow->lane; j++)
				out[j] = out[j] ? out[j] : mark;
		}
	}
	put(s, 0, out, &made);
}

static void keep(struct step *s)
{
	const struct insn_flow *flow = &s->form->flow;
	struct flow_made made = made_of(s->t, &flow->from[0]);
	flow_mark marks[64];

	get(s, &flow->from[0], marks);
	for (unsigned int i = 0; i < flow->to[0].bytes && i < 8; i++) {
		if (flow->zero & 1u << i) {
			marks[i] = 0;
		} else if (!(flow->kept & 1u << i) && marks[i]) {
			marks[i] = computed(marks[i]);
			made = made_here(s);
		}
	}
	put(s, 0, marks, &made);
}

static void compute(struct step *s)
{
	const struct insn_flow *flow = &s->form->flow;
	const struct flow_made made = made_here(s);
	flow_mark mark = 0;
	flow_mark in[64];

	for (unsigned int k = 0; k < flow->from_count && !mark; k++)
		if (get(s, &flow->from[k], in))
			mark = computed(first_of(in, flow->from[k].bytes));
	for (unsigned int i = 0; i < flow->to_count; i++) {
		for (unsigned int k = 0; k < flow->to[i].bytes; k++)
			in[k] = mark;
		put(s, i, in, &made);
	}
}

/* ---- string instructions ---- */

static void move_range(struct step *s, uint64_t to, uint64_t from, uint64_t n, int is_down)
{
	flow_mark marks[64];

	/* As the processor does it where the ranges overlap: from one end, in parts that do not. */
	for (uint64_t done = 0; done < n;) {
		uint64_t part = n - done < 64 ? n - done : 64;
		const uint64_t distance = is_down ? from - to : to - from;

		if (distance && distance < part)
			part = distance;
		const uint64_t at = is_down ? n - done - part : done;
		if (flow_marks_may(from + at, part)) {
			for (unsigned int i = 0; i < 64; i++)
				marks[i] = 0;
			flow_marks_load(s->t, from + at, (uint32_t)part, marks);
			put_memory(s, to + at, (uint32_t)part, marks, &loaded);
		} else if (flow_marks_may(to + at, part)) {
			flow_marks_clear(to + at, part);
		}
		done += part;
	}
}

static void fill_range(struct step *s, uint64_t to, uint64_t n)
{
	const unsigned int unit = s->form->operand_bytes;
	flow_mark marks[64];

	if (!(s->t->any & 1ull << INSN_RAX) || n > REPEAT_MAX) {
		if (flow_marks_may(to, n))
			flow_marks_clear(to, n);
		return;
	}
	for (uint64_t done = 0; done < n; done += unit) {
		for (unsigned int i = 0; i < unit; i++)
			marks[i] = s->t->general[INSN_RAX][i];
		put_memory(s, to + done, unit, marks, &s->t->made[INSN_RAX]);
	}
}

/* 1: marks were touched. */
static int string(struct step *s)
{
	const struct flow_form *f = s->form;
	const uint64_t *r = s->area->regs.r;
	const uint64_t unit = f->operand_bytes;
	const int is_down = s->area->regs.flags >> 10 & 1;
	uint64_t count = f->special & FLOW_REPEATS ? r[INSN_RCX] : 1;

	if (count > UINT64_MAX / 16)
		count = 0;
	const uint64_t n = count * unit;
	const uint64_t back = is_down && n ? n - unit : 0;
	if (f->flow.op == INSN_FLOW_COPY) {
		const int is_marked = flow_marks_may(r[INSN_RSI] - back, n);

		move_range(s, r[INSN_RDI] - back, r[INSN_RSI] - back, n, is_down);
		return is_marked;
	}
	if (f->flow.op == INSN_FLOW_FILL) {
		fill_range(s, r[INSN_RDI] - back, n);
		return (s->t->any & 1ull << INSN_RAX) != 0;
	}
	flow_mark marks[64] = { 0 };
	const struct insn_flow_part rax = { INSN_FLOW_GENERAL, INSN_RAX, 0, (uint8_t)unit };
	int any = 0;
	if (n)
		any = flow_marks_load(s->t, r[INSN_RSI], (uint32_t)unit, marks);
	put_register(s->t, &rax, unit == 4 ? 8 : 0, marks);
	s->t->made[INSN_RAX] = loaded;
	return any;
}

/* ---- one instruction ---- */

static int condition_holds(uint64_t flags, unsigned int condition)
{
	const int c = flags & 1, p = flags >> 2 & 1, z = flags >> 6 & 1, n = flags >> 7 & 1;
	const int o = flags >> 11 & 1;
	const int is_true[8] = { o, c, z, c | z, n, p, n ^ o, (n ^ o) | z };

	return is_true[condition >> 1 & 7] ^ (int)(condition & 1);
}

static void apply_if(struct step *s)
{
	const struct insn_flow *flow = &s->form->flow;

	if (condition_holds(s->area->regs.flags, flow->condition)) {
		move(s);
		return;
	}
	flow_mark stay[64];
	const struct flow_made made = made_of(s->t, &flow->to[0]);

	get(s, &flow->to[0], stay);
	put(s, 0, stay, &made);
}

static void apply(struct step *s)
{
	switch (s->form->flow.op) {
	case INSN_FLOW_MOVE:
	case INSN_FLOW_REVERSE:
	case INSN_FLOW_SHIFT:
		move(s);
		break;
	case INSN_FLOW_IF:
		apply_if(s);
		break;
	case INSN_FLOW_EXCHANGE:
		exchange(s);
		break;
	case INSN_FLOW_LANES:
		compute_lanes(s);
		break;
	case INSN_FLOW_KEEP:
		keep(s);
		break;
	case INSN_FLOW_COMPUTE:
		compute(s);
		break;
	default:
		clear(s);
	}
}

/*
 * A load whose address was computed from followed bytes: what it gets is looked up. 0: it is not
 * one.
 */
static flow_mark index_of(const struct step *s)
{
	const uint64_t marked = s->form->indexes & s->t->any & 0xffff;

	for (unsigned int i = 0; marked && i < 16; i++)
		if (marked & 1ull << i)
			return first_of(s->t->general[i], 8);
	return 0;
}

static void look_up(struct step *s, flow_mark mark)
{
	const struct flow_made made = made_here(s);
	flow_mark in[64];

	for (unsigned int i = 0; i < s->form->flow.to_count; i++) {
		const unsigned int bytes = s->form->flow.from[0].bytes;

		for (unsigned int k = 0; k < 64; k++)
			in[k] = k < bytes ? mark | FLOW_IS_COMPUTED | FLOW_IS_TABLE : 0;
		put(s, i, in, &made);
	}
}

static int has_marks(const struct step *s)
{
	const struct flow_form *f = s->form;

	if (s->t->any & f->reads)
		return 1;
	if (!f->reads_memory)
		return 0;
	for (unsigned int i = 0; i < f->flow.from_count; i++) {
		const struct insn_flow_part *part = &f->flow.from[i];

		if (part->file == INSN_FLOW_MEMORY && part->reg < 2 &&
		    flow_marks_may(s->address[part->reg], s->bytes[part->reg]))
			return 1;
	}
	return 0;
}

/* The page may have marks although these bytes have none. */
static int reads_marks(struct step *s)
{
	flow_mark in[64];

	if (s->t->any & s->form->reads)
		return 1;
	for (unsigned int i = 0; i < s->form->flow.from_count; i++)
		if (get(s, &s->form->flow.from[i], in))
			return 1;
	return 0;
}

/*
 * The one where the window begins was inspected natively. A system call that was made in a window
 * has been.
 */
static void take_site(struct step *s)
{
	const struct flow_site *site = flow_site_at(s->pc);
	const struct flow_moment m = { .thread = s->t, .regs = s->area->regs.r, .pc = s->pc };
	uint64_t met = 0;

	if (s->t->skip_pc == s->pc) {
		s->t->skip_pc = 0;
		return;
	}
	if (!site || site->kind == FLOW_SITE_END || site->kind == FLOW_SITE_MAPPED)
		return;
	flow_source_variables(&m);
	for (; site; site = flow_site_next(site)) {
		if (!flow_site_is_called(site, m.regs))
			continue;
		if (site->kind < FLOW_SITE_SINKS)
			met += (uint64_t)flow_source_site(&m, site);
		else if (!site->is_behind)
			met += flow_sink(&m, site);
	}
	if (met)
		s->t->idle = 0;
}

/* The kernel is asked natively which files are mapped. It has been, where the window begins. */
static int is_end(const struct step *s)
{
	const uint64_t *r = s->area->regs.r;

	if (!(s->form->special & FLOW_IS_END))
		return 0;
	if (flow_site_at(s->pc)->kind != FLOW_SITE_MAPPED)
		return 1;
	return s->t->skip_pc != s->pc && flow_mapped_may(r[INSN_RDI], r[INSN_RSI]);
}

static int special(struct step *s)
{
	const int ends = is_end(s);

	if (s->form->special & FLOW_IS_CALL)
		flow_calls_enter(s->t, s->pc + s->form->length, s->area->regs.r[INSN_RSP] - 8);
	if (s->form->special & FLOW_IS_SITE)
		take_site(s);
	return flow_is_over() || ends;
}

void flow_step_past(struct flow_thread *t, const struct flow_form *f, uint64_t pc,
		    unsigned int operand, uint64_t address, uint32_t bytes)
{
	struct step s = { .t = t, .area = t->area, .form = f, .pc = pc };

	for (unsigned int i = 0; i < 2 && f->memory[i].access; i++)
		s.address[i] = window_operand_address(t->area, &f->memory[i], &s.bytes[i]);
	if (operand < 2) {
		s.address[operand] = address;
		s.bytes[operand] = bytes;
	}
	if (has_marks(&s) && reads_marks(&s))
		apply(&s);
	else
		clear(&s);
}

void flow_copy_past(struct flow_thread *t, uint64_t pc, uint64_t to, uint64_t from, uint64_t n)
{
	struct step s = { .t = t, .area = t->area, .pc = pc };

	move_range(&s, to, from, n, 0);
}

int flow_step(struct window_area *area, uint64_t pc, uint32_t number)
{
	struct flow_thread *t = area->request.arg;
	struct step s;
	const struct flow_form *f = &t->forms[number];
	flow_mark index = 0;
	int touched = 0;

	s.t = t;
	s.area = area;
	s.form = f;
	s.pc = pc;

	if (f->special & (FLOW_IS_CALL | FLOW_IS_SITE) && special(&s))
		return 1;
	s.bytes[0] = s.bytes[1] = 0;
	for (unsigned int i = 0; i < 2 && f->memory[i].access; i++)
		s.address[i] = window_operand_address(area, &f->memory[i], &s.bytes[i]);
	if (f->indexes & t->any) {
		index = index_of(&s);
		if (index && !flow_region->settings.has_tables) {
			flow_count(FLOW_INDEXED, 1);
			index = 0;
		}
	}
	if (f->flow.op >= INSN_FLOW_COPY) {
		touched = string(&s);
	} else if (f->flow.op == INSN_FLOW_IF && t->any & f->writes && !has_marks(&s)) {
		apply(&s);
	} else if (has_marks(&s) && reads_marks(&s)) {
		touched = 1;
		apply(&s);
	} else {
		clear(&s);
	}
	if (index && !touched) {
		touched = 1;
		look_up(&s, index);
	}
	t->idle = touched ? 0 : t->idle + 1;
	if (atomic_get(&flow_region->run.stop))
		return 1;
	return t->idle > flow_idle_most && (!t->any || t->idle > IDLE_WITH_REGISTERS);
}
