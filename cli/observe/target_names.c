/* SPDX-License-Identifier: MIT */
/* target_names.c - see target_names.h. */
#include "cli/observe/target_names.h"

#include "base/clock.h"
#include "base/hash.h"

/* Hits of several CPUs come in the order of their times, except for moments. */
#define LATE_NS 100000000u

static uint64_t key_of(const struct mapped_process *p)
{
	uint64_t key = HASH_START;

	for (size_t i = 0; i < p->count; i++) {
		key = hash_add(key, p->files[i].start);
		key = hash_add(key, p->files[i].offset);
		key = hash_add(key, p->files[i].inode);
	}
	return key;
}

void target_name_close(struct target_name *name)
{
	if (name->at) {
		*name->at = NULL;
		symbols_close(name->symbols);
	}
	*name = (struct target_name){ 0 };
}

static void keep(struct target_names *n, struct target_name *name)
{
	struct target_name **at = &n->open[n->next++ % TARGET_NAMES_MAX];

	if (*at)
		target_name_close(*at);
	*at = name;
	name->at = at;
}

/* The map of the first process has more than the records have, and its children have the same. */
static void choose(struct target_names *n, const struct mapped_process *p, struct target_name *name)
{
	target_name_close(name);
	if (n->first_key && key_of(p) == n->first_key) {
		name->symbols = n->first;
	} else {
		name->symbols = mapped_names_open(&n->mapped, p);
		if (name->symbols)
			keep(n, name);
	}
	name->version = p->version;
}

struct symbols *target_names_of(struct target_names *n, const struct trapline_hit *hit,
				struct target_name *name)
{
	if (!n->is_recorded)
		return NULL;
	n->asked++;
	n->hit_ns = hit->time_ns;
	mappings_read_until(&n->mappings, hit->time_ns);
	mapped_names_keep(&n->mapped, &n->mappings);
	const struct mapped_process *p = mappings_of(&n->mappings, hit->pid);
	if (p && (p->is_unsure || !p->count))
		return NULL;
	/* One that has ended is as it was. */
	if (p && !(name->symbols && name->version == p->version))
		choose(n, p, name);
	return name->symbols;
}

void target_names_look(struct target_names *n)
{
	const uint64_t now = clock_now_ns();
	uint64_t before_ns = n->hit_ns > LATE_NS ? n->hit_ns - LATE_NS : 0;

	if (!n->is_recorded)
		return;
	/* No matter what happened until then has been given. */
	if (n->asked == n->asked_before) {
		mappings_read_until(&n->mappings, n->looked_ns);
		mapped_names_keep(&n->mapped, &n->mappings);
		before_ns = n->looked_ns;
	}
	mappings_forget_ended(&n->mappings, before_ns);
	n->asked_before = n->asked;
	n->looked_ns = now;
}

void target_names_open(struct target_names *n, struct symbols *first, pid_t pid, const char *name)
{
	n->is_recorded = !mappings_open(&n->mappings);
	if (!n->is_recorded) {
		mappings_close(&n->mappings);
		return;
	}
	n->first = first;
	n->mapped.first = first;
	mappings_follow_name(&n->mappings, name);
	mappings_add(&n->mappings, pid);
	const struct mapped_process *p = mappings_of(&n->mappings, pid);
	n->first_key = p && p->count ? key_of(p) : 0;
}

void target_names_add(struct target_names *n, pid_t pid)
{
	if (n->is_recorded && !mappings_of(&n->mappings, pid))
		mappings_add(&n->mappings, pid);
}

void target_names_close(struct target_names *n)
{
	mapped_names_close(&n->mapped);
	if (n->is_recorded)
		mappings_close(&n->mappings);
	*n = (struct target_names){ 0 };
}
