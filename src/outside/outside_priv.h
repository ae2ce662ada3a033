/* SPDX-License-Identifier: MIT */
/* outside_priv.h - a search from outside, for the files of this folder. */
#ifndef OUTSIDE_PRIV_H
#define OUTSIDE_PRIV_H

#include "event/ring/ringbuf.h"
#include "outside/outside.h"
#include "outside/outside_functions.h"
#include "outside/outside_program.h"
#include "outside/outside_sites.h"

#include <linux/perf_event.h>
#include <pthread.h>
#include <time.h>

#define OUTSIDE_EVENTS_MAX 1024u
#define OUTSIDE_ARMERS 2u /* one at least is on a CPU that is free */
#define OUTSIDE_CAUGHT_MAX 64u
#define OUTSIDE_LINKS 64u
#define OUTSIDE_HIT_NS 4000u /* what a probe costs that stalls no thread, where it is not known */

/* The watch: an event on each CPU, or in each thread. */
struct outside_cpus {
	struct perf_event_attr attr;
	int program;
	bool fires; /* the debug registers work */
	bool is_on_cpus;
	uint32_t count;
	int fds[OUTSIDE_EVENTS_MAX];
};

/* What has probes now. */
struct outside_turn {
	uint32_t count; /* of rows in the map */
	struct outside_function *functions[OUTSIDE_SITES];
	uint32_t function_count;
	int links[OUTSIDE_LINKS]; /* the probes, by file */
	uint32_t link_count;
	uint64_t began_ns;
	bool is_hot;
};

struct outside {
	struct outside_settings set;
	struct outside_maps maps;
	struct outside_shared *shared;
	struct outside_traps *traps;
	struct ringbuf ring;
	int program;	 /* at sites */
	uint64_t hit_ns; /* what a probe costs that stalls no thread */
	struct outside_cpus cpus;
	struct outside_code code;
	struct outside_lister *lister;
	/* The turns, of their own thread: */
	struct outside_turn turn;
	uint32_t *order; /* of the functions, by chance */
	uint32_t order_at;
	uint32_t hot;  /* functions that are, */
	uint32_t warm; /* and others that threads reached */
	pthread_t turner;
	bool has_turner;
	clockid_t clock; /* of the process */
	uint64_t clock_ns;
	uint64_t wall_ns;
	uint64_t own_ns; /* CPU time of the threads here that was charged */
	/* The watch, of either armer: */
	pthread_t armers[OUTSIDE_ARMERS];
	uint32_t armer_count;
	pthread_mutex_t armers_lock;
	/* What all have: */
	pthread_mutex_t lock;
	pthread_cond_t over; /* a turn has had its hits, or all is to end */
	uint32_t is_stopping;
	uint32_t is_turn_over;
	uint32_t caught_count;
	struct outside_caught *caught[OUTSIDE_CAUGHT_MAX];
	struct outside_sums sums;
};

/* outside_cpus.c: 0 or -errno. */
int outside_cpus_open(struct outside_cpus *cpus, int program, pid_t pid);
void outside_cpus_close(struct outside_cpus *cpus);
int outside_cpus_watch(struct outside_cpus *cpus, uint64_t address, uint32_t len);
void outside_cpus_rest(struct outside_cpus *cpus);

/* outside_hit_cost.c: in nanoseconds. */
uint64_t outside_hit_cost(int program);

/* outside_armer.c */
int outside_armers_start(struct outside *o);
void outside_armers_stop(struct outside *o);

/* outside_turn.c: 0 or -errno, with a reason. */
int outside_turns_start(struct outside *o, const char **why);
void outside_turns_stop(struct outside *o);
/* The order in which functions have their turn, by chance. 0 or -ENOMEM. */
int outside_begin_round(struct outside *o);

#endif
