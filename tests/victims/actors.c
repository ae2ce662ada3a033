/* SPDX-License-Identifier: MIT */
/*
 * actors.c - everybody who can touch one variable does so ten times, each from a function of its
 * own; then waits to be ended.
 *
 * actors watch		says "ready", acts when a line comes on standard input, says "done",
 *				and ends at the next line with 0 if all values are what they should be
 * actors self [no-bpf] [rw]	watches itself with the library, by callbacks, and prints how many
 *				hits each actor had, one a line
 * actors now			acts at once and ends
 *
 * An old thread is there before anybody watches; others come while it goes on.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <trapline/trapline.h>

#define TIMES 10
#define NOINLINE static __attribute__((noipa))

volatile unsigned long acted_on;
/*
 * The next value: apart, so that who writes does not read. Volatile as well, since gcc 12 moves its
 * stores out of a loop, and with them one more of acted_on.
 */
static volatile unsigned long value;
static unsigned long sum_of_reads;

/* Each is an actor of the table; the name is what a hit is known by. */
NOINLINE void main_writes(void)
{
	for (int i = 0; i < TIMES; i++)
		acted_on = ++value;
}

NOINLINE void old_thread_writes(void)
{
	for (int i = 0; i < TIMES; i++)
		acted_on = ++value;
}

NOINLINE void new_thread_writes(void)
{
	for (int i = 0; i < TIMES; i++)
		acted_on = ++value;
}

NOINLINE void thread_of_thread_writes(void)
{
	for (int i = 0; i < TIMES; i++)
		acted_on = ++value;
}

NOINLINE void same_value_writes(void)
{
	for (int i = 0; i < TIMES; i++)
		acted_on = value;
}

NOINLINE void kernel_writes(void)
{
	int fds[2];

	if (pipe(fds))
		abort();
	for (int i = 0; i < TIMES; i++) {
		unsigned long next = ++value;
		if (write(fds[1], &next, sizeof(next)) != sizeof(next) ||
		    read(fds[0], (void *)(uintptr_t)&acted_on, sizeof(next)) != sizeof(next))
			abort();
	}
	close(fds[0]);
	close(fds[1]);
}

NOINLINE void child_writes(void)
{
	for (int i = 0; i < TIMES; i++)
		acted_on = ++value;
}

NOINLINE void reader_reads(void)
{
	for (int i = 0; i < TIMES; i++)
		sum_of_reads += acted_on;
}

static pthread_barrier_t go; /* the old thread acts */

static void *old_thread(void *arg)
{
	(void)arg;
	pthread_setname_np(pthread_self(), "old");
	pthread_barrier_wait(&go);
	old_thread_writes();
	return NULL;
}

static void *thread_of_thread(void *arg)
{
	(void)arg;
	pthread_setname_np(pthread_self(), "nested");
	thread_of_thread_writes();
	return NULL;
}

static void *new_thread(void *arg)
{
	pthread_t child;

	(void)arg;
	pthread_setname_np(pthread_self(), "new");
	new_thread_writes();
	if (pthread_create(&child, NULL, thread_of_thread, NULL))
		abort();
	pthread_join(child, NULL);
	return NULL;
}

static bool fork_and_write(void)
{
	unsigned long before = acted_on;
	pid_t child = fork();
	int status;

	if (child == 0) {
		child_writes();
		_exit(acted_on == before + TIMES ? 0 : 1);
	}
	return child > 0 && waitpid(child, &status, 0) == child && status == 0 &&
	       acted_on == before;
}

/* True: all is as if nobody had watched. */
static bool act(pthread_t old)
{
	pthread_t later;

	main_writes();
	pthread_barrier_wait(&go);
	pthread_join(old, NULL);
	if (pthread_create(&later, NULL, new_thread, NULL))
		return false;
	pthread_join(later, NULL);
	same_value_writes();
	kernel_writes();
	bool child_was_right = fork_and_write();
	reader_reads();
	return child_was_right && acted_on == 5 * TIMES && sum_of_reads == TIMES * 5 * TIMES;
}

static bool wait_for_line(void)
{
	char line[16];

	return fgets(line, sizeof(line), stdin) != NULL;
}

static const struct actor {
	const char *name;
	void (*function)(void);
} actors[] = {
	{ "main_writes", main_writes },
	{ "old_thread_writes", old_thread_writes },
	{ "new_thread_writes", new_thread_writes },
	{ "thread_of_thread_writes", thread_of_thread_writes },
	{ "same_value_writes", same_value_writes },
	{ "kernel_writes", kernel_writes },
	{ "child_writes", child_writes },
	{ "reader_reads", reader_reads },
};
#define ACTORS (sizeof(actors) / sizeof(actors[0]))

static unsigned int hits_of[ACTORS];
static unsigned int hits_elsewhere;
static unsigned int hits_in_wrong_thread;

/* An actor's code begins at its function and ends where the next higher one begins. */
static size_t actor_at(uint64_t ip)
{
	size_t best = ACTORS;

	for (size_t i = 0; i < ACTORS; i++) {
		uintptr_t start = (uintptr_t)actors[i].function;
		if (start <= ip && ip - start < 256 &&
		    (best == ACTORS || start > (uintptr_t)actors[best].function))
			best = i;
	}
	return best;
}

static enum trapline_action on_hit(const struct trapline_hit *hit)
{
	size_t actor = actor_at(hit->ip);

	if (actor < ACTORS)
		__atomic_fetch_add(&hits_of[actor], 1, __ATOMIC_RELAXED);
	else
		__atomic_fetch_add(&hits_elsewhere, 1, __ATOMIC_RELAXED);
	/* The callback runs in the thread that it tells of. */
	if (hit->tid != (pid_t)syscall(SYS_gettid) || hit->pid != getpid())
		__atomic_fetch_add(&hits_in_wrong_thread, 1, __ATOMIC_RELAXED);
	return TRAPLINE_GO_ON;
}

static int watch_myself(bool with_bpf, bool reads_too, struct trapline **self,
			struct trapline_event **event)
{
	TRAPLINE_OPTS(open, open_opts);
	TRAPLINE_OPTS(event, opts);

	open_opts.flags = with_bpf ? 0 : TRAPLINE_NO_BPF;
	opts.callback = on_hit;
	int err = trapline_open(0, &open_opts, self);
	if (!err)
		err = trapline_watch(*self, (uintptr_t)&acted_on, sizeof(acted_on),
				     reads_too ? TRAPLINE_READ_WRITE : TRAPLINE_WRITE, &opts,
				     event);
	return err;
}

static int run_self(pthread_t old, bool with_bpf, bool reads_too)
{
	struct trapline_stats st = { .size = sizeof(st) };
	struct trapline_event *event;
	struct trapline *self;
	char why[300];
	int err = watch_myself(with_bpf, reads_too, &self, &event);

	if (err < 0) {
		trapline_explain(err, why, sizeof(why));
		printf("refused %s\n", why);
		return 2;
	}
	bool is_right = act(old);
	trapline_event_disable(event);
	trapline_event_stats(event, &st);
	for (size_t i = 0; i < ACTORS; i++)
		printf("%s %u\n", actors[i].name, hits_of[i]);
	printf("elsewhere %u\nwrong_thread %u\nlost %llu\n", hits_elsewhere,
	       hits_in_wrong_thread,
	       (unsigned long long)(st.taken - st.rejected_duplicate - st.delivered));
	trapline_close(self);
	return is_right ? 0 : 1;
}

static bool has_word(int argc, char **argv, const char *word)
{
	for (int i = 2; i < argc; i++)
		if (!strcmp(argv[i], word))
			return true;
	return false;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "now";
	pthread_t old;

	pthread_barrier_init(&go, NULL, 2);
	if (pthread_create(&old, NULL, old_thread, NULL))
		return 1;
	if (!strcmp(mode, "self"))
		return run_self(old, !has_word(argc, argv, "no-bpf"),
				has_word(argc, argv, "rw"));
	if (!strcmp(mode, "now"))
		return act(old) ? 0 : 1;
	puts("ready");
	fflush(stdout);
	if (!wait_for_line())
		return 1;
	bool is_right = act(old);
	puts("done");
	fflush(stdout);
	return wait_for_line() && is_right ? 0 : 1;
}
