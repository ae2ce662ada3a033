/* SPDX-License-Identifier: MIT */
/*
 * race_sites_start.c - the traps of a sweep: set when the first thread is about to be
 * created, removed after enough hits, set again in turn. Not in a handler.
 *
 * The trap thread, one of the detector, does this: code cannot be changed inside a callback. All of
 * it happens under one lock, which a fork takes too, so the child never finds it half done.
 */
#include "race/sweep/race_sites_start.h"

#include <errno.h>
#include <link.h>
#include <linux/futex.h>
#include <string.h>

#include <trapline/code.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/sys.h"
#include "base/table_size.h"
#include "code/poke/poke.h"
#include "race/race.h"
#include "race/race_budget.h"
#include "race/race_end.h"
#include "race/race_modules.h"
#include "race/race_start.h"
#include "race/race_state.h"
#include "race/race_tick.h"
#include "race/sweep/race_calls.h"
#include "race/sweep/race_functions.h"
#include "race/sweep/race_linger.h"
#include "race/sweep/race_ranges.h"
#include "race/sweep/race_returns.h"
#include "race/sweep/race_sites.h"
#include "race/sweep/race_sites_find.h"
#include "record/race_region.h"

#define TURN_NS 2000000u
#define LOOK_EVERY 25u	 /* turns: for modules that came or went */
#define RENEW 24u	 /* sites a turn */
#define NOTE_EVERY 16u	 /* turns: who comes to them is noted, not held */
#define STALL_NS 500000u /* on average: no more than can be held */
#define CHOICE 96u	 /* from so many */
#define WITNESSES 4u	 /* turns of a locked instruction, which may access this and that */
#define TRIES 256	 /* sites that refuse a trap and are left out */
#define END_STEP_NS 200000
#define END_STEPS 10000u /* 2 s and more: it waits for a lock of the loader's that somebody holds */
#define STACK_BYTES (256u << 10)
#define MODULES_AT_ONCE TABLE_SIZE(256, 2)
/* Libraries are gone through piece by piece: a short program does not wait for a long list. */
#define PIECE 512u
#define PIECES_NS 10000000u /* at the start; then one in some turns, in the background */
#define PIECE_EVERY 6u
#define PIECES_IN_RUNS 4u /* of so many runs one does that at the start; */
#define PIECES_AFTER 50u  /* the others after so many turns */

/* How far a library has been gone through: from a function by chance, around to it. */
struct library {
	const struct race_module *module;
	uint64_t start;
	uint32_t first;
	uint32_t next;
	uint32_t is_around; /* past the last function, and at the beginning again */
	uint32_t is_done;
	struct race_listing listing;
};

static struct {
	pthread_mutex_t lock;
	race_create create;
	pid_t pid;	  /* whose thread runs */
	uint32_t is_kept; /* it was created, in this process */
	int is_over;	  /* no text is changed any more, here and in children */
	int has_handlers; /* around fork */
	uint32_t count;
	struct race_spots sets[RACE_SPOT_SETS];
	uint32_t spots; /* in all of them */
	uint32_t library_count;
	struct library libraries[RACE_SPOT_SETS];
	/* Those that rest, in the order in which they began to. */
	uint32_t resting[RACE_SPOTS_MAX];
	uint32_t first;
	uint32_t resting_count;
	unsigned long long loaded; /* objects that ever came and went */
	int has_new;		   /* some came that were not looked at */
	int are_pieces_early;
	uint32_t turns; /* of the thread */
} sites = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void refuse(int err, const char *why)
{
	struct race_region *region = race.region;
	uint32_t expected = 0;

	race.process->sites_error = err;
	if (!atomic_cas(&region->sites_refused, &expected, 1u))
		return;
	for (size_t i = 0; why && why[i] && i < sizeof(region->sites_why) - 1; i++)
		region->sites_why[i] = why[i];
}

/* ---- modules ---- */

struct modules {
	uint64_t text[MODULES_AT_ONCE];
	uint32_t count;
};

static int on_object(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct modules *list = arg;

	sites.loaded = info->dlpi_adds + info->dlpi_subs;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];

		if (ph->p_type != PT_LOAD || !(ph->p_flags & PF_X))
			continue;
		if (list->count < MODULES_AT_ONCE)
			list->text[list->count++] = info->dlpi_addr + ph->p_vaddr;
		else
			race_count(RACE_LOST_OBJECTS);
		break;
	}
	return 0;
}

static struct library *find_library(const struct race_module *module)
{
	for (uint32_t i = 0; i < sites.library_count; i++)
		if (sites.libraries[i].module == module &&
		    sites.libraries[i].start == module->start)
			return &sites.libraries[i];
	return NULL;
}

/* One that cannot be trapped is left out, and the others tried again. */
static int place_traps(struct race_spots *set, struct code_problem *problem)
{
	const struct trapline_traps_opts opts = { .size = sizeof(opts),
						  .callback = race_on_site,
						  .arg = set };
	enum race_arming why = race_is_noting() ? RACE_ARM_TO_NOTE : RACE_ARM_FIRST;
	size_t bytes = set->count * sizeof(uint64_t);
	uint64_t *addresses = memory_map(bytes);
	int err = 0;

	if (memory_failed(addresses))
		return -ENOMEM;
	for (uint32_t i = 0; i < set->count; i++) {
		race_spot_arm(&set->rows[i], why);
		addresses[i] = set->rows[i].address;
	}
	for (int n = 0; n < TRIES && set->count; n++) {
		err = traps_set(addresses, set->count, &opts, &set->traps, problem);
		if ((err != -EOPNOTSUPP && err != -EINVAL) || problem->site >= set->count)
			break;
		set->count--;
		set->rows[problem->site] = set->rows[set->count];
		addresses[problem->site] = addresses[set->count];
	}
	memory_unmap(addresses, bytes);
	return err;
}

/*
 * A set lives as long as the process: a thread may be in a callback, and places are few. imports: the
 * functions there and what they call; NULL, from l->next on.
 */
static int add_set(struct library *l, uint32_t most, const struct race_imports *imports)
{
	const struct race_module *module = l->module;
	struct race_spots *set = &sites.sets[sites.count];
	uint32_t room = RACE_SPOTS_MAX - sites.spots;
	size_t bytes = RACE_SPOTS_MAX * sizeof(struct race_spot);
	struct code_problem problem = { NULL, SIZE_MAX };
	int err = 0;

	if (sites.count == RACE_SPOT_SETS || !room) {
		race_count(RACE_LOST_OBJECTS); /* the rest of it */
		return -ENOSPC;
	}
	struct race_spot *rows = memory_map(bytes);
	if (memory_failed(rows))
		return -ENOMEM;
	*set = (struct race_spots){
		.module = module, .start = module->start, .number = sites.count, .rows = rows
	};
	if (imports)
		set->count = race_find_spots_called(&l->listing, imports->address, imports->count,
						    most, rows, room);
	else
		set->count = race_find_spots(&l->listing, &l->next, most, rows, room);
	if (set->count)
		err = place_traps(set, &problem);
	if (err) {
		refuse(err, problem.why);
		set->count = 0;
	}
	if (!set->count)
		memory_unmap(rows, bytes);
	else
		sites.count++;
	sites.spots += set->count;
	return err;
}

/* Once around: from the first function by chance to the last, and from the first one of all. */
static int add_piece(struct library *l)
{
	uint32_t most = l->module == race.program ? 0 : PIECE;
	int err = add_set(l, most, NULL);

	if (l->next >= l->listing.functions && !l->is_around) {
		l->next = 0;
		l->is_around = 1;
	}
	l->is_done = err || (l->is_around && l->next >= l->first);
	if (err == -EFAULT)
		l->module = NULL; /* closed meanwhile: it may be opened again */
	return err == -ENOSPC ? 0 : err;
}

/* Which it is is by chance: a long one must not keep the others waiting. */
static int add_some_piece(void)
{
	uint32_t from = sites.library_count ? (uint32_t)(race_random() % sites.library_count) : 0;

	for (uint32_t i = 0; i < sites.library_count; i++) {
		struct library *l = &sites.libraries[(from + i) % sites.library_count];

		if (!l->is_done && l->module)
			return add_piece(l);
	}
	return -ENOENT;
}

static struct library *new_library(void)
{
	for (uint32_t i = 0; i < sites.library_count; i++)
		if (!sites.libraries[i].module)
			return &sites.libraries[i];
	return sites.library_count < RACE_SPOT_SETS ? &sites.libraries[sites.library_count++] :
						      NULL;
}

static int add_module(const struct race_module *module)
{
	uint32_t functions = race_count_functions(module);

	if (race_is_for_some() && !race_is_in_range(module, module->text_start, module->text_end))
		functions = 0;
	struct library *l = functions ? new_library() : NULL;

	if (functions && !l)
		race_count(RACE_LOST_OBJECTS);
	if (!l)
		return 0;
	struct race_listing listing;
	int err = race_listing_begin(&listing, module, functions);

	if (err)
		return err;
	race_listing_drop(&l->listing); /* of one that was closed */
	/* The copy first: the object may be closed while it is looked at. */
	err = race_module_keep_code(module);
	uint32_t first = module == race.program ? 0 : (uint32_t)(race_random() % functions);

	*l = (struct library){ .module = err == -EFAULT ? NULL : module,
			       .start = module->start,
			       .first = first,
			       .next = first,
			       .is_around = !first,
			       .is_done = err != 0,
			       .listing = listing };
	if (err)
		refuse(err, NULL);
	else
		race_calls_find(module, &l->listing.calls);
	return err || module != race.program ? err : add_piece(l);
}

/* What the program calls in its libraries runs; most of what else is in them does not. */
static void add_imports(void)
{
	struct race_imports *imports = memory_map(sizeof(*imports));

	if (memory_failed(imports))
		return;
	if (race.program)
		imports->count =
			race_imports_find(race.program, imports->address, RACE_IMPORTS_MAX);
	for (uint32_t i = 0; imports->count && i < sites.library_count; i++)
		if (sites.libraries[i].module && sites.libraries[i].module != race.program &&
		    !sites.libraries[i].is_done)
			add_set(&sites.libraries[i], PIECE, imports);
	memory_unmap(imports, sizeof(*imports));
}

/* Of one that it cannot add, it tells by itself. */
static void add_modules(void)
{
	struct modules list = { .count = 0 };

	dl_iterate_phdr(on_object, &list);
	race_returns_renew();
	for (uint32_t i = 0; i < list.count; i++) {
		const struct race_module *module;

		if (race_policy_of(list.text[i], &module) != RACE_CODE_INCLUDED ||
		    find_library(module))
			continue;
		add_module(module);
	}
}

static void add_some_pieces(void)
{
	for (uint64_t start = clock_now_ns(); clock_now_ns() - start < PIECES_NS;)
		if (add_some_piece() == -ENOENT)
			break;
}

/* ---- turns ---- */

static struct race_spot *spot_of(uint32_t id)
{
	uint32_t set = (id - 1) >> 16;
	uint32_t row = (id - 1) & 0xffff;

	return set < sites.count && row < sites.sets[set].count ? &sites.sets[set].rows[row] : NULL;
}

static void rest(uint32_t id)
{
	uint32_t at = (sites.first + sites.resting_count) % RACE_SPOTS_MAX;

	sites.resting[at] = id;
	sites.resting_count++;
}

static uint32_t take_resting(void)
{
	uint32_t id = sites.resting[sites.first];

	sites.first = (sites.first + 1) % RACE_SPOTS_MAX;
	sites.resting_count--;
	return id;
}

/* Of ids, those of one set, as rows. */
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

	for (uint32_t i = 0; n && i < sites.count; i++) {
		size_t count = rows_of(i, ids, n, rows);

		if (count)
			traps_switch(sites.sets[i].traps, rows, count, on, &problem);
	}
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

/* Of those that have rested longest, the ones that were held least. */
static void put_back(uint32_t most)
{
	enum race_arming why = sites.turns % NOTE_EVERY ? RACE_ARM_AGAIN : RACE_ARM_TO_NOTE;
	uint32_t ids[CHOICE];
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
	counter_add(&race.process->counters[RACE_SITE_RENEWED], chosen);
}

/* ---- the thread ---- */

/* Of an object that was closed, and perhaps opened again at the same place. */
static void drop_closed(void)
{
	for (uint32_t i = 0; i < sites.count; i++) {
		struct race_spots *set = &sites.sets[i];
		struct code_problem problem;

		if (!set->traps || race_module_of(set->start) == set->module)
			continue;
		if (traps_remove(set->traps, &problem))
			continue; /* at the next look */
		set->traps = NULL;
		set->module = NULL;
		sites.spots -= set->count;
		set->count = 0;
	}
	for (uint32_t i = 0; i < sites.library_count; i++) {
		struct library *l = &sites.libraries[i];

		if (l->module && race_module_of(l->start) != l->module)
			l->module = NULL;
	}
}

static int on_loader(struct dl_phdr_info *info, size_t size, void *arg)
{
	unsigned long long loaded = info->dlpi_adds + info->dlpi_subs;
	void (**act)(void) = arg;

	if (loaded != sites.loaded) {
		drop_closed();
		sites.has_new = 1;
	}
	sites.loaded = loaded;
	(*act)();
	return 1;
}

/*
 * Between a look at text and a trap in it a library may be closed, and what comes to its place then
 * would get the int3: whatever somebody maps. The loader unmaps under the lock that a callback of
 * dl_iterate_phdr() holds (_dl_close_worker() of glibc).
 */
static void while_nothing_closes(void (*act)(void))
{
	pthread_mutex_lock(&sites.lock);
	dl_iterate_phdr(on_loader, &act);
	pthread_mutex_unlock(&sites.lock);
}

static void look_around(void)
{
	if (!sites.has_new)
		return;
	sites.has_new = 0;
	add_modules();
	add_some_pieces();
}

static void sites_start_take_turn(void)
{
	take_away();
	uint64_t paid = race_budget_left(clock_now_ns()) / STALL_NS;
	if (paid)
		put_back(paid < RENEW ? (uint32_t)paid : RENEW);
	if (sites.turns % LOOK_EVERY == 0)
		look_around();
	else if (paid && sites.turns % PIECE_EVERY == 0 &&
		 (sites.are_pieces_early || sites.turns > PIECES_AFTER))
		add_some_piece();
}

static void turn(void)
{
	uint64_t cpu_ns = race_thread_cpu_ns();

	while_nothing_closes(sites_start_take_turn);
	/* With what was done between turns, about. */
	race_budget_spend(2 * (race_thread_cpu_ns() - cpu_ns), 1);
}

static void take_all_away(void)
{
	for (uint32_t i = 0; i < sites.count; i++) {
		static uint32_t rows[RACE_SPOTS_MAX];
		struct code_problem problem;

		for (uint32_t k = 0; k < sites.sets[i].count; k++)
			rows[k] = k;
		if (sites.sets[i].count)
			traps_switch(sites.sets[i].traps, rows, sites.sets[i].count, 0, &problem);
	}
}

static void *keep_traps(void *unused)
{
	struct race_spot_queue *q = &race_spot_queue;
	uint64_t last = clock_now_ns();

	atomic_set(&race.keeper, sys_gettid());
	sys5(SYS_prctl, 15 /* PR_SET_NAME */, "trapline", 0, 0, 0);
	for (sites.turns = 1; !race_is_stopped() && !race_is_unwatched(); sites.turns++) {
		uint32_t seen = atomic_get(&q->wakeups);
		struct timespec ts = { 0, TURN_NS };

		if (atomic_get(&q->in) == atomic_get(&q->out))
			sys6(SYS_futex, &q->wakeups, FUTEX_WAIT_PRIVATE, seen, &ts, NULL, 0);
		uint64_t now = clock_now_ns();
		if (now - last < TURN_NS) {
			while_nothing_closes(take_away);
			continue;
		}
		last = now;
		turn();
		if (sites.turns % LOOK_EVERY == 0 && race_is_kept_by_us())
			break;
	}
	while_nothing_closes(take_all_away);
	atomic_set(&race.budget.own_threads, 0u);
	return NULL;
}

/*
 * With the signals of the program blocked, so that they go to its own threads; those that an
 * instruction raises are not, nor are the two that libc sends to all threads.
 */
static int start_thread(void)
{
	const uint64_t ours =
		~(1ull << (SIGTRAP - 1) | 1ull << (SIGSEGV - 1) | 1ull << (SIGBUS - 1) |
		  1ull << (SIGILL - 1) | 1ull << (SIGFPE - 1) | 3ull << 31);
	pthread_attr_t attr;
	pthread_t thread;
	uint64_t mask;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_BYTES + race_least_stack(&attr));
	race.keeper = 0;
	sys4(SYS_rt_sigprocmask, 0 /* SIG_BLOCK */, &ours, &mask, 8);
	int err = sites.create(&thread, &attr, keep_traps, NULL);
	sys4(SYS_rt_sigprocmask, 2 /* SIG_SETMASK */, &mask, NULL, 8);
	pthread_attr_destroy(&attr);
	if (!err) {
		atomic_set(&race.budget.own_threads, 1u);
		atomic_set(&sites.is_kept, 1u);
	}
	return -err;
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

/* The traps stay; who keeps them is made when this process creates a thread. */
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

static void begin_locked(void)
{
	struct code_problem problem = { NULL, 0 };
	int err = poke_start(&problem);

	if (!err && !sites.has_handlers) {
		err = -pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
		if (!err)
			err = race_linger_begin();
		sites.has_handlers = !err;
	}
	if (err) {
		refuse(err, problem.why);
		return;
	}
	add_modules();
	if (!race_is_for_some())
		add_imports();
	/* It takes longer than many a test runs, and the thread goes on with it. */
	sites.are_pieces_early = race_is_for_some() || race_random() % PIECES_IN_RUNS == 0;
	if (sites.are_pieces_early)
		add_some_pieces();
	err = start_thread();
	if (err) {
		refuse(err, "the trap thread could not be created");
		take_all_away();
	}
}

void race_sites_begin(race_create create)
{
	if (!race.region || !race.region->settings.is_sweep || !race.slot_count ||
	    race_is_stopped() || atomic_get(&sites.pid) == race.pid)
		return;
	pthread_mutex_lock(&sites.lock);
	if (sites.pid != race.pid) {
		sites.create = create;
		begin_locked();
		atomic_set(&sites.pid, race.pid);
	}
	pthread_mutex_unlock(&sites.lock);
}

/* It lets go of its locks and of its stack by system calls, so until it is gone. */
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
	for (uint32_t i = 0; i < atomic_get(&sites.count); i++)
		if (sites.sets[i].traps && traps_wait_for_callbacks(sites.sets[i].traps))
			return -EBUSY;
	return 0;
}
