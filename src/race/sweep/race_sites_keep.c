/* SPDX-License-Identifier: MIT */
/*
 * race_sites_keep.c - the thread that keeps the traps of a sweep: set when the first thread is
 * about to be created, removed after enough hits, set again in turn. Not in a handler.
 *
 * The trap thread, one of the detector, does this: code cannot be changed inside a callback. All of
 * it happens under one lock, which a fork takes too, so the child never finds it half done.
 */
#include "race/sweep/race_sites_keep.h"

#include <errno.h>
#include <link.h>
#include <linux/futex.h>

#include <trapline/code.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/sys.h"
#include "code/poke/poke.h"
#include "code/poke/traps.h"
#include "code/poke/traps_switch.h"
#include "guest/own_thread.h"
#include "race/race.h"
#include "race/race_budget.h"
#include "race/race_end.h"
#include "race/race_start.h"
#include "race/race_state.h"
#include "race/race_strategy.h"
#include "race/sweep/race_linger.h"
#include "race/sweep/race_sites.h"
#include "race/sweep/race_sites_place.h"
#include "record/race_region.h"
#include "trap/inflight.h"

#define TURN_NS 2000000u
#define LOOK_EVERY 25u	 /* turns: for modules that came or went */
#define RENEW 24u	 /* sites a turn */
#define NOTE_EVERY 16u	 /* turns: threads that reach them are recorded, not stalled */
#define STALL_NS 500000u /* on average: no more than can be stalled */
#define CHOICE 96u	 /* from so many */
#define WITNESSES 4u	 /* turns of a locked instruction, which may access this and that */
#define END_STEP_NS 200000
#define END_STEPS 10000u /* 2 s and more: it waits for a lock of the loader, which a thread holds */
#define STACK_BYTES (256u << 10)
#define PIECE_EVERY 6u
/* Where sites are multiplexed: */
#define ROTATE_NS 10000000u
#define POOR_NS 40000000u     /* when nothing may be spent */
#define YOUNG_TURNS 50u	      /* shorter ones */
#define TURN_STALL_NS 250000u /* what one costs, about */
#define PIECE_NS 3000000u     /* what a piece costs, where all its sites are reached */
#define SWITCH_NS 20000u      /* a change of text stops all CPUs of the process for a moment */
#define OBJECT_EVERY 4u	      /* turns */
#define MASKS_EVERY 256u      /* turns: has a thread SIGTRAP blocked? */
#define PIECES_AFTER 50u      /* pieces of libraries, where they were not set at the start */

/*
 * Mapped for a sweep only: the address space of a process that is attached to is not spent on it.
 */
struct tables {
	uint32_t resting[RACE_SPOTS_MAX]; /* in the order in which they began to */
	uint32_t rows[RACE_SPOTS_MAX];	  /* of the set that is switched */
};

static struct {
	pthread_mutex_t lock;
	race_create create;
	pid_t pid;	       /* whose thread runs */
	uint32_t is_kept;      /* it was created, in this process */
	int is_over;	       /* no text is changed any more, here and in children */
	int has_handlers;      /* around fork */
	struct tables *tables; /* from the first thread on, for ever */
	uint32_t first;
	uint32_t resting_count;
	int are_pieces_early;
	int is_poor;
	uint32_t turns; /* of the thread */
} sites = { .lock = PTHREAD_MUTEX_INITIALIZER };

static struct race_spot *spot_of(uint32_t id)
{
	uint32_t set = (id - 1) >> 16;
	uint32_t row = (id - 1) & 0xffff;

	return set < race_sets.count && row < race_sets.rows[set].count ?
		       &race_sets.rows[set].rows[row] :
		       NULL;
}

static void rest(uint32_t id)
{
	uint32_t at = (sites.first + sites.resting_count) % RACE_SPOTS_MAX;

	sites.tables->resting[at] = id;
	sites.resting_count++;
}

static uint32_t take_resting(void)
{
	uint32_t id = sites.tables->resting[sites.first];

	sites.first = (sites.first + 1) % RACE_SPOTS_MAX;
	sites.resting_count--;
	return id;
}

/* Writes those of one set among ids, as rows. */
static size_t rows_of(uint32_t set, const uint32_t *ids, size_t n, uint32_t *rows)
{
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		if ((ids[i] - 1) >> 16 == set)
			rows[count++] = (ids[i] - 1) & 0xffff;
	return count;
}

static void switch_all(const uint32_t *ids, size_t n, int on)
{
	static uint32_t rows[RACE_SPOT_QUEUE > CHOICE ? RACE_SPOT_QUEUE : CHOICE];
	struct code_problem problem;

	for (uint32_t i = 0; n && i < race_sets.count; i++) {
		size_t count = rows_of(i, ids, n, rows);

		if (count)
			traps_switch(race_sets.rows[i].traps, rows, count, on, &problem);
	}
}

static void pay_switch(void)
{
	if (race_strategy->rotates)
		race_budget_spend_on_sites(SWITCH_NS);
}

static void take_away(void)
{
	static uint32_t ids[RACE_SPOT_QUEUE];
	struct race_spot_queue *q = &race_spot_queue;
	size_t n = 0;

	while (n < RACE_SPOT_QUEUE && atomic_get(&q->out) != atomic_get(&q->in)) {
		uint32_t *row = &q->rows[q->out % RACE_SPOT_QUEUE];
		uint32_t id = atomic_swap(row, 0u);

		if (!id)
			break; /* not yet written */
		atomic_add(&q->out, 1u);
		if (id != UINT32_MAX && spot_of(id))
			ids[n++] = id;
	}
	switch_all(ids, n, 0);
	if (n)
		pay_switch();
	for (size_t i = 0; i < n; i++) {
		struct race_spot *spot = spot_of(ids[i]);

		if (!spot)
			continue;
		atomic_set(&spot->state, SPOT_RESTING);
		if (!spot->is_witness || ++spot->pointless < WITNESSES)
			rest(ids[i]);
	}
	counter_add(&race.process->counters[RACE_SITE_REMOVED], n);
}

/* How much has been spent on it. What lies on its own stack has its turn rarely. */
static uint32_t debt_of(uint32_t id)
{
	const struct race_spot *spot = spot_of(id);

	if (!spot)
		return UINT32_MAX;
	uint32_t stalls = spot->site ? counter_get(&spot->site->stalls) : 0;
	uint32_t pointless = counter_get(&spot->pointless);

	return stalls + (pointless > 4 ? pointless * 16 : pointless * 2);
}

/* Among those that have rested longest, the ones with the fewest stalls. */
static void put_back(uint32_t most)
{
	enum race_arming why = sites.turns % NOTE_EVERY ? RACE_ARM_AGAIN : RACE_ARM_TO_NOTE;
	uint32_t ids[CHOICE] = { 0 };
	uint32_t n = 0;

	while (n < CHOICE && sites.resting_count)
		ids[n++] = take_resting();
	uint32_t chosen = n < most ? n : most;
	for (uint32_t i = 0; i < chosen; i++)
		for (uint32_t k = i + 1; k < n; k++)
			if (debt_of(ids[k]) < debt_of(ids[i])) {
				uint32_t id = ids[i];
				ids[i] = ids[k];
				ids[k] = id;
			}
	for (uint32_t i = chosen; i < n; i++)
		rest(ids[i]);
	for (uint32_t i = 0; i < chosen; i++) {
		struct race_spot *spot = spot_of(ids[i]);

		if (spot)
			race_spot_arm(spot, why);
	}
	switch_all(ids, chosen, 1);
	if (chosen)
		pay_switch();
	counter_add(&race.process->counters[RACE_SITE_RENEWED], chosen);
}

static int on_loader(struct dl_phdr_info *info, size_t size, void *arg)
{
	unsigned long long loaded = info->dlpi_adds + info->dlpi_subs;
	void (**act)(void) = arg;

	race_sites_loaded(loaded);
	(*act)();
	return 1;
}

/*
 * Between an inspection of text and a trap in it a library may be closed. What is mapped at its
 * address then would get the int3. The loader unmaps under the lock that a callback of
 * dl_iterate_phdr() holds (_dl_close_worker() of glibc).
 */
static void while_nothing_closes(void (*act)(void))
{
	pthread_mutex_lock(&sites.lock);
	dl_iterate_phdr(on_loader, &act);
	pthread_mutex_unlock(&sites.lock);
}

void race_sites_forget_set(uint32_t number)
{
	uint32_t *rows = sites.tables->rows;
	const struct race_spots *set = &race_sets.rows[number];
	struct code_problem problem;
	uint32_t n = sites.resting_count;

	take_away();
	for (uint32_t i = 0; i < set->count; i++)
		rows[i] = i;
	if (set->traps && set->count)
		traps_switch(set->traps, rows, set->count, 0, &problem);
	while (n--) {
		uint32_t id = take_resting();

		if ((id - 1) >> 16 != number)
			rest(id);
	}
}

/* What was reached before has its turn again, as far as may be spent. */
static void renew(void)
{
	int64_t left = race_budget_sites_left(clock_now_ns());
	uint64_t most = left > 0 ? (uint64_t)left / TURN_STALL_NS : 0;

	sites.is_poor = !most;

	take_away();
	if (most)
		put_back(most < RENEW ? (uint32_t)most : RENEW);
}

static void rotate(void)
{
	renew();
	if (race_budget_sites_left(clock_now_ns()) < (int64_t)PIECE_NS)
		return;
	/* Now and then one more object, or all that came. */
	if (sites.turns % OBJECT_EVERY == 1)
		race_sites_add_new();
	race_sites_rotate();
}

static void keep_take_turn(void)
{
	if (race_strategy->rotates) {
		rotate();
		return;
	}

	take_away();
	uint64_t paid = race_budget_left(clock_now_ns()) / STALL_NS;
	if (paid)
		put_back(paid < RENEW ? (uint32_t)paid : RENEW);
	if (sites.turns % LOOK_EVERY == 0)
		race_sites_add_new();
	else if (paid && sites.turns % PIECE_EVERY == 0 &&
		 (sites.are_pieces_early || sites.turns > PIECES_AFTER))
		race_sites_add_piece();
}

static void turn(void)
{
	uint64_t cpu_ns = race_thread_cpu_ns();

	while_nothing_closes(keep_take_turn);
	cpu_ns = race_thread_cpu_ns() - cpu_ns;
	/* In a sweep with what was done between turns, about. */
	if (race_strategy->rotates)
		race_budget_spend_on_sites(cpu_ns);
	else
		race_budget_spend(2 * cpu_ns, 1);
}

static void between_turns(void (*act)(void))
{
	uint64_t cpu_ns = race_strategy->rotates ? race_thread_cpu_ns() : 0;

	while_nothing_closes(act);
	if (cpu_ns)
		race_budget_spend_on_sites(race_thread_cpu_ns() - cpu_ns);
}

static void take_all_away(void)
{
	for (uint32_t i = 0; i < race_sets.count; i++) {
		uint32_t *rows = sites.tables->rows;
		struct code_problem problem;

		for (uint32_t k = 0; k < race_sets.rows[i].count; k++)
			rows[k] = k;
		if (race_sets.rows[i].count)
			traps_switch(race_sets.rows[i].traps, rows, race_sets.rows[i].count, 0,
				     &problem);
	}
}

/* A thread that blocks SIGTRAP by a system call of its own would be killed by a trap. */
static int is_any_blocked(void)
{
	struct code_problem problem = { NULL, 0 };
	int err = race_strategy->rotates && sites.turns % MASKS_EVERY == 0 ?
			  traps_check_masks(&problem) :
			  0;

	if (err)
		race_sites_refuse(err, problem.why);
	return err != 0;
}

/* As in a callback: a search that ends in the meantime waits for it. */
static void look_at_budget(int is_last)
{
	const struct trapline_event *clock = race.timers[0];

	if (!race_strategy->rotates || !clock)
		return;
	uint64_t *entry = inflight_enter(sys_gettid(), clock->index);
	if (entry && atomic_get(&race.phase) == RACE_RUNNING)
		race_budget_look(clock_now_ns(), is_last);
	inflight_leave(entry);
}

static uint64_t turn_ns(void)
{
	if (!race_strategy->rotates || sites.turns <= YOUNG_TURNS)
		return TURN_NS;
	return sites.is_poor ? POOR_NS : ROTATE_NS;
}

static void *keep_traps(void *unused)
{
	struct race_spot_queue *q = &race_spot_queue;
	uint64_t last = clock_now_ns();
	uint32_t ended = 0;

	atomic_set(&race.keeper, sys_gettid());
	own_thread_begins();
	for (sites.turns = 1; !race_is_stopped() && !race_is_unwatched(); sites.turns++) {
		uint32_t seen = atomic_get(&q->wakeups);
		struct timespec ts = { 0, (long)turn_ns() };

		own_thread_shuts();
		if (atomic_get(&q->in) == atomic_get(&q->out))
			sys6(SYS_futex, &q->wakeups, FUTEX_WAIT_PRIVATE, seen, &ts, NULL, 0);
		own_thread_opens();
		uint64_t now = clock_now_ns();
		if (now - last < turn_ns()) {
			uint32_t before = ended;

			ended = atomic_get(&q->ended);
			between_turns(ended == before ? take_away : renew);
			continue;
		}
		last = now;
		turn();
		look_at_budget(0);
		if (sites.turns % LOOK_EVERY == 0 && race_is_kept_by_us())
			break;
		if (is_any_blocked())
			break;
	}
	while_nothing_closes(take_all_away);
	look_at_budget(1); /* the next sample ends the search */
	atomic_set(&race.budget.own_threads, 0u);
	own_thread_shuts();
	return NULL;
}

static int start_thread(void)
{
	race.keeper = 0;
	int err = own_thread_start(sites.create, STACK_BYTES, keep_traps, NULL);
	if (!err) {
		atomic_set(&race.budget.own_threads, 1u);
		atomic_set(&sites.is_kept, 1u);
	}
	return err;
}

/* ---- around fork ---- */

static __thread int is_forking __attribute__((tls_model("initial-exec"))); /* with the lock */

static void before_fork(void)
{
	if (sites.is_over)
		return;
	pthread_mutex_lock(&sites.lock);
	poke_before_fork();
	is_forking = 1;
}

static void after_fork_in_parent(void)
{
	if (!is_forking)
		return;
	is_forking = 0;
	poke_after_fork_in_parent();
	pthread_mutex_unlock(&sites.lock);
}

/* The traps stay; the thread that keeps them is made when this process creates a thread. */
static void after_fork_in_child(void)
{
	if (!is_forking)
		return;
	is_forking = 0;
	poke_after_fork_in_child();
	sites.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	sites.pid = 0;
	sites.is_kept = 0;
}

static int make_tables(void)
{
	if (sites.tables)
		return 0;
	void *memory = memory_map(sizeof(*sites.tables));
	if (memory_failed(memory))
		return memory_error(memory);
	sites.tables = memory;
	return 0;
}

static void begin_locked(void)
{
	struct code_problem problem = { NULL, 0 };
	int err = make_tables();

	if (!err)
		err = poke_start(&problem);
	if (!err && !sites.has_handlers) {
		err = -pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
		if (!err && race_strategy->is_of_sites)
			err = race_linger_begin();
		sites.has_handlers = !err;
	}
	if (err) {
		race_sites_refuse(err, problem.why);
		return;
	}
	if (race_strategy->rotates)
		race_sites_rotate_first();
	else
		sites.are_pieces_early = race_sites_add_first();
	err = start_thread();
	if (err) {
		race_sites_refuse(err, "the trap thread could not be created");
		take_all_away();
	}
}

void race_sites_begin(race_create create)
{
	/* In a process that was attached to, threads block SIGTRAP without a report. */
	int is_wanted = race_strategy->is_of_sites ||
			(race_strategy->rotates && !(race.flags & RACE_IS_LATE));

	if (!race.region || !is_wanted || !race.slot_count || race_is_stopped() ||
	    atomic_get(&sites.pid) == race.pid)
		return;
	pthread_mutex_lock(&sites.lock);
	if (sites.pid != race.pid) {
		sites.create = create;
		begin_locked();
		atomic_set(&sites.pid, race.pid);
	}
	pthread_mutex_unlock(&sites.lock);
}

/* It releases its locks and its stack by system calls, so until it is gone. */
static int is_kept(void)
{
	return atomic_get(&sites.is_kept) &&
	       (!atomic_get(&race.keeper) || sys_tgkill(race.pid, race.keeper, 0) != -ESRCH);
}

int race_sites_end(void)
{
	struct timespec step = { 0, END_STEP_NS };

	for (uint32_t n = 0; n < END_STEPS && is_kept(); n++)
		sys_nap(&step);
	sites.is_over = 1;
	return is_kept() ? -EBUSY : 0;
}

int race_sites_wait(void)
{
	for (uint32_t i = 0; i < atomic_get(&race_sets.count); i++)
		if (race_sets.rows[i].traps && traps_wait_for_callbacks(race_sets.rows[i].traps))
			return -EBUSY;
	return 0;
}
