/* SPDX-License-Identifier: MIT */
/* watch_multiplex.c - see watch_multiplex.h. */
#include "cli/watch/watch_multiplex.h"

#include "base/aligned.h"
#include "base/clock.h"
#include "cli/message.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TICK_MS 100

static int add_chunks(struct watch_multiplex *t, size_t expr)
{
	uint64_t address = t->expr[expr].address;
	size_t left = t->expr[expr].len;

	while (left) {
		struct chunk *chunks = reallocarray(t->chunk, t->chunk_count + 1, sizeof(*chunks));
		if (!chunks)
			return cli_wrong(t->set->name, "out of memory");
		size_t len = aligned_part(address, left);
		t->chunk = chunks;
		chunks[t->chunk_count++] =
			(struct chunk){ .address = address, .len = len, .expr = expr };
		address += len;
		left -= len;
	}
	return 0;
}

static int check_overlap(const struct watch_multiplex *t, size_t expr)
{
	const struct watch_expr *b = &t->expr[expr];

	for (size_t i = 0; i < expr; i++) {
		const struct watch_expr *a = &t->expr[i];
		if (a->address < b->address + b->len && b->address < a->address + a->len)
			return cli_wrong(t->set->name,
					 "%s and %s have bytes in common: give one of them",
					 a->name, b->name);
	}
	return 0;
}

static int find_expr(struct watch_multiplex *t, struct symbols *s, size_t i)
{
	struct observe_settings set = *t->set;
	size_t used = strlen(t->title);

	set.expr = set.operands[i];
	int status = watch_expr_resolve(s, &set, &t->expr[i]);
	if (status)
		return status;
	if (t->expr[i].view.bit_size)
		cli_note(t->set->name,
			 "%s is a bit-field: among other expressions, writes to other bits of its "
			 "bytes are hits too",
			 t->expr[i].name);
	if (used < sizeof(t->title))
		snprintf(t->title + used, sizeof(t->title) - used, "%s%s", i ? ", " : "",
			 t->expr[i].name);
	status = check_overlap(t, i);
	return status ? status : add_chunks(t, i);
}

int watch_multiplex_find(struct watch_multiplex *t, struct symbols *s,
			 const struct observe_settings *set)
{
	int status = 0;

	t->set = set;
	t->expr_count = set->operand_count;
	if (t->expr_count > RUN_MULTIPLEX_EXPRS_MAX)
		return cli_wrong(t->set->name, "too many EXPR: expected at most %d, not %zu",
				 RUN_MULTIPLEX_EXPRS_MAX, t->expr_count);
	t->expr = calloc(t->expr_count, sizeof(*t->expr));
	t->sums.expr = calloc(t->expr_count, sizeof(*t->sums.expr));
	if (!t->expr || !t->sums.expr)
		return cli_wrong(t->set->name, "out of memory");
	for (size_t i = 0; !status && i < t->expr_count; i++)
		status = find_expr(t, s, i);
	return status;
}

const struct value_view *watch_multiplex_view(const struct watch_multiplex *t, uint64_t *len)
{
	if (t->expr[0].view.bit_size)
		return NULL;
	for (size_t i = 1; i < t->expr_count; i++)
		if (t->expr[i].view.type != t->expr[0].view.type ||
		    t->expr[i].view.bit_size != t->expr[0].view.bit_size)
			return NULL;
	*len = t->expr[0].len;
	return &t->expr[0].view;
}

static int too_few(const struct watch_multiplex *t)
{
	size_t n = t->slots.count;

	return cli_wrong(
		t->set->name,
		"cannot watch %zu expression%s at once: %zu debug registers are needed and %zu "
		"%s free; --multiplex 10ms shares them in time slices",
		t->expr_count, t->expr_count == 1 ? "" : "s", t->chunk_count, n,
		n == 1 ? "is" : "are");
}

/* Enables all of them after all are armed, so that no expression is watched earlier. */
static int enable_all(struct watch_multiplex *t, const struct session *session)
{
	for (size_t slot = 0; slot < t->slots.count; slot++) {
		int err = trapline_event_enable(t->slots.event[slot]);
		if (err < 0)
			return session_explain(session, "watch", t->title, err);
		t->holds[slot] = &t->chunk[slot];
		t->holds[slot]->since_ns = clock_now_ns();
	}
	t->next_ns = clock_now_ns() + t->set->slice_ns;
	return 0;
}

int watch_multiplex_arm(struct watch_multiplex *t, struct trapline *target,
			const struct session *session, const struct trapline_event_opts *opts)
{
	struct trapline_event_opts disabled = *opts;
	int err = 0;

	disabled.flags |= TRAPLINE_DISABLED;
	while (!err && t->slots.count < t->chunk_count) {
		const struct chunk *w = &t->chunk[t->slots.count];
		err = watch_slots_add(&t->slots, target, w->address, w->len, t->expr[0].access,
				      &disabled);
	}
	if (!t->slots.count || (err && err != -ENOSPC))
		return session_explain(session, "watch", t->title, err);
	if (t->slots.count < t->chunk_count && !t->set->slice_ns)
		return too_few(t);
	return enable_all(t, session);
}

bool watch_multiplex_hit(struct watch_multiplex *t, const struct trapline_hit *hit,
			 struct watch_which *which)
{
	for (size_t i = 0; i < t->expr_count; i++) {
		const struct watch_expr *expr = &t->expr[i];
		if (hit->address - expr->address >= expr->len)
			continue;
		*which = (struct watch_which){ .expr = expr,
					       .hits = &t->sums.expr[i].hits,
					       .name = t->expr_count > 1 ? expr->name : NULL };
		return true;
	}
	t->sums.unplaced++;
	return false;
}

static void clock_stop(struct chunk *w, uint64_t now)
{
	if (w->since_ns)
		w->watched_ns += now - w->since_ns;
	w->since_ns = 0;
}

static bool is_next(const struct watch_multiplex *t, const struct chunk *w, size_t first)
{
	size_t index = (size_t)(w - t->chunk);

	return (index + t->chunk_count - first) % t->chunk_count < t->slots.count;
}

/* A chunk of the next slice that no register watches. */
static struct chunk *missing(struct watch_multiplex *t, size_t first)
{
	for (size_t n = 0; n < t->slots.count; n++) {
		struct chunk *w = &t->chunk[(first + n) % t->chunk_count];
		size_t slot = 0;
		while (slot < t->slots.count && t->holds[slot] != w)
			slot++;
		if (slot == t->slots.count)
			return w;
	}
	return NULL;
}

static void move_slot(struct watch_multiplex *t, size_t slot, struct chunk *to)
{
	uint64_t started = clock_now_ns();

	if (t->holds[slot])
		clock_stop(t->holds[slot], started);
	int err = watch_slots_move(&t->slots, slot, to->address, to->len);
	uint64_t ended = clock_now_ns();
	t->sums.switching_ns += ended - started;
	t->holds[slot] = err < 0 ? NULL : to;
	t->sums.failures += err < 0;
	if (err >= 0)
		to->since_ns = ended;
}

/* A chunk that is also in the next slice keeps its register. */
static void next_slice(struct watch_multiplex *t)
{
	size_t first = (t->first + t->slots.count) % t->chunk_count;

	for (size_t slot = 0; slot < t->slots.count; slot++) {
		struct chunk *w = t->holds[slot];
		if (w && is_next(t, w, first))
			continue;
		w = missing(t, first);
		if (w)
			move_slot(t, slot, w);
	}
	t->first = first;
	t->sums.slices++;
}

static void pause_clocks(struct watch_multiplex *t, bool is_paused, uint64_t now)
{
	for (size_t slot = 0; slot < t->slots.count; slot++) {
		if (!t->holds[slot])
			continue;
		if (is_paused)
			clock_stop(t->holds[slot], now);
		else
			t->holds[slot]->since_ns = now;
	}
	t->is_paused = is_paused;
}

int watch_multiplex_tick(struct watch_multiplex *t, bool is_paused)
{
	uint64_t now = clock_now_ns();

	if (is_paused != t->is_paused)
		pause_clocks(t, is_paused, now);
	if (t->chunk_count == t->slots.count || is_paused)
		return TICK_MS;
	if (now >= t->next_ns) {
		next_slice(t);
		/*
		 * Counted from the end of the switch, so that a slice is as long as --multiplex
		 * states.
		 */
		now = clock_now_ns();
		t->next_ns = now + t->set->slice_ns;
	}
	return (int)((t->next_ns - now + 999999u) / 1000000u);
}

/* An expression was watched for the mean time of its chunks. */
static void sum_chunks(struct watch_multiplex *t, size_t expr)
{
	struct run_multiplex_expr *p = &t->sums.expr[expr];
	uint64_t sum = 0;

	for (size_t i = 0; i < t->chunk_count; i++) {
		if (t->chunk[i].expr != expr)
			continue;
		sum += t->chunk[i].watched_ns;
		p->chunks++;
	}
	p->watched_ns = p->chunks ? sum / p->chunks : 0;
	p->name = t->expr[expr].name;
	p->address = t->expr[expr].address;
	p->len = t->expr[expr].len;
}

void watch_multiplex_end(struct watch_multiplex *t, struct run_end *end)
{
	uint64_t now = clock_now_ns();

	for (size_t slot = 0; slot < t->slots.count; slot++)
		if (t->holds[slot])
			clock_stop(t->holds[slot], now);
	for (size_t i = 0; i < t->expr_count; i++)
		sum_chunks(t, i);
	t->sums.expr_count = t->expr_count;
	t->sums.chunks = t->chunk_count;
	t->sums.registers = t->slots.count;
	t->sums.slice_ns = t->set->slice_ns;
	t->sums.duration_ns = end->duration_ns;
	end->multiplex = &t->sums;
	watch_slots_stats(&t->slots, end);
}

void watch_multiplex_release(struct watch_multiplex *t)
{
	free(t->expr);
	free(t->sums.expr);
	free(t->chunk);
}
