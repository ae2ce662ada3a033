// SPDX-License-Identifier: MIT
/* watch_turns.c - see watch_turns.h. */
#include "cli/watch_turns.h"

#include "cli/clock.h"
#include "cli/cmd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define COMMAND watch_command
#define TICK_MS 100

static size_t word_length(uint64_t address, size_t left)
{
	size_t len = 8;

	while (len > left || address % len)
		len /= 2;
	return len;
}

static int add_words(struct watch_turns *t, size_t place)
{
	uint64_t address = t->place[place].address;
	size_t left = t->place[place].len;

	while (left) {
		struct turn_word *words =
			reallocarray(t->word, t->word_count + 1, sizeof(*words));
		if (!words)
			return cli_wrong(COMMAND, "out of memory");
		size_t len = word_length(address, left);
		t->word = words;
		words[t->word_count++] = (struct turn_word){ .address = address,
							     .len = len,
							     .place = place };
		address += len;
		left -= len;
	}
	return 0;
}

static int check_overlap(const struct watch_turns *t, size_t place)
{
	const struct watch_what *b = &t->place[place];

	for (size_t i = 0; i < place; i++) {
		const struct watch_what *a = &t->place[i];
		if (a->address < b->address + b->len && b->address < a->address + a->len)
			return cli_wrong(
				COMMAND,
				"%s and %s have bytes in common: choose one of them",
				a->name, b->name);
	}
	return 0;
}

static int find_place(struct watch_turns *t, struct symbols *s, size_t i)
{
	struct watch_settings set = *t->set;
	size_t used = strlen(t->title);

	set.what = set.whats[i];
	int status = watch_what_resolve(s, &set, &t->place[i]);
	if (status)
		return status;
	if (t->place[i].view.bit_size)
		cli_note(
			COMMAND,
			"%s is a bit-field: among others, writes to other bits of its bytes "
			"are told too",
			t->place[i].name);
	if (used < sizeof(t->title))
		snprintf(t->title + used, sizeof(t->title) - used, "%s%s", i ? ", " : "",
			 t->place[i].name);
	status = check_overlap(t, i);
	return status ? status : add_words(t, i);
}

int watch_turns_find(struct watch_turns *t, struct symbols *s,
		     const struct watch_settings *set)
{
	int status = 0;

	t->set = set;
	t->place_count = set->what_count;
	if (t->place_count > RUN_TURNS_PLACES_MAX)
		return cli_wrong(COMMAND, "%zu places are too many: at most %d", t->place_count,
				 RUN_TURNS_PLACES_MAX);
	t->place = calloc(t->place_count, sizeof(*t->place));
	t->sums.place = calloc(t->place_count, sizeof(*t->sums.place));
	if (!t->place || !t->sums.place)
		return cli_wrong(COMMAND, "out of memory");
	for (size_t i = 0; !status && i < t->place_count; i++)
		status = find_place(t, s, i);
	return status;
}

const struct value_view *watch_turns_view(const struct watch_turns *t, uint64_t *len)
{
	if (t->place[0].view.bit_size)
		return NULL;
	for (size_t i = 1; i < t->place_count; i++)
		if (t->place[i].view.type != t->place[0].view.type ||
		    t->place[i].view.bit_size != t->place[0].view.bit_size)
			return NULL;
	*len = t->place[0].len;
	return &t->place[0].view;
}

static int too_few(const struct watch_turns *t)
{
	size_t n = t->slots.count;

	return cli_wrong(
		COMMAND,
		"%zu place%s take%s %zu debug registers and %zu %s free: --rotate 10ms "
		"lets them take turns",
		t->place_count, t->place_count == 1 ? "" : "s",
		t->place_count == 1 ? "s" : "", t->word_count, n, n == 1 ? "is" : "are");
}

/* All at once, so that none of them is seen before the others. */
static int enable_all(struct watch_turns *t, const struct session *session)
{
	for (size_t slot = 0; slot < t->slots.count; slot++) {
		int err = trapline_event_enable(t->slots.event[slot]);
		if (err < 0)
			return session_explain(session, "watch", t->title, err);
		t->holds[slot] = &t->word[slot];
		t->holds[slot]->since_ns = now_ns();
	}
	t->next_ns = now_ns() + t->set->rotate_ns;
	return 0;
}

int watch_turns_arm(struct watch_turns *t, struct trapline *target,
		    const struct session *session, const struct trapline_event_opts *opts)
{
	struct trapline_event_opts disabled = *opts;
	int err = 0;

	disabled.flags |= TRAPLINE_DISABLED;
	while (!err && t->slots.count < t->word_count) {
		const struct turn_word *w = &t->word[t->slots.count];
		err = watch_slots_add(&t->slots, target, w->address, w->len,
				      t->place[0].access, &disabled);
	}
	if (!t->slots.count || (err && err != -ENOSPC))
		return session_explain(session, "watch", t->title, err);
	if (t->slots.count < t->word_count && !t->set->rotate_ns)
		return too_few(t);
	return enable_all(t, session);
}

bool watch_turns_hit(struct watch_turns *t, const struct trapline_hit *hit,
		     struct watch_which *which)
{
	for (size_t i = 0; i < t->place_count; i++) {
		const struct watch_what *what = &t->place[i];
		if (hit->address - what->address >= what->len)
			continue;
		*which = (struct watch_which){ .what = what,
					       .hits = &t->sums.place[i].hits,
					       .name = t->place_count > 1 ? what->name :
									    NULL };
		return true;
	}
	t->unplaced++;
	return false;
}

static void clock_stop(struct turn_word *w, uint64_t now)
{
	if (w->since_ns)
		w->watched_ns += now - w->since_ns;
	w->since_ns = 0;
}

static bool is_next(const struct watch_turns *t, const struct turn_word *w, size_t first)
{
	size_t index = (size_t)(w - t->word);

	return (index + t->word_count - first) % t->word_count < t->slots.count;
}

/* A word of the next turn that no register has. */
static struct turn_word *missing(struct watch_turns *t, size_t first)
{
	for (size_t n = 0; n < t->slots.count; n++) {
		struct turn_word *w = &t->word[(first + n) % t->word_count];
		size_t slot = 0;
		while (slot < t->slots.count && t->holds[slot] != w)
			slot++;
		if (slot == t->slots.count)
			return w;
	}
	return NULL;
}

static void move_slot(struct watch_turns *t, size_t slot, struct turn_word *to)
{
	uint64_t started = now_ns();

	if (t->holds[slot])
		clock_stop(t->holds[slot], started);
	int err = watch_slots_move(&t->slots, slot, to->address, to->len);
	uint64_t ended = now_ns();
	t->sums.switching_ns += ended - started;
	t->holds[slot] = err < 0 ? NULL : to;
	t->sums.failures += err < 0;
	if (err >= 0)
		to->since_ns = ended;
}

/* Words that stay in the next turn keep their register. */
static void turn(struct watch_turns *t)
{
	size_t first = (t->first + t->slots.count) % t->word_count;

	for (size_t slot = 0; slot < t->slots.count; slot++) {
		struct turn_word *w = t->holds[slot];
		if (w && is_next(t, w, first))
			continue;
		w = missing(t, first);
		if (w)
			move_slot(t, slot, w);
	}
	t->first = first;
	t->sums.turns++;
}

static void pause_clocks(struct watch_turns *t, bool is_paused, uint64_t now)
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

int watch_turns_tick(struct watch_turns *t, bool is_paused)
{
	uint64_t now = now_ns();

	if (is_paused != t->is_paused)
		pause_clocks(t, is_paused, now);
	if (t->word_count == t->slots.count || is_paused)
		return TICK_MS;
	if (now >= t->next_ns) {
		turn(t);
		/* From the end of the switch: a turn is as long as asked for. */
		now = now_ns();
		t->next_ns = now + t->set->rotate_ns;
	}
	return (int)((t->next_ns - now + 999999u) / 1000000u);
}

/* Of a place's words together: all of them all the time is the whole run. */
static void sum_words(struct watch_turns *t, size_t place)
{
	struct run_turns_place *p = &t->sums.place[place];
	uint64_t sum = 0;

	for (size_t i = 0; i < t->word_count; i++) {
		if (t->word[i].place != place)
			continue;
		sum += t->word[i].watched_ns;
		p->words++;
	}
	p->watched_ns = p->words ? sum / p->words : 0;
	p->name = t->place[place].name;
	p->address = t->place[place].address;
	p->len = t->place[place].len;
}

void watch_turns_end(struct watch_turns *t, struct run_end *end)
{
	uint64_t now = now_ns();

	for (size_t slot = 0; slot < t->slots.count; slot++)
		if (t->holds[slot])
			clock_stop(t->holds[slot], now);
	for (size_t i = 0; i < t->place_count; i++)
		sum_words(t, i);
	t->sums.place_count = t->place_count;
	t->sums.words = t->word_count;
	t->sums.registers = t->slots.count;
	t->sums.length_ns = t->set->rotate_ns;
	t->sums.duration_ns = end->duration_ns;
	end->turns = &t->sums;
	watch_slots_stats(&t->slots, end);
}

void watch_turns_release(struct watch_turns *t)
{
	free(t->place);
	free(t->sums.place);
	free(t->word);
}
