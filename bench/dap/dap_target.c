/* SPDX-License-Identifier: MIT */
/*
 * dap_target.c - dap_target BATCH [RATE]: calls work() for ever, and prints a line for each batch of calls: the
 * median and the longest in ns, and how many calls there were. With RATE so many a second; it sleeps between them up
 * to 5000. A median of single calls does not have the times when the thread waited for a processor.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void wait_until(uint64_t ns, uint64_t rate)
{
	struct timespec ts = { (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };

	if (rate <= 5000)
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
	while (now_ns() < ns)
		;
}

__attribute__((noipa)) int work(int n)
{
	__asm__ volatile("" ::: "memory");
	return n + 1;
}

static int took_compare(const void *a, const void *b)
{
	const uint64_t *x = a;
	const uint64_t *y = b;

	return (*x > *y) - (*x < *y);
}

int main(int argc, char **argv)
{
	uint64_t batch = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000;
	uint64_t rate = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
	uint64_t calls = 0;
	uint64_t begun = now_ns();
	uint64_t *took = calloc(batch + 1, sizeof(*took));

	if (!took)
		return 1;
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (;;) {
		for (uint64_t i = 0; i < batch; i++) {
			if (rate)
				wait_until(begun + calls * 1000000000u / rate, rate);
			uint64_t from = now_ns();
			work((int)i);
			took[i] = now_ns() - from;
			calls++;
		}
		qsort(took, batch, sizeof(*took), took_compare);
		printf("%llu %llu %llu\n", (unsigned long long)took[batch / 2],
		       (unsigned long long)took[batch - 1], (unsigned long long)calls);
	}
}
