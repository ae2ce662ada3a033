/* SPDX-License-Identifier: MIT */
/*
 * collector.c - a small garbage collector (mark and sweep) for several threads, which it
 * stops at safepoints. Roots are found conservatively: in the registers and on the stack
 * of each stopped thread, as the visitor reports them.
 *
 * Each mutator builds a list of numbered nodes, forgets it, and checks the list that it
 * keeps. A thread that finds no free node collects. After each collection the whole heap
 * is checked: each node is free or was reached, and what was freed is overwritten.
 *
 * Usage: collector [poll|poke|signal|watch [COLLECTIONS [MUTATORS]]]
 * Build: cc -O2 collector.c $(pkg-config --cflags --libs trapline) -pthread -o collector
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <trapline/safepoint.h>

#define NODES 20000
#define LENGTH 200
#define MUTATORS_MAX 64
#define POISON 0xdeadbeefdeadbeefu

struct node {
	struct node *next;
	uint64_t value;
	uint32_t is_used;
	uint32_t is_marked;
};

struct mutator {
	pthread_t thread;
	uint64_t number;
	struct node *fresh; /* what it allocated last */
};

static struct node heap[NODES];
static struct node *free_nodes;
static pthread_mutex_t heap_lock = PTHREAD_MUTEX_INITIALIZER;
static struct trapline_safepoint *domain;
static atomic_ulong collections;
static unsigned long wanted_collections = 50;
static unsigned long freed;
static unsigned long visited;
static atomic_int failures;
static volatile uint64_t watched_word;
static int is_watch;
static int is_poke;

/* Each loop of a mutator passes here, once for each node. */
static inline void safepoint(void)
{
	if (is_watch)
		(void)watched_word;
	else if (is_poke)
		TRAPLINE_SAFEPOINT_POKE();
	else
		TRAPLINE_SAFEPOINT_POLL();
}

/* A word may be a pointer to a node, or into it. The lists are long, so there is no recursion. */
static void mark(uint64_t word)
{
	uint64_t at = word - (uintptr_t)heap;

	if (at >= sizeof(heap))
		return;
	for (struct node *n = &heap[at / sizeof(*n)]; n && n->is_used && !n->is_marked; n = n->next)
		n->is_marked = 1;
}

static void mark_thread(const struct trapline_safepoint_thread *thread, void *arg)
{
	const struct mutator *m = thread->user;

	mark((uintptr_t)m->fresh);
	for (int i = 0; i < 17; i++)
		if (thread->regs_known >> i & 1)
			mark(thread->regs[i]);
	for (uint64_t at = (thread->sp + 7) & ~7ull; at + 8 <= thread->stack_end; at += 8)
		mark(*(const uint64_t *)(uintptr_t)at);
	visited++;
}

static void fail(const char *what)
{
	fprintf(stderr, "collector: %s\n", what);
	failures++;
}

static void sweep(void)
{
	free_nodes = NULL;
	for (size_t i = 0; i < NODES; i++) {
		struct node *n = &heap[i];

		if (n->is_used && !n->is_marked) {
			n->value = POISON;
			n->is_used = 0;
			freed++;
		}
		if (!n->is_used) {
			n->next = free_nodes;
			free_nodes = n;
		}
	}
}

/* No used node may lead to a free one. */
static void check_heap(void)
{
	for (size_t i = 0; i < NODES; i++) {
		const struct node *n = &heap[i];

		if (n->is_used != n->is_marked)
			fail("a node is neither free nor reached");
		if (n->is_used && n->next && !n->next->is_used)
			fail("a list leads to a free node");
		heap[i].is_marked = 0;
	}
}

static void explain(const char *what, int err)
{
	char why[400];

	trapline_explain(err, why, sizeof(why));
	fprintf(stderr, "collector: cannot %s: %s\n", what, why);
}

/* Mutators change the list of free nodes with the lock, so no thread is stopped halfway. */
static void collect(void)
{
	trapline_safepoint_enter_native();
	pthread_mutex_lock(&heap_lock);
	trapline_safepoint_leave_native();
	/* Another thread may have collected before. */
	if (!free_nodes) {
		int err = trapline_safepoint_stop(domain, 60000, mark_thread, NULL);

		if (err) {
			explain("stop the mutators", err);
			exit(1);
		}
		sweep();
		check_heap();
		collections++;
		trapline_safepoint_resume(domain);
	}
	pthread_mutex_unlock(&heap_lock);
}

/* The section is native, so a thread that collects does not wait for this one. */
static struct node *take_node(struct mutator *m)
{
	trapline_safepoint_enter_native();
	pthread_mutex_lock(&heap_lock);
	struct node *n = free_nodes;
	if (n) {
		free_nodes = n->next;
		n->next = NULL;
		n->is_used = 1;
	}
	/* A root from here on: the registers were saved when the section began. */
	m->fresh = n;
	pthread_mutex_unlock(&heap_lock);
	trapline_safepoint_leave_native();
	return n;
}

static struct node *allocate(struct mutator *m)
{
	struct node *n;

	while (!(n = take_node(m)))
		collect();
	return n;
}

static struct node *build(struct mutator *m, uint64_t first)
{
	struct node *list = NULL;

	for (uint64_t i = 0; i < LENGTH; i++) {
		struct node *n = allocate(m);

		n->value = first + i;
		n->next = list;
		list = n;
		safepoint();
	}
	return list;
}

static void check_list(const struct node *list, uint64_t first)
{
	uint64_t i = LENGTH;

	for (; list; list = list->next) {
		if (list->value != first + --i)
			fail("a node of a living list was freed");
		safepoint();
	}
	if (i)
		fail("a living list has become shorter");
}

static void *mutate(void *arg)
{
	struct mutator *m = arg;
	int err = trapline_safepoint_register(domain, m);

	if (err) {
		explain("register", err);
		exit(1);
	}
	uint64_t first = m->number << 32;
	struct node *kept = build(m, first);
	while (collections < wanted_collections && !failures) {
		first += LENGTH;
		check_list(build(m, first), first);
		check_list(kept, m->number << 32);
	}
	trapline_safepoint_unregister();
	return NULL;
}

static int open_domain(const char *backend)
{
	TRAPLINE_OPTS(safepoint, opts);

	is_watch = !strcmp(backend, "watch");
	is_poke = !strcmp(backend, "poke");
	if (is_watch) {
		opts.backend = TRAPLINE_SAFEPOINT_BY_WATCH;
		opts.address = (uint64_t)(uintptr_t)&watched_word;
		opts.length = sizeof(watched_word);
	} else if (is_poke) {
		opts.backend = TRAPLINE_SAFEPOINT_BY_POKE;
	} else if (!strcmp(backend, "signal")) {
		opts.backend = TRAPLINE_SAFEPOINT_BY_SIGNAL;
		opts.signal = SIGRTMIN + 3;
	} else if (strcmp(backend, "poll")) {
		fprintf(stderr,
			"collector: invalid back end '%s': expected poll, poke, signal or watch\n",
			backend);
		exit(2);
	}
	return trapline_safepoint_open(&opts, &domain);
}

int main(int argc, char **argv)
{
	static struct mutator mutators[MUTATORS_MAX];
	struct trapline_safepoint_stats stats = { .size = sizeof(stats) };
	const char *backend = argc > 1 ? argv[1] : "poll";
	unsigned int count = argc > 3 ? (unsigned int)atoi(argv[3]) : 4;

	if (argc > 2)
		wanted_collections = strtoul(argv[2], NULL, 10);
	if (!count || count > MUTATORS_MAX) {
		fprintf(stderr, "collector: invalid MUTATORS: expected 1 to %d\n", MUTATORS_MAX);
		return 2;
	}
	int err = open_domain(backend);
	if (err) {
		explain("open a domain", err);
		return 1;
	}
	sweep();
	for (unsigned int i = 0; i < count; i++) {
		mutators[i].number = i + 1;
		pthread_create(&mutators[i].thread, NULL, mutate, &mutators[i]);
	}
	for (unsigned int i = 0; i < count; i++)
		pthread_join(mutators[i].thread, NULL);
	trapline_safepoint_stats(domain, &stats);
	printf("%s: %lu collections, %lu nodes freed, %lu threads visited, longest stop %.1f us, "
	       "%d failures\n",
	       backend, (unsigned long)collections, freed, visited, (double)stats.longest_ns / 1000,
	       failures);
	trapline_safepoint_close(domain);
	return failures || !freed || collections < wanted_collections;
}
