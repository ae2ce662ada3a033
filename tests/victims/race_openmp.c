/* SPDX-License-Identifier: MIT */
/*
 * race_openmp.c - kernels for the stock OpenMP runtime, whose own synchronisation a detector
 * must not take for races. Names that begin with wrong_ have one, the others have none.
 */
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define N 2000

static double a[N + 1];
static double b[N + 1];
static int indices[N];
static double total;
static int flag;

static uint64_t end_ns;

static int is_running(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec < end_ns;
}

static void wrong_anti_dependence(void)
{
#pragma omp parallel for
	for (int i = 0; i < N; i++)
		a[i] = a[i + 1] + 1;
}

static void wrong_true_dependence(void)
{
	b[1] += 1; /* so that each time gives other values */
#pragma omp parallel for
	for (int i = 1; i < N; i++)
		a[i] = a[i - 1] + b[i];
}

static void wrong_missing_reduction(void)
{
	double sum = 0;

#pragma omp parallel for
	for (int i = 0; i < N; i++)
		sum += a[i];
	total = sum;
}

static void wrong_shared_temporary(void)
{
	double tmp;

#pragma omp parallel for shared(tmp)
	for (int i = 0; i < N; i++) {
		tmp = a[i] + i;
		b[i] = tmp;
	}
}

static void wrong_nowait(void)
{
#pragma omp parallel
	{
#pragma omp for nowait schedule(static)
		for (int i = 0; i < N; i++)
			a[i] = b[i] + 1;
#pragma omp for schedule(dynamic, 16)
		for (int i = 0; i < N; i++)
			b[N - 1 - i] = a[i] * 2;
	}
}

static void wrong_indirect(void)
{
	for (int i = 0; i < N; i++)
		indices[i] = i / 2 * 2 % (N / 4);
#pragma omp parallel for
	for (int i = 0; i < N; i++)
		a[indices[i]] += 1.0;
}

static void wrong_lock_on_one_side(void)
{
#pragma omp parallel
	for (int i = 0; i < 200; i++) {
		if (omp_get_thread_num() == 0) {
#pragma omp critical
			total += 1;
		} else {
			total -= 1;
		}
	}
}

static void wrong_tasks(void)
{
	double first = 0;
	double second = 0;

#pragma omp parallel
#pragma omp single
	for (int i = 0; i < 50; i++) {
#pragma omp task shared(first)
		for (int k = 0; k < 100; k++)
			first += a[k];
#pragma omp task shared(first, second)
		for (int k = 0; k < 100; k++)
			second += first;
	}
	total = second;
}

static void wrong_sections(void)
{
	double x = 0;

#pragma omp parallel sections shared(x)
	{
#pragma omp section
		for (int i = 0; i < N; i++)
			x = a[i];
#pragma omp section
		for (int i = 0; i < N; i++)
			x = b[i];
	}
	total = x;
}

static void wrong_master_without_barrier(void)
{
	double level = 0;

#pragma omp parallel shared(level)
	{
#pragma omp master
		for (int i = 0; i < N; i++)
			level += 1;
		for (int i = 0; i < N; i++)
			b[omp_get_thread_num() * 64 % N] += level;
	}
}

static void wrong_inner_index(void)
{
	int j;

#pragma omp parallel for shared(j)
	for (int i = 0; i < 40; i++)
		for (j = 0; j < 40; j++)
			a[i * 40 + j] = b[i * 40 + j] + 1;
}

/* Between the last round of one thread and the first of the next; and the value is always the same. */
static void wrong_at_the_edges(void)
{
	static int steps[101];

	for (int i = 0; i <= 100; i++)
		steps[i] = i;
#pragma omp parallel for
	for (int i = 0; i < 100; i++)
		steps[i + 1] = steps[i] + 1;
}

/* y lies on the stack of the thread that reads it too early. */
static void wrong_own_frame(void)
{
	int x = 0;
	int y = 2;

#pragma omp parallel
#pragma omp single
	{
#pragma omp task depend(inout : x) shared(x)
		x++;
#pragma omp task depend(in : x) depend(inout : y) shared(x, y)
		y -= x;
#pragma omp task depend(in : x) shared(x) if (0)
		total += x;
		flag = y;
#pragma omp taskwait
	}
}

static void right_at_the_edges(void)
{
	static int steps[101];
	static int next[101];

	for (int i = 0; i <= 100; i++)
		steps[i] = i;
#pragma omp parallel for
	for (int i = 0; i < 100; i++)
		next[i + 1] = steps[i] + 1;
	total += next[50];
}

static void right_own_frame(void)
{
	int x = 0;
	int y = 2;

#pragma omp parallel
#pragma omp single
	{
#pragma omp task depend(inout : x) shared(x)
		x++;
#pragma omp task depend(in : x) depend(inout : y) shared(x, y)
		y -= x;
#pragma omp taskwait
		flag = y;
	}
}

static void right_for(void)
{
#pragma omp parallel for
	for (int i = 0; i < N; i++)
		a[i] = b[i] * 2 + i;
}

static void right_reduction(void)
{
	double sum = 0;

#pragma omp parallel for reduction(+ : sum)
	for (int i = 0; i < N; i++)
		sum += a[i];
	total = sum;
}

static void right_critical(void)
{
#pragma omp parallel
	for (int i = 0; i < 200; i++) {
#pragma omp critical
		total += i;
	}
}

static void right_atomic(void)
{
#pragma omp parallel
	for (int i = 0; i < 200; i++) {
#pragma omp atomic
		flag += i;
#pragma omp atomic
		total += 1.0;
	}
}

static void right_atomic_flag(void)
{
	int data = 0;
	int ready = 0;

#pragma omp parallel num_threads(2) shared(data, ready)
	{
		int seen = 0;

		if (omp_get_thread_num() == 0) {
			data = 42;
#pragma omp atomic write release
			ready = 1;
		} else {
			while (!seen) {
#pragma omp atomic read acquire
				seen = ready;
			}
			flag = data;
		}
	}
}

static void right_lock(void)
{
	static omp_lock_t lock;
	static int is_made;

	if (!is_made) {
		omp_init_lock(&lock);
		is_made = 1;
	}
#pragma omp parallel
	for (int i = 0; i < 100; i++) {
		omp_set_lock(&lock);
		total += a[i];
		omp_unset_lock(&lock);
	}
}

static void right_barrier(void)
{
#pragma omp parallel
	{
		int t = omp_get_thread_num();

		for (int i = 0; i < 64; i++)
			a[t * 64 + i] = i;
#pragma omp barrier
		for (int i = 0; i < 64; i++)
			b[t * 64 + i] = a[(t + 1) % omp_get_num_threads() * 64 + i];
	}
}

static void right_tasks(void)
{
	double x = 0;
	double y = 0;

#pragma omp parallel
#pragma omp single
	{
#pragma omp task shared(x) depend(out : x)
		for (int i = 0; i < 200; i++)
			x += a[i];
#pragma omp task shared(x, y) depend(in : x)
		for (int i = 0; i < 200; i++)
			y += x;
#pragma omp taskwait
		total = x + y;
	}
}

static void right_ordered(void)
{
#pragma omp parallel for ordered schedule(dynamic)
	for (int i = 0; i < 100; i++) {
		double x = a[i] * 2;
#pragma omp ordered
		total += x;
	}
}

static void right_single_copyprivate(void)
{
	double x;

#pragma omp parallel private(x)
	{
#pragma omp single copyprivate(x)
		x = total;
		b[omp_get_thread_num()] = x;
	}
}

static void right_lastprivate(void)
{
	double x = 0;

#pragma omp parallel for lastprivate(x) firstprivate(total)
	for (int i = 0; i < N; i++)
		x = a[i] + total;
	total = x;
}

static const struct kernel {
	const char *name;
	void (*run)(void);
} kernels[] = {
	{ "wrong_anti_dependence", wrong_anti_dependence },
	{ "wrong_true_dependence", wrong_true_dependence },
	{ "wrong_missing_reduction", wrong_missing_reduction },
	{ "wrong_shared_temporary", wrong_shared_temporary },
	{ "wrong_nowait", wrong_nowait },
	{ "wrong_indirect", wrong_indirect },
	{ "wrong_lock_on_one_side", wrong_lock_on_one_side },
	{ "wrong_tasks", wrong_tasks },
	{ "wrong_sections", wrong_sections },
	{ "wrong_master_without_barrier", wrong_master_without_barrier },
	{ "wrong_inner_index", wrong_inner_index },
	{ "wrong_at_the_edges", wrong_at_the_edges },
	{ "wrong_own_frame", wrong_own_frame },
	{ "right_at_the_edges", right_at_the_edges },
	{ "right_own_frame", right_own_frame },
	{ "right_for", right_for },
	{ "right_reduction", right_reduction },
	{ "right_critical", right_critical },
	{ "right_atomic", right_atomic },
	{ "right_atomic_flag", right_atomic_flag },
	{ "right_lock", right_lock },
	{ "right_barrier", right_barrier },
	{ "right_tasks", right_tasks },
	{ "right_ordered", right_ordered },
	{ "right_single_copyprivate", right_single_copyprivate },
	{ "right_lastprivate", right_lastprivate },
};

int main(int argc, char **argv)
{
	size_t count = sizeof(kernels) / sizeof(kernels[0]);
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	for (int i = 0; i <= N; i++) {
		a[i] = i;
		b[i] = 2 * i;
	}
	for (size_t i = 0; i < count; i++) {
		if (argc > 1 && !strcmp(argv[1], "--list"))
			puts(kernels[i].name);
		if (argc < 3 || strcmp(argv[1], kernels[i].name) != 0)
			continue;
		end_ns = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec +
			 (uint64_t)(atof(argv[2]) * 1e9);
		while (is_running())
			kernels[i].run();
		return 0;
	}
	return argc > 1 && !strcmp(argv[1], "--list") ? 0 : 2;
}
