/* SPDX-License-Identifier: MIT */
/* crew.h - threads that write to one word on command. */
#ifndef TESTS_KERNEL_CREW_H
#define TESTS_KERNEL_CREW_H

#include "common.h"

#define CREW_MAX 64

struct crew {
	volatile uint64_t *word;
	unsigned int count;
	unsigned int writes; /* each, per round; 0: until stop */
	bool stop;
	bool quit;
	_Atomic uint64_t written;
	pthread_barrier_t begin;
	pthread_barrier_t end;
	pthread_t threads[CREW_MAX];
	pid_t tids[CREW_MAX];
};

static inline void crew_write(struct crew *crew)
{
	uint64_t done = 0;

	if (crew->writes) {
		store_many(crew->word, crew->writes);
		done = crew->writes;
	} else {
		while (!__atomic_load_n(&crew->stop, __ATOMIC_ACQUIRE)) /* crew_finish() */
			store(crew->word, ++done);
	}
	__atomic_fetch_add(&crew->written, done, __ATOMIC_RELAXED);
}

struct crew_start {
	struct crew *crew;
	unsigned int nth;
};

static inline void *crew_main(void *arg)
{
	struct crew_start start = *(struct crew_start *)arg;
	struct crew *crew = start.crew;

	free(arg);
	crew->tids[start.nth] = gettid();
	pthread_barrier_wait(&crew->end);
	for (;;) {
		pthread_barrier_wait(&crew->begin);
		if (crew->quit)
			return NULL;
		crew_write(crew);
		pthread_barrier_wait(&crew->end);
	}
}

/* Returns when every member runs and its tid is known. */
static inline void crew_muster(struct crew *crew, unsigned int count, volatile uint64_t *word)
{
	memset(crew, 0, sizeof(*crew));
	crew->word = word;
	crew->count = count;
	pthread_barrier_init(&crew->begin, NULL, count + 1);
	pthread_barrier_init(&crew->end, NULL, count + 1);
	for (unsigned int i = 0; i < count; i++) {
		struct crew_start *start = malloc(sizeof(*start));

		*start = (struct crew_start){crew, i};
		assert_int_equal(pthread_create(&crew->threads[i], NULL, crew_main, start), 0);
	}
	pthread_barrier_wait(&crew->end);
}

/* Each member writes so many times (0: until crew_finish()). */
static inline void crew_begin(struct crew *crew, unsigned int writes)
{
	crew->writes = writes;
	crew->stop = false;
	pthread_barrier_wait(&crew->begin);
}

static inline void crew_finish(struct crew *crew)
{
	__atomic_store_n(&crew->stop, true, __ATOMIC_RELEASE); /* crew_write() */
	pthread_barrier_wait(&crew->end);
}

static inline void crew_run(struct crew *crew, unsigned int writes)
{
	crew_begin(crew, writes);
	crew_finish(crew);
}

static inline void crew_dismiss(struct crew *crew)
{
	crew->quit = true;
	pthread_barrier_wait(&crew->begin);
	for (unsigned int i = 0; i < crew->count; i++)
		pthread_join(crew->threads[i], NULL);
	pthread_barrier_destroy(&crew->begin);
	pthread_barrier_destroy(&crew->end);
}

/* How many of the hits that were kept came from this thread. */
static inline uint64_t seen_from(const struct rig *rig, pid_t tid)
{
	uint64_t kept = rig->hits < SEEN_MAX ? rig->hits : SEEN_MAX;
	uint64_t found = 0;

	for (uint64_t i = 0; i < kept; i++)
		found += rig->seen[i].tid == tid;
	return found;
}

#endif
