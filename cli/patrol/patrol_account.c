/* SPDX-License-Identifier: MIT */
/* patrol_account.c - see patrol_account.h. */
#include "cli/patrol/patrol_account.h"

#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define MINUTE_NS UINT64_C(60000000000)
#define MOST_NS (10.0 * 60e9)

static uint64_t time_ns(const struct timeval *t)
{
	return (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_usec * 1000u;
}

static uint64_t cpu_of(int of)
{
	struct rusage used;

	if (getrusage(of, &used))
		return 0;
	return time_ns(&used.ru_utime) + time_ns(&used.ru_stime);
}

static uint64_t own_cpu_ns(void)
{
	return cpu_of(RUSAGE_SELF) + cpu_of(RUSAGE_CHILDREN);
}

void patrol_account_start(struct patrol_account *a, double budget_percent, uint64_t now_ns)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	*a = (struct patrol_account){ .cpus = cpus > 0 ? (double)cpus : 1,
				      .last_ns = now_ns,
				      .started_ns = now_ns,
				      .minute = now_ns / MINUTE_NS };
	a->rate = budget_percent / 100 * a->cpus;
	a->most = a->rate * MOST_NS;
	a->own_ns = own_cpu_ns();
}

void patrol_account_spend(struct patrol_account *a, double ns)
{
	a->credit -= ns;
	a->spent[a->minute % ACCOUNT_MINUTES] += ns;
	a->total += ns;
}

static void begin_minute(struct patrol_account *a, uint64_t minute)
{
	if (minute - a->minute >= ACCOUNT_MINUTES)
		memset(a->spent, 0, sizeof(a->spent));
	else
		while (a->minute < minute)
			a->spent[++a->minute % ACCOUNT_MINUTES] = 0;
	a->minute = minute;
}

void patrol_account_step(struct patrol_account *a, uint64_t now_ns)
{
	uint64_t own_ns = own_cpu_ns();

	a->credit += a->rate * (double)(now_ns - a->last_ns);
	if (a->credit > a->most)
		a->credit = a->most;
	begin_minute(a, now_ns / MINUTE_NS);
	patrol_account_spend(a, (double)(own_ns - a->own_ns));
	a->own_ns = own_ns;
	a->last_ns = now_ns;
}

bool patrol_account_has(const struct patrol_account *a, double ns)
{
	double wanted = ns < a->most ? ns : a->most;

	return a->credit >= wanted * 0.999;
}

double patrol_account_share(const struct patrol_account *a, uint64_t now_ns)
{
	double hour = (double)ACCOUNT_MINUTES * (double)MINUTE_NS;
	double passed = (double)(now_ns - a->started_ns);
	double spent = 0;

	for (size_t i = 0; i < ACCOUNT_MINUTES; i++)
		spent += a->spent[i];
	passed = passed < hour ? passed : hour;
	return passed > 0 ? 100 * spent / passed / a->cpus : 0;
}
