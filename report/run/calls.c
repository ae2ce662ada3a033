/* SPDX-License-Identifier: MIT */
/* calls.c - sums over calls, and a call in a few words. */
#include "report/run/run_call.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int run_calls_begin(struct run_calls *calls)
{
	calls->sums = calloc(calls->site_count ? calls->site_count : 1, sizeof(*calls->sums));
	return calls->sums ? 0 : -ENOMEM;
}

void run_calls_end_sums(struct run_calls *calls)
{
	tally_free(&calls->functions);
	tally_free(&calls->callers);
	tally_free(&calls->processes);
	for (size_t i = 0; calls->sums && i < calls->site_count; i++)
		free(calls->sums[i].buckets);
	free(calls->sums);
	calls->sums = NULL;
}

static void add_duration(struct run_site_sums *sums, uint64_t ns)
{
	int bucket = ns ? 63 - __builtin_clzll(ns) : 0;

	sums->returns++;
	sums->total_ns += ns;
	sums->max_ns = ns > sums->max_ns ? ns : sums->max_ns;
	if (!sums->buckets)
		sums->buckets = calloc(RUN_BUCKETS, sizeof(*sums->buckets));
	if (sums->buckets)
		sums->buckets[bucket]++;
}

void run_calls_add(struct run_calls *calls, const struct run_hit *hit)
{
	const struct run_call *call = hit->call;
	struct run_hit by = { .ip = call->site, .tid = hit->tid };

	memcpy(by.thread, hit->thread, sizeof(by.thread));
	tally_add(&calls->functions, &by);
	tally_add_process(&calls->processes, hit);
	if (call->caller) {
		by.ip = call->caller;
		by.place = call->caller_place;
		tally_add(&calls->callers, &by);
	}
	calls->sums[call->site].hits++;
	calls->hits++;
	if (call->has_result && !call->has_no_duration)
		add_duration(&calls->sums[call->site], call->duration_ns);
}

void run_duration_text(uint64_t ns, char *buf, size_t n)
{
	if (ns < 1000)
		snprintf(buf, n, "%" PRIu64 " ns", ns);
	else if (ns < 1000000)
		snprintf(buf, n, "%.1f us", (double)ns / 1e3);
	else if (ns < 1000000000)
		snprintf(buf, n, "%.1f ms", (double)ns / 1e6);
	else
		snprintf(buf, n, "%.1f s", (double)ns / 1e9);
}

void run_call_text(const struct run_calls *calls, const struct run_call *call, char *buf, size_t n)
{
	const struct run_site *site = &calls->site[call->site];
	size_t used = call->printed ? (size_t)snprintf(buf, n, "%.2000s", call->printed) :
				      (size_t)snprintf(buf, n, "%.200s", site->name);
	char took[32];

	if (!call->printed && site->kind == RUN_SITE_INLINED && used < n)
		used += (size_t)snprintf(buf + used, n - used, " [inlined]");
	if (!call->printed && call->args && used < n)
		used += (size_t)snprintf(buf + used, n - used, "(%s)", call->args);
	if (used + 64 >= n)
		return;
	if (call->has_result) {
		run_duration_text(call->duration_ns, took, sizeof(took));
		snprintf(buf + used, n - used, "%s%.200s%s%s", call->result[0] ? " = " : "",
			 call->result, call->has_no_duration ? "" : "  ",
			 call->has_no_duration ? "" : took);
	} else if (calls->with_results && run_site_is_call(site->kind) && !site->has_no_return) {
		snprintf(buf + used, n - used, "  has not returned");
	}
}

void run_call_short_text(const struct run_calls *calls, const struct run_call *call, char *buf,
			 size_t n)
{
	const char *result = call->has_result ? call->result : "";

	snprintf(buf, n, "%.200s%s%.200s", calls->site[call->site].name, result[0] ? " = " : "",
		 result);
}
