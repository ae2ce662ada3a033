/* SPDX-License-Identifier: MIT */
/*
 * outside_turn.c - which code has probes now: some functions at a time, by chance, and those that
 * had no turn yet first.
 *
 * A probe costs the thread some microseconds whether or not it is stalled. So a turn ends after
 * some thousand hits, and the next one waits until the budget has paid for them. The function with
 * most of the hits is hot: it has turns of its own from then on, with a few of its sites.
 */
#include "base/atomic.h"
#include "base/clock.h"
#include "event/uprobe/uprobe_filter.h"
#include "event/uprobe/uprobe_owner.h"
#include "outside/outside_priv.h"
#include "record/race_region.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TURN_NS 250000000u /* with nothing but cold code */
#define PAUSE_NS 20000000u /* between turns, at least: code is changed for each */
#define LOOK_NS 25000000u
#define LOOK_LAST_NS 200000000u
#define HITS_MOST 2000u
#define HITS_LEAST 200u
#define COLD_SITES 64u /* of a function in one turn */
#define HOT_SITES 12u
#define WARM_FUNCTIONS 8u
#define HOT_TOGETHER 4u /* where an access is seen by its probe alone */
#define HOT_PART 2u	/* of the turns, one in so many is for hot code while there is cold code */
#define CREDIT_MOST_NS 40000000
#define HOLD_MOST_NS 1000000u
#define HOLD_MOSTLY_NS 350000u
#define HOLD_LONG_PART 4u /* one site in so many has longer ones, at first */
#define ARM_NS 500000u
#define HOT_NS 120000u
#define TURN_CREDIT_NS 4000000 /* for some stalls */
#define NEW_STALLS 8u
#define PPM 1000000u

/* ---- the budget ---- */

static uint64_t clock_of(clockid_t clock)
{
	struct timespec ts;

	return clock_gettime(clock, &ts) ? 0 :
					   (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* What the watch and the turns cost: the report is not part of it. */
static uint64_t own_clock(const struct outside *o)
{
	uint64_t ns = o->has_turner ? clock_of(CLOCK_THREAD_CPUTIME_ID) : 0;
	clockid_t clock;

	for (uint32_t i = 0; i < o->armer_count; i++)
		if (!pthread_getcpuclockid(o->armers[i], &clock))
			ns += clock_of(clock);
	return ns;
}

/* What the process ran is what the budget is a part of: a CPU's time at most. */
static void earn(struct outside *o)
{
	uint64_t wall = clock_now_ns();
	uint64_t cpu = clock_of(o->clock);
	uint64_t own = own_clock(o);
	uint64_t ran = cpu > o->clock_ns ? cpu - o->clock_ns : 0;
	uint64_t passed = wall - o->wall_ns;

	ran = ran < passed ? ran : passed;
	int64_t more = (int64_t)(ran * o->set.budget_ppm / PPM) - (int64_t)(own - o->own_ns);
	o->clock_ns = cpu > o->clock_ns ? cpu : o->clock_ns;
	o->wall_ns = wall;
	o->own_ns = own;
	o->sums.run_ns += ran;
	int64_t credit = atomic_add(&o->shared->credit_ns, more) + more;
	if (credit > CREDIT_MOST_NS)
		atomic_add(&o->shared->credit_ns, CREDIT_MOST_NS - credit);
}

/* 1: until then, or until the turn is over. */
static void wait_ns(struct outside *o, uint64_t ns)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	uint64_t at = (uint64_t)until.tv_nsec + ns;
	until.tv_sec += (time_t)(at / 1000000000u);
	until.tv_nsec = (long)(at % 1000000000u);
	pthread_mutex_lock(&o->lock);
	if (!o->is_turn_over && !o->is_stopping)
		pthread_cond_timedwait(&o->over, &o->lock, &until);
	pthread_mutex_unlock(&o->lock);
}

/* ---- which code ---- */

int outside_begin_round(struct outside *o)
{
	uint32_t n = o->code.function_count;

	if (!o->order)
		o->order = calloc(n + 1, sizeof(*o->order));
	if (!o->order)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		o->order[i] = i;
	for (uint32_t i = n; i > 1; i--) {
		uint32_t other = (uint32_t)(outside_random() % i);
		uint32_t last = o->order[i - 1];

		o->order[i - 1] = o->order[other];
		o->order[other] = last;
	}
	o->order_at = 0;
	return 0;
}

static struct race_site *site_of(struct outside *o, const struct outside_module *m, uint64_t place)
{
	uint64_t at = (uint64_t)m->row << RACE_PLACE_BITS | ((place - m->bias) & RACE_PLACE_MASK);
	struct race_site *site = race_add_site(o->set.region, at);

	if (site)
		site->flags |= RACE_SITE_LISTED;
	else
		o->set.region->sites_lost++;
	return site;
}

/*
 * What comes rarely needs a long stall. But in the time of that several short ones find more, where
 * the others come often.
 */
static uint64_t hold_of(const struct outside *o, const struct race_site *site)
{
	if (o->set.delay_ns)
		return o->set.delay_ns < HOLD_MOST_NS ? o->set.delay_ns : HOLD_MOST_NS;
	bool is_long = outside_random() % HOLD_LONG_PART == 0 &&
		       (!site || site->stalls < NEW_STALLS);

	return is_long ? HOLD_MOST_NS : HOLD_MOSTLY_NS;
}

static void add_function(struct outside *o, struct outside_function *f, uint32_t most)
{
	struct outside_turn *t = &o->turn;
	static struct outside_trap found[OUTSIDE_SITES];
	uint32_t room = OUTSIDE_SITES - t->count;
	uint32_t more;
	uint32_t n = outside_list(o->lister, f, found, OUTSIDE_SITES, &more);

	o->sums.no_room += more;
	/* By chance, where there are more. */
	for (uint32_t taken = 0; taken < n && taken < most && taken < room; taken++) {
		uint32_t at = taken + (uint32_t)(outside_random() % (n - taken));
		struct outside_trap trap = found[at];

		found[at] = found[taken];
		trap.hold_ns = hold_of(o, site_of(o, &o->code.modules[f->module], trap.place));
		o->traps->rows[t->count++] = trap;
	}
	t->functions[t->function_count++] = f;
}

static bool is_in_turn(const struct outside_turn *t, const struct outside_function *f)
{
	for (uint32_t i = 0; i < t->function_count; i++)
		if (t->functions[i] == f)
			return true;
	return false;
}

static void choose_hot(struct outside *o)
{
	uint32_t wanted = (uint32_t)(outside_random() % o->hot);

	for (uint32_t i = 0; i < o->code.function_count; i++) {
		struct outside_function *f = &o->code.functions[i];

		if (f->policy == OUTSIDE_INCLUDED && f->heat && !wanted-- &&
		    !is_in_turn(&o->turn, f)) {
			add_function(o, f, HOT_SITES);
			return;
		}
	}
}

/* Threads were seen there: each cold turn has some of these. */
static void choose_warm(struct outside *o)
{
	uint32_t n = o->code.function_count;
	uint32_t from = (uint32_t)(outside_random() % n);

	if (!o->warm)
		return;
	for (uint32_t i = 0; i < n && o->turn.function_count < WARM_FUNCTIONS; i++) {
		struct outside_function *f = &o->code.functions[(from + i) % n];

		if (f->policy == OUTSIDE_INCLUDED && f->hits && !f->heat)
			add_function(o, f, COLD_SITES);
	}
}

static int choose_cold(struct outside *o)
{
	struct outside_turn *t = &o->turn;

	choose_warm(o);
	for (uint32_t looked = 0; looked < o->code.function_count && t->count < OUTSIDE_SITES / 2;
	     looked++) {
		if (!o->order || o->order_at == o->code.function_count) {
			if (looked && t->count)
				return 0;
			int err = outside_begin_round(o);
			if (err)
				return err;
		}
		struct outside_function *f = &o->code.functions[o->order[o->order_at++]];
		if (f->policy == OUTSIDE_INCLUDED && !f->heat && !is_in_turn(t, f))
			add_function(o, f, COLD_SITES);
	}
	return 0;
}

static int choose(struct outside *o)
{
	struct outside_turn *t = &o->turn;
	bool is_all_hot = o->hot == o->code.included;

	t->count = t->function_count = 0;
	t->is_hot = o->hot && (is_all_hot || outside_random() % HOT_PART == 0);
	if (!t->is_hot)
		return choose_cold(o);
	for (uint32_t i = 0; i < (o->shared->is_by_sites ? HOT_TOGETHER : 1); i++)
		choose_hot(o);
	return 0;
}

/* ---- probes ---- */

static const struct outside_module *module_of_row(const struct outside *o, uint32_t row)
{
	return outside_module_at(&o->code, o->traps->rows[row].place);
}

/* Rows of one file. 0 or -errno. */
static int link_rows(struct outside *o, uint32_t first, uint32_t count)
{
	static uint64_t offsets[OUTSIDE_SITES];
	static uint64_t cookies[OUTSIDE_SITES];
	const struct outside_module *m = module_of_row(o, first);
	const struct uprobe_multi link = {
		.prog_fd = (uint32_t)o->program,
		.attach_type = UPROBE_MULTI_ATTACH,
		.path = (uintptr_t)m->file.path,
		.offsets = (uintptr_t)offsets,
		.cookies = (uintptr_t)cookies,
		.count = count,
		.pid = uprobe_filters_processes() ? (uint32_t)o->set.pid : 0,
	};

	if (o->turn.link_count == OUTSIDE_LINKS)
		return -E2BIG;
	for (uint32_t i = 0; i < count; i++) {
		offsets[i] = o->traps->rows[first + i].place - m->file.start + m->file.offset;
		cookies[i] = first + i;
	}
	int fd = uprobe_link_new(&link, sizeof(link));
	if (fd < 0)
		return fd;
	o->turn.links[o->turn.link_count++] = fd;
	return 0;
}

static void close_links(struct outside_turn *t)
{
	while (t->link_count)
		uprobe_link_close(t->links[--t->link_count]);
}

/* The kernel refuses all where it refuses one: the halves are tried. */
static int attach_rows(struct outside *o, uint32_t first, uint32_t count)
{
	int err = link_rows(o, first, count);

	if (!err)
		o->sums.sites += count;
	if (!err || err == -ESRCH || err == -EPERM || err == -ENOMEM)
		return err;
	if (count == 1 || err == -E2BIG) {
		o->sums.refused += count;
		return 0;
	}
	err = attach_rows(o, first, count / 2);
	return err ? err : attach_rows(o, first + count / 2, count - count / 2);
}

static int traps_compare(const void *a, const void *b)
{
	const struct outside_trap *x = a;
	const struct outside_trap *y = b;

	return x->place < y->place ? -1 : x->place > y->place;
}

static int attach_all(struct outside *o)
{
	struct outside_turn *t = &o->turn;
	uint32_t from = 0;
	int err = 0;

	qsort(o->traps->rows, t->count, sizeof(o->traps->rows[0]), traps_compare);
	for (uint32_t i = 1; !err && i <= t->count; i++) {
		if (i < t->count && module_of_row(o, i) == module_of_row(o, from))
			continue;
		err = attach_rows(o, from, i - from);
		from = i;
	}
	return err;
}

/* ---- a turn ---- */

static uint64_t hits_paid(struct outside *o)
{
	int64_t credit = atomic_get(&o->shared->credit_ns);
	uint64_t hits = credit > 0 ? (uint64_t)credit / o->hit_ns : 0;

	hits = hits < HITS_MOST ? hits : HITS_MOST;
	return hits > HITS_LEAST ? hits : HITS_LEAST;
}

static int begin_turn(struct outside *o)
{
	int err = choose(o);

	if (err || !o->turn.count)
		return err;
	atomic_set(&o->shared->turn_hits, (uint64_t)0);
	atomic_set(&o->shared->is_spent, (uint64_t)0);
	atomic_set(&o->shared->most_hits, hits_paid(o));
	atomic_set(&o->shared->is_open, (uint64_t)1);
	o->turn.began_ns = clock_now_ns();
	err = attach_all(o);
	if (!err)
		o->sums.turns++;
	return err;
}

static uint64_t hits_in(const struct outside *o, const struct outside_function *f)
{
	uint64_t hits = 0;

	for (uint32_t i = 0; i < o->turn.count; i++)
		if (o->traps->rows[i].place - f->start < f->end - f->start)
			hits += o->traps->rows[i].hits;
	return hits;
}

/* Those with an eighth of the hits, so at least one. */
static void note_heat(struct outside *o)
{
	uint64_t all = atomic_get(&o->shared->turn_hits);

	o->sums.turns_hot++;
	for (uint32_t i = 0; i < o->turn.function_count; i++) {
		struct outside_function *f = o->turn.functions[i];

		if (hits_in(o, f) * 8 < all)
			continue;
		o->hot += !f->heat;
		f->heat++;
	}
}

static void note_warmth(struct outside *o)
{
	for (uint32_t i = 0; i < o->turn.function_count; i++) {
		struct outside_function *f = o->turn.functions[i];
		uint64_t hits = f->hits + hits_in(o, f);

		o->warm += !f->hits && hits;
		f->hits = hits < UINT32_MAX ? (uint32_t)hits : UINT32_MAX;
	}
}

static void note_sites(struct outside *o)
{
	struct race_region *region = o->set.region;

	for (uint32_t i = 0; i < o->turn.count; i++) {
		const struct outside_trap *trap = &o->traps->rows[i];
		const struct outside_module *m = module_of_row(o, i);
		struct race_site *site = m && trap->hits ? site_of(o, m, trap->place) : NULL;

		if (!site)
			continue;
		site->flags |= RACE_SITE_REACHED;
		if (trap->stalls && !site->stalls)
			region->sites_covered++;
		site->stalls += (uint32_t)trap->stalls;
		site->last_ns = clock_now_ns();
	}
}

static void end_turn(struct outside *o)
{
	bool is_early = clock_now_ns() - o->turn.began_ns < TURN_NS / 2 &&
			(atomic_get(&o->shared->is_spent) ||
			 atomic_get(&o->shared->turn_hits) >= o->shared->most_hits);

	atomic_set(&o->shared->is_open, (uint64_t)0);
	close_links(&o->turn);
	uint64_t hits = atomic_get(&o->shared->turn_hits);
	atomic_add(&o->shared->credit_ns, -(int64_t)(hits * o->hit_ns));
	note_sites(o);
	note_warmth(o);
	if (is_early)
		note_heat(o);
	for (uint32_t i = 0; i < o->turn.function_count; i++)
		o->sums.turned += !o->turn.functions[i]->turns++;
	memset(o->traps, 0, o->turn.count * sizeof(o->traps->rows[0]));
	atomic_set(&o->shared->is_spent, (uint64_t)0);
	atomic_set(&o->shared->turn_hits, (uint64_t)0); /* or the armers would end the next wait */
	atomic_set(&o->is_turn_over, 0u);
}

/* Until its time or its hits are over. */
static void wait_turn(struct outside *o)
{
	while (!atomic_get(&o->is_stopping) && !atomic_get(&o->is_turn_over) &&
	       clock_now_ns() - o->turn.began_ns < TURN_NS) {
		wait_ns(o, LOOK_NS);
		earn(o);
	}
}

/* Each look costs the budget some microseconds: none before the credit can be there. */
static void wait_for_credit(struct outside *o)
{
	uint64_t wait = PAUSE_NS;

	do {
		wait_ns(o, wait < LOOK_LAST_NS ? wait : LOOK_LAST_NS);
		earn(o);
		int64_t missing = TURN_CREDIT_NS - atomic_get(&o->shared->credit_ns);
		wait = missing > 0 ? (uint64_t)missing * PPM / (o->set.budget_ppm + 1) : 0;
		wait = wait && wait < PAUSE_NS ? PAUSE_NS : wait;
	} while (wait && !atomic_get(&o->is_stopping));
}

static void *turner(void *arg)
{
	struct outside *o = arg;

	for (;;) {
		wait_turn(o);
		end_turn(o);
		wait_for_credit(o);
		if (atomic_get(&o->is_stopping) || begin_turn(o))
			break;
	}
	close_links(&o->turn);
	return NULL;
}

int outside_turns_start(struct outside *o, const char **why)
{
	*why = "its clock cannot be read";
	int err = -clock_getcpuclockid(o->set.pid, &o->clock);
	if (err)
		return err;
	o->clock_ns = clock_of(o->clock);
	o->own_ns = own_clock(o);
	o->wall_ns = clock_now_ns();
	o->shared->arm_ns = ARM_NS;
	o->shared->hot_ns = o->set.delay_ns ? o->set.delay_ns : HOT_NS;
	atomic_set(&o->shared->credit_ns, (int64_t)o->set.start_ns);
	err = begin_turn(o);
	*why = "the kernel refuses the probes";
	if (err)
		return err;
	*why = "no thread for the turns can be had";
	err = -pthread_create(&o->turner, NULL, turner, o);
	o->has_turner = !err;
	return err;
}

void outside_turns_stop(struct outside *o)
{
	if (o->has_turner)
		pthread_join(o->turner, NULL);
	o->has_turner = false;
	close_links(&o->turn);
}
