/* SPDX-License-Identifier: MIT */
/*
 * race_sites_place.c - where the traps of a sweep are set: in the program at once, in its libraries
 * piece by piece. Not in a handler.
 */
#include "race/sweep/race_sites_place.h"

#include <errno.h>
#include <link.h>

#include <trapline/code.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/table_size.h"
#include "code/poke/poke.h"
#include "code/poke/traps.h"
#include "race/race_modules.h"
#include "race/race_state.h"
#include "race/race_strategy.h"
#include "race/sweep/race_calls.h"
#include "race/sweep/race_functions.h"
#include "race/sweep/race_ranges.h"
#include "race/sweep/race_returns.h"
#include "race/sweep/race_sites.h"
#include "race/sweep/race_sites_find.h"
#include "record/race_region.h"

#define MODULES_AT_ONCE TABLE_SIZE(256, 2)
/* Libraries are gone through piece by piece: a short program does not wait for a long list. */
#define PIECE 512u
#define PIECE_PART 16u
/* The program itself before its first thread, but no longer than this; the rest follows. */
#define PROGRAM_PIECE 8192u
#define PROGRAM_NS 1000000000u
#define PIECES_NS 10000000u /* at the start; then one in some turns, in the background */
#define PIECES_IN_RUNS 4u   /* of so many runs one does that at the start */
/* Where sites are multiplexed: so many at once, of the program more often than of its libraries. */
#define TURN_PIECE TABLE_SIZE(256u, 4u)
#define TURN_SPOTS TABLE_SIZE(131072u, 8u) /* in all pieces: the first that come */
#define FUNCTION_ROOM 16384u		   /* of a function more, perhaps */
#define OTHERS_ONE_IN 4u
#define SMALL_TEXT_BYTES (1u << 20)

struct race_sets race_sets;

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
	uint32_t spots; /* in all sets */
	uint32_t library_count;
	struct library libraries[RACE_SPOT_SETS];
	unsigned long long loaded; /* objects that ever came and went */
	int has_new;		   /* some came that were not inspected */
	/* Where sites are multiplexed: */
	int has_checked_once; /* whether a thread has SIGTRAP blocked */
} placed;

void race_sites_refuse(int err, const char *why)
{
	struct race_region *region = race.region;
	uint32_t expected = 0;

	race.process->sites_error = err;
	if (!atomic_cas(&region->sites_refused, &expected, 1u))
		return;
	for (size_t i = 0; why && why[i] && i < sizeof(region->sites_why) - 1; i++)
		region->sites_why[i] = why[i];
}

struct modules {
	uint64_t text[MODULES_AT_ONCE];
	uint32_t count;
};

static int on_object(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct modules *list = arg;

	placed.loaded = info->dlpi_adds + info->dlpi_subs;
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
	for (uint32_t i = 0; i < placed.library_count; i++)
		if (placed.libraries[i].module == module &&
		    placed.libraries[i].start == module->start)
			return &placed.libraries[i];
	return NULL;
}

/* Those that cannot be trapped are left out. */
static int place_traps(struct race_spots *set, struct code_problem *problem)
{
	const struct trapline_traps_opts opts = {
		.size = sizeof(opts),
		.callback = race_on_site,
		.arg = set,
		/* The thread that keeps them looks now and then. */
		.flags = race_strategy->rotates && placed.has_checked_once ?
				 TRAPLINE_TRAPS_ANY_MASK :
				 0,
	};
	enum race_arming why = race_is_noting() ? RACE_ARM_TO_NOTE : RACE_ARM_FIRST;
	size_t bytes = set->count * sizeof(uint64_t);
	uint64_t *addresses = memory_map(bytes);
	int err = 0;

	if (memory_failed(addresses))
		return -ENOMEM;
	race_spots_begin(set->count);
	for (uint32_t i = 0; i < set->count; i++) {
		race_spot_arm(&set->rows[i], why);
		addresses[i] = set->rows[i].address;
	}
	err = traps_set_most(addresses, set->count, &opts, &set->traps, problem);
	placed.has_checked_once |= !err;
	memory_unmap(addresses, bytes);
	return err;
}

static uint32_t find_free_set(void)
{
	for (uint32_t i = 0; i < race_sets.count; i++)
		if (!race_sets.rows[i].rows)
			return i;
	return race_sets.count;
}

/*
 * A set lives as long as the process: a thread may be in a callback, and rows are few. imports: the
 * functions there and what they call; NULL, from l->next on.
 */
static int add_set(struct library *l, uint32_t most, const struct race_imports *imports)
{
	const struct race_module *module = l->module;
	uint32_t number = find_free_set();
	struct race_spots *set = &race_sets.rows[number];
	uint32_t room = RACE_SPOTS_MAX - placed.spots;
	struct code_problem problem = { NULL, SIZE_MAX };
	int err = 0;

	if (most && room > most + FUNCTION_ROOM)
		room = most + FUNCTION_ROOM;
	size_t bytes = room * sizeof(struct race_spot);
	if (number == RACE_SPOT_SETS || !room) {
		race_count(RACE_LOST_OBJECTS); /* the rest of it */
		return -ENOSPC;
	}
	struct race_spot *rows = memory_map(bytes);
	if (memory_failed(rows))
		return -ENOMEM;
	*set = (struct race_spots){ .module = module,
				    .start = module->start,
				    .number = number,
				    .rows = rows,
				    .bytes = bytes };
	if (imports)
		set->count = race_find_spots_called(&l->listing, imports->address, imports->count,
						    most, rows, room);
	else
		set->count = race_find_spots(&l->listing, &l->next, most, rows, room);
	if (set->count)
		err = place_traps(set, &problem);
	if (err) {
		race_sites_refuse(err, problem.why);
		set->count = 0;
	}
	if (!set->count) {
		set->rows = NULL;
		memory_unmap(rows, bytes);
	} else if (number == race_sets.count) {
		race_sets.count++;
	}
	placed.spots += set->count;
	return err;
}

/* Once around: from the first function by chance to the last, and from the first one of all. */
static int add_piece(struct library *l)
{
	/* Each set makes the table of traps again: where that is long, the sets are larger. */
	uint32_t piece = placed.spots / PIECE_PART > PIECE ? placed.spots / PIECE_PART : PIECE;
	uint32_t most = race_strategy->rotates	  ? TURN_PIECE :
			l->module == race.program ? PROGRAM_PIECE :
						    piece;
	int err = add_set(l, most, NULL);

	if (l->next >= l->listing.functions && !l->is_around) {
		l->next = 0;
		l->is_around = 1;
	}
	l->is_done = err || (l->is_around && l->next >= l->first);
	if (err == -EFAULT)
		l->module = NULL; /* closed in the meantime: it may be opened again */
	return err == -ENOSPC ? 0 : err;
}

/* Which it is is by chance: a long one must not keep the others waiting. */
int race_sites_add_piece(void)
{
	uint32_t from = placed.library_count ? (uint32_t)(race_random() % placed.library_count) : 0;
	struct library *program = race.program ? find_library(race.program) : NULL;

	/* A large program may not have been gone through before its first thread. */
	if (program && program->module && !program->is_done && !race_strategy->rotates)
		return add_piece(program);

	for (uint32_t i = 0; i < placed.library_count; i++) {
		struct library *l = &placed.libraries[(from + i) % placed.library_count];

		if (!l->is_done && l->module)
			return add_piece(l);
	}
	return -ENOENT;
}

static struct library *new_library(void)
{
	for (uint32_t i = 0; i < placed.library_count; i++)
		if (!placed.libraries[i].module)
			return &placed.libraries[i];
	return placed.library_count < RACE_SPOT_SETS ? &placed.libraries[placed.library_count++] :
						       NULL;
}

static int add_module(const struct race_module *module)
{
	uint32_t functions = race_count_functions(module);

	if (!race_is_in_range(module, module->text_start, module->text_end))
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
	/* The copy first: the object may be closed while it is inspected. */
	err = race_module_keep_code(module);
	uint32_t first = (uint32_t)(race_random() % functions);

	*l = (struct library){ .module = err == -EFAULT ? NULL : module,
			       .start = module->start,
			       .first = first,
			       .next = first,
			       .is_done = err != 0,
			       .listing = listing };
	if (err)
		race_sites_refuse(err, NULL);
	else
		race_calls_find(module, &l->listing.calls);
	uint64_t start = clock_now_ns();
	while (!err && module == race.program && !race_strategy->rotates && !l->is_done &&
	       clock_now_ns() - start < PROGRAM_NS)
		err = add_piece(l);
	return err;
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
	for (uint32_t i = 0; imports->count && i < placed.library_count; i++)
		if (placed.libraries[i].module && placed.libraries[i].module != race.program &&
		    !placed.libraries[i].is_done)
			add_set(&placed.libraries[i], PIECE, imports);
	memory_unmap(imports, sizeof(*imports));
}

/* It reports by itself one that it cannot add. only: NULL, all. */
static void add_modules(const struct race_module *only)
{
	struct modules list = { .count = 0 };

	dl_iterate_phdr(on_object, &list);
	race_returns_renew();
	for (uint32_t i = 0; i < list.count; i++) {
		const struct race_module *module;

		if (race_policy_of(list.text[i], &module) != RACE_CODE_INCLUDED ||
		    find_library(module) || (only && module != only))
			continue;
		add_module(module);
		/*
		 * Each takes some milliseconds: where that is paid from the budget, one at a time.
		 */
		if (race_strategy->rotates && find_library(module)) {
			placed.has_new = 1;
			return;
		}
	}
}

static void add_some_pieces(void)
{
	for (uint64_t start = clock_now_ns(); clock_now_ns() - start < PIECES_NS;)
		if (race_sites_add_piece() == -ENOENT)
			break;
}

/* Its traps are removed. Its rows stay: a thread may be about to inspect one. */
static void give_set_back(struct race_spots *set)
{
	set->traps = NULL;
	race_sites_forget_set(set->number);
	placed.spots -= set->count;
	set->module = NULL;
	set->count = 0;
}

/* The traps of an object that was closed, and perhaps opened again at the same address. */
static void drop_closed(void)
{
	for (uint32_t i = 0; i < race_sets.count; i++) {
		struct race_spots *set = &race_sets.rows[i];
		struct code_problem problem;

		if (!set->traps || race_module_of(set->start) == set->module)
			continue;
		if (traps_remove(set->traps, &problem))
			continue; /* at the next look */
		give_set_back(set);
	}
	for (uint32_t i = 0; i < placed.library_count; i++) {
		struct library *l = &placed.libraries[i];

		if (l->module && race_module_of(l->start) != l->module)
			l->module = NULL;
	}
}

void race_sites_loaded(unsigned long long loaded)
{
	if (loaded != placed.loaded) {
		drop_closed();
		placed.has_new = 1;
	}
	placed.loaded = loaded;
}

void race_sites_add_new(void)
{
	if (!placed.has_new)
		return;
	placed.has_new = 0;
	int is_first = race_strategy->rotates && race.program && !find_library(race.program);
	add_modules(is_first ? race.program : NULL);
	if (!race_strategy->rotates)
		add_some_pieces();
}

int race_sites_add_first(void)
{
	add_modules(NULL);
	if (!race_strategy->is_for_some)
		add_imports();
	/* It takes longer than many a test runs, and the thread continues with it. */
	int are_pieces_early = race_strategy->is_for_some || race_random() % PIECES_IN_RUNS == 0;
	if (are_pieces_early)
		add_some_pieces();
	return are_pieces_early;
}

/* ---- where sites are multiplexed ---- */

void race_sites_rotate_first(void)
{
	const struct race_module *program = race.program;

	placed.has_new = 1;
	if (!program || program->text_end - program->text_start > SMALL_TEXT_BYTES)
		return;
	add_modules(program);
	struct library *l = find_library(program);
	/* From somewhere to its end, and from the beginning. */
	for (int n = 0; n < 2 && l && l->module && !l->is_done && placed.spots < TURN_PIECE; n++)
		add_piece(l);
}

static int is_full(void)
{
	return placed.spots + TURN_PIECE > TURN_SPOTS || find_free_set() == RACE_SPOT_SETS;
}

int race_sites_rotate(void)
{
	struct library *l = race.program ? find_library(race.program) : NULL;

	if (is_full())
		return -ENOENT;
	if (l && l->module && !l->is_done && race_random() % OTHERS_ONE_IN)
		return add_piece(l);
	return race_sites_add_piece();
}
