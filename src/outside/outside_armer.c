/* SPDX-License-Identifier: MIT */
/*
 * outside_armer.c - threads of the command that put the watch where a stalled thread is about to
 * make an access, and take it away.
 *
 * A stalled thread occupies its CPU. So there are two such threads on two CPUs, and one of them
 * runs. They run before others, because a thread waits for them.
 */
#include "base/atomic.h"
#include "base/clock.h"
#include "outside/outside_priv.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_MS 100
#define WHOLE_TRIES 100000u

static void put_watch(struct outside *o, struct outside_slot *slot)
{
	uint64_t state = OUTSIDE_ASKED;

	if (!atomic_cas(&slot->state, &state, (uint64_t)OUTSIDE_ARMING))
		return;
	int err = outside_cpus_watch(&o->cpus, slot->part, (uint32_t)slot->part_len);
	state = OUTSIDE_ARMING;
	if (!err && atomic_cas(&slot->state, &state, (uint64_t)OUTSIDE_ARMED))
		return;
	if (err) /* the thread continues when its time is over, and another look frees the slot */
		return;
	outside_cpus_rest(&o->cpus);
	atomic_set(&slot->state, (uint64_t)OUTSIDE_FREE);
}

/* The program at the watch ends in some microseconds, on a CPU that no thread can take from it. */
static bool is_whole(const struct outside_slot *slot)
{
	for (uint32_t i = 0; i < WHOLE_TRIES; i++)
		if (atomic_get(&slot->second.is_whole))
			return true;
	return false;
}

static void keep(struct outside *o, const struct outside_slot *slot)
{
	struct outside_caught *c = malloc(sizeof(*c));

	if (c) {
		memcpy(&c->slot, slot, sizeof(*slot));
		c->trap = o->traps->rows[slot->site % OUTSIDE_SITES];
		if (slot->second.site) {
			c->second = o->traps->rows[(slot->second.site - 1) % OUTSIDE_SITES];
			c->slot.second.value = slot->after;
		}
	}
	pthread_mutex_lock(&o->lock);
	if (c && o->caught_count < OUTSIDE_CAUGHT_MAX) {
		o->caught[o->caught_count++] = c;
		c = NULL;
	} else {
		o->sums.lost++;
	}
	pthread_mutex_unlock(&o->lock);
	free(c);
}

static void take_result(struct outside *o, struct outside_slot *slot, uint64_t state)
{
	if (!atomic_get(&slot->first.is_whole))
		return;
	outside_cpus_rest(&o->cpus);
	if (state == OUTSIDE_HIT && is_whole(slot))
		keep(o, slot);
	else if (slot->before != slot->after)
		counter_add(&o->sums.changed, 1u);
	atomic_set(&slot->state, (uint64_t)OUTSIDE_FREE);
}

static void look_at_slot(struct outside *o)
{
	struct outside_slot *slot = &o->shared->slot;
	uint64_t state = atomic_get(&slot->state);

	switch (state) {
	case OUTSIDE_ASKED:
		put_watch(o, slot);
		break;
	case OUTSIDE_LEFT:
		outside_cpus_rest(&o->cpus);
		atomic_set(&slot->state, (uint64_t)OUTSIDE_FREE);
		break;
	case OUTSIDE_OVER:
	case OUTSIDE_HIT:
		take_result(o, slot, state);
		break;
	default:
		break;
	}
}

static void look_at_turn(struct outside *o)
{
	if (atomic_get(&o->shared->turn_hits) < o->shared->most_hits &&
	    !atomic_get(&o->shared->is_spent))
		return;
	pthread_mutex_lock(&o->lock);
	atomic_set(&o->is_turn_over, 1u);
	pthread_cond_broadcast(&o->over);
	pthread_mutex_unlock(&o->lock);
}

static void drain(struct outside *o)
{
	uint32_t len;

	while (ringbuf_peek(&o->ring, &len))
		ringbuf_release(&o->ring);
}

static void *armer(void *arg)
{
	struct outside *o = arg;
	struct pollfd ready = { .fd = o->ring.fd, .events = POLLIN };

	while (!atomic_get(&o->is_stopping)) {
		poll(&ready, 1, LOOK_MS);
		pthread_mutex_lock(&o->armers_lock);
		drain(o);
		look_at_slot(o);
		look_at_turn(o);
		pthread_mutex_unlock(&o->armers_lock);
	}
	return NULL;
}

/* What cannot be had is done without: it is a matter of time alone. */
static void place(pthread_t thread, int cpu)
{
	struct sched_param first = { .sched_priority = 1 };
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	pthread_setaffinity_np(thread, sizeof(set), &set);
	pthread_setschedparam(thread, SCHED_FIFO, &first);
}

int outside_armers_start(struct outside *o)
{
	cpu_set_t allowed;
	int err = 0;

	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		return -errno;
	for (int cpu = 0; !err && cpu < CPU_SETSIZE && o->armer_count < OUTSIDE_ARMERS; cpu++) {
		if (!CPU_ISSET((size_t)cpu, &allowed))
			continue;
		err = -pthread_create(&o->armers[o->armer_count], NULL, armer, o);
		if (!err)
			place(o->armers[o->armer_count++], cpu);
	}
	return err;
}

void outside_armers_stop(struct outside *o)
{
	for (uint32_t i = 0; i < o->armer_count; i++)
		pthread_join(o->armers[i], NULL);
	o->armer_count = 0;
}
