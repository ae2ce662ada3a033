/* SPDX-License-Identifier: MIT */
/* event_stats.c - the library's statistics under the names that the user sees. */
#include "cli/observe/event_stats.h"

static const char *const mechanism_names[] = { "signal", "bpf",	 "ring",      "uprobe",
					       "probe",	 "trap", "tracepoint" };
static const char *const evaluator_names[] = { NULL, "kernel", "handler", "reader" };

static const struct count_name {
	const char *name;
	size_t offset;
	bool is_lost;
} count_names[] = {
	{ "limit", offsetof(struct trapline_stats, rejected_limit), false },
	{ "duplicate", offsetof(struct trapline_stats, rejected_duplicate), false },
	{ "condition", offsetof(struct trapline_stats, rejected_condition), false },
	{ "partial", offsetof(struct trapline_stats, rejected_partial), false },
	{ "nested", offsetof(struct trapline_stats, lost_nested), true },
	{ "late", offsetof(struct trapline_stats, lost_late), true },
	{ "merged", offsetof(struct trapline_stats, lost_merged), true },
	{ "ring_full", offsetof(struct trapline_stats, lost_ring_full), true },
	{ "kernel", offsetof(struct trapline_stats, lost_kernel), true },
};

#define COUNT_NAMES (sizeof(count_names) / sizeof(count_names[0]))

_Static_assert(COUNT_NAMES <= RUN_COUNTS_MAX, "a run has room for all counts");

void event_stats_add(struct trapline_event *event, struct run_end *end)
{
	struct trapline_stats st = { .size = sizeof(st) };

	trapline_event_stats(event, &st);
	for (size_t i = 0; i < COUNT_NAMES; i++)
		end->counts[i] = (struct run_count){
			.name = count_names[i].name,
			.value = end->counts[i].value +
				 *(const uint64_t *)((const char *)&st + count_names[i].offset),
			.is_lost = count_names[i].is_lost,
		};
	end->count_count = COUNT_NAMES;
	end->taken += st.taken;
	end->delivered += st.delivered;
	end->while_off += st.while_off;
	end->unread += st.unread;
	end->condition_faults += st.condition_faults;
	end->unseen_changes += st.unseen_changes;
	end->evaluated_in = evaluator_names[st.evaluated_in % 4];
	end->mechanism = mechanism_names[trapline_event_mechanism(event) % 7];
}
