/* SPDX-License-Identifier: MIT */
/*
 * syscalls.c RATE SECONDS - so many calls of close(-1) a second, in bursts of a millisecond. It prints how many it made
 * as a JSON object. bench/syscalls.sh counts what observers see of them.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int main(int argc, char **argv)
{
	const uint64_t rate = argc > 1 ? strtoull(argv[1], NULL, 10) : 20000;
	const uint64_t ns = (argc > 2 ? strtoull(argv[2], NULL, 10) : 5) * 1000000000u;
	uint64_t calls = 0;
	char go;

	/* The observer is there. */
	if (read(STDIN_FILENO, &go, 1) < 0)
		return 1;
	const uint64_t start = now_ns();

	for (uint64_t passed = 0; passed < ns; passed = now_ns() - start) {
		const uint64_t due = passed * rate / 1000000000u;

		for (; calls < due; calls++)
			close(-1);
		usleep(1000);
	}
	fprintf(stderr, "{\"calls\": %llu, \"seconds\": %.3f}\n", (unsigned long long)calls,
		(double)(now_ns() - start) / 1e9);
	return 0;
}
