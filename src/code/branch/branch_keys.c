/* SPDX-License-Identifier: MIT */
/* branch_keys.c - see branch_keys.h. */
#include "code/branch/branch_keys.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/after_fork.h"
#include "base/atomic.h"
#include "code/branch/branch_code.h"
#include "code/branch/branch_flip.h"
#include "code/poke/poke_trap.h"
#include "code/poke/text_mem.h"

/* What key.sites points at: sorted by address. */
struct branch_sites {
	size_t count;
	size_t room;
	struct branch_row *rows;
	int is_new;    /* rows were added, and not yet sorted */
	uint64_t walk; /* the last one that came by */
};

struct branch_object {
	const struct branch_record *start;
	const struct branch_record *end;
	struct branch_object *next;
};

/* It checks, so that a log or a signal handler that comes back here is refused. */
static pthread_mutex_t lock = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static uint64_t walk; /* the number of the last walk over all records of an object */
static struct branch_object *objects;
static __thread int is_held_by_fork __attribute__((tls_model("initial-exec")));

static struct trapline_branch_key *key_of(const struct branch_record *record)
{
	uintptr_t at =
		(uintptr_t)&record->reference + (uintptr_t)(intptr_t)(record->reference & ~3);

	return *(struct trapline_branch_key *const *)at;
}

static const uint8_t *site_of(const struct branch_record *record)
{
	return (const uint8_t *)((uintptr_t)&record->site + (uintptr_t)(intptr_t)record->site);
}

static int compare_rows(const void *a, const void *b)
{
	const struct branch_row *x = a;
	const struct branch_row *y = b;

	return (x->address > y->address) - (x->address < y->address);
}

static struct branch_sites *sites_of(struct trapline_branch_key *key)
{
	if (!key->sites)
		key->sites = calloc(1, sizeof(struct branch_sites));
	return key->sites;
}

static struct branch_row *add_row(struct trapline_branch_key *key)
{
	struct branch_sites *sites = sites_of(key);

	if (!sites)
		return NULL;
	if (sites->count == sites->room) {
		size_t room = sites->room ? sites->room * 2 : 16;
		void *rows = realloc(sites->rows, room * sizeof(*sites->rows));
		if (!rows)
			return NULL;
		sites->rows = rows;
		sites->room = room;
	}
	sites->is_new = 1;
	return &sites->rows[sites->count++];
}

static int add_record(const struct branch_record *record, const void *object)
{
	const uint8_t *text = site_of(record);
	struct branch_row *row = add_row(key_of(record));

	if (!row)
		return -ENOMEM;
	row->address = (uintptr_t)text;
	row->is_jump = (uint8_t)branch_text_is_jump(text);
	row->target = branch_target(record, text);
	row->is_inverted = record->reference & 1;
	row->object = object;
	return 0;
}

static void remove_rows(struct trapline_branch_key *key, const void *object)
{
	struct branch_sites *sites = key->sites;
	size_t kept = 0;

	for (size_t i = 0; i < sites->count; i++)
		if (sites->rows[i].object != object)
			sites->rows[kept++] = sites->rows[i];
	sites->count = kept;
	if (kept)
		return;
	free(sites->rows);
	free(sites);
	key->sites = NULL;
}

/* Finds each key of an object once: 1 for the first record of a key. */
static int is_first_of_key(const struct branch_record *record)
{
	struct branch_sites *sites = key_of(record)->sites;

	if (!sites || sites->walk == walk)
		return 0;
	sites->walk = walk;
	return 1;
}

static void remove_all_rows(const struct branch_object *object)
{
	walk++;
	for (const struct branch_record *r = object->start; r < object->end; r++)
		if (is_first_of_key(r))
			remove_rows(key_of(r), object->start);
}

static void sort_rows(struct trapline_branch_key *key)
{
	struct branch_sites *sites = key->sites;

	if (sites && sites->is_new)
		qsort(sites->rows, sites->count, sizeof(*sites->rows), compare_rows);
	if (sites)
		sites->is_new = 0;
}

static size_t count_due(const struct branch_object *object)
{
	size_t due = 0;

	for (const struct branch_record *r = object->start; r < object->end; r++) {
		int wants_jump = (key_of(r)->count > 0) ^ (r->reference & 1);

		due += branch_text_is_jump(site_of(r)) != wants_jump;
	}
	return due;
}

static struct branch_object **find_object(const void *start)
{
	struct branch_object **at = &objects;

	while (*at && (*at)->start != start)
		at = &(*at)->next;
	return at;
}

static int add_object(const void *start, const void *end)
{
	struct branch_object *object;

	if (*find_object(start))
		return 0;
	object = malloc(sizeof(*object));
	if (!object)
		return -ENOMEM;
	*object = (struct branch_object){ start, end, objects };
	for (const struct branch_record *r = start; r < object->end; r++) {
		if (!add_record(r, start))
			continue;
		remove_all_rows(object);
		free(object);
		return -ENOMEM;
	}
	if (!objects)
		text_mem_hold();
	objects = object;
	return 0;
}

static int lock_take(struct code_problem *problem)
{
	if (!poke_is_in_callback() && !pthread_mutex_lock(&lock))
		return 0;
	problem->why = "branches cannot be switched from inside a callback";
	return -EDEADLK;
}

int branch_add_object(const void *start, const void *end, size_t *due, struct code_problem *problem)
{
	int err = lock_take(problem);

	if (err)
		return err;
	err = add_object(start, end);
	const struct branch_object *object = err ? NULL : *find_object(start);
	if (object)
		*due = count_due(object);
	pthread_mutex_unlock(&lock);
	return err;
}

/*
 * Also from inside a callback of another thread's: only a thread that has the lock cannot wait for
 * it.
 */
void branch_forget_object(const void *start)
{
	if (pthread_mutex_lock(&lock))
		return;
	struct branch_object **at = find_object(start);
	struct branch_object *object = *at;

	if (object) {
		*at = object->next;
		remove_all_rows(object);
		free(object);
		if (!objects)
			text_mem_drop();
	}
	pthread_mutex_unlock(&lock);
}

/* All branches of the key that do not have the state yet, also those that an earlier call left. */
static int set_state(struct trapline_branch_key *key, int on, struct code_problem *problem)
{
	struct branch_sites *sites = key->sites;

	sort_rows(key);
	if (!sites || !branch_flips_due(sites->rows, sites->count, on))
		return 0;
	return branch_flip(sites->rows, sites->count, on, problem);
}

int branch_settle(const void *start, const void *end, struct code_problem *problem)
{
	const struct branch_record *last = end;
	int err = lock_take(problem);

	if (err)
		return err;
	walk++;
	for (const struct branch_record *r = start; r < last; r++) {
		int one = is_first_of_key(r) ? set_state(key_of(r), key_of(r)->count > 0, problem) :
					       0;
		err = err ? err : one;
	}
	pthread_mutex_unlock(&lock);
	return err;
}

static int change_count(struct trapline_branch_key *key, int more, struct code_problem *problem)
{
	int is_wrong = more > 0 ? key->count == UINT32_MAX : !key->count;

	if (is_wrong) {
		problem->why = more > 0 ? "the key was enabled too often" :
					  "the key is off already";
		return -EINVAL;
	}
	uint32_t count = key->count + (uint32_t)more;
	int err = set_state(key, count > 0, problem);

	if (!err || err == -EIO)
		atomic_set(&key->count, count);
	return err;
}

static int change(struct trapline_branch_key *key, int more, struct code_problem *problem)
{
	int err = lock_take(problem);

	if (err)
		return err;
	err = change_count(key, more, problem);
	pthread_mutex_unlock(&lock);
	return err;
}

int branch_enable(struct trapline_branch_key *key, struct code_problem *problem)
{
	return change(key, 1, problem);
}

int branch_disable(struct trapline_branch_key *key, struct code_problem *problem)
{
	return change(key, -1, problem);
}

/*
 * A fork from inside, by a signal handler, continues without it: it returns to the thread that has
 * it.
 */
AT_FORK void branch_before_fork(void)
{
	is_held_by_fork = !pthread_mutex_lock(&lock);
}

AT_FORK void branch_after_fork_in_parent(void)
{
	if (!is_held_by_fork)
		return;
	is_held_by_fork = 0;
	pthread_mutex_unlock(&lock);
}

/* Made again: the mutex knows its owner by a number that the child does not have. */
AT_FORK void branch_after_fork_in_child(void)
{
	if (!is_held_by_fork)
		return;
	is_held_by_fork = 0;
	lock = (pthread_mutex_t)PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
}
