/* SPDX-License-Identifier: MIT */
/* race_totals.c - what all processes of a search counted, and which sites a sweep covered. */
#include "report/race/race_totals.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

const char *const race_counter_names[RACE_COUNTERS] = {
	[RACE_SAMPLES] = "samples",
	[RACE_SAMPLES_BIRTHS] = "samples_births",
	[RACE_SAMPLES_EARLY] = "samples_over_budget",
	[RACE_SAMPLES_ALONE] = "samples_single_thread",
	[RACE_SAMPLES_EXCLUDED] = "samples_excluded_code",
	[RACE_SAMPLES_NOTHING] = "samples_no_access",
	[RACE_AIMS] = "aims",
	[RACE_AIMS_MISSED] = "aims_missed",
	[RACE_AIMS_REFUSED] = "aims_refused",
	[RACE_STALLS] = "stalls",
	[RACE_STALLS_STACK] = "skipped_own_stack",
	[RACE_STALLS_CONSTANT] = "skipped_not_writable",
	[RACE_STALLS_NO_ROOM] = "skipped_small_stack",
	[RACE_STALLS_NO_SLOT] = "skipped_no_register",
	[RACE_STALLS_REFUSED] = "skipped_refused",
	[RACE_STALLS_SIGNALLED] = "stalls_ended_by_signal",
	[RACE_STALLS_LEFT] = "stalls_left",
	[RACE_STALLS_IDLE] = "stalls_idle",
	[RACE_STALLS_OUTWAITED] = "stalls_outwaited",
	[RACE_HITS] = "hits",
	[RACE_HITS_ATOMIC] = "hits_atomic",
	[RACE_HITS_EXCLUDED] = "hits_excluded_code",
	[RACE_HITS_ASYNC] = "hits_sigtrap_blocked",
	[RACE_HITS_MORE] = "hits_after_first",
	[RACE_HITS_NO_ROOM] = "hits_small_stack",
	[RACE_HITS_OWN] = "hits_own_thread",
	[RACE_HITS_LOST] = "hits_lost",
	[RACE_CHANGES_UNSURE] = "changes_unsure",
	[RACE_FOUND] = "found",
	[RACE_FOUND_REPEATED] = "found_again",
	[RACE_FOUND_LOCKED] = "found_locked",
	[RACE_LOST_FULL] = "lost_ring_full",
	[RACE_LOST_TABLES] = "lost_tables_full",
	[RACE_LOST_OBJECTS] = "lost_objects",
	[RACE_LOST_LOCALS] = "lost_locals",
	[RACE_LOST_TRAPS] = "lost_traps",
	[RACE_SITE_HITS] = "site_hits",
	[RACE_SITE_HITS_ALONE] = "site_hits_single_thread",
	[RACE_SITE_HITS_EARLY] = "site_hits_over_budget",
	[RACE_SITE_HITS_BUSY] = "site_hits_others_held",
	[RACE_SITE_HITS_SKIPPED] = "site_hits_skipped",
	[RACE_SITE_REMOVED] = "sites_removed",
	[RACE_SITE_RENEWED] = "sites_renewed",
	[RACE_EXITS_DELAYED] = "exits_delayed",
	[RACE_HEAP_UNKNOWN] = "heap_unknown_block",
	[RACE_HEAP_LOST_BLOCKS] = "heap_lost_blocks",
	[RACE_HEAP_LOST_STACKS] = "heap_lost_stacks",
};

void race_coverage(const struct race_region *region, uint64_t times, struct race_coverage *out)
{
	*out = (struct race_coverage){ 0 };
	for (uint32_t i = 0; i < race_site_rows(region); i++) {
		const struct race_site *site = &region->sites[i];
		uint32_t flags = site->flags;

		if (!(flags & RACE_SITE_LISTED))
			continue;
		out->total++;
		out->stalls += site->stalls;
		if (site->stalls >= times)
			out->held++;
		if (site->stalls || (flags & RACE_SITE_REACHED && !(flags & RACE_SITE_POINTLESS)))
			out->reached++;
	}
}

static void add_process(const struct race_process *p, struct race_totals *out)
{
	out->processes++;
	if (p->error) {
		out->failed++;
		out->error = p->error;
		out->step = p->step;
	}
	if (p->watches > out->watches)
		out->watches = p->watches;
	out->on_cpus += p->is_on_cpus != 0;
	if (p->most_threads > out->most_threads)
		out->most_threads = p->most_threads;
	for (int c = 0; c < RACE_COUNTERS; c++)
		out->counters[c] += p->counters[c];
	out->stalled_ns += p->stalled_ns;
	out->spent_ns += p->spent_ns;
	out->run_ns += p->run_ns;
	out->sites_refused += p->sites_error != 0;
}

/* Rows that were ever used: reading the others would only fill them with memory. */
static uint64_t process_rows(const struct race_region *region)
{
	uint64_t rows = __atomic_load_n(&region->process_count, __ATOMIC_RELAXED);

	return rows < RACE_PROCESSES ? rows : RACE_PROCESSES;
}

uint64_t race_live_stalls(const struct race_region *region)
{
	uint64_t rows = process_rows(region);
	uint64_t stalls = 0;

	for (uint64_t i = 0; i < rows; i++)
		if (region->processes[i].state >= RACE_PROCESS_LIVE)
			stalls += region->processes[i].counters[RACE_STALLS];
	return stalls;
}

static bool is_loaded(const struct race_region *region, const char *name)
{
	for (size_t i = 0; i < RACE_FILES; i++) {
		const struct race_file *file = &region->files[i];

		/* No end of the text is relied on: a process can write it away. */
		if (file->ready &&
		    memmem(file->path, strnlen(file->path, sizeof(file->path)), name, strlen(name)))
			return true;
	}
	return false;
}

void race_totals(const struct race_region *region, struct race_totals *out)
{
	out->lost_processes = region->lost_processes;
	out->cpus_changed = region->cpus_changed != 0;
	out->sites = region->sites_covered;
	out->is_sweep = region->settings.is_sweep != 0;
	out->is_outside = region->settings.is_outside != 0;
	out->is_by_sites = region->settings.is_by_sites != 0;
	out->is_replay = region->settings.range_count != 0;
	out->has_openmp = is_loaded(region, "/libgomp.so") || is_loaded(region, "/libomp.so") ||
			  is_loaded(region, "/libiomp5.so");
	out->has_jvm = is_loaded(region, "/libjvm.so");
	out->sites_lost = region->sites_lost;
	for (size_t i = 0; i < RACE_FILES; i++)
		out->sites_unproven += region->files[i].sites_unproven;
	race_coverage(region, 1, &out->coverage);
	uint64_t rows = process_rows(region);
	for (uint64_t i = 0; i < rows; i++)
		if (region->processes[i].state >= RACE_PROCESS_LIVE)
			add_process(&region->processes[i], out);
}

uint64_t race_give_back_rows(struct race_region *region, struct race_totals *out)
{
	uint64_t given = 0;

	/* The first one is asked for by its number. */
	for (uint64_t i = 1; i < RACE_PROCESSES; i++) {
		struct race_process *p = &region->processes[i];

		if (__atomic_load_n(&p->state, __ATOMIC_SEQ_CST) < RACE_PROCESS_LIVE ||
		    !kill(p->pid, 0) || errno != ESRCH)
			continue;
		add_process(p, out);
		memset((char *)p + sizeof(p->state), 0, sizeof(*p) - sizeof(p->state));
		__atomic_store_n(&p->state, (uint32_t)RACE_PROCESS_FREE, __ATOMIC_SEQ_CST);
		given++;
	}
	return given;
}
