/* SPDX-License-Identifier: MIT */
/*
 * race_target.c - programs to search for races in: PROGRAM THREADS AMOUNT [FILE].
 *
 * stencil, table, handover, compute, rounds and sleepers are right, and AMOUNT is work: their time is
 * what a search costs. hot and cold run AMOUNT seconds with a race, in the middle of a loop or executed
 * once a second.
 * stencil writes into FILE how many rounds are over, and when each was (CLOCK_MONOTONIC, ns).
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define WIDTH 256
#define ROWS 512
#define BUCKETS 1024
#define NOINLINE __attribute__((noinline, noclone))

#define ROUNDS_NOTED (8u << 20)

static int threads;
static uint64_t *rounds; /* NULL: not asked for; [0] how many, then when */
static double amount;
static double grid[2][ROWS][WIDTH];
static pthread_barrier_t barrier;
static struct {
	pthread_mutex_t lock;
	long keys[16];
} table[BUCKETS];
static long planted;
static double results[64][8];
static pthread_mutex_t turn_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn_of[64];
static long turn;

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void relax(int from, int to, int side)
{
	for (int y = from; y < to; y++)
		for (int x = 1; x < WIDTH - 1; x++)
			grid[!side][y][x] = 0.25 * (grid[side][y - 1][x] + grid[side][y + 1][x] +
						    grid[side][y][x - 1] + grid[side][y][x + 1]);
}

static void note_round(void)
{
	if (!rounds || rounds[0] >= ROUNDS_NOTED)
		return;
	rounds[1 + rounds[0]] = (uint64_t)(now() * 1e9);
	__atomic_store_n(&rounds[0], rounds[0] + 1, __ATOMIC_RELEASE);
}

static int open_rounds(const char *path)
{
	size_t bytes = (1 + (size_t)ROUNDS_NOTED) * sizeof(*rounds);
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0 || ftruncate(fd, (off_t)bytes))
		return -1;
	rounds = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return rounds == MAP_FAILED ? -1 : 0;
}

static void stencil(int thread)
{
	int from = 1 + (ROWS - 2) * thread / threads;
	int to = 1 + (ROWS - 2) * (thread + 1) / threads;

	for (int n = 0; n < (int)amount; n++) {
		relax(from, to, n & 1);
		if (!thread)
			note_round();
		pthread_barrier_wait(&barrier);
	}
}

static void use_table(int thread)
{
	uint64_t x = (uint64_t)thread * 0x9e3779b97f4a7c15u + 1;

	for (long n = 0; n < (long)amount / threads; n++) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		size_t at = (x >> 40) % BUCKETS;
		pthread_mutex_lock(&table[at].lock);
		for (int i = 0; i < 16; i++)
			table[at].keys[i] += (long)(x >> i & 7);
		pthread_mutex_unlock(&table[at].lock);
	}
}

static NOINLINE void planted_store(long v)
{
	planted = v;
}

static NOINLINE long planted_load(void)
{
	return planted;
}

/* Each turn is a switch to another thread. */
static void handover(int thread)
{
	pthread_mutex_lock(&turn_lock);
	while (turn < (long)amount) {
		if (turn % threads == thread) {
			turn++;
			pthread_cond_signal(&turn_of[turn % threads]);
		} else {
			pthread_cond_wait(&turn_of[thread], &turn_lock);
		}
	}
	for (int i = 0; i < threads; i++)
		pthread_cond_signal(&turn_of[i]);
	pthread_mutex_unlock(&turn_lock);
}

static void own_work(int thread, int n)
{
	for (int i = 0; i < n; i++)
		results[thread][i & 3] = results[thread][i & 3] * 0.5 + i;
}

static void hot(int thread)
{
	double end = now() + amount;

	for (long n = 0; now() < end; n++) {
		own_work(thread, 1000);
		if (thread)
			planted_store(n);
		else
			results[0][7] += (double)planted_load();
	}
}

static void cold(int thread)
{
	double end = now() + amount;
	double next = now() + 1;

	for (long n = 0; now() < end; n++) {
		own_work(thread, 1000);
		if (thread != 1) {
			results[thread][7] += (double)planted_load();
		} else if (now() > next) {
			planted_store(n);
			next += 1;
		}
	}
}

/* Threads that have nothing to do with each other. */
static void compute(int thread)
{
	static double own[64][4096];
	double *mine = own[thread];

	for (long n = 0; n < (long)amount; n++)
		for (int i = 1; i < 4096; i++)
			mine[i] = mine[i] * 0.5 + mine[i - 1] + grid[0][0][i % WIDTH];
}

static long block[64 * 8];

/* Little is done between two barriers. */
static void short_rounds(int thread)
{
	for (long n = 0; n < (long)amount; n++) {
		for (int i = 0; i < 8; i++)
			block[thread * 8 + i]++;
		pthread_barrier_wait(&barrier);
		for (int i = 0; i < threads * 8; i++)
			results[thread][0] += (double)block[i];
		pthread_barrier_wait(&barrier);
	}
}

/* As in a server with little to do. */
static void sleepers(int thread)
{
	const struct timespec pause = { 0, 1000000 };

	for (long n = 0; n < (long)amount; n++) {
		nanosleep(&pause, NULL);
		own_work(thread, 5000);
		pthread_mutex_lock(&turn_lock);
		for (int i = 0; i < 64; i++)
			block[i]++;
		pthread_mutex_unlock(&turn_lock);
	}
}

static const struct {
	const char *name;
	void (*run)(int thread);
} programs[] = {
	{ "stencil", stencil }, { "table", use_table },	    { "handover", handover },
	{ "compute", compute }, { "rounds", short_rounds }, { "sleepers", sleepers },
	{ "hot", hot },		{ "cold", cold },
};

static void (*program)(int thread);

static void *thread_main(void *arg)
{
	program((int)(intptr_t)arg);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t ids[64];

	for (size_t i = 0; argc > 3 && i < sizeof(programs) / sizeof(programs[0]); i++)
		if (!strcmp(argv[1], programs[i].name))
			program = programs[i].run;
	if (!program) {
		fprintf(stderr,
			"usage: %s stencil|table|handover|compute|rounds|sleepers|hot|cold THREADS "
			"AMOUNT [FILE]\n",
			argv[0]);
		return 2;
	}
	threads = atoi(argv[2]);
	amount = atof(argv[3]);
	if (threads < 2 || threads > 64 || (argc > 4 && open_rounds(argv[4])))
		return 2;
	pthread_barrier_init(&barrier, NULL, (unsigned int)threads);
	for (int i = 0; i < BUCKETS; i++)
		pthread_mutex_init(&table[i].lock, NULL);
	for (int i = 0; i < WIDTH; i++)
		grid[0][0][i] = grid[1][0][i] = 100;
	for (int i = 0; i < threads; i++)
		pthread_create(&ids[i], NULL, thread_main, (void *)(intptr_t)i);
	for (int i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	return 0;
}
