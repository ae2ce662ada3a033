/* SPDX-License-Identifier: MIT */
/* probe_busy.c - see probe_busy.h. */
#include "check/probe_busy.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"

/*
 * A share of the time that passed: a probe has threads of its own, which may wait for each other's
 * CPU.
 */
#define WAITED_PERCENT 10u

/*
 * Pressure stall information, Linux commit eb414681d5a0, v4.20: `some avg10=...
 * total=MICROSECONDS`.
 */
static uint64_t waited_us(void)
{
	FILE *f = fopen("/proc/pressure/cpu", "re");
	unsigned long long us = 0;

	if (!f)
		return 0;
	if (fscanf(f, "some avg10=%*f avg60=%*f avg300=%*f total=%llu", &us) != 1)
		us = 0;
	fclose(f);
	return us;
}

/* A number of /proc/stat, by the text before it. 0: it is not there. */
static unsigned long long stat_number(const char *format)
{
	FILE *f = fopen("/proc/stat", "re");
	unsigned long long n = 0;
	char line[512];
	int found = 0;

	while (f && !found && fgets(line, sizeof(line), f))
		found = sscanf(line, format, &n) == 1;
	if (f)
		fclose(f);
	return found ? n : 0;
}

static uint64_t stolen_ticks(void)
{
	return stat_number("cpu %*u %*u %*u %*u %*u %*u %*u %llu");
}

void probe_busy_begin(struct probe_busy *b)
{
	b->begun_ns = clock_now_ns();
	b->waited_us = waited_us();
	b->stolen = stolen_ticks();
}

int probe_was_busy(const struct probe_busy *b)
{
	const uint64_t passed_us = (clock_now_ns() - b->begun_ns) / 1000u;
	const uint64_t waited = waited_us();

	if (stolen_ticks() > b->stolen)
		return 1;
	if (waited)
		return (waited - b->waited_us) * 100u > passed_us * WAITED_PERCENT;
	/* Without that count: more threads want to run now than there are CPUs. */
	return stat_number("procs_running %llu") >
	       (unsigned long long)sysconf(_SC_NPROCESSORS_ONLN);
}
